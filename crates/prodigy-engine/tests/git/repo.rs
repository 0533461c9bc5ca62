//! Finding repositories and reading what is in them.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use insta::assert_snapshot;
use prodigy_engine::git::{CommitLine, Head, Repo};
use prodigy_testkit::TestEnv;

use super::{agent, git, repo, world, write};

/// Returns why there is no usable repository in a directory, with the world's path replaced.
fn refusal(world: &TestEnv, path: &Path) -> String {
    let error = Repo::discover_with(git(world), path).unwrap_err();
    let root = world.root().canonicalize().unwrap();
    error.to_string().replace(&*root.to_string_lossy(), "$ROOT")
}

#[test]
fn a_directory_without_a_repository_is_refused() {
    let world = TestEnv::new("no-binary");
    assert_snapshot!(refusal(&world, world.root()), @"`$ROOT` is not in a git repository");
    let missing = world.root().join("missing");
    assert_snapshot!(refusal(&world, &missing), @"`$ROOT/missing` is not in a git repository");
}

#[test]
fn a_bare_repository_is_refused() {
    let world = TestEnv::new("no-binary");
    agent(&world, world.root(), &["init", "--quiet", "--bare", "bare"]);
    let refusal = refusal(&world, &world.root().join("bare"));
    assert_snapshot!(refusal, @"the repository `$ROOT/bare` is bare: it has no working tree to start from");
}

#[test]
fn a_repository_without_commits_is_refused() {
    let world = TestEnv::new("no-binary");
    agent(&world, world.root(), &["init", "--quiet", "fresh"]);
    let refusal = refusal(&world, &world.root().join("fresh"));
    assert_snapshot!(refusal, @"the repository `$ROOT/fresh` has no commits yet");
}

#[test]
fn a_damaged_repository_is_told_from_none() {
    let world = world();
    world.write(".git/HEAD", "nonsense");
    let refusal = refusal(&world, &world.repo());
    assert_snapshot!(refusal, @"git refuses to work in `$ROOT/repo`: not a git repository (or any of the parent directories): .git");
}

#[test]
fn a_missing_and_an_old_git_are_refused() {
    let world = world();
    let missing = git(&world).program("/no/such/git");
    let error = Repo::discover_with(missing, &world.repo()).unwrap_err();
    assert_snapshot!(error, @"git is not installed, or not on the `PATH`");

    write(world.root(), "old-git", "#!/bin/sh\necho git version 2.37.9\n");
    let program = world.root().join("old-git");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let error = Repo::discover_with(git(&world).program(program), &world.repo()).unwrap_err();
    assert_snapshot!(error, @"git 2.37.9 is too old: git 2.38 or newer is needed");
}

#[test]
fn the_main_working_tree_is_found_from_anywhere() {
    let world = world();
    let root = world.repo().canonicalize().unwrap();
    write(&world.repo(), "a/b/file", "");
    world.git(&["worktree", "add", "--quiet", "../linked"]);
    std::os::unix::fs::symlink(world.repo(), world.root().join("link")).unwrap();
    let root_of = |path: &Path| {
        let repo = Repo::discover_with(git(&world), path).unwrap();
        assert_eq!(repo.common_dir(), root.join(".git"));
        repo.root().to_owned()
    };
    assert_eq!(root_of(&world.repo()), root);
    assert_eq!(root_of(&world.repo().join("a/b")), root);
    assert_eq!(root_of(&world.repo().join(".git/refs")), root);
    assert_eq!(root_of(&world.root().join("linked")), root);
    assert_eq!(root_of(&world.root().join("link/a")), root);
}

#[test]
fn a_separate_git_directory_and_an_odd_name_do_not_matter() {
    let world = TestEnv::new("no-binary");
    let args = ["init", "--quiet", "--initial-branch=main", "--separate-git-dir=store"];
    agent(&world, world.root(), &[&args[..], &["o'd\n\"né me"]].concat());
    let directory = world.root().join("o'd\n\"né me");
    agent(&world, &directory, &["commit", "--quiet", "--allow-empty", "-m", "first"]);
    let repo = Repo::discover_with(git(&world), &directory).unwrap();
    assert_eq!(repo.root(), directory.canonicalize().unwrap());
    assert_eq!(repo.common_dir(), world.root().join("store").canonicalize().unwrap());
    assert_snapshot!(repo.name(), @"o-d--n--me.f2feb8e91e6ce6cf3573fa6fbebabbc7");

    let path = world.home().join("worktrees/x/j1/job");
    let tree = repo.create_job_worktree(&path, "prodigy/j1/job", "HEAD").unwrap();
    assert_eq!(tree.head().unwrap(), repo.head().unwrap().commit);
}

