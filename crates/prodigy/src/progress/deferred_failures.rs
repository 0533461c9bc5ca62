//! Failures of items that are shown together at the end.

use prodigy_core::workflow::ErrorCollection;

use super::line::ProgressLine;

/// Failures that wait to be told, as `error_collection` says.
#[derive(Debug)]
pub(crate) struct DeferredFailures {
    pub(crate) mode: ErrorCollection,
    pub(crate) held: Vec<ProgressLine>,
}

impl DeferredFailures {
    /// Adds a failed item; returns the lines to show now.
    pub(crate) fn add(&mut self, line: ProgressLine) -> Vec<ProgressLine> {
        match self.mode {
            // The summary tells them.
            ErrorCollection::Aggregate => Vec::new(),
            ErrorCollection::Immediate => vec![line],
            ErrorCollection::Batched { size } => {
                self.held.push(line);
                if u32::try_from(self.held.len()).is_ok_and(|held| held < size.get()) {
                    return Vec::new();
                }
                std::mem::take(&mut self.held)
            }
        }
    }

    /// Returns the lines to show for a failed attempt that will be retried.
    pub(crate) fn retried(&self, line: ProgressLine) -> Vec<ProgressLine> {
        match self.mode {
            ErrorCollection::Immediate => vec![line],
            ErrorCollection::Aggregate | ErrorCollection::Batched { .. } => Vec::new(),
        }
    }

    /// Returns what was not told yet.
    pub(crate) fn drain(&mut self) -> Vec<ProgressLine> {
        std::mem::take(&mut self.held)
    }
}
