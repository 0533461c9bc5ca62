//! Merging a job's branch into its target.
//!
//! Nothing is ever overwritten, and every step can be cut off: the merge is computed without a
//! working tree, the branch is moved in the way that `update` describes.

use std::{fs, path::Path};

use prodigy_core::event::CheckoutUpdate;

use super::{
    checkout_session::{CheckoutSession, CheckoutUpdateOutcome},
    merge_settings::{FastForward, MergeSettings},
};
use crate::git::{
    Error, Repo,
    command::{GitDirs, display_path, split_fields},
    locks::RepoLock,
    repo::with_fallback_committer,
};

/// The most attempts to merge into a target that moves meanwhile.
const MOVES: usize = 5;

/// The source and the target of a merge.
#[derive(Clone, Debug)]
pub struct MergeRequest {
    /// The job's branch.
    pub source_branch: String,
    /// The branch the user started from.
    pub target_branch: String,
    /// The commit the job started from.
    pub base_commit: String,
    /// Set if the user named the target: then it is made if it is not there, and need
    /// not contain the commit the job started from.
    pub is_named: bool,
    /// The message of the merge commit, if one is needed.
    pub message: String,
    /// Files whose change shows in a merge commit, which says that a job made it: a fast-forward
    /// would bring in the commits of agents as if people had made them.
    pub guarded: Vec<String>,
}

/// The result of a merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergeOutcome {
    /// The target has the job's commits now.
    Merged {
        /// The target's new commit.
        commit: String,
        /// The number of commits that came with it.
        commits: usize,
    },
    /// The target had everything already.
    UpToDate,
    /// Both sides changed the same places. Nothing was changed.
    Conflict {
        /// The paths in conflict.
        paths: Vec<String>,
    },
    /// The user's checkout has work that would be overwritten, or is in the middle of
    /// something. Nothing was changed.
    DirtyTarget {
        /// The paths in the way.
        paths: Vec<String>,
    },
    /// The branch or its checkout cannot be changed now. Nothing was changed.
    Refused {
        /// The reason, for people.
        reason: String,
    },
    /// The target branch does not exist.
    TargetMissing,
    /// The target no longer contains the commit the job started from.
    TargetRewritten,
}

/// The target's next commit.
struct PreparedMerge {
    old: String,
    new: String,
    commits: usize,
}

impl PreparedMerge {
    fn outcome(self) -> MergeOutcome {
        MergeOutcome::Merged { commit: self.new, commits: self.commits }
    }
}

impl Repo {
    /// Merges a job's branch into its target.
    ///
    /// `record` is called before a checkout is changed, perhaps more than once; what it was
    /// given last is what [`Self::recover_checkout`] needs if the merge is cut off.
    pub fn merge_job<E: From<Error>>(
        &self,
        request: &MergeRequest,
        mut record: impl FnMut(CheckoutUpdate) -> Result<(), E>,
    ) -> Result<MergeOutcome, E> {
        let _lock = RepoLock::acquire(self.common_dir())?;
        let mut prepared = match self.prepare(request)? {
            Ok(prepared) => prepared,
            Err(outcome) => return Ok(outcome),
        };
        let Some(place) = self.seat(&request.target_branch)? else {
            return Ok(self.move_target(request, prepared)?);
        };
        let update = |prepared: &PreparedMerge| CheckoutUpdate {
            target: request.target_branch.clone(),
            worktree: place.work_tree.to_string_lossy().into_owned(),
            old: prepared.old.clone(),
            new: prepared.new.clone(),
        };
        record(update(&prepared))?;
        let mut session = match CheckoutSession::begin(self, &place, request)? {
            Ok(session) => session,
            Err(reason) => return Ok(MergeOutcome::Refused { reason }),
        };
        for _ in 0..MOVES {
            if self.branch_tip(&request.target_branch)?.as_ref() != Some(&prepared.old) {
                // Nobody commits in the checkout while we hold its lock.
                prepared = match self.prepare(request)? {
                    Ok(prepared) => prepared,
                    Err(outcome) => return Ok(outcome),
                };
                record(update(&prepared))?;
            }
            match session.update(&update(&prepared))? {
                CheckoutUpdateOutcome::Done => {
                    session.end()?;
                    return Ok(prepared.outcome());
                }
                CheckoutUpdateOutcome::Refused(outcome) => return Ok(outcome),
                CheckoutUpdateOutcome::Moved => {}
            }
        }
        Ok(moving(request))
    }

    /// Moves a target that is checked out nowhere.
    fn move_target(
        &self,
        request: &MergeRequest,
        prepared: PreparedMerge,
    ) -> Result<MergeOutcome, Error> {
        let name = format!("refs/heads/{}", request.target_branch);
        let note = request.reflog_message();
        let mut prepared = prepared;
        for _ in 0..MOVES {
            let PreparedMerge { old, new, .. } = &prepared;
            let update = self.call(&["update-ref", "-m", &note, &name, new, old]).durable();
            let Err(error) = update.run() else { return Ok(prepared.outcome()) };
            let now =
                self.branch_tip(&request.target_branch)?.unwrap_or_else(|| null_object_id(new));
            if now == *old {
                let reason = format!("git cannot move `{}`: {error}", request.target_branch);
                return Ok(MergeOutcome::Refused { reason });
            }
            prepared = match self.prepare(request)? {
                Ok(prepared) => prepared,
                Err(outcome) => return Ok(outcome),
            };
        }
        Ok(moving(request))
    }

