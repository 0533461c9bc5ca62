//! Repositories that are stored in another way than most.

use std::{fs, path::Path};

use prodigy_engine::git::{MergeOutcome, MergeRequest, Repo, RepoGuard};
use prodigy_testkit::TestEnv;

use super::{BRANCH, agent, commit, files, git, job_path, unrecorded, world, write};

/// Takes a job through its life in a repository with a commit on `main`.
fn live(world: &TestEnv, root: &Path) {
    let repo = Repo::discover_with(git(world), root).unwrap();
    assert_eq!(repo.root(), root.canonicalize().unwrap());
    let base = repo.head().unwrap();
    let tree = repo.create_job_worktree(&job_path(world), BRANCH, &base.commit).unwrap();
    let guard = RepoGuard::capture(&repo).unwrap();
    let tip = commit(world, tree.path(), "work", "1");
    assert_eq!(tree.head().unwrap(), tip);
    write(tree.path(), "draft", "1");
    let (before, snapshot) = (files(tree.path()), tree.snapshot().unwrap());
    write(tree.path(), "draft", "2");
    commit(world, tree.path(), "more", "1");
    tree.restore(&snapshot).unwrap();
    assert_eq!(files(tree.path()), before);
    assert_eq!(tree.head().unwrap(), tip);
    let tree = repo.open_job_worktree(&job_path(world), BRANCH).unwrap();
    tree.commit_all("draft").unwrap().unwrap();
    assert_eq!(guard.check_and_restore().unwrap(), []);
    commit(world, root, "user", "1");
    let request = MergeRequest {
        source_branch: BRANCH.to_owned(),
        target_branch: base.branch.unwrap(),
        base_commit: base.commit,
        is_named: false,
        message: "merge".to_owned(),
        guarded: Vec::new(),
    };
    let merged = repo.merge_job(&request, unrecorded).unwrap();
    let commit = repo.head().unwrap().commit;
    assert_eq!(merged, MergeOutcome::Merged { commit, commits: 2 });
    assert_eq!(agent(world, root, &["status", "--porcelain"]), "");
    assert_eq!(fs::read_to_string(root.join("draft")).unwrap(), "1");
    repo.remove_job_worktree(&job_path(world), BRANCH, false).unwrap();
    assert_eq!(agent(world, root, &["for-each-ref", "refs/heads/prodigy", "refs/prodigy"]), "");
    assert_eq!(agent(world, root, &["worktree", "list"]).lines().count(), 1);
    agent(world, root, &["fsck", "--strict"]);
}

/// Makes a repository with a commit on `main`; `false` if this git cannot.
fn init(world: &TestEnv, root: &Path, option: &str) -> bool {
    let mut init = world.command("git");
    init.args(["init", "--quiet", "--initial-branch=main", option]).arg(root);
    let is_made = init.output().unwrap().status.success();
    if is_made {
        commit(world, root, "first", "1");
    }
    is_made
}

#[test]
fn a_repository_with_long_hashes_works() {
    let world = world();
    let root = world.root().join("sha256");
    assert!(init(&world, &root, "--object-format=sha256"));
    live(&world, &root);
}

#[test]
fn a_repository_with_a_table_of_references_works() {
    let world = world();
    let root = world.root().join("reftable");
    // Git knows this kind since 2.45.
    if init(&world, &root, "--ref-format=reftable") {
        live(&world, &root);
    }
}

#[test]
fn a_submodule_works_like_any_repository() {
    let world = world();
    let source = world.repo();
    let outer = world.root().join("outer");
    assert!(init(&world, &outer, "--quiet"));
    let add = ["-c", "protocol.file.allow=always", "submodule", "--quiet", "add"];
    agent(&world, &outer, &[&add[..], &[source.to_str().unwrap(), "inner"]].concat());
    live(&world, &outer.join("inner"));
}

#[test]
fn a_repository_that_keeps_its_files_elsewhere_works() {
    let world = world();
    let root = world.root().join("separate");
    let store = format!("--separate-git-dir={}", world.root().join("store").display());
    assert!(init(&world, &root, &store));
    live(&world, &root);
}

#[test]
fn settings_per_worktree_work() {
    let world = world();
    world.git(&["config", "extensions.worktreeConfig", "true"]);
    world.git(&["config", "--worktree", "core.abbrev", "12"]);
    live(&world, &world.repo());
}

#[test]
fn packed_references_and_an_alternate_store_work() {
    let world = world();
    let source = world.repo();
    let args = ["clone", "--quiet", "--shared", source.to_str().unwrap(), "clone"];
    agent(&world, world.root(), &args);
    let root = world.root().join("clone");
    agent(&world, &root, &["pack-refs", "--all"]);
    live(&world, &root);
}
