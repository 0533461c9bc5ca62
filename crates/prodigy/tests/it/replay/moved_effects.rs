//! Changes outside whose steps stand elsewhere in the workflow that a job goes on with.

use insta::assert_snapshot;
use prodigy_testkit::{CommandOutput, TestEnv};

use crate::fixture::{
    effects::{DIE, furnish, put},
    map_job::{assert_code, beside, go, map_world, of_type, sorted, write_workflow},
};

/// Returns a world with one item and these steps; `post NAME` changes something outside.
fn item_world(steps: &str) -> TestEnv {
    let world = map_world(&items(steps)).env("USER", "ada");
    furnish_posts(&world);
    world
}

/// Returns a MapReduce workflow with one item and these steps.
fn items(steps: &str) -> String {
    let steps = posts(steps).replace('\n', "\n    ");
    format!("map:\n  input: {{ items: [{{ n: 1 }}] }}\n  agent_template:\n    {steps}\n")
}

/// Returns a world with these steps.
fn steps_world(steps: &str) -> TestEnv {
    let world = TestEnv::with_repo(env!("CARGO_BIN_EXE_prodigy"))
        .env("PRODIGY_DURABILITY", "relaxed")
        .env("PRODIGY_GRACE", "300ms");
    write_steps(&world, steps);
    world.commit_all("Add the workflow");
    furnish_posts(&world);
    world
}

fn write_steps(world: &TestEnv, steps: &str) {
    let text = posts(steps).replace("ROOT", &world.root().display().to_string());
    world.write("workflow.yml", format!("{text}\n"));
}

/// Writes out `post NAME` and `other NAME`.
fn posts(steps: &str) -> String {
    let line = |line: &str| {
        let name = line.trim().strip_prefix("- post ");
        let indent: String = line.chars().take_while(|letter| *letter == ' ').collect();
        match name {
            Some(name) => {
                format!("{indent}- shell: sh ROOT/post {name}\n{indent}  effects: external")
            }
            None => line.replace("- other ", "- shell: sh ROOT/other "),
        }
    };
    steps.trim().lines().map(line).collect::<Vec<_>>().join("\n")
}

fn furnish_posts(world: &TestEnv) {
    furnish(world);
    put(
        world,
        "post",
        "echo \"$1\" >> ROOT/posted\necho \"$PRODIGY_IDEMPOTENCY_KEY\" >> ROOT/keys\n",
    );
}

/// Returns the changes that were made, in the order of their names.
fn posted(world: &TestEnv) -> String {
    sorted(world, "posted").replace('\n', " ")
}

fn retry(world: &TestEnv) -> CommandOutput {
    world.prodigy(&["dlq", "retry", "job", "--use-current-workflow"])
}

fn resume(world: &TestEnv) -> CommandOutput {
    world.prodigy(&["resume", "job", "-y", "--use-current-workflow"])
}

/// Has the step `other NAME` fail until it is taken away.
fn fail(world: &TestEnv, name: &str) {
    put(world, &format!("does.{name}"), "exit 3\n");
}

fn mend(world: &TestEnv, name: &str) {
    std::fs::remove_file(world.root().join(format!("does.{name}"))).unwrap();
}

#[test]
fn replay_with_other_steps_before_it_makes_no_change_again() {
    let world = item_world("- post a\n- other last");
    fail(&world, "last");
    assert_code(&go(&world), 1);
    assert_eq!(posted(&world), "a");
    mend(&world, "last");
    write_workflow(&world, &items("- other new\n- post b\n- post a\n- other last"));
    assert_code(&retry(&world), 0);
    assert_eq!(posted(&world), "a b");
}

#[test]
fn resume_with_other_steps_before_it_makes_no_change_of_an_item_again() {
    let world = item_world("- other first\n- post a\n- other last");
    put(&world, "does.last", DIE);
    assert_eq!(go(&world).code, None);
    assert_eq!(posted(&world), "a");
    write_workflow(&world, &items("- post b\n- post a\n- other last\n- post c"));
    assert_code(&resume(&world), 0);
    assert_eq!(posted(&world), "a b c");
}

#[test]
fn resume_of_steps_makes_each_change_once_wherever_its_step_stands() {
    for steps in [
        "- post a\n- other last\n- post c",
        "- post b\n- other first\n- post a\n- other last\n- post c",
        "- other first\n- post b\n- post a\n- post c\n- other last",
        "- other first\n- post c\n- other last\n- post a",
    ] {
        let world = steps_world("- other first\n- post a\n- other last\n- post c");
        fail(&world, "last");
        assert_code(&go(&world), 1);
        assert_eq!(posted(&world), "a");
        mend(&world, "last");
        write_steps(&world, steps);
        assert_code(&resume(&world), 0);
        let expected = if steps.contains("post b") { "a b c" } else { "a c" };
        assert_eq!(posted(&world), expected, "{steps}");
    }
}

#[test]
fn a_step_that_gets_an_id_makes_its_change_once() {
    with_an_id();
}

