//! The one place where a job decides.

pub(crate) mod dispatch;
pub(crate) mod items;
pub(crate) mod merge;
pub(crate) mod outcome;
pub(crate) mod replay_scheduler;
pub(crate) mod suspension;
pub(crate) mod top_level_steps;

use items::{ItemAction, ItemInput, MapSettings};

use super::{
    Job, TopLevelSteps,
    position::top_level_path,
    quota::{self, SpendContext},
    suspension::{SuspensionCause, suspend_step},
};
use crate::{
    Timestamp,
    event::{
        CompletedStatus, Event, JobMode, LogRange, NewEvent, PauseReason, PhaseName, StepCompleted,
        StepFailureDecision, WorkSuspended, WorktreeSnapshot,
    },
    failure::Failure,
};

/// Something the outside world tells a job.
#[derive(Clone, Debug, PartialEq)]
pub enum JobInput {
    /// A run began; always the first.
    Begin,
    /// Nothing in particular: go on with what comes next.
    Tick,
    /// The worktree is there.
    TreeReady {
        /// Its directory.
        path: String,
        /// Its branch.
        branch: String,
        /// The commit it starts from.
        commit: String,
    },
    /// Something happened that changes nothing else: inside a step, or to an agent's worktree.
    Inside(NewEvent),
    /// Something happened to the items.
    Item(ItemInput),
    /// The job's worktree has everything that was merged.
    TreeSynced(Option<WorktreeSnapshot>),
    /// A top-level step is over and the run goes on.
    StepDone(Box<StepCompleted>),
    /// A top-level step was not run because its condition was false.
    StepSkipped {
        /// The step's path.
        step: String,
        /// The step's id in the workflow.
        id: Option<String>,
        /// The step's display name.
        name: String,
        /// The condition.
        when: String,
    },
    /// A top-level step ended the phase.
    StepFailed {
        /// The step's path.
        step: String,
        /// The attempt that failed last.
        attempt: u32,
        /// The failure that ended the phase.
        failure: Failure,
        /// The duration of the step.
        duration_ms: u64,
        /// Where its output stands.
        log: Option<LogRange>,
    },
    /// A top-level step, or one of the merge, was cut off by a limit or a budget.
    StepCutOff {
        /// The step's path.
        step: String,
        /// The cause.
        cut_off: SuspensionCause,
        /// The work that it keeps.
        work: Box<WorkSuspended>,
    },
    /// The result is in the branch it belongs to.
    Merged {
        /// The job's branch.
        source: String,
        /// The branch the user started from.
        target: String,
        /// The target's commit.
        commit: String,
        /// The number of merged commits.
        commits: u64,
    },
    /// There was nothing to merge.
    NothingToMerge,
    /// The result could not be merged, or nobody said that it should be.
    NotMerged {
        /// The reason, for people.
        message: String,
        /// The paths in conflict, if that is why.
        conflict: Option<(String, Vec<String>)>,
    },
    /// The worktree is gone.
    TreeCleaned {
        /// Where it was.
        path: String,
    },
    /// The worktree stays.
    TreeKept {
        /// Where it is.
        path: String,
        /// The reason why it is kept.
        reason: String,
    },
    /// The run has to stop.
    Stop {
        /// The reason code of the stop.
        reason: PauseReason,
        /// The reason of the stop, for people.
        message: String,
    },
}

/// Something a job wants done.
#[derive(Clone, Debug, PartialEq)]
pub enum JobAction {
    /// Make the worktree and send [`JobInput::TreeReady`].
    CreateTree,
    /// Bring the worktree back to this state; the next action follows at once.
    RestoreTree(WorktreeSnapshot),
    /// Do something about the items.
    Item(ItemAction),
    /// Bring the job's worktree to its branch, and send [`JobInput::TreeSynced`].
    SyncTree,
    /// Run a top-level step.
    RunStep {
        /// The phase.
        phase: PhaseName,
        /// Its path.
        path: String,
        /// The round, from 0.
        round: u32,
        /// The step of the round, from 0.
        index: u32,
        /// The attempt, from 1.
        attempt: u32,
    },
    /// Merge the result into the branch the user started from.
    Merge,
    /// End what is under way, and send [`JobInput::Stop`] for this reason.
    Halt(PauseReason),
    /// Remove the worktree, unless it holds something that is nowhere else.
    CleanTree,
    /// The job is over for this run.
    Finish(RunOutcome),
}

