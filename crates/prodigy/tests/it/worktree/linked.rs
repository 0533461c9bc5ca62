//! Jobs that are started from a linked worktree of the user's.

use std::{fs, path::PathBuf};

use prodigy_testkit::{CommandOutput, TestEnv};

use crate::fixture::{
    map_job::assert_code,
    workflow::{records, world},
};

const COMMITS: &str =
    "- shell: cat only-here.txt > copy.txt && git add copy.txt && git commit --quiet -m copy\n";

/// Makes a world with a linked worktree on branch `feature`, which has a file of its own.
fn linked(workflow: &str) -> (TestEnv, PathBuf) {
    let world = world(workflow);
    world.git(&["worktree", "add", "--quiet", "-b", "feature", "../linked"]);
    let linked = world.root().canonicalize().unwrap().join("linked");
    fs::write(linked.join("only-here.txt"), "here\n").unwrap();
    git(&world, &linked, &["add", "--all"]);
    git(&world, &linked, &["commit", "--quiet", "--message", "feature"]);
    (world, linked)
}

fn git(world: &TestEnv, directory: &PathBuf, args: &[&str]) -> String {
    let output = world.command("git").current_dir(directory).args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

fn prodigy(world: &TestEnv, directory: &PathBuf, args: &[&str]) -> CommandOutput {
    let mut command = world.prodigy_command(args);
    world.to_output(&prodigy_testkit::process::run_bounded(command.current_dir(directory)))
}

#[test]
fn a_job_starts_from_and_merges_into_the_branch_of_the_linked_worktree() {
    let (world, linked) = linked(COMMITS);
    let main = world.git(&["rev-parse", "main"]);
    fs::write(linked.join("mine.txt"), "mine\n").unwrap();
    let seen = prodigy(&world, &linked, &["run", "workflow.yml", "-y", "--job-id", "job"]);
    assert_code(&seen, 0);
    assert!(seen.stderr.contains("note: 1 uncommitted change in your checkout"), "{seen}");
    assert!(seen.stderr.contains("merged into feature"), "{seen}");
    assert!(!seen.stderr.contains("changed while the job ran"), "{seen}");
    assert_eq!(fs::read_to_string(linked.join("copy.txt")).unwrap(), "here\n");
    assert_eq!(git(&world, &linked, &["status", "--porcelain"]), "?? mine.txt");
    assert_eq!(world.git(&["rev-parse", "main"]), main);
    assert_eq!(world.git(&["status", "--porcelain"]), "");
    assert_eq!(records(&world)[0]["worktree"], linked.to_str().unwrap());
    // The jobs are those of the repository, wherever one stands.
    assert!(world.prodigy(&["jobs"]).stdout.contains("job "));
}

#[test]
fn a_change_in_the_way_in_the_linked_worktree_is_kept_and_resume_works_from_anywhere() {
    let (world, linked) = linked(COMMITS);
    fs::write(linked.join("copy.txt"), "mine\n").unwrap();
    let seen = prodigy(&world, &linked, &["run", "workflow.yml", "-y", "--job-id", "job"]);
    assert_code(&seen, 7);
    assert_eq!(fs::read_to_string(linked.join("copy.txt")).unwrap(), "mine\n");
    fs::remove_file(linked.join("copy.txt")).unwrap();
    let seen = world.prodigy(&["resume", "job"]);
    assert_code(&seen, 0);
    assert_eq!(fs::read_to_string(linked.join("copy.txt")).unwrap(), "here\n");
    assert_eq!(git(&world, &linked, &["status", "--porcelain"]), "");
    assert_eq!(world.git(&["status", "--porcelain"]), "");
}

#[test]
fn a_detached_linked_worktree_is_refused() {
    let (world, linked) = linked(COMMITS);
    git(&world, &linked, &["checkout", "--quiet", "--detach"]);
    let seen = prodigy(&world, &linked, &["run", "workflow.yml", "-y"]);
    assert_code(&seen, 2);
    assert!(seen.stderr.contains("HEAD is detached"), "{seen}");
}

#[test]
fn items_and_files_to_copy_are_those_of_the_linked_worktree() {
    let workflow = "mode: mapreduce\nmap:\n  input: { glob: 'only-*.txt' }\n  worktree: { copy: [ignored.txt] }\n  agent_template:\n    - shell: cat ignored.txt > of-${item} && git add . && git commit --quiet -m item\n";
    let (world, linked) = linked(workflow);
    fs::write(linked.join(".gitignore"), "ignored.txt\n").unwrap();
    git(&world, &linked, &["add", "--all"]);
    git(&world, &linked, &["commit", "--quiet", "--message", "ignore"]);
    fs::write(linked.join("ignored.txt"), "ignored\n").unwrap();
    let plan = prodigy(&world, &linked, &["plan", "workflow.yml"]);
    assert!(plan.stdout.contains("only-here.txt"), "{plan}");
    let seen = prodigy(&world, &linked, &["run", "workflow.yml", "-y", "--job-id", "job"]);
    assert_code(&seen, 0);
    assert_eq!(fs::read_to_string(linked.join("of-only-here.txt")).unwrap(), "ignored\n");
}