/// Goes on with a workflow in which the step of a change has an id.
pub(crate) fn with_an_id() -> TestEnv {
    let world = steps_world("- other first\n- post a\n- other last");
    fail(&world, "last");
    assert_code(&go(&world), 1);
    mend(&world, "last");
    let text = world.read("workflow.yml");
    world.write(
        "workflow.yml",
        text.replace("  effects: external", "  id: said\n  effects: external"),
    );
    assert_code(&resume(&world), 0);
    assert_eq!(posted(&world), "a");
    world
}

#[test]
fn changes_in_loops_and_handlers_are_made_once() {
    let steps = "\
- shell: 'true'
  on_success: { shell: sh ROOT/post success, effects: external }
- shell: exit 4
  on_exit_code:
    4: { shell: sh ROOT/post code, effects: external }
- shell: 'false'
  on_failure:
    commands:
      - post failure
- foreach:
    input: 'cat ROOT/values'
    do:
      - post round-${item}
      - post round-${item}
- other last";
    let world = item_world(steps);
    put(&world, "values", "x\ny\n");
    fail(&world, "last");
    assert_code(&go(&world), 1);
    let once = "code failure round-x round-x round-y round-y success";
    assert_eq!(posted(&world), once);
    mend(&world, "last");
    let inserted = steps
        .replace("      - post failure", "      - other new\n      - post failure")
        .replacen("      - post round", "      - other new\n      - post round", 1);
    write_workflow(&world, &items(&format!("- other new\n{inserted}")));
    put(&world, "values", "w\ny\nx\n");
    assert_code(&retry(&world), 0);
    assert_eq!(
        posted(&world),
        "code failure round-w round-w round-x round-x round-y round-y success"
    );
}

#[test]
fn equal_steps_stay_two() {
    let world = item_world("- post a\n- other last\n- post a");
    fail(&world, "last");
    assert_code(&go(&world), 1);
    assert_eq!(posted(&world), "a");
    mend(&world, "last");
    write_workflow(&world, &items("- other new\n- post a\n- post b\n- post a\n- other last"));
    assert_code(&retry(&world), 0);
    assert_eq!(posted(&world), "a a b");
    let keys = sorted(&world, "keys");
    let mut lines: Vec<_> = keys.lines().collect();
    lines.dedup();
    assert_eq!(lines.len(), 3, "{keys}");
}

#[test]
fn key_is_the_id_of_the_step_or_its_text_as_written() {
    let world =
        item_world("- { id: say, shell: 'sh ROOT/post a', effects: external }\n- other last");
    fail(&world, "last");
    assert_code(&go(&world), 1);
    assert_eq!(beside(&world, "keys"), "job:item-001:say\n");
    // Other data changes no key: the change is known to be made.
    mend(&world, "last");
    put(&world, "data", "{\"n\": 2}");
    let data = world.root().join("data").display().to_string();
    assert_code(
        &world.prodigy(&["dlq", "edit", "job", "item-001", "--file", &data, "--reason", "new"]),
        0,
    );
    write_workflow(
        &world,
        &items(
            "- other new\n- { id: say, shell: 'sh ROOT/post a', effects: external }\n- other last",
        ),
    );
    assert_code(&retry(&world), 0);
    assert_eq!(posted(&world), "a");
    // A step that gets an id later is the one that it was.
    let world = item_world("- post a\n- other last");
    fail(&world, "last");
    assert_code(&go(&world), 1);
    mend(&world, "last");
    write_workflow(
        &world,
        &items("- { id: say, shell: 'sh ROOT/post a', effects: external }\n- other last"),
    );
    assert_code(&retry(&world), 0);
    assert_eq!(posted(&world), "a");
}

#[test]
fn workflow_without_the_step_of_a_change_is_refused() {
    let say = "- { id: say, shell: sh ROOT/post a, effects: external }";
    let world = item_world(&format!("{say}\n- other last"));
    fail(&world, "last");
    assert_code(&go(&world), 1);
    mend(&world, "last");
    write_workflow(&world, &items("- post b\n- other last"));
    let records = of_type(&world, "job_resumed").len();
    assert_snapshot!(retry(&world), @"
    ----- stderr -----
    error: item-001: `shell: sh $ROOT/post a` was made (`job:item-001:say`), and the workflow has no such step any more

    hint: put the step back as it was, or leave out `--use-current-workflow`
    [exit 2]
    ");
    assert_eq!(of_type(&world, "job_resumed").len(), records);
    write_workflow(&world, &items("- { id: say, shell: sh ROOT/post a }\n- other last"));
    assert_code(&retry(&world), 2);
    assert_eq!(posted(&world), "a");
    assert_code(&world.prodigy(&["dlq", "retry", "job"]), 0);

    let world = steps_world(&format!("{say}\n- other last"));
    fail(&world, "last");
    assert_code(&go(&world), 1);
    mend(&world, "last");
    write_steps(&world, "- post b\n- other last");
    assert_snapshot!(resume(&world), @"
    ----- stderr -----
    error: `shell: sh $ROOT/post a` was made (`job:workflow:say`), and the workflow has no such step any more

    hint: put the step back as it was, or leave out `--use-current-workflow`
    [exit 2]
    ");
    assert_eq!(posted(&world), "a");
    assert_code(&world.prodigy(&["resume", "job", "-y"]), 0);
}
