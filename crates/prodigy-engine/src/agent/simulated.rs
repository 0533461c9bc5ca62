//! The built-in agent, seen from the engine. Its process is in [`turn`](super::turn).

use prodigy_core::{
    failure::{Failure, FailureKind},
    workflow::SimulatedAgent,
};

use super::{Agent, AgentLaunch, AgentReport, AgentRequest, judge, turn::SimulatedResult};
use crate::process::Ended;

/// The hidden command that is the agent's process.
const COMMAND: &str = "__simulate";

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
    fn launch(&self, request: &AgentRequest<'_>) -> AgentLaunch {
        let turn = self.config.turn(request.prompt, request.step, request.attempt);
        // Text and numbers always have a JSON form; without one the process would say what it misses.
        let stdin = serde_json::to_vec(&turn).unwrap_or_default();
        AgentLaunch { argv: vec![request.program.into(), COMMAND.into()], stdin, env: Vec::new() }
    }

    fn report(&self, ended: &Ended) -> AgentReport {
        let text = judge::text(&ended.stdout);
        let result: Option<SimulatedResult> =
            text.lines().last().and_then(|line| serde_json::from_str(line).ok());
        let failure = judge::failure(ended).or_else(|| said(result.as_ref(), ended));
        let cost_usd = result.as_ref().map(|result| result.cost_usd);
        let output = result.map_or(text, |result| result.answer);
        AgentReport { output, cost_usd, failure }
    }

    fn program(&self) -> Option<&str> {
        None
    }
}

/// Returns the failure that the agent itself told of, or that it told nothing.
fn said(result: Option<&SimulatedResult>, ended: &Ended) -> Option<Failure> {
    let failure = match result {
        Some(result) if result.permission_denied => {
            Failure::new(FailureKind::PermissionDenied, "the agent was denied a permission")
        }
        Some(_) => return None,
        None if judge::left_out(&ended.stdout) > 0 => {
            Failure::new(FailureKind::AgentCrashed, "the agent's answer is too long to be read")
        }
        None => Failure::new(FailureKind::AgentCrashed, "the agent ended without an answer"),
    };
    Some(judge::with_output(failure, ended))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use prodigy_core::workflow::{SimulatedRule, SimulatedTurn};

    use super::*;
    use crate::{agent::judge::tests::ended, process::Status};

    fn report(status: Status, stdout: &str) -> AgentReport {
        Simulated::new(SimulatedAgent::default()).report(&ended(status, stdout, ""))
    }

    #[test]
    fn the_process_is_told_what_was_decided() {
        let rule = SimulatedRule { answer: "did {prompt}".to_owned(), ..SimulatedRule::default() };
        let agent = Simulated::new(SimulatedAgent { seed: 1, rules: vec![rule] });
        assert_eq!(agent.program(), None);
        let launch = agent.launch(&AgentRequest {
            prompt: "it",
            program: Path::new("bin/prodigy"),
            step: "1",
            attempt: 1,
        });
        assert_eq!(launch.argv, ["bin/prodigy", "__simulate"]);
        let turn: SimulatedTurn = serde_json::from_slice(&launch.stdin).unwrap();
        assert_eq!(turn.answer, "did it");
    }

    #[test]
    fn a_result_line_is_an_answer() {
        let line = r#"{"answer":"done\nwell","cost_usd":0.25,"permission_denied":false}"#;
        let report = report(Status::Exited(0), &format!("{line}\n"));
        assert_eq!(report.output, "done\nwell");
        assert_eq!(report.cost_usd, Some(0.25));
        assert_eq!(report.failure, None);
    }

    #[test]
    fn an_exit_without_an_answer_is_a_crash() {
        let failure = report(Status::Exited(0), "").failure.unwrap();
        assert_eq!(failure.kind, FailureKind::AgentCrashed);
        assert_eq!(failure.message, "the agent ended without an answer");
    }

    #[test]
    fn a_denied_permission_is_a_failure_although_the_exit_code_is_zero() {
        let line = r#"{"answer":"sorry","cost_usd":0.0,"permission_denied":true}"#;
        let report = report(Status::Exited(0), line);
        assert_eq!(report.failure.unwrap().kind, FailureKind::PermissionDenied);
        assert_eq!(report.output, "sorry");
    }

    #[test]
    fn a_signal_counts_more_than_an_answer() {
        let line = r#"{"answer":"done","cost_usd":0.0,"permission_denied":false}"#;
        let failure = report(Status::Signaled(9), line).failure.unwrap();
        assert_eq!(failure.kind, FailureKind::AgentCrashed);
        assert_eq!(failure.exit_code, Some(137));
    }
}
