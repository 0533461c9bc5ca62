//! Recording worktrees and bringing them back.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use prodigy_core::event::WorktreeSnapshot;
use prodigy_testkit::TestEnv;

use super::{BRANCH, agent, commit, files, job_tree, world, write};

/// Fills a worktree with one file of every kind and returns git's view of it.
fn fill(world: &TestEnv, directory: &Path) {
    commit(world, directory, "committed", "1");
    commit(world, directory, ".gitignore", "ignored\ncache/\n");
    write(directory, "committed", "changed");
    write(directory, "staged", "in the index");
    agent(world, directory, &["add", "staged"]);
    write(directory, "staged", "and changed again");
    write(directory, "dir/un\n\"tracked\"", "text");
    write(directory, "program", "#!/bin/sh\n");
    fs::set_permissions(directory.join("program"), fs::Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink("nowhere", directory.join("link")).unwrap();
    fs::remove_file(directory.join("README.md")).unwrap();
    write(directory, "ignored", "kept");
    write(directory, "cache/object", "kept");
}

fn status(world: &TestEnv, directory: &Path) -> String {
    agent(world, directory, &["status", "--porcelain", "--untracked-files=all", "--ignored"])
}

#[test]
fn a_worktree_comes_back_exactly() {
    let world = world();
    let (repo, tree) = job_tree(&world);
    fill(&world, tree.path());
    let (before, status_before) = (files(tree.path()), status(&world, tree.path()));
    let snapshot = tree.snapshot().unwrap();
    assert_eq!(status(&world, tree.path()), status_before, "looking changed something");
    assert_eq!(files(tree.path()), before);

    // What a step that was cut off in the middle of its work may leave.
    let admin = world.repo().join(".git/worktrees/job");
    agent(&world, tree.path(), &["add", "--all"]);
    agent(&world, tree.path(), &["commit", "--quiet", "-m", "half"]);
    agent(&world, tree.path(), &["switch", "--quiet", "-c", "elsewhere"]);
    agent(&world, tree.path(), &["update-index", "--assume-unchanged", "committed"]);
    agent(&world, tree.path(), &["update-index", "--skip-worktree", ".gitignore"]);
    write(tree.path(), "committed", "spoilt");
    write(tree.path(), ".gitignore", "");
    fs::remove_file(tree.path().join("link")).unwrap();
    write(tree.path(), "link/now/a", "directory");
    fs::remove_dir_all(tree.path().join("dir")).unwrap();
    write(tree.path(), "dir", "now a file");
    fs::set_permissions(tree.path().join("program"), fs::Permissions::from_mode(0o644)).unwrap();
    agent(&world, tree.path(), &["init", "--quiet", "nested"]);
    write(tree.path(), "nested/file", "x");
    write(tree.path(), "left/over", "x");
    for leftover in ["index.lock", "HEAD.lock", "MERGE_HEAD", "rebase-merge/head-name"] {
        write(&admin, leftover, "");
    }
    write(&world.repo().join(".git/refs/heads/prodigy/j1"), "job.lock", "");
    fs::write(tree.path().join(".git"), "gitdir: /tmp\n").unwrap();

    tree.restore(&snapshot).unwrap();
    assert_eq!(files(tree.path()), before);
    assert_eq!(status(&world, tree.path()), status_before);
    assert_eq!(tree.head().unwrap(), snapshot.head);
    assert_eq!(repo.branch_tip(BRANCH).unwrap(), Some(snapshot.head.clone()));
    assert_eq!(agent(&world, tree.path(), &["branch", "--show-current"]), BRANCH);
    assert_eq!(agent(&world, tree.path(), &["show", ":staged"]), "in the index");
    assert!(!admin.join("MERGE_HEAD").exists());
    assert!(!admin.join("rebase-merge").exists());
    assert_eq!(tree.snapshot().unwrap(), snapshot);
}

#[test]
fn a_damaged_index_is_no_obstacle() {
    let world = world();
    let (_, tree) = job_tree(&world);
    write(tree.path(), "new", "1");
    let snapshot = tree.snapshot().unwrap();
    let before = files(tree.path());
    fs::write(world.repo().join(".git/worktrees/job/index"), "rubbish").unwrap();
    write(tree.path(), "new", "2");
    tree.restore(&snapshot).unwrap();
    assert_eq!(files(tree.path()), before);
}

#[test]
fn files_that_did_not_change_keep_their_times() {
    let world = world();
    let (_, tree) = job_tree(&world);
    write(tree.path(), "new", "1");
    let snapshot = tree.snapshot().unwrap();
    let time = || fs::metadata(tree.path().join("README.md")).unwrap().modified().unwrap();
    let before = time();
    write(tree.path(), "new", "2");
    tree.restore(&snapshot).unwrap();
    assert_eq!(time(), before);
}

#[test]
fn a_snapshot_survives_a_clean_up_of_git() {
    let world = world();
    let (_, tree) = job_tree(&world);
    fill(&world, tree.path());
    let before = files(tree.path());
    let snapshot = tree.snapshot().unwrap();
    agent(&world, tree.path(), &["reset", "--quiet", "--hard"]);
    agent(&world, tree.path(), &["clean", "-fdq"]);
    agent(&world, tree.path(), &["reflog", "expire", "--expire=now", "--all"]);
    agent(&world, tree.path(), &["gc", "--quiet", "--prune=now"]);
    tree.restore(&snapshot).unwrap();
    assert_eq!(files(tree.path()), before);
}

#[test]
fn a_merge_that_met_a_conflict_can_be_recorded() {
    let world = world();
    let (_, tree) = job_tree(&world);
    commit(&world, tree.path(), "file", "ours\n");
    agent(&world, tree.path(), &["switch", "--quiet", "-c", "theirs", "HEAD~1"]);
    commit(&world, tree.path(), "file", "theirs\n");
    agent(&world, tree.path(), &["switch", "--quiet", BRANCH]);
    let merge = world.command("git").current_dir(tree.path()).args(["merge", "theirs"]).output();
    assert_eq!(merge.unwrap().status.code(), Some(1));
    let before = files(tree.path());
    let snapshot = tree.snapshot().unwrap();
    agent(&world, tree.path(), &["merge", "--abort"]);
    tree.restore(&snapshot).unwrap();
    assert_eq!(files(tree.path()), before);
}

#[test]
fn a_nested_repository_and_an_unreadable_file_do_not_stop_a_snapshot() {
    let world = world();
    let (_, tree) = job_tree(&world);
    agent(&world, tree.path(), &["init", "--quiet", "empty"]);
    write(tree.path(), "secret", "x");
    fs::set_permissions(tree.path().join("secret"), fs::Permissions::from_mode(0o0)).unwrap();
    write(tree.path(), "other", "1");
    let snapshot = tree.snapshot().unwrap();
    let names = agent(&world, tree.path(), &["ls-tree", "-r", "--name-only", &snapshot.files]);
    // Root can read everything.
    let readable = fs::read(tree.path().join("secret")).is_ok();
    let expected = if readable { "README.md\nother\nsecret" } else { "README.md\nother" };
    assert_eq!(names, expected);
}

#[test]
fn a_fingerprint_shows_every_change_and_nothing_else() {
    let world = world();
    let (_, tree) = job_tree(&world);
    commit(&world, tree.path(), "file", "12345");
    write(tree.path(), "dir/untracked", "x");
    let mut last = tree.fingerprint().unwrap();
    assert!(tree.fingerprint().unwrap().matches(&last));

    let file = tree.path().join("file");
    let changes: [(&str, &dyn Fn()); 6] = [
        ("same size, time put back", &|| {
            let time = fs::metadata(&file).unwrap().modified().unwrap();
            fs::write(&file, "54321").unwrap();
            fs::File::open(&file).unwrap().set_modified(time).unwrap();
        }),
        ("new file", &|| write(tree.path(), "dir/new", "")),
        ("empty directory", &|| fs::create_dir(tree.path().join("empty")).unwrap()),
        ("permissions", &|| {
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }),
        ("index", &|| {
            agent(&world, tree.path(), &["add", "--all"]);
        }),
        ("commit", &|| {
            agent(&world, tree.path(), &["commit", "--quiet", "--allow-empty", "-m", "x"]);
        }),
    ];
    for (what, change) in changes {
        change();
        let next = tree.fingerprint().unwrap();
        assert!(!next.matches(&last), "not seen: {what}");
        assert!(tree.fingerprint().unwrap().matches(&next), "not stable: {what}");
        last = next;
    }
}

#[test]
fn what_is_taken_back_is_kept_under_a_name() {
    let world = world();
    let (_, tree) = job_tree(&world);
    // A new worktree is known by its commit alone.
    let base = world.git(&["rev-parse", "HEAD"]);
    let first = WorktreeSnapshot { head: base.clone(), index: base.clone(), files: base };
    assert_eq!(tree.stash_to_ref(&first).unwrap(), None);

    write(tree.path(), "half", "done");
    assert_eq!(tree.stash_to_ref(&first).unwrap().as_deref(), Some("refs/prodigy/j1/aside-1"));
    tree.restore(&first).unwrap();
    assert!(!tree.path().join("half").exists());
    assert_eq!(world.git(&["show", "refs/prodigy/j1/aside-1:files/half"]), "done");

    let second = tree.snapshot().unwrap();
    write(tree.path(), "half", "again");
    assert_eq!(tree.stash_to_ref(&second).unwrap().as_deref(), Some("refs/prodigy/j1/aside-2"));
    assert_eq!(world.git(&["show", "refs/prodigy/j1/aside-2:files/half"]), "again");
}
