//! The one loop that owns a job.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use prodigy_core::{
    checkpoint::Checkpoint,
    event::{Event, PauseReason, Record},
    ids::JobId,
    job::{self, Action, Ending, Input, Job},
    mask::Mask,
    workflow::step_label,
};
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::{Error, Settings, begin};
use crate::{
    clock,
    git::{Fingerprint, Guard, JobTree},
    step::{Supervisors, Workplace, visible},
    store::{JobLock, Journal, save_checkpoint},
};

/// The least time between two checkpoints within a phase.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(5);

/// A job with everything it needs to be run on.
pub struct Run {
    pub(super) parts: Parts,
    pub(super) job: Job,
    pub(super) inputs: VecDeque<Input>,
}

/// What a run hears while a step is under way.
enum Heard {
    Inside(Event),
    Ended(Answer),
}

/// How a step that was started ended.
pub(super) struct Answer {
    /// What the job is told.
    pub(super) input: Input,
    /// The worktree after it, if that is known.
    pub(super) fingerprint: Option<Fingerprint>,
}

/// What a run works with, besides the job itself.
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
    pub(super) inside: (UnboundedSender<Event>, UnboundedReceiver<Event>),
    pub(super) ended: (UnboundedSender<Answer>, UnboundedReceiver<Answer>),
    pub(super) busy: bool,
    pub(super) commits: u64,
    /// The commit up to which `commits` counts.
    pub(super) counted: String,
    pub(super) guard: Guard,
    pub(super) env: Value,
    pub(super) files_changed: usize,
    step_names: Vec<String>,
    checkpointed: Instant,
    _lock: JobLock,
}

impl Parts {
    pub(super) fn new(
        settings: Settings,
        id: JobId,
        lock: JobLock,
        journal: Journal,
    ) -> Result<Self, Error> {
        let logs = settings.layout.logs_dir(&id, "workflow");
        crate::store::create_dir(&logs)?;
        crate::store::create_dir(&settings.layout.state_dir(&id).join("tmp"))?;
        let mask = begin::mask(&settings.secrets);
        let guard = begin::guard(&settings, &id)?;
        let step_names = begin::steps(&settings.workflow).iter().map(step_label).collect();
        let env = visible(&settings.base_env);
        Ok(Self {
            settings,
            env,
            files_changed: 0,
            step_names,
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
            busy: false,
            commits: 0,
            counted: String::new(),
            guard,
            checkpointed: Instant::now(),
            _lock: lock,
        })
    }

    /// Tells the reporter something that is not a fact about the job.
    pub(super) fn note(&mut self, note: &str) {
        self.settings.reporter.note(note);
    }

