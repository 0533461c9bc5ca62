//! Worktrees of jobs.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, sync::mpsc, thread, time::Duration};

use insta::assert_snapshot;
use prodigy_engine::git::{Error, Repo};
use prodigy_testkit::TestEnv;

use super::{BRANCH, agent, commit, files, git, job_path, job_tree, repo, world, write};

/// Returns an error with the world's path replaced.
fn shown(world: &TestEnv, error: &Error) -> String {
    let root = world.root().canonicalize().unwrap();
    error.to_string().replace(&*root.to_string_lossy(), "$ROOT")
}

#[test]
fn a_worktree_starts_at_the_commit_on_its_own_branch() {
    let world = world();
    let base = world.git(&["rev-parse", "HEAD"]);
    world.write("README.md", "not committed\n");
    let (_, tree) = job_tree(&world);
    assert_eq!(tree.path(), job_path(&world).canonicalize().unwrap());
    assert_eq!(tree.head().unwrap(), base);
    assert_eq!(fs::read_to_string(tree.path().join("README.md")).unwrap(), "# fixture\n");
    assert_eq!(agent(&world, tree.path(), &["branch", "--show-current"]), BRANCH);
    assert_eq!(world.read("README.md"), "not committed\n");
    for above in [world.home(), world.home().join("worktrees/repo/j1")] {
        assert_eq!(fs::metadata(&above).unwrap().permissions().mode() & 0o777, 0o700);
    }
}

#[test]
fn head_follows_commits_detached_heads_and_packed_branches() {
    let world = world();
    let (_, tree) = job_tree(&world);
    let first = commit(&world, tree.path(), "a", "1");
    assert_eq!(tree.head().unwrap(), first);
    world.git(&["pack-refs", "--all"]);
    assert_eq!(tree.head().unwrap(), first);
    agent(&world, tree.path(), &["switch", "--quiet", "--detach"]);
    let second = commit(&world, tree.path(), "b", "2");
    assert_eq!(tree.head().unwrap(), second);
}

#[test]
fn a_call_that_was_cut_off_is_made_again() {
    let world = world();
    let (repo, tree) = job_tree(&world);
    let path = job_path(&world);
    fs::remove_file(tree.path().join("README.md")).unwrap();
    let tree = repo.create_job_worktree(&path, BRANCH, "HEAD").unwrap();
    assert_eq!(tree.uncommitted_paths().unwrap(), <[String; 0]>::default());

    fs::remove_dir_all(&path).unwrap();
    let tree = repo.create_job_worktree(&path, BRANCH, "HEAD").unwrap();
    assert_eq!(files(tree.path()).len(), 1);

    commit(&world, tree.path(), "a", "1");
    let error = repo.create_job_worktree(&path, BRANCH, "HEAD").unwrap_err();
    let tip = tree.head().unwrap();
    let expected = format!("the branch `prodigy/j1/job` exists already, at commit {tip}");
    assert_eq!(error.to_string(), expected);
}

#[test]
fn what_stands_in_the_path_is_not_touched() {
    let world = world();
    let repo = repo(&world);
    write(&job_path(&world), "mine", "text");
    let error = repo.create_job_worktree(&job_path(&world), BRANCH, "HEAD").unwrap_err();
    assert_snapshot!(shown(&world, &error), @"`$ROOT/home/worktrees/repo/j1/job` exists already and is not a worktree of this job");
    assert_eq!(fs::read_to_string(job_path(&world).join("mine")).unwrap(), "text");
    assert_eq!(repo.branch_tip(BRANCH).unwrap(), None);
}

#[test]
fn opening_finds_the_worktree_or_makes_it_from_its_branch() {
    let world = world();
    let (repo, tree) = job_tree(&world);
    let tip = commit(&world, tree.path(), "a", "1");
    write(tree.path(), "draft", "not committed");
    let tree = repo.open_job_worktree(&job_path(&world), BRANCH).unwrap();
    assert_eq!(tree.uncommitted_paths().unwrap(), ["draft"]);

    fs::remove_dir_all(job_path(&world).parent().unwrap()).unwrap();
    let tree = repo.open_job_worktree(&job_path(&world), BRANCH).unwrap();
    assert_eq!(tree.head().unwrap(), tip);
    assert_eq!(tree.uncommitted_paths().unwrap(), <[String; 0]>::default());

    let error = repo.open_job_worktree(&world.home().join("x"), "prodigy/x/job").unwrap_err();
    assert_snapshot!(error, @"there is no branch `prodigy/x/job`");
}

