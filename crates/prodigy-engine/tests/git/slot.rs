//! Worktrees that many items use one after the other.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

use insta::assert_snapshot;
use prodigy_core::mask::Mask;
use prodigy_engine::git::{ChangeKind, ChangedFile, Repo, WorktreeSlot, WorktreeStatus};
use prodigy_testkit::TestEnv;

use super::{agent, commit, files, git, repo, world, write};

/// Returns where a slot of the tests' job is.
pub(super) fn slot_path(world: &TestEnv, name: &str) -> PathBuf {
    world.home().join("worktrees/repo/j1").join(name)
}

/// Makes a slot for the first item at the user's commit.
pub(super) fn slot(world: &TestEnv) -> (Repo, WorktreeSlot) {
    let repo = repo(world);
    let slot = repo.create_slot(&slot_path(world, "agent-1"), "prodigy/j1/item-1", "HEAD").unwrap();
    (repo, slot)
}

/// Returns the paths of what was left uncommitted, sorted.
pub(super) fn uncommitted(slot: &mut WorktreeSlot) -> Vec<String> {
    let left = slot.inspect().unwrap().uncommitted;
    let mut paths: Vec<_> = left.into_iter().map(|file| file.path).collect();
    paths.sort();
    paths
}

/// Returns the user's commit.
fn base(world: &TestEnv) -> String {
    world.git(&["rev-parse", "main"])
}

/// Returns git that notes each time it is started, and the notes.
pub(super) fn counted(world: &TestEnv) -> (Repo, impl Fn() -> usize + use<>) {
    let (program, notes) = (world.root().join("counted"), world.root().join("notes"));
    let script = format!("#!/bin/sh\necho >> '{}'\nexec git \"$@\"\n", notes.display());
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let repo = Repo::discover_with(git(world).program(program), &world.repo()).unwrap();
    let count = move || {
        let count = fs::read_to_string(&notes).unwrap_or_default().lines().count();
        fs::remove_file(&notes).ok();
        count
    };
    (repo, count)
}

/// Waits until new files bear another time than those that are there.
fn wait_for_the_next_tick(world: &TestEnv) {
    let time = || {
        let path = world.root().join("tick");
        fs::write(&path, "").unwrap();
        fs::metadata(path).unwrap().modified().unwrap()
    };
    let first = time();
    let start = std::time::Instant::now();
    while time() == first {
        assert!(start.elapsed().as_secs() < 5, "the clock stands still");
    }
}

/// Returns the error with its cause.
pub(super) fn told<T: std::fmt::Debug>(
    world: &TestEnv,
    result: Result<T, prodigy_engine::git::Error>,
) -> String {
    let error = result.unwrap_err();
    let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
    let text = format!("{error}{}", cause.unwrap_or_default());
    let root = world.root().canonicalize().unwrap();
    text.replace(&*root.to_string_lossy(), "$ROOT")
}

/// Asserts that a slot is as a fresh worktree of a commit would be.
fn assert_fresh(world: &TestEnv, slot: &WorktreeSlot, branch: &str, commit: &str) {
    let path = slot.tree().path();
    assert_eq!(agent(world, path, &["symbolic-ref", "HEAD"]), format!("refs/heads/{branch}"));
    assert_eq!(agent(world, path, &["rev-parse", "HEAD"]), commit);
    assert_eq!(slot.tree().branch(), branch);
    assert_eq!(slot.tree().head().unwrap(), commit);
    let status = ["status", "--porcelain", "--ignored", "--untracked-files=all"];
    assert_eq!(agent(world, path, &status), "");
    let fresh = world.root().join("fresh");
    let add = ["worktree", "add", "--quiet", "--detach", fresh.to_str().unwrap(), commit];
    world.git(&add);
    assert_eq!(files(path), files(&fresh));
    world.git(&["worktree", "remove", "--force", fresh.to_str().unwrap()]);
}

#[test]
fn a_slot_is_a_worktree_on_its_items_branch() {
    let world = world();
    let (repo, slot) = slot(&world);
    let path = slot.tree().path().to_owned();
    assert_fresh(&world, &slot, "prodigy/j1/item-1", &base(&world));
    let listed = repo.worktrees().unwrap();
    assert_eq!(listed.last().unwrap().path, path);
    assert_eq!(listed.last().unwrap().branch.as_deref(), Some("prodigy/j1/item-1"));
    let trash = slot.discard().unwrap().unwrap();
    assert!(trash.join("tree/README.md").is_file());
    assert_eq!(repo.worktrees().unwrap().len(), 1);
    fs::remove_dir_all(&trash).unwrap();
    let left: Vec<_> = files(path.parent().unwrap()).into_keys().collect();
    assert_eq!(left, Vec::<String>::new());
    agent(&world, &world.repo(), &["fsck", "--strict"]);
}

