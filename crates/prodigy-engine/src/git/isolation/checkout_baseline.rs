//! Noticing that the user's checkout changed while a job ran.
//!
//! A job works in worktrees of its own, but they share a repository with the user's, and a
//! step that goes astray can move the user's branches, empty the stash or stage files. That
//! cannot be told from the user's own work, so nothing is ever put back: it is only said.
//!
//! Looking costs one call of git, another if the index was written, and another if the
//! configuration was. Branches that are new are not looked at: they take nothing away, and steps
//! that open pull requests make them. What is known of remote repositories is not either: every
//! fetch and every push changes it. New tags, remotes and lines of `info/exclude` are: the user's
//! next `git push --tags`, `git push` or `git add` would act on them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::MetadataExt as _,
    path::Path,
};

use prodigy_core::{event::CheckoutChange, ids::hex};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{git_config, isolated_git_dir::read_regular_or_empty};
use crate::git::{Error, Repo};

/// The references that are the user's.
const WATCHED: &[&str] = &["refs/heads", "refs/tags", STASH];

/// The prefix of the names of tags.
const TAGS: &str = "refs/tags/";

/// The file that says which files git overlooks in all working trees.
const EXCLUDE: &str = "info/exclude";

/// The most changes of one kind that are told one by one.
const MOST: usize = 100;

/// The reference of the newest stash.
const STASH: &str = "refs/stash";

/// The prefix of the names of the branches of jobs and items.
const OURS: &str = "refs/heads/prodigy/";

/// The number of characters kept of a hash.
const SHORT: usize = 16;

/// The user's checkout when it was last checked.
///
/// It can be stored with the job, so that the run that resumes an interrupted job
/// compares with the same.
#[derive(Clone, Debug)]
pub struct CheckoutBaseline {
    repo: Repo,
    before: CheckoutSnapshot,
}

/// The state of a checkout that is compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct CheckoutSnapshot {
    /// The full name of the branch, or the commit on a detached HEAD.
    head: String,
    index: IndexStamp,
    references: BTreeMap<String, String>,
    /// The settings of remotes; `None` if an older prodigy looked.
    #[serde(default)]
    remotes: Option<RemoteSettings>,
    /// The lines of `info/exclude`; `None` if an older prodigy looked.
    #[serde(default)]
    exclude: Option<BTreeSet<String>>,
}

/// The settings of remotes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct RemoteSettings {
    /// The configuration file that they are in.
    file: Option<FileIdentity>,
    /// Their values by name.
    settings: BTreeMap<String, Vec<RemoteValue>>,
}

/// The value of a setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct RemoteValue {
    /// The value without names and passwords.
    shown: String,
    /// A hash of the value.
    hash: String,
}

/// The number of a file, its size, and when it was changed: by these a new one is known.
type FileIdentity = (u64, u64, i64, i64);

/// The staged content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct IndexStamp {
    file: Option<FileIdentity>,
    /// A hash of what is staged. The file has more in it, such as times of files, which
    /// `git status` brings up to date.
    content: String,
}

