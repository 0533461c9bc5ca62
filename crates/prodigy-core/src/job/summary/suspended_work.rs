//! The work of a job that waits in the middle, for summaries.

use std::collections::BTreeMap;

use crate::{
    event::{Event, EventRecord, is_top_level},
    failure::ReasonCode,
    ids::ItemId,
};

/// The work of a job that was cut off by a usage limit or a budget and goes on from there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SuspendedSummary {
    /// The items that wait in the middle, with the number of their finished steps.
    pub items: BTreeMap<ItemId, u32>,
    /// The step of the job that does, or `merge`, with the number of finished steps inside it.
    pub step: Option<(String, u32)>,
}

impl SuspendedSummary {
    /// Returns whether nothing waits in the middle.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty() && self.step.is_none()
    }

    /// Returns whether a step of the job waits in the middle.
    pub(crate) fn is_at(&self, step: &str) -> bool {
        self.step.as_ref().is_some_and(|(suspended, _)| suspended == step)
    }

    /// Applies the next record.
    pub(crate) fn apply(&mut self, record: &EventRecord) {
        if let Event::JobResumed { workflow: Some(workflow), .. } = &record.event
            && !workflow.same_steps
        {
            *self = Self::default();
            return;
        }
        match &record.item_id {
            Some(id) => self.apply_to_item(id, &record.event),
            None => self.apply_to_step(&record.event),
        }
    }

    fn apply_to_item(&mut self, id: &ItemId, event: &Event) {
        if let Event::WorkSuspended(work) = event {
            // Without a worktree of its own there is nothing to go on with.
            if work.snapshot.is_some() {
                self.items.insert(id.clone(), work.finished_steps);
            }
        } else if let Event::AgentCompleted(_)
        | Event::AgentFailed(_)
        | Event::ItemSkipped { .. }
        | Event::ItemDeadLettered { .. } = event
        {
            self.items.remove(id);
        }
    }

    fn apply_to_step(&mut self, event: &Event) {
        if let Event::WorkSuspended(work) = event {
            self.step = work.step.clone().map(|step| (step, work.finished_steps));
            return;
        }
        let is_over = if let Event::StepCompleted(step) = event {
            is_top_level(&step.step)
        } else if let Event::JobFailed { failure, .. } = event {
            failure.kind != ReasonCode::QuotaExhausted
        } else {
            matches!(event, Event::PhaseCompleted { .. })
        };
        if is_over {
            self.step = None;
        }
    }
}
