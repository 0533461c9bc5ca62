//! `prodigy dlq stats`.

use std::collections::BTreeMap;

use prodigy_core::{Timestamp, dlq::DeadLetteredItem, ids::JobId, replay::ReplayVerdict};
use prodigy_engine::{clock, store::dlq::DeadLetterSummary};
use serde_json::json;

use super::entries::{
    EntryEvaluator, JobDeadLetters,
    causes::CauseIndex,
    labels::{SCHEMA_VERSION, UNSETTLED, class_name, format_entry_counts, split_pattern},
    open_jobs, queue_error, warn_unreadable_entry,
};
use crate::{
    cli::Cli, commands::jobs::format_timestamp, error::CliError, exit::Exit,
    render::console::Console,
};

/// Count dead letters by status and reason
///
/// Reasons are counted for entries that are not closed; attempts and costs are those of all
/// entries. The job may be running.
#[derive(clap::Args, Debug)]
pub(crate) struct DlqStatsArgs {
    /// The job [default: all jobs of this repository]
    job: Option<JobId>,

    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Cli, command: &DlqStatsArgs, out: &mut Console) -> Result<Exit, CliError> {
    let mut jobs = open_jobs(args, command.job.as_ref())?;
    let mut tally = DlqStatsView::new();
    while let Some(letters) = jobs.open_next(out) {
        tally.jobs += 1;
        let reading = EntryEvaluator::load(args, &letters, out);
        for heading in letters.queue.summaries() {
            match heading {
                Ok(heading) => {
                    let verdict = reading.verdict(&letters, &heading);
                    tally.add(&letters, &heading, verdict, out);
                }
                Err(error) => warn_unreadable_entry(&letters.job, &queue_error(error), out),
            }
        }
    }
    if command.json { tally.document(out) } else { tally.show(command.job.is_none(), out) }?;
    Ok(jobs.exit())
}

/// The counts of dead letters.
struct DlqStatsView {
    jobs: u32,
    groups: CauseIndex,
    reasons: BTreeMap<String, u64>,
    classes: BTreeMap<String, u64>,
    error_types: BTreeMap<String, u64>,
    /// The oldest and the newest of those that are not closed.
    span: Option<(Timestamp, Timestamp)>,
    attempts: u64,
    replays: u64,
    cost_usd: f64,
}

impl DlqStatsView {
    fn new() -> Self {
        Self {
            jobs: 0,
            groups: CauseIndex::new(clock::now()),
            reasons: BTreeMap::new(),
            classes: BTreeMap::new(),
            error_types: BTreeMap::new(),
            span: None,
            attempts: 0,
            replays: 0,
            cost_usd: 0.0,
        }
    }

    fn add(
        &mut self,
        letters: &JobDeadLetters,
        heading: &DeadLetterSummary,
        verdict: Option<ReplayVerdict>,
        out: &mut Console,
    ) {
        self.groups.add(&letters.job, heading, verdict);
        self.attempts += u64::from(heading.attempts);
        self.replays += u64::from(heading.replays);
        match letters.queue.entry(&heading.item_id) {
            Ok(entry) => self.cost_usd += entry.as_ref().map_or(0.0, attempts_cost),
            Err(error) => warn_unreadable_entry(&letters.job, &queue_error(error), out),
        }
        if !UNSETTLED.contains(&heading.status) {
            return;
        }
        let at = heading.last_attempt;
        self.span = Some(self.span.map_or((at, at), |(first, last)| (first.min(at), last.max(at))));
        let (error_type, _) = split_pattern(&heading.error_pattern);
        *self.reasons.entry(heading.reason_code.to_string()).or_default() += 1;
        *self.classes.entry(class_name(heading.class)).or_default() += 1;
        *self.error_types.entry(error_type.to_owned()).or_default() += 1;
    }

    fn document(&self, out: &mut Console) -> Result<(), CliError> {
        let document = json!({
            "schema_version": SCHEMA_VERSION,
            "jobs": self.jobs,
            "open": self.groups.open,
            "replaying": self.groups.replaying,
            "resolved": self.groups.resolved,
            "dropped": self.groups.dropped,
            "can_replay": self.groups.replayable(),
            "causes": self.groups.by_count().len(),
            "by_reason": self.reasons,
            "by_class": self.classes,
            "by_error_type": self.error_types,
            "oldest": self.span.map(|(first, _)| first),
            "newest": self.span.map(|(_, last)| last),
            "attempts": self.attempts,
            "replays": self.replays,
            // A sum of many small numbers would show how they are stored.
            "cost_usd": (self.cost_usd * 1e6).round() / 1e6,
        });
        out.raw(format!("{document:#}\n").as_bytes())
    }

    fn show(&self, names_jobs: bool, out: &mut Console) -> Result<(), CliError> {
        let mut facts = vec![("entries", format_entry_counts(&self.groups))];
        if names_jobs {
            facts.insert(0, ("jobs", self.jobs.to_string()));
        }
        let causes = u32::try_from(self.groups.by_count().len()).unwrap_or(u32::MAX);
        facts.push(("causes", causes.to_string()));
        if let Some((first, last)) = self.span {
            facts.push(("oldest", format_timestamp(first)));
            facts.push(("newest", format_timestamp(last)));
        }
        let replays = match self.replays {
            0 => String::new(),
            1 => ", 1 replay".to_owned(),
            replays => format!(", {replays} replays"),
        };
        facts.push(("attempts", format!("{}{replays}", self.attempts)));
        if self.cost_usd > 0.0 {
            facts.push(("cost", format!("${:.2}", self.cost_usd)));
        }
        for (name, value) in facts {
            out.line(format_args!("{name:<12}{value}"))?;
        }
        let parts = [
            ("by reason", &self.reasons),
            ("by class", &self.classes),
            ("by error type", &self.error_types),
        ];
        for (name, counts) in parts.iter().filter(|(_, counts)| !counts.is_empty()) {
            out.line(format_args!("\n{name}"))?;
            let mut counts: Vec<_> = counts.iter().collect();
            counts.sort_by(|(_, a), (_, b)| b.cmp(a));
            for (name, count) in counts {
                out.line(format_args!("{count:>8}  {name}"))?;
            }
        }
        Ok(())
    }
}

/// Returns what the failed attempts of an item cost.
pub(super) fn attempts_cost(entry: &DeadLetteredItem) -> f64 {
    entry.failure_history.iter().map(|attempt| attempt.cost_usd).sum()
}
