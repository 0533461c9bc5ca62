//! Ways in which an agent could make us run its code.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use insta::assert_snapshot;
use prodigy_engine::git::{MergeRequest, Repo, RepoGuard, Tampering, Worktree};
use prodigy_testkit::TestEnv;

use super::{
    BRANCH, agent, commit, contents, job_path, job_tree, unrecorded, worktree::plant, world, write,
};

/// Does everything that we ever ask of git.
fn use_git(world: &TestEnv, repo: &Repo, tree: &Worktree) {
    repo.head().unwrap();
    repo.count_uncommitted().unwrap();
    write(tree.path(), "work.txt", "1");
    let snapshot = tree.snapshot().unwrap();
    write(tree.path(), "work.txt", "2");
    tree.restore(&snapshot).unwrap();
    tree.uncommitted_paths().unwrap();
    tree.commit_all("work").unwrap();
    let base = repo.head().unwrap().commit;
    world.write("user.txt", "1");
    // Whatever the user's own calls run is not what is tested.
    let commit = ["commit", "--quiet", "-m", "by the user"];
    for args in [&["add", "--all"][..], &commit] {
        world.git(&[&["-c", "core.hooksPath=/dev/null"], args].concat());
    }
    let request = MergeRequest {
        source_branch: BRANCH.to_owned(),
        target_branch: "main".to_owned(),
        base_commit: base,
        is_named: false,
        message: "merge".to_owned(),
        guarded: Vec::new(),
    };
    repo.merge_job(&request, unrecorded).unwrap();
    repo.remove_job_worktree(&job_path(world), BRANCH, true).unwrap();
    repo.open_job_worktree(&job_path(world), BRANCH).unwrap();
}

/// Lets an agent do something, checks, does everything, and returns what was reported.
fn after(attack: impl FnOnce(&TestEnv, &Path, &str)) -> String {
    let world = world();
    let (repo, tree) = job_tree(&world);
    let guard = RepoGuard::capture(&repo).unwrap();
    let before = dangerous(&world);
    let proof = world.root().join("proof");
    let program = world.root().join("evil");
    plant(&program, &proof);
    attack(&world, tree.path(), program.to_str().unwrap());
    fs::remove_file(&proof).ok();
    let found = guard.check_and_restore().unwrap();
    assert_eq!(dangerous(&world), before, "not restored");
    assert_eq!(guard.check_and_restore().unwrap(), [], "not settled");
    use_git(&world, &repo, &tree);
    assert!(!proof.exists(), "the agent's program ran");
    shown(&world, &found)
}

fn shown(world: &TestEnv, found: &[Tampering]) -> String {
    let root = world.root().canonicalize().unwrap();
    let line = |t: &Tampering| format!("{}: {}", t.path.display(), t.what);
    let lines: Vec<_> = found.iter().map(line).collect();
    lines.join("\n").replace(&*root.to_string_lossy(), "$ROOT")
}

/// Returns the repository's files that decide what git runs.
fn dangerous(world: &TestEnv) -> BTreeMap<String, String> {
    let mut found = contents(&world.repo().join(".git"));
    let is_dangerous = |name: &str| {
        ["config", "config.worktree", "info/attributes", "objects/info/alternates"].contains(&name)
            || name.starts_with("hooks")
            || (name.starts_with("worktrees/") && name.ends_with("config.worktree"))
    };
    found.retain(|name, _| is_dangerous(name));
    found
}

#[test]
fn nothing_is_reported_if_nothing_happened() {
    assert_eq!(after(|_, _, _| {}), "");
}

