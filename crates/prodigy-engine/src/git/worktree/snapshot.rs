//! Recording a worktree as git objects, and bringing it back.

use std::{fs, path::Path};

use prodigy_core::event::WorktreeSnapshot;
use tempfile::{NamedTempFile, TempPath};

use super::{lifecycle::snapshot_ref, remove};
use crate::git::{Error, Worktree, WorktreeSlot, index, repo::with_fallback_committer};

impl Worktree {
    /// Records HEAD, the index and all files that are not ignored.
    ///
    /// Two things cannot be recorded: a file that may not be read, and a repository
    /// inside the worktree beyond the commit it stands at. An index in the middle of
    /// a merge is recorded as if nothing were staged.
    pub fn snapshot(&self) -> Result<WorktreeSnapshot, Error> {
        self.remove_locks()?;
        let head = self.head()?;
        let index = self.call(&["write-tree"]).durable().accept_codes(&[128]).run_text()?;
        let index = if index.is_empty() { self.tree_of(&head)? } else { index };
        let copy = self.copy_of_index()?;
        let call = |args: &[&str]| self.call(args).index(&copy);
        index::remove_nested_repos(call, &copy, self.path(), head.len() / 2)?;
        self.add_all(&copy)?;
        let files = self.call(&["write-tree"]).index(&copy).durable().run_text()?;
        let snapshot = WorktreeSnapshot { head, index, files };
        self.protect_from_gc(&snapshot)?;
        Ok(snapshot)
    }

    /// Brings HEAD, the index and all files that are not ignored back to a snapshot.
    ///
    /// Files that came since are removed, ignored ones stay. The job's branch is
    /// checked out afterwards, whatever was before.
    pub fn restore(&self, snapshot: &WorktreeSnapshot) -> Result<(), Error> {
        self.verify_integrity()?;
        self.repair_link()?;
        self.remove_locks()?;
        self.abort_git_operations()?;
        let name = format!("refs/heads/{}", self.branch);
        let note = ["-m", "prodigy: restore"];
        self.call(&["symbolic-ref"]).args(note).args(["HEAD", &name]).durable().run()?;
        let update = self.call(&["update-ref"]).args(note).args([&name, &snapshot.head]);
        update.durable().run()?;

        let index = self.index_for(&snapshot.files)?;
        self.call(&["read-tree", "--reset", "-u", &snapshot.files]).index(&index).run()?;
        self.call(&["clean", "-f", "-f", "-d", "--quiet"]).index(&index).run()?;
        self.call(&["read-tree", "-m", &snapshot.index]).index(&index).run()?;
        let real = self.place.git_dir.join("index");
        index.persist(&real).map_err(|error| Error::file("write", &real)(error.error))
    }

    /// Puts everything that is not ignored into an index.
    fn add_all(&self, index: &Path) -> Result<(), Error> {
        let args = ["add", "--all", "--sparse", "--ignore-errors"];
        self.call(&args).index(index).durable().accept_codes(&[1]).run()?;
        Ok(())
    }

    /// Returns an index for restoring, which knows which files are as they should be.
    ///
    /// Only the others are written then, and the rest keep their times, which build
    /// tools look at. The worktree's own index is not believed: it may be damaged, or
    /// marked by an agent so that git overlooks changes. In a sparse checkout the
    /// marks are needed.
    fn index_for(&self, files: &str) -> Result<TempPath, Error> {
        if self.repo.setting("core.sparseCheckout").as_deref() == Some("true") {
            return self.copy_of_index();
        }
        let index = self.temporary_index()?;
        self.call(&["read-tree", files]).index(&index).run()?;
        self.call(&["update-index", "-q", "--refresh"]).index(&index).accept_codes(&[1]).run()?;
        Ok(index)
    }

    fn copy_of_index(&self) -> Result<TempPath, Error> {
        let index = self.temporary_index()?;
        let real = self.place.git_dir.join("index");
        if real.exists() {
            fs::copy(&real, &index).map_err(Error::file("copy", &real))?;
        }
        Ok(index)
    }

    /// Returns a path for an index of our own; git takes a file of no length as an error.
    fn temporary_index(&self) -> Result<TempPath, Error> {
        let directory = &self.place.git_dir;
        let file = NamedTempFile::with_prefix_in("prodigy-index-", directory);
        let path = file.map_err(Error::file("write to", directory))?.into_temp_path();
        fs::remove_file(&path).map_err(Error::file("remove", path.to_path_buf()))?;
        Ok(path)
    }

    pub(crate) fn tree_of(&self, commit: &str) -> Result<String, Error> {
        self.call(&["rev-parse", "--verify", &format!("{commit}^{{tree}}")]).run_text()
    }

    /// Puts the snapshot's trees where no clean-up of git's can drop them.
    pub(crate) fn protect_from_gc(&self, snapshot: &WorktreeSnapshot) -> Result<(), Error> {
        let WorktreeSnapshot { head, index, files } = snapshot;
        let entries = format!("040000 tree {files}\tfiles\n040000 tree {index}\tindex\n");
        let tree = self.call(&["mktree"]).stdin(entries).durable().run_text()?;
        let commit = ["commit-tree", "-p", head, "-m", "prodigy snapshot", &tree];
        let commit = with_fallback_committer(self.call(&commit)).durable().run_text()?;
        self.call(&["update-ref", &snapshot_ref(&self.branch), &commit]).durable().run()?;
        Ok(())
    }
}

