//! The handler of a failed step, and the verdict over the step.

use std::{num::NonZeroU32, time::Duration};

use super::Step;

/// The handler of a failed step.
#[derive(Clone, Debug, PartialEq)]
pub struct OnFailure {
    /// The handler's steps; empty for `on_failure: true`.
    pub steps: Vec<Step>,
    /// The purpose of the handler.
    pub strategy: Strategy,
    /// The maximum number of attempts of the failed step, the first included.
    pub max_attempts: NonZeroU32,
    /// The longest the handler may take.
    pub timeout: Option<Duration>,
    /// The phase fails if the handler fails.
    pub handler_failure_fatal: bool,
    /// The consequence if the step stays failed.
    pub unrecovered: Unrecovered,
    /// Variables made of the handler's combined output: name and source.
    pub captures: Vec<String>,
}

/// The purpose of a handler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// Fix the cause and try again.
    #[default]
    Recovery,
    /// Do it another way.
    Fallback,
    /// Tidy up; never changes the verdict, never retries.
    Cleanup,
    /// Exactly the listed steps.
    Custom,
}

/// The consequence of a step that stays failed although it has a handler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unrecovered {
    /// It fails its item; a phase of the job goes on.
    #[default]
    FailItem,
    /// It fails its phase: `fail_workflow: true`.
    Fail,
    /// It is on record and the next step runs: `on_failure: true` or `fail_workflow: false`.
    GoOn,
}

/// The end of a handler's own steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandlerEnd {
    /// At least one of them succeeded, and none failed it.
    Succeeded,
    /// None of them succeeded, and none failed it: they were skipped, tolerated, or there are none.
    Idle,
    /// One of them failed it.
    Failed,
}

/// The consequence of a failed step once its handler and its new tries are over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepVerdict {
    /// The handler did what the step was to do, or mended what it failed over.
    Recovered,
    /// It stays failed, and the next step runs.
    Ignored,
    /// It stays failed, and so does its phase or item.
    Failed,
}

impl OnFailure {
    /// Decides over a step whose new tries, if any were asked for, failed too.
    ///
    /// In an item, a handler recovers its step if no new try was asked for, and a step that nothing
    /// recovered fails the item. `is_tolerated` is whether the step itself says that its failure
    /// does not matter.
    pub fn verdict(&self, is_item: bool, handler: HandlerEnd, is_tolerated: bool) -> StepVerdict {
        let is_retried = self.max_attempts > NonZeroU32::MIN;
        let is_recovered = match (self.strategy, handler) {
            (Strategy::Fallback, HandlerEnd::Succeeded) => true,
            (Strategy::Fallback, HandlerEnd::Idle) => !is_item,
            (Strategy::Recovery, HandlerEnd::Succeeded) => {
                is_item && !is_retried && self.unrecovered != Unrecovered::Fail
            }
            (Strategy::Cleanup | Strategy::Custom, _)
            | (_, HandlerEnd::Failed)
            | (Strategy::Recovery, HandlerEnd::Idle) => false,
        };
        if is_recovered {
            return StepVerdict::Recovered;
        }
        // A clean-up never changes the verdict.
        let is_fatal = self.handler_failure_fatal
            && self.strategy != Strategy::Cleanup
            && handler == HandlerEnd::Failed;
        let fails = match self.unrecovered {
            Unrecovered::Fail => true,
            Unrecovered::FailItem => is_fatal || (is_item && !is_tolerated),
            Unrecovered::GoOn => is_fatal,
        };
        if fails { StepVerdict::Failed } else { StepVerdict::Ignored }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_follows_from_phase_strategy_and_handler() {
        let strategies =
            [Strategy::Recovery, Strategy::Fallback, Strategy::Cleanup, Strategy::Custom];
        let ends = [HandlerEnd::Succeeded, HandlerEnd::Idle, HandlerEnd::Failed];
        let mut lines = Vec::new();
        for (is_item, attempts) in [(false, 1), (true, 1), (true, 2)] {
            for strategy in strategies {
                let verdicts = ends.map(|end| {
                    let handler = OnFailure {
                        steps: Vec::new(),
                        strategy,
                        max_attempts: NonZeroU32::new(attempts).unwrap(),
                        timeout: None,
                        handler_failure_fatal: false,
                        unrecovered: Unrecovered::FailItem,
                        captures: Vec::new(),
                    };
                    format!("{:?}", handler.verdict(is_item, end, false))
                });
                let place = if is_item { "item" } else { "phase" };
                lines.push(format!("{place} {attempts} {strategy:?}: {}", verdicts.join(", ")));
            }
        }
        insta::assert_snapshot!(lines.join("\n"), @"
        phase 1 Recovery: Ignored, Ignored, Ignored
        phase 1 Fallback: Recovered, Recovered, Ignored
        phase 1 Cleanup: Ignored, Ignored, Ignored
        phase 1 Custom: Ignored, Ignored, Ignored
        item 1 Recovery: Recovered, Failed, Failed
        item 1 Fallback: Recovered, Failed, Failed
        item 1 Cleanup: Failed, Failed, Failed
        item 1 Custom: Failed, Failed, Failed
        item 2 Recovery: Failed, Failed, Failed
        item 2 Fallback: Recovered, Failed, Failed
        item 2 Cleanup: Failed, Failed, Failed
        item 2 Custom: Failed, Failed, Failed
        ");
    }
}
