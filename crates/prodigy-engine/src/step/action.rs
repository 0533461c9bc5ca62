//! The actions: a shell command, a prompt for an agent, a file.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    time::Duration,
};

use prodigy_core::{
    failure::{Failure, ReasonCode},
    template::{BoundScript, RenderError, Script, Template},
    vars::Vars,
    workflow::{EnvVar, FileFormat, Step, StepAction, StepAddress},
    yaml,
};

use super::{
    StepContext, StepScope,
    agent::{AgentPrompt, run_agent},
    effect::{prompt_intent, run_with_effect, script_intent},
    foreach,
    output::{
        ActionFailure, ActionOutput, ProcessLimits, file_failure, path_failure, process_failure,
    },
};
use crate::{
    process::{Launch, ProcessOutcome},
    root_dir::{MissingDirs, RootDir},
    store,
};

/// The most that a step may write to its result file.
const RESULT_LIMIT: u64 = 64 * 1024;

/// Where and how one try of a step runs.
#[derive(Clone, Copy)]
pub(super) struct StepAttempt<'a> {
    /// The place where the step stands.
    pub(super) address: &'a StepAddress,
    /// The name of its effect, if that is known already.
    pub(super) key: Option<&'a str>,
    /// Which try, from 1.
    pub(super) attempt: u32,
    /// The key of its action, if it is the action of a step.
    pub(super) action: Option<&'a str>,
    /// The most time left for it, from an enclosing limit.
    pub(super) within: Option<Duration>,
}

impl<'a> StepAttempt<'a> {
    pub(super) fn new(address: &'a StepAddress, attempt: u32, within: Option<Duration>) -> Self {
        Self { address, key: None, attempt, action: None, within }
    }

    /// Returns the path of the step.
    pub(super) fn path(self) -> &'a str {
        self.address.path()
    }
}

/// Carries out a step's action once.
///
/// An error carries the output that came before it, for handlers and logs.
pub(super) async fn run_action(
    workplace: &StepContext,
    step: &Step,
    scope: &mut StepScope,
    which: StepAttempt<'_>,
) -> Result<ActionOutput, Box<ActionFailure>> {
    match &step.action {
        StepAction::Shell { script, program } => {
            let bound = bind_script(script, &scope.vars).map_err(ActionFailure::without_output)?;
            let (vars, intent) =
                (&scope.vars, step.external_effect().map(|_| script_intent(program, &bound)));
            let key = workplace.effect_key(which.address, intent.as_deref());
            let which = StepAttempt { key: Some(&key), ..which };
            let action = run_shell(workplace, step, vars, which, program, &bound);
            Box::pin(run_with_effect(workplace, step, vars, which, intent, action)).await
        }
        StepAction::Agent { agent, prompt, options } => {
            let prompt = prompt
                .render(&scope.vars)
                .map_err(|error| ActionFailure::without_output(template_failure(&error)))?;
            let (vars, intent) =
                (&scope.vars, step.external_effect().map(|_| prompt_intent(agent, &prompt)));
            let key = workplace.effect_key(which.address, intent.as_deref());
            let which = StepAttempt { key: Some(&key), ..which };
            let question = AgentPrompt { agent, prompt: &prompt, options };
            let action = run_agent(workplace, step, vars, which, question);
            Box::pin(run_with_effect(workplace, step, vars, which, intent, action)).await
        }
        StepAction::WriteFile { path, content, format, mode, create_dirs } => {
            workplace
                .verify_location(workplace.tree.path())
                .map_err(ActionFailure::without_output)?;
            let file =
                FileWrite { path, content, format: *format, mode: *mode, dirs: *create_dirs };
            file.write(workplace.tree.path(), &scope.vars)
                .map(ActionOutput::text)
                .map_err(ActionFailure::without_output)
        }
        StepAction::Foreach(each) => {
            Box::pin(foreach::run(workplace, step, each, scope, which)).await
        }
    }
}

