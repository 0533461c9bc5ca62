//! Any history, with runs that are killed at any moment.

use prodigy_core::job::Job;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::fixture::{
    DlqHarness, completed, died, fact, failed, granted, kept, merged, replayed, requested, started,
};
use crate::store::dlq::fsck;

/// Something that happens in the world.
#[derive(Clone, Debug)]
enum Happening {
    /// To an item, if it can.
    Item(usize, Value),
    /// The run ends, and another takes the job up.
    Next { killed: bool, wiped: bool },
    /// Everything so far is written.
    Settled,
}

fn any_happening() -> impl Strategy<Value = Happening> {
    let event = prop_oneof![
        5 => (1_u32..4).prop_map(started),
        4 => (1_u32..4).prop_map(failed),
        3 => (1_u32..4).prop_map(died),
        2 => (1_u32..4).prop_map(replayed),
        3 => any_word(),
        2 => (1_u32..4).prop_map(|attempt| completed(attempt, true)),
        1 => (1_u32..4).prop_map(|attempt| completed(attempt, false)),
        2 => Just(merged()),
        1 => Just(kept()),
        1 => Just(json!({"event_type": "merge_conflict", "target": "t", "paths": ["a"]})),
        1 => Just(json!({
            "event_type": "agent_retrying", "attempt": 2, "delay_ms": 0,
            "retry_at": "2026-01-02T03:04:05Z", "reason": "again",
        })),
        1 => Just(json!({
            "event_type": "agent_usage", "step": "1", "agent": "claude", "cost_usd": 0.5,
        })),
    ];
    prop_oneof![
        12 => (1_usize..=3, event).prop_map(|(item, event)| Happening::Item(item, event)),
        1 => any::<(bool, bool)>()
            .prop_map(|(killed, wiped)| Happening::Next { killed, wiped: killed && wiped }),
        1 => Just(Happening::Settled),
    ]
}

/// Returns something that somebody says to a replay, or the replay that relies on it.
fn any_word() -> impl Strategy<Value = Value> {
    prop_oneof![
        2 => Just(requested("sha256:aa")),
        2 => Just(granted("sha256:aa", "carol")),
        1 => Just(granted("sha256:bb", "dan")),
        1 => Just(json!({
            "event_type": "approval_denied", "digest": "sha256:aa", "by": "eve",
            "identity": "asserted", "reason": "no",
        })),
        2 => (1_u32..4).prop_map(|replay| {
            let mut replayed = replayed(replay);
            replayed["allowed"] = json!({
                "rule": "denied", "policy_snapshot": "sha256:dd", "approval": "sha256:aa",
            });
            replayed
        }),
    ]
}

/// Returns whether something can happen to an item now.
fn is_possible(world: &DlqHarness, item: usize, event: &Value) -> bool {
    let mut job = Job::default();
    let records = world.home.records();
    for record in &records {
        job.apply(record).unwrap();
    }
    let mut next = records.last().unwrap().clone();
    let happened = fact(Some(world.item(item)), event.clone());
    (next.seq, next.event) = (next.seq + 1, happened.event);
    (next.agent_id, next.item_id) = (happened.agent_id, happened.item_id);
    job.apply(&next).is_ok()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever happened and whenever runs were killed, the files say what the journal says.
    #[test]
    fn the_files_always_come_to_what_the_journal_says(
        happenings in prop::collection::vec(any_happening(), 1..40),
    ) {
        let world = DlqHarness::new(&["1", "[2]", "{}"]);
        let directory = world.home.layout.dlq_dir(&world.home.job);
        let mut run = world.begin();
        for happening in &happenings {
            match happening {
                Happening::Item(item, event) if is_possible(&world, *item, event) => {
                    run.happen(*item, std::slice::from_ref(event));
                }
                Happening::Item(..) => {}
                Happening::Settled => run.settle(),
                Happening::Next { killed, wiped } => {
                    if *killed {
                        run.die();
                    } else {
                        run.finish();
                    }
                    if *wiped {
                        // What a killed run had in mind does not count.
                        std::fs::remove_dir_all(&directory).ok();
                    }
                    run = world.resume();
                }
            }
        }
        run.finish();
        prop_assert_eq!(run.problem(), None);
        let by_name = |world: &DlqHarness| {
            let list = world.list();
            let mut lines: Vec<String> = list.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        // Looking at the list completes the files.
        let list = by_name(&world);
        let files = world.files();
        let report = fsck(&world.home.layout, &world.home.job, false).unwrap();
        prop_assert!(report.is_clean() && report.foreign.is_empty(), "{report:?}");
        std::fs::remove_dir_all(&directory).ok();
        prop_assert_eq!(by_name(&world), list);
        prop_assert_eq!(world.files(), files);
    }
}
