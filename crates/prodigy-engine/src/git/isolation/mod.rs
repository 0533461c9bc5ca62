//! Git calls that no setting, hook or file of the repository can lead astray, and the paths that
//! a commit in a worktree must be able to write.

pub(crate) mod checkout_baseline;
pub(crate) mod git_config;
pub(crate) mod isolated_git_dir;
pub(crate) mod repo_guard;

use std::{
    fs::{self, File},
    path::PathBuf,
};

use super::{Error, Repo, Worktree, refs};

/// A file that keeps the directory of a job's branches from being removed when git packs them,
/// which would take it from under the steps that have it in their sandbox. Git overlooks what
/// ends so, and no branch has a space in its name.
pub(crate) const IN_USE: &str = "in use.lock";

/// The paths of a repository that a step writes for a commit, and those below that stay read-only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitPaths {
    /// The writable paths.
    pub write: Vec<PathBuf>,
    /// The read-only paths inside of these.
    pub keep: Vec<PathBuf>,
}

impl Worktree {
    /// Returns what a commit in this worktree writes.
    ///
    /// Those are the loose objects (see [`Repo::pack_loose_objects`]), the branches of the job with their logs, and the
    /// worktree's own directory. Configuration, hooks, packs, the index of the checkout and
    /// every other branch are not among them. A branch is replaced by a new file, so that its
    /// directory has to be writable; the branches of a job share one.
    pub fn commit_paths(&self) -> Result<CommitPaths, Error> {
        let (common, admin) = (&self.place.common_dir, &self.place.git_dir);
        let branch = PathBuf::from("refs/heads").join(self.branch());
        let of_job = branch.parent().map(ToOwned::to_owned).unwrap_or_default();
        let (references, logs) = (common.join(&of_job), common.join("logs").join(&of_job));
        for directory in [&references, &logs] {
            refs::make_directories(common, directory)?;
        }
        let in_use = references.join(IN_USE);
        if !in_use.exists() {
            File::create(&in_use).map_err(Error::file("create", &in_use))?;
        }
        let objects = common.join("objects");
        let mut write = vec![objects.clone(), references, logs, admin.clone()];
        // Large files are kept by what is in them, like objects; a table holds all references.
        write.extend(["lfs", "reftable"].map(|name| common.join(name)));
        let mut keep: Vec<_> = ["pack", "info"].map(|name| objects.join(name)).into();
        keep.extend(["commondir", "gitdir", "config.worktree"].map(|name| admin.join(name)));
        keep.push(self.path().join(".git"));
        write.retain(|path| path.exists());
        keep.retain(|path| path.exists());
        Ok(CommitPaths { write, keep })
    }
}

impl Repo {
    /// Puts a copy of every object that something refers to into a pack.
    ///
    /// Whoever makes a commit must write loose objects, and can then remove them as well. Packs
    /// are not writable for steps in a sandbox. What is loose stays, so nothing changes for
    /// those who work in the repository meanwhile.
    pub fn pack_loose_objects(&self) -> Result<(), Error> {
        // Nothing is said to dumb servers about it, which would change other files.
        self.call(&["repack", "--quiet", "-l", "-n"]).durable().run()?;
        Ok(())
    }

    /// Removes what steps in a sandbox needed of a branch's directory, once the branch is gone.
    pub(crate) fn remove_branch_dir_marker(&self, branch: &str) {
        let references = self.common_dir().join("refs/heads");
        let Some(of_job) = references.join(branch).parent().map(ToOwned::to_owned) else { return };
        if fs::remove_file(of_job.join(IN_USE)).is_ok() {
            // Those that are not empty stay, and git removes them with their last branch.
            for directory in of_job.ancestors().take_while(|above| **above != references) {
                fs::remove_dir(directory).ok();
            }
        }
    }
}
