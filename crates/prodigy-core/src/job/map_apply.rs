//! The fold of events into the state of the items.

use super::{
    FailedAttempt, FailedStepKinds, PreviousFailure,
    map_state::{CommitRange, ItemStage, ItemState, MapState, MergeConflict},
};
use crate::{
    event::{AgentCompleted, AgentFailed, EntryChange, Event, EventRecord, FailureDecision},
    failure::Failure,
    ids::{AgentId, ItemId},
    policy::{CircuitBreaker, FailureCounter},
};

/// An event does not fit what was known of the items.
pub(crate) struct MisplacedEvent;

impl MapState {
    /// Applies an event about an item, or about the breaker.
    pub(crate) fn apply(&mut self, record: &EventRecord) -> Result<(), MisplacedEvent> {
        if let Some(id) = &record.item_id {
            return self.apply_to_item(id, record);
        }
        if let Event::CircuitOpen { until, .. } = &record.event {
            self.breaker = CircuitBreaker::Open { until: *until };
        } else if let Event::CircuitHalfOpen {} = &record.event {
            self.breaker = CircuitBreaker::HalfOpen { successes: 0 };
        } else if let Event::CircuitClosed {} = &record.event {
            self.breaker = CircuitBreaker::default();
        } else if let Event::ConcurrencyChanged { max, .. } = &record.event {
            // Growing is slow and says nothing about attempts that began before it.
            if self.ceiling.is_none_or(|before| *max < before) {
                self.cut_at = Some(record.timestamp);
            }
            self.ceiling = Some(*max);
        }
        Ok(())
    }

    fn apply_to_item(&mut self, id: &ItemId, record: &EventRecord) -> Result<(), MisplacedEvent> {
        let EventRecord { agent_id: agent, event, timestamp, .. } = record;
        if let Event::ItemQueued {} = event {
            return self.queue(id);
        }
        let at = *self.index.by_id.get(id).ok_or(MisplacedEvent)?;
        let worker = || agent.ok_or(MisplacedEvent);
        match event {
            Event::AgentStarted { correlation_id, .. } => self.start(at, worker()?, correlation_id),
            Event::AgentCompleted(done) => self.complete(at, done),
            Event::AgentFailed(failed) => self.fail(at, failed),
            Event::AgentReleased { .. } | Event::ResolutionFailed { .. } => {
                let waiting = waiting(&self.item_mut(at)?.stage).ok_or(MisplacedEvent)?;
                self.enter(at, waiting)
            }
            Event::WorkSuspended(work) => self.suspend(at, work, *agent),
            Event::HandlerRestarted { .. } => self.restart_handler(at, worker()?),
            Event::ResolutionStarted { .. } => self.resolve(at, worker()?),
            Event::ResolutionCompleted { commit, commits, .. } => {
                self.resolved(at, commit, *commits)
            }
            Event::AgentUsage { cost_usd, .. } => {
                self.item_mut(at)?.cost_usd += cost_usd.unwrap_or_default();
                Ok(())
            }
            Event::AgentRetrying { retry_at, .. } => {
                self.leave_end(at)?;
                self.enter(at, ItemStage::Waiting { retry_at: *retry_at })
            }
            Event::ItemSkipped { failure, .. } => {
                self.end(at, ItemStage::Skipped, Some(failure))?;
                self.tally.add(failure, id);
                Ok(())
            }
            Event::ItemDeadLettered { failure, .. } => {
                self.end(at, ItemStage::DeadLettered, Some(failure))?;
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
                    return Err(MisplacedEvent);
                }
                self.end(at, ItemStage::Successful, None)
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
            | Event::CheckpointCreated { .. } => Err(MisplacedEvent),
        }
    }

