//! Properties of jobs with many items: nothing is lost, whatever happens when.

mod merge_conflicts;
mod quota_and_budget;
mod replay_velocity;
mod replays;
mod securing;
mod suspensions;

use std::{collections::BTreeMap, num::NonZeroU32, time::Duration};

use proptest::prelude::*;

use super::*;
use crate::{
    Timestamp,
    agent::{QuotaKind, QuotaLimit, TokenUsage, was_served},
    event::{
        AgentCompleted, AttemptStatus, Event, EventRecord, FORMAT, JobMode, JobStarted, NewEvent,
        PhaseName, ReplayAuthorization, RunOptions, StepCompleted, StepStatus, WorkSuspended,
        WorktreeSnapshot,
    },
    failure::{Failure, ReasonCode},
    ids::{AgentId, ItemId},
    policy::{Backoff, Budget, QuotaPolicy, RetryPolicy},
    workflow::{BreakerConfig, ErrorCollection, ErrorPolicy, OnConflict, OnItemFailure, Preserve},
};

/// The outcome of one attempt, as the simulated world decides it.
#[derive(Clone, Copy, Debug)]
enum SimulatedOutcome {
    Succeeds,
    Commits,
    Conflicts,
    Fails,
    /// It fails before it has asked an agent.
    FailsEarly,
    /// It fails in another way.
    TimesOut,
    /// The provider has no room.
    Overloaded,
    /// It runs into a usage limit that is lifted a minute later.
    Limited,
    /// The account has no money left.
    Broke,
    /// The answer never comes before the next crash.
    Hangs,
}

fn fates() -> impl Strategy<Value = Vec<SimulatedOutcome>> {
    let fate = prop_oneof![
        3 => Just(SimulatedOutcome::Succeeds),
        3 => Just(SimulatedOutcome::Commits),
        1 => Just(SimulatedOutcome::Conflicts),
        2 => Just(SimulatedOutcome::Fails),
        1 => Just(SimulatedOutcome::FailsEarly),
        1 => Just(SimulatedOutcome::TimesOut),
        1 => Just(SimulatedOutcome::Overloaded),
        1 => Just(SimulatedOutcome::Limited),
        1 => Just(SimulatedOutcome::Broke),
        1 => Just(SimulatedOutcome::Hangs),
    ];
    prop::collection::vec(fate, 0..60)
}

/// Fates of attempts that never run into a limit of an account.
fn calm() -> impl Strategy<Value = Vec<SimulatedOutcome>> {
    fates().prop_map(|fates| {
        fates
            .into_iter()
            .filter(|fate| !matches!(fate, SimulatedOutcome::Limited | SimulatedOutcome::Broke))
            .collect()
    })
}

fn policies() -> impl Strategy<Value = ErrorPolicy> {
    let on_failure = prop_oneof![
        Just(OnItemFailure::Dlq),
        Just(OnItemFailure::Retry),
        Just(OnItemFailure::Skip),
        Just(OnItemFailure::Stop),
        Just(OnItemFailure::Custom("mend".to_owned())),
    ];
    let limit = prop::option::of(1_u32..5).prop_map(|n| n.and_then(NonZeroU32::new));
    let breaker = prop::option::of((1_u32..4, 1_u32..3, 1_u32..4));
    (on_failure, any::<bool>(), limit, prop::option::of(0.0..1.0), breaker, 0_u32..4).prop_map(
        |(
            on_item_failure,
            continue_on_failure,
            max_failures,
            failure_threshold,
            breaker,
            tries,
        )| {
            ErrorPolicy {
                on_item_failure,
                handlers: BTreeMap::new(),
                continue_on_failure,
                max_failures,
                failure_threshold,
                systemic_stop: None,
                min_items: 3,
                error_collection: ErrorCollection::Aggregate,
                circuit_breaker: breaker.map(|(fail, succeed, half)| BreakerConfig {
                    failure_threshold: NonZeroU32::new(fail).unwrap(),
                    success_threshold: NonZeroU32::new(succeed.min(half)).unwrap(),
                    timeout: Duration::from_secs(5),
                    half_open_requests: NonZeroU32::new(half).unwrap(),
                }),
                retry: NonZeroU32::new(tries).map(|attempts| RetryPolicy {
                    attempts,
                    backoff: Backoff::Fixed { delay: Duration::from_secs(1) },
                    max_delay: None,
                    jitter: false,
                    retry_on: vec![],
                }),
                preserve_worktrees: Preserve::Failed,
            }
        },
    )
}

