//! The journal's vocabulary.
//!
//! An event is a fact that already happened, named in the past tense. The journal
//! is the only record of a job: checkpoints, progress and summaries are computed
//! from it and can be deleted and rebuilt.
//!
//! Adding a variant or an optional field is a minor change of the format. Renaming
//! or removing one needs a new [`FORMAT`] and a reader for the old one.

mod checkout;
mod dlq;
pub(crate) mod event_types;
mod groups;
mod job;
mod job_end;
mod kept_work;
mod quota;
mod run_options;
mod step;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Timestamp,
    agent::TokenUsage,
    effect::{Effect, EffectFinding},
    failure::Failure,
    ids::{AgentId, ItemId, JobId},
    policy::Budget,
};

pub use checkout::{CheckoutChange, CheckoutUpdate, GuardedFile};
pub use dlq::{
    ApprovalRequest, EntryChange, EnvironmentFingerprint, IdentityKind, OwnerRule,
    ReplayAuthorization,
};
pub use job::{
    AgentCompleted, AgentFailed, AttemptStatus, EntryRemoval, FailureDecision, InputOverride,
    JobMode, JobReopening, JobStarted, PhaseName, RenamedSteps, StepFailureDecision,
    WorkflowChange,
};
pub use job_end::{CompletedStatus, PauseReason};
pub use kept_work::{AttemptArtifacts, KeptWork};
pub use quota::{BudgetScope, QuotaPaused, WorkSuspended};
pub use run_options::{OptionChanges, RunOptions};
pub use step::{LogRange, StepCompleted, StepResult, StepStatus, WorktreeSnapshot, is_top_level};

/// The format that this build writes.
pub const FORMAT: u16 = 1;

/// One line of the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EventRecord {
    /// The format the line was written in.
    pub format: u16,
    /// The line's place in the job's journal, from 1 with no gaps.
    pub seq: u64,
    /// When the event was recorded.
    pub timestamp: Timestamp,
    /// The job the event belongs to.
    #[schemars(with = "String")]
    pub job_id: JobId,
    /// The agent it happened to; left out if it happened to the job as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub agent_id: Option<AgentId>,
    /// The item it happened to; left out if it happened to the job as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub item_id: Option<ItemId>,
    /// The event.
    #[serde(flatten)]
    pub event: Event,
}

/// An event and whom it happened to: a record that has no place in the journal yet.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEvent {
    /// The agent, if it happened to one.
    pub agent_id: Option<AgentId>,
    /// The item, if it happened to one.
    pub item_id: Option<ItemId>,
    /// The event.
    pub event: Event,
}

impl From<Event> for NewEvent {
    fn from(event: Event) -> Self {
        Self { agent_id: None, item_id: None, event }
    }
}

