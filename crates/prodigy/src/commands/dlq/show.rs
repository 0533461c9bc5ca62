//! `prodigy dlq show`.

use prodigy_core::{
    dlq::DeadLetteredItem,
    ids::JobId,
    replay::{ReplayDecision, ReplayVerdict},
};
use prodigy_engine::clock;
use serde_json::json;

use super::{
    advice::advice_for_reason,
    entries::{
        EntryEvaluator, JobDeadLetters,
        causes::CauseIndex,
        entry_filter::require_entry,
        labels::{
            SCHEMA_VERSION, format_entry_counts, group_document, print_next_steps, split_pattern,
        },
        open_job, queue_error, warn_unreadable_entry,
    },
};
use crate::{
    cli::Cli,
    commands::{context, jobs::format_timestamp},
    error::CliError,
    exit::Exit,
    render::{console::Console, dead_letter, pretty_json::pretty_json, table::TextTable},
};

/// Show one dead letter, or those of a job at a glance
///
/// With an item: what failed and where, the last lines of its output, each attempt, the
/// item, its artifacts and where they are, whether it can be replayed, and what to type next.
/// Without: the causes, and how many items failed with each. The job may be running.
#[derive(clap::Args, Debug)]
pub(crate) struct DlqShowArgs {
    /// The job
    job: JobId,

    /// The item, by id or by key
    item: Option<String>,

    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Cli, command: &DlqShowArgs, out: &mut Console) -> Result<Exit, CliError> {
    let letters = open_job(args, &command.job, out)?;
    let Some(item) = &command.item else {
        return overview(args, &letters, command.json, out);
    };
    let entry = require_entry(&letters.queue, &letters.job, item)?;
    let reading = EntryEvaluator::load(args, &letters, out);
    let ruling = reading.evaluate_entry(&entry);
    if command.json {
        out.raw(document(&letters, &entry, ruling.as_ref()).as_bytes())?;
        return Ok(Exit::Success);
    }
    let has_journal = letters.has_journal();
    dead_letter::render_dead_letter(&entry, ruling.as_ref(), has_journal, out)?;
    let next =
        dead_letter::next_steps(&context::self_command(args), &entry, ruling.as_ref(), has_journal);
    print_next_steps(&next, out)?;
    Ok(Exit::Success)
}

/// Returns an entry as JSON, with what to do about it.
///
/// The item is kept as it was written: it may hold what no value of ours can.
fn document(
    letters: &JobDeadLetters,
    entry: &DeadLetteredItem,
    ruling: Option<&ReplayDecision<'_>>,
) -> String {
    let verdict = ruling.map(|ruling| ruling.verdict);
    let more = json!({
        "schema_version": SCHEMA_VERSION,
        "file": letters.queue.entry_path(&entry.item_id).display().to_string(),
        "can_replay": verdict == Some(ReplayVerdict::Replay),
        "verdict": verdict,
        "rule": ruling.map(|ruling| &ruling.rule.name),
        "why": ruling.map(ReplayDecision::explain),
        "suggestion": advice_for_reason(entry.reason_code),
    });
    let more = more.to_string();
    let entry = serde_json::to_string(entry).unwrap_or_default();
    pretty_json(&format!("{},\"entry\":{entry}}}", more.trim_end_matches('}')))
}

/// Shows how many items died, and of what.
fn overview(
    args: &Cli,
    letters: &JobDeadLetters,
    as_json: bool,
    out: &mut Console,
) -> Result<Exit, CliError> {
    let job = &letters.job;
    let mut groups = CauseIndex::new(clock::now());
    let reading = EntryEvaluator::load(args, letters, out);
    for heading in letters.queue.summaries() {
        match heading {
            Ok(heading) => groups.add(job, &heading, reading.verdict(letters, &heading)),
            Err(error) => warn_unreadable_entry(job, &queue_error(error), out),
        }
    }
    if as_json {
        let causes: Vec<_> = groups.by_count().into_iter().map(group_document).collect();
        let document = json!({
            "schema_version": SCHEMA_VERSION,
            "job_id": job,
            "open": groups.open,
            "replaying": groups.replaying,
            "resolved": groups.resolved,
            "dropped": groups.dropped,
            "can_replay": groups.replayable(),
            "groups": causes,
        });
        out.raw(format!("{document:#}\n").as_bytes())?;
        return Ok(Exit::Success);
    }
    out.line(format_args!("{:<12}{job}", "job"))?;
    out.line(format_args!("{:<12}{}", "entries", format_entry_counts(&groups)))?;
    let sorted = groups.by_count();
    if let Some(last) = sorted.iter().map(|group| group.last).max() {
        out.line(format_args!("{:<12}{}", "newest", format_timestamp(last)))?;
        out.line("")?;
    }
    let head = ["COUNT", "REASON", "REPLAY", "EXAMPLE", "CAUSE"];
    let mut table = TextTable::new(&head, &["REPLAY"], 0);
    for group in &sorted {
        let replay = match group.replayable {
            0 => "no".to_owned(),
            all if all == group.count => "yes".to_owned(),
            some => some.to_string(),
        };
        let cells = vec![
            format!("{:>5}", group.count),
            group.reason.to_string(),
            replay,
            group.example.1.to_string(),
            split_pattern(&group.pattern).1.to_owned(),
        ];
        table.row(&cells, out)?;
    }
    table.write(out)?;
    print_next_steps(&next_steps(args, job, &groups), out)?;
    Ok(Exit::Success)
}

/// Returns what makes sense next, and the commands for it.
fn next_steps(args: &Cli, job: &JobId, groups: &CauseIndex) -> Vec<(&'static str, String)> {
    let program = context::self_command(args);
    let mut next = Vec::new();
    if let Some(group) = groups.by_count().first() {
        next.push(("see one", format!("{program} dlq show {job} {}", group.example.1)));
        next.push(("see what to do", format!("{program} dlq analyze {job}")));
    }
    if groups.replayable() > 0 {
        next.push(("try again", format!("{program} dlq retry {job}")));
    }
    if groups.open + groups.replaying == 0 && groups.resolved + groups.dropped > 0 {
        next.push(("delete what is closed", format!("{program} dlq clear {job}")));
    }
    next
}
