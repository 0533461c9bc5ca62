//! The items of a job at a glance.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::{
    Timestamp,
    agent::TokenUsage,
    event::{AgentCompleted, EntryRemoval, Event, EventRecord, FailureDecision},
    ids::{AgentId, ItemId},
    job::{
        FailedStepKinds, ItemCounts, ItemStage, MapState, Throughput,
        error_metrics::{CountedFailure, ErrorMetrics, ErrorTally},
    },
    policy::CircuitBreaker,
};

/// The items of a job at a glance: what is under way, and how many ended how.
///
/// Its size depends on how many agents and dead letters there are, not on how many items.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ItemSummary {
    /// The number of selected items.
    pub total: u32,
    /// The number of finished items per outcome.
    pub counts: ItemCounts,
    /// Those that are done but for the merge of their commits.
    pub merging: BTreeSet<ItemId>,
    /// The number of attempts that failed and were retried.
    pub retried: u32,
    /// The agents that are busy.
    pub agents: BTreeMap<AgentId, BusyAgent>,
    /// The circuit breaker, if it is not closed.
    pub circuit: Option<CircuitStatus>,
    /// The rate at which items finish.
    pub pace: Throughput,
    /// The failed steps of items that are done but for the merge of their commits.
    failed_steps: BTreeMap<ItemId, FailedStepKinds>,
    /// The counts of failures by error type and pattern.
    tally: ErrorTally,
    /// The dead letters, and where they are counted.
    dead: BTreeMap<ItemId, CountedFailure>,
}

/// An agent and what it does.
#[derive(Clone, Debug, PartialEq)]
pub struct BusyAgent {
    /// The item.
    pub item: ItemId,
    /// Which attempt, from 1.
    pub attempt: u32,
    /// When the attempt began.
    pub since: Timestamp,
    /// The path and the name of the step that began last, once one has.
    pub step: Option<(String, String)>,
    /// The last known activity of the agent.
    pub activity: AgentActivity,
}

/// A circuit breaker that is not closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CircuitStatus {
    /// Nothing starts.
    Open {
        /// When a few attempts are let through.
        until: Timestamp,
    },
    /// A few attempts are let through.
    HalfOpen,
}

impl ItemSummary {
    /// Begins with the items that were chosen.
    pub fn new(total: u32, at: Timestamp) -> Self {
        let mut items = Self { total, ..Self::default() };
        items.pace.restart(at);
        items
    }

    /// Begins with what is known of items that an earlier run left.
    pub fn resumed(map: &MapState, at: Timestamp) -> Self {
        let mut items = Self::new(map.total, at);
        items.counts = map.counts;
        let merging = map.merging().iter().filter_map(|at| map.item(*at));
        items.merging.extend(merging.map(|item| item.id.clone()));
        let failed_steps = map.items.iter().filter(|item| !item.failed_steps.is_none());
        items.failed_steps =
            failed_steps.map(|item| (item.id.clone(), item.failed_steps)).collect();
        items.circuit = match map.breaker {
            CircuitBreaker::Closed { .. } => None,
            CircuitBreaker::Open { until } => Some(CircuitStatus::Open { until }),
            CircuitBreaker::HalfOpen { .. } => Some(CircuitStatus::HalfOpen),
        };
        items.tally = map.tally.clone();
        let dead = map.items.iter().filter(|item| item.stage == ItemStage::DeadLettered);
        items.dead = dead.filter_map(|item| Some((item.id.clone(), item.died?))).collect();
        items
    }

    /// Returns how many are under way, merges included.
    pub fn running(&self) -> u32 {
        u32::try_from(self.agents.len() + self.merging.len()).unwrap_or(u32::MAX)
    }

    /// Returns how many wait for their turn.
    pub fn pending(&self) -> u32 {
        self.total.saturating_sub(self.counts.finished()).saturating_sub(self.running())
    }

