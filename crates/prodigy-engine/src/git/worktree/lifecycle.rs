//! Making, finding and removing the worktrees of jobs.
//!
//! We never call `git worktree prune`: it would also forget worktrees of the
//! user's that are out of reach for the moment, such as those on another disk.

use std::{
    ffi::OsString,
    fs::{self, DirBuilder},
    io,
    os::unix::{
        ffi::{OsStrExt as _, OsStringExt as _},
        fs::DirBuilderExt as _,
    },
    path::{Path, PathBuf},
};

use super::{blocks_on_open, remove};
use crate::git::{
    Error, Repo, Worktree,
    command::{GitDirs, display_path},
    isolation::isolated_git_dir::{
        isolated_git_dir_path, read_regular_or_empty, remove_isolated_dirs_of_branch,
    },
    locks::RepoLock,
};

impl Repo {
    /// Makes a worktree on a new branch that starts at `commit`.
    ///
    /// The remains of an interrupted earlier call are used or replaced. Those of an earlier
    /// worktree of the job are moved out of the way: a directory with files that are not
    /// committed to another name, commits that only the branch holds to a reference. A branch
    /// that has gone on in a worktree that is still there, or a directory that is something
    /// else, is refused.
    pub fn create_job_worktree(
        &self,
        path: &Path,
        branch: &str,
        commit: &str,
    ) -> Result<Worktree, Error> {
        let commit = self.resolve_commit(commit)?;
        let path = make_parent(path)?;
        let _lock = RepoLock::acquire(self.common_dir())?;
        self.move_old_worktree(&path, branch, &commit)?;
        self.remove_stale_worktree(&path)?;
        let existing = self.branch_tip(branch)?;
        if let Some(old) = existing.as_ref().filter(|existing| **existing != commit) {
            self.retire_branch(branch, old)?;
        }
        let add = self.call(&["worktree", "add", "--quiet"]).durable();
        let add = match existing.filter(|existing| *existing == commit) {
            Some(_) => add.args([path.as_os_str(), branch.as_ref()]),
            None => {
                add.args(["--no-track", "-b", branch]).args([path.as_os_str(), commit.as_ref()])
            }
        };
        add.run()?;
        self.find_registered(&path, branch)
    }

    /// Opens the worktree of a job, making its directory again from the branch if it is gone.
    pub fn open_job_worktree(&self, path: &Path, branch: &str) -> Result<Worktree, Error> {
        let path = make_parent(path)?;
        let _lock = RepoLock::acquire(self.common_dir())?;
        // What a link leads to is not ours.
        let is_there = path.symlink_metadata().is_ok_and(|found| found.is_dir());
        if is_there && self.admin_dir(&path)?.is_some() {
            let tree = self.find_registered(&path, branch)?;
            tree.repair_link()?;
            return Ok(tree);
        }
        if self.branch_tip(branch)?.is_none() {
            return Err(Error::NoSuchBranch { branch: branch.to_owned() });
        }
        self.remove_stale_worktree(&path)?;
        let add = self.call(&["worktree", "add", "--quiet"]).durable();
        add.args([path.as_os_str(), branch.as_ref()]).run()?;
        self.find_registered(&path, branch)
    }

    /// Removes a job's worktree and, unless it is to be kept, its branch.
    ///
    /// Commits are never dropped: the branch goes only if a tag, a remote branch or a
    /// branch that is not of a job contains all of it. Files that were not committed do
    /// go. A removal that was cut off is finished by the next one.
    pub fn remove_job_worktree(
        &self,
        path: &Path,
        branch: &str,
        keep_branch: bool,
    ) -> Result<(), Error> {
        let path = canonical_target(path)?;
        {
            let _lock = RepoLock::acquire(self.common_dir())?;
            move_to_trash(&path)?;
            self.forget(&path)?;
            remove(&isolated_git_dir_path(&path))?;
            remove_isolated_dirs_of_branch(self, branch)?;
            if !keep_branch {
                self.delete_branch_if_contained(branch)?;
                self.remove_branch_dir_marker(branch);
            }
        }
        empty_trash(path.parent().unwrap_or(&path))
    }

    pub(crate) fn delete_branch_if_contained(&self, branch: &str) -> Result<(), Error> {
        let Some(tip) = self.branch_tip(branch)? else { return Ok(()) };
        if self.count_unmerged(&[&tip])? > 0 {
            return Ok(());
        }
        let name = format!("refs/heads/{branch}");
        self.call(&["update-ref", "-d", &name, &tip]).durable().run()?;
        let snapshot = snapshot_ref(branch);
        self.call(&["update-ref", "-d", &snapshot]).run()?;
        Ok(())
    }

