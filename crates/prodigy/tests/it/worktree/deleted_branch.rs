//! The job's branch when a step, or somebody else, deletes it.

use std::fs;

use insta::assert_snapshot;
use prodigy_testkit::TestEnv;
use rustix::process::Signal;

use crate::fixture::{
    map_job::{assert_code, counts, go, map_world, of_type, resume, started, trace},
    workflow::stable,
};

const DELETED: &str = "the branch `prodigy/job/job` was deleted";

/// Runs a job until its first item is merged and its second one is under way, and stops it.
fn paused() -> TestEnv {
    let world = map_world(
        r#"
map:
  input: { items: [a, b] }
  item_key: item
  max_parallel: 1
  agent_template:
    - shell: |
        if [ "${item}" = b ] && [ ! -e ROOT/gate ]; then touch ROOT/begun; sleep 60; fi
        echo x > "${item}.txt"; git add .; git commit --quiet -m "${item}"
"#,
    );
    let mut running = started(&world);
    running.until(&world, "b begins", || world.root().join("begun").exists());
    running.signal(Signal::INT);
    assert_code(&running.seen(&world), 130);
    fs::write(world.root().join("gate"), "").unwrap();
    world
}

#[test]
fn a_step_that_deletes_the_jobs_branch_changes_nothing() {
    let world = map_world(
        r#"
map:
  input: { items: [a, b, c] }
  item_key: item
  max_parallel: 1
  agent_template:
    - shell: |
        echo x > "${item}.txt"; git add .; git commit --quiet -m "${item}"
        test "${item}" = a || git update-ref -d refs/heads/prodigy/job/job
"#,
    );
    assert_code(&go(&world), 0);
    assert_eq!(counts(&world), (3, 0, 0), "{}", trace(&world));
    assert_eq!(world.git(&["ls-files", "*.txt"]), "a.txt\nb.txt\nc.txt");
    let told = of_type(&world, "git_tampering");
    let told: Vec<_> = told.iter().map(|record| record["changes"].to_string()).collect();
    assert_eq!(told, [format!("[\"{DELETED}\"]"), format!("[\"{DELETED}\"]")]);
}

#[test]
fn a_branch_that_was_deleted_is_put_back_where_the_journal_says_it_stood() {
    let world = paused();
    world.git(&["update-ref", "-d", "refs/heads/prodigy/job/job"]);
    let seen = resume(&world);
    assert_code(&seen, 0);
    assert!(seen.stderr.contains(DELETED), "{seen}");
    assert_eq!(counts(&world), (2, 0, 0), "{}", trace(&world));
    assert_eq!(world.git(&["ls-files", "*.txt"]), "a.txt\nb.txt");
}

#[test]
fn a_branch_whose_commit_is_gone_too_is_named_with_the_way_out() {
    let world = paused();
    let tip = world.git(&["rev-parse", "prodigy/job/job"]);
    world.git(&["update-ref", "-d", "refs/heads/prodigy/job/job"]);
    let (directory, name) = tip.split_at(2);
    let object = world.repo().join(".git/objects").join(directory).join(name);
    let saved = fs::read(&object).unwrap();
    fs::remove_file(&object).unwrap();
    assert_snapshot!(stable(&resume(&world)).replace(&tip, "[tip]"), @"
    ----- stderr -----
    · job job resumed · 1 of 2 items done
    error: the branch `prodigy/job/job` was deleted, and so was the commit [tip] that it stood at

    hint: bring the commit back, for instance with `git fetch` from a clone that has it, and resume; without it the job has to be started anew
    [exit 1]
    ");
    fs::write(&object, saved).unwrap();
    assert_code(&resume(&world), 0);
    assert_eq!(world.git(&["ls-files", "*.txt"]), "a.txt\nb.txt");
}
