//! The summary of a rehearsal: the effects of a workflow's policies.

use std::{collections::BTreeMap, path::Path, time::Duration};

use prodigy_core::{
    Timestamp,
    agent::TokenUsage,
    agent_news, approval_news, duration,
    event::{Event, EventRecord, FailureDecision, StepFailureDecision},
    failure::{Failure, ReasonCode},
    ids::{ItemId, JobId},
    workflow::WOULD_RUN,
};
use prodigy_engine::store::{JournalReader, Layout};
use serde_json::{Value, json};

use crate::{
    commands::lookup::job_error,
    error::CliError,
    exit::Exit,
    progress::line::plural,
    render::console::{Console, one_line},
};

/// The version of the account as JSON.
const VERSION: u32 = 1;
/// The most dead letters that are shown one by one.
const MOST_SHOWN: usize = 20;

/// The events of a rehearsal that concern policies.
#[derive(Debug, Default)]
pub(crate) struct RehearsalSummary {
    status: Option<&'static str>,
    /// Attempts and steps that were made again, by the reason.
    retries: BTreeMap<ReasonCode, u32>,
    /// The number of times the circuit breaker opened; `is_open` is its state at the end.
    opened: u32,
    is_open: bool,
    /// The pauses at limits of accounts.
    pauses: Vec<PauseInterval>,
    /// Attempts that were given up by no fault of their item.
    released: u32,
    /// The number of changes of the concurrency.
    throttled: u32,
    /// The reason the job was stopped, if a policy or a budget stopped it.
    stopped: Option<String>,
    dead: Vec<RehearsalFailure>,
    skipped: u32,
    conflicts: u32,
    /// The steps with side effects that would have run, with their number.
    would_run: BTreeMap<String, u32>,
    prepared: BTreeMap<String, String>,
    cost_usd: f64,
    tokens: TokenUsage,
}

#[derive(Debug)]
struct PauseInterval {
    message: String,
    at: Timestamp,
    until: Option<Timestamp>,
    lifted: Option<Timestamp>,
}

#[derive(Debug)]
struct RehearsalFailure {
    item: ItemId,
    attempts: u32,
    failure: Failure,
}

impl RehearsalSummary {
    /// Reads what happened from the journal.
    pub(crate) fn from_journal(layout: &Layout, job: &JobId) -> Result<Self, CliError> {
        let mut account = Self::default();
        let records = JournalReader::open(layout, job).map_err(|error| job_error(job, error))?;
        for record in records {
            account.apply(&record.map_err(|error| job_error(job, error))?);
        }
        // Which of them died first is a matter of chance.
        account.dead.sort_by(|one, other| one.item.cmp(&other.item));
        Ok(account)
    }

    fn apply(&mut self, record: &EventRecord) {
        match &record.event {
            Event::AgentFailed(failed) if failed.then == FailureDecision::Retry => {
                *self.retries.entry(failed.failure.kind).or_default() += 1;
            }
            Event::StepFailed { failure, then: StepFailureDecision::Retry, .. } => {
                *self.retries.entry(failure.kind).or_default() += 1;
            }
            Event::CircuitOpen { .. } => (self.opened, self.is_open) = (self.opened + 1, true),
            Event::CircuitClosed {} => self.is_open = false,
            Event::QuotaPaused(paused) => self.pauses.push(PauseInterval {
                message: paused.limit.message.clone(),
                at: record.timestamp,
                until: paused.paused_until,
                lifted: None,
            }),
            Event::QuotaResumed {} => {
                if let Some(pause) = self.pauses.last_mut() {
                    pause.lifted = Some(record.timestamp);
                }
            }
            Event::AgentReleased { .. } => self.released += 1,
            Event::ConcurrencyChanged { .. } => self.throttled += 1,
            Event::BudgetExceeded { limit_usd, spent_usd, .. } => {
                self.stopped =
                    Some(format!("${spent_usd:.2} were spent, and ${limit_usd:.2} set aside"));
            }
            Event::JobPaused { message, .. } => {
                self.status = Some("paused");
                self.stopped = Some(message.clone());
            }
            Event::JobFailed { .. } => self.status = Some("failed"),
            Event::JobCompleted { status, .. } => {
                self.status = Some(match status {
                    prodigy_core::event::CompletedStatus::Completed => "completed",
                    prodigy_core::event::CompletedStatus::CompletedWithFailures => {
                        "completed_with_failures"
                    }
                });
            }
            Event::ItemDeadLettered { attempts, failure } => {
                if let Some(item) = record.item_id.clone() {
                    let failure = failure.clone();
                    self.dead.push(RehearsalFailure { item, attempts: *attempts, failure });
                }
            }
            Event::ItemSkipped { .. } => self.skipped += 1,
            Event::MergeConflict { .. } => self.conflicts += 1,
            Event::EffectPrepared(effect) => {
                self.prepared.insert(effect.key.clone(), effect.name.clone());
            }
            Event::EffectCommitted { key, .. } => {
                if let Some(name) = self.prepared.get(key) {
                    let name = name.strip_prefix(WOULD_RUN).unwrap_or(name).to_owned();
                    *self.would_run.entry(name).or_default() += 1;
                }
            }
            Event::AgentUsage { cost_usd, tokens, .. } => {
                self.cost_usd += cost_usd.unwrap_or_default();
                self.tokens += *tokens;
            }
            agent_news!()
            | approval_news!()
            | prodigy_core::resolution_news!()
            | Event::JobStarted(_)
            | Event::JobResumed { .. }
            | Event::PhaseStarted { .. }
            | Event::PhaseCompleted { .. }
            | Event::ItemsSelected { .. }
            | Event::ItemQueued {}
            | Event::AgentStarted { .. }
            | Event::AgentCompleted(_)
            | Event::AgentFailed(_)
            | Event::AgentRetrying { .. }
            | Event::WorkSuspended(_)
            | Event::ReplayStarted { .. }
            | Event::DlqItemRemoved { .. }
            | Event::DlqItemUpdated { .. }
            | Event::EffectReconciled { .. }
            | Event::EffectCompensated { .. }
            | Event::CircuitHalfOpen {}
            | Event::StepStarted { .. }
            | Event::StepCompleted(_)
            | Event::StepFailed { .. }
            | Event::StepSkipped { .. }
            | Event::QuotaWarned { .. }
            | Event::WorktreeCreated { .. }
            | Event::WorktreeMerged { .. }
            | Event::WorktreePreserved { .. }
            | Event::WorktreeCleaned { .. }
            | Event::WorkKept(_)
            | prodigy_core::resolution_news!()
            | Event::GitTampering { .. }
            | Event::CheckoutUpdateStarted(_)
            | prodigy_core::checkout_news!()
            | Event::JournalEndLost { .. }
            | Event::CheckpointCreated { .. } => {}
        }
    }

