//! Where a step may work: in its worktree and nowhere else.

use std::path::{Path, PathBuf};

use prodigy_core::failure::{Failure, ReasonCode};

use super::StepContext;
use crate::root_dir::RootDir;

impl StepContext {
    /// Refuses to do anything in a directory that is not of this worktree any more.
    pub(crate) fn verify_location(&self, directory: &Path) -> Result<(), Failure> {
        self.tree
            .verify_location(directory)
            .map_err(|error| Failure::new(ReasonCode::WorktreeError, error.to_string()))
    }

    /// Returns a directory for a step: the worktree, or a directory in it.
    pub(crate) fn directory(&self, relative: &str) -> Result<PathBuf, Failure> {
        let opened =
            RootDir::open(self.tree.path()).and_then(|root| root.directory(Path::new(relative)));
        match opened {
            // One that is missing is named when the program is started.
            Err(error) if error.io().is_none() => {
                Err(Failure::new(ReasonCode::WorktreeError, format!("working_dir: {error}")))
            }
            Ok(_) | Err(_) => Ok(self.tree.path().join(relative)),
        }
    }
}
