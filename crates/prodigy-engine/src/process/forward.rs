//! Handing on what a program prints, no faster than it is taken.

use std::{
    io::{self, Write as _},
    os::unix::net::UnixStream,
};

use rustix::{
    io::Errno,
    net::{SendFlags, send},
};

use super::wire;

/// The most that is handed on at once.
const PIECE: usize = 64 << 10;

/// The most that may wait to be taken when there is nobody left to be held up.
const WAITING: usize = 1 << 20;

/// The way to whoever listens.
pub(super) struct OutputForwarder<'a> {
    /// None once nobody is there.
    socket: Option<&'a UnixStream>,
    /// The bytes not sent yet.
    outbox: &'a mut Vec<u8>,
}

impl<'a> OutputForwarder<'a> {
    pub(super) fn new(socket: &'a UnixStream, outbox: &'a mut Vec<u8>) -> Self {
        Self { socket: Some(socket), outbox }
    }

    /// Adds bytes to what is to be taken.
    pub(super) fn queue(&mut self, bytes: &[u8]) {
        if self.socket.is_none() {
            return;
        }
        for piece in bytes.chunks(PIECE) {
            // A piece is never too large for a frame.
            wire::encode_output(piece, self.outbox).ok();
        }
    }

    /// Hands on as much as is taken at once.
    pub(super) fn flush(&mut self) {
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
    pub(super) fn wait_for_room(&mut self) {
        let Some(mut socket) = self.socket.filter(|_| self.outbox.len() > WAITING) else { return };
        match socket.write_all(self.outbox) {
            Ok(()) => self.outbox.clear(),
            Err(_) => self.close(),
        }
    }

    /// Returns whether something was not taken yet.
    pub(super) fn is_behind(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Hands on nothing any more.
    pub(super) fn close(&mut self) {
        self.socket = None;
        self.outbox.clear();
    }
}

/// Returns whether an error of the socket means that nobody is there any more.
pub(super) fn is_disconnected(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}
