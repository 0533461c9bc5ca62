//! Recording what an attempt left in a slot, so that the slot can be used again.

use std::{fs, path::Path};

use prodigy_core::event::WorktreeSnapshot;

use super::{Error, WorktreeSlot, nested, repo::with_fallback_committer, tree::remove};

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

    /// Records the same as [`WorktreeSlot::record`] under a name that may have been used before.
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
        nested::remove_nested_repos(call, &index, self.tree.path(), head.len() / 2)?;
        let add = ["add", "--all", "--sparse", "--ignore-errors"];
        self.shelter.call(&add).index(&index).durable().accept_codes(&[1]).run()?;
        let files = self.shelter.call(&["write-tree"]).index(&index).durable().run_text()?;
        let entries = format!("040000 tree {files}\tfiles\n040000 tree {staged}\tindex\n");
        let tree = self.shelter.call(&["mktree"]).stdin(entries).durable().run_text()?;
        let commit = ["commit-tree", "-p", &head, "-m", "prodigy record", &tree];
        with_fallback_committer(self.shelter.call(&commit)).durable().run_text()
    }

    /// Returns a copy of the worktree's index that git can read.
    pub(super) fn copy_of_index(&self) -> Result<std::path::PathBuf, Error> {
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
