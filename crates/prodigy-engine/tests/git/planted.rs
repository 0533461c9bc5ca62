//! Ways in which an agent could make us run its code, or lead us astray, while other
//! agents keep the guard from having checked in time.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

use insta::assert_snapshot;
use prodigy_engine::git::{ItemMergeOutcome, ItemMergeRequest, ItemMerger, Repo, WorktreeSlot};
use prodigy_testkit::TestEnv;

use super::{
    BRANCH, agent, commit, files, job_tree,
    slot::{slot, slot_path, told},
    worktree::plant,
    world, write,
};

/// Does everything with a slot and a merger, from a slot in which an agent was at work.
fn use_slots(world: &TestEnv, repo: &Repo, mut slot: WorktreeSlot, merger: &mut ItemMerger) {
    let base = merger.tip().to_owned();
    let path = slot.tree().path().to_owned();
    let head = slot.inspect().unwrap().head;
    slot.save_to_ref("refs/prodigy/j1/failed/item-1", 1).unwrap();
    slot.reset_for_item("prodigy/j1/item-2", &head, &[]).unwrap();
    slot.inspect().unwrap();
    slot.reset_for_item("prodigy/j1/item-3", &base, &[]).unwrap();
    let second = slot_path(world, "agent-2");
    let mut other = repo.create_slot(&second, "prodigy/j1/item-4", &head).unwrap();
    // Two items that change different lines of a file: it has to be merged by its content.
    let lines: Vec<_> = (0..20).map(|line| format!("{line}\n")).collect();
    let change = |slot: &mut WorktreeSlot, branch: &str, line: usize| {
        slot.reset_for_item(branch, &base, &[]).unwrap();
        let mut lines = lines.clone();
        lines.get_mut(line).unwrap().insert_str(0, "changed ");
        let commit = quietly(world, slot.tree().path(), "lines", &lines.concat());
        assert_eq!(slot.inspect().unwrap().commits, 1);
        ItemMergeRequest { commit, base: base.clone(), message: branch.to_owned() }
    };
    let items =
        [change(&mut slot, "prodigy/j1/item-5", 2), change(&mut other, "prodigy/j1/item-6", 18)];
    for item in &items {
        let outcome = merger.merge(item).unwrap();
        assert_eq!(outcome, ItemMergeOutcome::Merged { tip: merger.tip().to_owned() });
    }
    merger.delete_branch("prodigy/j1/item-5", None).unwrap();
    merger.delete_branch("prodigy/j1/item-4", Some(&head)).unwrap();
    repo.open_job_worktree(&super::job_path(world), BRANCH).unwrap().reset_to_branch().unwrap();
    slot.reset_for_item("prodigy/j1/item-7", merger.tip(), &[]).unwrap();
    assert!(files(&path).get("lines").unwrap().contains("changed 2\n"));
    slot.preserve_at(&slot_path(world, "kept"), 1, None).unwrap();
    other.discard().unwrap();
}

/// Commits a changed file without running what is planted.
fn quietly(world: &TestEnv, path: &Path, file: &str, text: &str) -> String {
    let new = world.root().join("new-content");
    fs::write(&new, text).unwrap();
    let hash = ["hash-object", "-w", "--no-filters", new.to_str().unwrap()];
    let blob = agent(world, path, &hash);
    let old = agent(world, path, &["rev-parse", &format!("HEAD:{file}")]);
    let entries = agent(world, path, &["ls-tree", "HEAD"]).replace(&old, &blob);
    fs::write(&new, format!("{entries}\n")).unwrap();
    let mut mktree = world.command("git");
    mktree.current_dir(path).arg("mktree").stdin(fs::File::open(&new).unwrap());
    let tree = String::from_utf8(mktree.output().unwrap().stdout).unwrap();
    let commit = agent(world, path, &["commit-tree", "-p", "HEAD", "-m", file, tree.trim()]);
    let safe = ["-c", "core.hooksPath=/dev/null", "update-ref", "HEAD", &commit];
    agent(world, path, &safe);
    commit
}

