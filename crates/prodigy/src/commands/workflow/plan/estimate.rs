//! The estimated cost and duration of a workflow, based on earlier jobs.

use std::{path::Path, time::Duration};

use prodigy_core::{
    event::{Event, JobStarted},
    ids::JobId,
    job::{ResourceUsage, UsageTracker, estimate_sum},
    workflow::Body,
};
use prodigy_engine::store::{JournalReader, Layout};
use serde_json::{Value, json};

use crate::{
    commands::workflow::run::RunRequest,
    progress::{format_estimate, plural},
    render::spend::{format_compact, format_usd},
};

/// The most jobs that are looked at, the newest first.
const LOOKED_AT: usize = 200;
/// The most jobs of the workflow that are read.
const READ: u32 = 20;
/// The most items that are taken into account.
const MOST_ITEMS: usize = 5_000;
/// The most records of one job that are read.
const MOST_RECORDS: usize = 500_000;

/// The amount of work to estimate.
pub(crate) struct PlanSize {
    /// The number of items; `None` if there are none, or the number is not known yet.
    pub(crate) items: Option<u32>,
    /// The number of items in flight.
    pub(crate) at_once: u32,
    /// The number of rounds of the steps.
    pub(crate) rounds: u32,
}

/// The estimate of a workflow's cost and duration.
#[derive(Debug)]
pub(crate) enum CostEstimate {
    /// No step asks an agent.
    Free,
    /// The workflow never ran here.
    NoHistory,
    /// It ran before.
    Known(RunHistory),
}

/// The cost and duration of earlier jobs of a workflow.
#[derive(Debug, Default)]
pub(crate) struct RunHistory {
    /// The number of these jobs.
    jobs: u32,
    /// The efforts of their items.
    items: Vec<ResourceUsage>,
    /// The efforts of their own steps.
    own: Vec<ResourceUsage>,
}

/// Looks up what a workflow took before.
pub(crate) fn estimate(layout: Option<&Layout>, request: &RunRequest) -> CostEstimate {
    let workflow = &request.file.loaded.workflow;
    if workflow.required_agents().is_empty() {
        return CostEstimate::Free;
    }
    let Some(layout) = layout else { return CostEstimate::NoHistory };
    // What cannot be read is no history.
    let jobs = layout.jobs().unwrap_or_default();
    let mut known = RunHistory::default();
    for job in jobs.iter().rev().take(LOOKED_AT) {
        if known.jobs == READ || known.items.len() >= MOST_ITEMS {
            break;
        }
        known.read(layout, job, request);
    }
    let is_known = match &workflow.body {
        Body::Sequential { .. } => !known.own.is_empty(),
        Body::MapReduce(_) => !known.items.is_empty(),
    };
    if is_known { CostEstimate::Known(known) } else { CostEstimate::NoHistory }
}

impl RunHistory {
    /// Adds the efforts of a job, if it ran the same workflow.
    fn read(&mut self, layout: &Layout, job: &JobId, request: &RunRequest) {
        let Ok(reader) = JournalReader::open(layout, job) else { return };
        let (mut efforts, mut rounds) = (UsageTracker::default(), 1);
        let before = self.items.len();
        for (number, record) in reader.take(MOST_RECORDS).enumerate() {
            // What was read before damage is as good as the rest.
            let Ok(record) = record else { break };
            if number == 0 {
                let Event::JobStarted(started) = &record.event else { return };
                if !is_same_workflow(started, request) {
                    return;
                }
                rounds = started.rounds.max(1);
            }
            self.items.extend(efforts.apply(&record));
            if self.items.len() >= MOST_ITEMS {
                break;
            }
        }
        let own = efforts.job_usage().map(|own| own.per_round(rounds));
        self.own.extend(own);
        self.jobs += u32::from(own.is_some() || self.items.len() > before);
    }

    /// Returns the range of something over all that is to be done.
    fn range(&self, extent: &PlanSize, of: fn(&ResourceUsage) -> f64) -> Option<(f64, f64)> {
        let rounds = f64::from(extent.rounds);
        let own = estimate_sum(self.own.iter().map(of), rounds).unwrap_or_default();
        if self.items.is_empty() {
            return Some(own);
        }
        let items = estimate_sum(self.items.iter().map(of), f64::from(extent.items?))?;
        Some((own.0 + items.0, own.1 + items.1))
    }

    /// Returns what all of it may cost; nothing if agents did not say what they cost.
    fn cost(&self, extent: &PlanSize) -> Option<(f64, f64)> {
        let is_untold = self.items.iter().chain(&self.own).any(|effort| effort.is_untold);
        self.range(extent, |effort| effort.cost_usd).filter(|_| !is_untold)
    }

