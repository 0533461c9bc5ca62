//! The decisions that follow from events of the items.

use super::{
    merge::AttemptCost,
    outcome::{MapContext, SuspendedAttempt},
};
use crate::{
    event::{
        AgentCompleted, AgentFailed, Event, FailureDecision, NewEvent, ReplayAuthorization,
        WorkSuspended,
    },
    failure::{Failure, ReasonCode, signature::with_summary},
    ids::{AgentId, ItemId},
    job::{
        CommitRange, Decision, DecisionContext, FailedAttempt, Job, MergeConflict, ReplayScheduler,
        RunOutcome, SuspensionCause,
    },
    workflow::{ErrorPolicy, OnConflict},
};

/// The rules for the items of a job; they come from the workflow and the command line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MapSettings<'a> {
    /// The maximum number of attempts in flight.
    pub max_parallel: u32,
    /// The error policy for failed items.
    pub policy: &'a ErrorPolicy,
    /// The action for commits that conflict.
    pub on_conflict: &'a OnConflict,
    /// Set if a job without items fails.
    pub needs_items: bool,
    /// The dead letters that are tried again in this run.
    pub replays: &'a ReplayScheduler,
}

/// Something that happened to the items.
#[derive(Clone, Debug, PartialEq)]
pub enum ItemInput {
    /// They were chosen.
    Selected {
        /// The SHA-256 of the file that holds them.
        sha256: String,
        /// Their ids, in order.
        ids: Vec<ItemId>,
    },
    /// They cannot be chosen.
    Unusable(Failure),
    /// The ids of those that were chosen and not queued yet.
    Found(Vec<ItemId>),
    /// A dead letter may be replayed, as was decided when it was about to be claimed.
    Claimed {
        /// The item's place.
        item: u32,
        /// The policy rule and the approval that allow it.
        allowed: ReplayAuthorization,
        /// Set if a person forced the replay.
        forced: bool,
    },
    /// A dead letter must not be replayed; it is not wanted any more.
    Unclaimed {
        /// The item's place.
        item: u32,
    },
    /// An attempt succeeded.
    Completed {
        /// The agent that made it.
        agent: AgentId,
        /// The item's place.
        item: u32,
        /// The result of the attempt.
        done: Box<AgentCompleted>,
    },
    /// An attempt failed.
    Failed {
        /// The agent that made it.
        agent: AgentId,
        /// The item's place.
        item: u32,
        /// The step that failed, if it was a step.
        step: Option<String>,
        /// The failure.
        failure: Failure,
        /// The duration of the attempt.
        duration_ms: u64,
        /// The cost of the attempt.
        cost_usd: f64,
        /// Set once what it left behind is safe, so that the item may fail for good.
        secured: bool,
    },
    /// An attempt was cut off by a limit or a budget: it counts as not made.
    CutOff {
        /// The agent that made it.
        agent: AgentId,
        /// The item's place.
        item: u32,
        /// The cause.
        cut_off: SuspensionCause,
        /// The work that it keeps.
        work: Box<WorkSuspended>,
        /// The duration of the attempt.
        duration_ms: u64,
        /// The cost of the attempt.
        cost_usd: f64,
        /// Set once what it left behind is safe, so that the item may fail for good.
        secured: bool,
    },
    /// The handler of the error policy ended; what the item left behind is safe.
    Handled {
        /// The agent that ran it.
        agent: AgentId,
        /// The item's place.
        item: u32,
        /// The failure of the attempt.
        failure: Failure,
        /// The failure of the handler, if it failed.
        handler: Option<Failure>,
    },
    /// An item's commits are in the job's branch.
    Merged {
        /// The item's place.
        item: u32,
        /// The item's branch.
        source: String,
        /// The job's branch.
        target: String,
        /// Where the job's branch stands now.
        tip: String,
    },
    /// An item's commits conflict with what was merged meanwhile.
    Conflict {
        /// The item's place.
        item: u32,
        /// The job's branch.
        target: String,
        /// The paths in conflict.
        paths: Vec<String>,
    },
    /// The conflict of an item is resolved.
    Resolved {
        /// In whose worktree.
        agent: AgentId,
        /// The item's place.
        item: u32,
        /// The commit that has both sides.
        commit: String,
        /// The number of commits on the item's branch, this one included.
        commits: u64,
        /// The duration of the resolution.
        duration_ms: u64,
        /// The cost of the resolution.
        cost_usd: f64,
    },
    /// The conflict of an item could not be resolved.
    Unresolved {
        /// In whose worktree.
        agent: AgentId,
        /// The item's place.
        item: u32,
        /// The failure of the resolution.
        failure: Failure,
        /// The duration of the resolution.
        duration_ms: u64,
        /// The cost of the resolution.
        cost_usd: f64,
    },
    /// An item's commits did not survive.
    CommitsGone {
        /// The item's place.
        item: u32,
    },
}

