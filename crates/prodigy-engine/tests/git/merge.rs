//! Merging a job's branch into the user's.

use std::{collections::BTreeMap, fs, path::Path};

use insta::assert_snapshot;
use prodigy_engine::git::{MergeOutcome, MergeRequest, Repo};
use prodigy_testkit::TestEnv;

use super::{BRANCH, agent, commit, contents, files, job_tree, unrecorded, world, write};

/// A world with a job, and what to ask for to merge it.
struct Scene {
    world: TestEnv,
    repo: Repo,
    request: MergeRequest,
}

/// Lets an agent commit files; the repository has `base.txt` and `dir/base.txt` before.
fn scene(changes: &[(&str, Option<&str>)]) -> Scene {
    let world = world();
    world.write("base.txt", "1\n2\n3\n4\n5\n");
    world.write("dir/base.txt", "base\n");
    world.commit_all("base");
    let (repo, tree) = job_tree(&world);
    for (path, text) in changes {
        if let Some(text) = text {
            write(tree.path(), path, text);
        } else {
            fs::remove_file(tree.path().join(path)).unwrap();
            // As git does: a directory goes with its last file.
            fs::remove_dir(tree.path().join(path).parent().unwrap()).ok();
        }
    }
    tree.commit_all("by an agent").unwrap().unwrap();
    let request = MergeRequest {
        source_branch: BRANCH.to_owned(),
        target_branch: "main".to_owned(),
        base_commit: repo.head().unwrap().commit,
        is_named: false,
        message: "merge the job\n".to_owned(),
        guarded: Vec::new(),
    };
    Scene { world, repo, request }
}

impl Scene {
    fn merge(&self) -> MergeOutcome {
        self.repo.merge_job(&self.request, unrecorded).unwrap()
    }

    fn tip(&self, name: &str) -> String {
        self.world.git(&["rev-parse", name])
    }

    fn status(&self) -> String {
        self.world.git(&["status", "--porcelain", "--untracked-files=all"])
    }

    /// Returns the user's files and what git knows of them, byte for byte.
    fn everything(&self) -> BTreeMap<String, String> {
        let mut found = contents(&self.world.repo());
        // New objects without a name are no change, and the lock file is ours.
        found.retain(|name, _| !name.starts_with(".git/objects") && name != ".git/prodigy.lock");
        found
    }

    /// Merges, expects a refusal, and checks that nothing was changed at all.
    #[track_caller]
    fn refused(&self) -> MergeOutcome {
        let before = self.everything();
        let outcome = self.merge();
        assert_eq!(self.everything(), before);
        outcome
    }
}

fn dirty(paths: &[&str]) -> MergeOutcome {
    MergeOutcome::DirtyTarget { paths: paths.iter().map(ToString::to_string).collect() }
}

#[test]
fn a_target_that_did_not_move_is_fast_forwarded() {
    let scene = scene(&[("new/a", Some("1")), ("base.txt", Some("x")), ("dir/base.txt", None)]);
    let tip = scene.tip(BRANCH);
    assert_eq!(scene.merge(), MergeOutcome::Merged { commit: tip.clone(), commits: 1 });
    assert_eq!(scene.tip("main"), tip);
    assert_eq!(scene.status(), "");
    assert!(!scene.world.repo().join("dir").exists());
    assert_snapshot!(scene.world.git(&["reflog", "-1", "--format=%gd %gs"]), @"HEAD@{0} prodigy: merge prodigy/j1/job");
    assert_eq!(scene.merge(), MergeOutcome::UpToDate);
}

#[test]
fn a_target_that_moved_is_merged() {
    let scene = scene(&[("base.txt", Some("1\n2\n3\n4\nfive\n"))]);
    scene.world.write("base.txt", "one\n2\n3\n4\n5\n");
    scene.world.commit_all("by the user");
    let old = scene.tip("main");
    let MergeOutcome::Merged { commit, commits } = scene.merge() else { panic!() };
    assert_eq!((scene.tip("main"), commits), (commit, 1));
    assert_eq!(scene.world.read("base.txt"), "one\n2\n3\n4\nfive\n");
    assert_eq!(scene.status(), "");
    let parents = format!("{old} {}", scene.tip(BRANCH));
    let merged = scene.world.git(&["log", "-1", "--format=%P%n%B"]);
    assert_eq!(merged, format!("{parents}\nmerge the job"));
    assert_eq!(scene.merge(), MergeOutcome::UpToDate);
}