/// Something that happened to a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event_type", rename_all = "snake_case")]
pub enum Event {
    /// A job began. Always the first record.
    JobStarted(Box<JobStarted>),
    /// A dead or paused run of the job was taken up again.
    JobResumed {
        /// The version of prodigy that took it up.
        version: String,
        /// The workflow that is used from here on, if it was changed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        workflow: Option<WorkflowChange>,
        /// Set if dead letters are tried again: the items come first, whatever was done after
        /// them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reopened: Option<JobReopening>,
        /// The environment of the steps from here on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        found: Option<Box<EnvironmentFingerprint>>,
        /// The budget from here on, if it was changed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        budget: Option<Budget>,
        /// The flags that hold from here on, if others were given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        options: Option<Box<RunOptions>>,
        /// The branch that the result goes to from here on, if one was named with `--into`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        into: Option<String>,
        /// Set if a usage limit is probed at once, whenever the provider said that it resets.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        try_now: bool,
    },
    /// The job stopped before its end and can be resumed.
    JobPaused {
        /// The reason code of the pause.
        reason: PauseReason,
        /// The reason of the pause, for people.
        message: String,
    },
    /// Everything was run, and the result is merged or there was nothing to merge.
    JobCompleted {
        /// `completed`, or `completed_with_failures` if a step failed and the run went on.
        status: CompletedStatus,
        /// The duration of the run that ended it; runs before a resume are not counted.
        duration_ms: u64,
        /// The commits on the job's branch.
        commits: u64,
    },
    /// A step failed its phase. The job can be resumed at that step.
    JobFailed {
        /// The step.
        step: String,
        /// The failure of the step.
        failure: Failure,
    },
    /// A phase began.
    PhaseStarted {
        /// Which one.
        phase: PhaseName,
        /// The job's worktree at its beginning, if that is not how the last step left it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        snapshot: Option<WorktreeSnapshot>,
    },
    /// A phase ended well.
    PhaseCompleted {
        /// Which one.
        phase: PhaseName,
    },
    /// The items were chosen. They are in the job's `items.jsonl`, in this order.
    ItemsSelected {
        /// The number of items.
        total: u32,
        /// The SHA-256 of that file.
        sha256: String,
    },
    /// An item waits for its turn.
    ItemQueued {},
    /// An attempt of an item began. Written before anything of it runs.
    AgentStarted {
        /// Which attempt, from 1.
        attempt: u32,
        /// The name of the item's work over all attempts.
        correlation_id: String,
    },
    /// An attempt of an item succeeded. Commits still have to be merged.
    AgentCompleted(Box<AgentCompleted>),
    /// An attempt of an item failed.
    AgentFailed(Box<AgentFailed>),
    /// An item will be tried again.
    AgentRetrying {
        /// Which attempt is next, from 1.
        attempt: u32,
        /// The delay before the attempt.
        delay_ms: u64,
        /// When it may start.
        retry_at: Timestamp,
        /// The reason of the retry, for people.
        reason: String,
    },
    /// An item is left out: its attempts failed, and the policy says so.
    ItemSkipped {
        /// The reason why it is skipped, for people.
        reason: String,
        /// The failure of the last attempt.
        failure: Failure,
    },
    /// An item's attempts are used up: it is in the dead letter queue.
    ItemDeadLettered {
        /// The number of attempts.
        attempts: u32,
        /// The failure of the last attempt.
        failure: Failure,
    },
    /// A dead letter is tried again: its item waits for its turn once more. Written before
    /// anything of it runs, and the decision to run it again.
    ReplayStarted {
        /// Which replay of the item this is, from 1.
        replay: u32,
        /// The name of the person who asked for the replay.
        by: String,
        /// The reason that they gave.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Set if the replay was forced: a person reviewed the item and asked for it anyway.
        #[serde(default, skip_serializing_if = "is_false")]
        forced: bool,
        /// The policy rule and the approval that allowed it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        allowed: Option<Box<ReplayAuthorization>>,
    },
    /// An entry left the dead letter queue without being replayed.
    DlqItemRemoved {
        /// The kind of removal.
        how: EntryRemoval,
        /// The reason of the removal.
        reason: String,
        /// The name of the person who removed it.
        by: String,
    },
    /// An entry of the dead letter queue was changed by hand.
    DlqItemUpdated {
        /// The change.
        change: EntryChange,
        /// The reason of the change.
        reason: String,
        /// The name of the person who changed it.
        by: String,
    },
    /// The replay of a dead letter needs approval.
    ApprovalRequested(Box<ApprovalRequest>),
    /// Somebody agreed to the replay of a dead letter.
    ApprovalGranted {
        /// The digest that the approver was shown and approved.
        digest: String,
        /// The approver's name.
        by: String,
        /// The proof of the approver's identity.
        identity: IdentityKind,
        /// Their signature over the digest, if they signed it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    /// Somebody refused the replay of a dead letter.
    ApprovalDenied {
        /// The digest that the approver was shown and denied.
        digest: String,
        /// The name of the person who denied it.
        by: String,
        /// The proof of that person's identity.
        identity: IdentityKind,
        /// The reason of the denial.
        reason: String,
        /// Their signature over the digest, if they signed it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    /// A step is about to change something outside. Written before its process starts.
    EffectPrepared(Box<Effect>),
    /// A step has changed something outside. Written before the step counts as done.
    EffectCommitted {
        /// The name of the effect.
        key: String,
        /// The receipt that the step returned.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        receipt: Option<String>,
    },
    /// Somebody looked whether something outside was changed.
    EffectReconciled {
        /// The name of the effect.
        key: String,
        /// The finding of the check.
        finding: EffectFinding,
        /// The receipt that the check returned.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        receipt: Option<String>,
        /// The name of the person who checked, or `prodigy`.
        by: String,
    },
    /// A change outside was undone, and a check confirmed it.
    EffectCompensated {
        /// The name of the effect.
        key: String,
        /// The name of the person who had it undone.
        by: String,
    },
    /// Too many attempts failed one after the other: no new ones start for a while.
    CircuitOpen {
        /// The number of consecutive failures.
        failures: u32,
        /// When a few are let through again.
        until: Timestamp,
    },
    /// A few attempts are let through, to see whether it is any better.
    CircuitHalfOpen {},
    /// Attempts start as usual again.
    CircuitClosed {},
    /// A step began. Written before anything of it runs.
    StepStarted {
        /// The step's path, e.g. `3` or `3.on_failure.1`.
        step: String,
        /// The step's display name.
        name: String,
        /// Which try this is, from 1.
        attempt: u32,
        /// The step's identity; only of the job's own steps.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        identity: Option<String>,
    },
    /// A step ended well, or its failure was recovered from.
    StepCompleted(Box<StepCompleted>),
    /// A try of a step failed.
    StepFailed {
        /// The step's path.
        step: String,
        /// Which try this was.
        attempt: u32,
        /// The failure.
        failure: Failure,
        /// The next act: another try, the next step, or the end of the phase.
        then: StepFailureDecision,
        /// The duration of the try.
        duration_ms: u64,
        /// Where its output stands in the log files.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        log: Option<LogRange>,
    },
    /// A step was not run because its condition was false.
    StepSkipped {
        /// The step's path.
        step: String,
        /// The step's id in the workflow.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        /// The step's display name.
        name: String,
        /// The condition.
        when: String,
    },
    /// An agent began to work on a step.
    AgentSessionStarted {
        /// The step's path.
        step: String,
        /// The agent's name.
        agent: String,
        /// The name of its conversation with the model.
        session_id: String,
        /// The model, if it said so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// Set if it resumes the session of an earlier try.
        #[serde(default, skip_serializing_if = "is_false")]
        resumed: bool,
    },
    /// An agent used tools; one record covers a few seconds.
    AgentToolUsed {
        /// The step's path.
        step: String,
        /// The tool it used last.
        tool: String,
        /// The purpose of that use, in one line.
        about: String,
        /// The number of tool uses since the last such record.
        uses: u32,
    },
    /// An agent reported what it used.
    AgentUsage {
        /// The step's path.
        step: String,
        /// The agent's name.
        agent: String,
        /// Its cost; left out if nobody knows.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
        /// The tokens it used.
        #[serde(default, skip_serializing_if = "TokenUsage::is_empty")]
        tokens: TokenUsage,
        /// The model, if it said so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// Set if the provider served it: no usage limit and no lack of capacity turned it away.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        served: bool,
        /// True if the cost was computed from tokens because the agent did not tell all of it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        estimated: bool,
        /// A random name for this run of the agent, by which it is counted once.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run: Option<String>,
    },
    /// An agent or another step succeeded, but not without something that a person should know.
    AgentWarned {
        /// The step's path.
        step: String,
        /// The agent's name.
        agent: String,
        /// The warning, for people.
        message: String,
    },
    /// An attempt was given up by no fault of its item: it counts as not made.
    AgentReleased {
        /// The reason of the release, for people.
        reason: String,
        /// The duration of the attempt.
        duration_ms: u64,
        /// The cost of the attempt.
        #[serde(default)]
        cost_usd: f64,
    },
    /// Work was cut off in the middle by a usage limit or a budget; it goes on from there.
    WorkSuspended(Box<WorkSuspended>),
    /// A limit of an account was reached: nothing that needs an agent starts any more.
    QuotaPaused(Box<QuotaPaused>),
    /// A limit comes closer.
    QuotaWarned {
        /// The used share of the limit, from 0 to 1.
        share: f64,
        /// Which limit, in the provider's words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        window: Option<String>,
        /// When it begins anew.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resets_at: Option<Timestamp>,
    },
    /// An agent found that the limit is lifted.
    QuotaResumed {},
    /// The money that was set aside is spent: nothing new starts.
    BudgetExceeded {
        /// Whose money.
        scope: BudgetScope,
        /// The budget.
        limit_usd: f64,
        /// The amount spent.
        spent_usd: f64,
    },
    /// Fewer or more attempts may be under way at once than before.
    ConcurrencyChanged {
        /// The new maximum.
        max: u32,
        /// The reason of the change, for people.
        reason: String,
    },
    /// A worktree was made: the job's, or an agent's.
    WorktreeCreated {
        /// Where.
        path: String,
        /// Its branch.
        branch: String,
        /// The commit it starts from.
        commit: String,
    },
    /// A branch was merged: an item's into the job's, or the job's into the user's.
    WorktreeMerged {
        /// The branch that was merged.
        source: String,
        /// The branch that has it now.
        target: String,
        /// The target's new commit.
        commit: String,
        /// The number of merged commits.
        commits: u64,
    },
    /// A worktree was kept: the job's, or that of a failed item.
    WorktreePreserved {
        /// Where; or the reference that holds it, if it begins with `refs/`.
        path: String,
        /// The reason why it was kept.
        reason: String,
        /// The artifacts of an item's attempt in it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        left: Option<Box<AttemptArtifacts>>,
    },
    /// The job's worktrees were removed.
    WorktreeCleaned {
        /// Where it was.
        path: String,
    },
    /// Work was kept that a successful item, or the job, left outside of its commits.
    WorkKept(Box<KeptWork>),
    /// A merge met a conflict; nothing was changed.
    MergeConflict {
        /// The branch that was merged into.
        target: String,
        /// The paths in conflict.
        paths: Vec<String>,
        /// The agent that is to resolve it, if one is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resolver: Option<String>,
    },
    /// The handler of the error policy runs once more, because it was cut off before; the item is
    /// not tried again. Written before anything of it runs.
    HandlerRestarted {
        /// The handler's name.
        handler: String,
        /// The attempt that failed, from 1.
        attempt: u32,
    },
    /// An agent began to resolve the conflict of an item. Written before anything of it runs.
    ResolutionStarted {
        /// The agent's name.
        resolver: String,
        /// The attempt whose commits are in conflict, from 1.
        attempt: u32,
    },
    /// The conflict of an item is resolved. The commit still has to be merged.
    ResolutionCompleted {
        /// The commit that holds the item's work and what it conflicted with.
        commit: String,
        /// The number of commits on the item's branch, this one included.
        commits: u64,
        /// The duration of the resolution.
        duration_ms: u64,
        /// The cost of the resolution.
        #[serde(default)]
        cost_usd: f64,
    },
    /// The conflict of an item could not be resolved.
    ResolutionFailed {
        /// The failure of the resolution.
        failure: Failure,
        /// The duration of the resolution.
        duration_ms: u64,
        /// The cost of the resolution.
        #[serde(default)]
        cost_usd: f64,
    },
    /// A step changed git settings or hooks that would run code; they were put back.
    GitTampering {
        /// The changes that were reverted.
        changes: Vec<String>,
    },
    /// The checkout of the target branch is about to be brought to the merge. Written before
    /// anything of it is changed, so that a run that takes up the job can finish or undo it.
    CheckoutUpdateStarted(Box<CheckoutUpdate>),
    /// The user's checkout changed while the job ran, other than by the job's own merge. It was
    /// left as it is: the user may have worked in it.
    CheckoutChanged {
        /// The changes.
        changes: Vec<CheckoutChange>,
    },
    /// The job's branch changes files that decide what runs, or who may agree to what, in later
    /// runs. Written before the branch is merged; content that was trusted has to be trusted again.
    GuardedFilesChanged {
        /// The files.
        files: Vec<GuardedFile>,
    },
    /// The end of the journal is lost, and a person accepted that: records after this one do not
    /// know what the lost ones did, so whatever steps change outside may have been changed.
    JournalEndLost {
        /// The last record that was left.
        kept: u64,
        /// The last record that something else knew of.
        known: u64,
        /// The person who accepted it.
        by: String,
    },
    /// A snapshot of the fold was written.
    CheckpointCreated {
        /// The last record it covers.
        covers: u64,
    },
}

/// Returns whether a flag need not be written.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !*flag
}
