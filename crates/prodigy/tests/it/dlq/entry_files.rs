//! The files of dead letters: where they are, and what lists say when they are lost.

use std::{fs, path::PathBuf};

use prodigy_testkit::TestEnv;
use serde_json::{Value, json};

use crate::{
    dlq::retry::{WORKFLOW, failing, mend, retry},
    fixture::map_job::{assert_code, go, has_told, map_world, resume, started, write_workflow},
};

fn queue(world: &TestEnv) -> PathBuf {
    world.home().join("dlq/repo/job/mapreduce/dlq/job")
}

fn index(world: &TestEnv) -> Value {
    serde_json::from_str(&fs::read_to_string(queue(world).join("index.json")).unwrap()).unwrap()
}

fn names(world: &TestEnv, directory: &str) -> String {
    let mut names: Vec<_> = fs::read_dir(queue(world).join(directory))
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names.join(" ")
}

/// Returns a world with an open, a resolved and a dropped entry.
fn three() -> TestEnv {
    let world = failing(WORKFLOW, &["a", "b", "c"]);
    assert_code(&go(&world), 1);
    mend(&world, "a");
    assert_code(&retry(&world, &["item-001", "-y"]), 0);
    assert_code(&world.prodigy(&["dlq", "drop", "job", "item-002", "--reason", "x"]), 0);
    world
}

#[test]
fn index_is_one_document_and_closed_entries_move_to_resolved() {
    let world = three();
    assert_eq!(names(&world, "items"), "item-003.json");
    assert_eq!(names(&world, "resolved"), "item-001.json item-002.json");
    let index = index(&world);
    assert_eq!(index["schema_version"], 1);
    assert_eq!(index["job_id"], "job");
    assert_eq!(index["counts"], json!({"open": 1, "replaying": 0, "resolved": 1, "dropped": 1}));
    assert_eq!(index["open"], json!(["item-003"]));
    assert_eq!(index["resolved"], json!(["item-001"]));
    assert_eq!(index["dropped"], json!(["item-002"]));
    assert!(index["journal_seq"].as_u64().unwrap() > 0, "{index}");
    for item in ["item-001", "item-002", "item-003"] {
        assert_code(&world.prodigy(&["dlq", "show", "job", item]), 0);
    }
    let seen = world.prodigy(&["dlq", "fsck", "job"]);
    assert!(seen.stdout.contains("3 entries, all as the journal says"), "{seen}");
    // A closed entry that is cleared is gone from its place.
    assert_code(&world.prodigy(&["dlq", "clear", "job", "--yes"]), 0);
    assert_eq!(names(&world, "resolved"), "");
}

#[test]
fn a_home_in_the_old_layout_is_converted_on_first_open() {
    let world = three();
    let directory = queue(&world);
    let listed = world.prodigy(&["dlq", "list", "--all", "--json"]).stdout;
    let to_old = || {
        fs::rename(directory.join("index.jsonl"), directory.join("index.json")).unwrap();
        for item in ["item-001.json", "item-002.json"] {
            let from = directory.join("resolved").join(item);
            fs::rename(from, directory.join("items").join(item)).unwrap();
        }
        fs::remove_dir(directory.join("resolved")).unwrap();
    };
    to_old();
    assert_eq!(world.prodigy(&["dlq", "list", "--all", "--json"]).stdout, listed);
    assert_eq!(names(&world, "items"), "item-003.json");
    assert_eq!(names(&world, "resolved"), "item-001.json item-002.json");
    assert_eq!(index(&world)["counts"]["open"], 1);

    // If it cannot be converted it is read as it is.
    to_old();
    fs::write(directory.join("resolved"), "in the way").unwrap();
    assert_eq!(world.prodigy(&["dlq", "list", "--all", "--json"]).stdout, listed);
    assert_code(&world.prodigy(&["dlq", "show", "job", "item-001"]), 0);
    assert!(names(&world, "items").contains("item-001.json"));
}

#[test]
fn lists_without_a_job_are_made_from_the_journals() {
    let world = three();
    let listed = world.prodigy(&["dlq", "list", "--all"]).to_string();
    assert!(listed.contains("item-003"), "{listed}");
    for command in ["list", "stats", "analyze", "status", "export"] {
        let before = world.prodigy(&["dlq", command]).stdout;
        fs::remove_dir_all(world.home().join("dlq")).unwrap();
        let seen = world.prodigy(&["dlq", command]);
        assert_code(&seen, 0);
        if command != "status" {
            assert_eq!(seen.stdout, before, "{command}: {seen}");
        }
    }
    // Only the entries are lost.
    fs::remove_dir_all(queue(&world).join("items")).unwrap();
    assert_code(&world.prodigy(&["dlq", "show", "job", "item-003"]), 0);
    assert_eq!(names(&world, "items"), "item-003.json");
}