/// Lets an agent plant something in a slot, does everything, and asserts that nothing of it ran
/// until `trigger` was done as the agent would.
fn never_runs(planting: impl FnOnce(&TestEnv, &Path, &str), trigger: impl FnOnce(&TestEnv, &Path)) {
    let world = world();
    let lines: Vec<_> = (0..20).map(|line| format!("{line}\n")).collect();
    world.write("lines", lines.concat());
    world.commit_all("lines");
    let (repo, _) = job_tree(&world);
    let path = slot_path(&world, "agent-1");
    let slot = repo.create_slot(&path, "prodigy/j1/item-1", BRANCH).unwrap();
    let mut merger = ItemMerger::start(&repo, BRANCH).unwrap();
    let (proof, program) = (world.root().join("proof"), world.root().join("evil"));
    plant(&program, &proof);
    planting(&world, &path, program.to_str().unwrap());
    fs::remove_file(&proof).ok();
    use_slots(&world, &repo, slot, &mut merger);
    assert!(!proof.exists(), "the agent's program ran");
    trigger(&world, &slot_path(&world, "kept"));
    assert!(proof.exists(), "this test proves nothing");
}

/// Runs git as an agent would, whatever comes of it.
fn try_git(world: &TestEnv, path: &Path, args: &[&str]) {
    world.command("git").current_dir(path).args(args).output().unwrap();
}

/// Makes git look into all files.
fn look(world: &TestEnv, path: &Path) {
    write(path, "new", "1");
    write(path, "lines", "other");
    try_git(world, path, &["add", "--all"]);
    try_git(world, path, &["checkout", "--force", "HEAD~1"]);
}

#[test]
fn hooks() {
    let hooks = ["post-checkout", "reference-transaction", "post-index-change", "post-merge"];
    let planting = |world: &TestEnv, path: &Path, program: &str| {
        for hook in hooks {
            fs::copy(program, world.repo().join(".git/hooks").join(hook)).unwrap();
        }
        agent(world, path, &["config", "core.hooksPath", ".git/hooks"]);
        agent(world, path, &["config", "--unset", "core.hooksPath"]);
    };
    never_runs(planting, look);
}

#[test]
fn a_directory_of_hooks() {
    let planting = |world: &TestEnv, path: &Path, program: &str| {
        let hooks = world.root().join("hooks");
        fs::create_dir(&hooks).unwrap();
        fs::copy(program, hooks.join("post-checkout")).unwrap();
        agent(world, path, &["config", "core.hooksPath", hooks.to_str().unwrap()]);
    };
    never_runs(planting, look);
}

#[test]
fn filters_in_the_worktree() {
    for kind in ["clean", "smudge", "process"] {
        let planting = |world: &TestEnv, path: &Path, program: &str| {
            write(path, "work", "1");
            commit(world, path, ".gitattributes", "* filter=evil\n");
            agent(world, path, &["config", &format!("filter.evil.{kind}"), program]);
        };
        never_runs(planting, |world, path| {
            write(&world.repo(), ".git/info/attributes", "* filter=evil\n");
            look(world, path);
        });
    }
}

#[test]
fn filters_in_the_attributes_of_the_repository() {
    let planting = |world: &TestEnv, path: &Path, program: &str| {
        write(&world.repo(), ".git/info/attributes", "* filter=evil\n");
        agent(world, path, &["config", "filter.evil.smudge", program]);
        agent(world, path, &["config", "filter.evil.clean", program]);
    };
    never_runs(planting, look);
}

#[test]
fn a_file_of_attributes() {
    let planting = |world: &TestEnv, path: &Path, program: &str| {
        let attributes = world.root().join("attributes");
        fs::write(&attributes, "* filter=evil\n").unwrap();
        agent(world, path, &["config", "core.attributesFile", attributes.to_str().unwrap()]);
        agent(world, path, &["config", "filter.evil.clean", program]);
    };
    never_runs(planting, look);
}

#[test]
fn a_file_system_monitor() {
    let planting = |world: &TestEnv, path: &Path, program: &str| {
        agent(world, path, &["config", "core.fsmonitor", program]);
    };
    never_runs(planting, look);
}

#[test]
fn a_merge_driver() {
    let planting = |world: &TestEnv, path: &Path, program: &str| {
        write(&world.repo(), ".git/info/attributes", "* merge=evil\n");
        commit(world, path, ".gitattributes", "* merge=evil\n");
        agent(world, path, &["config", "merge.evil.driver", program]);
        agent(world, path, &["config", "merge.default", "evil"]);
    };
    never_runs(planting, |world, path| {
        try_git(world, path, &["merge-tree", "--write-tree", &format!("{BRANCH}^1"), "HEAD^2"]);
    });
}