    fn queue(&mut self, id: &ItemId) -> Result<(), MisplacedEvent> {
        let at = u32::try_from(self.items.len()).map_err(|_| MisplacedEvent)?;
        if self.is_queued() || self.index.by_id.insert(id.clone(), at).is_some() {
            return Err(MisplacedEvent);
        }
        self.index.pending.insert(at);
        self.items.push(ItemState {
            id: id.clone(),
            stage: ItemStage::Pending,
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

    fn start(
        &mut self,
        at: u32,
        agent: AgentId,
        correlation_id: &str,
    ) -> Result<(), MisplacedEvent> {
        let is_free = !self.index.running.contains_key(&agent);
        let waits =
            matches!(self.item_mut(at)?.stage, ItemStage::Pending | ItemStage::Waiting { .. });
        if !is_free || !waits {
            return Err(MisplacedEvent);
        }
        let probe = matches!(self.breaker, CircuitBreaker::HalfOpen { .. });
        self.secured.remove(&at);
        let item = self.item_mut(at)?;
        if item.correlation_id.is_none() {
            item.correlation_id = Some(correlation_id.to_owned());
        }
        item.start_suspended();
        self.enter(at, ItemStage::Running { agent, probe })
    }

    fn complete(&mut self, at: u32, done: &AgentCompleted) -> Result<(), MisplacedEvent> {
        let ItemStage::Running { probe, .. } = self.item_mut(at)?.stage else {
            return Err(MisplacedEvent);
        };
        self.breaker.record_attempt(true, probe);
        self.set_suspended(at, None);
        let item = self.item_mut(at)?;
        item.attempts += 1;
        item.setbacks = Vec::new();
        item.failed_steps = FailedStepKinds::of(done);
        if done.has_commits() {
            let AgentCompleted { base, head, commits, .. } = done.clone();
            self.enter(at, ItemStage::Merging(Box::new(CommitRange { base, head, commits })))
        } else {
            self.end(at, ItemStage::Successful, None)
        }
    }

    fn fail(&mut self, at: u32, failed: &AgentFailed) -> Result<(), MisplacedEvent> {
        let ItemStage::Running { agent, probe } = self.item_mut(at)?.stage else {
            return Err(MisplacedEvent);
        };
        self.breaker.record_attempt(false, probe);
        self.set_suspended(at, None);
        let item = self.item_mut(at)?;
        (item.attempts, item.failed) = (item.attempts + 1, item.failed + 1);
        PreviousFailure::of(failed.attempt, failed.step.as_deref(), &failed.failure)
            .push_to(&mut item.setbacks);
        match failed.then {
            FailureDecision::Handler => {
                let (step, failure) = (failed.step.clone(), failed.failure.clone());
                let failed = Some(Box::new(FailedAttempt { step, failure }));
                self.enter(at, ItemStage::Handling { agent, failed })
            }
            // What it comes to is in the next record; without one, it is tried again.
            FailureDecision::Retry | FailureDecision::DeadLetter | FailureDecision::Skip => {
                self.enter(at, ItemStage::Pending)
            }
        }
    }

    /// Applies a conflict of an item's commits: they wait for an agent to resolve it.
    fn conflict(&mut self, at: u32, paths: &[String]) -> Result<(), MisplacedEvent> {
        let ItemStage::Merging(commits) = &self.item_mut(at)?.stage else {
            return Err(MisplacedEvent);
        };
        let conflict = MergeConflict { commits: (**commits).clone(), paths: paths.to_owned() };
        self.enter(at, ItemStage::Conflicted(Box::new(conflict)))
    }

    /// Applies a restart of an item's failure handler.
    fn restart_handler(&mut self, at: u32, agent: AgentId) -> Result<(), MisplacedEvent> {
        let is_free = !self.index.running.contains_key(&agent);
        let ItemStage::Unhandled(failed) = &self.item_mut(at)?.stage else {
            return Err(MisplacedEvent);
        };
        let stage = ItemStage::Handling { agent, failed: Some(failed.clone()) };
        if !is_free {
            return Err(MisplacedEvent);
        }
        self.item_mut(at)?.start_suspended();
        self.enter(at, stage)
    }

    /// Applies the start of an agent that resolves a conflict.
    fn resolve(&mut self, at: u32, agent: AgentId) -> Result<(), MisplacedEvent> {
        let is_free = !self.index.running.contains_key(&agent);
        let ItemStage::Conflicted(conflict) = &self.item_mut(at)?.stage else {
            return Err(MisplacedEvent);
        };
        let conflict = conflict.clone();
        if !is_free {
            return Err(MisplacedEvent);
        }
        self.enter(at, ItemStage::Resolving { agent, conflict })
    }

    /// Applies the commit that resolves a conflict.
    fn resolved(&mut self, at: u32, commit: &str, commits: u64) -> Result<(), MisplacedEvent> {
        let ItemStage::Resolving { conflict, .. } = &self.item_mut(at)?.stage else {
            return Err(MisplacedEvent);
        };
        let (base, head) = (conflict.commits.base.clone(), commit.to_owned());
        self.set_suspended(at, None);
        self.enter(at, ItemStage::Merging(Box::new(CommitRange { base, head, commits })))
    }

    /// Applies the end or the crash of a run: nothing is in flight any more.
    pub(crate) fn release_in_flight(&mut self, by_a_crash: bool) {
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
    pub(crate) fn reset_failure_limits(&mut self) {
        self.judged = FailureCounter::default();
    }

    /// Applies the end of an item, with its failure if it failed.
    fn end(
        &mut self,
        at: u32,
        stage: ItemStage,
        why: Option<&Failure>,
    ) -> Result<(), MisplacedEvent> {
        self.leave_end(at)?;
        self.set_suspended(at, None);
        let failed_steps = std::mem::take(&mut self.item_mut(at)?.failed_steps);
        match stage {
            ItemStage::DeadLettered => self.counts.dead_lettered += 1,
            ItemStage::Skipped => self.counts.skipped += 1,
            ItemStage::Successful
            | ItemStage::Pending
            | ItemStage::Waiting { .. }
            | ItemStage::Running { .. }
            | ItemStage::Handling { .. }
            | ItemStage::Unhandled(_)
            | ItemStage::Merging(_)
            | ItemStage::Conflicted(_)
            | ItemStage::Resolving { .. } => self.counts.count_success(failed_steps),
        }
        // That a dead letter is still one is no news, and nothing to stop a job for.
        let item = self.item_mut(at)?;
        if item.replays == 0 {
            let id = item.id.clone();
            match why {
                Some(failure) => self.judged.record_failure(failure, &id),
                None => self.judged.record_success(),
            }
        }
        self.enter(at, stage)
    }

    /// Refuses to move an item that has come to its end.
    fn leave_end(&mut self, at: u32) -> Result<(), MisplacedEvent> {
        match self.item_mut(at)?.stage {
            ItemStage::Successful | ItemStage::DeadLettered | ItemStage::Skipped => {
                Err(MisplacedEvent)
            }
            ItemStage::Pending
            | ItemStage::Waiting { .. }
            | ItemStage::Running { .. }
            | ItemStage::Handling { .. }
            | ItemStage::Unhandled(_)
            | ItemStage::Merging(_)
            | ItemStage::Conflicted(_)
            | ItemStage::Resolving { .. } => Ok(()),
        }
    }

    /// Moves an item to another stage.
    pub(crate) fn enter(&mut self, at: u32, stage: ItemStage) -> Result<(), MisplacedEvent> {
        let slot = usize::try_from(at).ok().and_then(|at| self.items.get_mut(at));
        let item = slot.ok_or(MisplacedEvent)?;
        let before = std::mem::replace(&mut item.stage, stage);
        self.index.remove(at, &before);
        self.index.insert(at, &item.stage, item.replays > 0);
        Ok(())
    }

    pub(crate) fn item_mut(&mut self, at: u32) -> Result<&mut ItemState, MisplacedEvent> {
        usize::try_from(at).ok().and_then(|at| self.items.get_mut(at)).ok_or(MisplacedEvent)
    }
}

/// Returns where an item waits whose agent was called off; `None` if none was at it.
fn waiting(stage: &ItemStage) -> Option<ItemStage> {
    match stage {
        ItemStage::Handling { failed: Some(failed), .. } => {
            Some(ItemStage::Unhandled(failed.clone()))
        }
        // Older versions did not record why.
        ItemStage::Running { .. } | ItemStage::Handling { failed: None, .. } => {
            Some(ItemStage::Pending)
        }
        ItemStage::Resolving { conflict, .. } => Some(ItemStage::Conflicted(conflict.clone())),
        ItemStage::Pending
        | ItemStage::Waiting { .. }
        | ItemStage::Unhandled(_)
        | ItemStage::Merging(_)
        | ItemStage::Conflicted(_)
        | ItemStage::Successful
        | ItemStage::DeadLettered
        | ItemStage::Skipped => None,
    }
}
