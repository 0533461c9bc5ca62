//! The one loop that owns a job.

pub(crate) mod abort;
pub(crate) mod actions;
pub(crate) mod budget_tracker;
pub(crate) mod checkout_watch;
pub(crate) mod inputs;
pub(crate) mod interrupted_runs;
pub(crate) mod records;
pub(crate) mod run_state;
pub(crate) mod views;

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use budget_tracker::is_recorded_after_stop;
use prodigy_core::{
    event::{Event, EventRecord, NewEvent},
    ids::JobId,
    job::{
        self, ItemAction, Job, JobAction, JobInput, MapSettings, ReplayScheduler, RunOutcome,
        checkpoint::Checkpoint,
    },
    workflow::{ErrorPolicy, Map},
};
use records::{is_effect, mask_event, requires_sync, stop_input};
use run_state::{LOOK_AGAIN, RunState};
use tokio::sync::oneshot;

use super::{Error, ReplaySummary, start};
use crate::{clock, store::save_checkpoint};

/// The least time between two checkpoints within a phase.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(5);

/// A job with everything it needs to be run on.
pub struct Dispatcher {
    pub(crate) parts: RunState,
    pub(crate) job: Job,
    pub(crate) inputs: VecDeque<JobInput>,
    /// The senders notified once the effects among the inputs are on disk, in the same order.
    pub(crate) waiting: VecDeque<oneshot::Sender<()>>,
}

/// The decided records and actions that wait until they are on disk.
#[derive(Default)]
pub(crate) struct DecisionBatch {
    records: Vec<EventRecord>,
    actions: Vec<JobAction>,
    decides: bool,
    events_only: bool,
    /// The senders notified once it is on disk.
    waiting: Vec<oneshot::Sender<()>>,
}

impl Dispatcher {
    pub(crate) fn new(parts: RunState, job: Job) -> Self {
        Self { parts, job, inputs: VecDeque::from([JobInput::Begin]), waiting: VecDeque::new() }
    }

    /// Returns the job's id.
    pub fn id(&self) -> &JobId {
        &self.parts.id
    }

    /// Runs the job to its end or to the next stop; returns how it ended and what it came to.
    pub async fn run(mut self) -> Result<(RunOutcome, Job, ReplaySummary), Error> {
        let result = match self.event_loop().await {
            Ok(ending) => {
                self.parts.agents.shutdown().await;
                self.record_shutdown_events().map(|()| ending)
            }
            Err(error) => self.abort(error).await,
        };
        self.parts.supervisors.close().await;
        self.finish_dead_letters();
        let replayed = self.replay_summary();
        result.map(|ending| (ending, self.job, replayed))
    }

    /// Takes inputs until one of them ends the run.
    async fn event_loop(&mut self) -> Result<RunOutcome, Error> {
        // A run that was killed could not take back what its last step planted.
        self.check_repo_guard()?;
        self.start_checkout_watch()?;
        self.restore_conflict_branches()?;
        self.recover_worktrees()?;
        loop {
            let mut batch = DecisionBatch { events_only: true, ..DecisionBatch::default() };
            let first = self.next_input().await?;
            self.handle_input(first, &mut batch)?;
            // Whatever has happened meanwhile is written with it, so that one sync does for all.
            while !batch.actions.iter().any(must_run_first) {
                let Some(input) = self.ready_input().await? else { break };
                self.handle_input(input, &mut batch)?;
            }
            if let Some(ending) = self.commit_batch(batch).await? {
                return Ok(ending);
            }
        }
    }

    /// Decides what follows from an input and writes it down.
    pub(crate) fn handle_input(
        &mut self,
        input: JobInput,
        batch: &mut DecisionBatch,
    ) -> Result<(), Error> {
        batch.events_only &= matches!(input, JobInput::Inside(_));
        if matches!(&input, JobInput::Inside(fact) if is_effect(&fact.event)) {
            batch.waiting.extend(self.waiting.pop_front());
        }
        let is_tick = matches!(input, JobInput::Tick);
        if is_tick {
            self.refresh_spending();
        }
        let decision = self.decide_input(input);
        if is_tick {
            // What is put away at the end of an attempt tells nobody when it is done.
            let again = self.stop_input().and_then(|_| clock::now().checked_add(LOOK_AGAIN).ok());
            self.parts.wake = again.or(decision.wake);
        }
        let watched = self.checkout_changes_before(&decision.facts);
        let facts = self.with_unmerged_commits(decision.facts)?;
        self.write(watched.into_iter().chain(facts).collect(), batch)?;
        batch.actions.extend(decision.actions);
        // One is enough: it looks at everything.
        if decision.tick && !self.inputs.contains(&JobInput::Tick) {
            self.inputs.push_back(JobInput::Tick);
        }
        Ok(())
    }

