//! What ends everything in a workplace although nobody stopped the run.

use std::sync::{Mutex, PoisonError};

use prodigy_core::agent::Limit;

/// The limit of an account that an agent ran into, if one did.
///
/// It ends whatever is under way in its workplace: no retry and no handler can help.
#[derive(Debug, Default)]
pub struct Limited(Mutex<Option<Limit>>);

impl Limited {
    /// Takes notice of a limit.
    pub(super) fn set(&self, limit: Limit) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(limit);
    }

    /// Returns whether an agent ran into a limit.
    pub(super) fn is_reached(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Returns the limit, and forgets it.
    pub fn take(&self) -> Option<Limit> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
