//! An agent that is any program: the prompt goes in, the answer comes out.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use jiff::tz::TimeZone;
use prodigy_core::{
    agent::QuotaLimit,
    failure::{Failure, ReasonCode},
    workflow::{AgentKind, CommandAgent, ExitMeaning, PromptBy},
};

use super::{Agent, AgentExit, AgentLaunch, AgentReport, AgentRequest, outcome};
use crate::{
    process::{ProcessOutcome, ProcessStatus},
    root_dir::RootDir,
};

/// The longest answer in a file.
const ANSWER_LIMIT: u64 = 1024 * 1024;

/// A configured program.
pub(super) struct CommandDriver {
    config: CommandAgent,
}

impl CommandDriver {
    pub(super) fn new(config: CommandAgent) -> Self {
        Self { config }
    }

    /// Returns why the program failed, in the words of its configuration.
    fn failure(&self, ended: &ProcessOutcome) -> Option<Failure> {
        let failure = outcome::process_failure(ended)?;
        let meaning = match ended.status {
            // What ended it says more than the code that it still managed to leave.
            ProcessStatus::Exited(code) if ended.ended_by.is_none() => {
                self.config.exit_codes.get(&code)
            }
            ProcessStatus::Exited(_)
            | ProcessStatus::Signaled(_)
            | ProcessStatus::NotStarted { .. } => None,
        };
        match meaning {
            Some(ExitMeaning::Success) => None,
            Some(ExitMeaning::Failure(kind)) => Some(Failure { kind: *kind, ..failure }),
            None => Some(failure),
        }
    }

    /// Returns the limit that the program ran into: its last lines say so, or its exit code does.
    fn limit(&self, traces: &AgentExit<'_>, failure: &Failure) -> Option<QuotaLimit> {
        let ProcessOutcome { status, ended_by, stdout, stderr, .. } = traces.ended;
        let ProcessStatus::Exited(code) = status else { return None };
        if ended_by.is_some() {
            return None;
        }
        let said =
            |printed: &str| QuotaLimit::find_in_output(printed, traces.now, &TimeZone::system());
        // What a model wrote is on standard output: there only the very last line is the program's.
        let printed = outcome::output_tail(stdout);
        let last = printed.lines().next_back().unwrap_or_default();
        let said = said(&outcome::output_tail(stderr)).or_else(|| said(last));
        match self.config.exit_codes.get(code) {
            None => said,
            Some(ExitMeaning::Failure(ReasonCode::AuthFailed)) => {
                Some(QuotaLimit::no_access(&failure.message))
            }
            Some(ExitMeaning::Failure(ReasonCode::QuotaExhausted)) => {
                said.or_else(|| Some(QuotaLimit::without_reset(&failure.message)))
            }
            // The configuration knows better.
            Some(ExitMeaning::Failure(_) | ExitMeaning::Success) => None,
        }
    }
}

impl Agent for CommandDriver {
    fn launch(&self, request: &AgentRequest<'_>) -> Result<AgentLaunch, Failure> {
        let mut argv: Vec<OsString> = self.config.command.iter().map(OsString::from).collect();
        let stdin = match self.config.prompt {
            PromptBy::Stdin => request.prompt.as_bytes().to_vec(),
            PromptBy::Argument => {
                let ends_options = self.config.command.last().is_some_and(|last| last == "--");
                argv.push(argument(request.prompt, ends_options).into());
                Vec::new()
            }
        };
        if let Some(file) = &self.config.result_file {
            let (root, path) = answer_file(request.worktree, request.cwd, file);
            // An answer belongs to one prompt only. What cannot be removed is no file.
            RootDir::open(root).and_then(|root| root.remove_file(&path)).ok();
        }
        Ok(AgentLaunch { argv, stdin, env: Vec::new(), dialect: None })
    }