#[test]
fn a_driver_of_differences() {
    let planting = |world: &TestEnv, path: &Path, program: &str| {
        commit(world, path, ".gitattributes", "* diff=evil\n");
        agent(world, path, &["config", "diff.evil.textconv", program]);
        agent(world, path, &["config", "diff.evil.command", program]);
        agent(world, path, &["config", "diff.external", program]);
    };
    never_runs(planting, |world, path| {
        write(path, "lines", "other");
        try_git(world, path, &["diff"]);
    });
}

#[test]
fn included_settings() {
    for name in ["include.path", "includeIf.gitdir:/.path"] {
        let planting = |world: &TestEnv, path: &Path, program: &str| {
            let text = format!("[filter \"evil\"]\n\tclean = {program}\n\tsmudge = {program}\n");
            fs::write(world.root().join("included"), text).unwrap();
            write(&world.repo(), ".git/info/attributes", "* filter=evil\n");
            let included = world.root().join("included");
            agent(world, path, &["config", name, included.to_str().unwrap()]);
        };
        never_runs(planting, look);
    }
}

#[test]
fn settings_of_one_worktree() {
    let planting = |world: &TestEnv, path: &Path, program: &str| {
        write(&world.repo(), ".git/info/attributes", "* filter=evil\n");
        agent(world, path, &["config", "extensions.worktreeConfig", "true"]);
        agent(world, path, &["config", "--worktree", "filter.evil.clean", program]);
        agent(world, path, &["config", "--worktree", "core.fsmonitor", program]);
    };
    never_runs(planting, look);
}

#[test]
fn settings_of_the_user() {
    let world = world();
    let global = world.root().join("global");
    fs::write(&global, "").unwrap();
    let world = world.env("GIT_CONFIG_GLOBAL", global.to_str().unwrap());
    let (repo, mut slot) = slot(&world);
    let (proof, program) = (world.root().join("proof"), world.root().join("evil"));
    plant(&program, &proof);
    let (path, base) = (slot.tree().path().to_owned(), slot.tree().head().unwrap());
    commit(&world, &path, ".gitattributes", "* filter=evil\n");
    let program = program.to_str().unwrap();
    agent(&world, &path, &["config", "--global", "filter.evil.clean", program]);
    agent(&world, &path, &["config", "--global", "filter.evil.smudge", program]);
    write(&path, "README.md", "changed");
    fs::remove_file(&proof).ok();
    let head = slot.inspect().unwrap().head;
    slot.save_to_ref("refs/prodigy/j1/failed/item-1", 1).unwrap();
    slot.reset_for_item("prodigy/j1/item-2", &base, &[]).unwrap();
    slot.reset_for_item("prodigy/j1/item-3", &head, &[]).unwrap();
    repo.create_slot(&slot_path(&world, "agent-2"), "prodigy/j1/item-4", &head).unwrap();
    assert!(!proof.exists(), "the agent's program ran");
    write(&path, "README.md", "changed");
    try_git(&world, &path, &["add", "--all"]);
    assert!(proof.exists(), "this test proves nothing");
}

#[test]
fn settings_in_our_own_directory() {
    let world = world();
    let (_, mut slot) = slot(&world);
    let (proof, program) = (world.root().join("proof"), world.root().join("evil"));
    plant(&program, &proof);
    let (path, base) = (slot.tree().path().to_owned(), slot.tree().head().unwrap());
    let config = slot_path(&world, ".agent-1.git").join("config");
    let text = format!("[filter \"evil\"]\n\tclean = {0}\n\tsmudge = {0}\n", program.display());
    for is_linked in [false, true] {
        write(&path, ".gitattributes", "* filter=evil\n");
        write(&path, "README.md", "changed");
        if is_linked {
            fs::write(world.root().join("config"), &text).unwrap();
            fs::remove_file(&config).unwrap();
            symlink(world.root().join("config"), &config).unwrap();
        } else {
            fs::write(&config, &text).unwrap();
        }
        slot.inspect().unwrap();
        slot.reset_for_item("prodigy/j1/item-2", &base, &[]).unwrap();
        assert!(!proof.exists(), "the agent's program ran");
    }
}

