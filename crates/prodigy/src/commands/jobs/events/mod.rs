//! `prodigy events`.

mod export;
mod filter;
mod list;
mod stats;

use prodigy_core::ids::JobId;

use crate::{cli::Cli, error::CliError, exit::Exit, render::console::Console};
use export::EventsExportArgs;
use filter::EventFilterArgs;
use list::{FollowMode, list};
use stats::EventsStatsArgs;

pub(crate) use crate::{progress::event_reporter::EventReporter, render::event_line::shorten_line};
pub(crate) use filter::parse_since;
pub(crate) use list::{FollowError, is_job_end};

/// Show what happened in a job, from its journal
///
/// Works on running jobs as well. Without a job, the newest one is shown. Times
/// are in UTC.
#[derive(clap::Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct EventsArgs {
    #[command(subcommand)]
    command: Option<EventsCommand>,

    /// The job [default: the newest]
    job: Option<JobId>,

    /// Go on until the job ends
    #[arg(long, short)]
    follow: bool,

    #[command(flatten)]
    filter: EventFilterArgs,
}

#[derive(clap::Subcommand, Debug)]
pub(crate) enum EventsCommand {
    /// Show the events of a job
    Ls(EventsListArgs),
    /// Show the events of a job and go on until it ends
    Follow(EventsListArgs),
    /// Count the events of a job by type, and its errors by reason code
    Stats(EventsStatsArgs),
    /// Show the events that contain a text
    Search(EventsSearchArgs),
    /// Write the events of a job as JSON lines, JSON or CSV
    Export(EventsExportArgs),
}

#[derive(clap::Args, Debug)]
pub(crate) struct EventsListArgs {
    /// The job [default: the newest]
    #[arg(long, value_name = "JOB")]
    job_id: Option<JobId>,

    #[command(flatten)]
    filter: EventFilterArgs,
}

#[derive(clap::Args, Debug)]
pub(crate) struct EventsSearchArgs {
    /// The job
    job: JobId,

    /// The text, as it stands in the journal; upper and lower case count
    text: String,

    #[command(flatten)]
    filter: EventFilterArgs,
}

pub(crate) fn run(args: &Cli, command: &EventsArgs, out: &mut Console) -> Result<Exit, CliError> {
    match &command.command {
        None => {
            let how = if command.follow { FollowMode::Follow } else { FollowMode::Once };
            list(args, command.job.as_ref(), command.filter.to_filter(None)?, how, out)
        }
        Some(EventsCommand::Ls(command)) => list(
            args,
            command.job_id.as_ref(),
            command.filter.to_filter(None)?,
            FollowMode::Once,
            out,
        ),
        Some(EventsCommand::Follow(command)) => list(
            args,
            command.job_id.as_ref(),
            command.filter.to_filter(None)?,
            FollowMode::Follow,
            out,
        ),
        Some(EventsCommand::Search(command)) => {
            let filter = command.filter.to_filter(Some(&command.text))?;
            list(args, Some(&command.job), filter, FollowMode::Once, out)
        }
        Some(EventsCommand::Stats(command)) => stats::run(args, command, out),
        Some(EventsCommand::Export(command)) => export::run(args, command, out),
    }
}
