//! Tests of the conditions that raise an alert, and of those that do not.

use super::*;
use crate::{
    Timestamp,
    audit::{AuditAction, AuditOutcome, AuditRecord, ChainHead, IdentityKind, NewAuditRecord},
    dlq::{CommitState, EntryStatus},
    failure::ReasonCode,
    replay::HealthSample,
};

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;

/// Returns a moment so many seconds ago.
fn ago(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_767_323_045 - seconds).unwrap()
}

/// One or more dead letters that are alike.
#[derive(Clone, Copy)]
struct SampleEntries {
    count: u64,
    ago: i64,
    status: EntryStatus,
    reason: ReasonCode,
    commit_state: CommitState,
}

impl Default for SampleEntries {
    fn default() -> Self {
        Self {
            count: 1,
            ago: 2 * HOUR,
            status: EntryStatus::Open,
            reason: ReasonCode::CommandFailed,
            commit_state: CommitState::Local,
        }
    }
}

fn vitals(all: &[SampleEntries]) -> DlqHealth {
    let mut vitals = DlqHealth::new(ago(0));
    for dead in all {
        for number in 0..dead.count {
            vitals.add(&HealthSample {
                owner: None,
                job: &"job".parse().unwrap(),
                item: &format!("item-{number:03}").parse().unwrap(),
                status: dead.status,
                reason_code: dead.reason,
                at: ago(dead.ago),
                commit_state: dead.commit_state,
            });
        }
    }
    vitals
}

fn record(
    outcome: AuditOutcome,
    action: AuditAction,
    entries: Option<u64>,
    at: i64,
) -> AuditRecord {
    let job = "job".parse().unwrap();
    let said = NewAuditRecord::new("ada", IdentityKind::Asserted, action, job);
    ChainHead::start().append(NewAuditRecord { entries, outcome, ..said }, ago(at))
}

