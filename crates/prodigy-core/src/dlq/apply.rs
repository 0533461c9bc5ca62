//! The fold of an item's records into its DLQ entry.

use super::{
    AgentResult, AgentStatus, DeadLetterContext, EntryClosure, EntryStatus, ManualAction,
    WorktreeArtifacts, failure_detail,
    state::{AttemptStart, DeadLetterState, EntryState, MergingAttempt, OpenAttempt},
};
use crate::{
    Timestamp,
    effect::Effect,
    event::{AgentCompleted, AgentFailed, Event, EventRecord, ReplayAuthorization},
    failure::ReasonCode,
};

impl DeadLetterState {
    /// Applies the next record of the item; records of other items must not be passed.
    pub fn apply(&mut self, record: &EventRecord, origin: DeadLetterContext<'_>) {
        let revision = self.revision();
        match &record.event {
            Event::AgentStarted { attempt, correlation_id } => {
                self.start(record, *attempt, correlation_id, origin);
            }
            Event::AgentUsage { cost_usd, .. } => {
                if let Some(under_way) = &mut self.under_way {
                    under_way.cost_usd += cost_usd.unwrap_or_default();
                    under_way.seen = record.timestamp;
                } else if let Some(merging) = &mut self.merging {
                    // Whoever resolves its conflict works for it, too.
                    merging.cost_usd += cost_usd.unwrap_or_default();
                }
            }
            Event::AgentSessionStarted { session_id, .. } => self.note_session(session_id),
            Event::AgentFailed(failed) => self.fail(record, failed, origin),
            Event::AgentReleased { .. } => {
                if let Some(under_way) = self.under_way.take() {
                    self.spend(under_way.cost_usd);
                }
            }
            Event::AgentCompleted(done) => self.complete(record, done, origin),
            Event::MergeConflict { paths, .. } => {
                if let Some(merging) = &mut self.merging {
                    merging.conflict = Some(paths.clone());
                }
            }
            Event::AgentRetrying { reason, .. } => {
                self.give_up_merge(record.timestamp, reason, "", origin);
            }
            Event::WorktreeMerged { .. } => {
                if let Some(merging) = self.merging.take() {
                    self.spend(merging.cost_usd);
                    self.succeed(record.timestamp, &merging.begun, origin);
                }
            }
            Event::WorktreePreserved { path, left, .. } => {
                self.keep(record, path, left.as_deref(), origin);
            }
            Event::ItemSkipped { reason, .. } => self.skip(record.timestamp, reason, origin),
            Event::ItemDeadLettered { attempts, failure } => {
                self.die(record, *attempts, failure, origin);
            }
            Event::ReplayStarted { replay, allowed, .. } => {
                self.replay(*replay, allowed.as_deref());
            }
            Event::DlqItemUpdated { change, reason, by } => {
                let (at, by, reason) = (record.timestamp, by.clone(), reason.clone());
                self.apply_change(change, ManualAction { at, by, reason });
            }
            crate::approval_news!() => {
                // What was shown is as it was; only what people said to it is new.
                if self.is_idle() && self.status() == Some(EntryStatus::Open) {
                    self.apply_approval(record);
                    self.seq = record.seq;
                }
                return;
            }
            crate::effect_news!() => {
                self.ledger.apply(&record.event);
                if self.is_idle() {
                    self.revise(|_| {});
                }
            }
            Event::DlqItemRemoved { how, reason, by } => {
                let (reason, by) = (Some(reason.clone()), Some(by.clone()));
                self.apply_removal(*how, EntryClosure { at: record.timestamp, reason, by });
            }
            Event::JobStarted(_)
            | Event::JobResumed { .. }
            | Event::JobPaused { .. }
            | Event::JobCompleted { .. }
            | Event::JobFailed { .. }
            | Event::PhaseStarted { .. }
            | Event::PhaseCompleted { .. }
            | Event::ItemsSelected { .. }
            | Event::ItemQueued {}
            | crate::circuit_news!()
            | Event::StepStarted { .. }
            | Event::StepCompleted(_)
            | Event::StepFailed { .. }
            | Event::StepSkipped { .. }
            | Event::AgentToolUsed { .. }
            | Event::AgentWarned { .. }
            | crate::spending_news!()
            | crate::resolution_news!()
            | Event::WorktreeCreated { .. }
            | Event::WorktreeCleaned { .. }
            | Event::WorkKept(_)
            | Event::GitTampering { .. }
            | Event::CheckoutUpdateStarted(_)
            | crate::checkout_news!()
            | crate::journal_news!() => return,
        }
        let began = self.first_attempt.is_some();
        let is_done = self.is_done(origin.run.found.last_effect.as_deref());
        self.commit_state = self.ledger.commit_state(began, is_done);
        // What changes nothing can be taken in again.
        if self.is_idle() && self.revision() != revision {
            self.seq = record.seq;
        }
    }

