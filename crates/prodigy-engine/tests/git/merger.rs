//! Merging items into the branch of their job.

use std::{fs, time::Instant};

use insta::assert_snapshot;
use prodigy_engine::git::{
    Git, ItemMergeOutcome, ItemMergeRequest, ItemMerger, Repo, WorktreeSlot,
};
use prodigy_testkit::TestEnv;

use super::{
    BRANCH, agent, commit, files, git, job_tree,
    slot::{counted, slot_path, told},
    world, write,
};

/// A world with a job, a slot for its items, and a merger.
struct Job {
    world: TestEnv,
    repo: Repo,
    slot: WorktreeSlot,
    merger: ItemMerger,
}

impl Job {
    fn new() -> Self {
        Self::of(world())
    }

    fn of(world: TestEnv) -> Self {
        let (repo, _) = job_tree(&world);
        let slot = repo.create_slot(&slot_path(&world, "agent-1"), "prodigy/j1/item-0", BRANCH);
        let merger = ItemMerger::start(&repo, BRANCH).unwrap();
        Self { slot: slot.unwrap(), repo, world, merger }
    }

    /// Lets an item change a file from a commit on, and returns what is to be merged.
    fn item(&mut self, number: usize, base: &str, path: &str, text: &str) -> ItemMergeRequest {
        self.slot.reset_for_item(&format!("prodigy/j1/item-{number}"), base, &[]).unwrap();
        let commit = commit(&self.world, self.slot.tree().path(), path, text);
        ItemMergeRequest { commit, base: base.to_owned(), message: format!("Merge item-{number}") }
    }

    fn tip(&self) -> String {
        let tip = self.world.git(&["rev-parse", BRANCH]);
        assert_eq!(self.merger.tip(), tip);
        tip
    }

    fn log(&self) -> String {
        let format = "--format=%s (%an <%ae>, %cn)";
        self.world.git(&["log", "--graph", format, BRANCH])
    }
}

