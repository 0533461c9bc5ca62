//! Properties of dead letters that are tried again.

use super::{replay_velocity::velocities, *};
use crate::{event::JobReopening, failure::signature::ErrorSignature, replay::ReplayVelocity};

/// Sets up a run that replays the dead letters at these places that can be found, and nothing
/// else if `only`; returns the event of its resume.
pub(super) fn asked(
    world: &mut JobHarness,
    chosen: &[u32],
    only: bool,
    velocity: ReplayVelocity,
) -> Event {
    let map = world.job.map.as_ref().unwrap();
    let dead = |at: &&u32| map.item(**at).is_some_and(|item| item.stage == ItemStage::DeadLettered);
    let wanted: Vec<_> = chosen.iter().filter(dead).map(|at| (*at, cause(world, *at))).collect();
    let mut replays = ReplayScheduler::new(only, "somebody".into(), None, velocity);
    replays.add(wanted.iter().map(|(at, cause)| (*at, &*cause.hash, &*cause.pattern)));
    world.replays = replays;
    let is_over = world.job.phases_done.contains(&PhaseName::Map);
    let reopened = (is_over && !wanted.is_empty())
        .then(|| JobReopening { rerun_reduce: only, base_commit: Some("newer".into()) });
    Event::JobResumed {
        version: "0".into(),
        workflow: None,
        reopened,
        found: None,
        budget: None,
        options: None,
        into: None,
        try_now: false,
    }
}

/// Returns why an item died last.
fn cause(world: &JobHarness, at: u32) -> ErrorSignature {
    let id = &world.job.map.as_ref().unwrap().item(at).unwrap().id;
    let of_item = world.journal.iter().rev().filter(|record| record.item_id.as_ref() == Some(id));
    let mut deaths = of_item.filter_map(|record| {
        let Event::ItemDeadLettered { failure, .. } = &record.event else { return None };
        Some(ErrorSignature::of(failure, id))
    });
    deaths.next().unwrap()
}

