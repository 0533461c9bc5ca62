//! Sessions of agents: what they are called, and which of them is gone on with.
//!
//! An attempt that was cut off by circumstances goes on in the session it had, with all that
//! the agent has read. After a failure that lies in the work, and after a success, a new session
//! begins. What is kept here is a shortcut: without it a session is begun anew.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use prodigy_core::{
    agent::{StreamDialect, StreamState, TokenUsage, is_session_name},
    failure::Failure,
    ids::hex,
    workflow::Ability,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{
    agent::{Agent, AgentReport, SessionRef},
    step::{StepContext, StepOwner},
    store::{self, AgentRun},
};

/// The most sessions that one step has; behind it they are not told apart any more.
const MOST: u32 = 1000;
/// The longest record of a session.
const RECORD_LIMIT: u64 = 64 * 1024;

/// A session, and what is to be said in it about what was before.
#[derive(Debug)]
pub(crate) struct AgentSession {
    id: String,
    resumes: Option<SessionOrigin>,
    /// Where its record is; nothing if the agent has no sessions.
    file: Option<PathBuf>,
    /// Where the job keeps what the agent wrote of it; nothing if the agent keeps it itself.
    kept: Option<PathBuf>,
    record: SessionRecord,
}

/// Where a session was cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SessionOrigin {
    /// In the same worktree.
    Here,
    /// In the same worktree, which was brought back to an earlier state.
    Before,
    /// In another one, which is gone.
    Elsewhere,
}

/// The stored state of a session.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct SessionRecord {
    /// The agent's own name for it; some choose it themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    /// Set if it is finished: the next prompt begins another one.
    #[serde(default)]
    is_over: bool,
    /// The run of the work that the last prompt was part of.
    place: String,
    /// The usage in it so far.
    #[serde(default, skip_serializing_if = "TokenUsage::is_empty")]
    used: TokenUsage,
    /// The cost of that, as far as the agent reported it.
    #[serde(default)]
    cost_usd: f64,
    /// The last run that was counted after prodigy was killed; each is counted once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    counted: Option<String>,
}

impl AgentSession {
    /// Returns the session of the next prompt of a step.
    pub(crate) fn open(
        workplace: &StepContext,
        agent: &dyn Agent,
        step: &str,
        cwd: &Path,
        env: &[(OsString, OsString)],
    ) -> Self {
        let identity = &workplace.identity;
        if !agent.kind().supports(Ability::Resume) {
            let (id, record) = (session_uuid(identity, step, 0), SessionRecord::default());
            return Self { id, resumes: None, file: None, kept: None, record };
        }
        let directory = workplace.tools.state.join("sessions");
        let file = |id: &str| directory.join(format!("{id}.json"));
        let mut generations = (0..MOST).map(|generation| session_uuid(identity, step, generation));
        let found = generations.find(|id| read(&file(id)).is_none_or(|record| !record.is_over));
        let uuid = found.unwrap_or_else(|| session_uuid(identity, step, MOST));
        let path = file(&uuid);
        let before = read(&path);
        let progress = workplace.progress();
        let place = progress.run_name().to_owned();
        let own = before.as_ref().and_then(|before| before.session.clone());
        let own = own.filter(|name| is_session_name(name));
        let id = own.unwrap_or_else(|| uuid.clone());
        let is_here = before.as_ref().is_some_and(|before| progress.has_files_of(&before.place));
        let cut = match is_here {
            true => SessionOrigin::Here,
            false if progress.is_resumed() => SessionOrigin::Before,
            false => SessionOrigin::Elsewhere,
        };
        let kept = workplace.session_dir(agent, step);
        let looked_in = kept.clone().or_else(|| agent.config_dir(env));
        let resumes =
            looked_in.is_some_and(|it| agent.restore_session(&id, cwd, &it)).then_some(cut);
        let id = if resumes.is_some() { id } else { uuid };
        let before = before.filter(|_| resumes.is_some()).unwrap_or_default();
        let SessionRecord { used, cost_usd, .. } = before;
        let counted = None;
        let record =
            SessionRecord { session: None, is_over: false, place, used, cost_usd, counted };
        let conversation = Self { id, resumes, file: Some(path), kept, record };
        conversation.keep(&directory);
        conversation
    }

