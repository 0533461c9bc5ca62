//! Git, with real repositories.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up should fail here")]
#![expect(clippy::disallowed_methods, reason = "tests write files directly")]

mod copy;
mod guard;
mod kinds;
mod leftovers;
mod merge;
mod merger;
mod planted;
mod repo;
mod slot;
mod snapshot;
mod stale;
mod worktree;

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use prodigy_core::event::CheckoutUpdate;
use prodigy_engine::git::{Error, Git, Repo, Worktree};
use prodigy_testkit::TestEnv;

/// The branch of the tests' job.
const BRANCH: &str = "prodigy/j1/job";

/// Returns a world with a repository of one commit.
fn world() -> TestEnv {
    TestEnv::with_repo("no-binary")
}

/// Returns git with the world's environment and nothing of the machine's.
fn git(world: &TestEnv) -> Git {
    let command = world.command("git");
    let env = command.get_envs().filter(|(name, _)| *name != "PATH");
    let mut env: Vec<_> =
        env.map(|(name, value)| (name.to_owned(), value.map(ToOwned::to_owned))).collect();
    env.push(("XDG_CONFIG_HOME".into(), None));
    Git::with_env(env)
}

/// Returns the world's repository.
fn repo(world: &TestEnv) -> Repo {
    Repo::discover_with(git(world), &world.repo()).unwrap()
}

/// Returns where the tests' job has its worktree.
fn job_path(world: &TestEnv) -> PathBuf {
    world.home().join("worktrees/repo/j1/job")
}

/// Makes the worktree of the tests' job.
fn job_tree(world: &TestEnv) -> (Repo, Worktree) {
    let repo = repo(world);
    let tree = repo.create_job_worktree(&job_path(world), BRANCH, "HEAD").unwrap();
    (repo, tree)
}

/// Runs git in a directory as an agent would.
fn agent(world: &TestEnv, directory: &Path, args: &[&str]) -> String {
    let output = world.command("git").current_dir(directory).args(args).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {args:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// Takes notice of the update of a checkout, for merges that no kill cuts off.
#[expect(clippy::unnecessary_wraps, reason = "the engine records it, which can fail")]
fn unrecorded(_: CheckoutUpdate) -> Result<(), Error> {
    Ok(())
}

/// Writes a file in a worktree, with its directories.
fn write(directory: &Path, path: &str, text: &str) {
    let path = directory.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Writes a file in a worktree and commits everything as an agent would.
fn commit(world: &TestEnv, directory: &Path, path: &str, text: &str) -> String {
    write(directory, path, text);
    agent(world, directory, &["add", "--all"]);
    agent(world, directory, &["commit", "--quiet", "-m", path]);
    agent(world, directory, &["rev-parse", "HEAD"])
}

/// Returns everything in a directory: kind, permissions and content by path.
fn contents(directory: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(at) = waiting.pop() {
        for entry in fs::read_dir(at).unwrap() {
            let entry = entry.unwrap();
            let (path, metadata) = (entry.path(), entry.metadata().unwrap());
            let name = path.strip_prefix(directory).unwrap().to_string_lossy().into_owned();
            let mode = metadata.permissions().mode() & 0o777;
            let text = if metadata.is_dir() {
                waiting.push(path);
                "directory".to_owned()
            } else if metadata.is_symlink() {
                format!("-> {}", fs::read_link(path).unwrap().display())
            } else {
                format!("{mode:o} {}", String::from_utf8_lossy(&fs::read(path).unwrap()))
            };
            found.insert(name, text);
        }
    }
    found
}

/// Returns the files of a worktree, git's own left out.
fn files(directory: &Path) -> BTreeMap<String, String> {
    let mut found = contents(directory);
    found.retain(|name, _| name != ".git" && !name.starts_with(".git/"));
    found
}