    /// Computes the target's next commit, without touching anything that has a name.
    fn prepare(
        &self,
        request: &MergeRequest,
    ) -> Result<Result<PreparedMerge, MergeOutcome>, Error> {
        let source = self.branch_tip(&request.source_branch)?;
        let no_source = || Error::NoSuchBranch { branch: request.source_branch.clone() };
        let source = source.ok_or_else(no_source)?;
        let base = self.resolve_commit(&request.base_commit)?;
        let Some(old) = self.branch_tip(&request.target_branch)? else {
            if !request.is_named {
                return Ok(Err(MergeOutcome::TargetMissing));
            }
            let commits = self.commits_between(&base, &source)?.len();
            return Ok(Ok(PreparedMerge { old: null_object_id(&source), new: source, commits }));
        };
        if source == base || self.is_ancestor(&source, &old)? {
            return Ok(Err(MergeOutcome::UpToDate));
        }
        if !request.is_named && !self.is_ancestor(&base, &old)? {
            return Ok(Err(MergeOutcome::TargetRewritten));
        }
        let commits = self.commits_between(&old, &source)?.len();
        let settings = MergeSettings::read(self)?;
        let can_fast_forward = self.is_ancestor(&old, &source)?;
        let is_guarded = self.files_differ(&old, &source, &request.guarded)?;
        if can_fast_forward && !is_guarded && settings.fast_forward != FastForward::Never {
            return Ok(Ok(PreparedMerge { old, new: source, commits }));
        }
        if settings.fast_forward == FastForward::Only {
            let why = if can_fast_forward {
                format!("the job has changed {}", request.guarded.join(" or "))
            } else {
                format!("`{}` has moved on", request.target_branch)
            };
            let reason = format!("`merge.ff` is `only`, and {why}");
            return Ok(Err(MergeOutcome::Refused { reason }));
        }
        let args = ["merge-tree", "--write-tree", "-z", "--name-only", "--no-messages"];
        let output = self.call(&args).args([&old, &source]).durable().accept_codes(&[1]).run()?;
        let mut fields = split_fields(&output.stdout).into_iter();
        let unexpected = || Error::Unexpected { command: "merge-tree".to_owned() };
        let tree = display_path(&fields.next().ok_or_else(unexpected)?);
        if output.status == 1 {
            let paths = fields.map(|path| display_path(&path)).collect();
            return Ok(Err(MergeOutcome::Conflict { paths }));
        }
        let args = ["commit-tree", "-p", &old, "-p", &source, "-F", "-"];
        let call = self.call(&args).stdin(request.message.as_str()).durable();
        let call =
            if self.check_committer().is_ok() { call } else { with_fallback_committer(call) };
        match settings.sign(call).args([&tree]).run_text() {
            Ok(new) => Ok(Ok(PreparedMerge { old, new, commits })),
            Err(error) if settings.is_signed() => {
                let reason = format!(
                    "`commit.gpgsign` is set, and the merge commit could not be signed: {}",
                    error_chain(&error)
                );
                Ok(Err(MergeOutcome::Refused { reason }))
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the working tree that a branch is checked out or being rebased in.
    pub(crate) fn seat(&self, branch: &str) -> Result<Option<GitDirs>, Error> {
        let name = format!("refs/heads/{branch}");
        if is_rebased(&self.main.git_dir, &name) {
            return Ok(Some(self.main.clone()));
        }
        for (at, worktree) in self.worktrees()?.into_iter().enumerate() {
            let place = || match at {
                0 => Ok(Some(self.main.clone())),
                _ => self.work_tree_at(&worktree.path),
            };
            if worktree.branch.as_deref() == Some(branch) {
                if let Some(place) = place()?.filter(|_| !worktree.is_gone) {
                    return Ok(Some(place));
                }
            } else if let Some(place) = place()?.filter(|place| is_rebased(&place.git_dir, &name)) {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    /// Returns all working trees that are there.
    pub(crate) fn work_trees(&self) -> Result<Vec<GitDirs>, Error> {
        let mut places = vec![self.main.clone()];
        for worktree in self.worktrees()?.into_iter().skip(1) {
            places.extend(self.work_tree_at(&worktree.path)?);
        }
        Ok(places)
    }

    /// Returns a working tree by its directory; `None` if there is none.
    pub(crate) fn work_tree_at(&self, path: &Path) -> Result<Option<GitDirs>, Error> {
        if path == self.root() {
            return Ok(Some(self.main.clone()));
        }
        let Ok(work_tree) = path.canonicalize() else { return Ok(None) };
        let admin = self.admin_dir(&work_tree)?;
        let common_dir = self.common_dir().to_owned();
        Ok(admin.map(|git_dir| GitDirs { git_dir, common_dir, work_tree }))
    }
}

impl MergeRequest {
    /// Returns the line that the branch's log gets.
    pub(crate) fn reflog_message(&self) -> String {
        format!("prodigy: merge {}", self.source_branch)
    }
}

/// Returns the name that git has for no commit, as long as that of a commit.
fn null_object_id(commit: &str) -> String {
    "0".repeat(commit.len())
}

fn moving(request: &MergeRequest) -> MergeOutcome {
    let reason = format!("`{}` moves all the time", request.target_branch);
    MergeOutcome::Refused { reason }
}

/// Returns whether a branch is being rebased in the working tree with this directory.
fn is_rebased(git_dir: &Path, name: &str) -> bool {
    ["rebase-merge/head-name", "rebase-apply/head-name"].iter().any(|file| {
        fs::read_to_string(git_dir.join(file)).is_ok_and(|text| text.trim_end() == name)
    })
}

/// Returns an error with its causes, in one line.
fn error_chain(error: &Error) -> String {
    let mut parts = vec![error.to_string()];
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        parts.push(error.to_string());
        cause = error.source();
    }
    parts.join(": ")
}
