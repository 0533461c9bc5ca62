//! Merging a job's branch into the branch the user started from.
//!
//! Nothing is ever overwritten, and every step can be cut off: the merge is
//! computed without a working tree, then the files of the user's checkout are
//! brought forward if it has the target branch, and only then the branch moves.
//! A later call finds files that are already as they should be and goes on.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{
    Error, Repo,
    checkout::{self, Checkout},
    command::{shown, split_fields},
    lock::RepoLock,
    repo::as_prodigy,
};

/// How often a target that moves while we merge is followed.
const MOVES: usize = 5;

/// What is to be merged, and where.
#[derive(Clone, Debug)]
pub struct MergeRequest {
    /// The job's branch.
    pub source_branch: String,
    /// The branch the user started from.
    pub target_branch: String,
    /// The commit the job started from.
    pub base_commit: String,
    /// The message of the merge commit, if one is needed.
    pub message: String,
    /// Whether to find out only.
    pub dry_run: bool,
}

/// What became of a merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergeOutcome {
    /// The target has the job's commits now; in a dry run, it would have.
    Merged {
        /// The target's new commit.
        commit: String,
        /// How many commits came with it.
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
        /// What is in the way.
        paths: Vec<String>,
    },
    /// The target branch does not exist.
    TargetMissing,
    /// The target is checked out in another worktree of the user's. Nothing was changed.
    TargetElsewhere {
        /// That worktree.
        worktree: PathBuf,
    },
}

/// Where a branch is checked out.
enum Seat {
    Nowhere,
    Main,
    Linked(PathBuf),
}

/// What a merge would make of the target.
enum Prepared {
    Commit { old: String, new: String, commits: usize },
    Ends(MergeOutcome),
}

impl Repo {
    /// Merges a job's branch into its target.
    pub fn merge_job(&self, request: &MergeRequest) -> Result<MergeOutcome, Error> {
        let _lock = RepoLock::take(self.common_dir())?;
        let mut tries = 1;
        loop {
            let (old, new, commits) = match self.prepare(request)? {
                Prepared::Ends(outcome) => return Ok(outcome),
                Prepared::Commit { old, new, commits } => (old, new, commits),
            };
            let merged = MergeOutcome::Merged { commit: new.clone(), commits };
            match self.seat(&request.target_branch)? {
                Seat::Linked(worktree) => return Ok(MergeOutcome::TargetElsewhere { worktree }),
                Seat::Main => {
                    let paths = self.in_progress();
                    if !paths.is_empty() {
                        return Ok(MergeOutcome::DirtyTarget { paths });
                    }
                    match Checkout::examine(self, &old, &new)? {
                        Ok(checkout) if !request.dry_run => checkout.bring_forward()?,
                        Ok(_) => {}
                        Err(checkout::Blocked { paths }) => {
                            return Ok(MergeOutcome::DirtyTarget { paths });
                        }
                    }
                }
                Seat::Nowhere => {}
            }
            if request.dry_run {
                return Ok(merged);
            }
            let name = format!("refs/heads/{}", request.target_branch);
            let note = format!("prodigy: merge {}", request.source_branch);
            let update = self.call(&["update-ref", "-m", &note, &name, &new, &old]).durable();
            match update.run() {
                Ok(_) => return Ok(merged),
                Err(error) => {
                    let has_moved = self.branch(&request.target_branch)? != Some(old);
                    if !has_moved || tries == MOVES {
                        return Err(error);
                    }
                }
            }
            tries += 1;
        }
    }

    /// Computes the target's next commit, without touching anything that has a name.
    fn prepare(&self, request: &MergeRequest) -> Result<Prepared, Error> {
        let source = self.branch(&request.source_branch)?;
        let no_source = || Error::NoSuchBranch { branch: request.source_branch.clone() };
        let source = source.ok_or_else(no_source)?;
        let Some(old) = self.branch(&request.target_branch)? else {
            return Ok(Prepared::Ends(MergeOutcome::TargetMissing));
        };
        let base = self.commit(&request.base_commit)?;
        if source == base || self.is_ancestor(&source, &old)? {
            return Ok(Prepared::Ends(MergeOutcome::UpToDate));
        }
        if !self.is_ancestor(&base, &old)? {
            let target = request.target_branch.clone();
            return Err(Error::TargetRewritten { target, base });
        }
        let commits = self.commits_between(&old, &source)?.len();
        if self.is_ancestor(&old, &source)? {
            return Ok(Prepared::Commit { old, new: source, commits });
        }
        let args = ["merge-tree", "--write-tree", "-z", "--name-only", "--no-messages"];
        let output = self.call(&args).args([&old, &source]).durable().or(&[1]).run()?;
        let mut fields = split_fields(&output.stdout).into_iter();
        let unexpected = || Error::Unexpected { command: "merge-tree".to_owned() };
        let tree = shown(&fields.next().ok_or_else(unexpected)?);
        if output.status == 1 {
            let paths = fields.map(|path| shown(&path)).collect();
            return Ok(Prepared::Ends(MergeOutcome::Conflict { paths }));
        }
        let args = ["commit-tree", "-p", &old, "-p", &source, "-F", "-", &tree];
        let call = self.call(&args).stdin(request.message.as_str()).durable();
        let call = if self.identity().is_ok() { call } else { as_prodigy(call) };
        Ok(Prepared::Commit { new: call.text()?, old, commits })
    }

    /// Returns where a branch is checked out or being rebased.
    fn seat(&self, branch: &str) -> Result<Seat, Error> {
        let name = format!("refs/heads/{branch}");
        if is_rebased(&self.main.git_dir, &name) {
            return Ok(Seat::Main);
        }
        for (at, worktree) in self.worktrees()?.into_iter().enumerate() {
            let is_on_it = worktree.branch.as_deref() == Some(branch)
                || self.is_rebased_in(&worktree.path, &name);
            if is_on_it && at == 0 {
                return Ok(Seat::Main);
            }
            if is_on_it && !worktree.is_gone {
                return Ok(Seat::Linked(worktree.path));
            }
        }
        Ok(Seat::Nowhere)
    }

    fn is_rebased_in(&self, worktree: &Path, name: &str) -> bool {
        self.admin_dir(worktree).ok().flatten().is_some_and(|admin| is_rebased(&admin, name))
    }

    /// Returns the signs that the user is in the middle of something in the main working tree.
    fn in_progress(&self) -> Vec<String> {
        let signs = [
            "MERGE_HEAD",
            "CHERRY_PICK_HEAD",
            "REVERT_HEAD",
            "rebase-merge",
            "rebase-apply",
            "index.lock",
        ];
        let is_there = |sign: &&str| self.main.git_dir.join(sign).exists();
        signs.into_iter().filter(is_there).map(|sign| format!(".git/{sign}")).collect()
    }
}

/// Returns whether a branch is being rebased in the working tree with this directory.
fn is_rebased(git_dir: &Path, name: &str) -> bool {
    ["rebase-merge/head-name", "rebase-apply/head-name"].iter().any(|file| {
        fs::read_to_string(git_dir.join(file)).is_ok_and(|text| text.trim_end() == name)
    })
}
