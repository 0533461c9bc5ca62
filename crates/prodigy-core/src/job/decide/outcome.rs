//! The verdict on an item after an attempt of it or a merge of its commits.

use std::time::Duration;

use super::{items::ItemAction, merge::AttemptCost};
use crate::{
    Timestamp,
    event::{AgentCompleted, AgentFailed, Event, FailureDecision, NewEvent, WorkSuspended},
    failure::{Failure, ReasonClass, ReasonCode},
    ids::AgentId,
    job::{
        Decision, DecisionContext, ItemStage, Job, JobAction, MapSettings, MapState,
        SuspensionCause,
        map_state::{CommitRange, ItemState},
        quota::saturating_add,
    },
    policy::RetryPolicy,
    workflow::{ErrorPolicy, OnItemFailure},
};

/// The verdict on an item whose attempt failed.
enum FailureVerdict {
    Retry { delay: Duration },
    DeadLetter,
    Skip,
    Handler(String),
}

/// An attempt that was cut off.
pub(crate) struct SuspendedAttempt {
    pub(crate) cut_off: SuspensionCause,
    pub(crate) work: WorkSuspended,
    pub(crate) took: AttemptCost,
    /// Set once what it left behind is safe, so that the item may fail for good.
    pub(crate) secured: bool,
}

/// The items and what holds for them.
pub(crate) struct MapContext<'a> {
    pub(crate) job: &'a Job,
    pub(crate) map: &'a MapState,
    pub(crate) rules: MapSettings<'a>,
    pub(crate) surroundings: DecisionContext<'a>,
}

