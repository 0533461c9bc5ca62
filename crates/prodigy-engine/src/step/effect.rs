//! Steps that change something outside the worktree.
//!
//! ```text
//! known? ─▶ recorded: about to ─▶ the process ─▶ recorded: done
//!    │                                └─ failed ─▶ check ─▶ recorded: what was found
//!    └─ done before: its receipt is the output, nothing is run
//! ```
//!
//! A record is on disk before what follows it. Whoever dies in between leaves a beginning
//! without an end, and nobody assumes anything about that.

use prodigy_core::{
    effect::{Effect, EffectFinding, EffectState},
    event::Event,
    failure::{Failure, ReasonCode},
    ids::hex,
    template::BoundScript,
    vars::Vars,
    workflow::{ExternalEffect, Step, rendered_label},
};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::{
    StepContext,
    action::StepAttempt,
    effect_check::{EffectCheckOutcome, run_check_script},
    output::{ActionFailure, ActionOutput},
    runner::cancelled_failure,
};

/// The most of a receipt that is kept.
const RECEIPT_LIMIT: usize = 4096;

/// The name recorded for a check that nobody requested.
const BY: &str = "prodigy";

/// Returns the hash of what a shell step is about to do.
pub(crate) fn script_intent(program: &str, bound: &BoundScript) -> String {
    let BoundScript { text, env, files } = bound;
    digest(&json!({ "program": program, "text": text, "env": env, "files": files }))
}

/// Returns the hash of what an agent is about to be asked.
pub(crate) fn prompt_intent(agent: &str, prompt: &str) -> String {
    digest(&json!({ "agent": agent, "prompt": prompt }))
}

/// The keys of a JSON object come in one order, so the same intent has the same hash.
fn digest(value: &serde_json::Value) -> String {
    format!("sha256:{}", hex(&Sha256::digest(value.to_string())))
}

/// Runs the action of a step; if it changes something outside, with all that goes with that.
pub(crate) async fn run_with_effect(
    workplace: &StepContext,
    step: &Step,
    vars: &Vars,
    which: StepAttempt<'_>,
    intent: Option<String>,
    action: impl Future<Output = Result<ActionOutput, Box<ActionFailure>>>,
) -> Result<ActionOutput, Box<ActionFailure>> {
    let (Some(external), Some(intent_hash)) = (step.external_effect(), intent) else {
        return action.await;
    };
    let effect = Effect {
        key: which.key.unwrap_or_default().to_owned(),
        step: which.path().to_owned(),
        identity: Some(which.address.identity().to_owned()),
        name: rendered_label(step, vars),
        intent_hash,
        attempt: workplace.identity.item.as_ref().map_or(which.attempt, |item| item.attempt),
        state: EffectState::Prepared,
        receipt: None,
        can_check: external.check.is_some(),
        can_compensate: external.compensate.is_some(),
        idempotent: external.idempotent,
        is_earlier: false,
    };
    let deed = EffectRun { workplace, step, external, vars, which, effect };
    if let Some(receipt) = deed.made_before().await? {
        return Ok(deed.adopted(ActionOutput::default(), receipt));
    }
    deed.begin().await?;
    match action.await {
        Ok(output) => deed.commit(output).await,
        Err(failed) => deed.fail(*failed).await,
    }
}

/// A change outside that a step is about to make.
struct EffectRun<'a> {
    workplace: &'a StepContext,
    step: &'a Step,
    external: &'a ExternalEffect,
    vars: &'a Vars,
    which: StepAttempt<'a>,
    effect: Effect,
}

/// The receipt of an effect, for people.
type Receipt = Option<String>;