#[test]
fn removing_keeps_commits_that_are_nowhere_else() {
    let world = world();
    let (repo, tree) = job_tree(&world);
    let tip = commit(&world, tree.path(), "a", "1");
    tree.snapshot().unwrap();
    repo.remove_job_worktree(&job_path(&world), BRANCH, false).unwrap();
    assert!(!job_path(&world).exists());
    assert_eq!(repo.branch_tip(BRANCH).unwrap().as_deref(), Some(&*tip));
    assert_eq!(world.git(&["worktree", "list", "--porcelain"]).matches("worktree ").count(), 1);
    let left = fs::read_dir(job_path(&world).parent().unwrap()).unwrap().count();
    assert_eq!(left, 0);

    repo.open_job_worktree(&job_path(&world), BRANCH).unwrap();
    world.git(&["merge", "--quiet", "--ff-only", BRANCH]);
    repo.remove_job_worktree(&job_path(&world), BRANCH, true).unwrap();
    assert_eq!(repo.branch_tip(BRANCH).unwrap(), Some(tip));

    repo.open_job_worktree(&job_path(&world), BRANCH).unwrap();
    repo.remove_job_worktree(&job_path(&world), BRANCH, false).unwrap();
    assert_eq!(world.git(&["for-each-ref", "--format=%(refname)"]), "refs/heads/main");
    repo.remove_job_worktree(&job_path(&world), BRANCH, false).unwrap();
}

#[test]
fn a_removal_that_was_cut_off_is_finished_by_the_next_one() {
    let world = world();
    let (repo, _) = job_tree(&world);
    let above = job_path(&world).parent().unwrap().to_owned();
    fs::create_dir(above.join(".trash-cut-off")).unwrap();
    fs::rename(job_path(&world), above.join(".trash-cut-off/tree")).unwrap();
    fs::create_dir(above.join("agent-1")).unwrap();

    repo.remove_job_worktree(&job_path(&world), BRANCH, false).unwrap();
    let left: Vec<_> = fs::read_dir(above).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["agent-1"]);
    assert_eq!(world.git(&["worktree", "list", "--porcelain"]).matches("worktree ").count(), 1);
}

#[test]
fn a_branch_of_a_job_does_not_count_as_merged() {
    let world = world();
    let (repo, tree) = job_tree(&world);
    let tip = commit(&world, tree.path(), "a", "1");
    world.git(&["branch", "prodigy/j1/item-001", &tip]);
    world.git(&["branch", "prodigy/j2/job", &tip]);
    repo.remove_job_worktree(&job_path(&world), BRANCH, false).unwrap();
    assert_eq!(repo.branch_tip(BRANCH).unwrap(), Some(tip));
}

#[test]
fn worktrees_of_the_user_that_are_out_of_reach_stay_on_the_list() {
    let world = world();
    world.git(&["worktree", "add", "--quiet", "../usb"]);
    fs::rename(world.root().join("usb"), world.root().join("unplugged")).unwrap();
    let (repo, _) = job_tree(&world);
    repo.remove_job_worktree(&job_path(&world), BRANCH, false).unwrap();
    fs::rename(world.root().join("unplugged"), world.root().join("usb")).unwrap();
    assert_eq!(agent(&world, &world.root().join("usb"), &["branch", "--show-current"]), "usb");
}

#[test]
fn many_worktrees_can_be_made_and_removed_at_once() {
    let world = world();
    for file in 0..50 {
        world.write(&format!("file-{file}"), "text");
    }
    world.commit_all("files");
    let (environment, root) = (git(&world), world.repo());
    thread::scope(|scope| {
        for number in 0..12 {
            let (environment, root) = (environment.clone(), &root);
            let path = world.home().join(format!("worktrees/repo/j{number}/job"));
            scope.spawn(move || {
                let repo = Repo::discover_with(environment, root).unwrap();
                let branch = format!("prodigy/j{number}/job");
                let tree = repo.create_job_worktree(&path, &branch, "HEAD").unwrap();
                assert_eq!(files(tree.path()).len(), 51);
                repo.remove_job_worktree(&path, &branch, false).unwrap();
            });
        }
    });
    assert_eq!(world.git(&["for-each-ref", "--format=%(refname)"]), "refs/heads/main");
}

#[test]
fn worktrees_are_changed_by_one_process_at_a_time() {
    let world = world();
    let repo = repo(&world);
    let lock = fs::File::create(world.repo().join(".git/prodigy.lock")).unwrap();
    lock.lock().unwrap();
    let (done, is_done) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            done.send(repo.create_job_worktree(&job_path(&world), BRANCH, "HEAD").is_ok()).unwrap();
        });
        let waited = is_done.recv_timeout(Duration::from_millis(300));
        assert_eq!(waited, Err(mpsc::RecvTimeoutError::Timeout));
        drop(lock);
        assert_eq!(is_done.recv_timeout(Duration::from_secs(60)), Ok(true));
    });
}

#[test]
fn everything_is_committed_without_hooks_and_only_if_there_is_something() {
    let world = world();
    let (_, tree) = job_tree(&world);
    assert_eq!(tree.commit_all("nothing").unwrap(), None);
    let proof = world.root().join("proof");
    for hook in ["pre-commit", "prepare-commit-msg", "commit-msg", "post-commit"] {
        plant(&world.repo().join(".git/hooks").join(hook), &proof);
    }
    write(tree.path(), "it's\n\"new\"", "1");
    fs::remove_file(tree.path().join("README.md")).unwrap();
    let index_lock = world.repo().join(".git/worktrees/job/index.lock");
    fs::write(index_lock, "").unwrap();
    let commit = tree.commit_all("-m\n# kept as it is").unwrap();
    assert_eq!(commit, Some(tree.head().unwrap()));
    assert_eq!(tree.uncommitted_paths().unwrap(), <[String; 0]>::default());
    let message = agent(&world, tree.path(), &["log", "-1", "--format=%B"]);
    assert_eq!(message.trim_end(), "-m\n# kept as it is");
    assert!(!proof.exists(), "a hook ran");
}

