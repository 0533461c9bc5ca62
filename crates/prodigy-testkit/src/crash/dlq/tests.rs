//! Journals, ledgers and dead letters that do not fit each other.

use serde_json::{Value, json};

use super::{entry_snapshot, journal::DlqJournal};

/// Makes a journal of events; `event item attempt` or only `event`.
fn journal(events: &[&str]) -> String {
    let mut text = String::new();
    for (index, event) in events.iter().enumerate() {
        let mut words = event.split(' ');
        let mut record = json!({"seq": index + 1, "event_type": words.next()});
        if let Some(item) = words.next() {
            record["item_id"] = item.into();
        }
        if let Some(attempt) = words.next() {
            record["attempt"] = attempt.parse::<u32>().unwrap().into();
            record["head"] = attempt.into();
        }
        if event.starts_with("item_dead_lettered") {
            record["failure"] = json!({"kind": words.next().unwrap_or("command_failed")});
        }
        text = format!("{text}{record}\n");
    }
    text
}

fn told(events: &[&str]) -> String {
    match DlqJournal::read(&journal(events)) {
        Ok(story) => {
            let show = |(id, life): (&String, &super::journal::DlqItemHistory)| {
                format!("{id} {:?} {:?} {}", life.status(), life.failures, life.replays)
            };
            story.items.iter().map(show).collect::<Vec<_>>().join(", ")
        }
        Err(message) => message,
    }
}

const DIED: [&str; 3] = ["agent_started a 1", "agent_failed a 1", "item_dead_lettered a"];

#[test]
fn a_journal_says_where_each_dead_letter_stands() {
    let and = |more: &[&str]| told(&[&DIED[..], more].concat());
    assert_eq!(told(&["agent_started a 1"]), "a None [] 0");
    assert_eq!(told(&["agent_started a 1", "agent_started a 1"]), "a None [1] 0");
    assert_eq!(and(&[]), r#"a Some("open") [1] 0"#);
    assert_eq!(and(&["replay_started a"]), r#"a Some("replaying") [1] 1"#);
    let again =
        ["replay_started a", "agent_started a 2", "agent_started a 2", "agent_completed a 2"];
    assert_eq!(and(&again), r#"a Some("replaying") [1, 2] 1"#);
    assert_eq!(
        and(&[&again[..], &["worktree_merged a"]].concat()),
        r#"a Some("resolved") [1, 2] 1"#
    );
    assert_eq!(and(&["dlq_item_removed a"]), r#"a Some("dropped") [1] 0"#);
}

#[test]
fn what_happens_out_of_turn_is_noticed() {
    let and = |more: &[&str]| told(&[&DIED[..], more].concat());
    insta::assert_snapshot!(and(&["agent_started a 2"]), @r#"a was started although nothing was left to do: {"seq":4,"event_type":"agent_started","item_id":"a","attempt":2,"head":"2"}"#);
    insta::assert_snapshot!(and(&["item_dead_lettered a"]), @r#"a died although it was over: {"seq":4,"event_type":"item_dead_lettered","item_id":"a","failure":{"kind":"command_failed"}}"#);
    insta::assert_snapshot!(told(&["agent_started a 1", "replay_started a"]), @r#"a was replayed although it was no dead letter: {"seq":2,"event_type":"replay_started","item_id":"a"}"#);
    insta::assert_snapshot!(and(&["replay_started a", "worktree_merged a", "worktree_merged a"]), @r#"a was merged although it was over: {"seq":6,"event_type":"worktree_merged","item_id":"a"}"#);
    insta::assert_snapshot!(and(&["replay_started a", "replay_started a"]), @r#"a was replayed although it was no dead letter: {"seq":5,"event_type":"replay_started","item_id":"a"}"#);
}

#[test]
fn updates_of_the_checkout_without_a_merge_are_told() {
    let cut_off = |events: &[(&str, &str)]| {
        let lines = events.iter().zip(1..).map(|((kind, new), seq)| {
            format!("{}\n", json!({"seq": seq, "event_type": kind, "new": new}))
        });
        DlqJournal::read(&lines.collect::<String>()).unwrap().cut_off_updates.join(" ")
    };
    let (begun, merged) = ("checkout_update_started", ("worktree_merged", ""));
    assert_eq!(cut_off(&[(begun, "a"), merged]), "");
    assert_eq!(cut_off(&[(begun, "a"), (begun, "a"), merged]), "");
    assert_eq!(cut_off(&[(begun, "a"), (begun, "b"), merged]), "a");
    assert_eq!(cut_off(&[(begun, "a"), merged, (begun, "b")]), "b");
}

/// Returns what is wrong with dead letters beside a journal.
fn compared(letters: &[&Value], events: &[&str]) -> String {
    let story = DlqJournal::read(&journal(events)).unwrap();
    let text = letters.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    let checked = entry_snapshot::parse_entries(&text)
        .and_then(|entries| entry_snapshot::check(&entries, &story));
    checked.err().unwrap_or_else(|| "fine".to_owned())
}

#[test]
fn dead_letters_that_say_something_else_than_the_journal_are_noticed() {
    let letter = json!({
        "item_id": "a",
        "status": "open",
        "replays": 0,
        "reprocess_eligible": true,
        "failure_history": [{"attempt_number": 1}],
    });
    let with = |key: &str, value: Value| {
        let mut letter = letter.clone();
        letter[key] = value;
        compared(&[&letter], &DIED)
    };
    assert_eq!(compared(&[&letter], &DIED), "fine");
    insta::assert_snapshot!(compared(&[], &DIED), @r#"the entry of a is None instead of Some("open"): DlqItemHistory { stage: Dead, deaths: 1, replays: 0, attempts: {1}, failures: [1], failed: {1}, reason: "command_failed", at_work: None }"#);
    insta::assert_snapshot!(compared(&[&letter, &letter], &DIED), @"a has two entries");
    insta::assert_snapshot!(compared(&[&letter], &["agent_started a 1"]), @r#"the entry of a is Some("open") instead of None: DlqItemHistory { stage: Waiting, deaths: 0, replays: 0, attempts: {1}, failures: [], failed: {}, reason: "", at_work: Some(1) }"#);
    insta::assert_snapshot!(compared(&[&letter], &["job_started"]), @r#"entries of unknown items: ["a"]"#);
    insta::assert_snapshot!(with("status", "resolved".into()), @r#"the entry of a is Some("resolved") instead of Some("open"): DlqItemHistory { stage: Dead, deaths: 1, replays: 0, attempts: {1}, failures: [1], failed: {1}, reason: "command_failed", at_work: None }"#);
    insta::assert_snapshot!(with("failure_history", json!([])), @r#"a: EntrySnapshot { status: "open", is_refused: false, history: [], replays: 0 } does not have what happened: DlqItemHistory { stage: Dead, deaths: 1, replays: 0, attempts: {1}, failures: [1], failed: {1}, reason: "command_failed", at_work: None }"#);
    insta::assert_snapshot!(with("replays", 1.into()), @r#"a: EntrySnapshot { status: "open", is_refused: false, history: [1], replays: 1 } does not have what happened: DlqItemHistory { stage: Dead, deaths: 1, replays: 0, attempts: {1}, failures: [1], failed: {1}, reason: "command_failed", at_work: None }"#);
    insta::assert_snapshot!(with("reprocess_eligible", false.into()), @r#"a: EntrySnapshot { status: "open", is_refused: true, history: [1], replays: 0 } is not replayed as it should be: DlqItemHistory { stage: Dead, deaths: 1, replays: 0, attempts: {1}, failures: [1], failed: {1}, reason: "command_failed", at_work: None }"#);
}
