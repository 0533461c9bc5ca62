//! Which items start, and when the map phase is over.

use super::{
    items::{ItemAction, MapSettings},
    merge,
    outcome::{MapContext, item_event},
};
use crate::{
    Timestamp,
    event::{Event, PauseReason, PhaseName, ReplayAuthorization},
    failure::{Failure, ReasonCode},
    ids::AgentId,
    job::{
        Decision, DecisionContext, FailedAttempt, ItemStage, ItemState, Job, JobAction, MapState,
        ReplayScheduler, RunOutcome, quota,
    },
    policy::CircuitBreaker,
    workflow::OnItemFailure,
};

/// An item that was under way when prodigy died this often is not tried again.
pub const POISON: u32 = 3;

/// Takes up what an earlier run left undone: commits that were about to be merged.
pub(crate) fn resume_merges(job: &Job) -> Decision {
    let map = job.map.iter();
    let merging = map.flat_map(|map| map.merging().iter().map(move |at| (*at, map.item(*at))));
    let actions = merging.filter_map(|(item, state)| match &state?.stage {
        ItemStage::Merging(commits) => {
            let commits = (**commits).clone();
            Some(JobAction::Item(ItemAction::Merge { item, commits }))
        }
        ItemStage::Pending
        | ItemStage::Waiting { .. }
        | ItemStage::Running { .. }
        | ItemStage::Handling { .. }
        | ItemStage::Unhandled(_)
        | ItemStage::Conflicted(_)
        | ItemStage::Resolving { .. }
        | ItemStage::Successful
        | ItemStage::DeadLettered
        | ItemStage::Skipped => None,
    });
    Decision { actions: actions.collect(), tick: true, ..Decision::default() }
}

/// Decides what comes next in the map phase.
pub(crate) fn dispatch_items(job: &Job, surroundings: DecisionContext<'_>) -> Decision {
    let Some(rules) = surroundings.rules else { return Decision::default() };
    let Some(map) = &job.map else {
        return Decision::perform(JobAction::Item(ItemAction::Select));
    };
    if !map.is_queued() {
        let from = u32::try_from(map.items.len()).unwrap_or(u32::MAX);
        return Decision::perform(JobAction::Item(ItemAction::Find { from }));
    }
    let stop = map.judged.stop_reason(rules.policy);
    if let Some(message) = stop {
        // What is under way may finish; the rest waits for a resume.
        if map.in_flight() > 0 {
            return Decision::default();
        }
        let event = Event::JobPaused { reason: PauseReason::Policy, message };
        return Decision::finish(vec![event], RunOutcome::StoppedByPolicy);
    }
    if map.is_finished() && rules.replays.is_drained() {
        return finish(map);
    }
    if surroundings.draining {
        return Decision::default();
    }
    if rules.replays.only && is_replayed(map, rules.replays) {
        let message = "its dead letters were replayed; the other items wait".to_owned();
        let event = Event::JobPaused { reason: PauseReason::ItemsOutstanding, message };
        return Decision::finish(vec![event], RunOutcome::Paused(PauseReason::ItemsOutstanding));
    }
    let asks = asks(map, surroundings);
    quota::block_on_spend(job, surroundings, asks)
        .unwrap_or_else(|| start(job, map, rules, surroundings))
}

/// Returns whether what can start may ask an agent.
fn asks(map: &MapState, surroundings: DecisionContext<'_>) -> bool {
    surroundings.names.uses_agent(PhaseName::Map, 0) || map.has_conflicts()
}

/// Returns whether all that was to be replayed has come to its end.
fn is_replayed(map: &MapState, replays: &ReplayScheduler) -> bool {
    map.in_flight() == 0 && map.replaying() == 0 && replays.is_drained()
}

/// Ends the phase, if every item is accounted for.
fn finish(map: &MapState) -> Decision {
    if map.is_conserved() {
        return Decision::record(vec![Event::PhaseCompleted { phase: PhaseName::Map }]);
    }
    let message = format!(
        "{} items were chosen, but they are not all accounted for: {:?}",
        map.total, map.counts
    );
    let failure = Failure::new(ReasonCode::WorktreeError, message);
    let event = Event::JobFailed { step: "map".to_owned(), failure };
    Decision::finish(vec![event], RunOutcome::Failed)
}

