//! Taking in what happened.

use prodigy_core::{
    failure::{Failure, ReasonCode},
    ids::AgentId,
    job::{ItemInput, JobInput},
};

use super::run_state::DispatcherMessage;
use crate::{
    queue::{Assignment, AttemptOutcome, FinishedAttempt, WorkQueue as _},
    run::{Dispatcher, Error, map::merge_queue::MergeMessage},
    step::StepNotification,
};

impl Dispatcher {
    /// Turns what was heard into inputs.
    pub(crate) async fn handle_message(&mut self, heard: DispatcherMessage) -> Result<(), Error> {
        let input = match heard {
            DispatcherMessage::Inside(StepNotification { fact, safe }) => {
                self.waiting.extend(safe);
                JobInput::Inside(fact)
            }
            DispatcherMessage::Merge(MergeMessage::Fact(fact)) => JobInput::Inside(fact),
            DispatcherMessage::Ended(answer) => {
                self.parts.busy = false;
                self.parts.fingerprint = answer.fingerprint;
                if let Some(note) = &answer.note {
                    self.parts.note(note);
                }
                match failure(&answer.input) {
                    Some(failure) if self.is_interrupted(failure).await => JobInput::Tick,
                    Some(_) | None => answer.input,
                }
            }
            DispatcherMessage::Finished(finished) => self.attempt_finished(finished).await,
            DispatcherMessage::Merge(MergeMessage::Item(input)) => {
                self.parts.merging = self.parts.merging.saturating_sub(1);
                JobInput::Item(input)
            }
            DispatcherMessage::Merge(MergeMessage::Broken(error)) => return Err(error.into()),
            DispatcherMessage::Wake => {
                self.parts.wake = None;
                JobInput::Tick
            }
        };
        self.inputs.push_back(input);
        Ok(())
    }

    /// Handles the end of an attempt.
    async fn attempt_finished(&mut self, finished: FinishedAttempt) -> JobInput {
        let Assignment { agent, item, .. } = finished.assignment;
        if let AttemptOutcome::Failed { failure, .. } | AttemptOutcome::Unresolved { failure, .. } =
            &finished.outcome
            && self.is_interrupted(failure).await
        {
            return self.release(agent);
        }
        JobInput::Item(match finished.outcome {
            AttemptOutcome::Completed(done) => ItemInput::Completed { agent, item, done },
            AttemptOutcome::Failed { step, failure, duration_ms, cost_usd, secured } => {
                ItemInput::Failed { agent, item, step, failure, duration_ms, cost_usd, secured }
            }
            AttemptOutcome::CutOff { cut_off, work, duration_ms, cost_usd, secured } => {
                ItemInput::CutOff { agent, item, cut_off, work, duration_ms, cost_usd, secured }
            }
            AttemptOutcome::Handled { failure, handler } => {
                ItemInput::Handled { agent, item, failure, handler }
            }
            AttemptOutcome::Resolved { commit, commits, duration_ms, cost_usd } => {
                ItemInput::Resolved { agent, item, commit, commits, duration_ms, cost_usd }
            }
            AttemptOutcome::Unresolved { failure, duration_ms, cost_usd } => {
                ItemInput::Unresolved { agent, item, failure, duration_ms, cost_usd }
            }
            AttemptOutcome::Released => return self.release(agent),
        })
    }

    /// Lets an agent go whose attempt counts as not made; the job puts it back when it is told
    /// to stop.
    fn release(&mut self, agent: AgentId) -> JobInput {
        self.parts.queue.release(agent, false);
        JobInput::Tick
    }

    /// Returns whether something failed only because the run was stopped.
    ///
    /// Whoever stops a run may end git and supervisors with it, for instance by a signal to all
    /// of its processes. That is no fault of what was worked on.
    async fn is_interrupted(&self, failure: &Failure) -> bool {
        let is_ours = matches!(failure.kind, ReasonCode::WorktreeError | ReasonCode::WorkerLost);
        is_ours && self.is_stopping().await
    }

    /// Returns whether the run has to stop.
    pub(crate) async fn is_stopping(&self) -> bool {
        let is_asked = self.parts.settings.shutdown.stop().is_requested_soon().await;
        is_asked && self.stop_input().is_some()
    }
}

/// Returns why a step or the choice of items failed, if it did.
fn failure(input: &JobInput) -> Option<&Failure> {
    let (JobInput::StepFailed { failure, .. } | JobInput::Item(ItemInput::Unusable(failure))) =
        input
    else {
        return None;
    };
    Some(failure)
}