    /// Returns how long the rest will take, once there is a basis for it; while the
    /// circuit is open nobody knows.
    pub fn eta(&self, now: Timestamp) -> Option<Duration> {
        let remaining = self.total.saturating_sub(self.counts.finished());
        if self.circuit.is_some() || remaining == 0 {
            return None;
        }
        self.pace.eta(remaining, now)
    }

    /// Returns the numbers, and what failures have in common.
    pub fn metrics(&self) -> ErrorMetrics {
        self.tally.metrics(
            self.total.into(),
            self.counts.successful.into(),
            self.counts.dead_lettered.into(),
            self.counts.skipped.into(),
        )
    }

    /// Applies the end, the crash or the start of a run: nothing is in flight.
    pub fn release(&mut self, at: Timestamp) {
        self.agents.clear();
        self.pace.restart(at);
    }

    /// Applies a record about an item, an agent or the breaker.
    pub fn apply(&mut self, record: &EventRecord) {
        if let Some(busy) = record.agent_id.and_then(|agent| self.agents.get_mut(&agent)) {
            busy.activity.apply(record);
        }
        match &record.event {
            Event::AgentStarted { attempt, .. }
            | Event::HandlerRestarted { attempt, .. }
            | Event::ResolutionStarted { attempt, .. } => self.assign_agent(record, *attempt),
            Event::AgentCompleted(done) => self.complete(record, done),
            Event::WorktreeMerged { .. } => self.succeed(record),
            Event::AgentFailed(failed) if failed.then != FailureDecision::Handler => {
                self.free(record);
            }
            // What it comes to is in the next record.
            Event::AgentReleased { .. }
            | Event::ResolutionFailed { .. }
            | Event::MergeConflict { resolver: Some(_), .. } => self.free(record),
            Event::ResolutionCompleted { .. } => {
                self.free(record);
                self.merging.extend(record.item_id.clone());
            }
            Event::AgentRetrying { .. } => {
                self.free(record);
                self.retried += 1;
            }
            Event::ItemSkipped { failure, .. } => {
                self.end(record, |counts| counts.skipped += 1);
                if let Some(item) = &record.item_id {
                    self.tally.add(failure, item);
                }
            }
            Event::ItemDeadLettered { failure, .. } => {
                self.end(record, |counts| counts.dead_lettered += 1);
                if let Some(item) = &record.item_id {
                    let counted = self.tally.add(failure, item);
                    self.dead.insert(item.clone(), counted);
                }
            }
            Event::ReplayStarted { .. } => {
                if let Some(counted) = self.revive(record) {
                    self.tally.remove(counted);
                }
            }
            Event::DlqItemRemoved { how, .. } => {
                // One that was closed before is counted already.
                let Some(counted) = self.revive(record) else { return };
                match how {
                    EntryRemoval::Dropped | EntryRemoval::Cleared => self.counts.skipped += 1,
                    EntryRemoval::Adopted => {
                        self.counts.successful += 1;
                        self.tally.remove(counted);
                    }
                }
            }
            Event::StepStarted { step, name, .. } => {
                let busy = record.agent_id.and_then(|agent| self.agents.get_mut(&agent));
                if let Some(busy) = busy {
                    busy.step = Some((step.clone(), name.clone()));
                }
            }
            Event::CircuitOpen { until, .. } => {
                self.circuit = Some(CircuitStatus::Open { until: *until });
            }
            Event::CircuitHalfOpen {} => self.circuit = Some(CircuitStatus::HalfOpen),
            Event::CircuitClosed {} => self.circuit = None,
            Event::JobStarted(_)
            | Event::JobResumed { .. }
            | Event::JobPaused { .. }
            | Event::JobCompleted { .. }
            | Event::JobFailed { .. }
            | Event::PhaseStarted { .. }
            | Event::PhaseCompleted { .. }
            | Event::ItemsSelected { .. }
            | Event::ItemQueued {}
            | Event::AgentFailed(_)
            | Event::StepCompleted(_)
            | Event::StepFailed { .. }
            | Event::StepSkipped { .. }
            | Event::AgentUsage { .. }
            | crate::agent_news!()
            | crate::spending_news!()
            | Event::WorktreeCreated { .. }
            | Event::WorktreePreserved { .. }
            | Event::WorktreeCleaned { .. }
            | Event::WorkKept(_)
            | Event::MergeConflict { .. }
            | Event::GitTampering { .. }
            | Event::CheckoutUpdateStarted(_)
            | crate::checkout_news!()
            | Event::DlqItemUpdated { .. }
            | crate::approval_news!()
            | crate::effect_news!()
            | Event::JournalEndLost { .. }
            | Event::CheckpointCreated { .. } => {}
        }
    }

