//! From a workflow to its rehearsal: the same steps and policies, but nobody is asked for money
//! and nothing outside is changed.

use std::time::Duration;

use super::{
    AgentConfig, AgentOptions, Body, Effects, ExternalEffect, SimulatedAgent, SimulatedReset,
    SimulatedRule, SimulatedWork, Step, StepAction, Workflow, step_label,
};
use crate::{
    agent::TokenUsage,
    policy::{Backoff, RetryPolicy},
    template::{Script, ShellDialect, Template, VarRoots},
};

/// The prefix of the name of a step that a rehearsal does not run.
pub const WOULD_RUN: &str = "would run: ";
/// The agent that stands in for commands that change something outside.
const OUTSIDE: &str = "outside";

/// Moves the target to what is to be merged, unless that was done.
const MERGE: &str = r#"git merge-base --is-ancestor "${merge.source_branch}" "${merge.target_branch}" ||
git update-ref "refs/heads/${merge.target_branch}" "${merge.source_branch}""#;

/// The settings of a rehearsal.
#[derive(Clone, Debug, PartialEq)]
pub struct Rehearsal {
    /// The simulated agent that stands in for every agent.
    pub agent: SimulatedAgent,
    /// The factor by which time passes faster where the job waits.
    pub speed: f64,
}

impl Rehearsal {
    /// Changes a workflow into its rehearsal.
    ///
    /// `configured` returns how an agent would be run. One that nobody has configured is left, to
    /// be refused as in a run.
    pub fn prepare(
        &self,
        workflow: &mut Workflow,
        configured: &dyn Fn(&str) -> Option<AgentConfig>,
    ) {
        let names: Vec<String> =
            workflow.required_agents().into_keys().map(str::to_owned).collect();
        for name in names {
            if let Some(original) = configured(&name) {
                let agent = self.hurried(self.stand_in(original));
                workflow.agents.insert(name, AgentConfig::Simulated(agent));
            }
        }
        let mut outside = OUTSIDE.to_owned();
        while workflow.agents.contains_key(&outside) || configured(&outside).is_some() {
            outside.push('_');
        }
        let mut is_outside = false;
        each_step(workflow, &mut |step| {
            is_outside |= keep_inside(step, &outside);
            self.hurry_step(step);
        });
        if is_outside {
            let agent = free(self.hurried(self.agent.clone()));
            workflow.agents.insert(outside, AgentConfig::Simulated(agent));
        }
        hear_judges(workflow);
        merge_in_the_end(workflow);
        self.hurry_policies(workflow);
    }

    /// Returns what stands in for an agent. What a simulated one does otherwise comes behind the
    /// rules of the rehearsal.
    fn stand_in(&self, original: AgentConfig) -> SimulatedAgent {
        let mut agent = self.agent.clone();
        agent.options = match original {
            AgentConfig::Claude(claude) => claude.options,
            AgentConfig::Codex(codex) => codex.options,
            AgentConfig::Command(_) => AgentOptions::default(),
            AgentConfig::Simulated(own) => {
                if agent.seed == 0 {
                    agent.seed = own.seed;
                }
                for rule in own.rules {
                    // In a rehearsal a rule whose fault does not strike is passed over; its work
                    // is not.
                    let work = SimulatedRule { trouble: None, ..rule.clone() };
                    agent.rules.extend(rule.trouble.is_some().then_some(rule));
                    agent.rules.push(work);
                }
                own.options
            }
        };
        agent
    }

    /// Returns an agent whose time passes faster.
    fn hurried(&self, mut agent: SimulatedAgent) -> SimulatedAgent {
        let hurry = |ms: &mut u64| {
            *ms = u64::try_from(self.faster(Duration::from_millis(*ms)).as_millis())
                .unwrap_or(u64::MAX);
        };
        let work = |work: &mut SimulatedWork| {
            hurry(&mut work.delay_ms);
            hurry(&mut work.jitter_ms);
        };
        for rule in &mut agent.rules {
            work(&mut rule.work);
            match rule.trouble.as_mut().map(|trouble| &mut trouble.reset) {
                Some(SimulatedReset::AfterMs(ms)) => hurry(ms),
                Some(SimulatedReset::At(_)) | None => {}
            }
        }
        if let Some(otherwise) = &mut agent.otherwise {
            work(otherwise);
        }
        agent
    }

    /// Lets the time of an agent's step pass faster, as the agent does. Commands take the time
    /// that they take.
    fn hurry_step(&self, step: &mut Step) {
        if let Some(retry) = &mut step.retry {
            self.hurry_retry(retry);
        }
        match &step.action {
            StepAction::Agent { .. } => {
                for limit in [&mut step.timeout, &mut step.idle_timeout].into_iter().flatten() {
                    *limit = self.faster(*limit).max(Duration::from_millis(1));
                }
            }
            StepAction::Shell { .. } | StepAction::WriteFile { .. } | StepAction::Foreach(_) => {}
        }
    }

