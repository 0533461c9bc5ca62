//! Keeping what successful work left outside of its commits.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use prodigy_core::{event::WorktreeSnapshot, mask::Mask};

use super::patch::{exclude_pathspec, patch_between};
use crate::git::{
    ChangedFile, Error, Patch, Repo, Worktree, WorktreeSlot, WorktreeStatus,
    command::{GitCommand, display_path},
    index,
    isolation::isolated_git_dir::read_regular_or_empty,
    repo::with_fallback_committer,
};

/// The name and the message of a commit that keeps files.
#[derive(Clone, Copy, Debug)]
pub struct KeepRequest<'a> {
    /// The reference that gets the commit; what it held before is replaced.
    pub reference: &'a str,
    /// The message of the commit.
    pub message: &'a str,
    /// Secrets that the patch must not show.
    pub mask: &'a Mask,
}

/// Files that were uncommitted and are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptFiles {
    /// Their paths, as people see them.
    pub paths: BTreeSet<String>,
    /// The changes as a patch; `None` if they are too large.
    pub patch: Option<Patch>,
}

impl WorktreeSlot {
    /// Keeps what an attempt left uncommitted as a commit on top of the one that is checked out.
    ///
    /// Repositories inside the worktree are left out: git would keep no file of them.
    pub fn keep_uncommitted(
        &self,
        left: &WorktreeStatus,
        request: KeepRequest<'_>,
    ) -> Result<Option<KeptFiles>, Error> {
        let head = &left.head;
        self.shelter.rewrite_config()?;
        let index = match self.copy_of_index() {
            Err(Error::Failed { .. }) => self.write_index(head)?,
            other => other?,
        };
        let call = |args: &[&str]| self.shelter.call(args).index(&index);
        index::remove_nested_repos(call, &index, self.tree.path(), head.len() / 2)?;
        let kept = not_ignored(call, &self.kept)?;
        let repositories = left.uncommitted.iter().filter(|file| file.is_repository());
        let repositories = repositories.map(|file| file.path.trim_end_matches('/'));
        let mut paths = vec![".".to_owned()];
        paths.extend(kept.iter().map(String::as_str).chain(repositories).map(exclude_pathspec));
        call(&["add", "--all", "--sparse", "--"]).args(&paths).durable().run()?;
        let files = call(&["write-tree"]).durable().run_text()?;
        self.tree.repo.keep_tree(self.tree.path(), head, &files, request)
    }
}

/// Returns those of the paths that git does not ignore.
///
/// Git refuses to leave out by name what it ignores anyway.
pub(crate) fn not_ignored<'a>(
    call: impl Fn(&[&str]) -> GitCommand<'a>,
    paths: &[PathBuf],
) -> Result<Vec<String>, Error> {
    let mut paths: Vec<_> = paths.iter().filter_map(|path| path.to_str()).collect();
    if !paths.is_empty() {
        let check =
            call(&["check-ignore", "-z", "--stdin"]).stdin(paths.join("\0")).accept_codes(&[1]);
        let ignored = check.run_fields()?;
        paths.retain(|path| !ignored.iter().any(|one| one == path.as_bytes()));
    }
    Ok(paths.into_iter().map(ToOwned::to_owned).collect())
}

impl ChangedFile {
    /// Returns whether it is a repository inside the worktree that git knows nothing of.
    pub fn is_repository(&self) -> bool {
        self.path.ends_with('/')
    }
}

impl Worktree {
    /// Keeps what is uncommitted as a commit on top of the one that is checked out.
    pub fn keep_uncommitted(&self, request: KeepRequest<'_>) -> Result<Option<KeptFiles>, Error> {
        let now = self.snapshot()?;
        self.repo.keep_tree(self.path(), &now.head, &now.files, request)
    }

    /// Keeps what a worktree had uncommitted when a snapshot of it was taken, if that touches
    /// files of the commit that was checked out.
    pub fn keep_changed(
        &self,
        snapshot: &WorktreeSnapshot,
        request: KeepRequest<'_>,
    ) -> Result<Option<KeptFiles>, Error> {
        let WorktreeSnapshot { head, files, .. } = snapshot;
        let list = ["diff-tree", "-r", "--no-renames", "--diff-filter=MDT", "--name-only", "-z"];
        if self.call(&list).args([head, files]).run_fields()?.is_empty() {
            return Ok(None);
        }
        self.repo.keep_tree(self.path(), head, &self.tree_of(files)?, request)
    }

    /// Returns the commits that somebody made here, left by checking out something else, and
    /// that `head` does not contain: the tip of each line of them.
    ///
    /// The log of the worktree's HEAD tells; without one nothing is found.
    pub fn stray_commits(&self, head: &str) -> Result<Vec<String>, Error> {
        let log = read_regular_or_empty(&self.place.git_dir.join("logs/HEAD"))?;
        let log = String::from_utf8_lossy(&log);
        let (mut made, mut left) = (BTreeSet::new(), Vec::new());
        for line in log.lines() {
            let (hashes, message) = line.split_once('\t').unwrap_or((line, ""));
            let mut hashes = hashes.split(' ');
            let (Some(old), Some(new)) = (hashes.next(), hashes.next()) else { continue };
            if message.starts_with("checkout:") {
                if made.contains(old) && old != head && !left.contains(&old) {
                    left.push(old);
                }
            } else if !message.starts_with("reset:") && !message.starts_with("prodigy:") {
                made.insert(new);
            }
        }
        let mut tips = Vec::new();
        for tip in left {
            if self.repo.count_missing_from(&[tip.to_owned()], head)? > 0 {
                tips.push(tip.to_owned());
            }
        }
        Ok(tips)
    }
}

impl Repo {
    /// Gives stray commits names that begin with `reference`, and returns the names.
    pub fn name_stray_commits(
        &self,
        tips: &[String],
        reference: &str,
    ) -> Result<Vec<String>, Error> {
        let mut names = Vec::new();
        for (number, tip) in tips.iter().enumerate() {
            let name = match number {
                0 => reference.to_owned(),
                _ => format!("{reference}.{}", number + 1),
            };
            self.call(&["update-ref", "--no-deref", &name, tip]).durable().run()?;
            names.push(name);
        }
        Ok(names)
    }

    /// Makes a commit of a tree on top of another commit, gives it a name, and describes it;
    /// `None` if the tree is that of the other commit.
    fn keep_tree(
        &self,
        work_tree: &Path,
        head: &str,
        tree: &str,
        request: KeepRequest<'_>,
    ) -> Result<Option<KeptFiles>, Error> {
        let list = ["diff-tree", "-r", "--no-renames", "--name-only", "-z", head, tree];
        let paths: BTreeSet<String> =
            self.call(&list).run_fields()?.iter().map(|path| display_path(path)).collect();
        if paths.is_empty() {
            return Ok(None);
        }
        let commit = ["commit-tree", "-p", head, "-m", request.message, tree];
        let commit = with_fallback_committer(self.call(&commit)).durable().run_text()?;
        let name = ["update-ref", "--no-deref", request.reference, &commit];
        self.call(&name).durable().run()?;
        let patch = patch_between(self, work_tree, (head, tree), request.mask)?;
        Ok(Some(KeptFiles { paths, patch }))
    }
}
