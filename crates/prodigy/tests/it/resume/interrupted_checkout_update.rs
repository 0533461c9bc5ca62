//! A job that was killed while it updated the user's checkout: removed, moved, resumed.

use std::{fs, path::PathBuf, time::Duration};

use prodigy_testkit::{CommandOutput, TestEnv};
use rustix::{
    fs::{CWD, FileType, Mode, OFlags, mknodat},
    process::Signal,
};

use crate::{
    fixture::map_job::{assert_code, map_world, of_type, started},
    process::eventually,
    resume::moved_repository::{at, git},
};

/// How often an update is killed at most until one is hit in the middle.
const MOST_TRIES: u32 = 12;

/// The file that is written right before the files take their places.
const PLAN: &str = ".git/prodigy-update-prodigy-job-job/plan";

/// The branch that the update moves.
const BRANCH: &str = ".git/refs/heads/main";

/// One item that commits so many files that their update takes a while.
const MANY_FILES: &str = "
map:
  input: { items: [a] }
  agent_template:
    - shell: for n in $(seq 500); do echo $n > file-$n; done; git add .; git commit --quiet -m all
";

/// The same, and one that fails until the file `mended` is beside the repository.
const WITH_A_FAILURE: &str = "
map:
  input: { items: [a, b] }
  agent_template:
    - shell: test ${item} = a || test -e ROOT/mended
    - shell: for n in $(seq 500); do echo $n > file-$n; done; git add .; git commit --quiet -m all
      when: item == 'a'
    - shell: echo b > b.txt; git add .; git commit --quiet -m b
      when: item == 'b'
error_policy: { retry_config: { max_attempts: 1 } }
";

/// The part of the update that is the last one done.
#[derive(Clone, Copy, Debug)]
enum UpdateStage {
    /// The first files of the result have taken their places.
    Files,
    /// The branch has moved, and the index has not followed.
    Branch,
}

/// Makes a world whose job was killed after a part of the update of the checkout.
fn half_updated(last: UpdateStage) -> TestEnv {
    match last {
        UpdateStage::Files => killed_among_files(),
        UpdateStage::Branch => killed_behind_the_branch(MANY_FILES),
    }
}

fn killed_among_files() -> TestEnv {
    let worlds = (0..MOST_TRIES).map(|_| killed_at_the_first_file());
    worlds.flatten().next().unwrap()
}

/// Kills the job when the first file is in its place; nothing if the update was over by then.
fn killed_at_the_first_file() -> Option<TestEnv> {
    let world = map_world(MANY_FILES);
    let before = world.git(&["rev-parse", "main"]);
    let mut run = started(&world);
    run.until(&world, "the first file is in its place", || {
        ["file-1", "file-500"].iter().any(|file| exists(&world, file))
    });
    run.signal(Signal::KILL);
    run.seen(&world);
    let is_moved = world.git(&["rev-parse", "main"]) != before;
    if is_moved || !exists(&world, ".git/index.lock") {
        return None;
    }
    assert_ne!(status(&world, "repo"), "");
    Some(world)
}

/// Git moves the branch, then writes the log of HEAD; here that is a pipe that nobody reads, so
/// the update waits between the branch and the index.
fn killed_behind_the_branch(workflow: &str) -> TestEnv {
    let world = map_world(workflow);
    let before = world.git(&["rev-parse", "main"]);
    let (log, aside) = (world.repo().join(".git/logs/HEAD"), world.root().join("log"));
    let mut run = started(&world);
    run.until(&world, "the files are about to take their places", || exists(&world, PLAN));
    fs::copy(&log, &aside).unwrap();
    let pipe = world.root().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    fs::rename(&pipe, &log).unwrap();
    run.until(&world, "the branch moves", || {
        fs::read_to_string(world.repo().join(BRANCH)).is_ok_and(|now| now.trim_end() != before)
    });
    run.signal(Signal::KILL);
    run.seen(&world);
    // The git that still waits ends once somebody reads.
    let reader = rustix::fs::open(&log, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).unwrap();
    eventually("git ends", Duration::from_secs(60), || !exists(&world, ".git/HEAD.lock"));
    drop(reader);
    fs::rename(&aside, &log).unwrap();
    assert!(exists(&world, ".git/index.lock"));
    assert_ne!(status(&world, "repo"), "");
    world
}

fn exists(world: &TestEnv, path: &str) -> bool {
    world.repo().join(path).exists()
}

fn status(world: &TestEnv, directory: &str) -> String {
    git(world, directory, &["status", "--porcelain", "--untracked-files=all"])
}

/// Returns whether the result is on the branch, all of it.
fn is_merged(world: &TestEnv, directory: &str) -> bool {
    let names = git(world, directory, &["ls-tree", "--name-only", "main"]);
    let count = names.lines().filter(|name| name.starts_with("file-")).count();
    assert!([0, 500].contains(&count), "{count} of 500 files are on the branch");
    count == 500
}