#[test]
fn hooks_are_removed_and_never_run() {
    let found = after(|world, _, program| {
        for hook in ["post-checkout", "reference-transaction", "post-index-change"] {
            fs::copy(program, world.repo().join(".git/hooks").join(hook)).unwrap();
        }
    });
    assert_snapshot!(found, @"
    $ROOT/repo/.git/hooks/post-checkout: it was added
    $ROOT/repo/.git/hooks/post-index-change: it was added
    $ROOT/repo/.git/hooks/reference-transaction: it was added
    ");
}

#[test]
fn hooks_do_not_run_before_they_are_noticed() {
    let world = world();
    let (repo, tree) = job_tree(&world);
    let proof = world.root().join("proof");
    let hooks = [
        "post-checkout",
        "reference-transaction",
        "post-index-change",
        "pre-commit",
        "post-commit",
        "post-merge",
        "fsmonitor-watchman",
    ];
    for hook in hooks {
        plant(&world.repo().join(".git/hooks").join(hook), &proof);
    }
    let hooks = world.repo().join(".git/hooks");
    fs::rename(&hooks, world.root().join("hooks")).unwrap();
    write(tree.path(), "file", "1");
    std::os::unix::fs::symlink(world.root().join("hooks"), hooks).unwrap();
    use_git(&world, &repo, &tree);
    assert!(!proof.exists(), "a hook ran");
}

#[test]
fn settings_that_git_has_a_switch_for_do_not_run_before_they_are_noticed() {
    let world = world();
    let (repo, tree) = job_tree(&world);
    let (proof, program) = (world.root().join("proof"), world.root().join("evil"));
    plant(&program, &proof);
    let attributes = world.root().join("attributes");
    fs::write(&attributes, "* filter=evil\n").unwrap();
    let program = program.to_str().unwrap();
    world.commit_all("before");
    let settings = [
        ("core.fsmonitor", program),
        ("core.hooksPath", world.root().to_str().unwrap()),
        ("core.attributesFile", attributes.to_str().unwrap()),
        ("filter.evil.clean", program),
        ("filter.evil.smudge", program),
        ("commit.gpgSign", "true"),
        ("gpg.program", program),
        ("core.editor", program),
        ("core.pager", program),
        ("diff.external", program),
        ("core.sshCommand", program),
    ];
    for (name, value) in settings {
        agent(&world, tree.path(), &["config", name, value]);
    }
    repo.count_uncommitted().unwrap();
    write(tree.path(), "work.txt", "1");
    let snapshot = tree.snapshot().unwrap();
    write(tree.path(), "work.txt", "2");
    tree.restore(&snapshot).unwrap();
    tree.commit_all("work").unwrap();
    repo.remove_job_worktree(&job_path(&world), BRANCH, true).unwrap();
    repo.open_job_worktree(&job_path(&world), BRANCH).unwrap();
    assert!(!proof.exists(), "a setting was followed");
}

#[test]
fn a_filter_is_removed_before_it_can_run() {
    let found = after(|world, tree, program| {
        write(tree, ".gitattributes", "* filter=evil\n");
        agent(world, tree, &["config", "filter.evil.smudge", program]);
        agent(world, tree, &["config", "filter.evil.clean", program]);
        agent(world, tree, &["config", "filter.evil.process", program]);
    });
    assert_snapshot!(found, @"
    $ROOT/repo/.git/config: `filter.evil.clean` was set to `$ROOT/evil`
    $ROOT/repo/.git/config: `filter.evil.process` was set to `$ROOT/evil`
    $ROOT/repo/.git/config: `filter.evil.smudge` was set to `$ROOT/evil`
    ");
}

#[test]
fn the_filter_of_the_test_above_would_run_without_the_guard() {
    let world = world();
    let (_, tree) = job_tree(&world);
    let (proof, program) = (world.root().join("proof"), world.root().join("evil"));
    plant(&program, &proof);
    write(tree.path(), ".gitattributes", "* filter=evil\n");
    write(tree.path(), "file", "x");
    let program = program.to_str().unwrap();
    agent(&world, tree.path(), &["config", "filter.evil.clean", program]);
    tree.snapshot().unwrap();
    assert!(proof.exists(), "this test proves nothing");
}

#[test]
fn a_merge_driver_is_removed_before_it_can_run() {
    let found = after(|world, tree, program| {
        commit(world, tree, ".gitattributes", "* merge=evil\n");
        agent(world, tree, &["config", "merge.evil.driver", program]);
    });
    assert_snapshot!(found, @"$ROOT/repo/.git/config: `merge.evil.driver` was set to `$ROOT/evil`");
}

#[test]
fn a_file_system_monitor_never_runs() {
    let found = after(|world, tree, program| {
        agent(world, tree, &["config", "core.fsmonitor", program]);
    });
    assert_snapshot!(found, @"$ROOT/repo/.git/config: `core.fsmonitor` was set to `$ROOT/evil`");
}

#[test]
fn an_include_is_removed() {
    let found = after(|world, tree, program| {
        let text = format!("[filter \"evil\"]\n\tsmudge = {program}\n\tclean = {program}\n");
        write(tree, "included", &text);
        write(tree, ".gitattributes", "* filter=evil\n");
        let included = tree.join("included");
        agent(world, tree, &["config", "include.path", included.to_str().unwrap()]);
    });
    assert_snapshot!(found, @"$ROOT/repo/.git/config: `include.path` was set to `$ROOT/home/worktrees/repo/j1/job/included`");
}

#[test]
fn a_file_that_the_user_includes_is_watched_too() {
    let world = world();
    world.write("shared.config", "[pull]\n\trebase = true\n");
    world.commit_all("shared configuration");
    world.git(&["config", "include.path", "../shared.config"]);
    let (repo, _) = job_tree(&world);
    let guard = RepoGuard::capture(&repo).unwrap();
    assert_eq!(guard.check_and_restore().unwrap(), []);
    world.write("shared.config", "[filter \"evil\"]\n\tclean = evil\n");
    assert_snapshot!(shown(&world, &guard.check_and_restore().unwrap()), @"
    $ROOT/repo/.git/../shared.config: `filter.evil.clean` was set to `evil`
    $ROOT/repo/.git/../shared.config: `pull.rebase` was removed
    ");
    assert_eq!(world.read("shared.config"), "[pull]\n\trebase = true\n");
}

#[test]
fn programs_named_in_settings_are_removed() {
    let found = after(|world, tree, program| {
        for name in ["core.sshCommand", "core.pager", "diff.external", "gpg.program"] {
            agent(world, tree, &["config", name, program]);
        }
        agent(world, tree, &["config", "commit.gpgSign", "true"]);
        agent(world, tree, &["config", "user.name", "Agent"]);
        agent(world, tree, &["config", "alias.st", "!evil"]);
    });
    assert_snapshot!(found, @"
    $ROOT/repo/.git/config: `alias.st` was set to `!evil`
    $ROOT/repo/.git/config: `commit.gpgsign` was set to `true`
    $ROOT/repo/.git/config: `core.pager` was set to `$ROOT/evil`
    $ROOT/repo/.git/config: `core.sshcommand` was set to `$ROOT/evil`
    $ROOT/repo/.git/config: `diff.external` was set to `$ROOT/evil`
    $ROOT/repo/.git/config: `gpg.program` was set to `$ROOT/evil`
    $ROOT/repo/.git/config: `user.name` was set to `Agent`
    ");
}

#[test]
fn settings_of_one_worktree_are_watched_too() {
    let found = after(|world, tree, program| {
        write(tree, ".gitattributes", "* filter=evil\n");
        agent(world, tree, &["config", "extensions.worktreeConfig", "true"]);
        agent(world, tree, &["config", "--worktree", "filter.evil.clean", program]);
    });
    assert_snapshot!(found, @"
    $ROOT/repo/.git/config: `extensions.worktreeconfig` was set to `true`
    $ROOT/repo/.git/worktrees/job/config.worktree: `filter.evil.clean` was set to `$ROOT/evil`
    ");
}

#[test]
fn attributes_and_alternates_are_put_back() {
    let found = after(|world, _, _| {
        let git = world.repo().join(".git");
        write(&git, "info/attributes", "* filter=evil\n");
        write(&git, "objects/info/alternates", "/tmp\n");
    });
    assert_snapshot!(found, @"
    $ROOT/repo/.git/info/attributes: it was added
    $ROOT/repo/.git/objects/info/alternates: it was added
    ");
}

#[test]
fn a_configuration_that_was_broken_or_replaced_is_put_back() {
    let broken = after(|world, _, _| world.write(".git/config", "[broken"));
    assert_snapshot!(broken, @"$ROOT/repo/.git/config: it was changed");
    let linked = after(|world, tree, _| {
        let config = world.repo().join(".git/config");
        fs::rename(&config, tree.join("config")).unwrap();
        std::os::unix::fs::symlink(tree.join("config"), config).unwrap();
    });
    assert_snapshot!(linked, @"$ROOT/repo/.git/config: it was changed");
    let removed = after(|world, _, _| {
        fs::remove_file(world.repo().join(".git/config")).unwrap();
    });
    assert_snapshot!(removed, @"
    $ROOT/repo/.git/config: `core.bare` was removed
    $ROOT/repo/.git/config: `core.filemode` was removed
    $ROOT/repo/.git/config: `core.logallrefupdates` was removed
    $ROOT/repo/.git/config: `core.repositoryformatversion` was removed
    ");
}

#[test]
fn a_worktree_that_was_led_elsewhere_is_not_followed() {
    let found = after(|world, tree, program| {
        let evil = world.root().join("evil-repo");
        agent(world, world.root(), &["init", "--quiet", "evil-repo"]);
        agent(world, &evil, &["config", "filter.evil.clean", program]);
        write(tree, ".gitattributes", "* filter=evil\n");
        let link = format!("gitdir: {}\n", evil.join(".git").display());
        fs::write(tree.join(".git"), link).unwrap();
        let admin = world.repo().join(".git/worktrees/job");
        fs::write(admin.join("commondir"), evil.join(".git").to_str().unwrap()).unwrap();
    });
    assert_eq!(found, "");
}

#[test]
fn what_users_do_every_day_is_left_alone() {
    let world = world();
    let (repo, _) = job_tree(&world);
    let guard = RepoGuard::capture(&repo).unwrap();
    world.git(&["remote", "add", "origin", "https://example.com/x.git"]);
    world.git(&["config", "branch.main.remote", "origin"]);
    world.git(&["config", "branch.main.merge", "refs/heads/main"]);
    let before = world.read(".git/config");
    assert_eq!(guard.check_and_restore().unwrap(), []);
    assert_eq!(world.read(".git/config"), before);

    world.git(&["config", "core.fsmonitor", "evil"]);
    assert_snapshot!(shown(&world, &guard.check_and_restore().unwrap()), @"$ROOT/repo/.git/config: `core.fsmonitor` was set to `evil`");
    assert_eq!(world.git(&["remote", "get-url", "origin"]), "https://example.com/x.git");
    assert_eq!(world.git(&["config", "branch.main.merge"]), "refs/heads/main");
    let fsmonitor = world.command("git").args(["config", "core.fsmonitor"]).output().unwrap();
    assert_eq!(fsmonitor.status.code(), Some(1));
}

#[test]
fn a_resumed_run_compares_with_what_was_at_the_start() {
    let world = world();
    let (repo, _) = job_tree(&world);
    let json = RepoGuard::capture(&repo).unwrap().to_json().unwrap();
    world.git(&["config", "core.sshCommand", "evil"]);
    let guard = RepoGuard::from_json(&repo, &json).unwrap();
    assert_snapshot!(shown(&world, &guard.check_and_restore().unwrap()), @"$ROOT/repo/.git/config: `core.sshcommand` was set to `evil`");
    let error = RepoGuard::from_json(&repo, "{").unwrap_err();
    assert_snapshot!(error, @"the record of the repository's configuration is damaged");
}

#[test]
fn permissions_of_hooks_are_watched() {
    let world = world();
    let hook: PathBuf = world.repo().join(".git/hooks/pre-push");
    fs::write(&hook, "#!/bin/sh\n").unwrap();
    let (repo, _) = job_tree(&world);
    let guard = RepoGuard::capture(&repo).unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    assert_snapshot!(shown(&world, &guard.check_and_restore().unwrap()), @"$ROOT/repo/.git/hooks/pre-push: its permissions were changed");
    assert_eq!(fs::metadata(&hook).unwrap().permissions().mode() & 0o111, 0);
}

#[test]
fn a_repository_inside_the_worktree_runs_nothing() {
    let world = world();
    let (_, tree) = job_tree(&world);
    let (proof, program) = (world.root().join("proof"), world.root().join("evil"));
    plant(&program, &proof);
    let inner = tree.path().join("inner");
    agent(&world, tree.path(), &["init", "--quiet", "inner"]);
    let head = commit(&world, &inner, "file", "1");
    agent(&world, tree.path(), &["add", "inner"]);
    write(&inner, ".git/info/attributes", "* filter=evil\n");
    agent(&world, &inner, &["config", "filter.evil.clean", program.to_str().unwrap()]);
    let touch = || {
        // Of the same size, so that git has to look into it.
        write(&inner, "file", "2");
        fs::remove_file(&proof).ok();
    };
    touch();
    assert_eq!(tree.uncommitted_paths().unwrap(), ["inner"]);
    let snapshot = tree.snapshot().unwrap();
    tree.commit_all("work").unwrap().unwrap();
    touch();
    tree.commit_all("again").unwrap();
    tree.restore(&snapshot).unwrap();
    assert!(!proof.exists(), "the agent's program ran");
    let recorded = agent(&world, tree.path(), &["rev-parse", &format!("{}:inner", snapshot.files)]);
    assert_eq!(recorded, head);
    touch();
    agent(&world, tree.path(), &["status"]);
    assert!(proof.exists(), "this test proves nothing");
}
