//! The effort of past items, as the basis of estimates.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    agent::TokenUsage,
    event::{Event, EventRecord, is_top_level},
    ids::ItemId,
};

/// The effort of an item over all its attempts, or of the job's own steps.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ResourceUsage {
    /// The cost that agents reported.
    pub cost_usd: f64,
    /// Set if an agent did not report its cost.
    pub is_untold: bool,
    /// The tokens they used.
    pub tokens: TokenUsage,
    /// The duration.
    pub duration: Duration,
}

impl ResourceUsage {
    /// Returns what one of so many equal rounds took.
    #[must_use]
    pub fn per_round(self, rounds: u32) -> Self {
        let rounds = rounds.max(1);
        let part = |tokens: u64| tokens / u64::from(rounds);
        let TokenUsage { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens } =
            self.tokens;
        Self {
            cost_usd: self.cost_usd / f64::from(rounds),
            tokens: TokenUsage {
                input_tokens: part(input_tokens),
                output_tokens: part(output_tokens),
                cache_read_tokens: part(cache_read_tokens),
                cache_write_tokens: part(cache_write_tokens),
            },
            duration: self.duration / rounds,
            ..self
        }
    }

    fn spend(&mut self, cost_usd: Option<f64>, tokens: TokenUsage) {
        self.cost_usd += cost_usd.unwrap_or_default();
        self.is_untold |= cost_usd.is_none();
        self.tokens += tokens;
    }

    fn take(&mut self, duration_ms: u64) {
        self.duration = self.duration.saturating_add(Duration::from_millis(duration_ms));
    }
}

/// Takes what items took out of the records of a job.
///
/// Its size depends on how many items are under way, not on how many there are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UsageTracker {
    open: BTreeMap<ItemId, ResourceUsage>,
    own: ResourceUsage,
    is_completed: bool,
}

impl UsageTracker {
    /// Applies the next record; returns the effort of the item that ended with it.
    pub fn apply(&mut self, record: &EventRecord) -> Option<ResourceUsage> {
        let event = &record.event;
        let Some(item) = &record.item_id else {
            self.apply_to_job(event);
            return None;
        };
        let open = self.open.entry(item.clone()).or_default();
        let mut is_over = false;
        if let Event::AgentUsage { cost_usd, tokens, .. } = event {
            open.spend(*cost_usd, *tokens);
        } else if let Event::AgentCompleted(done) = event {
            open.take(done.duration_ms);
            is_over = !done.has_commits();
        } else if let Event::AgentFailed(failed) = event {
            open.take(failed.duration_ms);
        } else if let Event::AgentReleased { duration_ms, .. } = event {
            open.take(*duration_ms);
        } else if let Event::WorktreeMerged { .. }
        | Event::ItemSkipped { .. }
        | Event::ItemDeadLettered { .. } = event
        {
            is_over = true;
        }
        if is_over || *open == ResourceUsage::default() { self.end(item, is_over) } else { None }
    }

    /// Returns what the steps of the job's own took, if it did all of them.
    pub fn job_usage(&self) -> Option<ResourceUsage> {
        self.is_completed.then_some(self.own)
    }

    /// Forgets an item; one that has not begun is nothing to remember.
    fn end(&mut self, item: &ItemId, is_over: bool) -> Option<ResourceUsage> {
        self.open.remove(item).filter(|_| is_over)
    }

    fn apply_to_job(&mut self, event: &Event) {
        if let Event::AgentUsage { cost_usd, tokens, .. } = event {
            self.own.spend(*cost_usd, *tokens);
        } else if let Event::StepCompleted(step) = event
            && is_top_level(&step.step)
        {
            self.own.take(step.duration_ms);
        } else if let Event::JobCompleted { .. } = event {
            self.is_completed = true;
        }
    }
}

