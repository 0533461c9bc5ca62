//! Errors of a run as errors of the command line.

use std::borrow::Cow;

use prodigy_core::ids::JobId;
use prodigy_engine::{git, run};

use crate::{
    commands::{context, lookup::job_error},
    error::{CliError, error_chain},
    exit::Exit,
};

/// Turns an error of a run into one for people.
pub(crate) fn run_error(error: run::Error, job: &JobId) -> CliError {
    if let run::Error::Store(error) = error {
        return job_error(job, error);
    }
    let resume = format!("`prodigy resume {job}` goes on once that is fixed");
    let message = error_chain(&error);
    let (exit, hint) = match &error {
        run::Error::Journal { .. } => (Exit::Failure, Some(resume)),
        run::Error::DiskFloor { .. } => {
            (Exit::Failure, Some("make some room, or set `PRODIGY_DISK_FLOOR` lower".to_owned()))
        }
        run::Error::Journalled { .. } | run::Error::NoBeginning { .. } => {
            (Exit::Failure, Some(format!("`prodigy repair {job} --dry-run` looks closer")))
        }
        run::Error::Completed { .. } => {
            (Exit::Usage, Some(format!("`prodigy jobs show {job}` shows how it ended")))
        }
        run::Error::OtherRepository { repository, .. } => {
            (Exit::Usage, Some(format!("add `--path {}`", context::shell_quote(repository))))
        }
        run::Error::OtherWorkflow(_) => {
            (Exit::Usage, Some("leave out `--use-current-workflow`".to_owned()))
        }
        run::Error::NoStepForEffect { .. } => {
            let hint = "put the step back as it was, or leave out `--use-current-workflow`";
            (Exit::Usage, Some(hint.to_owned()))
        }
        run::Error::Audit(error) => {
            let hint = error.hint().map_or_else(|| resume.clone(), Cow::into_owned);
            (Exit::Failure, Some(hint))
        }
        run::Error::Daybook(_) => (
            Exit::Failure,
            Some("fix that, or take `day_usd` out of `budget` to run without it".to_owned()),
        ),
        run::Error::Letters(_) => {
            (Exit::Failure, Some(format!("`prodigy dlq fsck {job}` makes them anew")))
        }
        run::Error::Git(shown @ git::Error::Failed { lock: Some(_), .. }) => {
            let hint = shown.hint();
            (Exit::Failure, hint.map(|hint| format!("{hint}, then `prodigy resume {job}`")))
        }
        run::Error::Git(error) => (Exit::Failure, error.hint().map(Cow::into_owned)),
        run::Error::Store(_) | run::Error::Prepare { .. } => (Exit::Failure, None),
    };
    let error = CliError::new(exit, message);
    match hint {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}
