//! `prodigy repair`.

use insta::assert_snapshot;

use crate::fixture::journal::{
    completed, damage, failed, hold, layout, record, segment, tear, world,
};

#[test]
fn a_whole_journal_needs_no_repair() {
    let world = world();
    record(&layout(&world), "job-1", &failed());
    assert_snapshot!(world.prodigy(&["repair", "job-1"]), @"the journal of job `job-1` is intact; there is nothing to repair");
    assert_snapshot!(world.prodigy(&["repair", "job-1", "--dry-run"]), @"the journal of job `job-1` is intact; there is nothing to repair");
}

#[test]
fn a_dry_run_changes_nothing() {
    let world = world();
    let layout = layout(&world);
    record(&layout, "job-1", &failed());
    damage(&layout, "job-1", 6);
    let before = std::fs::read(segment(&layout, "job-1")).unwrap();
    assert_snapshot!(world.prodigy(&["repair", "job-1", "--dry-run"]), @"
    $ROOT/home/events/repo/job-1/events-20260102T030405Z.jsonl line 6: the checksum does not match
    a repair would keep 5 records
    left out: 2 records behind the damage
    ");
    assert_eq!(std::fs::read(segment(&layout, "job-1")).unwrap(), before);
    assert_eq!(std::fs::read_dir(world.home().join("events/repo")).unwrap().count(), 1);
}

#[test]
fn the_records_before_the_damage_are_kept_and_the_rest_is_moved_aside() {
    let world = world();
    let layout = layout(&world);
    record(&layout, "job-1", &failed());
    damage(&layout, "job-1", 6);
    let before = std::fs::read(segment(&layout, "job-1")).unwrap();
    let seen = world.prodigy(&["repair", "job-1"]);
    let aside = seen.stdout.lines().last().unwrap().rsplit_once('/').unwrap().1.to_owned();
    assert_snapshot!(seen.to_string().replace(&aside, "[ASIDE]"), @"
    $ROOT/home/events/repo/job-1/events-20260102T030405Z.jsonl line 6: the checksum does not match
    kept 5 records
    left out: 2 records behind the damage
    the journal as it was is in $ROOT/home/events/repo/[ASIDE]
    ----- stderr -----

    next: `prodigy resume job-1` goes on from the last record kept
    ");
    assert!(aside.starts_with("job-1~damaged-20"), "{aside}");
    let aside = world.home().join("events/repo").join(aside);
    assert_eq!(std::fs::read(aside.join("events-20260102T030405Z.jsonl")).unwrap(), before);
    assert_snapshot!(world.prodigy(&["events", "job-1", "--limit", "1"]), @"
    2026-01-02 UTC
    03:04:06.207  step_completed      1  shell: cargo fmt  1.2s
    ");
    assert_snapshot!(world.prodigy(&["jobs"]), @"
    JOB    STATUS       WORKFLOW  STEPS  STARTED           TOOK
    job-1  interrupted  tidy.yml  1/3    2026-01-02 03:04  1.2s
    ");
}

#[test]
fn a_torn_end_is_told_from_damage() {
    let world = world();
    let layout = layout(&world);
    record(&layout, "job-1", &completed());
    tear(&layout, "job-1", 7);
    assert_snapshot!(world.prodigy(&["repair", "job-1", "--dry-run"]), @"
    $ROOT/home/events/repo/job-1/events-20260102T030405Z.jsonl line 15: it is not finished
    it is the end that a crash tore off; `prodigy resume` cuts it by itself
    a repair would keep 14 records
    ");
}

#[test]
fn a_running_job_is_not_repaired() {
    let world = world();
    let layout = layout(&world);
    record(&layout, "job-1", &failed());
    damage(&layout, "job-1", 6);
    let _lock = hold(&layout, "job-1");
    let seen = world.prodigy(&["repair", "job-1"]).to_string();
    let (before, rest) = seen.split_once("held by process ").unwrap();
    let (_, after) = rest.split_once('\n').unwrap();
    assert_snapshot!(format!("{before}held by process [HOLDER]\n{after}"), @"
    ----- stderr -----
    error: job `job-1` is held by process [HOLDER]

    hint: `prodigy events job-1 --follow` shows what it does
    [exit 75]
    ");
}

#[test]
fn a_journal_without_one_good_record_is_left_alone() {
    let world = world();
    let layout = layout(&world);
    record(&layout, "job-1", &failed());
    damage(&layout, "job-1", 1);
    assert_snapshot!(world.prodigy(&["repair", "job-1"]), @"
    ----- stderr -----
    error: nothing of job `job-1` can be kept: `$ROOT/home/events/repo/job-1/events-20260102T030405Z.jsonl` is damaged at line 1

    hint: start the job again with `prodigy run WORKFLOW`
    [exit 1]
    ");
}
