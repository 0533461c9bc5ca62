//! `prodigy audit restart`.

use prodigy_core::{
    audit::{AuditAction, IdentityKind, NewAuditRecord},
    ids::JobId,
};
use prodigy_engine::{
    clock,
    store::audit::{ArchivedTrail, AuditTrail},
};

use super::audit_error;
use crate::{cli::Cli, commands::context, error::CliError, exit::Exit, render::console::Console};

/// The name that stands for the trail itself where records name a job.
const TRAIL: &str = "audit-trail";

/// Begin a new audit trail after the old one was lost or damaged
///
/// The old file and its anchor are kept beside the new ones, and the first record of the new trail
/// says who began it and why. Put the old file back from a backup instead if you can:
/// `prodigy audit verify` says whether it is intact then.
///
/// For example, `prodigy audit restart --reason "the disk died, no backup"`.
#[derive(clap::Args, Debug)]
pub(crate) struct AuditRestartArgs {
    /// The reason; it is recorded
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

pub(super) fn run(
    args: &Cli,
    command: &AuditRestartArgs,
    out: &mut Console,
) -> Result<Exit, CliError> {
    let repo = context::repo(None)?;
    let layout = context::layout(&context::ensure_home(args)?, &repo)?;
    if command.reason.trim().is_empty() {
        return Err(CliError::new(Exit::Usage, "the reason is empty")
            .with_hint("say in a few words why; it is recorded"));
    }
    let audit = AuditTrail::open(&layout, &repo).map_err(audit_error)?;
    let job: JobId = TRAIL.parse().map_err(|error| {
        CliError::new(Exit::Failure, "the audit trail has no name").with_source(error)
    })?;
    let (by, action) = (context::actor(&repo), AuditAction::RestartTrail);
    let mut record = NewAuditRecord::new(by, IdentityKind::Asserted, action, job);
    record.reason = Some(crate::commands::prepare::secrets::mask_inherited(&command.reason));
    let ArchivedTrail { file, reference } =
        audit.restart(record, clock::now()).map_err(audit_error)?;
    out.line("a new audit trail begins")?;
    if let Some(file) = file {
        out.line(format_args!("the old one is in {}", file.display()))?;
    }
    if let Some(reference) = reference {
        out.line(format_args!("its anchor is {reference}"))?;
    }
    Ok(Exit::Success)
}
