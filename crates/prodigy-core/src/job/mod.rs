//! A job: the fold over its journal, and the decision what follows.

mod activity;
mod again;
mod conflict;
mod costs;
mod cut_off;
mod dead_letters;
mod decide;
mod dispatch;
mod effort;
mod failed_attempt;
mod fold;
mod index;
mod item_counts;
mod item_summary;
mod items;
mod kept_summary;
mod map;
mod names;
mod pace;
mod position;
mod replays;
mod results;
mod setback;
mod spending;
mod state;
mod summary;
mod suspended_summary;
mod suspension;
mod verdict;
mod warnings;

#[cfg(test)]
mod tests;

pub use activity::Activity;
pub use costs::Costs;
pub use decide::{Action, Decision, Ending, Input, Surroundings, decide};
pub use dispatch::POISON;
pub use effort::{Effort, Efforts, range_of_sum};
pub use failed_attempt::FailedAttempt;
pub use item_counts::{FailedStepKinds, ItemCounts};
pub use item_summary::{BusyAgent, Circuit, ItemSummary};
pub use items::{ItemAction, ItemInput, MapRules};
pub use kept_summary::{KeptEntry, KeptSummary};
pub use map::{Conflict, ItemState, MapState, Merging, Stage};
pub use names::{AskingSteps, StepIdentities, StepNames};
pub use pace::Pace;
pub use replays::{Replays, Stopped, StoppedBy};
pub use results::{set_output, set_step_result};
pub use setback::Setback;
pub use spending::{Overspent, Paused, Spending, UsedShare, exceeded};
pub use state::{End, Job, JobTreeState, Unexpected};
pub use summary::{JobStatus, Summary};
pub use suspended_summary::SuspendedSummary;
pub use suspension::{CutOff, MERGE_STEPS, SuspendedWork};
pub use warnings::{Warning, Warnings};
