//! Results of the items as the reduce and merge phases see them.

use prodigy_core::{
    event::{Event, EventRecord},
    job::{ItemStage, MapState},
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    run::{Dispatcher, Error},
    store::{JournalReader, ResultsFile},
};

/// The largest list of results that is kept in memory although no step asks for it.
const SMALL: u64 = 256 * 1024;

/// One element of `${map.results}`.
#[derive(Clone, Debug, Default, Serialize)]
struct ItemResult {
    item_id: String,
    status: &'static str,
    attempts: u32,
    #[serde(skip_serializing_if = "Value::is_null")]
    result: Value,
    commits: u64,
    duration_ms: u64,
    #[serde(skip_serializing_if = "is_nothing")]
    cost_usd: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason_code: Option<&'static str>,
}

impl Dispatcher {
    /// Returns `${map.…}`, made once.
    pub(crate) fn map_variables(&mut self) -> Result<Value, Error> {
        if let Some(vars) = &self.parts.map_vars {
            return Ok(vars.clone());
        }
        let Some(map) = &self.job.map else { return Ok(Value::Null) };
        let path = self.parts.settings.layout.results_file(&self.parts.id);
        let bytes = match std::fs::metadata(&path) {
            Ok(found) => found.len(),
            Err(_) => self.write_results(map)?,
        };
        let counts = map.counts;
        let metrics = map.tally.metrics(
            u64::from(map.total),
            u64::from(counts.successful),
            u64::from(counts.dead_lettered),
            u64::from(counts.skipped),
        );
        let mut vars = serde_json::to_value(&metrics).unwrap_or(Value::Null);
        let rate = metrics.failure_rate;
        let fields = json!({
            "total": map.total,
            "successful": counts.successful,
            "failed": counts.dead_lettered,
            "skipped": counts.skipped,
            "dlq": counts.dead_lettered,
            "failure_rate": rate,
            "results_file": path.to_string_lossy(),
            "cost_usd": self.job.cost_usd,
            "duration": self.map_seconds(),
        });
        if let (Value::Object(vars), Value::Object(fields)) = (&mut vars, fields) {
            vars.extend(fields);
            if bytes <= SMALL || self.wants_results() {
                let text = std::fs::read(&path).unwrap_or_default();
                let results = serde_json::from_slice(&text).unwrap_or(Value::Null);
                vars.insert("results".to_owned(), results);
            }
        }
        self.parts.map_vars = Some(vars.clone());
        Ok(vars)
    }

    /// Returns whether a step of the phases after the items asks for all results.
    fn wants_results(&self) -> bool {
        self.parts.settings.workflow.uses_variable("map", "results")
    }

    /// Returns how long the items took, in seconds.
    fn map_seconds(&self) -> f64 {
        let ended = self.job.map_ended_at.or(self.job.map_began_at);
        let span = self.job.map_began_at.zip(ended).map(|(from, to)| to.duration_since(from));
        span.map_or(0.0, |span| span.as_secs_f64())
    }

    /// Writes the results of all items, in their order, from the journal.
    fn write_results(&self, map: &MapState) -> Result<u64, Error> {
        let mut results = vec![ItemResult::default(); map.items.len()];
        for record in JournalReader::open(&self.parts.settings.layout, &self.parts.id)? {
            collect(map, &mut results, record?);
        }
        let path = self.parts.settings.layout.results_file(&self.parts.id);
        let mut file = ResultsFile::create(&path)?;
        for (item, mut result) in map.items.iter().zip(results) {
            result.item_id = item.id.to_string();
            result.attempts = item.attempts;
            result.status = match item.stage {
                ItemStage::Successful => "success",
                ItemStage::DeadLettered => "dead_lettered",
                ItemStage::Skipped => "skipped",
                ItemStage::Pending | ItemStage::Waiting { .. } | ItemStage::Conflicted(_) => {
                    "pending"
                }
                ItemStage::Running { .. }
                | ItemStage::Handling { .. }
                | ItemStage::Unhandled(_)
                | ItemStage::Merging(_)
                | ItemStage::Resolving { .. } => "running",
            };
            file.push(&result)?;
        }
        Ok(file.finish()?)
    }
}

/// Applies a record that says something about an item's result.
fn collect(map: &MapState, results: &mut [ItemResult], record: EventRecord) {
    let Some((at, _)) = record.item_id.as_ref().and_then(|id| map.find(id)) else { return };
    let Some(result) = usize::try_from(at).ok().and_then(|at| results.get_mut(at)) else { return };
    if let Event::AgentCompleted(done) = record.event {
        result.result = done.result;
        result.commits = done.commits;
        result.duration_ms += done.duration_ms;
        result.error = None;
        result.reason_code = None;
    } else if let Event::AgentFailed(failed) = record.event {
        result.duration_ms += failed.duration_ms;
        result.error = Some(failed.failure.message);
        result.reason_code = Some(failed.failure.kind.code());
    } else if let Event::AgentUsage { cost_usd, .. } = record.event {
        // An attempt that was cut off cost something, too.
        result.cost_usd += cost_usd.unwrap_or_default();
    } else if let Event::ItemDeadLettered { failure, .. } = record.event {
        result.error = Some(failure.message);
        result.reason_code = Some(failure.kind.code());
    }
}

/// Returns whether a sum need not be written.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_nothing(sum: &f64) -> bool {
    *sum == 0.0
}
