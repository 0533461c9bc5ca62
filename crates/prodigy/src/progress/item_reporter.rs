//! The messages about items, live and plain.

use std::{collections::HashMap, num::NonZeroU32};

use prodigy_core::{
    duration,
    event::{AgentFailed, Event, EventRecord, FailureDecision, PhaseName, StepCompleted},
    failure::Failure,
    ids::ItemId,
    job::{CostSummary, ItemSummary, Job},
    workflow::ErrorCollection,
};

use super::{
    constraint::RunConstraint,
    deferred_failures::DeferredFailures,
    line::{ADOPTED, LinePriority, LineSign, ProgressLine, format_millis, plural, tampering_line},
    totals::{item_count_parts, time_until},
};
use crate::render::{
    report::warnings,
    spend::{certainty, format_usd},
};

/// The most changes of git's settings, and the most warnings, that are told; the events tell all.
const MOST_TOLD: u32 = 10;

/// Follows the items of a job and finds words for what happens to them.
#[derive(Debug)]
pub(crate) struct ItemReporter {
    /// The items, while they are worked on.
    pub(crate) items: Option<ItemSummary>,
    costs: CostSummary,
    /// The total cost of the job, including earlier runs.
    cost_usd: f64,
    /// The state that slows or pauses it.
    pub(crate) hold: Option<RunConstraint>,
    /// The most attempts in flight, as the workflow or the command line says.
    usual: u32,
    /// True if the job's options set that number, and not this command.
    follows_job: bool,
    failures: DeferredFailures,
    /// Items whose commits are being merged: how their lines will end.
    merging: HashMap<ItemId, (LineSign, String)>,
    /// The step at which the last attempt failed.
    failed_at: Option<(ItemId, String)>,
    tampered: u32,
    warned: u32,
}

impl ItemReporter {
    /// Makes one that tells failures when it is asked to; `usual` is how many attempts may be
    /// under way.
    pub(crate) fn new(mode: ErrorCollection, usual: u32) -> Self {
        Self {
            items: None,
            costs: CostSummary::default(),
            cost_usd: 0.0,
            hold: None,
            usual,
            follows_job: false,
            failures: DeferredFailures { mode, held: Vec::new() },
            merging: HashMap::new(),
            failed_at: None,
            tampered: 0,
            warned: 0,
        }
    }

    /// Lets the options of a resumed job say how many attempts may be under way.
    #[must_use]
    pub(crate) fn follow_job(mut self, follows_job: bool) -> Self {
        self.follows_job = follows_job;
        self
    }

    /// Applies a record; returns the lines to show, or `None` if it is not about items.
    pub(crate) fn handle_record(
        &mut self,
        record: &EventRecord,
        job: &Job,
    ) -> Option<Vec<ProgressLine>> {
        self.costs.apply(record);
        self.cost_usd = job.cost_usd;
        let before = std::mem::replace(&mut self.hold, RunConstraint::from_job(job, self.usual));
        let mut lines = self.lines(record, job);
        if let Some(lines) = &mut lines
            && matches!(self.hold, Some(RunConstraint::Trying(_)))
            && before != self.hold
        {
            // Only an attempt of an item tries, and that is no event of its own.
            lines.push(important_line(LineSign::Dot, "trying with one agent".to_owned()));
        }
        lines
    }

    /// Returns what all of it has cost, if that is worth a word.
    pub(crate) fn cost(&self) -> Option<String> {
        if self.cost_usd > 0.0 {
            return Some(format!("{}{}", certainty(&self.costs), format_usd(self.cost_usd)));
        }
        self.costs.is_unknown().then(|| "cost unknown".to_owned())
    }

