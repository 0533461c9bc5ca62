//! One event as one line for people.

pub(crate) mod quota;
pub(crate) mod replay;

use std::{collections::HashMap, time::Duration};

use prodigy_core::{
    duration,
    event::{
        CheckoutUpdate, CompletedStatus, Event, EventRecord, JobStarted, KeptWork, PauseReason,
        PhaseName, StepCompleted, StepFailureDecision, StepStatus,
    },
    failure::Failure,
    ids::ItemId,
};
use quota::format_quota_event;
use replay::format_replay_event;

use crate::{
    progress::plural,
    render::report::{checkout, guarded_files},
};

/// The longest a part of a line may be, in characters.
const LONGEST: usize = 100;

/// Writes events as lines, remembering what the steps under way are called.
#[derive(Default)]
pub(crate) struct EventFormatter {
    /// The names by path, of each item and of the job itself: the steps of items have the
    /// same paths.
    names: HashMap<Option<ItemId>, HashMap<String, String>>,
    /// The step that was completed last.
    completed: Option<(Option<ItemId>, String, String)>,
}

impl EventFormatter {
    /// Takes notice of a record, whether it is shown or not.
    pub(crate) fn observe(&mut self, record: &EventRecord) {
        match &record.event {
            Event::StepStarted { step, name, .. } => {
                let names = self.names.entry(record.item_id.clone()).or_default();
                names.insert(step.clone(), name.clone());
            }
            Event::StepCompleted(step) => {
                // Only the name of the step that was just completed is still needed.
                let names = self.names.get_mut(&record.item_id);
                let name = names.and_then(|names| names.remove(&step.step)).unwrap_or_default();
                self.completed = Some((record.item_id.clone(), step.step.clone(), name));
            }
            // No step of the item is under way: a journal of many items needs no more memory
            // than one of a few.
            Event::AgentStarted { .. }
            | Event::AgentCompleted(_)
            | Event::AgentFailed(_)
            | Event::ItemSkipped { .. }
            | Event::ItemDeadLettered { .. } => {
                self.names.remove(&record.item_id);
            }
            // What was under way begins anew.
            Event::JobResumed { .. } => self.names.clear(),
            Event::JobStarted(_)
            | Event::JobPaused { .. }
            | Event::JobCompleted { .. }
            | Event::JobFailed { .. }
            | Event::PhaseStarted { .. }
            | Event::PhaseCompleted { .. }
            | Event::ItemsSelected { .. }
            | Event::ItemQueued {}
            | Event::AgentRetrying { .. }
            | prodigy_core::circuit_news!()
            | Event::StepFailed { .. }
            | Event::StepSkipped { .. }
            | Event::AgentUsage { .. }
            | prodigy_core::agent_news!()
            | Event::AgentReleased { .. }
            | prodigy_core::spending_news!()
            | Event::WorktreeCreated { .. }
            | Event::WorktreeMerged { .. }
            | Event::WorktreePreserved { .. }
            | Event::WorktreeCleaned { .. }
            | Event::WorkKept(_)
            | Event::MergeConflict { .. }
            | prodigy_core::resolution_news!()
            | Event::GitTampering { .. }
            | Event::CheckoutUpdateStarted(_)
            | prodigy_core::checkout_news!()
            | Event::ReplayStarted { .. }
            | Event::DlqItemRemoved { .. }
            | Event::DlqItemUpdated { .. }
            | prodigy_core::approval_news!()
            | prodigy_core::effect_news!()
            | Event::JournalEndLost { .. }
            | Event::CheckpointCreated { .. } => {}
        }
    }

    /// Returns the day of a record, and the line for it.
    pub(crate) fn format(&self, record: &EventRecord) -> (String, String) {
        let day = record.timestamp.strftime("%Y-%m-%d UTC").to_string();
        let time = record.timestamp.strftime("%H:%M:%S%.3f");
        let kind = record.event.event_type();
        let item = record.item_id.as_ref().map(|item| format!("{item}  ")).unwrap_or_default();
        let agent = record.agent_id.map(|agent| format!("{agent}  ")).unwrap_or_default();
        let details = self.details(record);
        let line = format!("{time}  {kind:<18}  {item}{agent}{details}");
        (day, line.trim_end().to_owned())
    }

