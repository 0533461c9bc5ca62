//! Keeping what failed attempts left, and getting it out of the way of later ones.

use std::{
    fs,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use prodigy_core::ids::AgentId;

use super::lifecycle::{make_parent, snapshot_ref};
use crate::git::{
    Error, Repo, Worktree, WorktreeInfo, WorktreeSlot, command::GitDirs,
    isolation::isolated_git_dir::read_regular_or_empty, locks::RepoLock, refs,
    repo::with_fallback_committer,
};

/// The most names that are tried for an artifact.
const NAMES: u32 = 10_000;

impl WorktreeSlot {
    /// Renames the worktree, for a person to look at, and returns its path; the slot is used up.
    ///
    /// It stays one of the repository's worktrees and can be removed like that of a job.
    /// It stays on its branch, unless `leave_at` says at which commit it leaves it: a
    /// branch that is merged or used again is not there for it any more. If something is at
    /// `path` already, or git remembers a worktree there, `attempt` is added to the name.
    #[expect(clippy::disallowed_methods, reason = "a directory is renamed, nothing is stored")]
    pub fn preserve_at(
        self,
        path: &Path,
        attempt: u32,
        leave_at: Option<&str>,
    ) -> Result<PathBuf, Error> {
        self.tree.verify_integrity()?;
        self.tree.repair_link()?;
        if let Some(commit) = leave_at {
            self.tree.call(&["update-ref", "--no-deref", "HEAD", commit]).run()?;
        }
        let path = make_parent(path)?;
        let _lock = RepoLock::acquire(self.tree.repo.common_dir())?;
        let path = self.tree.repo.free_path(&path, attempt)?;
        fs::rename(self.tree.path(), &path).map_err(Error::file("rename", self.tree.path()))?;
        self.tree.update_path(path.clone())?;
        Ok(path)
    }

    /// Returns the item's branch if it will be there for a person to look at: the worktree is
    /// on it, or it holds the commits that the attempt ended with.
    pub fn preserved_branch(&self, is_kept: bool, head: &str, commits: u64) -> Option<String> {
        let (repo, branch) = (&self.tree.repo, &self.tree.branch);
        let tip = match refs::read_branch(repo.common_dir(), branch) {
            Some(tip) => tip,
            // A branch that cannot be found out about is not promised.
            None => repo.branch_tip(branch).ok()??,
        };
        let holds_commits = commits > 0 && tip == head;
        (holds_commits || is_kept && self.is_on_branch()).then(|| branch.clone())
    }

    /// Returns whether the item's branch is checked out, without starting git if that can be
    /// avoided.
    fn is_on_branch(&self) -> bool {
        let wanted = format!("ref: refs/heads/{}\n", self.tree.branch);
        let head = self.tree.place.git_dir.join("HEAD");
        if read_regular_or_empty(&head).is_ok_and(|text| text == wanted.as_bytes()) {
            return true;
        }
        let has_files = self.tree.repo.frozen_config().is_ok_and(|frozen| frozen.has_ref_files);
        !has_files
            && self.tree.checked_out().is_ok_and(|name| name.as_ref() == Some(&self.tree.branch))
    }

    /// Makes sure that the commits which the attempt ended with have a name: an agent may
    /// have made them on no branch.
    ///
    /// A branch that has gone on by itself is left alone.
    pub fn keep_commits_on_branch(&self, head: &str) -> Result<(), Error> {
        let (repo, branch) = (&self.tree.repo, &self.tree.branch);
        if repo.branch_tip(branch)?.is_none_or(|tip| tip == self.base) && head != self.base {
            let name = format!("refs/heads/{branch}");
            let update = ["update-ref", "--no-deref", "-m", "prodigy: keep", &name, head];
            repo.call(&update).durable().run()?;
        }
        Ok(())
    }
}

impl Worktree {
    /// Tells git that the worktree was renamed.
    pub(crate) fn update_path(&self, path: PathBuf) -> Result<(), Error> {
        let mut link = path.join(".git").as_os_str().as_bytes().to_owned();
        link.push(b'\n');
        refs::replace_locked(&self.place.git_dir.join("gitdir"), &link)?;
        // A link that is relative leads elsewhere from there.
        let place = GitDirs { work_tree: path, ..self.place.clone() };
        Self::new(self.repo.clone(), place, &self.branch).repair_link()
    }
}

impl Repo {
    /// Makes an item's branch stand at a commit: an agent may have committed elsewhere, and
    /// what cannot be merged must have a name.
    pub fn set_item_branch(&self, branch: &str, commit: &str) -> Result<(), Error> {
        if !refs::is_branch_name(branch) {
            return Err(Error::BranchName { branch: branch.to_owned() });
        }
        if self.branch_tip(branch)?.as_deref() == Some(commit) {
            return Ok(());
        }
        let name = format!("refs/heads/{branch}");
        let update = ["update-ref", "--no-deref", "-m", "prodigy: keep", &name, commit];
        self.call(&update).durable().run()?;
        Ok(())
    }

    /// Makes an item's branch free for a new attempt, long after the last one failed for good.
    ///
    /// Worktrees that are on it, such as the one that was kept of that attempt, stay as they
    /// are and leave the branch. Commits that nothing else holds get the name `reference`
    /// with the number of the failed attempt, which is returned. The branch itself is
    /// replaced by whoever takes it next.
    pub fn free_item_branch(
        &self,
        branch: &str,
        reference: &str,
        attempt: u32,
    ) -> Result<Option<String>, Error> {
        let Some(tip) = self.branch_tip(branch)? else { return Ok(None) };
        self.detach_other_worktrees(branch, Path::new(""))?;
        if self.only_on(&tip, branch)? == 0 {
            return Ok(None);
        }
        self.record_tip(&tip, &format!("{reference}.{attempt}"), attempt).map(Some)
    }

    /// Gives the commits of a worktree a name that nothing else holds, before it is removed,
    /// and returns the name: it may have left its branch.
    pub fn preserve_unreachable(
        &self,
        path: &Path,
        reference: &str,
    ) -> Result<Option<String>, Error> {
        let Some(tree) = self.find_job_worktree(path, "")? else { return Ok(None) };
        // What has no commit has none to lose.
        let Ok(head) = tree.head() else { return Ok(None) };
        if self.held_by_none(&head, &[])? == 0 {
            return Ok(None);
        }
        self.record_tip(&head, reference, 2).map(Some)
    }

    /// Gives a commit a name, in the shape of the record of a worktree, and returns it.
    fn record_tip(&self, tip: &str, reference: &str, number: u32) -> Result<String, Error> {
        let tree = self.call(&["rev-parse", "--verify", &format!("{tip}^{{tree}}")]).run_text()?;
        let entries = format!("040000 tree {tree}\tfiles\n040000 tree {tree}\tindex\n");
        let tree = self.call(&["mktree"]).stdin(entries).durable().run_text()?;
        let commit = ["commit-tree", "-p", tip, "-m", "prodigy record", &tree];
        let commit = with_fallback_committer(self.call(&commit)).durable().run_text()?;
        self.create_unique_ref(reference, number, &commit)
    }

    /// Gives a record a name that no other has, and returns it.
    pub(crate) fn create_unique_ref(
        &self,
        reference: &str,
        attempt: u32,
        commit: &str,
    ) -> Result<String, Error> {
        // The hash of nothing says that there must be no such reference.
        let nothing = "0".repeat(commit.len());
        let create = |name: &str| {
            let args = ["update-ref", "--no-deref", name, commit, &nothing];
            self.call(&args).durable().run().map(drop)
        };
        let refused = match create(reference) {
            Err(error @ Error::Failed { .. }) => error,
            other => return other.map(|()| reference.to_owned()),
        };
        let prefix = format!("{reference}.");
        let list = ["for-each-ref", "--format=%(refname)"];
        let taken =
            self.call(&list).args([reference, &format!("{prefix}*")]).read_only().run_text()?;
        let is_taken = |name: &str| taken.lines().any(|line| line == name);
        if !is_taken(reference) {
            // It was not for its name that it was refused.
            return Err(refused);
        }
        let name = numbers(attempt)
            .map(|number| format!("{prefix}{number}"))
            .find(|name| !is_taken(name))
            .ok_or(refused)?;
        create(&name).map(|()| name)
    }

    /// Returns a path at which there is nothing and git remembers no worktree.
    ///
    /// One whose directory is gone may have been moved by a person, who would lose its state
    /// if we took its place.
    pub(crate) fn free_path(&self, path: &Path, attempt: u32) -> Result<PathBuf, Error> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let others = numbers(attempt).map(|number| path.with_file_name(format!("{name}.{number}")));
        for path in std::iter::once(path.to_owned()).chain(others) {
            if path.symlink_metadata().is_err() && self.admin_dir(&path)?.is_none() {
                return Ok(path);
            }
        }
        Err(Error::PathTaken { path: path.to_owned() })
    }

    /// Takes other worktrees than `own` off a branch, so that their files are still those of
    /// their commit.
    pub(crate) fn detach_other_worktrees(&self, branch: &str, own: &Path) -> Result<(), Error> {
        let _lock = RepoLock::acquire(self.common_dir())?;
        for worktree in self.worktrees()?.into_iter().skip(1) {
            if worktree.path == own || worktree.branch.as_deref() != Some(branch) {
                continue;
            }
            // A slot may be at work on its next item by now, and leaves the branch by itself
            // when it is leased: its HEAD is never ours to move.
            if is_slot(&worktree.path, branch) {
                continue;
            }
            let Some(git_dir) = self.admin_dir(&worktree.path)? else { continue };
            let place = GitDirs { git_dir, ..self.main.clone() };
            let head = ["update-ref", "--no-deref", "HEAD", &worktree.head];
            self.git.command_in(&place, &head).run()?;
        }
        Ok(())
    }

    /// Moves an earlier worktree of a job to another name if it holds files that are nowhere
    /// else.
    ///
    /// One whose branch has gone on is in use, and refused.
    #[expect(clippy::disallowed_methods, reason = "a directory is renamed, nothing is stored")]
    pub(crate) fn move_old_worktree(
        &self,
        path: &Path,
        branch: &str,
        commit: &str,
    ) -> Result<(), Error> {
        let is_there = path.symlink_metadata().is_ok_and(|found| found.is_dir());
        if !is_there {
            return Ok(());
        }
        if self.admin_dir(path)?.is_none() {
            if !self.was_ours(path) {
                // Whether it is empty is looked at when the worktree is made.
                return Ok(());
            }
            let aside = self.free_path(path, 1)?;
            return fs::rename(path, aside).map_err(Error::file("rename", path));
        }
        let tree = self.find_registered(path, branch)?;
        if let Some(tip) = self.branch_tip(branch)?.filter(|tip| tip != commit)
            && self.only_on(&tip, branch)? > 0
        {
            return Err(Error::BranchExists { branch: branch.to_owned(), commit: tip });
        }
        // Git writes the index when all files are there: without one it was cut off.
        if !tree.place.git_dir.join("index").exists() {
            return Ok(());
        }
        tree.repair_link()?;
        let is_there = |file: &String| path.join(file).symlink_metadata().is_ok();
        if !tree.uncommitted_paths()?.iter().any(is_there) {
            return Ok(());
        }
        let head = tree.head()?;
        tree.call(&["update-ref", "--no-deref", "HEAD", &head]).run()?;
        let aside = self.free_path(path, 1)?;
        fs::rename(path, &aside).map_err(Error::file("rename", path))?;
        tree.update_path(aside)
    }

    /// Returns whether a directory is what is left of a worktree that git was told to forget.
    fn was_ours(&self, path: &Path) -> bool {
        let link = read_regular_or_empty(&path.join(".git")).unwrap_or_default();
        let target = link.strip_prefix(b"gitdir: ").unwrap_or_default();
        let worktrees = self.common_dir().join("worktrees");
        Path::new(std::ffi::OsStr::from_bytes(target)).starts_with(worktrees)
    }

    /// Takes the branch of an earlier worktree of a job away; commits that only it holds get
    /// the name of a reference.
    pub(crate) fn retire_branch(&self, branch: &str, tip: &str) -> Result<(), Error> {
        let is_on_it =
            |tree: &WorktreeInfo| !tree.is_gone && tree.branch.as_deref() == Some(branch);
        if self.worktrees()?.iter().any(is_on_it) {
            let (branch, commit) = (branch.to_owned(), tip.to_owned());
            return Err(Error::BranchExists { branch, commit });
        }
        if self.only_on(tip, branch)? > 0 {
            let snapshot = snapshot_ref(branch);
            let reference = format!("{}branch", snapshot.trim_end_matches("snapshot"));
            self.record_tip(tip, &reference, 2)?;
        }
        let name = format!("refs/heads/{branch}");
        self.call(&["update-ref", "-d", &name, tip]).durable().run()?;
        Ok(())
    }

    /// Returns how many commits can be reached from a branch's tip and by no other name that
    /// stays.
    fn only_on(&self, tip: &str, branch: &str) -> Result<usize, Error> {
        let own = format!("--exclude=refs/heads/{branch}");
        // What holds the last state of a worktree is replaced with every step.
        let passing = format!("--exclude={}", snapshot_ref(branch));
        self.held_by_none(tip, &[&own, &passing])
    }

    /// Returns how many commits can be reached from a commit and by no name.
    fn held_by_none(&self, commit: &str, except: &[&str]) -> Result<usize, Error> {
        // A branch that is deleted while git reads the names, as that of another item may be
        // when it is merged, would be an error.
        let call = self.call(&["rev-list", "--ignore-missing", "--count", commit, "--not"]);
        let text = call.args(except).args(["--glob=refs/*"]).read_only().run_text()?;
        text.parse().map_err(|_| Error::Unexpected { command: "rev-list".to_owned() })
    }
}

/// Returns the numbers that are tried in a name: that of the attempt, then higher ones.
fn numbers(attempt: u32) -> std::ops::Range<u32> {
    attempt..attempt.saturating_add(NAMES)
}

/// Returns whether a worktree is a slot of the job whose item a branch is of.
fn is_slot(path: &Path, branch: &str) -> bool {
    let name = |path: &Path| path.file_name()?.to_str().map(ToOwned::to_owned);
    let job = branch.split('/').nth(1);
    let is_of_job = path.parent().and_then(name).as_deref() == job;
    is_of_job && name(path).is_some_and(|name| name.parse::<AgentId>().is_ok())
}
