//! Taking in what happened.

use prodigy_core::{
    failure::{Failure, FailureKind},
    ids::AgentId,
    job::{Input, ItemInput},
};

use super::{Error, Run, merges::Merge, parts::Heard};
use crate::{
    queue::{Assignment, FinishedAttempt, Outcome, WorkQueue as _},
    step::Told,
};

impl Run {
    /// Turns what was heard into inputs.
    pub(super) async fn hear(&mut self, heard: Heard) -> Result<(), Error> {
        let input = match heard {
            Heard::Inside(Told { fact, safe }) => {
                self.waiting.extend(safe);
                Input::Inside(fact)
            }
            Heard::Merge(Merge::Fact(fact)) => Input::Inside(fact),
            Heard::Ended(answer) => {
                self.parts.busy = false;
                self.parts.fingerprint = answer.fingerprint;
                if let Some(note) = &answer.note {
                    self.parts.note(note);
                }
                match failure(&answer.input) {
                    Some(failure) if self.is_cut_off(failure).await => Input::Tick,
                    Some(_) | None => answer.input,
                }
            }
            Heard::Finished(finished) => self.finished(finished).await,
            Heard::Merge(Merge::Item(input)) => {
                self.parts.merging = self.parts.merging.saturating_sub(1);
                Input::Item(input)
            }
            Heard::Merge(Merge::Broken(error)) => return Err(error.into()),
            Heard::Wake => {
                self.parts.wake = None;
                Input::Tick
            }
        };
        self.inputs.push_back(input);
        Ok(())
    }

    /// Handles the end of an attempt.
    async fn finished(&mut self, finished: FinishedAttempt) -> Input {
        let Assignment { agent, item, .. } = finished.assignment;
        if let Outcome::Failed { failure, .. } | Outcome::Unresolved { failure, .. } =
            &finished.outcome
            && self.is_cut_off(failure).await
        {
            return self.release(agent);
        }
        Input::Item(match finished.outcome {
            Outcome::Completed(done) => ItemInput::Completed { agent, item, done },
            Outcome::Failed { step, failure, duration_ms, cost_usd, secured } => {
                ItemInput::Failed { agent, item, step, failure, duration_ms, cost_usd, secured }
            }
            Outcome::CutOff { cut_off, work, duration_ms, cost_usd, secured } => {
                ItemInput::CutOff { agent, item, cut_off, work, duration_ms, cost_usd, secured }
            }
            Outcome::Handled { failure, handler } => {
                ItemInput::Handled { agent, item, failure, handler }
            }
            Outcome::Resolved { commit, commits, duration_ms, cost_usd } => {
                ItemInput::Resolved { agent, item, commit, commits, duration_ms, cost_usd }
            }
            Outcome::Unresolved { failure, duration_ms, cost_usd } => {
                ItemInput::Unresolved { agent, item, failure, duration_ms, cost_usd }
            }
            Outcome::Released => return self.release(agent),
        })
    }

    /// Lets an agent go whose attempt counts as not made; the job puts it back when it is told
    /// to stop.
    fn release(&mut self, agent: AgentId) -> Input {
        self.parts.queue.settle(agent, false);
        Input::Tick
    }

    /// Returns whether something failed only because the run was stopped.
    ///
    /// Whoever stops a run may end git and supervisors with it, for instance by a signal to all
    /// of its processes. That is no fault of what was worked on.
    async fn is_cut_off(&self, failure: &Failure) -> bool {
        let is_ours = matches!(failure.kind, FailureKind::WorktreeError | FailureKind::WorkerLost);
        is_ours && self.is_stopping().await
    }

    /// Returns whether the run has to stop.
    pub(super) async fn is_stopping(&self) -> bool {
        let is_asked = self.parts.settings.shutdown.stop().is_requested_soon().await;
        is_asked && self.asked_to_stop().is_some()
    }
}

/// Returns why a step or the choice of items failed, if it did.
fn failure(input: &Input) -> Option<&Failure> {
    let (Input::StepFailed { failure, .. } | Input::Item(ItemInput::Unusable(failure))) = input
    else {
        return None;
    };
    Some(failure)
}
