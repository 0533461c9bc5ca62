//! Items whose commits conflict with what was merged meanwhile.

use super::*;
use crate::ids::AgentId;

/// Returns a strategy for the action on conflicts.
pub(crate) fn rules() -> impl Strategy<Value = OnConflict> {
    prop_oneof![1 => Just(OnConflict::Rerun), 1 => Just(OnConflict::Fail), 3 => Just(by_agent())]
}

fn by_agent() -> OnConflict {
    OnConflict::resolve_with("claude", crate::diagnostic::Span::default()).unwrap()
}

impl JobHarness {
    /// Returns what an agent made of a conflict; nothing if its answer never comes.
    pub(crate) fn resolve(&mut self, agent: AgentId, item: u32) -> Option<ItemInput> {
        let (duration_ms, cost_usd) = (1, 0.0);
        Some(match self.fates.next().unwrap_or(SimulatedOutcome::Commits) {
            SimulatedOutcome::Hangs => return None,
            fate @ (SimulatedOutcome::Limited | SimulatedOutcome::Broke) => {
                let cut_off = SuspensionCause::Limit(limit(fate, self.now));
                let (work, secured) = (Box::default(), true);
                ItemInput::CutOff { agent, item, cut_off, work, duration_ms, cost_usd, secured }
            }
            fate @ (SimulatedOutcome::Fails
            | SimulatedOutcome::FailsEarly
            | SimulatedOutcome::TimesOut
            | SimulatedOutcome::Overloaded) => {
                let failure = failure(fate);
                ItemInput::Unresolved { agent, item, failure, duration_ms, cost_usd }
            }
            SimulatedOutcome::Succeeds
            | SimulatedOutcome::Commits
            | SimulatedOutcome::Conflicts => {
                let commit = "resolved".to_owned();
                ItemInput::Resolved { agent, item, commit, commits: 2, duration_ms, cost_usd }
            }
        })
    }
}

/// A policy that gives an item up at its first failure, and nothing else.
fn plain() -> ErrorPolicy {
    ErrorPolicy {
        on_item_failure: OnItemFailure::Dlq,
        handlers: BTreeMap::new(),
        continue_on_failure: true,
        max_failures: None,
        systemic_stop: None,
        failure_threshold: None,
        min_items: 10,
        error_collection: ErrorCollection::Aggregate,
        circuit_breaker: None,
        retry: None,
        preserve_worktrees: Preserve::Failed,
    }
}

fn world(on_conflict: OnConflict, items: u32, fates: &[SimulatedOutcome]) -> JobHarness {
    let mut world = JobHarness::new(items, plain(), fates.to_vec());
    world.on_conflict = on_conflict;
    world
}

