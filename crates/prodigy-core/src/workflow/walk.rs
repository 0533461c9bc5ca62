//! Looking at every step of a workflow.

use std::collections::BTreeMap;

use super::{Body, ForeachInput, ForeachValue, OnConflict, RESOLVING, Step, StepAction, Workflow};
use crate::{
    template::{Reference, Text},
    vars::{Segment, VarPath},
};

impl Workflow {
    /// Calls `visit` for every step, at any depth, in the order of the phases.
    pub fn each_step<'w>(&'w self, visit: &mut dyn FnMut(&'w Step)) {
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

    /// Returns the step of an item that records call by a path, such as `2.on_failure.1`.
    pub fn item_step(&self, path: &str) -> Option<&Step> {
        let Body::MapReduce(job) = &self.body else { return None };
        if path == RESOLVING {
            return match &job.map.on_conflict {
                OnConflict::Resolve(step) => Some(step),
                OnConflict::Rerun | OnConflict::Fail => None,
            };
        }
        let Some(handler) = path.strip_prefix("handler.") else {
            return at(&job.map.steps, path);
        };
        job.error_policy.handlers.iter().find_map(|(name, steps)| {
            at(steps, handler.strip_prefix(name.as_str())?.strip_prefix('.')?)
        })
    }

    /// Returns the paths of the item's steps that must have been run for everything outside to
    /// be changed.
    ///
    /// Which steps inside another one are run is known only when it is run: for those stands
    /// a path that no step has, so that nobody takes the work for done.
    pub fn external_steps(&self) -> Vec<String> {
        let Body::MapReduce(job) = &self.body else { return Vec::new() };
        let mut paths = Vec::new();
        for (number, step) in job.map.steps.iter().enumerate() {
            let path = number + 1;
            if step.external().is_some() {
                paths.push(path.to_string());
            }
            let mut is_inside = false;
            each(std::slice::from_ref(step), &mut |inner| {
                is_inside |= !std::ptr::eq(inner, step) && inner.external().is_some();
            });
            if is_inside {
                paths.push(format!("{path}.inside"));
            }
        }
        paths
    }

    /// Returns whether a step, or one inside it, asks an agent.
    pub fn asks_agent(step: &Step) -> bool {
        let mut asks = false;
        each(std::slice::from_ref(step), &mut |inner| {
            asks |= matches!(inner.action, StepAction::Agent { .. });
        });
        asks
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

/// Returns the step that a path leads to.
fn at<'w>(steps: &'w [Step], path: &str) -> Option<&'w Step> {
    let (number, rest) = path.split_once('.').map_or((path, None), |(n, rest)| (n, Some(rest)));
    let step = steps.get(number.parse::<usize>().ok()?.checked_sub(1)?)?;
    let Some(rest) = rest else { return Some(step) };
    let (part, rest) = rest.split_once('.')?;
    // A round of a loop, or a try.
    let behind = || rest.split_once('.').map(|(_, rest)| rest);
    match part {
        "foreach" => match &step.action {
            StepAction::Foreach(inner) => at(&inner.steps, behind()?),
            StepAction::Shell { .. } | StepAction::Agent { .. } | StepAction::WriteFile { .. } => {
                None
            }
        },
        "on_failure" => at(&step.on_failure.as_ref()?.steps, rest),
        "on_success" => at(&step.on_success, rest),
        "on_exit_code" => {
            let (code, rest) = rest.split_once('.')?;
            at(step.on_exit_code.get(&code.parse().ok()?)?, rest)
        }
        "validate" => at(&step.validate.as_ref()?.steps, rest),
        "on_incomplete" => at(&step.validate.as_ref()?.on_incomplete, behind()?),
        _ => None,
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
