//! One output stream of a program: masked, logged, handed on, and its head and tail kept.

use std::{
    io::{self, Write as _},
    os::{
        fd::{AsFd as _, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    time::{Duration, Instant},
};

use prodigy_core::mask::MaskStream;
use rustix::{
    buffer::spare_capacity,
    io::Errno,
    net::{SendFlags, send},
    pipe::fcntl_setpipe_size,
};

use super::{log_writer::LaunchLog, wire};
use crate::process::CapturedOutput;

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
pub(crate) struct OutputReader<'a> {
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
    pub(crate) fn new(pipe: Option<OwnedFd>, mask: MaskStream, log: LaunchLog<'a>) -> Self {
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
    pub(crate) fn with_forwarder(self, forward: Option<OutputForwarder<'a>>) -> Self {
        if let (Some(pipe), Some(_)) = (&self.pipe, &forward) {
            // There is a limit for all pipes of a user; without the room it works as well.
            fcntl_setpipe_size(pipe, ROOM).ok();
        }
        Self { forward, ..self }
    }

    /// Returns the pipe unless its end was reached.
    pub(crate) fn pipe(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(OwnedFd::as_fd)
    }

    /// Returns the way to whoever listens.
    pub(crate) fn forward(&mut self) -> Option<&mut OutputForwarder<'a>> {
        self.forward.as_mut()
    }

    /// Returns whether whoever listens has not taken all that was read.
    pub(crate) fn is_behind(&self) -> bool {
        self.forward.as_ref().is_some_and(OutputForwarder::is_behind)
    }

    /// Returns how long it is not to be read, so that more can come together.
    pub(crate) fn batch_delay(&self) -> Option<Duration> {
        let left = self.rest_until?.saturating_duration_since(Instant::now());
        Some(left).filter(|left| !left.is_zero())
    }

    /// Reads what is there, once, and returns whether there was anything.
    ///
    /// This blocks if there is neither anything to read nor an end, so the caller asks first.
    pub(crate) fn read(&mut self, buffer: &mut Vec<u8>) -> io::Result<bool> {
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
    pub(crate) fn finish(mut self) -> CapturedOutput {
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

/// The most that is handed on at once.
const PIECE: usize = 64 << 10;

/// The most that may wait to be taken when there is nobody left to be held up.
const WAITING: usize = 1 << 20;

/// The way to whoever listens.
pub(crate) struct OutputForwarder<'a> {
    /// None once nobody is there.
    socket: Option<&'a UnixStream>,
    /// The bytes not sent yet.
    outbox: &'a mut Vec<u8>,
}

impl<'a> OutputForwarder<'a> {
    pub(crate) fn new(socket: &'a UnixStream, outbox: &'a mut Vec<u8>) -> Self {
        Self { socket: Some(socket), outbox }
    }

    /// Adds bytes to what is to be taken.
    pub(crate) fn queue(&mut self, bytes: &[u8]) {
        if self.socket.is_none() {
            return;
        }
        for piece in bytes.chunks(PIECE) {
            // A piece is never too large for a frame.
            wire::encode_output(piece, self.outbox).ok();
        }
    }

    /// Hands on as much as is taken at once.
    pub(crate) fn flush(&mut self) {
        let Some(socket) = self.socket else { return };
        while !self.outbox.is_empty() {
            match send(socket, self.outbox, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(count) => drop(self.outbox.drain(..count)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                // The next read says the same, and ends the launch.
                Err(_) => self.close(),
            }
        }
    }

    /// Waits until there is room, when so much was not taken that it costs memory.
    pub(crate) fn wait_for_room(&mut self) {
        let Some(mut socket) = self.socket.filter(|_| self.outbox.len() > WAITING) else { return };
        match socket.write_all(self.outbox) {
            Ok(()) => self.outbox.clear(),
            Err(_) => self.close(),
        }
    }

    /// Returns whether something was not taken yet.
    pub(crate) fn is_behind(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Hands on nothing any more.
    pub(crate) fn close(&mut self) {
        self.socket = None;
        self.outbox.clear();
    }
}

/// Returns whether an error of the socket means that nobody is there any more.
pub(crate) fn is_disconnected(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}
