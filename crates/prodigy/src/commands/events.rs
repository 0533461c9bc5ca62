//! `prodigy events`.

mod export;
mod filter;
mod governed;
mod line;
mod list;
mod spending;
mod stats;
mod verbose;

use prodigy_core::ids::JobId;

use self::{
    export::ExportArgs,
    filter::FilterArgs,
    list::{How, list},
    stats::StatsArgs,
};
pub(super) use self::{
    filter::since,
    line::brief,
    list::{Stopped, is_end},
    verbose::EventReporter,
};
use crate::{cli::Args, error::CliError, exit::Exit, output::Output};

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
    filter: FilterArgs,
}

#[derive(clap::Subcommand, Debug)]
pub(crate) enum EventsCommand {
    /// Show the events of a job
    Ls(ListEventsArgs),
    /// Show the events of a job and go on until it ends
    Follow(ListEventsArgs),
    /// Count the events of a job by type, and its errors by reason code
    Stats(StatsArgs),
    /// Show the events that contain a text
    Search(SearchArgs),
    /// Write the events of a job as JSON lines, JSON or CSV
    Export(ExportArgs),
}

#[derive(clap::Args, Debug)]
pub(crate) struct ListEventsArgs {
    /// The job [default: the newest]
    #[arg(long, value_name = "JOB")]
    job_id: Option<JobId>,

    #[command(flatten)]
    filter: FilterArgs,
}

#[derive(clap::Args, Debug)]
pub(crate) struct SearchArgs {
    /// The job
    job: JobId,

    /// The text, as it stands in the journal; upper and lower case count
    text: String,

    #[command(flatten)]
    filter: FilterArgs,
}

pub(super) fn run(args: &Args, command: &EventsArgs, out: &mut Output) -> Result<Exit, CliError> {
    match &command.command {
        None => {
            let how = if command.follow { How::Follow } else { How::Once };
            list(args, command.job.as_ref(), command.filter.read(None)?, how, out)
        }
        Some(EventsCommand::Ls(command)) => {
            list(args, command.job_id.as_ref(), command.filter.read(None)?, How::Once, out)
        }
        Some(EventsCommand::Follow(command)) => {
            list(args, command.job_id.as_ref(), command.filter.read(None)?, How::Follow, out)
        }
        Some(EventsCommand::Search(command)) => {
            let filter = command.filter.read(Some(&command.text))?;
            list(args, Some(&command.job), filter, How::Once, out)
        }
        Some(EventsCommand::Stats(command)) => stats::run(args, command, out),
        Some(EventsCommand::Export(command)) => export::run(args, command, out),
    }
}
