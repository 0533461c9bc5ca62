//! The handler of the error policy, in the worktree of the attempt that failed.

use prodigy_core::failure::{Failure, FailureKind};

use super::{
    attempt::{self, Attempt},
    worker::Desk,
};
use crate::step::Identity;

impl Desk {
    /// Returns whether a handler was not let finish.
    pub(super) fn is_stopped(&self, broken: &Failure) -> bool {
        broken.kind == FailureKind::Cancelled && self.crew.tools.stop.is_requested()
    }

    /// Runs the handler of the error policy; returns why it failed, if it did.
    pub(super) async fn handle(
        &self,
        identity: &Identity,
        place: u32,
        name: &str,
        failed: attempt::FailedStep<'_>,
    ) -> Option<Failure> {
        let Some(steps) = self.crew.handlers.get(name) else {
            let message = format!("there is no handler `{name}`");
            return Some(Failure::new(FailureKind::TemplateError, message));
        };
        let read = self.crew.spool.read(usize::try_from(place).unwrap_or(usize::MAX));
        let item = match read {
            Ok(item) => item,
            Err(error) => {
                return Some(Failure::new(FailureKind::WorktreeError, error.to_string()));
            }
        };
        let workplace = self.workplace_at(identity.clone());
        let attempt = Attempt { crew: &self.crew, workplace: &workplace, item: &item, place };
        attempt::handle(attempt, steps, name, failed).await
    }
}
