//! The runs of agents that are under way: one small file for each.
//!
//! A file is written before its agent starts and removed once the journal says what the agent
//! cost. What is left when a run of prodigy died names the agents whose cost is still to be
//! counted, and where their streams begin.

use std::{fs, path::PathBuf};

use prodigy_core::{
    agent::{StreamDialect, StreamTotals, TokenUsage},
    ids::{AgentId, ItemId, JobId, safe_name},
};
use serde::{Deserialize, Serialize};

use super::{Error, Layout, LogFile, read_bounded, write_projection};

/// The largest file that is read.
const LIMIT: u64 = 64 * 1024;

/// A run of an agent that is under way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentRun {
    /// A random name, which is part of the record of what it cost.
    pub id: String,
    /// The path of the step.
    pub step: String,
    /// The agent's name.
    pub agent: String,
    /// The item that it works for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item_id: Option<ItemId>,
    /// The agent that makes the attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    /// The attempt of the item, from 1.
    pub attempt: u32,
    /// The way in which the agent writes its stream, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dialect: Option<StreamDialect>,
    /// The number of its log files.
    #[serde(default)]
    pub slot: u32,
    /// Where its stream begins in the transcript.
    #[serde(default)]
    pub offset: u64,
    /// The record of its session, below the state of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The tokens that earlier processes of the session used.
    #[serde(default, skip_serializing_if = "TokenUsage::is_empty")]
    pub before: TokenUsage,
    /// Their cost.
    #[serde(default)]
    pub before_usd: f64,
}

impl AgentRun {
    /// Returns the file that its stream is kept in.
    pub fn transcript(&self, layout: &Layout, job: &JobId) -> PathBuf {
        let item = self.item_id.as_ref();
        layout.log_file(job, item, self.attempt, self.slot, LogFile::Transcript)
    }

    /// Notes that it begins; its stream is appended to the transcript.
    pub fn begin(&self, layout: &Layout, job: &JobId, slot: u32) -> Result<(), Error> {
        let mut run = Self { slot, ..self.clone() };
        run.offset = fs::metadata(run.transcript(layout, job)).map_or(0, |it| it.len());
        let path = file(layout, job, &run.id);
        let encode = |error: serde_json::Error| {
            let reason = error.to_string();
            Error::Encode { path: path.clone(), reason }
        };
        let text = serde_json::to_vec(&run).map_err(encode)?;
        write_projection(&path, &text)
    }

    /// Returns the runs whose cost the journal may not say, in the order of their streams.
    pub fn pending_runs(layout: &Layout, job: &JobId) -> Vec<Self> {
        let entries = fs::read_dir(directory(layout, job)).into_iter().flatten().flatten();
        let texts = entries.filter_map(|entry| read_bounded(&entry.path(), LIMIT).ok().flatten());
        let mut runs: Vec<Self> =
            texts.filter_map(|text| serde_json::from_slice(&text).ok()).collect();
        runs.sort_by_key(|run| (run.transcript(layout, job), run.offset));
        runs
    }
}

/// Notes the sums of a stream of which the transcript does not hold all.
pub fn store_stream_totals(
    layout: &Layout,
    job: &JobId,
    id: &str,
    totals: &StreamTotals,
) -> Result<(), Error> {
    let path = totals_file(layout, job, id);
    let encode = |error: serde_json::Error| {
        let reason = error.to_string();
        Error::Encode { path: path.clone(), reason }
    };
    write_projection(&path, &serde_json::to_vec(totals).map_err(encode)?)
}

/// Returns the sums of a stream, if they were noted.
pub fn stored_stream_totals(layout: &Layout, job: &JobId, id: &str) -> Option<StreamTotals> {
    let text = read_bounded(&totals_file(layout, job, id), LIMIT).ok()??;
    serde_json::from_slice(&text).ok()
}

/// Forgets a run: the journal says what it cost.
pub fn forget_agent_run(layout: &Layout, job: &JobId, id: &str) {
    // If one stays, the next resume finds its name in the journal.
    fs::remove_file(totals_file(layout, job, id)).ok();
    fs::remove_file(file(layout, job, id)).ok();
}

fn directory(layout: &Layout, job: &JobId) -> PathBuf {
    layout.state_dir(job).join("agent-runs")
}

fn totals_file(layout: &Layout, job: &JobId, id: &str) -> PathBuf {
    directory(layout, job).join(format!("{}.totals.json", safe_name(id)))
}

fn file(layout: &Layout, job: &JobId, id: &str) -> PathBuf {
    directory(layout, job).join(format!("{}.json", safe_name(id)))
}
