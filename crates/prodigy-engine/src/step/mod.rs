//! The one step executor: every action and every modifier, in every phase.
//!
//! A step runs in a [`StepContext`] and sees a [`StepScope`] of variables. What happens
//! on the way is told to the job through [`StepContext::emit`]; how it ended is the
//! return value. Nothing here writes the journal.

mod action;
mod agent;
mod auto_commit;
mod budget_gate;
mod context;
mod effect;
mod effect_check;
mod effect_tracker;
mod environment;
mod foreach;
mod handler;
mod launch;
mod output;
mod progress;
mod retry;
mod runner;
mod saved_output;
mod sequence;
mod step_events;
mod suspension_flag;
mod validate;
mod working_dir;

use std::collections::BTreeMap;

use prodigy_core::{
    event::{LogRange, StepResult, StepStatus},
    failure::Failure,
    job,
    vars::{SavedRoots, Vars},
};
use serde_json::Value;

pub use action::run_for_output;
pub(crate) use agent::accounting::{not_kept, stop};
pub use agent::{
    accounting::UnknownCosts, previous_failures::PreviousFailures, session::count_interrupted_run,
};
pub use auto_commit::CommitRules;
pub(crate) use auto_commit::blocking;
pub use budget_gate::BudgetGate;
pub use context::{
    AttemptId, JobContext, StepContext, StepNotification, StepOwner, commit_trailer,
};
pub use effect_check::{EffectCheckOutcome, check_effect, compensate_effect};
pub use effect_tracker::EffectTracker;
pub use environment::env_variables;
pub use launch::SupervisorPool;
pub use output::{infrastructure_failure, worktree_failure};
pub use progress::{SavedProgress, WorkProgress};
pub use retry::random_fraction;
pub use runner::{StepTask, cancelled_failure, millis, run};
pub use suspension_flag::SuspensionFlag;

/// The variables that a step sees, and what the steps so far added to them.
#[derive(Clone, Debug, Default)]
pub struct StepScope {
    /// Everything that can be seen.
    pub vars: Vars,
    /// The variables captured since the scope was made.
    pub captures: BTreeMap<String, Value>,
    /// The results of steps with an id since the scope was made.
    pub inner: BTreeMap<String, StepResult>,
    /// The steps that failed without failing their phase since the scope was made.
    pub failed: FailedSteps,
    /// The output of the failed step, in its handler: there it is `${shell.output}`.
    handled: Option<String>,
}

/// The roots that the outputs of steps are in.
const OUTPUTS: &[&str] = &["shell", "claude", "last"];

/// The roots that are different in a handler.
const OF_HANDLERS: &[&str] = &["shell", "claude", "last", "error"];

/// The state of a scope before a handler began.
struct ScopeBackup {
    vars: SavedRoots,
    handled: Option<String>,
}

/// The number of steps that failed without failing their phase, those of handlers left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FailedSteps {
    /// A new try or a handler recovered them.
    pub recovered: u32,
    /// They stayed failed.
    pub ignored: u32,
}

impl FailedSteps {
    fn count(&mut self, status: StepStatus) {
        match status {
            StepStatus::Recovered => self.recovered += 1,
            StepStatus::Failed => self.ignored += 1,
            StepStatus::Success | StepStatus::Skipped => {}
        }
    }
}

impl StepScope {
    /// Starts from the variables of a job.
    pub fn new(vars: Vars) -> Self {
        Self { vars, ..Self::default() }
    }

    /// Starts a scope inside this one, which sees what this one does.
    fn nested(&self) -> Self {
        Self { handled: self.handled.clone(), ..Self::new(self.vars.clone()) }
    }

    /// Starts with what the handler of a failed step sees: the failure, and what was printed.
    pub(crate) fn of_handler(vars: Vars, error: Value, printed: String) -> Self {
        let mut scope = Self::new(vars);
        scope.enter_handler(error, printed);
        scope
    }

    /// Shows the failure that a handler is for, and what the failed step printed.
    fn enter_handler(&mut self, error: Value, printed: String) -> ScopeBackup {
        let before =
            ScopeBackup { vars: self.vars.save(OF_HANDLERS), handled: self.handled.take() };
        self.vars.set("error", error);
        self.vars.set_field("shell", "output", printed.clone());
        self.vars.set_field("last", "output", printed.clone());
        self.handled = Some(printed);
        before
    }

    /// Hides again what only a handler sees; the step is tried again with the variables of its
    /// first try.
    fn leave_handler(&mut self, before: ScopeBackup) {
        self.vars.restore(before.vars);
        self.handled = before.handled;
    }

    /// Sets a captured variable.
    fn capture(&mut self, name: &str, value: Value) {
        self.vars.set(name, value.clone());
        self.captures.insert(name.to_owned(), value);
    }

    /// Records how a step ended.
    fn finished(&mut self, id: Option<&str>, agent: bool, result: &StepResult) {
        job::set_output(&mut self.vars, id, agent, result);
        if let Some(printed) = &self.handled {
            self.vars.set_field("shell", "output", printed.clone());
        }
        if let Some(id) = id {
            self.inner.insert(id.to_owned(), result.clone());
        }
    }

    /// Records that a step was not run because its condition was false.
    fn skipped(&mut self, id: Option<&str>) {
        if let Some(id) = id {
            let result = StepResult::skipped();
            job::set_step_result(&mut self.vars, id, &result);
            self.inner.insert(id.to_owned(), result);
        }
    }

    /// Takes over what another scope added.
    fn absorb(&mut self, other: Self) {
        for (name, value) in other.captures {
            self.capture(&name, value);
        }
        for (id, result) in other.inner {
            job::set_step_result(&mut self.vars, &id, &result);
            self.inner.insert(id, result);
        }
        self.failed.recovered += other.failed.recovered;
        self.failed.ignored += other.failed.ignored;
    }
}

/// The result of a step.
#[derive(Clone, Debug)]
pub enum StepOutcome {
    /// Its condition was false.
    Skipped {
        /// The condition.
        when: String,
    },
    /// The next step may run.
    GoOn(StepCompletion),
    /// The phase has to end.
    Stop {
        /// The failure of the step.
        failure: Failure,
        /// The attempt that failed last.
        attempt: u32,
        /// The start of its output.
        output: String,
        /// Where its output stands.
        log: Option<LogRange>,
    },
    /// The run was stopped while the step was under way.
    Interrupted,
}

/// The output and status of a step after which the next one may run.
#[derive(Clone, Debug)]
pub struct StepCompletion {
    /// The status at its end.
    pub status: StepStatus,
    /// The attempt that ended it.
    pub attempt: u32,
    /// The code of its process.
    pub exit_code: i32,
    /// The start of its output.
    pub output: String,
    /// Set if the output is JSON that satisfies the schema the step asks for.
    pub is_data: bool,
    /// Set if an agent made the output.
    pub agent: bool,
    /// Where its output stands.
    pub log: Option<LogRange>,
    /// Set if nothing was run for it, because the side effect had been made before.
    pub adopted: bool,
}

impl StepCompletion {
    /// Returns what `${steps.ID.…}` shows.
    fn result(&self) -> StepResult {
        StepResult { output: self.output.clone(), exit_code: self.exit_code, status: self.status }
    }
}
