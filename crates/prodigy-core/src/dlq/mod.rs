//! Dead letters: items that were given up, with everything needed to understand them.
//!
//! An entry is a view of the records of one item. It is stored as one JSON file that
//! stands by itself, so that it can be read, and replayed, long after the job.

mod artifacts;
mod by_hand;
mod convert;
mod entry;
mod happened;
mod job_facts;
mod letter;
mod older;
mod seal;
#[cfg(test)]
mod tests;
mod trace;

pub use artifacts::{NO_CHANGES, WorktreeArtifacts};
pub use convert::{
    AgentResult, AgentStatus, agent_result_to_dlq_item, classify_error, create_error_signature,
    create_failure_detail, extract_worktree_artifacts, is_reprocessable, requires_manual_review,
};
pub use entry::{
    CommitState, DeadLetteredItem, EntryClosure, EntryStatus, ErrorType, FailureDetail, InputEdit,
    ManualAction, ReplayStatus, SCHEMA_VERSION,
};
pub use job_facts::{DeadLetterContext, RunFingerprint};
pub use letter::DeadLetterState;
pub use older::{DeadLetterError, EntryFile};