/// Starts as many attempts as there is room for, and asks for the claims of dead letters with
/// what is left of it.
fn start(
    job: &Job,
    map: &MapState,
    rules: MapSettings<'_>,
    surroundings: DecisionContext<'_>,
) -> Decision {
    let now = surroundings.now;
    let mut decision = Decision::default();
    let mut breaker = map.breaker;
    let tried = job.quota.as_ref().and_then(|paused| paused.tried.as_ref());
    let is_last = |at: &u32| tried.is_some() && map.item(*at).map(|item| &item.id) == tried;
    let others = ready(map, rules, now).filter(|at| !is_last(at));
    let mut ready = others.chain(ready(map, rules, now).filter(is_last)).peekable();
    let mut due = rules.replays.claimable(map, now).peekable();
    if breaker.may_probe(now) && (ready.peek().is_some() || due.peek().is_some()) {
        breaker = CircuitBreaker::HalfOpen { successes: 0 };
        decision.facts.push(Event::CircuitHalfOpen {}.into());
    }
    let mut room = room(job, map, rules, breaker, surroundings);
    let mut agents = free_agents(map);
    for at in ready {
        if room == 0 {
            break;
        }
        let Some(item) = map.item(at) else { continue };
        if let Some(event) = given_up(item) {
            decision.facts.push(item_event(item, None, event));
            decision.tick = true;
            continue;
        }
        let reserved = item.suspended.as_ref().and_then(|work| work.agent);
        let Some(agent) = reserved.or_else(|| agents.next()) else { break };
        let is_busy = if let ItemStage::Conflicted(conflict) = &item.stage {
            let conflicted = (at, item, &**conflict);
            merge::start_resolution(&mut decision, conflicted, agent, rules, now)
        } else if let ItemStage::Unhandled(failed) = &item.stage {
            restart_handler(&mut decision, (at, item, failed), agent, rules)
        } else {
            begin_attempt(&mut decision, item, at, agent, false);
            true
        };
        room -= u32::from(is_busy);
    }
    let claims = due.take(usize::try_from(room).unwrap_or(usize::MAX));
    decision.actions.extend(claims.map(|item| JobAction::Item(ItemAction::Claim { item })));
    decision.wake = wake(map, rules.replays, breaker, now);
    decision
}

/// Returns how many more attempts may be under way.
fn room(
    job: &Job,
    map: &MapState,
    rules: MapSettings<'_>,
    breaker: CircuitBreaker,
    surroundings: DecisionContext<'_>,
) -> u32 {
    let busy = u32::try_from(map.running().len()).unwrap_or(u32::MAX);
    let most = map.ceiling.map_or(rules.max_parallel, |ceiling| ceiling.min(rules.max_parallel));
    let most = quota::throttled_concurrency(job, most, surroundings);
    let mut room = most.saturating_sub(busy);
    if let Some(paused) = job.quota.as_ref().filter(|_| asks(map, surroundings)) {
        room = room.min(paused.free_slots(surroundings.now));
    }
    // Items that run ahead of the merges start from ever older commits: conflicts and the
    // cost of a merge grow with the distance.
    if map.merging().len() >= usize::try_from(rules.max_parallel).unwrap_or(usize::MAX) {
        room = 0;
    }
    if let Some(config) = &rules.policy.circuit_breaker {
        room = room.min(breaker.free_slots(config, map.probes()));
    }
    room
}

/// Returns the agents that do nothing and whose worktrees hold nothing, the first ones first.
fn free_agents(map: &MapState) -> impl Iterator<Item = AgentId> {
    let is_free = |agent: &AgentId| !map.running().contains_key(agent) && !map.is_reserved(*agent);
    (1..).map(AgentId::new).filter(is_free)
}

