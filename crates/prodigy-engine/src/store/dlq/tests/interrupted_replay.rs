//! Replays whose run was killed, and taken up by another.

use serde_json::Value;

use super::fixture::{DlqHarness, completed, died, failed, merged, replayed, started};

/// Returns where the entry of an item stands after a replay was cut off behind some records and
/// another run went on with others. Somebody may have looked at the entries in between.
fn after(before: &[Value], look: bool, then: &[Value], another: bool) -> String {
    let world = DlqHarness::new(&["1", "2"]);
    let mut run = world.begin();
    run.happen(1, &[started(1), failed(1), died(1)]);
    run.finish();
    let mut run = world.resume();
    run.happen(1, &[&[replayed(1)], before].concat());
    drop(run);
    if look {
        world.queue();
    }
    let mut run = world.resume();
    run.happen(1, then);
    if another {
        run.happen(2, &[started(1), failed(1), died(1)]);
    }
    run.finish();
    world.histories().lines().next().unwrap().to_owned()
}

#[test]
fn a_replay_that_was_cut_off_anywhere_ends_as_the_journal_says() {
    let merging = [started(2), completed(2, true)];
    for (look, another) in [(false, false), (false, true), (true, false), (true, true)] {
        let after = |before: &[Value], then: &[Value]| after(before, look, then, another);
        assert_eq!(after(&merging, &[merged()]), "item-001 resolved: 1 command_failed");
        assert_eq!(
            after(&[], &[&merging[..], &[merged()]].concat()),
            "item-001 resolved: 1 command_failed"
        );
        let lost = "item-001 resolved: 1 command_failed, 2 interrupted";
        assert_eq!(after(&merging[..1], &[&merging[..], &[merged()]].concat()), lost);
        assert_eq!(after(&merging[..1], &[started(2), completed(2, false)]), lost);
        assert_eq!(
            after(&merging[..1], &[started(2), failed(2), died(2)]),
            "item-001 open: 1 command_failed, 2 interrupted, 2 command_failed"
        );
    }
}
