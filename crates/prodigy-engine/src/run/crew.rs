//! What the agents of a job share.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use prodigy_core::{
    event::{Event, Fact},
    ids::{AgentId, ItemId, JobId},
    job::{Input, Stage},
    vars::Vars,
    workflow::{Isolation, Map, Preserve, Step},
};

use super::{Error, Run, merges::MergeQueue, worker};
use crate::{
    git::{JobTree, Repo},
    queue::{Assignment, LocalQueue, WorkQueue as _},
    step::Tools,
    store::Spool,
};

/// How many worktrees of failed items are kept as they are; of the others a reference is.
///
/// Every worktree makes the next `git worktree add` slower, and a person looks at few.
const KEPT: u32 = 20;

/// What the agents of a job share.
pub(super) struct Crew {
    pub(super) job: JobId,
    pub(super) tools: Arc<Tools>,
    pub(super) repo: Repo,
    pub(super) map: Arc<Map>,
    pub(super) handlers: BTreeMap<String, Vec<Step>>,
    pub(super) preserve: Preserve,
    pub(super) spool: Spool,
    /// What every item sees besides itself.
    pub(super) vars: Arc<Vars>,
    pub(super) total: u32,
    pub(super) queue: LocalQueue,
    pub(super) merges: Option<MergeQueue>,
    /// Where the agents' worktrees are.
    pub(super) worktrees: PathBuf,
    /// The job's own worktree.
    pub(super) job_tree: JobTree,
    /// Worktrees that nobody needs any more.
    pub(super) trash: Mutex<Vec<PathBuf>>,
    kept: AtomicU32,
}

impl Crew {
    /// Returns whether another worktree of a failed item is kept as it is.
    pub(super) fn keeps_another(&self) -> bool {
        self.kept.fetch_add(1, Ordering::Relaxed) < KEPT
    }

    /// Says that the commits of a branch are not needed.
    pub(super) fn forget(&self, branch: String, force: bool) {
        if let Some(merges) = &self.merges {
            merges.forget(branch, force);
        }
    }

    /// Keeps the name of a directory that can be deleted when there is time.
    pub(super) fn throw_away(&self, directory: PathBuf) {
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
pub(super) struct Agents {
    pub(super) crew: Option<Arc<Crew>>,
    hired: BTreeMap<AgentId, tokio::task::JoinHandle<()>>,
}

impl Agents {
    /// Hands an attempt out.
    pub(super) fn assign(&mut self, assignment: Assignment) {
        let Some(crew) = &self.crew else { return };
        let agent = assignment.agent;
        self.hired
            .entry(agent)
            .or_insert_with(|| tokio::spawn(worker::work(Arc::clone(crew), agent)));
        crew.queue.submit(assignment);
    }

    /// Returns whether no attempt is under way.
    pub(super) fn are_idle(&self) -> bool {
        self.crew.as_ref().is_none_or(|crew| crew.queue.snapshot().is_empty())
    }

    /// Lets all agents go, and waits until they have put their things away.
    pub(super) async fn dismiss(&mut self) {
        let Some(crew) = self.crew.take() else { return };
        crew.queue.close();
        for (_, agent) in std::mem::take(&mut self.hired) {
            // An agent that panicked has nothing left to put away.
            agent.await.ok();
        }
        crew.empty_trash();
    }
}

impl Run {
    /// Returns what the agents share, made once.
    pub(super) fn crew(&mut self) -> Result<Arc<Crew>, Error> {
        if let Some(crew) = &self.parts.agents.crew {
            return Ok(Arc::clone(crew));
        }
        let (Some(map), Some(policy)) = (self.parts.map.clone(), self.parts.policy.clone()) else {
            return Err(Error::NoBeginning { job: self.parts.id.clone() });
        };
        let workplace = self.workplace()?;
        let job_tree = self.tree()?;
        let spool = self.spool()?;
        let worktrees = self.parts.settings.layout.worktrees_dir(&self.parts.id);
        let repo = self.parts.settings.repo.clone();
        let vars = Arc::new(self.vars(0));
        let merges = match map.isolation {
            Isolation::Shared => None,
            Isolation::Worktree => {
                self.recover_kept(&worktrees)?;
                self.clear_agents(&worktrees)?;
                let parts = &self.parts;
                let (guard, answers) = (parts.guard.clone(), parts.merged.0.clone());
                let (branch, preserve) = (job_tree.branch(), policy.preserve_worktrees);
                Some(MergeQueue::start(&repo, &parts.id, branch, guard, preserve, answers)?)
            }
        };
        let total = self.job.map.as_ref().map_or(0, |map| map.total);
        let crew = Arc::new(Crew {
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
            kept: AtomicU32::new(0),
        });
        self.parts.agents.crew = Some(Arc::clone(&crew));
        Ok(crew)
    }

    /// Records the worktrees of failed items that an earlier run kept without getting to say so.
    pub(super) fn recover_kept(&mut self, worktrees: &std::path::Path) -> Result<(), Error> {
        let (Some(map), Ok(entries)) = (&self.job.map, std::fs::read_dir(worktrees)) else {
            return Ok(());
        };
        let mut found = Vec::new();
        for entry in entries.flatten() {
            let id = entry.file_name().to_string_lossy().parse::<ItemId>().ok();
            let Some((at, item)) = id.and_then(|id| map.find(&id)) else { continue };
            let failed = matches!(item.stage, Stage::DeadLettered | Stage::Skipped);
            if failed && !map.kept.contains(&at) {
                found.push((item.id.clone(), entry.path()));
            }
        }
        for (id, path) in found {
            self.parts.settings.repo.repair_worktree(&path)?;
            let event = Event::WorktreePreserved {
                path: path.to_string_lossy().into_owned(),
                reason: "the item failed".to_owned(),
            };
            let fact = Fact { agent_id: None, item_id: Some(id), event };
            self.inputs.push_back(Input::Inside(fact));
        }
        Ok(())
    }

    /// Removes what the agents of an earlier run left behind; it is never used again.
    fn clear_agents(&mut self, worktrees: &std::path::Path) -> Result<(), Error> {
        let Ok(entries) = std::fs::read_dir(worktrees) else { return Ok(()) };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.parse::<AgentId>().is_ok() {
                self.parts.settings.repo.remove_job_worktree(&entry.path(), &name, true)?;
            }
        }
        Ok(())
    }
}

/// Returns the branch that an item's attempts work on.
pub(super) fn item_branch(job: &JobId, item: &ItemId) -> String {
    format!("prodigy/{job}/{item}")
}
