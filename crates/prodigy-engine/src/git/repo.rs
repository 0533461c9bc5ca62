//! A repository: where it is and what is in it.

use std::{
    ffi::OsString,
    os::unix::ffi::OsStringExt as _,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use prodigy_core::ids::{RepoName, safe_name};

use super::{
    Error, Git,
    command::{GitCommand, GitDirs, display_path},
    isolation::isolated_git_dir::FrozenConfig,
    worktree::is_hash,
};

/// A repository with a working tree and at least one commit.
///
/// Whichever of its working trees it was found from, its jobs are the same; the one that it
/// was found from is where the user works: where a job starts from and what is watched.
#[derive(Clone, Debug)]
pub struct Repo {
    pub(super) git: Git,
    pub(super) main: GitDirs,
    /// The working tree that the user works in.
    pub(super) here: GitDirs,
    /// The remembered settings, for all that use the repository.
    pub(super) frozen: Arc<OnceLock<FrozenConfig>>,
}

/// The branch and commit that the user has checked out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The branch; `None` on a detached HEAD.
    pub branch: Option<String>,
    /// The commit.
    pub commit: String,
}

/// One commit, in a list of commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitLine {
    /// The commit's full hash.
    pub commit: String,
    /// The first line of its message.
    pub subject: String,
}

impl Repo {
    /// Finds the repository that `path` is in, with the process's own environment.
    pub fn discover(path: &Path) -> Result<Self, Error> {
        Self::discover_with(Git::default(), path)
    }

