//! The commit that a replay would run on, and what was added since somebody approved it.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use prodigy_core::{event::Event, ids::JobId};

use crate::{
    git::{self, Repo},
    store::{JournalReader, Layout, dlq::Error},
};

/// The most commits that are looked at one by one; more are a change.
const MOST: usize = 200;

/// The commit that a replay would run on.
///
/// It is found when it is needed first: most lists of dead letters do not need it.
#[derive(Clone, Debug)]
pub struct ReplayBase {
    repo: Repo,
    layout: Layout,
    job: JobId,
    commit: Option<String>,
    found: Arc<OnceLock<Option<BaseState>>>,
    /// Older commits, and whether only the job has added to them since.
    known: Arc<Mutex<HashMap<String, bool>>>,
}

/// A commit, and the merges that the job has made.
#[derive(Debug)]
struct BaseState {
    commit: String,
    merges: MergeHistory,
}

/// The merges that a job has made, as its journal says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergeHistory {
    /// The branch that the job merges into; `None` if HEAD was detached.
    pub target: Option<String>,
    /// The job's own branch, unless it begins anew.
    branch: Option<String>,
    /// The job's worktrees, the oldest first.
    trees: Vec<WorktreeMerges>,
    /// The commits of the target that the job's merges have made.
    merged: BTreeSet<String>,
}

/// The merges of items in one worktree of the job.
#[derive(Clone, Debug, PartialEq, Eq)]
struct WorktreeMerges {
    /// The commit that it began from.
    base: String,
    /// The job's branch after the last item was merged; it contains all others.
    tip: Option<String>,
}

impl MergeHistory {
    /// Reads the merges of a job.
    pub fn read(layout: &Layout, job: &JobId) -> Result<Self, Error> {
        let mut merges = Self::default();
        for record in JournalReader::open(layout, job)? {
            let record = record?;
            merges.apply(&record.event, record.item_id.is_some());
        }
        Ok(merges)
    }

    fn apply(&mut self, event: &Event, is_of_item: bool) {
        if let Event::JobStarted(started) = event {
            self.target.clone_from(&started.target_branch);
        } else if let Event::JobResumed { into, reopened, .. } = event {
            self.target = into.clone().or_else(|| self.target.take());
            let begins_anew = reopened.as_ref().is_some_and(|one| one.base_commit.is_some());
            self.branch.take_if(|_| begins_anew);
        } else if let Event::WorktreeCreated { branch, commit, .. } = event
            && !is_of_item
        {
            self.branch = Some(branch.clone());
            self.trees.push(WorktreeMerges { base: commit.clone(), tip: None });
        } else if let Event::WorktreeMerged { commit, target, .. } = event {
            if !is_of_item {
                self.merged.insert(commit.clone());
                self.target = Some(target.clone());
            } else if let Some(tree) = self.trees.last_mut() {
                tree.tip = Some(commit.clone());
            }
        }
    }

    /// Returns the commit that a replay would begin from.
    fn next_commit(&self, repo: &Repo) -> Result<String, git::Error> {
        for branch in [&self.branch, &self.target].into_iter().flatten() {
            if let Some(tip) = repo.branch_tip(branch)? {
                return Ok(tip);
            }
        }
        Ok(repo.head()?.commit)
    }
}

impl ReplayBase {
    /// Names the job whose dead letters would be replayed.
    pub fn new(repo: Repo, layout: Layout, job: JobId) -> Self {
        let (found, known) = (Arc::default(), Arc::default());
        Self { repo, layout, job, commit: None, found, known }
    }

    /// Says which commit it is.
    #[must_use]
    pub fn with_commit(self, commit: String) -> Self {
        Self { commit: Some(commit), ..self }
    }

    /// Returns the commit; what cannot be told is empty, and nobody has approved that.
    pub(crate) fn commit(&self) -> &str {
        self.state().map_or("", |found| found.commit.as_str())
    }

    /// Returns the commit that somebody was asked about, if a replay would still run on it: only
    /// items of the job have been added since. Otherwise returns the commit as it is now.
    pub(crate) fn commit_since<'a>(&'a self, asked: &'a str) -> &'a str {
        let Some(found) = self.state() else { return "" };
        if asked.is_empty() || asked == found.commit {
            return &found.commit;
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = *known.entry(asked.to_owned()).or_insert_with(|| {
            // What git cannot tell counts as changed.
            self.is_added_by_job(asked, found).unwrap_or(false)
        });
        if is_same { asked } else { &found.commit }
    }

    fn state(&self) -> Option<&BaseState> {
        let found = self.found.get_or_init(|| {
            let merges = MergeHistory::read(&self.layout, &self.job).ok()?;
            let commit = match &self.commit {
                Some(commit) => commit.clone(),
                None => merges.next_commit(&self.repo).ok()?,
            };
            Some(BaseState { commit, merges })
        });
        found.as_ref()
    }

    /// Returns whether all commits since an older one came from items of the job, or are merges
    /// by which prodigy brought those in.
    fn is_added_by_job(&self, older: &str, found: &BaseState) -> Result<bool, git::Error> {
        let BaseState { commit, merges } = found;
        if !self.repo.is_ancestor(older, commit)? {
            return Ok(false);
        }
        let mut known = vec![older.to_owned()];
        // A worktree began from a commit that may hold the work of others.
        for tree in &merges.trees {
            let Some(tip) = &tree.tip else { continue };
            if !self.is_known(&tree.base, &known, merges)? {
                return Ok(false);
            }
            known.push(tip.clone());
        }
        self.is_known(commit, &known, merges)
    }

    /// Returns whether a commit has nothing that others do not have, but merges by prodigy.
    fn is_known(
        &self,
        commit: &str,
        known: &[String],
        merges: &MergeHistory,
    ) -> Result<bool, git::Error> {
        let new = self.repo.commits_beyond(commit, known, MOST + 1)?;
        if new.len() > MOST {
            return Ok(false);
        }
        for commit in new {
            let is_ours =
                merges.merged.contains(&commit) && self.repo.is_merge_by(&commit, &self.job)?;
            if !is_ours {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
