//! Tests of the velocity of replays.

use super::{
    replays::{asked, dead, plain},
    *,
};
use crate::replay::ReplayVelocity;

/// Returns a velocity: a rate such as `6/min`, how many at once, the waves, and the share of
/// failures that is too large.
fn velocity(rate: &str, at_once: u32, waves: &[u32], ratio: Option<f64>) -> ReplayVelocity {
    ReplayVelocity {
        rate: (!rate.is_empty()).then(|| rate.parse().unwrap()),
        concurrency: NonZeroU32::new(at_once),
        canary: waves.iter().map(|size| NonZeroU32::new(*size).unwrap()).collect(),
        abort_failure_ratio: ratio,
    }
}

pub(crate) fn velocities() -> impl Strategy<Value = ReplayVelocity> {
    let rate = prop::option::of(1_u32..20).prop_map(|n| n.map(|n| format!("{n}/min")));
    let waves = prop_oneof![Just(vec![]), Just(vec![1]), Just(vec![1, 5]), Just(vec![2, 2, 3])];
    (rate, 0_u32..4, waves, prop::option::of(0.0..1.0)).prop_map(|(rate, at_once, waves, ratio)| {
        velocity(&rate.unwrap_or_default(), at_once, &waves, ratio)
    })
}

/// Replays all items of a job that died, with what becomes of the replays.
fn replayed(items: u32, velocity: ReplayVelocity, fates: Vec<SimulatedOutcome>) -> JobHarness {
    let mut world = dead(items, plain());
    world.fates = fates.into_iter();
    let all: Vec<u32> = (0..items).collect();
    let event = asked(&mut world, &all, true, velocity);
    world.write(event.into());
    assert_eq!(world.run(usize::MAX), Some(RunOutcome::Completed));
    world
}

/// Returns when which items were claimed.
fn claims(world: &JobHarness) -> Vec<(Timestamp, u32)> {
    let map = world.job.map.as_ref().unwrap();
    let claims = world.journal.iter().filter(|r| r.event.event_type() == "replay_started");
    claims.map(|r| (r.timestamp, map.find(r.item_id.as_ref().unwrap()).unwrap().0)).collect()
}

fn stopped(world: &JobHarness) -> Vec<String> {
    let show = |stopped: &AbortedCause| {
        let AbortedCause { pattern, untried, why, .. } = stopped;
        format!("{untried} of {pattern}: {why:?}")
    };
    world.replays.aborted().map(show).collect()
}

#[test]
fn a_rate_spaces_the_claims() {
    let world = replayed(4, velocity("6/min", 0, &[], None), vec![]);
    let seconds: Vec<i64> = claims(&world).iter().map(|(at, _)| at.as_second()).collect();
    assert_eq!(seconds, [0, 10, 20, 30]);
}

#[test]
fn a_rate_holds_over_runs() {
    let mut world = replayed(1, velocity("1/h", 0, &[], None), vec![SimulatedOutcome::Fails]);
    let event = asked(&mut world, &[0], true, velocity("1/h", 0, &[], None));
    world.write(event.into());
    assert_eq!(world.run(usize::MAX), Some(RunOutcome::Completed));
    let seconds: Vec<i64> = claims(&world).iter().map(|(at, _)| at.as_second()).collect();
    assert_eq!(seconds, [0, 3600]);
}

#[test]
fn a_canary_that_fails_with_the_same_error_stops_its_group() {
    let world = replayed(10, velocity("", 0, &[1, 5], None), vec![SimulatedOutcome::Fails]);
    assert_eq!(claims(&world).len(), 1);
    insta::assert_snapshot!(stopped(&world).join("\n"), @"9 of CommandFailed::exit code <n>: Canary");
    let map = world.job.map.as_ref().unwrap();
    assert!(map.items.iter().skip(1).all(|item| item.attempts == 1 && item.replays == 0));
}

#[test]
fn a_canary_that_fails_with_another_error_stops_nothing_by_itself() {
    let world = replayed(4, velocity("", 0, &[1, 5], None), vec![SimulatedOutcome::TimesOut]);
    assert_eq!(claims(&world).len(), 4);
    assert_eq!(stopped(&world), Vec::<String>::new());
    let world = replayed(4, velocity("", 0, &[1, 5], Some(0.3)), vec![SimulatedOutcome::TimesOut]);
    insta::assert_snapshot!(stopped(&world).join("\n"), @"3 of CommandFailed::exit code <n>: Failures { failed: 1, ended: 1, ratio: 0.3 }");
}

#[test]
fn a_wave_begins_when_the_one_before_has_ended() {
    let world = replayed(9, velocity("", 0, &[1, 3], None), vec![]);
    let story: Vec<_> = world
        .journal
        .iter()
        .filter_map(|record| {
            let id = record.item_id.as_ref()?;
            let at = world.job.map.as_ref().unwrap().find(id)?.0;
            match record.event.event_type() {
                "replay_started" => Some(format!("+{at}")),
                "worktree_merged" => Some(format!("-{at}")),
                _ => None,
            }
        })
        .collect();
    insta::assert_snapshot!(story.join(" "), @"+0 -0 +1 +2 +3 -1 -2 -3 +4 +5 +6 +7 -4 -5 -6 -7 +8 -8");
}

