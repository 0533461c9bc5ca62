//! `prodigy worktree` and what items leave behind.

use std::fs;

use insta::assert_snapshot;
use prodigy_testkit::{CommandOutput, TestEnv};
use regex::Regex;
use rustix::process::Signal;

use crate::fixture::{
    journal,
    workflow::{self, SpawnedProdigy, records},
};

/// Three items that fail: one leaves a file, one a commit, one nothing.
const ALL_FAIL: &str = "\
mode: mapreduce
map:
  input: { items: [file, commit, nothing] }
  item_key: item
  agent_template:
    - shell: |
        case ${item} in
          file) echo x > left ;;
          commit) echo x > made && git add made && git commit -qm made ;;
        esac
        exit 1
";

fn all_fail() -> TestEnv {
    let world = workflow::world(ALL_FAIL);
    let seen = world.prodigy(&["run", "workflow.yml", "-y", "--job-id", "job"]);
    assert_eq!(seen.code, Some(1), "{seen}");
    world
}

/// Returns what a person sees, without sizes, which depend on the file system.
fn stable(seen: &CommandOutput) -> String {
    let text = seen.to_string();
    let text =
        Regex::new(r" +\d+\.\d (KiB|MiB)").unwrap().replace_all(&text, " [size]").into_owned();
    Regex::new(r"~\w{6}\b").unwrap().replace_all(&text, "~[random]").into_owned()
}

fn refs(world: &TestEnv) -> String {
    world.git(&["for-each-ref", "--format=%(refname)"])
}

