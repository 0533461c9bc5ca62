//! Steps that change something outside: what is recorded, and what is never done twice.

use insta::assert_snapshot;
use prodigy_testkit::TestEnv;

use crate::fixture::{
    effects::{
        WITH_CHECK, effects, failed_with, furnish, item_world, made, put, steps_world, write_steps,
    },
    map_job::{
        assert_code, beside, go, letter, map_world, of_type, resume, started, trace, write_workflow,
    },
    workflow::{journal, stable},
};

/// Tries items again at once.
const RETRY: &str =
    "error_policy: { retry_config: { max_attempts: 3, backoff: { type: fixed, delay: 1ms } } }";

/// Returns a world with one item whose second step changes something outside, and an error
/// policy.
fn policy_world(more: &str, policy: &str) -> TestEnv {
    let world = item_world(more);
    let text = world.read("workflow.yml");
    world.write("workflow.yml", format!("{text}{policy}\n"));
    world.commit_all("Add the policy");
    world
}

#[test]
fn a_change_outside_is_recorded_before_and_after_it_is_made() {
    let world = item_world(WITH_CHECK);
    put(&world, "does.before.a", "cat ROOT/home/events/repo/job/*.jsonl > ROOT/journal\n");
    put(&world, "does.after.a", "cat ROOT/home/events/repo/job/*.jsonl > ROOT/later\n");
    assert_code(&go(&world), 0);
    assert_eq!(made(&world), 1);
    assert!(beside(&world, "journal").contains("effect_prepared"), "it came first");
    assert!(!beside(&world, "later").contains("effect_committed"), "it came last");
    assert_snapshot!(effects(&world), @"
    job:item-001:deed prepared prepared
    job:item-001:deed committed receipt of a
    ");
    let world = steps_world("idempotent: true");
    assert_code(&go(&world), 0);
    assert_snapshot!(effects(&world), @"
    job:workflow:deed prepared prepared
    job:workflow:deed committed receipt of a
    ");
}

#[test]
fn what_cannot_be_recorded_is_not_begun() {
    // The first step fills the journal so far that the next record does not fit any more.
    let world = steps_world("");
    let print = |bytes: usize| put(&world, "does.first", &format!("printf '%0{bytes}d' 0\n"));
    print(1);
    assert_code(&go(&world), 0);
    let text = std::fs::read_to_string(&journal(&world)[0]).unwrap();
    let before: usize = text
        .lines()
        .take_while(|line| !line.contains("effect_prepared"))
        .map(|l| l.len() + 1)
        .sum();
    print(16 * 1024 - before - 250);
    let mut command = world.command("sh");
    let script = "ulimit -f 32; exec \"$0\" run workflow.yml -y --job-id full";
    command.args(["-c", script, env!("CARGO_BIN_EXE_prodigy")]);
    assert_code(&world.to_output(&command.output().unwrap()), 1);
    let told = world.prodigy(&["events", "full", "--json"]).stdout;
    let last: serde_json::Value = serde_json::from_str(told.lines().last().unwrap()).unwrap();
    assert_eq!([&last["event_type"], &last["step"]], ["step_started", "2"]);
    assert_eq!(made(&world), 1, "only the first job made it");
    assert_code(&world.prodigy(&["resume", "full"]), 0);
    assert_eq!(made(&world), 2);
}

#[test]
fn what_may_have_been_done_is_not_tried_again() {
    let policies = [
        ("retry: { attempts: 3, backoff: { type: fixed, delay: 1ms } }", RETRY),
        ("on_failure: { shell: 'true', max_attempts: 3, fail_workflow: true }", RETRY),
        ("", "error_policy: { on_item_failure: skip }"),
        ("", "error_policy: { on_item_failure: 'custom:h', handlers: { h: [{ shell: 'true' }] } }"),
    ];
    for (more, policy) in policies {
        let world = policy_world(more, policy);
        put(&world, "does.after.a", "exit 3\n");
        assert_code(&go(&world), 1);
        assert_eq!(made(&world), 1, "{more} {policy}");
        assert_eq!(effects(&world), "job:item-001:deed prepared prepared", "{more} {policy}");
        let entry = letter(&world, "item-001");
        let expected = ["command_failed", "unknown", "pending_review"];
        let found = ["reason_code", "commit_state", "replay_status"];
        assert_eq!(found.map(|key| entry[key].as_str().unwrap()), expected, "{more} {policy}");
        assert_eq!(entry["effects"][0]["state"], "prepared");
    }
}

#[test]
fn a_change_that_was_cut_off_is_unknown() {
    let world = policy_world("timeout: 2s", RETRY);
    put(&world, "does.after.a", "sleep 100\n");
    assert_code(&go(&world), 1);
    assert_eq!(made(&world), 1);
    assert_snapshot!(failed_with(&world, "item_dead_lettered"), @"unknown_commit_state by timeout: still running after 2s");
    let entry = letter(&world, "item-001");
    assert_eq!([&entry["cause_code"], &entry["commit_state"]], ["timeout", "unknown"]);
}

#[test]
fn a_check_says_what_a_failed_step_has_done() {
    // It was done all the same: nothing is run again.
    let world = policy_world(WITH_CHECK, RETRY);
    put(&world, "does.after.a", "exit 3\n");
    let seen = go(&world);
    assert_code(&seen, 0);
    assert_snapshot!(stable(&seen), @"
    ----- stderr -----
    · job job · workflow.yml · mapreduce
    · 1 item
    ~ item-001: step 2 (made already, not run again)
    ✓ item-001  [time]
    ✓ map: 1/1 done  [time]

    completed · 1 of 1 item done · [time]
    items: 1 successful
    nothing to merge: the steps made no commit
    next: prodigy events job
    ");
    assert_eq!(made(&world), 1);
    assert_snapshot!(effects(&world), @"
    job:item-001:deed prepared prepared
    job:item-001:deed reconciled committed found prodigy
    ");
    // It was not done: it is tried as often as usual.
    let world = policy_world(WITH_CHECK, RETRY);
    put(&world, "does.before.a", "rm ROOT/does.before.a; exit 3\n");
    assert_code(&go(&world), 0);
    assert_eq!(made(&world), 1);
    assert_snapshot!(effects(&world), @"
    job:item-001:deed prepared prepared
    job:item-001:deed reconciled absent prodigy
    job:item-001:deed prepared prepared
    job:item-001:deed committed receipt of a
    ");
}

#[test]
fn a_check_that_finds_half_or_cannot_tell_ends_the_attempts() {
    let world = policy_world(WITH_CHECK, RETRY);
    put(&world, "does.after.a", "exit 3\n");
    put(&world, "check", "exit 2\n");
    assert_code(&go(&world), 1);
    assert_snapshot!(failed_with(&world, "item_dead_lettered"), @"partial_external_write by command_failed: exit code 3; its check found that a part of the change was made");
    assert_snapshot!(effects(&world), @"
    job:item-001:deed prepared prepared
    job:item-001:deed reconciled partial prodigy
    ");
    assert_eq!(letter(&world, "item-001")["commit_state"], "unknown");
    for says in ["exit 7", "kill -9 $$"] {
        let world = policy_world(WITH_CHECK, RETRY);
        put(&world, "does.after.a", "exit 3\n");
        put(&world, "check", says);
        assert_code(&go(&world), 1);
        let entry = letter(&world, "item-001");
        assert_eq!(entry["reason_code"], "effect_check_failed", "{says}");
        assert_eq!(entry["effects"][0]["state"], "indeterminate", "{says}");
        assert_eq!(made(&world), 1, "{says}");
    }
}

#[test]
fn what_could_not_be_started_was_not_done() {
    let world = policy_world("shell_program: /no/such/shell", RETRY);
    assert_code(&go(&world), 1);
    assert_snapshot!(trace(&world), @"
    item-001 agent_started 1
    item-001 agent_failed 1 spawn_failed then retry
    item-001 agent_retrying 2 after 1ms
    item-001 agent_started 2
    item-001 agent_failed 2 spawn_failed then retry
    item-001 agent_retrying 3 after 1ms
    item-001 agent_started 3
    item-001 agent_failed 3 spawn_failed then dead_letter
    item-001 item_dead_lettered 3 spawn_failed
    job job_completed completed_with_failures
    ");
    assert_snapshot!(effects(&world), @"
    job:item-001:deed prepared prepared
    job:item-001:deed reconciled absent prodigy
    job:item-001:deed prepared prepared
    job:item-001:deed reconciled absent prodigy
    job:item-001:deed prepared prepared
    job:item-001:deed reconciled absent prodigy
    ");
    assert_eq!(letter(&world, "item-001")["commit_state"], "local");
}

#[test]
fn what_was_done_is_not_done_again_when_the_item_is_tried_again() {
    let world = policy_world("capture: receipt", RETRY);
    let text = world.read("workflow.yml").replace("other last", "other last ${receipt}");
    world.write("workflow.yml", text);
    world.commit_all("Use the receipt");
    let other = "echo \"$2\" >> ROOT/receipts; if test -e ROOT/does.$1; then . ROOT/does.$1; fi";
    put(&world, "other", &format!("if test $1 = last; then {other}; fi\n"));
    put(&world, "does.last", "rm ROOT/does.last; exit 3\n");
    let seen = go(&world);
    assert_code(&seen, 0);
    assert_snapshot!(stable(&seen), @"
    ----- stderr -----
    · job job · workflow.yml · mapreduce
    · 1 item
    ~ item-001: step 2 (made already, not run again)
    ✓ item-001  [time]
    ✓ map: 1/1 done  [time]

    completed · 1 of 1 item done · [time]
    items: 1 successful, 1 tried more than once
    nothing to merge: the steps made no commit
    next: prodigy events job
    ");
    assert_eq!(made(&world), 1);
    assert_snapshot!(beside(&world, "receipts"), @"
    receipt of a
    receipt of a
    ");
}

#[test]
fn what_does_no_harm_twice_is_tried_as_often_as_usual() {
    let world = policy_world("idempotent: true", RETRY);
    put(&world, "does.after.a", "rm ROOT/does.after.a; exit 3\n");
    assert_code(&go(&world), 0);
    assert_eq!(made(&world), 2);
    assert_snapshot!(effects(&world), @"
    job:item-001:deed prepared prepared
    job:item-001:deed prepared prepared
    job:item-001:deed committed receipt of a
    ");
}

#[test]
fn the_same_change_with_other_values_is_a_conflict() {
    let workflow = r"
map:
  input: { items: [a] }
  agent_template:
    - { shell: echo $PRODIGY_ATTEMPT, capture: number }
    - { shell: 'sh ROOT/deed a ${number}', effects: external }
    - shell: sh ROOT/other last
";
    let world = map_world(&format!("{workflow}{RETRY}\n"));
    furnish(&world);
    put(&world, "does.last", "exit 3\n");
    assert_code(&go(&world), 1);
    assert_eq!(made(&world), 1);
    assert_snapshot!(trace(&world), @"
    item-001 agent_started 1
    item-001 agent_failed 1 command_failed then retry
    item-001 agent_retrying 2 after 1ms
    item-001 agent_started 2
    item-001 agent_failed 2 idempotency_conflict then dead_letter
    item-001 item_dead_lettered 2 idempotency_conflict
    job job_completed completed_with_failures
    ");
    assert_snapshot!(failed_with(&world, "item_dead_lettered"), @"idempotency_conflict: the change was made before, and with other values");
    assert_eq!(letter(&world, "item-001")["commit_state"], "mixed");
}

#[test]
fn a_step_of_a_job_waits_for_somebody_who_says_how_to_find_out() {
    let world = steps_world("retry: { attempts: 3, backoff: { type: fixed, delay: 1ms } }");
    put(&world, "does.after.a", "rm ROOT/does.after.a; exit 3\n");
    assert_code(&go(&world), 1);
    assert_snapshot!(stable(&resume(&world)), @"
    ----- stderr -----
    · job job resumed · 1 of 3 steps done
    ✗ 2 shell: sh $ROOT/deed a: whether an earlier try changed something outside is not known; add a `check` to the step or mark it `idempotent`, then `prodigy resume job --use-current-workflow`

    failed at step 2: whether an earlier try changed something outside is not known; add a `check` to the step or mark it `idempotent`, then `prodigy resume job --use-current-workflow` · 1 of 3 steps done
    worktree: $ROOT/home/worktrees/repo/job/job (branch prodigy/job/job)
    output: prodigy logs job 2
    next: prodigy resume job
    [exit 1]
    ");
    assert_snapshot!(failed_with(&world, "job_failed"), @"unknown_commit_state: whether an earlier try changed something outside is not known; add a `check` to the step or mark it `idempotent`, then `prodigy resume job --use-current-workflow`");
    write_steps(&world, WITH_CHECK);
    assert_snapshot!(stable(&world.prodigy(&["resume", "job", "--use-current-workflow", "-y"])), @"
    ----- stderr -----
    · job job resumed · 1 of 3 steps done
    ~ 2 shell: sh $ROOT/deed a (made already, not run again)  [time]
    ✓ 3 shell: sh $ROOT/other last  [time]

    completed · 3 of 3 steps
    nothing to merge: the steps made no commit
    next: prodigy events job
    ");
    assert_eq!(made(&world), 1);
    assert_snapshot!(effects(&world), @"
    job:workflow:deed prepared prepared
    job:workflow:deed reconciled committed found prodigy
    ");
}

#[test]
fn a_judge_that_is_not_satisfied_has_nothing_done_twice() {
    let world = steps_world(
        "retry: { attempts: 3, backoff: { type: fixed, delay: 1ms } }\n  validate: { shell: test -e ROOT/judged || ! touch ROOT/judged }",
    );
    assert_code(&go(&world), 0);
    assert_eq!(made(&world), 1);
    assert_snapshot!(effects(&world), @"
    job:workflow:deed prepared prepared
    job:workflow:deed committed receipt of a
    ");
    let steps = of_type(&world, "step_completed");
    let adopted: Vec<_> = steps.iter().filter(|step| step["adopted"] == true).collect();
    assert_eq!(adopted.len(), 1);
}

#[test]
fn a_stop_leaves_unknown_what_was_under_way() {
    let world = item_world("");
    put(&world, "does.after.a", "touch ROOT/now; sleep 100\n");
    let mut running = started(&world);
    running.until(&world, "the change is made", || world.root().join("now").exists());
    running.signal(rustix::process::Signal::INT);
    assert_code(&running.seen(&world), 130);
    assert_eq!(made(&world), 1);
    assert_code(&resume(&world), 1);
    assert_eq!(made(&world), 1);
    assert_snapshot!(failed_with(&world, "item_dead_lettered"), @"unknown_commit_state by interrupted: the run was stopped while something outside was being changed; whether it was is not known");
}

#[test]
fn agents_loops_and_handlers_change_things_outside_too() {
    let world = map_world("");
    furnish(&world);
    write_workflow(
        &world,
        r"
agents:
  claude: { type: simulated, rules: [{ answer: it is done }] }
map:
  input: { items: [a] }
  agent_template:
    - id: open
      claude: open it
      effects: external
    - id: loop
      foreach:
        input: [x, y]
        do:
          - id: each
            shell: sh ROOT/deed a
            effects: external
    - id: fail
      shell: 'false'
      on_failure:
        commands: [{ id: mend, shell: sh ROOT/deed a, effects: external }]
    - shell: sh ROOT/other last
reduce:
  - id: end
    shell: sh ROOT/deed a
    effects: external
error_policy: { retry_config: { max_attempts: 2, backoff: { type: fixed, delay: 1ms } } }
",
    );
    put(&world, "does.last", "rm ROOT/does.last; exit 3\n");
    world.commit_all("Add the workflow");
    assert_code(&go(&world), 0);
    assert_eq!(made(&world), 4);
    assert_snapshot!(effects(&world), @"
    job:item-001:open prepared prepared
    job:item-001:open committed it is done
    job:item-001:loop.foreach.~cd65ea2c2ad9.each prepared prepared
    job:item-001:loop.foreach.~cd65ea2c2ad9.each committed receipt of a
    job:item-001:loop.foreach.~8fbad084cb75.each prepared prepared
    job:item-001:loop.foreach.~8fbad084cb75.each committed receipt of a
    job:item-001:fail.on_failure.mend prepared prepared
    job:item-001:fail.on_failure.mend committed receipt of a
    job:workflow:reduce.end prepared prepared
    job:workflow:reduce.end committed receipt of a
    ");
}

/// A reduce phase and a merge that change something outside.
const PHASES: &str = r"
map:
  input: { items: [a, b] }
  agent_template:
    - { shell: 'test ${item} = a || test -e ROOT/later || exit 3; touch ${item}', auto_commit: true }
reduce:
  - shell: sh ROOT/deed reduce
    effects: external
    MORE
merge:
  - shell: git -C ROOT/repo merge --quiet --no-edit ${merge.source_branch}
  - shell: sh ROOT/deed merge
    effects: external
    MORE
";

/// Replays what failed after the whole job was done, the reduce phase included.
fn done_again(more: &str) -> TestEnv {
    let world = map_world(&PHASES.replace("MORE", more));
    furnish(&world);
    assert_code(&go(&world), 0);
    put(&world, "later", "");
    world
}

#[test]
fn a_phase_that_is_asked_for_again_makes_its_changes_again_only_if_that_does_no_harm() {
    let again = |more: &str| {
        let world = done_again(more);
        let before = made(&world);
        assert_code(&world.prodigy(&["dlq", "retry", "job", "--rerun-reduce"]), 0);
        (before, made(&world))
    };
    assert_eq!(again(""), (2, 2), "what was done is not done again");
    assert_eq!(again(WITH_CHECK), (2, 2), "the check says that it is there");
    assert_eq!(again("check: exit 1"), (2, 4), "the check says that it is not there");
    assert_eq!(again("idempotent: true"), (2, 4), "it does no harm");
}

#[test]
fn commits_say_whose_they_are() {
    let world = map_world(
        r"
map:
  input: { items: [a, b] }
  agent_template:
    # The two begin from the same commit.
    - shell: 'touch ROOT/up.${item}; until test -e ROOT/up.a && test -e ROOT/up.b; do sleep 0.02; done'
      timeout: 20s
    - { shell: 'touch ${item}', auto_commit: true }
",
    );
    assert_code(&go(&world), 0);
    let format = "--format=%s: %(trailers:key=Prodigy-Idempotency-Key,valueonly,separator=%x2C)";
    let log = world.git(&["log", "--topo-order", format, "main"]);
    let log = log.replace("item-001", "ITEM").replace("item-002", "ITEM");
    let mut lines: Vec<_> = log.lines().filter(|line| line.contains("job:")).collect();
    lines.sort_unstable();
    assert_snapshot!(lines.join("\n"), @"
    Merge ITEM: job:ITEM
    shell: touch ${item}: job:ITEM
    shell: touch ${item}: job:ITEM
    ");
}

#[test]
fn what_a_handler_may_have_done_is_left_to_a_person() {
    let world = map_world(
        r"
map:
  input: { items: [a] }
  agent_template: [{ shell: exit 3 }]
error_policy:
  on_item_failure: custom:tell
  handlers:
    tell: [{ id: note, shell: sh ROOT/deed a, effects: external, continue_on_error: true }]
",
    );
    furnish(&world);
    put(&world, "does.after.a", "exit 4\n");
    assert_code(&go(&world), 1);
    assert_snapshot!(effects(&world), @"job:item-001:handler.tell.note prepared prepared");
    assert_snapshot!(failed_with(&world, "item_dead_lettered"), @"unknown_commit_state by command_failed: `exit 3` failed with exit code 3; its handler may have changed something outside; whether it did is not known");
}

#[test]
fn an_item_that_may_have_changed_something_is_not_run_again_because_of_a_conflict() {
    let world = map_world(
        r"
map:
  input: { items: [a, b] }
  agent_template:
    - { shell: 'sh ROOT/deed ${item}', effects: external, continue_on_error: true }
    # The two begin from the same commit.
    - shell: 'touch ROOT/up.${item}; until test -e ROOT/up.a && test -e ROOT/up.b; do sleep 0.02; done'
      timeout: 20s
    - { shell: 'echo ${item} > same', auto_commit: true }
",
    );
    furnish(&world);
    put(&world, "does.after.a", "exit 4\n");
    put(&world, "does.after.b", "exit 4\n");
    assert_code(&go(&world), 0);
    assert_eq!(made(&world), 2);
    let failed = failed_with(&world, "item_dead_lettered");
    assert_snapshot!(failed, @"merge_conflict: its commits conflict with those of other items in `same`");
}
