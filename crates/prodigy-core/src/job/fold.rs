//! The fold of events into the state of the items.

use super::{
    FailedAttempt, FailedStepKinds, Setback,
    map::{Conflict, ItemState, MapState, Merging, Stage},
};
use crate::{
    event::{AfterAttempt, AgentCompleted, AgentFailed, EntryChange, Event, Record},
    failure::Failure,
    ids::{AgentId, ItemId},
    policy::{Breaker, Judged},
};

/// An event does not fit what was known of the items.
pub(super) struct Misplaced;

impl MapState {
    /// Applies an event about an item, or about the breaker.
    pub(super) fn apply(&mut self, record: &Record) -> Result<(), Misplaced> {
        if let Some(id) = &record.item_id {
            return self.apply_to_item(id, record);
        }
        if let Event::CircuitOpen { until, .. } = &record.event {
            self.breaker = Breaker::Open { until: *until };
        } else if let Event::CircuitHalfOpen {} = &record.event {
            self.breaker = Breaker::HalfOpen { successes: 0 };
        } else if let Event::CircuitClosed {} = &record.event {
            self.breaker = Breaker::default();
        } else if let Event::ConcurrencyChanged { max, .. } = &record.event {
            // Growing is slow and says nothing about attempts that began before it.
            if self.ceiling.is_none_or(|before| *max < before) {
                self.cut_at = Some(record.timestamp);
            }
            self.ceiling = Some(*max);
        }
        Ok(())
    }

    fn apply_to_item(&mut self, id: &ItemId, record: &Record) -> Result<(), Misplaced> {
        let Record { agent_id: agent, event, timestamp, .. } = record;
        if let Event::ItemQueued {} = event {
            return self.queue(id);
        }
        let at = *self.index.by_id.get(id).ok_or(Misplaced)?;
        match event {
            Event::AgentStarted { correlation_id, .. } => {
                self.start(at, agent.ok_or(Misplaced)?, correlation_id)
            }
            Event::AgentCompleted(done) => self.complete(at, done),
            Event::AgentFailed(failed) => self.fail(at, failed),
            Event::AgentReleased { .. } | Event::ResolutionFailed { .. } => {
                let waiting = waiting(&self.item_mut(at)?.stage).ok_or(Misplaced)?;
                self.enter(at, waiting)
            }
            Event::WorkSuspended(work) => self.suspend(at, work, *agent),
            Event::HandlerRestarted { .. } => self.handle(at, agent.ok_or(Misplaced)?),
            Event::ResolutionStarted { .. } => self.resolve(at, agent.ok_or(Misplaced)?),
            Event::ResolutionCompleted { commit, commits, .. } => {
                self.resolved(at, commit, *commits)
            }
            Event::AgentUsage { cost_usd, .. } => {
                self.item_mut(at)?.cost_usd += cost_usd.unwrap_or_default();
                Ok(())
            }
            Event::AgentRetrying { retry_at, .. } => {
                self.leave_end(at)?;
                self.enter(at, Stage::Waiting { retry_at: *retry_at })
            }
            Event::ItemSkipped { failure, .. } => {
                self.end(at, Stage::Skipped, Some(failure))?;
                self.tally.add(failure, id);
                Ok(())
            }
            Event::ItemDeadLettered { failure, .. } => {
                self.end(at, Stage::DeadLettered, Some(failure))?;
                let counted = self.tally.add(failure, id);
                self.item_mut(at)?.died = Some(counted);
                Ok(())
            }
            Event::ReplayStarted { .. } => self.replay(at, *timestamp),
            Event::DlqItemRemoved { how, .. } => self.remove(at, *how),
            Event::DlqItemUpdated { change, .. } => {
                if let EntryChange::Edited { input_hash } = change {
                    self.item_mut(at)?.edited = Some(input_hash.as_str().into());
                }
                Ok(())
            }
            crate::effect_news!() => {
                self.item_mut(at)?.ledger.get_or_insert_default().apply(event);
                Ok(())
            }
            Event::WorktreeMerged { .. } => {
                if !self.index.merging.contains(&at) {
                    return Err(Misplaced);
                }
                self.end(at, Stage::Successful, None)
            }
            Event::MergeConflict { paths, resolver, .. } => {
                self.item_mut(at)?.conflicts += 1;
                if resolver.is_some() { self.conflict(at, paths) } else { Ok(()) }
            }
            Event::WorktreePreserved { path, .. } => {
                if !path.is_empty() && !path.starts_with("refs/") {
                    self.kept.insert(at);
                }
                self.secured.insert(at);
                Ok(())
            }
            // What else happens to an item leaves it where it is.
            Event::StepStarted { .. }
            | Event::StepCompleted(_)
            | Event::StepFailed { .. }
            | Event::StepSkipped { .. }
            | crate::agent_news!()
            | Event::QuotaWarned { .. }
            | Event::WorktreeCreated { .. }
            | Event::WorktreeCleaned { .. }
            | Event::WorkKept(_)
            | crate::approval_news!()
            | Event::GitTampering { .. } => Ok(()),
            Event::JobStarted(_)
            | Event::JobResumed { .. }
            | Event::JobPaused { .. }
            | Event::JobCompleted { .. }
            | Event::JobFailed { .. }
            | Event::PhaseStarted { .. }
            | Event::PhaseCompleted { .. }
            | Event::ItemsSelected { .. }
            | Event::ItemQueued {}
            | crate::circuit_news!()
            | Event::ConcurrencyChanged { .. }
            | Event::QuotaPaused(_)
            | Event::QuotaResumed {}
            | Event::BudgetExceeded { .. }
            | Event::CheckoutUpdateStarted(_)
            | crate::checkout_news!()
            | Event::JournalEndLost { .. }
            | Event::CheckpointCreated { .. } => Err(Misplaced),
        }
    }