    fn evaluate(&self, traces: &AgentExit<'_>) -> AgentReport {
        let ended = traces.ended;
        let mut report = AgentReport {
            output: outcome::output_text(&ended.stdout),
            is_printed: true,
            failure: self.failure(ended),
            ..AgentReport::default()
        };
        report.limit = report.failure.as_ref().and_then(|failure| self.limit(traces, failure));
        let Some(file) = &self.config.result_file else { return report };
        match answer(traces, file) {
            Ok(answer) => (report.output, report.is_printed) = (answer, false),
            Err(failure) => {
                report.failure.get_or_insert_with(|| outcome::with_output(failure, ended));
            }
        }
        report
    }

    fn program(&self) -> Option<&str> {
        self.config.command.first().map(String::as_str)
    }

    fn kind(&self) -> AgentKind {
        AgentKind::Command
    }

    fn access_hint(&self) -> String {
        let program = self.program().unwrap_or_default();
        format!("renew the credential that `{program}` uses")
    }
}

/// Reads an answer that the program left in a file.
fn answer(traces: &AgentExit<'_>, file: &str) -> Result<String, Failure> {
    let (root, path) = answer_file(traces.worktree, traces.cwd, file);
    let unread = |message: String| Failure::new(ReasonCode::OutputUnparseable, message);
    match RootDir::open(root).and_then(|root| root.read_bounded(&path, ANSWER_LIMIT)) {
        Ok(Some(bytes)) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Ok(None) => Err(unread(format!("the agent left no answer in `{file}`"))),
        Err(error) if error.is_too_large() => {
            let message = format!("the agent's answer in `{file}` is too large: {error}");
            Err(Failure::new(ReasonCode::OutputTooLarge, message))
        }
        Err(error) if error.io().is_some() => {
            Err(unread(format!("the agent's answer in `{file}` cannot be read: {error}")))
        }
        Err(error) => Err(unread(error.to_string())),
    }
}

