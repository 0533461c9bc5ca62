//! A merge in a slot's worktree that an agent finishes.
//!
//! The merge is begun as git would begin it, so that an agent finds what it knows: files
//! with conflict markers, an index with unmerged paths, a `MERGE_HEAD`. What the agent says
//! about it counts for nothing. What it left is looked at: by our own index, with the
//! settings that the job began with.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    fs,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::Path,
};

use super::{conflict_markers, conflict_sides::ConflictSides};
use crate::git::{
    Error, WorktreeSlot,
    command::{display_path, split_fields},
    index,
    isolation::isolated_git_dir::{ITEM, read_regular_or_empty},
    refs::replace_locked,
    repo::with_fallback_committer,
    worktree::{
        is_hash, kept_files::not_ignored, patch::exclude_pathspec, slot_reset::install_index,
    },
};

/// The name of the other side in conflict markers.
const JOB: &str = "job";

/// The most commits of a side that are told.
const TOLD: &str = "--max-count=20";

/// A merge that was begun in a worktree and stopped at conflicts.
#[derive(Clone, Debug)]
pub struct OpenMerge {
    /// The commit that was checked out.
    pub ours: String,
    /// The commit that is merged into it.
    pub theirs: String,
    /// The paths in conflict, as git has them, with what stands there with the markers.
    paths: BTreeMap<Vec<u8>, Option<TreeEntry>>,
    /// The content of both sides there.
    pub(crate) sides: BTreeMap<Vec<u8>, ConflictSides>,
    /// The branch that the other side is on.
    target: String,
    /// The references that had our commit before the agent began.
    holders: BTreeSet<String>,
}

/// The first result of a merge.
#[derive(Clone, Debug)]
pub enum MergeStart {
    /// There is no conflict, or there is none any more; this is the tree.
    Clean(String),
    /// It stopped.
    Stopped(Box<OpenMerge>),
}

/// The result of an agent's work on a merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergeResolution {
    /// A commit has both sides and no conflict.
    Resolved {
        /// The commit; the slot's branch stands at it.
        commit: String,
        /// The number of commits it has that the other side has not.
        commits: u64,
        /// The changes that could not be kept beside those of the other side, for people.
        dropped: Option<String>,
    },
    /// Something is missing or was done that must not be.
    Unresolved(String),
}

/// The entry of a tree at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TreeEntry {
    mode: String,
    pub(crate) object: String,
}

impl OpenMerge {
    /// Returns the paths in conflict, as people see them.
    pub fn paths(&self) -> Vec<String> {
        self.paths.keys().map(|path| display_path(path)).collect()
    }
}

impl MergeResolution {
    /// Adds the changes that could not be kept.
    fn with_dropped(self, dropped: Option<String>) -> Self {
        match self {
            Self::Resolved { commit, commits, .. } => Self::Resolved { commit, commits, dropped },
            Self::Unresolved(why) => Self::Unresolved(why),
        }
    }
}