#[test]
fn commits_are_made_even_if_nobody_said_who_commits() {
    let world = world();
    let mut env: Vec<_> = ["AUTHOR_NAME", "AUTHOR_EMAIL", "COMMITTER_NAME", "COMMITTER_EMAIL"]
        .map(|name| (format!("GIT_{name}").into(), None))
        .into();
    let config = world.root().join("gitconfig");
    fs::write(&config, "[user]\nuseConfigOnly = true\n").unwrap();
    env.push(("GIT_CONFIG_GLOBAL".into(), Some(config.into())));
    env.push(("GIT_CONFIG_NOSYSTEM".into(), Some("1".into())));
    let anonymous = prodigy_engine::git::Git::with_env(env);
    let repo = Repo::discover_with(anonymous, &world.repo()).unwrap();
    assert_snapshot!(repo.warnings().join("\n"), @"git does not know who you are: set `user.name` and `user.email`, or commits of agents fail");
    let tree = repo.create_job_worktree(&job_path(&world), BRANCH, "HEAD").unwrap();
    write(tree.path(), "a", "1");
    tree.commit_all("work").unwrap();
    let author = agent(&world, tree.path(), &["log", "-1", "--format=%an <%ae>"]);
    assert_eq!(author, "prodigy <prodigy@localhost>");
}

#[test]
fn work_on_another_branch_is_adopted_unless_commits_would_be_dropped() {
    let world = world();
    let (repo, tree) = job_tree(&world);
    agent(&world, tree.path(), &["switch", "--quiet", "-c", "elsewhere"]);
    let tip = commit(&world, tree.path(), "a", "1");
    assert_eq!(tree.adopt_head().unwrap(), Some(tip.clone()));
    assert_eq!(tree.checked_out().unwrap().as_deref(), Some(BRANCH));
    assert_eq!(repo.branch_tip(BRANCH).unwrap(), Some(tip.clone()));

    agent(&world, tree.path(), &["switch", "--quiet", "--detach", "HEAD~1"]);
    commit(&world, tree.path(), "b", "2");
    assert_eq!(tree.adopt_head().unwrap(), None);
    assert_eq!(repo.branch_tip(BRANCH).unwrap(), Some(tip));
}

#[test]
fn submodules_sparse_checkouts_and_shallow_clones_work() {
    let world = world();
    world.write("sub.txt", "x");
    world.write("dir/in", "x");
    world.commit_all("more");
    let source = format!("file://{}", world.repo().display());
    agent(&world, world.root(), &["clone", "--quiet", "--depth=1", &source, "shallow"]);
    let shallow = world.root().join("shallow");
    let add = ["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &source, "sub"];
    agent(&world, &shallow, &add);
    agent(&world, &shallow, &["commit", "--quiet", "-m", "submodule"]);
    agent(&world, &shallow, &["sparse-checkout", "set", "--cone", "none"]);
    let repo = Repo::discover_with(git(&world), &shallow).unwrap();
    let tree = repo.create_job_worktree(&job_path(&world), BRANCH, "HEAD").unwrap();
    let names: Vec<_> = files(tree.path()).into_keys().collect();
    assert_eq!(names, [".gitmodules", "README.md", "sub", "sub.txt"]);

    write(tree.path(), "new", "1");
    write(tree.path(), "README.md", "changed");
    let snapshot = tree.snapshot().unwrap();
    let before = files(tree.path());
    fs::remove_file(tree.path().join("new")).unwrap();
    write(tree.path(), "README.md", "spoilt");
    tree.restore(&snapshot).unwrap();
    assert_eq!(files(tree.path()), before);
    tree.commit_all("work").unwrap().unwrap();
    let names = agent(&world, tree.path(), &["ls-tree", "-r", "--name-only", "HEAD"]);
    assert_snapshot!(names, @"
    .gitmodules
    README.md
    dir/in
    new
    sub
    sub.txt
    ");
}

/// Writes a program that leaves a proof that it ran.
pub(super) fn plant(path: &Path, proof: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("#!/bin/sh\ntouch '{}'\n", proof.display())).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_directory_elsewhere_is_not_a_place_for_a_step() {
    let world = world();
    let (_, tree) = job_tree(&world);
    let inner = tree.path().join("inner");
    fs::create_dir(&inner).unwrap();
    tree.verify_location(tree.path()).unwrap();
    tree.verify_location(&inner).unwrap();
    let link = tree.path().join("link");
    std::os::unix::fs::symlink(world.repo(), &link).unwrap();
    for elsewhere in [world.repo(), link] {
        let error = shown(&world, &tree.verify_location(&elsewhere).unwrap_err());
        assert!(error.contains("is not in the worktree `$ROOT/home/worktrees/"), "{error}");
    }
}
