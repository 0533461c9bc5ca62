//! The resume of a job.

use super::{Job, JobOutcome, map_state::MapState};
use crate::{
    effect::EffectLedger,
    event::{
        Event, EventRecord, JobReopening, PauseReason, PhaseName, RenamedSteps, WorkflowChange,
    },
    ids::ItemId,
};

impl MapState {
    /// Gives an item the effects that are known of it.
    fn set_ledger(&mut self, id: &ItemId, ledger: EffectLedger) {
        if let Some(item) = self.items.iter_mut().find(|item| item.id == *id) {
            item.ledger = Some(Box::new(ledger));
        }
    }

    /// Updates the identities of the steps of effects after a change of the workflow.
    pub(crate) fn rename_effects(&mut self, renamed: &RenamedSteps) {
        for ledger in self.items.iter_mut().filter_map(|item| item.ledger.as_mut()) {
            ledger.rename(renamed);
        }
    }
}

impl Job {
    /// Applies a pause of the job.
    pub(crate) fn pause(&mut self, reason: PauseReason, message: &str) {
        if let Some(map) = &mut self.map {
            map.release_in_flight(false);
        }
        if let Some(quota) = &mut self.quota {
            quota.probe = None;
        }
        self.end = Some(JobOutcome::Paused { reason, message: message.to_owned() });
    }

    /// Returns whether everything is done and the result waits to be merged.
    pub fn waits_for_merge(&self) -> bool {
        matches!(self.end, Some(JobOutcome::Paused { reason: PauseReason::MergeOutstanding, .. }))
    }

    /// Applies the merge of the result into the target branch, and into its checkout if it has one.
    pub(crate) fn finish_merge(&mut self, commit: &str, target: &str) {
        if let Some(started) = &mut self.started {
            // Somebody may have merged it by hand into another branch.
            started.target_branch = Some(target.to_owned());
        }
        self.merged = Some(commit.to_owned());
        self.checkout_update = None;
    }

    /// Applies an event about the effects of the job's own steps.
    pub(crate) fn apply_effect(&mut self, event: &Event) {
        if let Event::JournalEndLost { .. } = event {
            self.apply_lost_end();
        } else {
            self.ledger.apply(event);
        }
    }

    /// Applies the record of a resume.
    pub(crate) fn apply_resumed(&mut self, record: &EventRecord) {
        let Event::JobResumed { workflow, reopened, found, budget, options, into, try_now, .. } =
            &record.event
        else {
            return;
        };
        if let Some(started) = &mut self.started {
            started.apply_options(*budget, options.as_deref());
            started.found = found.as_deref().cloned().or(started.found.take());
            started.retarget(into.as_deref());
        }
        self.resume(workflow.as_ref());
        self.resume_spending(*try_now, record.timestamp);
        if let Some(reopened) = reopened {
            self.reopen(reopened);
        }
    }

    /// Goes on with the workflow as it was, or with the one that took its place.
    fn resume(&mut self, workflow: Option<&WorkflowChange>) {
        self.end = None;
        let is_changed = workflow.is_some_and(|workflow| !workflow.same_steps);
        if is_changed {
            self.suspended = None;
        }
        if self.suspended.is_none() {
            self.failing_inside = 0;
        }
        if let (Some(workflow), Some(started)) = (workflow, &mut self.started) {
            started.workflow_hash.clone_from(&workflow.hash);
            started.steps = workflow.steps;
            started.setup_steps = workflow.setup_steps;
            started.reduce_steps = workflow.reduce_steps;
            self.apply_workflow_change(workflow);
        }
        if let Some(map) = &mut self.map {
            if is_changed {
                map.forget_suspended();
            }
            map.release_in_flight(true);
            map.reset_failure_limits();
        }
    }

    /// Applies the loss of the journal's end: it is unknown which effects were made since.
    pub(crate) fn apply_lost_end(&mut self) {
        self.end_lost = true;
        self.ledger.mark_end_lost();
        self.carried.values_mut().for_each(EffectLedger::mark_end_lost);
        let items = self.map.iter_mut().flat_map(|map| &mut map.items);
        items.filter_map(|item| item.ledger.as_mut()).for_each(|ledger| ledger.mark_end_lost());
    }

    /// Applies a changed workflow: its finished steps and the new identities of steps with effects.
    fn apply_workflow_change(&mut self, workflow: &WorkflowChange) {
        self.ledger.rename(&workflow.renamed);
        self.carried.values_mut().for_each(|ledger| ledger.rename(&workflow.renamed));
        if let Some(map) = &mut self.map {
            map.rename_effects(&workflow.renamed);
        }
        let Some(done) = &workflow.done else { return };
        self.done = u32::try_from(done.len()).unwrap_or(u32::MAX);
        let are_first = (0..).zip(done).all(|(number, at)| number == *at);
        self.done_apart = done.iter().copied().filter(|_| !are_first).collect();
    }

    /// Keeps the record of an effect whose item is not known yet; returns true if it is one.
    pub(crate) fn defer_effect(&mut self, record: &EventRecord) -> bool {
        let Some(id) = &record.item_id else { return false };
        let is_known = self.map.as_ref().is_some_and(|map| map.find(id).is_some());
        if is_known || !matches!(record.event, crate::effect_news!()) {
            return false;
        }
        self.carried.entry(id.clone()).or_default().apply(&record.event);
        true
    }

    /// Gives an item that was just chosen the effects that were carried over for it.
    pub(crate) fn apply_deferred_effects(&mut self, record: &EventRecord) {
        let (Event::ItemQueued {}, Some(id)) = (&record.event, &record.item_id) else { return };
        let Some(ledger) = self.carried.remove(id) else { return };
        if let Some(map) = &mut self.map {
            map.set_ledger(id, ledger);
        }
    }

    /// Applies the replay of dead letters: the map phase runs once more, and phases after it.
    pub(crate) fn reopen(&mut self, reopened: &JobReopening) {
        let is_over = self.phases_done.contains(&PhaseName::Map);
        let again = |phase: &PhaseName| match phase {
            PhaseName::Map | PhaseName::Merge => is_over,
            PhaseName::Reduce => reopened.rerun_reduce,
            PhaseName::Setup | PhaseName::Steps => false,
        };
        self.phases_done.retain(|phase| !again(phase));
        for (phase, steps) in [(PhaseName::Reduce, "reduce"), (PhaseName::Merge, "merge")] {
            if again(&phase) {
                self.ledger.reopen_phase(steps);
            }
        }
        if is_over {
            (self.phase, self.running, self.merged) = (None, None, None);
            self.suspended = None;
        }
        self.tidy = false;
        if let Some(commit) = &reopened.base_commit {
            (self.tree, self.snapshot) = (None, None);
            if let Some(started) = &mut self.started {
                started.base_commit.clone_from(commit);
            }
        }
    }
}
