//! Looking at every step of a workflow.

use std::collections::BTreeMap;

use super::{
    Body, ForeachInput, ForeachValue, Isolation, OnConflict, ResultConfig, Step, StepAction,
    StepAddress, Workflow,
};
use crate::{
    template::{Template, VarReference},
    vars::{PathSegment, VarPath},
};

impl Workflow {
    /// Calls `visit` for every step, at any depth, in the order of the phases.
    pub fn visit_steps<'w>(&'w self, visit: &mut dyn FnMut(&'w Step)) {
        match &self.body {
            Body::Sequential { steps, .. } => each(steps, visit),
            Body::MapReduce(job) => {
                if let Some(setup) = &job.setup {
                    each(&setup.phase.steps, visit);
                }
                each(&job.map.worktree.setup, visit);
                each(&job.map.steps, visit);
                if let OnConflict::Resolve(step) = &job.map.on_conflict {
                    visit(step);
                }
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
    pub fn uses_variable(&self, root: &str, field: &str) -> bool {
        let mut found = false;
        self.visit_steps(&mut |step| {
            let is_it = |reference: &VarReference| {
                let VarPath { root: name, rest } = reference.path();
                let is_field = match rest.first() {
                    Some(PathSegment::Field(name)) => name == field,
                    Some(PathSegment::Index(_)) => false,
                    None => true,
                };
                name == root && is_field
            };
            let text = |text: &Template| text.references().any(is_it);
            found |= match &step.action {
                StepAction::Shell { script, .. } => script.references().any(is_it),
                StepAction::Agent { prompt, options, .. } => {
                    text(prompt) || options.system_prompt.as_ref().is_some_and(text)
                }
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

    /// Returns whether the items have no worktrees of their own.
    pub fn shares_worktree(&self) -> bool {
        matches!(&self.body, Body::MapReduce(job) if job.map.isolation == Isolation::Shared)
    }

    /// Returns the identity of the last step of the items, if it makes an effect and nothing is
    /// left to do once that is made.
    pub fn last_effect(&self) -> Option<String> {
        let Body::MapReduce(job) = &self.body else { return None };
        let (steps, result) = (&job.map.steps, &job.map.result);
        let last = steps.len().checked_sub(1)?;
        let step = steps.get(last)?;
        let is_all = step.external_effect().is_some()
            && step.on_success.is_empty()
            && step.validate.is_none()
            && !step.commit_required
            && *result == ResultConfig::default();
        is_all.then(|| StepAddress::named("").step(steps, last).identity().to_owned())
    }

    /// Returns whether a step, or one inside it, asks an agent.
    pub fn contains_agent_step(step: &Step) -> bool {
        let mut asks = false;
        each(std::slice::from_ref(step), &mut |inner| {
            asks |= matches!(inner.action, StepAction::Agent { .. });
        });
        asks
    }

    /// Returns the agents that the steps name, each with the first step that needs it.
    pub fn required_agents(&self) -> BTreeMap<&str, &Step> {
        let mut needed = BTreeMap::new();
        self.visit_steps(&mut |step| match &step.action {
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
