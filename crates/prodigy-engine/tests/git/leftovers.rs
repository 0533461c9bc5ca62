//! What failed attempts leave behind, and how it is kept from later ones.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

use prodigy_core::mask::Mask;
use prodigy_engine::git::{Error, WorktreeSlot};
use prodigy_testkit::TestEnv;

use super::{
    BRANCH, agent, commit, contents, files, job_path, job_tree,
    slot::{slot, slot_path},
    world, write,
};

const ITEM: &str = "prodigy/j1/item-1";
const FAILED: &str = "refs/prodigy/j1/failed/item-1";

/// Applies a patch to a fresh checkout of a commit, and returns the files.
fn applied(
    world: &TestEnv,
    commit: &str,
    patch: &[u8],
) -> std::collections::BTreeMap<String, String> {
    let (fresh, file) = (world.root().join("applied"), world.root().join("the.patch"));
    fs::write(&file, patch).unwrap();
    let add = ["worktree", "add", "--quiet", "--detach", fresh.to_str().unwrap(), commit];
    world.git(&add);
    agent(world, &fresh, &["apply", "--index", file.to_str().unwrap()]);
    let found = files(&fresh);
    world.git(&["worktree", "remove", "--force", fresh.to_str().unwrap()]);
    found
}

/// Returns the patch of what is in a slot.
fn patch(slot: &mut WorktreeSlot) -> Vec<u8> {
    let left = slot.inspect().unwrap();
    slot.patch(&left, &Mask::default()).unwrap().unwrap().bytes
}

/// Returns a text of numbers, one on each line.
fn lines(count: u64, number: impl Fn(u64) -> u64) -> String {
    let lines: Vec<_> = (0..count).map(|n| number(n).to_string()).collect();
    lines.join("\n") + "\n"
}