    fn hurry_policies(&self, workflow: &mut Workflow) {
        if let Some(wait) = &mut workflow.quota.max_wait {
            *wait = self.faster(*wait);
        }
        let Body::MapReduce(job) = &mut workflow.body else { return };
        let policy = &mut job.error_policy;
        if let Some(breaker) = &mut policy.circuit_breaker {
            breaker.timeout = self.faster(breaker.timeout);
        }
        if let Some(retry) = &mut policy.retry {
            self.hurry_retry(retry);
        }
    }

    fn hurry_retry(&self, retry: &mut RetryPolicy) {
        if let Some(longest) = &mut retry.max_delay {
            *longest = self.faster(*longest);
        }
        match &mut retry.backoff {
            Backoff::Fixed { delay } => *delay = self.faster(*delay),
            Backoff::Linear { initial, increment } => {
                *initial = self.faster(*initial);
                *increment = self.faster(*increment);
            }
            Backoff::Exponential { initial, .. } | Backoff::Fibonacci { initial } => {
                *initial = self.faster(*initial);
            }
        }
    }

    fn faster(&self, duration: Duration) -> Duration {
        Duration::try_from_secs_f64(duration.as_secs_f64() / self.speed).unwrap_or(duration)
    }
}

/// Returns an agent that costs nothing: a command that it stands in for would not either.
fn free(mut agent: SimulatedAgent) -> SimulatedAgent {
    let rules = agent.rules.iter_mut().map(|rule| &mut rule.work);
    for work in rules.chain(agent.otherwise.as_deref_mut()) {
        (work.cost_usd, work.tokens) = (0.0, TokenUsage::default());
    }
    agent
}

/// Lets what agents say as judges count, and not a file: nobody writes it in their stead.
fn hear_judges(workflow: &mut Workflow) {
    each_step(workflow, &mut |step| {
        if let Some(validate) = &mut step.validate
            && validate.steps.last().is_some_and(is_agent)
        {
            validate.result_file = None;
        }
    });
}

/// Merges after merge steps in which something stands in for who would have merged.
fn merge_in_the_end(workflow: &mut Workflow) {
    let Some(merge) = &mut workflow.merge else { return };
    let mut stands_in = false;
    each(&mut merge.steps, &mut |step| stands_in |= is_agent(step));
    let names = VarRoots { roots: ["merge".to_owned()].into() };
    if let Ok(script) = Script::parse(MERGE, &names, ShellDialect::Posix, false)
        && stands_in
    {
        let name = Some("merge, as the steps before would have done".to_owned());
        merge.steps.push(Step { name, ..Step::shell(script) });
    }
}

fn is_agent(step: &Step) -> bool {
    match step.action {
        StepAction::Agent { .. } => true,
        StepAction::Shell { .. } | StepAction::WriteFile { .. } | StepAction::Foreach(_) => false,
    }
}

/// Keeps a step from changing anything outside; returns whether an agent stands in for it.
fn keep_inside(step: &mut Step, outside: &str) -> bool {
    let Effects::External(external) = &step.effects else { return false };
    let external = ExternalEffect {
        idempotent: external.idempotent,
        check: external.check.as_ref().and_then(|_| absent()),
        compensate: None,
    };
    step.name = Some(format!("{WOULD_RUN}{}", step_label(step)));
    step.effects = Effects::External(Box::new(external));
    let StepAction::Shell { script, .. } = &step.action else { return false };
    step.action = StepAction::Agent {
        agent: outside.to_owned(),
        prompt: Template::literal(script.source()),
        options: Box::default(),
    };
    true
}

/// Returns a check that finds nothing: in a rehearsal nothing outside is ever changed.
fn absent() -> Option<Script> {
    Script::parse("exit 1", &VarRoots::default(), ShellDialect::Posix, false).ok()
}

/// Calls `change` for every step, at any depth.
fn each_step(workflow: &mut Workflow, change: &mut dyn FnMut(&mut Step)) {
    match &mut workflow.body {
        Body::Sequential { steps, .. } => each(steps, change),
        Body::MapReduce(job) => {
            if let Some(setup) = &mut job.setup {
                each(&mut setup.phase.steps, change);
            }
            each(&mut job.map.worktree.setup, change);
            each(&mut job.map.steps, change);
            for steps in job.error_policy.handlers.values_mut() {
                each(steps, change);
            }
            if let Some(reduce) = &mut job.reduce {
                each(&mut reduce.steps, change);
            }
        }
    }
    if let Some(merge) = &mut workflow.merge {
        each(&mut merge.steps, change);
    }
}

fn each(steps: &mut [Step], change: &mut dyn FnMut(&mut Step)) {
    for step in steps {
        change(step);
        match &mut step.action {
            StepAction::Foreach(inner) => each(&mut inner.steps, change),
            StepAction::Shell { .. } | StepAction::Agent { .. } | StepAction::WriteFile { .. } => {}
        }
        if let Some(validate) = &mut step.validate {
            each(&mut validate.steps, change);
            each(&mut validate.on_incomplete, change);
        }
        if let Some(handler) = &mut step.on_failure {
            each(&mut handler.steps, change);
        }
        each(&mut step.on_success, change);
        for steps in step.on_exit_code.values_mut() {
            each(steps, change);
        }
    }
}