/// The ending of this run of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunOutcome {
    /// Everything is done.
    Completed,
    /// A step failed.
    Failed,
    /// The result waits to be merged.
    MergeOutstanding,
    /// The error policy stopped it.
    StoppedByPolicy,
    /// There was nothing to do, and that was not wanted.
    NoItems,
    /// It was stopped.
    Paused(PauseReason),
}

/// The decision of a job: first write the events, then do the actions.
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use = "events that are not written did not happen"]
pub struct Decision {
    /// The events to append to the journal, in order.
    pub facts: Vec<NewEvent>,
    /// The actions to run once the events are written.
    pub actions: Vec<JobAction>,
    /// True if [`JobInput::Tick`] has to be sent once the events are applied.
    pub tick: bool,
    /// When to send [`JobInput::Tick`] if nothing happens before.
    pub wake: Option<Timestamp>,
}

impl Decision {
    /// Writes something and goes on.
    pub(crate) fn record(events: Vec<Event>) -> Self {
        let facts = events.into_iter().map(NewEvent::from).collect();
        Self { facts, tick: true, ..Self::default() }
    }

    /// Writes something and ends the run.
    pub(crate) fn finish(events: Vec<Event>, ending: RunOutcome) -> Self {
        let facts = events.into_iter().map(NewEvent::from).collect();
        Self { facts, actions: vec![JobAction::Finish(ending)], ..Self::default() }
    }

    /// Does something without writing anything.
    pub(crate) fn perform(action: JobAction) -> Self {
        Self { actions: vec![action], ..Self::default() }
    }
}

/// The input of `decide` besides the journal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DecisionContext<'a> {
    /// The names of the steps, for the records.
    pub names: &'a TopLevelSteps,
    /// The rules for the items, if there are any.
    pub rules: Option<MapSettings<'a>>,
    /// The quota policy and the budget.
    pub spending: SpendContext<'a>,
    /// The time.
    pub now: Timestamp,
    /// A number from 0 to 1 that nobody can foresee.
    pub random: f64,
    /// Set if a top-level step, or the selection of items, is in flight in this run.
    pub busy: bool,
    /// Set if nothing new may start.
    pub draining: bool,
    /// The running time of the job so far, without pauses.
    pub elapsed_ms: u64,
    /// The commits on the job's branch.
    pub commits: u64,
}