/// Checks that the checkout has all of the result or nothing of it, as the branch says, and that
/// nothing of the update is left.
#[track_caller]
fn assert_whole(world: &TestEnv, directory: &str, seen: &CommandOutput) {
    assert_eq!(status(world, directory), "", "{seen}");
    let root = world.root().join(directory);
    assert_eq!(root.join("file-250").exists(), is_merged(world, directory), "{seen}");
    let names = fs::read_dir(root.join(".git")).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let is_left = |name: &String| name == "index.lock" || name.starts_with("prodigy-update");
    assert_eq!(names.filter(is_left).collect::<Vec<_>>(), Vec::<String>::new(), "{seen}");
}

fn journal(world: &TestEnv) -> PathBuf {
    world.home().join("events/repo/job")
}

#[test]
fn a_job_killed_before_its_branch_moved_is_kept_and_resumes() {
    let world = half_updated(UpdateStage::Files);
    let seen = at(&world, "repo", &["jobs", "rm", "job", "-y"]);
    assert_code(&seen, 1);
    assert_whole(&world, "repo", &seen);
    for said in [
        "the update of your checkout was cut off; it has been undone",
        "kept  1 commit on no other branch: `prodigy/job/job`",
    ] {
        assert!(seen.stderr.contains(said), "{seen}");
    }
    let seen = at(&world, "repo", &["resume", "job", "-y"]);
    assert_code(&seen, 0);
    assert!(is_merged(&world, "repo"), "{seen}");
    assert_whole(&world, "repo", &seen);
    assert_code(&at(&world, "repo", &["verify", "job"]), 0);
    assert_code(&at(&world, "repo", &["jobs", "rm", "job", "-y"]), 0);
}

#[test]
fn a_job_killed_after_its_branch_moved_is_removed_and_its_work_stays() {
    let world = half_updated(UpdateStage::Branch);
    let seen = at(&world, "repo", &["jobs", "rm", "job", "-y"]);
    assert_code(&seen, 0);
    let said = "the update of your checkout was cut off; it is complete now";
    assert!(seen.stderr.contains(said), "{seen}");
    assert!(is_merged(&world, "repo"), "{seen}");
    assert_whole(&world, "repo", &seen);
    assert!(!journal(&world).exists(), "{seen}");
}

#[test]
fn a_half_updated_checkout_that_was_moved_is_whole_after_resume() {
    for (last, said) in [
        (UpdateStage::Files, "the update of your checkout was cut off; it has been undone"),
        (UpdateStage::Branch, "the update of your checkout was cut off; it is complete now"),
    ] {
        let world = half_updated(last);
        fs::rename(world.repo(), world.root().join("moved")).unwrap();
        let seen = at(&world, "moved", &["resume", "job", "-y", "--relocate"]);
        assert_code(&seen, 0);
        assert!(is_merged(&world, "moved"), "{seen}");
        assert_whole(&world, "moved", &seen);
        assert!(seen.stderr.contains(said), "{last:?}: {seen}");
        assert_code(&at(&world, "moved", &["verify", "job"]), 0);
    }
}

#[test]
fn a_half_updated_checkout_that_was_moved_is_whole_after_the_removal() {
    for last in [UpdateStage::Files, UpdateStage::Branch] {
        let world = half_updated(last);
        let before = status(&world, "repo");
        fs::rename(world.repo(), world.root().join("moved")).unwrap();
        for directory in ["moved", "."] {
            let seen = at(&world, directory, &["jobs", "rm", "job", "-y", "--force"]);
            assert_code(&seen, 2);
            assert!(journal(&world).exists(), "{seen}");
            assert_eq!(status(&world, "moved"), before);
        }
        assert_code(&at(&world, "moved", &["jobs", "--relocate"]), 0);
        let seen = at(&world, "moved", &["jobs", "rm", "job", "-y", "--force"]);
        assert_code(&seen, 0);
        assert_whole(&world, "moved", &seen);
        assert_eq!(is_merged(&world, "moved"), matches!(last, UpdateStage::Branch), "{seen}");
        assert!(!journal(&world).exists(), "{seen}");
        assert_eq!(git(&world, "moved", &["for-each-ref", "refs/heads/prodigy"]), "");
    }
}

#[test]
fn a_replay_after_a_cut_off_update_completes_it_and_tells_of_the_merge() {
    for (is_mended, code, text) in [(false, 3, ""), (true, 0, "b")] {
        let world = killed_behind_the_branch(WITH_A_FAILURE);
        if is_mended {
            fs::write(world.root().join("mended"), "").unwrap();
        }
        let seen = at(&world, "repo", &["dlq", "retry", "job", "-y"]);
        assert_code(&seen, code);
        let said = "the update of your checkout was cut off; it is complete now";
        assert!(seen.stderr.contains(said), "{seen}");
        assert!(is_merged(&world, "repo"), "{seen}");
        assert_whole(&world, "repo", &seen);
        assert_eq!(git(&world, "repo", &["show", "main:b.txt"]), text, "{seen}");
        let merges = of_type(&world, "worktree_merged");
        let merges: Vec<_> = merges.iter().filter(|merge| merge["item_id"].is_null()).collect();
        assert_eq!(merges.len(), 1, "{seen}");
        assert_eq!(merges[0]["commit"], git(&world, "repo", &["rev-parse", "main"]), "{seen}");
        assert_code(&at(&world, "repo", &["verify", "job"]), 0);
    }
}
