//! Lines of what a program prints, and waiting for streams to be ready.

use std::{
    io::{self, BufRead as _},
    os::fd::BorrowedFd,
    time::Duration,
};

use prodigy_core::agent::ShortenedLine;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};

/// The longest line that is handed on as it is.
const LONGEST: usize = 8 << 20;

/// The most memory that is kept after a long line.
const KEPT: usize = 64 << 10;

/// Makes whole lines of pieces.
///
/// At most one line is held in memory. An event that is longer than 8 MiB is shortened, and what
/// is no event is dropped and counted.
#[derive(Debug, Default)]
pub struct LineSplitter {
    /// The beginning of a line whose end has not come.
    begun: Vec<u8>,
    /// The same of a line that is too long to be held.
    shortened: Option<ShortenedLine>,
    dropped: u64,
}

impl LineSplitter {
    /// Takes the next piece and hands on each line that it ends, without the end of the line.
    pub fn feed(&mut self, piece: &[u8], mut each: impl FnMut(&[u8])) {
        let mut rest = piece;
        while !rest.is_empty() {
            let all = rest;
            // Reading from memory does not fail.
            let count = rest.skip_until(b'\n').unwrap_or(all.len());
            let part = all.get(..count).unwrap_or_default();
            match part.strip_suffix(b"\n") {
                // Most lines come whole, and need not be copied.
                Some(line) if self.is_at_line_start() && line.len() <= LONGEST => each(line),
                Some(end) => {
                    self.add(end);
                    self.end(&mut each);
                }
                None => self.add(part),
            }
        }
    }

    /// Hands on the last line if it has no end.
    pub fn finish(&mut self, mut each: impl FnMut(&[u8])) {
        if !self.is_at_line_start() {
            self.end(&mut each);
        }
    }

    /// Returns how many lines were too long.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    fn is_at_line_start(&self) -> bool {
        self.begun.is_empty() && self.shortened.is_none()
    }

    fn add(&mut self, part: &[u8]) {
        if self.shortened.is_none() && self.begun.len() + part.len() <= LONGEST {
            self.begun.extend_from_slice(part);
            return;
        }
        let shortened = self.shortened.get_or_insert_default();
        shortened.push(&std::mem::take(&mut self.begun));
        shortened.push(part);
    }

    fn end(&mut self, each: &mut impl FnMut(&[u8])) {
        if let Some(shortened) = self.shortened.take() {
            match shortened.finish() {
                Some(line) => each(&line),
                None => self.dropped += 1,
            }
            return;
        }
        each(&self.begun);
        self.begun.clear();
        self.begun.shrink_to(KEPT);
    }
}

/// A descriptor, and whether we wait to read or to write; `None` takes a place and is never ready.
pub(crate) type PollInterest<'a> = Option<(BorrowedFd<'a>, PollFlags)>;

/// Waits until one of the descriptors is ready or the time is up, and returns which are.
///
/// A descriptor is also ready at its end and when it is broken: reading tells.
/// A signal may cut the wait short; callers look at the clock anyway.
pub(crate) fn poll_ready<const N: usize>(
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Vec<u8>>, u64) {
        let mut seen = Vec::new();
        let mut lines = LineSplitter::default();
        for piece in pieces {
            lines.feed(piece, |line| seen.push(line.to_vec()));
        }
        lines.finish(|line| seen.push(line.to_vec()));
        (seen, lines.dropped())
    }

    #[test]
    fn lines_come_whole_and_the_last_needs_no_end() {
        let pieces: [&[u8]; 5] = [b"on", b"e\n\ntwo\nth", b"", b"ree", b"\nrest"];
        let (seen, dropped) = lines(pieces);
        assert_eq!(seen, [&b"one"[..], b"", b"two", b"three", b"rest"]);
        assert_eq!(dropped, 0);
    }

    #[test]
    fn a_long_line_that_is_no_event_is_dropped_up_to_its_end_and_counted() {
        let long = vec![b'x'; LONGEST];
        let (seen, dropped) =
            lines([&long[..], b"\n", &long, b"y", &long, b"\nshort\n", &long, b"y"]);
        assert_eq!(seen.iter().map(Vec::len).collect::<Vec<_>>(), [LONGEST, 5]);
        assert_eq!(dropped, 2);
        let whole = [&long[..], b"y\nshort\n"].concat();
        assert_eq!(lines([&whole[..]]), (vec![b"short".to_vec()], 1));
    }

    #[test]
    fn a_long_event_is_shortened() {
        let text = "x".repeat(LONGEST);
        let event = format!("{{\"text\":\"{text}\",\"cost\":1}}\nnext\n");
        let (seen, dropped) = lines(event.as_bytes().chunks(65_536));
        let ends: Vec<_> = seen.iter().map(|line| line.ends_with(b"x\",\"cost\":1}")).collect();
        assert_eq!((ends, dropped), (vec![true, false], 0));
        assert!(seen.iter().all(|line| line.len() < LONGEST / 4));
    }

    #[test]
    fn a_long_line_leaves_no_memory_behind() {
        let mut lines = LineSplitter::default();
        let long = vec![b'x'; LONGEST];
        lines.feed(&long, |_| {});
        lines.feed(b"\nnext", |_| {});
        assert!(lines.begun.capacity() <= KEPT, "{}", lines.begun.capacity());
    }

    proptest! {
        #[test]
        fn how_it_is_cut_into_pieces_does_not_matter(
            text in "[ab\n]{0,60}",
            cuts in prop::collection::vec(1_usize..9, 1..20),
        ) {
            let mut pieces = Vec::new();
            let mut rest = text.as_bytes();
            for cut in cuts.iter().cycle() {
                let (piece, after) = rest.split_at((*cut).min(rest.len()));
                pieces.push(piece);
                rest = after;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(lines(pieces), lines([text.as_bytes()]));
        }
    }
}