#[test]
fn dead_letters_of_a_running_job_are_listed_without_their_files() {
    let world = map_world(
        r"
map:
  input: { items: [a, b] }
  max_parallel: 1
  agent_template:
    - shell: 'if test ${item} = a; then exit 3; fi; touch ROOT/began; while test ! -e ROOT/go; do sleep 0.05; done'
",
    );
    let mut run = started(&world);
    run.until(&world, "the first item died", || {
        has_told(&world, "item_dead_lettered")
            && world.root().join("began").exists()
            && queue(&world).join("index.jsonl").exists()
    });
    // In one step: the job may be writing.
    fs::rename(world.home().join("dlq"), world.root().join("lost")).unwrap();
    for args in [&["dlq", "list"][..], &["dlq", "list", "job"], &["dlq", "show", "job", "item-001"]]
    {
        let seen = world.prodigy(args);
        assert_code(&seen, 0);
        assert!(seen.stdout.contains("item-001"), "{args:?}: {seen}");
    }
    fs::write(world.root().join("go"), "").unwrap();
    assert_code(&run.seen(&world), 0);
    let seen = world.prodigy(&["dlq", "list"]);
    assert!(seen.stdout.contains("item-001"), "{seen}");
}

#[test]
fn files_that_cannot_be_read_are_an_error_and_not_none() {
    for lost in ["job", "job/mapreduce/dlq/job/items", "job/mapreduce/dlq/job/index.jsonl"] {
        let world = three();
        let path = world.home().join("dlq/repo").join(lost);
        let is_file = path.is_file();
        if is_file {
            fs::remove_file(&path).unwrap();
            fs::create_dir(&path).unwrap();
        } else {
            fs::remove_dir_all(&path).unwrap();
            fs::write(&path, "in the way").unwrap();
        }
        for command in ["list", "stats", "analyze", "export"] {
            let seen = world.prodigy(&["dlq", command]);
            assert_code(&seen, 1);
            assert!(seen.stderr.contains("cannot be read"), "{lost} {command}: {seen}");
            assert!(!seen.stderr.contains("there are no"), "{lost} {command}: {seen}");
        }
        let seen = world.prodigy(&["dlq", "list"]);
        assert!(seen.stdout.contains("item-003"), "{lost}: {seen}");
    }
}

#[test]
fn resume_of_a_completed_job_makes_its_views_again() {
    let world = three();
    let checkpoint = world.home().join("state/repo/mapreduce/jobs/job/checkpoint.json");
    fs::remove_file(&checkpoint).unwrap();
    fs::remove_dir_all(world.home().join("dlq")).unwrap();
    let seen = world.prodigy(&["resume", "job", "--no-dlq"]);
    assert_code(&seen, 0);
    assert!(checkpoint.exists(), "{seen}");
    assert_eq!(names(&world, "items"), "item-003.json");
    assert_eq!(index(&world)["counts"]["open"], 1);
    assert_code(&world.prodigy(&["verify", "job"]), 0);
    assert_code(&resume(&world), 0);
}

#[test]
fn entries_without_a_journal_are_not_called_replayable_and_name_the_way_out() {
    let world = failing(WORKFLOW, &["b"]);
    assert_code(&go(&world), 0);
    fs::remove_dir_all(world.home().join("events/repo/job")).unwrap();
    let seen = world.prodigy(&["dlq", "list", "job", "--json"]);
    assert_code(&seen, 0);
    let listed: Value = serde_json::from_str(&seen.stdout).unwrap();
    assert_eq!(listed["entries"][0]["item_id"], "item-002", "{seen}");
    assert_eq!(listed["entries"][0]["reprocess_eligible"], false, "{seen}");
    assert_eq!(listed["entries"][0]["verdict"], Value::Null, "{seen}");
    let seen = world.prodigy(&["dlq", "show", "job", "item-002"]);
    assert!(seen.stdout.contains("it cannot be replayed: its job has no journal"), "{seen}");
    let export = "prodigy dlq export job --format json --output entries.json";
    assert!(seen.stderr.contains(export), "{seen}");
    assert_code(&retry(&world, &["-y"]), 2);

    // The way out leads somewhere.
    let words: Vec<_> = export.split(' ').skip(1).collect();
    assert_code(&world.prodigy(&words), 0);
    mend(&world, "b");
    let workflow = "
map:
  input: entries.json
  json_path: '$[*].item_data'
  agent_template:
    - shell: 'test \"${item}\" = b && touch ROOT/found'
";
    write_workflow(&world, workflow);
    world.commit_all("Run what is left");
    assert_code(&world.prodigy(&["run", "workflow.yml", "-y", "--job-id", "again"]), 0);
    assert!(world.root().join("found").exists());
}