    /// Makes room for a worktree where one of ours was begun or has lost its files.
    pub(crate) fn remove_stale_worktree(&self, path: &Path) -> Result<(), Error> {
        let is_ours = self.admin_dir(path)?.is_some();
        let is_empty = || fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
        if path.symlink_metadata().is_ok() && !is_ours && !is_empty() {
            return Err(Error::PathTaken { path: path.to_owned() });
        }
        if is_ours {
            // Whatever the cut-off call had checked out comes from the commit and is made again.
            if let Some(trash) = move_to_trash(path)? {
                fs::remove_dir_all(&trash).map_err(Error::file("remove", &trash))?;
            }
            self.forget(path)?;
        }
        Ok(())
    }

    /// Removes pipes that an agent put where git looks for the state of worktrees: git would
    /// wait for them whichever worktree it is asked about.
    pub(crate) fn remove_pipes(&self) -> Result<(), Error> {
        let list = self.common_dir().join("worktrees");
        for entry in fs::read_dir(&list).into_iter().flatten().flatten() {
            for name in ["HEAD", "gitdir", "commondir", "locked"] {
                let path = entry.path().join(name);
                if fs::metadata(&path).is_ok_and(|found| blocks_on_open(found.file_type())) {
                    remove(&path)?;
                }
            }
        }
        Ok(())
    }

    /// Takes a worktree whose directory is gone off git's list.
    fn forget(&self, path: &Path) -> Result<(), Error> {
        if let Some(admin) = self.admin_dir(path)? {
            // Git refuses to remove one that it was still making, and leaves our own
            // temporary files behind; the directory is all there is to it.
            fs::remove_dir_all(&admin).map_err(Error::file("remove", &admin))?;
            // Git removes the directory of all worktrees with the last one; so do we.
            fs::remove_dir(self.common_dir().join("worktrees")).ok();
        }
        Ok(())
    }

    /// Returns a worktree that git has on its list.
    pub(crate) fn find_registered(&self, path: &Path, branch: &str) -> Result<Worktree, Error> {
        let git_dir = self
            .admin_dir(path)?
            .ok_or_else(|| Error::Unexpected { command: "worktree add".to_owned() })?;
        let place = GitDirs {
            git_dir,
            common_dir: self.common_dir().to_owned(),
            work_tree: path.to_owned(),
        };
        Ok(Worktree::new(self.clone(), place, branch))
    }

    /// Returns where git keeps a worktree's state.
    ///
    /// The worktree's own `.git` file says so too, but agents can write to that.
    pub(crate) fn admin_dir(&self, path: &Path) -> Result<Option<PathBuf>, Error> {
        let list = self.common_dir().join("worktrees");
        let entries = match fs::read_dir(&list) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::file("read", &list)(error)),
        };
        for entry in entries {
            let admin = entry.map_err(Error::file("read", &list))?.path();
            let Ok(text) = read_regular_or_empty(&admin.join("gitdir")) else { continue };
            let text = text.strip_suffix(b"\n").unwrap_or(&text);
            let link = admin.join(std::ffi::OsStr::from_bytes(text));
            let Some(tree) = link.parent() else { continue };
            let is_same = tree == path || tree.canonicalize().is_ok_and(|tree| tree == path);
            if is_same {
                return Ok(Some(admin));
            }
        }
        Ok(None)
    }
}

/// Returns the name of the reference that keeps a job's last snapshot alive.
pub(crate) fn snapshot_ref(branch: &str) -> String {
    let job = branch.strip_prefix("prodigy/").unwrap_or(branch);
    format!("refs/prodigy/{}/snapshot", job.strip_suffix("/job").unwrap_or(job))
}

/// Makes the directories above a worktree, for us alone, and returns its path without symbolic links.
pub(crate) fn make_parent(path: &Path) -> Result<PathBuf, Error> {
    let path = std::path::absolute(path).map_err(Error::file("resolve", path))?;
    if let Some(parent) = path.parent() {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(parent);
        made.map_err(Error::file("create", parent))?;
    }
    canonical_target(&path)
}

/// Returns a path with its parent's symbolic links resolved; the path itself need not exist.
fn canonical_target(path: &Path) -> Result<PathBuf, Error> {
    let path = std::path::absolute(path).map_err(Error::file("resolve", path))?;
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(path) };
    match parent.canonicalize() {
        Ok(parent) => Ok(parent.join(name)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(path),
        Err(error) => Err(Error::file("resolve", parent)(error)),
    }
}

/// The prefix of the names of directories that are about to be deleted.
const TRASH: &str = ".trash-";

/// Deletes what was moved aside in a directory, by this call or by one that was cut off.
fn empty_trash(directory: &Path) -> Result<(), Error> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::file("read", directory)(error)),
    };
    for entry in entries {
        let entry = entry.map_err(Error::file("read", directory))?;
        if entry.file_name().as_bytes().starts_with(TRASH.as_bytes()) {
            // What cannot be deleted now, because something still writes to it, stays trash:
            // the next one to look deletes it.
            fs::remove_dir_all(entry.path()).ok();
        }
    }
    Ok(())
}

