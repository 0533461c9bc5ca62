//! `prodigy dlq analyze`.

use std::num::NonZeroUsize;

use prodigy_core::ids::JobId;
use prodigy_engine::clock;
use serde_json::{Value, json};

use super::{
    advice::advice_for_reason,
    entries::{
        DeadLetterJobs, EntryEvaluator,
        causes::{CauseIndex, CauseView},
        labels::{SCHEMA_VERSION, class_name, format_entry_counts, group_document},
        open_jobs, queue_error, warn_unreadable_entry,
    },
};
use crate::{
    cli::Cli,
    commands::{context, jobs::format_timestamp},
    error::CliError,
    exit::Exit,
    progress::plural,
    render::console::Console,
};

/// So many causes are shown if nobody says how many.
const SHOWN: usize = 20;

/// Group failed items by cause
///
/// Messages that differ only in paths, numbers and names are one cause. For each, the
/// largest first: how many, since when, an example, what to do about it, and the command
/// for exactly these. Closed entries are left out. The job may be running.
#[derive(clap::Args, Debug)]
pub(crate) struct DlqAnalyzeArgs {
    /// The job [default: all jobs of this repository]
    job: Option<JobId>,

    /// Show only the N largest causes [default: 20, or all of them with `--json`]
    #[arg(long, value_name = "N")]
    limit: Option<NonZeroUsize>,

    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(super) fn run(
    args: &Cli,
    command: &DlqAnalyzeArgs,
    out: &mut Console,
) -> Result<Exit, CliError> {
    let mut jobs = open_jobs(args, command.job.as_ref())?;
    let groups = collect_causes(args, &mut jobs, out);
    let limit = command.limit.map(NonZeroUsize::get);
    let sorted = groups.by_count();
    let program = context::self_command(args);
    if command.json {
        let shown = sorted.iter().take(limit.unwrap_or(usize::MAX));
        let document = json!({
            "schema_version": SCHEMA_VERSION,
            "open": groups.open,
            "replaying": groups.replaying,
            "resolved": groups.resolved,
            "dropped": groups.dropped,
            "causes": sorted.len(),
            "groups": shown.map(|group| with_command(group, &program)).collect::<Vec<_>>(),
        });
        out.raw(format!("{document:#}\n").as_bytes())?;
        return Ok(jobs.exit());
    }
    if sorted.is_empty() {
        if jobs.skipped == 0 {
            out.note("there are no open dead letters");
        }
        return Ok(jobs.exit());
    }
    let causes = u32::try_from(sorted.len()).unwrap_or(u32::MAX);
    out.line(format_args!("{}: {}", plural(causes, "cause"), format_entry_counts(&groups)))?;
    let limit = limit.unwrap_or(SHOWN);
    for group in sorted.iter().take(limit) {
        out.line(format_args!(
            "\n{} × {} ({})",
            group.count,
            group.reason,
            class_name(group.class)
        ))?;
        for (name, value) in facts(group, &program) {
            out.line(format_args!("  {name:<11}{value}"))?;
        }
    }
    if sorted.len() > limit {
        out.flush()?;
        let left = sorted.len() - limit;
        out.note(format_args!("\nand {left} more; `--limit {}` shows them all", sorted.len()));
    }
    Ok(jobs.exit())
}

/// Gathers the entries of jobs by cause.
fn collect_causes(args: &Cli, jobs: &mut DeadLetterJobs, out: &mut Console) -> CauseIndex {
    let mut groups = CauseIndex::new(clock::now());
    while let Some(letters) = jobs.open_next(out) {
        let reading = EntryEvaluator::load(args, &letters, out);
        for heading in letters.queue.summaries() {
            match heading {
                Ok(heading) => {
                    groups.add(&letters.job, &heading, reading.verdict(&letters, &heading));
                }
                Err(error) => warn_unreadable_entry(&letters.job, &queue_error(error), out),
            }
        }
    }
    groups
}

/// Returns what there is to say of a cause, by name.
fn facts(group: &CauseView, program: &str) -> Vec<(&'static str, String)> {
    let (first, last) = (format_timestamp(group.first), format_timestamp(group.last));
    let seen = if first == last { first } else { format!("{first} to {last}") };
    let recent = match group.recent {
        0 => String::new(),
        recent => format!(", {recent} in the last hour"),
    };
    let (job, item) = &group.example;
    let replay = match group.replayable {
        0 if group.count == 1 => "it cannot be replayed as it is".to_owned(),
        1 if group.count == 1 => "it can be replayed as it is".to_owned(),
        0 => "none of them can be replayed as they are".to_owned(),
        all if all == group.count => "they can be replayed as they are".to_owned(),
        some => format!("{some} of them can be replayed as they are"),
    };
    vec![
        ("cause", group.pattern.clone()),
        ("seen", format!("{seen}{recent}")),
        ("example", format!("{program} dlq show {job} {item}")),
        ("to do", advice_for_reason(group.reason).to_owned()),
        ("replay", replay),
        ("next", command(group, program)),
    ]
}

/// Returns the command for exactly the entries of a cause.
fn command(group: &CauseView, program: &str) -> String {
    let signature = &group.signature;
    let job = &group.example.0;
    match (group.replayable, group.is_of_one_job) {
        (0, true) => format!("{program} dlq list {job} --signature {signature}"),
        (1.., true) => format!("{program} dlq retry {job} --signature {signature}"),
        // Each job is replayed by itself.
        (_, false) => format!("{program} dlq list --signature {signature}"),
    }
}

fn with_command(group: &CauseView, program: &str) -> Value {
    let mut document = group_document(group);
    if let Value::Object(fields) = &mut document {
        fields.insert("command".to_owned(), json!(command(group, program)));
    }
    document
}
