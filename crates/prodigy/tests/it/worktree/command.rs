//! `prodigy worktree`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use insta::assert_snapshot;
use prodigy_testkit::{CommandOutput, TestEnv};
use regex::Regex;
use serde_json::json;

use crate::fixture::journal::{completed, failed, hold, layout, record, world};

/// Makes the worktree of a job as a run does.
fn add(world: &TestEnv, job: &str) -> PathBuf {
    let path = world.home().join("worktrees/repo").join(job).join("job");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let branch = format!("prodigy/{job}/job");
    world.git(&["worktree", "add", "--quiet", "-b", &branch, path.to_str().unwrap(), "HEAD"]);
    path
}

/// Commits a file in a worktree.
fn commit(world: &TestEnv, path: &Path, file: &str) {
    fs::write(path.join(file), "x").unwrap();
    let place = path.to_str().unwrap();
    world.git(&["-C", place, "add", "--all"]);
    world.git(&["-C", place, "commit", "--quiet", "-m", file]);
}

/// Returns what a person sees, without sizes, which depend on the file system.
fn stable(seen: &CommandOutput) -> String {
    let text = seen.to_string();
    let text = Regex::new(r" +\d+\.\d (KiB|MiB)").unwrap().replace_all(&text, " [size]");
    Regex::new(r#"bytes": [1-9]\d*"#).unwrap().replace_all(&text, "bytes\": [size]").into_owned()
}

/// Returns a world with one worktree of each kind.
fn many() -> TestEnv {
    let world = world();
    let layout = layout(&world);
    let finished = ["a-clean", "b-commits", "c-files", "d-merged"];
    for job in finished {
        add(&world, job);
        record(&layout, job, &completed());
    }
    let place = |job: &str| world.home().join("worktrees/repo").join(job).join("job");
    commit(&world, &place("b-commits"), "one");
    commit(&world, &place("b-commits"), "two");
    fs::write(place("c-files").join("draft"), "x").unwrap();
    commit(&world, &place("d-merged"), "merged");
    world.git(&["merge", "--quiet", "prodigy/d-merged/job"]);
    add(&world, "e-failed");
    record(&layout, "e-failed", &failed());
    add(&world, "f-orphan");
    world.git(&["branch", "prodigy/g-branch/job", "prodigy/b-commits/job"]);
    fs::create_dir_all(world.home().join("worktrees/repo/h-other/notes")).unwrap();
    fs::write(world.home().join("worktrees/repo/h-other/notes/text"), "x").unwrap();
    world
}

#[test]
fn a_repository_without_jobs_lists_nothing() {
    let world = world();
    assert_snapshot!(world.prodigy(&["worktree", "ls"]), @"");
    assert_snapshot!(world.prodigy(&["worktree", "ls", "--json"]), @r#"
    {
      "schema_version": 1,
      "worktrees": []
    }
    "#);
    assert_snapshot!(world.prodigy(&["worktree", "clean"]), @"");
    assert_snapshot!(world.prodigy(&["worktree", "du"]), @"       0 B  total");
}

#[test]
fn worktrees_are_listed_with_what_is_nowhere_else() {
    let world = many();
    let running = add(&world, "i-running");
    commit(&world, &running, "one");
    let _lock = hold(&layout(&world), "i-running");
    assert_snapshot!(stable(&world.prodigy(&["worktree", "ls"])), @"
    a-clean    completed                clean [size]  $ROOT/home/worktrees/repo/a-clean/job
    b-commits  completed                2 unmerged commits [size]  $ROOT/home/worktrees/repo/b-commits/job
    c-files    completed                1 uncommitted file [size]  $ROOT/home/worktrees/repo/c-files/job
    d-merged   completed                clean [size]  $ROOT/home/worktrees/repo/d-merged/job
    e-failed   failed                   clean [size]  $ROOT/home/worktrees/repo/e-failed/job
    f-orphan   no journal               clean [size]  $ROOT/home/worktrees/repo/f-orphan/job
    h-other    no journal               not a worktree [size]  $ROOT/home/worktrees/repo/h-other/notes
    i-running  running                  1 unmerged commit, in use [size]  $ROOT/home/worktrees/repo/i-running/job
    g-branch   no journal               2 unmerged commits                        0 B  branch prodigy/g-branch/job
    ");
}

#[test]
fn the_list_is_there_for_programs_too() {
    let world = world();
    let path = add(&world, "j1");
    commit(&world, &path, "one");
    fs::write(path.join("draft"), "x").unwrap();
    record(&layout(&world), "j1", &failed());
    assert_snapshot!(stable(&world.prodigy(&["worktree", "ls", "--json"])), @r#"
    {
      "schema_version": 1,
      "worktrees": [
        {
          "job": "j1",
          "status": "failed",
          "branch": "prodigy/j1/job",
          "unmerged_commits": 1,
          "uncommitted_files": 1,
          "bytes": [size],
          "path": "$ROOT/home/worktrees/repo/j1/job",
          "kind": "worktree"
        }
      ]
    }
    "#);
    assert_snapshot!(stable(&world.prodigy(&["worktree", "du", "--json"])), @r#"
    {
      "schema_version": 1,
      "total_bytes": [size],
      "jobs": [
        {
          "job": "j1",
          "bytes": [size]
        }
      ]
    }
    "#);
}

#[test]
fn sizes_are_summed_up() {
    let world = many();
    assert_snapshot!(stable(&world.prodigy(&["worktree", "du"])), @"
    [size]  a-clean
    [size]  b-commits
    [size]  c-files
    [size]  d-merged
    [size]  e-failed
    [size]  f-orphan
    [size]  h-other
    [size]  total
    ");
}

#[test]
fn clean_removes_what_is_finished_and_keeps_what_is_nowhere_else() {
    let world = many();
    assert_snapshot!(world.prodigy(&["worktree", "clean", "--dry-run"]), @"
    would remove  $ROOT/home/worktrees/repo/a-clean/job
    would remove  $ROOT/home/worktrees/repo/d-merged/job
    would remove  $ROOT/home/worktrees/repo/f-orphan/job
    ----- stderr -----
    kept  $ROOT/home/worktrees/repo/b-commits/job: 2 unmerged commits
    kept  $ROOT/home/worktrees/repo/c-files/job: 1 uncommitted file
    kept  $ROOT/home/worktrees/repo/e-failed/job: its job is failed and can be resumed
    kept  $ROOT/home/worktrees/repo/h-other/notes: not a worktree
    kept  branch prodigy/g-branch/job: 2 unmerged commits; `git branch -D prodigy/g-branch/job` drops it
    `--force` removes worktrees all the same; commits stay on their branches
    ");
    assert_eq!(world.git(&["worktree", "list"]).lines().count(), 7, "a dry run removed something");
    assert_snapshot!(world.prodigy(&["worktree", "clean"]), @"
    removed  $ROOT/home/worktrees/repo/a-clean/job
    removed  $ROOT/home/worktrees/repo/d-merged/job
    removed  $ROOT/home/worktrees/repo/f-orphan/job
    ----- stderr -----
    kept  $ROOT/home/worktrees/repo/b-commits/job: 2 unmerged commits
    kept  $ROOT/home/worktrees/repo/c-files/job: 1 uncommitted file
    kept  $ROOT/home/worktrees/repo/e-failed/job: its job is failed and can be resumed
    kept  $ROOT/home/worktrees/repo/h-other/notes: not a worktree
    kept  branch prodigy/g-branch/job: 2 unmerged commits; `git branch -D prodigy/g-branch/job` drops it
    `--force` removes worktrees all the same; commits stay on their branches
    ");
    assert_snapshot!(stable(&world.prodigy(&["worktree", "ls"])), @"
    b-commits  completed                2 unmerged commits [size]  $ROOT/home/worktrees/repo/b-commits/job
    c-files    completed                1 uncommitted file [size]  $ROOT/home/worktrees/repo/c-files/job
    e-failed   failed                   clean [size]  $ROOT/home/worktrees/repo/e-failed/job
    h-other    no journal               not a worktree [size]  $ROOT/home/worktrees/repo/h-other/notes
    g-branch   no journal               2 unmerged commits                        0 B  branch prodigy/g-branch/job
    ");
    let branches = world.git(&["branch", "--format=%(refname:short)"]);
    assert_snapshot!(branches, @"
    main
    prodigy/b-commits/job
    prodigy/c-files/job
    prodigy/e-failed/job
    prodigy/g-branch/job
    ");
    assert!(!world.home().join("worktrees/repo/a-clean").exists());
}

#[test]
fn force_needs_a_yes_and_never_drops_commits() {
    let world = many();
    let tip = world.git(&["rev-parse", "prodigy/b-commits/job"]);
    assert_snapshot!(world.prodigy(&["worktree", "clean", "--force"]), @"
    ----- stderr -----
    error: this would remove 4 worktrees with work in it, or of a job that can be resumed

    hint: pass `-y` to remove without asking, or `--dry-run` to look first
    [exit 2]
    ");
    assert_eq!(world.git(&["worktree", "list"]).lines().count(), 7, "something was removed");
    assert_snapshot!(world.prodigy(&["worktree", "clean", "--force", "-y"]), @"
    removed  $ROOT/home/worktrees/repo/a-clean/job
    removed  $ROOT/home/worktrees/repo/b-commits/job
    removed  $ROOT/home/worktrees/repo/c-files/job
    removed  $ROOT/home/worktrees/repo/d-merged/job
    removed  $ROOT/home/worktrees/repo/e-failed/job
    removed  $ROOT/home/worktrees/repo/f-orphan/job
    removed  $ROOT/home/worktrees/repo/h-other/notes
    ----- stderr -----
    the branch `prodigy/b-commits/job` stays
    the branch `prodigy/e-failed/job` stays
    kept  branch prodigy/g-branch/job: 2 unmerged commits; `git branch -D prodigy/g-branch/job` drops it
    ");
    assert_eq!(world.git(&["worktree", "list"]).lines().count(), 1);
    assert_eq!(world.git(&["rev-parse", "prodigy/b-commits/job"]), tip);
    assert_snapshot!(stable(&world.prodigy(&["worktree", "ls"])), @"
    b-commits  completed                2 unmerged commits                        0 B  branch prodigy/b-commits/job
    e-failed   failed                   clean                                     0 B  branch prodigy/e-failed/job
    g-branch   no journal               2 unmerged commits                        0 B  branch prodigy/g-branch/job
    ");
}

#[test]
fn a_named_job_is_removed_or_the_reason_is_given() {
    let world = many();
    assert_snapshot!(world.prodigy(&["worktree", "clean", "a-clean"]), @"removed  $ROOT/home/worktrees/repo/a-clean/job");
    assert_snapshot!(world.prodigy(&["worktree", "clean", "a-clean"]), @"
    ----- stderr -----
    error: job `a-clean` has no worktree

    hint: `prodigy worktree ls` lists what there is
    [exit 2]
    ");
    assert_snapshot!(world.prodigy(&["worktree", "clean", "b-commits"]), @"
    ----- stderr -----
    kept  $ROOT/home/worktrees/repo/b-commits/job: 2 unmerged commits
    `--force` removes worktrees all the same; commits stay on their branches
    [exit 1]
    ");
    assert_snapshot!(world.prodigy(&["worktree", "clean", "../x"]), @"
    ----- stderr -----
    error: invalid value '../x' for '[JOB]': `../x` is not a usable name: use letters, digits, `.`, `_` and `-`, start with a letter or digit, at most 120 characters

    For more information, try '--help'.
    [exit 2]
    ");
}

#[test]
fn the_worktree_of_a_running_job_is_never_removed() {
    let world = world();
    let path = add(&world, "j1");
    record(&layout(&world), "j1", &completed());
    let lock = hold(&layout(&world), "j1");
    assert_snapshot!(world.prodigy(&["worktree", "clean", "j1", "--force", "-y"]), @"
    ----- stderr -----
    kept  $ROOT/home/worktrees/repo/j1/job: its job is running
    [exit 1]
    ");
    assert!(path.join("README.md").exists());
    drop(lock);
    assert_snapshot!(world.prodigy(&["worktree", "clean", "j1"]), @"removed  $ROOT/home/worktrees/repo/j1/job");
}

#[test]
fn a_job_that_can_be_resumed_keeps_its_branch() {
    let world = world();
    add(&world, "j1");
    let pause = json!({"event_type": "job_paused", "reason": "interrupted", "message": "x"});
    record(&layout(&world), "j1", &[(0, crate::fixture::journal::started()), (1, pause)]);
    assert_snapshot!(world.prodigy(&["worktree", "clean"]), @"
    ----- stderr -----
    kept  $ROOT/home/worktrees/repo/j1/job: its job is paused and can be resumed
    `--force` removes worktrees all the same; commits stay on their branches
    ");
    assert_snapshot!(world.prodigy(&["worktree", "clean", "--force", "--yes"]), @"
    removed  $ROOT/home/worktrees/repo/j1/job
    ----- stderr -----
    the branch `prodigy/j1/job` stays
    ");
    assert_eq!(world.git(&["branch", "--list", "prodigy/*"]), "  prodigy/j1/job");
}

#[test]
fn what_was_being_removed_when_a_run_was_killed_goes_too() {
    let world = world();
    let trash = world.home().join("worktrees/repo/j1/.trash-x");
    fs::create_dir_all(trash.join("tree")).unwrap();
    fs::write(trash.join("tree/file"), "x").unwrap();
    record(&layout(&world), "j1", &failed());
    assert_snapshot!(stable(&world.prodigy(&["worktree", "ls"])), @"j1  failed                   half removed [size]  $ROOT/home/worktrees/repo/j1/.trash-x");
    assert_snapshot!(world.prodigy(&["worktree", "clean"]), @"removed  $ROOT/home/worktrees/repo/j1/.trash-x");
    assert!(!world.home().join("worktrees/repo/j1").exists());
}

#[test]
fn git_directories_of_slots_that_are_gone_are_listed_and_removed() {
    let world = world();
    let jobs = world.home().join("worktrees/repo");
    for directory in [jobs.join("j1/.agent-1.git"), world.repo().join(".git/prodigy-j1-job~k3F")] {
        fs::create_dir_all(directory.join("refs")).unwrap();
        fs::write(directory.join("config"), "x").unwrap();
    }
    record(&layout(&world), "j1", &completed());
    assert_snapshot!(stable(&world.prodigy(&["worktree", "ls"])), @"
    j1  completed                half removed [size]  $ROOT/home/worktrees/repo/j1/.agent-1.git
    j1  completed                half removed [size]  $ROOT/repo/.git/prodigy-j1-job~k3F
    ");
    let used = world.prodigy(&["worktree", "du"]).to_string();
    assert!(!used.contains("0 B  total"), "{used}");
    assert_snapshot!(world.prodigy(&["worktree", "clean"]), @"
    removed  $ROOT/home/worktrees/repo/j1/.agent-1.git
    removed  $ROOT/repo/.git/prodigy-j1-job~k3F
    ");
    assert!(!jobs.join("j1").exists());
    assert!(!world.repo().join(".git/prodigy-j1-job~k3F").exists());
    assert_snapshot!(world.prodigy(&["worktree", "ls"]), @"");
}

#[test]
fn the_git_directory_of_a_slot_that_is_there_goes_with_the_slot() {
    let world = world();
    add(&world, "j1");
    let git = world.home().join("worktrees/repo/j1/.job.git");
    fs::create_dir_all(&git).unwrap();
    record(&layout(&world), "j1", &completed());
    assert_snapshot!(stable(&world.prodigy(&["worktree", "ls"])), @"j1  completed                clean [size]  $ROOT/home/worktrees/repo/j1/job");
    assert_snapshot!(world.prodigy(&["worktree", "clean"]), @"removed  $ROOT/home/worktrees/repo/j1/job");
    assert!(!git.exists());
}

#[test]
fn a_worktree_that_was_moved_to_the_trash_and_not_forgotten_is_forgotten() {
    let world = world();
    let path = add(&world, "j1");
    record(&layout(&world), "j1", &completed());
    let trash = path.with_file_name(".trash-x");
    fs::create_dir(&trash).unwrap();
    fs::rename(&path, trash.join("tree")).unwrap();
    assert_snapshot!(stable(&world.prodigy(&["worktree", "ls"])), @"
    j1  completed                half removed [size]  $ROOT/home/worktrees/repo/j1/.trash-x
    j1  completed                half removed                              0 B  $ROOT/home/worktrees/repo/j1/job
    j1  completed                clean                                     0 B  branch prodigy/j1/job
    ");
    assert_snapshot!(world.prodigy(&["worktree", "clean"]), @"
    removed  $ROOT/home/worktrees/repo/j1/.trash-x
    removed  $ROOT/home/worktrees/repo/j1/job
    removed  branch prodigy/j1/job
    ");
    assert!(!world.repo().join(".git/worktrees").exists());
    assert_eq!(world.git(&["branch", "--list", "prodigy/*"]), "");
    assert!(!path.parent().unwrap().exists());
}

#[test]
fn only_jobs_of_this_repository_are_looked_at() {
    let world = world();
    fs::create_dir_all(world.home().join("worktrees/other/j1/job")).unwrap();
    assert_snapshot!(world.prodigy(&["worktree", "ls"]), @"");
    let outside = world.prodigy_command(&["worktree", "ls"]).current_dir(world.root()).output();
    assert_snapshot!(world.to_output(&outside.unwrap()), @"
    ----- stderr -----
    error: `$ROOT` is not in a git repository

    hint: go to a repository, or make one with `git init`
    [exit 2]
    ");
}
