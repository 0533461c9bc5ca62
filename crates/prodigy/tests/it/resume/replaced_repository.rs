//! Another repository in the place of one that was moved, and jobs with the same id.

use std::fs;

use prodigy_testkit::TestEnv;

use crate::{
    fixture::map_job::{assert_code, map_world},
    resume::moved_repository::{at, git},
};

/// One item that commits, one that fails after it committed.
const HALF: &str = "
map:
  input: { items: [a, b] }
  agent_template:
    - shell: touch ${item} && git add ${item} && git commit --quiet -m ${item}
    - shell: test ${item} = a
error_policy: { retry_config: { max_attempts: 1 } }
";

/// Makes a second repository, `other`, with the same workflow, and runs it there as a job.
fn add_other(world: &TestEnv, args: &[&str], code: i32) {
    let (repo, other) = (world.repo(), world.root().join("other"));
    fs::create_dir(&other).unwrap();
    fs::copy(repo.join("workflow.yml"), other.join("workflow.yml")).unwrap();
    git(world, "other", &["init", "--quiet", "--initial-branch=main"]);
    git(world, "other", &["add", "."]);
    git(world, "other", &["commit", "--quiet", "--message=base"]);
    assert_code(&at(world, "other", args), code);
}

/// Makes a world with an unmerged job whose repository is at `new/place`, while another one,
/// with jobs of its own, is where it was.
fn replaced() -> TestEnv {
    let world = map_world(HALF);
    assert_code(&at(&world, "repo", &["run", "workflow.yml", "--job-id", "job"]), 7);
    add_other(&world, &["run", "workflow.yml", "--job-id", "own"], 7);
    fs::create_dir(world.root().join("new")).unwrap();
    fs::rename(world.repo(), world.root().join("new/place")).unwrap();
    fs::rename(world.root().join("other"), world.repo()).unwrap();
    assert_code(&at(&world, "repo", &["jobs", "--relocate"]), 0);
    git(&world, "repo", &["branch", "prodigy/job/mine"]);
    world
}

/// Returns the branches of prodigy, the references of jobs and the anchor of the audit trail.
fn refs(world: &TestEnv, directory: &str) -> String {
    git(world, directory, &["for-each-ref", "refs/heads/prodigy", "refs/prodigy"])
}

#[test]
fn a_repository_in_the_place_of_a_moved_one_is_not_worked_on_for_its_jobs() {
    let world = replaced();
    let before = (refs(&world, "repo"), refs(&world, "new/place"));
    let journal = at(&world, ".", &["events", "job", "--json"]).stdout;
    for args in [
        &["jobs", "rm", "job", "-y", "--force"][..],
        &["dlq", "drop", "job", "item-002", "--reason", "of no use"],
        &["dlq", "retry", "job", "-y"],
        &["repair", "job", "--accept-lost-end"],
        &["resume", "job", "-y"],
    ] {
        for directory in ["repo", "."] {
            let seen = at(&world, directory, args);
            assert_code(&seen, 2);
            let said = "error: the repository of job `job` is not at `$ROOT/repo` any more";
            assert!(seen.stderr.contains(said), "{args:?} in {directory}: {seen}");
            let after = (refs(&world, "repo"), refs(&world, "new/place"));
            assert_eq!(after, before, "{args:?} in {directory}: {seen}");
        }
    }
    assert_eq!(at(&world, ".", &["events", "job", "--json"]).stdout, journal);
    assert!(world.home().join("worktrees/repo/job/job/a").exists());

    // In its own repository the job goes on.
    let seen = at(&world, "new/place", &["resume", "job", "-y", "--relocate", "--no-dlq"]);
    assert_code(&seen, 0);
    assert!(world.root().join("new/place/a").exists(), "{seen}");
    assert_code(&at(&world, ".", &["jobs", "rm", "job", "-y", "--force"]), 0);
    assert_eq!(git(&world, "new/place", &["for-each-ref", "refs/heads/prodigy"]), "");
    assert_eq!(refs(&world, "repo"), before.0);
}

#[test]
fn a_job_that_several_repositories_have_is_removed_only_inside_one() {
    let world = map_world(HALF);
    let args = ["run", "workflow.yml", "-y", "--job-id", "job"];
    assert_code(&at(&world, "repo", &args), 0);
    add_other(&world, &args, 0);
    fs::create_dir(world.root().join("third")).unwrap();
    git(&world, "third", &["init", "--quiet"]);
    git(&world, "third", &["commit", "--quiet", "--allow-empty", "--message=base"]);
    for directory in [".", "third"] {
        let seen = at(&world, directory, &["jobs", "rm", "job", "-y", "--force"]);
        assert_code(&seen, 2);
        let said = "error: several repositories have a job `job`: `other`, `repo`";
        assert!(seen.stderr.contains(said), "{directory}: {seen}");
    }
    let is_there = |name: &str| world.home().join(format!("events/{name}/job")).exists();
    assert!(is_there("repo") && is_there("other"));
    assert_code(&at(&world, "repo", &["jobs", "rm", "job", "-y", "--force"]), 0);
    assert!(!is_there("repo") && is_there("other"));
    // The one that was removed is none that could be meant.
    assert_code(&at(&world, "third", &["jobs", "rm", "job", "-y", "--force"]), 0);
    assert!(!is_there("other"));
}
