//! The output of an action, as it is stored while its work is suspended.

use serde::{Deserialize, Serialize};

use super::output::ActionOutput;
use crate::process::CapturedOutput;

/// The output of an action. What was printed is stored as text; the log has the bytes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct SavedOutput {
    stdout: SavedStream,
    stderr: SavedStream,
    slot: u32,
    exit_code: i32,
    instead: Option<String>,
    agent: bool,
    is_data: bool,
    transcript: bool,
    adopted: bool,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct SavedStream {
    head: String,
    tail: String,
    total: u64,
    log_at: u64,
    log_len: u64,
}

impl SavedStream {
    fn of(printed: &CapturedOutput) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let CapturedOutput { head, tail, total, log_at, log_len } = printed;
        let (head, tail) = (text(head), text(tail));
        Self { head, tail, total: *total, log_at: *log_at, log_len: *log_len }
    }

    fn restore(self) -> CapturedOutput {
        let Self { head, tail, total, log_at, log_len } = self;
        CapturedOutput { head: head.into_bytes(), tail: tail.into_bytes(), total, log_at, log_len }
    }
}

impl SavedOutput {
    /// Stores an output.
    pub(super) fn of(output: &ActionOutput) -> Self {
        let (stdout, stderr) = (SavedStream::of(&output.stdout), SavedStream::of(&output.stderr));
        let &ActionOutput { slot, exit_code, agent, is_data, transcript, adopted, .. } = output;
        let instead = output.instead.clone();
        Self { stdout, stderr, slot, exit_code, instead, agent, is_data, transcript, adopted }
    }

    /// Returns the output.
    pub(super) fn restore(self) -> ActionOutput {
        let (stdout, stderr) = (self.stdout.restore(), self.stderr.restore());
        let Self { slot, exit_code, instead, agent, is_data, transcript, adopted, .. } = self;
        ActionOutput {
            stdout,
            stderr,
            slot,
            exit_code,
            instead,
            agent,
            is_data,
            transcript,
            adopted,
        }
    }
}
