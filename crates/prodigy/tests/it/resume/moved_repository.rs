//! A repository that was moved keeps its jobs; a copy has none.

use std::{fs, path::PathBuf, process::Command};

use prodigy_testkit::{CommandOutput, TestEnv};

use crate::{
    fixture::{
        map_job::{assert_code, map_world},
        workflow::SpawnedProdigy,
    },
    security::hostile_values::command_on_a_terminal,
};

/// Fails until the file `mended` is beside the repository.
const FAILS: &str = r"
setup: [shell: 'test -e ROOT/mended']
map:
  input: { items: [a] }
  agent_template:
    - shell: 'echo x > x; git add x; git commit --quiet --message x'
";

/// Runs prodigy in a directory of the world.
pub(crate) fn at(world: &TestEnv, directory: &str, args: &[&str]) -> CommandOutput {
    SpawnedProdigy::of(world.prodigy_command(args).current_dir(world.root().join(directory)))
        .seen(world)
}

/// Makes a world with a failed job, and moves its repository to `new/place`.
fn moved() -> TestEnv {
    let world = map_world(FAILS);
    assert_code(&at(&world, "repo", &["run", "workflow.yml", "-y", "--job-id", "job"]), 1);
    fs::create_dir(world.root().join("new")).unwrap();
    fs::rename(world.repo(), world.root().join("new/place")).unwrap();
    fs::write(world.root().join("mended"), "").unwrap();
    world
}

/// Returns what git prints in a directory of the world.
pub(crate) fn git(world: &TestEnv, directory: &str, args: &[&str]) -> String {
    let output =
        world.command("git").arg("-C").arg(world.root().join(directory)).args(args).output();
    String::from_utf8(output.unwrap().stdout).unwrap().trim_end().to_owned()
}

#[test]
fn jobs_of_a_moved_repository_go_on_after_relocate() {
    let world = moved();
    for args in [&["jobs"][..], &["resume"], &["resume", "job"], &["run", "workflow.yml"]] {
        let seen = at(&world, "new/place", args);
        assert_code(&seen, 2);
        let said = "this repository was moved from `$ROOT/repo` to `$ROOT/new/place`";
        assert!(seen.stderr.contains(said), "{args:?}: {seen}");
        assert!(seen.stderr.contains("prodigy jobs --relocate"), "{args:?}: {seen}");
    }
    let seen = at(&world, "new/place", &["jobs", "--relocate"]);
    assert_code(&seen, 0);
    assert!(seen.stdout.contains("job  failed"), "{seen}");
    assert!(seen.stderr.contains("its jobs go on here"), "{seen}");

    let seen = at(&world, "new/place", &["resume", "job"]);
    assert_code(&seen, 0);
    assert_eq!(git(&world, "new/place", &["show", "main:x"]), "x");
    assert_eq!(git(&world, "new/place", &["for-each-ref", "refs/heads/prodigy"]), "");
    assert_code(&at(&world, "new/place", &["verify", "job"]), 0);
    // From elsewhere the job is found by its name.
    assert_code(&at(&world, "new", &["jobs", "show", "job"]), 0);
}

#[test]
fn resume_relocates_and_worktrees_lead_to_the_new_place() {
    let world = moved();
    let seen = at(&world, "new/place", &["resume", "job", "--relocate"]);
    assert_code(&seen, 0);
    assert_eq!(git(&world, "new/place", &["show", "main:x"]), "x");

    // Back to where it was, and on.
    fs::rename(world.root().join("new/place"), world.repo()).unwrap();
    let seen = at(&world, "repo", &["jobs", "--relocate"]);
    assert_code(&seen, 0);
    assert!(seen.stdout.contains("job  completed"), "{seen}");
}

#[test]
fn a_person_at_a_terminal_is_asked_before_jobs_are_taken_over() {
    for (args, done) in [
        (&["jobs"][..], "job  failed"),
        (&["resume", "job"], "completed"),
        (&["resume"], "completed"),
    ] {
        let world = moved();
        let answer = |typed: &str| {
            let mut command = world.prodigy_command(args);
            command.current_dir(world.root().join("new/place"));
            command_on_a_terminal(&world, command, (120, 24), typed, |_| {})
        };
        let (seen, code) = answer("n\n");
        assert_eq!(code, 1, "{seen}");
        assert!(seen.contains("Take over its jobs? [y/N]"), "{seen}");
        assert!(seen.contains("the jobs were not taken over"), "{seen}");
        assert_code(&at(&world, "new/place", &["jobs"]), 2);
        let (seen, code) = answer("y\ny\n");
        assert_eq!(code, 0, "{seen}");
        assert!(seen.contains(done), "{seen}");
        assert_code(&at(&world, "new/place", &["jobs"]), 0);
    }
}

