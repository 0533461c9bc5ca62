//! Steps that run one after the other inside another one.

use std::time::Instant;

use prodigy_core::{
    event::StepStatus,
    workflow::{Step, StepAddress},
};

use super::{
    StepCompletion, StepContext, StepOutcome, StepScope,
    runner::{StepTask, run},
};

/// Steps that ran one after the other, none of which ended the phase.
#[derive(Debug, Default)]
pub(super) struct SequenceCompletion {
    /// Their outputs, one after the other.
    pub(super) printed: String,
    /// Set if one of them succeeded.
    pub(super) has_success: bool,
    /// The last one that was not skipped.
    pub(super) last: Option<StepCompletion>,
}

/// Steps that ran one after the other until one of them ended the phase.
#[derive(Debug)]
pub(super) struct SequenceStop {
    /// The end of the step that ended it.
    pub(super) end: StepOutcome,
    /// The outputs of all of them, that one included.
    pub(super) printed: String,
}

impl SequenceCompletion {
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
pub(super) async fn run_sequence(
    workplace: &StepContext,
    steps: &[Step],
    list: &StepAddress,
    deadline: Option<Instant>,
    scope: &mut StepScope,
) -> Result<SequenceCompletion, SequenceStop> {
    let mut all = SequenceCompletion::default();
    for (number, step) in steps.iter().enumerate() {
        let address = list.step(steps, number);
        let task = StepTask { step, address: &address, top_level: false, deadline };
        match Box::pin(run(workplace, task, scope)).await {
            StepOutcome::Skipped { .. } => {}
            StepOutcome::GoOn(done) => {
                all.print(&done.output);
                all.has_success |= done.status != StepStatus::Failed;
                all.last = Some(done);
            }
            end @ (StepOutcome::Stop { .. } | StepOutcome::Interrupted) => {
                if let StepOutcome::Stop { output, .. } = &end {
                    all.print(output);
                }
                return Err(SequenceStop { end, printed: all.printed });
            }
        }
    }
    Ok(all)
}
