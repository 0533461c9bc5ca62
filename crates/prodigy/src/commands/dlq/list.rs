//! `prodigy dlq list`.

use prodigy_core::{
    dlq::EntryStatus,
    ids::{ItemId, JobId},
    replay::ReplayVerdict,
};
use prodigy_engine::store::dlq::DeadLetterSummary;
use serde_json::json;

use super::{
    decision::decision_label,
    entries::{
        DeadLetterJobs, EntryEvaluator, JobDeadLetters, RemainingEntries, entries,
        entry_filter::{EntryFilter, EntryFilterArgs},
        labels::{ANY, UNSETTLED, print_next_steps, row_document, split_pattern, status_name},
        open_jobs,
    },
};
use crate::{
    cli::Cli,
    commands::{context, jobs::format_minute},
    error::CliError,
    exit::Exit,
    render::{
        console::Console,
        table::{JsonListWriter, TextTable},
    },
};

/// So many entries are listed if nobody says how many.
const SHOWN: usize = 20;

/// List failed items, the newest first
///
/// Without a job, the dead letters of every job of this repository are listed. The newest 20
/// are shown unless `--limit` says how many. REPLAY is what the policy says: `yes` if
/// `prodigy dlq retry` takes the entry, or else what has to come first, such as `review`,
/// `approval` or `quarantine`; `prodigy dlq plan` says why. The job may be running.
#[derive(clap::Args, Debug)]
pub(crate) struct DlqListArgs {
    /// The job [default: all jobs of this repository]
    job: Option<JobId>,

    #[command(flatten)]
    choice: EntryFilterArgs,

    /// Also list entries that are resolved or dropped
    #[arg(long)]
    all: bool,

    /// Print one JSON document; without `--limit`, it has all entries
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Cli, command: &DlqListArgs, out: &mut Console) -> Result<Exit, CliError> {
    let mut chosen = command.choice.to_filter()?;
    let mut jobs = open_jobs(args, command.job.as_ref())?;
    if command.json {
        return document(args, jobs, command, &chosen, out);
    }
    chosen.limit.get_or_insert(SHOWN);
    let mut listing = EntryListPrinter::new(command.job.is_none(), command.all);
    let left = entries(&mut jobs, &chosen, command.statuses(), out, |letters, heading, out| {
        listing.push(args, letters, &heading, out)
    })?;
    listing.end(out)?;
    out.flush()?;
    if listing.rows == 0 {
        if jobs.skipped == 0 {
            print_empty(command, &chosen, out);
        }
        return Ok(jobs.exit());
    }
    let limit = chosen.limit.unwrap_or(SHOWN);
    match left {
        RemainingEntries::Nothing => {}
        RemainingEntries::Entries(left) if !command.all => {
            let all = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(left);
            out.note(format_args!("\nand {left} more; `--limit {all}` shows them all"));
        }
        // What is closed, and what matches, is not counted in advance.
        RemainingEntries::Entries(_) | RemainingEntries::Some => {
            let more = limit.saturating_mul(5);
            out.note(format_args!("\nand more; `--limit {more}` shows more of them"));
        }
    }
    print_next_steps(&next_steps(args, &listing), out)?;
    Ok(jobs.exit())
}

impl DlqListArgs {
    fn statuses(&self) -> &'static [EntryStatus] {
        if self.all { ANY } else { UNSETTLED }
    }
}

/// Prints the entries as one document, as they are read.
fn document(
    args: &Cli,
    mut jobs: DeadLetterJobs,
    command: &DlqListArgs,
    chosen: &EntryFilter,
    out: &mut Console,
) -> Result<Exit, CliError> {
    let mut list = JsonListWriter::begin("entries", out)?;
    let mut reading: Option<(JobId, EntryEvaluator)> = None;
    let left = entries(&mut jobs, chosen, command.statuses(), out, |letters, heading, out| {
        if reading.as_ref().is_none_or(|(job, _)| *job != letters.job) {
            reading = Some((letters.job.clone(), EntryEvaluator::load(args, letters, out)));
        }
        let known = reading.as_ref();
        let mut heading = heading;
        heading.reprocess_eligible &= known.is_some_and(|(_, reading)| reading.has_journal);
        let verdict = known.and_then(|(_, reading)| reading.verdict(letters, &heading));
        list.push(&row_document(&letters.job, &heading, verdict), out)
    })?;
    list.end(&[("more", json!(!matches!(left, RemainingEntries::Nothing)))], out)?;
    Ok(jobs.exit())
}

