//! Dead letters: items that were given up, with everything needed to understand them.
//!
//! An entry is a view of the records of one item. It is stored as one JSON file that
//! stands by itself, so that it can be read, and replayed, long after the job.

mod apply;
mod context;
mod dead_letter;
mod dead_lettering;
mod failure_detail;
mod legacy;
mod manual_actions;
mod state;
#[cfg(test)]
mod tests;
mod worktree_artifacts;

pub use context::{DeadLetterContext, RunFingerprint};
pub use dead_letter::{
    CommitState, DeadLetteredItem, EntryClosure, EntryStatus, ErrorType, FailureDetail, InputEdit,
    ManualAction, ReplayStatus, SCHEMA_VERSION,
};
pub use failure_detail::{
    AgentResult, AgentStatus, agent_result_to_dlq_item, classify_error, create_error_signature,
    create_failure_detail, extract_worktree_artifacts, is_reprocessable, requires_manual_review,
};
pub use legacy::{DeadLetterError, EntryFile};
pub use state::DeadLetterState;
pub use worktree_artifacts::{NO_CHANGES, WorktreeArtifacts};
