//! Making a slot's worktree ready for the next item.
//!
//! The worktree's own index is not believed: it may be damaged, or marked by an
//! agent so that git overlooks changes. The one that we had git write the last time
//! knows which files were touched since.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::remove;
use crate::git::{
    Error, WorktreeSlot, index::IndexPaths, isolation::isolated_git_dir::read_regular_or_empty,
    refs,
};

/// The files that stay in a worktree's directory in the repository; others are of the last item.
const STAYS: &[&str] = &[
    "HEAD",
    "index",
    "commondir",
    "gitdir",
    "locked",
    "modules",
    "info",
    "config.worktree",
    "reftable",
];

impl WorktreeSlot {
    /// Makes the worktree ready for another item.
    ///
    /// HEAD is on the branch `branch`, which is made or moved to `commit`, and the files
    /// are exactly those of the commit. Nothing else is left, but for what is in `kept`:
    /// paths in the worktree that the user wants to stay. If another worktree is on that
    /// branch, such as one of an earlier attempt that was kept, it stays at its commit
    /// and leaves the branch.
    ///
    /// No git is started if the last attempt wrote nothing and the commit is the same.
    pub fn reset_for_item(
        &mut self,
        branch: &str,
        commit: &str,
        kept: &[String],
    ) -> Result<(), Error> {
        if !refs::is_branch_name(branch) {
            return Err(Error::BranchName { branch: branch.to_owned() });
        }
        let commit = self.tree.repo.full_commit(commit)?;
        let kept: Vec<PathBuf> = kept.iter().map(|path| clean_path(path)).collect();
        self.tree.verify_integrity()?;
        let is_ready = commit == self.base && kept == self.kept && self.is_unchanged_since_reset();
        self.leased = None;
        branch.clone_into(&mut self.tree.branch);
        self.tidy()?;
        self.tree.verify_integrity()?;
        self.tree.repair_link()?;
        if !is_ready {
            self.check_out(&commit, &kept)?;
        }
        self.point_head(branch, &commit)?;
        self.base = commit;
        self.kept = kept;
        self.is_untouched = false;
        let leased = self.tree.fingerprint_without(&self.kept)?;
        self.shelter.write("leased", b"")?;
        let later = self.shelter.path("leased");
        let later = fs::metadata(&later).map_err(Error::file("read", &later))?;
        self.is_settled = leased.is_older_than(&later);
        self.leased = Some(leased);
        Ok(())
    }

    /// Goes on with the work of an item, in the worktree as it is.
    pub fn resume(&mut self, kept: &[String]) {
        self.kept = kept.iter().map(|path| clean_path(path)).collect();
    }

    fn is_unchanged_since_reset(&self) -> bool {
        let now = || self.tree.fingerprint_without(&self.kept);
        let is_same = |leased| now().is_ok_and(|now| now.matches(leased));
        self.is_untouched || (self.is_settled && self.leased.as_ref().is_some_and(is_same))
    }

    /// Removes what is the last item's from the worktree's directory in the repository:
    /// locks, merges and rebases that were not finished, logs.
    fn tidy(&self) -> Result<(), Error> {
        let admin = &self.tree.place.git_dir;
        for entry in fs::read_dir(admin).map_err(Error::file("read", admin))? {
            let entry = entry.map_err(Error::file("read", admin))?;
            let name = entry.file_name();
            if name == "refs" {
                let is_empty =
                    fs::read_dir(entry.path()).is_ok_and(|mut refs| refs.next().is_none());
                if !is_empty {
                    remove(&entry.path())?;
                    fs::create_dir(entry.path()).map_err(Error::file("create", entry.path()))?;
                }
            } else if !STAYS.iter().any(|stays| name == *stays) {
                remove(&entry.path())?;
            }
        }
        for (link, text) in &self.links {
            if read_regular_or_empty(link)? != *text {
                refs::replace_locked(link, text)?;
            }
        }
        Ok(())
    }

    /// Puts HEAD on a branch that stands at a commit.
    fn point_head(&self, branch: &str, commit: &str) -> Result<(), Error> {
        let (repo, place) = (&self.tree.repo, &self.tree.place);
        let name = format!("refs/heads/{branch}");
        if repo.frozen_config()?.has_ref_files {
            let file = repo.common_dir().join(&name);
            if file.symlink_metadata().is_ok() {
                repo.detach_other_worktrees(branch, self.tree.path())?;
            }
            refs::write_branch(repo.common_dir(), branch, commit)?;
            return refs::replace_locked(
                &place.git_dir.join("HEAD"),
                format!("ref: {name}\n").as_bytes(),
            );
        }
        if repo.branch_tip(branch)?.is_some() {
            repo.detach_other_worktrees(branch, self.tree.path())?;
        }
        let update = ["update-ref", "--no-deref", "-m", "prodigy: lease", &name, commit];
        self.tree.call(&update).run()?;
        self.tree.call(&["symbolic-ref", "-m", "prodigy: lease", "HEAD", &name]).run()?;
        Ok(())
    }

    /// Brings files and index to a commit.
    fn check_out(&self, commit: &str, kept: &[PathBuf]) -> Result<(), Error> {
        let index = self.shelter.path("index");
        self.shelter.rewrite_config()?;
        let paths = IndexPaths::read(&index, commit.len() / 2).unwrap_or_default();
        let swept = paths.remove_untracked(self.tree.path(), kept);
        let read =
            || self.shelter.call(&["read-tree", "--reset", "-u", commit]).index(&index).run();
        if swept.and_then(|()| read()).is_err() {
            // Our own index may have been damaged by a full disk. Without one, every file is
            // made again.
            remove(&index)?;
            IndexPaths::default().remove_untracked(self.tree.path(), kept)?;
            read()?;
        }
        install_index(&index, &self.tree.place.git_dir)
    }
}

/// Gives the worktree a copy of our index.
#[expect(clippy::disallowed_methods, reason = "after a loss of power the worktree is made again")]
pub(crate) fn install_index(index: &Path, admin: &Path) -> Result<(), Error> {
    let lock = admin.join("index.lock");
    let copy = || -> io::Result<()> {
        let bytes = fs::read(index)?;
        let mut file = fs::File::create_new(&lock)?;
        io::Write::write_all(&mut file, &bytes)?;
        // A file that is younger than the index may have changed since without git noticing:
        // git looks into it. The copy must not seem younger than the original.
        file.set_modified(fs::metadata(index)?.modified()?)?;
        fs::rename(&lock, admin.join("index"))
    };
    copy().map_err(Error::file("write", admin.join("index")))
}

/// Returns a path as directory listings have it: without `./` and without a slash at its end.
fn clean_path(path: &str) -> PathBuf {
    let is_named =
        |part: &std::path::Component<'_>| matches!(part, std::path::Component::Normal(_));
    Path::new(path).components().filter(is_named).collect()
}
