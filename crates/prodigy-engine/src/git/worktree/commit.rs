//! Committing what a step left uncommitted.

use std::{
    fs,
    os::unix::{
        ffi::{OsStrExt as _, OsStringExt as _},
        fs::MetadataExt as _,
    },
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::git::{
    Error, Worktree, command::GitCommand, index, merge::conflict_markers,
    repo::with_fallback_committer,
};

/// The most files that are committed without anybody asking for these very files.
const MOST_FILES: usize = 1_000;

/// The most bytes that are committed without anybody asking for these very files.
const MOST_BYTES: u64 = 50 << 20;

/// A file that differs from the commit that is checked out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UncommittedFile {
    /// Its path in the worktree.
    pub path: PathBuf,
    /// Set if an unfinished merge has left it in conflict.
    is_unmerged: bool,
    /// Tells whether it was written to since; `None` if it is gone.
    stamp: Option<FileStamp>,
}

/// The facts by which a file that was written to is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct FileStamp {
    inode: u64,
    size: u64,
    mode: u32,
    changed: (i64, i64),
    is_dir: bool,
}

/// The files that one commit is to hold.
#[derive(Clone, Copy, Debug, Default)]
pub struct CommitScope<'a> {
    /// Files that were uncommitted before and stay so, unless they were written to since.
    pub before: &'a [UncommittedFile],
    /// Paths that belong to the worktree and not to the work.
    pub kept: &'a [String],
}

/// The end of an attempt to commit what was left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitResult {
    /// There was nothing to commit.
    Nothing,
    /// The new commit.
    Made(String),
    /// It was not committed, and why.
    Refused(String),
}

impl Worktree {
    /// Returns the files that differ from the commit that is checked out, ignored files left out.
    pub fn uncommitted_files(&self) -> Result<Vec<UncommittedFile>, Error> {
        let args = ["status", "--porcelain", "-z", "--no-renames", "--untracked-files=all"];
        self.verify_integrity()?;
        // Looking into submodules would run what their own settings say.
        let fields =
            self.call(&args).args(["--ignore-submodules=dirty"]).read_only().run_fields()?;
        // Of a file that is only staged, and gone since, there is nothing to commit.
        let is_there = |field: &Vec<u8>| !field.starts_with(b"AD");
        let file = |field: Vec<u8>| {
            let path = field.get(3..).unwrap_or_default().to_owned();
            let is_unmerged = matches!(field.get(..2), Some(b"DD" | b"AA" | [b'U', _] | [_, b'U']));
            let path = PathBuf::from(std::ffi::OsString::from_vec(path));
            let stamp = FileStamp::of(&self.path().join(&path));
            UncommittedFile { path, is_unmerged, stamp }
        };
        Ok(fields.into_iter().filter(is_there).map(file).collect())
    }

    /// Commits what is uncommitted, as far as `scope` says and unless it is too much.
    ///
    /// The index is not written if there is nothing to commit.
    pub fn commit_uncommitted(
        &self,
        message: &str,
        scope: CommitScope<'_>,
    ) -> Result<CommitResult, Error> {
        let all = self.uncommitted_files()?;
        let is_merging = self.place.git_dir.join("MERGE_HEAD").exists();
        // A merge is committed as a whole.
        let is_wanted = |file: &&UncommittedFile| is_merging || scope.holds(file);
        let wanted: Vec<_> = all.iter().filter(is_wanted).collect();
        if wanted.is_empty() && !is_merging {
            return Ok(CommitResult::Nothing);
        }
        if let Some(reason) = self.refusal(&wanted) {
            return Ok(CommitResult::Refused(reason));
        }
        if is_merging || wanted.len() == all.len() {
            let made = self.commit_all(message)?;
            return Ok(made.map_or(CommitResult::Nothing, CommitResult::Made));
        }
        self.commit_files(&wanted, message)
    }