#[test]
fn an_untouched_slot_is_examined_and_leased_without_git() {
    let world = world();
    let (repo, count) = counted(&world);
    let path = slot_path(&world, "agent-1");
    let mut slot = repo.create_slot(&path, "prodigy/j1/item-1", "HEAD").unwrap();
    let base = base(&world);
    // Looking at it refreshes the index.
    assert_fresh(&world, &slot, "prodigy/j1/item-1", &base);
    slot.reset_for_item("prodigy/j1/item-1", &base, &[]).unwrap();
    wait_for_the_next_tick(&world);
    slot.reset_for_item("prodigy/j1/item-1", &base, &[]).unwrap();
    count();
    for item in ["prodigy/j1/item-2", "prodigy/j1/item-3"] {
        let untouched = WorktreeStatus {
            head: base.clone(),
            is_untouched: true,
            uncommitted: vec![],
            commits: 0,
            astray: 0,
        };
        assert_eq!(slot.inspect().unwrap(), untouched);
        slot.reset_for_item(item, &base, &[]).unwrap();
        assert_eq!(count(), 0);
    }
    assert_fresh(&world, &slot, "prodigy/j1/item-3", &base);
}

#[test]
fn a_change_at_once_after_a_lease_is_found() {
    let world = world();
    let (_, mut slot) = slot(&world);
    let (path, base) = (slot.tree().path().to_owned(), base(&world));
    for number in 0..50 {
        // Of the same length, in place, and as soon as possible.
        write(&path, "README.md", "# FIXTURE\n");
        assert_eq!(uncommitted(&mut slot), ["README.md"], "{number}");
        slot.reset_for_item("prodigy/j1/item-2", &base, &[]).unwrap();
    }
    assert_eq!(fs::read_to_string(path.join("README.md")).unwrap(), "# fixture\n");
}

#[test]
fn any_other_slot_is_examined_and_leased_with_one_call_each() {
    let world = world();
    world.write(".gitignore", "*.o\n");
    world.commit_all("ignore");
    let (repo, count) = counted(&world);
    let path = slot_path(&world, "agent-1");
    let mut slot = repo.create_slot(&path, "prodigy/j1/item-1", "HEAD").unwrap();
    count();
    let first = base(&world);
    commit(&world, &path, "a/new", "1");
    let head = commit(&world, &path, "README.md", "changed");
    write(&path, "a/build.o", "1");
    write(&path, "draft", "1");
    let uncommitted = vec![ChangedFile { path: "draft".to_owned(), kind: ChangeKind::New }];
    let left = WorktreeStatus { head, is_untouched: false, uncommitted, commits: 2, astray: 0 };
    assert_eq!(slot.inspect().unwrap(), left);
    assert_eq!(count(), 1);
    slot.reset_for_item("prodigy/j1/item-2", &first, &[]).unwrap();
    assert_eq!(count(), 1);
    assert_fresh(&world, &slot, "prodigy/j1/item-2", &first);

    world.write("added", "1");
    fs::remove_file(world.repo().join("README.md")).unwrap();
    world.commit_all("moved on");
    let tip = base(&world);
    slot.reset_for_item("prodigy/j1/item-3", &tip, &[]).unwrap();
    assert_eq!(count(), 1);
    assert_fresh(&world, &slot, "prodigy/j1/item-3", &tip);
}

