//! Waiting for the first of several file descriptors.

use std::{io, time::Duration};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Waits until one of the descriptors is ready or the time is up.
///
/// A signal may cut the wait short; callers look at the clock and at `revents`
/// anyway, so that is no case of its own.
pub(super) fn wait(fds: &mut [PollFd<'_>], timeout: Option<Duration>) -> io::Result<()> {
    // A wait that does not fit is as good as none.
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    match poll(fds, timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Returns whether a descriptor that was waited for has something for us: data, its end, or an error.
pub(super) fn is_ready(fd: &PollFd<'_>) -> bool {
    fd.revents().intersects(
        PollFlags::IN | PollFlags::OUT | PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL,
    )
}