impl WorktreeSlot {
    /// Begins to merge a commit of a branch into the one that the worktree was made ready with.
    pub fn begin_merge(
        &mut self,
        target: &str,
        theirs: &str,
        message: &str,
    ) -> Result<MergeStart, Error> {
        let (ours, theirs) = (self.base.clone(), self.tree.repo.full_commit(theirs)?);
        self.leased = None;
        self.shelter.rewrite_config()?;
        for (name, commit) in [(ITEM, &ours), (JOB, &theirs)] {
            self.shelter.write(&format!("refs/heads/{name}"), format!("{commit}\n").as_bytes())?;
        }
        let args = ["merge-tree", "--write-tree", "-z", "--no-messages", ITEM, JOB];
        // The merge that met the conflict had the attributes of the job's branch.
        let call =
            self.shelter.call(&args).durable().accept_codes(&[1]).env("GIT_ATTR_SOURCE", &theirs);
        let output = call.run()?;
        let mut fields = split_fields(&output.stdout).into_iter();
        let unexpected = || Error::Unexpected { command: "merge-tree".to_owned() };
        let tree = display_path(
            &fields.next().filter(|tree| is_hash(&display_path(tree))).ok_or_else(unexpected)?,
        );
        if output.status == 0 {
            return Ok(MergeStart::Clean(tree));
        }
        let stages: Vec<Vec<u8>> = fields.collect();
        let mut paths = BTreeMap::new();
        let mut sides: BTreeMap<Vec<u8>, ConflictSides> = BTreeMap::new();
        for stage in &stages {
            let (number, path, entry) = TreeEntry::staged(stage).ok_or_else(unexpected)?;
            paths.insert(path.to_owned(), self.entry(&tree, path)?);
            sides.entry(path.to_owned()).or_default().set(number, entry);
        }
        self.stop_at(&tree, &theirs, &stages, paths.keys(), message)?;
        let (target, holders) = (target.to_owned(), self.holders(&ours)?);
        Ok(MergeStart::Stopped(Box::new(OpenMerge { ours, theirs, paths, sides, target, holders })))
    }

