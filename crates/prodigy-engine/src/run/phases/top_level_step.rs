//! One top-level step: how it ends, and what it leaves in the worktree.

use std::{sync::Arc, time::Instant};

use prodigy_core::{
    event::{StepCompleted, WorkSuspended, WorktreeSnapshot},
    failure::{Failure, ReasonCode},
    job::JobInput,
    workflow::{SetupCapture, Step, StepAddress, step_label},
};

use crate::{
    git::{self, Worktree, WorktreeFingerprint},
    run::{dispatcher::run_state::TaskOutcome, map::suspend::suspend_step},
    step::{self, StepCompletion, StepContext, StepOutcome, StepScope, StepTask, millis},
};

/// A top-level step that is under way.
pub(crate) struct TopLevelStep {
    pub(crate) step: Step,
    pub(crate) path: String,
    pub(crate) address: StepAddress,
    pub(crate) attempt: u32,
    /// The variables that the setup phase makes of its output.
    pub(crate) captures: Vec<SetupCapture>,
    /// When its phase has to be over.
    pub(crate) deadline: Option<Instant>,
}

impl TopLevelStep {
    /// Runs the step and says how it ended.
    pub(crate) async fn run(
        self,
        workplace: &Arc<StepContext>,
        look: WorktreeProbe,
        mut scope: StepScope,
    ) -> TaskOutcome {
        let begun = Instant::now();
        let deadline = self.deadline;
        let task = StepTask { step: &self.step, address: &self.address, top_level: true, deadline };
        let finished = step::run(workplace, task, &mut scope).await;
        let duration_ms = millis(begun.elapsed());
        let fail = |failure, attempt, log| {
            let step = self.path.clone();
            let input = JobInput::StepFailed { step, attempt, failure, duration_ms, log };
            TaskOutcome { input, fingerprint: None, note: None }
        };
        // However the step ended, it may have planted something.
        if let Err(failure) = workplace.check_repo_guard() {
            return fail(failure, self.attempt, None);
        }
        let input = match finished {
            StepOutcome::GoOn(done) => return self.complete(done, look, scope, duration_ms).await,
            StepOutcome::Skipped { when } => {
                let name = step_label(&self.step);
                JobInput::StepSkipped { step: self.path, id: self.step.id, name, when }
            }
            StepOutcome::Stop { failure, attempt, log, .. } => return fail(failure, attempt, log),
            StepOutcome::Interrupted => match workplace.interruption.take() {
                Some(cut_off) => {
                    let work = look.suspend(workplace, &self.path).await;
                    JobInput::StepCutOff { step: self.path, cut_off, work: Box::new(work) }
                }
                None => JobInput::Tick,
            },
        };
        TaskOutcome { input, fingerprint: None, note: None }
    }

    /// Records what the step left behind, the worktree included.
    async fn complete(
        self,
        done: StepCompletion,
        look: WorktreeProbe,
        mut scope: StepScope,
        duration_ms: u64,
    ) -> TaskOutcome {
        let seen = match look.finish().await {
            Ok(seen) => seen,
            Err(failure) => {
                let (step, attempt, log) = (self.path, done.attempt, done.log);
                let input = JobInput::StepFailed { step, attempt, failure, duration_ms, log };
                return TaskOutcome { input, fingerprint: None, note: None };
            }
        };
        for capture in &self.captures {
            // Output that could not be captured has failed the step.
            let output = scope.captures.get(&capture.name).cloned();
            match capture.read(output.unwrap_or_else(|| String::new().into())) {
                Ok(value) => drop(scope.captures.insert(capture.name.clone(), value)),
                Err(why) => {
                    let message = format!("cannot capture `{}`: {why}", capture.name);
                    let failure = Failure::new(ReasonCode::ParseError, message);
                    let (step, attempt, log) = (self.path, done.attempt, done.log);
                    let input = JobInput::StepFailed { step, attempt, failure, duration_ms, log };
                    return TaskOutcome { input, fingerprint: None, note: None };
                }
            }
        }
        // The fold keeps this step's own result; what the scope holds is about the steps inside.
        let id = self.step.id.clone();
        if let Some(id) = &id {
            scope.inner.remove(id);
        }
        let input = JobInput::StepDone(Box::new(StepCompleted {
            step: self.path,
            id,
            attempt: done.attempt.max(self.attempt),
            status: done.status,
            exit_code: done.exit_code,
            duration_ms,
            output: done.output,
            agent: done.agent,
            captures: scope.captures,
            inner: scope.inner,
            snapshot: seen.snapshot,
            log: done.log,
            adopted: done.adopted,
        }));
        TaskOutcome { input, fingerprint: Some(seen.fingerprint), note: None }
    }
}

/// The state of the worktree before a step, to detect the step's changes.
pub(crate) struct WorktreeProbe {
    pub(crate) tree: Worktree,
    pub(crate) before: WorktreeFingerprint,
    /// Set if the step goes on where it was cut off: it may have changed something before.
    pub(crate) is_resumed: bool,
}

/// The changes of a step to the worktree.
struct WorktreeChange {
    snapshot: Option<WorktreeSnapshot>,
    fingerprint: WorktreeFingerprint,
}

impl WorktreeProbe {
    /// Suspends a step that was cut off, unless it has nothing to keep.
    async fn suspend(self, workplace: &Arc<StepContext>, step: &str) -> WorkSuspended {
        let now = self.tree.fingerprint();
        let is_untouched = now.is_ok_and(|now| now.matches(&self.before));
        if is_untouched && !self.is_resumed && !workplace.progress().has_progress() {
            return WorkSuspended { step: Some(step.to_owned()), ..WorkSuspended::default() };
        }
        suspend_step(workplace, step, self.tree).await
    }

    /// Takes a snapshot of the worktree if anything in it changed.
    async fn finish(self) -> Result<WorktreeChange, Failure> {
        let failed = |why: String| {
            let message = format!("the worktree cannot be recorded: {why}");
            Failure::new(ReasonCode::WorktreeError, message)
        };
        // Nothing else of the job runs now, so that a walk may take its time here; a thread
        // of its own would cost more than most walks.
        let fingerprint = self.tree.fingerprint().map_err(|error| failed(error.to_string()))?;
        if !self.is_resumed && fingerprint.matches(&self.before) {
            return Ok(WorktreeChange { snapshot: None, fingerprint });
        }
        match tokio::task::spawn_blocking(move || self.snapshot()).await {
            Ok(seen) => seen.map_err(|error| failed(error.to_string())),
            Err(error) => Err(failed(error.to_string())),
        }
    }

    fn snapshot(&self) -> Result<WorktreeChange, git::Error> {
        let snapshot = Some(self.tree.snapshot()?);
        // Taking it may refresh git's own files.
        Ok(WorktreeChange { snapshot, fingerprint: self.tree.fingerprint()? })
    }
}