    fn details(&self, record: &EventRecord) -> String {
        match &record.event {
            Event::JobStarted(started) => started_line(started),
            Event::JobResumed { version, workflow, reopened, .. } => {
                let changed = if workflow.is_some() { "  with a changed workflow" } else { "" };
                let again = if reopened.is_some() { "  to replay dead letters" } else { "" };
                format!("prodigy {version}{changed}{again}")
            }
            Event::ReplayStarted { .. }
            | Event::DlqItemRemoved { .. }
            | Event::DlqItemUpdated { .. }
            | prodigy_core::approval_news!()
            | prodigy_core::effect_news!() => {
                format_replay_event(&record.event).unwrap_or_default()
            }
            Event::JobPaused { reason, message } => {
                format!("{}  {}", pause_reason_label(*reason), shorten_line(message))
            }
            Event::JobCompleted { status, duration_ms, commits } => {
                format_job_completed(*status, *duration_ms, *commits)
            }
            Event::JobFailed { step, failure } => format!("{step}  {}", format_failure(failure)),
            Event::PhaseStarted { phase, .. } | Event::PhaseCompleted { phase } => {
                phase_name(*phase).to_owned()
            }
            Event::ItemsSelected { total, .. } => plural(*total, "item"),
            Event::AgentStarted { attempt, .. } => attempt_suffix(*attempt).trim_start().to_owned(),
            Event::AgentCompleted(done) => {
                let failed = done.failed_steps().map(|how| format!("  {how}")).unwrap_or_default();
                format!(
                    "{}  {}{failed}",
                    plural(done.commits, "commit"),
                    format_millis(done.duration_ms)
                )
            }
            Event::AgentFailed(one) => {
                format!("{}  {}", format_failure(&one.failure), format_millis(one.duration_ms))
            }
            Event::AgentRetrying { attempt, delay_ms, reason, .. } => {
                format!(
                    "attempt {attempt} in {}  {}",
                    format_millis(*delay_ms),
                    shorten_line(reason)
                )
            }
            Event::ItemSkipped { reason, failure } => {
                format!("{}  {}", shorten_line(reason), format_failure(failure))
            }
            Event::ItemDeadLettered { attempts, failure } => {
                format!("{}  {}", plural(*attempts, "attempt"), format_failure(failure))
            }
            Event::CircuitOpen { failures, until } => {
                format!("{} in a row  until {until:.0}", plural(*failures, "failure"))
            }
            Event::ItemQueued {} | Event::CircuitHalfOpen {} | Event::CircuitClosed {} => {
                String::new()
            }
            Event::StepStarted { step, name, attempt, .. } => {
                format!("{step}  {}{}", shorten_line(name), attempt_suffix(*attempt))
            }
            Event::StepCompleted(step) => self.format_completed(record, step),
            Event::StepFailed { .. } => self.format_step_failed(record),
            Event::StepSkipped { step, name, when, .. } => {
                format!("{step}  {}  because `{}` is false", shorten_line(name), shorten_line(when))
            }
            prodigy_core::agent_news!()
            | Event::AgentUsage { .. }
            | Event::AgentReleased { .. }
            | prodigy_core::spending_news!() => {
                format_quota_event(&record.event).unwrap_or_default()
            }
            Event::WorktreeCreated { path, branch, .. } => format!("{branch}  {path}"),
            Event::WorktreeMerged { source, target, commits, .. } => {
                format!("{source} into {target}  {}", plural(*commits, "commit"))
            }
            Event::WorktreePreserved { path, reason, .. } if path.is_empty() => {
                shorten_line(reason)
            }
            Event::WorktreePreserved { path, reason, .. } => {
                format!("{path}  {}", shorten_line(reason))
            }
            Event::WorktreeCleaned { path } => path.clone(),
            Event::WorkKept(kept) => kept_references(kept),
            Event::GitTampering { changes } => shorten_line(&changes.join(", ")),
            Event::CheckoutUpdateStarted(update) => checkout_update(update),
            Event::CheckoutChanged { changes } => shorten_line(&checkout::changes(changes)),
            Event::GuardedFilesChanged { files } => shorten_line(&guarded_files::names(files)),
            Event::MergeConflict { target, paths, resolver } => {
                format_conflict(target, paths, resolver.as_deref())
            }
            Event::HandlerRestarted { handler, .. } => format!("`{handler}` was cut off before"),
            Event::ResolutionStarted { resolver, .. } => format!("by {resolver}"),
            Event::ResolutionCompleted { commits, duration_ms, .. } => {
                format!("{}  {}", plural(*commits, "commit"), format_millis(*duration_ms))
            }
            Event::ResolutionFailed { failure, duration_ms, .. } => {
                format!("{}  {}", format_failure(failure), format_millis(*duration_ms))
            }
            prodigy_core::journal_news!() => format_journal_event(&record.event),
        }
    }

