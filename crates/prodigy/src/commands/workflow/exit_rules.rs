//! The exit code of a run.

use prodigy_core::{
    event::PauseReason,
    job::{Job, RunOutcome},
};
use prodigy_engine::run::ReplaySummary;

use crate::exit::Exit;

/// The parts of a command line that decide over its exit code.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ExitRules {
    /// Dead letters have an exit code of their own, if that was said anew for a job that is over.
    pub(crate) fail_on_dlq: Option<bool>,
    /// The part of a `dlq retry` that its run does not see, if it is one.
    pub(crate) retry: Option<UnreplayedEntries>,
}

/// The dead letters of a `dlq retry` that are not replayed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UnreplayedEntries {
    /// Some were marked as done without running again.
    pub(crate) has_adopted: bool,
    /// Some wait for an approval.
    pub(crate) awaits_approval: bool,
}

impl ExitRules {
    /// Returns the exit code of a run.
    pub(crate) fn exit(self, ending: RunOutcome, job: &Job, replayed: &ReplaySummary) -> Exit {
        let exit = exit_for_ending(ending);
        if exit != Exit::Success {
            return exit;
        }
        let is_unresolved = match self.retry {
            Some(rest) => {
                let is_unresolved = replayed.ends.resolved == 0 && !rest.has_adopted;
                if is_unresolved && rest.awaits_approval {
                    return Exit::AwaitingApproval;
                }
                // A run that only goes on with what was under way has replayed nothing.
                let has_replayed = replayed.claimed > 0 || replayed.ends.dead_lettered > 0;
                is_unresolved && has_replayed
            }
            None => false,
        };
        let dead = job.map.as_ref().map_or(0, |map| map.counts.dead_lettered);
        let known = job.started.as_ref().is_some_and(|started| started.options.fail_on_dlq);
        let fail_on_dlq = self.fail_on_dlq.unwrap_or(known);
        if replayed.claimed == 0 && !replayed.refused.is_empty() {
            Exit::ReplayDenied
        } else if is_unresolved || fail_on_dlq && dead > 0 {
            Exit::DeadLetters
        } else if job.has_no_success() {
            Exit::Failure
        } else {
            Exit::Success
        }
    }
}

/// Returns the exit code for how a run ended.
fn exit_for_ending(ending: RunOutcome) -> Exit {
    match ending {
        RunOutcome::Completed | RunOutcome::Paused(PauseReason::ItemsOutstanding) => Exit::Success,
        RunOutcome::MergeOutstanding => Exit::MergeOutstanding,
        RunOutcome::StoppedByPolicy | RunOutcome::Paused(PauseReason::Policy) => {
            Exit::StoppedByPolicy
        }
        RunOutcome::NoItems => Exit::NoItems,
        RunOutcome::Paused(PauseReason::Interrupted) => Exit::Interrupted,
        RunOutcome::Paused(PauseReason::Terminated) => Exit::Terminated,
        RunOutcome::Paused(PauseReason::UsageLimit) => Exit::TryLater,
        RunOutcome::Paused(
            PauseReason::OutOfCredits | PauseReason::NoAccess | PauseReason::Budget,
        ) => Exit::Budget,
        RunOutcome::Failed
        | RunOutcome::Paused(PauseReason::DiskFull | PauseReason::MergeOutstanding) => {
            Exit::Failure
        }
    }
}