/// Renames a directory so that its name is free at once, and returns its new name.
#[expect(clippy::disallowed_methods, reason = "nothing is stored: the directory is thrown away")]
pub(crate) fn move_to_trash(path: &Path) -> Result<Option<PathBuf>, Error> {
    let parent = path.parent().unwrap_or(path);
    if path.symlink_metadata().is_err() {
        return Ok(None);
    }
    let trash = tempfile::Builder::new().prefix(TRASH).tempdir_in(parent);
    let trash = trash.map_err(Error::file("write to", parent))?.keep();
    fs::rename(path, trash.join("tree")).map_err(Error::file("rename", path))?;
    Ok(Some(trash))
}

/// A working tree of a repository, as git lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorktreeInfo {
    /// Where its files are.
    pub path: PathBuf,
    /// The commit that is checked out.
    pub head: String,
    /// The branch that is checked out; `None` if detached.
    pub branch: Option<String>,
    /// Set if its files are gone.
    pub is_gone: bool,
}

impl Repo {
    /// Returns the working trees of the repository, the main one first.
    pub fn worktrees(&self) -> Result<Vec<WorktreeInfo>, Error> {
        let fields =
            self.call(&["worktree", "list", "--porcelain", "-z"]).read_only().run_fields()?;
        let mut worktrees = Vec::new();
        for entry in fields.split(Vec::is_empty) {
            let value = |name: &[u8]| entry.iter().find_map(|field| field.strip_prefix(name));
            let Some(path) = value(b"worktree ") else { continue };
            worktrees.push(WorktreeInfo {
                path: PathBuf::from(OsString::from_vec(path.to_vec())),
                head: display_path(value(b"HEAD ").unwrap_or_default()),
                branch: value(b"branch refs/heads/").map(display_path),
                is_gone: value(b"prunable").is_some(),
            });
        }
        Ok(worktrees)
    }

    /// Returns the worktree of a job if it is there, and changes nothing.
    pub fn find_job_worktree(&self, path: &Path, branch: &str) -> Result<Option<Worktree>, Error> {
        let Ok(path) = path.canonicalize() else { return Ok(None) };
        if self.admin_dir(&path)?.is_none() {
            return Ok(None);
        }
        self.find_registered(&path, branch).map(Some)
    }

    /// Returns the branches of all jobs, sorted.
    pub fn job_branches(&self) -> Result<Vec<String>, Error> {
        let list = ["for-each-ref", "--format=%(refname)", "refs/heads/prodigy/"];
        let text = self.call(&list).read_only().run_text()?;
        let branch = |name: &str| name.strip_prefix("refs/heads/").map(ToOwned::to_owned);
        Ok(text.lines().filter_map(branch).collect())
    }

    /// Returns how many commits of `tips` no branch or tag contains, the branches of jobs left out.
    pub fn count_unmerged(&self, tips: &[&str]) -> Result<usize, Error> {
        let mut commits = Vec::new();
        for tip in tips {
            commits.push(self.resolve_commit(tip)?);
        }
        self.count_unmerged_commits(&commits)
    }

    /// Returns a branch of the user's, local or of a remote repository, that contains a commit.
    pub fn branch_with(&self, commit: &str) -> Result<Option<String>, Error> {
        let commit = self.resolve_commit(commit)?;
        let contains = format!("--contains={commit}");
        let args = ["for-each-ref", "--format=%(refname)", &contains, "refs/heads", "refs/remotes"];
        let text = self.call(&args).read_only().run_text()?;
        let branch = |name: &str| {
            if let Some(local) = name.strip_prefix("refs/heads/") {
                return (!local.starts_with("prodigy/")).then(|| local.to_owned());
            }
            let remote = name.strip_prefix("refs/remotes/")?;
            let (_, branch) = remote.split_once('/')?;
            let is_a_branch = !branch.starts_with("prodigy/") && branch != "HEAD";
            is_a_branch.then(|| remote.to_owned())
        };
        Ok(text.lines().find_map(branch))
    }

    /// Returns how many commits can be reached from `commits` and not from `tip`.
    pub fn count_missing_from(&self, commits: &[String], tip: &str) -> Result<usize, Error> {
        let mut wanted = format!("^{tip}\n");
        for commit in commits {
            wanted.extend([commit, "\n"]);
        }
        let call = self.call(&["rev-list", "--count", "--stdin"]).stdin(wanted).read_only();
        let unexpected = || Error::Unexpected { command: "rev-list".to_owned() };
        call.run_text()?.parse().map_err(|_| unexpected())
    }

    /// Does what [`Self::count_unmerged`] does, for the full names of commits.
    pub fn count_unmerged_commits(&self, commits: &[String]) -> Result<usize, Error> {
        if commits.is_empty() {
            return Ok(0);
        }
        let call = self.call(&["rev-list", "--count"]).args(commits);
        let others = ["--not", "--exclude=prodigy/*", "--branches", "--tags", "--remotes"];
        let call = call.args(others).read_only();
        let unexpected = || Error::Unexpected { command: "rev-list".to_owned() };
        call.run_text()?.parse().map_err(|_| unexpected())
    }
}
