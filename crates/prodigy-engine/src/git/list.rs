//! Listing of a repository's worktrees, of the branches of jobs, and of those merged.

use std::{
    ffi::OsString,
    os::unix::ffi::OsStringExt as _,
    path::{Path, PathBuf},
};

use super::{Error, Repo, Worktree, command::display_path};

/// A working tree of a repository, as git lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorktreeInfo {
    /// Where its files are.
    pub path: PathBuf,
    /// The commit that is checked out.
    pub head: String,
    /// The branch that is checked out; `None` if detached.
    pub branch: Option<String>,
    /// Set if its files are gone.
    pub is_gone: bool,
}

impl Repo {
    /// Returns the working trees of the repository, the main one first.
    pub fn worktrees(&self) -> Result<Vec<WorktreeInfo>, Error> {
        let fields =
            self.call(&["worktree", "list", "--porcelain", "-z"]).read_only().run_fields()?;
        let mut worktrees = Vec::new();
        for entry in fields.split(Vec::is_empty) {
            let value = |name: &[u8]| entry.iter().find_map(|field| field.strip_prefix(name));
            let Some(path) = value(b"worktree ") else { continue };
            worktrees.push(WorktreeInfo {
                path: PathBuf::from(OsString::from_vec(path.to_vec())),
                head: display_path(value(b"HEAD ").unwrap_or_default()),
                branch: value(b"branch refs/heads/").map(display_path),
                is_gone: value(b"prunable").is_some(),
            });
        }
        Ok(worktrees)
    }

    /// Returns the worktree of a job if it is there, and changes nothing.
    pub fn find_job_worktree(&self, path: &Path, branch: &str) -> Result<Option<Worktree>, Error> {
        let Ok(path) = path.canonicalize() else { return Ok(None) };
        if self.admin_dir(&path)?.is_none() {
            return Ok(None);
        }
        self.find_registered(&path, branch).map(Some)
    }

    /// Returns the branches of all jobs, sorted.
    pub fn job_branches(&self) -> Result<Vec<String>, Error> {
        let list = ["for-each-ref", "--format=%(refname)", "refs/heads/prodigy/"];
        let text = self.call(&list).read_only().run_text()?;
        let branch = |name: &str| name.strip_prefix("refs/heads/").map(ToOwned::to_owned);
        Ok(text.lines().filter_map(branch).collect())
    }

    /// Returns how many commits of `tips` no branch or tag contains, the branches of jobs left out.
    pub fn count_unmerged(&self, tips: &[&str]) -> Result<usize, Error> {
        let mut commits = Vec::new();
        for tip in tips {
            commits.push(self.resolve_commit(tip)?);
        }
        self.count_unmerged_commits(&commits)
    }

    /// Returns a branch of the user's, local or of a remote repository, that contains a commit.
    pub fn branch_with(&self, commit: &str) -> Result<Option<String>, Error> {
        let commit = self.resolve_commit(commit)?;
        let contains = format!("--contains={commit}");
        let args = ["for-each-ref", "--format=%(refname)", &contains, "refs/heads", "refs/remotes"];
        let text = self.call(&args).read_only().run_text()?;
        let branch = |name: &str| {
            if let Some(local) = name.strip_prefix("refs/heads/") {
                return (!local.starts_with("prodigy/")).then(|| local.to_owned());
            }
            let remote = name.strip_prefix("refs/remotes/")?;
            let (_, branch) = remote.split_once('/')?;
            let is_a_branch = !branch.starts_with("prodigy/") && branch != "HEAD";
            is_a_branch.then(|| remote.to_owned())
        };
        Ok(text.lines().find_map(branch))
    }

    /// Returns how many commits can be reached from `commits` and not from `tip`.
    pub fn count_missing_from(&self, commits: &[String], tip: &str) -> Result<usize, Error> {
        let mut wanted = format!("^{tip}\n");
        for commit in commits {
            wanted.extend([commit, "\n"]);
        }
        let call = self.call(&["rev-list", "--count", "--stdin"]).stdin(wanted).read_only();
        let unexpected = || Error::Unexpected { command: "rev-list".to_owned() };
        call.run_text()?.parse().map_err(|_| unexpected())
    }

    /// Does what [`Self::unmerged`] does, for the full names of commits.
    pub fn count_unmerged_commits(&self, commits: &[String]) -> Result<usize, Error> {
        if commits.is_empty() {
            return Ok(0);
        }
        let call = self.call(&["rev-list", "--count"]).args(commits);
        let others = ["--not", "--exclude=prodigy/*", "--branches", "--tags", "--remotes"];
        let call = call.args(others).read_only();
        let unexpected = || Error::Unexpected { command: "rev-list".to_owned() };
        call.run_text()?.parse().map_err(|_| unexpected())
    }
}