impl CheckoutBaseline {
    /// Remembers the user's checkout as it is now.
    pub fn capture(repo: &Repo) -> Result<Self, Error> {
        let before = CheckoutSnapshot::capture(repo, None)?;
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
    pub fn take_changes(&mut self) -> Result<Vec<CheckoutChange>, Error> {
        let now = CheckoutSnapshot::capture(&self.repo, Some(&self.before))?;
        let before = std::mem::replace(&mut self.before, now);
        Ok(before.changes(&self.before))
    }

    /// Takes over what a merge into a branch has made of the branch, and of the checkout if
    /// that is on it.
    pub fn expect_merge(&mut self, branch: &str) -> Result<(), Error> {
        let now = CheckoutSnapshot::capture(&self.repo, Some(&self.before))?;
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

impl CheckoutSnapshot {
    fn capture(repo: &Repo, known: Option<&Self>) -> Result<Self, Error> {
        let format = "--format=%(objectname) %(refname)";
        let list = repo.call(&["for-each-ref", format]).args(WATCHED).read_only().run_text()?;
        let reference = |line: &str| {
            let (commit, name) = line.split_once(' ')?;
            (!name.starts_with(OURS)).then(|| (name.to_owned(), commit.to_owned()))
        };
        let references = list.lines().filter_map(reference).collect();
        let remotes = known.and_then(|known| known.remotes.as_ref());
        Ok(Self {
            head: head(repo)?,
            index: IndexStamp::capture(repo, known.map(|known| &known.index))?,
            references,
            remotes: Some(RemoteSettings::capture(repo, remotes)?),
            exclude: Some(exclude(repo)?),
        })
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
        let is_tag = |name: &String| name.starts_with(TAGS) && !self.references.contains_key(name);
        let tags: Vec<_> = now.references.iter().filter(|(name, _)| is_tag(name)).collect();
        for (name, commit) in tags.iter().take(MOST) {
            add(name, None, Some(commit));
        }
        if let Some(more) = tags.len().checked_sub(MOST).filter(|more| *more > 0) {
            add("refs/tags", None, Some(&more.to_string()));
        }
        if let (Some(before), Some(now)) = (&self.remotes, &now.remotes) {
            let names: BTreeSet<_> = before.settings.keys().chain(now.settings.keys()).collect();
            for name in names.into_iter().take(MOST) {
                if before.settings.get(name) != now.settings.get(name) {
                    add(name, before.display(name).as_ref(), now.display(name).as_ref());
                }
            }
        }
        if let (Some(before), Some(now)) = (&self.exclude, &now.exclude) {
            for line in now.difference(before).take(MOST) {
                add(EXCLUDE, None, Some(line));
            }
            for line in before.difference(now).take(MOST) {
                add(EXCLUDE, Some(line), None);
            }
        }
        changes
    }
}

impl IndexStamp {
    fn capture(repo: &Repo, known: Option<&Self>) -> Result<Self, Error> {
        let file = file_identity(&repo.here.git_dir.join("index"));
        if let Some(known) = known.filter(|known| file.is_some() && file == known.file) {
            return Ok(known.clone());
        }
        let content = match repo.call_here(&["ls-files", "--stage", "-z"]).read_only().run() {
            Ok(staged) => hex(&Sha256::digest(&staged.stdout)).chars().take(SHORT).collect(),
            // What a step has damaged has changed as well.
            Err(Error::Failed { .. }) => "unreadable".to_owned(),
            Err(error) => return Err(error),
        };
        Ok(Self { file, content })
    }
}

impl RemoteSettings {
    fn capture(repo: &Repo, known: Option<&Self>) -> Result<Self, Error> {
        let path = repo.common_dir().join("config");
        let file = file_identity(&path);
        if let Some(known) = known.filter(|known| file.is_some() && file == known.file) {
            return Ok(known.clone());
        }
        let mut found = Self { file, settings: BTreeMap::new() };
        // What is no configuration file has no remotes; git will complain of it.
        for (name, value) in git_config::read(&repo.git, &path)?.unwrap_or_default() {
            if name.starts_with("remote.") {
                let hash = hex(&Sha256::digest(value.as_bytes())).chars().take(SHORT).collect();
                let value = RemoteValue { shown: without_password(&value), hash };
                found.settings.entry(name).or_default().push(value);
            }
        }
        Ok(found)
    }

    /// Returns the values of a setting as people see them.
    fn display(&self, name: &str) -> Option<String> {
        let values = self.settings.get(name)?;
        Some(values.iter().map(|value| value.shown.as_str()).collect::<Vec<_>>().join(", "))
    }
}

/// Returns an address without the name and the password in it.
fn without_password(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://") else { return address.to_owned() };
    let end = rest.find('/').unwrap_or(rest.len());
    match rest.get(..end).and_then(|host| host.rfind('@')) {
        Some(at) => format!("{scheme}://…{}", rest.get(at..).unwrap_or_default()),
        None => address.to_owned(),
    }
}

/// Returns the lines of `info/exclude` that say something.
fn exclude(repo: &Repo) -> Result<BTreeSet<String>, Error> {
    let text = read_regular_or_empty(&repo.common_dir().join(EXCLUDE))?;
    let text = String::from_utf8_lossy(&text);
    let says = |line: &&str| !line.trim().is_empty() && !line.starts_with('#');
    Ok(text.lines().filter(says).map(ToOwned::to_owned).collect())
}

fn file_identity(path: &Path) -> Option<FileIdentity> {
    let file = fs::symlink_metadata(path).ok()?;
    Some((file.ino(), file.size(), file.mtime(), file.mtime_nsec()))
}

/// Returns what HEAD is on, without starting git if that can be avoided.
fn head(repo: &Repo) -> Result<String, Error> {
    let text = read_regular_or_empty(&repo.here.git_dir.join("HEAD"))?;
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
