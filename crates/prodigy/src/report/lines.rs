//! One line for each thing worth telling; the same words live and plain.

use std::{fmt::Display, time::Duration};

use jiff::tz::TimeZone;
use prodigy_core::{
    Timestamp, duration,
    event::{AfterFailure, Event, Mode, QuotaPaused, Record, StepStatus},
    job::{Job, Overspent},
};

use super::{checkout, guarded, hold, warnings};

/// So many of the settings that a step changed are named; the events name all.
const TAMPERING_SHOWN: usize = 3;

/// The remark on a step whose side effect was known to be made already.
pub(super) const ADOPTED: &str = " (made already, not run again)";

/// The importance of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weight {
    /// It may be left out when there are too many.
    Routine,
    /// It is always shown.
    Important,
}

/// A line about a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// The importance of the line.
    pub(super) weight: Weight,
    /// The sign in front: nothing is said by colour alone.
    pub(super) sign: Sign,
    /// The text.
    pub(super) text: String,
}

/// The sign in front of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    /// Something began or is noted.
    Dot,
    /// Something ended well.
    Tick,
    /// Something failed.
    Cross,
    /// Something failed and is mended, or was passed over.
    Tilde,
}

impl Sign {
    /// Returns the sign, coloured if asked.
    pub(super) fn show(self, color: bool) -> String {
        let (code, sign) = match self {
            Self::Dot => ("2", "·"),
            Self::Tick => ("32", "✓"),
            Self::Cross => ("31", "✗"),
            Self::Tilde => ("33", "~"),
        };
        if color { format!("\x1b[{code}m{sign}\x1b[0m") } else { sign.to_owned() }
    }
}

/// Returns the line for a record, if it is worth one.
pub(super) fn line(record: &Record, job: &Job, names: &StepNames) -> Option<Line> {
    let important = |sign, text: String| Some(Line { weight: Weight::Important, sign, text });
    match &record.event {
        Event::JobStarted(started) => {
            let name = started.workflow_name.as_deref().unwrap_or(&started.workflow_file);
            let size = match started.mode {
                Mode::Sequential => count(job.steps_in_all(), "step"),
                Mode::Mapreduce => "mapreduce".to_owned(),
            };
            important(Sign::Dot, format!("job {} · {name} · {size}", record.job_id))
        }
        Event::JobResumed { .. } => {
            important(Sign::Dot, format!("job {} resumed · {}", record.job_id, progress(job)))
        }
        Event::StepCompleted(step) => {
            let (sign, how) = match step.status {
                StepStatus::Success if step.adopted => (Sign::Tilde, ADOPTED),
                StepStatus::Success => (Sign::Tick, ""),
                StepStatus::Recovered => (Sign::Tilde, " (recovered)"),
                StepStatus::Failed => (Sign::Tilde, " (failed, going on)"),
                StepStatus::Skipped => (Sign::Tilde, " (skipped)"),
            };
            let text = format!("{}{how}  {}", names.of(&step.step), took(step.duration_ms));
            let weight = if sign == Sign::Tick { Weight::Routine } else { Weight::Important };
            Some(Line { weight, sign, text })
        }
        Event::StepFailed { step, failure, then, attempt, .. } => {
            let then = match then {
                AfterFailure::Retry => format!("; attempt {} follows", attempt + 1),
                AfterFailure::GoOn | AfterFailure::Stop => String::new(),
            };
            let step = names.of(step);
            important(Sign::Cross, format!("{step}: {}{then}", failure.message))
        }
        Event::StepSkipped { step, name, when, .. } => {
            important(Sign::Tilde, format!("{step} {name} (skipped: `{when}` is false)"))
        }
        Event::WorktreePreserved { path, reason, .. } => {
            important(Sign::Dot, format!("the worktree `{path}` is kept: {reason}"))
        }
        Event::MergeConflict { target, paths, .. } => {
            let files = count(u32::try_from(paths.len()).unwrap_or(u32::MAX), "file");
            important(Sign::Cross, format!("conflict with `{target}` in {files}"))
        }
        Event::QuotaPaused(paused) => important(Sign::Cross, limit(paused, record.timestamp)),
        Event::QuotaResumed {} => important(Sign::Tick, "agents are served again".to_owned()),
        Event::BudgetExceeded { scope, limit_usd, spent_usd } => {
            let (scope, limit_usd, spent_usd) = (*scope, *limit_usd, *spent_usd);
            let message = Overspent { scope, limit_usd, spent_usd }.message();
            important(Sign::Cross, format!("budget spent: {message}"))
        }
        Event::GitTampering { changes } => important(Sign::Cross, tampering(changes)),
        Event::CheckoutChanged { changes } => important(Sign::Cross, checkout::line(changes)),
        Event::GuardedFilesChanged { files } => important(Sign::Cross, guarded::line(files)),
        Event::AgentWarned { step, agent, message } => {
            important(Sign::Tilde, warnings::line(&names.of(step), agent, message))
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
pub(super) fn progress(job: &Job) -> String {
    let steps = format!("{} of {} done", job.done, count(job.steps_in_all(), "step"));
    match (job.mode(), &job.map) {
        (Mode::Sequential, _) => steps,
        (Mode::Mapreduce, Some(map)) => {
            format!("{} of {} done", map.counts.successful, count(map.total, "item"))
        }
        (Mode::Mapreduce, None) => "no items were chosen yet".to_owned(),
    }
}

/// Says which limit was reached, and when it is tried again.
fn limit(paused: &QuotaPaused, now: Timestamp) -> String {
    let QuotaPaused { limit, paused_until, waits, .. } = paused;
    hold::limited(&limit.message, *paused_until, *waits, now, &TimeZone::system())
}

/// Says which settings of git a step changed.
pub(super) fn tampering(changes: &[String]) -> String {
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
pub(super) struct StepNames {
    running: Vec<(String, String)>,
}

impl StepNames {
    /// Applies a record.
    pub(super) fn record(&mut self, record: &Record) {
        if let Event::StepStarted { step, name, .. } = &record.event {
            self.running.retain(|(path, _)| path != step);
            self.running.push((step.clone(), name.clone()));
        }
    }

    /// Forgets a step that has ended.
    pub(super) fn forget(&mut self, record: &Record) {
        if let Event::StepCompleted(step) = &record.event {
            self.running.retain(|(path, _)| *path != step.step);
        }
        if let Event::StepFailed { step, then: AfterFailure::Stop, .. } = &record.event {
            self.running.retain(|(path, _)| path != step);
        }
    }

    /// Returns a step's path and what it is called.
    fn of(&self, step: &str) -> String {
        let found = self.running.iter().find(|(path, _)| path == step);
        found.map_or_else(|| step.to_owned(), |(path, name)| format!("{path} {name}"))
    }

    /// Returns the step that began last.
    pub(super) fn newest(&self) -> Option<&(String, String)> {
        self.running.last()
    }
}

/// Returns a number of things in words.
pub(crate) fn count<N: Copy + Display + PartialEq + From<u8>>(number: N, thing: &str) -> String {
    if number == N::from(1) { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

/// Returns how long something took.
pub(super) fn took(millis: u64) -> String {
    duration::show(Duration::from_millis(millis))
}
