//! From a workflow and a repository to a run: what `run`, `resume` and `exec` share.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    num::NonZeroU32,
    path::{Path, PathBuf},
    sync::Mutex,
    time::Duration,
};

use prodigy_core::{
    ids::JobId,
    job::{Ending, Job},
    workflow::{AgentConfig, EnvVar, Secret, SecretSource, Workflow},
};
use prodigy_engine::{
    agent::{self, Agent},
    git::Repo,
    process::{Quick, quick},
    run::{self, Run, Settings, base_environment, parse_env_file},
    shutdown::Shutdown,
    store::Layout,
};

use super::{context, lookup::job_error};
use crate::{
    cli::Args,
    config::Config,
    error::{CliError, explained},
    exit::Exit,
    input,
    output::Output,
    report::{
        diagnostics, junit,
        ledger::{self, Bookkeeping, Ledger},
        progress, step_summary,
        summary::{self, Over},
    },
    workflow_file::File,
};

/// How long the command of a secret may take.
const SECRET_TIMEOUT: Duration = Duration::from_secs(30);

/// Where a run takes place.
pub(super) struct World {
    pub(super) home: PathBuf,
    pub(super) repo: Repo,
    pub(super) yes: bool,
    pub(super) profile: Option<String>,
    pub(super) items: ItemRules,
    /// Where a JUnit report is written to at the end.
    pub(super) junit: Option<PathBuf>,
}

/// What the command line asks of the items of a job.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ItemRules {
    /// How many at once, if not as many as the workflow says.
    pub(super) max_parallel: Option<NonZeroU32>,
    /// Whether a job without items fails.
    pub(super) needs_items: bool,
    /// Whether dead letters have an exit code of their own.
    pub(super) fail_on_dlq: bool,
}

/// Prepares a run, starts it, and sees it through to its summary.
pub(super) fn go(
    args: &Args,
    world: World,
    file: File,
    out: &mut Output,
    begin: impl FnOnce(Settings) -> Result<Run, run::Error>,
    job: &JobId,
) -> Result<Exit, CliError> {
    let layout = context::layout(&world.home, &world.repo)?;
    context::claim_name(&layout, &world.repo)?;
    let config = Config::load(args, Some(world.repo.root()))?;
    let workflow = file.loaded.workflow;
    let base_env = environment(&workflow, &file.directory)?;
    let env = chosen_env(&workflow, world.profile.as_deref())?;
    let agents = agents(&workflow, &config, &base_env)?;
    let secrets = secrets(&workflow.secrets, &file.directory, out)?;
    let shutdown = Shutdown::default();
    let reporter = progress::reporter(&workflow, out.color());
    let (reporter, ledger) = Bookkeeping::of(reporter);
    let kept_at = layout.clone();
    let settings = Settings {
        program: program()?,
        base_env,
        env,
        secrets,
        agents,
        grace: config.grace.value,
        idle_timeout: config.idle_timeout.value,
        log_cap: config.log_cap.value,
        disk_floor: config.disk_floor.value,
        durability: config.durability.value,
        max_parallel: world.items.max_parallel,
        needs_items: world.items.needs_items,
        shutdown: shutdown.clone(),
        reporter,
        confirm: Some(progress::confirm(world.yes, shutdown.clone())),
        layout,
        repo: world.repo,
        workflow,
    };
    // One thread: steps wait for processes, and a hand-over between threads at every turn
    // would cost more than all that is computed.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::new(Exit::Failure, "no runtime").because(error))?;
    let result = runtime.block_on(async {
        shutdown.listen().map_err(|error| {
            CliError::new(Exit::Failure, "signals cannot be listened to").because(error)
        })?;
        let run = begin(settings).map_err(|error| run_error(error, job))?;
        run.go().await.map_err(|error| run_error(error, job))
    });
    // Nothing of the job is left to wait for.
    runtime.shutdown_background();
    let (ending, fold) = result?;
    finish(args, &kept_at, job, (ending, &fold), &ledger, out)?;
    if let Some(path) = &world.junit {
        junit::write(path, &kept_at, job, &fold)
            .map_err(|error| CliError::new(Exit::Failure, explained(&error)))?;
    }
    let dead = fold.map.as_ref().map_or(0, |map| map.counts.dead_lettered);
    let exit = summary::exit(ending);
    let is_refused = exit == Exit::Success && world.items.fail_on_dlq && dead > 0;
    Ok(if is_refused { Exit::DeadLetters } else { exit })
}

