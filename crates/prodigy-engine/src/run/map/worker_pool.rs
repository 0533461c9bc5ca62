//! The shared state of a job's worker pool.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use prodigy_core::{
    ids::{AgentId, ItemId, JobId},
    mask::Mask,
    vars::Vars,
    workflow::{Isolation, Map, Preserve, Step},
};

use super::{
    merge_queue::{MergeQueue, RetiredBranch},
    worker,
};
use crate::{
    git::{Repo, Worktree},
    queue::{Assignment, LocalQueue, WorkQueue as _},
    run::{Dispatcher, Error},
    step::JobContext,
    store::Spool,
};

/// The number of failed items' worktrees kept as they are; of further ones a reference is kept.
///
/// Every worktree makes the next `git worktree add` slower, and a person looks at few.
const KEPT: u32 = 20;

/// The shared state of a job's worker pool.
pub(crate) struct WorkerContext {
    pub(crate) job: JobId,
    pub(crate) tools: Arc<JobContext>,
    pub(crate) repo: Repo,
    pub(crate) map: Arc<Map>,
    pub(crate) handlers: BTreeMap<String, Vec<Step>>,
    pub(crate) preserve: Preserve,
    pub(crate) spool: Spool,
    /// The variables that every item sees besides its own.
    pub(crate) vars: Arc<Vars>,
    pub(crate) total: u32,
    pub(crate) queue: LocalQueue,
    pub(crate) merges: Option<MergeQueue>,
    /// Where the agents' worktrees are.
    pub(crate) worktrees: PathBuf,
    /// The job's own worktree.
    pub(crate) job_tree: Worktree,
    /// Worktrees that nobody needs any more.
    pub(crate) trash: Mutex<Vec<PathBuf>>,
    /// Keeps secrets out of what is stored.
    pub(crate) mask: Mask,
    kept: AtomicU32,
    /// The items that failed for good and were not tried again since.
    dead: Mutex<BTreeSet<ItemId>>,
}

impl WorkerContext {
    /// Remembers that an item failed for good.
    pub(crate) fn mark_dead_lettered(&self, item: &ItemId) {
        self.dead.lock().unwrap_or_else(PoisonError::into_inner).insert(item.clone());
    }

    /// Returns whether an item that is tried again had failed for good, and forgets it.
    pub(crate) fn take_dead_lettered(&self, item: &ItemId) -> bool {
        self.dead.lock().unwrap_or_else(PoisonError::into_inner).remove(item)
    }

    /// Returns whether another worktree of a failed item is kept as it is.
    pub(crate) fn may_keep_worktree(&self) -> bool {
        self.kept.fetch_add(1, Ordering::Relaxed) < KEPT
    }

    /// Says that a branch is not needed.
    pub(crate) fn delete_branch_later(&self, old: RetiredBranch) {
        if let Some(merges) = &self.merges {
            merges.delete_branch(old);
        }
    }

    /// Keeps the name of a directory that can be deleted when there is time.
    pub(crate) fn delete_later(&self, directory: PathBuf) {
        self.trash.lock().unwrap_or_else(PoisonError::into_inner).push(directory);
    }

    /// Deletes what was thrown away.
    fn empty_trash(&self) {
        let trash = std::mem::take(&mut *self.trash.lock().unwrap_or_else(PoisonError::into_inner));
        for directory in trash {
            // What cannot be deleted is found by `worktree clean`.
            std::fs::remove_dir_all(&directory).ok();
        }
    }
}

/// The agents that are at work, and what they share.
#[derive(Default)]
pub(crate) struct WorkerPool {
    pub(crate) crew: Option<Arc<WorkerContext>>,
    hired: BTreeMap<AgentId, tokio::task::JoinHandle<()>>,
}

impl WorkerPool {
    /// Hands an attempt out.
    pub(crate) fn assign(&mut self, assignment: Assignment) {
        let Some(crew) = &self.crew else { return };
        let agent = assignment.agent;
        self.hired
            .entry(agent)
            .or_insert_with(|| tokio::spawn(worker::run_worker(Arc::clone(crew), agent)));
        crew.queue.submit(assignment);
    }

    /// Returns whether no attempt is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.crew.as_ref().is_none_or(|crew| crew.queue.in_flight().is_empty())
    }

    /// Lets all agents go, and waits until they have put their things away.
    pub(crate) async fn shutdown(&mut self) {
        let Some(crew) = self.crew.take() else { return };
        crew.queue.close();
        for (_, agent) in std::mem::take(&mut self.hired) {
            // An agent that panicked has nothing left to put away.
            agent.await.ok();
        }
        crew.empty_trash();
    }
}

impl Dispatcher {
    /// Returns what the agents share, made once.
    pub(crate) fn worker_context(&mut self) -> Result<Arc<WorkerContext>, Error> {
        if let Some(crew) = &self.parts.agents.crew {
            return Ok(Arc::clone(crew));
        }
        let (Some(map), Some(policy)) = (self.parts.map.clone(), self.parts.policy.clone()) else {
            return Err(Error::NoBeginning { job: self.parts.id.clone() });
        };
        let workplace = self.job_step_context()?;
        let job_tree = self.job_worktree()?;
        let spool = self.open_spool()?;
        let worktrees = self.parts.settings.layout.worktrees_dir(&self.parts.id);
        let repo = self.parts.settings.repo.clone();
        let vars = Arc::new(self.round_variables(0));
        let merges = match map.isolation {
            Isolation::Shared => None,
            Isolation::Worktree => {
                let parts = &self.parts;
                let (guard, answers) = (parts.guard.clone(), parts.merged.0.clone());
                let (branch, preserve) = (job_tree.branch(), policy.preserve_worktrees);
                Some(MergeQueue::start(&repo, &parts.id, branch, guard, preserve, answers)?)
            }
        };
        let total = self.job.map.as_ref().map_or(0, |map| map.total);
        let items = self.job.map.iter().flat_map(|map| &map.items);
        let dead = items.filter(|item| item.died.is_some()).map(|item| item.id.clone()).collect();
        let crew = Arc::new(WorkerContext {
            job: self.parts.id.clone(),
            tools: Arc::clone(&workplace.tools),
            repo,
            map,
            handlers: policy.handlers.clone(),
            preserve: policy.preserve_worktrees,
            spool,
            vars,
            total,
            queue: self.parts.queue.clone(),
            merges,
            worktrees,
            job_tree,
            trash: Mutex::default(),
            mask: self.parts.mask.clone(),
            kept: AtomicU32::new(0),
            dead: Mutex::new(dead),
        });
        self.parts.agents.crew = Some(Arc::clone(&crew));
        Ok(crew)
    }
}

/// Returns the branch that an item's attempts work on.
pub(crate) fn item_branch(job: &JobId, item: &ItemId) -> String {
    format!("prodigy/{job}/{item}")
}