/// Returns what happened to the items, and why those failed that did.
fn story(world: &JobHarness) -> String {
    let line = |record: &EventRecord| {
        let (id, event) = (record.item_id.as_ref()?, &record.event);
        let more = if let Event::ItemDeadLettered { failure, .. } = event {
            format!(": {} {}", failure.kind, failure.message)
        } else if let Event::AgentRetrying { reason, .. } = event {
            format!(": {reason}")
        } else {
            String::new()
        };
        let kind = event.event_type();
        (!matches!(kind, "item_queued" | "agent_usage")).then(|| format!("{id} {kind}{more}"))
    };
    world.journal.iter().filter_map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_conflict_that_is_resolved_is_merged() {
    let mut world = world(by_agent(), 1, &[SimulatedOutcome::Commits, SimulatedOutcome::Conflicts]);
    assert_eq!(world.run(usize::MAX), Some(RunOutcome::Completed));
    insta::assert_snapshot!(story(&world), @"
    item-001 agent_started
    item-001 agent_completed
    item-001 merge_conflict
    item-001 resolution_started
    item-001 resolution_completed
    item-001 worktree_merged
    ");
}

#[test]
fn a_conflict_that_is_not_resolved_ends_the_item_at_once() {
    let mut world = world(
        by_agent(),
        1,
        &[SimulatedOutcome::Commits, SimulatedOutcome::Conflicts, SimulatedOutcome::TimesOut],
    );
    assert_eq!(world.run(usize::MAX), Some(RunOutcome::Completed));
    insta::assert_snapshot!(story(&world), @"
    item-001 agent_started
    item-001 agent_completed
    item-001 merge_conflict
    item-001 resolution_started
    item-001 resolution_failed
    item-001 item_dead_lettered: merge_conflict its commits conflict with those of other items in `f`, and that was not resolved: it took longer than 5s
    ");
}

#[test]
fn a_resolution_that_conflicts_again_ends_the_item() {
    let fates = [
        SimulatedOutcome::Commits,
        SimulatedOutcome::Conflicts,
        SimulatedOutcome::Commits,
        SimulatedOutcome::Conflicts,
    ];
    let mut world = world(by_agent(), 1, &fates);
    assert_eq!(world.run(usize::MAX), Some(RunOutcome::Completed));
    insta::assert_snapshot!(story(&world), @"
    item-001 agent_started
    item-001 agent_completed
    item-001 merge_conflict
    item-001 resolution_started
    item-001 resolution_completed
    item-001 merge_conflict
    item-001 item_dead_lettered: merge_conflict its commits conflict with those of other items in `f`
    ");
}

#[test]
fn without_patience_a_conflict_ends_the_item_at_once() {
    let mut world =
        world(OnConflict::Fail, 1, &[SimulatedOutcome::Commits, SimulatedOutcome::Conflicts]);
    assert_eq!(world.run(usize::MAX), Some(RunOutcome::Completed));
    insta::assert_snapshot!(story(&world), @"
    item-001 agent_started
    item-001 agent_completed
    item-001 merge_conflict
    item-001 item_dead_lettered: merge_conflict its commits conflict with those of other items in `f`
    ");
}

#[test]
fn a_conflict_is_taken_up_again_where_it_was_left() {
    let fates = [SimulatedOutcome::Commits, SimulatedOutcome::Conflicts, SimulatedOutcome::Hangs];
    let mut world = world(by_agent(), 1, &fates);
    assert_eq!(world.run(usize::MAX), None, "the answer never comes");
    let map = world.job.map.as_ref().unwrap();
    assert_eq!((map.in_flight(), map.merging().len()), (1, 0));
    // Whoever takes the job up again has the conflict resolved, not the item done again.
    let resumed = Event::JobResumed {
        version: "0".into(),
        workflow: None,
        reopened: None,
        found: None,
        budget: None,
        options: None,
        into: None,
        try_now: false,
    };
    world.write(resumed.into());
    assert!(world.job.map.as_ref().unwrap().has_conflicts());
    world.fates = vec![SimulatedOutcome::Limited].into_iter();
    assert_eq!(world.run(usize::MAX), Some(RunOutcome::Completed));
    insta::assert_snapshot!(story(&world), @"
    item-001 agent_started
    item-001 agent_completed
    item-001 merge_conflict
    item-001 resolution_started
    item-001 resolution_started
    item-001 agent_released
    item-001 resolution_started
    item-001 resolution_completed
    item-001 worktree_merged
    ");
}

#[test]
fn a_conflict_that_nobody_resolves_any_more_is_treated_as_the_workflow_says_now() {
    let mut told = vec![];
    for now in [OnConflict::Rerun, OnConflict::Fail] {
        let fates =
            [SimulatedOutcome::Commits, SimulatedOutcome::Conflicts, SimulatedOutcome::Hangs];
        let mut world = world(by_agent(), 1, &fates);
        assert_eq!(world.run(usize::MAX), None);
        world.on_conflict = now;
        let resumed = Event::JobResumed {
            version: "0".into(),
            workflow: None,
            reopened: None,
            found: None,
            budget: None,
            options: None,
            into: None,
            try_now: false,
        };
        world.write(resumed.into());
        assert_eq!(world.run(usize::MAX), Some(RunOutcome::Completed));
        told.push(story(&world).lines().skip(4).collect::<Vec<_>>().join("\n"));
    }
    insta::assert_snapshot!(told.join("\n--\n"), @"
    item-001 agent_retrying: no agent resolves conflicts any more
    item-001 agent_started
    item-001 agent_completed
    item-001 worktree_merged
    --
    item-001 item_dead_lettered: merge_conflict its commits conflict with those of other items in `f`
    ");
}

#[test]
fn a_journal_of_format_one_with_conflicts_folds_to_the_same_items() {
    let golden = include_str!("../../../../prodigy-engine/tests/golden/v1/conflict.jsonl");
    let mut job = Job::default();
    let mut stages = vec![];
    for line in golden.lines() {
        job.apply(&serde_json::from_str(line).unwrap()).unwrap();
        let Some(map) = &job.map else { continue };
        assert!(map.is_conserved());
        let stage = map.items.iter().map(|item| {
            let text = format!("{:?}", item.stage);
            text.split(['(', ' ']).next().unwrap().to_owned()
        });
        stages.push(stage.collect::<Vec<_>>().join(" "));
    }
    stages.retain(|line| !line.is_empty());
    stages.dedup();
    insta::assert_snapshot!(stages.join("\n"), @"
    Pending
    Pending Pending
    Running Pending
    Running Running
    Merging Running
    Merging Merging
    Conflicted Merging
    Conflicted Conflicted
    Resolving Conflicted
    Resolving Resolving
    Merging Resolving
    Successful Resolving
    Successful Conflicted
    Successful DeadLettered
    ");
}
