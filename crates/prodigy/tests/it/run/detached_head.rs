//! Jobs without a branch to merge into: from a detached HEAD, or whose branch is gone.

use std::fs;

use insta::assert_snapshot;
use prodigy_core::event::{Event, EventRecord, NewEvent};
use prodigy_engine::store::{Durability, JournalReader, JournalWriter};
use prodigy_testkit::TestEnv;

use crate::fixture::{
    journal::layout,
    map_job::assert_code,
    workflow::{records, run, run_with, stable, world},
};

const COMMITS: &str = "- shell: echo x > x && git add x && git commit --quiet -m x\n";

fn detached(workflow: &str) -> TestEnv {
    let world = world(workflow);
    world.git(&["checkout", "--quiet", "--detach"]);
    world
}

fn subject(world: &TestEnv, branch: &str) -> String {
    world.git(&["log", "-1", "--format=%s", branch])
}

#[test]
fn a_detached_head_is_refused_before_anything_runs() {
    let world = detached("- shell: echo ran > ../ran\n");
    let commit = world.git(&["rev-parse", "--short=10", "HEAD"]);
    let seen = run(&world).replace(&commit, "[commit]");
    assert_snapshot!(seen, @"
    ----- stderr -----
    error: HEAD is detached at [commit]: there is no branch to merge the result into

    hint: `--into BRANCH` names one, which is made at the end if it is not there; or check out one: `git switch -c BRANCH`
    [exit 2]
    ");
    assert!(!world.home().join("events").exists());
    let batch = world.prodigy(&["batch", "*.yml", "--command", "true", "-y"]);
    assert_code(&batch, 2);
    assert_code(&world.prodigy(&["exec", "shell: true", "-y"]), 2);
    let plan = world.prodigy(&["plan", "workflow.yml"]).stdout;
    assert!(plan.contains("into      nothing yet: give `--into BRANCH`"), "{plan}");
}

#[test]
fn into_makes_a_branch_from_a_detached_head() {
    let world = detached(COMMITS);
    let head = world.git(&["rev-parse", "HEAD"]);
    let seen = run_with(&world, &["--into", "results/x"]);
    assert!(seen.contains("merged into results/x"), "{seen}");
    assert_eq!(subject(&world, "results/x"), "x");
    assert_eq!(world.git(&["rev-parse", "HEAD"]), head);
    assert_eq!(world.git(&["status", "--porcelain"]), "");
    assert_eq!(records(&world)[0]["into"], true);
}

#[test]
fn into_merges_into_a_branch_that_is_there() {
    let world = world(COMMITS);
    world.git(&["switch", "--quiet", "-c", "other"]);
    world.write("other.txt", "1\n");
    world.commit_all("other");
    world.git(&["checkout", "--quiet", "--detach", "main"]);
    let seen = run_with(&world, &["--into", "other"]);
    assert!(seen.contains("merged into other"), "{seen}");
    assert_eq!(world.git(&["show", "other:x"]), "x");
    assert_eq!(world.git(&["show", "other:other.txt"]), "1");
    assert_eq!(subject(&world, "main"), "Add the workflow");
    for name in ["prodigy/a/job", "a..b", "-x", "HEAD"] {
        let into = format!("--into={name}");
        assert_code(&world.prodigy(&["run", "workflow.yml", "-y", &into]), 2);
    }
}

#[test]
fn into_works_for_batch_and_exec() {
    let world = detached("- shell: 'true'\n");
    let commit = "echo x > x-$(date +%s%N) && git add . && git commit --quiet -m batch";
    let batch = ["batch", "README.md", "--command", commit, "-y", "--into", "of-batch"];
    assert_code(&world.prodigy(&batch), 0);
    assert_eq!(world.git(&["rev-list", "--count", "--no-merges", "HEAD..of-batch"]), "1");
    let step = "shell: echo y > y && git add y && git commit --quiet -m exec";
    assert_code(&world.prodigy(&["exec", step, "-y", "--into", "of-exec"]), 0);
    assert_eq!(subject(&world, "of-exec"), "exec");
}

/// Makes a job as an older binary left it that was started on a detached HEAD.
fn job_without_target() -> TestEnv {
    let world = world(COMMITS);
    world.write(".git/refs/heads/main.lock", "");
    assert_code(&world.prodigy(&["run", "workflow.yml", "-y", "--job-id", "job"]), 7);
    fs::remove_file(world.repo().join(".git/refs/heads/main.lock")).unwrap();
    let (layout, job) = (layout(&world), "job".parse().unwrap());
    let records: Vec<_> = JournalReader::open(&layout, &job).unwrap().map(Result::unwrap).collect();
    fs::remove_dir_all(layout.events_dir(&job)).unwrap();
    fs::remove_file(layout.checkpoint(&job)).unwrap();
    let mut journal = JournalWriter::create(&layout, &job, Durability::Relaxed).unwrap();
    for EventRecord { timestamp, agent_id, item_id, mut event, .. } in records {
        if let Event::JobStarted(started) = &mut event {
            started.target_branch = None;
        }
        journal.append(vec![NewEvent { agent_id, item_id, event }], timestamp).unwrap();
    }
    world
}

#[test]
fn resume_into_merges_a_job_that_has_no_branch() {
    let world = job_without_target();
    let seen = world.prodigy(&["resume", "job"]);
    assert_code(&seen, 7);
    assert!(seen.stderr.contains("next: prodigy resume job -y --into BRANCH"), "{seen}");
    let seen = world.prodigy(&["resume", "job", "--into", "main"]);
    assert_code(&seen, 0);
    assert_eq!(world.read("x"), "x\n");
    assert_eq!(world.git(&["status", "--porcelain"]), "");
}

#[test]
fn a_job_without_a_branch_that_was_merged_by_hand_is_done() {
    let world = job_without_target();
    assert_code(&world.prodigy(&["resume", "job"]), 7);
    world.git(&["merge", "--quiet", "prodigy/job/job"]);
    let seen = world.prodigy(&["resume", "job"]);
    assert_code(&seen, 0);
    assert!(stable(&seen).contains("merged into main at [commit]"), "{seen}");
}

#[test]
fn a_renamed_branch_is_named_with_into_or_merged_by_hand() {
    let world = world(COMMITS);
    world.write(".git/refs/heads/main.lock", "");
    assert_code(&world.prodigy(&["run", "workflow.yml", "-y", "--job-id", "job"]), 7);
    fs::remove_file(world.repo().join(".git/refs/heads/main.lock")).unwrap();
    world.git(&["branch", "--move", "main", "trunk"]);
    let seen = world.prodigy(&["resume", "job"]);
    assert_code(&seen, 7);
    assert!(
        seen.stderr.contains("the branch `main` is gone; `prodigy resume job --into BRANCH`"),
        "{seen}"
    );
    assert!(seen.stderr.ends_with("\nnext: prodigy resume job -y --into BRANCH\n"), "{seen}");
    let listed = world.prodigy(&["jobs", "show", "job"]);
    let way_out = "`prodigy resume job -y --into BRANCH` merges the result";
    assert!(listed.stderr.contains(way_out), "{listed}");
    world.git(&["merge", "--quiet", "prodigy/job/job"]);
    let seen = world.prodigy(&["resume", "job"]);
    assert_code(&seen, 0);
    assert!(seen.stderr.contains("merged into trunk"), "{seen}");
}

#[test]
fn bare_resume_prefers_a_job_that_has_a_branch() {
    let world = job_without_target();
    world.write(".git/refs/heads/main.lock", "");
    // An equal commit of the same second would be the very same.
    let other = "- shell: echo y > y && git add y && git commit --quiet -m y\n";
    fs::write(world.root().join("other.yml"), other).unwrap();
    // It comes first, although its name comes before that of the other.
    let args = ["run", "../other.yml", "-y", "--job-id", "a-job"];
    assert_code(&world.prodigy(&args), 7);
    fs::remove_file(world.repo().join(".git/refs/heads/main.lock")).unwrap();
    let seen = world.prodigy(&["resume"]);
    assert_code(&seen, 0);
    assert!(seen.stderr.contains("job a-job"), "{seen}");
    let seen = world.prodigy(&["resume"]);
    assert_code(&seen, 7);
    assert!(seen.stderr.contains("--into BRANCH"), "{seen}");
    assert_code(&world.prodigy(&["resume", "--into", "main"]), 0);
}

#[test]
fn a_job_with_items_whose_branch_is_gone_names_the_way_out() {
    let world = crate::fixture::map_job::map_world(
        "map:\n  input: { items: [a] }\n  agent_template:\n    - { shell: 'echo x > x', auto_commit: true }\n",
    );
    world.git(&["switch", "--quiet", "-c", "topic"]);
    let args = ["run", "workflow.yml", "--job-id", "job"];
    assert_code(&world.prodigy(&args), 7);
    world.git(&["switch", "--quiet", "main"]);
    world.git(&["branch", "--quiet", "-D", "topic"]);
    let seen = world.prodigy(&["resume", "job", "-y"]);
    assert_code(&seen, 7);
    assert!(seen.stderr.ends_with("\nnext: prodigy resume job -y --into BRANCH\n"), "{seen}");
    assert_code(&world.prodigy(&["resume", "job", "--into", "main"]), 0);
    assert_eq!(world.read("x"), "x\n");
}

#[test]
fn a_job_whose_branch_was_rewritten_names_the_way_out() {
    let world = world(COMMITS);
    assert_code(&world.prodigy(&["run", "workflow.yml", "--job-id", "job"]), 7);
    world.git(&["commit", "--quiet", "--amend", "--message", "Rewritten"]);
    let seen = world.prodigy(&["resume", "job", "-y"]);
    assert_code(&seen, 7);
    assert!(seen.stderr.ends_with("\nnext: prodigy resume job -y --into main\n"), "{seen}");
    assert_code(&world.prodigy(&["resume", "job", "-y", "--into", "main"]), 0);
}