/// Says what a run came to.
fn finish(
    args: &Args,
    layout: &Layout,
    id: &JobId,
    (ending, job): (Ending, &Job),
    ledger: &Mutex<Ledger>,
    out: &mut Output,
) -> Result<(), CliError> {
    let ledger = ledger::taken(ledger).whole(layout, id).map_err(|error| job_error(id, error))?;
    let program = context::program(args);
    let over = Over { program: &program, layout, id, job, ending, ledger: &ledger };
    summary::show(&over, out);
    if let Some(path) = std::env::var_os("GITHUB_STEP_SUMMARY").filter(|path| !path.is_empty())
        && let Err(error) = step_summary::append(Path::new(&path), job, &ledger)
    {
        out.note(format_args!("warning: the GitHub step summary was not written: {error}"));
    }
    Ok(())
}

/// Refuses a workflow with keys that this version cannot honour.
pub(super) fn refuse_unsupported(file: &File) -> Result<(), CliError> {
    let Some(first) = file.loaded.workflow.unsupported.first() else { return Ok(()) };
    let keys: Vec<_> = file
        .loaded
        .workflow
        .unsupported
        .iter()
        .map(|one| {
            format!("`{}` ({})", one.key, diagnostics::place(&file.loaded.sources, one.span))
        })
        .collect();
    let keys = keys.join(", ");
    Err(CliError::new(Exit::Invalid, format!("this version cannot honour {keys}"))
        .with_hint(format!("take `{}` out to run the workflow without it", first.key)))
}

/// Returns the program that supervisors are started from.
fn program() -> Result<PathBuf, CliError> {
    std::env::current_exe().map_err(|error| {
        CliError::new(Exit::Failure, "prodigy's own program cannot be found").because(error)
    })
}

/// Returns what steps inherit, with the environment files of the workflow.
fn environment(
    workflow: &Workflow,
    directory: &Path,
) -> Result<Vec<(OsString, OsString)>, CliError> {
    let mut env = base_environment(std::env::vars_os());
    for file in &workflow.env_files {
        let path = directory.join(file);
        let text = input::read(&path).map_err(|error| {
            CliError::new(Exit::Invalid, format!("the environment file cannot be used: {error}"))
        })?;
        let variables = parse_env_file(&path, &text)
            .map_err(|error| CliError::new(Exit::Invalid, error.to_string()))?;
        for (name, value) in variables {
            env.retain(|(have, _)| *have != *name);
            env.push((name.into(), value.into()));
        }
    }
    Ok(env)
}

/// Returns `env` with the profile's variables behind it.
fn chosen_env(workflow: &Workflow, profile: Option<&str>) -> Result<Vec<EnvVar>, CliError> {
    let mut env = workflow.env.clone();
    if let Some(name) = profile {
        let Some(variables) = workflow.profiles.get(name) else {
            let known: Vec<_> = workflow.profiles.keys().map(|name| format!("`{name}`")).collect();
            let hint = if known.is_empty() {
                "the workflow has no `profiles`".to_owned()
            } else {
                format!("it has {}", known.join(", "))
            };
            let message = format!("the workflow has no profile `{name}`");
            return Err(CliError::new(Exit::Usage, message).with_hint(hint));
        };
        env.extend(variables.iter().cloned());
    }
    Ok(env)
}

/// Returns the agents that the workflow names; all of them must be there before anything starts.
fn agents(
    workflow: &Workflow,
    config: &Config,
    env: &[(OsString, OsString)],
) -> Result<BTreeMap<String, Box<dyn Agent>>, CliError> {
    let mut agents = BTreeMap::new();
    for (name, step) in workflow.agents_needed() {
        let found: Option<&AgentConfig> =
            workflow.agents.get(name).or_else(|| config.agents.get(name).map(|found| &found.value));
        let label = prodigy_core::workflow::step_label(step);
        let Some(found) = found else {
            let message = format!("no agent named `{name}` is configured, and `{label}` needs it");
            return Err(CliError::new(Exit::Invalid, message).with_hint(format!(
                "add `agents: {{ {name}: {{ type: command, command: [PROGRAM] }} }}` to the workflow or to `.prodigy/config.yml`"
            )));
        };
        let agent = agent::agent(found);
        if let Some(program) = agent.program()
            && !is_installed(program, env)
        {
            let message = format!(
                "the program `{program}` of agent `{name}` is not installed, and `{label}` needs it"
            );
            return Err(CliError::new(Exit::Invalid, message)
                .with_hint("install it, or name another one under `agents`"));
        }
        agents.insert(name.to_owned(), agent);
    }
    Ok(agents)
}

