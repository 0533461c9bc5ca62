//! Where a job stands in its phases and steps.

use super::Job;
use crate::event::{JobMode, PhaseName};

impl Job {
    /// Returns how many steps and items failed without ending the job, those inside others
    /// included; what was recovered has not failed.
    pub fn failure_count(&self) -> u32 {
        let items = self.map.as_ref().map_or(0, |map| map.counts.failed() + map.counts.ignored);
        self.failed_steps + self.failed_inside + items
    }

    /// Returns whether items ran and none of them succeeded.
    pub fn has_no_success(&self) -> bool {
        self.map.as_ref().is_some_and(|map| map.total > 0 && map.counts.successful == 0)
    }

    /// Returns whether its steps run once each, or for many items.
    pub fn mode(&self) -> JobMode {
        self.started.as_ref().map_or(JobMode::Sequential, |started| started.mode)
    }

    /// Returns how many top-level steps there are, over all rounds; with many items, in the
    /// phase that is under way.
    pub fn total_steps(&self) -> u32 {
        let Some(started) = &self.started else { return 0 };
        match (started.mode, self.phase) {
            (JobMode::Sequential, _) => started.steps.saturating_mul(started.rounds),
            (JobMode::Mapreduce, Some(PhaseName::Setup)) => started.setup_steps,
            (JobMode::Mapreduce, Some(PhaseName::Reduce)) => started.reduce_steps,
            (JobMode::Mapreduce, _) => 0,
        }
    }

    /// Returns the first phase that is not done.
    pub fn next_phase(&self) -> Option<PhaseName> {
        let started = self.started.as_ref()?;
        let wanted = match started.mode {
            JobMode::Sequential => [Some(PhaseName::Steps), None, None, Some(PhaseName::Merge)],
            JobMode::Mapreduce => [
                (started.setup_steps > 0).then_some(PhaseName::Setup),
                Some(PhaseName::Map),
                (started.reduce_steps > 0).then_some(PhaseName::Reduce),
                Some(PhaseName::Merge),
            ],
        };
        wanted.into_iter().flatten().find(|phase| !self.phases_done.contains(phase))
    }

    /// Returns the round and the step of a round, both from 0, of the next top-level step.
    pub fn next_step_position(&self) -> Option<(u32, u32)> {
        let started = self.started.as_ref()?;
        if self.done >= self.total_steps() {
            return None;
        }
        if !self.done_apart.is_empty() {
            let at = (0..self.total_steps()).find(|at| !self.done_apart.contains(at))?;
            return Some((0, at));
        }
        match started.mode {
            JobMode::Sequential => Some((self.done / started.steps, self.done % started.steps)),
            JobMode::Mapreduce => Some((0, self.done)),
        }
    }
}

/// Returns whether an inner step does work of its own, rather than judge or mend another's.
pub(super) fn is_work(path: &str) -> bool {
    let mending = ["on_failure", "on_exit_code", "validate", "on_incomplete"];
    !path.split('.').any(|part| mending.contains(&part))
}

/// Returns the path of a top-level step, from its phase, round and number, both from 0.
pub(super) fn top_level_path(phase: PhaseName, round: u32, step: u32, rounds: u32) -> String {
    let number = step + 1;
    match phase {
        PhaseName::Setup => format!("setup.{number}"),
        PhaseName::Reduce => format!("reduce.{number}"),
        PhaseName::Steps | PhaseName::Map | PhaseName::Merge if rounds > 1 => {
            format!("{}:{number}", round + 1)
        }
        PhaseName::Steps | PhaseName::Map | PhaseName::Merge => number.to_string(),
    }
}
