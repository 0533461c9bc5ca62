//! Work that was cut off in the middle and keeps what it has: finished steps, commits, files.

use serde::{Deserialize, Serialize};

use super::{
    BudgetOverrun, Decision, DecisionContext, Job, MapState, RunOutcome, map_apply::MisplacedEvent,
    quota,
};
use crate::{
    agent::{QuotaKind, QuotaLimit},
    event::{Event, WorkSuspended, WorktreeSnapshot, is_top_level},
    failure::{Failure, ReasonCode},
    ids::AgentId,
    policy::QuotaPolicy,
};

/// The step that stands for all steps of the merge phase, which are suspended together.
pub const MERGE_STEPS: &str = "merge";

/// The cause that cuts work off without any fault of its own.
#[derive(Clone, Debug, PartialEq)]
pub enum SuspensionCause {
    /// An account reached its limit.
    Limit(QuotaLimit),
    /// A budget is spent.
    Budget(BudgetOverrun),
}

/// Work that was cut off in the middle, as far as events tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuspendedWork {
    /// The step of the job, or `merge`; `None` for an item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The agent whose worktree holds the work of an item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// The worktree as it was left; `None` if the work starts over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<WorktreeSnapshot>,
    /// The number of its steps that had finished.
    pub finished_steps: u32,
    /// The number of times in a row that a limit cut it off without a further finished step.
    pub cut_offs: u32,
    /// The number of starts since; after the first one the worktree is not as it was left.
    #[serde(default)]
    pub starts: u32,
}

impl SuspensionCause {
    /// Returns the cause, for people.
    pub fn message(&self) -> String {
        match self {
            Self::Limit(limit) => limit.message.clone(),
            Self::Budget(overspent) => overspent.message(),
        }
    }

    /// Returns the event that keeps agents from starting for this cause, unless one did already.
    pub(super) fn pause_event(
        self,
        job: &Job,
        step: Option<String>,
        surroundings: DecisionContext<'_>,
    ) -> Option<Event> {
        match self {
            Self::Limit(limit) => quota::quota_paused(job, limit, step, surroundings),
            Self::Budget(BudgetOverrun { scope, limit_usd, spent_usd }) => {
                let is_known = job.overspent.is_some();
                (!is_known).then_some(Event::BudgetExceeded { scope, limit_usd, spent_usd })
            }
        }
    }

    /// Returns work that this cut off; only a usage limit counts towards the restarts.
    pub(super) fn suspended_work(&self, work: WorkSuspended) -> WorkSuspended {
        let is_usage = matches!(self, Self::Limit(limit) if limit.kind == QuotaKind::Usage);
        let counted = work.counted && is_usage;
        WorkSuspended { counted, ..work }
    }
}

impl SuspendedWork {
    /// Returns the suspended work after it was cut off, once more if it was before.
    fn updated_with(before: Option<&Self>, work: &WorkSuspended, agent: Option<AgentId>) -> Self {
        let is_further = before.is_none_or(|before| work.finished_steps > before.finished_steps);
        let cut_offs = before.filter(|_| !is_further).map_or(0, |before| before.cut_offs);
        let WorkSuspended { step, snapshot, finished_steps, counted } = work.clone();
        let agent = agent.filter(|_| snapshot.is_some());
        let cut_offs = cut_offs + u32::from(counted);
        Self { step, agent, snapshot, finished_steps, cut_offs, starts: 0 }
    }

    /// Returns the failure of work that limits cut off too often without a further finished step.
    pub(super) fn restart_limit_failure(
        before: Option<&Self>,
        work: &WorkSuspended,
        quota: &QuotaPolicy,
        reason: &str,
    ) -> Option<Failure> {
        let cut_offs = Self::updated_with(before, work, None).cut_offs;
        let most = quota.most_restarts();
        (work.counted && cut_offs > most).then(|| {
            let message = format!(
                "a usage limit cut it off {cut_offs} times without a further finished step (`quota.max_restarts` is {most}): {reason}"
            );
            Failure::new(ReasonCode::QuotaExhausted, message)
        })
    }
}

impl MapState {
    /// Sets the suspended work of an item, or removes it.
    pub(super) fn set_suspended(&mut self, at: u32, work: Option<Box<SuspendedWork>>) {
        let Some(item) = usize::try_from(at).ok().and_then(|at| self.items.get_mut(at)) else {
            return;
        };
        if let Some(agent) = item.suspended.take().and_then(|before| before.agent) {
            self.index.reserved.remove(&agent);
        }
        self.index.reserved.extend(work.as_ref().and_then(|work| work.agent));
        item.suspended = work;
    }

