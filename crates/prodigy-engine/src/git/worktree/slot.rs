//! Worktrees that many items use one after the other.
//!
//! Making a worktree costs as much as an item; making one ready again costs little
//! if nothing was changed, and one call of git otherwise.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{
    lifecycle::{make_parent, move_to_trash},
    remove,
};
use crate::git::{
    Error, Repo, Worktree, WorktreeFingerprint,
    command::{display_path, split_fields},
    isolation::isolated_git_dir::{BASE, ITEM, IsolatedGitDir},
    locks::RepoLock,
    refs,
};

/// A worktree that many items use one after the other.
///
/// It is one item's at a time, from [`WorktreeSlot::reset_for_item`] to the next. No process of the
/// attempt may be left when any of its functions is called.
#[derive(Debug)]
pub struct WorktreeSlot {
    pub(crate) tree: Worktree,
    pub(crate) shelter: IsolatedGitDir,
    /// The commit that the item began from.
    pub(crate) base: String,
    pub(crate) kept: Vec<PathBuf>,
    /// The fingerprint of the worktree when it was reset for the item; `None` before that.
    pub(crate) leased: Option<WorktreeFingerprint>,
    /// Set if any change since then shows in the times of files.
    pub(crate) is_settled: bool,
    /// Set if the last check found nothing changed.
    pub(crate) is_untouched: bool,
    /// The files by which the worktree and its directory in the repository find each other.
    pub(crate) links: Vec<(PathBuf, Vec<u8>)>,
}

/// The state of a worktree after an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorktreeStatus {
    /// The commit that is checked out.
    pub head: String,
    /// Set if nothing was written, neither commits nor files.
    pub is_untouched: bool,
    /// The files that differ from `head`, ignored and kept ones left out.
    pub uncommitted: Vec<ChangedFile>,
    /// The number of commits that `head` has and the item did not begin with.
    pub commits: u64,
    /// The number of commits that the item's branch has and `head` has not: their author has
    /// checked out something else since.
    pub astray: u64,
}

/// A file that differs from the commit that is checked out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedFile {
    /// Its path in the worktree, as people see it.
    pub path: String,
    /// The kind of the difference.
    pub kind: ChangeKind,
}

/// The kind of difference between a file and the commit that is checked out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// The commit has no such file.
    New,
    /// Its content, its mode or its type is another.
    Modified,
    /// It is gone.
    Deleted,
    /// A merge was begun and not finished.
    Unmerged,
}

impl Repo {
    /// Makes a worktree for items, checked out at `commit` on the branch `branch`.
    ///
    /// The remains of an interrupted earlier call at `path` are replaced, and so is the
    /// branch. The first call in a process remembers the repository's settings, and all
    /// later ones use those: it must come when no agent can have changed them.
    pub fn create_slot(
        &self,
        path: &Path,
        branch: &str,
        commit: &str,
    ) -> Result<WorktreeSlot, Error> {
        self.frozen_config()?;
        let commit = self.resolve_commit(commit)?;
        let path = make_parent(path)?;
        let tree = {
            let _lock = RepoLock::acquire(self.common_dir())?;
            self.remove_pipes()?;
            self.remove_stale_worktree(&path)?;
            let add = self.call(&["worktree", "add", "--quiet", "--detach", "--no-checkout"]);
            add.args([path.as_os_str(), commit.as_ref()]).run()?;
            self.find_registered(&path, branch)?
        };
        let mut slot = WorktreeSlot::new(tree, String::new())?;
        slot.reset_for_item(branch, &commit, &[])?;
        Ok(slot)
    }

    /// Returns a worktree for items that an earlier process was using, as that left it; `base`
    /// is the commit that commits are counted from.
    pub fn find_slot(
        &self,
        path: &Path,
        branch: &str,
        base: &str,
    ) -> Result<Option<WorktreeSlot>, Error> {
        let Some(tree) = self.find_job_worktree(path, branch)? else { return Ok(None) };
        tree.verify_integrity()?;
        tree.remove_locks()?;
        WorktreeSlot::new(tree, base.to_owned()).map(Some)
    }
}

impl WorktreeSlot {
    fn new(tree: Worktree, base: String) -> Result<Self, Error> {
        let shelter = IsolatedGitDir::for_worktree(&tree)?;
        let mut links = Vec::new();
        for link in ["gitdir", "commondir"].map(|name| tree.place.git_dir.join(name)) {
            let text = fs::read(&link).map_err(Error::file("read", &link))?;
            links.push((link, text));
        }
        Ok(Self {
            tree,
            shelter,
            base,
            kept: Vec::new(),
            leased: None,
            is_settled: false,
            is_untouched: false,
            links,
        })
    }

    /// Returns the commit that the item began from.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Returns the worktree, on the branch of the item that has it.
    pub fn tree(&self) -> &Worktree {
        &self.tree
    }