/// Something to be done about the items.
#[derive(Clone, Debug, PartialEq)]
pub enum ItemAction {
    /// Choose them and send [`ItemInput::Selected`].
    Select,
    /// Send the ids of all but the first so many, as [`ItemInput::Found`].
    Find {
        /// The number of items that are queued already.
        from: u32,
    },
    /// Decide anew whether a dead letter may be replayed, and send [`ItemInput::Claimed`] or
    /// [`ItemInput::Unclaimed`] before anything else.
    Claim {
        /// The item's place.
        item: u32,
    },
    /// Make an attempt.
    Start {
        /// The agent that makes it.
        agent: AgentId,
        /// The item's place.
        item: u32,
        /// Which attempt, from 1.
        attempt: u32,
        /// Set if a person decided that effects of unknown state are made again.
        may_repeat: bool,
    },
    /// Make safe what an attempt left behind that is not made again, and send its outcome once
    /// more.
    Secure {
        /// The agent that made it.
        agent: AgentId,
        /// Set if the handler of the error policy runs in the worktree next.
        goes_on: bool,
    },
    /// Run the handler of the error policy where the attempt was made.
    Handle {
        /// The agent that runs it.
        agent: AgentId,
        /// The item's place.
        item: u32,
        /// The handler.
        name: String,
        /// The failure of the attempt.
        failure: Failure,
    },
    /// Run the handler of the error policy once more, where what the attempt left is restored.
    HandleAgain {
        /// The agent that runs it.
        agent: AgentId,
        /// The item's place.
        item: u32,
        /// The attempt that failed, from 1.
        attempt: u32,
        /// The handler.
        name: String,
        /// The failed attempt.
        failed: Box<FailedAttempt>,
    },
    /// Have an agent resolve the conflict of an item.
    Resolve {
        /// In whose worktree.
        agent: AgentId,
        /// The item's place.
        item: u32,
        /// The attempt whose commits are in conflict, from 1.
        attempt: u32,
        /// The conflict.
        conflict: MergeConflict,
    },
    /// Merge an item's commits.
    Merge {
        /// The item's place.
        item: u32,
        /// The commits.
        commits: CommitRange,
    },
    /// An attempt is over: its worktree is free, or is kept for people to look at.
    Release {
        /// The agent that made it.
        agent: AgentId,
        /// Set if the item has failed for good.
        failed: bool,
    },
}