#[test]
fn too_large_a_share_of_failures_stops_the_last_wave_for_good() {
    let fates = [SimulatedOutcome::Fails, SimulatedOutcome::Succeeds].repeat(4);
    let world = replayed(20, velocity("", 2, &[], Some(0.4)), fates);
    insta::assert_snapshot!(stopped(&world).join("\n"), @"14 of CommandFailed::exit code <n>: Failures { failed: 3, ended: 5, ratio: 0.4 }");
    let few = replayed(4, velocity("", 2, &[], Some(0.4)), vec![SimulatedOutcome::Fails; 4]);
    assert_eq!(claims(&few).len(), 4, "four failures tell little");
}

#[test]
fn one_group_that_stops_does_not_stop_another() {
    let mut world = JobHarness::new(
        6,
        plain(),
        [vec![SimulatedOutcome::Fails; 3], vec![SimulatedOutcome::TimesOut; 3]].concat(),
    );
    assert_eq!(world.run(usize::MAX), Some(RunOutcome::Completed));
    world.fates = vec![SimulatedOutcome::Fails].into_iter();
    let event = asked(&mut world, &[0, 1, 2, 3, 4, 5], true, velocity("", 1, &[1], None));
    world.write(event.into());
    assert_eq!(world.run(usize::MAX), Some(RunOutcome::Completed));
    let places: Vec<u32> = claims(&world).into_iter().map(|(_, at)| at).collect();
    assert_eq!(places, [0, 3, 4, 5]);
    insta::assert_snapshot!(stopped(&world).join("\n"), @"2 of CommandFailed::exit code <n>: Canary");
}

#[test]
fn what_is_refused_makes_room_in_its_wave() {
    let mut world = dead(5, plain());
    world.refused = [0, 2].into();
    let event = asked(&mut world, &[0, 1, 2, 3, 4], true, velocity("", 0, &[1], None));
    world.write(event.into());
    assert_eq!(world.run(usize::MAX), Some(RunOutcome::Completed));
    let places: Vec<u32> = claims(&world).into_iter().map(|(_, at)| at).collect();
    assert_eq!(places, [1, 3, 4]);
    let map = world.job.map.as_ref().unwrap();
    assert_eq!(map.counts.dead_lettered, 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// However the replays end: never more at once, sooner or in larger waves than allowed,
    /// and each dead letter is claimed once or not at all.
    #[test]
    fn replays_keep_their_pace(
        items in 1_u32..30,
        velocity in velocities(),
        fates in calm(),
        refused in prop::collection::btree_set(0_u32..30, 0..5),
    ) {
        let mut world = dead(items, plain());
        let fates: Vec<SimulatedOutcome> =
            fates.into_iter().filter(|fate| !matches!(fate, SimulatedOutcome::Hangs)).collect();
        world.fates = fates.into_iter();
        world.refused = refused.clone();
        let all: Vec<u32> = (0..items).collect();
        let event = asked(&mut world, &all, true, velocity.clone());
        world.write(event.into());
        prop_assert_eq!(world.run(usize::MAX), Some(RunOutcome::Completed));

        let claims = claims(&world);
        let mut places: Vec<u32> = claims.iter().map(|(_, at)| *at).collect();
        prop_assert!(places.is_sorted(), "in the order of the items");
        places.dedup();
        prop_assert_eq!(places.len(), claims.len(), "once each");
        prop_assert!(places.iter().all(|at| !refused.contains(at)));
        if let Some(rate) = velocity.rate {
            for pair in claims.windows(2) {
                let gap = pair[1].0.duration_since(pair[0].0);
                prop_assert!(gap.unsigned_abs() >= rate.interval());
            }
        }
        let untried: u32 = world.replays.aborted().map(|stopped| stopped.untried).sum();
        let tried = u32::try_from(claims.len()).unwrap();
        let refused = u32::try_from(refused.iter().filter(|at| **at < items).count()).unwrap();
        prop_assert!(tried + untried <= items);
        // Some of those that were given up might have been refused as well.
        prop_assert!(tried + untried + refused >= items);

        let (mut under_way, mut started) = (0_u32, 0_u32);
        let sizes: Vec<u32> = velocity.canary.iter().map(|size| size.get()).collect();
        for record in world.journal.iter().skip_while(|r| r.event.event_type() != "job_resumed") {
            let ends_with = ["worktree_merged", "item_dead_lettered"];
            let is_over = if let Event::AgentCompleted(done) = &record.event {
                !done.has_commits()
            } else {
                ends_with.contains(&record.event.event_type())
            };
            if matches!(record.event, Event::ReplayStarted { .. }) {
                let bounds = sizes.iter().scan(0, |sum, size| { *sum += size; Some(*sum) });
                for bound in bounds.filter(|bound| *bound == started) {
                    prop_assert_eq!(under_way, 0, "the wave of {} has not ended", bound);
                }
                started += 1;
                under_way += 1;
                prop_assert!(velocity.concurrency.is_none_or(|most| under_way <= most.get()));
            } else if is_over && record.item_id.is_some() {
                under_way -= 1;
            }
        }
        prop_assert_eq!(under_way, 0);
    }
}
