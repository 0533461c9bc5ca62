//! Which items start, and when the map phase is over.

use super::{
    Action, Decision, Ending, ItemState, Job, MapState, Replays, Stage, Surroundings,
    items::{ItemAction, MapRules},
    verdict::about,
};
use crate::{
    Timestamp,
    event::{Event, Fact, PauseReason, PhaseName},
    failure::{Failure, FailureKind},
    ids::AgentId,
    policy::Breaker,
};

/// An item that was under way when prodigy died this often is not tried again.
pub const POISON: u32 = 3;

/// Takes up what an earlier run left undone: commits that were about to be merged.
pub(super) fn begin(job: &Job) -> Decision {
    let map = job.map.iter();
    let merging = map.flat_map(|map| map.merging().iter().map(move |at| (*at, map.item(*at))));
    let actions = merging.filter_map(|(item, state)| match &state?.stage {
        Stage::Merging(commits) => {
            let commits = (**commits).clone();
            Some(Action::Item(ItemAction::Merge { item, commits }))
        }
        Stage::Pending
        | Stage::Waiting { .. }
        | Stage::Running { .. }
        | Stage::Handling { .. }
        | Stage::Successful
        | Stage::DeadLettered
        | Stage::Skipped => None,
    });
    Decision { actions: actions.collect(), tick: true, ..Decision::default() }
}

/// Decides what comes next in the map phase.
pub(super) fn go_on(job: &Job, surroundings: Surroundings<'_>) -> Decision {
    let Some(rules) = surroundings.rules else { return Decision::default() };
    let Some(map) = &job.map else {
        return Decision::act(Action::Item(ItemAction::Select));
    };
    if !map.is_queued() {
        let from = u32::try_from(map.items.len()).unwrap_or(u32::MAX);
        return Decision::act(Action::Item(ItemAction::Find { from }));
    }
    let stop = map.judged.stops(rules.policy);
    if let Some(message) = stop {
        // What is under way may finish; the rest waits for a resume.
        if map.under_way() > 0 {
            return Decision::default();
        }
        let event = Event::JobPaused { reason: PauseReason::Policy, message };
        return Decision::finish(vec![event], Ending::StoppedByPolicy);
    }
    if map.is_finished() && rules.replays.left(map).next().is_none() {
        return finish(map);
    }
    if surroundings.draining {
        return Decision::default();
    }
    if rules.replays.only && is_replayed(map, rules.replays) {
        let message = "its dead letters were replayed; the other items wait".to_owned();
        let event = Event::JobPaused { reason: PauseReason::ItemsOutstanding, message };
        return Decision::finish(vec![event], Ending::Paused(PauseReason::ItemsOutstanding));
    }
    start(map, rules, surroundings.now)
}

/// Returns whether all that was to be replayed has come to its end.
fn is_replayed(map: &MapState, replays: &Replays) -> bool {
    let is_waiting = |at: &u32| map.item(*at).is_some_and(|item| item.replays > 0);
    map.under_way() == 0
        && replays.left(map).next().is_none()
        && !map.waiting().any(|at| is_waiting(&at))
}

/// Ends the phase, if every item is accounted for.
fn finish(map: &MapState) -> Decision {
    if map.is_conserved() {
        return Decision::note(vec![Event::PhaseCompleted { phase: PhaseName::Map }]);
    }
    let message = format!(
        "{} items were chosen, but they are not all accounted for: {:?}",
        map.total, map.counts
    );
    let failure = Failure::new(FailureKind::WorktreeError, message);
    let event = Event::JobFailed { step: "map".to_owned(), failure };
    Decision::finish(vec![event], Ending::Failed)
}

/// Starts as many attempts as there is room for.
fn start(map: &MapState, rules: MapRules<'_>, now: Timestamp) -> Decision {
    let mut decision = Decision::default();
    let mut breaker = map.breaker;
    let mut candidates = candidates(map, rules, now).peekable();
    if breaker.may_probe(now) && candidates.peek().is_some() {
        breaker = Breaker::HalfOpen { successes: 0 };
        decision.facts.push(Event::CircuitHalfOpen {}.into());
    }
    let busy = u32::try_from(map.running().len()).unwrap_or(u32::MAX);
    let mut room = rules.max_parallel.saturating_sub(busy);
    // Items that run ahead of the merges start from ever older commits: conflicts and the
    // cost of a merge grow with the distance.
    if map.merging().len() >= usize::try_from(rules.max_parallel).unwrap_or(usize::MAX) {
        room = 0;
    }
    if let Some(config) = &rules.policy.circuit_breaker {
        room = room.min(breaker.room(config, map.probes()));
    }
    let mut agents = (1..).map(AgentId::new).filter(|agent| !map.running().contains_key(agent));
    for at in candidates {
        if room == 0 {
            break;
        }
        let Some(item) = map.item(at) else { continue };
        if item.lost >= POISON && item.stage != Stage::DeadLettered {
            let message = "prodigy died while it was under way, three times";
            let failure = Failure::new(FailureKind::PoisonRepeat, message);
            let event = Event::ItemDeadLettered { attempts: item.attempts, failure };
            decision.facts.push(about(item, None, event));
            decision.tick = true;
            continue;
        }
        let Some(agent) = agents.next() else { break };
        let attempt = item.attempts + 1;
        if item.stage == Stage::DeadLettered {
            decision.facts.push(replay(item, at, rules.replays));
        }
        let correlation_id =
            item.correlation_id.clone().unwrap_or_else(|| format!("{agent}-{}", item.id));
        let event = Event::AgentStarted { attempt, correlation_id };
        decision.facts.push(Fact { agent_id: Some(agent), item_id: Some(item.id.clone()), event });
        decision.actions.push(Action::Item(ItemAction::Start { agent, item: at, attempt }));
        room -= 1;
    }
    decision.wake = wake(map, breaker).filter(|at| *at > now);
    decision
}

/// Returns the places of the items that can start now, dead letters that are tried again last.
fn candidates<'a>(
    map: &'a MapState,
    rules: MapRules<'a>,
    now: Timestamp,
) -> impl Iterator<Item = u32> + 'a {
    let only = rules.replays.only;
    let is_wanted = move |at: &u32| !only || map.item(*at).is_some_and(|item| item.replays > 0);
    map.ready(now).filter(is_wanted).chain(rules.replays.left(map))
}

/// Claims a dead letter: from here on it is under way again.
fn replay(item: &ItemState, at: u32, replays: &Replays) -> Fact {
    let event = Event::ReplayStarted {
        replay: item.replays + 1,
        by: replays.by.clone(),
        reason: replays.reason.clone(),
        forced: replays.forced.contains(&at),
    };
    about(item, None, event)
}

/// Returns when something can start that cannot start now.
fn wake(map: &MapState, breaker: Breaker) -> Option<Timestamp> {
    match breaker {
        Breaker::Open { until } => Some(until),
        Breaker::Closed { .. } | Breaker::HalfOpen { .. } => map.next_retry(),
    }
}
