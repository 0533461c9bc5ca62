//! The summary of a job, for people.

pub(crate) mod cost;
pub(crate) mod items;
pub(crate) mod kept_work;
pub(crate) mod resource_usage;
pub(crate) mod suspended_work;
pub(crate) mod throughput;
pub(crate) mod warnings;

use std::{fmt, time::Duration};

use serde::Serialize;

use super::{
    AgentWarnings, CostSummary, ItemSummary, JobOutcome, KeptSummary, SuspendedSummary,
    position::is_work,
};
use crate::{
    Timestamp,
    event::{
        BudgetScope, CheckoutChange, CompletedStatus, Event, EventRecord, GuardedFile, JobMode,
        JobStarted, PauseReason, PhaseName, QuotaPaused, StepStatus, WorkflowChange, is_top_level,
    },
};

/// The most changes of the user's checkout that are kept one by one.
const MOST_CHANGES: usize = 10;

/// A job at a glance, folded from its journal in constant memory.
///
/// Unlike [`Job`](super::Job) it accepts any order of records: it shows what
/// there is, also of a journal that cannot be resumed from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobSummary {
    /// The facts that were recorded at the beginning.
    pub started: Option<JobStarted>,
    /// When the job began.
    pub started_at: Option<Timestamp>,
    /// When the last record was written.
    pub last_at: Option<Timestamp>,
    /// The number of records.
    pub records: u64,
    /// The number of top-level steps done, over all rounds.
    pub steps_done: u32,
    /// The number of steps that failed without ending the job, in loops and the merge as well.
    pub steps_failed: u32,
    /// Those inside the top-level step or phase that is under way; they count once it is over.
    failing_inside: u32,
    /// The number of top-level steps, over all rounds.
    pub steps_total: u32,
    /// The top-level step that was started last and has not ended: its path and name.
    pub running: Option<(String, String)>,
    /// The phase that is under way.
    pub phase: Option<PhaseName>,
    /// The items, once they were chosen.
    pub items: Option<ItemSummary>,
    /// The number of resumes.
    pub resumed: u32,
    /// The cost of agents.
    pub costs: CostSummary,
    /// The warnings about work that succeeded.
    pub warnings: AgentWarnings,
    /// The work that was kept outside of its commits.
    pub kept: KeptSummary,
    /// The changes of the user's checkout and repository while the job ran: the first of them.
    pub checkout: Vec<CheckoutChange>,
    /// The number of those changes in all.
    pub checkout_in_all: usize,
    /// The files that decide what runs in later runs, and that the job changes.
    pub guarded: Vec<GuardedFile>,
    /// The work that waits in the middle.
    pub suspended: SuspendedSummary,
    /// The limit that keeps it from going on.
    pub quota: Option<QuotaPaused>,
    /// The budget that was spent in the last run.
    pub overspent: Option<BudgetScope>,
    /// The job's branch.
    pub branch: Option<String>,
    /// The job's worktree, as long as it is there.
    pub worktree: Option<String>,
    /// The commit that the merge made.
    pub merged: Option<String>,
    /// The ending of the job's last run, if it has ended.
    pub end: Option<JobOutcome>,
    /// The number of steps done before the reduce phase, and the number that failed.
    before_reduce: Option<(u32, u32)>,
    /// The duration of the runs before the current one.
    earlier: Duration,
    /// When the current run began.
    run_began: Option<Timestamp>,
}

/// The status of a job, as people see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum JobStatus {
    /// A process works on it.
    Running,
    /// It was stopped and can be resumed.
    Paused,
    /// Its process died. It can be resumed.
    Interrupted,
    /// Its work is done and waits to be merged.
    MergeOutstanding,
    /// It did everything.
    Completed,
    /// It did everything, and some of it failed.
    CompletedWithFailures,
    /// A step failed. It can be resumed at that step.
    Failed,
}

