//! Failures that no step is to blame for: git, files, supervisors.

use std::{error::Error, io, iter};

use prodigy_core::{
    classify::{reason_from_io_error, reason_from_output},
    failure::{Failure, ReasonCode},
};

use super::output::{ActionFailure, ActionOutput};
use crate::{process, root_dir};

/// Makes a failure of something that could not be done with a worktree.
///
/// The reason code follows from what the operating system said, then from the words.
pub fn infrastructure_failure(error: &(dyn Error + 'static)) -> Failure {
    let causes = || iter::successors(Some(error), |&error| error.source());
    let message = causes().map(ToString::to_string).collect::<Vec<_>>().join(": ");
    let found =
        causes().find_map(|cause| reason_from_io_error(cause.downcast_ref::<io::Error>()?.kind()));
    match found {
        Some(kind) => Failure::new(kind, message),
        None => worktree_failure(message),
    }
}

/// Makes a failure of something that could not be done with a worktree, of its words alone.
pub fn worktree_failure(message: impl Into<String>) -> Failure {
    let message = message.into();
    Failure::new(reason_from_output(&message).unwrap_or(ReasonCode::WorktreeError), message)
}

/// Makes a failure of a file that could not be read or written.
pub(super) fn file_failure(error: &io::Error, message: &str) -> Failure {
    Failure::new(reason_from_io_error(error.kind()).unwrap_or(ReasonCode::WorktreeError), message)
}

/// Makes a failure of a path that could not be opened in the worktree; the words are those for
/// a file that cannot be used.
pub(super) fn path_failure(
    error: &root_dir::Error,
    words: impl FnOnce(&io::Error) -> String,
) -> Failure {
    match error.io() {
        Some(error) => file_failure(error, &words(error)),
        None => Failure::new(ReasonCode::WorktreeError, error.to_string()),
    }
}

/// Makes a failure of a launch that was not seen to its end.
pub(super) fn launch_failure(error: &process::Error) -> Box<ActionFailure> {
    match error {
        process::Error::TooLarge => ActionFailure::without_output(Failure::new(
            ReasonCode::PayloadTooLarge,
            error.to_string(),
        )),
        // The step was not started.
        process::Error::Log { message } => {
            let kind = reason_from_output(message).unwrap_or(ReasonCode::StoreUnavailable);
            ActionFailure::without_output(Failure::new(kind, error.to_string()))
        }
        // There was no supervisor that could have started it.
        process::Error::Start { .. } | process::Error::NoSupervisor { .. } => {
            ActionFailure::without_output(Failure::new(ReasonCode::WorkerLost, error.to_string()))
        }
        process::Error::TimedOut { .. }
        | process::Error::TooMuchOutput { .. }
        | process::Error::Follow { .. }
        | process::Error::Lost { .. } => {
            let failure = Failure::new(ReasonCode::WorkerLost, error.to_string());
            ActionFailure::with_output(failure, ActionOutput::default())
        }
    }
}
