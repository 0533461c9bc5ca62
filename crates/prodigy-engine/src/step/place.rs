//! Where a step may work: in its worktree and nowhere else.

use std::path::{Path, PathBuf};

use prodigy_core::failure::{Failure, FailureKind};

use super::Workplace;

impl Workplace {
    /// Refuses to do anything in a directory that is not of this worktree any more.
    pub(super) fn check_place(&self, directory: &Path) -> Result<(), Failure> {
        self.tree
            .check_place(directory)
            .map_err(|error| Failure::new(FailureKind::WorktreeError, error.to_string()))
    }

    /// Returns a directory for a step: the worktree, or a directory in it.
    pub(super) fn directory(&self, relative: &str) -> Result<PathBuf, Failure> {
        inside(self.tree.path(), Path::new(relative)).map_err(|message| {
            Failure::new(FailureKind::WorktreeError, format!("working_dir: {message}"))
        })
    }
}

/// Resolves a path that has to stay inside a directory, symbolic links included.
///
/// The path itself need not exist; the part of it that does is resolved.
pub fn inside(root: &Path, relative: &Path) -> Result<PathBuf, String> {
    use std::path::Component;
    let shown = relative.display();
    if relative.components().any(|part| !matches!(part, Component::Normal(_) | Component::CurDir)) {
        return Err(format!("`{shown}` must be relative and stay inside the worktree"));
    }
    if root.is_symlink() {
        return Err("a symbolic link was put in the place of the worktree".to_owned());
    }
    let root = root.canonicalize().map_err(|error| format!("the worktree is gone: {error}"))?;
    let path = root.join(relative);
    let mut existing = path.as_path();
    let resolved = loop {
        match existing.canonicalize() {
            Ok(resolved) => break resolved,
            Err(_) => match existing.parent() {
                Some(parent) => existing = parent,
                None => return Err(format!("`{shown}` cannot be resolved")),
            },
        }
    };
    if resolved.starts_with(&root) {
        Ok(path)
    } else {
        Err(format!("`{shown}` leads out of the worktree by a symbolic link"))
    }
}