#[test]
fn a_repository_inside_the_worktree() {
    let planting = |world: &TestEnv, path: &Path, program: &str| {
        agent(world, path, &["init", "--quiet", "sub"]);
        commit(world, &path.join("sub"), "file", "1");
        agent(world, path, &["add", "sub"]);
        agent(world, path, &["commit", "--quiet", "-m", "submodule"]);
        write(&path.join("sub"), ".git/info/attributes", "* filter=evil\n");
        agent(world, &path.join("sub"), &["config", "filter.evil.clean", program]);
        agent(world, &path.join("sub"), &["config", "core.fsmonitor", program]);
        write(path, "sub/file", "2");
        // Kept for the trigger: everything in the slot goes.
        let copy = world.root().join("copy");
        world.command("cp").current_dir(path).args(["-a", "sub"]).arg(copy).output().unwrap();
    };
    never_runs(planting, |world, _| {
        try_git(world, &world.root().join("copy"), &["status"]);
    });
}

#[test]
fn a_link_to_another_repository() {
    let planting = |world: &TestEnv, path: &Path, program: &str| {
        agent(world, world.root(), &["init", "--quiet", "evil-repo"]);
        let evil = world.root().join("evil-repo");
        commit(world, &evil, "file", "1");
        agent(world, &evil, &["config", "core.fsmonitor", program]);
        write(&evil, ".git/info/attributes", "* filter=evil\n");
        agent(world, &evil, &["config", "filter.evil.clean", program]);
        agent(world, &evil, &["config", "filter.evil.smudge", program]);
        let admin = PathBuf::from(agent(world, path, &["rev-parse", "--absolute-git-dir"]));
        let git_dir = evil.join(".git");
        fs::write(path.join(".git"), format!("gitdir: {}\n", git_dir.display())).unwrap();
        fs::write(admin.join("commondir"), format!("{}\n", git_dir.display())).unwrap();
        fs::write(admin.join("gitdir"), format!("{}\n", evil.join(".git").display())).unwrap();
    };
    never_runs(planting, |world, _| {
        write(&world.root().join("evil-repo"), "file", "2");
        try_git(world, &world.root().join("evil-repo"), &["status"]);
    });
}

#[test]
fn a_worktree_that_is_elsewhere() {
    let world = world();
    let (_, mut slot) = slot(&world);
    let (path, base) = (slot.tree().path().to_owned(), slot.tree().head().unwrap());
    let user = world.root().join("user-files");
    write(&user, "precious", "1");
    let tip = commit(&world, &world.repo(), "more", "1");
    agent(&world, &path, &["config", "core.worktree", user.to_str().unwrap()]);
    write(&path, "draft", "1");
    assert_eq!(super::slot::uncommitted(&mut slot), ["draft"]);
    slot.reset_for_item("prodigy/j1/item-2", &tip, &[]).unwrap();
    assert_eq!(files(&user).into_keys().collect::<Vec<_>>(), ["precious"]);
    assert_eq!(files(&path).into_keys().collect::<Vec<_>>(), ["README.md", "more"]);
    assert_eq!(slot.tree().head().unwrap(), tip);
    assert_ne!(tip, base);
}

#[test]
fn commits_that_are_to_be_replaced_by_others() {
    let world = world();
    let (repo, mut slot) = slot(&world);
    let (path, base) = (slot.tree().path().to_owned(), slot.tree().head().unwrap());
    let evil = commit(&world, &path, "README.md", "evil");
    agent(&world, &path, &["replace", &base, &evil]);
    write(&world.repo(), ".git/info/grafts", &format!("{evil}\n"));
    assert_eq!(slot.inspect().unwrap().commits, 1);
    slot.reset_for_item("prodigy/j1/item-2", &base, &[]).unwrap();
    assert_eq!(fs::read_to_string(path.join("README.md")).unwrap(), "# fixture\n");
    world.git(&["branch", BRANCH, &base]);
    let mut merger = ItemMerger::start(&repo, BRANCH).unwrap();
    let item = ItemMergeRequest { commit: evil.clone(), base, message: String::new() };
    assert_eq!(merger.merge(&item).unwrap(), ItemMergeOutcome::Merged { tip: evil });
}