#[test]
fn the_first_item_moves_the_branch_and_the_others_are_merged() {
    let mut job = Job::new();
    let base = job.tip();
    let first = job.item(1, &base, "a", "1");
    let second = job.item(2, &base, "b", "1");
    let third = job.item(3, &base, "c/d", "1");
    let commit = first.commit.clone();
    assert_eq!(job.merger.merge(&first).unwrap(), ItemMergeOutcome::Merged { tip: commit });
    assert_eq!(job.tip(), first.commit);
    for item in [&second, &third] {
        let merged = job.merger.merge(item).unwrap();
        assert_eq!(merged, ItemMergeOutcome::Merged { tip: job.tip() });
        let parents = job.world.git(&["log", "-1", "--format=%P", BRANCH]);
        assert!(parents.ends_with(&item.commit), "{parents}");
    }
    assert_snapshot!(job.log(), @r"
    *   Merge item-3 (Test <test@example.com>, Test)
    |\  
    | * c/d (Test <test@example.com>, Test)
    * |   Merge item-2 (Test <test@example.com>, Test)
    |\ \  
    | * | b (Test <test@example.com>, Test)
    | |/  
    * / a (Test <test@example.com>, Test)
    |/  
    * first (Test <test@example.com>, Test)
    ");
    assert_snapshot!(job.world.git(&["ls-tree", "-r", "--name-only", BRANCH]), @"
    README.md
    a
    b
    c/d
    ");
    agent(&job.world, &job.world.repo(), &["fsck", "--strict"]);
}

#[test]
fn what_is_contained_is_not_merged_again() {
    let mut job = Job::new();
    let base = job.tip();
    let (first, second) = (job.item(1, &base, "a", "1"), job.item(2, &base, "b", "1"));
    // The caller was cut off before it could note that the branch had moved.
    for item in [&first, &second] {
        assert!(matches!(job.merger.merge(item).unwrap(), ItemMergeOutcome::Merged { .. }));
        assert_eq!(job.merger.merge(item).unwrap(), ItemMergeOutcome::AlreadyMerged);
        job.merger = ItemMerger::start(&job.repo, BRANCH).unwrap();
        assert_eq!(job.merger.merge(item).unwrap(), ItemMergeOutcome::AlreadyMerged);
    }
    let tip = job.tip();
    job.merger = ItemMerger::start(&job.repo, BRANCH).unwrap();
    for item in [&first, &second] {
        assert_eq!(job.merger.merge(item).unwrap(), ItemMergeOutcome::AlreadyMerged);
    }
    let nothing =
        ItemMergeRequest { commit: base.clone(), base: base.clone(), message: String::new() };
    assert_eq!(job.merger.merge(&nothing).unwrap(), ItemMergeOutcome::AlreadyMerged);
    assert_eq!(job.tip(), tip);
    // The same change by two items is merged twice.
    let (third, mut fourth) = (job.item(3, &tip, "x", "1"), job.item(4, &tip, "x", "1"));
    let path = job.slot.tree().path().to_owned();
    agent(&job.world, &path, &["commit", "--quiet", "--amend", "-m", "another"]);
    fourth.commit = agent(&job.world, &path, &["rev-parse", "HEAD"]);
    let both = [third, fourth].map(|item| job.merger.merge(&item).unwrap());
    assert_eq!(both.last().unwrap(), &ItemMergeOutcome::Merged { tip: job.tip() });
}

#[test]
fn a_conflict_names_the_paths_and_changes_nothing() {
    let mut job = Job::new();
    let base = job.tip();
    let (first, second) = (job.item(1, &base, "a", "1"), job.item(2, &base, "a", "2"));
    let third = job.item(3, &base, "c", "1");
    job.merger.merge(&first).unwrap();
    let conflict = ItemMergeOutcome::Conflict { paths: vec!["a".to_owned()] };
    assert_eq!(job.merger.merge(&second).unwrap(), conflict);
    assert_eq!(job.tip(), first.commit);
    assert_eq!(job.merger.merge(&third).unwrap(), ItemMergeOutcome::Merged { tip: job.tip() });
    assert_eq!(job.merger.merge(&second).unwrap(), conflict);
    // What has nothing in common with the branch cannot be merged either.
    let path = job.slot.tree().path().to_owned();
    agent(&job.world, &path, &["checkout", "--quiet", "--orphan", "alone"]);
    let commit = commit(&job.world, &path, "alone", "1");
    let alone = ItemMergeRequest { commit, base, message: String::new() };
    assert_eq!(job.merger.merge(&alone).unwrap(), ItemMergeOutcome::Conflict { paths: vec![] });
}

#[test]
fn an_item_that_rewrote_its_past_is_merged_by_what_it_has() {
    let mut job = Job::new();
    let base = job.tip();
    let first = job.item(1, &base, "a", "1");
    job.merger.merge(&first).unwrap();
    let tip = job.tip();
    // It went back before its base, so nothing may move there.
    let mut item = job.item(2, &tip, "b", "1");
    let path = job.slot.tree().path().to_owned();
    agent(&job.world, &path, &["reset", "--quiet", "--hard", &base]);
    item.commit = base.clone();
    assert_eq!(job.merger.merge(&item).unwrap(), ItemMergeOutcome::AlreadyMerged);
    item.commit = commit(&job.world, &path, "b", "1");
    assert_eq!(job.merger.merge(&item).unwrap(), ItemMergeOutcome::Merged { tip: job.tip() });
    assert_eq!(job.world.git(&["ls-tree", "--name-only", BRANCH]), "README.md\na\nb");
    // Many commits, and a merge among them, may still move the branch.
    let tip = job.tip();
    let mut item = job.item(3, &tip, "c", "1");
    for number in 0..70 {
        agent(
            &job.world,
            &path,
            &["commit", "--quiet", "--allow-empty", "-m", &number.to_string()],
        );
    }
    item.commit = agent(&job.world, &path, &["rev-parse", "HEAD"]);
    assert_eq!(job.merger.merge(&item).unwrap(), ItemMergeOutcome::Merged { tip: item.commit });
}

#[test]
fn what_is_not_there_is_missing() {
    let mut job = Job::new();
    let base = job.tip();
    let none =
        ItemMergeRequest { commit: "1".repeat(40), base: base.clone(), message: String::new() };
    assert_eq!(job.merger.merge(&none).unwrap(), ItemMergeOutcome::Missing);
    let blob = job.world.git(&["rev-parse", "main:README.md"]);
    let no_commit = ItemMergeRequest { commit: blob, ..none.clone() };
    assert_eq!(job.merger.merge(&no_commit).unwrap(), ItemMergeOutcome::Missing);
    // A loss of power took a file's content, or a directory, but not the commit.
    for (number, spoilt) in ["x/y", "x"].into_iter().enumerate() {
        let item = job.item(number, &base, "x/y", &number.to_string());
        let object = job.world.git(&["rev-parse", &format!("{}:{spoilt}", item.commit)]);
        let (directory, file) = object.split_at(2);
        fs::remove_file(job.repo.common_dir().join("objects").join(directory).join(file)).unwrap();
        job.merger = ItemMerger::start(&job.repo, BRANCH).unwrap();
        assert_eq!(job.merger.merge(&item).unwrap(), ItemMergeOutcome::Missing, "{spoilt}");
        assert_eq!(job.tip(), base);
    }
    let bad = ItemMergeRequest { commit: "main".to_owned(), ..none };
    assert_snapshot!(told(&job.world, job.merger.merge(&bad)), @"`main` is not a commit of this repository");
}

#[test]
fn a_branch_that_others_moved_is_followed() {
    let mut job = Job::new();
    let base = job.tip();
    let items = [1, 2].map(|number| job.item(number, &base, &format!("f{number}"), "1"));
    job.world.git(&["worktree", "add", "--quiet", "--detach", "../other", BRANCH]);
    let other = commit(&job.world, &job.world.root().join("other"), "other", "1");
    job.world.git(&["update-ref", &format!("refs/heads/{BRANCH}"), &other]);
    for item in &items {
        assert_eq!(job.merger.merge(item).unwrap(), ItemMergeOutcome::Merged { tip: job.tip() });
    }
    assert_eq!(job.world.git(&["ls-tree", "--name-only", BRANCH]), "README.md\nf1\nf2\nother");
    let delete = ["update-ref", "-d", &format!("refs/heads/{BRANCH}")];
    let late = job.item(3, &base, "late", "1");
    assert!(!job.merger.take_branch_restored());
    job.world.git(&delete);
    // It is put back where it stood.
    let merged = job.merger.merge(&late).unwrap();
    assert_eq!(merged, ItemMergeOutcome::Merged { tip: job.tip() });
    assert!(job.merger.take_branch_restored());
    assert_eq!(
        job.world.git(&["ls-tree", "--name-only", BRANCH]),
        "README.md\nf1\nf2\nlate\nother"
    );
    job.world.git(&delete);
    let started = ItemMerger::start(&job.repo, BRANCH);
    assert_snapshot!(told(&job.world, started), @"there is no branch `prodigy/j1/job`");
}

#[test]
fn a_lock_that_a_loss_of_power_left_is_no_obstacle() {
    let mut job = Job::new();
    let base = job.tip();
    let item = job.item(1, &base, "a", "1");
    fs::write(job.repo.common_dir().join("refs/heads").join(format!("{BRANCH}.lock")), "").unwrap();
    job.merger = ItemMerger::start(&job.repo, BRANCH).unwrap();
    assert_eq!(job.merger.merge(&item).unwrap(), ItemMergeOutcome::Merged { tip: item.commit });
}

#[test]
fn attributes_of_the_branch_decide_how_files_are_merged() {
    let world = world();
    world.write(".gitattributes", "LOG merge=union\n");
    world.write("LOG", "first\n");
    world.commit_all("a log");
    let mut job = Job::of(world);
    let base = job.tip();
    let items = ["a", "b"].map(|name| job.item(1, &base, "LOG", &format!("first\n{name}\n")));
    for item in &items {
        assert_eq!(job.merger.merge(item).unwrap(), ItemMergeOutcome::Merged { tip: job.tip() });
    }
    assert_eq!(job.world.git(&["show", &format!("{BRANCH}:LOG")]), "first\na\nb");
}

#[test]
fn what_a_killed_merger_left_is_removed() {
    let mut job = Job::new();
    let ours = |repo: &Repo| {
        let names =
            fs::read_dir(repo.common_dir()).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().starts_with("prodigy-")).count()
    };
    std::mem::forget(std::mem::replace(
        &mut job.merger,
        ItemMerger::start(&job.repo, BRANCH).unwrap(),
    ));
    assert_eq!(ours(&job.repo), 1);
    let base = job.tip();
    for number in [1, 2] {
        let item = job.item(number, &base, &format!("f{number}"), "1");
        assert_eq!(job.merger.merge(&item).unwrap(), ItemMergeOutcome::Merged { tip: job.tip() });
    }
    std::mem::forget(job.merger);
    job.repo.remove_job_worktree(&super::job_path(&job.world), BRANCH, true).unwrap();
    assert_eq!(ours(&job.repo), 0);
}

#[test]
fn a_merge_starts_git_once_and_a_move_not_at_all() {
    // Commits that are older than the merger are looked through first.
    let world = world().env("GIT_COMMITTER_DATE", "2090-01-01T00:00:00Z");
    let (repo, count) = counted(&world);
    let mut job = Job::of(world);
    job.merger = ItemMerger::start(&repo, BRANCH).unwrap();
    let base = job.tip();
    let items = [1, 2, 3].map(|number| job.item(number, &base, &format!("f{number}"), "1"));
    let mut started = Vec::new();
    let mut merge = |job: &mut Job, item: &ItemMergeRequest, number: usize| {
        count();
        job.merger.merge(item).unwrap();
        job.merger.delete_branch(&format!("prodigy/j1/item-{number}"), None).unwrap();
        started.push(count());
    };
    for (item, number) in items.iter().zip(1..) {
        merge(&mut job, item, number);
    }
    let tip = job.tip();
    let last = job.item(4, &tip, "f4", "1");
    merge(&mut job, &last, 4);
    // The first two start what stays: to read commits and move branches, and to write commits.
    assert_eq!(started, [2, 2, 1, 0]);
}

#[test]
fn branches_of_items_are_deleted_unless_something_would_be_lost() {
    let mut job = Job::new();
    let base = job.tip();
    let items = [1, 2, 3, 4].map(|number| job.item(number, &base, &format!("f{number}"), "1"));
    job.merger.merge(&items[0]).unwrap();
    job.merger.merge(&items[1]).unwrap();
    let logs = job.repo.common_dir().join("logs/refs/heads/prodigy/j1");
    assert!(logs.join("item-1").exists());
    // One that others packed is deleted too, by a merger that has not merged it itself.
    job.world.git(&["pack-refs", "--all"]);
    job.merger = ItemMerger::start(&job.repo, BRANCH).unwrap();
    let name = |number: usize| format!("prodigy/j1/item-{number}");
    for number in [0, 1, 2, 3, 7] {
        job.merger.delete_branch(&name(number), None).unwrap();
    }
    job.merger.delete_branch(&name(4), Some(&items[3].commit)).unwrap();
    assert_eq!(job.repo.job_branches().unwrap(), [name(3), BRANCH.to_owned()]);
    assert!(!logs.join("item-1").exists());
    // The slot stood on one of them.
    job.slot.reset_for_item(&name(5), &base, &[]).unwrap();
    assert!(job.slot.inspect().unwrap().is_untouched);
}

#[test]
fn merges_are_made_up_with_a_name_if_the_user_has_none() {
    let world = world();
    let anonymous: Vec<_> = ["AUTHOR", "COMMITTER"]
        .into_iter()
        .flat_map(|who| [format!("GIT_{who}_NAME"), format!("GIT_{who}_EMAIL")])
        .map(|name| (name.into(), None))
        .collect();
    let env = world.command("git");
    let env = env.get_envs().map(|(name, value)| (name.to_owned(), value.map(ToOwned::to_owned)));
    let env = env.chain(anonymous).chain([("EMAIL".into(), None)]).collect();
    let repo = Repo::discover_with(Git::with_env(env), &world.repo()).unwrap();
    world.git(&["config", "user.useConfigOnly", "true"]);
    let mut job = Job::of(world);
    job.merger = ItemMerger::start(&repo, BRANCH).unwrap();
    let base = job.tip();
    for number in [1, 2] {
        let item = job.item(number, &base, &format!("f{number}"), "1");
        job.merger.merge(&item).unwrap();
    }
    assert_snapshot!(job.world.git(&["log", "-1", "--format=%an <%ae>, %cn: %B", BRANCH]), @"prodigy <prodigy@localhost>, prodigy: Merge item-2");
}

#[test]
fn merging_works_in_other_kinds_of_repositories() {
    let world = world();
    for (number, option) in
        ["--object-format=sha256", "--ref-format=reftable"].into_iter().enumerate()
    {
        let root = world.root().join(format!("kind-{number}"));
        let mut init = world.command("git");
        init.args(["init", "--quiet", "--initial-branch=main", option]).arg(&root);
        // Git knows tables of references since 2.45.
        if !init.output().unwrap().status.success() {
            continue;
        }
        let base = commit(&world, &root, "first", "1");
        agent(&world, &root, &["branch", BRANCH]);
        let repo = Repo::discover_with(git(&world), &root).unwrap();
        let mut merger = ItemMerger::start(&repo, BRANCH).unwrap();
        let path = slot_path(&world, &format!("kind-{number}"));
        let mut slot = repo.create_slot(&path, "prodigy/j1/item-0", BRANCH).unwrap();
        for item in 0..3 {
            let branch = format!("prodigy/j1/item-{item}");
            slot.reset_for_item(&branch, &base, &[]).unwrap();
            let commit = commit(&world, &path, &format!("file-{item}"), "1");
            let request = ItemMergeRequest { commit, base: base.clone(), message: branch.clone() };
            let tip = merger.merge(&request).unwrap();
            assert_eq!(
                tip,
                ItemMergeOutcome::Merged { tip: repo.branch_tip(BRANCH).unwrap().unwrap() }
            );
            assert_eq!(merger.merge(&request).unwrap(), ItemMergeOutcome::AlreadyMerged);
            merger.delete_branch(&branch, None).unwrap();
        }
        assert_eq!(repo.job_branches().unwrap(), [BRANCH]);
        let names = agent(&world, &root, &["ls-tree", "--name-only", BRANCH]);
        assert_eq!(names, "file-0\nfile-1\nfile-2\nfirst");
        agent(&world, &root, &["fsck", "--strict"]);
    }
}

#[test]
fn the_jobs_worktree_follows_its_branch_when_asked() {
    let mut job = Job::new();
    let tree = job.repo.open_job_worktree(&super::job_path(&job.world), BRANCH).unwrap();
    let base = job.tip();
    let items = ["a", "b"].map(|path| job.item(1, &base, path, "1"));
    for item in &items {
        job.merger.merge(item).unwrap();
    }
    write(tree.path(), "README.md", "changed");
    write(tree.path(), "untracked", "1");
    write(tree.path(), "b", "in the way");
    tree.reset_to_branch().unwrap();
    let names: Vec<_> = files(tree.path()).into_keys().collect();
    assert_eq!(names, ["README.md", "a", "b", "untracked"]);
    assert_eq!(agent(&job.world, tree.path(), &["status", "--porcelain"]), "?? untracked");
    assert_eq!(tree.head().unwrap(), job.tip());
    let removed = job.item(2, &job.tip(), "c", "1");
    job.merger.merge(&removed).unwrap();
    let path = job.slot.tree().path().to_owned();
    fs::remove_file(path.join("a")).unwrap();
    let commit = commit(&job.world, &path, "d", "1");
    let base = job.tip();
    job.merger.merge(&ItemMergeRequest { commit, base, message: String::new() }).unwrap();
    tree.reset_to_branch().unwrap();
    let names: Vec<_> = files(tree.path()).into_keys().collect();
    assert_eq!(names, ["README.md", "b", "c", "d", "untracked"]);
    assert_eq!(agent(&job.world, tree.path(), &["status", "--porcelain"]), "?? untracked");
}

/// Prints what the steps cost per item; run it with `--ignored --nocapture`.
#[test]
#[ignore = "it measures, and proves nothing"]
fn cost_per_item() {
    let world = world();
    for number in 0..50 {
        world.write(&format!("dir-{}/file-{number}", number % 5), format!("{number}\n"));
    }
    world.commit_all("files");
    let mut job = Job::of(world);
    let path = job.slot.tree().path().to_owned();
    let mut costs: Vec<(&str, Vec<u128>)> = Vec::new();
    let mut note = |what: &'static str, start: Instant| {
        let spent = start.elapsed().as_micros();
        match costs.iter_mut().find(|(name, _)| *name == what) {
            Some((_, all)) => all.push(spent),
            None => costs.push((what, vec![spent])),
        }
    };
    let mut base = job.tip();
    for number in 0..200 {
        let branch = format!("prodigy/j1/item-{number}");
        let start = Instant::now();
        job.slot.reset_for_item(&branch, &base, &[]).unwrap();
        note(if number == 0 { "lease, first" } else { "lease, tip moved" }, start);
        let start = Instant::now();
        assert!(job.slot.inspect().unwrap().is_untouched);
        note("examine, untouched", start);
        let start = Instant::now();
        job.slot.reset_for_item(&format!("{branch}-again"), &base, &[]).unwrap();
        note("lease, untouched", start);
        let name = format!("dir-{}/work-{number}", number % 5);
        commit(&job.world, &path, &name, "1");
        let start = Instant::now();
        let left = job.slot.inspect().unwrap();
        note("examine, a commit", start);
        // Most items began one merge before the last one.
        let tip = job.tip();
        let what = if tip == base { "merge, branch moves" } else { "merge, merge commit" };
        let request =
            ItemMergeRequest { commit: left.head, base: base.clone(), message: branch.clone() };
        let start = Instant::now();
        job.merger.merge(&request).unwrap();
        note(what, start);
        let start = Instant::now();
        job.merger.delete_branch(&branch, None).unwrap();
        note("delete branch", start);
        job.merger.delete_branch(&format!("{branch}-again"), None).unwrap();
        base = if number % 10 == 0 { job.tip() } else { tip };
    }
    for (what, mut all) in costs {
        all.sort_unstable();
        let (least, median) = (all.first().unwrap(), all.get(all.len() / 2).unwrap());
        println!("{what}: median {median} us, least {least} us, of {}", all.len());
    }
}

#[test]
fn no_program_is_left_when_the_merger_is_dropped() {
    let mut job = Job::new();
    let base = job.tip();
    for number in [1, 2] {
        let item = job.item(number, &base, &format!("f{number}"), "1");
        job.merger.merge(&item).unwrap();
    }
    let mine = || {
        let root = job.world.root().to_string_lossy().into_owned();
        let is_mine = |entry: &fs::DirEntry| {
            let env = fs::read(entry.path().join("environ")).unwrap_or_default();
            String::from_utf8_lossy(&env).contains(&root)
        };
        fs::read_dir("/proc").unwrap().flatten().filter(is_mine).count()
    };
    assert_eq!(mine(), 3);
    let Job { merger, .. } = job;
    drop(merger);
    assert_eq!(mine(), 0);
}