impl EffectRun<'_> {
    /// Returns the receipt if the change was made before; `None` if it may be made now.
    async fn made_before(&self) -> Result<Option<Receipt>, Box<ActionFailure>> {
        let before = match self.workplace.effects.get(&self.effect.key) {
            Some(before) => before,
            None if self.workplace.effects.is_end_lost() => self.assume_begun().await?,
            None => return Ok(None),
        };
        let is_same = before.intent_hash == self.effect.intent_hash;
        let ExternalEffect { idempotent, check, .. } = self.external;
        match (before.state, before.is_earlier) {
            (EffectState::Absent | EffectState::Compensated, _) => Ok(None),
            // The phase was begun anew, because somebody asked for it.
            (EffectState::Committed, true) if *idempotent => Ok(None),
            (EffectState::Committed, true) if check.is_some() => self.ask(is_same).await,
            (EffectState::Committed, _) if is_same => Ok(Some(before.receipt)),
            (EffectState::Committed, _) if *idempotent => Ok(None),
            (EffectState::Committed, _) => Err(conflict()),
            // Making it once more does no harm.
            (_, _) if *idempotent => Ok(None),
            (EffectState::Prepared | EffectState::Partial | EffectState::Indeterminate, _) => {
                if check.is_some() {
                    return self.ask(is_same).await;
                }
                if self.workplace.effects.take_repeat_permit(&self.effect.key) {
                    return Ok(None);
                }
                Err(ActionFailure::without_output(self.unknown()))
            }
        }
    }

    /// Records a change as begun that a record which is lost may have begun: from here on it is
    /// one of which nobody knows whether it was made.
    async fn assume_begun(&self) -> Result<Effect, Box<ActionFailure>> {
        let prepared = Event::EffectPrepared(Box::new(self.effect.clone()));
        self.workplace.emit_durable(prepared).await.map_err(ActionFailure::without_output)?;
        Ok(self.effect.clone())
    }

    /// Has the check say whether the change was made before.
    async fn ask(&self, is_same: bool) -> Result<Option<Receipt>, Box<ActionFailure>> {
        let looked = self.run_check().await.map_err(ActionFailure::without_output)?;
        match looked.finding {
            EffectFinding::Committed if is_same => Ok(Some(looked.receipt)),
            EffectFinding::Committed => Err(conflict()),
            EffectFinding::Absent => Ok(None),
            EffectFinding::Partial | EffectFinding::Indeterminate => {
                Err(ActionFailure::without_output(looked.failure()))
            }
        }
    }

    /// Records that the change is about to be made.
    async fn begin(&self) -> Result<(), Box<ActionFailure>> {
        let prepared = Event::EffectPrepared(Box::new(self.effect.clone()));
        self.workplace.emit_durable(prepared).await.map_err(ActionFailure::without_output)?;
        if self.workplace.tools.stop.is_requested() {
            self.record(EffectFinding::Absent, None)
                .await
                .map_err(ActionFailure::without_output)?;
            return Err(ActionFailure::without_output(cancelled_failure()));
        }
        Ok(())
    }

    /// Records that the change was made.
    async fn commit(&self, output: ActionOutput) -> Result<ActionOutput, Box<ActionFailure>> {
        let (key, receipt) = (self.effect.key.clone(), receipt(&output.stdout_text()));
        let committed = Event::EffectCommitted { key, receipt };
        match self.workplace.emit_durable(committed).await {
            Ok(()) => Ok(output),
            Err(failure) => Err(ActionFailure::with_output(failure, output)),
        }
    }

    /// Finds out what a process left behind that failed.
    async fn fail(&self, mut failed: ActionFailure) -> Result<ActionOutput, Box<ActionFailure>> {
        if !failed.has_begun {
            self.record(EffectFinding::Absent, None)
                .await
                .map_err(ActionFailure::without_output)?;
            return Err(Box::new(failed));
        }
        if self.workplace.tools.stop.is_requested() {
            // There is no time to look.
            return Err(Box::new(failed));
        }
        if self.external.check.is_some() {
            let looked = match self.run_check().await {
                Ok(looked) => looked,
                Err(failure) => return Err(ActionFailure::with_output(failure, failed.output)),
            };
            match looked.finding {
                EffectFinding::Committed => return Ok(self.adopted(failed.output, looked.receipt)),
                EffectFinding::Partial | EffectFinding::Indeterminate
                    if !self.external.idempotent =>
                {
                    let mut failure = looked.failure();
                    failure.message = format!("{}; {}", failed.failure.message, failure.message);
                    failure.cause = Some(failed.failure.kind);
                    return Err(ActionFailure::with_output(failure, failed.output));
                }
                EffectFinding::Absent | EffectFinding::Partial | EffectFinding::Indeterminate => {}
            }
        } else if !self.external.idempotent && self.workplace.identity.item.is_none() {
            failed.failure = failed.failure.with_unknown_commit();
        }
        Err(Box::new(failed))
    }

    /// Returns the output of a change that was made without the step being run to its end.
    fn adopted(&self, output: ActionOutput, receipt: Receipt) -> ActionOutput {
        let agent = matches!(self.step.action, prodigy_core::workflow::StepAction::Agent { .. });
        let instead = Some(receipt.unwrap_or_default());
        ActionOutput { instead, exit_code: 0, agent, adopted: true, ..output }
    }

    /// Runs the check and records what it found.
    async fn run_check(&self) -> Result<EffectCheckOutcome, Failure> {
        let looked = run_check_script(self.workplace, self.step, self.vars, self.which).await?;
        self.record(looked.finding, looked.receipt.clone()).await?;
        Ok(looked)
    }

    async fn record(&self, finding: EffectFinding, receipt: Receipt) -> Result<(), Failure> {
        let (key, by) = (self.effect.key.clone(), BY.to_owned());
        self.workplace.emit_durable(Event::EffectReconciled { key, finding, receipt, by }).await
    }

    /// Returns the failure of a step of which nobody knows whether it was done.
    fn unknown(&self) -> Failure {
        let way_out = match &self.workplace.identity.item {
            Some(_) => "the step has no `check`".to_owned(),
            None => format!(
                "add a `check` to the step or mark it `idempotent`, then \
                 `prodigy resume {} --use-current-workflow`",
                self.workplace.identity.job
            ),
        };
        let message =
            format!("whether an earlier try changed something outside is not known; {way_out}");
        Failure::new(ReasonCode::UnknownCommitState, message)
    }
}

/// Returns the failure of a change that was made before with other values.
fn conflict() -> Box<ActionFailure> {
    let message = "the change was made before, and with other values";
    ActionFailure::without_output(Failure::new(ReasonCode::IdempotencyConflict, message))
}

/// Returns what is kept of what a step or its check printed.
pub(crate) fn receipt(printed: &str) -> Receipt {
    let printed = printed.trim();
    let mut end = printed.len().min(RECEIPT_LIMIT);
    while !printed.is_char_boundary(end) {
        end -= 1;
    }
    let kept = printed.get(..end).unwrap_or_default();
    (!kept.is_empty()).then(|| kept.to_owned())
}
