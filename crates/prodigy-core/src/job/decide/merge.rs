//! The handling of an item whose commits conflict with what was merged meanwhile.

use std::time::Duration;

use super::{
    items::{ItemAction, MapSettings},
    outcome::{MapContext, item_event},
};
use crate::{
    Timestamp,
    event::{Event, NewEvent},
    failure::{Failure, ReasonCode},
    ids::AgentId,
    job::{
        Decision, ItemStage, JobAction,
        map_state::{CommitRange, ItemState, MergeConflict},
    },
    workflow::OnConflict,
};

/// The number of paths in conflict that a message names.
const NAMED: usize = 5;

/// The duration and the cost of resolving a conflict.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttemptCost {
    pub(crate) duration_ms: u64,
    pub(crate) cost_usd: f64,
}

impl MapContext<'_> {
    /// Returns an item whose commits are being merged.
    fn merging(&self, at: u32) -> Option<(&ItemState, &CommitRange)> {
        let item = self.map.item(at)?;
        match &item.stage {
            ItemStage::Merging(commits) => Some((item, commits)),
            ItemStage::Running { .. }
            | ItemStage::Pending
            | ItemStage::Waiting { .. }
            | ItemStage::Handling { .. }
            | ItemStage::Unhandled(_)
            | ItemStage::Conflicted(_)
            | ItemStage::Resolving { .. }
            | ItemStage::Successful
            | ItemStage::DeadLettered
            | ItemStage::Skipped => None,
        }
    }

    /// Returns an item whose conflict is being resolved by this agent.
    pub(crate) fn resolving(
        &self,
        agent: AgentId,
        at: u32,
    ) -> Option<(&ItemState, &MergeConflict)> {
        let item = self.map.item(at)?;
        match &item.stage {
            ItemStage::Resolving { agent: by, conflict } if *by == agent => Some((item, conflict)),
            ItemStage::Resolving { .. }
            | ItemStage::Running { .. }
            | ItemStage::Pending
            | ItemStage::Waiting { .. }
            | ItemStage::Handling { .. }
            | ItemStage::Unhandled(_)
            | ItemStage::Merging(_)
            | ItemStage::Conflicted(_)
            | ItemStage::Successful
            | ItemStage::DeadLettered
            | ItemStage::Skipped => None,
        }
    }

    /// Records that an item's commits are in the job's branch.
    pub(crate) fn merged(&self, at: u32, source: String, target: String, tip: String) -> Decision {
        let Some((item, commits)) = self.merging(at) else { return Decision::default() };
        let commits = commits.commits;
        let event = Event::WorktreeMerged { source, target, commit: tip, commits };
        Decision { facts: vec![item_event(item, None, event)], tick: true, ..Decision::default() }
    }

    /// Does once what the workflow says about conflicts, and gives the item up after that.
    pub(crate) fn conflict(&self, at: u32, target: String, paths: Vec<String>) -> Decision {
        let Some((item, _)) = self.merging(at) else { return Decision::default() };
        let is_first = item.conflicts == 0;
        let rule = self.rules.on_conflict;
        // Where nothing is in common there is nothing to resolve.
        let resolver = rule.resolver().filter(|_| is_first && !paths.is_empty());
        let resolver = resolver.map(str::to_owned);
        let (is_resolved, message) = (resolver.is_some(), in_words(&paths));
        let conflict = item_event(item, None, Event::MergeConflict { target, paths, resolver });
        if is_resolved {
            return Decision { facts: vec![conflict], tick: true, ..Decision::default() };
        }
        if *rule == OnConflict::Rerun && is_first && !item.has_open_effects() {
            let reason = "its commits conflict with what was merged meanwhile";
            return self.retry_now(at, vec![conflict], reason);
        }
        let facts = vec![conflict, dead(item, None, Failure::new(MERGE, message))];
        Decision { facts, tick: true, ..Decision::default() }
    }

    /// Tries an item whose commits could not be merged again, at once.
    pub(crate) fn retry_now(&self, at: u32, mut facts: Vec<NewEvent>, reason: &str) -> Decision {
        let Some((item, _)) = self.merging(at) else { return Decision::default() };
        let (attempt, delay) = (item.attempts + 1, Duration::ZERO);
        facts.push(self.retry_event(item, attempt, delay, reason.to_owned()));
        Decision { facts, tick: true, ..Decision::default() }
    }

    /// Has the commit merged that resolves an item's conflict.
    pub(crate) fn conflict_resolved(
        &self,
        agent: AgentId,
        at: u32,
        commit: String,
        commits: u64,
        took: AttemptCost,
    ) -> Decision {
        let Some((item, conflict)) = self.resolving(agent, at) else { return Decision::default() };
        let AttemptCost { duration_ms, cost_usd } = took;
        let merging =
            CommitRange { base: conflict.commits.base.clone(), head: commit.clone(), commits };
        let event = Event::ResolutionCompleted { commit, commits, duration_ms, cost_usd };
        let facts = vec![item_event(item, Some(agent), event)];
        let release = ItemAction::Release { agent, failed: false };
        let merge = ItemAction::Merge { item: at, commits: merging };
        let actions = [release, merge].map(JobAction::Item).into();
        Decision { facts, actions, tick: true, wake: None }
    }

    /// Gives an item up whose conflict could not be resolved.
    pub(crate) fn resolution_failed(
        &self,
        agent: AgentId,
        at: u32,
        failure: Failure,
        took: AttemptCost,
    ) -> Decision {
        let Some((item, conflict)) = self.resolving(agent, at) else { return Decision::default() };
        let AttemptCost { duration_ms, cost_usd } = took;
        let why = format!(
            "{}, and that was not resolved: {}",
            in_words(&conflict.paths),
            failure.message
        );
        let death = Failure { kind: MERGE, message: why, ..failure.clone() };
        let event = Event::ResolutionFailed { failure, duration_ms, cost_usd };
        let facts = vec![item_event(item, Some(agent), event), dead(item, Some(agent), death)];
        let release = JobAction::Item(ItemAction::Release { agent, failed: true });
        Decision { facts, actions: vec![release], tick: true, wake: None }
    }
}

