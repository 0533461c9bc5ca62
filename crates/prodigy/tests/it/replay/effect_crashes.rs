//! prodigy is killed around a change outside: it is made at most once, and brought to exactly
//! one.

use insta::assert_snapshot;
use prodigy_testkit::{CommandOutput, TestEnv};

use crate::{
    fixture::{
        effects::{
            DIE, WITH_CHECK, effects, failed_with, item_world, made, put, steps_world, write_steps,
        },
        map_job::{assert_code, go, letter, of_type, resume, trace},
    },
    resume::interrupted::assert_nothing_runs,
};

/// Where prodigy is killed: before the step, in it before and after the change, behind it.
const POINTS: [&str; 4] = ["does.first", "does.before.a", "does.after.a", "does.last"];

/// Runs the job, has prodigy killed at a point, and takes the job up again.
fn killed_at(world: &TestEnv, point: &str) -> CommandOutput {
    put(world, point, DIE);
    let seen = go(world);
    assert_eq!(seen.code, None, "{point}: it was killed: {seen}");
    resume(world)
}

fn check(world: &TestEnv) -> CommandOutput {
    world.prodigy(&["dlq", "check", "job"])
}

/// Replays the item, as somebody who has looked at it.
fn force(world: &TestEnv) -> CommandOutput {
    world.prodigy(&["dlq", "retry", "job", "--force", "item-001", "--reason", "looked at it"])
}

#[test]
fn a_kill_around_a_change_that_can_be_checked_comes_to_exactly_one() {
    let expected = [
        // The step had not begun, or was known to be done: the item is simply taken up again.
        (1, "done"),
        (0, "unknown"),
        (1, "unknown"),
        (1, "done"),
    ];
    for (point, (before, state)) in POINTS.into_iter().zip(expected) {
        let world = item_world(WITH_CHECK);
        assert_code(&killed_at(&world, point), i32::from(state == "unknown"));
        assert_eq!(made(&world), before, "{point}");
        if state == "unknown" {
            let entry = letter(&world, "item-001");
            let found = ["reason_code", "cause_code", "commit_state"];
            let found = found.map(|key| entry[key].as_str().unwrap());
            assert_eq!(found, ["unknown_commit_state", "interrupted", "unknown"], "{point}");
            assert_code(&check(&world), 0);
            let known = if before == 0 { "local" } else { "mixed" };
            assert_eq!(letter(&world, "item-001")["commit_state"], known, "{point}");
            assert_code(&force(&world), 0);
            assert_eq!(letter(&world, "item-001")["status"], "resolved", "{point}");
        }
        assert_eq!(made(&world), 1, "{point}: {}", effects(&world));
        assert_code(&world.prodigy(&["verify", "job"]), 0);
        assert_code(&world.prodigy(&["dlq", "fsck", "job", "--dry-run"]), 0);
        assert_nothing_runs(&world);
    }
}

#[test]
fn a_kill_around_a_change_that_cannot_be_checked_is_left_to_a_person() {
    for (point, before) in [("does.before.a", 0), ("does.after.a", 1)] {
        let world = item_world("");
        assert_code(&killed_at(&world, point), 1);
        assert_eq!(made(&world), before, "{point}");
        assert_code(&check(&world), 1);
        assert_code(&world.prodigy(&["dlq", "retry", "job"]), 10);
        assert_code(&resume(&world), 1);
        assert_eq!(made(&world), before, "{point}: nobody decided to make it again");
        assert_code(&force(&world), 0);
        assert_eq!(made(&world), before + 1, "{point}: it was decided");
        assert_eq!(letter(&world, "item-001")["status"], "resolved", "{point}");
    }
}

#[test]
fn a_replay_looks_before_it_makes_a_change_that_may_have_been_made() {
    for (point, found) in [("does.before.a", "absent"), ("does.after.a", "committed")] {
        let world = item_world(WITH_CHECK);
        assert_code(&killed_at(&world, point), 1);
        assert_code(&force(&world), 0);
        assert_eq!(made(&world), 1, "{point}: {}", effects(&world));
        let looked = of_type(&world, "effect_reconciled");
        assert_eq!((looked.len(), &looked[0]["finding"]), (1, &found.into()), "{point}");
    }
}

