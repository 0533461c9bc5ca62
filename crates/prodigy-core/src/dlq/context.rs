//! The facts of a job that its DLQ entries need.

use serde::{Deserialize, Serialize};

use super::dead_letter::fingerprint;
use crate::{
    event::{EnvironmentFingerprint, Event},
    ids::ItemId,
};

/// The facts that a DLQ entry needs and that are not in the records of its item.
#[derive(Clone, Copy)]
pub struct DeadLetterContext<'a> {
    /// The facts of the current run.
    pub run: &'a RunFingerprint,
    /// Returns the file with what an attempt of an item printed.
    pub log: &'a dyn Fn(&ItemId, u32) -> String,
    /// Returns the worktree with a name below those of the job: `job`, `agent-1`.
    pub worktree: &'a dyn Fn(&str) -> String,
}

/// The facts of a run that DLQ entries need.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFingerprint {
    /// The SHA-256 of the workflow.
    pub workflow_hash: String,
    /// The environment of its steps.
    pub found: EnvironmentFingerprint,
}

impl RunFingerprint {
    /// Applies an event about the job as a whole.
    pub fn apply(&mut self, event: &Event) {
        if let Event::JobStarted(started) = event {
            self.workflow_hash.clone_from(&started.workflow_hash);
            self.found = started.found.clone().unwrap_or_default();
        } else if let Event::JobResumed { workflow, found, .. } = event {
            if let Some(workflow) = workflow {
                self.workflow_hash.clone_from(&workflow.hash);
            }
            if let Some(found) = found {
                self.found = (**found).clone();
            }
        }
    }

    /// Returns what names all of it: 16 hexadecimal digits.
    pub fn fingerprint(&self) -> String {
        fingerprint(&self.workflow_hash, &self.found.tool_hash, &self.found.env_hash)
    }

    /// Returns what names all of it, and what names it for attempts that did not write down
    /// what they found: nothing may follow from that.
    pub fn fingerprints(&self) -> [String; 2] {
        [self.fingerprint(), fingerprint(&self.workflow_hash, "", "")]
    }
}
