//! Work that is cut off by limits keeps what it has, for a bounded number of times.

use super::{quota_and_budget::lenient, *};
use crate::event::BudgetScope;

/// Returns a world whose only item is under way.
fn under_way() -> JobHarness {
    let mut world = JobHarness::new(1, lenient(), vec![SimulatedOutcome::Hangs]);
    world.run(usize::MAX);
    assert_eq!(world.job.map.as_ref().map(MapState::in_flight), Some(1));
    world
}

/// Cuts the item off, and returns the types of the events that follow.
fn cut_off(
    world: &mut JobHarness,
    cut_off: SuspensionCause,
    finished_steps: u32,
) -> Vec<&'static str> {
    let work = Box::new(WorkSuspended { finished_steps, counted: true, ..suspended() });
    let (agent, item) = (AgentId::new(1), 0);
    let input = ItemInput::CutOff {
        agent,
        item,
        cut_off,
        work,
        duration_ms: 1,
        cost_usd: 0.0,
        secured: true,
    };
    let decision = world.tell(JobInput::Item(input));
    decision.facts.iter().map(|fact| fact.event.event_type()).collect()
}

/// Starts the item once more.
fn restart(world: &mut JobHarness) {
    let item_id = world.job.map.as_ref().and_then(|map| map.item(0)).map(|item| item.id.clone());
    let event = Event::AgentStarted { attempt: 1, correlation_id: "c".into() };
    world.write(NewEvent { agent_id: Some(AgentId::new(1)), item_id, event });
}

fn usage_limit() -> SuspensionCause {
    SuspensionCause::Limit(limit(SimulatedOutcome::Limited, Timestamp::UNIX_EPOCH))
}

fn work(world: &JobHarness) -> &SuspendedWork {
    world.job.map.as_ref().unwrap().item(0).unwrap().suspended.as_deref().unwrap()
}

#[test]
fn suspended_work_keeps_its_agent_and_counts_its_starts() {
    let mut world = under_way();
    let told = cut_off(&mut world, usage_limit(), 2);
    assert_eq!(told, ["work_suspended", "agent_released", "quota_paused"]);
    assert_eq!((work(&world).agent, work(&world).starts), (Some(AgentId::new(1)), 0));
    assert_eq!(world.job.map.as_ref().unwrap().suspended(), 1);
    restart(&mut world);
    assert_eq!(work(&world).starts, 1);
}

#[test]
fn work_without_a_further_finished_step_is_given_up_after_its_restarts() {
    let mut world = under_way();
    for _ in 0..5 {
        let told = cut_off(&mut world, usage_limit(), 2);
        assert!(told.contains(&"work_suspended"), "{told:?}");
        restart(&mut world);
    }
    let told = cut_off(&mut world, usage_limit(), 2);
    assert_eq!(told, ["agent_failed", "item_dead_lettered"]);
    let died = world.job.map.as_ref().unwrap().item(0).unwrap();
    assert_eq!((&died.stage, &died.suspended), (&ItemStage::DeadLettered, &None));
}

#[test]
fn a_further_finished_step_begins_the_count_anew() {
    let mut world = under_way();
    for finished in 0..20 {
        cut_off(&mut world, usage_limit(), finished);
        assert_eq!(work(&world).cut_offs, 1);
        restart(&mut world);
    }
}

#[test]
fn a_spent_budget_suspends_without_counting() {
    let mut world = under_way();
    let spent = BudgetOverrun { scope: BudgetScope::Job, limit_usd: 1.0, spent_usd: 2.0 };
    for _ in 0..9 {
        let told = cut_off(&mut world, SuspensionCause::Budget(spent), 0);
        assert_eq!(told.first(), Some(&"work_suspended"));
        assert_eq!(work(&world).cut_offs, 0);
        restart(&mut world);
    }
    assert_eq!(world.job.overspent, Some(spent));
}

#[test]
fn other_items_leave_the_worktree_of_suspended_work_alone() {
    let fates = vec![SimulatedOutcome::Limited, SimulatedOutcome::Limited, SimulatedOutcome::Hangs];
    let mut world = JobHarness { max_parallel: 1, ..JobHarness::new(2, lenient(), fates) };
    world.run(usize::MAX);
    let map = world.job.map.as_ref().unwrap();
    let reserved = map.item(0).and_then(|item| item.suspended.as_deref()).unwrap().agent;
    assert_eq!(reserved, Some(AgentId::new(1)));
    // The other item tries whether the limit is lifted, in a worktree of its own.
    assert_eq!(map.running(), &BTreeMap::from([(AgentId::new(2), 1)]));
}