#[test]
fn worktrees_of_failed_items_are_listed_and_stand_on_their_branches() {
    let world = all_fail();
    assert_snapshot!(stable(&world.prodigy(&["worktree", "ls"])), @"
    job  completed with failures  1 unmerged commit [size]  $ROOT/home/worktrees/repo/job/commit
    job  completed with failures  1 uncommitted file [size]  $ROOT/home/worktrees/repo/job/file
    ");
    let place = world.home().join("worktrees/repo/job/file");
    let status = world.git(&["-C", place.to_str().unwrap(), "status", "--short", "--branch"]);
    assert_snapshot!(status, @"
    ## prodigy/job/file
    ?? left
    ");
    let du = stable(&world.prodigy(&["worktree", "du"]));
    assert_snapshot!(du, @"
    [size]  job
    [size]  total
    ");
}

#[test]
fn what_items_left_is_removed_only_if_that_is_wanted_and_commits_never() {
    let world = all_fail();
    assert_snapshot!(world.prodigy(&["worktree", "clean"]), @"
    ----- stderr -----
    kept  $ROOT/home/worktrees/repo/job/commit: 1 unmerged commit
    kept  $ROOT/home/worktrees/repo/job/file: 1 uncommitted file
    `--force` removes worktrees all the same; commits stay on their branches
    ");
    assert_snapshot!(world.prodigy(&["worktree", "clean", "--force", "-y"]), @"
    removed  $ROOT/home/worktrees/repo/job/commit
    removed  $ROOT/home/worktrees/repo/job/file
    ----- stderr -----
    the branch `prodigy/job/commit` stays
    ");
    assert_snapshot!(refs(&world), @"
    refs/heads/main
    refs/heads/prodigy/job/commit
    ");
    assert!(!world.home().join("worktrees/repo/job").exists());
    assert_snapshot!(world.prodigy(&["worktree", "clean"]), @"
    ----- stderr -----
    kept  branch prodigy/job/commit: 1 unmerged commit; `git branch -D prodigy/job/commit` drops it
    ");
}

#[test]
fn a_branch_of_an_item_goes_and_the_worktree_of_its_job_stays() {
    let world = workflow::world("- shell: echo x > left\n- shell: exit 1\n");
    workflow::run(&world);
    let layout = journal::layout(&world);
    journal::record(
        &layout,
        "job",
        &[(
            0,
            serde_json::json!({
                "event_type": "job_completed", "status": "completed", "duration_ms": 1, "commits": 0,
            }),
        )],
    );
    world.git(&["branch", "prodigy/job/item-001", "HEAD"]);
    assert_snapshot!(world.prodigy(&["worktree", "clean"]), @"
    removed  branch prodigy/job/item-001
    ----- stderr -----
    kept  $ROOT/home/worktrees/repo/job/job: 1 uncommitted file
    `--force` removes worktrees all the same; commits stay on their branches
    ");
    assert!(world.home().join("worktrees/repo/job/job/left").exists());
}

#[test]
fn records_of_failed_items_are_listed_and_removed() {
    let world = all_fail();
    assert_eq!(world.prodigy(&["worktree", "clean", "--force", "-y"]).code, Some(0));
    let reference = |name: &str, parent: &str| {
        let commit = world.git(&["commit-tree", "-p", parent, "-m", "x", "HEAD^{tree}"]);
        world.git(&["update-ref", &format!("refs/prodigy/job/{name}"), commit.trim()]);
    };
    reference("failed/a", "HEAD");
    reference("failed/b", "HEAD");
    reference("failed/c", "prodigy/job/commit");
    reference("snapshot", "HEAD");
    assert_snapshot!(stable(&world.prodigy(&["worktree", "ls"])), @"
    job  completed with failures  1 unmerged commit                         0 B  branch prodigy/job/commit
    job  completed with failures  clean                                     0 B  refs/prodigy/job/snapshot
    job  completed with failures  2 records                                 0 B  refs/prodigy/job/failed/a and 1 more
    job  completed with failures  1 unmerged commit, 1 record               0 B  refs/prodigy/job/failed/c
    ");
    assert_snapshot!(world.prodigy(&["worktree", "clean"]), @"
    removed  refs/prodigy/job/snapshot
    ----- stderr -----
    kept  branch prodigy/job/commit: 1 unmerged commit; `git branch -D prodigy/job/commit` drops it
    kept  refs/prodigy/job/failed/a and 1 more: nothing else has what they hold
    kept  refs/prodigy/job/failed/c: 1 unmerged commit, 1 record; `git update-ref -d refs/prodigy/job/failed/c` drops one
    `--force` removes worktrees all the same; commits stay on their branches
    ");
    assert_snapshot!(world.prodigy(&["worktree", "clean", "--force", "-y"]), @"
    removed  refs/prodigy/job/failed/a and 1 more
    ----- stderr -----
    kept  branch prodigy/job/commit: 1 unmerged commit; `git branch -D prodigy/job/commit` drops it
    kept  refs/prodigy/job/failed/c: 1 unmerged commit, 1 record; `git update-ref -d refs/prodigy/job/failed/c` drops one
    ");
    assert_snapshot!(refs(&world), @"
    refs/heads/main
    refs/heads/prodigy/job/commit
    refs/prodigy/job/failed/c
    ");
}

#[test]
fn the_worktrees_of_agents_are_never_touched_while_they_work() {
    let world = workflow::world(
        "mode: mapreduce\nmap:\n  input: { items: [1, 2] }\n  \
         agent_template: [{ shell: echo x > left; sleep 60 }]\n",
    );
    let mut run = SpawnedProdigy::new(&world, &["run", "workflow.yml", "-y", "--job-id", "job"]);
    let place = |agent: &str| world.home().join("worktrees/repo/job").join(agent).join("left");
    run.until(&world, "both work", || place("agent-1").exists() && place("agent-2").exists());
    assert_snapshot!(stable(&world.prodigy(&["worktree", "ls"])), @"
    job  running                  in use [size]  $ROOT/home/worktrees/repo/job/agent-1
    job  running                  in use [size]  $ROOT/home/worktrees/repo/job/agent-2
    job  running                  in use [size]  $ROOT/home/worktrees/repo/job/job
    ");
    assert_snapshot!(world.prodigy(&["worktree", "clean", "--force", "-y"]), @"
    ----- stderr -----
    kept  $ROOT/home/worktrees/repo/job/agent-1: its job is running
    kept  $ROOT/home/worktrees/repo/job/agent-2: its job is running
    kept  $ROOT/home/worktrees/repo/job/job: its job is running
    ");
    assert!(place("agent-1").exists() && place("agent-2").exists());
    run.signal(Signal::KILL);
    assert_eq!(run.seen(&world).code, None);
    assert_snapshot!(stable(&world.prodigy(&["worktree", "clean"])), @"
    removed  $ROOT/repo/.git/prodigy-job-job~[random]
    ----- stderr -----
    kept  $ROOT/home/worktrees/repo/job/agent-1: its job is interrupted and can be resumed
    kept  $ROOT/home/worktrees/repo/job/agent-2: its job is interrupted and can be resumed
    kept  $ROOT/home/worktrees/repo/job/job: its job is interrupted and can be resumed
    `--force` removes worktrees all the same; commits stay on their branches
    ");
    assert!(place("agent-1").exists());
    fs::create_dir_all(world.home().join("worktrees/repo/job/.trash-x/tree")).unwrap();
    assert_snapshot!(world.prodigy(&["worktree", "clean", "job", "--force", "-y"]), @"
    removed  $ROOT/home/worktrees/repo/job/.trash-x
    removed  $ROOT/home/worktrees/repo/job/agent-1
    removed  $ROOT/home/worktrees/repo/job/agent-2
    removed  $ROOT/home/worktrees/repo/job/job
    ----- stderr -----
    the branch `prodigy/job/item-001` stays
    the branch `prodigy/job/item-002` stays
    the branch `prodigy/job/job` stays
    ");
    assert!(!world.home().join("worktrees/repo/job").exists());
    assert!(records(&world).len() > 5, "the journal stays");
}
