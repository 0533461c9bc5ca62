//! `prodigy schema`.

use prodigy_core::workflow::grammar;

use crate::{cli::Args, error::CliError, exit::Exit, output::Output};

/// Print the JSON Schema of a file format
///
/// The schema is made from the same tables that prodigy reads the file with.
#[derive(clap::Subcommand, Debug)]
pub(crate) enum SchemaCommand {
    /// Workflow files
    ///
    /// Editors use it to complete and check keys, e.g. with the line
    /// `# yaml-language-server: $schema=workflow.schema.json` in a workflow.
    Workflow,
}

pub(super) fn run(
    _args: &Args,
    command: &SchemaCommand,
    out: &mut Output,
) -> Result<Exit, CliError> {
    let schema = match command {
        SchemaCommand::Workflow => grammar::json_schema(),
    };
    out.raw(format!("{schema:#}\n").as_bytes())?;
    Ok(Exit::Success)
}