#[test]
fn links_in_the_place_of_references() {
    let world = world();
    let (repo, mut slot) = slot(&world);
    let base = slot.tree().head().unwrap();
    let heads = repo.common_dir().join("refs/heads");
    let precious = world.root().join("precious");
    fs::write(&precious, "1").unwrap();
    // A branch that is a link: to the user's branch, and to a file of the user's.
    symlink("../../main", heads.join("prodigy/j1/item-2")).unwrap();
    symlink(&precious, heads.join("prodigy/j1/item-3")).unwrap();
    symlink(&precious, heads.join("prodigy/j1/item-4.lock")).unwrap();
    let path = slot.tree().path().to_owned();
    let other = commit(&world, &path, "work", "1");
    for item in ["prodigy/j1/item-2", "prodigy/j1/item-3", "prodigy/j1/item-4"] {
        slot.reset_for_item(item, &other, &[]).unwrap();
        assert_eq!(world.git(&["rev-parse", item]), other);
    }
    assert_eq!(world.git(&["rev-parse", "main"]), base);
    assert_eq!(fs::read_to_string(&precious).unwrap(), "1");
    // A directory of references that is a link.
    fs::create_dir(world.root().join("elsewhere")).unwrap();
    symlink(world.root().join("elsewhere"), heads.join("prodigy/j2")).unwrap();
    let leased = slot.reset_for_item("prodigy/j2/item-1", &base, &[]);
    assert_snapshot!(told(&world, leased), @"cannot write to `$ROOT/repo/.git/refs/heads/prodigy/j2`: it is not a directory");
    assert_eq!(files(&world.root().join("elsewhere")).len(), 0);
    // The job's branch made to lead to the user's.
    world.git(&["branch", "prodigy/j3/job", &base]);
    let mut merger = ItemMerger::start(&repo, "prodigy/j3/job").unwrap();
    world.git(&["symbolic-ref", "refs/heads/prodigy/j3/job", "refs/heads/main"]);
    let item =
        ItemMergeRequest { commit: other.clone(), base: base.clone(), message: String::new() };
    assert_eq!(merger.merge(&item).unwrap(), ItemMergeOutcome::Merged { tip: other.clone() });
    assert_eq!(world.git(&["rev-parse", "main"]), base);
    assert_eq!(world.git(&["rev-parse", "prodigy/j3/job"]), other);
}

