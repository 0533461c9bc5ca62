//! Hooks that our own commits and merges do not run.

use std::{
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use super::{Error, Repo};

/// The hooks that git would run for a commit or a merge.
const COMMIT_HOOKS: &[&str] = &[
    "pre-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "pre-merge-commit",
    "post-merge",
];

impl Repo {
    /// Returns the hooks that git would run for commits and merges of ours, and does not.
    pub fn commit_hooks(&self) -> Result<Vec<String>, Error> {
        let directory = self.hooks_dir()?;
        let is_there = |name: &&&str| is_executable(&directory.join(name));
        Ok(COMMIT_HOOKS.iter().filter(is_there).map(|name| (*name).to_owned()).collect())
    }

    /// Returns where git looks for hooks, by the settings of the user and of the repository.
    fn hooks_dir(&self) -> Result<PathBuf, Error> {
        let args = ["config", "--type=path", "--show-scope", "--get-all", "core.hooksPath"];
        let text = self.call(&args).accept_codes(&[1]).run_text()?;
        // Our own calls have a setting that keeps hooks from running.
        let settings = text.lines().filter_map(|line| line.split_once('\t'));
        let found = settings.rev().find(|(scope, _)| *scope != "command");
        Ok(match found {
            // A path that is relative is so to the working tree.
            Some((_, path)) => self.root().join(path),
            None => self.common_dir().join("hooks"),
        })
    }
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
