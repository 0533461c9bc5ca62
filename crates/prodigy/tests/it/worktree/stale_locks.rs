//! Lock files of git's that a killed git left: those that a git of the job made are removed, all
//! others are named.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use prodigy_testkit::{CommandOutput, TestEnv};

use crate::fixture::{
    map_job::{assert_code, has_told, map_world, of_type, resume},
    workflow::SpawnedProdigy,
};

/// A job whose item commits a file.
const COMMITS: &str = r"
map:
  input: { items: [a] }
  agent_template:
    - shell: 'echo x > x; git add x; git commit --quiet --message x'
";

/// Makes a world with a program in the place of git. It does what `script` says when it is called
/// with the word in the file `arm` beside the repository, and then is git.
fn with_git(workflow: &str, script: &str) -> TestEnv {
    let world = map_world(workflow);
    let root = world.root().display().to_string();
    let bin = world.root().join("bin");
    fs::create_dir(&bin).unwrap();
    let script = format!(
        r#"#!/bin/sh
PATH=${{PATH#{root}/bin:}}
if word=$(cat {root}/arm 2>/dev/null); then
  case " $* " in *" $word "*)
    rm {root}/arm
    {script};;
  esac
fi
exec git "$@"
"#
    );
    fs::write(bin.join("git"), script).unwrap();
    fs::set_permissions(bin.join("git"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap();
    world.env("PATH", &format!("{root}/bin:{path}"))
}

fn lock(world: &TestEnv, name: &str) -> PathBuf {
    world.repo().join(".git").join(name)
}

/// Makes a lock as a git with the usual mask makes it.
fn make_lock(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, "").unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
}

fn start(world: &TestEnv) -> CommandOutput {
    SpawnedProdigy::new(world, &["run", "workflow.yml", "-y", "--job-id", "job"]).seen(world)
}

#[test]
fn resume_removes_locks_of_a_git_that_was_killed_with_the_run() {
    for name in ["packed-refs.lock", "config.lock", "refs/heads/topic.lock", "index.lock"] {
        let script = format!(
            "mkdir -p $GIT_DIR/refs/heads; (umask 022; : > $GIT_DIR/{name}); kill -9 $PPID; kill -9 $$"
        );
        let world = with_git(COMMITS, &script);
        fs::write(world.root().join("arm"), "worktree").unwrap();
        assert_eq!(start(&world).code, None);
        assert!(lock(&world, name).exists(), "{name}");

        let seen = resume(&world);
        assert_code(&seen, 0);
        let note = format!("a git that was killed left `$ROOT/repo/.git/{name}`; it was removed");
        assert!(seen.stderr.contains(&note), "{seen}");
        assert!(!lock(&world, name).exists(), "{name}");
        assert_eq!(world.git(&["show", "main:x"]), "x");
    }
}

#[test]
fn a_git_that_is_killed_alone_leaves_no_lock_in_the_way() {
    let world = with_git(COMMITS, "(umask 022; : > $GIT_DIR/packed-refs.lock); kill -9 $$");
    fs::write(world.root().join("arm"), "worktree").unwrap();
    let seen = start(&world);
    assert!(!lock(&world, "packed-refs.lock").exists(), "{seen}");
    assert_code(&resume(&world), 0);
    assert_eq!(world.git(&["show", "main:x"]), "x");
}

#[test]
fn a_lock_of_a_step_that_was_killed_is_removed_whatever_its_mode() {
    let world = map_world(
        r#"
map:
  input: { items: [a] }
  agent_template:
    - shell: 'umask 022; : > "$(git rev-parse --path-format=absolute --git-common-dir)/packed-refs.lock"; kill -9 $$'
      on_failure: { shell: 'git branch other; git branch -D other; echo x > x; git add x; git commit --quiet --message x' }
"#,
    );
    let seen = start(&world);
    assert!(!lock(&world, "packed-refs.lock").exists(), "{seen}");
    assert_eq!(world.git(&["branch", "--list", "other"]), "");
    assert_eq!(of_type(&world, "worktree_merged").len(), 2, "{seen}");
}

#[test]
fn a_lock_of_unknown_origin_stays_and_is_named_with_the_command_that_removes_it() {
    let world = map_world(COMMITS);
    let path = lock(&world, "packed-refs.lock");
    make_lock(&path);
    let seen = start(&world);
    assert_code(&seen, 1);
    assert!(seen.stderr.contains("`rm $ROOT/repo/.git/packed-refs.lock`"), "{seen}");
    assert!(seen.stderr.contains("prodigy resume job"), "{seen}");
    assert!(path.exists(), "{seen}");

    // It is no more ours when the job goes on.
    let seen = resume(&world);
    assert_code(&seen, 1);
    assert!(seen.stderr.contains("`rm $ROOT/repo/.git/packed-refs.lock`"), "{seen}");
    assert!(path.exists(), "{seen}");

    fs::remove_file(&path).unwrap();
    let seen = resume(&world);
    assert!(has_told(&world, "job_completed"), "{seen}");
    assert_eq!(world.git(&["show", "main:x"]), "x");
    assert_eq!(world.git(&["for-each-ref", "refs/heads/prodigy"]), "");
}

#[test]
fn a_lock_that_a_living_process_has_open_stays() {
    // The one that has it open is no git and outlives the run.
    let script = r#"exec 9>"$GIT_DIR/packed-refs.lock"
    env -u PRODIGY_JOB_STATE setsid sleep 300 >/dev/null 2>&1 </dev/null &
    echo $! > "${0%/bin/git}/holder"
    exec 9>&-
    kill -9 $PPID; kill -9 $$"#;
    let world = with_git(COMMITS, script);
    fs::write(world.root().join("arm"), "worktree").unwrap();
    assert_eq!(start(&world).code, None);
    let path = lock(&world, "packed-refs.lock");
    let seen = resume(&world);
    let holder: i32 =
        fs::read_to_string(world.root().join("holder")).unwrap().trim().parse().unwrap();
    let is_there = path.exists();
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(holder).unwrap(),
        rustix::process::Signal::KILL,
    )
    .unwrap();
    assert!(is_there, "{seen}");
    assert_code(&seen, 1);
    assert!(seen.stderr.contains("`rm $ROOT/repo/.git/packed-refs.lock`"), "{seen}");
    // Once it is gone, so is the reason to keep the lock.
    assert_code(&resume(&world), 0);
    assert!(!path.exists());
}
