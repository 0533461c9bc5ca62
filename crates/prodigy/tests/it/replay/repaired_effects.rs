//! `prodigy repair` of a journal with records of changes outside.
#![expect(clippy::indexing_slicing, reason = "what is not there fails the test")]

use std::fs;

use prodigy_testkit::TestEnv;

use crate::fixture::{
    effects::{DIE, WITH_CHECK, effects, item_world, made, put, steps_world},
    map_job::{assert_code, go, resume},
    workflow::journal,
};

/// Has prodigy killed behind the change, damages the first record of a kind, and repairs.
///
/// With `is_lost` nothing of the record can be read.
fn repaired(world: &TestEnv, kind: &str, is_lost: bool) {
    put(world, "does.last", DIE);
    assert_eq!(go(world).code, None);
    assert_eq!(made(world), 1);
    let path = journal(world).remove(0);
    let mut bytes = fs::read(&path).unwrap();
    let text = String::from_utf8(bytes.clone()).unwrap();
    let at = text.find(&format!("\"event_type\":\"{kind}\"")).unwrap();
    let mark = if is_lost { "event_type" } else { "\"crc\":\"" };
    let at = at + text[at..].find(mark).unwrap() + mark.len();
    bytes[at] ^= 1;
    fs::write(&path, bytes).unwrap();
    assert_code(&world.prodigy(&["resume", "job"]), 1);
    assert_code(&world.prodigy(&["repair", "job"]), 0);
}

#[test]
fn repair_keeps_what_was_changed_outside() {
    for text in ["agent_started", "item_queued", "items_selected", "worktree_created"] {
        let world = item_world("");
        repaired(&world, text, false);
        assert_code(&resume(&world), 0);
        assert_eq!(made(&world), 1, "{text}: {}", effects(&world));
        assert_code(&world.prodigy(&["verify", "job"]), 0);
    }
    for text in ["step_started", "worktree_created"] {
        let world = steps_world("");
        repaired(&world, text, false);
        assert_code(&resume(&world), 0);
        assert_eq!(made(&world), 1, "{text}: {}", effects(&world));
    }
}

#[test]
fn damaged_record_of_a_change_is_unknown() {
    for (kind, is_lost, more, code) in [
        ("effect_prepared", false, "", 0),
        ("effect_prepared", true, "", 1),
        ("effect_committed", false, "", 1),
        ("effect_committed", true, "", 1),
        ("effect_committed", false, WITH_CHECK, 1),
    ] {
        let world = item_world(more);
        repaired(&world, kind, is_lost);
        assert_code(&resume(&world), code);
        assert_eq!(made(&world), 1, "{kind} {is_lost}: {}", effects(&world));
        assert_code(&world.prodigy(&["verify", "job"]), 0);
    }
}