    fn format_step_failed(&self, record: &EventRecord) -> String {
        let Event::StepFailed { step, attempt, failure, then, duration_ms, .. } = &record.event
        else {
            return String::new();
        };
        let then = match then {
            StepFailureDecision::Retry => "  (is tried again)",
            StepFailureDecision::GoOn => "  (the job goes on)",
            StepFailureDecision::Stop => "",
        };
        let (name, again) = (self.name(record, step), attempt_suffix(*attempt));
        let (failure, time) = (format_failure(failure), format_millis(*duration_ms));
        format!("{step}  {name}{again}  {failure}  {time}{then}")
    }

    fn format_completed(&self, record: &EventRecord, step: &StepCompleted) -> String {
        let status = match step.status {
            StepStatus::Success if step.adopted => "  made already, not run again",
            StepStatus::Success => "",
            StepStatus::Recovered => "  recovered",
            StepStatus::Failed => "  failed, the job goes on",
            StepStatus::Skipped => "  skipped",
        };
        let name = self.name(record, &step.step);
        format!("{}  {name}  {}{status}", step.step, format_millis(step.duration_ms))
    }

    fn name(&self, record: &EventRecord, step: &str) -> String {
        let item = &record.item_id;
        let last = self.completed.as_ref();
        let last = last.filter(|(of, path, _)| of == item && path == step).map(|(.., name)| name);
        let name = self.names.get(item).and_then(|names| names.get(step));
        name.or(last).map(|name| shorten_line(name)).unwrap_or_default()
    }
}

/// Returns the references that hold kept work.
fn kept_references(kept: &KeptWork) -> String {
    let names = kept.reference.iter().chain(&kept.stray_commits);
    names.map(String::as_str).collect::<Vec<_>>().join("  ")
}

/// Returns which branch goes to which commit, and in which checkout.
fn checkout_update(update: &CheckoutUpdate) -> String {
    let to: String = update.new.chars().take(12).collect();
    format!("{} to {to}  {}", update.target, update.worktree)
}

fn started_line(started: &JobStarted) -> String {
    let name = started.workflow_name.as_ref().unwrap_or(&started.workflow_file);
    let rounds = match started.rounds {
        0 | 1 => String::new(),
        rounds => format!(" in each of {rounds} rounds"),
    };
    format!("{}  {}{rounds}", shorten_line(name), plural(started.steps, "step"))
}

fn format_failure(failure: &Failure) -> String {
    format!("{}: {}", failure.kind, shorten_line(&failure.message))
}

fn attempt_suffix(attempt: u32) -> String {
    if attempt > 1 { format!("  attempt {attempt}") } else { String::new() }
}

fn format_millis(milliseconds: u64) -> String {
    duration::format(Duration::from_millis(milliseconds))
}

fn pause_reason_label(reason: PauseReason) -> &'static str {
    match reason {
        PauseReason::Interrupted => "interrupted",
        PauseReason::Terminated => "terminated",
        PauseReason::MergeOutstanding => "not merged yet",
        PauseReason::DiskFull => "disk full",
        PauseReason::Policy => "error policy",
        PauseReason::ItemsOutstanding => "items outstanding",
        PauseReason::UsageLimit => "usage limit",
        PauseReason::OutOfCredits => "out of credits",
        PauseReason::NoAccess => "no access",
        PauseReason::Budget => "budget",
    }
}

fn phase_name(phase: PhaseName) -> &'static str {
    match phase {
        PhaseName::Steps => "steps",
        PhaseName::Setup => "setup",
        PhaseName::Map => "map",
        PhaseName::Reduce => "reduce",
        PhaseName::Merge => "merge",
    }
}

/// Returns a text on one line and not too long.
pub(crate) fn shorten_line(text: &str) -> String {
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

/// Returns what the journal says about itself.
fn format_journal_event(event: &Event) -> String {
    if let Event::JournalEndLost { kept, known, by } = event {
        format!("records {} to {known}  accepted by {by}", kept + 1)
    } else if let Event::CheckpointCreated { covers } = event {
        format!("up to record {covers}")
    } else {
        String::new()
    }
}

fn format_conflict(target: &str, paths: &[String], resolver: Option<&str>) -> String {
    let then = resolver.map(|agent| format!("  {agent} is to resolve it")).unwrap_or_default();
    format!("with {target}  {}{then}", shorten_line(&paths.join(", ")))
}

fn format_job_completed(status: CompletedStatus, duration_ms: u64, commits: u64) -> String {
    let failures = match status {
        CompletedStatus::Completed => "",
        CompletedStatus::CompletedWithFailures => "  with failures",
    };
    format!("{}  {}{failures}", plural(commits, "commit"), format_millis(duration_ms))
}