/// Returns whether a program can be found.
fn is_installed(program: &str, env: &[(OsString, OsString)]) -> bool {
    if program.contains('/') {
        return Path::new(program).is_file();
    }
    let path = env.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value);
    path.is_some_and(|path| std::env::split_paths(path).any(|dir| dir.join(program).is_file()))
}

/// Fetches the secrets; one that cannot be had stops the run before it begins.
fn secrets(
    declared: &[Secret],
    directory: &Path,
    out: &mut Output,
) -> Result<Vec<(String, String)>, CliError> {
    let mut secrets = Vec::new();
    for secret in declared {
        let value = fetch(secret, directory).map_err(|why| {
            let message = format!("the secret `{}` cannot be had: {why}", secret.name);
            CliError::new(Exit::Failure, message)
        })?;
        if value.len() < 4 {
            out.note(format_args!(
                "note: the secret `{}` is too short to be masked in output",
                secret.name
            ));
        }
        secrets.push((secret.name.clone(), value));
    }
    Ok(secrets)
}

/// Fetches one secret, without the newline at its end.
fn fetch(secret: &Secret, directory: &Path) -> Result<String, String> {
    let value = match &secret.source {
        SecretSource::Env(name) => std::env::var(name)
            .map_err(|_| format!("the environment variable `{name}` is not set"))?,
        SecretSource::File(file) => {
            input::read(&directory.join(file)).map_err(|error| error.to_string())?
        }
        SecretSource::Command(command) => {
            let program = OsString::from("sh");
            let args = [OsString::from("-c"), command.into()];
            let launch = Quick {
                program: &program,
                args: &args,
                cwd: directory,
                env: &[],
                stdin: b"",
                timeout: SECRET_TIMEOUT,
            };
            let output = quick(&launch).map_err(|error| error.to_string())?;
            if output.status != 0 {
                return Err(format!("its command ended with exit code {}", output.status));
            }
            String::from_utf8(output.stdout).map_err(|_| "it is not UTF-8 text".to_owned())?
        }
    };
    if value.contains('\0') {
        return Err("it holds a NUL byte, which no variable can".to_owned());
    }
    Ok(value.trim_end_matches(['\n', '\r']).to_owned())
}

/// Turns an error of a run into one for people.
fn run_error(error: run::Error, job: &JobId) -> CliError {
    if let run::Error::Store(error) = error {
        return job_error(job, error);
    }
    let resume = format!("`prodigy resume {job}` goes on once that is mended");
    let message = explained(&error);
    let (exit, hint) = match &error {
        run::Error::Journal { .. } => (Exit::Failure, Some(resume)),
        run::Error::DiskFloor { .. } => {
            (Exit::Failure, Some("make some room, or set `PRODIGY_DISK_FLOOR` lower".to_owned()))
        }
        run::Error::Journalled { .. } | run::Error::NoBeginning { .. } => {
            (Exit::Failure, Some(format!("`prodigy repair {job} --dry-run` looks closer")))
        }
        run::Error::Completed { has_dead_letters: true, .. } => {
            (Exit::Usage, Some(format!("`prodigy dlq retry {job}` replays its dead letters")))
        }
        run::Error::Completed { .. } => {
            (Exit::Usage, Some(format!("`prodigy jobs show {job}` shows how it ended")))
        }
        run::Error::OtherRepository { repository, .. } => {
            (Exit::Usage, Some(format!("add `--path {}`", context::quoted(repository))))
        }
        run::Error::WorkflowShrank { .. } => {
            (Exit::Usage, Some("leave out `--use-current-workflow`".to_owned()))
        }
        run::Error::Store(_) | run::Error::Git(_) | run::Error::Prepare { .. } => {
            (Exit::Failure, None)
        }
    };
    let error = CliError::new(exit, message);
    match hint {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}
