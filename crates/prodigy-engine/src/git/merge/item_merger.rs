//! Merging the commits of items into the branch of their job, without a working tree.
//!
//! One merger serves a job, and merges one item at a time. What an item costs does not
//! depend on how many were merged before. Every step can be cut off: objects that no
//! reference leads to are garbage, and a branch that has moved is found to contain the
//! item's commit the next time.

use std::{
    collections::HashSet,
    time::{SystemTime, UNIX_EPOCH},
};

use super::plumbing::{CommitHeader, GitPlumbing, unexpected_output};
use crate::git::{
    Error, Repo,
    command::{display_path, split_fields},
    refs,
    repo::with_fallback_committer,
    worktree::{is_hash, remove},
};

/// The most attempts to merge into a branch that moves meanwhile.
const MOVES: usize = 5;

/// The most commits followed from an item's last commit to its base before git is asked.
const STEPS: usize = 64;

/// The most commits that are remembered as contained in the branch.
const REMEMBERED: usize = 4096;

/// Merges items' commits into one branch, one at a time.
#[derive(Debug)]
pub struct ItemMerger {
    plumbing: GitPlumbing,
    branch: String,
    tip: String,
    /// Commits that the branch contains: not all, but the latest.
    contained: HashSet<String>,
    /// Set if the branch had been deleted and was restored.
    was_deleted: bool,
    author: CommitIdentity,
    committer: CommitIdentity,
    /// When the merger was started, in seconds.
    started: i64,
}

/// The commits of an item to merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemMergeRequest {
    /// The item's last commit, as a full hash.
    pub commit: String,
    /// The commit that the item began from, as a full hash.
    pub base: String,
    /// The message of the merge commit, if one is needed.
    pub message: String,
}

/// The result of merging an item's commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ItemMergeOutcome {
    /// The branch has them now.
    Merged {
        /// Where the branch stands.
        tip: String,
    },
    /// The branch had them already.
    AlreadyMerged,
    /// Both sides changed the same places. Nothing was changed.
    Conflict {
        /// The paths in conflict; none if the item's commits have nothing in common with the
        /// branch.
        paths: Vec<String>,
    },
    /// The commit, or something in it, is not there: a loss of power can do that.
    Missing,
}

/// The author or committer of a commit.
#[derive(Debug)]
struct CommitIdentity {
    /// Name and address.
    who: String,
    zone: String,
}

/// The commit to move the branch to, or the result if the branch does not move.
enum ItemMergePlan {
    Commit(String),
    Ends(ItemMergeOutcome),
}

impl ItemMerger {
    /// Starts merging into a branch, which has one merger at a time.
    ///
    /// The repository's settings are remembered, unless a slot was made before: it must be
    /// called when no agent can have changed them.
    pub fn start(repo: &Repo, branch: &str) -> Result<Self, Error> {
        if !refs::is_branch_name(branch) {
            return Err(Error::BranchName { branch: branch.to_owned() });
        }
        // A loss of power leaves locks behind; the branch is the job's, and nobody else moves it.
        remove(&repo.common_dir().join(format!("refs/heads/{branch}.lock")))?;
        let no_branch = || Error::NoSuchBranch { branch: branch.to_owned() };
        let tip = repo.branch_tip(branch)?.ok_or_else(no_branch)?;
        Ok(Self {
            plumbing: GitPlumbing::new(repo, branch)?,
            branch: branch.to_owned(),
            contained: HashSet::from([tip.clone()]),
            tip,
            author: CommitIdentity::find(repo, "GIT_AUTHOR_IDENT")?,
            committer: CommitIdentity::find(repo, "GIT_COMMITTER_IDENT")?,
            started: now(),
            was_deleted: false,
        })
    }

    /// Returns whether the branch was deleted and put back since this was asked last.
    pub fn take_branch_restored(&mut self) -> bool {
        std::mem::take(&mut self.was_deleted)
    }

    /// Returns where the branch stands, as far as the merger knows.
    pub fn tip(&self) -> &str {
        &self.tip
    }

