//! A workflow that takes the place of the one that a job ran with.

use prodigy_core::{
    effect::{Effect, EffectState},
    event::{JobStarted, PhaseName},
    ids::ItemId,
    job::{ItemStage, Job, StepIdentities},
    workflow::{Counterpart, Workflow},
};

use super::{Error, WorkflowReplacement};

impl WorkflowReplacement {
    /// Finds out which of its steps are done, and which make the effects that were recorded.
    ///
    /// A workflow that has no step for an effect which may have been made is refused: a step
    /// that was only rewritten would make it once more.
    pub(crate) fn match_steps(
        &mut self,
        job: &Job,
        started: &JobStarted,
        workflow: &Workflow,
    ) -> Result<(), Error> {
        if self.workflow.mode != started.mode {
            return Err(Error::OtherWorkflow("the workflow is of another kind now"));
        }
        if started.rounds > 1 {
            return Err(Error::OtherWorkflow("a job with several rounds keeps its workflow"));
        }
        let is_past = |effect: &&Effect| {
            effect.step.starts_with("setup.") && job.phases_done.contains(&PhaseName::Setup)
        };
        for effect in job.ledger.effects().iter().filter(|effect| !is_past(effect)) {
            self.find_step(effect, None, workflow)?;
        }
        for item in job.map.iter().flat_map(|map| &map.items) {
            if matches!(item.stage, ItemStage::Successful | ItemStage::Skipped) {
                continue;
            }
            for effect in item.ledger.iter().flat_map(|ledger| ledger.effects()) {
                self.find_step(effect, Some(&item.id), workflow)?;
            }
        }
        self.workflow.done = self.finished_steps(job, workflow);
        let recorded = self.recorded.as_ref();
        self.workflow.same_steps = recorded.is_some_and(|it| it.has_same_steps(workflow));
        Ok(())
    }

    /// Notes which step makes an effect now.
    fn find_step(
        &mut self,
        effect: &Effect,
        item: Option<&ItemId>,
        workflow: &Workflow,
    ) -> Result<(), Error> {
        match workflow.counterpart(effect, item.is_some(), self.recorded.as_ref()) {
            Counterpart::Step { identity: Some(identity), .. } => {
                let renamed = &mut self.workflow.renamed;
                match &effect.identity {
                    None => drop(renamed.paths.insert(effect.step.clone(), identity)),
                    Some(before) if *before != identity => {
                        renamed.identities.insert(before.clone(), identity);
                    }
                    Some(_) => {}
                }
                Ok(())
            }
            Counterpart::Missing if may_be_made(effect) => Err(Error::NoStepForEffect {
                item: item.cloned(),
                name: effect.name.clone(),
                key: effect.key.clone(),
                is_known: effect.state == EffectState::Committed,
            }),
            Counterpart::Step { identity: None, .. }
            | Counterpart::Unknown
            | Counterpart::Missing => Ok(()),
        }
    }

    /// Returns the steps of the phase under way that are done, from 0; `None` if nothing is
    /// known but how many.
    fn finished_steps(&self, job: &Job, workflow: &Workflow) -> Option<Vec<u32>> {
        let phase = job.phase?;
        let known = u32::try_from(job.done_steps.len()).unwrap_or(u32::MAX);
        let recorded = self.recorded.as_ref().map(StepIdentities::of);
        let first = usize::try_from(job.done).unwrap_or(usize::MAX);
        let done: &[String] = match &recorded {
            _ if known >= job.done => &job.done_steps,
            Some(recorded) => recorded.of_phase(phase).get(..first)?,
            None => return None,
        };
        let now = done.iter().filter_map(|identity| workflow.step_of(identity, false));
        let now: Vec<String> = now.map(|(identity, _)| identity).collect();
        let identities = StepIdentities::of(workflow);
        let numbered = (0..).zip(identities.of_phase(phase));
        Some(numbered.filter(|(_, one)| now.contains(one)).map(|(at, _)| at).collect())
    }
}

/// Returns whether making an effect once more could do harm.
fn may_be_made(effect: &Effect) -> bool {
    let may_be_there = match effect.state {
        EffectState::Prepared
        | EffectState::Committed
        | EffectState::Partial
        | EffectState::Indeterminate => true,
        EffectState::Absent | EffectState::Compensated => false,
    };
    may_be_there && !effect.idempotent
}
