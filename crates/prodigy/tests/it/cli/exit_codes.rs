//! Exit codes that tell a job which achieved something from one that did not.

use std::fs;

use insta::assert_snapshot;
use prodigy_testkit::{CommandOutput, TestEnv};

use crate::fixture::{
    map_job::{assert_code, go, map_world, resume},
    workflow::stable,
};

/// Makes a world whose items succeed if a file of their name is beside the repository.
fn picky(items: &str, policy: &str) -> TestEnv {
    map_world(&format!(
        "map:\n  input: {{ items: {items} }}\n  max_parallel: 1\n  agent_template:\n    - shell: test -e \"ROOT/${{item}}\"\n{policy}"
    ))
}

const SKIP: &str = "error_policy:\n  on_item_failure: skip\n";

/// Lets an item succeed from now on.
fn help(world: &TestEnv, item: &str) {
    fs::write(world.root().join(item), "").unwrap();
}

fn go_with(world: &TestEnv, more: &[&str]) -> CommandOutput {
    let args = ["run", "workflow.yml", "-y", "--job-id", "job"];
    world.prodigy(&[&args, more].concat())
}

fn retry(world: &TestEnv, more: &[&str]) -> CommandOutput {
    world.prodigy(&[&["dlq", "retry", "job", "-y"], more].concat())
}

