//! The state of the items and their dead letters, read from the journal.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::crash::sequential::parse_journal;

/// The state of a job, read from the journal.
#[derive(Debug, Default)]
pub(crate) struct DlqJournal {
    /// The state of each item, by its id.
    pub(crate) items: BTreeMap<String, DlqItemHistory>,
    /// True if the job is completed and was not resumed since.
    pub(crate) is_over: bool,
    /// True while the merge into the user's branch is in progress.
    pub(crate) is_merging: bool,
    /// The number of merges of the job's branch into the user's.
    pub(crate) merges: usize,
    /// The commits of updates of the checkout that no merge was told of: a kill may have come
    /// before the branch moved, or after it.
    pub(crate) cut_off_updates: Vec<String>,
    /// The number of items that had succeeded at each run of the reduce phase.
    pub(crate) reduced: Vec<usize>,
}

/// The state of one item.
#[derive(Debug, Default)]
pub(crate) struct DlqItemHistory {
    stage: DlqItemStage,
    /// The number of times it was dead-lettered.
    pub(crate) deaths: u32,
    /// The number of replays.
    pub(crate) replays: u32,
    /// The numbers of the attempts that began.
    pub(crate) attempts: BTreeSet<u32>,
    /// The numbers of the attempts that failed or were lost in a crash, in order.
    pub(crate) failures: Vec<u32>,
    /// The numbers of the attempts whose steps failed.
    pub(crate) failed: BTreeSet<u32>,
    /// The reason code of its last failure as a dead letter.
    reason: String,
    at_work: Option<u32>,
}

/// Where an item stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum DlqItemStage {
    #[default]
    Waiting,
    Dead,
    Done,
    LeftOut,
}

impl DlqItemHistory {
    /// Returns the status that the entry of the item must have; `None` if there is none.
    pub(crate) fn status(&self) -> Option<&'static str> {
        (self.deaths > 0).then_some(match self.stage {
            DlqItemStage::Waiting => "replaying",
            DlqItemStage::Dead => "open",
            DlqItemStage::Done => "resolved",
            DlqItemStage::LeftOut => "dropped",
        })
    }

    /// Returns whether it is only replayed if somebody insists.
    pub(crate) fn is_refused(&self) -> bool {
        self.is_dead() && ["schema_invalid", "poison_repeat"].contains(&self.reason.as_str())
    }

    /// Returns whether it succeeded.
    pub(crate) fn is_done(&self) -> bool {
        self.stage == DlqItemStage::Done
    }

    /// Returns whether it is in the dead letter queue.
    pub(crate) fn is_dead(&self) -> bool {
        self.stage == DlqItemStage::Dead
    }

    fn fail_open_attempt(&mut self) {
        self.failures.extend(self.at_work.take());
    }

    fn add(&mut self, kind: &str, record: &Value) -> Result<(), &'static str> {
        let number = || record.get("attempt").and_then(Value::as_u64).unwrap_or_default();
        let attempt = || u32::try_from(number()).unwrap_or_default();
        match (kind, self.stage) {
            ("agent_started", DlqItemStage::Waiting) => {
                // An attempt that began and never ended was cut off.
                self.fail_open_attempt();
                self.attempts.insert(attempt());
                self.at_work = Some(attempt());
            }
            ("agent_started", _) => return Err("was started although nothing was left to do"),
            ("agent_failed", _) => {
                self.at_work = None;
                self.failures.push(attempt());
                self.failed.insert(attempt());
            }
            ("agent_completed", _) => {
                self.at_work = None;
                if record.get("base") == record.get("head") {
                    self.stage = DlqItemStage::Done;
                }
            }
            ("worktree_merged", DlqItemStage::Waiting) => self.stage = DlqItemStage::Done,
            ("worktree_merged", _) => return Err("was merged although it was over"),
            ("item_dead_lettered", DlqItemStage::Waiting) => {
                self.fail_open_attempt();
                let reason = record.pointer("/failure/kind").and_then(Value::as_str);
                reason.unwrap_or_default().clone_into(&mut self.reason);
                self.deaths += 1;
                self.stage = DlqItemStage::Dead;
            }
            ("item_dead_lettered", _) => return Err("died although it was over"),
            ("replay_started", DlqItemStage::Dead) => {
                self.replays += 1;
                self.stage = DlqItemStage::Waiting;
            }
            ("replay_started", _) => return Err("was replayed although it was no dead letter"),
            ("dlq_item_removed", _) => self.stage = DlqItemStage::LeftOut,
            _ => {}
        }
        Ok(())
    }
}

impl DlqJournal {
    /// Reads a journal and checks that no item was started, merged or replayed out of turn.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let mut story = Self::default();
        for record in parse_journal(text)? {
            story.add(&record)?;
        }
        Ok(story)
    }

    fn add(&mut self, record: &Value) -> Result<(), String> {
        let text = |key| record.get(key).and_then(Value::as_str).unwrap_or_default();
        let (kind, item) = (text("event_type"), text("item_id"));
        if !item.is_empty() {
            let life = self.items.entry(item.to_owned()).or_default();
            return life.add(kind, record).map_err(|what| format!("{item} {what}: {record}"));
        }
        match kind {
            "job_started" | "job_resumed" => self.is_over = false,
            "job_completed" => self.is_over = true,
            "phase_started" => self.is_merging = text("phase") == "merge",
            "phase_completed" => self.is_merging = false,
            "checkout_update_started" => {
                // An update that is begun again leads to the same commit.
                self.cut_off_updates.retain(|new| new != text("new"));
                self.cut_off_updates.push(text("new").to_owned());
            }
            "worktree_merged" => {
                self.merges += 1;
                self.cut_off_updates.pop();
            }
            "step_completed" if text("step") == "reduce.1" => {
                self.reduced.push(self.items.values().filter(|life| life.is_done()).count());
            }
            _ => {}
        }
        Ok(())
    }
}