/// A job with items, a clock, and a world that answers as the test says.
struct JobHarness {
    job: Job,
    journal: Vec<EventRecord>,
    policy: ErrorPolicy,
    on_conflict: OnConflict,
    now: Timestamp,
    fates: std::vec::IntoIter<SimulatedOutcome>,
    /// Items whose work was done, once for each time their success was recorded.
    merged: BTreeMap<ItemId, u32>,
    items: u32,
    most_at_once: usize,
    replays: ReplayScheduler,
    /// The places of dead letters that must not be replayed.
    refused: std::collections::BTreeSet<u32>,
    quota: QuotaPolicy,
    budget: Budget,
    max_parallel: u32,
    /// Set if every item asks an agent.
    asks: bool,
    waits: bool,
    /// The cost of each attempt.
    cost_usd: f64,
}

/// Returns the rule that allows a replay.
fn allowed() -> ReplayAuthorization {
    ReplayAuthorization {
        rule: "r".into(),
        policy_snapshot: "s".into(),
        approval: None,
        wait_ms: 0,
    }
}

impl JobHarness {
    fn new(items: u32, policy: ErrorPolicy, fates: Vec<SimulatedOutcome>) -> Self {
        let mut world = Self {
            job: Job::default(),
            journal: vec![],
            policy,
            on_conflict: OnConflict::Rerun,
            now: Timestamp::UNIX_EPOCH,
            fates: fates.into_iter(),
            merged: BTreeMap::new(),
            items,
            most_at_once: 0,
            replays: ReplayScheduler::default(),
            refused: std::collections::BTreeSet::new(),
            quota: QuotaPolicy::default(),
            budget: Budget::default(),
            max_parallel: 3,
            asks: true,
            waits: true,
            cost_usd: 0.0,
        };
        world.write(
            Event::JobStarted(Box::new(JobStarted {
                version: "0".into(),
                workflow_file: "w.yml".into(),
                workflow_hash: "h".into(),
                workflow_name: None,
                repository: "/r".into(),
                target_branch: Some("main".into()),
                into: false,
                worktree: None,
                base_commit: "base".into(),
                mode: JobMode::Mapreduce,
                steps: 1,
                setup_steps: 1,
                reduce_steps: 1,
                inputs: vec![],
                rounds: 1,
                parameters: BTreeMap::new(),
                profile: None,
                yes: true,
                by: None,
                found: None,
                budget: Budget::default(),
                options: RunOptions::default(),
                input: None,
            }))
            .into(),
        );
        world
    }

    fn write(&mut self, fact: NewEvent) {
        let record = EventRecord {
            format: FORMAT,
            seq: self.job.seq + 1,
            timestamp: self.now,
            job_id: "job".parse().unwrap(),
            agent_id: fact.agent_id,
            item_id: fact.item_id,
            event: fact.event,
        };
        self.job.apply(&record).unwrap_or_else(|error| panic!("{error}: {record:?}"));
        if let Some(map) = &self.job.map {
            assert!(map.is_conserved(), "after {record:?}: {map:?}");
            self.most_at_once = self.most_at_once.max(map.running().len());
            self.replays.apply(&record, map);
        }
        self.journal.push(record);
    }