/// Returns the lines behind the headline of the summary.
fn ending(seen: &CommandOutput) -> String {
    let text = stable(seen);
    let ending = text.lines().skip_while(|line| !line.is_empty()).skip(1);
    ending.filter(|line| !line.starts_with("dead letters: ")).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_job_in_which_no_item_succeeds_exits_with_1() {
    let world = picky("[a, b]", "");
    let seen = go(&world);
    assert_snapshot!(ending(&seen), @r#"
    failed: no item succeeded · 0 of 2 items done · [time]
    items: 0 successful, 2 in the DLQ
    failures:
      command_failed: `test -e "$ROOT/${item}"` failed with exit code 1  item-001, item-002
    nothing to merge: the steps made no commit
    next: prodigy dlq show job
    [exit 1]
    "#);
}

#[test]
fn a_job_in_which_one_item_succeeds_exits_with_0() {
    let world = picky("[a, b]", "");
    help(&world, "a");
    assert_code(&go(&world), 0);
}

#[test]
fn fail_on_dlq_comes_before_no_success() {
    assert_code(&go_with(&picky("[a, b]", ""), &["--fail-on-dlq"]), 3);
}

#[test]
fn a_job_in_which_all_items_are_skipped_exits_with_1() {
    let world = picky("[a, b]", SKIP);
    let seen = go_with(&world, &["--fail-on-dlq"]);
    assert_snapshot!(ending(&seen), @r#"
    failed: no item succeeded · 0 of 2 items done · [time]
    items: 0 successful, 2 left out
    failures:
      command_failed: `test -e "$ROOT/${item}"` failed with exit code 1  item-001, item-002
    nothing to merge: the steps made no commit
    next: prodigy events job --type item_skipped
    [exit 1]
    "#);
}

#[test]
fn a_job_without_items_exits_with_0() {
    assert_code(&go(&picky("[]", "")), 0);
}

#[test]
fn a_batch_in_which_no_file_succeeds_exits_with_1() {
    let world = picky("[a]", "");
    assert_code(&world.prodigy(&["batch", "*.md", "-c", "false", "-y"]), 1);
}

#[test]
fn a_rehearsal_exits_as_the_run_would() {
    for (helped, more, code) in [
        (&[][..], &[][..], 1),
        (&["a"], &[], 0),
        (&["a"], &["--fail-on-dlq"], 3),
        (&[], &["--fail-on-dlq"], 3),
    ] {
        let world = picky("[a, b]", "");
        for item in helped {
            help(&world, item);
        }
        let rehearsal = world.prodigy(&[&["simulate", "workflow.yml"], more].concat());
        assert_code(&rehearsal, code);
        assert_code(&go_with(&world, more), code);
    }
}

#[test]
fn resume_of_a_completed_job_repeats_its_exit_code() {
    let world = picky("[a, b]", "");
    help(&world, "a");
    assert_code(&go(&world), 0);
    assert_snapshot!(stable(&resume(&world)), @"
    ----- stderr -----
    job `job` is already completed · items: 1 successful, 1 in the DLQ
    next: prodigy dlq retry job
    ");
    assert_code(&world.prodigy(&["resume", "job", "--fail-on-dlq"]), 3);
}

#[test]
fn resume_of_a_completed_job_without_success_exits_with_1() {
    let world = picky("[a, b]", SKIP);
    assert_code(&go(&world), 1);
    assert_snapshot!(stable(&resume(&world)), @"
    ----- stderr -----
    job `job` is already completed · items: 0 successful, 2 left out
    next: prodigy jobs show job
    [exit 1]
    ");
}

#[test]
fn resume_of_a_completed_job_writes_its_report() {
    let world = picky("[a]", "");
    help(&world, "a");
    assert_code(&go(&world), 0);
    let report = world.root().join("report.xml");
    assert_code(&world.prodigy(&["resume", "job", "--junit", report.to_str().unwrap()]), 0);
    assert!(fs::read_to_string(report).unwrap().contains("item-001"));
}

#[test]
fn a_retry_that_resolves_nothing_exits_with_3() {
    let world = picky("[a, b, c]", "");
    help(&world, "a");
    assert_code(&go(&world), 0);
    assert_snapshot!(ending(&retry(&world, &[])), @r#"
    completed with failures · [time]
    replayed: 0 resolved, 2 back in the DLQ
    job: 1 successful, 2 in the DLQ, 2 tried more than once
    failures:
      command_failed: `test -e "$ROOT/${item}"` failed with exit code 1  item-002, item-003
    nothing to merge: the steps made no commit
    next: prodigy dlq show job
    [exit 3]
    "#);
    help(&world, "b");
    assert_snapshot!(ending(&retry(&world, &[])), @r#"
    completed with failures · [time]
    replayed: 1 resolved, 1 back in the DLQ
    job: 2 successful, 1 in the DLQ, 2 tried more than once
    failures:
      command_failed: `test -e "$ROOT/${item}"` failed with exit code 1  item-003
    nothing to merge: the steps made no commit
    next: prodigy dlq show job
    "#);
    // What an earlier retry resolved is none of this one's merit.
    assert_snapshot!(ending(&retry(&world, &[])), @r#"
    completed with failures · [time]
    replayed: 0 resolved, 1 back in the DLQ
    job: 2 successful, 1 in the DLQ, 2 tried more than once
    failures:
      command_failed: `test -e "$ROOT/${item}"` failed with exit code 1  item-003
    nothing to merge: the steps made no commit
    next: prodigy dlq show job
    [exit 3]
    "#);
    help(&world, "c");
    assert_code(&retry(&world, &["--fail-on-dlq"]), 0);
}

#[test]
fn a_retry_that_resolves_some_exits_with_3_if_asked_to() {
    let world = picky("[a, b]", "");
    assert_code(&go(&world), 1);
    help(&world, "b");
    assert_code(&retry(&world, &["--fail-on-dlq"]), 3);
}

#[test]
fn steps_that_failed_inside_a_loop_are_counted_alike_everywhere() {
    let world = TestEnv::with_repo(env!("CARGO_BIN_EXE_prodigy"));
    let text = "- foreach:\n    input: [x, y]\n    do:\n      - shell: test ${item} = y\n        continue_on_error: true\n";
    world.write("workflow.yml", text);
    world.commit_all("Add the workflow");
    let seen = go(&world);
    let told = seen.stderr.lines().find(|line| line.starts_with("completed"));
    assert_snapshot!(told.unwrap_or(&seen.stderr), @"completed with failures: 1 step failed · 1 of 1 step");
    let shown = world.prodigy(&["jobs", "show", "job", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(document.pointer("/job/steps_failed"), Some(&serde_json::json!(1)), "{shown}");
}