impl JobSummary {
    /// Applies the next record.
    pub fn apply(&mut self, record: &EventRecord) {
        self.records += 1;
        self.apply_to_parts(record);
        let before = self.last_at.replace(record.timestamp);
        if record.item_id.is_some() || record.agent_id.is_some() {
            if let Some(items) = self.items.as_mut().filter(|_| record.item_id.is_some()) {
                items.apply(record);
            }
            return;
        }
        match &record.event {
            Event::JobStarted(started) => {
                self.started_at = Some(record.timestamp);
                self.run_began = Some(record.timestamp);
                self.steps_total = steps_in_all(started);
                self.started = Some((**started).clone());
            }
            Event::JobResumed { .. } => self.resume(record, before),
            Event::JobPaused { reason, message } => {
                self.stop(record, JobOutcome::Paused { reason: *reason, message: message.clone() });
            }
            Event::JobCompleted { status, .. } => self.stop(record, JobOutcome::Completed(*status)),
            Event::JobFailed { step, failure } => {
                self.stop(
                    record,
                    JobOutcome::Failed { step: step.clone(), failure: failure.clone() },
                );
            }
            Event::StepStarted { step, name, .. } if is_top_level(step) => {
                self.start_step(step, name);
            }
            Event::StepCompleted(step) if is_top_level(&step.step) => {
                self.running = None;
                self.steps_done += 1;
                self.steps_failed += u32::from(step.status == StepStatus::Failed);
                self.steps_failed += std::mem::take(&mut self.failing_inside);
            }
            Event::StepCompleted(step)
                if step.status == StepStatus::Failed && is_work(&step.step) =>
            {
                self.failing_inside += 1;
            }
            Event::StepSkipped { step, .. } if is_top_level(step) => {
                self.running = None;
                self.steps_done += 1;
            }
            Event::WorktreeCreated { path, branch, .. } => {
                self.worktree = Some(path.clone());
                self.branch = Some(branch.clone());
            }
            Event::BudgetExceeded { scope, .. } => self.overspent = Some(*scope),
            Event::QuotaPaused(paused) => self.quota = Some((**paused).clone()),
            Event::QuotaResumed {} => self.quota = None,
            Event::WorktreeMerged { commit, .. } => self.merged = Some(commit.clone()),
            Event::WorktreeCleaned { .. } => self.worktree = None,
            Event::PhaseStarted { phase, .. } => self.start_phase(*phase),
            Event::PhaseCompleted { .. } => {
                self.phase = None;
                self.steps_failed += std::mem::take(&mut self.failing_inside);
            }
            Event::CheckoutChanged { changes } => self.add_checkout_changes(changes),
            Event::GuardedFilesChanged { files } => self.guarded.clone_from(files),
            Event::ItemsSelected { total, .. } => {
                self.items = Some(ItemSummary::new(*total, record.timestamp));
            }
            Event::CircuitOpen { .. } | Event::CircuitHalfOpen {} | Event::CircuitClosed {} => {
                if let Some(items) = &mut self.items {
                    items.apply(record);
                }
            }
            Event::ItemQueued {}
            | Event::AgentStarted { .. }
            | Event::AgentCompleted(_)
            | Event::AgentFailed(_)
            | Event::AgentRetrying { .. }
            | Event::ItemSkipped { .. }
            | Event::ItemDeadLettered { .. }
            | Event::ReplayStarted { .. }
            | Event::DlqItemRemoved { .. }
            | Event::StepStarted { .. }
            | Event::StepCompleted(_)
            | Event::StepFailed { .. }
            | Event::StepSkipped { .. }
            | Event::AgentUsage { .. }
            | crate::agent_news!()
            | Event::AgentReleased { .. }
            | Event::WorkSuspended(_)
            | Event::QuotaWarned { .. }
            | Event::ConcurrencyChanged { .. }
            | Event::WorktreePreserved { .. }
            | Event::MergeConflict { .. }
            | crate::resolution_news!()
            | Event::GitTampering { .. }
            | Event::CheckoutUpdateStarted(_)
            | Event::DlqItemUpdated { .. }
            | crate::approval_news!()
            | crate::effect_news!()
            | Event::WorkKept(_)
            | Event::JournalEndLost { .. }
            | Event::CheckpointCreated { .. } => {}
        }
    }

    /// Applies the start of a top-level step, or the restart of a suspended one.
    fn start_step(&mut self, step: &str, name: &str) {
        self.running = Some((step.to_owned(), name.to_owned()));
        if !self.suspended.is_at(step) {
            self.failing_inside = 0;
        }
    }

    /// Lets the parts that have a fold of their own take in a record.
    fn apply_to_parts(&mut self, record: &EventRecord) {
        self.costs.apply(record);
        self.warnings.apply(record);
        self.kept.apply(record);
        self.suspended.apply(record);
    }

    /// Begins another run of the job, with the settings that it was given.
    fn resume(&mut self, record: &EventRecord, before: Option<Timestamp>) {
        let Event::JobResumed { workflow, budget, options, into, .. } = &record.event else {
            return;
        };
        self.resumed += 1;
        if self.suspended.step.is_none() {
            self.failing_inside = 0;
        }
        self.end = None;
        self.overspent = None;
        // A run that died ended with the record before this one.
        self.earlier += between(self.run_began.replace(record.timestamp), before);
        if let Some(started) = &mut self.started {
            started.apply_options(*budget, options.as_deref());
            started.retarget(into.as_deref());
        }
        self.change_workflow(workflow.as_ref());
        self.release(record);
    }

