//! The built-in agent, seen from the engine. Its process is in [`turn`](super::turn).

use prodigy_core::{
    agent::StreamDialect,
    capture::CaptureFormat,
    failure::Failure,
    workflow::{AgentKind, AgentOptions, SimulatedAgent, SimulatedRequest},
};

use super::{Agent, AgentLaunch, AgentReport, AgentRequest, RunTraces, claude::lower, stream};

/// The hidden command that is the agent's process.
const COMMAND: &str = "__simulate";
/// The file in the job's state that says when the usage limit is reset.
const LIMIT_FILE: &str = "simulated-limit";

/// The simulated agent.
pub(super) struct Simulated {
    config: SimulatedAgent,
}

impl Simulated {
    pub(super) fn new(config: SimulatedAgent) -> Self {
        Self { config }
    }
}

impl Agent for Simulated {
    fn launch(&self, request: &AgentRequest<'_>) -> Result<AgentLaunch, Failure> {
        let step = request.definition;
        let turn = self.config.turn(&SimulatedRequest {
            prompt: request.prompt,
            item: request.item,
            step: request.step,
            id: step.id.as_deref(),
            attempt: request.attempt,
            commit_required: step.commit_required,
            format: step.captures.first().map_or(CaptureFormat::Auto, |one| one.format),
            session: request.session.id,
            schema: request.options.output_schema.as_ref(),
            model: request.options.model.as_deref(),
            max_turns: request.options.max_turns,
            max_budget_usd: lower(request.options.max_budget_usd, request.budget_usd),
        });
        // Text and numbers always have a JSON form; without one the process would say what it misses.
        let stdin = serde_json::to_vec(&turn).unwrap_or_default();
        let mut argv = vec![request.program.into(), COMMAND.into()];
        if self.config.has_usage_limit() {
            argv.extend(["--limit".into(), request.state.join(LIMIT_FILE).into()]);
        }
        Ok(AgentLaunch { argv, stdin, env: Vec::new(), dialect: Some(StreamDialect::Claude) })
    }

    fn report(&self, traces: &RunTraces<'_>) -> AgentReport {
        stream::report(traces)
    }

    fn program(&self) -> Option<&str> {
        None
    }

    fn options(&self) -> Option<&AgentOptions> {
        Some(&self.config.options)
    }

    fn kind(&self) -> AgentKind {
        AgentKind::Simulated
    }
}

#[cfg(test)]
mod tests {
    use prodigy_core::workflow::{
        SimulatedFault, SimulatedRule, SimulatedTrouble, SimulatedTurn, SimulatedWork,
    };

    use super::{super::tests, *};

    fn launch(rule: SimulatedRule) -> AgentLaunch {
        let config = SimulatedAgent { seed: 1, rules: vec![rule], ..SimulatedAgent::default() };
        let agent = Simulated::new(config);
        assert_eq!(agent.program(), None);
        tests::launch(&agent, "it", &AgentOptions::default(), |_| {}).unwrap()
    }

    #[test]
    fn the_process_is_told_what_was_decided() {
        let answer = Some("did {prompt} for {item}".to_owned());
        let work = SimulatedWork { answer, ..SimulatedWork::default() };
        let launch = launch(SimulatedRule { work, ..SimulatedRule::default() });
        assert_eq!(launch.argv, ["bin/prodigy", "__simulate"]);
        let turn: SimulatedTurn = serde_json::from_slice(&launch.stdin).unwrap();
        assert_eq!(turn.answer, "did it for item-1");
    }

    #[test]
    fn attempts_that_may_hit_a_usage_limit_share_it() {
        let trouble = Some(SimulatedTrouble::certain(SimulatedFault::UsageLimit));
        let launch = launch(SimulatedRule { trouble, ..SimulatedRule::default() });
        let argv = ["bin/prodigy", "__simulate", "--limit", "state/simulated-limit"];
        assert_eq!(launch.argv, argv);
    }
}
