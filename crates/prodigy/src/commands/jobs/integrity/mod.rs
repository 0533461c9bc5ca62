//! `prodigy verify`.

mod item_checks;
mod journal_check;
mod output_checks;
pub(crate) mod repair;
mod unrecorded_failures;

use prodigy_core::ids::JobId;
use serde_json::json;

use crate::{
    cli::Cli,
    commands::lookup::{find_job, job_error},
    error::CliError,
    exit::Exit,
    render::console::Console,
};

/// The version of the document that `--json` prints.
const SCHEMA_VERSION: u32 = 1;

/// Verify a job's integrity
///
/// Every record is read again and has to fit the ones before it; then the checkpoint,
/// the stored workflow, the output of the steps and the merge have to be what the
/// records say. Every item has to be accounted for exactly once, after every record.
/// Nothing is changed. The job may be running.
#[derive(clap::Args, Debug)]
pub(crate) struct VerifyArgs {
    /// The job
    job: JobId,

    /// Print a JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Cli, command: &VerifyArgs, out: &mut Console) -> Result<Exit, CliError> {
    let (layout, job) = find_job(args, &command.job)?;
    let findings =
        journal_check::check_job(&layout, &job).map_err(|error| job_error(&job, error))?;
    let failed = findings.iter().filter(|finding| !finding.ok).count();
    if command.json {
        let document = json!({
            "schema_version": SCHEMA_VERSION, "job_id": job, "whole": failed == 0, "checks": findings,
        });
        out.raw(format!("{document:#}\n").as_bytes())?;
    } else {
        for finding in &findings {
            let word = if finding.ok { "ok  " } else { "FAIL" };
            out.line(format_args!("{word}  {} — {}", finding.check, finding.detail))?;
        }
        let verdict = match failed {
            0 => "intact".to_owned(),
            _ => format!("not intact: {failed} of {} checks failed", findings.len()),
        };
        out.line(format_args!("job `{job}` is {verdict}"))?;
    }
    if failed == 0 {
        return Ok(Exit::Success);
    }
    // A repair mends the journal and nothing else.
    if findings.iter().any(|finding| finding.check == journal_check::END) {
        out.note(format_args!(
            "\nnext: put the journal back from a backup, or `prodigy repair {job} --accept-lost-end`"
        ));
    } else if findings.iter().any(|finding| finding.check == journal_check::JOURNAL && !finding.ok)
    {
        out.note(format_args!("\nnext: `prodigy repair {job} --dry-run` says what can be kept"));
    } else {
        out.note(format_args!("\nnext: `prodigy events {job}` shows what the journal says"));
    }
    Ok(Exit::Failure)
}