    /// Waits until something happens inside the step that is under way, or it ends.
    async fn wait(&mut self) -> Heard {
        // What happened inside a step is written before how the step ended.
        tokio::select! {
            biased;
            Some(event) = self.inside.1.recv() => Heard::Inside(event),
            Some(answer) = self.ended.1.recv() => Heard::Ended(answer),
        }
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

impl Run {
    pub(super) fn new(parts: Parts, job: Job) -> Self {
        Self { parts, job, inputs: VecDeque::from([Input::Tick]) }
    }

    /// Returns the job's id.
    pub fn id(&self) -> &JobId {
        &self.parts.id
    }

    /// Runs the job to its end or to the next stop; returns how it ended and what it came to.
    pub async fn go(mut self) -> Result<(Ending, Job), Error> {
        let result = self.turn().await;
        if result.is_err() {
            // Nothing can be recorded any more, so nothing may go on running.
            self.parts.settings.shutdown.stop().request();
            while self.parts.busy {
                self.parts.busy = self.parts.ended.1.recv().await.is_none();
            }
        }
        self.parts.supervisors.close().await;
        result.map(|ending| (ending, self.job))
    }

    /// Takes inputs until one of them ends the run.
    async fn turn(&mut self) -> Result<Ending, Error> {
        // A run that was killed could not take back what its last step planted.
        self.check_settings()?;
        loop {
            let input = self.next_input().await;
            let events_only = matches!(input, Input::Inside(_));
            let surroundings = job::Surroundings {
                step_names: &self.parts.step_names,
                elapsed_ms: crate::step::millis(self.parts.begun.elapsed()),
                commits: self.parts.commits,
            };
            let decision = job::decide(&self.job, input, surroundings);
            self.append(decision.events)?;
            for action in decision.actions {
                if let Action::Finish(ending) = action {
                    self.durable()?;
                    begin::forget_guard(&self.parts.settings, &self.parts.id);
                    self.checkpoint()?;
                    return Ok(ending);
                }
                self.perform(action).await?;
            }
            if decision.tick {
                self.inputs.push_back(Input::Tick);
            } else if !events_only && self.parts.checkpointed.elapsed() > CHECKPOINT_EVERY {
                self.checkpoint()?;
            }
        }
    }

    /// Waits for the next thing to happen.
    async fn next_input(&mut self) -> Input {
        let input = match self.inputs.pop_front() {
            Some(input) => input,
            None => match self.parts.wait().await {
                Heard::Inside(event) => Input::Inside(event),
                Heard::Ended(answer) => self.answered(answer),
            },
        };
        let stop = matches!(input, Input::Tick).then(|| self.asked_to_stop()).flatten();
        stop.unwrap_or(input)
    }

    /// Takes in how a step ended.
    fn answered(&mut self, answer: Answer) -> Input {
        self.parts.busy = false;
        self.parts.fingerprint = answer.fingerprint;
        answer.input
    }

    /// Returns the input that stops the run, if somebody asked for it.
    fn asked_to_stop(&self) -> Option<Input> {
        let reason = self.parts.settings.shutdown.reason()?;
        Some(stop(reason))
    }

    /// Writes events, folds them and shows them.
    pub(super) fn append(&mut self, mut events: Vec<Event>) -> Result<(), Error> {
        if events.is_empty() {
            return Ok(());
        }
        for event in &mut events {
            hide(&self.parts.mask, event);
        }
        let decides = events.iter().any(awaited);
        let records = self.parts.journal.append(events, clock::now());
        let records = records.map_err(|source| self.journal_error(source))?;
        if decides {
            self.durable()?;
        }
        self.parts.take_in(&mut self.job, &records)
    }

    /// Waits until everything written is safe.
    fn durable(&self) -> Result<(), Error> {
        self.parts.journal.durable().map_err(|source| self.journal_error(source))
    }

    fn journal_error(&self, source: crate::store::Error) -> Error {
        Error::Journal { job: self.parts.id.clone(), source }
    }

    /// Writes a snapshot of the fold; that it cannot be written is no reason to stop.
    fn checkpoint(&mut self) -> Result<(), Error> {
        self.parts.checkpointed = Instant::now();
        let covers = self.job.seq;
        let checkpoint = Checkpoint::new(&self.parts.id, &self.job, clock::now());
        match save_checkpoint(&self.parts.settings.layout, &self.parts.id, &checkpoint) {
            Ok(()) if self.job.end.is_none() => {
                self.append(vec![Event::CheckpointCreated { covers }])
            }
            Ok(()) => Ok(()),
            Err(error) => {
                let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
                let cause = cause.unwrap_or_default();
                self.parts
                    .note(&format!("warning: the checkpoint was not written: {error}{cause}"));
                Ok(())
            }
        }
    }
}

/// Takes secrets out of an event.
fn hide(mask: &Mask, event: &mut Event) {
    if mask.is_empty() {
        return;
    }
    // Every event came from JSON-able parts, so both ways succeed; if one did not,
    // the event as it is has already been masked where output was read.
    if let Ok(mut value) = serde_json::to_value(&*event) {
        mask.mask_value(&mut value);
        if let Ok(masked) = serde_json::from_value(value) {
            *event = masked;
        }
    }
}

/// Returns the input that stops a run for a reason.
pub(super) fn stop(reason: PauseReason) -> Input {
    let message = match reason {
        PauseReason::Interrupted => "stopped by Ctrl-C",
        PauseReason::Terminated => "stopped by a signal",
        PauseReason::MergeOutstanding => "the result waits to be merged",
        PauseReason::DiskFull => "too little disk space is left",
    };
    Input::Stop { reason, message: message.to_owned() }
}

/// Returns whether the job may go on only once an event is on disk.
///
/// A step of the job's own that is done is not among them: it is written before the
/// next one starts, which `kill -9` cannot undo, and synced a moment later.
fn awaited(event: &Event) -> bool {
    match event {
        Event::JobStarted(_)
        | Event::JobPaused { .. }
        | Event::JobCompleted { .. }
        | Event::JobFailed { .. }
        | Event::PhaseCompleted { .. }
        | Event::WorktreeMerged { .. } => true,
        Event::JobResumed { .. }
        | Event::PhaseStarted { .. }
        | Event::StepStarted { .. }
        | Event::StepCompleted(_)
        | Event::StepFailed { .. }
        | Event::StepSkipped { .. }
        | Event::AgentUsage { .. }
        | Event::WorktreeCreated { .. }
        | Event::WorktreePreserved { .. }
        | Event::WorktreeCleaned { .. }
        | Event::MergeConflict { .. }
        | Event::GitTampering { .. }
        | Event::CheckpointCreated { .. } => false,
    }
}