    /// Notes the item that an agent works on from now on.
    fn assign_agent(&mut self, record: &EventRecord, attempt: u32) {
        if let (Some(agent), Some(item)) = (record.agent_id, &record.item_id) {
            let (item, since) = (item.clone(), record.timestamp);
            let activity = AgentActivity::new(since);
            let busy = BusyAgent { item, attempt, since, step: None, activity };
            self.agents.insert(agent, busy);
        }
    }

    /// Removes an item from the dead letters.
    fn revive(&mut self, record: &EventRecord) -> Option<CountedFailure> {
        let counted = self.dead.remove(record.item_id.as_ref()?)?;
        self.counts.dead_lettered = self.counts.dead_lettered.saturating_sub(1);
        Some(counted)
    }

    /// Applies a successful attempt; with commits the item ends when they are merged.
    fn complete(&mut self, record: &EventRecord, done: &AgentCompleted) {
        self.free(record);
        if let Some(item) = &record.item_id {
            self.failed_steps.insert(item.clone(), FailedStepKinds::of(done));
            if done.has_commits() {
                self.merging.insert(item.clone());
                return;
            }
        }
        self.succeed(record);
    }

    /// Applies the success of an item.
    fn succeed(&mut self, record: &EventRecord) {
        let known = record.item_id.as_ref().and_then(|item| self.failed_steps.get(item));
        let failed_steps = known.copied().unwrap_or_default();
        self.end(record, |counts| counts.count_success(failed_steps));
    }

    /// Applies the end of an item.
    fn end(&mut self, record: &EventRecord, count: impl FnOnce(&mut ItemCounts)) {
        self.free(record);
        if let Some(item) = &record.item_id {
            self.failed_steps.remove(item);
        }
        count(&mut self.counts);
        self.pace.record_completion(record.timestamp);
    }

    /// Removes the work in flight for an item.
    fn free(&mut self, record: &EventRecord) {
        if let Some(agent) = record.agent_id {
            self.agents.remove(&agent);
        }
        if let Some(item) = &record.item_id {
            self.merging.remove(item);
        }
    }
}

/// The last known activity of an agent.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentActivity {
    /// The tool that it used last in this step, and what for.
    pub tool: Option<(String, String)>,
    /// Set if it reports its activity in this step; other agents may work without any report.
    pub is_talking: bool,
    /// When something of it was last recorded.
    pub heard: Timestamp,
    /// The cost that it reported so far.
    pub cost_usd: f64,
    /// The tokens it used so far.
    pub tokens: TokenUsage,
}

impl AgentActivity {
    /// Begins at a moment.
    pub fn new(at: Timestamp) -> Self {
        let tokens = TokenUsage::default();
        Self { tool: None, is_talking: false, heard: at, cost_usd: 0.0, tokens }
    }

    /// Applies a record about the agent.
    pub fn apply(&mut self, record: &EventRecord) {
        self.heard = record.timestamp;
        if let Event::AgentToolUsed { tool, about, .. } = &record.event {
            self.tool = Some((tool.clone(), about.clone()));
            self.is_talking = true;
        } else if let Event::AgentSessionStarted { .. } = &record.event {
            self.is_talking = true;
        } else if let Event::StepStarted { .. } = &record.event {
            (self.tool, self.is_talking) = (None, false);
        } else if let Event::AgentUsage { cost_usd, tokens, .. } = &record.event {
            self.cost_usd += cost_usd.unwrap_or_default();
            self.tokens += *tokens;
        }
    }
}
