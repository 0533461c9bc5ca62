//! The state of a run, besides the job itself.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use prodigy_core::{
    Timestamp,
    audit::AuditOutcome,
    event::{GuardedFile, PauseReason, PhaseName, Record},
    ids::{ItemId, JobId},
    job::{Input, Job, Replays, StepNames},
    mask::Mask,
    workflow::{Body, ErrorPolicy, Map},
};
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::{
    Error, Settings, begin, crew::Agents, gate::Gate, merges::Merge, phase_steps,
    replay_ends::ReplayedItems, spending::Purse,
};
use crate::{
    audit::Audit,
    clock,
    dlq::DeadLetters,
    git::{Fingerprint, Guard, JobTree, Tripwire},
    process,
    queue::{FinishedAttempt, LocalQueue, WorkQueue as _},
    step::{Supervisors, Told, Workplace, visible},
    store::{JobLock, Journal, Spool},
};

/// The time between two looks whether nothing is under way any more, once the run is to stop.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The events of the run's event loop.
pub(super) enum Heard {
    Inside(Told),
    Ended(Answer),
    Finished(FinishedAttempt),
    Merge(Merge),
    /// It is time for something that could not start before.
    Wake,
}

/// The result of a step that was started.
pub(super) struct Answer {
    /// The input for the job.
    pub(super) input: Input,
    /// The worktree after it, if that is known.
    pub(super) fingerprint: Option<Fingerprint>,
    /// A note for the user.
    pub(super) note: Option<String>,
}

/// The state of a run, besides the job itself.
pub(super) struct Parts {
    pub(super) settings: Settings,
    pub(super) id: JobId,
    pub(super) journal: Journal,
    pub(super) begun: Instant,
    pub(super) tree: Option<JobTree>,
    pub(super) fingerprint: Option<Fingerprint>,
    pub(super) workplace: Option<Arc<Workplace>>,
    pub(super) supervisors: Supervisors,
    pub(super) mask: Mask,
    pub(super) inside: (UnboundedSender<Told>, UnboundedReceiver<Told>),
    pub(super) ended: (UnboundedSender<Answer>, UnboundedReceiver<Answer>),
    pub(super) merged: (UnboundedSender<Merge>, UnboundedReceiver<Merge>),
    /// Set while a top-level step or the selection of items is in flight.
    pub(super) busy: bool,
    /// The number of items' merges in flight.
    pub(super) merging: u32,
    /// The files that decide what runs, and that the job was said to change.
    pub(super) guarded: Vec<GuardedFile>,
    pub(super) queue: LocalQueue,
    pub(super) agents: Agents,
    pub(super) map: Option<Arc<Map>>,
    pub(super) policy: Option<Arc<ErrorPolicy>>,
    /// The dead letters that are tried again.
    pub(super) replays: Arc<Replays>,
    /// The places of those that are about to be claimed.
    pub(super) claims: Vec<u32>,
    /// The check of replays when they are about to be claimed.
    pub(super) gate: Option<Gate>,
    pub(super) audit: Option<Arc<Audit>>,
    /// The replays that ended, for the audit trail.
    pub(super) ended_replays: Vec<(ItemId, AuditOutcome)>,
    pub(super) purse: Purse,
    pub(super) spool: Option<Spool>,
    pub(super) letters: Option<DeadLetters>,
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
    pub(super) guard: Guard,
    /// The user's checkout when it was last checked, while the job runs.
    pub(super) tripwire: Option<Tripwire>,
    pub(super) env: Value,
    pub(super) files_changed: usize,
    /// The reason why nothing new may start, other than a signal.
    pub(super) halt: Option<PauseReason>,
    pub(super) names: StepNames,
    /// When something can start that could not before.
    pub(super) wake: Option<Timestamp>,
    pub(super) checkpointed: Instant,
    /// Set if the last checkpoint could not be written; the user was warned then.
    pub(super) checkpoint_failed: bool,
    _lock: JobLock,
}

