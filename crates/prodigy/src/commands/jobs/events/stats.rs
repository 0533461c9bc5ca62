//! `prodigy events stats`.

use std::{collections::BTreeMap, time::Duration};

use prodigy_core::{Timestamp, duration, event::Event, failure::Failure, ids::JobId};
use prodigy_engine::store::JournalReader;
use serde::Serialize;
use serde_json::json;

use crate::{
    cli::Cli,
    commands::lookup::{find_job, job_error},
    error::CliError,
    exit::Exit,
    render::console::Console,
};

/// Count the events of a job by type, and its errors by reason code
///
/// For example, `prodigy events stats JOB --json | jq .errors.by_reason`.
#[derive(clap::Args, Debug)]
pub(crate) struct EventsStatsArgs {
    /// The job
    job: JobId,

    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(
    args: &Cli,
    command: &EventsStatsArgs,
    out: &mut Console,
) -> Result<Exit, CliError> {
    let (layout, job) = find_job(args, &command.job)?;
    let failed = |error| job_error(&job, error);
    let mut counts: BTreeMap<&'static str, u64> = BTreeMap::new();
    let mut errors = ErrorStatistics::default();
    let mut span: Option<(Timestamp, Timestamp)> = None;
    for record in JournalReader::open(&layout, &job).map_err(failed)? {
        let record = record.map_err(failed)?;
        *counts.entry(record.event.event_type()).or_default() += 1;
        errors.count(&record.event);
        let first = span.map_or(record.timestamp, |(first, _)| first);
        span = Some((first, record.timestamp));
    }
    let total: u64 = counts.values().sum();
    let took = span.map(|(first, last)| {
        // A clock that was set back makes no negative time.
        Duration::try_from(last.duration_since(first)).unwrap_or_default()
    });
    let took = took.unwrap_or_default();
    if command.json {
        let document = json!({
            "schema_version": 1,
            "job_id": job,
            "events": total,
            "first_at": span.map(|(first, _)| first),
            "last_at": span.map(|(_, last)| last),
            "duration_ms": u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            "types": counts,
            "errors": errors,
        });
        out.raw(format!("{document:#}\n").as_bytes())?;
        return Ok(Exit::Success);
    }
    for (name, count) in &counts {
        out.line(format_args!("{count:>8}  {name}"))?;
    }
    out.line(format_args!("{total:>8}  in all"))?;
    errors.show(out)?;
    if let Some((first, last)) = span {
        let show = |at: Timestamp| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let took = duration::format(took);
        out.line(format_args!("\nfrom {} to {} ({took})", show(first), show(last)))?;
    }
    Ok(Exit::Success)
}

/// The failures of a job, counted.
#[derive(Debug, Default, Serialize)]
struct ErrorStatistics {
    /// The number of failures, each counted once.
    failures: u64,
    failed_steps: u64,
    failed_attempts: u64,
    /// The number of retries of items.
    retries: u64,
    dead_letters: u64,
    skipped_items: u64,
    /// The failures by their reason codes.
    by_reason: BTreeMap<&'static str, u64>,
}

impl ErrorStatistics {
    /// Counts an event.
    fn count(&mut self, event: &Event) {
        if let Event::StepFailed { failure, .. } = event {
            self.failed_steps += 1;
            self.add(failure);
        } else if let Event::AgentFailed(failed) = event {
            self.failed_attempts += 1;
            // The failure of its step is counted already.
            if failed.step.is_none() {
                self.add(&failed.failure);
            }
        } else if let Event::ResolutionFailed { failure, .. } = event {
            self.add(failure);
        } else if let Event::JobFailed { step, failure } = event {
            // So is that of a step of the job; a phase is no step.
            if !step.contains(|letter: char| letter.is_ascii_digit()) {
                self.add(failure);
            }
        }
        self.retries += u64::from(matches!(event, Event::AgentRetrying { .. }));
        self.dead_letters += u64::from(matches!(event, Event::ItemDeadLettered { .. }));
        self.skipped_items += u64::from(matches!(event, Event::ItemSkipped { .. }));
    }

    fn add(&mut self, failure: &Failure) {
        self.failures += 1;
        *self.by_reason.entry(failure.kind.code()).or_default() += 1;
    }

    /// Prints what there is to say.
    fn show(&self, out: &mut Console) -> Result<(), CliError> {
        let rows = [
            (self.failed_steps, "failed steps"),
            (self.failed_attempts, "failed attempts of items"),
            (self.retries, "retries of items"),
            (self.dead_letters, "dead letters"),
            (self.skipped_items, "skipped items"),
        ];
        let rows: Vec<_> = rows.iter().filter(|(number, _)| *number > 0).collect();
        if rows.is_empty() {
            return out.line("\nno errors");
        }
        out.line("\nerrors")?;
        for (number, what) in rows {
            out.line(format_args!("{number:>8}  {what}"))?;
        }
        for (code, number) in &self.by_reason {
            out.line(format_args!("{number:>8}  {code}"))?;
        }
        Ok(())
    }
}
