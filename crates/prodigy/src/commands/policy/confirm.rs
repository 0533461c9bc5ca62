//! `prodigy policy confirm`.

use prodigy_core::{
    audit::AuditAction,
    replay::approval::{is_digest_prefix, matches_digest},
};
use prodigy_engine::{
    clock,
    governance::{PolicySource, UnconfirmedFile, confirmation},
    process::ProcessOrigin,
    store::audit::AuditTrail,
};

use crate::{
    cli::Cli,
    commands::{
        audit::audit_error, context, dlq::automation_error, policy::policy_file::policy_error,
    },
    error::CliError,
    exit::Exit,
    render::console::{Console, one_line},
};

/// Confirm a policy that a job committed
///
/// The policy and the files of signers that it names decide as they are committed on the branch
/// that a job merges into. If a job's own commits changed one of them last, nothing is decided until a
/// person has read it and confirmed that content. Without `--expect` it is shown and
/// nothing is changed. What you confirm is recorded in the audit trail. A running step cannot confirm.
///
/// Exit codes: 0 if it is confirmed or nothing has to be; 1 if the digest is another; 8 if something waits
/// to be confirmed; 10 below a running step.
///
/// For example: `prodigy policy confirm`, then
/// `prodigy policy confirm --expect sha256:a635ee7e12ab`.
#[derive(clap::Args, Debug)]
pub(crate) struct PolicyConfirmArgs {
    /// The branch that jobs merge into [default: the one that is checked out]
    #[arg(long, value_name = "BRANCH")]
    branch: Option<String>,

    /// The digest of what you have read, or at least its first 12 digits
    #[arg(long, value_name = "DIGEST")]
    expect: Option<String>,
}

pub(super) fn run(
    args: &Cli,
    command: &PolicyConfirmArgs,
    out: &mut Console,
) -> Result<Exit, CliError> {
    let repo = context::repo(None)?;
    let layout = context::layout(&context::resolve_home(args)?, &repo)?;
    let branch = match &command.branch {
        Some(branch) if repo.branch_tip(branch).map_err(context::git_error)?.is_none() => {
            return Err(CliError::new(Exit::Usage, format!("there is no branch `{branch}`")));
        }
        Some(branch) => Some(branch.clone()),
        None => repo.head().map_err(context::git_error)?.branch,
    };
    let source = PolicySource::new(repo.clone(), layout.clone(), branch);
    let waiting = source.read_unconfirmed().and_then(|committed| source.unconfirmed(&committed));
    let waiting = waiting.map_err(|error| policy_error(error, out))?;
    let Some(expect) = &command.expect else {
        return show(args, command, &waiting, out);
    };
    let digest_hint = "`prodigy policy confirm` shows what waits, and its digest";
    if !is_digest_prefix(expect) {
        let message = format!("`{expect}` is not a digest");
        return Err(CliError::new(Exit::Usage, message).with_hint(digest_hint));
    }
    let Some(file) = waiting.iter().find(|file| matches_digest(expect, &file.digest())) else {
        let message = format!("nothing that waits to be confirmed has the digest `{expect}`");
        return Err(CliError::new(Exit::Failure, message).with_hint(digest_hint));
    };
    if ProcessOrigin::of_process().is_automation {
        return Err(automation_error(AuditAction::ConfirmPolicy));
    }
    let person = context::actor(&repo);
    context::ensure_home(args)?;
    let audit = AuditTrail::open(&layout, &repo).map_err(audit_error)?;
    audit.append(vec![confirmation(file, &person)], clock::now()).map_err(audit_error)?;
    out.line(format_args!("confirmed  {} as {person}", file.path))?;
    Ok(Exit::Success)
}

/// Shows what waits to be confirmed.
fn show(
    args: &Cli,
    command: &PolicyConfirmArgs,
    waiting: &[UnconfirmedFile],
    out: &mut Console,
) -> Result<Exit, CliError> {
    if waiting.is_empty() {
        out.note("nothing to confirm: no job has changed the policy or its signers last");
        return Ok(Exit::Success);
    }
    let program = context::self_command(args);
    let branch =
        command.branch.as_ref().map(|name| format!(" --branch {name}")).unwrap_or_default();
    for file in waiting {
        let UnconfirmedFile { path, job, commit, content, .. } = file;
        out.line(format_args!("file      {}", one_line(path)))?;
        out.line(format_args!("changed   by job {job} in commit {commit}"))?;
        out.line(format_args!("digest    {}", file.digest()))?;
        for line in String::from_utf8_lossy(content).lines() {
            out.line(format_args!("| {}", one_line(line)))?;
        }
        out.flush()?;
        let digest = file.digest();
        out.note(format_args!("next: {program} policy confirm{branch} --expect {digest}"));
    }
    Ok(Exit::AwaitingApproval)
}
