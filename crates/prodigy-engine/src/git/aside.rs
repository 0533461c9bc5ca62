//! Keeping what is about to be taken back.

use prodigy_core::event::Snapshot;

use super::{Error, JobTree, worktree::snapshot_ref};

impl JobTree {
    /// Records the worktree as it is under a name of its own, unless it is as in `snapshot`.
    ///
    /// A step that was cut off may have left something that a person wants to see, and
    /// a person may have mended something by hand: restoring must not lose either.
    pub fn set_aside(&self, snapshot: &Snapshot) -> Result<Option<String>, Error> {
        let now = self.snapshot()?;
        let same = now.head == snapshot.head && now.files == self.tree_of(&snapshot.files)?;
        let kept = if same { None } else { Some(self.name_aside()?) };
        // The first snapshot of all names a commit where others name its tree.
        let (index, files) = (self.tree_of(&snapshot.index)?, self.tree_of(&snapshot.files)?);
        self.keep_alive(&Snapshot { head: snapshot.head.clone(), index, files })?;
        Ok(kept)
    }

    /// Gives the newest snapshot a name that stays.
    fn name_aside(&self) -> Result<String, Error> {
        let newest = snapshot_ref(&self.branch);
        let prefix = newest.trim_end_matches("snapshot");
        let mut number = 1_u32;
        loop {
            let name = format!("{prefix}aside-{number}");
            let found = self.call(&["rev-parse", "--verify", "--quiet", &name]).or(&[1]).text()?;
            if found.is_empty() {
                self.call(&["update-ref", &name, &newest]).durable().run()?;
                return Ok(name);
            }
            number += 1;
        }
    }
}