/// Runs a shell command, as the action of a step or to list the values of a loop.
pub(super) async fn run_shell(
    workplace: &StepContext,
    step: &Step,
    vars: &Vars,
    which: StepAttempt<'_>,
    program: &str,
    bound: &BoundScript,
) -> Result<ActionOutput, Box<ActionFailure>> {
    let launch =
        prepare_launch(workplace, step, vars, which).map_err(ActionFailure::without_output)?;
    let limits = ProcessLimits { timeout: launch.timeout, idle: launch.idle_timeout };
    let (slot, ended) = launch_script(workplace, launch, program, bound).await?;
    let output = ActionOutput::from_process(slot, &ended);
    match process_failure(&ended, &output, &limits) {
        None => Ok(output),
        Some(failure) => Err(ActionFailure::from_process(
            apply_result_file(workplace, which.path(), failure),
            output,
            &ended.status,
        )),
    }
}

/// Runs a script in a launch that has everything else.
pub(super) async fn launch_script(
    workplace: &StepContext,
    mut launch: Launch,
    program: &str,
    bound: &BoundScript,
) -> Result<(u32, ProcessOutcome), Box<ActionFailure>> {
    launch.argv = vec![program.into(), "-c".into(), (&bound.text).into()];
    launch.env.extend(bound.env.iter().map(|(name, value)| (name.into(), value.into())));
    let mut kept = Vec::new();
    for (name, content) in &bound.files {
        let file = value_file(workplace, content).map_err(ActionFailure::without_output)?;
        launch.env.push((name.into(), file.path().into()));
        kept.push(file);
    }
    workplace.launch(launch).await
}

/// Runs a script and returns all that it prints.
pub async fn run_for_output(
    workplace: &StepContext,
    script: &Script,
    vars: &Vars,
    path: &str,
) -> Result<Vec<u8>, Failure> {
    let step = Step::shell(script.clone());
    let bound = bind_script(script, vars)?;
    let address = StepAddress::named(path);
    let which = StepAttempt::new(&address, 1, None);
    let output = run_shell(workplace, &step, vars, which, "sh", &bound).await;
    let output = output.map_err(|failed| failed.failure)?;
    let file = tempfile::NamedTempFile::new_in(workplace.temp_dir());
    let copied = file.and_then(|mut file| {
        output.copy_to(workplace, file.as_file_mut())?;
        fs::read(file.path())
    });
    copied.map_err(|error| file_failure(&error, &format!("what it printed is lost: {error}")))
}

/// Makes a launch with everything but the program.
pub(super) fn prepare_launch(
    workplace: &StepContext,
    step: &Step,
    vars: &Vars,
    which: StepAttempt<'_>,
) -> Result<Launch, Failure> {
    let cwd = match &step.working_dir {
        Some(directory) => workplace
            .directory(&directory.render(vars).map_err(|error| template_failure(&error))?)?,
        None => workplace.tree.path().to_owned(),
    };
    // A result belongs to one try only. One that cannot be removed is not a file, and not read.
    fs::remove_file(workplace.result_file(which.path())).ok();
    let env: &[EnvVar] = &step.env;
    let timeout = match (step.timeout, which.within) {
        (Some(own), Some(rest)) => Some(own.min(rest)),
        (own, rest) => own.or(rest),
    };
    Ok(Launch {
        argv: Vec::new(),
        env: workplace.environment(env, which, vars)?,
        cwd,
        root: Some(workplace.tree.path().to_owned()),
        stdin: Vec::new(),
        log: None,
        log_cap: workplace.tools.log_cap,
        timeout,
        idle_timeout: step.idle_timeout.or(workplace.tools.idle_timeout),
        grace: workplace.tools.grace,
        secrets: workplace.tools.masked.clone(),
        stream: false,
    })
}

/// Puts a value that a script wants as a file into one.
fn value_file(workplace: &StepContext, content: &str) -> Result<tempfile::NamedTempFile, Failure> {
    let write = || -> std::io::Result<tempfile::NamedTempFile> {
        let mut file = tempfile::NamedTempFile::new_in(workplace.temp_dir())?;
        file.write_all(content.as_bytes())?;
        file.flush()?;
        Ok(file)
    };
    write().map_err(|error| {
        file_failure(&error, &format!("cannot write a value to a temporary file: {error}"))
    })
}