impl Parts {
    pub(super) fn new(
        mut settings: Settings,
        id: JobId,
        lock: JobLock,
        journal: Journal,
    ) -> Result<Self, Error> {
        crate::store::create_dir(&settings.layout.state_dir(&id).join("tmp"))?;
        // A git of ours outlives us by a moment when we are killed: whoever takes the job up
        // ends it like everything else of the job, before it writes where others work by then.
        let state = begin::state_dir(&settings, &id);
        settings.repo = settings.repo.marked(process::JOB_MARKER, state);
        settings.repo = settings.repo.marked("PRODIGY_AUTOMATION", "true");
        let in_flight = settings.layout.in_flight_dir(&id);
        crate::store::create_dir(&in_flight)?;
        settings.repo = settings.repo.recording(in_flight);
        if settings.sandbox.is_some()
            && let Err(error) = settings.repo.pack_loose_objects()
        {
            let note = format!("objects of the repository are not safe from the sandbox: {error}");
            settings.reporter.note(&note);
        }
        let mask = begin::mask(&settings.masked);
        let guard = begin::guard(&settings, &id)?;
        let env = visible(&settings.base_env);
        let (map, policy) = match &settings.workflow.body {
            Body::Sequential { .. } => (None, None),
            Body::MapReduce(body) => {
                (Some(Arc::new(body.map.clone())), Some(Arc::new(body.error_policy.clone())))
            }
        };
        Ok(Self {
            names: phase_steps::step_names(&settings.workflow),
            purse: Purse::new(&settings, &id),
            settings,
            env,
            files_changed: 0,
            id,
            journal,
            begun: Instant::now(),
            tree: None,
            fingerprint: None,
            workplace: None,
            supervisors: Supervisors::default(),
            mask,
            inside: unbounded_channel(),
            ended: unbounded_channel(),
            merged: unbounded_channel(),
            busy: false,
            merging: 0,
            guarded: Vec::new(),
            queue: LocalQueue::default(),
            agents: Agents::default(),
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
    pub(super) async fn wait(&mut self) -> Heard {
        let wake = self.wake.map(clock::until);
        // Who waits for a moment that is far away can still be asked to stop, now or before.
        let stop = self.settings.shutdown.stop().clone();
        let is_stopped = stop.is_requested();
        let wake = wake.map(|wake| if is_stopped { wake.min(LOOK_AGAIN) } else { wake });
        let can_be_stopped = wake.is_some() && !is_stopped;
        // What happened inside a step is written before how the step ended.
        tokio::select! {
            biased;
            Some(told) = self.inside.1.recv() => Heard::Inside(told),
            Some(answer) = self.ended.1.recv() => Heard::Ended(answer),
            finished = self.queue.finished() => Heard::Finished(finished),
            Some(merge) = self.merged.1.recv() => Heard::Merge(merge),
            () = tokio::time::sleep(wake.unwrap_or(Duration::MAX)), if wake.is_some() => Heard::Wake,
            () = stop.requested(), if can_be_stopped => Heard::Wake,
        }
    }

    /// Returns what has happened already, if anything has.
    pub(super) fn heard(&mut self) -> Option<Heard> {
        if let Ok(told) = self.inside.1.try_recv() {
            return Some(Heard::Inside(told));
        }
        if let Ok(answer) = self.ended.1.try_recv() {
            return Some(Heard::Ended(answer));
        }
        if let Some(finished) = self.queue.try_finished() {
            return Some(Heard::Finished(finished));
        }
        self.merged.1.try_recv().ok().map(Heard::Merge)
    }

    /// Returns whether nothing is under way.
    pub(super) fn is_quiet(&self) -> bool {
        !self.busy && self.merging == 0 && self.agents.are_idle()
    }

    /// Folds records that are in the journal and shows them.
    pub(super) fn take_in(&mut self, job: &mut Job, records: &[Record]) -> Result<(), Error> {
        for record in records {
            job.apply(record)
                .map_err(|source| Error::Journalled { job: self.id.clone(), source })?;
            self.settings.reporter.record(record, job);
        }
        Ok(())
    }
}
