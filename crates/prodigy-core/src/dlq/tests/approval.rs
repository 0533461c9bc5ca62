//! Tests of approvals in a DLQ entry.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::apply::{died, entry, failed, removed, replayed, started};
use crate::dlq::*;

/// Returns something that is said to a replay, or the replay that relies on it.
pub(crate) fn any_word() -> impl Strategy<Value = Value> {
    prop_oneof![Just("sha256:aa"), Just("sha256:bb")].prop_flat_map(|digest| {
        prop_oneof![
            Just(requested(digest, "ben")),
            Just(granted(digest, "carol")),
            Just(granted(digest, "dan")),
            Just(denied(digest, "eve")),
            (1_u32..4).prop_map(move |replay| replayed_with(replay, digest)),
        ]
    })
}

fn requested(digest: &str, by: &str) -> Value {
    json!({
        "event_type": "approval_requested", "digest": digest, "by": by, "rule": "denied",
        "policy_snapshot": "sha256:dd", "workflow_hash": "abab", "group": "governance",
        "needed": 1, "expires_at": "2026-01-02T04:00:00Z",
    })
}

fn granted(digest: &str, by: &str) -> Value {
    json!({"event_type": "approval_granted", "digest": digest, "by": by, "identity": "asserted"})
}

fn denied(digest: &str, by: &str) -> Value {
    json!({
        "event_type": "approval_denied", "digest": digest, "by": by, "identity": "asserted",
        "reason": "not before Monday",
    })
}

fn replayed_with(replay: u32, digest: &str) -> Value {
    let allowed = json!({"rule": "denied", "policy_snapshot": "sha256:dd", "approval": digest});
    json!({"event_type": "replay_started", "replay": replay, "by": "ben", "allowed": allowed})
}

/// Shows what people said to a replay of an entry.
fn words(entry: &DeadLetteredItem) -> String {
    let Some(approval) = &entry.approval else { return "nobody was asked".to_owned() };
    let grants: Vec<_> = approval.grants.iter().map(|grant| grant.by.as_str()).collect();
    let rejection = approval.rejection.as_ref();
    format!(
        "{} asked by {}, {:?} agreed, {} against{} | revision {}, seq {}",
        approval.digest,
        approval.requested_by,
        grants,
        rejection.map_or("nobody", |rejection| rejection.by.as_str()),
        if approval.consumed { ", used up" } else { "" },
        entry.revision,
        entry.journal_seq,
    )
}

#[test]
fn what_people_say_to_a_replay_is_in_the_entry_and_does_not_change_what_they_were_shown() {
    let mut events = vec![started(1, 1), failed(1, "x"), died(1, "denied", "x")];
    let shown = entry(&events).unwrap().content_hash();
    let mut seen = Vec::new();
    for event in [
        requested("sha256:aa", "ben"),
        granted("sha256:aa", "carol"),
        // This one is about something that is not asked for any more.
        granted("sha256:ff", "dan"),
        denied("sha256:aa", "eve"),
        denied("sha256:aa", "finn"),
        requested("sha256:bb", "ben"),
        granted("sha256:bb", "carol"),
    ] {
        events.push(event);
        let entry = entry(&events).unwrap();
        assert_eq!(entry.content_hash(), shown);
        seen.push(words(&entry));
    }
    insta::assert_snapshot!(seen.join("\n"), @r#"
    sha256:aa asked by ben, [] agreed, nobody against | revision 1, seq 4
    sha256:aa asked by ben, ["carol"] agreed, nobody against | revision 1, seq 5
    sha256:aa asked by ben, ["carol"] agreed, nobody against | revision 1, seq 6
    sha256:aa asked by ben, ["carol"] agreed, eve against | revision 1, seq 7
    sha256:aa asked by ben, ["carol"] agreed, eve against | revision 1, seq 8
    sha256:bb asked by ben, [] agreed, nobody against | revision 1, seq 9
    sha256:bb asked by ben, ["carol"] agreed, nobody against | revision 1, seq 10
    "#);
    events.push(removed("dropped"));
    assert_ne!(entry(&events).unwrap().content_hash(), shown);
}

#[test]
fn a_replay_uses_up_what_was_agreed_to_and_nothing_else() {
    let asked = [
        started(1, 1),
        failed(1, "x"),
        died(1, "denied", "x"),
        requested("sha256:aa", "ben"),
        granted("sha256:aa", "carol"),
    ];
    let with = |more: &[Value]| words(&entry(&[&asked, more].concat()).unwrap());
    let again = [started(2, 1), failed(2, "y"), died(2, "denied", "y")];
    let seen = [
        with(&[replayed_with(1, "sha256:aa")]),
        with(&[&[replayed_with(1, "sha256:aa")], &again[..]].concat()),
        // The rules were others by then: the replay did not need it.
        with(&[replayed(1)]),
        with(&[&[replayed(1)], &again[..]].concat()),
        // While it is being replayed there is nothing to agree to.
        with(&[replayed(1), requested("sha256:bb", "ben"), granted("sha256:aa", "eve")]),
    ];
    insta::assert_snapshot!(seen.join("\n"), @r#"
    sha256:aa asked by ben, ["carol"] agreed, nobody against, used up | revision 2, seq 6
    sha256:aa asked by ben, ["carol"] agreed, nobody against, used up | revision 4, seq 9
    sha256:aa asked by ben, ["carol"] agreed, nobody against | revision 2, seq 6
    nobody was asked
    sha256:aa asked by ben, ["carol"] agreed, nobody against | revision 2, seq 6
    "#);
}
