//! Recording a worktree as git objects, and bringing it back.

use std::{fs, path::Path};

use prodigy_core::event::WorktreeSnapshot;
use tempfile::{NamedTempFile, TempPath};

use super::{Error, Worktree, nested, repo::with_fallback_committer, worktree::snapshot_ref};

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
        nested::remove_nested_repos(call, &copy, self.path(), head.len() / 2)?;
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

    pub(super) fn tree_of(&self, commit: &str) -> Result<String, Error> {
        self.call(&["rev-parse", "--verify", &format!("{commit}^{{tree}}")]).run_text()
    }

    /// Puts the snapshot's trees where no clean-up of git's can drop them.
    pub(super) fn protect_from_gc(&self, snapshot: &WorktreeSnapshot) -> Result<(), Error> {
        let WorktreeSnapshot { head, index, files } = snapshot;
        let entries = format!("040000 tree {files}\tfiles\n040000 tree {index}\tindex\n");
        let tree = self.call(&["mktree"]).stdin(entries).durable().run_text()?;
        let commit = ["commit-tree", "-p", head, "-m", "prodigy snapshot", &tree];
        let commit = with_fallback_committer(self.call(&commit)).durable().run_text()?;
        self.call(&["update-ref", &snapshot_ref(&self.branch), &commit]).durable().run()?;
        Ok(())
    }
}