#[test]
fn a_patch_brings_back_all_that_was_not_committed() {
    let world = world();
    world.write(".gitignore", "*.o\n");
    world.write("gone", "1\n");
    world.write("lines", lines(50, |n| n));
    fs::write(world.repo().join("old.bin"), [0, 1, 2, 255, 254]).unwrap();
    world.commit_all("files");
    let (_, mut slot) = slot(&world);
    let path = slot.tree().path().to_owned();
    let head = commit(&world, &path, "work", "1\n");
    fs::remove_file(path.join("gone")).unwrap();
    write(&path, "README.md", "no newline at its end");
    write(&path, "lines", &lines(50, |n| n * n % 7));
    write(&path, "new dir/with space \u{fc}\t\"", "1\n");
    write(&path, "staged", "then changed\n");
    agent(&world, &path, &["add", "staged"]);
    write(&path, "staged", "changed\n");
    write(&path, "empty", "");
    write(&path, "script", "#!/bin/sh\n");
    fs::set_permissions(path.join("script"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("somewhere", path.join("link")).unwrap();
    let bytes: Vec<u8> = (0..10_000_u32).flat_map(|n| (n * n).to_le_bytes()).collect();
    fs::write(path.join("new.bin"), &bytes).unwrap();
    fs::write(path.join("old.bin"), [0, 9, 8]).unwrap();
    let git_dir = PathBuf::from(agent(&world, &path, &["rev-parse", "--absolute-git-dir"]));
    let before = (files(&path), fs::read(git_dir.join("index")).unwrap());
    write(&path, "ignored.o", "1");
    let objects = world.git(&["count-objects"]);

    let made = patch(&mut slot);
    // Nothing was touched but for the shelter.
    assert_eq!(fs::read(git_dir.join("index")).unwrap(), before.1);
    assert_eq!(world.git(&["count-objects"]), objects);
    assert_eq!(applied(&world, &head, &made), before.0);
}

#[test]
fn a_patch_is_plain_whatever_the_user_likes_to_see() {
    let world = world();
    for (name, value) in [
        ("diff.noprefix", "true"),
        ("diff.mnemonicPrefix", "true"),
        ("diff.external", "false"),
        ("color.ui", "always"),
        ("diff.context", "0"),
        ("diff.renames", "copies"),
        ("diff.upper.textconv", "tr a-z A-Z <"),
        ("diff.broken.command", "false"),
    ] {
        world.git(&["config", name, value]);
    }
    world.write(".gitattributes", "a diff=upper\nb diff=broken\n");
    world.write("a", "1\n2\n3\n4\n5\n");
    world.write("b", "1\n");
    world.commit_all("files");
    let (_, mut slot) = slot(&world);
    let path = slot.tree().path().to_owned();
    write(&path, "a", "1\n2\nx\n4\n5\n");
    write(&path, "b", "x\n");
    let made = patch(&mut slot);
    insta::assert_snapshot!(String::from_utf8(made.clone()).unwrap(), @"
        diff --git a/a b/a
        index 8a1218a1024a212bb3db30becd860315f9f3ac52..492ee07f66f603c28c2bc76db2bcbc35c9f00a6f 100644
        --- a/a
        +++ b/a
        @@ -1,5 +1,5 @@
         1
         2
        -3
        +x
         4
         5
        diff --git a/b b/b
        index d00491fd7e5bb6fa28c517a0bb32b8b506539d4d..587be6b4c3f93f93c489c0111bba5596147a26cb 100644
        --- a/b
        +++ b/b
        @@ -1 +1 @@
        -1
        +x
        ");
    assert_eq!(applied(&world, "HEAD", &made), files(&path));
}

#[test]
fn furnished_files_are_not_in_the_patch() {
    let world = world();
    let (_, mut slot) = slot(&world);
    let path = slot.tree().path().to_owned();
    write(&path, "made/here", "1");
    write(&path, "sub/notes [1]", "1");
    let head = slot.tree().head().unwrap();
    slot.reset_for_item(ITEM, &head, &["made".to_owned(), "sub/notes [1]".to_owned()]).unwrap();
    write(&path, "made/here", "2");
    write(&path, "sub/notes [1]", "2");
    agent(&world, &path, &["add", "--force", "made/here"]);
    write(&path, "sub/own", "1");
    let names: Vec<_> = applied(&world, &head, &patch(&mut slot)).into_keys().collect();
    assert_eq!(names, ["README.md", "sub", "sub/own"]);
}

#[test]
fn what_is_not_text_and_holds_a_secret_is_left_out_of_the_patch() {
    let world = world();
    let (_, mut slot) = slot(&world);
    let path = slot.tree().path().to_owned();
    fs::write(path.join("a [*].bin"), b"\0hunter2").unwrap();
    fs::write(path.join("b.bin"), b"\0nothing").unwrap();
    write(&path, "c.txt", "hunter2\n");
    let left = slot.inspect().unwrap();
    let mask = Mask::new(["hunter2".to_owned()]);
    let made = slot.patch(&left, &mask).unwrap().unwrap();
    assert_eq!(made.left_out, ["a [*].bin"]);
    let files = applied(&world, "HEAD", &made.bytes);
    assert_eq!(files.keys().collect::<Vec<_>>(), ["README.md", "b.bin", "c.txt"]);
    assert_eq!(files["c.txt"], "644 ***\n");
}

#[test]
fn what_is_too_large_gets_no_patch() {
    let world = world();
    let (_, mut slot) = slot(&world);
    let path = slot.tree().path().to_owned();
    // Text that cannot be shortened, larger than a patch may be.
    write(&path, "large", &lines(1_500_000, |n| n * n));
    let left = slot.inspect().unwrap();
    assert_eq!(slot.patch(&left, &Mask::default()).unwrap(), None);
    // One that is too large to be read; it takes no room.
    fs::File::create(path.join("large")).unwrap().set_len(100 << 20).unwrap();
    let left = slot.inspect().unwrap();
    let objects = contents(&world.repo().join(".git/objects"));
    assert_eq!(slot.patch(&left, &Mask::default()).unwrap(), None);
    assert_eq!(contents(&world.repo().join(".git/objects")), objects);
}

#[test]
fn a_patch_of_a_conflict_or_with_a_damaged_index_has_the_files_as_they_are() {
    let world = world();
    let (_, mut slot) = slot(&world);
    let path = slot.tree().path().to_owned();
    agent(&world, &path, &["checkout", "--quiet", "-b", "other"]);
    commit(&world, &path, "both", "other\n");
    agent(&world, &path, &["checkout", "--quiet", ITEM]);
    let head = commit(&world, &path, "both", "mine\n");
    let merge = world.command("git").current_dir(&path).args(["merge", "other"]).output().unwrap();
    assert!(!merge.status.success());
    assert_eq!(applied(&world, &head, &patch(&mut slot)), files(&path));
    let git_dir = PathBuf::from(agent(&world, &path, &["rev-parse", "--absolute-git-dir"]));
    fs::write(git_dir.join("index"), "damaged").unwrap();
    assert_eq!(applied(&world, &head, &patch(&mut slot)), files(&path));
}

#[test]
fn the_branch_is_named_if_it_is_there_to_stay() {
    let world = world();
    let (repo, mut slot) = slot(&world);
    let path = slot.tree().path().to_owned();
    let base = slot.tree().head().unwrap();
    assert_eq!(slot.preserved_branch(true, &base, 0).as_deref(), Some(ITEM));
    assert_eq!(slot.preserved_branch(false, &base, 0), None);
    let head = commit(&world, &path, "work", "1");
    assert_eq!(slot.preserved_branch(false, &head, 1).as_deref(), Some(ITEM));
    agent(&world, &path, &["checkout", "--quiet", "--detach"]);
    assert_eq!(slot.preserved_branch(true, &head, 1).as_deref(), Some(ITEM));
    let head = commit(&world, &path, "more", "1");
    assert_eq!(slot.preserved_branch(true, &head, 2), None);
    // A branch that has gone on is left alone, one that has not is used for the commits.
    slot.keep_commits_on_branch(&head).unwrap();
    assert_ne!(repo.branch_tip(ITEM).unwrap().unwrap(), head);
    slot.reset_for_item(ITEM, &base, &[]).unwrap();
    agent(&world, &path, &["checkout", "--quiet", "--detach"]);
    let head = commit(&world, &path, "work", "2");
    slot.keep_commits_on_branch(&head).unwrap();
    assert_eq!(repo.branch_tip(ITEM).unwrap().unwrap(), head);
    agent(&world, &path, &["update-ref", "-d", &format!("refs/heads/{ITEM}")]);
    assert_eq!(slot.preserved_branch(true, &head, 1), None);
    slot.keep_commits_on_branch(&head).unwrap();
    assert_eq!(slot.preserved_branch(true, &head, 1).as_deref(), Some(ITEM));
}

/// Keeps the worktree of an item that failed with a commit and a draft; returns both.
fn failed(world: &TestEnv) -> (prodigy_engine::git::Repo, PathBuf, String) {
    let (repo, slot) = slot(world);
    let head = commit(world, slot.tree().path(), "work", "1");
    write(slot.tree().path(), "draft", "1");
    let kept = slot.preserve_at(&slot_path(world, "item-1"), 1, None).unwrap();
    (repo, kept, head)
}

/// Returns HEAD as the file of a worktree has it.
fn head_of(world: &TestEnv, path: &Path) -> String {
    let git_dir = PathBuf::from(agent(world, path, &["rev-parse", "--absolute-git-dir"]));
    fs::read_to_string(git_dir.join("HEAD")).unwrap().trim_end().to_owned()
}

#[test]
fn a_replay_takes_the_branch_and_leaves_the_kept_worktree_as_it_is() {
    let world = world();
    let (repo, kept, head) = failed(&world);
    // Months later git has tidied up, and the user's branch has gone on.
    world.git(&["pack-refs", "--all", "--prune"]);
    world.write("newer", "1");
    world.commit_all("newer");
    let before = (contents(&kept), agent(&world, &kept, &["status", "--porcelain"]));
    let index = |path: &Path| {
        let git_dir = PathBuf::from(agent(&world, path, &["rev-parse", "--absolute-git-dir"]));
        fs::read(git_dir.join("index")).unwrap()
    };
    let staged = index(&kept);
    let name = repo.free_item_branch(ITEM, FAILED, 1).unwrap().unwrap();
    assert_eq!(name, format!("{FAILED}.1"));
    assert_eq!(head_of(&world, &kept), head);
    assert_eq!(index(&kept), staged);

    let path = slot_path(&world, "agent-1");
    let slot = repo.create_slot(&path, ITEM, "main").unwrap();
    let second = commit(&world, slot.tree().path(), "work", "2");
    assert_eq!(repo.branch_tip(ITEM).unwrap().unwrap(), second);
    assert_eq!((contents(&kept), agent(&world, &kept, &["status", "--porcelain"])), before);
    assert_eq!(agent(&world, &kept, &["rev-parse", "HEAD"]), head);

    // It fails again, and is tried a third time.
    let again = slot.preserve_at(&slot_path(&world, "item-1"), 2, None).unwrap();
    assert_eq!(again.file_name().unwrap(), "item-1.2");
    let name = repo.free_item_branch(ITEM, FAILED, 2).unwrap().unwrap();
    assert_eq!(name, format!("{FAILED}.2"));
    repo.create_slot(&path, ITEM, "main").unwrap();
    // All that failed is there even without the worktrees.
    repo.remove_job_worktree(&kept, ITEM, true).unwrap();
    repo.remove_job_worktree(&again, ITEM, true).unwrap();
    assert_eq!(world.git(&["rev-parse", &format!("{FAILED}.1^")]), head);
    assert_eq!(world.git(&["rev-parse", &format!("{FAILED}.2^")]), second);
    assert_eq!(world.git(&["show", &format!("{FAILED}.2:files/work")]), "2");
    agent(&world, &world.repo(), &["fsck", "--strict"]);
}

#[test]
fn commits_get_a_name_only_if_nothing_else_holds_them() {
    let world = world();
    let (repo, slot) = slot(&world);
    assert_eq!(repo.free_item_branch("prodigy/j1/none", FAILED, 1).unwrap(), None);
    assert_eq!(repo.free_item_branch(ITEM, FAILED, 1).unwrap(), None);
    commit(&world, slot.tree().path(), "work", "1");
    let name = repo.free_item_branch(ITEM, FAILED, 1).unwrap();
    assert_eq!(name, Some(format!("{FAILED}.1")));
    // Asked again, because the first attempt to replay was cut off.
    assert_eq!(repo.free_item_branch(ITEM, FAILED, 1).unwrap(), None);
    commit(&world, slot.tree().path(), "work", "2");
    world.git(&["branch", "mine", ITEM]);
    assert_eq!(repo.free_item_branch(ITEM, FAILED, 1).unwrap(), None);
    let names = world.git(&["for-each-ref", "--format=%(refname)", "refs/prodigy"]);
    assert_eq!(names, format!("{FAILED}.1"));
}

#[test]
fn a_kept_worktree_that_was_deleted_or_moved_is_not_in_the_way() {
    let world = world();
    let (repo, kept, head) = failed(&world);
    let moved = world.root().join("moved");
    fs::rename(&kept, &moved).unwrap();
    repo.free_item_branch(ITEM, FAILED, 1).unwrap();
    let path = slot_path(&world, "agent-1");
    let slot = repo.create_slot(&path, ITEM, "main").unwrap();
    commit(&world, slot.tree().path(), "work", "2");
    let again = slot.preserve_at(&kept, 2, None).unwrap();
    assert_eq!(again, kept.with_file_name("item-1.2"));
    // The one that was moved can still be repaired and has its state.
    agent(&world, &world.repo(), &["worktree", "repair", moved.to_str().unwrap()]);
    assert_eq!(agent(&world, &moved, &["status", "--porcelain"]), "?? draft");
    assert_eq!(agent(&world, &moved, &["rev-parse", "HEAD"]), head);
    // One that is gone for good.
    fs::remove_dir_all(&again).unwrap();
    repo.free_item_branch(ITEM, FAILED, 2).unwrap();
    let slot = repo.create_slot(&path, ITEM, "main").unwrap();
    let third = slot.preserve_at(&kept, 3, None).unwrap();
    assert_eq!(third, kept);
    assert_eq!(agent(&world, &third, &["branch", "--show-current"]), ITEM);
    agent(&world, &world.repo(), &["worktree", "prune"]);
    agent(&world, &third, &["status"]);
}

#[test]
fn a_kept_worktree_that_was_cleaned_is_not_in_the_way() {
    let world = world();
    let (repo, kept, head) = failed(&world);
    repo.remove_job_worktree(&kept, ITEM, false).unwrap();
    // The commit is nowhere else, so the branch stays.
    assert_eq!(repo.branch_tip(ITEM).unwrap().unwrap(), head);
    repo.free_item_branch(ITEM, FAILED, 1).unwrap();
    let slot = repo.create_slot(&slot_path(&world, "agent-1"), ITEM, "main").unwrap();
    let again = slot.preserve_at(&kept, 2, None).unwrap();
    assert_eq!(again, kept);
    assert_eq!(world.git(&["rev-parse", &format!("{FAILED}.1^")]), head);
}

#[test]
fn a_job_gets_a_new_worktree_long_after_its_first_one_was_removed() {
    let world = world();
    let (repo, tree) = job_tree(&world);
    commit(&world, tree.path(), "work", "1");
    world.git(&["merge", "--quiet", "--ff-only", BRANCH]);
    repo.remove_job_worktree(&job_path(&world), BRANCH, false).unwrap();
    assert_eq!(repo.branch_tip(BRANCH).unwrap(), None);
    world.write("newer", "1");
    world.commit_all("newer");
    let tree = repo.create_job_worktree(&job_path(&world), BRANCH, "main").unwrap();
    assert_eq!(tree.head().unwrap(), world.git(&["rev-parse", "main"]));
}

#[test]
fn an_old_branch_of_a_job_is_moved_out_of_the_way() {
    let world = world();
    let (repo, tree) = job_tree(&world);
    tree.snapshot().unwrap();
    let head = commit(&world, tree.path(), "work", "1");
    tree.snapshot().unwrap();
    // Merged as something else, so that the branch stayed.
    repo.remove_job_worktree(&job_path(&world), BRANCH, false).unwrap();
    assert_eq!(repo.branch_tip(BRANCH).unwrap().unwrap(), head);
    world.write("newer", "1");
    world.commit_all("newer");
    let tree = repo.create_job_worktree(&job_path(&world), BRANCH, "main").unwrap();
    assert_eq!(tree.head().unwrap(), world.git(&["rev-parse", "main"]));
    assert_eq!(world.git(&["rev-parse", "refs/prodigy/j1/branch^"]), head);
    // One that a worktree of the user's is on is not taken from it.
    repo.remove_job_worktree(&job_path(&world), BRANCH, true).unwrap();
    let mine = world.root().join("mine");
    world.git(&["worktree", "add", "--quiet", mine.to_str().unwrap(), BRANCH]);
    commit(&world, &mine, "work", "2");
    let refused = repo.create_job_worktree(&job_path(&world), BRANCH, "main").unwrap_err();
    assert!(matches!(refused, Error::BranchExists { .. }), "{refused}");
    assert_eq!(agent(&world, &mine, &["branch", "--show-current"]), BRANCH);
}

#[test]
fn files_of_an_old_worktree_are_moved_out_of_the_way() {
    let world = world();
    let (repo, tree) = job_tree(&world);
    write(tree.path(), "draft", "1");
    let old = tree.head().unwrap();
    world.write("newer", "1");
    world.commit_all("newer");
    let tree = repo.create_job_worktree(&job_path(&world), BRANCH, "main").unwrap();
    assert_eq!(tree.head().unwrap(), world.git(&["rev-parse", "main"]));
    assert_eq!(tree.uncommitted_paths().unwrap(), <[String; 0]>::default());
    let aside = job_path(&world).with_file_name("job.1");
    assert_eq!(agent(&world, &aside, &["status", "--porcelain"]), "?? draft");
    assert_eq!(head_of(&world, &aside), old);
    // Git was told to forget it, and its directory stayed.
    let git_dir = PathBuf::from(agent(&world, tree.path(), &["rev-parse", "--absolute-git-dir"]));
    write(tree.path(), "draft", "2");
    fs::remove_dir_all(git_dir).unwrap();
    repo.create_job_worktree(&job_path(&world), BRANCH, "main").unwrap();
    let aside = job_path(&world).with_file_name("job.2");
    assert_eq!(fs::read_to_string(aside.join("draft")).unwrap(), "2");
    agent(&world, &world.repo(), &["fsck", "--strict"]);
}