#[test]
fn a_conflict_changes_nothing_and_names_the_paths() {
    let scene = scene(&[("base.txt", Some("agent\n")), ("it's \"a\"\nname", Some("agent\n"))]);
    scene.world.write("base.txt", "user\n");
    scene.world.write("it's \"a\"\nname", "user\n");
    scene.world.commit_all("by the user");
    scene.world.write("README.md", "in the middle of something\n");
    let paths = ["base.txt", "it's \"a\"\nname"].map(ToOwned::to_owned).into();
    assert_eq!(scene.refused(), MergeOutcome::Conflict { paths });
}

#[test]
fn work_that_the_merge_does_not_touch_stays() {
    let scene = scene(&[("new", Some("1")), ("dir/base.txt", Some("changed\n"))]);
    scene.world.write("README.md", "stashed\n");
    scene.world.git(&["stash", "--quiet"]);
    scene.world.write("base.txt", "staged\n");
    scene.world.git(&["add", "base.txt"]);
    scene.world.write("base.txt", "and changed\n");
    scene.world.write("dir/untracked", "mine\n");
    let before = scene.status();
    let MergeOutcome::Merged { .. } = scene.merge() else { panic!() };
    assert_eq!(scene.status(), before);
    assert_eq!(scene.world.read("base.txt"), "and changed\n");
    assert_eq!(scene.world.git(&["show", ":base.txt"]), "staged");
    assert_eq!(scene.world.read("new"), "1");
    assert_eq!(scene.world.git(&["stash", "list"]).lines().count(), 1);
}

#[test]
fn changed_files_are_never_overwritten() {
    let changes = [("base.txt", Some("agent")), ("dir/base.txt", None)];
    let scene = scene(&changes);
    scene.world.write("base.txt", "user");
    assert_eq!(scene.refused(), dirty(&["base.txt"]));
    scene.world.git(&["add", "base.txt"]);
    assert_eq!(scene.refused(), dirty(&["base.txt"]));
    // What is staged would be lost, though the file itself is as it would be.
    scene.world.write("base.txt", "agent");
    assert_eq!(scene.refused(), dirty(&["base.txt"]));
    scene.world.git(&["reset", "--quiet", "--hard"]);
    scene.world.write("dir/base.txt", "user");
    assert_eq!(scene.refused(), dirty(&["dir/base.txt"]));
    for hide in ["--assume-unchanged", "--skip-worktree"] {
        scene.world.git(&["update-index", hide, "dir/base.txt"]);
        assert_eq!(scene.refused(), dirty(&["dir/base.txt"]), "{hide}");
    }
}

#[test]
fn untracked_and_ignored_files_are_never_overwritten() {
    let scene = scene(&[("new/file", Some("agent")), ("dir/base.txt", Some("x"))]);
    scene.world.write("new/file", "user");
    assert_eq!(scene.refused(), dirty(&["new/file"]));
    scene.world.write(".git/info/exclude", "new\n");
    assert_eq!(scene.refused(), dirty(&["new/file"]));
    fs::remove_dir_all(scene.world.repo().join("new")).unwrap();
    scene.world.write("new", "a file where a directory must be");
    assert_eq!(scene.refused(), dirty(&["new"]));
    fs::remove_file(scene.world.repo().join("new")).unwrap();
    let elsewhere = scene.world.root().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, scene.world.repo().join("new")).unwrap();
    assert_eq!(scene.refused(), dirty(&["new"]));
    assert_eq!(fs::read_dir(elsewhere).unwrap().count(), 0);
}

