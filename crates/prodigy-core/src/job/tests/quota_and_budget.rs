//! Limits of accounts and purses, and providers without room.

use super::*;
use crate::{
    event::{BudgetScope, PauseReason, QuotaPaused},
    policy::{OnExceeded, OnLimit},
};

pub(crate) fn lenient() -> ErrorPolicy {
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

fn world(items: u32, fates: &[SimulatedOutcome]) -> JobHarness {
    JobHarness { max_parallel: 50, ..JobHarness::new(items, lenient(), fates.to_vec()) }
}

fn resume(world: &mut JobHarness) {
    let event = Event::JobResumed {
        version: "0".into(),
        workflow: None,
        reopened: None,
        found: None,
        budget: None,
        options: None,
        into: None,
        try_now: false,
    };
    world.write(event.into());
}

/// Tells the story of a journal: the events of these types, with the second they happened in.
fn story(world: &JobHarness, types: &[&str]) -> String {
    let line = |record: &EventRecord| {
        let kind = record.event.event_type();
        types.contains(&kind).then(|| {
            let item = record.item_id.as_ref().map(ToString::to_string).unwrap_or_default();
            format!("{:>3} {kind} {item}", record.timestamp.as_second()).trim_end().to_owned()
        })
    };
    world.journal.iter().filter_map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_limit_with_many_items_outstanding_starts_one_that_tries_and_then_the_rest() {
    let mut world = world(8, &[SimulatedOutcome::Limited; 8]);
    assert_eq!(world.run(usize::MAX), Some(RunOutcome::Completed));
    let types = ["agent_started", "agent_released", "quota_paused", "quota_resumed"];
    insta::assert_snapshot!(story(&world, &types), @"
         0 agent_started item-001
         0 agent_started item-002
         0 agent_started item-003
         0 agent_started item-004
         0 agent_started item-005
         0 agent_started item-006
         0 agent_started item-007
         0 agent_started item-008
         0 agent_released item-001
         0 quota_paused
         0 agent_released item-002
         0 agent_released item-003
         0 agent_released item-004
         0 agent_released item-005
         0 agent_released item-006
         0 agent_released item-007
         0 agent_released item-008
        63 agent_started item-001
        63 quota_resumed
        63 agent_started item-002
        63 agent_started item-003
        63 agent_started item-004
        63 agent_started item-005
        63 agent_started item-006
        63 agent_started item-007
        63 agent_started item-008
        ");
    let map = world.job.map.unwrap();
    assert_eq!(map.counts.successful, 8);
    assert!(map.items.iter().all(|item| (item.attempts, item.failed) == (1, 0)));
}

#[test]
fn while_one_tries_nobody_else_starts_however_often_that_is_looked_at() {
    let fates = [
        SimulatedOutcome::Limited,
        SimulatedOutcome::Limited,
        SimulatedOutcome::Limited,
        SimulatedOutcome::Hangs,
    ];
    let mut world = world(3, &fates);
    assert_eq!(world.run(usize::MAX), None, "the answer never comes");
    assert_eq!(world.run(usize::MAX), None, "nor when somebody looks again");
    insta::assert_snapshot!(story(&world, &["agent_started", "quota_resumed"]), @"
     0 agent_started item-001
     0 agent_started item-002
     0 agent_started item-003
    63 agent_started item-001
    ");
}

#[test]
fn an_attempt_that_asks_no_agent_does_not_lift_a_limit_and_the_next_one_tries() {
    let fates = [
        SimulatedOutcome::Limited,
        SimulatedOutcome::Limited,
        SimulatedOutcome::Limited,
        SimulatedOutcome::FailsEarly,
        SimulatedOutcome::Limited,
    ];
    let mut world = world(3, &fates);
    assert_eq!(world.run(usize::MAX), Some(RunOutcome::Completed));
    let types = ["agent_started", "agent_failed", "quota_paused", "quota_resumed"];
    insta::assert_snapshot!(story(&world, &types), @"
      0 agent_started item-001
      0 agent_started item-002
      0 agent_started item-003
      0 quota_paused
     63 agent_started item-001
     63 agent_failed item-001
     63 agent_started item-002
     63 quota_paused
    126 agent_started item-003
    126 quota_resumed
    126 agent_started item-002
    ");
}

#[test]
fn a_provider_without_room_does_not_lift_a_limit() {
    let mut world = world(
        2,
        &[SimulatedOutcome::Limited, SimulatedOutcome::Limited, SimulatedOutcome::Overloaded],
    );
    assert_eq!(world.run(usize::MAX), Some(RunOutcome::Completed));
    insta::assert_snapshot!(story(&world, &["agent_started", "agent_failed", "quota_resumed"]), @"
     0 agent_started item-001
     0 agent_started item-002
    63 agent_started item-001
    63 agent_failed item-001
    63 agent_started item-002
    63 quota_resumed
    64 agent_started item-001
    ");
}

#[test]
fn a_job_ends_although_nobody_found_out_whether_a_limit_is_lifted() {
    let mut world = world(
        2,
        &[
            SimulatedOutcome::Limited,
            SimulatedOutcome::Limited,
            SimulatedOutcome::FailsEarly,
            SimulatedOutcome::FailsEarly,
        ],
    );
    assert_eq!(world.run(usize::MAX), Some(RunOutcome::Completed));
    insta::assert_snapshot!(story(&world, &["agent_started", "quota_resumed", "job_completed"]), @"
     0 agent_started item-001
     0 agent_started item-002
    63 agent_started item-001
    63 agent_started item-002
    63 job_completed
    ");
    assert!(world.job.quota.is_some());
}

#[test]
fn items_that_ask_no_agent_do_not_wait_for_a_limit() {
    let mut world = JobHarness { asks: false, ..world(3, &[SimulatedOutcome::FailsEarly; 3]) };
    world.run(6);
    let limit = limit(SimulatedOutcome::Limited, world.now);
    let paused_until = limit.resets_at;
    let paused = QuotaPaused { limit, paused_until, waits: true, step: Some("setup.1".into()) };
    world.write(Event::QuotaPaused(Box::new(paused)).into());
    assert_eq!(world.run(usize::MAX), Some(RunOutcome::Completed));
    assert_eq!(world.now, Timestamp::UNIX_EPOCH, "nobody waited");
    assert_eq!(world.most_at_once, 3);
}

#[test]
fn a_limit_that_is_not_lifted_yet_is_waited_for_again() {
    let mut world = world(
        2,
        &[
            SimulatedOutcome::Limited,
            SimulatedOutcome::Limited,
            SimulatedOutcome::Limited,
            SimulatedOutcome::Commits,
        ],
    );
    assert_eq!(world.run(usize::MAX), Some(RunOutcome::Completed));
    insta::assert_snapshot!(story(&world, &["agent_started", "quota_paused", "quota_resumed"]), @"
      0 agent_started item-001
      0 agent_started item-002
      0 quota_paused
     63 agent_started item-001
     63 quota_paused
    126 agent_started item-002
    126 quota_resumed
    126 agent_started item-001
    ");
}

#[test]
fn a_run_that_may_not_wait_stops_and_goes_on_with_a_try_when_it_is_resumed() {
    let mut world = JobHarness { waits: false, ..world(3, &[SimulatedOutcome::Limited; 3]) };
    assert_eq!(world.run(usize::MAX), Some(RunOutcome::Paused(PauseReason::UsageLimit)));
    resume(&mut world);
    assert_eq!(
        world.run(usize::MAX),
        Some(RunOutcome::Paused(PauseReason::UsageLimit)),
        "too early"
    );
    world.now = world.now.checked_add(Duration::from_secs(90)).unwrap();
    resume(&mut world);
    assert_eq!(world.run(usize::MAX), Some(RunOutcome::Completed));
    insta::assert_snapshot!(story(&world, &["agent_started", "quota_resumed", "job_paused"]), @"
         0 agent_started item-001
         0 agent_started item-002
         0 agent_started item-003
         0 job_paused
         0 job_paused
        90 agent_started item-001
        90 quota_resumed
        90 agent_started item-002
        90 agent_started item-003
        ");
}

#[test]
fn a_wait_that_would_be_too_long_stops_the_job() {
    let ending = |max_wait| {
        let quota =
            QuotaPolicy { max_wait: Some(Duration::from_secs(max_wait)), ..QuotaPolicy::default() };
        JobHarness { quota, ..world(1, &[SimulatedOutcome::Limited]) }.run(usize::MAX)
    };
    assert_eq!(ending(59), Some(RunOutcome::Paused(PauseReason::UsageLimit)));
    assert_eq!(ending(66), Some(RunOutcome::Completed));
    // One wait after another is one long wait.
    let max_wait = Some(Duration::from_secs(100));
    let quota = QuotaPolicy { max_wait, ..QuotaPolicy::default() };
    let ending = JobHarness { quota, ..world(1, &[SimulatedOutcome::Limited; 2]) }.run(usize::MAX);
    assert_eq!(ending, Some(RunOutcome::Paused(PauseReason::UsageLimit)));
    let quota = QuotaPolicy { on_limit: OnLimit::Stop, ..QuotaPolicy::default() };
    let ending = JobHarness { quota, ..world(1, &[SimulatedOutcome::Limited]) }.run(usize::MAX);
    assert_eq!(ending, Some(RunOutcome::Paused(PauseReason::UsageLimit)));
}

#[test]
fn waiting_grows_when_nobody_says_how_long() {
    let mut world = world(1, &[]);
    world.run(10);
    let mut waits = Vec::new();
    for _ in 0..6 {
        let limit = QuotaLimit {
            kind: QuotaKind::Usage,
            resets_at: None,
            window: None,
            message: "m".into(),
        };
        let names = TopLevelSteps::default();
        let surroundings = DecisionContext {
            names: &names,
            rules: None,
            spending: SpendContext {
                quota: &world.quota,
                budget: &world.budget,
                waits: true,
                today_usd: 0.0,
            },
            now: world.now,
            random: 0.0,
            busy: false,
            draining: false,
            elapsed_ms: 0,
            commits: 0,
        };
        let event = crate::job::quota::quota_paused(&world.job, limit, None, surroundings).unwrap();
        world.write(event.into());
        let until = world.job.quota.as_ref().unwrap().until.unwrap();
        waits.push(until.duration_since(world.now).as_secs() / 60);
        world.now = until;
    }
    assert_eq!(waits, [5, 10, 20, 40, 60, 60]);
}

#[test]
fn without_money_the_job_stops_and_a_resume_tries_with_one() {
    let mut world = world(4, &[SimulatedOutcome::Broke; 4]);
    assert_eq!(world.run(usize::MAX), Some(RunOutcome::Paused(PauseReason::OutOfCredits)));
    resume(&mut world);
    assert_eq!(world.run(usize::MAX), Some(RunOutcome::Completed));
    insta::assert_snapshot!(story(&world, &["agent_started", "quota_paused", "quota_resumed", "job_paused"]), @"
        0 agent_started item-001
        0 agent_started item-002
        0 agent_started item-003
        0 agent_started item-004
        0 quota_paused
        0 job_paused
        0 agent_started item-001
        0 quota_resumed
        0 agent_started item-002
        0 agent_started item-003
        0 agent_started item-004
        ");
}

#[test]
fn a_provider_without_room_gets_half_as_many_and_then_one_more_each_time() {
    let fates =
        [vec![SimulatedOutcome::Overloaded; 8], vec![SimulatedOutcome::Commits; 40]].concat();
    let mut world = JobHarness { max_parallel: 8, ..world(20, &fates) };
    assert_eq!(world.run(usize::MAX), Some(RunOutcome::Completed));
    let changes: Vec<u32> = world
        .journal
        .iter()
        .filter_map(|record| {
            let Event::ConcurrencyChanged { max, .. } = &record.event else { return None };
            Some(*max)
        })
        .collect();
    // All eight heard the same at once: they count once.
    assert_eq!(changes, [4, 5, 6, 7, 8]);
    assert_eq!(world.job.map.unwrap().counts.successful, 20);
}

#[test]
fn a_job_stops_when_its_money_is_spent_and_goes_on_with_more() {
    let budget = Budget { job_usd: Some(1.0), ..Budget::default() };
    let mut world = JobHarness { max_parallel: 2, budget, cost_usd: 0.3, ..world(9, &[]) };
    assert_eq!(world.run(usize::MAX), Some(RunOutcome::Paused(PauseReason::Budget)));
    let done = world.job.map.as_ref().unwrap().counts.successful;
    assert_eq!(done, 4, "what was under way came to its end");
    let over = world.job.overspent.unwrap();
    assert_eq!((over.scope, over.limit_usd), (BudgetScope::Job, 1.0));
    assert_eq!(over.message(), "the job has cost $1.20, and its budget is $1.00");
    world.budget.job_usd = Some(10.0);
    resume(&mut world);
    assert_eq!(world.run(usize::MAX), Some(RunOutcome::Completed));
}

#[test]
fn money_that_is_spent_does_not_keep_a_job_from_what_costs_nothing() {
    let budget = Budget { job_usd: Some(1.0), on_exceeded: OnExceeded::Stop, ..Budget::default() };
    let mut world = JobHarness { budget, cost_usd: 1.0, max_parallel: 1, ..world(1, &[]) };
    assert_eq!(
        world.run(usize::MAX),
        Some(RunOutcome::Completed),
        "only reduce and merge are left"
    );
    let mut world = JobHarness { budget, cost_usd: 1.0, asks: false, ..self::world(3, &[]) };
    assert_eq!(world.run(usize::MAX), Some(RunOutcome::Completed), "no item asks an agent");
}

#[test]
fn a_budget_is_spent_although_its_parts_have_no_exact_form() {
    // The sum of ten dimes is a little less than a dollar.
    let budget = Budget { job_usd: Some(1.0), ..Budget::default() };
    let mut world = JobHarness { budget, cost_usd: 0.1, max_parallel: 1, ..world(12, &[]) };
    assert_eq!(world.run(usize::MAX), Some(RunOutcome::Paused(PauseReason::Budget)));
    assert!(world.job.cost_usd < 1.0, "{}", world.job.cost_usd);
    assert_eq!(world.job.map.unwrap().counts.successful, 10);
}

#[test]
fn fewer_items_start_when_a_limit_comes_closer() {
    let most = |share: f64| {
        let quota = QuotaPolicy { throttle_at: Some(0.8), ..QuotaPolicy::default() };
        let mut world =
            JobHarness { quota, max_parallel: 10, ..world(40, &[SimulatedOutcome::Hangs; 40]) };
        world.run(6);
        let event = Event::QuotaWarned { share, window: None, resets_at: None };
        world.write(event.into());
        world.run(usize::MAX);
        world.job.map.as_ref().unwrap().running().len()
    };
    assert_eq!([0.5, 0.79, 0.8, 0.9, 0.99, 1.0].map(most), [10, 10, 10, 5, 1, 1]);
}

#[test]
fn as_many_as_usual_start_once_a_limit_that_came_close_begins_anew() {
    let most = |later: u64| {
        let quota = QuotaPolicy { throttle_at: Some(0.8), ..QuotaPolicy::default() };
        let mut world =
            JobHarness { quota, max_parallel: 10, ..world(40, &[SimulatedOutcome::Hangs; 40]) };
        world.run(6);
        let resets_at = world.now.checked_add(Duration::from_secs(60)).ok();
        world.write(Event::QuotaWarned { share: 0.9, window: None, resets_at }.into());
        world.now = world.now.checked_add(Duration::from_secs(later)).unwrap();
        world.run(usize::MAX);
        world.job.map.as_ref().unwrap().running().len()
    };
    assert_eq!([0, 59, 60].map(most), [5, 5, 10]);
}

#[test]
fn nobody_starts_in_the_place_of_one_that_found_a_provider_without_room() {
    let fates = [
        SimulatedOutcome::Overloaded,
        SimulatedOutcome::Hangs,
        SimulatedOutcome::Hangs,
        SimulatedOutcome::Hangs,
        SimulatedOutcome::Hangs,
    ];
    let mut world = JobHarness { max_parallel: 4, ..world(8, &fates) };
    assert_eq!(world.run(usize::MAX), None, "no answer comes");
    // Two may be under way, and three are.
    let begun = world.journal.iter().filter(|it| it.event.event_type() == "agent_started").count();
    assert_eq!(begun, 4);
}

#[test]
fn an_item_that_waits_longer_than_the_circuit_is_open_is_not_forgotten() {
    let one = NonZeroU32::MIN;
    let config = BreakerConfig {
        failure_threshold: one,
        success_threshold: one,
        timeout: Duration::from_millis(1),
        half_open_requests: one,
    };
    let mut world = world(1, &[SimulatedOutcome::Overloaded]);
    world.policy.circuit_breaker = Some(config);
    assert_eq!(world.run(usize::MAX), Some(RunOutcome::Completed));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever happens: a limit is lifted only by an agent that tried and was served, and while
    /// one tries nobody else starts.
    #[test]
    fn a_limit_is_lifted_only_by_an_agent_that_was_served(
        items in 1_u32..12,
        policy in policies(),
        fates in fates(),
    ) {
        let mut world = JobHarness::new(items, policy, fates);
        let mut runs = 0;
        while world.run(usize::MAX) != Some(RunOutcome::Completed) {
            runs += 1;
            prop_assert!(runs < 200);
            resume(&mut world);
        }
        let mut job = Job::default();
        let mut before: Option<&EventRecord> = None;
        for record in &world.journal {
            let paused = job.quota.clone();
            if let Event::QuotaResumed {} = record.event {
                let usage = before.filter(|it| matches!(it.event, Event::AgentUsage { served: true, .. }));
                let item = usage.and_then(|usage| usage.item_id.clone());
                prop_assert_eq!(&item, &paused.and_then(|paused| paused.probe));
                prop_assert!(item.is_some());
            } else if let (Event::AgentStarted { .. }, Some(paused)) = (&record.event, paused) {
                prop_assert_eq!(paused.probe, None, "one tries at a time: {:?}", record);
                prop_assert!(paused.until.is_some_and(|until| until <= record.timestamp));
            }
            job.apply(record).unwrap();
            before = Some(record);
        }
    }
}