    /// Applies the start of a replay, which consumes its approval.
    fn replay(&mut self, replays: u32, allowed: Option<&ReplayAuthorization>) {
        self.wait_ms = allowed.map_or(0, |allowed| allowed.wait_ms);
        let used = allowed.and_then(|allowed| allowed.approval.as_deref());
        if let Some(approval) = self.approval_of(used.unwrap_or_default()) {
            approval.consumed = true;
        }
        self.revise(|death| {
            (death.replays, death.status) = (replays, EntryStatus::Replaying);
            death.closed = None;
        });
    }

    /// Returns whether the last attempt left nothing to do: it came to the last step, whose
    /// effect is made, and its worktree holds nothing that would have to be merged.
    fn is_done(&self, last_effect: Option<&str>) -> bool {
        let Some(ended) = self.history.last() else { return false };
        let is_last = |effect: &&Effect| {
            effect.identity.as_deref() == last_effect && effect.attempt == ended.attempt_number
        };
        let effects = self.ledger.effects().iter().filter(|_| last_effect.is_some());
        let Some(effect) = effects.filter(is_last).find(|effect| effect.is_made()) else {
            return false;
        };
        let has_come_to_it = match &self.step {
            Some(step) => *step == effect.step,
            // prodigy died meanwhile.
            None => ended.reason_code == ReasonCode::Interrupted,
        };
        has_come_to_it && self.worktree.as_ref().is_none_or(WorktreeArtifacts::is_empty)
    }