/// Decides what follows from `input`.
///
/// The job is not changed. The caller appends the events to the journal, applies
/// them with [`Job::apply`], and only then carries out the actions; a crash in
/// between leaves a journal that says what was about to happen.
pub fn decide(job: &Job, input: JobInput, surroundings: DecisionContext<'_>) -> Decision {
    match input {
        JobInput::Begin => dispatch::resume_merges(job),
        // What is under way will say when it is over.
        JobInput::Tick if surroundings.busy => Decision::default(),
        JobInput::Tick => next_step(job, surroundings),
        JobInput::TreeReady { path, branch, commit } => {
            Decision::record(vec![Event::WorktreeCreated { path, branch, commit }])
        }
        JobInput::Inside(fact) => {
            // What is spent may be too much for what is under way.
            let tick = matches!(fact.event, Event::AgentUsage { .. });
            let lifted = quota::quota_lifted(job, &fact);
            let facts = [fact].into_iter().chain(lifted).collect();
            Decision { facts, tick, ..Decision::default() }
        }
        JobInput::Item(input) => match (&job.map, surroundings.rules) {
            (_, None) => Decision::default(),
            (Some(_), Some(rules)) => items::handle_item_input(job, input, rules, surroundings),
            (None, Some(rules)) => items::handle_selection(input, rules),
        },
        JobInput::TreeSynced(snapshot) => match job.next_phase() {
            Some(phase) => Decision::record(vec![Event::PhaseStarted { phase, snapshot }]),
            None => Decision::default(),
        },
        JobInput::StepDone(step) => Decision::record(vec![Event::StepCompleted(step)]),
        JobInput::StepSkipped { step, id, name, when } => {
            Decision::record(vec![Event::StepSkipped { step, id, name, when }])
        }
        JobInput::StepFailed { step, attempt, failure, duration_ms, log } => {
            let mut events = Vec::new();
            // A step of the merge phase has told it already.
            if !step.starts_with("merge.") {
                let (step, failure) = (step.clone(), failure.clone());
                let then = StepFailureDecision::Stop;
                events.push(Event::StepFailed { step, attempt, failure, then, duration_ms, log });
            }
            events.push(Event::JobFailed { step, failure });
            Decision::finish(events, RunOutcome::Failed)
        }
        JobInput::StepCutOff { step, cut_off, work } => {
            suspend_step(job, step, cut_off, *work, surroundings)
        }
        JobInput::Merged { source, target, commit, commits } => {
            let merged = Event::WorktreeMerged { source, target, commit, commits };
            Decision::record(vec![merged, Event::PhaseCompleted { phase: PhaseName::Merge }])
        }
        JobInput::NothingToMerge => {
            Decision::record(vec![Event::PhaseCompleted { phase: PhaseName::Merge }])
        }
        JobInput::NotMerged { message, conflict } => {
            let mut events = Vec::new();
            if let Some((target, paths)) = conflict {
                events.push(Event::MergeConflict { target, paths, resolver: None });
            }
            events.push(Event::JobPaused { reason: PauseReason::MergeOutstanding, message });
            Decision::finish(events, RunOutcome::MergeOutstanding)
        }
        JobInput::TreeCleaned { path } => Decision::record(vec![Event::WorktreeCleaned { path }]),
        JobInput::TreeKept { path, reason } => {
            Decision::record(vec![Event::WorktreePreserved { path, reason, left: None }])
        }
        JobInput::Stop { reason, message } => {
            Decision::finish(vec![Event::JobPaused { reason, message }], RunOutcome::Paused(reason))
        }
    }
}

/// Decides what comes next when nothing is under way in this run.
///
/// ```text
/// worktree ─▶ steps phase ─▶ step … step ─────────▶ merge phase ─▶ tidy up ─▶ completed
/// worktree ─▶ setup ─▶ map: items … ─▶ reduce ─▶ …
/// ```
fn next_step(job: &Job, surroundings: DecisionContext<'_>) -> Decision {
    if job.tree.is_none() {
        return Decision::perform(JobAction::CreateTree);
    }
    let held = |phase, index| {
        quota::block_on_spend(job, surroundings, surroundings.names.uses_agent(phase, index))
    };
    match job.next_phase() {
        Some(phase) if job.phase.is_none() => begin_phase(job, phase),
        Some(phase @ (PhaseName::Steps | PhaseName::Setup | PhaseName::Reduce)) => {
            match job.next_step_position() {
                Some((round, index)) => held(phase, index)
                    .unwrap_or_else(|| start_step(job, surroundings, phase, round, index)),
                None => Decision::record(vec![Event::PhaseCompleted { phase }]),
            }
        }
        Some(PhaseName::Map) => dispatch::dispatch_items(job, surroundings),
        Some(PhaseName::Merge) => {
            held(PhaseName::Merge, 0).unwrap_or_else(|| Decision::perform(JobAction::Merge))
        }
        None if !job.tidy => Decision::perform(JobAction::CleanTree),
        None => complete(job, surroundings),
    }
}

