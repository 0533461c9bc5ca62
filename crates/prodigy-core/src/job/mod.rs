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

pub use activity::AgentActivity;
pub use costs::CostSummary;
pub use decide::{Decision, DecisionContext, JobAction, JobInput, RunOutcome, decide};
pub use dispatch::POISON;
pub use effort::{ResourceUsage, UsageTracker, estimate_sum};
pub use failed_attempt::FailedAttempt;
pub use item_counts::{FailedStepKinds, ItemCounts};
pub use item_summary::{BusyAgent, CircuitStatus, ItemSummary};
pub use items::{ItemAction, ItemInput, MapSettings};
pub use kept_summary::{KeptEntry, KeptSummary};
pub use map::{CommitRange, ItemStage, ItemState, MapState, MergeConflict};
pub use names::{AgentSteps, StepIdentities, TopLevelSteps};
pub use pace::Throughput;
pub use replays::{AbortReason, AbortedCause, ReplayScheduler};
pub use results::{set_output, set_step_result};
pub use setback::PreviousFailure;
pub use spending::{BudgetOverrun, QuotaState, QuotaUtilization, SpendContext, exceeded};
pub use state::{ApplyError, Job, JobOutcome, JobWorktreeState};
pub use summary::{JobStatus, JobSummary};
pub use suspended_summary::SuspendedSummary;
pub use suspension::{MERGE_STEPS, SuspendedWork, SuspensionCause};
pub use warnings::{AgentWarning, AgentWarnings};
