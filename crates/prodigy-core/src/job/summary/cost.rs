//! The cost of a job's agents, and the part of it that was spent on failed attempts.

use std::collections::BTreeMap;

use crate::{
    agent::TokenUsage,
    event::{Event, EventRecord, FailureDecision, StepStatus, is_top_level},
    ids::ItemId,
};

/// The cost of a job's agents, as far as they reported it, folded from its journal.
///
/// Its size depends on how many items are under way, not on how many there are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CostSummary {
    /// All of it that is known, in US dollars.
    pub cost_usd: f64,
    /// The part of it that was computed from tokens.
    pub estimated_usd: f64,
    /// The number of costs that were computed from tokens.
    pub estimated: u64,
    /// The tokens that they used.
    pub tokens: TokenUsage,
    /// The number of runs of agents whose cost is known.
    pub told: u64,
    /// The number of those whose cost is not.
    pub untold: u64,
    /// The amount spent on attempts that failed or were cut off.
    pub lost_usd: f64,
    /// The amounts spent on items whose outcome is not known yet.
    items: BTreeMap<ItemId, PendingCost>,
    /// The amount spent on the job's own step that is under way.
    step: PendingCost,
    /// Set if the run has ended: costs reported now belong to attempts that were cut off.
    is_over: bool,
}

/// An attempt that may still come to nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct PendingCost {
    cost_usd: f64,
    /// The part of it that bought work which is suspended, and so is not lost when it is cut off.
    kept_usd: f64,
    /// Set if it is done but for the merge of its commits.
    is_merging: bool,
}

impl PendingCost {
    /// Cuts the work off; returns the amount that is lost.
    fn suspend(&mut self) -> f64 {
        let lost_usd = self.cost_usd - self.kept_usd;
        self.cost_usd = self.kept_usd;
        lost_usd
    }
}

impl CostSummary {
    /// Returns whether nobody knows what anything cost.
    pub fn is_unknown(&self) -> bool {
        self.told == 0 && self.untold > 0
    }

    /// Returns whether no agent was asked.
    pub fn is_empty(&self) -> bool {
        self.told == 0 && self.untold == 0
    }

    /// Returns what so many successes cost each, with what was lost on the way.
    pub fn per_success(&self, successes: u32) -> Option<f64> {
        (successes > 0 && self.cost_usd > 0.0).then(|| self.cost_usd / f64::from(successes))
    }

    /// Applies the next record.
    pub fn apply(&mut self, record: &EventRecord) {
        if let Event::AgentUsage { cost_usd, tokens, estimated, .. } = &record.event {
            self.spend(record.item_id.as_ref(), *cost_usd, *tokens);
            if *estimated {
                self.estimated += 1;
                self.estimated_usd += cost_usd.unwrap_or_default();
            }
        } else if let Event::JobResumed { workflow, .. } = &record.event {
            if workflow.as_ref().is_some_and(|workflow| !workflow.same_steps) {
                self.restart_suspended();
            }
            self.end_run();
            self.is_over = false;
        } else if let Event::JobPaused { .. } | Event::JobFailed { .. } = &record.event {
            self.end_run();
            self.is_over = true;
        } else if let Some(item) = &record.item_id {
            self.apply_to_item(item, &record.event);
        } else {
            self.apply_to_step(&record.event);
        }
    }

    fn spend(&mut self, item: Option<&ItemId>, cost_usd: Option<f64>, tokens: TokenUsage) {
        self.tokens += tokens;
        let Some(cost_usd) = cost_usd else {
            self.untold += 1;
            return;
        };
        self.told += 1;
        self.cost_usd += cost_usd;
        match item {
            Some(_) | None if self.is_over => self.lost_usd += cost_usd,
            Some(item) => self.items.entry(item.clone()).or_default().cost_usd += cost_usd,
            None => self.step.cost_usd += cost_usd,
        }
    }

    fn apply_to_item(&mut self, item: &ItemId, event: &Event) {
        if let Event::AgentCompleted(done) = event {
            if done.has_commits() {
                self.items.entry(item.clone()).or_default().is_merging = true;
            } else {
                self.items.remove(item);
            }
        } else if let Event::WorktreeMerged { .. } = event {
            self.items.remove(item);
        } else if let Event::WorkSuspended(_) = event {
            let open = self.items.entry(item.clone()).or_default();
            open.kept_usd = open.cost_usd;
        } else if let Event::AgentReleased { .. } | Event::AgentStarted { .. } = event {
            self.lost_usd += self.items.get_mut(item).map_or(0.0, PendingCost::suspend);
        } else if is_end_of_attempt(event) {
            self.lost_usd += self.items.remove(item).map_or(0.0, |open| open.cost_usd);
        }
    }

    fn apply_to_step(&mut self, event: &Event) {
        if let Event::StepFailed { step, .. } = event
            && is_top_level(step)
        {
            self.lost_usd += std::mem::take(&mut self.step).cost_usd;
        } else if let Event::WorkSuspended(_) = event {
            self.step.kept_usd = self.step.cost_usd;
        } else if let Event::StepCompleted(step) = event
            && is_top_level(&step.step)
        {
            let cost_usd = std::mem::take(&mut self.step).cost_usd;
            self.lost_usd += if step.status == StepStatus::Failed { cost_usd } else { 0.0 };
        }
    }

