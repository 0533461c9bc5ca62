//! Jobs that were worked on by another machine, or in another home.

use std::io::{self, BufRead as _, IsTerminal as _};

use prodigy_core::ids::JobId;
use prodigy_engine::store::{self, JobLocation, Layout};

use super::job_error;
use crate::{
    error::CliError,
    exit::Exit,
    render::console::{Console, one_line},
};

/// Makes sure that a job may be worked on here: it was before, `--here` was given, or a person
/// says yes.
pub(crate) fn confirm_takeover(
    layout: &Layout,
    job: &JobId,
    here: bool,
    command: &str,
    out: &mut Console,
) -> Result<(), CliError> {
    let failed = |error| job_error(job, error);
    let Some(JobLocation { host, home, .. }) = layout.other_location(job).map_err(failed)? else {
        return Ok(());
    };
    let (host, home) = (one_line(&host), one_line(&home));
    if !here {
        if !io::stdin().is_terminal() {
            let error = store::Error::Elsewhere { job: job.clone(), host, home };
            return Err(CliError::new(Exit::Usage, error.to_string()).with_hint(format!(
                "if it does not run there any more, `{command} --here` works on it here"
            )));
        }
        out.note(format_args!(
            "Job `{job}` was last worked on by host `{host}` in the home `{home}`. If it still runs there, \
             both do the same work. Work on it here? [y/N]"
        ));
        let mut answer = String::new();
        // No answer is no.
        io::stdin().lock().read_line(&mut answer).ok();
        if !matches!(answer.trim(), "y" | "Y" | "yes") {
            return Err(CliError::new(Exit::Failure, format!("job `{job}` was left alone")));
        }
    }
    layout.record_location(job).map_err(failed)?;
    out.note(format_args!("job `{job}` is worked on here from now on, not by host `{host}`"));
    Ok(())
}
