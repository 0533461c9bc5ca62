//! `prodigy logs`.

mod log_event;
mod log_reader;

use prodigy_core::{
    event::JobMode,
    ids::{ItemId, JobId},
};
use prodigy_engine::store::{JournalReader, Layout, LogFile};

use crate::{
    cli::Cli,
    commands::{
        context,
        lookup::{job_error, job_or_latest},
    },
    error::CliError,
    exit::Exit,
    render::{console::Console, log_printer::LogPrinter},
};
use log_reader::{ALL, LogReader};

/// Show what the steps of a job printed
///
/// Without an item, the job's own steps are shown: all of them in a sequential workflow;
/// setup, reduce and merge in one that has items. With an item, all its attempts are.
/// Each step has a line above its output that says how it ended. Of an agent that tells what
/// it does, the tools that it uses are shown, what it says, and what it cost. On a terminal,
/// characters that could steer it are made visible; elsewhere the output is as it was.
#[derive(clap::Args, Debug)]
pub(crate) struct LogsArgs {
    /// The job [default: the newest]
    job: Option<JobId>,

    /// Show the attempts of this item; or only this step of the job and the steps inside it
    #[arg(value_name = "ITEM|STEP")]
    item: Option<String>,

    /// Show only this step of the item and the steps inside it
    step: Option<String>,

    /// Go on until the job or the item ends
    #[arg(long, short)]
    follow: bool,

    /// Show only standard error
    #[arg(long)]
    stderr: bool,

    /// Show the transcripts of agents as they are, a JSON document per line
    #[arg(long)]
    raw: bool,
}

pub(crate) fn run(args: &Cli, command: &LogsArgs, out: &mut Console) -> Result<Exit, CliError> {
    let (layout, job) = job_or_latest(args, command.job.as_ref())?;
    if command.job.is_none() {
        out.note(format_args!("job {job}"));
    }
    let (item, step) = parse_subject(command, &layout, &job)?;
    let files = if command.stderr { &[LogFile::Errors] } else { ALL };
    let page = LogPrinter::new(out, command.raw);
    let mut view = LogReader::new((&layout, &job), (item.as_ref(), step.as_deref()), files, page);
    if command.follow {
        view.follow()?;
    } else {
        for record in JournalReader::open(&layout, &job).map_err(|error| job_error(&job, error))? {
            view.handle_record(&record.map_err(|error| job_error(&job, error))?)?;
        }
        view.read_live()?;
    }
    view.end_line()?;
    let found = view.found;
    match (item, step) {
        (Some(item), _) if !found.item => Err(item_not_found(&job, &item)),
        (Some(item), _) if !found.attempt => {
            out.note(format_args!("no attempt of `{item}` has begun"));
            Ok(Exit::Success)
        }
        (_, Some(step)) if !found.step => {
            Err(CliError::new(Exit::Usage, format!("job `{job}` ran no step `{step}`"))
                .with_hint(format!("`prodigy events {job} --type step_started` lists its steps")))
        }
        (None, None) => {
            if let Some(first) = found.other {
                out.note(format_args!(
                    "note: these are the job's own steps; `prodigy logs {job} {first}` shows what an item printed"
                ));
            }
            Ok(Exit::Success)
        }
        (Some(_) | None, _) => Ok(Exit::Success),
    }
}

/// Returns whose output is wanted: an item's or the job's own, and of which step.
///
/// A name that is both an item's id and a step's path means the item.
fn parse_subject(
    command: &LogsArgs,
    layout: &Layout,
    job: &JobId,
) -> Result<(Option<ItemId>, Option<String>), CliError> {
    let Some(named) = &command.item else { return Ok((None, None)) };
    if context::job_started(layout, job)?.mode == JobMode::Sequential {
        if command.step.is_some() {
            let message = format!("job `{job}` has no items, so `{named}` is none");
            return Err(CliError::new(Exit::Usage, message).with_hint("name the step only"));
        }
        return Ok((None, Some(named.clone())));
    }
    // An item may be called by its key as well.
    let ids = [named.parse().ok(), Some(ItemId::from_key(named))];
    let ids: Vec<ItemId> = ids.into_iter().flatten().collect();
    let failed = |error| job_error(job, error);
    for record in JournalReader::open(layout, job).map_err(failed)? {
        if let Some(item) = record.map_err(failed)?.item_id.filter(|item| ids.contains(item)) {
            return Ok((Some(item), command.step.clone()));
        }
    }
    if is_own_step(named) && command.step.is_none() {
        return Ok((None, Some(named.clone())));
    }
    // It may be about to be chosen.
    Ok((ids.into_iter().next(), command.step.clone()))
}

/// Returns whether a text can be the path of one of the job's own steps.
fn is_own_step(text: &str) -> bool {
    let first = text.split(['.', ':']).next().unwrap_or_default();
    ["setup", "map", "reduce", "merge"].contains(&first)
        || first.chars().all(|c| c.is_ascii_digit())
}

fn item_not_found(job: &JobId, item: &ItemId) -> CliError {
    CliError::new(Exit::Usage, format!("job `{job}` has no item `{item}`"))
        .with_hint(format!("`prodigy events {job} --type item_queued` lists its items"))
}
