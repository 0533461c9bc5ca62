//! `prodigy schema`.

use prodigy_core::{reference, replay, workflow::grammar};

use crate::{cli::Cli, error::CliError, exit::Exit, output::Console};

/// Print the JSON Schema of a file format
///
/// The schema is made from the same tables and types that prodigy reads and writes with.
#[derive(clap::Subcommand, Debug)]
pub(crate) enum SchemaCommand {
    /// Workflow files
    ///
    /// Editors use it to complete and check keys, e.g. with the line
    /// `# yaml-language-server: $schema=workflow.schema.json` in a workflow.
    Workflow,
    /// Replay policies: `.prodigy/replay-policy.yml`
    Policy,
    /// Files of faults, for `prodigy simulate --faults`
    Faults,
    /// Records of the journal, as `prodigy events --json` prints them
    Event,
    /// Files of dead letters, as `prodigy dlq show --json` prints them
    DlqItem,
    /// The checkpoint of a job: `checkpoint.json`
    Checkpoint,
    /// Records of the audit trail: `audit.jsonl`
    AuditRecord,
}

pub(super) fn run_schema(
    _args: &Cli,
    command: &SchemaCommand,
    out: &mut Console,
) -> Result<Exit, CliError> {
    let schema = match command {
        SchemaCommand::Workflow => grammar::json_schema(),
        SchemaCommand::Policy => replay::policy_schema(),
        SchemaCommand::Faults => grammar::faults_schema(),
        SchemaCommand::Event => reference::event_schema(),
        SchemaCommand::DlqItem => reference::dlq_item_schema(),
        SchemaCommand::Checkpoint => reference::checkpoint_schema(),
        SchemaCommand::AuditRecord => reference::audit_record_schema(),
    };
    out.raw(format!("{schema:#}\n").as_bytes())?;
    Ok(Exit::Success)
}