    /// Returns whether nothing of the item is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.under_way.is_none() && self.merging.is_none()
    }

    fn start(
        &mut self,
        record: &EventRecord,
        attempt: u32,
        correlation: &str,
        origin: DeadLetterContext<'_>,
    ) {
        if self.give_up_attempt(origin) {
            // The entry has changed, and this record begins something new.
            self.seq = record.seq.saturating_sub(1);
        }
        self.merging = None;
        let begun = AttemptStart {
            attempt,
            agent_id: agent(record),
            at: record.timestamp,
            correlation_id: correlation.to_owned(),
            run: origin.run.clone(),
        };
        let seen = record.timestamp;
        self.under_way = Some(OpenAttempt { begun, seen, cost_usd: 0.0, session_id: None });
    }

    /// Stores the session of an agent: of the attempt, or of the agent that resolves its conflict.
    fn note_session(&mut self, session_id: &str) {
        let under_way = self.under_way.as_mut().map(|under_way| &mut under_way.session_id);
        let merging = self.merging.as_mut().map(|merging| &mut merging.session_id);
        if let Some(session) = under_way.or(merging) {
            *session = Some(session_id.to_owned());
        }
    }

    /// Adds to the entry what was recorded at the start of an attempt, once the attempt has ended.
    pub(crate) fn end(&mut self, begun: &AttemptStart, origin: DeadLetterContext<'_>) {
        let left = self.left.take().unwrap_or_default();
        self.worktree = Some(self.with_location(left, &begun.agent_id, origin));
        self.run.clone_from(&begun.run);
        if self.correlation_id.is_empty() {
            self.correlation_id.clone_from(&begun.correlation_id);
        }
        self.first_attempt.get_or_insert(begun.at);
    }

    fn fail(&mut self, record: &EventRecord, failed: &AgentFailed, origin: DeadLetterContext<'_>) {
        let mut session_id = None;
        if let Some(under_way) = self.under_way.take() {
            self.end(&under_way.begun, origin);
            session_id = under_way.session_id;
        }
        let began = *self.first_attempt.get_or_insert(record.timestamp);
        let step = failed.step.as_ref();
        let result = AgentResult {
            agent_id: agent(record),
            status: AgentStatus::of(failed.failure.clone()),
            step: step.cloned(),
            step_name: failed.name.clone(),
            ended_at: record.timestamp,
            duration_ms: failed.duration_ms,
            cost_usd: failed.cost_usd,
            session_id,
            // An attempt that did not get to a step printed nothing.
            json_log_location: step.map(|_| (origin.log)(&self.item_id, failed.attempt)),
            ..self.result(began)
        };
        self.merging = None;
        self.add(&result, failed.attempt);
        // What it left was told before it had failed.
        if let Some(worktree) = &mut self.worktree {
            let printed = self.history.last().map(|last| last.output_tail.clone());
            worktree.error_logs = printed.filter(|printed| !printed.is_empty());
        }
    }

    fn complete(
        &mut self,
        record: &EventRecord,
        done: &AgentCompleted,
        origin: DeadLetterContext<'_>,
    ) {
        let Some(under_way) = self.under_way.take() else { return };
        let begun = AttemptStart { attempt: done.attempt, ..under_way.begun };
        if !done.has_commits() {
            self.spend(done.cost_usd);
            self.succeed(record.timestamp, &begun, origin);
            return;
        }
        self.merging = Some(MergingAttempt {
            begun,
            duration_ms: done.duration_ms,
            cost_usd: done.cost_usd,
            session_id: under_way.session_id,
            conflict: None,
        });
    }

    fn succeed(&mut self, at: Timestamp, begun: &AttemptStart, origin: DeadLetterContext<'_>) {
        self.end(begun, origin);
        let attempt = begun.attempt;
        if self.death.is_none() {
            self.is_over = true;
        }
        if self.status() == Some(EntryStatus::Replaying) {
            self.revise(|death| {
                (death.status, death.attempts) = (EntryStatus::Resolved, attempt);
                death.last_attempt = at;
                death.closed = Some(EntryClosure { at, reason: None, by: None });
            });
        }
    }

    fn skip(&mut self, at: Timestamp, reason: &str, origin: DeadLetterContext<'_>) {
        if let Some(under_way) = self.under_way.take() {
            self.end(&under_way.begun, origin);
        }
        self.merging = None;
        if self.death.is_none() {
            self.is_over = true;
        }
        if self.status() == Some(EntryStatus::Replaying) {
            let closed = EntryClosure { at, reason: Some(reason.to_owned()), by: None };
            self.revise(|death| {
                (death.status, death.closed) = (EntryStatus::Dropped, Some(closed));
            });
        }
    }

    /// Adds a failed attempt to the history.
    pub(crate) fn add(&mut self, result: &AgentResult, attempt: u32) {
        self.spend(result.cost_usd);
        self.history.extend(failure_detail::create_failure_detail(result, attempt));
        self.step.clone_from(&result.step);
        self.revise(|_| {});
    }

    /// Adds the cost of an attempt, if it was a replay.
    fn spend(&mut self, cost_usd: f64) {
        if self.status() == Some(EntryStatus::Replaying) {
            self.replay_cost_usd += cost_usd;
        }
    }

    /// Changes the entry, if there is one.
    pub(crate) fn revise(&mut self, change: impl FnOnce(&mut EntryState)) {
        if let Some(death) = &mut self.death {
            death.revision = death.revision.saturating_add(1);
            change(death);
        }
    }
}

/// Returns who made an attempt.
pub(crate) fn agent(record: &EventRecord) -> String {
    record.agent_id.map(|agent| agent.to_string()).unwrap_or_default()
}
