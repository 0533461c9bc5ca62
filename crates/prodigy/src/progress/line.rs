//! One line for each thing worth telling; the same words live and plain.

use std::{fmt::Display, time::Duration};

use jiff::tz::TimeZone;
use prodigy_core::{
    Timestamp, duration,
    event::{
        Event, EventRecord, JobMode, QuotaPaused, StepCompleted, StepFailureDecision, StepStatus,
    },
    job::{BudgetOverrun, Job},
};

use super::constraint;
use crate::render::report::{checkout, guarded_files, warnings};

/// So many of the settings that a step changed are named; the events name all.
const TAMPERING_SHOWN: usize = 3;

/// The remark on a step whose side effect was known to be made already.
pub(crate) const ADOPTED: &str = " (made already, not run again)";

/// The importance of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinePriority {
    /// It may be left out when there are too many.
    Routine,
    /// It is always shown.
    Important,
}

/// A line about a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProgressLine {
    /// The importance of the line.
    pub(crate) weight: LinePriority,
    /// The sign in front: nothing is said by colour alone.
    pub(crate) sign: LineSign,
    /// The text.
    pub(crate) text: String,
}

/// The sign in front of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineSign {
    /// Something began or is noted.
    Dot,
    /// Something ended well.
    Tick,
    /// Something failed.
    Cross,
    /// Something failed and is mended, or was passed over.
    Tilde,
}

impl LineSign {
    /// Returns the sign, coloured if asked.
    pub(crate) fn show(self, color: bool) -> String {
        let (code, sign) = match self {
            Self::Dot => ("2", "·"),
            Self::Tick => ("32", "✓"),
            Self::Cross => ("31", "✗"),
            Self::Tilde => ("33", "~"),
        };
        if color { format!("\x1b[{code}m{sign}\x1b[0m") } else { sign.to_owned() }
    }
}

/// Returns the line for a finished step.
fn step_completed_line(step: &StepCompleted, names: &ActiveSteps) -> ProgressLine {
    let (sign, how) = match step.status {
        StepStatus::Success if step.adopted => (LineSign::Tilde, ADOPTED),
        StepStatus::Success => (LineSign::Tick, ""),
        StepStatus::Recovered => (LineSign::Tilde, " (recovered)"),
        StepStatus::Failed => (LineSign::Tilde, " (failed, going on)"),
        StepStatus::Skipped => (LineSign::Tilde, " (skipped)"),
    };
    let is_routine = sign == LineSign::Tick;
    let weight = if is_routine { LinePriority::Routine } else { LinePriority::Important };
    let text = format!("{}{how}  {}", names.of(&step.step), format_millis(step.duration_ms));
    ProgressLine { weight, sign, text }
}

/// Returns the line for a record, if it is worth one.
pub(crate) fn format_record(
    record: &EventRecord,
    job: &Job,
    names: &ActiveSteps,
) -> Option<ProgressLine> {
    let important =
        |sign, text: String| Some(ProgressLine { weight: LinePriority::Important, sign, text });
    match &record.event {
        Event::JobStarted(started) => {
            let name = started.workflow_name.as_deref().unwrap_or(&started.workflow_file);
            let size = match started.mode {
                JobMode::Sequential => plural(job.total_steps(), "step"),
                JobMode::Mapreduce => "mapreduce".to_owned(),
            };
            important(LineSign::Dot, format!("job {} · {name} · {size}", record.job_id))
        }
        Event::JobResumed { .. } => important(
            LineSign::Dot,
            format!("job {} resumed · {}", record.job_id, format_progress(job)),
        ),
        Event::StepCompleted(step) => Some(step_completed_line(step, names)),
        Event::StepFailed { step, failure, then, attempt, .. } => {
            let then = match then {
                StepFailureDecision::Retry => format!("; attempt {} follows", attempt + 1),
                StepFailureDecision::GoOn | StepFailureDecision::Stop => String::new(),
            };
            let step = names.of(step);
            important(LineSign::Cross, format!("{step}: {}{then}", failure.message))
        }
        Event::StepSkipped { step, name, when, .. } => {
            important(LineSign::Tilde, format!("{step} {name} (skipped: `{when}` is false)"))
        }
        Event::WorktreePreserved { path, reason, .. } => {
            important(LineSign::Dot, format!("the worktree `{path}` is kept: {reason}"))
        }
        Event::MergeConflict { target, paths, .. } => {
            let files = plural(u32::try_from(paths.len()).unwrap_or(u32::MAX), "file");
            important(LineSign::Cross, format!("conflict with `{target}` in {files}"))
        }
        Event::QuotaPaused(paused) => {
            important(LineSign::Cross, limit_line(paused, record.timestamp))
        }
        Event::QuotaResumed {} => important(LineSign::Tick, "agents are served again".to_owned()),
        Event::BudgetExceeded { scope, limit_usd, spent_usd } => {
            let (scope, limit_usd, spent_usd) = (*scope, *limit_usd, *spent_usd);
            let message = BudgetOverrun { scope, limit_usd, spent_usd }.message();
            important(LineSign::Cross, format!("budget spent: {message}"))
        }
        Event::GitTampering { changes } => important(LineSign::Cross, tampering_line(changes)),
        Event::CheckoutChanged { changes } => important(LineSign::Cross, checkout::line(changes)),
        Event::GuardedFilesChanged { files } => {
            important(LineSign::Cross, guarded_files::line(files))
        }
        Event::AgentWarned { step, agent, message } => {
            important(LineSign::Tilde, warnings::line(&names.of(step), agent, message))
        }
        Event::JobPaused { .. }
        | Event::JobCompleted { .. }
        | Event::JobFailed { .. }
        | Event::PhaseStarted { .. }
        | Event::PhaseCompleted { .. }
        | Event::ItemsSelected { .. }
        | Event::ItemQueued {}
        | Event::AgentStarted { .. }
        | Event::AgentCompleted(_)
        | Event::AgentFailed(_)
        | Event::AgentRetrying { .. }
        | Event::ItemSkipped { .. }
        | Event::ItemDeadLettered { .. }
        | prodigy_core::circuit_news!()
        | Event::StepStarted { .. }
        | Event::AgentUsage { .. }
        | Event::AgentSessionStarted { .. }
        | Event::AgentToolUsed { .. }
        | Event::AgentReleased { .. }
        | Event::WorkSuspended(_)
        | Event::QuotaWarned { .. }
        | Event::ConcurrencyChanged { .. }
        | Event::WorktreeCreated { .. }
        | Event::WorktreeMerged { .. }
        | Event::CheckoutUpdateStarted(_)
        | Event::WorktreeCleaned { .. }
        | Event::WorkKept(_)
        | prodigy_core::resolution_news!()
        | Event::ReplayStarted { .. }
        | Event::DlqItemRemoved { .. }
        | Event::DlqItemUpdated { .. }
        | prodigy_core::approval_news!()
        | prodigy_core::effect_news!()
        | Event::JournalEndLost { .. }
        | Event::CheckpointCreated { .. } => None,
    }
}

