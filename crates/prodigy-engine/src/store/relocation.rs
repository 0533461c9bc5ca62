//! Where a repository is, and where it was before it was moved.

use std::{io, path::PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Error, Layout, create_dir, read_bounded, write_atomic};

/// The longest of these files that is read back.
const LIMIT: u64 = 1 << 20;

/// One move of a repository that was agreed to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Relocation {
    /// Where the repository was.
    pub from: String,
    /// Where it is.
    pub to: String,
    /// When its jobs were taken over.
    pub at: Timestamp,
}

impl Layout {
    /// Returns the path of the repository that the name belongs to; `None` if to none yet.
    pub fn owner(&self) -> Result<Option<String>, Error> {
        self.read("repository")
    }

    /// Returns the id of the repository that the name belongs to.
    pub fn owner_id(&self) -> Result<Option<String>, Error> {
        self.read("repository-id")
    }

    /// Records whose name it is.
    pub fn claim(&self, path: &str, id: &str) -> Result<(), Error> {
        create_dir(&self.repo_state_dir())?;
        write_atomic(&self.repo_state_dir().join("repository-id"), id.as_bytes())?;
        write_atomic(&self.repo_state_dir().join("repository"), path.as_bytes())
    }

    /// Records that the repository was moved: first why, then where it is.
    pub fn relocate(&self, relocation: &Relocation) -> Result<(), Error> {
        let path = self.relocations_file();
        let mut text = self.read("relocations.jsonl")?.unwrap_or_default();
        let line = serde_json::to_string(relocation)
            .map_err(|error| Error::io("write", &path, io::Error::other(error)))?;
        text.push_str(&line);
        text.push('\n');
        write_atomic(&path, text.as_bytes())?;
        write_atomic(&self.repo_state_dir().join("repository"), relocation.to.as_bytes())
    }

    /// Returns where the repository of a job is now that was begun at a path.
    pub fn current_path(&self, begun_at: &str) -> Result<String, Error> {
        let text = self.read("relocations.jsonl")?.unwrap_or_default();
        let moves = text.lines().filter_map(|line| serde_json::from_str::<Relocation>(line).ok());
        let was_moved = moves.into_iter().any(|one| one.from == begun_at);
        let now = if was_moved { self.owner()? } else { None };
        Ok(now.unwrap_or_else(|| begun_at.to_owned()))
    }

    fn relocations_file(&self) -> PathBuf {
        self.repo_state_dir().join("relocations.jsonl")
    }

    fn read(&self, name: &str) -> Result<Option<String>, Error> {
        let text = read_bounded(&self.repo_state_dir().join(name), LIMIT)?;
        let text = text.map(|text| String::from_utf8_lossy(&text).into_owned());
        Ok(text.filter(|text| !text.is_empty()))
    }
}