    /// Makes files and index what git leaves when a merge stops at conflicts.
    fn stop_at<'a>(
        &self,
        tree: &str,
        theirs: &str,
        stages: &[Vec<u8>],
        paths: impl Iterator<Item = &'a Vec<u8>>,
        message: &str,
    ) -> Result<(), Error> {
        let (index, admin) = (self.shelter.path("index"), &self.tree.place.git_dir);
        self.shelter.call(&["read-tree", "--reset", "-u", tree]).index(&index).run()?;
        install_index(&index, admin)?;
        let nothing = "0".repeat(tree.len());
        let mut info = Vec::new();
        for path in paths {
            info.extend(format!("0 {nothing}\t").as_bytes());
            info.extend(path);
            info.push(0);
        }
        for stage in stages {
            info.extend(stage);
            info.push(0);
        }
        let real = admin.join("index");
        self.shelter
            .call(&["update-index", "-z", "--index-info"])
            .index(&real)
            .stdin(info)
            .run()?;
        replace_locked(&admin.join("MERGE_MSG"), format!("{}\n", message.trim_end()).as_bytes())?;
        replace_locked(&admin.join("MERGE_MODE"), b"")?;
        replace_locked(&admin.join("MERGE_HEAD"), format!("{theirs}\n").as_bytes())
    }

    /// Makes a commit of a merge that has no conflict.
    pub fn commit_merge(
        &self,
        tree: &str,
        theirs: &str,
        message: &str,
    ) -> Result<MergeResolution, Error> {
        let ours = self.base.clone();
        self.merge_commit(tree, &ours, theirs, message)
    }

    /// Looks at what an agent made of a merge.
    ///
    /// A merge that it did not commit is committed, if nothing else is missing.
    pub fn finish_merge(
        &mut self,
        merge: &OpenMerge,
        message: &str,
    ) -> Result<MergeResolution, Error> {
        let unresolved = |why: String| Ok(MergeResolution::Unresolved(why));
        let OpenMerge { ours, theirs, .. } = merge;
        let head = self.head()?;
        self.shelter.rewrite_config()?;
        // One that has brought the job's branch to what it made has merged it: that is found when
        // the commit is merged.
        let target = format!("refs/heads/{}", merge.target);
        let holders = self.holders(ours)?;
        let mut touched = holders.difference(&merge.holders).filter(|name| **name != target);
        if let Some(name) = touched.next() {
            return unresolved(format!("`{name}` was changed, which is not part of the merge"));
        }
        let unmerged = self.unmerged()?;
        let is_committed = head != *ours;
        let tree = if is_committed {
            for (side, name) in [(ours, "the item's"), (theirs, "the job's")] {
                if !self.tree.repo.is_ancestor(side, &head)? {
                    return unresolved(format!("what was committed does not have {name} commits"));
                }
            }
            head.clone()
        } else {
            let begun = read_regular_or_empty(&self.tree.place.git_dir.join("MERGE_HEAD"))?;
            if display_path(&begun).trim_end() != theirs {
                return unresolved("the merge was aborted".to_owned());
            }
            self.tree_of_files()?
        };
        let mut left = Vec::new();
        for (path, before) in &merge.paths {
            let now = self.entry(&tree, path)?;
            let is_as_before = now == *before && unmerged.contains(path);
            if is_as_before || self.has_markers(merge, path, now.as_ref())? {
                left.push(format!("`{}`", display_path(path)));
            }
        }
        if !left.is_empty() {
            return unresolved(format!("the conflict is still in {}", left.join(", ")));
        }
        let dropped = self.find_dropped_changes(merge, &tree)?;
        if let Some(why) = dropped.avoidable() {
            return unresolved(why);
        }
        let ended = if !is_committed {
            self.merge_commit(&tree, ours, theirs, message)?
        } else if unmerged.is_empty() {
            self.resolved(head, theirs)?
        } else {
            return unresolved("paths in the index are unmerged".to_owned());
        };
        Ok(ended.with_dropped(dropped.unavoidable()))
    }

    /// Sets the item's branch back to a commit, and leaves the worktree as it is, on no branch.
    pub fn abort_merge(&self, merge: &OpenMerge) -> Result<(), Error> {
        let head = self.head()?;
        self.tree.call(&["update-ref", "--no-deref", "HEAD", &head]).run()?;
        self.point_branch(&merge.ours)
    }

    /// Returns the last commits of both sides that the other has not.
    pub fn conflict_logs(&self, merge: &OpenMerge) -> Result<(String, String), Error> {
        let told = |side: &str, other: &str| {
            let not = format!("^{other}");
            self.shelter.call(&["log", TOLD, "--format=- %h %s", side, &not]).run_text()
        };
        Ok((told(&merge.ours, &merge.theirs)?, told(&merge.theirs, &merge.ours)?))
    }

    /// Commits a merge and brings the branch to it.
    fn merge_commit(
        &self,
        tree: &str,
        ours: &str,
        theirs: &str,
        message: &str,
    ) -> Result<MergeResolution, Error> {
        let args = ["commit-tree", "-p", ours, "-p", theirs, tree];
        let call = self.shelter.call(&args).stdin(message.replace('\0', "")).durable();
        let call = if self.tree.repo.check_committer().is_ok() {
            call
        } else {
            with_fallback_committer(call)
        };
        self.resolved(call.run_text()?, theirs)
    }

    fn resolved(&self, commit: String, theirs: &str) -> Result<MergeResolution, Error> {
        self.point_branch(&commit)?;
        let not = format!("^{theirs}");
        let count = self.shelter.call(&["rev-list", "--count", &commit, &not]).run_text()?;
        let unexpected = || Error::Unexpected { command: "rev-list".to_owned() };
        let commits = count.parse().map_err(|_| unexpected())?;
        Ok(MergeResolution::Resolved { commit, commits, dropped: None })
    }

    /// Brings the item's branch to a commit.
    fn point_branch(&self, commit: &str) -> Result<(), Error> {
        let name = format!("refs/heads/{}", self.tree.branch);
        let update = ["update-ref", "--no-deref", "-m", "prodigy: resolve", &name, commit];
        self.tree.repo.call(&update).durable().run()?;
        Ok(())
    }

    /// Returns the tree of all files that are not ignored.
    ///
    /// It begins with our own index: the worktree's may be marked so that git overlooks changes.
    fn tree_of_files(&self) -> Result<String, Error> {
        let (index, scratch) = (self.shelter.path("index"), self.shelter.path("scratch"));
        fs::copy(&index, &scratch).map_err(Error::file("copy", &index))?;
        let call = |args: &[&str]| self.shelter.call(args).index(&scratch);
        index::remove_nested_repos(call, &scratch, self.tree.path(), self.base.len() / 2)?;
        let kept = not_ignored(call, &self.kept)?;
        let kept = kept.iter().map(|path| exclude_pathspec(path));
        call(&["add", "--all", "--sparse", "--", "."]).args(kept).durable().run()?;
        self.shelter.call(&["write-tree"]).index(&scratch).durable().run_text()
    }

    /// Returns the paths that the worktree's index has as unmerged.
    fn unmerged(&self) -> Result<BTreeSet<Vec<u8>>, Error> {
        let index = self.copy_of_index()?;
        let fields =
            self.shelter.call(&["ls-files", "--unmerged", "-z"]).index(&index).run_fields()?;
        let path =
            |field: Vec<u8>| field.splitn(2, |byte| *byte == b'\t').nth(1).map(<[u8]>::to_vec);
        Ok(fields.into_iter().filter_map(path).collect())
    }

    /// Returns the references that have a commit, but for the item's own branch.
    fn holders(&self, commit: &str) -> Result<BTreeSet<String>, Error> {
        let args = ["for-each-ref", "--format=%(refname)", "--contains", commit];
        let text = self.tree.repo.call(&args).read_only().run_text()?;
        let own = format!("refs/heads/{}", self.tree.branch);
        let names = text.lines().filter(|name| !name.is_empty() && *name != own);
        Ok(names.map(ToOwned::to_owned).collect())
    }

    /// Returns whether conflict markers are left in a file that neither side had.
    fn has_markers(
        &self,
        merge: &OpenMerge,
        path: &[u8],
        now: Option<&TreeEntry>,
    ) -> Result<bool, Error> {
        let Some(now) = now.filter(|entry| entry.is_file()) else { return Ok(false) };
        let content = self.content(now)?;
        let mut found = conflict_markers::conflict_markers(&content);
        for side in [&merge.ours, &merge.theirs] {
            if found.is_empty() {
                break;
            }
            if let Some(entry) = self.entry(side, path)?.filter(TreeEntry::is_file) {
                let content = self.content(&entry)?;
                let theirs = conflict_markers::conflict_markers(&content);
                found.retain(|line| !theirs.contains(line));
            }
        }
        Ok(!found.is_empty())
    }

    pub(crate) fn content(&self, entry: &TreeEntry) -> Result<Vec<u8>, Error> {
        Ok(self.shelter.call(&["cat-file", "blob", &entry.object]).run()?.stdout)
    }

    /// Returns what a tree or a commit has at a path.
    pub(crate) fn entry(&self, tree: &str, path: &[u8]) -> Result<Option<TreeEntry>, Error> {
        let path = OsString::from_vec(path.to_vec());
        let call = self.shelter.call(&["ls-tree", "-z", tree, "--"]).args([&path]);
        let found = call.run_fields()?;
        Ok(found.iter().find_map(|field| TreeEntry::read(field, Path::new(&path))))
    }
}

impl TreeEntry {
    /// Reads a line of `ls-tree`, if it is about a path.
    fn read(line: &[u8], path: &Path) -> Option<Self> {
        let mut parts = line.splitn(2, |byte| *byte == b'\t');
        let (about, name) = (display_path(parts.next()?), parts.next()?);
        let mut words = about.split(' ');
        let (mode, object) = (words.next()?.to_owned(), words.nth(1)?.to_owned());
        (name == path.as_os_str().as_bytes()).then_some(Self { mode, object })
    }

    /// Reads a stage of a path in the index: its number, the path, and what is there.
    fn staged(line: &[u8]) -> Option<(u8, &[u8], Self)> {
        let at = line.iter().position(|byte| *byte == b'\t')?;
        let (about, path) = (display_path(line.get(..at)?), line.get(at + 1..)?);
        let mut words = about.split(' ');
        let (mode, object) = (words.next()?.to_owned(), words.next()?.to_owned());
        Some((words.next()?.parse().ok()?, path, Self { mode, object }))
    }

    pub(crate) fn is_file(&self) -> bool {
        self.mode.starts_with("100")
    }
}