    /// Says what the policies did.
    pub(crate) fn show(&self, out: &mut Console) {
        let lines = self.lines();
        if lines.is_empty() {
            out.note("policies: none had to act");
        } else {
            out.note("policies:");
        }
        for line in lines {
            out.note(format_args!("  {line}"));
        }
        if !self.would_run.is_empty() {
            out.note("would run, and did not:");
        }
        for (name, times) in &self.would_run {
            out.note(format_args!("  {times} × {}", one_line(name)));
        }
        let tokens = match self.tokens.total() {
            0 => String::new(),
            tokens => format!(", {tokens} tokens"),
        };
        out.note(format_args!("simulated cost: ${:.2}{tokens}", self.cost_usd));
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let retries: u32 = self.retries.values().sum();
        if retries > 0 {
            let by_code = self.retries.iter().map(|(kind, times)| format!("{times} × {kind}"));
            let by_code = by_code.collect::<Vec<_>>().join(", ");
            lines.push(format!("tried again: {by_code}"));
        }
        if self.opened > 0 {
            let end = if self.is_open { ", open at the end" } else { ", closed again" };
            lines.push(format!("circuit breaker: opened {}{end}", plural(self.opened, "time")));
        }
        for pause in &self.pauses {
            let how = pause.duration().map_or_else(
                || ", and did not go on".to_owned(),
                |waited| format!(" for {}", duration::format(waited)),
            );
            lines.push(format!("paused{how}: {}", one_line(&pause.message)));
        }
        if self.released > 0 {
            let attempts = plural(self.released, "attempt");
            lines.push(format!("not counted: {attempts} that ran into a limit"));
        }
        if self.throttled > 0 {
            lines.push(format!("pace: changed {}", plural(self.throttled, "time")));
        }
        if self.conflicts > 0 {
            lines.push(format!("merges: {}", plural(self.conflicts, "conflict")));
        }
        if self.skipped > 0 {
            lines.push(format!("left out: {}", plural(self.skipped, "item")));
        }
        for dead in self.dead.iter().take(MOST_SHOWN) {
            let RehearsalFailure { item, attempts, failure } = dead;
            let attempts = plural(*attempts, "attempt");
            lines.push(format!("dead letter: {item} after {attempts}: {}", failure.kind));
        }
        let more = self.dead.len().saturating_sub(MOST_SHOWN);
        if more > 0 {
            lines.push(format!("dead letters: {more} more"));
        }
        lines.extend(self.stopped.as_ref().map(|why| format!("stopped: {}", one_line(why))));
        lines
    }

    /// Returns the account as a document.
    pub(crate) fn document(&self, exit: Exit, kept: Option<&Path>) -> Value {
        let retries: serde_json::Map<String, Value> = self
            .retries
            .iter()
            .map(|(kind, times)| (kind.code().to_owned(), json!(times)))
            .collect();
        let pauses: Vec<Value> = self
            .pauses
            .iter()
            .map(|pause| {
                let waited = pause.duration().map(|waited| waited.as_millis());
                json!({ "message": pause.message, "until": pause.until, "waited_ms": waited })
            })
            .collect();
        let dead: Vec<Value> = self
            .dead
            .iter()
            .map(|dead| {
                json!({
                    "item_id": dead.item,
                    "attempts": dead.attempts,
                    "reason_code": dead.failure.kind,
                    "message": dead.failure.message,
                })
            })
            .collect();
        let would_run = self.would_run.iter();
        let would_run: Vec<Value> =
            would_run.map(|(name, times)| json!({ "step": name, "times": times })).collect();
        json!({
            "schema_version": VERSION,
            "status": self.status,
            "exit_code": exit.code(),
            "retries": retries,
            "circuit_breaker": { "opened": self.opened, "open": self.is_open },
            "pauses": pauses,
            "released": self.released,
            "pace_changes": self.throttled,
            "merge_conflicts": self.conflicts,
            "skipped": self.skipped,
            "dead_letters": dead,
            "stopped": self.stopped,
            "would_run": would_run,
            "cost_usd": self.cost_usd,
            "tokens": self.tokens,
            "kept": kept,
        })
    }
}

impl PauseInterval {
    /// Returns how long it lasted; nothing if it did not end.
    fn duration(&self) -> Option<Duration> {
        Duration::try_from(self.lifted?.duration_since(self.at)).ok()
    }
}
