//! What items took in the past, to say what others may take.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    agent::Usage,
    event::{Event, Record, is_top_level},
    ids::ItemId,
};

/// What an item took over all its attempts, or the steps of a job's own.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Effort {
    /// What agents said they cost.
    pub cost_usd: f64,
    /// Whether one did not say what it cost.
    pub is_untold: bool,
    /// The tokens they used.
    pub tokens: Usage,
    /// How long it took.
    pub duration: Duration,
}

impl Effort {
    /// Returns what one of so many equal rounds took.
    #[must_use]
    pub fn of_one(self, rounds: u32) -> Self {
        let rounds = rounds.max(1);
        let part = |tokens: u64| tokens / u64::from(rounds);
        let Usage { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens } =
            self.tokens;
        Self {
            cost_usd: self.cost_usd / f64::from(rounds),
            tokens: Usage {
                input_tokens: part(input_tokens),
                output_tokens: part(output_tokens),
                cache_read_tokens: part(cache_read_tokens),
                cache_write_tokens: part(cache_write_tokens),
            },
            duration: self.duration / rounds,
            ..self
        }
    }

    fn spend(&mut self, cost_usd: Option<f64>, tokens: Usage) {
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
pub struct Efforts {
    open: BTreeMap<ItemId, Effort>,
    own: Effort,
    is_completed: bool,
}

impl Efforts {
    /// Takes in the next record; returns what the item took that ended with it.
    pub fn apply(&mut self, record: &Record) -> Option<Effort> {
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
        if is_over || *open == Effort::default() { self.end(item, is_over) } else { None }
    }

    /// Returns what the steps of the job's own took, if it did all of them.
    pub fn own(&self) -> Option<Effort> {
        self.is_completed.then_some(self.own)
    }

    /// Forgets an item; one that has not begun is nothing to remember.
    fn end(&mut self, item: &ItemId, is_over: bool) -> Option<Effort> {
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

/// Returns the range in which most of the values are: all but the tenth at each end.
pub fn most_of(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let aside = values.len() / 10;
    let low = values.get(aside)?;
    let high = values.get(values.len().checked_sub(1 + aside)?)?;
    Some((*low, *high))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn record(item: &str, event: &Value) -> Record {
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
        let mut efforts = Efforts::default();
        for event in [&json!({"event_type": "item_queued"}), &usage, &failed, &usage, &done] {
            assert_eq!(efforts.apply(&record("a", event)), None);
        }
        let effort = efforts.apply(&record("a", &merged)).unwrap();
        let wanted =
            Effort { cost_usd: 3.0, duration: Duration::from_millis(300), ..Effort::default() };
        assert_eq!(effort, wanted);
        assert_eq!(efforts, Efforts::default(), "nothing is kept of it");
        efforts.apply(&record("", &usage));
        assert_eq!(efforts.own(), None);
        let completed = json!({
            "event_type": "job_completed", "status": "completed", "duration_ms": 1, "commits": 0,
        });
        efforts.apply(&record("", &completed));
        assert!((efforts.own().unwrap().cost_usd - 1.5).abs() < 1e-9);
    }

    #[test]
    fn the_odd_ones_are_left_out_of_a_range_once_there_are_enough() {
        let range = |count: u32| most_of((1..=count).map(f64::from));
        assert_eq!(
            [0, 1, 2, 9].map(range),
            [None, Some((1.0, 1.0)), Some((1.0, 2.0)), Some((1.0, 9.0))]
        );
        assert_eq!(range(10), Some((2.0, 9.0)));
        assert_eq!(range(100), Some((11.0, 90.0)));
    }
}