    fn lines(&mut self, record: &EventRecord, job: &Job) -> Option<Vec<ProgressLine>> {
        let is_about_items = record.item_id.is_some() || record.agent_id.is_some();
        if is_about_items {
            return Some(self.item_record_lines(record, job));
        }
        let at = record.timestamp;
        match &record.event {
            Event::ItemsSelected { total, .. } => {
                self.items = Some(ItemSummary::new(*total, at));
                Some(vec![important_line(LineSign::Dot, plural(*total, "item"))])
            }
            Event::JobResumed { .. } => {
                let most = job.started.as_ref().and_then(|started| started.options.max_parallel);
                let most = most.filter(|_| self.follows_job);
                self.usual = most.map_or(self.usual, NonZeroU32::get);
                let map = job.map.as_ref();
                let map = map.filter(|_| !job.phases_done.contains(&PhaseName::Map));
                self.items = map.map(|map| ItemSummary::resumed(map, at));
                None
            }
            Event::PhaseCompleted { phase: PhaseName::Map } => {
                let mut lines = self.failures.drain();
                lines.extend(self.items.take().map(|items| all_items_ended_line(&items, job)));
                Some(lines)
            }
            Event::CircuitOpen { failures, until } => {
                self.observe(record, job);
                let wait = duration::format(time_until(*until, at));
                let failed = match failures {
                    1 => "an attempt failed".to_owned(),
                    failures => format!("{failures} attempts in a row failed"),
                };
                let text = format!("circuit open: {failed}; the next may start in {wait}");
                Some(vec![important_line(LineSign::Cross, text)])
            }
            Event::CircuitHalfOpen {} => {
                self.observe(record, job);
                let text = "circuit half open: a few attempts are let through".to_owned();
                Some(vec![important_line(LineSign::Dot, text)])
            }
            Event::CircuitClosed {} => {
                self.observe(record, job);
                Some(vec![important_line(LineSign::Tick, "circuit closed".to_owned())])
            }
            Event::ConcurrencyChanged { max, reason } => {
                Some(vec![concurrency_line(*max, self.usual, reason)])
            }
            Event::JobPaused { .. } | Event::JobCompleted { .. } | Event::JobFailed { .. } => {
                self.items = None;
                Some(self.failures.drain())
            }
            Event::JobStarted(_)
            | Event::PhaseStarted { .. }
            | Event::PhaseCompleted { .. }
            | Event::ItemQueued {}
            | Event::AgentStarted { .. }
            | Event::AgentCompleted(_)
            | Event::AgentFailed(_)
            | Event::AgentRetrying { .. }
            | Event::ItemSkipped { .. }
            | Event::ItemDeadLettered { .. }
            | Event::StepStarted { .. }
            | Event::StepCompleted(_)
            | Event::StepFailed { .. }
            | Event::StepSkipped { .. }
            | Event::AgentUsage { .. }
            | prodigy_core::agent_news!()
            | Event::AgentReleased { .. }
            | Event::WorkSuspended(_)
            | Event::QuotaPaused(_)
            | Event::QuotaWarned { .. }
            | Event::QuotaResumed {}
            | Event::BudgetExceeded { .. }
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
            | prodigy_core::journal_news!() => None,
        }
    }

    /// Applies a record to the items.
    fn observe(&mut self, record: &EventRecord, job: &Job) {
        let Some(items) = &mut self.items else { return };
        items.apply(record);
        // The fold also knows what happened before this run.
        if let Some(map) = &job.map {
            items.counts = map.counts;
        }
    }

    fn item_record_lines(&mut self, record: &EventRecord, job: &Job) -> Vec<ProgressLine> {
        self.observe(record, job);
        let Some(item) = &record.item_id else { return Vec::new() };
        match &record.event {
            Event::AgentCompleted(done) => {
                let (sign, how) = match done.failed_steps() {
                    None => (LineSign::Tick, String::new()),
                    Some(how) => (LineSign::Tilde, format!(" ({how})")),
                };
                let text = format!("{item}{how}  {}", format_millis(done.duration_ms));
                if done.has_commits() {
                    let commits = plural(done.commits, "commit");
                    self.merging.insert(item.clone(), (sign, format!("{text} · {commits}")));
                    return Vec::new();
                }
                vec![ProgressLine { weight: LinePriority::Routine, sign, text }]
            }
            Event::WorktreeMerged { .. } => {
                let merged = self.merging.remove(item);
                let (sign, text) = merged.unwrap_or_else(|| (LineSign::Tick, item.to_string()));
                vec![ProgressLine { weight: LinePriority::Routine, sign, text }]
            }
            Event::AgentFailed(failed) => self.attempt_failed_lines(item, failed),
            Event::AgentRetrying { .. } => {
                self.merging.remove(item);
                Vec::new()
            }
            Event::ItemSkipped { failure, .. } => {
                let line = self.failure_lines(item, failure, "left out");
                self.failures.add(important_line(LineSign::Cross, line))
            }
            Event::ItemDeadLettered { attempts, failure } => {
                self.merging.remove(item);
                let after = plural(*attempts, "attempt");
                let line = self.failure_lines(item, failure, &format!("in the DLQ after {after}"));
                self.failures.add(important_line(LineSign::Cross, line))
            }
            Event::MergeConflict { paths, resolver: Some(resolver), .. } => {
                let files = plural(u32::try_from(paths.len()).unwrap_or(u32::MAX), "file");
                let text = format!("{item}: conflict in {files}; {resolver} is to resolve it");
                vec![important_line(LineSign::Tilde, text)]
            }
            Event::ResolutionCompleted { duration_ms, .. } => {
                let (sign, text) =
                    self.merging.remove(item).unwrap_or_else(|| (LineSign::Tick, item.to_string()));
                let text = format!("{text} · conflict resolved  {}", format_millis(*duration_ms));
                self.merging.insert(item.clone(), (sign, text));
                Vec::new()
            }
            Event::GitTampering { changes } => self.tampering_lines(item, changes),
            Event::AgentWarned { step, agent, message } => {
                self.warning_lines(item, step, agent, message)
            }
            Event::StepCompleted(step) if step.adopted => vec![adopted_line(item, step)],
            Event::JobStarted(_)
            | Event::JobResumed { .. }
            | Event::JobPaused { .. }
            | Event::JobCompleted { .. }
            | Event::JobFailed { .. }
            | Event::PhaseStarted { .. }
            | Event::PhaseCompleted { .. }
            | Event::ItemsSelected { .. }
            | Event::ItemQueued {}
            | Event::AgentStarted { .. }
            | prodigy_core::circuit_news!()
            | Event::StepStarted { .. }
            | Event::StepCompleted(_)
            | Event::StepFailed { .. }
            | Event::StepSkipped { .. }
            | Event::AgentUsage { .. }
            | Event::AgentSessionStarted { .. }
            | Event::AgentToolUsed { .. }
            | Event::AgentReleased { .. }
            | prodigy_core::spending_news!()
            | Event::WorktreeCreated { .. }
            | Event::WorktreePreserved { .. }
            | Event::WorktreeCleaned { .. }
            | Event::WorkKept(_)
            | Event::MergeConflict { .. }
            | Event::HandlerRestarted { .. }
            | Event::ResolutionStarted { .. }
            | Event::ResolutionFailed { .. }
            | Event::ReplayStarted { .. }
            | Event::DlqItemRemoved { .. }
            | Event::DlqItemUpdated { .. }
            | prodigy_core::approval_news!()
            | prodigy_core::effect_news!()
            | Event::CheckoutUpdateStarted(_)
            | prodigy_core::checkout_news!()
            | prodigy_core::journal_news!() => Vec::new(),
        }
    }

