//! A job: the fold over its journal, and the decision what follows.

mod again;
mod decide;
mod dispatch;
mod fold;
mod item_summary;
mod items;
mod map;
mod pace;
mod position;
mod replays;
mod state;
mod summary;
mod verdict;

#[cfg(test)]
mod tests;

pub use decide::{Action, Decision, Ending, Input, StepNames, Surroundings, decide};
pub use dispatch::POISON;
pub use item_summary::{BusyAgent, Circuit, ItemSummary};
pub use items::{ItemAction, ItemInput, MapRules};
pub use map::{ItemCounts, ItemState, MapState, Merging, Stage};
pub use pace::Pace;
pub use replays::{Replays, Stopped, StoppedBy};
pub use state::{End, Job, JobTreeState, Unexpected, set_output, set_step_result};
pub use summary::{JobStatus, Summary};
