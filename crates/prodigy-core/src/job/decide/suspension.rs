//! The fate of an item whose attempt was cut off by a limit or a budget.

use super::{
    items::ItemAction,
    merge::AttemptCost,
    outcome::{MapContext, SuspendedAttempt, item_event},
};
use crate::{
    event::{AgentFailed, Event, FailureDecision, NewEvent},
    failure::{Failure, ReasonCode},
    ids::AgentId,
    job::{Decision, ItemStage, JobAction, SuspendedWork, map_state::ItemState},
};

impl MapContext<'_> {
    /// Puts an item back whose attempt, handler or resolution was cut off. Nothing is charged to
    /// it, and it keeps what it has.
    pub(crate) fn suspend_item(&self, agent: AgentId, at: u32, cut: SuspendedAttempt) -> Decision {
        let Some(item) = self.item_of_agent(agent, at) else { return Decision::default() };
        let SuspendedAttempt { cut_off, work, took, secured } = cut;
        let reason = cut_off.message();
        let is_attempt = matches!(item.stage, ItemStage::Running { .. });
        let work = cut_off.suspended_work(work);
        let (before, quota) = (item.suspended.as_deref(), self.surroundings.spending.quota);
        let failure = if item.has_open_effects() && is_attempt {
            // Nobody knows how far it had come, so it cannot just be made again.
            Some(Failure::new(ReasonCode::Interrupted, reason.clone()))
        } else {
            SuspendedWork::restart_limit_failure(before, &work, quota, &reason)
        };
        let paused = cut_off.pause_event(self.job, None, self.surroundings);
        let paused = paused.map(NewEvent::from);
        if let Some(failure) = failure {
            let mut decision = self.finish_suspended(agent, at, item, failure, took, secured);
            // Until it has failed for good, the outcome comes once more.
            let is_over = !decision.facts.is_empty();
            decision.facts.extend(paused.filter(|_| is_over));
            return decision;
        }
        let mut facts = Vec::new();
        if work.is_worth_recording() {
            facts.push(item_event(item, Some(agent), Event::WorkSuspended(Box::new(work))));
        }
        let AttemptCost { duration_ms, cost_usd } = took;
        let event = Event::AgentReleased { reason, duration_ms, cost_usd };
        facts.push(item_event(item, Some(agent), event));
        facts.extend(paused);
        let release = ItemAction::Release { agent, failed: false };
        Decision { facts, actions: vec![JobAction::Item(release)], tick: true, wake: None }
    }

    /// Returns an item that this agent is busy with.
    fn item_of_agent(&self, agent: AgentId, at: u32) -> Option<&ItemState> {
        let is_busy = self.map.running().get(&agent) == Some(&at);
        self.map.item(at).filter(|_| is_busy)
    }

    /// Ends what an agent was busy with for good.
    fn finish_suspended(
        &self,
        agent: AgentId,
        at: u32,
        item: &ItemState,
        failure: Failure,
        took: AttemptCost,
        secured: bool,
    ) -> Decision {
        let secure =
            || Decision::perform(JobAction::Item(ItemAction::Secure { agent, goes_on: false }));
        if let ItemStage::Handling { failed, .. } = &item.stage {
            if !secured {
                return secure();
            }
            // Older versions did not record why the attempt failed.
            let why = failed.as_ref().map_or_else(|| failure.clone(), |it| it.failure.clone());
            return self.handler_finished(agent, at, why, Some(failure));
        }
        if let ItemStage::Resolving { .. } = &item.stage {
            return self.resolution_failed(agent, at, failure, took);
        }
        let AttemptCost { duration_ms, cost_usd } = took;
        let failed = AgentFailed {
            attempt: 0,
            correlation_id: String::new(),
            step: None,
            name: None,
            failure,
            duration_ms,
            cost_usd,
            then: FailureDecision::DeadLetter,
        };
        self.dead_letter_item(agent, at, failed, secured)
    }
}
