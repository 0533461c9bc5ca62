//! Looking at every step of a workflow.

use std::collections::BTreeMap;

use super::{Body, Step, StepAction, Workflow};

impl Workflow {
    /// Calls `visit` for every step, at any depth, in the order of the phases.
    pub fn each_step<'w>(&'w self, visit: &mut dyn FnMut(&'w Step)) {
        match &self.body {
            Body::Sequential { steps } => each(steps, visit),
            Body::MapReduce(job) => {
                if let Some(setup) = &job.setup {
                    each(&setup.phase.steps, visit);
                }
                each(&job.map.worktree.setup, visit);
                each(&job.map.steps, visit);
                for steps in job.error_policy.handlers.values() {
                    each(steps, visit);
                }
                if let Some(reduce) = &job.reduce {
                    each(&reduce.steps, visit);
                }
            }
        }
        if let Some(merge) = &self.merge {
            each(&merge.steps, visit);
        }
    }

    /// Returns the agents that the steps name, each with the first step that needs it.
    pub fn agents_needed(&self) -> BTreeMap<&str, &Step> {
        let mut needed = BTreeMap::new();
        self.each_step(&mut |step| match &step.action {
            StepAction::Agent { agent, .. } => {
                needed.entry(agent.as_str()).or_insert(step);
            }
            StepAction::Shell { .. } | StepAction::WriteFile { .. } | StepAction::Foreach(_) => {}
        });
        needed
    }
}

fn each<'w>(steps: &'w [Step], visit: &mut dyn FnMut(&'w Step)) {
    for step in steps {
        visit(step);
        match &step.action {
            StepAction::Foreach(inner) => each(&inner.steps, visit),
            StepAction::Shell { .. } | StepAction::Agent { .. } | StepAction::WriteFile { .. } => {}
        }
        if let Some(validate) = &step.validate {
            each(&validate.steps, visit);
            each(&validate.on_incomplete, visit);
        }
        if let Some(handler) = &step.on_failure {
            each(&handler.steps, visit);
        }
        each(&step.on_success, visit);
        for steps in step.on_exit_code.values() {
            each(steps, visit);
        }
    }
}
