//! The top-level steps of a workflow, phase by phase.

pub(crate) mod final_merge;
pub(crate) mod guarded_files;
pub(crate) mod job_worktree;
pub(crate) mod map_results;
pub(crate) mod top_level_step;

use std::time::Duration;

use prodigy_core::{
    event::PhaseName,
    job::{AgentSteps, StepIdentities, TopLevelSteps},
    workflow::{Body, SetupCapture, Step, Workflow, step_label},
};

/// Returns the top-level steps of a phase.
pub(crate) fn phase_steps(workflow: &Workflow, phase: PhaseName) -> &[Step] {
    match (&workflow.body, phase) {
        (Body::Sequential { steps, .. }, PhaseName::Steps) => steps,
        (Body::MapReduce(body), PhaseName::Setup) => {
            body.setup.as_ref().map_or(&[], |setup| &setup.phase.steps)
        }
        (Body::MapReduce(body), PhaseName::Reduce) => {
            body.reduce.as_ref().map_or(&[], |reduce| &reduce.steps)
        }
        (Body::Sequential { .. } | Body::MapReduce(_), _) => &[],
    }
}

/// Returns the time limit of a phase.
pub(crate) fn phase_timeout(workflow: &Workflow, phase: PhaseName) -> Option<Duration> {
    match (&workflow.body, phase) {
        (Body::MapReduce(body), PhaseName::Setup) => body.setup.as_ref()?.phase.timeout,
        (Body::MapReduce(body), PhaseName::Reduce) => body.reduce.as_ref()?.timeout,
        (Body::Sequential { .. } | Body::MapReduce(_), _) => None,
    }
}

/// Returns the variables that are made of the output of a step of the setup phase.
pub(crate) fn setup_captures(
    workflow: &Workflow,
    phase: PhaseName,
    index: usize,
) -> Vec<SetupCapture> {
    let Body::MapReduce(body) = &workflow.body else { return Vec::new() };
    let Some(setup) = body.setup.as_ref().filter(|_| phase == PhaseName::Setup) else {
        return Vec::new();
    };
    let of_step = setup.captures.iter().filter(|capture| capture.command_index == index);
    of_step.cloned().collect()
}

/// Returns what progress calls the top-level steps.
pub(crate) fn step_names(workflow: &Workflow) -> TopLevelSteps {
    let names = |phase| phase_steps(workflow, phase).iter().map(step_label).collect();
    TopLevelSteps {
        steps: match &workflow.body {
            Body::Sequential { .. } => names(PhaseName::Steps),
            Body::MapReduce(body) => body.map.steps.iter().map(step_label).collect(),
        },
        setup: names(PhaseName::Setup),
        reduce: names(PhaseName::Reduce),
        asks: AgentSteps::from_workflow(workflow),
        identities: StepIdentities::of(workflow),
    }
}