    /// Finds the repository that `path` is in.
    pub fn discover_with(git: Git, path: &Path) -> Result<Self, Error> {
        git.version()?;
        let path = std::path::absolute(path).map_err(Error::file("resolve", path))?;
        if !path.is_dir() {
            return Err(Error::NotARepository { path });
        }
        let main = main_tree(&git, &path)?;
        let here = main.clone();
        let mut repo = Self { git, main, here, frozen: Arc::default() };
        repo.here = repo.work_tree_around(&path)?;
        let head =
            repo.call(&["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]).accept_codes(&[1]);
        if head.run()?.status == 1 {
            return Err(Error::NoCommits { path: repo.main.work_tree });
        }
        Ok(repo)
    }

    /// Gives every git that is started from here a variable, by which it can be found.
    #[must_use]
    pub fn with_env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.git.set_env(name, value.into());
        self
    }

    /// Returns the main working tree.
    pub fn root(&self) -> &Path {
        &self.main.work_tree
    }

    /// Returns the working tree that the user works in: the main one or a linked one.
    pub fn checkout(&self) -> &Path {
        &self.here.work_tree
    }

    /// Returns the working tree that the user works in, unless it is the main one.
    pub fn linked_checkout(&self) -> Option<&Path> {
        (self.here.git_dir != self.main.git_dir).then_some(self.checkout())
    }

    /// Goes to the working tree that a job was started from, if that is still there.
    pub fn enter_linked_checkout(&mut self, linked: Option<&str>) -> Result<(), Error> {
        let place = linked.map(|path| self.work_tree_at(Path::new(path))).transpose()?.flatten();
        self.here = place.unwrap_or_else(|| self.main.clone());
        Ok(())
    }

    /// Returns the working tree around a path. Those of jobs are none of the user's.
    fn work_tree_around(&self, path: &Path) -> Result<GitDirs, Error> {
        let top = ["rev-parse", "--path-format=absolute", "--show-toplevel"];
        // Inside of `.git` there is no working tree.
        let top = self.git.command(path, &top).accept_codes(&[128]).run()?;
        let place = self.work_tree_at(&path_of(&top.stdout))?.unwrap_or_else(|| self.main.clone());
        let head = std::fs::read(place.git_dir.join("HEAD")).unwrap_or_default();
        let is_of_a_job = head.starts_with(b"ref: refs/heads/prodigy/");
        Ok(if is_of_a_job { self.main.clone() } else { place })
    }

    /// Returns the directory that all working trees share, usually `.git`.
    pub fn common_dir(&self) -> &Path {
        &self.main.common_dir
    }

    /// Returns the repository's name: that of its main working tree, made safe for paths.
    pub fn name(&self) -> String {
        let name = self.root().file_name().unwrap_or_default().to_string_lossy();
        match name.parse::<RepoName>() {
            Ok(name) => name.into(),
            Err(_) => safe_name(&name),
        }
    }

    /// Returns what the user has checked out.
    pub fn head(&self) -> Result<Head, Error> {
        let name =
            self.call_here(&["symbolic-ref", "--quiet", "HEAD"]).accept_codes(&[1]).run_text()?;
        let branch = name.strip_prefix("refs/heads/").map(ToOwned::to_owned);
        let commit = self.call_here(&["rev-parse", "--verify", "HEAD^{commit}"]).run_text()?;
        Ok(Head { branch, commit })
    }

    /// Returns how many files in the user's checkout differ from its last commit.
    pub fn count_uncommitted(&self) -> Result<usize, Error> {
        let args = ["status", "--porcelain", "-z", "--no-renames", "--untracked-files=normal"];
        Ok(self.call_here(&args).read_only().run_fields()?.len())
    }

    /// Returns the commits that `tip` has and `base` has not, newest first.
    pub fn commits_between(&self, base: &str, tip: &str) -> Result<Vec<CommitLine>, Error> {
        let (base, tip) = (self.resolve_commit(base)?, self.resolve_commit(tip)?);
        let format = ["--no-commit-header", "--format=%H %s", "--encoding=UTF-8"];
        let range = format!("{base}..{tip}");
        let text = self.call(&["rev-list"]).args(format).args([range]).run_text()?;
        let line = |line: &str| {
            let (commit, subject) = line.split_once(' ').unwrap_or((line, ""));
            CommitLine { commit: commit.to_owned(), subject: subject.to_owned() }
        };
        Ok(text.lines().map(line).collect())
    }

    /// Returns the paths that differ between two commits.
    pub fn files_changed(&self, base: &str, tip: &str) -> Result<Vec<String>, Error> {
        let (base, tip) = (self.resolve_commit(base)?, self.resolve_commit(tip)?);
        let call = self.call(&["diff-tree", "-r", "-z", "--no-renames", "--name-only"]);
        Ok(call.args([base, tip]).run_fields()?.iter().map(|path| display_path(path)).collect())
    }

    /// Returns what may surprise in a worktree of this repository, one sentence each.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.checkout().join(".gitmodules").exists() {
            warnings.push(
                "the repository has submodules: they are empty in a job's worktree".to_owned(),
            );
        }
        let attributes = std::fs::read(self.checkout().join(".gitattributes")).unwrap_or_default();
        let lfs = String::from_utf8_lossy(&attributes).contains("filter=lfs");
        let installed = || self.setting("filter.lfs.smudge").is_some();
        if lfs && !installed() {
            warnings.push(
                "the repository uses Git LFS, which is not set up here: large files stay pointers"
                    .to_owned(),
            );
        }
        if self.setting("core.sparseCheckout").as_deref() == Some("true") {
            warnings.push(
                "the checkout is sparse: a job's worktree has the same files only".to_owned(),
            );
        }
        if self.check_committer().is_err() {
            warnings.push(
                "git does not know who you are: set `user.name` and `user.email`, or commits of agents fail"
                    .to_owned(),
            );
        }
        warnings
    }

    /// Returns the full hash of a commit by any name that git knows.
    pub fn resolve_commit(&self, name: &str) -> Result<String, Error> {
        if name.contains('\0') {
            return Err(Error::NoSuchCommit { name: name.to_owned() });
        }
        let spec = format!("{name}^{{commit}}");
        let args = ["rev-parse", "--verify", "--quiet", "--end-of-options", &spec];
        let output = self.call(&args).accept_codes(&[1, 128]).run()?;
        let text = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
        let usable = output.status == 0 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if usable { Ok(text) } else { Err(Error::NoSuchCommit { name: name.to_owned() }) }
    }

    /// Returns the full hash of a commit; what looks like one is believed.
    pub(super) fn full_commit(&self, name: &str) -> Result<String, Error> {
        if is_hash(name) { Ok(name.to_owned()) } else { self.resolve_commit(name) }
    }

    /// Returns where a branch stands, or `None` if it is not there.
    pub fn branch_tip(&self, branch: &str) -> Result<Option<String>, Error> {
        if branch.contains('\0') {
            return Ok(None);
        }
        let name = format!("refs/heads/{branch}");
        let call =
            self.call(&["show-ref", "--verify", "--hash", "--", &name]).accept_codes(&[1, 128]);
        let output = call.run()?;
        let text = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
        Ok((output.status == 0).then_some(text))
    }

    /// Returns whether a branch can have a name.
    pub fn is_branch_name(&self, branch: &str) -> Result<bool, Error> {
        if branch.contains('\0') || branch.starts_with('-') || branch == "HEAD" {
            return Ok(false);
        }
        let name = format!("refs/heads/{branch}");
        Ok(self.call(&["check-ref-format", &name]).accept_codes(&[1]).run()?.status == 0)
    }

    /// Returns whether `older` is `newer` or one of its ancestors.
    pub fn is_ancestor(&self, older: &str, newer: &str) -> Result<bool, Error> {
        let (older, newer) = (self.resolve_commit(older)?, self.resolve_commit(newer)?);
        let call = self.call(&["merge-base", "--is-ancestor", &older, &newer]).accept_codes(&[1]);
        Ok(call.run()?.status == 0)
    }

    /// Returns an error if git cannot tell who commits.
    pub(super) fn check_committer(&self) -> Result<(), Error> {
        self.call(&["var", "GIT_AUTHOR_IDENT"]).run()?;
        self.call(&["var", "GIT_COMMITTER_IDENT"]).run()?;
        Ok(())
    }

    /// Returns a setting's last value, if it is set.
    pub(super) fn setting(&self, name: &str) -> Option<String> {
        self.call(&["config", "--get", name]).run_text().ok()
    }

    /// Starts a call in the working tree that the user works in.
    pub(super) fn call_here<'a>(&'a self, args: &[&str]) -> GitCommand<'a> {
        self.git.command_in(&self.here, args)
    }

    /// Starts a call in the main working tree.
    pub(super) fn call<'a>(&'a self, args: &[&str]) -> GitCommand<'a> {
        self.git.command_in(&self.main, args)
    }
}