/// Returns where the program leaves its answer: a directory, and the path in there.
fn answer_file<'a>(worktree: &'a Path, cwd: &'a Path, file: &str) -> (&'a Path, PathBuf) {
    match cwd.strip_prefix(worktree) {
        Ok(inside) => (worktree, inside.join(file)),
        Err(_) => (cwd, file.into()),
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
    use std::fs;

    use prodigy_core::workflow::AgentOptions;

    use crate::{
        agent::{outcome::tests::ended, tests},
        process::TerminationReason,
    };

    use super::*;

    fn config(command: &[&str]) -> CommandAgent {
        CommandAgent::new(command.iter().map(|&word| word.to_owned()).collect())
    }

    fn launch(command: &[&str], by: PromptBy, prompt: &str) -> AgentLaunch {
        let program = CommandDriver::new(CommandAgent { prompt: by, ..config(command) });
        tests::launch(&program, prompt, &AgentOptions::default(), |_| {}).unwrap()
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
        let program = CommandDriver::new(config(&["ai"]));
        assert_eq!(program.program(), Some("ai"));
        let at = Path::new(".");

        let good = program
            .evaluate(&tests::traces(&ended(ProcessStatus::Exited(0), "done\n", "noise\n"), at));
        assert_eq!(good.output, "done\n");
        assert_eq!(good.failure, None);

        let half = ProcessOutcome { leftovers: 2, ..ended(ProcessStatus::Exited(1), "half", "") };
        let bad = program.evaluate(&tests::traces(&half, at));
        assert_eq!(bad.output, "half");
        assert_eq!(bad.failure.unwrap().output_tail, "half");
    }

    #[test]
    fn an_exit_code_means_what_the_configuration_says() {
        let exit_codes =
            [(2, ExitMeaning::Success), (75, ExitMeaning::Failure(ReasonCode::RateLimited))];
        let program =
            CommandDriver::new(CommandAgent { exit_codes: exit_codes.into(), ..config(&["ai"]) });
        let kind = |ended: &ProcessOutcome| {
            program
                .evaluate(&tests::traces(ended, Path::new(".")))
                .failure
                .map(|failure| failure.kind)
        };
        let exit = |code| ended(ProcessStatus::Exited(code), "", "");
        assert_eq!(kind(&exit(0)), None);
        assert_eq!(kind(&exit(2)), None);
        assert_eq!(kind(&exit(75)), Some(ReasonCode::RateLimited));
        assert_eq!(kind(&exit(3)), Some(ReasonCode::AgentError));
        let late = ProcessOutcome { ended_by: Some(TerminationReason::Timeout), ..exit(2) };
        assert_eq!(kind(&late), Some(ReasonCode::Timeout));
    }

    #[test]
    fn a_limit_is_found_in_the_last_lines_of_one_that_failed_or_in_its_exit_code() {
        let exit_codes = [
            (2, ExitMeaning::Success),
            (3, ExitMeaning::Failure(ReasonCode::AgentError)),
            (9, ExitMeaning::Failure(ReasonCode::QuotaExhausted)),
        ];
        let program =
            CommandDriver::new(CommandAgent { exit_codes: exit_codes.into(), ..config(&["ai"]) });
        let limit = |ended: &ProcessOutcome| {
            let limit = program.evaluate(&tests::traces(ended, Path::new("."))).limit;
            limit
                .map_or_else(|| "-".to_owned(), |it| format!("{:?} {:?}", it.resets_at, it.message))
        };
        let reached = "Claude AI usage limit reached|1794826800\n";
        let ends = [
            ended(ProcessStatus::Exited(1), reached, ""),
            ended(ProcessStatus::Exited(1), "half", reached),
            ended(ProcessStatus::Exited(75), reached, "bye"),
            ended(ProcessStatus::Exited(9), "", "no more\n"),
            ended(ProcessStatus::Exited(9), reached, ""),
            ended(ProcessStatus::Exited(0), reached, reached),
            ended(ProcessStatus::Exited(2), reached, ""),
            ended(ProcessStatus::Exited(3), reached, ""),
            ended(ProcessStatus::Signaled(9), reached, ""),
            ProcessOutcome {
                ended_by: Some(TerminationReason::Timeout),
                ..ended(ProcessStatus::Exited(1), reached, "")
            },
            ended(ProcessStatus::Exited(1), "quota exceeded", ""),
        ];
        insta::assert_snapshot!(ends.iter().map(limit).collect::<Vec<_>>().join("\n"), @r#"
        Some(2026-11-16T11:00:00Z) "Claude AI usage limit reached|1794826800"
        Some(2026-11-16T11:00:00Z) "Claude AI usage limit reached|1794826800"
        Some(2026-11-16T11:00:00Z) "Claude AI usage limit reached|1794826800"
        None "the agent exited with code 9: no more"
        Some(2026-11-16T11:00:00Z) "Claude AI usage limit reached|1794826800"
        -
        -
        -
        -
        -
        -
        "#);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test plays the agent")]
    fn an_answer_in_a_file_belongs_to_one_prompt() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        let result_file = Some("answer.md".to_owned());
        let program = CommandDriver::new(CommandAgent { result_file, ..config(&["ai"]) });
        let done = ended(ProcessStatus::Exited(0), "noise", "");

        fs::write(at.join("answer.md"), "old").unwrap();
        let options = AgentOptions::default();
        tests::launch(&program, "x", &options, |request| request.cwd = at).unwrap();
        let missing = program.evaluate(&tests::traces(&done, at));
        assert_eq!(missing.output, "noise");
        let failure = missing.failure.unwrap();
        assert_eq!(failure.kind, ReasonCode::OutputUnparseable);
        assert_eq!(failure.message, "the agent left no answer in `answer.md`");

        fs::write(at.join("answer.md"), "new").unwrap();
        let report = program.evaluate(&tests::traces(&done, at));
        assert_eq!((report.output.as_str(), report.failure), ("new", None));
    }
}