#[test]
fn nothing_of_an_item_reaches_the_next_one() {
    let world = world();
    world.write("src/main.rs", "fn main() {}\n");
    world.write("run.sh", "#!/bin/sh\n");
    world.write(".gitignore", "target\n");
    world.commit_all("project");
    let (_, mut slot) = slot(&world);
    let path = slot.tree().path().to_owned();
    let git_dir = PathBuf::from(agent(&world, &path, &["rev-parse", "--absolute-git-dir"]));
    // Changes that git is told to overlook.
    agent(&world, &path, &["update-index", "--assume-unchanged", "src/main.rs"]);
    agent(&world, &path, &["update-index", "--skip-worktree", "run.sh"]);
    write(&path, "src/main.rs", "fn evil() {}\n");
    write(&path, "run.sh", "#!/bin/sh\nevil\n");
    // Ignored files, empty directories, other repositories, links and modes.
    write(&path, "target/debug/x", "1");
    fs::create_dir_all(path.join("empty/below")).unwrap();
    agent(&world, &path, &["init", "--quiet", "src/nested"]);
    symlink("/", path.join("root")).unwrap();
    fs::set_permissions(path.join(".gitignore"), fs::Permissions::from_mode(0o777)).unwrap();
    // Things that were begun.
    for name in ["index.lock", "HEAD.lock", "MERGE_HEAD", "CHERRY_PICK_HEAD", "ORIG_HEAD"] {
        fs::write(git_dir.join(name), "").unwrap();
    }
    fs::create_dir_all(git_dir.join("rebase-merge")).unwrap();
    fs::create_dir_all(git_dir.join("refs/bisect")).unwrap();
    fs::write(git_dir.join("refs/bisect/bad"), format!("{}\n", base(&world))).unwrap();
    let heads = world.repo().join(".git/refs/heads/prodigy/j1");
    fs::write(heads.join("item-2.lock"), "").unwrap();
    slot.reset_for_item("prodigy/j1/item-2", &base(&world), &[]).unwrap();
    assert_fresh(&world, &slot, "prodigy/j1/item-2", &base(&world));
    let mut names: Vec<_> =
        fs::read_dir(&git_dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["HEAD", "commondir", "gitdir", "index", "refs"]);

    // A directory that became a link, and one that became a file.
    fs::remove_dir_all(path.join("src")).unwrap();
    symlink(world.root(), path.join("src")).unwrap();
    agent(&world, &path, &["checkout", "--quiet", "--detach"]);
    agent(&world, &path, &["rm", "--quiet", "-r", "--cached", "."]);
    slot.reset_for_item("prodigy/j1/item-3", &base(&world), &[]).unwrap();
    assert_fresh(&world, &slot, "prodigy/j1/item-3", &base(&world));
    assert!(world.repo().is_dir(), "a link was followed");
    fs::remove_dir_all(path.join("src")).unwrap();
    fs::write(path.join("src"), "a file").unwrap();
    fs::write(git_dir.join("index"), "damaged").unwrap();
    slot.reset_for_item("prodigy/j1/item-4", &base(&world), &[]).unwrap();
    assert_fresh(&world, &slot, "prodigy/j1/item-4", &base(&world));
}

#[test]
fn what_is_to_be_kept_stays_and_is_not_reported() {
    let world = world();
    let (_, mut slot) = slot(&world);
    let (path, base) = (slot.tree().path().to_owned(), base(&world));
    let kept = ["cache".to_owned(), "sub/dir/".to_owned(), "./.env".to_owned()];
    slot.reset_for_item("prodigy/j1/item-2", &base, &kept).unwrap();
    for file in ["cache/a", "sub/dir/b", ".env"] {
        write(&path, file, "1");
    }
    write(&path, "sub/other", "1");
    assert_eq!(uncommitted(&mut slot), ["sub/other"]);
    slot.reset_for_item("prodigy/j1/item-3", &base, &kept).unwrap();
    let names: Vec<_> = files(&path).into_keys().collect();
    assert_eq!(names, [".env", "README.md", "cache", "cache/a", "sub", "sub/dir", "sub/dir/b"]);
    write(&path, "cache/a", "2");
    write(&path, "cache/c", "2");
    assert!(slot.inspect().unwrap().is_untouched);
    slot.reset_for_item("prodigy/j1/item-4", &base, &[]).unwrap();
    assert_fresh(&world, &slot, "prodigy/j1/item-4", &base);
}

