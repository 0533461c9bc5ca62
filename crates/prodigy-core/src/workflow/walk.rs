//! Looking at every step of a workflow.

use std::collections::BTreeMap;

use super::{Body, ForeachInput, ForeachValue, Step, StepAction, Workflow};
use crate::{
    template::{Reference, Text},
    vars::{Segment, VarPath},
};

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

    /// Returns whether a step uses `${ROOT.FIELD}`, or all of `${ROOT}`.
    pub fn mentions(&self, root: &str, field: &str) -> bool {
        let mut found = false;
        self.each_step(&mut |step| {
            let is_it = |reference: &Reference| {
                let VarPath { root: name, rest } = reference.path();
                let is_field = match rest.first() {
                    Some(Segment::Field(name)) => name == field,
                    Some(Segment::Index(_)) => false,
                    None => true,
                };
                name == root && is_field
            };
            let text = |text: &Text| text.references().any(is_it);
            found |= match &step.action {
                StepAction::Shell { script, .. } => script.references().any(is_it),
                StepAction::Agent { prompt, .. } => text(prompt),
                StepAction::WriteFile { path, content, .. } => text(path) || text(content),
                StepAction::Foreach(each) => match &each.input {
                    ForeachInput::Command(script) => script.references().any(is_it),
                    ForeachInput::Values(values) => values.iter().any(|value| match value {
                        ForeachValue::Text(value) => text(value),
                        ForeachValue::Value(_) => false,
                    }),
                },
            };
            found |= step.env.iter().any(|var| text(&var.value));
            let wanted = format!("{root}.{field}");
            found |= step.when.as_ref().is_some_and(|when| when.source().contains(&wanted));
        });
        found
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
