//! An item fails for good only once what it left is safe.

use super::{replays::plain, *};

/// Returns a world in which the first item is under way.
fn under_way(policy: ErrorPolicy) -> World {
    let mut world = World::new(1, policy, vec![Fate::Hangs]);
    world.run(usize::MAX);
    world
}

/// Returns what follows from a failure of the first item.
fn failed_now(world: &mut World, secured: bool) -> Decision {
    let mut input = failed(AgentId::new(1), 0, Fate::Fails);
    if let ItemInput::Failed { secured: is, .. } = &mut input {
        *is = secured;
    }
    world.tell(Input::Item(input))
}

#[test]
fn nothing_is_written_before_what_a_failed_item_left_is_safe() {
    let mut world = under_way(plain());
    let decision = failed_now(&mut world, false);
    let secure = Action::Item(ItemAction::Secure { agent: AgentId::new(1) });
    assert_eq!((decision.facts, decision.actions), (vec![], vec![secure]));
    let decision = failed_now(&mut world, true);
    let kinds: Vec<_> = decision.facts.iter().map(|fact| fact.event.event_type()).collect();
    assert_eq!(kinds, ["agent_failed", "item_dead_lettered"]);
}
