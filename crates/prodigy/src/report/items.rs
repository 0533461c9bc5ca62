//! What is said of items, live and plain.

use std::{collections::HashMap, time::Duration};

use prodigy_core::{
    Timestamp, duration,
    event::{AfterAttempt, Event, PhaseName, Record},
    failure::Failure,
    ids::ItemId,
    job::{Circuit, ItemSummary, Job},
    workflow::ErrorCollection,
};

use super::lines::{ADOPTED, Line, Sign, Weight, count, tampering, took};

/// So many changes of git's settings are told at once; the events tell all.
const TAMPERING_TOLD: u32 = 10;

/// Follows the items of a job and finds words for what happens to them.
#[derive(Debug)]
pub(super) struct Teller {
    /// The items, while they are worked on.
    pub(super) items: Option<ItemSummary>,
    failures: Failures,
    /// Items whose commits are being merged: how their lines will end.
    merging: HashMap<ItemId, (Sign, String)>,
    /// The step at which the last attempt failed.
    failed_at: Option<(ItemId, String)>,
    tampered: u32,
}

impl Teller {
    /// Makes one that tells failures when it is asked to.
    pub(super) fn new(mode: ErrorCollection) -> Self {
        Self {
            items: None,
            failures: Failures { mode, held: Vec::new() },
            merging: HashMap::new(),
            failed_at: None,
            tampered: 0,
        }
    }

