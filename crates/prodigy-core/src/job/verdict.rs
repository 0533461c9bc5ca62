//! What becomes of an item when an attempt of it or a merge of its commits has ended.

use std::time::Duration;

use super::{
    Action, Decision, MapRules, MapState, Stage, Surroundings,
    items::ItemAction,
    map::{ItemState, Merging},
};
use crate::{
    Timestamp,
    event::{AfterAttempt, AgentCompleted, AgentFailed, Event, Fact},
    failure::{Class, Failure, FailureKind},
    ids::AgentId,
    workflow::{ErrorPolicy, OnItemFailure},
};

/// What becomes of an item whose attempt failed.
enum Verdict {
    Retry { delay: Duration },
    DeadLetter,
    Skip,
    Handler(String),
}

/// The items and what holds for them.
pub(super) struct Scene<'a> {
    pub(super) map: &'a MapState,
    pub(super) rules: MapRules<'a>,
    pub(super) surroundings: Surroundings<'a>,
}

impl Scene<'_> {
    /// Returns an item whose attempt by this agent is under way, and whether it is a probe.
    ///
    /// An answer that comes too late, or twice, finds nothing and is ignored.
    fn under_way(&self, agent: AgentId, item: u32) -> Option<(&ItemState, bool)> {
        let item = self.map.item(item)?;
        match item.stage {
            Stage::Running { agent: by, probe } if by == agent => Some((item, probe)),
            Stage::Running { .. }
            | Stage::Pending
            | Stage::Waiting { .. }
            | Stage::Handling { .. }
            | Stage::Merging(_)
            | Stage::Successful
            | Stage::DeadLettered
            | Stage::Skipped => None,
        }
    }

    pub(super) fn completed(&self, agent: AgentId, at: u32, mut done: AgentCompleted) -> Decision {
        let Some((item, probe)) = self.under_way(agent, at) else { return Decision::default() };
        done.attempt = item.attempts + 1;
        let release = ItemAction::Release { agent, failed: false };
        let mut actions = vec![Action::Item(release)];
        if done.has_commits() {
            let AgentCompleted { base, head, commits, .. } = done.clone();
            let commits = Merging { base, head, commits };
            actions.push(Action::Item(ItemAction::Merge { item: at, commits }));
        }
        let mut facts = vec![about(item, Some(agent), Event::AgentCompleted(Box::new(done)))];
        if let Some(config) = &self.rules.policy.circuit_breaker
            && self.map.breaker.closes(config, probe)
        {
            facts.push(Event::CircuitClosed {}.into());
        }
        Decision { facts, actions, tick: true, wake: None }
    }

    pub(super) fn failed(&self, agent: AgentId, at: u32, mut failed: AgentFailed) -> Decision {
        let Some((item, probe)) = self.under_way(agent, at) else { return Decision::default() };
        failed.attempt = item.attempts + 1;
        if item.is_uncertain() {
            failed.failure = failed.failure.uncertain();
        }
        let failure = failed.failure.clone();
        let verdict = self.verdict(item, &failure);
        failed.then = match verdict {
            Verdict::Retry { .. } => AfterAttempt::Retry,
            Verdict::DeadLetter => AfterAttempt::DeadLetter,
            Verdict::Skip => AfterAttempt::Skip,
            Verdict::Handler(_) => AfterAttempt::Handler,
        };
        let attempts = failed.attempt;
        let mut facts = vec![about(item, Some(agent), Event::AgentFailed(Box::new(failed)))];
        let mut release = Some(true);
        let mut actions = Vec::new();
        match verdict {
            Verdict::Retry { delay } => {
                release = Some(false);
                let reason = failure.message;
                facts.push(self.retrying(item, attempts + 1, delay, reason));
            }
            Verdict::DeadLetter => {
                let event = Event::ItemDeadLettered { attempts, failure };
                facts.push(about(item, Some(agent), event));
            }
            Verdict::Skip => {
                let reason = "`on_item_failure` is `skip`".to_owned();
                facts.push(about(item, Some(agent), Event::ItemSkipped { reason, failure }));
            }
            Verdict::Handler(name) => {
                release = None;
                let handle = ItemAction::Handle { agent, item: at, name, failure };
                actions.push(Action::Item(handle));
            }
        }
        if let Some(failed) = release {
            actions.push(Action::Item(ItemAction::Release { agent, failed }));
        }
        if let Some(config) = &self.rules.policy.circuit_breaker
            && let Some(failures) = self.map.breaker.opens(config, probe)
        {
            let until = later(self.surroundings.now, config.timeout);
            facts.push(Event::CircuitOpen { failures, until }.into());
        }
        Decision { facts, actions, tick: true, wake: None }
    }

    /// Applies the error policy.
    fn verdict(&self, item: &ItemState, failure: &Failure) -> Verdict {
        let ErrorPolicy { retry, on_item_failure, .. } = self.rules.policy;
        if item.is_uncertain() || failure.kind.class() == Class::Commit {
            // Another try might change the same thing twice: somebody has to decide that.
            return Verdict::DeadLetter;
        }
        let failed = item.failed + 1;
        if let Some(retry) = retry.as_ref().filter(|retry| retry.allows(failed, failure.kind)) {
            return Verdict::Retry { delay: retry.delay(failed, self.surroundings.random) };
        }
        match on_item_failure {
            OnItemFailure::Dlq | OnItemFailure::Retry | OnItemFailure::Stop => Verdict::DeadLetter,
            OnItemFailure::Skip => Verdict::Skip,
            OnItemFailure::Custom(name) => Verdict::Handler(name.clone()),
        }
    }

    pub(super) fn handled(
        &self,
        agent: AgentId,
        at: u32,
        failure: Failure,
        handler: Option<Failure>,
    ) -> Decision {
        let handling = Stage::Handling { agent };
        let Some(item) = self.map.item(at).filter(|item| item.stage == handling) else {
            return Decision::default();
        };
        let event = if let Some(mut broken) = handler {
            if item.is_uncertain() {
                broken = broken.uncertain();
            }
            broken.message =
                format!("{}; its handler failed too: {}", failure.message, broken.message);
            Event::ItemDeadLettered { attempts: item.attempts, failure: broken }
        } else if item.is_uncertain() {
            let message =
                "its handler may have changed something outside; whether it did is not known";
            let failure = Failure::new(FailureKind::UnknownCommitState, message);
            Event::ItemDeadLettered { attempts: item.attempts, failure }
        } else {
            let name = match &self.rules.policy.on_item_failure {
                OnItemFailure::Custom(name) => name.as_str(),
                OnItemFailure::Dlq
                | OnItemFailure::Retry
                | OnItemFailure::Skip
                | OnItemFailure::Stop => "its handler",
            };
            Event::ItemSkipped { reason: format!("it was left to `{name}`"), failure }
        };
        let release = ItemAction::Release { agent, failed: true };
        Decision {
            facts: vec![about(item, Some(agent), event)],
            actions: vec![Action::Item(release)],
            tick: true,
            wake: None,
        }
    }

    fn merging(&self, at: u32) -> Option<(&ItemState, &Merging)> {
        let item = self.map.item(at)?;
        match &item.stage {
            Stage::Merging(commits) => Some((item, commits)),
            Stage::Running { .. }
            | Stage::Pending
            | Stage::Waiting { .. }
            | Stage::Handling { .. }
            | Stage::Successful
            | Stage::DeadLettered
            | Stage::Skipped => None,
        }
    }

    pub(super) fn merged(&self, at: u32, source: String, target: String, tip: String) -> Decision {
        let Some((item, commits)) = self.merging(at) else { return Decision::default() };
        let commits = commits.commits;
        let event = Event::WorktreeMerged { source, target, commit: tip, commits };
        Decision { facts: vec![about(item, None, event)], tick: true, ..Decision::default() }
    }

    /// Tries the item once more on the new base, then gives it up.
    pub(super) fn conflict(&self, at: u32, target: String, paths: Vec<String>) -> Decision {
        let Some((item, _)) = self.merging(at) else { return Decision::default() };
        let shown = paths.iter().take(5).map(|path| format!("`{path}`")).collect::<Vec<_>>();
        let shown = shown.join(", ");
        let conflict = about(item, None, Event::MergeConflict { target, paths });
        if item.conflicts == 0 && !item.is_uncertain() {
            let reason = "its commits conflict with what was merged meanwhile";
            return self.again(at, vec![conflict], reason);
        }
        let message = if shown.is_empty() {
            "its commits have nothing in common with the job's branch".to_owned()
        } else {
            format!("its commits conflict with those of other items in {shown}")
        };
        let failure = Failure::new(FailureKind::MergeConflict, message);
        let event = Event::ItemDeadLettered { attempts: item.attempts, failure };
        let facts = vec![conflict, about(item, None, event)];
        Decision { facts, tick: true, ..Decision::default() }
    }

    /// Tries an item whose commits could not be merged again, at once.
    pub(super) fn again(&self, at: u32, mut facts: Vec<Fact>, reason: &str) -> Decision {
        let Some((item, _)) = self.merging(at) else { return Decision::default() };
        let delay = Duration::ZERO;
        facts.push(self.retrying(item, item.attempts + 1, delay, reason.to_owned()));
        Decision { facts, tick: true, ..Decision::default() }
    }

    fn retrying(&self, item: &ItemState, attempt: u32, delay: Duration, reason: String) -> Fact {
        let retry_at = later(self.surroundings.now, delay);
        let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        about(item, None, Event::AgentRetrying { attempt, delay_ms, retry_at, reason })
    }
}

/// Says something about an item.
pub(super) fn about(item: &ItemState, agent_id: Option<AgentId>, event: Event) -> Fact {
    Fact { agent_id, item_id: Some(item.id.clone()), event }
}

/// Returns a moment that comes later, or the last one there is.
fn later(now: Timestamp, delay: Duration) -> Timestamp {
    jiff::SignedDuration::try_from(delay)
        .ok()
        .and_then(|delay| now.checked_add(delay).ok())
        .unwrap_or(Timestamp::MAX)
}
