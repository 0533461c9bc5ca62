//! The built-in agent, seen from the engine. Its process is in [`turn`].

pub(crate) mod event_printer;
pub(crate) mod quota;
pub(crate) mod turn;

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    path::Path,
};

use prodigy_core::{
    agent::StreamDialect,
    capture::CaptureFormat,
    failure::{Failure, ReasonCode},
    ids::safe_name,
    workflow::{AgentKind, AgentOptions, SimulatedAgent, SimulatedRequest},
};

use super::{
    Agent, AgentExit, AgentLaunch, AgentReport, AgentRequest, claude::min_amount, outcome,
};

/// The hidden command that is the agent's process.
const COMMAND: &str = "__simulate";
/// The directory in the job's state with the numbers of judgements.
const JUDGEMENTS: &str = "simulated-judgements";
/// The file in the job's state that says when the usage limit is reset.
const LIMIT_FILE: &str = "simulated-limit";

/// The simulated agent.
pub(crate) struct SimulatedDriver {
    config: SimulatedAgent,
}

impl SimulatedDriver {
    pub(crate) fn new(config: SimulatedAgent) -> Self {
        Self { config }
    }
}

impl SimulatedDriver {
    /// Counts the judgements of a step of an item, if a rule is about them: also those of earlier
    /// attempts and of a run that was resumed.
    fn judgement(&self, request: &AgentRequest<'_>) -> Result<u32, Failure> {
        if !self.config.counts_judgements(request.step) {
            return Ok(0);
        }
        let directory = request.state.join(JUDGEMENTS);
        let file = directory.join(safe_name(&format!("{}-{}", request.item, request.step)));
        count(&directory, &file).map_err(|error| {
            let message = format!("cannot count judgements in `{}`: {error}", file.display());
            Failure::new(ReasonCode::StoreUnavailable, message)
        })
    }
}

/// Adds one to what a file counts: it has a byte for each.
fn count(directory: &Path, file: &Path) -> io::Result<u32> {
    fs::create_dir_all(directory)?;
    let mut file = OpenOptions::new().create(true).append(true).open(file)?;
    file.write_all(b".")?;
    Ok(u32::try_from(file.metadata()?.len()).unwrap_or(u32::MAX))
}

impl Agent for SimulatedDriver {
    fn launch(&self, request: &AgentRequest<'_>) -> Result<AgentLaunch, Failure> {
        let step = request.definition;
        let turn = self.config.decide_turn(&SimulatedRequest {
            prompt: request.prompt,
            item: request.item,
            step: request.step,
            id: step.id.as_deref(),
            attempt: request.attempt,
            judgement: self.judgement(request)?,
            commit_required: step.commit_required,
            format: step.captures.first().map_or(CaptureFormat::Auto, |one| one.format),
            session: request.session.id,
            schema: request.options.output_schema.as_ref(),
            model: request.options.model.as_deref(),
            max_turns: request.options.max_turns,
            max_budget_usd: min_amount(request.options.max_budget_usd, request.budget_usd),
        });
        // Text and numbers always have a JSON form; without one the process would say what it misses.
        let stdin = serde_json::to_vec(&turn).unwrap_or_default();
        let mut argv = vec![request.program.into(), COMMAND.into()];
        if self.config.has_usage_limit() {
            argv.extend(["--limit".into(), request.state.join(LIMIT_FILE).into()]);
        }
        Ok(AgentLaunch { argv, stdin, env: Vec::new(), dialect: Some(StreamDialect::Claude) })
    }

    fn evaluate(&self, traces: &AgentExit<'_>) -> AgentReport {
        outcome::evaluate_stream(traces)
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
        let agent = SimulatedDriver::new(config);
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
        let trouble = Some(SimulatedTrouble::always(SimulatedFault::UsageLimit));
        let launch = launch(SimulatedRule { trouble, ..SimulatedRule::default() });
        let argv = ["bin/prodigy", "__simulate", "--limit", "state/simulated-limit"];
        assert_eq!(launch.argv, argv);
    }
}