/// Gives a call a made-up committer, so that results are not lost for want of a name.
pub(super) fn with_fallback_committer(call: GitCommand<'_>) -> GitCommand<'_> {
    call.env("GIT_AUTHOR_NAME", "prodigy")
        .env("GIT_AUTHOR_EMAIL", "prodigy@localhost")
        .env("GIT_COMMITTER_NAME", "prodigy")
        .env("GIT_COMMITTER_EMAIL", "prodigy@localhost")
}

/// Finds the main working tree from any place in a repository.
fn main_tree(git: &Git, path: &Path) -> Result<GitDirs, Error> {
    let flags = ["rev-parse", "--is-bare-repository", "--is-inside-work-tree"];
    let common = ["--path-format=absolute", "--git-common-dir"];
    let output =
        git.command(path, &flags).args(common).run().map_err(|error| refused(error, path))?;
    // The path comes last and alone: it may contain line ends itself.
    let mut parts = output.stdout.splitn(3, |byte| *byte == b'\n');
    let is_bare = parts.next() == Some(b"true");
    let is_inside = parts.next() == Some(b"true");
    let common_dir = path_of(parts.next().unwrap_or_default());
    let git_dir = git.command(path, &["rev-parse", "--path-format=absolute", "--git-dir"]).run()?;
    let is_main = path_of(&git_dir.stdout) == common_dir;
    if is_bare && is_main {
        return Err(Error::Bare { path: common_dir });
    }
    let work_tree = if is_main && is_inside {
        let top = git.command(path, &["rev-parse", "--path-format=absolute", "--show-toplevel"]);
        path_of(&top.run()?.stdout)
    } else {
        first_worktree(git, path)?
    };
    let canonical =
        |path: PathBuf| path.canonicalize().map_err(Error::file("resolve", path.clone()));
    let common_dir = canonical(common_dir)?;
    Ok(GitDirs { git_dir: common_dir.clone(), common_dir, work_tree: canonical(work_tree)? })
}

/// Returns the main working tree as seen from a linked one.
fn first_worktree(git: &Git, path: &Path) -> Result<PathBuf, Error> {
    let fields = git.command(path, &["worktree", "list", "--porcelain", "-z"]).run_fields()?;
    let mut first = fields.iter().take_while(|field| !field.is_empty());
    let unexpected = || Error::Unexpected { command: "worktree list".to_owned() };
    let main = first.next().and_then(|field| field.strip_prefix(b"worktree "));
    let main = PathBuf::from(OsString::from_vec(main.ok_or_else(unexpected)?.to_vec()));
    if first.any(|field| field == b"bare") { Err(Error::Bare { path: main }) } else { Ok(main) }
}

/// Returns a path that git printed, without the line's end.
fn path_of(bytes: &[u8]) -> PathBuf {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    PathBuf::from(OsString::from_vec(bytes.to_vec()))
}

/// Tells "there is no repository" from "git does not want to work in this one".
fn refused(error: Error, path: &Path) -> Error {
    let Error::Failed { message, .. } = error else { return error };
    if path.ancestors().any(|above| above.join(".git").exists()) {
        return Error::Refused { path: path.to_owned(), message };
    }
    Error::NotARepository { path: path.to_owned() }
}

impl Repo {
    /// Returns the mail address in the configuration.
    pub fn user_email(&self) -> Option<String> {
        self.setting("user.email").filter(|email| !email.trim().is_empty())
    }

    /// Returns the key that commits are signed with, if they are signed with keys of ssh: the
    /// path of a file, or the public key itself.
    pub fn ssh_signing_key(&self) -> Option<String> {
        let format = self.setting("gpg.format")?;
        if format != "ssh" {
            return None;
        }
        // A path may begin with `~`, which git resolves.
        let call = self.call(&["config", "--type=path", "--get", "user.signingkey"]);
        call.run_text().ok().filter(|key| !key.trim().is_empty())
    }
}