    /// Merges an item's commits into the branch.
    ///
    /// The branch moves on to the item's commit if nothing else was merged since the item
    /// began; otherwise a merge commit is made.
    pub fn merge(&mut self, request: &ItemMergeRequest) -> Result<ItemMergeOutcome, Error> {
        for commit in [&request.commit, &request.base] {
            if !is_hash(commit) {
                return Err(Error::NoSuchCommit { name: commit.clone() });
            }
        }
        let Some(item) = self.plumbing.commit(&request.commit)? else {
            return Ok(ItemMergeOutcome::Missing);
        };
        if self.contained.contains(&request.commit) {
            return Ok(ItemMergeOutcome::AlreadyMerged);
        }
        // What was written before a loss of power may be there in part.
        if item.time <= self.started && !self.is_whole(&request.commit)? {
            return Ok(ItemMergeOutcome::Missing);
        }
        let name = format!("refs/heads/{}", self.branch);
        let mut tries = 1;
        loop {
            let new = match self.prepare(request, &item)? {
                ItemMergePlan::Commit(new) => new,
                ItemMergePlan::Ends(merged) => return Ok(merged),
            };
            match self.plumbing.update(&name, &new, &self.tip) {
                Ok(()) => {
                    self.remember(&request.commit);
                    self.move_to(new);
                    return Ok(ItemMergeOutcome::Merged { tip: self.tip.clone() });
                }
                Err(error) => {
                    let tip = self.plumbing.repo.branch_tip(&self.branch)?;
                    if tip.as_ref() == Some(&self.tip) || tries == MOVES {
                        return Err(error);
                    }
                    if let Some(tip) = tip {
                        // Somebody may have taken commits off the branch.
                        self.contained.clear();
                        self.move_to(tip);
                    } else {
                        self.plumbing.repo.restore_branch(&self.branch, &self.tip)?;
                        self.was_deleted = true;
                    }
                }
            }
            tries += 1;
        }
    }

    /// Deletes an item's branch, with its log, if the job's branch contains all of it or if it
    /// stands at the commit `recorded`, which something else holds; otherwise it is left alone.
    pub fn delete_branch(&mut self, branch: &str, recorded: Option<&str>) -> Result<(), Error> {
        if !refs::is_branch_name(branch) {
            return Err(Error::BranchName { branch: branch.to_owned() });
        }
        let repo = &self.plumbing.repo;
        let found = refs::read_branch(repo.common_dir(), branch);
        let found = match found {
            Some(found) => Some(found),
            None => repo.branch_tip(branch)?,
        };
        let Some(tip) = found else { return Ok(()) };
        let is_contained = recorded == Some(tip.as_str())
            || self.contained.contains(&tip)
            || (self.plumbing.commit(&tip)?.is_some() && self.is_ancestor(&tip, &self.tip)?);
        if is_contained {
            self.plumbing.delete(&format!("refs/heads/{branch}"), &tip)?;
        }
        Ok(())
    }

    /// Computes the branch's next commit, without touching anything that has a name.
    fn prepare(
        &mut self,
        request: &ItemMergeRequest,
        item: &CommitHeader,
    ) -> Result<ItemMergePlan, Error> {
        let (tip, commit) = (self.tip.clone(), &request.commit);
        if tip == *commit {
            return Ok(ItemMergePlan::Ends(ItemMergeOutcome::AlreadyMerged));
        }
        if tip == request.base && self.descends(commit, item, &tip)? {
            return Ok(ItemMergePlan::Commit(commit.clone()));
        }
        self.plumbing.shelter.rewrite_config()?;
        let args = ["merge-tree", "--write-tree", "-z", "--name-only", "--no-messages"];
        let call =
            self.plumbing.shelter.call(&args).args([&tip, commit]).durable().accept_codes(&[1]);
        // The user's attributes are those of the branch; there are no files to read them from.
        let output = match call.env("GIT_ATTR_SOURCE", &tip).run() {
            Ok(output) => output,
            Err(error) => return self.explain(error, commit).map(ItemMergePlan::Ends),
        };
        let mut fields = split_fields(&output.stdout).into_iter();
        let tree = display_path(&fields.next().ok_or_else(|| unexpected_output("merge-tree"))?);
        if output.status == 1 {
            let paths = fields.map(|path| display_path(&path)).collect();
            return Ok(ItemMergePlan::Ends(ItemMergeOutcome::Conflict { paths }));
        }
        let old = self.plumbing.commit(&tip)?.ok_or_else(|| unexpected_output("cat-file"))?;
        // Merging what is contained changes nothing; so does merging the same change twice.
        if tree == old.tree && self.is_ancestor(commit, &tip)? {
            self.remember(commit);
            return Ok(ItemMergePlan::Ends(ItemMergeOutcome::AlreadyMerged));
        }
        let content = self.merge_commit(&tree, &tip, request);
        self.plumbing.store(&content).map(ItemMergePlan::Commit)
    }

