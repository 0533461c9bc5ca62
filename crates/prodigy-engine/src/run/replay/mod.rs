//! Replays of a run: the dead letters that it tries again.

pub(crate) mod approvals;
pub(crate) mod evaluator;
pub(crate) mod gate;
pub(crate) mod replay_base;
pub(crate) mod replay_counts;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use prodigy_core::{
    audit::IdentityKind,
    dlq::{EntryStatus, RunFingerprint},
    event::{JobReopening, PhaseName},
    ids::{ItemId, JobId},
    job::{ItemStage, Job, ReplayScheduler},
    replay::{ReplayTrigger, ReplayVelocity, ReplayVerdict},
};

use super::{Error, RunSettings};
use crate::{
    clock,
    governance::ActivePolicy,
    run::{ReplayBase, ReplayEvaluator},
    store::{
        JobLock,
        dlq::{DeadLetterStore, DeadLetterSummary},
    },
};
use gate::ReplayGate;

/// Dead letters that somebody wants to be tried again.
#[derive(Clone, Debug)]
pub struct ReplayRequest {
    /// Which.
    pub which: ReplayScope,
    /// Set to run the reduce phase once more, if it had run.
    pub rerun_reduce: bool,
    /// The name of the requester.
    pub by: String,
    /// The kind of proof of the requester's identity.
    pub identity: IdentityKind,
    /// The reason that the requester gave.
    pub reason: Option<String>,
    /// The policy that decides.
    pub policy: ActivePolicy,
    /// The rate of the replays, never higher than the policy allows.
    pub velocity: ReplayVelocity,
}

/// Which dead letters are tried again.
#[derive(Clone, Debug)]
pub enum ReplayScope {
    /// Those that the policy lets without anybody asking, along with everything else.
    Unasked,
    /// These, and nothing else.
    Asked {
        /// The items.
        wanted: ReplayBatch,
        /// Those of them that somebody takes on themselves.
        forced: BTreeSet<ItemId>,
    },
}

/// The replays that a run plans.
#[derive(Default)]
pub(crate) struct ReplaySetup {
    pub(crate) replays: ReplayScheduler,
    pub(crate) reopened: Option<JobReopening>,
    pub(crate) gate: Option<ReplayGate>,
}

impl ReplayRequest {
    /// Returns what is to be tried again, what that means for the job, and who decides anew
    /// when it is about to be.
    pub(crate) fn prepare(
        self,
        settings: &mut RunSettings,
        id: &JobId,
        job: &Job,
        run: RunFingerprint,
        lock: &JobLock,
    ) -> Result<ReplaySetup, Error> {
        let Self { which, rerun_reduce, by, identity, reason, policy, velocity } = self;
        let only = matches!(which, ReplayScope::Asked { .. });
        let mut replays = ReplayScheduler::new(only, by.clone(), reason.clone(), velocity);
        let is_needed = only || job.allows_auto_replay() && has_dead_letters(job);
        let mut gate = None;
        let new_base = new_base(settings, job)?;
        if is_needed {
            let submitter = job.started.as_ref().and_then(|started| started.by.clone());
            let base = ReplayBase::new(settings.repo.clone(), settings.layout.clone(), id.clone());
            let base = base.with_commit(replay_commit(settings, job, new_base.as_deref())?);
            let opened =
                DeadLetterStore::open_locked(&settings.layout, id, lock).and_then(|queue| {
                    let bench =
                        ReplayEvaluator::new(Arc::clone(&policy.policy), Some(run), &queue)?;
                    Ok((queue, bench.with_people(submitter, Some(by.clone())).with_base(base)))
                });
            match opened {
                Ok((queue, bench)) => {
                    let (wanted, forced, asked) = match which {
                        ReplayScope::Asked { wanted, forced } => {
                            (wanted, forced, ReplayTrigger::Asked)
                        }
                        ReplayScope::Unasked => (
                            unasked(&queue, &bench, settings),
                            BTreeSet::new(),
                            ReplayTrigger::Unasked,
                        ),
                    };
                    want(&mut replays, &wanted, job);
                    let asked_by =
                        ReplayGate::new(queue, bench, policy).with_requester(by, identity, reason);
                    gate = Some(asked_by.with_trigger(asked, forced));
                }
                Err(error) if only => return Err(Error::Letters(error)),
                // Nobody asked for them, so the rest of the job goes on.
                Err(error) => {
                    let note = format!("warning: the dead letters are left alone: {error}");
                    settings.reporter.note(&note);
                }
            }
        }
        let reopened = reopened(job, rerun_reduce, !replays.is_drained(), new_base);
        Ok(ReplaySetup { replays, reopened, gate })
    }
}

