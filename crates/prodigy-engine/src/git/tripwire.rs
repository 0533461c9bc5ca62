//! Noticing that the user's checkout changed while a job ran.
//!
//! A job works in worktrees of its own, but they share a repository with the user's, and a
//! step that goes astray can move the user's branches, empty the stash or stage files. That
//! cannot be told from the user's own work, so nothing is ever put back: it is only said.
//!
//! Looking costs one call of git, and another if the index was written. Branches and tags
//! that are new are not looked at: they take nothing away, and steps that open pull requests
//! make them. What is known of remote repositories is not either: every fetch and every push
//! changes it.

use std::{collections::BTreeMap, fs, os::unix::fs::MetadataExt as _};

use prodigy_core::{event::CheckoutChange, ids::hex};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{Error, Repo, shelter::read_plain};

/// The references that are the user's.
const WATCHED: &[&str] = &["refs/heads", "refs/tags", STASH];

/// The reference of the newest stash.
const STASH: &str = "refs/stash";

/// How the names of the branches of jobs and items begin.
const OURS: &str = "refs/heads/prodigy/";

/// How many characters of a hash tell one from another.
const SHORT: usize = 16;

/// What the user's checkout was when it was last looked at.
///
/// It can be stored with the job, so that the run that takes up a job whose process died
/// compares with the same.
#[derive(Clone, Debug)]
pub struct Tripwire {
    repo: Repo,
    before: Seen,
}

/// What is looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Seen {
    /// The full name of the branch, or the commit on a detached HEAD.
    head: String,
    index: Index,
    references: BTreeMap<String, String>,
}

/// What is staged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Index {
    /// By what a new file is known: its number, its size, and when it was changed.
    file: Option<(u64, u64, i64, i64)>,
    /// A hash of what is staged. The file has more in it, such as times of files, which
    /// `git status` brings up to date.
    content: String,
}

impl Tripwire {
    /// Remembers the user's checkout as it is now.
    pub fn take(repo: &Repo) -> Result<Self, Error> {
        let before = Seen::look(repo, &Index::default())?;
        Ok(Self { repo: repo.clone(), before })
    }

    /// Returns what was remembered, as JSON.
    pub fn to_json(&self) -> Result<String, Error> {
        serde_json::to_string(&self.before).map_err(|source| Error::Guard { source })
    }

    /// Goes on from what an earlier run remembered.
    pub fn from_json(repo: &Repo, json: &str) -> Result<Self, Error> {
        let before = serde_json::from_str(json).map_err(|source| Error::Guard { source })?;
        Ok(Self { repo: repo.clone(), before })
    }

    /// Returns what changed since the last look, and remembers what is there now.
    pub fn check(&mut self) -> Result<Vec<CheckoutChange>, Error> {
        let now = Seen::look(&self.repo, &self.before.index)?;
        let before = std::mem::replace(&mut self.before, now);
        Ok(before.changes(&self.before))
    }

    /// Takes over what a merge into a branch has made of the branch, and of the checkout if
    /// that is on it.
    pub fn expect_merge(&mut self, branch: &str) -> Result<(), Error> {
        let now = Seen::look(&self.repo, &self.before.index)?;
        let name = format!("refs/heads/{branch}");
        if now.head == name && self.before.head == name {
            self.before.index = now.index;
        }
        match now.references.get(&name) {
            Some(commit) => self.before.references.insert(name, commit.clone()),
            None => self.before.references.remove(&name),
        };
        Ok(())
    }
}

impl Seen {
    fn look(repo: &Repo, known: &Index) -> Result<Self, Error> {
        let format = "--format=%(objectname) %(refname)";
        let list = repo.call(&["for-each-ref", format]).args(WATCHED).reading().text()?;
        let reference = |line: &str| {
            let (commit, name) = line.split_once(' ')?;
            (!name.starts_with(OURS)).then(|| (name.to_owned(), commit.to_owned()))
        };
        let references = list.lines().filter_map(reference).collect();
        Ok(Self { head: head(repo)?, index: Index::look(repo, known)?, references })
    }

    fn changes(&self, now: &Self) -> Vec<CheckoutChange> {
        let mut changes = Vec::new();
        let mut add = |what: &str, before: Option<&String>, after: Option<&String>| {
            if before != after {
                let (before, after) = (before.cloned(), after.cloned());
                changes.push(CheckoutChange { what: what.to_owned(), before, after });
            }
        };
        add("HEAD", Some(&self.head), Some(&now.head));
        add("index", Some(&self.index.content), Some(&now.index.content));
        for (name, commit) in &self.references {
            add(name, Some(commit), now.references.get(name));
        }
        // Whoever stashes takes files away; other references that are new take nothing away.
        if !self.references.contains_key(STASH) {
            add(STASH, None, now.references.get(STASH));
        }
        changes
    }
}

impl Index {
    fn look(repo: &Repo, known: &Self) -> Result<Self, Error> {
        let path = repo.here.git_dir.join("index");
        let file = fs::symlink_metadata(&path).ok();
        let file = file.map(|file| (file.ino(), file.size(), file.mtime(), file.mtime_nsec()));
        if file.is_some() && file == known.file {
            return Ok(known.clone());
        }
        let content = match repo.call_here(&["ls-files", "--stage", "-z"]).reading().run() {
            Ok(staged) => hex(&Sha256::digest(&staged.stdout)).chars().take(SHORT).collect(),
            // What a step has damaged has changed as well.
            Err(Error::Failed { .. }) => "unreadable".to_owned(),
            Err(error) => return Err(error),
        };
        Ok(Self { file, content })
    }
}

/// Returns what HEAD is on, without starting git if that can be avoided.
fn head(repo: &Repo) -> Result<String, Error> {
    let text = read_plain(&repo.here.git_dir.join("HEAD"))?;
    let text = String::from_utf8_lossy(&text);
    let text = text.trim_end();
    match text.strip_prefix("ref: ") {
        // References that are no files: only git can tell more.
        Some("refs/heads/.invalid") => {
            let head = repo.head()?;
            Ok(head.branch.map_or(head.commit, |branch| format!("refs/heads/{branch}")))
        }
        Some(name) => Ok(name.to_owned()),
        None => Ok(text.to_owned()),
    }
}