const MERGE: ReasonCode = ReasonCode::MergeConflict;

/// Begins to resolve the conflict of an item; returns whether an agent is busy with it.
///
/// The workflow may have been changed since the conflict was found.
pub(crate) fn start_resolution(
    decision: &mut Decision,
    (at, item, conflict): (u32, &ItemState, &MergeConflict),
    agent: AgentId,
    rules: MapSettings<'_>,
    now: Timestamp,
) -> bool {
    if let Some(resolver) = rules.on_conflict.resolver() {
        let (resolver, attempt) = (resolver.to_owned(), item.attempts);
        decision.facts.push(item_event(
            item,
            Some(agent),
            Event::ResolutionStarted { resolver, attempt },
        ));
        let conflict = conflict.clone();
        let resolve = ItemAction::Resolve { agent, item: at, attempt, conflict };
        decision.actions.push(JobAction::Item(resolve));
        return true;
    }
    decision.tick = true;
    decision.facts.push(if *rules.on_conflict == OnConflict::Rerun && !item.has_open_effects() {
        let reason = "no agent resolves conflicts any more".to_owned();
        let event =
            Event::AgentRetrying { attempt: item.attempts + 1, delay_ms: 0, retry_at: now, reason };
        item_event(item, None, event)
    } else {
        dead(item, None, Failure::new(MERGE, in_words(&conflict.paths)))
    });
    false
}

/// Says what an item's commits conflict with.
fn in_words(paths: &[String]) -> String {
    if paths.is_empty() {
        return "its commits have nothing in common with the job's branch".to_owned();
    }
    let shown: Vec<_> = paths.iter().take(NAMED).map(|path| format!("`{path}`")).collect();
    format!("its commits conflict with those of other items in {}", shown.join(", "))
}

/// Gives an item up.
fn dead(item: &ItemState, agent: Option<AgentId>, failure: Failure) -> NewEvent {
    item_event(item, agent, Event::ItemDeadLettered { attempts: item.attempts, failure })
}