    /// Adds changes of the user's checkout, and counts those for which there is no room.
    fn add_checkout_changes(&mut self, changes: &[CheckoutChange]) {
        let room = MOST_CHANGES.saturating_sub(self.checkout.len());
        self.checkout.extend(changes.iter().take(room).cloned());
        self.checkout_in_all = self.checkout_in_all.saturating_add(changes.len());
    }

    /// Applies a changed workflow.
    fn change_workflow(&mut self, changed: Option<&WorkflowChange>) {
        if let (Some(changed), Some(started)) = (changed, &mut self.started) {
            started.steps = changed.steps;
            started.setup_steps = changed.setup_steps;
            started.reduce_steps = changed.reduce_steps;
            self.steps_total = steps_in_all(started);
        }
    }

    /// Applies the start of a phase; the reduce phase may start more than once.
    fn start_phase(&mut self, phase: PhaseName) {
        if phase == PhaseName::Reduce {
            let done = (self.steps_done, self.steps_failed);
            let before = self.before_reduce.get_or_insert(done);
            (self.steps_done, self.steps_failed) = *before;
        }
        self.phase = Some(phase);
    }

    /// Returns how the job is; `held` says whether a process holds its lock.
    pub fn status(&self, held: bool) -> JobStatus {
        match &self.end {
            Some(JobOutcome::Completed(CompletedStatus::Completed)) => JobStatus::Completed,
            Some(JobOutcome::Completed(CompletedStatus::CompletedWithFailures)) => {
                JobStatus::CompletedWithFailures
            }
            // Whoever holds the lock is about to record that it took the job up.
            Some(JobOutcome::Failed { .. } | JobOutcome::Paused { .. }) | None if held => {
                JobStatus::Running
            }
            Some(JobOutcome::Failed { .. }) => JobStatus::Failed,
            Some(JobOutcome::Paused { reason: PauseReason::MergeOutstanding, .. }) => {
                JobStatus::MergeOutstanding
            }
            Some(JobOutcome::Paused { .. }) => JobStatus::Paused,
            None => JobStatus::Interrupted,
        }
    }

    /// Returns how long the job ran, pauses not counted; `now` counts if it is running.
    ///
    /// A run that died is counted up to its last record.
    pub fn duration(&self, held: bool, now: Timestamp) -> Duration {
        let until = if held && self.end.is_none() { Some(now) } else { self.last_at };
        self.earlier + between(self.run_began, until)
    }

    fn stop(&mut self, record: &EventRecord, end: JobOutcome) {
        self.earlier += between(self.run_began.take(), Some(record.timestamp));
        self.end = Some(end);
        self.release(record);
    }

    /// Removes the work in flight of the items.
    fn release(&mut self, record: &EventRecord) {
        if let Some(items) = &mut self.items {
            items.release(record.timestamp);
        }
    }
}

/// Returns how many top-level steps a job has.
fn steps_in_all(started: &JobStarted) -> u32 {
    match started.mode {
        JobMode::Sequential => started.steps.saturating_mul(started.rounds),
        JobMode::Mapreduce => started.setup_steps + started.reduce_steps,
    }
}

/// Returns the time between two moments; none if a clock was set back.
fn between(from: Option<Timestamp>, until: Option<Timestamp>) -> Duration {
    match (from, until) {
        (Some(from), Some(until)) => {
            Duration::try_from(until.duration_since(from)).unwrap_or_default()
        }
        (Some(_) | None, Some(_) | None) => Duration::ZERO,
    }
}

impl JobStatus {
    /// Returns whether `prodigy resume` takes the job up.
    pub fn is_resumable(self) -> bool {
        match self {
            Self::Paused | Self::Interrupted | Self::MergeOutstanding | Self::Failed => true,
            Self::Running | Self::Completed | Self::CompletedWithFailures => false,
        }
    }
}

