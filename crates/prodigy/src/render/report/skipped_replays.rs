//! The outcome of the dead letters that a run was to replay.

use prodigy_core::job::{AbortReason, AbortedCause};
use prodigy_engine::run::{ReplayRefusal, ReplaySummary};

use crate::{progress::plural, render::console::Console};

/// The most dead letters that are named one by one.
const NAMED: usize = 10;

/// Says what was not replayed after all, and why.
pub(crate) fn print_skipped_replays(replayed: &ReplaySummary, out: &mut Console) {
    for ReplayRefusal { item, why } in replayed.refused.iter().take(NAMED) {
        out.note(format_args!("not replayed: {item}: {why}"));
    }
    let more = replayed.refused.len().saturating_sub(NAMED);
    if more > 0 {
        out.note(format_args!("not replayed: {more} more, for reasons like these"));
    }
    for stopped in &replayed.stopped {
        out.note(describe_stop(stopped));
    }
}

fn describe_stop(stopped: &AbortedCause) -> String {
    let AbortedCause { pattern, untried, why, .. } = stopped;
    let entries = plural(*untried, "entry").replace("entrys", "entries");
    let why = match why {
        AbortReason::Canary => "one that went first failed with the same error".to_owned(),
        AbortReason::Failures { failed, ended, ratio } => {
            format!("{failed} of {ended} failed, and `abort_failure_ratio` is {ratio}")
        }
    };
    format!("stopped: {entries} of cause `{pattern}`: {why}; nothing was changed about them")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_that_was_stopped_says_why() {
        let stopped = |untried, why| {
            let (signature, pattern) = ("ab".to_owned(), "CommandFailed::exit code <n>".to_owned());
            describe_stop(&AbortedCause { signature, pattern, untried, why })
        };
        insta::assert_snapshot!(stopped(12, AbortReason::Canary), @"stopped: 12 entries of cause `CommandFailed::exit code <n>`: one that went first failed with the same error; nothing was changed about them");
        let failures = AbortReason::Failures { failed: 2, ended: 5, ratio: 0.3 };
        insta::assert_snapshot!(stopped(1, failures), @"stopped: 1 entry of cause `CommandFailed::exit code <n>`: 2 of 5 failed, and `abort_failure_ratio` is 0.3; nothing was changed about them");
    }
}