/// A listing that is being printed.
struct EntryListPrinter {
    /// Each job has a line above its entries.
    names_jobs: bool,
    names_status: bool,
    table: TextTable,
    job: Option<JobId>,
    reading: Option<EntryEvaluator>,
    /// The first entry, for the commands that make sense next.
    first: Option<(JobId, ItemId)>,
    rows: usize,
}

impl EntryListPrinter {
    fn new(names_jobs: bool, names_status: bool) -> Self {
        Self {
            names_jobs,
            names_status,
            table: table(names_status),
            job: None,
            reading: None,
            first: None,
            rows: 0,
        }
    }

    fn push(
        &mut self,
        args: &Cli,
        letters: &JobDeadLetters,
        heading: &DeadLetterSummary,
        out: &mut Console,
    ) -> Result<(), CliError> {
        if self.job.as_ref() != Some(&letters.job) {
            self.end(out)?;
            if self.names_jobs {
                let open = letters.queue.open_entries();
                let gap = if self.job.is_some() { "\n" } else { "" };
                out.line(format_args!("{gap}job {}: {open} open", letters.job))?;
            }
            self.table = table(self.names_status);
            self.job = Some(letters.job.clone());
            self.reading = Some(EntryEvaluator::load(args, letters, out));
        }
        let verdict = self.reading.as_ref().and_then(|known| known.verdict(letters, heading));
        let has_journal = self.reading.as_ref().is_some_and(|known| known.has_journal);
        self.rows += 1;
        self.first.get_or_insert_with(|| (letters.job.clone(), heading.item_id.clone()));
        let (_, pattern) = split_pattern(&heading.error_pattern);
        let mut cells = vec![
            heading.item_id.to_string(),
            heading.reason_code.to_string(),
            with_owner(
                if has_journal { replay_label(verdict) } else { "no" },
                heading.standing.owner.as_deref(),
            ),
            heading.attempts.to_string(),
            format_minute(heading.last_attempt),
            pattern.to_owned(),
        ];
        if self.names_status {
            cells.insert(1, status_name(heading.status).to_owned());
        }
        self.table.row(&cells, out)
    }

    fn end(&mut self, out: &mut Console) -> Result<(), CliError> {
        self.table.write(out)
    }
}

/// Returns what the policy says about an entry, in a word.
fn replay_label(verdict: Option<ReplayVerdict>) -> &'static str {
    match verdict {
        Some(ReplayVerdict::Replay) => "yes",
        Some(verdict) => decision_label(verdict),
        None => "?",
    }
}

/// Returns what the policy says, and who looks after the entry.
fn with_owner(word: &str, owner: Option<&str>) -> String {
    owner.map_or_else(|| word.to_owned(), |owner| format!("{word} ({owner})"))
}

fn table(names_status: bool) -> TextTable {
    let mut head = vec!["ITEM", "REASON", "REPLAY", "TRIES", "LAST FAILURE", "CAUSE"];
    let mut spare = ["TRIES", "LAST FAILURE", "REPLAY"];
    if names_status {
        head.insert(1, "STATUS");
        // The status says the most of it.
        spare = ["TRIES", "REPLAY", "LAST FAILURE"];
    }
    TextTable::new(&head, &spare, 0)
}

/// Says why nothing is listed.
fn print_empty(command: &DlqListArgs, chosen: &EntryFilter, out: &mut Console) {
    let place = match &command.job {
        Some(job) => format!("job `{job}` has"),
        None => "there are".to_owned(),
    };
    if !chosen.is_unfiltered() {
        out.note("no entry matches");
    } else if command.all {
        out.note(format_args!("{place} no dead letters"));
    } else {
        out.note(format_args!("{place} no open dead letters; `--all` also lists closed ones"));
    }
}

/// Returns what makes sense next, and the commands for it.
fn next_steps(args: &Cli, listing: &EntryListPrinter) -> Vec<(&'static str, String)> {
    let Some((job, item)) = &listing.first else { return Vec::new() };
    let program = context::self_command(args);
    let of_job = if listing.names_jobs { String::new() } else { format!(" {job}") };
    vec![
        ("see one", format!("{program} dlq show {job} {item}")),
        ("by cause", format!("{program} dlq analyze{of_job}")),
    ]
}