impl fmt::Display for JobStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Interrupted => "interrupted",
            Self::MergeOutstanding => "not merged yet",
            Self::Completed => "completed",
            Self::CompletedWithFailures => "completed with failures",
            Self::Failed => "failed",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn golden() -> Vec<EventRecord> {
        include_str!("../../../../prodigy-engine/tests/golden/v1/every-event.jsonl")
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    fn now() -> Timestamp {
        "2026-08-24T10:16:00Z".parse().unwrap()
    }

    #[test]
    fn a_job_is_shown_as_far_as_it_got() {
        let mut summary = JobSummary::default();
        let mut seen = Vec::new();
        for record in golden() {
            summary.apply(&record);
            seen.push(format!(
                "{:<18} {:<23} {:<23} {}/{} {:?}",
                record.event.event_type(),
                summary.status(false).to_string(),
                summary.status(true).to_string(),
                summary.steps_done,
                summary.steps_total,
                summary.duration(false, now()),
            ));
        }
        insta::assert_snapshot!(seen.join("\n"), @"
        job_started        interrupted             running                 0/8 0ns
        worktree_created   interrupted             running                 0/8 5ms
        phase_started      interrupted             running                 0/8 6ms
        step_started       interrupted             running                 0/8 7ms
        step_completed     interrupted             running                 1/8 1.2s
        step_started       interrupted             running                 1/8 1.201s
        step_failed        interrupted             running                 1/8 2.5s
        job_paused         paused                  running                 1/8 3s
        job_resumed        interrupted             running                 1/8 3s
        step_started       interrupted             running                 1/8 3.001s
        step_completed     interrupted             running                 2/8 4s
        step_skipped       interrupted             running                 3/8 4.001s
        step_started       interrupted             running                 3/8 4.002s
        agent_usage        interrupted             running                 3/8 5s
        step_completed     interrupted             running                 4/8 5.001s
        checkpoint_created interrupted             running                 4/8 5.002s
        phase_completed    interrupted             running                 4/8 5.003s
        phase_started      interrupted             running                 4/8 5.004s
        merge_conflict     interrupted             running                 4/8 5.005s
        worktree_preserved interrupted             running                 4/8 5.006s
        job_failed         failed                  running                 4/8 5.007s
        job_resumed        interrupted             running                 4/8 5.007s
        worktree_merged    interrupted             running                 4/8 5.008s
        worktree_cleaned   interrupted             running                 4/8 5.009s
        git_tampering      interrupted             running                 4/8 5.0095s
        job_completed      completed with failures completed with failures 4/8 5.01s
        ");
    }

    #[test]
    fn the_time_of_a_running_job_goes_on_and_pauses_do_not_count() {
        let mut summary = JobSummary::default();
        for record in golden().iter().take(8) {
            summary.apply(record);
        }
        assert_eq!(summary.duration(true, now()), Duration::from_secs(3));
        summary.apply(&golden()[8]);
        assert_eq!(summary.duration(false, now()), Duration::from_secs(3));
        assert_eq!(summary.duration(true, now()), Duration::from_secs(3 + 56));
    }

    #[test]
    fn a_run_that_died_counts_up_to_its_last_record() {
        let mut summary = JobSummary::default();
        for (number, record) in golden().iter().take(9).enumerate() {
            // Without the pause, the first run ends with a failed step after 2.5 seconds.
            if number != 7 {
                summary.apply(record);
            }
        }
        assert_eq!(summary.duration(false, now()), Duration::from_millis(2500));
        assert_eq!(summary.duration(true, now()), Duration::from_millis(2500 + 56_000));
    }

    #[test]
    fn everything_worth_knowing_is_kept() {
        let mut summary = JobSummary::default();
        for record in golden() {
            summary.apply(&record);
        }
        summary.started = None;
        insta::assert_debug_snapshot!(summary, @r#"
        JobSummary {
            started: None,
            started_at: Some(
                2026-08-24T10:15:00Z,
            ),
            last_at: Some(
                2026-08-24T10:15:07.003Z,
            ),
            records: 26,
            steps_done: 4,
            steps_failed: 1,
            failing_inside: 0,
            steps_total: 8,
            running: None,
            phase: Some(
                Merge,
            ),
            items: None,
            resumed: 2,
            costs: CostSummary {
                cost_usd: 0.125,
                estimated_usd: 0.0,
                estimated: 0,
                tokens: TokenUsage {
                    input_tokens: 0,
                    output_tokens: 0,
                    cache_read_tokens: 0,
                    cache_write_tokens: 0,
                },
                told: 1,
                untold: 0,
                lost_usd: 0.125,
                items: {},
                step: PendingCost {
                    cost_usd: 0.0,
                    kept_usd: 0.0,
                    is_merging: false,
                },
                is_over: false,
            },
            warnings: AgentWarnings {
                in_all: 0,
                items: {},
                first: [],
            },
            kept: KeptSummary {
                entries: {},
            },
            checkout: [],
            checkout_in_all: 0,
            guarded: [],
            suspended: SuspendedSummary {
                items: {},
                step: None,
            },
            quota: None,
            overspent: None,
            branch: Some(
                "prodigy/workflow-20260824-101500-a1b2c3d4",
            ),
            worktree: None,
            merged: Some(
                "4444444444444444444444444444444444444444",
            ),
            end: Some(
                Completed(
                    CompletedWithFailures,
                ),
            ),
            before_reduce: None,
            earlier: 5.01s,
            run_began: None,
        }
        "#);
    }
}
