//! The events of a job that matter for its output.

use std::time::Duration;

use prodigy_core::{
    duration,
    event::{Event, LogRange},
};

use crate::commands::jobs::events::shorten_line;

/// Something that matters for what is shown.
pub(crate) enum LogEvent<'a> {
    /// A step began.
    Began { step: &'a str, name: &'a str },
    /// A step was passed over.
    Skipped { step: &'a str },
    /// A try of a step ended.
    Ended { step: &'a str, how: String, log: Option<&'a LogRange>, is_over: bool },
    /// An attempt of the item began.
    Attempt { number: u32 },
    /// An attempt of the item failed.
    Failed { number: u32, why: String },
    /// The item has come to its end, and nothing of it will print any more.
    Over,
}

impl<'a> LogEvent<'a> {
    /// Returns what an event means for the output, if it means anything.
    pub(crate) fn from_event(event: &'a Event) -> Option<Self> {
        match event {
            Event::StepStarted { step, name, .. } => Some(Self::Began { step, name }),
            Event::StepSkipped { step, .. } => Some(Self::Skipped { step }),
            Event::StepCompleted(done) => {
                let how = format!("exit {}, {}", done.exit_code, format_millis(done.duration_ms));
                let log = done.log.as_ref();
                Some(Self::Ended { step: &done.step, how, log, is_over: true })
            }
            Event::StepFailed { step, failure, duration_ms, log, .. } => {
                let code = failure.exit_code.map(|code| format!("exit {code}"));
                let how = code.unwrap_or_else(|| failure.kind.to_string());
                let how = format!("{how}, {}", format_millis(*duration_ms));
                Some(Self::Ended { step, how, log: log.as_ref(), is_over: false })
            }
            Event::AgentStarted { attempt, .. } => Some(Self::Attempt { number: *attempt }),
            Event::AgentFailed(failed) => {
                let why =
                    format!("{}: {}", failed.failure.kind, shorten_line(&failed.failure.message));
                Some(Self::Failed { number: failed.attempt, why })
            }
            Event::AgentCompleted(done) if !done.has_commits() => Some(Self::Over),
            Event::ItemSkipped { .. }
            | Event::ItemDeadLettered { .. }
            | Event::WorktreeMerged { .. } => Some(Self::Over),
            Event::JobStarted(_)
            | Event::JobResumed { .. }
            | Event::JobPaused { .. }
            | Event::JobCompleted { .. }
            | Event::JobFailed { .. }
            | Event::ItemsSelected { .. }
            | Event::ItemQueued {}
            | Event::AgentCompleted(_)
            | Event::AgentRetrying { .. }
            | prodigy_core::circuit_news!()
            | Event::PhaseStarted { .. }
            | Event::PhaseCompleted { .. }
            | Event::AgentUsage { .. }
            | prodigy_core::agent_news!()
            | Event::AgentReleased { .. }
            | prodigy_core::spending_news!()
            | Event::WorktreeCreated { .. }
            | Event::WorktreePreserved { .. }
            | Event::WorktreeCleaned { .. }
            | Event::WorkKept(_)
            | Event::MergeConflict { .. }
            | prodigy_core::resolution_news!()
            | Event::GitTampering { .. }
            | Event::CheckoutUpdateStarted(_)
            | prodigy_core::checkout_news!()
            | Event::ReplayStarted { .. }
            | Event::DlqItemRemoved { .. }
            | Event::DlqItemUpdated { .. }
            | prodigy_core::approval_news!()
            | prodigy_core::effect_news!()
            | Event::JournalEndLost { .. }
            | Event::CheckpointCreated { .. } => None,
        }
    }
}

fn format_millis(milliseconds: u64) -> String {
    duration::format(Duration::from_millis(milliseconds))
}