/// Says how far a job is.
pub(crate) fn format_progress(job: &Job) -> String {
    let steps = format!("{} of {} done", job.done, plural(job.total_steps(), "step"));
    match (job.mode(), &job.map) {
        (JobMode::Sequential, _) => steps,
        (JobMode::Mapreduce, Some(map)) => {
            format!("{} of {} done", map.counts.successful, plural(map.total, "item"))
        }
        (JobMode::Mapreduce, None) => "items not loaded yet".to_owned(),
    }
}

/// Says which limit was reached, and when it is tried again.
fn limit_line(paused: &QuotaPaused, now: Timestamp) -> String {
    let QuotaPaused { limit, paused_until, waits, .. } = paused;
    constraint::quota_message(&limit.message, *paused_until, *waits, now, &TimeZone::system())
}

/// Says which settings of git a step changed.
pub(crate) fn tampering_line(changes: &[String]) -> String {
    let shown: Vec<_> = changes.iter().take(TAMPERING_SHOWN).cloned().collect();
    let more = match changes.len().saturating_sub(TAMPERING_SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let changes = shown.join(", ");
    format!("a step changed git's settings; they were put back: {changes}{more}")
}

/// The names of the running steps.
#[derive(Debug, Default)]
pub(crate) struct ActiveSteps {
    running: Vec<(String, String)>,
}

impl ActiveSteps {
    /// Applies a record.
    pub(crate) fn record(&mut self, record: &EventRecord) {
        if let Event::StepStarted { step, name, .. } = &record.event {
            self.running.retain(|(path, _)| path != step);
            self.running.push((step.clone(), name.clone()));
        }
    }

    /// Forgets a step that has ended.
    pub(crate) fn forget(&mut self, record: &EventRecord) {
        if let Event::StepCompleted(step) = &record.event {
            self.running.retain(|(path, _)| *path != step.step);
        }
        if let Event::StepFailed { step, then: StepFailureDecision::Stop, .. } = &record.event {
            self.running.retain(|(path, _)| path != step);
        }
    }

    /// Returns a step's path and what it is called.
    fn of(&self, step: &str) -> String {
        let found = self.running.iter().find(|(path, _)| path == step);
        found.map_or_else(|| step.to_owned(), |(path, name)| format!("{path} {name}"))
    }

    /// Returns the step that began last.
    pub(crate) fn newest(&self) -> Option<&(String, String)> {
        self.running.last()
    }
}

/// Returns a number of things in words.
pub(crate) fn plural<N: Copy + Display + PartialEq + From<u8>>(number: N, thing: &str) -> String {
    if number == N::from(1) { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

/// Returns how long something took.
pub(crate) fn format_millis(millis: u64) -> String {
    duration::format(Duration::from_millis(millis))
}