#[test]
fn a_directory_with_files_of_the_user_is_not_replaced_by_a_file() {
    let scene = scene(&[("dir/base.txt", None), ("dir", Some("now a file"))]);
    scene.world.write("dir/cache/object", "user");
    assert_eq!(scene.refused(), dirty(&["dir/cache/object"]));
    scene.world.write(".git/info/exclude", "cache\n");
    assert_eq!(scene.refused(), dirty(&["dir/cache/object"]));
    fs::remove_dir_all(scene.world.repo().join("dir/cache")).unwrap();
    let MergeOutcome::Merged { .. } = scene.merge() else { panic!() };
    assert_eq!(scene.world.read("dir"), "now a file");
    assert_eq!(scene.status(), "");
}

#[test]
fn a_file_becomes_a_directory() {
    let scene = scene(&[("base.txt", None), ("base.txt/in", Some("x"))]);
    let MergeOutcome::Merged { .. } = scene.merge() else { panic!() };
    assert_eq!(scene.world.read("base.txt/in"), "x");
    assert_eq!(scene.status(), "");
}

#[test]
fn files_that_are_already_as_they_will_be_are_no_obstacle() {
    let scene = scene(&[("new", Some("1")), ("base.txt", Some("x")), ("dir/base.txt", None)]);
    scene.world.write("new", "1");
    scene.world.write("base.txt", "x");
    fs::remove_file(scene.world.repo().join("dir/base.txt")).unwrap();
    let MergeOutcome::Merged { .. } = scene.merge() else { panic!() };
    assert_eq!(scene.status(), "");
}

/// A merge brings files and index forward and then moves the branch. Whatever was
/// done when it was cut off, the next call goes on.
#[test]
fn a_merge_that_was_cut_off_is_finished_by_the_next_call() {
    let cuts: [&dyn Fn(&Scene); 3] = [
        &|scene| drop(scene.world.git(&["read-tree", "-m", "-u", "main", BRANCH])),
        &|scene| {
            // Only some files were written and the index is the old one.
            scene.world.write("new", "1");
            fs::remove_file(scene.world.repo().join("dir/base.txt")).unwrap();
        },
        &|scene| drop(scene.world.git(&["merge", "--quiet", "--ff-only", BRANCH])),
    ];
    for (number, cut) in cuts.into_iter().enumerate() {
        let scene = scene(&[("new", Some("1")), ("base.txt", Some("x")), ("dir/base.txt", None)]);
        cut(&scene);
        let tip = scene.tip(BRANCH);
        let expected = match number {
            2 => MergeOutcome::UpToDate,
            _ => MergeOutcome::Merged { commit: tip.clone(), commits: 1 },
        };
        assert_eq!(scene.merge(), expected, "cut {number}");
        assert_eq!((scene.tip("main"), scene.status()), (tip, String::new()), "cut {number}");
    }
}

#[test]
fn a_checkout_in_the_middle_of_something_is_left_alone() {
    let scene = scene(&[("new", Some("1"))]);
    scene.world.git(&["switch", "--quiet", "-c", "side"]);
    scene.world.write("base.txt", "side\n");
    scene.world.commit_all("side");
    scene.world.git(&["switch", "--quiet", "main"]);
    scene.world.write("base.txt", "main\n");
    scene.world.commit_all("main");
    let stuck = |args: &[&str]| {
        let output = scene.world.command("git").args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}");
    };
    stuck(&["merge", "side"]);
    assert_eq!(scene.refused(), dirty(&[".git/MERGE_HEAD"]));
    scene.world.git(&["merge", "--abort"]);
    stuck(&["cherry-pick", "side"]);
    assert_eq!(scene.refused(), dirty(&[".git/CHERRY_PICK_HEAD"]));
    scene.world.git(&["cherry-pick", "--abort"]);
    // The target is not checked out while it is rebased, but it is in use.
    stuck(&["rebase", "side"]);
    assert_eq!(scene.refused(), dirty(&[".git/rebase-merge"]));
    scene.world.git(&["rebase", "--abort"]);
}