    /// Applies the end or the crash of a run: the amounts of work in flight are lost, except for
    /// suspended work.
    fn end_run(&mut self) {
        self.lost_usd += self.step.suspend();
        let lost_usd = &mut self.lost_usd;
        self.items.retain(|_, open| {
            *lost_usd += if open.is_merging { 0.0 } else { open.suspend() };
            open.is_merging || open.kept_usd > 0.0
        });
    }

    /// Restarts suspended work: its amounts are not kept any more.
    fn restart_suspended(&mut self) {
        self.step.kept_usd = 0.0;
        self.items.values_mut().for_each(|open| open.kept_usd = 0.0);
    }
}

/// Returns whether an attempt is over with this, and nothing came of it.
fn is_end_of_attempt(event: &Event) -> bool {
    match event {
        Event::AgentFailed(failed) => failed.then != FailureDecision::Handler,
        Event::AgentRetrying { .. }
        | Event::ItemSkipped { .. }
        | Event::ItemDeadLettered { .. } => true,
        Event::JobStarted(_)
        | Event::JobResumed { .. }
        | Event::JobPaused { .. }
        | Event::JobCompleted { .. }
        | Event::JobFailed { .. }
        | Event::PhaseStarted { .. }
        | Event::PhaseCompleted { .. }
        | Event::ItemsSelected { .. }
        | Event::ItemQueued {}
        | Event::AgentStarted { .. }
        | Event::AgentReleased { .. }
        | Event::AgentCompleted(_)
        | Event::ReplayStarted { .. }
        | Event::DlqItemRemoved { .. }
        | Event::DlqItemUpdated { .. }
        | crate::approval_news!()
        | crate::effect_news!()
        | crate::circuit_news!()
        | crate::agent_news!()
        | crate::spending_news!()
        | crate::resolution_news!()
        | Event::StepStarted { .. }
        | Event::StepCompleted(_)
        | Event::StepFailed { .. }
        | Event::StepSkipped { .. }
        | Event::AgentUsage { .. }
        | Event::WorktreeCreated { .. }
        | Event::WorktreeMerged { .. }
        | Event::WorktreePreserved { .. }
        | Event::WorktreeCleaned { .. }
        | Event::WorkKept(_)
        | Event::MergeConflict { .. }
        | Event::GitTampering { .. }
        | Event::CheckoutUpdateStarted(_)
        | crate::checkout_news!()
        | Event::JournalEndLost { .. }
        | Event::CheckpointCreated { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Returns what records come to; each says whom it is about.
    fn costs(events: &[(&str, Value)]) -> CostSummary {
        let mut costs = CostSummary::default();
        for (seq, (item, event)) in (1_u64..).zip(events) {
            let mut record = json!({
                "format": 1, "seq": seq, "timestamp": "2026-01-02T03:04:05Z", "job_id": "job",
            });
            let object = record.as_object_mut().unwrap();
            object.extend(event.as_object().unwrap().clone());
            if !item.is_empty() {
                object.insert("item_id".to_owned(), json!(item));
            }
            costs.apply(&serde_json::from_value(record).unwrap());
        }
        costs
    }

    fn usage(cost_usd: f64) -> Value {
        json!({"event_type": "agent_usage", "step": "1", "agent": "a", "cost_usd": cost_usd})
    }

    fn failed(then: &str) -> Value {
        json!({
            "event_type": "agent_failed", "attempt": 1, "then": then, "duration_ms": 1,
            "failure": {"kind": "timeout", "message": "late"},
        })
    }

    fn completed(head: &str) -> Value {
        json!({
            "event_type": "agent_completed", "attempt": 1, "base": "c0", "head": head,
            "commits": 1, "duration_ms": 1, "result": null,
        })
    }

    fn step(kind: &str, more: &Value) -> Value {
        let mut event = json!({
            "event_type": kind, "step": "2", "attempt": 1, "duration_ms": 1, "output": "",
            "failure": {"kind": "timeout", "message": "late"},
        });
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        event
    }

    #[track_caller]
    fn assert_lost(events: &[(&str, Value)], cost_usd: f64, lost_usd: f64) {
        let costs = costs(events);
        let found = [costs.cost_usd, costs.lost_usd];
        let wanted = [cost_usd, lost_usd];
        assert!(found.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-9), "{found:?}");
    }

    #[test]
    fn money_for_an_attempt_that_fails_is_lost() {
        let released = json!({"event_type": "agent_released", "reason": "limit", "duration_ms": 1});
        let dead = json!({
            "event_type": "item_dead_lettered", "attempts": 1,
            "failure": {"kind": "timeout", "message": "late"},
        });
        assert_lost(&[("a", usage(1.0)), ("a", completed("c0"))], 1.0, 0.0);
        assert_lost(&[("a", usage(1.0)), ("b", usage(2.0)), ("a", failed("retry"))], 3.0, 1.0);
        assert_lost(&[("a", usage(1.0)), ("a", released)], 1.0, 1.0);
        // The handler of the error policy may spend some more on it.
        let handled = [("a", usage(1.0)), ("a", failed("handler")), ("a", usage(0.5)), ("a", dead)];
        assert_lost(&handled, 1.5, 1.5);
        let again = [("a", usage(1.0)), ("a", failed("retry")), ("a", usage(4.0))];
        assert_lost(&again, 5.0, 1.0);
    }

    #[test]
    fn money_for_work_that_is_suspended_is_not_lost() {
        let released = json!({"event_type": "agent_released", "reason": "limit", "duration_ms": 1});
        let suspended = json!({"event_type": "work_suspended", "finished_steps": 1});
        let started = json!({"event_type": "agent_started", "attempt": 1, "correlation_id": "c"});
        let resumed = json!({"event_type": "job_resumed", "version": "0"});
        let paused = [("a", usage(1.0)), ("a", suspended.clone()), ("a", released)];
        assert_lost(&paused, 1.0, 0.0);
        let again = [("", resumed.clone()), ("a", started), ("a", usage(2.0))];
        let again = [&paused[..], &again].concat();
        assert_lost(&[&again[..], &[("a", completed("c0"))]].concat(), 3.0, 0.0);
        // A crash loses what came after it, and a failure all of it.
        assert_lost(&[&again[..], &[("", resumed.clone())]].concat(), 3.0, 2.0);
        assert_lost(&[&again[..], &[("a", failed("retry"))]].concat(), 3.0, 3.0);
        let steps = [("", usage(1.0)), ("", suspended), ("", usage(2.0)), ("", resumed)];
        assert_lost(&steps, 3.0, 2.0);
    }

    #[test]
    fn work_that_cannot_be_merged_is_lost_and_what_waits_for_the_merge_is_not() {
        let merged = json!({
            "event_type": "worktree_merged", "source": "s", "target": "t", "commit": "c",
            "commits": 1,
        });
        let again = json!({
            "event_type": "agent_retrying", "attempt": 2, "delay_ms": 0,
            "retry_at": "2026-01-02T03:04:05Z", "reason": "conflict",
        });
        let resumed = json!({"event_type": "job_resumed", "version": "0"});
        let done = [("a", usage(1.0)), ("a", completed("c1"))];
        assert_lost(&[&done[..], &[("a", again.clone())]].concat(), 1.0, 1.0);
        assert_lost(&[&done[..], &[("a", merged), ("a", again)]].concat(), 1.0, 0.0);
        assert_lost(&[&done[..], &[("", resumed.clone())]].concat(), 1.0, 0.0);
        // An attempt that a crash cut off counts as not made.
        assert_lost(&[("a", usage(1.0)), ("", resumed)], 1.0, 1.0);
    }

    #[test]
    fn money_that_is_told_after_the_end_of_a_run_is_lost_at_once() {
        let paused = json!({"event_type": "job_paused", "reason": "budget", "message": "m"});
        let failed = json!({
            "event_type": "job_failed", "step": "map",
            "failure": {"kind": "timeout", "message": "late"},
        });
        let resumed = json!({"event_type": "job_resumed", "version": "0"});
        for end in [paused, failed] {
            let late = [("a", usage(1.0)), ("", end), ("a", usage(2.0)), ("", usage(4.0))];
            assert_lost(&late, 7.0, 7.0);
            let more = [("", resumed.clone()), ("a", usage(8.0)), ("a", completed("c0"))];
            assert_lost(&[&late[..], &more].concat(), 15.0, 7.0);
        }
    }

    #[test]
    fn money_for_a_failed_try_of_a_step_is_lost() {
        let retried = step("step_failed", &json!({"then": "retry"}));
        let inner = step("step_failed", &json!({"then": "stop", "step": "2.validate"}));
        let fine = step("step_completed", &json!({"status": "recovered", "exit_code": 0}));
        let bad = step("step_completed", &json!({"status": "failed", "exit_code": 1}));
        let tries = [("", usage(1.0)), ("", retried), ("", usage(2.0)), ("", inner)];
        assert_lost(&[&tries[..], &[("", fine)]].concat(), 3.0, 1.0);
        assert_lost(&[&tries[..], &[("", bad)]].concat(), 3.0, 3.0);
    }

    #[test]
    fn what_nobody_told_is_not_taken_for_nothing() {
        let untold = json!({
            "event_type": "agent_usage", "step": "1", "agent": "a", "tokens": {"input_tokens": 5},
        });
        let some = costs(&[("a", untold.clone()), ("b", usage(0.0))]);
        assert_eq!((some.told, some.untold, some.is_unknown()), (1, 1, false));
        assert_eq!(some.tokens.input_tokens, 5);
        assert!(costs(&[("a", untold)]).is_unknown());
        assert!(costs(&[]).is_empty() && !costs(&[]).is_unknown());
        assert_eq!(costs(&[("a", usage(3.0))]).per_success(2), Some(1.5));
        assert_eq!(costs(&[("a", usage(3.0))]).per_success(0), None);
    }
}
