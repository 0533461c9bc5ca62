//! The end of everything in a workplace although nobody stopped the run.

use std::sync::{Mutex, PoisonError};

use prodigy_core::job::SuspensionCause;

/// The limit of an account that an agent ran into, or the budget that is spent.
///
/// It ends whatever is under way in its workplace: no retry and no handler can help.
#[derive(Debug, Default)]
pub struct SuspensionFlag(Mutex<Option<SuspensionCause>>);

impl SuspensionFlag {
    /// Cuts off what is under way.
    pub(crate) fn set(&self, cut_off: SuspensionCause) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(cut_off);
    }

    /// Returns whether something cut off what is under way.
    pub(crate) fn is_set(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Returns the cause, and forgets it.
    pub fn take(&self) -> Option<SuspensionCause> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
