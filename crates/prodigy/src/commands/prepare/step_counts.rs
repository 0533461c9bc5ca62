//! The number of steps of a workflow.

use prodigy_core::{
    event::JobMode,
    workflow::{Body, Step, Workflow},
};

/// The number of top-level steps of a workflow.
#[derive(Clone, Copy)]
pub(crate) struct StepCounts {
    pub(crate) mode: JobMode,
    pub(crate) steps: u32,
    pub(crate) setup: u32,
    pub(crate) reduce: u32,
}

impl StepCounts {
    pub(crate) fn of(workflow: &Workflow) -> Self {
        let number = |steps: &[Step]| u32::try_from(steps.len()).unwrap_or(u32::MAX);
        match &workflow.body {
            Body::Sequential { steps, .. } => {
                Self { mode: JobMode::Sequential, steps: number(steps), setup: 0, reduce: 0 }
            }
            Body::MapReduce(body) => Self {
                mode: JobMode::Mapreduce,
                steps: number(&body.map.steps),
                setup: body.setup.as_ref().map_or(0, |setup| number(&setup.phase.steps)),
                reduce: body.reduce.as_ref().map_or(0, |reduce| number(&reduce.steps)),
            },
        }
    }
}
