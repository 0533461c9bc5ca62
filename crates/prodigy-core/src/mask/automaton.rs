//! Finding many patterns in one pass (Aho and Corasick, 1975).
//!
//! The usual libraries search a buffer that is all there. A stream needs one more
//! answer: how many of the last bytes could still become a match. Here that is the
//! depth of the current state.

use std::collections::{BTreeSet, VecDeque};

/// All patterns as one state machine.
pub(super) struct Automaton {
    /// Where each byte leads from the start; most bytes of most streams are read here.
    start: Box<[usize; 256]>,
    /// One bit for each two bytes that a pattern begins with.
    beginnings: Box<[u64; 1024]>,
    /// The states; the first is the start.
    states: Vec<AutomatonState>,
}

/// One prefix of the patterns.
#[derive(Default)]
struct AutomatonState {
    /// The bytes that lead on.
    next: Vec<(u8, usize)>,
    /// The longest proper suffix that is a prefix, too.
    fallback: usize,
    /// The length of the prefix.
    depth: usize,
    /// The length of the longest pattern that ends here; 0 if none does.
    matched: usize,
}

impl AutomatonState {
    fn after(&self, byte: u8) -> Option<usize> {
        self.next.iter().find(|(edge, _)| *edge == byte).map(|(_, state)| *state)
    }
}

impl Automaton {
    /// Builds the machine; the patterns must not be empty.
    pub(super) fn new(patterns: &BTreeSet<Vec<u8>>) -> Self {
        let mut automaton = Self {
            start: Box::new([0; 256]),
            beginnings: Box::new([0; 1024]),
            states: vec![AutomatonState::default()],
        };
        for pattern in patterns {
            automaton.insert(pattern);
        }
        automaton.link();
        automaton
    }

    /// Returns the state after one more byte.
    pub(super) fn step(&self, state: usize, byte: u8) -> usize {
        let mut state = state;
        while let Some(from) = self.states.get(state).filter(|_| state != 0) {
            if let Some(next) = from.after(byte) {
                return next;
            }
            state = from.fallback;
        }
        self.start.get(usize::from(byte)).copied().unwrap_or_default()
    }

    /// Returns how many of the next bytes leave the start where it is: no pattern begins there.
    pub(super) fn skip(&self, bytes: &[u8]) -> usize {
        let begins = |pair: &[u8]| match *pair {
            [first, second] => {
                let (word, bit) = place(first, second);
                self.beginnings.get(word).is_some_and(|word| word & bit != 0)
            }
            _ => true,
        };
        // Nobody knows what follows the last byte.
        bytes.windows(2).position(begins).unwrap_or(bytes.len().saturating_sub(1))
    }

    /// Returns how many of the last bytes could be the beginning of a match.
    pub(super) fn undecided_bytes(&self, state: usize) -> usize {
        self.states.get(state).map_or(0, |state| state.depth)
    }

    /// Returns the length of the longest match that ends here; 0 if none does.
    pub(super) fn match_length(&self, state: usize) -> usize {
        self.states.get(state).map_or(0, |state| state.matched)
    }

    fn insert(&mut self, pattern: &[u8]) {
        let followers = match *pattern {
            [_, second, ..] => second..=second,
            // Whatever follows a single byte, it is the whole pattern.
            [_] | [] => 0..=u8::MAX,
        };
        for second in followers {
            let (word, bit) = place(pattern.first().copied().unwrap_or_default(), second);
            if let Some(word) = self.beginnings.get_mut(word) {
                *word |= bit;
            }
        }
        let mut at = 0;
        for (before, byte) in pattern.iter().enumerate() {
            let known = self.states.get(at).and_then(|state| state.after(*byte));
            at = known.unwrap_or_else(|| {
                let new = self.states.len();
                self.states.push(AutomatonState { depth: before + 1, ..AutomatonState::default() });
                if let Some(state) = self.states.get_mut(at) {
                    state.next.push((*byte, new));
                }
                new
            });
        }
        if let Some(state) = self.states.get_mut(at) {
            state.matched = pattern.len();
        }
    }

    /// Sets the fallbacks, shortest prefixes first: each needs those of shorter ones.
    fn link(&mut self) {
        let mut queue = VecDeque::new();
        for (byte, state) in self.states.first().map(|start| start.next.clone()).unwrap_or_default()
        {
            if let Some(slot) = self.start.get_mut(usize::from(byte)) {
                *slot = state;
            }
            queue.push_back(state);
        }
        while let Some(at) = queue.pop_front() {
            let (next, fallback) = match self.states.get(at) {
                Some(state) => (state.next.clone(), state.fallback),
                None => continue,
            };
            for (byte, child) in next {
                let suffix = self.step(fallback, byte);
                let inherited = self.match_length(suffix);
                if let Some(state) = self.states.get_mut(child) {
                    state.fallback = suffix;
                    state.matched = state.matched.max(inherited);
                }
                queue.push_back(child);
            }
        }
    }
}

/// Returns the place of two bytes among all pairs: the word, and the bit in it.
fn place(first: u8, second: u8) -> (usize, u64) {
    let number = usize::from(first) << 8 | usize::from(second);
    (number >> 6, 1 << (number & 63))
}
