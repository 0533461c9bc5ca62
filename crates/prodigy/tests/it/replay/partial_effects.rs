//! Dead letters of which a part is made outside: what is left is run, and nothing else counts
//! as done.

use prodigy_testkit::TestEnv;

use crate::fixture::{
    effects::{DIE, WITH_CHECK, furnish, made, put},
    map_job::{assert_code, beside, go, letter, map_world, of_type, resume, sorted},
};

/// Returns a world with these items and steps, and more of the workflow.
fn world(items: &str, steps: &str, more: &str) -> TestEnv {
    let world = map_world(&format!(
        "map:\n  input: {{ items: [{items}] }}\n  agent_template:\n{steps}\n{more}\n"
    ));
    furnish(&world);
    world
}

fn retry(world: &TestEnv) -> prodigy_testkit::CommandOutput {
    world.prodigy(&["dlq", "retry", "job"])
}

#[test]
fn item_whose_local_step_failed_is_run_on_and_not_adopted() {
    let steps = "
    - { shell: sh ROOT/deed a, effects: external }
    - shell: sh ROOT/other last && echo ran >> ROOT/ran";
    let world = world("a", steps, "");
    put(&world, "does.last", "exit 3\n");
    assert_code(&go(&world), 1);
    assert_eq!(letter(&world, "item-001")["commit_state"], "mixed");
    put(&world, "does.last", "");
    assert_code(&retry(&world), 0);
    assert_eq!(beside(&world, "ran"), "ran\n");
    assert_eq!((made(&world), of_type(&world, "agent_completed").len()), (1, 1));
}

#[test]
fn notice_of_a_handler_is_not_the_work_of_its_item() {
    let steps = "
    - shell: sh ROOT/other last && echo ran >> ROOT/ran
      on_failure: { commands: [{ shell: sh ROOT/deed note, effects: external }], fail_workflow: true }";
    let world = world("a", steps, "");
    put(&world, "does.last", "exit 3\n");
    assert_code(&go(&world), 1);
    assert_eq!(made(&world), 1);
    assert_eq!(letter(&world, "item-001")["commit_state"], "local");
    put(&world, "does.last", "");
    assert_code(&retry(&world), 0);
    assert_eq!(beside(&world, "ran"), "ran\n");
    assert_eq!(made(&world), 1);
}

#[test]
fn item_that_is_not_merged_is_not_done() {
    let steps = "
    - { shell: 'sh ROOT/deed ${item}', effects: external }
    # The two begin from the same commit.
    - shell: 'touch ROOT/up.${item}; until test -e ROOT/up.a && test -e ROOT/up.b; do sleep 0.02; done'
      timeout: 20s
    - { shell: 'echo ${item} >> same', auto_commit: true }";
    let world = world("a, b", steps, "  on_conflict: fail");
    assert_code(&go(&world), 0);
    let dead = of_type(&world, "item_dead_lettered");
    let item = dead[0]["item_id"].as_str().unwrap();
    assert_eq!(letter(&world, item)["commit_state"], "mixed");
    assert_code(&retry(&world), 0);
    assert_eq!(made(&world), 2);
    assert_eq!(world.git(&["show", "main:same"]).lines().count(), 2);
    assert_eq!(sorted(&world, "outside").lines().count(), 2);
}

#[test]
fn item_whose_last_step_is_made_is_adopted() {
    let steps = format!(
        "
    - shell: sh ROOT/other first
    - {{ shell: sh ROOT/deed a, effects: external, {WITH_CHECK} }}"
    );
    let world = world("a", &steps, "").env("USER", "ada");
    put(&world, "does.after.a", DIE);
    assert_eq!(go(&world).code, None);
    assert_code(&resume(&world), 1);
    assert_code(&world.prodigy(&["dlq", "check", "job"]), 0);
    assert_eq!(letter(&world, "item-001")["commit_state"], "committed");
    let seen = retry(&world);
    assert_code(&seen, 0);
    assert!(seen.to_string().contains("adopted  item-001"), "{seen}");
    assert_eq!(made(&world), 1);
    // What the steps before it left would have to be merged.
    let steps = steps.replace("other first", "other first; touch new");
    let world = self::world("a", &steps, "").env("USER", "ada");
    put(&world, "does.after.a", DIE);
    assert_eq!(go(&world).code, None);
    assert_code(&resume(&world), 1);
    assert_code(&world.prodigy(&["dlq", "check", "job"]), 0);
    assert_eq!(letter(&world, "item-001")["commit_state"], "mixed");
    assert_code(&retry(&world), 0);
    assert_eq!(made(&world), 1);
}
