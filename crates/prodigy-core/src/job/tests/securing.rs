//! An item fails for good only once what it left is safe.

use super::{replays::plain, *};
use crate::event::PauseReason;

/// Returns a world in which the first item is under way.
fn under_way(policy: ErrorPolicy) -> JobHarness {
    let mut world = JobHarness::new(1, policy, vec![SimulatedOutcome::Hangs]);
    world.run(usize::MAX);
    world
}

/// Returns what follows from a failure of the first item.
fn failed_now(world: &mut JobHarness, secured: bool) -> Decision {
    let mut input = failed(AgentId::new(1), 0, SimulatedOutcome::Fails);
    if let ItemInput::Failed { secured: is, .. } = &mut input {
        *is = secured;
    }
    world.tell(JobInput::Item(input))
}

#[test]
fn nothing_is_written_before_what_a_failed_item_left_is_safe() {
    let mut world = under_way(plain());
    let decision = failed_now(&mut world, false);
    let secure = JobAction::Item(ItemAction::Secure { agent: AgentId::new(1), goes_on: false });
    assert_eq!((decision.facts, decision.actions), (vec![], vec![secure]));
    let decision = failed_now(&mut world, true);
    let kinds: Vec<_> = decision.facts.iter().map(|fact| fact.event.event_type()).collect();
    assert_eq!(kinds, ["agent_failed", "item_dead_lettered"]);
}

#[test]
fn a_handler_that_was_cut_off_runs_once_more_and_the_item_is_not_tried_again() {
    let policy =
        ErrorPolicy { on_item_failure: OnItemFailure::Custom("mend".to_owned()), ..plain() };
    let mut world =
        JobHarness::new(1, policy, vec![SimulatedOutcome::Fails, SimulatedOutcome::Hangs]);
    world.run(usize::MAX);
    for _ in 0..2 {
        world.write(resumed().into());
        // Stopped before the handler could run again.
        let paused = Event::JobPaused { reason: PauseReason::Interrupted, message: "stop".into() };
        world.write(paused.into());
    }
    world.write(resumed().into());
    assert_eq!(world.run(usize::MAX), Some(RunOutcome::Completed));
    let count = |kind| world.journal.iter().filter(|r| r.event.event_type() == kind).count();
    let counts = ["agent_started", "agent_failed", "handler_restarted", "item_skipped"].map(count);
    assert_eq!(counts, [1, 1, 1, 1]);
}

fn resumed() -> Event {
    Event::JobResumed {
        version: "0".into(),
        workflow: None,
        reopened: None,
        found: None,
        budget: None,
        options: None,
        into: None,
        try_now: false,
    }
}
