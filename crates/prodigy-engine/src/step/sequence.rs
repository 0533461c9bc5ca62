//! Steps that run one after the other inside another one.

use std::time::Instant;

use prodigy_core::{
    event::StepStatus,
    workflow::{Step, StepAddress},
};

use super::{
    Done, Finished, Scope, Workplace,
    flow::{Task, run},
};

/// Steps that ran one after the other, none of which ended the phase.
#[derive(Debug, Default)]
pub(super) struct StepsDone {
    /// Their outputs, one after the other.
    pub(super) printed: String,
    /// Set if one of them succeeded.
    pub(super) has_success: bool,
    /// The last one that was not skipped.
    pub(super) last: Option<Done>,
}

/// Steps that ran one after the other until one of them ended the phase.
#[derive(Debug)]
pub(super) struct EarlyEnd {
    /// The end of the step that ended it.
    pub(super) end: Finished,
    /// The outputs of all of them, that one included.
    pub(super) printed: String,
}

impl StepsDone {
    fn print(&mut self, output: &str) {
        if !self.printed.is_empty() && !output.is_empty() {
            self.printed.push('\n');
        }
        self.printed += output;
    }
}

/// Runs steps one after the other until one of them ends the phase.
///
/// Returns what came of the steps together.
pub(super) async fn sequence(
    workplace: &Workplace,
    steps: &[Step],
    list: &StepAddress,
    deadline: Option<Instant>,
    scope: &mut Scope,
) -> Result<StepsDone, EarlyEnd> {
    let mut all = StepsDone::default();
    for (number, step) in steps.iter().enumerate() {
        let address = list.step(steps, number);
        let task = Task { step, address: &address, top_level: false, deadline };
        match Box::pin(run(workplace, task, scope)).await {
            Finished::Skipped { .. } => {}
            Finished::GoOn(done) => {
                all.print(&done.output);
                all.has_success |= done.status != StepStatus::Failed;
                all.last = Some(done);
            }
            end @ (Finished::Stop { .. } | Finished::Interrupted) => {
                if let Finished::Stop { output, .. } = &end {
                    all.print(output);
                }
                return Err(EarlyEnd { end, printed: all.printed });
            }
        }
    }
    Ok(all)
}
