//! `prodigy audit`.

mod restart;
mod show;
mod verify;

use prodigy_engine::store::audit;

use crate::{
    cli::Cli,
    error::{CliError, error_chain},
    exit::Exit,
    render::console::Console,
};

/// The version of the JSON documents.
const SCHEMA_VERSION: u32 = 1;

/// Look into what was done to dead letters, by whom, and by which rule
///
/// Before a dead letter is replayed, closed or changed, that is recorded; what became of it is
/// recorded afterwards. Each record holds the hash of the one before it, and the last hash is
/// kept in the repository (`refs/prodigy/audit/`), so that changes and gaps show.
#[derive(clap::Subcommand, Debug)]
pub(crate) enum AuditCommand {
    Verify(verify::AuditVerifyArgs),
    Show(show::AuditShowArgs),
    Restart(restart::AuditRestartArgs),
}

pub(super) fn run(args: &Cli, command: &AuditCommand, out: &mut Console) -> Result<Exit, CliError> {
    match command {
        AuditCommand::Verify(command) => verify::run(args, command, out),
        AuditCommand::Show(command) => show::run(args, command, out),
        AuditCommand::Restart(command) => restart::run(args, command, out),
    }
}

/// Turns an error of the audit trail into one for people.
#[expect(clippy::needless_pass_by_value, reason = "this is what `map_err` hands over")]
pub(crate) fn audit_error(error: audit::Error) -> CliError {
    let shown = CliError::new(Exit::Failure, error_chain(&error));
    match error.hint() {
        Some(hint) => shown.with_hint(hint),
        None => shown,
    }
}