#[test]
fn a_lock_of_another_program_is_named_and_changes_nothing() {
    let scene = scene(&[("new", Some("1")), ("base.txt", Some("x"))]);
    for lock in [".git/index.lock", ".git/refs/heads/main.lock"] {
        scene.world.write(lock, "");
        let MergeOutcome::Refused { reason } = scene.refused() else { panic!() };
        assert!(reason.contains(lock), "{reason}");
        fs::remove_file(scene.world.repo().join(lock)).unwrap();
    }
    let MergeOutcome::Merged { .. } = scene.merge() else { panic!() };
    assert_eq!(scene.status(), "");
}

#[test]
fn a_target_that_is_not_checked_out_moves_without_the_checkout() {
    let scene = scene(&[("new", Some("1"))]);
    scene.world.git(&["switch", "--quiet", "-c", "other"]);
    scene.world.write("new", "mine");
    let before = files(&scene.world.repo());
    let tip = scene.tip(BRANCH);
    assert_eq!(scene.merge(), MergeOutcome::Merged { commit: tip.clone(), commits: 1 });
    assert_eq!(scene.tip("main"), tip);
    assert_eq!(files(&scene.world.repo()), before);
    assert_eq!(scene.status(), "?? new");
}

#[test]
fn a_target_in_another_worktree_is_merged_there() {
    let scene = scene(&[("new", Some("1")), ("base.txt", Some("x"))]);
    scene.world.git(&["switch", "--quiet", "-c", "other"]);
    scene.world.git(&["worktree", "add", "--quiet", "../linked", "main"]);
    let worktree = scene.world.root().canonicalize().unwrap().join("linked");
    let git = |args: &[&str]| agent(&scene.world, &worktree, args);
    // It is in use while it is rebased there.
    git(&["commit", "--quiet", "--allow-empty", "-m", "x"]);
    git(&["-c", "sequence.editor=sed -i 1ibreak", "rebase", "--quiet", "-i", "HEAD~1"]);
    let rebase = scene.world.repo().canonicalize().unwrap();
    let rebase = rebase.join(".git/worktrees/linked/rebase-merge").display().to_string();
    assert_eq!(scene.refused(), dirty(&[&rebase]));
    git(&["rebase", "--abort"]);
    write(&worktree, "new", "mine");
    assert_eq!(scene.refused(), dirty(&["new"]));
    fs::remove_file(worktree.join("new")).unwrap();
    let MergeOutcome::Merged { .. } = scene.merge() else { panic!() };
    assert_eq!(fs::read_to_string(worktree.join("base.txt")).unwrap(), "x");
    assert_eq!(git(&["status", "--porcelain"]), "");
    assert_eq!(scene.status(), "");
    assert!(!scene.world.repo().join("new").exists());
}

#[test]
fn a_target_in_a_worktree_that_is_gone_moves_alone() {
    let scene = scene(&[("new", Some("1"))]);
    scene.world.git(&["switch", "--quiet", "-c", "other"]);
    scene.world.git(&["worktree", "add", "--quiet", "../linked", "main"]);
    fs::remove_dir_all(scene.world.root().join("linked")).unwrap();
    let MergeOutcome::Merged { .. } = scene.merge() else { panic!() };
    assert_eq!(scene.tip("main"), scene.tip(BRANCH));
}

#[test]
fn a_missing_target_or_source_is_said() {
    let mut scene = scene(&[("new", Some("1"))]);
    scene.request.target_branch = "gone".to_owned();
    assert_eq!(scene.refused(), MergeOutcome::TargetMissing);
    scene.request.source_branch = "prodigy/no/job".to_owned();
    let error = scene.repo.merge_job(&scene.request, unrecorded).unwrap_err();
    assert_snapshot!(error, @"there is no branch `prodigy/no/job`");
}

#[test]
fn a_target_that_was_rewritten_is_refused_unless_it_was_named() {
    let mut scene = scene(&[("new", Some("1"))]);
    scene.world.git(&["reset", "--quiet", "--hard", "HEAD~1"]);
    assert_eq!(scene.refused(), MergeOutcome::TargetRewritten);
    scene.request.is_named = true;
    let MergeOutcome::Merged { .. } = scene.merge() else { panic!() };
    assert_eq!(scene.status(), "");
}

