//! A copy of a repository in which everything may be tried.

use std::{collections::BTreeMap, fs, path::Path};

use insta::assert_snapshot;
use prodigy_engine::git::Repo;
use prodigy_testkit::TestEnv;

use super::{agent, commit, contents, files, repo, world, write};

/// Makes a world with all that a repository can have besides commits.
fn busy_world() -> TestEnv {
    let world = world();
    let root = world.repo();
    agent(&world, &root, &["branch", "other"]);
    agent(&world, &root, &["branch", "prodigy/j1/job"]);
    agent(&world, &root, &["tag", "light"]);
    agent(&world, &root, &["tag", "-a", "heavy", "-m", "heavy"]);
    agent(&world, &root, &["clone", "--quiet", "--bare", ".", "../remote.git"]);
    agent(&world, &root, &["remote", "add", "origin", "../remote.git"]);
    agent(&world, &root, &["fetch", "--quiet", "origin"]);
    agent(&world, &root, &["branch", "--quiet", "--set-upstream-to=origin/main", "main"]);
    commit(&world, &root, "second", "committed\n");
    write(&root, ".gitignore", "ignored\n");
    commit(&world, &root, "third", "third\n");
    agent(&world, &root, &["config", "user.name", "Somebody"]);
    agent(&world, &root, &["config", "alias.evil", "!touch evil"]);
    write(&root, ".git/hooks/post-checkout", "#!/bin/sh\ntouch planted\n");
    // A stash, and then everything that is not committed.
    write(&root, "second", "stashed\n");
    agent(&world, &root, &["stash", "--quiet"]);
    write(&root, "second", "staged\n");
    agent(&world, &root, &["add", "second"]);
    write(&root, "second", "changed\n");
    write(&root, "untracked", "untracked\n");
    write(&root, "ignored", "ignored\n");
    world
}

/// Copies the repository.
fn copied(world: &TestEnv) -> Repo {
    repo(world).copy_to(&world.root().join("copy"), &world.root().join("outside")).unwrap()
}

/// Returns the names below `refs` and what they stand for.
fn references(world: &TestEnv, directory: &Path) -> BTreeMap<String, String> {
    let format = "--format=%(refname) %(objectname)";
    let text = agent(world, directory, &["for-each-ref", format]);
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.map(|(name, object)| (name.to_owned(), object.to_owned())).collect()
}

#[test]
fn a_copy_has_what_is_committed_and_nothing_else() {
    let world = busy_world();
    let copy = copied(&world);
    let (here, there) = (references(&world, &world.repo()), references(&world, copy.root()));
    assert_snapshot!(there.keys().cloned().collect::<Vec<_>>().join("\n"), @"
    refs/heads/main
    refs/heads/other
    refs/remotes/origin/main
    refs/remotes/origin/other
    refs/remotes/origin/prodigy/j1/job
    refs/tags/heavy
    refs/tags/light
    ");
    assert!(there.iter().all(|(name, object)| here.get(name) == Some(object)));
    assert_eq!(
        agent(&world, copy.root(), &["symbolic-ref", "HEAD"]),
        "refs/heads/main",
        "it is on the same branch"
    );
    let names: Vec<_> = files(copy.root()).into_keys().collect();
    assert_snapshot!(names.join(" "), @".gitignore README.md second third");
    assert_eq!(fs::read_to_string(copy.root().join("second")).unwrap(), "committed\n");
    assert_snapshot!(agent(&world, copy.root(), &["status", "--porcelain", "--ignored"]), @"");
    let settings = agent(&world, copy.root(), &["config", "--local", "--list"]);
    let settings =
        settings.replace(&*world.root().canonicalize().unwrap().to_string_lossy(), "$ROOT");
    assert_snapshot!(settings, @"
    core.repositoryformatversion=0
    core.filemode=true
    core.bare=false
    core.logallrefupdates=true
    branch.main.remote=origin
    branch.main.merge=refs/heads/main
    user.name=Somebody
    remote.origin.url=$ROOT/outside/remote-1.git
    remote.origin.fetch=+refs/heads/*:refs/remotes/origin/*
    ");
    assert!(!copy.root().join(".git/hooks").exists(), "hooks stay where they are");
}

#[test]
fn nothing_that_is_done_to_a_copy_is_seen_in_the_original() {
    let world = busy_world();
    let before = contents(&world.repo());
    let remote = contents(&world.root().join("remote.git"));
    let copy = copied(&world);
    let head = commit(&world, copy.root(), "new", "new\n");
    agent(&world, copy.root(), &["push", "--quiet", "origin", "HEAD:refs/heads/pushed"]);
    agent(&world, copy.root(), &["branch", "-D", "other"]);
    agent(&world, copy.root(), &["tag", "-f", "light"]);
    agent(&world, copy.root(), &["gc", "--quiet", "--prune=now"]);
    let shell = world.root().join("outside/remote-1.git");
    assert_eq!(references(&world, &shell).get("refs/heads/pushed"), Some(&head));
    assert_eq!(contents(&world.repo()), before);
    assert_eq!(contents(&world.root().join("remote.git")), remote);
}

#[test]
fn a_copy_of_a_detached_head_is_detached_at_the_same_commit() {
    let world = busy_world();
    agent(&world, &world.repo(), &["checkout", "--quiet", "--force", "--detach", "other"]);
    let head = agent(&world, &world.repo(), &["rev-parse", "HEAD"]);
    let copy = copied(&world);
    assert_eq!(agent(&world, copy.root(), &["rev-parse", "HEAD"]), head);
    assert_eq!(agent(&world, copy.root(), &["branch", "--show-current"]), "");
    assert!(references(&world, copy.root()).contains_key("refs/heads/main"));
}

#[test]
fn a_linked_worktree_is_copied_as_it_is_checked_out() {
    let world = busy_world();
    agent(&world, &world.repo(), &["worktree", "add", "--quiet", "../linked", "other"]);
    let linked = Repo::discover_with(super::git(&world), &world.root().join("linked")).unwrap();
    let before = contents(&world.repo());
    let copy = linked.copy_to(&world.root().join("copy"), &world.root().join("outside")).unwrap();
    assert_eq!(
        agent(&world, copy.root(), &["branch", "--show-current"]),
        linked.head().unwrap().branch.unwrap_or_default()
    );
    assert_eq!(contents(&world.repo()), before);
}