#[test]
fn uncommitted_work_of_every_kind_is_reported() {
    let world = world();
    world.write("gone", "1");
    world.write("both", "1");
    world.commit_all("files");
    let (_, mut slot) = slot(&world);
    let path = slot.tree().path().to_owned();
    agent(&world, &path, &["checkout", "--quiet", "-b", "other"]);
    commit(&world, &path, "both", "other");
    agent(&world, &path, &["checkout", "--quiet", "prodigy/j1/item-1"]);
    commit(&world, &path, "both", "mine");
    let merge = world.command("git").current_dir(&path).args(["merge", "other"]).output().unwrap();
    assert!(!merge.status.success());
    fs::remove_file(path.join("gone")).unwrap();
    write(&path, "README.md", "changed");
    write(&path, "new dir/with space \u{fc}", "1");
    write(&path, "staged", "1");
    agent(&world, &path, &["add", "staged"]);
    let left = slot.inspect().unwrap();
    let mut kinds: Vec<_> = left.uncommitted.into_iter().map(|f| (f.path, f.kind)).collect();
    kinds.sort_by(|(a, _), (b, _)| a.cmp(b));
    let wanted = [
        ("README.md", ChangeKind::Modified),
        ("both", ChangeKind::Unmerged),
        ("gone", ChangeKind::Deleted),
        ("new dir/with space \u{fc}", ChangeKind::New),
        ("staged", ChangeKind::New),
    ]
    .map(|(path, kind)| (path.to_owned(), kind));
    assert_eq!(kinds, wanted);
    assert_eq!(left.commits, 1);

    // The same without an index that can be read.
    let git_dir = PathBuf::from(agent(&world, &path, &["rev-parse", "--absolute-git-dir"]));
    fs::write(git_dir.join("index"), "damaged").unwrap();
    assert_eq!(uncommitted(&mut slot), wanted.map(|(path, _)| path));
}

#[test]
fn commits_on_any_branch_and_none_are_told() {
    let world = world();
    world.commit_all("second");
    let (_, mut slot) = slot(&world);
    let path = slot.tree().path().to_owned();
    agent(&world, &path, &["checkout", "--quiet", "--detach"]);
    let head = commit(&world, &path, "a", "1");
    let left = slot.inspect().unwrap();
    assert_eq!((left.head, left.commits, left.is_untouched), (head, 1, false));
    agent(&world, &path, &["reset", "--quiet", "--hard", "HEAD~2"]);
    let left = slot.inspect().unwrap();
    let first = world.git(&["rev-parse", "main~1"]);
    assert_eq!((left.head, left.commits, left.is_untouched), (first, 0, false));
    agent(&world, &path, &["checkout", "--quiet", "--orphan", "nothing"]);
    assert_snapshot!(told(&world, slot.inspect()), @"nothing is checked out in `$ROOT/home/worktrees/repo/j1/agent-1`: its branch has no commit");
}

#[test]
fn an_earlier_attempts_branch_is_replaced_and_its_kept_worktree_left_as_it_is() {
    let world = world();
    let (repo, slot) = slot(&world);
    let head = commit(&world, slot.tree().path(), "work", "1");
    write(slot.tree().path(), "draft", "1");
    let (old, kept) = (slot.tree().path().to_owned(), slot_path(&world, "failed/item-1"));
    // Newer versions of git can be told to write relative links.
    let git_dir = agent(&world, &old, &["rev-parse", "--absolute-git-dir"]);
    let up = "../".repeat(old.components().count());
    fs::write(old.join(".git"), format!("gitdir: {up}{git_dir}\n")).unwrap();
    assert_eq!(slot.preserve_at(&kept, 1, None).unwrap(), kept.canonicalize().unwrap());
    assert!(!old.exists());
    assert_eq!(agent(&world, &kept, &["status", "--porcelain"]), "?? draft");
    assert_eq!(agent(&world, &kept, &["symbolic-ref", "HEAD"]), "refs/heads/prodigy/j1/item-1");
    let listed = repo.worktrees().unwrap();
    assert_eq!(listed.last().unwrap().path, kept.canonicalize().unwrap());
    assert!(!listed.last().unwrap().is_gone);

    let mut slot = repo.create_slot(&old, "prodigy/j1/item-1", "HEAD").unwrap();
    assert_fresh(&world, &slot, "prodigy/j1/item-1", &base(&world));
    assert_eq!(agent(&world, &kept, &["rev-parse", "HEAD"]), head);
    assert_eq!(agent(&world, &kept, &["status", "--porcelain"]), "?? draft");
    // The same in a slot that has it.
    commit(&world, &old, "again", "1");
    slot.reset_for_item("prodigy/j1/item-1", &base(&world), &[]).unwrap();
    assert_fresh(&world, &slot, "prodigy/j1/item-1", &base(&world));
    let second = slot.preserve_at(&kept, 2, None).unwrap();
    assert_eq!(second, slot_path(&world, "failed/item-1.2").canonicalize().unwrap());
    assert_eq!(agent(&world, &second, &["status", "--porcelain"]), "");
    assert_eq!(agent(&world, &kept, &["status", "--porcelain"]), "?? draft");

    repo.remove_job_worktree(&kept, "prodigy/j1/item-1", true).unwrap();
    repo.remove_job_worktree(&second, "prodigy/j1/item-1", false).unwrap();
    assert_eq!(repo.worktrees().unwrap().len(), 1);
    assert_eq!(repo.job_branches().unwrap(), Vec::<String>::new());
    let left: Vec<_> = files(old.parent().unwrap()).into_keys().collect();
    assert_eq!(left, ["failed"]);
}