    fn tell(&mut self, input: JobInput) -> Decision {
        let mut names = TopLevelSteps::default();
        names.asks.steps = vec![self.asks];
        let rules = MapSettings {
            max_parallel: self.max_parallel,
            policy: &self.policy,
            on_conflict: &self.on_conflict,
            needs_items: false,
            replays: &self.replays,
        };
        let surroundings = DecisionContext {
            names: &names,
            rules: Some(rules),
            spending: SpendContext {
                quota: &self.quota,
                budget: &self.budget,
                waits: self.waits,
                today_usd: 0.0,
            },
            now: self.now,
            random: 0.5,
            busy: false,
            draining: false,
            elapsed_ms: 0,
            commits: 0,
        };
        let decision = decide(&self.job, input, surroundings);
        for fact in decision.facts.clone() {
            self.write(fact);
        }
        decision
    }

    /// Runs until the end, or until the journal has `crash_at` records.
    fn run(&mut self, crash_at: usize) -> Option<RunOutcome> {
        let mut waiting = std::collections::VecDeque::from([JobInput::Begin]);
        let mut wake = None;
        loop {
            let Some(input) = waiting.pop_front() else {
                // Nothing happens before the next moment that was asked for.
                self.now = wake.take()?;
                waiting.push_back(JobInput::Tick);
                continue;
            };
            let decision = self.tell(input);
            wake = decision.wake.or(wake);
            if self.journal.len() >= crash_at {
                return None;
            }
            let mut claims = 0;
            for action in decision.actions {
                // The answer to a claim comes before anything else.
                let is_claim = matches!(action, JobAction::Item(ItemAction::Claim { .. }));
                match self.answer(action) {
                    Ok(answers) if is_claim => {
                        for answer in answers {
                            waiting.insert(claims, answer);
                            claims += 1;
                        }
                    }
                    Ok(answers) => waiting.extend(answers),
                    Err(ending) => return Some(ending),
                }
            }
            if decision.tick && !waiting.contains(&JobInput::Tick) {
                waiting.push_back(JobInput::Tick);
            }
        }
    }