    fn decide_input(&self, input: JobInput) -> job::Decision {
        let (policy, replays) = (self.parts.policy.clone(), Arc::clone(&self.parts.replays));
        let map = self.parts.map.clone();
        let surroundings = job::DecisionContext {
            names: &self.parts.names,
            rules: self.rules(map.as_deref(), policy.as_deref(), &replays),
            spending: self.spend_context(),
            now: clock::now(),
            random: crate::step::random_fraction(),
            busy: self.parts.busy,
            draining: self.stop_input().is_some(),
            elapsed_ms: crate::step::millis(self.parts.begun.elapsed()),
            commits: self.parts.commits,
        };
        job::decide(&self.job, input, surroundings)
    }

    /// Returns what holds for the items.
    fn rules<'a>(
        &self,
        map: Option<&'a Map>,
        policy: Option<&'a ErrorPolicy>,
        replays: &'a ReplayScheduler,
    ) -> Option<MapSettings<'a>> {
        let map = map?;
        let settings = &self.parts.settings;
        let most = settings.max_parallel.or(settings.options.max_parallel);
        let max_parallel = most.unwrap_or(map.max_parallel).get();
        let needs_items = settings.options.needs_items;
        let on_conflict = &map.on_conflict;
        Some(MapSettings { max_parallel, policy: policy?, on_conflict, needs_items, replays })
    }

    /// Makes what was decided safe, shows it, and does it; returns how the run ended, if it did.
    pub(crate) async fn commit_batch(
        &mut self,
        batch: DecisionBatch,
    ) -> Result<Option<RunOutcome>, Error> {
        if batch.decides {
            let ticket = self.parts.journal.sync_ticket();
            ticket.wait().await.map_err(|source| self.journal_error(source))?;
        }
        for waiting in batch.waiting {
            // Whoever waited may have been given up meanwhile.
            waiting.send(()).ok();
        }
        for record in &batch.records {
            self.parts.settings.reporter.record(record, &self.job);
            self.apply_projections(record)?;
        }
        let is_phase_over = |it: &EventRecord| matches!(it.event, Event::PhaseCompleted { .. });
        if batch.records.iter().any(is_phase_over) {
            self.checkpoint()?;
        }
        for action in batch.actions {
            if let JobAction::Finish(ending) = action {
                self.record_replay_outcomes().await;
                self.durable()?;
                start::delete_repo_guard(&self.parts.settings, &self.parts.id);
                checkout_watch::delete_watch_state(&self.parts.settings, &self.parts.id);
                self.checkpoint()?;
                return Ok(Some(ending));
            }
            self.perform_action(action).await?;
        }
        self.record_replay_outcomes().await;
        let claims = std::mem::take(&mut self.parts.claims);
        self.claim_replays(claims).await?;
        if !batch.events_only
            && self.inputs.is_empty()
            && self.parts.checkpointed.elapsed() > CHECKPOINT_EVERY
        {
            self.checkpoint()?;
        }
        Ok(None)
    }

    /// Waits for the next thing to happen.
    async fn next_input(&mut self) -> Result<JobInput, Error> {
        loop {
            if let Some(input) = self.ready_input().await? {
                return Ok(input);
            }
            let heard = self.parts.next_message().await;
            self.handle_message(heard).await?;
        }
    }

    /// Returns the next thing that has happened already.
    async fn ready_input(&mut self) -> Result<Option<JobInput>, Error> {
        if self.inputs.is_empty()
            && let Some(heard) = self.parts.try_next_message()
        {
            self.handle_message(heard).await?;
        }
        let Some(input) = self.inputs.pop_front() else { return Ok(None) };
        let stop = matches!(input, JobInput::Tick) && self.parts.is_idle();
        Ok(Some(stop.then(|| self.stop_input()).flatten().unwrap_or(input)))
    }

    /// Returns the input that stops the run, if somebody asked for it.
    pub(crate) fn stop_input(&self) -> Option<JobInput> {
        let reason = self.parts.settings.shutdown.reason().or(self.parts.halt)?;
        Some(stop_input(reason, self.job.overspent))
    }

    /// Writes events and folds them; they are shown once they are safe.
    pub(crate) fn write(
        &mut self,
        mut facts: Vec<NewEvent>,
        batch: &mut DecisionBatch,
    ) -> Result<(), Error> {
        if facts.is_empty() {
            return Ok(());
        }
        for fact in &mut facts {
            mask_event(&self.parts.mask, &mut fact.event);
        }
        batch.decides |= facts.iter().any(requires_sync);
        let records = self.parts.journal.append(facts, clock::now());
        let records = records.map_err(|source| self.journal_error(source))?;
        for record in &records {
            let of_replay = self.concerns_replay(record);
            self.job
                .apply(record)
                .map_err(|source| Error::Journalled { job: self.parts.id.clone(), source })?;
            if let Some(was_replaying) = of_replay {
                self.apply_replay_record(record, was_replaying);
            }
        }
        batch.records.extend(records);
        Ok(())
    }

    /// Writes events, makes them safe and shows them.
    pub(crate) fn append(&mut self, events: Vec<Event>) -> Result<(), Error> {
        self.append_facts(events.into_iter().map(NewEvent::from).collect())
    }

    /// Writes facts, makes them safe and shows them.
    pub(crate) fn append_facts(&mut self, facts: Vec<NewEvent>) -> Result<(), Error> {
        let mut batch = DecisionBatch::default();
        self.write(facts, &mut batch)?;
        if batch.decides {
            self.durable()?;
        }
        for record in &batch.records {
            self.parts.settings.reporter.record(record, &self.job);
        }
        Ok(())
    }

    /// Writes down what agents kept of failed items, and what they spent, while they were let go.
    fn record_shutdown_events(&mut self) -> Result<(), Error> {
        let mut facts: Vec<NewEvent> = Vec::new();
        for input in std::mem::take(&mut self.inputs) {
            if let JobInput::Inside(fact) = input {
                facts.push(fact);
            }
        }
        while let Ok(told) = self.parts.inside.1.try_recv() {
            facts.push(told.fact);
        }
        facts.retain(is_recorded_after_stop);
        let mut batch = DecisionBatch::default();
        self.write(facts, &mut batch)?;
        if !batch.records.is_empty() {
            self.durable()?;
        }
        for record in &batch.records {
            self.parts.settings.reporter.record(record, &self.job);
            self.apply_projections(record)?;
        }
        Ok(())
    }

    /// Waits until everything written is safe.
    pub(crate) fn durable(&self) -> Result<(), Error> {
        self.parts.journal.sync().map_err(|source| self.journal_error(source))
    }

    fn journal_error(&self, source: crate::store::Error) -> Error {
        Error::Journal { job: self.parts.id.clone(), source }
    }

    /// Writes a snapshot of the fold; that it cannot be written is no reason to stop.
    fn checkpoint(&mut self) -> Result<(), Error> {
        // A checkpoint that knows more than the journal has would show that its end is lost.
        self.durable()?;
        self.parts.checkpointed = Instant::now();
        let covers = self.job.seq;
        let segment = self.parts.journal.segment_name();
        let checkpoint = Checkpoint::new(&self.parts.id, &self.job, segment, clock::now());
        let saved = save_checkpoint(&self.parts.settings.layout, &self.parts.id, &checkpoint);
        // It is tried again and again; once is enough to say so.
        let was_told = std::mem::replace(&mut self.parts.checkpoint_failed, saved.is_err());
        match saved {
            Ok(()) if self.job.end.is_none() => {
                self.append(vec![Event::CheckpointCreated { covers }])
            }
            Ok(()) => Ok(()),
            Err(error) => {
                let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
                let cause = cause.unwrap_or_default();
                if !was_told {
                    self.parts
                        .note(&format!("warning: the checkpoint was not written: {error}{cause}"));
                }
                Ok(())
            }
        }
    }
}

/// Returns whether an action has to be done before anything else is decided.
fn must_run_first(action: &JobAction) -> bool {
    matches!(action, JobAction::Finish(_) | JobAction::Item(ItemAction::Claim { .. }))
}
