//! The reports of a run: live on a terminal, in plain lines elsewhere, and a summary at its end.

mod constraint;
mod deferred_failures;
pub(crate) mod event_reporter;
mod item_reporter;
#[cfg(test)]
pub(crate) mod job_fixture;
pub(crate) mod line;
mod live;
mod plain;
pub(crate) mod run_log;
mod status_block;
mod ticker;
mod totals;

use std::{
    io::{self, BufRead as _, IsTerminal as _, Write as _},
    num::NonZeroU32,
    sync::mpsc::{RecvTimeoutError, channel},
    time::Duration,
};

use item_reporter::ItemReporter;
use live::LiveReporter;
use plain::PlainReporter;
use prodigy_core::workflow::{Body, ErrorCollection, Workflow};
use prodigy_engine::run::{MergeConfirmer, MergeQuestion, Reporter, control::shutdown::Shutdown};

pub(crate) use constraint::quota_message;
pub(crate) use line::plural;
pub(crate) use status_block::{activity_text, line_endings, padded, truncate};
pub(crate) use totals::{format_estimate, format_rate};

/// The interval at which the wait for an answer checks for a shutdown.
const LOOK: Duration = Duration::from_millis(50);

/// Returns who shows a run: a live line on a terminal, plain lines elsewhere.
///
/// `max_parallel` is how many items at once, if not as many as the workflow or the job says.
pub(crate) fn reporter(
    workflow: &Workflow,
    max_parallel: Option<NonZeroU32>,
    color: bool,
) -> Box<dyn Reporter> {
    let (errors, usual) = match &workflow.body {
        Body::Sequential { .. } => (ErrorCollection::Immediate, 1),
        Body::MapReduce(body) => {
            let usual = max_parallel.unwrap_or(body.map.max_parallel).get();
            (body.error_policy.error_collection, usual)
        }
    };
    let teller = ItemReporter::new(errors, usual).follow_job(max_parallel.is_none());
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    if io::stderr().is_terminal() && !dumb && !set("CI") {
        Box::new(LiveReporter::new(teller, color))
    } else {
        Box::new(PlainReporter::new(teller, color))
    }
}

/// Returns who is asked before the merge.
pub(crate) fn merge_prompt(shutdown: Shutdown) -> Box<dyn MergeConfirmer> {
    Box::new(MergePrompt { shutdown })
}

/// The person at the terminal, if there is one.
struct MergePrompt {
    shutdown: Shutdown,
}

impl MergeConfirmer for MergePrompt {
    fn merge(&mut self, question: &MergeQuestion) -> Option<bool> {
        if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            return None;
        }
        let MergeQuestion { source, target, commits, files } = question;
        let commits = line::plural(*commits, "commit");
        let files = line::plural(*files, "file");
        write!(io::stderr(), "merge {source} into {target} ({commits}, {files})? [y/N] ").ok()?;
        io::stderr().flush().ok()?;
        let answer = self.answer()?;
        Some(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
    }
}

impl MergePrompt {
    /// Waits for a line; Ctrl-C ends the wait, which it would not do by itself.
    fn answer(&self) -> Option<String> {
        let (answered, answer) = channel();
        // If nobody answers, the thread ends with the program.
        drop(std::thread::spawn(move || {
            let mut line = String::new();
            if io::stdin().lock().read_line(&mut line).is_ok() {
                // Nobody waits any more after Ctrl-C.
                answered.send(line).ok();
            }
        }));
        loop {
            match answer.recv_timeout(LOOK) {
                Ok(line) => return Some(line),
                Err(RecvTimeoutError::Timeout) if self.shutdown.reason().is_none() => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    // The question stands in an unfinished line.
                    writeln!(io::stderr()).ok();
                    return None;
                }
            }
        }
    }
}
