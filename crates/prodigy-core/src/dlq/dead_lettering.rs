//! The end of an item as a dead letter.

use super::{
    AgentResult, AgentStatus, DeadLetterContext, EntryStatus,
    state::{DeadLetterState, EntryState, OpenAttempt},
};
use crate::{
    Timestamp,
    event::EventRecord,
    failure::{Failure, ReasonCode},
};

impl DeadLetterState {
    /// Ends an attempt whose commits are not used: the item is retried, or fails for good.
    pub(crate) fn give_up_merge(
        &mut self,
        at: Timestamp,
        reason: &str,
        tail: &str,
        origin: DeadLetterContext<'_>,
    ) {
        let Some(merging) = self.merging.take() else { return };
        self.end(&merging.begun, origin);
        let kind = match &merging.conflict {
            Some(_) => ReasonCode::MergeConflict,
            None => ReasonCode::Interrupted,
        };
        let result = AgentResult {
            agent_id: merging.begun.agent_id,
            status: AgentStatus::of(Failure {
                output_tail: tail.to_owned(),
                ..Failure::new(kind, reason)
            }),
            step_name: Some("merge".to_owned()),
            ended_at: at,
            duration_ms: merging.duration_ms,
            cost_usd: merging.cost_usd,
            session_id: merging.session_id,
            json_log_location: Some((origin.log)(&self.item_id, merging.begun.attempt)),
            ..self.result(merging.begun.at)
        };
        self.add(&result, merging.begun.attempt);
        let conflicts = merging.conflict.into_iter().flatten();
        if let Some(detail) = self.history.last_mut() {
            detail.error_context.extend(conflicts.map(|path| format!("conflict in `{path}`")));
        }
    }

    /// Ends an attempt that was cut off as failed; returns true if there was one.
    pub(crate) fn give_up_attempt(&mut self, origin: DeadLetterContext<'_>) -> bool {
        let Some(OpenAttempt { begun, seen, cost_usd, session_id }) = self.under_way.take() else {
            return false;
        };
        self.end(&begun, origin);
        let message = "it was cut off while it was under way";
        let took = seen.duration_since(begun.at);
        let result = AgentResult {
            agent_id: begun.agent_id,
            status: AgentStatus::of(Failure::new(ReasonCode::Interrupted, message)),
            ended_at: seen,
            duration_ms: u64::try_from(took.as_millis()).unwrap_or_default(),
            cost_usd,
            session_id,
            json_log_location: Some((origin.log)(&self.item_id, begun.attempt)),
            ..self.result(begun.at)
        };
        self.add(&result, begun.attempt);
        true
    }

    pub(crate) fn die(
        &mut self,
        record: &EventRecord,
        attempts: u32,
        failure: &Failure,
        origin: DeadLetterContext<'_>,
    ) {
        self.give_up_attempt(origin);
        self.give_up_merge(record.timestamp, &failure.message, &failure.output_tail, origin);
        if self.history.is_empty() {
            let status = AgentStatus::of(failure.clone());
            let result = AgentResult { status, ..self.result(record.timestamp) };
            self.add(&result, attempts);
        }
        let left = self.worktree.take().unwrap_or_default();
        self.worktree = Some(self.with_location(left, "", origin));
        // Nobody was asked about this death; what a replay used up stays to be told apart.
        self.approval.take_if(|approval| !approval.consumed);
        let before = self.death.take();
        let wait =
            jiff::SignedDuration::from_millis(i64::try_from(self.wait_ms).unwrap_or(i64::MAX));
        let not_before = Some(wait).filter(|wait| !wait.is_zero());
        let not_before = not_before.and_then(|wait| record.timestamp.checked_add(wait).ok());
        let last_attempt = self.history.last().map_or(record.timestamp, |last| last.timestamp);
        self.death = Some(EntryState {
            revision: before.as_ref().map_or(1, |before| before.revision + 1),
            // What else there is to a failure is in the history.
            failure: Failure {
                cause: failure.cause,
                ..Failure::new(failure.kind, failure.message.clone())
            },
            attempts,
            replays: before.map_or(0, |before| before.replays),
            last_attempt,
            status: EntryStatus::Open,
            closed: None,
            is_cleared: false,
            quarantine: None,
            released: None,
            owner: None,
            not_before,
        });
    }
}