    /// Returns the lines for a failed attempt. An item that is not tried again has its line when
    /// its end is recorded.
    fn attempt_failed_lines(&mut self, item: &ItemId, failed: &AgentFailed) -> Vec<ProgressLine> {
        self.failed_at = failed.step.clone().map(|step| (item.clone(), step));
        match failed.then {
            FailureDecision::Retry => {
                let next = format!("attempt {} follows", failed.attempt + 1);
                let line = self.failure_lines(item, &failed.failure, &next);
                self.failures.retried(important_line(LineSign::Tilde, line))
            }
            FailureDecision::DeadLetter | FailureDecision::Skip | FailureDecision::Handler => {
                Vec::new()
            }
        }
    }

    /// Says why an item failed and what becomes of it.
    fn failure_lines(&self, item: &ItemId, failure: &Failure, then: &str) -> String {
        let at = self.failed_at.as_ref().filter(|(failed, _)| failed == item);
        let step = at.map(|(_, step)| format!(" at step {step}")).unwrap_or_default();
        format!("{item}{step}: {}; {then}", failure.message)
    }

    fn tampering_lines(&mut self, item: &ItemId, changes: &[String]) -> Vec<ProgressLine> {
        self.tampered += 1;
        let text = if self.tampered <= MOST_TOLD {
            format!("{item}: {}", tampering_line(changes))
        } else if self.tampered == MOST_TOLD + 1 {
            "more items changed git's settings; the events `git_tampering` tell which".to_owned()
        } else {
            return Vec::new();
        };
        vec![important_line(LineSign::Cross, text)]
    }

    fn warning_lines(
        &mut self,
        item: &ItemId,
        step: &str,
        agent: &str,
        message: &str,
    ) -> Vec<ProgressLine> {
        self.warned += 1;
        let text = if self.warned <= MOST_TOLD {
            warnings::line(&format!("{item} at step {step}"), agent, message)
        } else if self.warned == MOST_TOLD + 1 {
            "there are more warnings; the events `agent_warned` tell which".to_owned()
        } else {
            return Vec::new();
        };
        vec![important_line(LineSign::Tilde, text)]
    }
}

/// Returns the line about a step whose effect was made before.
fn adopted_line(item: &ItemId, step: &StepCompleted) -> ProgressLine {
    important_line(LineSign::Tilde, format!("{item}: step {}{ADOPTED}", step.step))
}

fn important_line(sign: LineSign, text: String) -> ProgressLine {
    ProgressLine { weight: LinePriority::Important, sign, text }
}

/// Says that fewer attempts may be under way, or all again.
fn concurrency_line(max: u32, usual: u32, reason: &str) -> ProgressLine {
    if max >= usual {
        return important_line(LineSign::Tick, format!("concurrency back to {usual}"));
    }
    let text = format!("throttled to {max} of {usual}: {reason}");
    ProgressLine { weight: LinePriority::Routine, sign: LineSign::Tilde, text }
}

/// Says that all items came to their end.
fn all_items_ended_line(items: &ItemSummary, job: &Job) -> ProgressLine {
    let time = job.map_began_at.zip(job.map_ended_at);
    let time =
        time.map(|(began, ended)| format!("  {}", duration::format(time_until(ended, began))));
    let sign = if items.counts.failed() == 0 { LineSign::Tick } else { LineSign::Tilde };
    let counts = item_count_parts(items).join(" · ");
    important_line(sign, format!("map: {counts}{}", time.unwrap_or_default()))
}
