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

use super::budget_tracker::BudgetTracker;
use crate::{
    clock,
    git::{CheckoutBaseline, RepoGuard, Worktree, WorktreeFingerprint},
    process,
    queue::{FinishedAttempt, LocalQueue, WorkQueue as _},
    run::{
        Error, RunSettings,
        map::{merge_queue::MergeMessage, worker_pool::WorkerPool},
        phases,
        replay::{gate::ReplayGate, replay_counts::ReplayedItems},
        start,
    },
    step::{StepContext, StepNotification, SupervisorPool, env_variables},
    store::{JobLock, JournalWriter, Spool, audit::AuditTrail, dlq::DeadLetterProjector},
};

/// The time between two looks whether nothing is under way any more, once the run is to stop.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The events of the run's event loop.
pub(crate) enum DispatcherMessage {
    Inside(StepNotification),
    Ended(TaskOutcome),
    Finished(FinishedAttempt),
    Merge(MergeMessage),
    /// It is time for something that could not start before.
    Wake,
}

/// The result of a step that was started.
pub(crate) struct TaskOutcome {
    /// The input for the job.
    pub(crate) input: JobInput,
    /// The worktree after it, if that is known.
    pub(crate) fingerprint: Option<WorktreeFingerprint>,
    /// A note for the user.
    pub(crate) note: Option<String>,
}

/// The state of a run, besides the job itself.
pub(crate) struct RunState {
    pub(crate) settings: RunSettings,
    pub(crate) id: JobId,
    pub(crate) journal: JournalWriter,
    pub(crate) begun: Instant,
    pub(crate) tree: Option<Worktree>,
    pub(crate) fingerprint: Option<WorktreeFingerprint>,
    pub(crate) workplace: Option<Arc<StepContext>>,
    pub(crate) supervisors: SupervisorPool,
    pub(crate) mask: Mask,
    pub(crate) inside: (UnboundedSender<StepNotification>, UnboundedReceiver<StepNotification>),
    pub(crate) ended: (UnboundedSender<TaskOutcome>, UnboundedReceiver<TaskOutcome>),
    pub(crate) merged: (UnboundedSender<MergeMessage>, UnboundedReceiver<MergeMessage>),
    /// Set while a top-level step or the selection of items is in flight.
    pub(crate) busy: bool,
    /// The number of items' merges in flight.
    pub(crate) merging: u32,
    /// The files that decide what runs, and that the job was said to change.
    pub(crate) guarded: Vec<GuardedFile>,
    pub(crate) queue: LocalQueue,
    pub(crate) agents: WorkerPool,
    pub(crate) map: Option<Arc<Map>>,
    pub(crate) policy: Option<Arc<ErrorPolicy>>,
    /// The dead letters that are tried again.
    pub(crate) replays: Arc<ReplayScheduler>,
    /// The places of those that are about to be claimed.
    pub(crate) claims: Vec<u32>,
    /// The check of replays when they are about to be claimed.
    pub(crate) gate: Option<ReplayGate>,
    pub(crate) audit: Option<Arc<AuditTrail>>,
    /// The replays that ended, for the audit trail.
    pub(crate) ended_replays: Vec<(ItemId, AuditOutcome)>,
    pub(crate) purse: BudgetTracker,
    pub(crate) spool: Option<Spool>,
    pub(crate) letters: Option<DeadLetterProjector>,
    /// Set if the last run ended because the result could not be merged.
    pub(crate) merge_waited: bool,
    /// The last record of the runs before; 0 if there were none.
    pub(crate) before: u64,
    /// The replays of the runs before.
    pub(crate) replayed_before: ReplayedItems,
    /// The value of `${map.…}`, once the items are done.
    pub(crate) map_vars: Option<Value>,
    /// When the phase that is under way has to be over.
    pub(crate) deadline: Option<(PhaseName, Instant)>,
    pub(crate) commits: u64,
    /// The commit up to which `commits` counts.
    pub(crate) counted: String,
    pub(crate) guard: RepoGuard,
    /// The user's checkout when it was last checked, while the job runs.
    pub(crate) tripwire: Option<CheckoutBaseline>,
    pub(crate) env: Value,
    pub(crate) files_changed: usize,
    /// The reason why nothing new may start, other than a signal.
    pub(crate) halt: Option<PauseReason>,
    pub(crate) names: TopLevelSteps,
    /// When something can start that could not before.
    pub(crate) wake: Option<Timestamp>,
    pub(crate) checkpointed: Instant,
    /// Set if the last checkpoint could not be written; the user was warned then.
    pub(crate) checkpoint_failed: bool,
    _lock: JobLock,
}

impl RunState {
    pub(crate) fn new(
        mut settings: RunSettings,
        id: JobId,
        lock: JobLock,
        journal: JournalWriter,
    ) -> Result<Self, Error> {
        crate::store::create_dir(&settings.layout.state_dir(&id).join("tmp"))?;
        // A git of ours outlives us by a moment when we are killed: whoever takes the job up
        // ends it like everything else of the job, before it writes where others work by then.
        let state = start::state_dir(&settings, &id);
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
        let mask = start::secret_mask(&settings.masked);
        let guard = start::load_repo_guard(&settings, &id)?;
        let env = env_variables(&settings.base_env);
        let (map, policy) = match &settings.workflow.body {
            Body::Sequential { .. } => (None, None),
            Body::MapReduce(body) => {
                (Some(Arc::new(body.map.clone())), Some(Arc::new(body.error_policy.clone())))
            }
        };
        Ok(Self {
            names: phases::step_names(&settings.workflow),
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
    pub(crate) fn note(&mut self, note: &str) {
        self.settings.reporter.note(note);
    }

    /// Waits until something happens.
    pub(crate) async fn next_message(&mut self) -> DispatcherMessage {
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
    pub(crate) fn try_next_message(&mut self) -> Option<DispatcherMessage> {
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
    pub(crate) fn is_idle(&self) -> bool {
        !self.busy && self.merging == 0 && self.agents.is_idle()
    }

    /// Folds records that are in the journal and shows them.
    pub(crate) fn apply_records(
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