impl MapContext<'_> {
    /// Returns an item whose attempt by this agent is under way, and whether it is a probe.
    ///
    /// An answer that comes too late, or twice, finds nothing and is ignored.
    fn under_way(&self, agent: AgentId, item: u32) -> Option<(&ItemState, bool)> {
        let item = self.map.item(item)?;
        match item.stage {
            ItemStage::Running { agent: by, probe } if by == agent => Some((item, probe)),
            ItemStage::Running { .. }
            | ItemStage::Pending
            | ItemStage::Waiting { .. }
            | ItemStage::Handling { .. }
            | ItemStage::Unhandled(_)
            | ItemStage::Merging(_)
            | ItemStage::Conflicted(_)
            | ItemStage::Resolving { .. }
            | ItemStage::Successful
            | ItemStage::DeadLettered
            | ItemStage::Skipped => None,
        }
    }

    /// Returns an item whose handler is run by this agent.
    fn item_in_handler(&self, agent: AgentId, at: u32) -> Option<&ItemState> {
        let is_so = |stage: &ItemStage| matches!(stage, ItemStage::Handling { agent: by, .. } if *by == agent);
        self.map.item(at).filter(|item| is_so(&item.stage))
    }

    pub(crate) fn attempt_completed(
        &self,
        agent: AgentId,
        at: u32,
        mut done: AgentCompleted,
    ) -> Decision {
        let Some((item, probe)) = self.under_way(agent, at) else { return Decision::default() };
        done.attempt = item.attempts + 1;
        let release = ItemAction::Release { agent, failed: false };
        let mut actions = vec![JobAction::Item(release)];
        if done.has_commits() {
            let AgentCompleted { base, head, commits, .. } = done.clone();
            let commits = CommitRange { base, head, commits };
            actions.push(JobAction::Item(ItemAction::Merge { item: at, commits }));
        }
        let mut facts = vec![item_event(item, Some(agent), Event::AgentCompleted(Box::new(done)))];
        if let Some(config) = &self.rules.policy.circuit_breaker
            && self.map.breaker.closes_on_success(config, probe)
        {
            facts.push(Event::CircuitClosed {}.into());
        }
        facts.extend(self.widened());
        Decision { facts, actions, tick: true, wake: None }
    }

    /// Decides over an item whose attempt failed. It fails for good only once what it left
    /// behind is safe: from the record on that says so, nobody looks for it any more.
    pub(crate) fn attempt_failed(
        &self,
        agent: AgentId,
        at: u32,
        failed: AgentFailed,
        secured: bool,
    ) -> Decision {
        self.end_attempt(agent, at, failed, None, secured)
    }

    /// Dead-letters an item, whatever the error policy says of failed attempts.
    pub(crate) fn dead_letter_item(
        &self,
        agent: AgentId,
        at: u32,
        failed: AgentFailed,
        secured: bool,
    ) -> Decision {
        self.end_attempt(agent, at, failed, Some(FailureVerdict::DeadLetter), secured)
    }

    /// Records the end of an attempt that failed, and the fate of its item: by the error policy,
    /// unless a verdict is given.
    fn end_attempt(
        &self,
        agent: AgentId,
        at: u32,
        mut failed: AgentFailed,
        verdict: Option<FailureVerdict>,
        secured: bool,
    ) -> Decision {
        let Some((item, probe)) = self.under_way(agent, at) else { return Decision::default() };
        complete(&mut failed, item);
        let failure = failed.failure.clone();
        let verdict = verdict.unwrap_or_else(|| self.verdict(item, &failure));
        if !secured && !matches!(verdict, FailureVerdict::Retry { .. }) {
            let goes_on = matches!(verdict, FailureVerdict::Handler(_));
            return Decision::perform(JobAction::Item(ItemAction::Secure { agent, goes_on }));
        }
        failed.then = match verdict {
            FailureVerdict::Retry { .. } => FailureDecision::Retry,
            FailureVerdict::DeadLetter => FailureDecision::DeadLetter,
            FailureVerdict::Skip => FailureDecision::Skip,
            FailureVerdict::Handler(_) => FailureDecision::Handler,
        };
        let attempts = failed.attempt;
        let narrowed = self.narrowed(&failed);
        let mut facts = vec![item_event(item, Some(agent), Event::AgentFailed(Box::new(failed)))];
        let mut release = Some(true);
        let mut actions = Vec::new();
        match verdict {
            FailureVerdict::Retry { delay } => {
                release = Some(false);
                let reason = failure.message;
                facts.push(self.retry_event(item, attempts + 1, delay, reason));
            }
            FailureVerdict::DeadLetter => {
                let event = Event::ItemDeadLettered { attempts, failure };
                facts.push(item_event(item, Some(agent), event));
            }
            FailureVerdict::Skip => {
                let reason = "`on_item_failure` is `skip`".to_owned();
                facts.push(item_event(item, Some(agent), Event::ItemSkipped { reason, failure }));
            }
            FailureVerdict::Handler(name) => {
                release = None;
                let handle = ItemAction::Handle { agent, item: at, name, failure };
                actions.push(JobAction::Item(handle));
            }
        }
        if let Some(failed) = release {
            actions.push(JobAction::Item(ItemAction::Release { agent, failed }));
        }
        if let Some(config) = &self.rules.policy.circuit_breaker
            && let Some(failures) = self.map.breaker.opens_on_failure(config, probe)
        {
            let until = saturating_add(self.surroundings.now, config.timeout);
            facts.push(Event::CircuitOpen { failures, until }.into());
        }
        facts.extend(narrowed);
        Decision { facts, actions, tick: true, wake: None }
    }

    /// Allows half as many attempts when the provider had no room for one.
    ///
    /// All that were under way then are likely to hear the same: they count once.
    fn narrowed(&self, failed: &AgentFailed) -> Option<NewEvent> {
        let began = Duration::from_millis(failed.duration_ms);
        let began = self.surroundings.now.checked_sub(began).unwrap_or(Timestamp::MIN);
        if !ReasonCode::NO_ROOM.contains(&failed.failure.kind)
            || self.map.cut_at.is_some_and(|at| began < at)
        {
            return None;
        }
        let max = (self.most() / 2).max(1);
        let reason = format!("the provider had no room: {}", failed.failure.kind);
        (max < self.most()).then(|| Event::ConcurrencyChanged { max, reason }.into())
    }

    /// Allows one attempt more when one came through.
    fn widened(&self) -> Option<NewEvent> {
        let max = self.most() + 1;
        let reason = "an attempt came through".to_owned();
        (max <= self.rules.max_parallel).then(|| Event::ConcurrencyChanged { max, reason }.into())
    }

    /// Returns how many attempts may be under way at once.
    fn most(&self) -> u32 {
        let most = self.rules.max_parallel;
        self.map.ceiling.map_or(most, |ceiling| ceiling.min(most))
    }

    /// Applies the error policy.
    fn verdict(&self, item: &ItemState, failure: &Failure) -> FailureVerdict {
        let ErrorPolicy { retry, on_item_failure, .. } = self.rules.policy;
        if item.has_open_effects() || failure.kind.class() == ReasonClass::Commit {
            // Another try might change the same thing twice: somebody has to decide that.
            return FailureVerdict::DeadLetter;
        }
        let failed = item.failed + 1;
        let retry = retry.clone().unwrap_or_else(RetryPolicy::for_busy_provider);
        // What is spent is spent, however often it is tried.
        let is_spent = failure.kind == ReasonCode::BudgetExceeded;
        if !is_spent && retry.allows(failed, failure.kind) {
            return FailureVerdict::Retry { delay: retry.delay(failed, self.surroundings.random) };
        }
        match on_item_failure {
            OnItemFailure::Dlq | OnItemFailure::Retry | OnItemFailure::Stop => {
                FailureVerdict::DeadLetter
            }
            OnItemFailure::Skip => FailureVerdict::Skip,
            OnItemFailure::Custom(name) => FailureVerdict::Handler(name.clone()),
        }
    }

    pub(crate) fn handler_finished(
        &self,
        agent: AgentId,
        at: u32,
        failure: Failure,
        handler: Option<Failure>,
    ) -> Decision {
        let Some(item) = self.item_in_handler(agent, at) else { return Decision::default() };
        let attempts = item.attempts;
        let event = if item.has_open_effects() {
            let message = match handler {
                Some(broken) => format!("its handler failed too: {}", broken.message),
                None => {
                    "its handler may have changed something outside; whether it did is not known"
                        .to_owned()
                }
            };
            let mut failure = failure.with_sentence(&message);
            failure.cause = Some(failure.kind);
            failure.kind = ReasonCode::UnknownCommitState;
            Event::ItemDeadLettered { attempts, failure }
        } else if let Some(broken) = handler {
            // The reason stays the item's: a replay runs the item, not its handler.
            let failure =
                failure.with_sentence(&format!("its handler failed too: {}", broken.message));
            Event::ItemDeadLettered { attempts, failure }
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
            facts: vec![item_event(item, Some(agent), event)],
            actions: vec![JobAction::Item(release)],
            tick: true,
            wake: None,
        }
    }

    pub(crate) fn retry_event(
        &self,
        item: &ItemState,
        attempt: u32,
        delay: Duration,
        reason: String,
    ) -> NewEvent {
        let retry_at = saturating_add(self.surroundings.now, delay);
        let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        item_event(item, None, Event::AgentRetrying { attempt, delay_ms, retry_at, reason })
    }
}

/// Adds what is known of the item to the record of its failed attempt.
fn complete(failed: &mut AgentFailed, item: &ItemState) {
    failed.attempt = item.attempts + 1;
    failed.correlation_id = item.correlation_id.clone().unwrap_or_default();
    if item.has_open_effects() {
        failed.failure = failed.failure.clone().with_unknown_commit();
    }
}

/// Says something about an item.
pub(crate) fn item_event(item: &ItemState, agent_id: Option<AgentId>, event: Event) -> NewEvent {
    NewEvent { agent_id, item_id: Some(item.id.clone()), event }
}