    fn merge_commit(&self, tree: &str, tip: &str, request: &ItemMergeRequest) -> Vec<u8> {
        let Self { author, committer, .. } = self;
        let (commit, time) = (&request.commit, now());
        let message = request.message.replace('\0', "");
        format!(
            "tree {tree}\nparent {tip}\nparent {commit}\nauthor {} {time} {}\ncommitter {} {time} {}\n\n{}\n",
            author.who, author.zone, committer.who, committer.zone, message.trim_end(),
        )
        .into_bytes()
    }

    /// Returns what a merge that git could not do means for the item.
    fn explain(&mut self, error: Error, commit: &str) -> Result<ItemMergeOutcome, Error> {
        let Error::Failed { message, .. } = &error else { return Err(error) };
        if message.contains("unrelated histories") {
            return Ok(ItemMergeOutcome::Conflict { paths: Vec::new() });
        }
        if self.is_whole(commit)? { Err(error) } else { Ok(ItemMergeOutcome::Missing) }
    }

    /// Returns whether a commit descends from another.
    fn descends(&mut self, from: &str, item: &CommitHeader, base: &str) -> Result<bool, Error> {
        let mut waiting = item.parents.clone();
        for _ in 0..STEPS {
            if waiting.iter().any(|parent| parent == base) {
                return Ok(true);
            }
            let Some(next) = waiting.pop() else { return Ok(false) };
            let Some(next) = self.plumbing.commit(&next)? else { break };
            waiting.extend(next.parents);
        }
        self.is_ancestor(base, from)
    }

    fn is_ancestor(&self, older: &str, newer: &str) -> Result<bool, Error> {
        let args = ["merge-base", "--is-ancestor", older, newer];
        Ok(self.plumbing.shelter.call(&args).accept_codes(&[1]).run()?.status == 0)
    }

    /// Returns whether everything is there that a commit adds to the branch.
    fn is_whole(&self, commit: &str) -> Result<bool, Error> {
        let args = ["rev-list", "--objects", "--quiet", commit, "--not", &self.tip];
        let call = self.plumbing.shelter.call(&args).accept_codes(&[1, 128]);
        Ok(call.run()?.status == 0)
    }

    fn move_to(&mut self, tip: String) {
        self.remember(&tip);
        self.tip = tip;
    }

    fn remember(&mut self, commit: &str) {
        if self.contained.len() >= REMEMBERED {
            self.contained.clear();
        }
        self.contained.insert(commit.to_owned());
    }
}

impl CommitIdentity {
    /// Asks git who the user is, or makes somebody up so that results are not lost.
    fn find(repo: &Repo, variable: &str) -> Result<Self, Error> {
        let call = || repo.call(&["var", variable]);
        let text = call().run_text().or_else(|_| with_fallback_committer(call()).run_text())?;
        // The time comes before the zone.
        let mut parts = text.rsplitn(3, ' ');
        let (zone, who) = (parts.next(), parts.nth(1));
        let (Some(zone), Some(who)) = (zone, who) else { return Err(unexpected_output("var")) };
        Ok(Self { who: who.to_owned(), zone: zone.to_owned() })
    }
}

/// Returns the time in seconds.
#[expect(clippy::disallowed_methods, reason = "commits bear the time that git would give them")]
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or_default()
}