fn told(vitals: &DlqHealth) -> String {
    let alerts = alerts(vitals, &AlertRules::recommended());
    let lines = alerts.iter().map(|one| format!("{}: {}", one.kind.name(), one.text));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_long_queue_alone_is_no_reason() {
    let dead = SampleEntries { count: 100_000, ..SampleEntries::default() };
    assert_eq!(told(&vitals(&[dead])), "");
    assert_eq!(vitals(&[dead]).open(), 100_000);
    assert_eq!(told(&vitals(&[])), "");
}

#[test]
fn growth_counts_above_the_limit_and_above_what_is_usual() {
    let lately = |count| SampleEntries { count, ago: 9 * MINUTE, ..SampleEntries::default() };
    let before = |count| SampleEntries { count, ago: 11 * MINUTE, ..SampleEntries::default() };
    assert_eq!(told(&vitals(&[lately(50)])), "");
    insta::assert_snapshot!(told(&vitals(&[lately(51), before(144)])), @"growth: 5.1 items failed per minute in the last 10 minutes, more than 5 and more than 3 times the 0.10 of the day before");
    // 1440 minutes with 1.7 each are as many as to make 5.1 no more than three times that.
    assert_eq!(told(&vitals(&[lately(51), before(2448)])), "");
    // What is closed by now has died all the same; what is older than a day does not count.
    let closed = SampleEntries { status: EntryStatus::Resolved, ..lately(51) };
    let old = SampleEntries { ago: 25 * HOUR, status: EntryStatus::Dropped, ..before(5000) };
    assert!(told(&vitals(&[closed, old])).starts_with("growth: "));
    // A clock that was set back must not hide anything.
    assert!(told(&vitals(&[SampleEntries { ago: -HOUR, ..lately(51) }])).starts_with("growth: "));
}

#[test]
fn denials_count_if_there_are_enough_decisions() {
    use AuditAction::{Drop, Replay};
    use AuditOutcome::{Denied, Done, Failed, Intended, Refused};
    let of = |records: &[AuditRecord]| {
        let mut vitals = vitals(&[]);
        for record in records {
            vitals.add_audit_record(record);
        }
        vitals
    };
    let four = record(Denied, Replay, Some(4), 0);
    assert_eq!(told(&of(std::slice::from_ref(&four))), "");
    let fifth = record(Refused, Replay, None, 59 * MINUTE);
    insta::assert_snapshot!(told(&of(&[four.clone(), fifth])), @"denials: 5 of 5 replays were denied in the last hour: 100%, more than 20%");
    let allowed = record(Intended, Replay, Some(16), 0);
    let ended = [record(Done, Replay, Some(9), 0), record(Failed, Replay, Some(7), 0)];
    let [done, failed] = ended;
    let most_allowed = of(&[four, allowed, done, failed]);
    assert_eq!((most_allowed.denied, most_allowed.decided), (4, 20));
    assert_eq!(told(&most_allowed), "");
    let others = [record(Denied, Drop, Some(50), 0), record(Denied, Replay, Some(50), HOUR)];
    assert_eq!(of(&others).decided, 0);
}

#[test]
fn what_is_unknown_for_long_is_grave() {
    let unknown =
        |ago| SampleEntries { ago, commit_state: CommitState::Unknown, ..SampleEntries::default() };
    assert_eq!(told(&vitals(&[unknown(30 * MINUTE)])), "");
    insta::assert_snapshot!(told(&vitals(&[unknown(10), unknown(31 * MINUTE + 7)])), @"unknown_commits: what `item-000` of job `job` changed outside has been unknown for 31m, longer than 30m; 2 in all");
    let closed = SampleEntries { status: EntryStatus::Resolved, ..unknown(HOUR) };
    assert_eq!(told(&vitals(&[closed])), "");
    let grave: Vec<_> = AlertKind::ALL.iter().filter(|kind| kind.is_critical()).collect();
    assert_eq!(grave, [&AlertKind::UnknownCommits, &AlertKind::Audit]);
}

#[test]
fn entries_without_a_reason_count_if_there_are_enough() {
    let unclassified = |count| SampleEntries {
        count,
        reason: ReasonCode::Unclassified,
        ..SampleEntries::default()
    };
    let known =
        |count| SampleEntries { count, status: EntryStatus::Replaying, ..SampleEntries::default() };
    assert_eq!(told(&vitals(&[unclassified(19)])), "");
    assert_eq!(told(&vitals(&[unclassified(1), known(19)])), "");
    insta::assert_snapshot!(told(&vitals(&[unclassified(2), known(18)])), @"unclassified: 2 of 20 entries have no known reason: 10%, more than 5%");
}

#[test]
fn an_entry_that_nobody_looks_at_is_told() {
    let dead = |ago| SampleEntries { ago, ..SampleEntries::default() };
    assert_eq!(told(&vitals(&[dead(24 * HOUR)])), "");
    insta::assert_snapshot!(told(&vitals(&[dead(5), dead(49 * HOUR)])), @"oldest: `item-000` of job `job` has been open for 2d 01h, longer than 1d 00h");
}

#[test]
fn a_trail_that_is_broken_comes_first() {
    let mut vitals = vitals(&[SampleEntries { ago: 49 * HOUR, ..SampleEntries::default() }]);
    vitals.audit_fault = Some("broken at line 3".to_owned());
    let kinds: Vec<_> =
        alerts(&vitals, &AlertRules::recommended()).iter().map(|one| one.kind).collect();
    assert_eq!(kinds, [AlertKind::Audit, AlertKind::Oldest]);
}

#[test]
fn what_no_rule_asks_for_is_not_told() {
    let everything = SampleEntries {
        count: 100,
        ago: 0,
        reason: ReasonCode::Unclassified,
        commit_state: CommitState::Unknown,
        ..SampleEntries::default()
    };
    let mut vitals = vitals(&[everything, SampleEntries { ago: 100 * HOUR, ..everything }]);
    vitals.add_audit_record(&record(AuditOutcome::Denied, AuditAction::Replay, Some(9), 0));
    assert_eq!(alerts(&vitals, &AlertRules::default()), []);
    let kinds: Vec<_> =
        alerts(&vitals, &AlertRules::recommended()).iter().map(|one| one.kind).collect();
    assert_eq!(kinds.len(), 5);
    for kind in AlertKind::ALL {
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
    }
}

#[test]
fn ages_and_shares_are_shown_as_people_say_them() {
    let ages = [7, 59, 60, 125, 3 * 3600 + 59].map(|age| format_age(Duration::from_secs(age)));
    insta::assert_snapshot!(ages.join(" "), @"7s 59s 1m 2m 3h 00m");
    insta::assert_snapshot!([0.0, 0.05, 0.052, 0.2, 1.0].map(format_percent).join(" "), @"0% 5% 5.2% 20% 100%");
}