#[test]
fn a_replay_that_is_killed_needs_a_new_decision() {
    let world = item_world("");
    assert_code(&killed_at(&world, "does.before.a"), 1);
    put(&world, "does.before.a", DIE);
    assert_eq!(force(&world).code, None);
    assert_eq!(made(&world), 0);
    // The decision was used up, and the change may have been made.
    assert_code(&resume(&world), 1);
    assert_eq!(made(&world), 0);
    assert_snapshot!(trace(&world), @"
    item-001 agent_started 1
    job job_resumed
    item-001 item_dead_lettered 0 unknown_commit_state
    job job_completed completed_with_failures
    job job_resumed
    item-001 replay_started 1
    item-001 agent_started 1
    job job_resumed
    item-001 item_dead_lettered 0 unknown_commit_state
    job job_completed completed_with_failures
    ");
    assert_code(&force(&world), 0);
    assert_eq!(made(&world), 1);
}

#[test]
fn a_kill_around_a_change_of_a_step_comes_to_exactly_one() {
    for point in POINTS {
        let world = steps_world(WITH_CHECK);
        assert_code(&killed_at(&world, point), 0);
        assert_eq!(made(&world), 1, "{point}: {}", effects(&world));
    }
}

#[test]
fn a_kill_around_a_change_of_a_step_without_a_check_waits_for_one() {
    for (point, before) in [("does.before.a", 0), ("does.after.a", 1)] {
        let world = steps_world("");
        assert_code(&killed_at(&world, point), 1);
        assert_eq!(made(&world), before, "{point}");
        let failed = failed_with(&world, "job_failed");
        assert_eq!(failed.split(':').next(), Some("unknown_commit_state"), "{failed}");
        write_steps(&world, WITH_CHECK);
        assert_code(&world.prodigy(&["resume", "job", "--use-current-workflow"]), 0);
        assert_eq!(made(&world), 1, "{point}: {}", effects(&world));
    }
}

#[test]
fn checks_say_what_they_found_and_what_comes_next() {
    let world = item_world(WITH_CHECK);
    killed_at(&world, "does.after.a");
    let seen = world.prodigy(&["dlq", "check", "job", "item-001", "--json"]);
    assert_snapshot!(seen, @r#"{"schema_version":1,"job_id":"job","effects":[{"item_id":"item-001","key":"job:item-001:deed","step":"2","name":"shell: sh $ROOT/deed ${item}","before":"prepared","after":"committed","receipt":"found","problem":null,"reason_code":null}]}"#);
    assert_snapshot!(check(&world), @"
    ----- stderr -----
    nothing to look at: what the dead letters of job `job` changed outside is known
    ");
    assert_snapshot!(effects(&world), @"
    job:item-001:deed prepared prepared
    job:item-001:deed reconciled committed found ada
    ");
    let world = item_world(WITH_CHECK);
    killed_at(&world, "does.before.a");
    assert_snapshot!(check(&world), @"
    item-001
      job:item-001:deed  shell: sh $ROOT/deed ${item}
        unknown → not made
      next: prodigy dlq retry job item-001
    ");
    let world = item_world(WITH_CHECK);
    killed_at(&world, "does.before.a");
    put(&world, "check", "echo nobody answers >&2; exit 6\n");
    assert_snapshot!(check(&world), @"
    item-001
      job:item-001:deed  shell: sh $ROOT/deed ${item}
        unknown → unknown: exit code 6: nobody answers
      next: prodigy dlq show job item-001
    [exit 1]
    ");
    put(&world, "check", "exit 2\n");
    assert_snapshot!(check(&world), @"
    item-001
      job:item-001:deed  shell: sh $ROOT/deed ${item}
        unknown → made in part
      next: prodigy dlq show job item-001
    [exit 1]
    ");
    let world = item_world("");
    killed_at(&world, "does.before.a");
    assert_snapshot!(check(&world), @"
    item-001
      job:item-001:deed  shell: sh $ROOT/deed ${item}
        unknown → unknown: the step has no `check`
      next: prodigy dlq show job item-001
    [exit 1]
    ");
}

#[test]
fn what_was_changed_can_be_undone() {
    let world = item_world("check: sh ROOT/check\n      compensate: sh ROOT/undo");
    put(
        &world,
        "undo",
        "grep -vxF \"$PRODIGY_IDEMPOTENCY_KEY\" ROOT/outside > ROOT/rest\nmv ROOT/rest ROOT/outside\n",
    );
    killed_at(&world, "does.after.a");
    let undo = || world.prodigy(&["dlq", "check", "job", "--compensate"]);
    assert_snapshot!(undo(), @"
    item-001
      job:item-001:deed  shell: sh $ROOT/deed ${item}
        unknown → undone
      next: prodigy dlq retry job item-001
    ");
    assert_eq!(made(&world), 0);
    assert_eq!(letter(&world, "item-001")["commit_state"], "local");
    assert_code(&force(&world), 0);
    assert_eq!(made(&world), 1);
    assert_snapshot!(effects(&world), @"
    job:item-001:deed prepared prepared
    job:item-001:deed reconciled committed found ada
    job:item-001:deed reconciled indeterminate ada
    job:item-001:deed reconciled absent ada
    job:item-001:deed compensated ada
    job:item-001:deed prepared prepared
    job:item-001:deed committed receipt of a
    ");
    // Whoever is killed while it is undone leaves nothing that could be taken for done.
    let world = item_world("check: sh ROOT/check\n      compensate: sh ROOT/undo");
    killed_at(&world, "does.after.a");
    put(&world, "undo", &format!("rm ROOT/outside\n{DIE}"));
    assert_eq!(world.prodigy(&["dlq", "check", "job", "--compensate"]).code, None);
    let last = effects(&world).lines().last().map(str::to_owned);
    assert_eq!(last.as_deref(), Some("job:item-001:deed reconciled indeterminate ada"));
    assert_code(&check(&world), 0);
    assert_code(&force(&world), 0);
    assert_eq!(made(&world), 1);
    // What cannot be undone is still there, and says so.
    let world = item_world("check: sh ROOT/check\n      compensate: exit 4");
    killed_at(&world, "does.after.a");
    assert_snapshot!(world.prodigy(&["dlq", "check", "job", "--compensate"]), @"
    item-001
      job:item-001:deed  shell: sh $ROOT/deed ${item}
        unknown → made: found
        it could not be undone: exit code 4
      next: prodigy dlq show job item-001
    [exit 1]
    ");
    assert_eq!(letter(&world, "item-001")["commit_state"], "mixed");
    // Without a way to undo it nothing is done.
    let world = item_world(WITH_CHECK);
    killed_at(&world, "does.after.a");
    assert_snapshot!(world.prodigy(&["dlq", "check", "job", "--compensate"]), @"
    item-001
      job:item-001:deed  shell: sh $ROOT/deed ${item}
        unknown → made: found
        the step has no `compensate`
      next: prodigy dlq show job item-001
    [exit 1]
    ");
}
