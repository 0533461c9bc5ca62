//! Keeping what is about to be taken back.

use prodigy_core::event::WorktreeSnapshot;

use super::{Error, Worktree, worktree::snapshot_ref};

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