#[test]
fn a_target_that_was_named_is_made() {
    let mut scene = scene(&[("new", Some("1"))]);
    let before = files(&scene.world.repo());
    scene.request.target_branch = "results/x".to_owned();
    assert_eq!(scene.refused(), MergeOutcome::TargetMissing);
    scene.request.is_named = true;
    let tip = scene.tip(BRANCH);
    assert_eq!(scene.merge(), MergeOutcome::Merged { commit: tip.clone(), commits: 1 });
    assert_eq!(scene.tip("results/x"), tip);
    assert_eq!(files(&scene.world.repo()), before);
}

#[test]
fn a_job_without_commits_is_up_to_date() {
    let world = world();
    let (repo, _) = job_tree(&world);
    let request = MergeRequest {
        source_branch: BRANCH.to_owned(),
        target_branch: "main".to_owned(),
        base_commit: repo.head().unwrap().commit,
        is_named: false,
        message: String::new(),
        guarded: Vec::new(),
    };
    assert_eq!(repo.merge_job(&request, unrecorded).unwrap(), MergeOutcome::UpToDate);
}

#[test]
fn odd_branches_and_paths_are_merged() {
    let scene =
        scene(&[("-n", Some("1")), ("sp ace/\"q\"\n'ü", Some("2")), (":(top)x", Some("3"))]);
    let target = "topic/ü'(y)$z;#";
    scene.world.git(&["switch", "--quiet", "-c", target]);
    let request = MergeRequest { target_branch: target.to_owned(), ..scene.request.clone() };
    scene.world.write("sp ace/\"q\"\n'ü", "mine");
    let scene = Scene { request, ..scene };
    assert_eq!(scene.refused(), dirty(&["sp ace/\"q\"\n'ü"]));
    fs::remove_dir_all(scene.world.repo().join("sp ace")).unwrap();
    let MergeOutcome::Merged { .. } = scene.merge() else { panic!() };
    assert_eq!(scene.world.read("-n"), "1");
    assert_eq!(scene.world.read(":(top)x"), "3");
    assert_eq!(scene.status(), "");
}

#[test]
fn line_ends_that_git_converts_are_no_change() {
    let scene = scene(&[("base.txt", Some("a\nb\n"))]);
    scene.world.git(&["config", "core.autocrlf", "true"]);
    fs::remove_file(scene.world.repo().join("base.txt")).unwrap();
    scene.world.git(&["checkout", "--quiet", "base.txt"]);
    assert_eq!(scene.world.read("base.txt"), "1\r\n2\r\n3\r\n4\r\n5\r\n");
    let tip = scene.tip(BRANCH);
    assert_eq!(scene.merge(), MergeOutcome::Merged { commit: tip, commits: 1 });
    assert_eq!(scene.world.read("base.txt"), "a\r\nb\r\n");
}

#[test]
fn submodules_and_links_are_merged() {
    let world = world();
    let (repo, tree) = job_tree(&world);
    let base = repo.head().unwrap().commit;
    let add = ["update-index", "--add", "--cacheinfo", &format!("160000,{base},sub")];
    agent(&world, tree.path(), &add);
    std::os::unix::fs::symlink("README.md", tree.path().join("link")).unwrap();
    agent(&world, tree.path(), &["add", "link"]);
    agent(&world, tree.path(), &["commit", "--quiet", "-m", "x"]);
    let request = MergeRequest {
        source_branch: BRANCH.to_owned(),
        target_branch: "main".to_owned(),
        base_commit: base,
        is_named: false,
        message: String::new(),
        guarded: Vec::new(),
    };
    let MergeOutcome::Merged { .. } = repo.merge_job(&request, unrecorded).unwrap() else {
        panic!()
    };
    assert_eq!(fs::read_link(world.repo().join("link")).unwrap(), Path::new("README.md"));
    assert_eq!(world.git(&["status", "--porcelain"]), "");
    commit(&world, &world.repo(), "after", "x");
}