    #[expect(clippy::cast_precision_loss, reason = "an estimate needs no exact numbers")]
    fn tokens(&self, extent: &PlanSize) -> Option<(f64, f64)> {
        let tokens = self.range(extent, |effort| effort.tokens.total() as f64);
        tokens.filter(|(_, high)| *high > 0.0)
    }

    /// Returns how long all of it may take, with so many items at once.
    fn duration(&self, extent: &PlanSize) -> Option<(Duration, Duration)> {
        let (at_once, items) = (extent.at_once.max(1), extent.items.unwrap_or(0));
        // The last of them may run alone.
        let turns = PlanSize { items: Some(items.div_ceil(at_once)), ..*extent };
        let turns =
            if extent.items.is_none() { PlanSize { items: None, ..*extent } } else { turns };
        let (low, high) = self.range(&turns, |effort| effort.duration.as_secs_f64())?;
        let low = Duration::try_from_secs_f64(low).ok()?;
        Some((low, Duration::try_from_secs_f64(high).ok()?))
    }

    fn basis(&self) -> String {
        let jobs = plural(self.jobs, "job");
        match self.items.len() {
            0 => format!("from {jobs}"),
            items => format!("from {} of {jobs}", plural(items, "item")),
        }
    }

    fn lines(&self, extent: &PlanSize) -> Vec<String> {
        let between = |(low, high): (f64, f64), show: &dyn Fn(f64) -> String| {
            let (low, high) = (show(low), show(high));
            if low == high { format!("about {low}") } else { format!("{low} to {high}") }
        };
        let basis = self.basis();
        let is_open = extent.items.is_none() && !self.items.is_empty();
        let one = PlanSize { items: Some(1), at_once: 1, rounds: 0 };
        let (extent, each) = if is_open { (&one, " per item") } else { (extent, "") };
        let cost = self.cost(extent).map(|cost| between(cost, &format_usd));
        let cost = cost.unwrap_or_else(|| "unknown: agents did not say what they cost".to_owned());
        let mut lines = vec![format!("{cost}{each} ({basis})")];
        let tokens = self
            .tokens(extent)
            .map(|tokens| between(tokens, &|it| format_compact(format_whole(it))));
        lines.extend(tokens.map(|tokens| format!("{tokens} tokens{each}")));
        let time = self.duration(extent).map(|(low, high)| {
            let (low, high) = (format_estimate(low), format_estimate(high));
            if low == high {
                format!("about {low}{each}")
            } else {
                format!("{low} to {high}{each}")
            }
        });
        lines.extend(time);
        lines
    }
}

impl CostEstimate {
    /// Says it, a line for each thing; the first is about money.
    pub(crate) fn lines(&self, extent: &PlanSize) -> Vec<String> {
        match self {
            Self::Free => vec!["none: no step asks an agent".to_owned()],
            Self::NoHistory => vec!["unknown: no history of this workflow".to_owned()],
            Self::Known(known) => known.lines(extent),
        }
    }

    /// Returns it for the JSON document.
    pub(crate) fn json(&self, extent: &PlanSize) -> Value {
        let range = |range: Option<(f64, f64)>| range.map(|(low, high)| json!([low, high]));
        match self {
            Self::Free => json!({
                "cost_usd": [0.0, 0.0], "tokens": null, "duration_ms": null, "jobs": 0, "items": 0,
            }),
            Self::NoHistory => Value::Null,
            Self::Known(known) => {
                let duration = known.duration(extent);
                let tokens =
                    known.tokens(extent).map(|(low, high)| [format_whole(low), format_whole(high)]);
                json!({
                    "cost_usd": range(known.cost(extent)),
                    "tokens": tokens,
                    "duration_ms": duration.map(|(low, high)| [low.as_millis(), high.as_millis()]),
                    "jobs": known.jobs,
                    "items": known.items.len(),
                })
            }
        }
    }
}

/// Returns whether a job was one of the workflow: by its name, by its file, or by its text.
fn is_same_workflow(started: &JobStarted, request: &RunRequest) -> bool {
    let workflow = &request.file.loaded.workflow;
    let same_name = match (&started.workflow_name, &workflow.name) {
        (Some(was), Some(is)) => was == is,
        (None, None) => {
            let file = |path: &str| Path::new(path).file_name().map(ToOwned::to_owned);
            file(&started.workflow_file) == file(&request.name)
        }
        (Some(_), None) | (None, Some(_)) => false,
    };
    same_name || started.workflow_hash == request.file.hash()
}

/// Returns a number without its fraction.
#[expect(clippy::cast_possible_truncation, reason = "more tokens than that nobody can pay for")]
#[expect(clippy::cast_sign_loss, reason = "nobody uses fewer than no tokens")]
fn format_whole(number: f64) -> u64 {
    number.max(0.0).round() as u64
}
