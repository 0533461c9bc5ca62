//! Running and resuming jobs: the one loop that owns a job.
//!
//! ```text
//! input ─▶ decide ─▶ events: journal, then fold, then reporter ─▶ actions
//! ```

pub mod control;
mod dispatcher;
mod environment;
mod map;
mod phases;
pub(crate) mod replay;
mod run_options;
mod start;
mod workflow_replacement;

use std::path::PathBuf;

use prodigy_core::{
    event::EventRecord,
    ids::{ItemId, JobId},
    job::{ApplyError, Job},
};

use crate::{
    git,
    store::{self, audit, dlq},
};

pub use control::effect_check::{CheckedEffect, EffectCheckRequest, check_effects};
pub use dispatcher::Dispatcher;
pub use environment::{EnvFileError, base_environment, parse_env_file};
pub use map::{
    checkout_transfer::copy_worktree_files,
    item_selection::{FilePatternError, matching_files},
};
pub use replay::{
    ReplayBatch, ReplayRequest, ReplayScope,
    approvals::{ApprovalService, PendingApproval, VoteError, VoteOutcome, VoteRequest},
    evaluator::{ApprovalProgress, ReplayEvaluator},
    gate::{ReplayRefusal, ReplaySummary},
    replay_base::{MergeHistory, ReplayBase},
    replay_counts::ReplayCounts,
};
pub use start::{
    JobResume, NewJob, RunSettings, WorkflowCopy, WorkflowReplacement, new_job_id, relocate_guard,
    resume, start,
};

/// Sees every record once it is written.
pub trait Reporter: Send {
    /// A record was written and taken in.
    fn record(&mut self, record: &EventRecord, job: &Job);

    /// Something a person should know that is not a fact about the job.
    fn note(&mut self, note: &str);
}

/// Says whether the result may be merged.
pub trait MergeConfirmer: Send {
    /// Asks; `None` means that nobody can be asked.
    fn merge(&mut self, question: &MergeQuestion) -> Option<bool>;
}

/// The merge that is to be confirmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergeQuestion {
    /// The job's branch.
    pub source: String,
    /// The branch the user started from.
    pub target: String,
    /// The number of commits.
    pub commits: usize,
    /// The number of files they change.
    pub files: usize,
}

/// The reasons why a job cannot run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The journal cannot be written. The job can be resumed.
    #[error("job `{job}` is paused: its journal cannot be written")]
    Journal {
        /// The job.
        job: JobId,
        /// The cause.
        source: store::Error,
    },
    /// Files below the home cannot be used.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// Git would not do what was asked.
    #[error(transparent)]
    Git(#[from] git::Error),
    /// The journal does not make sense.
    #[error("the journal of job `{job}` does not make sense")]
    Journalled {
        /// The job.
        job: JobId,
        /// The cause.
        source: ApplyError,
    },
    /// The job has no beginning.
    #[error("the journal of job `{job}` has no beginning")]
    NoBeginning {
        /// The job.
        job: JobId,
    },
    /// The job is over.
    #[error("job `{job}` is already completed")]
    Completed {
        /// The job.
        job: JobId,
        /// Its state.
        state: Box<Job>,
    },
    /// The job belongs to another repository.
    #[error("job `{job}` belongs to `{}`", repository.display())]
    OtherRepository {
        /// The job.
        job: JobId,
        /// The repository it belongs to.
        repository: PathBuf,
    },
    /// The job cannot go on with another workflow.
    #[error("{0}")]
    OtherWorkflow(&'static str),
    /// A change outside was made, and the new workflow has no step for it.
    #[error(
        "{}`{name}` {} (`{key}`), and the workflow has no such step any more",
        item.as_ref().map(|item| format!("{item}: ")).unwrap_or_default(),
        if *is_known { "was made" } else { "may have been made" }
    )]
    NoStepForEffect {
        /// The item, if it is one's.
        item: Option<ItemId>,
        /// The name of the step that made it.
        name: String,
        /// The key of the effect.
        key: String,
        /// Set if the effect is known to have been made.
        is_known: bool,
    },
    /// Too little space is left.
    #[error("only {free} MiB are free in `{}`, and {floor} MiB are wanted", path.display())]
    DiskFloor {
        /// Where.
        path: PathBuf,
        /// The free space, in MiB.
        free: u64,
        /// The required free space, in MiB.
        floor: u64,
    },
    /// The dead letters cannot be read.
    #[error("the dead letters cannot be read")]
    Letters(#[source] dlq::Error),
    /// The budget of the day cannot be kept.
    #[error("`budget.day_usd` cannot be kept: nobody knows what was spent today")]
    Daybook(#[source] store::Error),
    /// The audit trail cannot be appended to, so nothing may be replayed.
    #[error("nothing more is replayed: the audit trail cannot be appended to")]
    Audit(#[source] audit::Error),
    /// A supervisor or a file could not be prepared.
    #[error("{what}")]
    Prepare {
        /// The operation that failed.
        what: String,
        /// The cause.
        source: std::io::Error,
    },
}