    /// Suspends the work on an item.
    pub(super) fn suspend(
        &mut self,
        at: u32,
        work: &WorkSuspended,
        agent: Option<AgentId>,
    ) -> Result<(), MisplacedEvent> {
        let before = self.item_mut(at)?.suspended.as_deref();
        let work = SuspendedWork::updated_with(before, work, agent);
        self.set_suspended(at, Some(Box::new(work)));
        Ok(())
    }

    /// Forgets all suspended work: what it was part of is not the same any more.
    pub(super) fn forget_suspended(&mut self) {
        for item in &mut self.items {
            item.suspended = None;
        }
        self.index.reserved.clear();
    }

    /// Returns how many items wait in the middle of their steps.
    pub fn suspended(&self) -> u32 {
        u32::try_from(self.index.reserved.len()).unwrap_or(u32::MAX)
    }

    /// Returns whether the worktree of an agent holds suspended work.
    pub fn is_reserved(&self, agent: AgentId) -> bool {
        self.index.reserved.contains(&agent)
    }
}

impl Job {
    /// Suspends a step of the job, or the merge.
    pub(super) fn suspend(&mut self, work: &WorkSuspended) {
        let before = self.suspended.as_ref().filter(|before| before.step == work.step);
        self.suspended = Some(SuspendedWork::updated_with(before, work, None));
    }

    /// Returns the work of a step that was cut off, if it keeps what it has.
    pub fn suspended_step(&self, step: &str) -> Option<&SuspendedWork> {
        self.suspended.as_ref().filter(|work| work.step.as_deref() == Some(step))
    }

    /// Returns the state that the worktree is brought back to before a step that was cut off
    /// starts again. Work that nothing touched since it was suspended goes on as it is.
    pub fn snapshot_to_restore(&self, step: &str) -> Option<WorktreeSnapshot> {
        match self.suspended_step(step) {
            Some(SuspendedWork { starts: 0, .. }) => None,
            Some(SuspendedWork { snapshot: Some(snapshot), .. }) => Some(snapshot.clone()),
            Some(SuspendedWork { snapshot: None, .. }) | None => self.last_snapshot(),
        }
    }

    /// Applies the start of a step; returns true if it resumes suspended work.
    pub(super) fn start_suspended(&mut self, step: &str) -> bool {
        let of_merge = || step.strip_prefix(MERGE_STEPS).is_some_and(|rest| rest.starts_with('.'));
        let unit = if is_top_level(step) {
            step
        } else if of_merge() {
            MERGE_STEPS
        } else {
            return false;
        };
        let work = self.suspended.as_mut().filter(|work| work.step.as_deref() == Some(unit));
        let Some(work) = work else { return false };
        work.starts = work.starts.saturating_add(1);
        true
    }

    /// Applies the failure of the job. Work that limits cut off too often is kept for a resume.
    pub(super) fn fail_suspended(&mut self, failure: &Failure) {
        match &mut self.suspended {
            Some(work) if failure.kind == ReasonCode::QuotaExhausted => work.cut_offs = 0,
            Some(_) | None => self.suspended = None,
        }
    }
}

/// Suspends a step that was cut off, or fails it if limits did so too often.
pub(super) fn suspend_step(
    job: &Job,
    step: String,
    cut_off: SuspensionCause,
    work: WorkSuspended,
    surroundings: DecisionContext<'_>,
) -> Decision {
    let work = cut_off.suspended_work(work);
    let before = job.suspended.as_ref().filter(|before| before.step == work.step);
    let (quota, reason) = (surroundings.spending.quota, cut_off.message());
    let exhausted = SuspendedWork::restart_limit_failure(before, &work, quota, &reason);
    let is_kept = work.is_worth_recording();
    let suspended = is_kept.then(|| Event::WorkSuspended(Box::new(work)));
    if let Some(failure) = exhausted {
        let failed = Event::JobFailed { step, failure };
        let events = suspended.into_iter().chain([failed]).collect();
        return Decision::finish(events, RunOutcome::Failed);
    }
    let paused = cut_off.pause_event(job, Some(step), surroundings);
    Decision::record(suspended.into_iter().chain(paused).collect())
}
