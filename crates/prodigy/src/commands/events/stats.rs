//! `prodigy events stats`.

use std::{collections::BTreeMap, time::Duration};

use prodigy_core::{Timestamp, duration, ids::JobId};
use prodigy_engine::store::Reader;
use serde_json::json;

use super::super::lookup::{find_job, job_error};
use crate::{cli::Args, error::CliError, exit::Exit, output::Output};

#[derive(clap::Args, Debug)]
pub(crate) struct StatsArgs {
    /// The job
    job: JobId,

    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, command: &StatsArgs, out: &mut Output) -> Result<Exit, CliError> {
    let (layout, job) = find_job(args, &command.job)?;
    let failed = |error| job_error(&job, error);
    let mut counts: BTreeMap<&'static str, u64> = BTreeMap::new();
    let mut span: Option<(Timestamp, Timestamp)> = None;
    for record in Reader::open(&layout, &job).map_err(failed)? {
        let record = record.map_err(failed)?;
        *counts.entry(record.event.event_type()).or_default() += 1;
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
        });
        out.raw(format!("{document:#}\n").as_bytes())?;
        return Ok(Exit::Success);
    }
    for (name, count) in &counts {
        out.line(format_args!("{count:>8}  {name}"))?;
    }
    out.line(format_args!("{total:>8}  in all"))?;
    if let Some((first, last)) = span {
        let show = |at: Timestamp| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let took = duration::show(took);
        out.line(format_args!("\nfrom {} to {} ({took})", show(first), show(last)))?;
    }
    Ok(Exit::Success)
}