impl WorktreeSlot {
    /// Records HEAD, the index and all files that are not ignored under the name `reference`,
    /// and returns the name: if there is such a reference already, `attempt` is added to it.
    ///
    /// Its parent is HEAD, its directories `index` and `files` are the rest. Files that may
    /// not be read are left out, and an index in the middle of a merge is recorded as if
    /// nothing were staged.
    pub fn save_to_ref(&self, reference: &str, attempt: u32) -> Result<String, Error> {
        let commit = self.create_snapshot_commit()?;
        self.tree.repo.create_unique_ref(reference, attempt, &commit)
    }

    /// Records the same as [`WorktreeSlot::save_to_ref`] under a name that may have been used before.
    pub fn save_over_ref(&self, reference: &str) -> Result<String, Error> {
        let commit = self.create_snapshot_commit()?;
        let update = ["update-ref", "--no-deref", reference, &commit];
        self.tree.repo.call(&update).durable().run()?;
        Ok(reference.to_owned())
    }

    /// Brings HEAD, the index and all files that are not ignored back to a record; without such
    /// a record everything stays as it is.
    pub fn restore_from_ref(&self, reference: &str) -> Result<(), Error> {
        match self.snapshot_at_ref(reference)? {
            Some(snapshot) => self.tree.restore(&snapshot),
            None => Ok(()),
        }
    }

    /// Returns what a record holds, if there is one of that name.
    pub fn snapshot_at_ref(&self, reference: &str) -> Result<Option<WorktreeSnapshot>, Error> {
        let repo = &self.tree.repo;
        let parse = |object: &str| {
            repo.call(&["rev-parse", "--verify", "--quiet", object]).accept_codes(&[1]).run_text()
        };
        let head = parse(&format!("{reference}^"))?;
        if head.is_empty() {
            return Ok(None);
        }
        let index = parse(&format!("{reference}:index"))?;
        let files = parse(&format!("{reference}:files"))?;
        Ok(Some(WorktreeSnapshot { head, index, files }))
    }

    fn create_snapshot_commit(&self) -> Result<String, Error> {
        let head = self.head()?;
        self.shelter.rewrite_config()?;
        let index = match self.copy_of_index() {
            Err(Error::Failed { .. }) => self.write_index(&head)?,
            other => other?,
        };
        let staged = self
            .shelter
            .call(&["write-tree"])
            .index(&index)
            .durable()
            .accept_codes(&[128])
            .run_text()?;
        let staged = if staged.is_empty() {
            self.shelter.call(&["rev-parse", "--verify", &format!("{head}^{{tree}}")]).run_text()?
        } else {
            staged
        };
        let call = |args: &[&str]| self.shelter.call(args).index(&index);
        index::remove_nested_repos(call, &index, self.tree.path(), head.len() / 2)?;
        let add = ["add", "--all", "--sparse", "--ignore-errors"];
        self.shelter.call(&add).index(&index).durable().accept_codes(&[1]).run()?;
        let files = self.shelter.call(&["write-tree"]).index(&index).durable().run_text()?;
        let entries = format!("040000 tree {files}\tfiles\n040000 tree {staged}\tindex\n");
        let tree = self.shelter.call(&["mktree"]).stdin(entries).durable().run_text()?;
        let commit = ["commit-tree", "-p", &head, "-m", "prodigy record", &tree];
        with_fallback_committer(self.shelter.call(&commit)).durable().run_text()
    }

    /// Returns a copy of the worktree's index that git can read.
    pub(crate) fn copy_of_index(&self) -> Result<std::path::PathBuf, Error> {
        let copy = self.shelter.path("scratch");
        remove(&copy)?;
        let real: &Path = &self.tree.place.git_dir.join("index");
        if real.symlink_metadata().is_ok_and(|found| found.is_file()) {
            fs::copy(real, &copy).map_err(Error::file("copy", real))?;
            self.shelter.call(&["ls-files", "--unmerged"]).index(&copy).run()?;
        }
        Ok(copy)
    }
}

impl Worktree {
    /// Records the worktree as it is under a name of its own, unless it is as in `snapshot`.
    ///
    /// A step that was cut off may have left something that a person wants to see, and
    /// a person may have mended something by hand: restoring must not lose either.
    pub fn stash_to_ref(&self, snapshot: &WorktreeSnapshot) -> Result<Option<String>, Error> {
        let now = self.snapshot()?;
        // The state of a new worktree is given as its commit, which can be read like a tree but
        // not be put where a tree belongs.
        let wanted = WorktreeSnapshot {
            head: snapshot.head.clone(),
            index: self.tree_of(&snapshot.index)?,
            files: self.tree_of(&snapshot.files)?,
        };
        let same = now.head == wanted.head && now.files == wanted.files;
        let kept = if same { None } else { Some(self.create_stash_ref()?) };
        self.protect_from_gc(&wanted)?;
        Ok(kept)
    }

    /// Gives the newest snapshot a name that stays.
    fn create_stash_ref(&self) -> Result<String, Error> {
        let newest = snapshot_ref(&self.branch);
        let prefix = newest.trim_end_matches("snapshot");
        let mut number = 1_u32;
        loop {
            let name = format!("{prefix}aside-{number}");
            let found = self
                .call(&["rev-parse", "--verify", "--quiet", &name])
                .accept_codes(&[1])
                .run_text()?;
            if found.is_empty() {
                self.call(&["update-ref", &name, &newest]).durable().run()?;
                return Ok(name);
            }
            number += 1;
        }
    }
}
