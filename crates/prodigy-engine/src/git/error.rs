//! Errors of git operations.

use std::{
    borrow::Cow,
    io,
    path::{Path, PathBuf},
};

use crate::process;

/// An error of a git operation.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no repository there or above.
    #[error("`{}` is not in a git repository", path.display())]
    NotARepository {
        /// Where one was looked for.
        path: PathBuf,
    },
    /// The repository has no files to work on.
    #[error("the repository `{}` is bare: it has no working tree to start from", path.display())]
    Bare {
        /// The repository.
        path: PathBuf,
    },
    /// There is nothing a worktree could start from.
    #[error("the repository `{}` has no commits yet", path.display())]
    NoCommits {
        /// The repository.
        path: PathBuf,
    },
    /// There is no git.
    #[error("git is not installed, or not on the `PATH`")]
    GitMissing,
    /// Git lacks `merge-tree --write-tree`.
    #[error("git {found} is too old: git 2.38 or newer is needed")]
    GitTooOld {
        /// The version that is installed.
        found: String,
    },
    /// There is a repository, but git does not want to work in it.
    #[error("git refuses to work in `{}`: {message}", path.display())]
    Refused {
        /// Where.
        path: PathBuf,
        /// The message of git.
        message: String,
    },
    /// Git ended with an error.
    #[error("`git {command}` ended with {status}: {message}")]
    Failed {
        /// The subcommand.
        command: String,
        /// The exit code.
        status: i32,
        /// The message of git.
        message: String,
        /// The lock file that was in its way, and that no program of the job can have left.
        lock: Option<PathBuf>,
    },
    /// Git could not be run to its end.
    #[error("cannot run `git {command}`")]
    Run {
        /// The subcommand.
        command: String,
        /// The cause.
        #[source]
        source: process::Error,
    },
    /// Git printed something that we do not understand.
    #[error("`git {command}` printed something unexpected")]
    Unexpected {
        /// The subcommand.
        command: String,
    },
    /// A file could not be read, written or removed.
    #[error("cannot {action} `{}`", path.display())]
    File {
        /// The action that failed, e.g. `read`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A name does not name a commit.
    #[error("`{name}` is not a commit of this repository")]
    NoSuchCommit {
        /// The name.
        name: String,
    },
    /// A branch is not there.
    #[error("there is no branch `{branch}`")]
    NoSuchBranch {
        /// The branch.
        branch: String,
    },
    /// A checkout whose update was cut off cannot be locked to complete it.
    #[error("the update of your checkout cannot be completed yet: {reason}")]
    CheckoutBusy {
        /// The holder of the lock.
        reason: String,
    },
    /// A branch was deleted and cannot be put back.
    #[error("the branch `{branch}` was deleted, and so was the commit {commit} that it stood at")]
    BranchLost {
        /// The branch.
        branch: String,
        /// Where it stood.
        commit: String,
    },
    /// A worktree is on a branch that has no commit.
    #[error("nothing is checked out in `{}`: its branch has no commit", path.display())]
    NothingCheckedOut {
        /// The worktree.
        path: PathBuf,
    },
    /// A branch cannot have that name.
    #[error("`{branch}` cannot be the name of a branch")]
    BranchName {
        /// The name.
        branch: String,
    },
    /// A branch is there that was to be made.
    #[error("the branch `{branch}` exists already, at commit {commit}")]
    BranchExists {
        /// The branch.
        branch: String,
        /// Where it stands.
        commit: String,
    },
    /// Something stands where a worktree was to be made.
    #[error("`{}` exists already and is not a worktree of this job", path.display())]
    PathTaken {
        /// The path.
        path: PathBuf,
    },
    /// A job's worktree is not the directory that was made for it.
    #[error("`{}` is no longer the job's worktree: something else was put in its place", path.display())]
    Replaced {
        /// The worktree.
        path: PathBuf,
    },
    /// A step was about to run where it does not belong.
    #[error("{what}; nothing was run")]
    Misplaced {
        /// The reason why the step cannot run there.
        what: String,
    },
    /// Git would wait for ever for something to read.
    #[error("`{}` is not a regular file", path.display())]
    Special {
        /// The file that git would read.
        path: PathBuf,
    },
    /// The record of the repository's configuration could not be stored or read.
    #[error("the record of the repository's configuration is damaged")]
    Guard {
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
}

impl Error {
    /// Returns what the person could do next, if there is something.
    pub fn hint(&self) -> Option<Cow<'static, str>> {
        if let Self::Failed { lock: Some(lock), .. } = self {
            return Some(Cow::Owned(format!(
                "if no git works in the repository any more, remove the lock that one left: `rm {}`",
                shell_word(lock)
            )));
        }
        self.advice().map(Cow::Borrowed)
    }

    fn advice(&self) -> Option<&'static str> {
        match self {
            Self::NotARepository { .. } => Some("go to a repository, or make one with `git init`"),
            Self::Bare { .. } => Some("work from a clone of it"),
            Self::NoCommits { .. } => {
                Some("commit something first: `git commit --allow-empty --message first`")
            }
            Self::GitMissing | Self::GitTooOld { .. } => {
                Some("`prodigy doctor` shows what is needed")
            }
            Self::BranchExists { .. } | Self::PathTaken { .. } => {
                Some("`prodigy worktree ls` lists what earlier jobs left")
            }
            Self::Replaced { .. } | Self::Misplaced { .. } => {
                Some("`prodigy resume` makes the worktree again")
            }
            Self::BranchLost { .. } => Some(
                "bring the commit back, for instance with `git fetch` from a clone that has it, and \
                 resume; without it the job has to be started anew",
            ),
            Self::Refused { .. }
            | Self::Failed { .. }
            | Self::Run { .. }
            | Self::Unexpected { .. }
            | Self::File { .. }
            | Self::NoSuchCommit { .. }
            | Self::NoSuchBranch { .. }
            | Self::BranchName { .. }
            | Self::NothingCheckedOut { .. }
            | Self::Special { .. }
            | Self::CheckoutBusy { .. }
            | Self::Guard { .. } => None,
        }
    }

    /// Returns a closure that turns an I/O error into one that names the file.
    pub(super) fn file(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { action, path: path.into(), source }
    }
}

/// Returns a path as a shell takes it.
fn shell_word(path: &Path) -> String {
    let path = path.display().to_string();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+@".contains(c);
    if path.chars().all(is_plain) { path } else { format!("'{}'", path.replace('\'', "'\\''")) }
}
