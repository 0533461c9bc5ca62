//! One output stream of a program: masked, logged, handed on, and its head and tail kept.

use std::{
    io,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    time::{Duration, Instant},
};

use prodigy_core::mask::MaskStream;
use rustix::{buffer::spare_capacity, io::Errno, pipe::fcntl_setpipe_size};

use super::{CapturedOutput, forward::OutputForwarder, log::LaunchLog};

/// The number of bytes kept in memory of the beginning, and of the end.
const KEPT: usize = 64 << 10;

/// The size of a read: as much as a pipe holds.
const CHUNK: usize = 64 << 10;

/// The rest between two reads of a stream with a listener, so that output accumulates. Waking
/// up takes several times as long as reading an event, here and in the listener.
const REST: Duration = Duration::from_millis(50);

/// The size of a read from which on there are no rests for a while: a program that prints so much
/// would soon be held up by them, because the pipe gets full.
const BUSY: usize = CHUNK;

/// The capacity of the pipe of a program with a listener, so that a rest does not hold it up.
const ROOM: usize = 256 << 10;

/// An output stream being read.
pub(super) struct OutputReader<'a> {
    pipe: Option<OwnedFd>,
    mask: MaskStream,
    log: LaunchLog<'a>,
    forward: Option<OutputForwarder<'a>>,
    rest_until: Option<Instant>,
    awake_until: Option<Instant>,
    head: Vec<u8>,
    tail: Vec<u8>,
    total: u64,
}

impl<'a> OutputReader<'a> {
    pub(super) fn new(pipe: Option<OwnedFd>, mask: MaskStream, log: LaunchLog<'a>) -> Self {
        Self {
            pipe,
            mask,
            log,
            forward: None,
            rest_until: None,
            awake_until: None,
            head: Vec::new(),
            tail: Vec::new(),
            total: 0,
        }
    }

    /// Lets somebody hear what is read.
    pub(super) fn with_forwarder(self, forward: Option<OutputForwarder<'a>>) -> Self {
        if let (Some(pipe), Some(_)) = (&self.pipe, &forward) {
            // There is a limit for all pipes of a user; without the room it works as well.
            fcntl_setpipe_size(pipe, ROOM).ok();
        }
        Self { forward, ..self }
    }

    /// Returns the pipe unless its end was reached.
    pub(super) fn pipe(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(OwnedFd::as_fd)
    }

    /// Returns the way to whoever listens.
    pub(super) fn forward(&mut self) -> Option<&mut OutputForwarder<'a>> {
        self.forward.as_mut()
    }

    /// Returns whether whoever listens has not taken all that was read.
    pub(super) fn is_behind(&self) -> bool {
        self.forward.as_ref().is_some_and(OutputForwarder::is_behind)
    }

    /// Returns how long it is not to be read, so that more can come together.
    pub(super) fn batch_delay(&self) -> Option<Duration> {
        let left = self.rest_until?.saturating_duration_since(Instant::now());
        Some(left).filter(|left| !left.is_zero())
    }

    /// Reads what is there, once, and returns whether there was anything.
    ///
    /// This blocks if there is neither anything to read nor an end, so the caller asks first.
    pub(super) fn read(&mut self, buffer: &mut Vec<u8>) -> io::Result<bool> {
        let Some(pipe) = &self.pipe else { return Ok(false) };
        buffer.clear();
        buffer.reserve(CHUNK);
        match rustix::io::read(pipe, spare_capacity(buffer)) {
            Ok(0) => self.pipe = None,
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let masked = self.mask.push(buffer);
        self.keep(&masked);
        if let Some(forward) = &mut self.forward {
            forward.flush();
            let now = Instant::now();
            if buffer.len() >= BUSY {
                self.awake_until = Some(now + REST);
            }
            let is_awake = self.awake_until.is_some_and(|until| now < until);
            self.rest_until = (!is_awake).then_some(now + REST);
        }
        Ok(!buffer.is_empty())
    }

    /// Returns what was printed. What nobody has taken yet stays where it waits.
    pub(super) fn finish(mut self) -> CapturedOutput {
        let held_back = self.mask.finish();
        self.keep(&held_back);
        let (log_at, log_len) = self.log.finish();
        // The tail may have grown to twice what is kept.
        self.tail.drain(..self.tail.len().saturating_sub(KEPT));
        CapturedOutput { head: self.head, tail: self.tail, total: self.total, log_at, log_len }
    }

    /// Adds masked bytes to the log, the head and the tail, and hands them on.
    fn keep(&mut self, bytes: &[u8]) {
        self.log.append(bytes);
        if let Some(forward) = &mut self.forward {
            forward.queue(bytes);
        }
        self.total += bytes.len() as u64;
        let room = KEPT.saturating_sub(self.head.len());
        let (first, rest) = bytes.split_at_checked(room).unwrap_or((bytes, &[]));
        self.head.extend_from_slice(first);
        // Cutting only at twice the size copies each byte at most once more.
        if self.tail.len() + rest.len() > 2 * KEPT {
            let keep = KEPT.saturating_sub(rest.len()).min(self.tail.len());
            self.tail.drain(..self.tail.len() - keep);
        }
        let rest = rest.get(rest.len().saturating_sub(KEPT)..).unwrap_or_default();
        self.tail.extend_from_slice(rest);
    }
}
