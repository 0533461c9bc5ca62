//! The seam between the one loop that decides and those who carry out attempts.
//!
//! It speaks intents: the loop submits attempts, agents claim them, say that they are
//! still at it, and finish them; the loop hears of it and settles what becomes of the
//! agent. Nothing here decides anything, and an answer counts only with the token of
//! the claim that is current.

mod local;

use prodigy_core::{
    effect::EffectLedger,
    event::{AgentCompleted, WorkSuspended},
    failure::Failure,
    ids::AgentId,
    job::{FailedAttempt, MergeConflict, PreviousFailure, SuspendedWork, SuspensionCause},
    policy::ItemBudget,
};

pub use local::LocalQueue;

/// One attempt of one item, or what resolves a conflict of it, for one agent.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    /// The agent that makes it.
    pub agent: AgentId,
    /// The item's place among the job's items, from 0.
    pub item: u32,
    /// Which attempt it is, from 1.
    pub attempt: u32,
    /// The side effects of the attempts before it.
    pub ledger: EffectLedger,
    /// Set if a decision allows repeating side effects that may have been made.
    pub may_repeat: bool,
    /// The spending limit of the item, if there is one.
    pub allowance: Option<ItemBudget>,
    /// The failures of the attempts before it, as far as the work caused them.
    pub setbacks: Vec<PreviousFailure>,
    /// The conflict to resolve; without one the item's steps are run.
    pub conflict: Option<Box<MergeConflict>>,
    /// The handler to run once more instead of the item's steps.
    pub handler: Option<Box<InterruptedHandler>>,
    /// The work that was cut off and goes on.
    pub suspended: Option<Box<SuspendedWork>>,
}

/// A handler of the error policy that was cut off.
#[derive(Clone, Debug, PartialEq)]
pub struct InterruptedHandler {
    /// Its name.
    pub name: String,
    /// The failed attempt.
    pub failed: FailedAttempt,
}

/// An attempt that an agent has taken on. It ends with [`WorkQueue::finish`] and nothing else.
#[derive(Debug, PartialEq)]
pub struct Claim {
    /// The claimed attempt.
    pub assignment: Assignment,
    pub(crate) token: u64,
}

/// The outcome of an attempt.
#[derive(Clone, Debug, PartialEq)]
pub enum AttemptOutcome {
    /// It succeeded.
    Completed(Box<AgentCompleted>),
    /// It failed.
    Failed {
        /// The step that failed, if it was a step.
        step: Option<String>,
        /// The failure.
        failure: Failure,
        /// The duration, in milliseconds.
        duration_ms: u64,
        /// The cost.
        cost_usd: f64,
        /// Set once what it left behind is safe, so that the item may fail for good.
        secured: bool,
    },
    /// It was cut off by a limit or a budget; it counts as not made.
    CutOff {
        /// The cause.
        cut_off: SuspensionCause,
        /// The work that it keeps.
        work: Box<WorkSuspended>,
        /// The duration, in milliseconds.
        duration_ms: u64,
        /// The cost.
        cost_usd: f64,
        /// Set once what it left behind is safe, so that the item may fail for good.
        secured: bool,
    },
    /// The handler of the error policy ended, after a failed attempt.
    Handled {
        /// The failure of the attempt.
        failure: Failure,
        /// The failure of the handler, if it failed.
        handler: Option<Failure>,
    },
    /// The conflict of the item is resolved.
    Resolved {
        /// The commit that has both sides.
        commit: String,
        /// The number of commits of the item's branch with it.
        commits: u64,
        /// The duration, in milliseconds.
        duration_ms: u64,
        /// The cost.
        cost_usd: f64,
    },
    /// The conflict of the item could not be resolved.
    Unresolved {
        /// The failure.
        failure: Failure,
        /// The duration, in milliseconds.
        duration_ms: u64,
        /// The cost.
        cost_usd: f64,
    },
    /// It was given up because the run stops; it counts as not made.
    Released,
}

impl AttemptOutcome {
    /// Returns the same outcome of an attempt whose remains are safe.
    #[must_use]
    pub fn secured(mut self) -> Self {
        if let Self::Failed { secured, .. } | Self::CutOff { secured, .. } = &mut self {
            *secured = true;
        }
        self
    }
}

/// The decision of the loop about an outcome.
#[derive(Debug, PartialEq)]
pub enum FinishResponse {
    /// The agent is free. A failed item's worktree may be worth keeping.
    Released {
        /// Set if the item has failed for good.
        failed: bool,
    },
    /// The attempt is not made again: what it left behind has to be made safe before that is
    /// recorded.
    Secure {
        /// The same attempt, to be finished once more with the same outcome.
        claim: Claim,
        /// Set if the handler of the error policy runs in the worktree next.
        goes_on: bool,
    },
    /// The handler of the error policy has to run where the attempt was made.
    Handle {
        /// The same attempt, to be finished once more.
        claim: Claim,
        /// The handler.
        name: String,
        /// The failure of the attempt.
        failure: Failure,
    },
    /// The claim was not current any more: the outcome counts for nothing.
    Fenced,
}

/// An attempt that ended, as the loop receives it.
#[derive(Debug, PartialEq)]
pub struct FinishedAttempt {
    /// The attempt.
    pub assignment: Assignment,
    /// The outcome.
    pub outcome: AttemptOutcome,
}

/// An attempt that is submitted and not settled.
#[derive(Clone, Debug, PartialEq)]
pub struct InFlightAttempt {
    /// The attempt.
    pub assignment: Assignment,
    /// Set if an agent has claimed it.
    pub claimed: bool,
}

/// The operations of the loop and of the agents.
///
/// The loop calls `submit`, `finished`, `settle`, `secure`, `handle` and `snapshot`; agents call
/// `claim`, `extend` and `finish`.
pub trait WorkQueue: Clone + Send + Sync + 'static {
    /// Hands an attempt out. An attempt that is already held is not handed out twice.
    fn submit(&self, assignment: Assignment);

    /// Waits for an attempt; `None` when the queue is closed.
    fn claim(&self, agent: AgentId) -> impl Future<Output = Option<Claim>> + Send;

    /// Says that the agent is still at it; `false` tells it to stop, since nobody waits for it.
    fn renew(&self, claim: &Claim) -> bool;

    /// Says how an attempt ended, and waits until that is recorded.
    fn finish(
        &self,
        claim: Claim,
        outcome: AttemptOutcome,
    ) -> impl Future<Output = FinishResponse> + Send;

    /// Waits until an attempt ends.
    fn next_finished(&self) -> impl Future<Output = FinishedAttempt> + Send;

    /// Returns an attempt that has ended already.
    fn try_next_finished(&self) -> Option<FinishedAttempt>;

    /// Frees an agent whose outcome is recorded.
    fn release(&self, agent: AgentId, failed: bool);

    /// Has an agent make safe what its attempt left behind; `goes_on` says whether the handler of
    /// the error policy runs next.
    fn secure(&self, agent: AgentId, goes_on: bool);

    /// Has an agent run the handler of the error policy.
    fn run_handler(&self, agent: AgentId, name: String, failure: Failure);

    /// Returns what is submitted and not settled.
    fn in_flight(&self) -> Vec<InFlightAttempt>;

    /// Lets agents go that wait for attempts; claims that are current become void.
    fn close(&self);
}