/// Makes a pipe that nobody writes to.
fn pipe(world: &TestEnv, path: &Path) {
    fs::remove_file(path).ok();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    assert!(world.command("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn pipes_are_not_waited_for() {
    let world = world();
    world.write("dir/.gitignore", "*.o\n");
    world.commit_all("ignore");
    let (repo, mut slot) = slot(&world);
    let (path, base) = (slot.tree().path().to_owned(), slot.tree().head().unwrap());
    let admin = PathBuf::from(agent(&world, &path, &["rev-parse", "--absolute-git-dir"]));
    // What only locks is removed.
    for lock in ["index.lock", "HEAD.lock", "MERGE_HEAD"] {
        pipe(&world, &admin.join(lock));
    }
    pipe(&world, &repo.common_dir().join("refs/heads/prodigy/j1/item-2.lock"));
    pipe(&world, &path.join("untracked"));
    slot.inspect().unwrap();
    slot.reset_for_item("prodigy/j1/item-2", &base, &[]).unwrap();
    assert!(slot.inspect().unwrap().is_untouched);
    // What git reads in the worktree is told, and gone after a lease.
    for file in ["dir/.gitignore", "new/.gitattributes", "new/.gitignore"] {
        pipe(&world, &path.join(file));
        let error = told(&world, slot.inspect());
        assert_eq!(
            error,
            format!("`$ROOT/home/worktrees/repo/j1/agent-1/{file}` is not a regular file")
        );
        slot.reset_for_item("prodigy/j1/item-2", &base, &[]).unwrap();
        assert!(slot.inspect().unwrap().is_untouched, "{file}");
    }
    // What git reads of the worktree's own state is told.
    for file in ["index", "HEAD"] {
        pipe(&world, &admin.join(file));
        assert!(told(&world, slot.inspect()).ends_with("is not a regular file"), "{file}");
        let leased = slot.reset_for_item("prodigy/j1/item-2", &base, &[]);
        assert!(told(&world, leased).ends_with("is not a regular file"), "{file}");
        fs::remove_file(admin.join(file)).unwrap();
    }
    slot.discard().unwrap();
}

#[test]
fn pipes_in_one_slot_do_not_hold_up_another() {
    let world = world();
    let (repo, first) = slot(&world);
    let path = first.tree().path().to_owned();
    let admin = PathBuf::from(agent(&world, &path, &["rev-parse", "--absolute-git-dir"]));
    for (number, file) in ["HEAD", "commondir", "locked", "gitdir"].into_iter().enumerate() {
        pipe(&world, &admin.join(file));
        let path = slot_path(&world, &format!("other-{number}"));
        repo.create_slot(&path, &format!("prodigy/j1/other-{number}"), "HEAD").unwrap();
        assert_eq!(files(&path).into_keys().collect::<Vec<_>>(), ["README.md"]);
    }
    first.discard().unwrap();
    assert!(!path.exists());
}

#[test]
fn something_else_in_the_place_of_the_worktree_is_told() {
    let world = world();
    let (repo, mut slot) = slot(&world);
    let (path, base) = (slot.tree().path().to_owned(), slot.tree().head().unwrap());
    let user = world.root().join("user-files");
    write(&user, "precious", "1");
    fs::rename(&path, world.root().join("moved")).unwrap();
    symlink(&user, &path).unwrap();
    assert_snapshot!(told(&world, slot.inspect()), @"`$ROOT/home/worktrees/repo/j1/agent-1` is no longer the job's worktree: something else was put in its place");
    let leased = slot.reset_for_item("prodigy/j1/item-2", &base, &[]);
    assert_snapshot!(told(&world, leased), @"`$ROOT/home/worktrees/repo/j1/agent-1` is no longer the job's worktree: something else was put in its place");
    let recorded = slot.save_to_ref("refs/prodigy/j1/failed/item-1", 1);
    assert_snapshot!(told(&world, recorded), @"`$ROOT/home/worktrees/repo/j1/agent-1` is no longer the job's worktree: something else was put in its place");
    let trash = slot.discard().unwrap().unwrap();
    fs::remove_dir_all(trash).unwrap();
    assert_eq!(files(&user).into_keys().collect::<Vec<_>>(), ["precious"]);
    // A new one can be made, also over a link.
    let slot = repo.create_slot(&path, "prodigy/j1/item-1", &base).unwrap();
    std::mem::forget(slot);
    fs::rename(&path, world.root().join("moved-too")).unwrap();
    symlink(&user, &path).unwrap();
    let slot = repo.create_slot(&path, "prodigy/j1/item-1", &base).unwrap();
    assert_eq!(files(&user).into_keys().collect::<Vec<_>>(), ["precious"]);
    assert_eq!(files(slot.tree().path()).into_keys().collect::<Vec<_>>(), ["README.md"]);
}

#[test]
fn a_closed_directory_is_told_or_removed() {
    // The superuser is let in everywhere.
    if rustix::process::geteuid().is_root() {
        return;
    }
    let world = world();
    world.write("dir/file", "1");
    world.commit_all("directory");
    let (_, mut slot) = slot(&world);
    let (path, base) = (slot.tree().path().to_owned(), slot.tree().head().unwrap());
    write(&path, "new/below/file", "1");
    let close = |name: &str| {
        fs::set_permissions(path.join(name), fs::Permissions::from_mode(0o0)).unwrap();
    };
    close("new/below");
    close("new");
    slot.reset_for_item("prodigy/j1/item-2", &base, &[]).unwrap();
    assert!(!path.join("new").exists());
    close("dir");
    assert_snapshot!(told(&world, slot.inspect()), @"cannot read `$ROOT/home/worktrees/repo/j1/agent-1/dir`: Permission denied (os error 13)");
    slot.discard().unwrap();
}

#[test]
fn an_object_that_stands_in_for_another_is_not_looked_at() {
    let world = world();
    let (repo, tree) = job_tree(&world);
    let base = tree.head().unwrap();
    let head = commit(&world, tree.path(), "evil", "evil\n");
    agent(&world, tree.path(), &["replace", &head, &base]);
    assert_eq!(
        agent(&world, tree.path(), &["show", "--name-only", "--format=", &head]),
        "README.md"
    );
    assert_eq!(repo.files_changed(&base, &head).unwrap().len(), 1, "the agent sees none");
    assert_eq!(repo.commits_between(&base, &head).unwrap().len(), 1);
}