/// Returns whether some items are dead letters.
fn has_dead_letters(job: &Job) -> bool {
    job.map.as_ref().is_some_and(|map| map.counts.dead_lettered > 0)
}

/// Returns the dead letters that the policy lets be replayed without anybody asking.
fn unasked(
    queue: &DeadLetterStore,
    bench: &ReplayEvaluator,
    settings: &mut RunSettings,
) -> ReplayBatch {
    let mut wanted = ReplayBatch::default();
    let now = clock::now();
    for heading in queue.summaries() {
        match heading {
            Ok(heading) if heading.status == EntryStatus::Open => {
                let ruling = bench.evaluate_summary(queue, &heading, ReplayTrigger::Unasked, now);
                if ruling.verdict == ReplayVerdict::Replay {
                    wanted.add(&heading);
                }
            }
            Ok(_) => {}
            // One that cannot be read is left alone.
            Err(error) => settings.reporter.note(&format!("warning: {error}")),
        }
    }
    wanted
}

/// Adds those of the dead letters that still are dead letters.
fn want(replays: &mut ReplayScheduler, wanted: &ReplayBatch, job: &Job) {
    let Some(map) = &job.map else { return };
    let dead = |id: &ItemId| {
        let (at, item) = map.find(id)?;
        (item.stage == ItemStage::DeadLettered).then_some(at)
    };
    replays.add(wanted.causes().flat_map(|cause| {
        let places = cause.items.iter().filter_map(dead);
        places.map(|at| (at, &*cause.signature, &*cause.pattern))
    }));
}

/// Returns what replays mean for a job that is over, or nearly so.
fn reopened(
    job: &Job,
    rerun_reduce: bool,
    has_replays: bool,
    base_commit: Option<String>,
) -> Option<JobReopening> {
    let is_over = job.phases_done.contains(&PhaseName::Map);
    if !is_over {
        // Replays that were cut off go on, and what comes after them may have been done.
        let again = rerun_reduce && job.phases_done.contains(&PhaseName::Reduce);
        return again.then_some(JobReopening { rerun_reduce, base_commit: None });
    }
    has_replays.then_some(JobReopening { rerun_reduce, base_commit })
}

/// Returns the commit that replays run on: where a new worktree begins, or the job's branch.
fn replay_commit(
    settings: &RunSettings,
    job: &Job,
    new_base: Option<&str>,
) -> Result<String, Error> {
    if let Some(commit) = new_base {
        return Ok(commit.to_owned());
    }
    let branch =
        job.tree.as_ref().map(|tree| settings.repo.branch_tip(&tree.branch)).transpose()?;
    match branch.flatten() {
        Some(tip) => Ok(tip),
        None => Ok(settings.repo.head()?.commit),
    }
}

/// Returns where a new worktree for the job begins, if the old one is gone.
///
/// The earlier work of the job was merged into the branch the user started from, so the
/// replayed items start from there.
fn new_base(settings: &RunSettings, job: &Job) -> Result<Option<String>, Error> {
    let repo = &settings.repo;
    if let Some(tree) = &job.tree
        && repo.branch_tip(&tree.branch)?.is_some()
    {
        return Ok(None);
    }
    let target = job.started.as_ref().and_then(|started| started.target_branch.as_deref());
    let tip = match target {
        Some(target) => repo.branch_tip(target)?,
        None => None,
    };
    match tip {
        Some(tip) => Ok(Some(tip)),
        None => Ok(Some(repo.head()?.commit)),
    }
}

/// Dead letters that are to be replayed, by what they died of.
#[derive(Clone, Debug, Default)]
pub struct ReplayBatch {
    causes: Vec<CauseGroup>,
    numbers: HashMap<String, usize>,
}

/// Dead letters that died of the same.
#[derive(Clone, Debug)]
pub(crate) struct CauseGroup {
    pub(crate) signature: String,
    pub(crate) pattern: String,
    pub(crate) items: Vec<ItemId>,
}

impl ReplayBatch {
    /// Adds an entry.
    pub fn add(&mut self, heading: &DeadLetterSummary) {
        let known = self.numbers.get(&heading.error_signature).copied();
        let number = known.unwrap_or(self.causes.len());
        if known.is_none() {
            let signature = heading.error_signature.clone();
            self.numbers.insert(signature.clone(), number);
            let pattern = heading.error_pattern.clone();
            self.causes.push(CauseGroup { signature, pattern, items: Vec::new() });
        }
        if let Some(cause) = self.causes.get_mut(number) {
            cause.items.push(heading.item_id.clone());
        }
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.causes.iter().map(|cause| cause.items.len()).sum()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.causes.is_empty()
    }

    pub(crate) fn causes(&self) -> impl Iterator<Item = &CauseGroup> {
        self.causes.iter()
    }
}