    /// Returns its name, and whether it is gone on with.
    pub(crate) fn session(&self) -> SessionRef<'_> {
        SessionRef { id: &self.id, resume: self.resumes.is_some() }
    }

    /// Returns whether the agent has sessions at all.
    pub(crate) fn is_resumable(&self) -> bool {
        self.file.is_some()
    }

    /// Returns what an agent is told that was cut off.
    pub(crate) fn resume_notice(&self) -> Option<&'static str> {
        match self.resumes? {
            SessionOrigin::Here => Some(
                "You were cut off before you had finished. The files are as you left them; go on \
                 with this:",
            ),
            SessionOrigin::Before => Some(
                "You were cut off before you had finished. The worktree was brought back to an \
                 earlier state: what you changed last is not in it. Look at its files and commits, \
                 and go on with this:",
            ),
            SessionOrigin::Elsewhere => Some(
                "You were cut off before you had finished. This is a fresh worktree: what you \
                 changed before is not in it, so make those changes again. Go on with this:",
            ),
        }
    }

    /// Returns somebody who listens to it.
    pub(crate) fn stream_state(&self, dialect: StreamDialect) -> StreamState {
        StreamState::resumed(dialect, self.record.used, self.record.cost_usd)
    }

    /// Returns what earlier processes of the session used and cost.
    pub(crate) fn previous_usage(&self) -> (TokenUsage, f64) {
        (self.record.used, self.record.cost_usd)
    }

    /// Returns the name of its record, if the agent has sessions.
    pub(crate) fn record_name(&self) -> Option<String> {
        self.file.as_deref()?.file_stem()?.to_str().map(str::to_owned)
    }

    /// Takes down how the prompt ended, and what it cost if that is known.
    pub(crate) fn close(
        mut self,
        report: &AgentReport,
        cost_usd: Option<f64>,
        failure: Option<&Failure>,
    ) {
        let is_cut_off = report.limit.is_some()
            || failure.is_some_and(|failure| failure.kind.is_environmental());
        self.record.is_over = !is_cut_off;
        if let Some(kept) = self.kept.as_deref().filter(|_| !is_cut_off) {
            // Nobody goes on with it, and it holds whatever the agent saw.
            fs::remove_dir_all(kept).ok();
        }
        self.end(report.session.as_deref(), report.usage, cost_usd);
    }

    /// Takes down what was heard of a prompt whose end nobody saw.
    pub(crate) fn close_interrupted(self, heard: &StreamState, cost_usd: Option<f64>) {
        self.end(heard.session(), heard.usage(), cost_usd);
    }

    fn end(mut self, session: Option<&str>, used: TokenUsage, cost_usd: Option<f64>) {
        let Some(directory) = self.file.as_deref().and_then(Path::parent).map(Path::to_owned)
        else {
            return;
        };
        self.record.used += used;
        self.record.cost_usd += cost_usd.unwrap_or_default();
        self.record.session = Some(session.unwrap_or(&self.id).to_owned());
        self.keep(&directory);
    }

    fn keep(&self, directory: &Path) {
        let (Some(file), Ok(text)) = (&self.file, serde_json::to_vec(&self.record)) else { return };
        // Without it the next prompt begins anew, or goes on where it need not.
        store::create_dir(directory).and_then(|()| store::write_projection(file, &text)).ok();
    }
}

/// Adds to the record of a session what a run used whose end nobody saw because prodigy was
/// killed. Agents that go on with the session may count it again.
pub fn count_interrupted_run(
    state: &Path,
    run: &AgentRun,
    used: TokenUsage,
    cost_usd: Option<f64>,
) {
    let Some(session) = run.session.as_deref().filter(|name| is_session_name(name)) else { return };
    let file = state.join("sessions").join(format!("{session}.json"));
    let Some(mut record) = read(&file) else { return };
    if record.counted.as_ref() == Some(&run.id) {
        return;
    }
    record.used += used;
    record.cost_usd += cost_usd.unwrap_or_default();
    record.counted = Some(run.id.clone());
    if let Ok(text) = serde_json::to_vec(&record) {
        store::write_projection(&file, &text).ok();
    }
}

fn read(file: &Path) -> Option<SessionRecord> {
    let text = store::read_bounded(file, RECORD_LIMIT).ok()??;
    serde_json::from_slice(&text).ok()
}

/// Returns the name of a session: a UUID that follows from what it is for.
///
/// So it is known before the agent has said anything, and after a crash.
fn session_uuid(identity: &StepOwner, step: &str, generation: u32) -> String {
    let mut hash = Sha256::new();
    let generation = generation.to_string();
    for part in [identity.job.as_str(), identity.item_name(), step, &generation] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let mut bytes: Vec<u8> = hash.finalize().iter().copied().take(16).collect();
    // The bits that say which kind of UUID it is: one of our own making, RFC 9562.
    if let Some(version) = bytes.get_mut(6) {
        *version = *version & 0x0f | 0x80;
    }
    if let Some(variant) = bytes.get_mut(8) {
        *variant = *variant & 0x3f | 0x80;
    }
    let digits = hex(&bytes);
    let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
    [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_session_is_a_uuid_that_follows_from_what_it_is_for() {
        let identity = |job: &str| StepOwner { job: job.parse().unwrap(), item: None };
        let first = session_uuid(&identity("a"), "1", 0);
        insta::assert_snapshot!(first, @"91e160ac-43c0-8cc0-9834-2c64c730903e");
        let others = [
            session_uuid(&identity("b"), "1", 0),
            session_uuid(&identity("a"), "2", 0),
            session_uuid(&identity("a"), "1", 1),
        ];
        for other in &others {
            assert_ne!(*other, first);
        }
        assert_eq!(session_uuid(&identity("a"), "1", 0), first);
    }
}
