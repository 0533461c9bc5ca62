//! The branches of a job's items, and what is not in any commit.

use std::path::Path;

use super::{Error, Repo, Worktree, command::display_path, lock::RepoLock, refs};

impl Repo {
    /// Deletes the branches that begin with `prefix`, except `target`, those that hold commits
    /// which `target` has not, and those that a worktree is on: it would stand on nothing.
    pub fn delete_item_branches(&self, prefix: &str, target: &str) -> Result<(), Error> {
        let _lock = RepoLock::acquire(self.common_dir())?;
        let all = format!("refs/heads/{prefix}");
        let format = "--format=%(refname) %(objectname)";
        let list = self.call(&["for-each-ref", format, &all]).run_text()?;
        let trees = self.worktrees()?;
        let is_out = |branch: &str| trees.iter().any(|tree| tree.branch.as_deref() == Some(branch));
        let mut commands = String::new();
        for (name, commit) in list.lines().filter_map(|line| line.split_once(' ')) {
            let branch = name.strip_prefix("refs/heads/").unwrap_or(name);
            if branch == target || is_out(branch) || !self.is_ancestor(commit, target)? {
                continue;
            }
            commands.push_str("delete ");
            commands.push_str(name);
            commands.push(' ');
            commands.push_str(commit);
            commands.push('\n');
        }
        if !commands.is_empty() {
            self.call(&["update-ref", "--stdin"]).stdin(commands).durable().run()?;
        }
        Ok(())
    }
}

/// A reference of a job that is no branch, and the commit below the one it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobReference {
    /// Its name, which begins with `refs/prodigy/`.
    pub name: String,
    /// The commit that it was recorded on.
    pub parent: String,
}

impl Repo {
    /// Returns the references of all jobs that are no branches: snapshots and records.
    pub fn job_references(&self) -> Result<Vec<JobReference>, Error> {
        let format = "--format=%(objecttype) %(refname) %(parent)";
        let text = self.call(&["for-each-ref", format, "refs/prodigy/"]).read_only().run_text()?;
        // What is no commit belongs to no job: anchors are texts.
        let commits = text.lines().filter_map(|line| line.strip_prefix("commit "));
        let reference = |line: &str| {
            let (name, parent) = line.split_once(' ').unwrap_or((line, ""));
            JobReference { name: name.to_owned(), parent: parent.to_owned() }
        };
        Ok(commits.map(reference).collect())
    }

    /// Deletes references of jobs that are no branches. What only they hold is lost.
    pub fn delete_job_references(&self, names: &[String]) -> Result<(), Error> {
        let mut commands = String::new();
        for name in names.iter().filter(|name| name.starts_with("refs/prodigy/")) {
            commands.extend(["delete ", name, "\n"]);
        }
        let _lock = RepoLock::acquire(self.common_dir())?;
        self.call(&["update-ref", "--stdin"]).stdin(commands).durable().run()?;
        Ok(())
    }

    /// Deletes the branches and references of a job. What only they hold is lost.
    pub fn delete_job(&self, job: &str) -> Result<(), Error> {
        let is_of_job = |name: &str, at: usize| name.split('/').nth(at) == Some(job);
        let mut names: Vec<String> =
            self.job_references()?.into_iter().map(|one| one.name).collect();
        names.retain(|name| is_of_job(name, 2));
        let branches = self.job_branches()?.into_iter().filter(|branch| is_of_job(branch, 1));
        names.extend(branches.map(|branch| format!("refs/heads/{branch}")));
        let commands: Vec<_> = names.iter().map(|name| format!("delete {name}\n")).collect();
        let _lock = RepoLock::acquire(self.common_dir())?;
        self.call(&["update-ref", "--stdin"]).stdin(commands.concat()).durable().run()?;
        Ok(())
    }

    /// Returns whether a branch is there, without starting git if that can be avoided.
    pub fn has_branch(&self, branch: &str) -> Result<bool, Error> {
        let has_file = refs::read_branch(self.common_dir(), branch).is_some();
        Ok(has_file || self.branch_tip(branch)?.is_some())
    }

    /// Puts a branch back that is not there any more, at the commit that it stood at.
    pub fn restore_branch(&self, branch: &str, commit: &str) -> Result<(), Error> {
        let lost = || Error::BranchLost { branch: branch.to_owned(), commit: commit.to_owned() };
        let found = self.resolve_commit(commit).map_err(|_| lost())?;
        let (name, nothing) = (format!("refs/heads/{branch}"), "0".repeat(found.len()));
        let args = ["update-ref", "--no-deref", "-m", "prodigy: put back", &name, &found, &nothing];
        self.call(&args).durable().run()?;
        Ok(())
    }

    /// Deletes a branch of a job, unless it holds commits that are nowhere else.
    pub fn remove_job_branch(&self, branch: &str) -> Result<(), Error> {
        let _lock = RepoLock::acquire(self.common_dir())?;
        self.delete_branch_if_contained(branch)
    }

    /// Makes a worktree lead to this repository, which was moved.
    pub fn relink_worktree(&self, path: &Path) -> Result<(), Error> {
        let Ok(path) = path.canonicalize() else { return Ok(()) };
        let _lock = RepoLock::acquire(self.common_dir())?;
        if self.admin_dir(&path)?.is_some() {
            self.find_registered(&path, "")?.repair_link()?;
        }
        Ok(())
    }

    /// Makes git find a worktree again that was moved without telling it.
    pub fn repair_worktree(&self, path: &Path) -> Result<(), Error> {
        let _lock = RepoLock::acquire(self.common_dir())?;
        if self.admin_dir(path)?.is_none() {
            self.call(&["worktree", "repair", "--"]).args([path]).durable().run()?;
        }
        Ok(())
    }
}

impl Worktree {
    /// Returns what is in the worktree and in no commit, ignored files included; a
    /// directory with nothing else in it is named as a whole.
    pub fn uncommitted_and_ignored(&self) -> Result<Vec<String>, Error> {
        self.verify_integrity()?;
        let args = ["status", "--porcelain", "-z", "--no-renames", "--ignored"];
        let fields =
            self.call(&args).args(["--untracked-files=normal"]).read_only().run_fields()?;
        let is_extra = |field: &&Vec<u8>| field.starts_with(b"??") || field.starts_with(b"!!");
        let path = |field: &Vec<u8>| display_path(field.get(3..).unwrap_or_default());
        Ok(fields.iter().filter(is_extra).map(path).collect())
    }
}