#[test]
fn variables_of_the_caller_do_not_lead_elsewhere() {
    let world = world();
    let other = TestEnv::with_repo("no-binary");
    let mut command = world.command(std::env::current_exe().unwrap());
    command.args(["--exact", "repo::finds_the_repository_named_by_the_test", "--ignored"]);
    command.env("GIT_DIR", other.repo().join(".git")).env("GIT_INDEX_FILE", "/nowhere");
    command.env("GIT_CONFIG_COUNT", "1").env("GIT_CONFIG_KEY_0", "core.bare");
    command.env("GIT_CONFIG_VALUE_0", "true").env("FIND", world.repo());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
#[ignore = "run by the test above, with variables that lead elsewhere"]
fn finds_the_repository_named_by_the_test() {
    let wanted = std::env::var_os("FIND").unwrap();
    let repo = Repo::discover(Path::new(&wanted)).unwrap();
    assert_eq!(repo.root(), Path::new(&wanted).canonicalize().unwrap());
    assert_eq!(repo.count_uncommitted().unwrap(), 0);
}

#[test]
fn head_is_a_branch_or_a_commit() {
    let world = world();
    let repo = repo(&world);
    let commit = world.git(&["rev-parse", "HEAD"]);
    let head = Head { branch: Some("main".to_owned()), commit: commit.clone() };
    assert_eq!(repo.head().unwrap(), head);
    world.git(&["switch", "--quiet", "-c", "feature/ü'(x)"]);
    assert_eq!(repo.head().unwrap().branch.as_deref(), Some("feature/ü'(x)"));
    world.git(&["switch", "--quiet", "--detach"]);
    assert_eq!(repo.head().unwrap(), Head { branch: None, commit });
}

#[test]
fn uncommitted_files_are_counted() {
    let world = world();
    let repo = repo(&world);
    assert_eq!(repo.count_uncommitted().unwrap(), 0);
    world.write("README.md", "changed\n");
    world.write("new\nfile", "");
    world.write("staged", "");
    world.git(&["add", "staged"]);
    assert_eq!(repo.count_uncommitted().unwrap(), 3);
}

#[test]
fn commits_and_files_between_two_commits_are_listed() {
    let world = world();
    let repo = repo(&world);
    let base = world.git(&["rev-parse", "HEAD"]);
    world.write("dir/a \"b\"\nc", "1");
    world.commit_all("add ä file");
    world.write("README.md", "2");
    world.commit_all("change it\n\nwith a body");
    let commits = repo.commits_between(&base, "HEAD").unwrap();
    let subjects: Vec<_> = commits.iter().map(|CommitLine { subject, .. }| subject).collect();
    assert_eq!(subjects, ["change it", "add ä file"]);
    assert_eq!(commits[0].commit, world.git(&["rev-parse", "HEAD"]));
    let files = repo.files_changed(&base, "main").unwrap();
    assert_eq!(files, ["README.md", "dir/a \"b\"\nc"]);
    assert_eq!(repo.commits_between("HEAD", "HEAD").unwrap(), []);
}

#[test]
fn a_name_never_becomes_an_option() {
    let world = world();
    let repo = repo(&world);
    let commit = world.git(&["rev-parse", "HEAD"]);
    world.git(&["update-ref", "refs/heads/--all", "HEAD"]);
    assert_eq!(repo.resolve_commit("--all").unwrap(), commit);
    assert_eq!(repo.branch_tip("--all").unwrap(), Some(commit));
    for name in ["--git-dir", "-h", "--show-toplevel", "", "main^2", "nope\0"] {
        let expected = format!("`{name}` is not a commit of this repository");
        assert_eq!(repo.resolve_commit(name).unwrap_err().to_string(), expected);
    }
    assert_eq!(repo.branch_tip("main^0").unwrap(), None);
    assert_eq!(repo.branch_tip("mai*").unwrap(), None);
}

#[test]
fn what_may_surprise_is_said() {
    let world = world();
    let repo = repo(&world);
    assert_eq!(repo.warnings(), <[String; 0]>::default());
    world.write(".gitmodules", "");
    world.write(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n");
    world.git(&["sparse-checkout", "set", "--cone"]);
    assert_snapshot!(repo.warnings().join("\n"), @"
    the repository has submodules: they are empty in a job's worktree
    the repository uses Git LFS, which is not set up here: large files stay pointers
    the checkout is sparse: a job's worktree has the same files only
    ");
}