    /// Takes in a record; returns what to say, or nothing if it is not about items.
    pub(super) fn record(&mut self, record: &Record, job: &Job) -> Option<Vec<Line>> {
        let is_about_items = record.item_id.is_some() || record.agent_id.is_some();
        if is_about_items {
            return Some(self.about_item(record, job));
        }
        let at = record.timestamp;
        match &record.event {
            Event::ItemsSelected { total, .. } => {
                self.items = Some(ItemSummary::new(*total, at));
                Some(vec![important(Sign::Dot, count(*total, "item"))])
            }
            Event::JobResumed { .. } => {
                let map = job.map.as_ref();
                let map = map.filter(|_| !job.phases_done.contains(&PhaseName::Map));
                self.items = map.map(|map| ItemSummary::resumed(map, at));
                None
            }
            Event::PhaseCompleted { phase: PhaseName::Map } => {
                let mut lines = self.failures.rest();
                lines.extend(self.items.take().map(|items| ended(&items, job)));
                Some(lines)
            }
            Event::CircuitOpen { failures, until } => {
                self.follow(record, job);
                let wait = duration::show(until_from(*until, at));
                let failed = match failures {
                    1 => "an attempt failed".to_owned(),
                    failures => format!("{failures} attempts in a row failed"),
                };
                let text = format!("circuit open: {failed}; the next may start in {wait}");
                Some(vec![important(Sign::Cross, text)])
            }
            Event::CircuitHalfOpen {} => {
                self.follow(record, job);
                let text = "circuit half open: a few attempts are let through".to_owned();
                Some(vec![important(Sign::Dot, text)])
            }
            Event::CircuitClosed {} => {
                self.follow(record, job);
                Some(vec![important(Sign::Tick, "circuit closed".to_owned())])
            }
            Event::JobPaused { .. } | Event::JobCompleted { .. } | Event::JobFailed { .. } => {
                self.items = None;
                Some(self.failures.rest())
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
            | prodigy_core::spending_news!()
            | Event::WorktreeCreated { .. }
            | Event::WorktreeMerged { .. }
            | Event::WorktreePreserved { .. }
            | Event::WorktreeCleaned { .. }
            | Event::MergeConflict { .. }
            | prodigy_core::resolution_news!()
            | Event::GitTampering { .. }
            | Event::CheckoutChanged { .. }
            | Event::ReplayStarted { .. }
            | Event::DlqItemRemoved { .. }
            | Event::DlqItemUpdated { .. }
            | prodigy_core::approval_news!()
            | prodigy_core::effect_news!()
            | Event::CheckpointCreated { .. } => None,
        }
    }

    /// Takes in what happened to the items.
    fn follow(&mut self, record: &Record, job: &Job) {
        let Some(items) = &mut self.items else { return };
        items.apply(record);
        // The fold also knows what happened before this run.
        if let Some(map) = &job.map {
            items.counts = map.counts;
        }
    }

    fn about_item(&mut self, record: &Record, job: &Job) -> Vec<Line> {
        self.follow(record, job);
        let Some(item) = &record.item_id else { return Vec::new() };
        match &record.event {
            Event::AgentCompleted(done) => {
                let (sign, how) = match done.recovered {
                    0 => (Sign::Tick, ""),
                    _ => (Sign::Tilde, " (recovered)"),
                };
                let text = format!("{item}{how}  {}", took(done.duration_ms));
                if done.has_commits() {
                    let commits = count(done.commits, "commit");
                    self.merging.insert(item.clone(), (sign, format!("{text} · {commits}")));
                    return Vec::new();
                }
                vec![Line { weight: Weight::Routine, sign, text }]
            }
            Event::WorktreeMerged { .. } => {
                let merged = self.merging.remove(item);
                let (sign, text) = merged.unwrap_or_else(|| (Sign::Tick, item.to_string()));
                vec![Line { weight: Weight::Routine, sign, text }]
            }
            Event::AgentFailed(failed) => {
                self.failed_at = failed.step.clone().map(|step| (item.clone(), step));
                match failed.then {
                    AfterAttempt::Retry => {
                        let next = format!("attempt {} follows", failed.attempt + 1);
                        let line = self.failure(item, &failed.failure, &next);
                        self.failures.passing(important(Sign::Tilde, line))
                    }
                    // What becomes of the item is told when it is known.
                    AfterAttempt::DeadLetter | AfterAttempt::Skip | AfterAttempt::Handler => {
                        Vec::new()
                    }
                }
            }
            Event::AgentRetrying { .. } => {
                self.merging.remove(item);
                Vec::new()
            }
            Event::ItemSkipped { failure, .. } => {
                let line = self.failure(item, failure, "left out");
                self.failures.add(important(Sign::Cross, line))
            }
            Event::ItemDeadLettered { attempts, failure } => {
                self.merging.remove(item);
                let after = count(*attempts, "attempt");
                let line = self.failure(item, failure, &format!("in the DLQ after {after}"));
                self.failures.add(important(Sign::Cross, line))
            }
            Event::MergeConflict { paths, resolver: Some(resolver), .. } => {
                let files = count(u32::try_from(paths.len()).unwrap_or(u32::MAX), "file");
                let text = format!("{item}: conflict in {files}; {resolver} is to resolve it");
                vec![important(Sign::Tilde, text)]
            }
            Event::ResolutionCompleted { duration_ms, .. } => {
                let (sign, text) =
                    self.merging.remove(item).unwrap_or_else(|| (Sign::Tick, item.to_string()));
                let text = format!("{text} · conflict resolved  {}", took(*duration_ms));
                self.merging.insert(item.clone(), (sign, text));
                Vec::new()
            }
            Event::GitTampering { changes } => self.tampering(item, changes),
            Event::StepCompleted(step) if step.adopted => {
                let text = format!("{item}: step {}{ADOPTED}", step.step);
                vec![important(Sign::Tilde, text)]
            }
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
            | prodigy_core::agent_news!()
            | Event::AgentReleased { .. }
            | prodigy_core::spending_news!()
            | Event::WorktreeCreated { .. }
            | Event::WorktreePreserved { .. }
            | Event::WorktreeCleaned { .. }
            | Event::MergeConflict { .. }
            | Event::ResolutionStarted { .. }
            | Event::ResolutionFailed { .. }
            | Event::ReplayStarted { .. }
            | Event::DlqItemRemoved { .. }
            | Event::DlqItemUpdated { .. }
            | prodigy_core::approval_news!()
            | prodigy_core::effect_news!()
            | Event::CheckoutChanged { .. }
            | Event::CheckpointCreated { .. } => Vec::new(),
        }
    }

    /// Says why an item failed and what becomes of it.
    fn failure(&self, item: &ItemId, failure: &Failure, then: &str) -> String {
        let at = self.failed_at.as_ref().filter(|(failed, _)| failed == item);
        let step = at.map(|(_, step)| format!(" at step {step}")).unwrap_or_default();
        format!("{item}{step}: {}; {then}", failure.message)
    }

    fn tampering(&mut self, item: &ItemId, changes: &[String]) -> Vec<Line> {
        self.tampered += 1;
        let text = if self.tampered <= TAMPERING_TOLD {
            format!("{item}: {}", tampering(changes))
        } else if self.tampered == TAMPERING_TOLD + 1 {
            "more items changed git's settings; the events `git_tampering` tell which".to_owned()
        } else {
            return Vec::new();
        };
        vec![important(Sign::Cross, text)]
    }
}

/// Failures that wait to be told, as `error_collection` says.
#[derive(Debug)]
struct Failures {
    mode: ErrorCollection,
    held: Vec<Line>,
}

impl Failures {
    /// Takes in an item that failed; returns what to tell now.
    fn add(&mut self, line: Line) -> Vec<Line> {
        match self.mode {
            // The summary tells them.
            ErrorCollection::Aggregate => Vec::new(),
            ErrorCollection::Immediate => vec![line],
            ErrorCollection::Batched { size } => {
                self.held.push(line);
                if u32::try_from(self.held.len()).is_ok_and(|held| held < size.get()) {
                    return Vec::new();
                }
                std::mem::take(&mut self.held)
            }
        }
    }

