//! The endings of a run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The reason why a job stopped before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PauseReason {
    /// Ctrl-C.
    Interrupted,
    /// SIGTERM or SIGHUP.
    Terminated,
    /// The result waits to be merged.
    MergeOutstanding,
    /// The disk is full or nearly so.
    DiskFull,
    /// The error policy stopped the job.
    Policy,
    /// Dead letters were replayed; the items that were never finished wait.
    ItemsOutstanding,
    /// A usage limit of an account was reached, and the run does not wait for it.
    UsageLimit,
    /// An account has no money left.
    OutOfCredits,
    /// The account of an agent cannot be used: its key or its login was refused.
    NoAccess,
    /// The money that was set aside is spent.
    Budget,
}

/// The status of a completed job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CompletedStatus {
    /// Every step succeeded.
    Completed,
    /// A step failed and the run went on.
    CompletedWithFailures,
}
