//! State of the side effects while steps run.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

use prodigy_core::{
    effect::{Effect, EffectLedger},
    event::Event,
    workflow::StepAddress,
};

/// The known state of the side effects of an attempt's or the job's steps.
///
/// It begins with the journal's state and applies every event recorded since.
#[derive(Debug, Default)]
pub struct EffectTracker {
    ledger: Mutex<EffectLedger>,
    /// Those of which nobody knows whether they were made, and which may be made all the same.
    repeatable: Mutex<BTreeSet<String>>,
}

impl EffectTracker {
    /// Begins with what the journal says.
    ///
    /// `may_repeat` says that somebody decided to run again what may have been done before.
    pub fn new(ledger: EffectLedger, may_repeat: bool) -> Self {
        let open = ledger.open().filter(|_| may_repeat).map(|effect| effect.key.clone());
        let repeatable = Mutex::new(open.collect());
        Self { ledger: Mutex::new(ledger), repeatable }
    }

    /// Returns what is known of an effect, if it was ever begun.
    pub(crate) fn get(&self, key: &str) -> Option<Effect> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// Returns whether an effect that was never begun may have been made all the same.
    pub(crate) fn is_end_lost(&self) -> bool {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner).is_end_lost()
    }

    /// Returns the name of a step's effect: the one it was recorded with, else a new one.
    pub(crate) fn key(&self, address: &StepAddress, intent_hash: &str, mut new: String) -> String {
        let ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = ledger.find_by_step(address, intent_hash) {
            return known.key.clone();
        }
        // Another step may have had the name, by its position.
        while ledger.get(&new).is_some() {
            new.push('~');
        }
        new
    }

    /// Applies a recorded event.
    pub(crate) fn apply(&self, event: &Event) {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner).apply(event);
    }

    /// Returns whether a step, or one inside it, may have changed something outside.
    pub(crate) fn is_uncertain(&self, address: &StepAddress) -> bool {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner).is_open_at(address)
    }

    /// Returns whether an effect may be made once more although it may have been made; the
    /// decision is good for one time.
    pub(crate) fn take_repeat_permit(&self, key: &str) -> bool {
        self.repeatable.lock().unwrap_or_else(PoisonError::into_inner).remove(key)
    }
}
