//! The moments at which prodigy is killed.

use std::time::Duration;

/// The moment at which a start of prodigy is killed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KillAt {
    /// So long after the start.
    Elapsed(Duration),
    /// Right after it appended its `nth` record of a kind, from 1, to any journal, or so long
    /// after that.
    Record { kind: &'static str, nth: u32, delay: Duration },
    /// Right after the first thing that it writes of a new job.
    FirstWrite,
    /// So long after a file is there, by its path in the repository.
    File { path: &'static str, delay: Duration },
    /// As soon as a file has another content, by its path in the repository.
    Change { path: &'static str },
}