/// Returns the range in which the sum of so many more values will be, most likely: nine times of ten.
///
/// The more values there are, the less the sum strays from its mean, and the more of them are known,
/// the better the mean is known. It is never outside of what the least and the greatest add up to.
#[expect(clippy::cast_precision_loss, reason = "an estimate needs no exact numbers")]
pub fn estimate_sum(values: impl Iterator<Item = f64>, times: f64) -> Option<(f64, f64)> {
    /// The number of standard deviations around the mean that hold nine of ten values.
    const REACH: f64 = 1.645;
    let values: Vec<f64> = values.collect();
    let least = values.iter().copied().reduce(f64::min)?;
    let greatest = values.iter().copied().reduce(f64::max)?;
    let known = values.len() as f64;
    let mean = values.iter().sum::<f64>() / known;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let variance = squares / (known - 1.0).max(1.0);
    let stray = REACH * (variance * (times + times * times / known)).sqrt();
    let (sum, least, greatest) = (mean * times, least * times, greatest * times);
    Some(((sum - stray).clamp(least, greatest), (sum + stray).clamp(least, greatest)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn record(item: &str, event: &Value) -> EventRecord {
        let mut record = json!({
            "format": 1, "seq": 1, "timestamp": "2026-01-02T03:04:05Z", "job_id": "job",
        });
        let object = record.as_object_mut().unwrap();
        object.extend(event.as_object().unwrap().clone());
        if !item.is_empty() {
            object.insert("item_id".to_owned(), json!(item));
        }
        serde_json::from_value(record).unwrap()
    }

    #[test]
    fn an_item_takes_what_all_its_attempts_took() {
        let usage =
            json!({"event_type": "agent_usage", "step": "1", "agent": "a", "cost_usd": 1.5});
        let failed = json!({
            "event_type": "agent_failed", "attempt": 1, "then": "retry", "duration_ms": 100,
            "failure": {"kind": "timeout", "message": "late"},
        });
        let done = json!({
            "event_type": "agent_completed", "attempt": 2, "base": "c0", "head": "c1",
            "commits": 1, "duration_ms": 200, "result": null,
        });
        let merged = json!({
            "event_type": "worktree_merged", "source": "s", "target": "t", "commit": "c",
            "commits": 1,
        });
        let mut efforts = UsageTracker::default();
        for event in [&json!({"event_type": "item_queued"}), &usage, &failed, &usage, &done] {
            assert_eq!(efforts.apply(&record("a", event)), None);
        }
        let effort = efforts.apply(&record("a", &merged)).unwrap();
        let wanted = ResourceUsage {
            cost_usd: 3.0,
            duration: Duration::from_millis(300),
            ..ResourceUsage::default()
        };
        assert_eq!(effort, wanted);
        assert_eq!(efforts, UsageTracker::default(), "nothing is kept of it");
        efforts.apply(&record("", &usage));
        assert_eq!(efforts.job_usage(), None);
        let completed = json!({
            "event_type": "job_completed", "status": "completed", "duration_ms": 1, "commits": 0,
        });
        efforts.apply(&record("", &completed));
        assert!((efforts.job_usage().unwrap().cost_usd - 1.5).abs() < 1e-9);
    }

    #[test]
    fn a_sum_strays_less_the_more_is_known_and_the_more_is_added_up() {
        // Values of 1 and 3 in turn: their mean is 2.
        let range = |known: u32, times: f64| {
            let values = (0..known).map(|at| f64::from(1 + at % 2 * 2));
            let round = |value: f64| (value * 100.0).round() / 100.0;
            estimate_sum(values, times).map(|(low, high)| (round(low), round(high)))
        };
        assert_eq!(range(0, 5.0), None);
        assert_eq!(range(1, 5.0), Some((5.0, 5.0)));
        assert_eq!(range(2, 5.0), Some((5.0, 15.0)));
        assert_eq!(range(100, 1.0), Some((1.0, 3.0)));
        assert_eq!(range(10, 100.0), Some((142.49, 257.51)));
        assert_eq!(range(1000, 100.0), Some((182.74, 217.26)));
        assert_eq!(range(1000, 0.0), Some((0.0, 0.0)));
    }

    #[test]
    fn a_few_dear_ones_are_part_of_the_sum() {
        let values = (0..100_u32).map(|at| if at < 5 { 100.0 } else { 0.0 });
        let (low, high) = estimate_sum(values, 1000.0).unwrap();
        assert!((1200.0..1300.0).contains(&low), "{low}");
        assert!((8700.0..8800.0).contains(&high), "{high}");
    }
}