    fn queue(&mut self, id: &ItemId) -> Result<(), Misplaced> {
        let at = u32::try_from(self.items.len()).map_err(|_| Misplaced)?;
        if self.is_queued() || self.index.by_id.insert(id.clone(), at).is_some() {
            return Err(Misplaced);
        }
        self.index.pending.insert(at);
        self.items.push(ItemState {
            id: id.clone(),
            stage: Stage::Pending,
            attempts: 0,
            failed: 0,
            conflicts: 0,
            replays: 0,
            died: None,
            lost: 0,
            is_stopped: false,
            failed_steps: FailedStepKinds::default(),
            correlation_id: None,
            ledger: None,
            edited: None,
            cost_usd: 0.0,
            setbacks: Vec::new(),
            suspended: None,
        });
        Ok(())
    }

    fn start(&mut self, at: u32, agent: AgentId, correlation_id: &str) -> Result<(), Misplaced> {
        let is_free = !self.index.running.contains_key(&agent);
        let waits = matches!(self.item_mut(at)?.stage, Stage::Pending | Stage::Waiting { .. });
        if !is_free || !waits {
            return Err(Misplaced);
        }
        let probe = matches!(self.breaker, Breaker::HalfOpen { .. });
        self.secured.remove(&at);
        let item = self.item_mut(at)?;
        if item.correlation_id.is_none() {
            item.correlation_id = Some(correlation_id.to_owned());
        }
        item.start_suspended();
        self.enter(at, Stage::Running { agent, probe })
    }

    fn complete(&mut self, at: u32, done: &AgentCompleted) -> Result<(), Misplaced> {
        let Stage::Running { probe, .. } = self.item_mut(at)?.stage else { return Err(Misplaced) };
        self.breaker.ended(true, probe);
        self.set_suspended(at, None);
        let item = self.item_mut(at)?;
        item.attempts += 1;
        item.setbacks = Vec::new();
        item.failed_steps = FailedStepKinds::of(done);
        if done.has_commits() {
            let AgentCompleted { base, head, commits, .. } = done.clone();
            self.enter(at, Stage::Merging(Box::new(Merging { base, head, commits })))
        } else {
            self.end(at, Stage::Successful, None)
        }
    }

    fn fail(&mut self, at: u32, failed: &AgentFailed) -> Result<(), Misplaced> {
        let Stage::Running { agent, probe } = self.item_mut(at)?.stage else {
            return Err(Misplaced);
        };
        self.breaker.ended(false, probe);
        self.set_suspended(at, None);
        let item = self.item_mut(at)?;
        (item.attempts, item.failed) = (item.attempts + 1, item.failed + 1);
        Setback::of(failed.attempt, failed.step.as_deref(), &failed.failure)
            .remember(&mut item.setbacks);
        match failed.then {
            AfterAttempt::Handler => {
                let (step, failure) = (failed.step.clone(), failed.failure.clone());
                let failed = Some(Box::new(FailedAttempt { step, failure }));
                self.enter(at, Stage::Handling { agent, failed })
            }
            // What it comes to is in the next record; without one, it is tried again.
            AfterAttempt::Retry | AfterAttempt::DeadLetter | AfterAttempt::Skip => {
                self.enter(at, Stage::Pending)
            }
        }
    }

    /// Applies a conflict of an item's commits: they wait for an agent to resolve it.
    fn conflict(&mut self, at: u32, paths: &[String]) -> Result<(), Misplaced> {
        let Stage::Merging(commits) = &self.item_mut(at)?.stage else { return Err(Misplaced) };
        let conflict = Conflict { commits: (**commits).clone(), paths: paths.to_owned() };
        self.enter(at, Stage::Conflicted(Box::new(conflict)))
    }

    /// Applies a restart of an item's failure handler.
    fn handle(&mut self, at: u32, agent: AgentId) -> Result<(), Misplaced> {
        let is_free = !self.index.running.contains_key(&agent);
        let Stage::Unhandled(failed) = &self.item_mut(at)?.stage else { return Err(Misplaced) };
        let stage = Stage::Handling { agent, failed: Some(failed.clone()) };
        if !is_free {
            return Err(Misplaced);
        }
        self.item_mut(at)?.start_suspended();
        self.enter(at, stage)
    }

