//! A `dlq retry` that is killed at any point is taken up by the next one.

use std::fs;

use prodigy_testkit::{TestEnv, crash::kill_at_record};

use crate::fixture::map_job::{assert_code, go, map_world, of_type};

const WORKFLOW: &str = r#"
reduce:
  - shell: |
      echo "${map.successful} of ${map.total}" > reduced.txt
      git add --all; git commit --quiet -m reduced
map:
  input: { items: [good, bad] }
  max_parallel: 1
  agent_template:
    - shell: test "${item}" = good || test -e ROOT/mended
    - shell: echo "${item}" > "${item}.txt"; git add --all; git commit --quiet -m "${item}"
"#;

/// Runs a job of which one item fails, and mends what it failed of.
fn mended() -> TestEnv {
    let world = map_world(WORKFLOW);
    assert_code(&go(&world), 0);
    assert_eq!(world.git(&["show", "main:reduced.txt"]), "1 of 2");
    fs::write(world.root().join("mended"), "").unwrap();
    world
}

#[track_caller]
fn assert_merged(world: &TestEnv, reduced: &str) {
    assert_eq!(world.git(&["show", "main:bad.txt"]), "bad");
    assert_eq!(world.git(&["show", "main:reduced.txt"]), reduced);
    assert_eq!(world.git(&["log", "--format=%s", "--grep=^bad$", "main"]), "bad");
    assert_eq!(world.git(&["status", "--porcelain"]), "");
    assert_eq!(of_type(world, "job_completed").len(), 2);
    let again = world.prodigy(&["dlq", "retry", "job", "-y"]);
    assert!(again.stderr.contains("nothing to replay"), "{again}");
    assert_code(&again, 0);
}

#[test]
fn a_retry_that_is_killed_before_the_merge_is_taken_up_by_the_next() {
    for kind in ["replay_started", "agent_completed", "worktree_merged", "phase_completed"] {
        let world = mended();
        kill_at_record(&world, &["dlq", "retry", "job", "-y"], kind, 1);
        assert_code(&world.prodigy(&["dlq", "retry", "job", "-y"]), 0);
        assert_merged(&world, "1 of 2");
    }
}

#[test]
fn a_retry_that_is_killed_while_it_reduces_again_is_taken_up_by_the_next() {
    for kind in ["worktree_merged", "step_started", "step_completed"] {
        let world = mended();
        let nth = if kind == "worktree_merged" { 1 } else { 3 };
        let args = ["dlq", "retry", "job", "-y", "--rerun-reduce"];
        kill_at_record(&world, &args, kind, nth);
        assert_code(&world.prodigy(&["dlq", "retry", "job", "-y"]), 0);
        assert_merged(&world, "2 of 2");
    }
}

#[test]
fn a_retry_says_that_the_job_is_not_merged_yet() {
    let world = mended();
    // Without a terminal and without `-y` nobody agreed to the merge.
    kill_at_record(&world, &["dlq", "retry", "job", "-y"], "worktree_merged", 1);
    let retried = world.prodigy(&["dlq", "retry", "job", "-y"]);
    assert_code(&retried, 0);
    assert!(retried.stderr.contains("is not finished and goes on"), "{retried}");
}