/// Checks that nothing of an item runs after its death without a claim, and nothing after its
/// success.
fn check_claims(journal: &[EventRecord]) -> Result<(), TestCaseError> {
    let (mut dead, mut done) =
        (std::collections::BTreeSet::new(), std::collections::BTreeSet::new());
    for record in journal {
        let Some(id) = &record.item_id else { continue };
        match record.event.event_type() {
            "item_dead_lettered" => prop_assert!(dead.insert(id), "dead twice: {record:?}"),
            "replay_started" => prop_assert!(dead.remove(id), "not dead: {record:?}"),
            "dlq_item_removed" => prop_assert!(dead.remove(id), "not dead: {record:?}"),
            "agent_started" => {
                prop_assert!(!dead.contains(id), "nobody claimed it: {record:?}");
                prop_assert!(!done.contains(id), "it was done: {record:?}");
            }
            "worktree_merged" => prop_assert!(done.insert(id), "merged twice: {record:?}"),
            _ => {}
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever is replayed and wherever it is cut off: nothing is lost, nothing runs again
    /// without a record of the decision, and the job comes to its end.
    #[test]
    fn a_dead_letter_is_open_or_claimed_or_resolved(
        items in 1_u32..10,
        policy in policies(),
        fates in fates(),
        rounds in prop::collection::vec(
            (
                prop::collection::vec(0_u32..10, 0..6),
                any::<bool>(),
                prop::option::of(1_usize..40),
                velocities(),
            ),
            1..6,
        ),
        refused in prop::collection::btree_set(0_u32..10, 0..3),
    ) {
        let mut world = JobHarness::new(items, policy, fates);
        for _ in 0..200 {
            if world.run(usize::MAX) == Some(RunOutcome::Completed) {
                break;
            }
            let resumed = Event::JobResumed { version: "0".into(), workflow: None, reopened: None, found: None, budget: None, options: None, into: None, try_now: false };
            world.write(resumed.into());
        }
        prop_assert!(matches!(world.job.end, Some(JobOutcome::Completed(_))));
        world.refused = refused;
        for (chosen, only, crash, velocity) in rounds {
            let event = asked(&mut world, &chosen, only, velocity);
            world.write(event.into());
            let crash_at = crash.map_or(usize::MAX, |after| world.journal.len() + after);
            world.run(crash_at);
            let mut folded = Job::default();
            for record in &world.journal {
                folded.apply(record).unwrap();
            }
            prop_assert_eq!(&folded, &world.job, "the journal rebuilds the job");
        }
        world.replays = ReplayScheduler::default();
        for _ in 0..200 {
            if matches!(world.job.end, Some(JobOutcome::Completed(_))) {
                break;
            }
            let resumed = Event::JobResumed { version: "0".into(), workflow: None, reopened: None, found: None, budget: None, options: None, into: None, try_now: false };
            world.write(resumed.into());
            world.run(usize::MAX);
        }
        prop_assert!(matches!(world.job.end, Some(JobOutcome::Completed(_))), "{:?}", world.job.end);
        let map = world.job.map.as_ref().unwrap();
        prop_assert!(map.is_finished() && map.is_conserved());
        check_claims(&world.journal)?;
        let failed = u64::from(map.counts.failed());
        let metrics = map.tally.metrics(0, 0, 0, 0);
        prop_assert_eq!(metrics.error_types.values().sum::<u64>(), failed, "{:?}", map.tally);
    }
}

/// Runs a job of which every item fails once.
pub(super) fn dead(items: u32, policy: ErrorPolicy) -> JobHarness {
    let mut world = JobHarness::new(items, policy, vec![SimulatedOutcome::Fails; items as usize]);
    assert_eq!(world.run(usize::MAX), Some(RunOutcome::Completed));
    world
}

pub(super) fn plain() -> ErrorPolicy {
    ErrorPolicy {
        on_item_failure: OnItemFailure::Dlq,
        handlers: BTreeMap::new(),
        continue_on_failure: true,
        max_failures: None,
        systemic_stop: None,
        failure_threshold: None,
        min_items: 3,
        error_collection: ErrorCollection::Aggregate,
        circuit_breaker: None,
        retry: None,
        preserve_worktrees: Preserve::Failed,
    }
}

#[test]
fn only_the_dead_letters_asked_for_are_claimed() {
    let mut world = dead(4, plain());
    let event = asked(&mut world, &[1, 3], true, ReplayVelocity::default());
    world.write(event.into());
    assert_eq!(world.run(usize::MAX), Some(RunOutcome::Completed));
    let map = world.job.map.as_ref().unwrap();
    let stages: Vec<_> = map
        .items
        .iter()
        .map(|item| {
            format!(
                "{} {:?} attempts {} replays {}",
                item.id, item.stage, item.attempts, item.replays
            )
        })
        .collect();
    insta::assert_snapshot!(stages.join("\n"), @"
        item-001 DeadLettered attempts 1 replays 0
        item-002 Successful attempts 2 replays 1
        item-003 DeadLettered attempts 1 replays 0
        item-004 Successful attempts 2 replays 1
        ");
    let story: Vec<_> = world
        .journal
        .iter()
        .skip_while(|record| record.event.event_type() != "job_resumed")
        .filter(|record| {
            let kind = record.event.event_type();
            !matches!(kind, "step_started" | "step_completed" | "agent_usage")
        })
        .map(|record| match &record.item_id {
            Some(id) => format!("{} {id}", record.event.event_type()),
            None => record.event.event_type().to_owned(),
        })
        .collect();
    insta::assert_snapshot!(story.join("\n"), @"
        job_resumed
        worktree_created
        phase_started
        replay_started item-002
        agent_started item-002
        replay_started item-004
        agent_started item-004
        agent_completed item-002
        agent_completed item-004
        worktree_merged item-002
        worktree_merged item-004
        phase_completed
        phase_started
        phase_completed
        phase_started
        phase_completed
        worktree_cleaned
        job_completed
        ");
}

#[test]
fn unfinished_items_wait_while_dead_letters_are_replayed() {
    let policy = ErrorPolicy { max_failures: NonZeroU32::new(2), ..plain() };
    let mut world = JobHarness::new(9, policy, vec![SimulatedOutcome::Fails; 3]);
    assert_eq!(world.run(usize::MAX), Some(RunOutcome::StoppedByPolicy));
    let before = world.job.map.as_ref().unwrap().pending();
    let event = asked(&mut world, &[0, 1, 2], true, ReplayVelocity::default());
    world.write(event.into());
    let ending = world.run(usize::MAX);
    assert_eq!(ending, Some(RunOutcome::Paused(crate::event::PauseReason::ItemsOutstanding)));
    let map = world.job.map.as_ref().unwrap();
    assert_eq!((map.pending(), map.counts.dead_lettered), (before, 0));
}

#[test]
fn a_resumed_job_replays_unasked_until_only_the_merge_is_left() {
    let mut world = dead(3, plain());
    assert!(!world.job.allows_auto_replay(), "the job is over");
    world.job.phases_done.truncate(3);
    assert!(!world.job.allows_auto_replay(), "only the merge is left");
    world.job.phases_done.truncate(2);
    assert!(world.job.allows_auto_replay());
}
