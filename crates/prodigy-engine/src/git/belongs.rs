//! Making sure that a directory is the worktree of a job before anything runs in it.
//!
//! A step that runs in the wrong place works on somebody else's files: without its `.git`,
//! git looks for a repository further up and finds that of the user's home; with a link in
//! the place of the worktree, everything lands where the link leads. So it is looked at
//! before every process, with a few calls of the operating system and without git.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{Error, Worktree, shelter::read_regular_or_empty};

/// The prefix of the branches of jobs and items.
const OURS: &str = "prodigy/";

/// The branch in HEAD when the references are not files: only git can tell more.
const NO_FILE: &str = ".invalid";

impl Worktree {
    /// Returns an error if a directory is not in this worktree, or if git would not work
    /// on this worktree's own branch there.
    ///
    /// A step may go to a branch of its own or to no branch at all. It may not be on one
    /// that another worktree has checked out, or that is of another item: what it commits
    /// would change under somebody's hands.
    pub fn verify_location(&self, directory: &Path) -> Result<(), Error> {
        let path = self.path();
        let found = path.symlink_metadata();
        if found.is_err() {
            return Err(misplaced(format!("the worktree `{}` is gone", path.display())));
        }
        if found.is_ok_and(|found| !found.is_dir()) {
            let what =
                format!("something else is in the place of the worktree `{}`", path.display());
            return Err(misplaced(what));
        }
        self.verify_integrity()?;
        // In one that does not exist nothing can be started.
        if directory != path && directory.canonicalize().is_ok_and(|found| !found.starts_with(path))
        {
            let (directory, path) = (directory.display(), path.display());
            return Err(misplaced(format!("`{directory}` is not in the worktree `{path}`")));
        }
        if !self.is_linked() {
            let what = format!(
                "`{}` does not lead to the job's repository any more, so git would work in another one",
                path.join(".git").display()
            );
            return Err(misplaced(what));
        }
        self.check_branch()
    }

    /// Returns whether the worktree and its directory in the repository belong together.
    fn is_linked(&self) -> bool {
        let admin = &self.place.git_dir;
        let is_ours = admin.symlink_metadata().is_ok_and(|found| found.is_dir());
        is_ours && self.has_valid_link()
    }

    /// Returns an error if HEAD is on a branch of somebody else's.
    fn check_branch(&self) -> Result<(), Error> {
        let head = self.place.git_dir.join("HEAD");
        let Some(branch) = branch_of(&head)? else { return Ok(()) };
        if branch == self.branch || branch == NO_FILE {
            return Ok(());
        }
        if branch.starts_with(OURS) {
            let what = format!("the worktree is on `{branch}`, a branch of another item or job");
            return Err(misplaced(what));
        }
        let Some(elsewhere) = self.has_checked_out(&branch)? else { return Ok(()) };
        Err(misplaced(format!(
            "the worktree is on branch `{branch}`, which `{}` has checked out: commits would change it there",
            elsewhere.display()
        )))
    }

    /// Returns another working tree of the repository that has a branch checked out.
    fn has_checked_out(&self, branch: &str) -> Result<Option<PathBuf>, Error> {
        let common = &self.place.common_dir;
        if branch_of(&common.join("HEAD"))?.as_deref() == Some(branch) {
            return Ok(Some(self.repo.root().to_owned()));
        }
        for entry in fs::read_dir(common.join("worktrees")).into_iter().flatten().flatten() {
            let admin = entry.path();
            if admin != self.place.git_dir
                && branch_of(&admin.join("HEAD"))?.as_deref() == Some(branch)
            {
                let link = read_regular_or_empty(&admin.join("gitdir"))?;
                let link = PathBuf::from(String::from_utf8_lossy(&link).trim_end());
                return Ok(Some(link.parent().map_or(admin, Path::to_owned)));
            }
        }
        Ok(None)
    }
}

/// Returns the branch that a HEAD is on; `None` if it is on none.
fn branch_of(head: &Path) -> Result<Option<String>, Error> {
    let text = read_regular_or_empty(head)?;
    let text = String::from_utf8_lossy(&text);
    Ok(text.strip_prefix("ref: refs/heads/").map(|name| name.trim_end().to_owned()))
}

fn misplaced(what: String) -> Error {
    Error::Misplaced { what }
}
