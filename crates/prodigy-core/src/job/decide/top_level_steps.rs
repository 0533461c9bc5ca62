//! The facts about top-level steps that are known beforehand: names, and which cost money.

use crate::{
    event::PhaseName,
    workflow::{Body, MapReduce, OnItemFailure, Phase, Step, StepAddress, Workflow},
};

/// The display names of the top-level steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopLevelSteps {
    /// Those of one round, or of an item.
    pub steps: Vec<String>,
    /// Those of the setup phase.
    pub setup: Vec<String>,
    /// Those of the reduce phase.
    pub reduce: Vec<String>,
    /// Which of them may ask an agent.
    pub asks: AgentSteps,
    /// The identities of the job's own steps.
    pub identities: StepIdentities,
}

/// The identities of the job's own top-level steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepIdentities {
    /// Those of one round.
    pub steps: Vec<String>,
    /// Those of the setup phase.
    pub setup: Vec<String>,
    /// Those of the reduce phase.
    pub reduce: Vec<String>,
}

impl StepIdentities {
    /// Looks at the steps of a workflow.
    pub fn of(workflow: &Workflow) -> Self {
        let identities = |name: &str, steps: &[Step]| {
            let list = StepAddress::named(name);
            let places = 0..steps.len();
            places.map(|at| list.step(steps, at).identity().to_owned()).collect()
        };
        match &workflow.body {
            Body::Sequential { steps, .. } => {
                Self { steps: identities("", steps), ..Self::default() }
            }
            Body::MapReduce(body) => {
                let of = |name, phase: Option<&Phase>| {
                    identities(name, phase.map_or(&[], |phase| &phase.steps))
                };
                Self {
                    steps: Vec::new(),
                    setup: of("setup", body.setup.as_ref().map(|setup| &setup.phase)),
                    reduce: of("reduce", body.reduce.as_ref()),
                }
            }
        }
    }

    /// Returns those of a phase.
    pub fn of_phase(&self, phase: PhaseName) -> &[String] {
        match phase {
            PhaseName::Steps => &self.steps,
            PhaseName::Setup => &self.setup,
            PhaseName::Reduce => &self.reduce,
            PhaseName::Map | PhaseName::Merge => &[],
        }
    }
}

/// Which top-level steps may ask an agent, and so cost money.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentSteps {
    /// Those of one round, or of an item.
    pub steps: Vec<bool>,
    /// Those of the setup phase.
    pub setup: Vec<bool>,
    /// Those of the reduce phase.
    pub reduce: Vec<bool>,
    /// Set if a step that prepares an item's worktree or handles its failure may ask an agent.
    pub around: bool,
    /// Set if a step of the merge phase may ask an agent.
    pub merge: bool,
}

impl AgentSteps {
    /// Looks at the steps of a workflow.
    pub fn from_workflow(workflow: &Workflow) -> Self {
        let asks = |steps: &[Step]| steps.iter().map(Workflow::contains_agent_step).collect();
        let of_phase = |phase: Option<&Phase>| phase.map(|phase| asks(&phase.steps));
        let merge = workflow.merge.as_ref();
        let merge =
            merge.is_some_and(|phase| phase.steps.iter().any(Workflow::contains_agent_step));
        match &workflow.body {
            Body::Sequential { steps, .. } => Self { steps: asks(steps), merge, ..Self::default() },
            Body::MapReduce(body) => Self {
                steps: asks(&body.map.steps),
                around: around(body).any(Workflow::contains_agent_step),
                setup: of_phase(body.setup.as_ref().map(|setup| &setup.phase)).unwrap_or_default(),
                reduce: of_phase(body.reduce.as_ref()).unwrap_or_default(),
                merge,
            },
        }
    }
}

/// Returns the steps that prepare an item's worktree and those that handle its failure.
fn around(body: &MapReduce) -> impl Iterator<Item = &Step> {
    let policy = &body.error_policy;
    let handler = if let OnItemFailure::Custom(name) = &policy.on_item_failure {
        policy.handlers.get(name)
    } else {
        None
    };
    handler.into_iter().flatten().chain(&body.map.worktree.setup)
}

impl TopLevelSteps {
    /// Returns what progress calls a step of an item, by its path from 1.
    pub(crate) fn item_step_name(&self, path: &str) -> Option<String> {
        let number = path.parse::<usize>().ok()?.checked_sub(1)?;
        self.steps.get(number).cloned()
    }

    /// Returns whether a step of a phase may ask an agent.
    pub(crate) fn uses_agent(&self, phase: PhaseName, index: u32) -> bool {
        let asks = match phase {
            PhaseName::Map => return self.asks.around || self.asks.steps.contains(&true),
            PhaseName::Merge => return self.asks.merge,
            PhaseName::Setup => &self.asks.setup,
            PhaseName::Reduce => &self.asks.reduce,
            PhaseName::Steps => &self.asks.steps,
        };
        usize::try_from(index).ok().and_then(|index| asks.get(index)).copied().unwrap_or_default()
    }
}