    /// Takes in an attempt that failed and will be made again.
    fn passing(&self, line: Line) -> Vec<Line> {
        match self.mode {
            ErrorCollection::Immediate => vec![line],
            ErrorCollection::Aggregate | ErrorCollection::Batched { .. } => Vec::new(),
        }
    }

    /// Returns what was not told yet.
    fn rest(&mut self) -> Vec<Line> {
        std::mem::take(&mut self.held)
    }
}

fn important(sign: Sign, text: String) -> Line {
    Line { weight: Weight::Important, sign, text }
}

/// Says that all items came to their end.
fn ended(items: &ItemSummary, job: &Job) -> Line {
    let time = job.map_began_at.zip(job.map_ended_at);
    let time = time.map(|(began, ended)| format!("  {}", duration::show(until_from(ended, began))));
    let sign = if items.counts.failed() == 0 { Sign::Tick } else { Sign::Tilde };
    let counts = counts(items).join(" · ");
    important(sign, format!("map: {counts}{}", time.unwrap_or_default()))
}

/// Returns how many items are done and how many failed.
fn counts(items: &ItemSummary) -> Vec<String> {
    let mut parts = vec![format!("{}/{} done", items.counts.successful, items.total)];
    if items.counts.failed() > 0 {
        parts.push(format!("{} failed", items.counts.failed()));
    }
    if items.counts.dead_lettered > 0 {
        parts.push(format!("{} in DLQ", items.counts.dead_lettered));
    }
    parts
}

/// A part of the line of totals.
pub(super) struct Part {
    /// What has the highest number gives way first where room is scarce.
    pub(super) gives_way: u8,
    /// The text.
    pub(super) text: String,
}

/// Returns the totals: done, running, failed, DLQ, circuit, rate, time left, cost.
pub(super) fn totals(items: &ItemSummary, cost_usd: f64, now: Timestamp) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut push = |gives_way, text| parts.push(Part { gives_way, text });
    let mut counts = counts(items).into_iter();
    counts.next().into_iter().for_each(|done| push(0, done));
    if items.running() > 0 {
        push(3, format!("{} running", items.running()));
    }
    (2..).step_by(3).zip(counts).for_each(|(gives_way, count)| push(gives_way, count));
    match items.circuit {
        Some(Circuit::Open { until }) => {
            let wait = duration::show(whole_seconds(until_from(until, now)));
            push(1, format!("circuit open for {wait}"));
        }
        Some(Circuit::HalfOpen) => push(1, "circuit half open".to_owned()),
        None => {}
    }
    if let Some(rate) = items.pace.per_second(now) {
        push(7, speed(rate));
    }
    if let Some(left) = items.left(now) {
        push(4, format!("about {} left", roughly(left)));
    }
    if cost_usd > 0.0 {
        push(6, format!("${cost_usd:.2}"));
    }
    parts
}

/// Returns the totals on one line, in plain text of any length.
pub(super) fn totals_line(items: &ItemSummary, cost_usd: f64, now: Timestamp) -> String {
    let parts = totals(items, cost_usd, now).into_iter().map(|part| part.text);
    parts.collect::<Vec<_>>().join(" · ")
}

/// Returns how many items end in a second, a minute or an hour.
pub(crate) fn speed(per_second: f64) -> String {
    let (number, unit) = if per_second >= 1.0 {
        (per_second, "s")
    } else if per_second * 60.0 >= 1.0 {
        (per_second * 60.0, "min")
    } else {
        (per_second * 3600.0, "h")
    };
    if number >= 10.0 { format!("{number:.0}/{unit}") } else { format!("{number:.1}/{unit}") }
}

/// Returns a duration without the digits that nobody can foretell.
pub(crate) fn roughly(left: Duration) -> String {
    let seconds = left.as_secs();
    if seconds < 60 {
        format!("{}s", seconds.max(1))
    } else if seconds < 3600 {
        format!("{}m", seconds.div_ceil(60))
    } else {
        duration::show(left)
    }
}

/// Returns a duration without the part of a second that would flicker.
pub(super) fn whole_seconds(duration: Duration) -> Duration {
    Duration::from_secs(duration.as_secs())
}

/// Returns the time from a moment until another; none if that is past.
pub(super) fn until_from(until: Timestamp, from: Timestamp) -> Duration {
    Duration::try_from(until.duration_since(from)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_times_are_shown_in_the_unit_that_fits() {
        let rates = [310.4, 10.0, 3.12, 1.0, 0.9, 0.05, 0.016, 0.001].map(speed);
        assert_eq!(rates.join(" "), "310/s 10/s 3.1/s 1.0/s 54/min 3.0/min 58/h 3.6/h");
        let times = [0, 1, 59, 60, 61, 300, 3599, 3600, 7500, 90_000];
        let times = times.map(|seconds| roughly(Duration::from_secs(seconds)));
        assert_eq!(times.join(" "), "1s 1s 59s 1m 2m 5m 60m 1h 00m 2h 05m 1d 01h");
    }
}
