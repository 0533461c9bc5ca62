//! One event as one line for people.

use std::{collections::HashMap, time::Duration};

use prodigy_core::{
    duration,
    event::{
        AfterFailure, CompletedStatus, Event, JobStarted, PauseReason, PhaseName, Record,
        StepCompleted, StepStatus,
    },
    failure::Failure,
};

use crate::report::count;

/// The longest a part of a line may be, in characters.
const LONGEST: usize = 100;

/// Writes events as lines, remembering what the steps under way are called.
#[derive(Default)]
pub(super) struct Lines {
    names: HashMap<String, String>,
    completed: (String, String),
}

impl Lines {
    /// Takes notice of a record, whether it is shown or not.
    pub(super) fn see(&mut self, record: &Record) {
        match &record.event {
            Event::StepStarted { step, name, .. } => {
                self.names.insert(step.clone(), name.clone());
            }
            Event::StepCompleted(step) => {
                // Only the name of the step that was just completed is still needed.
                let name = self.names.remove(&step.step).unwrap_or_default();
                self.completed = (step.step.clone(), name);
            }
            Event::JobStarted(_)
            | Event::JobResumed { .. }
            | Event::JobPaused { .. }
            | Event::JobCompleted { .. }
            | Event::JobFailed { .. }
            | Event::PhaseStarted { .. }
            | Event::PhaseCompleted { .. }
            | Event::StepFailed { .. }
            | Event::StepSkipped { .. }
            | Event::AgentUsage { .. }
            | Event::WorktreeCreated { .. }
            | Event::WorktreeMerged { .. }
            | Event::WorktreePreserved { .. }
            | Event::WorktreeCleaned { .. }
            | Event::MergeConflict { .. }
            | Event::GitTampering { .. }
            | Event::CheckpointCreated { .. } => {}
        }
    }

    /// Returns the day of a record, and the line for it.
    pub(super) fn show(&self, record: &Record) -> (String, String) {
        let day = record.timestamp.strftime("%Y-%m-%d UTC").to_string();
        let time = record.timestamp.strftime("%H:%M:%S%.3f");
        let kind = record.event.event_type();
        let line = format!("{time}  {kind:<18}  {}", self.details(&record.event));
        (day, line.trim_end().to_owned())
    }

    fn details(&self, event: &Event) -> String {
        match event {
            Event::JobStarted(started) => started_line(started),
            Event::JobResumed { version, workflow } => {
                let changed = if workflow.is_some() { "  with a changed workflow" } else { "" };
                format!("prodigy {version}{changed}")
            }
            Event::JobPaused { reason, message } => {
                format!("{}  {}", pause(*reason), brief(message))
            }
            Event::JobCompleted { status, duration_ms, commits } => {
                let failures = match status {
                    CompletedStatus::Completed => "",
                    CompletedStatus::CompletedWithFailures => "  with failures",
                };
                format!("{}  {}{failures}", count(*commits, "commit"), took(*duration_ms))
            }
            Event::JobFailed { step, failure } => format!("{step}  {}", failed(failure)),
            Event::PhaseStarted { phase } | Event::PhaseCompleted { phase } => {
                phase_name(*phase).to_owned()
            }
            Event::StepStarted { step, name, attempt } => {
                format!("{step}  {}{}", brief(name), again(*attempt))
            }
            Event::StepCompleted(step) => self.completed(step),
            Event::StepFailed { step, attempt, failure, then, duration_ms, .. } => {
                let then = match then {
                    AfterFailure::Retry => "  (is tried again)",
                    AfterFailure::GoOn => "  (the job goes on)",
                    AfterFailure::Stop => "",
                };
                let (name, again) = (self.name(step), again(*attempt));
                format!("{step}  {name}{again}  {}  {}{then}", failed(failure), took(*duration_ms))
            }
            Event::StepSkipped { step, name, when, .. } => {
                format!("{step}  {}  because `{}` is false", brief(name), brief(when))
            }
            Event::AgentUsage { step, agent, cost_usd } => {
                format!("{step}  {}  ${cost_usd:.2}", brief(agent))
            }
            Event::WorktreeCreated { path, branch, .. } => format!("{branch}  {path}"),
            Event::WorktreeMerged { source, target, commits, .. } => {
                format!("{source} into {target}  {commits} commits")
            }
            Event::WorktreePreserved { path, reason } => format!("{path}  {}", brief(reason)),
            Event::WorktreeCleaned { path } => path.clone(),
            Event::GitTampering { changes } => brief(&changes.join(", ")),
            Event::MergeConflict { target, paths } => {
                format!("with {target}  {}", brief(&paths.join(", ")))
            }
            Event::CheckpointCreated { covers } => format!("up to record {covers}"),
        }
    }

    fn completed(&self, step: &StepCompleted) -> String {
        let status = match step.status {
            StepStatus::Success => "",
            StepStatus::Recovered => "  recovered",
            StepStatus::Failed => "  failed, the job goes on",
            StepStatus::Skipped => "  skipped",
        };
        let name = self.name(&step.step);
        format!("{}  {name}  {}{status}", step.step, took(step.duration_ms))
    }

    fn name(&self, step: &str) -> String {
        let (completed, name) = &self.completed;
        let last = Some(name).filter(|_| completed == step);
        self.names.get(step).or(last).map(|name| brief(name)).unwrap_or_default()
    }
}

fn started_line(started: &JobStarted) -> String {
    let name = started.workflow_name.as_ref().unwrap_or(&started.workflow_file);
    let rounds = match started.rounds {
        0 | 1 => String::new(),
        rounds => format!(" in each of {rounds} rounds"),
    };
    format!("{}  {} steps{rounds}", brief(name), started.steps)
}

fn failed(failure: &Failure) -> String {
    format!("{}: {}", failure.kind, brief(&failure.message))
}

fn again(attempt: u32) -> String {
    if attempt > 1 { format!("  attempt {attempt}") } else { String::new() }
}

fn took(milliseconds: u64) -> String {
    duration::show(Duration::from_millis(milliseconds))
}

fn pause(reason: PauseReason) -> &'static str {
    match reason {
        PauseReason::Interrupted => "interrupted",
        PauseReason::Terminated => "terminated",
        PauseReason::MergeOutstanding => "merge outstanding",
        PauseReason::DiskFull => "disk full",
    }
}

fn phase_name(phase: PhaseName) -> &'static str {
    match phase {
        PhaseName::Steps => "steps",
        PhaseName::Merge => "merge",
    }
}

/// Returns a text on one line and not too long.
pub(in crate::commands) fn brief(text: &str) -> String {
    let mut words = String::new();
    for (number, word) in text.split_whitespace().enumerate() {
        if number > 0 {
            words.push(' ');
        }
        words.push_str(word);
    }
    if words.chars().count() <= LONGEST {
        return words;
    }
    words.chars().take(LONGEST - 1).chain(['…']).collect()
}