/// Lets a step say itself why it failed, by writing `reason_code` to its result file.
pub(super) fn apply_result_file(
    workplace: &StepContext,
    step: &str,
    mut failure: Failure,
) -> Failure {
    match result_file_reason(workplace, step, &failure) {
        None => {}
        Some(Ok(kind)) => failure.kind = kind,
        Some(Err(why)) => {
            failure.kind = ReasonCode::Unclassified;
            failure.message = format!("{}; {why}", failure.message);
        }
    }
    failure
}

/// Returns the reason that a step names in its result file, if it does, or why that is none.
pub(super) fn result_file_reason(
    workplace: &StepContext,
    step: &str,
    failure: &Failure,
) -> Option<Result<ReasonCode, String>> {
    // Only prodigy itself knows whether it ended the step; what becomes of the worktree of
    // one that was ended depends on it.
    let ended =
        [ReasonCode::Cancelled, ReasonCode::Timeout, ReasonCode::Stalled, ReasonCode::WorkerLost];
    if ended.contains(&failure.kind) {
        return None;
    }
    let path = workplace.result_file(step);
    // The step may have made anything of it, even a pipe.
    let text = store::read_bounded(&path, RESULT_LIMIT).ok()??;
    let said = serde_json::from_slice::<serde_json::Value>(&text).ok()?;
    let code = said.get("reason_code")?;
    Some(ReasonCode::parse(&code.as_str().map_or_else(|| code.to_string(), str::to_owned)))
}

/// Makes a failure of a template that could not be filled in.
pub(super) fn template_failure(error: &RenderError) -> Failure {
    Failure::new(ReasonCode::TemplateError, error.to_string())
}

/// Returns a script's values for a loop's list.
pub(super) fn bind_script(script: &Script, vars: &Vars) -> Result<BoundScript, Failure> {
    script.bind(vars).map_err(|error| template_failure(&error))
}

/// A file that a step writes.
struct FileWrite<'a> {
    path: &'a Template,
    content: &'a Template,
    format: FileFormat,
    mode: Option<u32>,
    dirs: bool,
}

impl FileWrite<'_> {
    /// Writes the file and returns its path.
    fn write(&self, root: &Path, vars: &Vars) -> Result<String, Failure> {
        let shown = self.path.render(vars).map_err(|error| template_failure(&error))?;
        let text = self.content.render(vars).map_err(|error| template_failure(&error))?;
        let text = self.formatted(text)?;
        let dirs = if self.dirs { MissingDirs::Create } else { MissingDirs::Refuse };
        let cannot = |error: &io::Error| format!("cannot write `{shown}`: {error}");
        let mut file = RootDir::open(root)
            .and_then(|root| root.create(Path::new(&shown), self.mode.unwrap_or(0o644), dirs))
            .map_err(|error| path_failure(&error, cannot))?;
        self.write_content(&mut file, text.as_bytes())
            .map_err(|error| file_failure(&error, &cannot(&error)))?;
        Ok(shown)
    }

    /// Writes the content to the open file.
    fn write_content(&self, file: &mut fs::File, bytes: &[u8]) -> io::Result<()> {
        file.write_all(bytes)?;
        match self.mode {
            Some(mode) => file.set_permissions(fs::Permissions::from_mode(mode)),
            None => Ok(()),
        }
    }

    /// Checks the content against its format.
    fn formatted(&self, text: String) -> Result<String, Failure> {
        let bad = |message: String| Failure::new(ReasonCode::ParseError, message);
        match self.format {
            FileFormat::Text => Ok(text),
            FileFormat::Json => {
                let value: serde_json::Value = serde_json::from_str(&text)
                    .map_err(|error| bad(format!("the content is not JSON: {error}")))?;
                let mut pretty =
                    serde_json::to_string_pretty(&value).map_err(|error| bad(error.to_string()))?;
                pretty.push('\n');
                Ok(pretty)
            }
            FileFormat::Yaml => match yaml::parse(&text, 0) {
                Ok(_) => Ok(text),
                Err(found) => {
                    let first = found.into_iter().next().map(|one| one.message);
                    Err(bad(format!("the content is not YAML: {}", first.unwrap_or_default())))
                }
            },
        }
    }
}