#[test]
fn a_job_of_a_moved_repository_is_removed_after_relocate_only() {
    let world = moved();
    for directory in ["new/place", "new"] {
        let seen = at(&world, directory, &["jobs", "rm", "job", "-y", "--force"]);
        assert_code(&seen, 2);
        assert!(world.home().join("events/repo/job").exists(), "{directory}: {seen}");
    }
    assert_code(&at(&world, "new/place", &["jobs", "--relocate"]), 0);
    assert_code(&at(&world, "new/place", &["jobs", "rm", "job", "-y"]), 0);
    assert!(!world.home().join("events/repo/job").exists());
    assert_eq!(git(&world, "new/place", &["for-each-ref", "refs/heads/prodigy"]), "");
    assert_code(&at(&world, "new/place", &["audit", "verify"]), 0);
}

#[test]
fn a_kept_worktree_of_a_moved_repository_works_after_relocate() {
    let world = moved();
    let worktree = world.home().join("worktrees/repo/job/job");
    let head = || {
        let output =
            world.command("git").arg("-C").arg(&worktree).args(["rev-parse", "HEAD"]).output();
        output.unwrap().status.success()
    };
    assert!(!head());
    assert_code(&at(&world, "new/place", &["jobs", "--relocate"]), 0);
    assert!(head());
}

#[test]
fn a_killed_job_goes_on_where_the_repository_was_moved_to() {
    let world = map_world(
        r"
setup: [shell: 'touch ROOT/began; while test ! -e ROOT/mended; do sleep 0.05; done']
map:
  input: { items: [a] }
  agent_template:
    - shell: 'echo x > x; git add x; git commit --quiet --message x'
",
    );
    let mut running =
        SpawnedProdigy::new(&world, &["run", "workflow.yml", "-y", "--job-id", "job"]);
    running.until(&world, "the job began", || world.root().join("began").exists());
    running.signal(rustix::process::Signal::KILL);
    assert_eq!(running.seen(&world).code, None);
    fs::rename(world.repo(), world.root().join("moved")).unwrap();
    fs::write(world.root().join("mended"), "").unwrap();
    let seen = at(&world, "moved", &["resume", "--relocate"]);
    assert_code(&seen, 0);
    assert_eq!(git(&world, "moved", &["show", "main:x"]), "x");
    assert!(!seen.stderr.contains("was removed"), "{seen}");
    // Nothing is made at the old place.
    assert!(!world.repo().exists(), "{seen}");
}

#[test]
fn a_copy_takes_nothing_over_and_gets_an_id_of_its_own() {
    let world = map_world(FAILS);
    assert_code(&at(&world, "repo", &["run", "workflow.yml", "-y", "--job-id", "job"]), 1);
    let copy = world.root().join("copy");
    let copied = Command::new("cp").arg("-r").arg(world.repo()).arg(&copy).status().unwrap();
    assert!(copied.success());
    let id = |repo: PathBuf| fs::read_to_string(repo.join(".git/prodigy.id")).unwrap();
    assert_eq!(id(copy.clone()), id(world.repo()));

    let seen = at(&world, "copy", &["jobs", "--relocate"]);
    assert_code(&seen, 0);
    assert!(seen.stderr.contains("no jobs yet in this repository"), "{seen}");
    fs::write(world.root().join("mended"), "").unwrap();
    let seen = at(&world, "copy", &["run", "workflow.yml", "-y", "--job-id", "other"]);
    assert_code(&seen, 0);
    assert!(seen.stderr.contains("this repository is a copy of `$ROOT/repo`"), "{seen}");
    assert_ne!(id(copy), id(world.repo()));
    // The original is as it was.
    let seen = at(&world, "repo", &["resume", "job"]);
    assert_code(&seen, 0);
    assert_eq!(world.git(&["show", "main:x"]), "x");
}

#[test]
fn a_running_job_keeps_its_repository_where_it_is() {
    let world = map_world(
        r"
setup: [shell: 'touch ROOT/began; while test ! -e ROOT/mended; do sleep 0.05; done']
map:
  input: { items: [a] }
  agent_template: [shell: 'true']
",
    );
    let mut running =
        SpawnedProdigy::new(&world, &["run", "workflow.yml", "-y", "--job-id", "job"]);
    running.until(&world, "the job began", || world.root().join("began").exists());
    fs::rename(world.repo(), world.root().join("moved")).unwrap();
    let seen = at(&world, "moved", &["jobs", "--relocate"]);
    fs::rename(world.root().join("moved"), world.repo()).unwrap();
    fs::write(world.root().join("mended"), "").unwrap();
    let ended = running.seen(&world);
    assert_code(&seen, 75);
    assert!(seen.stderr.contains("job `job` of this repository is running"), "{seen}");
    assert_code(&ended, 0);
}

#[test]
fn a_job_of_an_older_prodigy_is_found_by_the_path() {
    let world = map_world(FAILS);
    assert_code(&at(&world, "repo", &["run", "workflow.yml", "-y", "--job-id", "job"]), 1);
    fs::remove_file(world.repo().join(".git/prodigy.id")).unwrap();
    fs::remove_file(world.home().join("state/repo/repository-id")).unwrap();
    fs::write(world.root().join("mended"), "").unwrap();
    let seen = at(&world, "repo", &["jobs"]);
    assert!(seen.stdout.contains("job  failed"), "{seen}");
    assert_code(&at(&world, "repo", &["resume", "job"]), 0);
    assert!(world.repo().join(".git/prodigy.id").exists());
}