    /// Returns why files are not committed, if they are not.
    fn refusal(&self, files: &[&UncommittedFile]) -> Option<String> {
        let bytes: u64 = files.iter().filter_map(|file| file.stamp).map(|stamp| stamp.size).sum();
        if files.len() > MOST_FILES {
            let count = files.len();
            return Some(format!(
                "{count} files are more than the {MOST_FILES} that are committed automatically"
            ));
        }
        if bytes > MOST_BYTES {
            let (megabytes, most) = (bytes >> 20, MOST_BYTES >> 20);
            return Some(format!(
                "{megabytes} MB are more than the {most} MB that are committed automatically"
            ));
        }
        let has_markers = |file: &&&UncommittedFile| {
            let content = fs::read(self.path().join(&file.path));
            file.is_unmerged
                && content
                    .is_ok_and(|content| !conflict_markers::conflict_markers(&content).is_empty())
        };
        let open = files.iter().find(has_markers)?;
        Some(format!("`{}` has conflict markers of an unfinished merge", open.path.display()))
    }

    /// Commits some of the files that differ, and leaves the others as they are.
    fn commit_files(
        &self,
        files: &[&UncommittedFile],
        message: &str,
    ) -> Result<CommitResult, Error> {
        self.remove_locks()?;
        // Git would look into a repository inside the worktree, with settings of its own.
        let is_plain = |file: &&&UncommittedFile| file.stamp.is_none_or(|stamp| !stamp.is_dir);
        let mut paths = Vec::new();
        for file in files.iter().filter(is_plain) {
            paths.extend(file.path.as_os_str().as_bytes());
            paths.push(0);
        }
        if paths.is_empty() {
            return Ok(CommitResult::Nothing);
        }
        let before = self.head()?;
        with_paths(self.call(&["add", "--all", "--sparse"]), &paths).run()?;
        let args = ["commit", "--quiet", "--no-verify", "--no-gpg-sign", "--no-status", "--only"];
        let rest = ["--allow-empty-message", "--cleanup=verbatim", "--message", message];
        let call = self.call(&args).args(rest);
        let call =
            if self.repo.check_committer().is_ok() { call } else { with_fallback_committer(call) };
        // It refuses to commit nothing.
        with_paths(call, &paths).accept_codes(&[1]).run()?;
        let head = self.head()?;
        Ok(if head == before { CommitResult::Nothing } else { CommitResult::Made(head) })
    }

    /// Commits everything that is not ignored; returns `None` if there is nothing to commit.
    ///
    /// No hooks run and nothing is signed: nobody is there to type a passphrase.
    pub fn commit_all(&self, message: &str) -> Result<Option<String>, Error> {
        self.verify_integrity()?;
        self.remove_locks()?;
        let (index, hash) = (self.place.git_dir.join("index"), self.head()?.len() / 2);
        index::remove_nested_repos(|args| self.call(args), &index, self.path(), hash)?;
        self.call(&["add", "--all", "--sparse"]).durable().run()?;
        let diff =
            self.call(&["diff-index", "--cached", "--quiet", "HEAD", "--"]).accept_codes(&[1]);
        let is_merging = self.place.git_dir.join("MERGE_HEAD").exists();
        if diff.run()?.status == 0 && !is_merging {
            return Ok(None);
        }
        let args = ["commit", "--quiet", "--no-verify", "--no-gpg-sign", "--no-status"];
        let rest = ["--allow-empty-message", "--cleanup=verbatim", "--file=-"];
        let call = self.call(&args).args(rest).stdin(message).durable();
        let call =
            if self.repo.check_committer().is_ok() { call } else { with_fallback_committer(call) };
        call.run()?;
        self.head().map(Some)
    }
}

/// Gives a call the paths that it is about, each ended by a NUL byte.
fn with_paths<'a>(call: GitCommand<'a>, paths: &[u8]) -> GitCommand<'a> {
    let call = call.args(["--pathspec-from-file=-", "--pathspec-file-nul"]);
    call.env("GIT_LITERAL_PATHSPECS", "1").stdin(paths).durable()
}

impl CommitScope<'_> {
    fn holds(&self, file: &UncommittedFile) -> bool {
        let is_kept = |path: &String| file.path.starts_with(Path::new(path.trim_end_matches('/')));
        // Of a repository inside the worktree a commit would hold no file.
        let is_repository = file.path.as_os_str().as_bytes().ends_with(b"/");
        !is_repository && !self.before.contains(file) && !self.kept.iter().any(is_kept)
    }
}

impl FileStamp {
    fn of(path: &Path) -> Option<Self> {
        let found = path.symlink_metadata().ok()?;
        Some(Self {
            inode: found.ino(),
            size: if found.is_file() { found.len() } else { 0 },
            mode: found.mode(),
            changed: (found.ctime(), found.ctime_nsec()),
            is_dir: found.is_dir(),
        })
    }
}
