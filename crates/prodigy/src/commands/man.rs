//! `prodigy man`.

use std::path::{Path, PathBuf};

use clap::CommandFactory as _;

use crate::{cli::Cli, error::CliError, exit::Exit, output::Console};

/// Print the manual page, or write all pages to a directory
#[derive(clap::Args, Debug)]
pub(crate) struct ManArgs {
    /// Write one page per command to this directory
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(super) fn run_man(_args: &Cli, command: &ManArgs, out: &mut Console) -> Result<Exit, CliError> {
    if let Some(directory) = &command.dir {
        std::fs::create_dir_all(directory)
            .and_then(|()| clap_mangen::generate_to(Cli::command(), directory))
            .map_err(|error| cannot_write(directory, error))?;
        out.note(format_args!("wrote the manual pages to `{}`", directory.display()));
    } else {
        let mut page = Vec::new();
        let command = Cli::command().disable_help_subcommand(true);
        clap_mangen::Man::new(command).render(&mut page).map_err(|error| {
            CliError::new(Exit::Failure, "cannot make the manual page").with_source(error)
        })?;
        out.raw(&page)?;
    }
    Ok(Exit::Success)
}

fn cannot_write(directory: &Path, error: std::io::Error) -> CliError {
    let message = format!("cannot write manual pages to `{}`", directory.display());
    CliError::new(Exit::Failure, message).with_source(error)
}