/// Returns the end of an item that must not be tried again.
fn given_up(item: &ItemState) -> Option<Event> {
    let failure = if item.lost >= POISON {
        let message = "prodigy died while it was under way, three times";
        Failure::new(ReasonCode::PoisonRepeat, message)
    } else if item.has_open_effects() && !matches!(item.stage, ItemStage::Conflicted(_)) {
        let how = if item.is_stopped { "the run was stopped" } else { "prodigy died" };
        let message =
            format!("{how} while something outside was being changed; whether it was is not known");
        Failure::new(ReasonCode::Interrupted, message).with_unknown_commit()
    } else {
        return None;
    };
    Some(Event::ItemDeadLettered { attempts: item.attempts, failure })
}

/// Begins the next attempt of an item.
fn begin_attempt(
    decision: &mut Decision,
    item: &ItemState,
    at: u32,
    agent: AgentId,
    may_repeat: bool,
) {
    let attempt = item.attempts + 1;
    let correlation_id =
        item.correlation_id.clone().unwrap_or_else(|| format!("{agent}-{}", item.id));
    let event = Event::AgentStarted { attempt, correlation_id };
    decision.facts.push(item_event(item, Some(agent), event));
    let start = ItemAction::Start { agent, item: at, attempt, may_repeat };
    decision.actions.push(JobAction::Item(start));
}

/// Runs the handler of an item once more; returns whether an agent is busy with it.
///
/// The workflow may have been changed since the attempt failed.
fn restart_handler(
    decision: &mut Decision,
    (at, item, failed): (u32, &ItemState, &FailedAttempt),
    agent: AgentId,
    rules: MapSettings<'_>,
) -> bool {
    let attempt = item.attempts;
    if let OnItemFailure::Custom(name) = &rules.policy.on_item_failure {
        let (handler, name) = (name.clone(), name.clone());
        decision.facts.push(item_event(
            item,
            Some(agent),
            Event::HandlerRestarted { handler, attempt },
        ));
        let failed = Box::new(failed.clone());
        let handle = ItemAction::HandleAgain { agent, item: at, attempt, name, failed };
        decision.actions.push(JobAction::Item(handle));
        return true;
    }
    let failure = failed.failure.clone();
    decision.tick = true;
    decision.facts.push(item_event(
        item,
        None,
        Event::ItemDeadLettered { attempts: attempt, failure },
    ));
    false
}

/// Returns the places of the items that can start now without a claim.
fn ready<'a>(
    map: &'a MapState,
    rules: MapSettings<'a>,
    now: Timestamp,
) -> impl Iterator<Item = u32> + 'a {
    let only = rules.replays.only;
    let is_wanted = move |at: &u32| !only || map.item(*at).is_some_and(|item| item.replays > 0);
    map.ready(now).filter(is_wanted)
}

impl MapContext<'_> {
    /// Claims a dead letter that may be replayed: from here on it is under way again.
    pub(crate) fn start_replay(
        &self,
        at: u32,
        allowed: ReplayAuthorization,
        forced: bool,
    ) -> Decision {
        let mut decision = Decision { tick: true, ..Decision::default() };
        let ReplayScheduler { by, reason, .. } = self.rules.replays;
        let dead = self.map.item(at).filter(|item| item.stage == ItemStage::DeadLettered);
        let (Some(item), Some(agent)) = (dead, free_agents(self.map).next()) else {
            return decision;
        };
        if self.surroundings.draining {
            return decision;
        }
        let event = Event::ReplayStarted {
            replay: item.replays + 1,
            by: by.clone(),
            reason: reason.clone(),
            forced,
            allowed: Some(Box::new(allowed)),
        };
        decision.facts.push(item_event(item, None, event));
        begin_attempt(&mut decision, item, at, agent, true);
        decision
    }
}

/// Returns when something can start that cannot start now.
fn wake(
    map: &MapState,
    replays: &ReplayScheduler,
    breaker: CircuitBreaker,
    now: Timestamp,
) -> Option<Timestamp> {
    let moments = match breaker {
        CircuitBreaker::Open { until } if until > now => [Some(until), None],
        // It opens for a few as soon as there is something to let through.
        CircuitBreaker::Open { .. }
        | CircuitBreaker::Closed { .. }
        | CircuitBreaker::HalfOpen { .. } => [map.next_retry(), replays.next_wake(map)],
    };
    moments.into_iter().flatten().filter(|at| *at > now).min()
}