#[test]
fn a_record_holds_head_index_and_files() {
    let world = world();
    world.write(".gitignore", "*.o\n");
    world.commit_all("ignore");
    let (_, mut slot) = slot(&world);
    let path = slot.tree().path().to_owned();
    let head = commit(&world, &path, "work", "1");
    write(&path, "staged", "1");
    agent(&world, &path, &["add", "staged"]);
    write(&path, "draft", "1");
    write(&path, "README.md", "changed");
    write(&path, "x.o", "1");
    let reference = "refs/prodigy/j1/failed/item-1";
    assert_eq!(slot.save_to_ref(reference, 1).unwrap(), reference);
    let recorded = world.git(&["rev-parse", reference]);
    assert_eq!(world.git(&["rev-parse", &format!("{reference}^")]), head);
    let names = world.git(&["ls-tree", "-r", "--name-only", reference]);
    assert_snapshot!(names, @"
    files/.gitignore
    files/README.md
    files/draft
    files/staged
    files/work
    index/.gitignore
    index/README.md
    index/staged
    index/work
    ");
    assert_eq!(world.git(&["show", &format!("{reference}:files/README.md")]), "changed");
    assert_eq!(world.git(&["show", &format!("{reference}:index/README.md")]), "# fixture");
    assert_eq!(agent(&world, &path, &["status", "--porcelain"]).lines().count(), 3);
    slot.reset_for_item("prodigy/j1/item-2", &base(&world), &[]).unwrap();
    assert_fresh(&world, &slot, "prodigy/j1/item-2", &base(&world));
    // Recording again takes another name, and a damaged index is no obstacle.
    let git_dir = PathBuf::from(agent(&world, &path, &["rev-parse", "--absolute-git-dir"]));
    fs::write(git_dir.join("index"), "damaged").unwrap();
    write(&path, "second", "1");
    let again = slot.save_to_ref(reference, 4).unwrap();
    assert_eq!(again, format!("{reference}.4"));
    assert_eq!(world.git(&["show", &format!("{again}:files/second")]), "1");
    assert_eq!(slot.save_to_ref(reference, 4).unwrap(), format!("{reference}.5"));
    assert_eq!(world.git(&["rev-parse", reference]), recorded);
}

#[test]
fn what_a_cut_off_call_left_is_replaced() {
    let world = world();
    let (repo, slot) = slot(&world);
    let path = slot.tree().path().to_owned();
    let git_dir = PathBuf::from(agent(&world, &path, &["rev-parse", "--absolute-git-dir"]));
    let replaced = || {
        let slot = repo.create_slot(&path, "prodigy/j1/item-1", "HEAD").unwrap();
        assert_fresh(&world, &slot, "prodigy/j1/item-1", &base(&world));
        assert_eq!(repo.worktrees().unwrap().len(), 2);
        // Cut off: nothing of it is taken back.
        std::mem::forget(slot);
    };
    std::mem::forget(slot);
    // Everything is there, with work in it.
    commit(&world, &path, "work", "1");
    replaced();
    // The directory is gone, or empty.
    fs::remove_dir_all(&path).unwrap();
    replaced();
    fs::remove_dir_all(&path).unwrap();
    fs::create_dir(&path).unwrap();
    replaced();
    // It was about to be kept under another name.
    fs::rename(&path, path.with_file_name("kept")).unwrap();
    replaced();
    // HEAD leads nowhere.
    fs::write(git_dir.join("HEAD"), "").unwrap();
    replaced();
    // The list of git has lost it: whose directory that is, is not known.
    fs::remove_dir_all(&git_dir).unwrap();
    let made = repo.create_slot(&path, "prodigy/j1/item-1", "HEAD");
    assert_snapshot!(told(&world, made), @"`$ROOT/home/worktrees/repo/j1/agent-1` exists already and is not a worktree of this job");
}

#[test]
fn a_hundred_slots_are_made_and_used_at_once() {
    let world = world();
    let (repo, base) = (repo(&world), base(&world));
    let used = |number: usize| {
        let path = slot_path(&world, &format!("agent-{number}"));
        let branch = |item: usize| format!("prodigy/j1/item-{number}-{item}");
        let mut slot = repo.create_slot(&path, &branch(0), &base).unwrap();
        commit(&world, &path, &format!("file-{number}"), "1");
        assert_eq!(slot.inspect().unwrap().commits, 1);
        slot.reset_for_item(&branch(1), &base, &[]).unwrap();
        assert!(slot.inspect().unwrap().is_untouched);
        slot.reset_for_item(&branch(2), &base, &[]).unwrap();
        slot
    };
    let slots: Vec<WorktreeSlot> = std::thread::scope(|scope| {
        let used = &used;
        let threads: Vec<_> = (0..100).map(|number| scope.spawn(move || used(number))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(repo.worktrees().unwrap().len(), 101);
    assert_eq!(repo.job_branches().unwrap().len(), 300);
    std::thread::scope(|scope| {
        for slot in slots {
            scope.spawn(|| slot.discard().unwrap().unwrap());
        }
    });
    assert_eq!(repo.worktrees().unwrap().len(), 1);
    agent(&world, &world.repo(), &["fsck", "--strict"]);
}

#[test]
fn filters_of_the_user_run_as_ever() {
    let world = world();
    world.git(&["config", "filter.loud.smudge", "tr a-z A-Z"]);
    world.git(&["config", "filter.loud.clean", "tr A-Z a-z"]);
    world.write(".gitattributes", "*.txt filter=loud\n");
    world.write("a.txt", "quiet\n");
    world.commit_all("filtered");
    let (_, mut slot) = slot(&world);
    let path = slot.tree().path().to_owned();
    assert_eq!(fs::read_to_string(path.join("a.txt")).unwrap(), "QUIET\n");
    commit(&world, &path, "b.txt", "OTHER\n");
    assert_eq!(uncommitted(&mut slot), Vec::<String>::new());
    write(&path, "c.txt", "THIRD\n");
    let recorded = slot.save_to_ref("refs/prodigy/j1/failed/item-1", 1).unwrap();
    assert_eq!(world.git(&["show", &format!("{recorded}:files/c.txt")]), "third");
    slot.reset_for_item("prodigy/j1/item-2", &base(&world), &[]).unwrap();
    assert_fresh(&world, &slot, "prodigy/j1/item-2", &base(&world));
}

#[test]
fn a_submodule_that_an_item_filled_is_empty_again() {
    let world = world();
    let inner = world.root().join("inner");
    agent(&world, world.root(), &["init", "--quiet", "--initial-branch=main", "inner"]);
    commit(&world, &inner, "file", "1");
    let local = ["-c", "protocol.file.allow=always", "submodule", "--quiet"];
    let add = [&local[..], &["add", inner.to_str().unwrap(), "sub"]].concat();
    world.git(&add);
    world.commit_all("submodule");
    let (_, mut slot) = slot(&world);
    let path = slot.tree().path().to_owned();
    agent(&world, &path, &[&local[..], &["update", "--init"]].concat());
    assert!(path.join("sub/file").exists());
    commit(&world, &path.join("sub"), "more", "1");
    assert_eq!(uncommitted(&mut slot), ["sub"]);
    slot.reset_for_item("prodigy/j1/item-2", &base(&world), &[]).unwrap();
    assert_eq!(fs::read_dir(path.join("sub")).unwrap().count(), 0);
    assert_fresh(&world, &slot, "prodigy/j1/item-2", &base(&world));
}

#[test]
fn slots_can_go_to_other_threads() {
    fn can_go<T: Send>() {}
    can_go::<WorktreeSlot>();
    can_go::<prodigy_engine::git::ItemMerger>();
}

#[test]
fn names_that_are_no_branches_and_commits_are_refused() {
    let world = world();
    let (repo, mut slot) = slot(&world);
    assert_snapshot!(told(&world, slot.reset_for_item("../x", &base(&world), &[])), @"`../x` cannot be the name of a branch");
    assert_snapshot!(told(&world, slot.reset_for_item("prodigy/j1/x", "no-such-commit", &[])), @"`no-such-commit` is not a commit of this repository");
    let missing = "1".repeat(40);
    let leased = slot.reset_for_item("prodigy/j1/x", &missing, &[]);
    assert_eq!(repo.job_branches().unwrap(), ["prodigy/j1/item-1"]);
    assert_snapshot!(told(&world, leased), @"`git read-tree` ended with 128: failed to unpack tree object 1111111111111111111111111111111111111111");
}

#[test]
fn a_slot_works_in_every_kind_of_repository() {
    let world = world();
    let kinds = ["--object-format=sha256", "--ref-format=reftable", "--quiet"];
    for (number, option) in kinds.into_iter().enumerate() {
        let root = world.root().join(format!("kind-{number}"));
        let mut init = world.command("git");
        init.args(["init", "--quiet", "--initial-branch=main", option]).arg(&root);
        // Git knows tables of references since 2.45.
        if !init.output().unwrap().status.success() {
            continue;
        }
        commit(&world, &root, "first", "1");
        if number == 2 {
            agent(&world, &root, &["config", "extensions.worktreeConfig", "true"]);
            commit(&world, &root, "dir/in", "1");
            commit(&world, &root, "out/side", "1");
            agent(&world, &root, &["sparse-checkout", "set", "--cone", "dir"]);
        }
        live(&world, &root, number == 2);
    }
}

fn live(world: &TestEnv, root: &Path, is_sparse: bool) {
    let repo = Repo::discover_with(git(world), root).unwrap();
    let tip = repo.head().unwrap().commit;
    let path = world.root().join("slots").join(root.file_name().unwrap());
    let mut slot = repo.create_slot(&path, "prodigy/j1/item-1", &tip).unwrap();
    let fresh = files(&path);
    assert!(!fresh.contains_key("out/side"));
    assert_eq!(fresh.contains_key("dir/in"), is_sparse);
    let head = commit(world, &path, "work", "1");
    write(&path, "draft", "1");
    let uncommitted = vec![ChangedFile { path: "draft".to_owned(), kind: ChangeKind::New }];
    let left = WorktreeStatus { head, is_untouched: false, uncommitted, commits: 1, astray: 0 };
    assert_eq!(slot.inspect().unwrap(), left);
    let made = slot.patch(&left, &Mask::default()).unwrap().unwrap().bytes;
    assert!(made.starts_with(b"diff --git a/draft b/draft\nnew file mode 100644\n"));
    assert_eq!(slot.preserved_branch(true, &left.head, 1).as_deref(), Some("prodigy/j1/item-1"));
    slot.save_to_ref("refs/prodigy/j1/failed/item-1", 1).unwrap();
    slot.reset_for_item("prodigy/j1/item-2", &tip, &[]).unwrap();
    assert_eq!(files(&path), fresh);
    assert_eq!(agent(world, &path, &["rev-parse", "HEAD"]), tip);
    assert_eq!(agent(world, &path, &["rev-parse", "--abbrev-ref", "HEAD"]), "prodigy/j1/item-2");
    assert!(slot.inspect().unwrap().is_untouched);
    slot.reset_for_item("prodigy/j1/item-1", &tip, &[]).unwrap();
    assert_eq!(agent(world, root, &["rev-parse", "prodigy/j1/item-1"]), tip);
    let kept = path.with_extension("kept");
    assert_eq!(slot.preserved_branch(true, &tip, 0).as_deref(), Some("prodigy/j1/item-1"));
    assert_eq!(slot.preserve_at(&kept, 1, None).unwrap(), kept.canonicalize().unwrap());
    let head = commit(world, &kept, "work", "2");
    let name = repo.free_item_branch("prodigy/j1/item-1", "refs/prodigy/j1/failed/item-1", 1);
    assert_eq!(name.unwrap().as_deref(), Some("refs/prodigy/j1/failed/item-1.1"));
    assert_eq!(agent(world, &kept, &["rev-parse", "--abbrev-ref", "HEAD"]), "HEAD");
    assert_eq!(agent(world, &kept, &["rev-parse", "HEAD"]), head);
    assert_eq!(agent(world, &kept, &["status", "--porcelain"]), "");
    repo.remove_job_worktree(&kept, "prodigy/j1/item-1", false).unwrap();
    agent(world, root, &["fsck", "--strict"]);
}
