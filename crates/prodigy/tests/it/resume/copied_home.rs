//! A home that was copied to another machine, or beside the first one.

use std::{fs, process::Command};

use prodigy_testkit::TestEnv;
use serde_json::Value;

use crate::{
    dlq::retry::{WORKFLOW, failing, mend, retry},
    fixture::map_job::{assert_code, go, map_world, of_type, resume},
    security::hostile_values::on_a_terminal_typing,
};

/// Fails until the file `mended` is beside the repository.
const FAILS: &str = r"
setup: [shell: 'test -e ROOT/mended']
map:
  input: { items: [a] }
  agent_template: [shell: 'echo x >> ROOT/done']
";

/// Changes what the job knows of the place that it was worked on in.
fn change_place(world: &TestEnv, change: impl Fn(&mut Value)) {
    let path = world.home().join("state/repo/mapreduce/jobs/job/places.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let mut place: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    change(&mut place);
    fs::write(path, format!("{place}\n")).unwrap();
}

/// Returns a world with a failed job that another machine worked on.
fn copied() -> TestEnv {
    let world = map_world(FAILS);
    assert_code(&go(&world), 1);
    fs::write(world.root().join("mended"), "").unwrap();
    change_place(&world, |place| place["machine_id"] = "another machine".into());
    world
}

#[test]
fn a_job_of_another_machine_needs_here() {
    let world = copied();
    let seen = resume(&world);
    assert_code(&seen, 2);
    assert!(seen.stderr.contains("job `job` was last worked on by host"), "{seen}");
    assert!(seen.stderr.contains("prodigy resume job --here"), "{seen}");
    assert!(of_type(&world, "job_resumed").is_empty());
    assert_code(&world.prodigy(&["resume", "job", "--here"]), 0);
    // It is worked on here from now on, and the other place is not forgotten.
    assert_code(&resume(&world), 0);
    let path = world.home().join("state/repo/mapreduce/jobs/job/places.jsonl");
    assert_eq!(fs::read_to_string(path).unwrap().lines().count(), 2);
}

#[test]
fn on_a_terminal_a_job_of_another_machine_asks() {
    let world = copied();
    let (seen, code) = on_a_terminal_typing(&world, &["resume", "job"], (120, 24), "n\n", |_| {});
    assert!(seen.contains("Work on it here? [y/N]"), "{seen}");
    assert_eq!(code, 1, "{seen}");
    assert!(of_type(&world, "job_resumed").is_empty());
    let (seen, code) =
        on_a_terminal_typing(&world, &["resume", "job", "-y"], (120, 24), "y\n", |_| {});
    assert_eq!(code, 0, "{seen}");
}

#[test]
fn dead_letters_of_another_machine_are_left_alone() {
    let world = failing(WORKFLOW, &["b", "c"]);
    assert_code(&go(&world), 0);
    mend(&world, "b");
    change_place(&world, |place| place["machine_id"] = "another machine".into());
    let seen = retry(&world, &["item-002", "-y"]);
    assert_code(&seen, 2);
    assert!(seen.stderr.contains("prodigy dlq retry job --here"), "{seen}");
    let seen = world.prodigy(&["dlq", "drop", "job", "item-003", "--reason", "x"]);
    assert_code(&seen, 2);
    assert!(seen.stderr.contains("prodigy jobs --here"), "{seen}");
    // Reading changes nothing and is for everybody.
    assert_code(&world.prodigy(&["dlq", "list"]), 0);
    assert_code(&world.prodigy(&["dlq", "plan", "job"]), 0);
    assert_code(&world.prodigy(&["jobs", "--here"]), 0);
    assert_code(&world.prodigy(&["dlq", "drop", "job", "item-003", "--reason", "x"]), 0);
    assert_code(&retry(&world, &["item-002", "-y"]), 0);
}

#[test]
fn another_host_name_alone_is_nothing() {
    let world = copied();
    assert_code(&world.prodigy(&["jobs", "--here"]), 0);
    change_place(&world, |place| place["host"] = "a-new-container".into());
    assert_code(&resume(&world), 0);
}

#[test]
fn jobs_of_older_versions_and_of_machines_without_an_id_go_on() {
    let world = copied();
    change_place(&world, |place| {
        place.as_object_mut().unwrap().remove("machine_id");
    });
    assert_code(&resume(&world), 0);
    let world = copied();
    fs::remove_file(world.home().join("state/repo/mapreduce/jobs/job/places.jsonl")).unwrap();
    assert_code(&resume(&world), 0);
}

#[test]
fn a_copy_of_the_home_beside_the_first_one_is_told_apart() {
    let world = map_world(FAILS);
    assert_code(&go(&world), 1);
    fs::write(world.root().join("mended"), "").unwrap();
    let copy = world.root().join("copy");
    assert!(Command::new("cp").arg("-a").arg(world.home()).arg(&copy).status().unwrap().success());
    let home = copy.display().to_string();
    let seen = world.prodigy(&["--home", &home, "resume", "job"]);
    assert_code(&seen, 2);
    assert!(seen.stderr.contains("--here"), "{seen}");
    // The first one goes on, and so does one that was moved.
    assert_code(&resume(&world), 0);
    let moved = world.root().join("moved");
    fs::rename(world.home(), &moved).unwrap();
    let seen = world.prodigy(&["--home", &moved.display().to_string(), "resume", "job"]);
    assert_code(&seen, 0);
}
