//! Waiting for the first of several file descriptors.

use std::{io, os::fd::BorrowedFd, time::Duration};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};

/// A descriptor, and whether we wait to read or to write; `None` takes a place and is never ready.
pub(super) type PollInterest<'a> = Option<(BorrowedFd<'a>, PollFlags)>;

/// Waits until one of the descriptors is ready or the time is up, and returns which are.
///
/// A descriptor is also ready at its end and when it is broken: reading tells.
/// A signal may cut the wait short; callers look at the clock anyway.
pub(super) fn poll_ready<const N: usize>(
    wanted: [PollInterest<'_>; N],
    timeout: Option<Duration>,
) -> io::Result<[bool; N]> {
    // A wait that does not fit is as good as one without end.
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    let mut fds: Vec<_> =
        wanted.iter().flatten().map(|(fd, flags)| PollFd::from_borrowed_fd(*fd, *flags)).collect();
    match poll(&mut fds, timeout.as_ref()) {
        Ok(_) => {
            let mut ready = fds.iter().map(|fd| !fd.revents().is_empty());
            Ok(wanted.map(|fd| fd.is_some() && ready.next().unwrap_or_default()))
        }
        Err(Errno::INTR) => Ok([false; N]),
        Err(error) => Err(error.into()),
    }
}