    /// Applies the start of an agent that resolves a conflict.
    fn resolve(&mut self, at: u32, agent: AgentId) -> Result<(), Misplaced> {
        let is_free = !self.index.running.contains_key(&agent);
        let Stage::Conflicted(conflict) = &self.item_mut(at)?.stage else { return Err(Misplaced) };
        let conflict = conflict.clone();
        if !is_free {
            return Err(Misplaced);
        }
        self.enter(at, Stage::Resolving { agent, conflict })
    }

    /// Applies the commit that resolves a conflict.
    fn resolved(&mut self, at: u32, commit: &str, commits: u64) -> Result<(), Misplaced> {
        let Stage::Resolving { conflict, .. } = &self.item_mut(at)?.stage else {
            return Err(Misplaced);
        };
        let (base, head) = (conflict.commits.base.clone(), commit.to_owned());
        self.set_suspended(at, None);
        self.enter(at, Stage::Merging(Box::new(Merging { base, head, commits })))
    }

    /// Applies the end or the crash of a run: nothing is in flight any more.
    pub(super) fn release(&mut self, by_a_crash: bool) {
        let running: Vec<u32> = self.index.running.values().copied().collect();
        for at in running {
            // The places come from the index, so the item is there.
            let Ok(item) = self.item_mut(at) else { continue };
            item.lost += u32::from(by_a_crash);
            item.is_stopped = !by_a_crash;
            if let Some(stage) = waiting(&item.stage) {
                self.enter(at, stage).ok();
            }
        }
    }

    /// Resets the counts that the limits of the error policy are checked against.
    pub(super) fn forgive(&mut self) {
        self.judged = Judged::default();
    }

    /// Applies the end of an item, with its failure if it failed.
    fn end(&mut self, at: u32, stage: Stage, why: Option<&Failure>) -> Result<(), Misplaced> {
        self.leave_end(at)?;
        self.set_suspended(at, None);
        let failed_steps = std::mem::take(&mut self.item_mut(at)?.failed_steps);
        match stage {
            Stage::DeadLettered => self.counts.dead_lettered += 1,
            Stage::Skipped => self.counts.skipped += 1,
            Stage::Successful
            | Stage::Pending
            | Stage::Waiting { .. }
            | Stage::Running { .. }
            | Stage::Handling { .. }
            | Stage::Unhandled(_)
            | Stage::Merging(_)
            | Stage::Conflicted(_)
            | Stage::Resolving { .. } => self.counts.count_success(failed_steps),
        }
        // That a dead letter is still one is no news, and nothing to stop a job for.
        let item = self.item_mut(at)?;
        if item.replays == 0 {
            let id = item.id.clone();
            match why {
                Some(failure) => self.judged.fail(failure, &id),
                None => self.judged.succeed(),
            }
        }
        self.enter(at, stage)
    }

    /// Refuses to move an item that has come to its end.
    fn leave_end(&mut self, at: u32) -> Result<(), Misplaced> {
        match self.item_mut(at)?.stage {
            Stage::Successful | Stage::DeadLettered | Stage::Skipped => Err(Misplaced),
            Stage::Pending
            | Stage::Waiting { .. }
            | Stage::Running { .. }
            | Stage::Handling { .. }
            | Stage::Unhandled(_)
            | Stage::Merging(_)
            | Stage::Conflicted(_)
            | Stage::Resolving { .. } => Ok(()),
        }
    }

    /// Moves an item to another stage.
    pub(super) fn enter(&mut self, at: u32, stage: Stage) -> Result<(), Misplaced> {
        let slot = usize::try_from(at).ok().and_then(|at| self.items.get_mut(at));
        let item = slot.ok_or(Misplaced)?;
        let before = std::mem::replace(&mut item.stage, stage);
        self.index.forget(at, &before);
        self.index.learn(at, &item.stage, item.replays > 0);
        Ok(())
    }

    pub(super) fn item_mut(&mut self, at: u32) -> Result<&mut ItemState, Misplaced> {
        usize::try_from(at).ok().and_then(|at| self.items.get_mut(at)).ok_or(Misplaced)
    }
}

/// Returns where an item waits whose agent was called off; `None` if none was at it.
fn waiting(stage: &Stage) -> Option<Stage> {
    match stage {
        Stage::Handling { failed: Some(failed), .. } => Some(Stage::Unhandled(failed.clone())),
        // Older versions did not record why.
        Stage::Running { .. } | Stage::Handling { failed: None, .. } => Some(Stage::Pending),
        Stage::Resolving { conflict, .. } => Some(Stage::Conflicted(conflict.clone())),
        Stage::Pending
        | Stage::Waiting { .. }
        | Stage::Unhandled(_)
        | Stage::Merging(_)
        | Stage::Conflicted(_)
        | Stage::Successful
        | Stage::DeadLettered
        | Stage::Skipped => None,
    }
}