    /// Finds out what an attempt left behind; to be called once after it.
    ///
    /// No git is started if nothing was written, unless the worktree was made ready so
    /// shortly before that times of files do not tell.
    pub fn inspect(&mut self) -> Result<WorktreeStatus, Error> {
        self.is_untouched = false;
        let head = self.head()?;
        let now = self.tree.fingerprint_without(&self.kept)?;
        let is_same =
            head == self.base && self.leased.as_ref().is_some_and(|leased| leased.matches(&now));
        let astray = self.count_commits_off_head(&head)?;
        if is_same && self.is_settled && astray == 0 {
            self.is_untouched = true;
            let uncommitted = Vec::new();
            return Ok(WorktreeStatus {
                head,
                is_untouched: true,
                uncommitted,
                commits: 0,
                astray,
            });
        }
        self.shelter.rewrite_config()?;
        self.shelter.write(&format!("refs/heads/{ITEM}"), format!("{head}\n").as_bytes())?;
        self.shelter.write(&format!("refs/heads/{BASE}"), format!("{}\n", self.base).as_bytes())?;
        let status = match self.status(&self.tree.place.git_dir.join("index")) {
            // An index can be damaged, or of a kind that needs more than its one file.
            Err(Error::Failed { .. }) => self.status(&self.write_index(&head)?)?,
            other => other?,
        };
        let (uncommitted, commits) = self.read_status(&status)?;
        self.is_untouched = is_same && uncommitted.is_empty() && astray == 0;
        Ok(WorktreeStatus { head, is_untouched: self.is_untouched, uncommitted, commits, astray })
    }

    /// Returns how many commits the item's branch has that `head` has not.
    fn count_commits_off_head(&self, head: &str) -> Result<u64, Error> {
        let (repo, branch) = (&self.tree.repo, &self.tree.branch);
        let tip = match refs::read_branch(repo.common_dir(), branch) {
            Some(tip) => Some(tip),
            None => repo.branch_tip(branch)?,
        };
        match tip {
            Some(tip) if tip != head && tip != self.base => {
                Ok(repo.count_missing_from(&[tip], head)? as u64)
            }
            Some(_) | None => Ok(0),
        }
    }

    /// Takes the worktree off git's list and its name, and returns what is left to delete.
    ///
    /// The branch stays.
    pub fn discard(self) -> Result<Option<PathBuf>, Error> {
        let repo = &self.tree.repo;
        let _lock = RepoLock::acquire(repo.common_dir())?;
        let trash = move_to_trash(self.tree.path())?;
        remove(&self.tree.place.git_dir)?;
        // Git removes the directory of all worktrees with the last one; so do we.
        fs::remove_dir(repo.common_dir().join("worktrees")).ok();
        Ok(trash)
    }

    /// Returns the commit that is checked out.
    pub(crate) fn head(&self) -> Result<String, Error> {
        match self.tree.head() {
            Err(Error::Failed { .. }) => {
                Err(Error::NothingCheckedOut { path: self.tree.path().to_owned() })
            }
            other => other,
        }
    }

    /// Writes an index of ours for a commit, and returns where it is.
    pub(crate) fn write_index(&self, commit: &str) -> Result<PathBuf, Error> {
        let index = self.shelter.path("scratch");
        remove(&index)?;
        self.shelter.call(&["read-tree", commit]).index(&index).run()?;
        Ok(index)
    }

    fn status(&self, index: &Path) -> Result<Vec<u8>, Error> {
        let args = ["status", "--porcelain=v2", "--branch", "-z", "--no-renames"];
        // Looking into submodules would run what their own settings say.
        let rest = ["--untracked-files=all", "--ignore-submodules=dirty"];
        Ok(self.shelter.call(&args).args(rest).index(index).read_only().run()?.stdout)
    }

    fn read_status(&self, status: &[u8]) -> Result<(Vec<ChangedFile>, u64), Error> {
        let unexpected = || Error::Unexpected { command: "status".to_owned() };
        let (mut uncommitted, mut commits) = (Vec::new(), None);
        for field in split_fields(status) {
            let text = display_path(&field);
            // Kind, then as many fields as come before the path.
            let (before, kind) = match text.as_bytes() {
                [b'#', ..] => {
                    let ahead = text.strip_prefix("# branch.ab +");
                    let ahead = ahead.and_then(|rest| rest.split(' ').next());
                    commits = commits.or(ahead.and_then(|count| count.parse().ok()));
                    continue;
                }
                [b'?', ..] => (1, ChangeKind::New),
                // What the index says of the file, then what the worktree does.
                [b'1', b' ', _, b'D', ..] | [b'1', b' ', b'D', _, ..] => (8, ChangeKind::Deleted),
                [b'1', b' ', b'A', _, ..] => (8, ChangeKind::New),
                [b'1', ..] => (8, ChangeKind::Modified),
                [b'u', ..] => (10, ChangeKind::Unmerged),
                _ => return Err(unexpected()),
            };
            let path = text.splitn(before + 1, ' ').nth(before).ok_or_else(unexpected)?;
            if !self.kept.iter().any(|kept| Path::new(path).starts_with(kept)) {
                uncommitted.push(ChangedFile { path: path.to_owned(), kind });
            }
        }
        Ok((uncommitted, commits.ok_or_else(unexpected)?))
    }
}
