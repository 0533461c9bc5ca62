//! Scripts that check or compensate an effect.

use std::time::Duration;

use prodigy_core::{
    effect::{Effect, EffectFinding},
    failure::{Failure, ReasonCode},
    template::Script,
    vars::Vars,
    workflow::{Step, StepAddress},
};

use super::{
    StepContext,
    action::{StepAttempt, bind_script, launch_script, prepare_launch},
    effect::receipt,
    output::{ActionFailure, ActionOutput, ProcessLimits, process_failure},
    runner::cancelled_failure,
};
use crate::process::ProcessStatus;

/// The longest that a check may take, if its step has no limit.
pub(crate) const CHECK_LIMIT: Duration = Duration::from_secs(300);

/// The result of a step's check.
#[derive(Clone, Debug)]
pub struct EffectCheckOutcome {
    /// The answer to whether the effect was made.
    pub finding: EffectFinding,
    /// The receipt that the check returned.
    pub receipt: Option<String>,
    /// The reason why it is not known, if it is not.
    pub problem: String,
}

/// The result of a command that belongs to a step.
pub(crate) struct ScriptOutcome {
    /// The exit code, if it chose one.
    code: Option<i32>,
    output: ActionOutput,
    /// The error, if any.
    problem: String,
}

impl EffectCheckOutcome {
    /// Returns the failure of a step whose check could not say yes or no.
    pub(crate) fn failure(&self) -> Failure {
        let (kind, message) = match self.finding {
            EffectFinding::Partial => (
                ReasonCode::PartialExternalWrite,
                "its check found that a part of the change was made".to_owned(),
            ),
            EffectFinding::Indeterminate | EffectFinding::Committed | EffectFinding::Absent => (
                ReasonCode::EffectCheckFailed,
                format!("its check cannot tell whether the change was made: {}", self.problem),
            ),
        };
        Failure::new(kind, message)
    }
}

/// Runs the check of the step that made an effect, outside of any try.
///
/// An error means that the run was stopped meanwhile: then nothing was found out.
pub async fn check_effect(
    workplace: &StepContext,
    step: &Step,
    vars: &Vars,
    effect: &Effect,
) -> Result<EffectCheckOutcome, Failure> {
    let address = StepAddress::named(&effect.step);
    let which = StepAttempt { key: Some(&effect.key), ..StepAttempt::new(&address, 1, None) };
    run_check_script(workplace, step, vars, which).await
}

/// Undoes what a step changed outside; whether that is so, its check has to say.
pub async fn compensate_effect(
    workplace: &StepContext,
    step: &Step,
    vars: &Vars,
    effect: &Effect,
) -> Result<(), Failure> {
    let compensate = step.external_effect().and_then(|external| external.compensate.as_ref());
    let Some(compensate) = compensate else {
        let message = "the step has no `compensate`";
        return Err(Failure::new(ReasonCode::CompensationFailed, message));
    };
    let address = StepAddress::named(&effect.step);
    let which = StepAttempt { key: Some(&effect.key), ..StepAttempt::new(&address, 1, None) };
    match run_step_script(workplace, step, vars, which, compensate).await {
        Ok(ScriptOutcome { code: Some(0), .. }) => Ok(()),
        Ok(ScriptOutcome { problem, .. }) => {
            Err(Failure::new(ReasonCode::CompensationFailed, problem))
        }
        Err(failed) => Err(Failure { kind: ReasonCode::CompensationFailed, ..failed.failure }),
    }
}

/// Runs the check of a step.
pub(crate) async fn run_check_script(
    workplace: &StepContext,
    step: &Step,
    vars: &Vars,
    which: StepAttempt<'_>,
) -> Result<EffectCheckOutcome, Failure> {
    let check = step.external_effect().and_then(|external| external.check.as_ref());
    let Some(check) = check else {
        let problem = "the step has no `check`".to_owned();
        return Ok(EffectCheckOutcome {
            finding: EffectFinding::Indeterminate,
            receipt: None,
            problem,
        });
    };
    let ran = run_step_script(workplace, step, vars, which, check).await;
    if workplace.tools.stop.is_requested() {
        return Err(cancelled_failure());
    }
    let ScriptOutcome { code, output, problem } = match ran {
        Ok(ran) => ran,
        Err(failed) => {
            ScriptOutcome { code: None, output: failed.output, problem: failed.failure.message }
        }
    };
    let finding = EffectFinding::from_exit_code(code);
    let receipt = receipt(&output.stdout_text()).filter(|_| finding == EffectFinding::Committed);
    Ok(EffectCheckOutcome { finding, receipt, problem })
}

/// Runs a command that belongs to a step, with all that the step itself finds.
pub(crate) async fn run_step_script(
    workplace: &StepContext,
    step: &Step,
    vars: &Vars,
    which: StepAttempt<'_>,
    script: &Script,
) -> Result<ScriptOutcome, Box<ActionFailure>> {
    let bound = bind_script(script, vars).map_err(ActionFailure::without_output)?;
    // The limits that the step ran into are no reason not to look.
    let which = StepAttempt { within: None, ..which };
    let mut launch =
        prepare_launch(workplace, step, vars, which).map_err(ActionFailure::without_output)?;
    launch.timeout = Some(step.timeout.unwrap_or(CHECK_LIMIT));
    let limits = ProcessLimits { timeout: launch.timeout, idle: launch.idle_timeout };
    let (slot, ended) = launch_script(workplace, launch, step.shell_program(), &bound).await?;
    let output = ActionOutput::from_process(slot, &ended);
    let problem = process_failure(&ended, &output, &limits).map(|failure| described(&failure));
    // Only an exit code of its own choice is an answer.
    let code = match (ended.ended_by, &ended.status) {
        (None, ProcessStatus::Exited(code)) => Some(*code),
        (Some(_), _) | (None, ProcessStatus::Signaled(_) | ProcessStatus::NotStarted { .. }) => {
            None
        }
    };
    Ok(ScriptOutcome { code, output, problem: problem.unwrap_or_default() })
}

/// Returns why a command failed, with the last line that it printed.
pub(crate) fn described(failure: &Failure) -> String {
    let last = failure.output_tail.lines().map(str::trim).rfind(|line| !line.is_empty());
    let last = last.map(|line| format!(": {line}")).unwrap_or_default();
    format!("{}{last}", failure.message)
}
