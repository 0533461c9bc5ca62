//! The state of a run, besides the job itself.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use prodigy_core::{
    Timestamp,
    audit::AuditOutcome,
    event::{EventRecord, GuardedFile, PauseReason, PhaseName},
    ids::{ItemId, JobId},
    job::{Job, JobInput, ReplayScheduler, TopLevelSteps},
    mask::Mask,
    workflow::{Body, ErrorPolicy, Map},
};
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::{
    Error, RunSettings, begin, crew::WorkerPool, gate::ReplayGate, merges::MergeMessage,
    phase_steps, replay_ends::ReplayedItems, spending::BudgetTracker,
};
use crate::{
    audit::AuditTrail,
    clock,
    dlq::DeadLetterProjector,
    git::{CheckoutBaseline, RepoGuard, Worktree, WorktreeFingerprint},
    process,
    queue::{FinishedAttempt, LocalQueue, WorkQueue as _},
    step::{StepContext, StepNotification, SupervisorPool, env_variables},
    store::{JobLock, JournalWriter, Spool},
};

/// The time between two looks whether nothing is under way any more, once the run is to stop.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The events of the run's event loop.
pub(super) enum DispatcherMessage {
    Inside(StepNotification),
    Ended(TaskOutcome),
    Finished(FinishedAttempt),
    Merge(MergeMessage),
    /// It is time for something that could not start before.
    Wake,
}

/// The result of a step that was started.
pub(super) struct TaskOutcome {
    /// The input for the job.
    pub(super) input: JobInput,
    /// The worktree after it, if that is known.
    pub(super) fingerprint: Option<WorktreeFingerprint>,
    /// A note for the user.
    pub(super) note: Option<String>,
}

/// The state of a run, besides the job itself.
pub(super) struct RunState {
    pub(super) settings: RunSettings,
    pub(super) id: JobId,
    pub(super) journal: JournalWriter,
    pub(super) begun: Instant,
    pub(super) tree: Option<Worktree>,
    pub(super) fingerprint: Option<WorktreeFingerprint>,
    pub(super) workplace: Option<Arc<StepContext>>,
    pub(super) supervisors: SupervisorPool,
    pub(super) mask: Mask,
    pub(super) inside: (UnboundedSender<StepNotification>, UnboundedReceiver<StepNotification>),
    pub(super) ended: (UnboundedSender<TaskOutcome>, UnboundedReceiver<TaskOutcome>),
    pub(super) merged: (UnboundedSender<MergeMessage>, UnboundedReceiver<MergeMessage>),
    /// Set while a top-level step or the selection of items is in flight.
    pub(super) busy: bool,
    /// The number of items' merges in flight.
    pub(super) merging: u32,
    /// The files that decide what runs, and that the job was said to change.
    pub(super) guarded: Vec<GuardedFile>,
    pub(super) queue: LocalQueue,
    pub(super) agents: WorkerPool,
    pub(super) map: Option<Arc<Map>>,
    pub(super) policy: Option<Arc<ErrorPolicy>>,
    /// The dead letters that are tried again.
    pub(super) replays: Arc<ReplayScheduler>,
    /// The places of those that are about to be claimed.
    pub(super) claims: Vec<u32>,
    /// The check of replays when they are about to be claimed.
    pub(super) gate: Option<ReplayGate>,
    pub(super) audit: Option<Arc<AuditTrail>>,
    /// The replays that ended, for the audit trail.
    pub(super) ended_replays: Vec<(ItemId, AuditOutcome)>,
    pub(super) purse: BudgetTracker,
    pub(super) spool: Option<Spool>,
    pub(super) letters: Option<DeadLetterProjector>,
    /// Set if the last run ended because the result could not be merged.
    pub(super) merge_waited: bool,
    /// The last record of the runs before; 0 if there were none.
    pub(super) before: u64,
    /// The replays of the runs before.
    pub(super) replayed_before: ReplayedItems,
    /// The value of `${map.…}`, once the items are done.
    pub(super) map_vars: Option<Value>,
    /// When the phase that is under way has to be over.
    pub(super) deadline: Option<(PhaseName, Instant)>,
    pub(super) commits: u64,
    /// The commit up to which `commits` counts.
    pub(super) counted: String,
    pub(super) guard: RepoGuard,
    /// The user's checkout when it was last checked, while the job runs.
    pub(super) tripwire: Option<CheckoutBaseline>,
    pub(super) env: Value,
    pub(super) files_changed: usize,
    /// The reason why nothing new may start, other than a signal.
    pub(super) halt: Option<PauseReason>,
    pub(super) names: TopLevelSteps,
    /// When something can start that could not before.
    pub(super) wake: Option<Timestamp>,
    pub(super) checkpointed: Instant,
    /// Set if the last checkpoint could not be written; the user was warned then.
    pub(super) checkpoint_failed: bool,
    _lock: JobLock,
}

