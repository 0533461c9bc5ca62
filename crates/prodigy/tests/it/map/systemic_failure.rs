//! A job in which one item after the other fails for the same cause.

use std::fs;

use insta::assert_snapshot;

use crate::fixture::{
    map_job::{assert_code, beside, counts, go, has_told, map_world, of_type, started, trace_of},
    workflow::stable,
};

/// Returns a workflow whose items say how they end: `ok…`, `net…`, `disk…`.
fn ends(items: &str, most: u32) -> String {
    format!(
        r#"
map:
  input: {{ items: [{items}] }}
  item_key: item
  max_parallel: 1
  agent_template:
    - name: work
      shell: |
        echo ran >> ROOT/ran.${{item}}
        test ! -e ROOT/mended || exit 0
        case ${{item}} in
          net*) echo "cannot reach 10.0.0.$$ for ${{item}}" >&2; exit 1;;
          disk*) echo "no inode is free for ${{item}}" >&2; exit 2;;
        esac
error_policy: {{ systemic_stop: {most} }}
"#
    )
}

#[test]
fn items_that_fail_alike_in_a_row_stop_the_job_and_the_rest_goes_on_when_it_is_resumed() {
    let world = map_world(&ends("ok1, net1, net2, net3, ok2, net4", 3));
    let seen = go(&world);
    assert_code(&seen, 5);
    assert_snapshot!(stable(&seen), @"
    ----- stderr -----
    · job job · workflow.yml · mapreduce
    · 6 items
    ✓ ok1  [time]

    stopped by the error policy: 3 items in a row failed alike (CommandFailed::work failed with exit code <n>: cannot reach <host> for <item>), and `systemic_stop` is 3 · 1 of 6 items done · [time]
    items: 1 successful, 3 in the DLQ, 2 waiting
    failures:
      3 × CommandFailed, e.g. work failed with exit code <n>: cannot reach <host> for <item>
          Review error logs for more details
    worktree: $ROOT/home/worktrees/repo/job/job (branch prodigy/job/job)
    dead letters: $ROOT/home/dlq/repo/job/mapreduce/dlq/job/items
    see: prodigy dlq show job
    next: prodigy resume job
    [exit 5]
    ");
    assert_eq!(of_type(&world, "job_paused")[0]["reason"], "policy");
    assert_eq!((counts(&world), beside(&world, "ran.ok2")), ((1, 3, 0), String::new()));
    let shown = world.prodigy(&["jobs", "show", "job"]).stdout;
    let paused: Vec<_> = shown.lines().filter(|line| line.starts_with("paused")).collect();
    assert_snapshot!(paused.join("\n"), @"paused      3 items in a row failed alike (CommandFailed::work failed with exit code <n>: cannot reach <host> for <item>), and `systemic_stop` is 3");
    fs::write(world.root().join("mended"), "").unwrap();
    assert_code(&world.prodigy(&["resume", "job", "-y", "--no-dlq"]), 0);
    assert_eq!(counts(&world), (3, 3, 0));
    assert_eq!(beside(&world, "ran.ok1"), "ran\n");
}

#[test]
fn a_resumed_job_counts_from_zero_and_stops_again() {
    let world = map_world(&ends("net1, net2, net3, net4, net5, ok1", 2));
    assert_code(&go(&world), 5);
    assert_eq!(counts(&world), (0, 2, 0));
    assert_code(&world.prodigy(&["resume", "job", "-y", "--no-dlq"]), 5);
    assert_eq!(counts(&world), (0, 4, 0));
    assert_code(&world.prodigy(&["resume", "job", "-y", "--no-dlq"]), 0);
    assert_eq!(counts(&world), (1, 5, 0));
}

#[test]
fn other_failures_and_successes_end_the_row() {
    let world = map_world(&ends("net1, net2, ok1, net3, disk1, net4, net5, disk2, disk3", 3));
    assert_code(&go(&world), 0);
    assert_eq!(counts(&world), (1, 8, 0));
}

#[test]
fn without_the_key_nothing_stops_a_job_that_fails_alike() {
    let workflow = ends("net1, net2, net3, ok1", 2);
    let world = map_world(&workflow.replace("error_policy: { systemic_stop: 2 }", ""));
    assert_code(&go(&world), 0);
    assert_eq!(counts(&world), (1, 3, 0));
}

#[test]
fn an_item_that_succeeds_while_the_job_drains_does_not_make_it_go_on() {
    let world = map_world(
        r"
map:
  input: { items: [slow, bad1, bad2, later] }
  item_key: item
  max_parallel: 2
  agent_template:
    - shell: |
        case ${item} in
          bad*) while ! test -e ROOT/slow; do sleep 0.01; done; exit 1 ;;
          slow) touch ROOT/slow; while ! test -e ROOT/go; do sleep 0.01; done ;;
        esac
      timeout: 20s
error_policy: { systemic_stop: 2 }
",
    );
    let mut run = started(&world);
    let both =
        || has_told(&world, "job_started") && of_type(&world, "item_dead_lettered").len() == 2;
    run.until(&world, "both have failed", both);
    fs::write(world.root().join("go"), "").unwrap();
    assert_code(&run.seen(&world), 5);
    assert_eq!(counts(&world), (1, 2, 0));
    assert_eq!(trace_of(&world, "later"), "");
    assert_code(&world.prodigy(&["resume", "job", "-y", "--no-dlq"]), 0);
    assert_eq!(counts(&world), (2, 2, 0));
}

#[test]
fn one_failure_is_no_row() {
    let world = map_world(&ends("ok1", 1));
    let seen = go(&world);
    assert_code(&seen, 9);
    assert_snapshot!(stable(&seen), @"
    ----- stderr -----
    error: `systemic_stop` must be a whole number from 2, found `1`
      --> workflow.yml:15:32
       |
    15 | error_policy: { systemic_stop: 1 }
       |                                ^

    error: `workflow.yml` cannot be used

    hint: `prodigy schema workflow` describes every key
    [exit 9]
    ");
}