    fn answer(&mut self, action: JobAction) -> Result<Vec<JobInput>, RunOutcome> {
        let text = str::to_owned;
        Ok(match action {
            JobAction::CreateTree => {
                vec![JobInput::TreeReady {
                    path: text("/t"),
                    branch: text("b"),
                    commit: text("base"),
                }]
            }
            JobAction::RestoreTree(_) => vec![],
            JobAction::RunStep { path, .. } => vec![JobInput::StepDone(Box::new(step(path)))],
            JobAction::SyncTree => vec![JobInput::TreeSynced(None)],
            JobAction::Merge => vec![JobInput::NothingToMerge],
            JobAction::CleanTree => vec![JobInput::TreeCleaned { path: text("/t") }],
            JobAction::Halt(reason) => {
                vec![JobInput::Stop { reason, message: text("halt") }]
            }
            JobAction::Finish(ending) => return Err(ending),
            JobAction::Item(action) => self.answer_item(action),
        })
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each action")]
    fn answer_item(&mut self, action: ItemAction) -> Vec<JobInput> {
        let ids = |from: u32, to: u32| {
            (from..to).map(|at| ItemId::from_position(at as usize + 1, 999)).collect::<Vec<_>>()
        };
        let input = match action {
            ItemAction::Select => {
                ItemInput::Selected { sha256: "s".into(), ids: ids(0, self.items) }
            }
            ItemAction::Find { from } => ItemInput::Found(ids(from, self.items)),
            ItemAction::Claim { item } if self.refused.contains(&item) => {
                self.replays.reject(item);
                ItemInput::Unclaimed { item }
            }
            ItemAction::Claim { item } => {
                ItemInput::Claimed { item, allowed: allowed(), forced: false }
            }
            ItemAction::Start { agent, item, .. } => {
                let head =
                    |fate| if matches!(fate, SimulatedOutcome::Succeeds) { "tip" } else { "new" };
                match self.fates.next().unwrap_or(SimulatedOutcome::Commits) {
                    SimulatedOutcome::Hangs => return vec![],
                    fate @ (SimulatedOutcome::Limited | SimulatedOutcome::Broke) => {
                        ItemInput::CutOff {
                            agent,
                            item,
                            cut_off: SuspensionCause::Limit(limit(fate, self.now)),
                            work: Box::new(suspended()),
                            duration_ms: 1,
                            cost_usd: 0.0,
                            secured: true,
                        }
                    }
                    SimulatedOutcome::FailsEarly => {
                        let failed = failed(agent, item, SimulatedOutcome::FailsEarly);
                        return vec![JobInput::Item(failed)];
                    }
                    fate @ (SimulatedOutcome::Fails
                    | SimulatedOutcome::TimesOut
                    | SimulatedOutcome::Overloaded) => failed(agent, item, fate),
                    fate @ (SimulatedOutcome::Succeeds
                    | SimulatedOutcome::Commits
                    | SimulatedOutcome::Conflicts) => ItemInput::Completed {
                        agent,
                        item,
                        done: Box::new(AgentCompleted {
                            attempt: 0,
                            duration_ms: 1,
                            base: "tip".into(),
                            head: head(fate).into(),
                            commits: 1,
                            recovered: 0,
                            ignored: 0,
                            uncommitted: 0,
                            status: AttemptStatus::Success,
                            cost_usd: 0.0,
                            result: serde_json::Value::Null,
                        }),
                    },
                }
            }
            ItemAction::HandleAgain { agent, item, failed, .. } => {
                let failure = failed.failure;
                ItemInput::Handled { agent, item, failure, handler: None }
            }
            ItemAction::Handle { agent, item, failure, .. } => {
                if let Some(SimulatedOutcome::Hangs) = self.fates.as_slice().first() {
                    self.fates.next();
                    return vec![];
                }
                let handler =
                    self.fates.next().is_some_and(|fate| matches!(fate, SimulatedOutcome::Fails));
                let handler = handler.then(|| failure.clone());
                ItemInput::Handled { agent, item, failure, handler }
            }
            ItemAction::Merge { item, .. } => {
                if self.fates.next().is_some_and(|fate| matches!(fate, SimulatedOutcome::Conflicts))
                {
                    ItemInput::Conflict { item, target: "b".into(), paths: vec!["f".into()] }
                } else {
                    let id = self.job.map.as_ref().unwrap().item(item).unwrap().id.clone();
                    *self.merged.entry(id).or_default() += 1;
                    ItemInput::Merged {
                        item,
                        source: "i".into(),
                        target: "b".into(),
                        tip: "t".into(),
                    }
                }
            }
            ItemAction::Resolve { agent, item, .. } => match self.resolve(agent, item) {
                Some(input) => input,
                None => return vec![],
            },
            // What is failed here left nothing, so that nobody has to make it safe.
            ItemAction::Secure { .. } | ItemAction::Release { .. } => return vec![],
        };
        let used = match &input {
            ItemInput::Completed { agent, item, .. }
            | ItemInput::Failed { agent, item, .. }
            | ItemInput::Resolved { agent, item, .. }
            | ItemInput::Unresolved { agent, item, .. } => Some((*agent, *item)),
            ItemInput::Selected { .. }
            | ItemInput::Unusable(_)
            | ItemInput::Found(_)
            | ItemInput::Claimed { .. }
            | ItemInput::Unclaimed { .. }
            | ItemInput::CutOff { .. }
            | ItemInput::Handled { .. }
            | ItemInput::Merged { .. }
            | ItemInput::Conflict { .. }
            | ItemInput::CommitsGone { .. } => None,
        };
        let served = if let ItemInput::Failed { failure, .. } = &input {
            was_served(Some(failure.kind), TokenUsage::default(), false)
        } else {
            true
        };
        let used = used.map(|(agent, item)| {
            let id = self.job.map.as_ref().unwrap().item(item).unwrap().id.clone();
            let event = Event::AgentUsage {
                step: "1".into(),
                agent: "claude".into(),
                cost_usd: Some(self.cost_usd),
                tokens: TokenUsage::default(),
                model: None,
                served,
                estimated: false,
                run: None,
            };
            JobInput::Inside(NewEvent { agent_id: Some(agent), item_id: Some(id), event })
        });
        used.into_iter().chain([JobInput::Item(input)]).collect()
    }
}

/// Returns that an attempt failed.
fn failed(agent: AgentId, item: u32, fate: SimulatedOutcome) -> ItemInput {
    let (step, failure) = (Some("1".into()), failure(fate));
    ItemInput::Failed { agent, item, step, failure, duration_ms: 1, cost_usd: 0.0, secured: true }
}

fn failure(fate: SimulatedOutcome) -> Failure {
    match fate {
        SimulatedOutcome::TimesOut => Failure::new(ReasonCode::Timeout, "it took longer than 5s"),
        SimulatedOutcome::Overloaded => Failure::new(ReasonCode::ProviderOverloaded, "no room"),
        SimulatedOutcome::Succeeds
        | SimulatedOutcome::Commits
        | SimulatedOutcome::Conflicts
        | SimulatedOutcome::Fails
        | SimulatedOutcome::FailsEarly
        | SimulatedOutcome::Limited
        | SimulatedOutcome::Broke
        | SimulatedOutcome::Hangs => Failure::new(ReasonCode::CommandFailed, "exit code 1"),
    }
}

/// Returns what an attempt keeps that was cut off.
fn suspended() -> WorkSuspended {
    let snapshot = WorktreeSnapshot { head: "h".into(), index: "i".into(), files: "f".into() };
    let snapshot = Some(snapshot);
    WorkSuspended { step: None, snapshot, finished_steps: 1, counted: false }
}

/// Returns the limit that an agent ran into.
fn limit(fate: SimulatedOutcome, now: Timestamp) -> QuotaLimit {
    let kind =
        if matches!(fate, SimulatedOutcome::Broke) { QuotaKind::Credits } else { QuotaKind::Usage };
    let resets_at = now.checked_add(Duration::from_secs(60)).unwrap();
    let resets_at = (kind == QuotaKind::Usage).then_some(resets_at);
    QuotaLimit { kind, resets_at, window: None, message: "no more for now".into() }
}

fn step(path: String) -> StepCompleted {
    StepCompleted {
        step: path,
        id: None,
        attempt: 1,
        status: StepStatus::Success,
        exit_code: 0,
        duration_ms: 1,
        output: String::new(),
        agent: false,
        captures: BTreeMap::new(),
        inner: BTreeMap::new(),
        snapshot: None,
        log: None,
        adopted: false,
    }
}

#[test]
fn a_governed_journal_of_format_one_folds_to_the_same_items() {
    let golden = include_str!("../../../../prodigy-engine/tests/golden/v1/governed.jsonl");
    let mut job = Job::default();
    for line in golden.lines() {
        job.apply(&serde_json::from_str(line).unwrap()).unwrap();
    }
    let map = job.map.unwrap();
    let shown = |item: &ItemState| {
        let states: Vec<_> =
            item.ledger.iter().flat_map(|ledger| ledger.effects()).map(|e| e.state).collect();
        let edited = item.edited.as_ref().map(|hash| hash.len());
        format!("{} {:?} {} {states:?} {edited:?}", item.id, item.stage, item.attempts)
    };
    let items: Vec<_> = map.items.iter().map(shown).collect();
    insta::assert_snapshot!(items.join("\n"), @"
        item-001 Successful 0 [Absent] Some(64)
        item-002 Successful 2 [] None
        ");
    assert_eq!((map.counts.successful, map.counts.dead_lettered), (2, 0));
}

#[test]
fn a_journal_of_format_one_folds_to_the_same_items() {
    let golden = include_str!("../../../../prodigy-engine/tests/golden/v1/items.jsonl");
    let mut job = Job::default();
    for line in golden.lines() {
        job.apply(&serde_json::from_str(line).unwrap()).unwrap();
    }
    let map = job.map.unwrap();
    let stages: Vec<_> = map
        .items
        .iter()
        .map(|item| format!("{} {:?} {}", item.id, item.stage, item.attempts))
        .collect();
    insta::assert_snapshot!(stages.join("\n"), @"
        item-001 Successful 1
        item-002 Skipped 3
        item-003 Skipped 1
        item-004 Successful 1
        ");
    insta::assert_debug_snapshot!(map.counts, @"
        ItemCounts {
            successful: 2,
            recovered: 1,
            ignored: 0,
            dead_lettered: 0,
            skipped: 2,
        }
        ");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whatever fails, hangs, conflicts or crashes: every item ends exactly once, no more
    /// run at once than may, and the journal rebuilds the job at every crash.
    #[test]
    fn every_item_ends_exactly_once(
        items in 0_u32..12,
        policy in policies(),
        on_conflict in merge_conflicts::rules(),
        fates in fates(),
        crashes in prop::collection::vec(1_usize..60, 0..5),
    ) {
        let mut world = JobHarness::new(items, policy, fates);
        world.on_conflict = on_conflict;
        let mut runs = 0;
        let mut crashes = crashes.into_iter();
        loop {
            let crash_at = crashes.next().map_or(usize::MAX, |after| world.journal.len() + after);
            let ending = world.run(crash_at);
            let mut folded = Job::default();
            for record in &world.journal {
                folded.apply(record).unwrap();
            }
            prop_assert_eq!(&folded, &world.job, "the journal rebuilds the job");
            let text = serde_json::to_string(&world.job).unwrap();
            let stored: Job = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(&stored, &world.job, "a checkpoint is the job");
            if ending == Some(RunOutcome::Completed) {
                break;
            }
            runs += 1;
            prop_assert!(runs < 200, "it never ends: {:?}", world.job.map);
            world.write(Event::JobResumed { version: "0".into(), workflow: None, reopened: None, found: None, budget: None, options: None, into: None, try_now: false }.into());
        }
        let map = world.job.map.as_ref().unwrap();
        prop_assert!(map.is_finished() && map.is_conserved());
        prop_assert!(world.most_at_once <= 3);
        let mut ends: BTreeMap<&ItemId, u32> = BTreeMap::new();
        for record in &world.journal {
            let ends_with = ["worktree_merged", "item_skipped", "item_dead_lettered"];
            let ended = if let Event::AgentCompleted(done) = &record.event {
                !done.has_commits()
            } else {
                ends_with.contains(&record.event.event_type())
            };
            if let Some(id) = record.item_id.as_ref().filter(|_| ended) {
                *ends.entry(id).or_default() += 1;
            }
        }
        prop_assert_eq!(ends.len(), usize::try_from(items).unwrap());
        prop_assert!(ends.values().all(|times| *times == 1), "{:?}", ends);
    }

    /// An item that has succeeded is never started again, and none is tried more often than
    /// the policy allows, unless a crash cut it off or its commits conflicted.
    #[test]
    fn attempts_are_bounded_and_success_is_final(
        items in 1_u32..8,
        policy in policies(),
        on_conflict in merge_conflicts::rules(),
        fates in fates(),
    ) {
        // A provider without room is given five tries if the policy has no number.
        let most = policy.retry.as_ref().map_or(5, |retry| retry.attempts.get());
        let most_conflicts = if on_conflict == OnConflict::Fail { 1 } else { 2 };
        let mut world = JobHarness::new(items, policy, fates);
        world.on_conflict = on_conflict;
        let mut runs = 0;
        while world.run(usize::MAX) != Some(RunOutcome::Completed) {
            runs += 1;
            prop_assert!(runs < 200);
            world.write(Event::JobResumed { version: "0".into(), workflow: None, reopened: None, found: None, budget: None, options: None, into: None, try_now: false }.into());
        }
        let map = world.job.map.as_ref().unwrap();
        for item in &map.items {
            prop_assert!(item.failed <= most, "{item:?}");
            prop_assert!(item.conflicts <= most_conflicts, "{item:?}");
        }
        let phases = [PhaseName::Setup, PhaseName::Map, PhaseName::Reduce, PhaseName::Merge];
        prop_assert_eq!(&world.job.phases_done, &phases);
    }
}
