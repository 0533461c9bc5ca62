//! A job: the fold over its journal, and the decision what follows.

pub mod checkpoint;
mod dead_letters;
mod decide;
pub mod error_metrics;
mod failed_attempt;
mod item_counts;
mod item_index;
mod map_apply;
mod map_state;
mod position;
mod previous_failure;
mod quota;
mod resume;
mod state;
mod step_variables;
mod summary;
mod suspension;

#[cfg(test)]
mod tests;

pub use decide::{
    Decision, DecisionContext, JobAction, JobInput, RunOutcome, decide,
    dispatch::POISON,
    items::{ItemAction, ItemInput, MapSettings},
    replay_scheduler::{AbortReason, AbortedCause, ReplayScheduler},
    top_level_steps::{AgentSteps, StepIdentities, TopLevelSteps},
};
pub use failed_attempt::FailedAttempt;
pub use item_counts::{FailedStepKinds, ItemCounts};
pub use map_state::{CommitRange, ItemStage, ItemState, MapState, MergeConflict};
pub use previous_failure::PreviousFailure;
pub use quota::{BudgetOverrun, QuotaShare, QuotaState, SpendContext, exceeded};
pub use state::{ApplyError, Job, JobOutcome, JobWorktreeState};
pub use step_variables::{set_output, set_step_result};
pub use summary::{
    JobStatus, JobSummary,
    cost::CostSummary,
    items::{AgentActivity, BusyAgent, CircuitStatus, ItemSummary},
    kept_work::{KeptEntry, KeptSummary},
    resource_usage::{ResourceUsage, UsageTracker, estimate_sum},
    suspended_work::SuspendedSummary,
    throughput::Throughput,
    warnings::{AgentWarning, AgentWarnings},
};
pub use suspension::{MERGE_STEPS, SuspendedWork, SuspensionCause};