impl RunState {
    pub(super) fn new(
        mut settings: RunSettings,
        id: JobId,
        lock: JobLock,
        journal: JournalWriter,
    ) -> Result<Self, Error> {
        crate::store::create_dir(&settings.layout.state_dir(&id).join("tmp"))?;
        // A git of ours outlives us by a moment when we are killed: whoever takes the job up
        // ends it like everything else of the job, before it writes where others work by then.
        let state = begin::state_dir(&settings, &id);
        settings.repo = settings.repo.with_env(process::JOB_MARKER, state);
        settings.repo = settings.repo.with_env("PRODIGY_AUTOMATION", "true");
        let in_flight = settings.layout.in_flight_dir(&id);
        crate::store::create_dir(&in_flight)?;
        settings.repo = settings.repo.with_in_flight_dir(in_flight);
        if settings.sandbox.is_some()
            && let Err(error) = settings.repo.pack_loose_objects()
        {
            let note = format!("objects of the repository are not safe from the sandbox: {error}");
            settings.reporter.note(&note);
        }
        let mask = begin::secret_mask(&settings.masked);
        let guard = begin::load_repo_guard(&settings, &id)?;
        let env = env_variables(&settings.base_env);
        let (map, policy) = match &settings.workflow.body {
            Body::Sequential { .. } => (None, None),
            Body::MapReduce(body) => {
                (Some(Arc::new(body.map.clone())), Some(Arc::new(body.error_policy.clone())))
            }
        };
        Ok(Self {
            names: phase_steps::step_names(&settings.workflow),
            purse: BudgetTracker::new(&settings, &id),
            settings,
            env,
            files_changed: 0,
            id,
            journal,
            begun: Instant::now(),
            tree: None,
            fingerprint: None,
            workplace: None,
            supervisors: SupervisorPool::default(),
            mask,
            inside: unbounded_channel(),
            ended: unbounded_channel(),
            merged: unbounded_channel(),
            busy: false,
            merging: 0,
            guarded: Vec::new(),
            queue: LocalQueue::default(),
            agents: WorkerPool::default(),
            map,
            policy,
            replays: Arc::default(),
            claims: Vec::new(),
            gate: None,
            audit: None,
            ended_replays: Vec::new(),
            spool: None,
            letters: None,
            merge_waited: false,
            before: 0,
            replayed_before: ReplayedItems::default(),
            map_vars: None,
            deadline: None,
            commits: 0,
            counted: String::new(),
            guard,
            tripwire: None,
            halt: None,
            wake: None,
            checkpointed: Instant::now(),
            checkpoint_failed: false,
            _lock: lock,
        })
    }

    /// Tells the reporter something that is not a fact about the job.
    pub(super) fn note(&mut self, note: &str) {
        self.settings.reporter.note(note);
    }

    /// Waits until something happens.
    pub(super) async fn next_message(&mut self) -> DispatcherMessage {
        let wake = self.wake.map(clock::until);
        // Who waits for a moment that is far away can still be asked to stop, now or before.
        let stop = self.settings.shutdown.stop().clone();
        let is_stopped = stop.is_requested();
        let wake = wake.map(|wake| if is_stopped { wake.min(LOOK_AGAIN) } else { wake });
        let can_be_stopped = wake.is_some() && !is_stopped;
        // What happened inside a step is written before how the step ended.
        tokio::select! {
            biased;
            Some(told) = self.inside.1.recv() => DispatcherMessage::Inside(told),
            Some(answer) = self.ended.1.recv() => DispatcherMessage::Ended(answer),
            finished = self.queue.next_finished() => DispatcherMessage::Finished(finished),
            Some(merge) = self.merged.1.recv() => DispatcherMessage::Merge(merge),
            () = tokio::time::sleep(wake.unwrap_or(Duration::MAX)), if wake.is_some() => DispatcherMessage::Wake,
            () = stop.wait_requested(), if can_be_stopped => DispatcherMessage::Wake,
        }
    }

    /// Returns what has happened already, if anything has.
    pub(super) fn try_next_message(&mut self) -> Option<DispatcherMessage> {
        if let Ok(told) = self.inside.1.try_recv() {
            return Some(DispatcherMessage::Inside(told));
        }
        if let Ok(answer) = self.ended.1.try_recv() {
            return Some(DispatcherMessage::Ended(answer));
        }
        if let Some(finished) = self.queue.try_next_finished() {
            return Some(DispatcherMessage::Finished(finished));
        }
        self.merged.1.try_recv().ok().map(DispatcherMessage::Merge)
    }

    /// Returns whether nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        !self.busy && self.merging == 0 && self.agents.is_idle()
    }

    /// Folds records that are in the journal and shows them.
    pub(super) fn apply_records(
        &mut self,
        job: &mut Job,
        records: &[EventRecord],
    ) -> Result<(), Error> {
        for record in records {
            job.apply(record)
                .map_err(|source| Error::Journalled { job: self.id.clone(), source })?;
            self.settings.reporter.record(record, job);
        }
        Ok(())
    }
}
