//! Masking bytes that come in pieces.

use std::{borrow::Cow, collections::VecDeque, sync::Arc};

use super::{HIDDEN, automaton::Automaton};

/// Replaces secrets in a stream of bytes.
///
/// The output does not depend on how the stream is cut into pieces. Secrets that
/// overlap become one `***`.
pub struct MaskStream {
    automaton: Option<Arc<Automaton>>,
    state: usize,
    /// The bytes that are not out yet.
    held: Vec<u8>,
    /// The places of secrets in `held`, in order, apart from each other.
    secrets: VecDeque<(usize, usize)>,
    /// The number of first bytes of `held` that belong to a secret whose `***` is out already.
    hidden: usize,
}

impl MaskStream {
    pub(super) fn new(automaton: Option<Arc<Automaton>>) -> Self {
        Self { automaton, state: 0, held: Vec::new(), secrets: VecDeque::new(), hidden: 0 }
    }

    /// Takes the next bytes and returns those that are known to be harmless.
    ///
    /// Bytes that could be the beginning of a secret come out later. Without secrets the
    /// bytes are handed through.
    pub fn push<'bytes>(&mut self, bytes: &'bytes [u8]) -> Cow<'bytes, [u8]> {
        let Some(automaton) = self.automaton.clone() else { return Cow::Borrowed(bytes) };
        let before = self.held.len();
        let mut at = 0;
        loop {
            if self.state == 0 {
                at += automaton.skip(bytes.get(at..).unwrap_or_default());
            }
            let Some(byte) = bytes.get(at) else { break };
            at += 1;
            self.state = automaton.step(self.state, *byte);
            let length = automaton.match_length(self.state);
            if length > 0 {
                self.found(before + at, length);
            }
        }
        let decided = (before + bytes.len()).saturating_sub(automaton.undecided_bytes(self.state));
        // Mostly there is no secret, and then nothing needs to be copied.
        if before == 0
            && self.hidden == 0
            && self.secrets.is_empty()
            && let Some((out, held)) = bytes.split_at_checked(decided)
        {
            self.held.extend(held);
            return Cow::Borrowed(out);
        }
        self.held.extend(bytes);
        Cow::Owned(self.release(decided))
    }

    /// Returns the bytes that were held back; the stream starts anew.
    pub fn finish(&mut self) -> Vec<u8> {
        self.state = 0;
        let out = self.release(self.held.len());
        self.hidden = 0;
        out
    }

    /// Notes a secret of this length that ends there, counted from the first byte held.
    fn found(&mut self, end: usize, length: usize) {
        let mut start = end.saturating_sub(length);
        if start < self.hidden {
            self.hidden = end;
            self.secrets.clear();
            return;
        }
        while let Some((before, until)) = self.secrets.back().copied()
            && until > start
        {
            start = start.min(before);
            self.secrets.pop_back();
        }
        self.secrets.push_back((start, end));
    }

    /// Returns the first `count` bytes of those held, with `***` for each secret in them.
    fn release(&mut self, count: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(count);
        while let Some((start, end)) = self.secrets.front().copied()
            && start < count
        {
            self.secrets.pop_front();
            out.extend(self.held.get(self.hidden..start).unwrap_or_default());
            out.extend(HIDDEN.as_bytes());
            self.hidden = end;
        }
        out.extend(self.held.get(self.hidden..count).unwrap_or_default());
        self.held.drain(..count.min(self.held.len()));
        self.hidden = self.hidden.saturating_sub(count);
        for (start, end) in &mut self.secrets {
            *start -= count;
            *end -= count;
        }
        out
    }
}

impl std::fmt::Debug for MaskStream {
    /// Shows how much is held back, never what.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MaskStream").field("held", &self.held.len()).finish_non_exhaustive()
    }
}