/// Begins a phase; what comes after the items needs everything that they merged.
fn begin_phase(job: &Job, phase: PhaseName) -> Decision {
    let after_items = matches!(phase, PhaseName::Reduce | PhaseName::Merge);
    if job.mode() == JobMode::Mapreduce
        && after_items
        && job.phases_done.last() == Some(&PhaseName::Map)
    {
        return Decision::perform(JobAction::SyncTree);
    }
    Decision::record(vec![Event::PhaseStarted { phase, snapshot: None }])
}

/// Ends the job well.
fn complete(job: &Job, surroundings: DecisionContext<'_>) -> Decision {
    let status = if job.failure_count() == 0 {
        CompletedStatus::Completed
    } else {
        CompletedStatus::CompletedWithFailures
    };
    let (duration_ms, commits) = (surroundings.elapsed_ms, surroundings.commits);
    Decision::finish(
        vec![Event::JobCompleted { status, duration_ms, commits }],
        RunOutcome::Completed,
    )
}

/// Starts a top-level step; one that was cut off starts again where it first started.
fn start_step(
    job: &Job,
    surroundings: DecisionContext<'_>,
    phase: PhaseName,
    round: u32,
    index: u32,
) -> Decision {
    let rounds = job.started.as_ref().map_or(1, |started| started.rounds);
    let path = top_level_path(phase, round, index, rounds);
    let names = match phase {
        PhaseName::Setup => &surroundings.names.setup,
        PhaseName::Reduce => &surroundings.names.reduce,
        PhaseName::Steps | PhaseName::Map | PhaseName::Merge => &surroundings.names.steps,
    };
    let name = usize::try_from(index).ok().and_then(|index| names.get(index));
    let mut actions = Vec::new();
    if job.running.is_some() {
        actions.extend(job.snapshot_to_restore(&path).map(JobAction::RestoreTree));
    }
    let attempt = 1;
    actions.push(JobAction::RunStep { phase, path: path.clone(), round, index, attempt });
    let identities = surroundings.names.identities.of_phase(phase);
    let identity = usize::try_from(index).ok().and_then(|index| identities.get(index)).cloned();
    let name = name.cloned().unwrap_or_default();
    let event = Event::StepStarted { step: path, name, attempt, identity };
    Decision { facts: vec![event.into()], actions, ..Decision::default() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::{
        Timestamp,
        event::{EventRecord, FORMAT, JobStarted, RunOptions, StepStatus},
        failure::ReasonCode,
        job::JobOutcome,
        policy::{Budget, OnExceeded, OnLimit, OnUnknownCost, QuotaPolicy},
    };

    fn surroundings() -> DecisionContext<'static> {
        static NAMES: std::sync::LazyLock<TopLevelSteps> =
            std::sync::LazyLock::new(TopLevelSteps::default);
        DecisionContext {
            names: &NAMES,
            rules: None,
            spending: SpendContext {
                quota: &QuotaPolicy {
                    on_limit: OnLimit::Wait,
                    max_wait: None,
                    throttle_at: None,
                    max_restarts: None,
                },
                budget: &Budget {
                    item_usd: None,
                    job_usd: None,
                    day_usd: None,
                    on_exceeded: OnExceeded::Pause,
                    on_unknown: OnUnknownCost::Ignore,
                },
                waits: true,
                today_usd: 0.0,
            },
            now: Timestamp::UNIX_EPOCH,
            random: 0.0,
            busy: false,
            draining: false,
            elapsed_ms: 7,
            commits: 1,
        }
    }

    fn started(rounds: u32) -> Event {
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
            mode: JobMode::Sequential,
            steps: 3,
            setup_steps: 0,
            reduce_steps: 0,
            inputs: vec![],
            rounds,
            parameters: BTreeMap::new(),
            profile: None,
            yes: true,
            by: None,
            found: None,
            budget: Budget::default(),
            options: RunOptions::default(),
            input: None,
        }))
    }

    /// A journal in memory.
    #[derive(Default)]
    struct MemoryJournal {
        job: Job,
        journal: Vec<EventRecord>,
    }

    impl MemoryJournal {
        fn write(&mut self, event: Event) {
            let record = EventRecord {
                format: FORMAT,
                seq: self.job.seq + 1,
                timestamp: Timestamp::UNIX_EPOCH,
                job_id: "job".parse().unwrap(),
                agent_id: None,
                item_id: None,
                event,
            };
            self.job.apply(&record).unwrap();
            self.journal.push(record);
        }

        fn tell(&mut self, input: JobInput) -> Decision {
            let decision = decide(&self.job, input, surroundings());
            for fact in decision.facts.clone() {
                self.write(fact.event);
            }
            decision
        }

        /// Runs until the end or until the journal has `crash_at` records.
        fn run(
            &mut self,
            answers: &mut impl Iterator<Item = bool>,
            crash_at: usize,
        ) -> Option<RunOutcome> {
            let mut next = JobInput::Tick;
            loop {
                let decision = self.tell(next);
                if self.journal.len() >= crash_at {
                    return None;
                }
                next = JobInput::Tick;
                for action in decision.actions {
                    next = match action {
                        JobAction::CreateTree => JobInput::TreeReady {
                            path: "/t".into(),
                            branch: "b".into(),
                            commit: "base".into(),
                        },
                        JobAction::RestoreTree(_)
                        | JobAction::Item(_)
                        | JobAction::SyncTree
                        | JobAction::Halt(_) => continue,
                        JobAction::RunStep { path, .. } => {
                            self.answer(&path, answers.next().unwrap_or(true))
                        }
                        JobAction::Merge => JobInput::Merged {
                            source: "b".into(),
                            target: "main".into(),
                            commit: "m".into(),
                            commits: 1,
                        },
                        JobAction::CleanTree => JobInput::TreeCleaned { path: "/t".into() },
                        JobAction::Finish(ending) => return Some(ending),
                    };
                }
            }
        }

        fn answer(&self, path: &str, well: bool) -> JobInput {
            let step = path.to_owned();
            if !well {
                let failure = Failure::new(ReasonCode::CommandFailed, "exit code 1");
                return JobInput::StepFailed {
                    step,
                    attempt: 1,
                    failure,
                    duration_ms: 1,
                    log: None,
                };
            }
            let snapshot = WorktreeSnapshot {
                head: format!("head-{}", self.job.done),
                index: "i".into(),
                files: "f".into(),
            };
            JobInput::StepDone(Box::new(StepCompleted {
                step,
                id: Some("id".into()),
                attempt: 1,
                status: StepStatus::Success,
                exit_code: 0,
                duration_ms: 1,
                output: format!("out-{}", self.job.done),
                agent: false,
                captures: BTreeMap::from([(format!("v{}", self.job.done), 1.into())]),
                inner: BTreeMap::new(),
                snapshot: Some(snapshot),
                log: None,
                adopted: false,
            }))
        }
    }

    #[test]
    fn a_job_tells_its_story_in_order() {
        let mut world = MemoryJournal::default();
        world.write(started(1));
        assert_eq!(
            world.run(&mut std::iter::repeat(true), usize::MAX),
            Some(RunOutcome::Completed)
        );
        let story: Vec<String> = world
            .journal
            .iter()
            .map(|record| {
                let value = serde_json::to_value(record).unwrap();
                let step = value["step"].as_str().unwrap_or_default();
                format!("{} {step}", value["event_type"].as_str().unwrap()).trim().to_owned()
            })
            .collect();
        insta::assert_snapshot!(story.join("\n"), @"
        job_started
        worktree_created
        phase_started
        step_started 1
        step_completed 1
        step_started 2
        step_completed 2
        step_started 3
        step_completed 3
        phase_completed
        phase_started
        worktree_merged
        phase_completed
        worktree_cleaned
        job_completed
        ");
    }

    #[test]
    fn a_step_that_was_cut_off_starts_again_from_the_last_snapshot() {
        let mut world = MemoryJournal::default();
        world.write(started(1));
        assert_eq!(world.run(&mut std::iter::repeat(true), 6), None, "step 2 is under way");
        let decision = world.tell(JobInput::Tick);
        let snapshot =
            WorktreeSnapshot { head: "head-0".into(), index: "i".into(), files: "f".into() };
        let run = JobAction::RunStep {
            phase: PhaseName::Steps,
            path: "2".into(),
            round: 0,
            index: 1,
            attempt: 1,
        };
        assert_eq!(decision.actions, [JobAction::RestoreTree(snapshot), run]);
    }

    #[test]
    fn a_failed_step_ends_the_job_and_a_resumed_job_repeats_it() {
        let mut world = MemoryJournal::default();
        world.write(started(1));
        let ending = world.run(&mut [true, false].into_iter(), usize::MAX);
        assert_eq!(ending, Some(RunOutcome::Failed));
        assert!(matches!(&world.job.end, Some(JobOutcome::Failed { step, .. }) if step == "2"));
        world.write(Event::JobResumed {
            version: "0".into(),
            workflow: None,
            reopened: None,
            found: None,
            budget: None,
            options: None,
            into: None,
            try_now: false,
        });
        assert_eq!(
            world.run(&mut std::iter::repeat(true), usize::MAX),
            Some(RunOutcome::Completed)
        );
        assert_eq!(world.job.done, 3);
    }

    #[test]
    fn the_journal_cannot_complete_a_step_that_was_not_started() {
        let mut world = MemoryJournal::default();
        world.write(started(1));
        let JobInput::StepDone(step) = world.answer("1", true) else { panic!("it succeeded") };
        let record = EventRecord {
            format: FORMAT,
            seq: 2,
            timestamp: Timestamp::UNIX_EPOCH,
            job_id: "job".parse().unwrap(),
            agent_id: None,
            item_id: None,
            event: Event::StepCompleted(step),
        };
        let before = world.job.clone();
        insta::assert_snapshot!(world.job.apply(&record).unwrap_err(), @"record 2 (step_completed) cannot follow what was recorded before it");
        assert_eq!(world.job, before, "an error changes nothing");
    }

    proptest! {
        /// Nothing finished is lost, and a resumed job is the job that never stopped.
        #[test]
        fn a_job_that_crashes_anywhere_ends_like_one_that_does_not(
            rounds in 1_u32..3,
            crashes in prop::collection::vec(2_usize..40, 0..6),
            failures in prop::collection::vec(prop::bool::weighted(0.8), 0..12),
        ) {
            let mut calm = MemoryJournal::default();
            calm.write(started(rounds));
            prop_assert_eq!(calm.run(&mut std::iter::repeat(true), usize::MAX), Some(RunOutcome::Completed));

            let mut world = MemoryJournal::default();
            world.write(started(rounds));
            let mut answers = failures.into_iter();
            for crash in crashes {
                let at = world.journal.len() + crash;
                if world.run(&mut answers, at) == Some(RunOutcome::Completed) {
                    break;
                }
                let mut folded = Job::default();
                for record in &world.journal {
                    folded.apply(record).unwrap();
                }
                prop_assert_eq!(&folded, &world.job, "the journal rebuilds the job");
                world.write(Event::JobResumed { version: "0".into(), workflow: None, reopened: None, found: None, budget: None, options: None, into: None, try_now: false });
            }
            while !matches!(world.job.end, Some(JobOutcome::Completed(_))) {
                world.run(&mut std::iter::repeat(true), usize::MAX);
            }
            prop_assert_eq!(world.job.done, calm.job.done);
            prop_assert_eq!(&world.job.vars, &calm.job.vars);
            prop_assert_eq!(&world.job.snapshot, &calm.job.snapshot);
            prop_assert_eq!(&world.job.merged, &calm.job.merged);
        }
    }
}
