//! An agent that is any program: the prompt goes in, the answer comes out.

use std::ffi::OsString;

use prodigy_core::workflow::{CommandAgent, PromptBy};

use super::{Agent, AgentLaunch, AgentReport, AgentRequest, judge};
use crate::process::Ended;

/// A configured program.
pub(super) struct Program {
    config: CommandAgent,
}

impl Program {
    pub(super) fn new(config: CommandAgent) -> Self {
        Self { config }
    }
}

impl Agent for Program {
    fn launch(&self, request: &AgentRequest<'_>) -> AgentLaunch {
        let mut argv: Vec<OsString> = self.config.command.iter().map(OsString::from).collect();
        let stdin = match self.config.prompt {
            PromptBy::Stdin => request.prompt.as_bytes().to_vec(),
            PromptBy::Argument => {
                let ends_options = self.config.command.last().is_some_and(|last| last == "--");
                argv.push(argument(request.prompt, ends_options).into());
                Vec::new()
            }
        };
        AgentLaunch { argv, stdin, env: Vec::new() }
    }

    fn report(&self, ended: &Ended) -> AgentReport {
        AgentReport {
            output: judge::text(&ended.stdout),
            cost_usd: None,
            failure: judge::failure(ended),
        }
    }

    fn program(&self) -> Option<&str> {
        self.config.command.first().map(String::as_str)
    }
}

/// Returns a prompt as an argument that no program takes for an option.
///
/// Prompts hold text from strangers, and `--dangerously-do-anything` would be one.
/// A language model does not mind the space.
fn argument(prompt: &str, ends_options: bool) -> String {
    if prompt.starts_with('-') && !ends_options { format!(" {prompt}") } else { prompt.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use prodigy_core::workflow::AgentConfig;

    use super::*;
    use crate::{
        agent::{agent, judge::tests::ended},
        process::Status,
    };

    fn launch(command: &[&str], by: PromptBy, prompt: &str) -> AgentLaunch {
        let command = command.iter().map(|&word| word.to_owned()).collect();
        let config = AgentConfig::Command(CommandAgent { command, prompt: by });
        agent(&config).launch(&AgentRequest {
            prompt,
            program: Path::new("prodigy"),
            step: "1",
            attempt: 1,
        })
    }

    #[test]
    fn a_prompt_on_standard_input_is_not_an_argument() {
        let launch = launch(&["ai", "--fast"], PromptBy::Stdin, "--help");
        assert_eq!(launch.argv, ["ai", "--fast"]);
        assert_eq!(launch.stdin, b"--help");
    }

    #[test]
    fn a_prompt_as_argument_comes_last_and_is_one_word() {
        let launch = launch(&["ai", "-p"], PromptBy::Argument, "fix $(it) 'now'");
        assert_eq!(launch.argv, ["ai", "-p", "fix $(it) 'now'"]);
        assert_eq!(launch.stdin, b"");
    }

    #[test]
    fn a_prompt_is_never_taken_for_an_option() {
        let argv = |command: &[&str]| launch(command, PromptBy::Argument, "--yolo").argv;
        assert_eq!(argv(&["ai"]), ["ai", " --yolo"]);
        assert_eq!(argv(&["ai", "--"]), ["ai", "--", "--yolo"]);
    }

    #[test]
    fn the_answer_is_what_was_printed_also_when_it_failed() {
        let config = CommandAgent { command: vec!["ai".to_owned()], prompt: PromptBy::Stdin };
        let program = Program::new(config);
        assert_eq!(program.program(), Some("ai"));

        let good = program.report(&ended(Status::Exited(0), "done\n", "noise\n"));
        assert_eq!(good.output, "done\n");
        assert_eq!(good.failure, None);

        let bad = program.report(&Ended { leftovers: 2, ..ended(Status::Exited(1), "half", "") });
        assert_eq!(bad.output, "half");
        assert_eq!(bad.failure.unwrap().output_tail, "half");
    }
}