/// Decides what follows from what happened to the items.
pub(crate) fn handle_item_input(
    job: &Job,
    input: ItemInput,
    rules: MapSettings<'_>,
    surroundings: DecisionContext<'_>,
) -> Decision {
    let Some(map) = &job.map else { return handle_selection(input, rules) };
    let scene = MapContext { job, map, rules, surroundings };
    match input {
        // They are chosen once.
        ItemInput::Selected { .. } | ItemInput::Unusable(_) => Decision::default(),
        ItemInput::Found(ids) => queue(Vec::new(), ids),
        ItemInput::Claimed { item, allowed, forced } => scene.start_replay(item, allowed, forced),
        ItemInput::Unclaimed { .. } => Decision { tick: true, ..Decision::default() },
        ItemInput::Completed { agent, item, done } => scene.attempt_completed(agent, item, *done),
        ItemInput::Failed { agent, item, step, failure, duration_ms, cost_usd, secured } => {
            let then = FailureDecision::Retry;
            let attempt = 0;
            let name = step.as_deref().and_then(|path| surroundings.names.item_step_name(path));
            // An exit code alone says nothing: many items fail with the same one.
            let failure = with_summary(failure, name.as_deref());
            let correlation_id = String::new();
            let failed = AgentFailed {
                attempt,
                correlation_id,
                step,
                name,
                failure,
                duration_ms,
                cost_usd,
                then,
            };
            scene.attempt_failed(agent, item, failed, secured)
        }
        ItemInput::CutOff { agent, item, cut_off, work, duration_ms, cost_usd, secured } => {
            let took = AttemptCost { duration_ms, cost_usd };
            scene.suspend_item(
                agent,
                item,
                SuspendedAttempt { cut_off, work: *work, took, secured },
            )
        }
        ItemInput::Handled { agent, item, failure, handler } => {
            let handler = handler.map(|broken| with_summary(broken, None));
            scene.handler_finished(agent, item, failure, handler)
        }
        ItemInput::Merged { item, source, target, tip } => scene.merged(item, source, target, tip),
        ItemInput::Conflict { item, target, paths } => scene.conflict(item, target, paths),
        ItemInput::Resolved { agent, item, commit, commits, duration_ms, cost_usd } => scene
            .conflict_resolved(agent, item, commit, commits, AttemptCost { duration_ms, cost_usd }),
        ItemInput::Unresolved { agent, item, failure, duration_ms, cost_usd } => scene
            .resolution_failed(
                agent,
                item,
                with_summary(failure, None),
                AttemptCost { duration_ms, cost_usd },
            ),
        ItemInput::CommitsGone { item } => {
            scene.retry_now(item, Vec::new(), "its commits did not survive a loss of power")
        }
    }
}

/// Applies the selection of items for a job that has none yet.
pub(crate) fn handle_selection(input: ItemInput, rules: MapSettings<'_>) -> Decision {
    match input {
        ItemInput::Selected { ids, .. } if ids.is_empty() && rules.needs_items => {
            let failure = Failure::new(ReasonCode::InputMissing, "no items were selected");
            let event = Event::JobFailed { step: "map".to_owned(), failure };
            Decision::finish(vec![event], RunOutcome::NoItems)
        }
        ItemInput::Selected { sha256, ids } => {
            let total = u32::try_from(ids.len()).unwrap_or(u32::MAX);
            queue(vec![Event::ItemsSelected { total, sha256 }.into()], ids)
        }
        ItemInput::Unusable(failure) => {
            let event = Event::JobFailed { step: "map".to_owned(), failure };
            Decision::finish(vec![event], RunOutcome::Failed)
        }
        // Nothing can have happened to items that are not there.
        ItemInput::Found(_)
        | ItemInput::Claimed { .. }
        | ItemInput::Unclaimed { .. }
        | ItemInput::Completed { .. }
        | ItemInput::Failed { .. }
        | ItemInput::CutOff { .. }
        | ItemInput::Handled { .. }
        | ItemInput::Merged { .. }
        | ItemInput::Conflict { .. }
        | ItemInput::Resolved { .. }
        | ItemInput::Unresolved { .. }
        | ItemInput::CommitsGone { .. } => Decision::default(),
    }
}

/// Queues items.
fn queue(mut facts: Vec<NewEvent>, ids: Vec<ItemId>) -> Decision {
    facts.extend(ids.into_iter().map(|id| NewEvent {
        agent_id: None,
        item_id: Some(id),
        event: Event::ItemQueued {},
    }));
    Decision { facts, tick: true, ..Decision::default() }
}
