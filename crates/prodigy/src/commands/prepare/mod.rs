//! From a workflow and a repository to a run: what `run`, `resume` and `exec` share.

pub(crate) mod agents;
mod environment;
pub(crate) mod fingerprint;
pub(crate) mod given_items;
pub(crate) mod hooks;
pub(crate) mod merge_target;
pub(crate) mod parameters;
mod run_error;
pub(crate) mod secrets;
pub(crate) mod step_counts;
pub(crate) mod workflow_file;

use std::{
    ffi::OsString,
    num::NonZeroU32,
    path::{Path, PathBuf},
};

use fingerprint::fingerprint_environment;
use prodigy_core::{
    diagnostic::Diagnostic, dlq::RunFingerprint, event::RunOptions, ids::JobId, workflow::Workflow,
};
use prodigy_engine::{
    agent,
    git::Repo,
    run::{
        self, CheckedEffect, Dispatcher, EffectCheckRequest, Reporter, RunSettings,
        control::shutdown::Shutdown,
    },
    sandbox::Sandbox,
};
use secrets::{fetch_secrets, masked_values};

use super::{
    context,
    jobs::events::EventReporter,
    lookup::{job_error, repository},
    workflow::{run::RehearsalRequest, run_result::RunResult},
};
use crate::{
    cli::Cli,
    commands::{
        policy::policy_file, prepare::workflow_file::WorkflowFile, workflow::exit_rules::ExitRules,
    },
    config::Config,
    error::{CliError, error_chain},
    exit::Exit,
    progress::{
        self,
        run_log::{self, RunLogReporter},
    },
    render::{
        console::Console,
        diagnostics, output_file,
        report::{self, RunSummary, github_summary, junit, skipped_replays},
    },
    trust::{self, ContentSource, RepoContent},
};
use environment::{env_files, profile_env, step_environment};
use run_error::run_error;

/// Where a run takes place.
pub(crate) struct RunSetup {
    pub(crate) home: PathBuf,
    pub(crate) repo: Repo,
    pub(crate) profile: Option<String>,
    /// The most items at once, if this call says so.
    pub(crate) max_parallel: Option<NonZeroU32>,
    /// Where a JUnit report is written to at the end.
    pub(crate) junit: Option<PathBuf>,
    /// The settings of the rehearsal, if it is one.
    pub(crate) rehearsal: Option<RehearsalRequest>,
    /// The other rules for the exit code.
    pub(crate) exit: ExitRules,
    /// Set to show every event.
    pub(crate) verbose: bool,
}

/// Prepares a run, starts it, and sees it through to its summary.
pub(crate) fn run_to_end(
    args: &Cli,
    world: RunSetup,
    file: WorkflowFile,
    out: &mut Console,
    begin: impl FnOnce(RunSettings) -> Result<Dispatcher, run::Error>,
    job: &JobId,
) -> Result<Exit, CliError> {
    let reporter: Box<dyn Reporter> = if world.verbose {
        Box::new(EventReporter::default())
    } else {
        progress::reporter(&file.loaded.workflow, world.max_parallel, out.color())
    };
    let (reporter, notebook) = RunLogReporter::wrap(reporter);
    let (junit, rules) = (world.junit.clone(), world.exit);
    if let Some(path) = &junit {
        output_file::check(path)?;
    }
    let is_rehearsal = world.rehearsal.is_some();
    let repo = world.repo.clone();
    let settings = build_job_context(args, world, file, reporter, out)?;
    let layout = settings.layout.clone();
    let RunResult { ending, state, replayed, is_new } =
        block_on_run(settings, job, async |settings| match begin(settings) {
            Ok(run) => Box::pin(run.run()).await.map(RunResult::of),
            Err(run::Error::Completed { state, .. }) => Ok(RunResult::already_completed(*state)),
            Err(error) => Err(error),
        })?;
    skipped_replays::print_skipped_replays(&replayed, out);
    let notebook = run_log::take_run_log(&notebook);
    let is_retry = rules.retry.is_some();
    let notebook = if is_retry {
        notebook
    } else {
        notebook.with_earlier_runs(&layout, job).map_err(|error| job_error(job, error))?
    };
    let over = RunSummary {
        program: &context::self_command(args),
        layout: &layout,
        id: job,
        job: &state,
        ending,
        notebook: &notebook,
        replays: replayed.ends,
        into: state
            .started
            .as_ref()
            .and_then(|started| merge_target::branch_to_name(&repo, started)),
        is_retry,
        is_rehearsal,
    };
    if is_new {
        print_summary(&over, out);
    } else {
        report::show_already_completed(&over, out);
    }
    if let Some(path) = &junit {
        junit::write(path, &layout, job, &state)
            .map_err(|error| CliError::new(Exit::Failure, error_chain(&error)))?;
    }
    Ok(rules.exit(ending, &state, &replayed))
}

/// Looks at what dead letters changed outside, without running the job.
pub(crate) fn check_effects(
    args: &Cli,
    world: RunSetup,
    file: WorkflowFile,
    out: &mut Console,
    asked: EffectCheckRequest,
) -> Result<Vec<CheckedEffect>, CliError> {
    let reporter = progress::reporter(&file.loaded.workflow, world.max_parallel, out.color());
    let settings = build_job_context(args, world, file, reporter, out)?;
    let job = asked.job.clone();
    block_on_run(settings, &job, async |settings| {
        Box::pin(run::check_effects(settings, asked)).await
    })
}

/// Returns everything about a run that does not come from its journal.
fn build_job_context(
    args: &Cli,
    world: RunSetup,
    file: WorkflowFile,
    reporter: Box<dyn Reporter>,
    out: &mut Console,
) -> Result<RunSettings, CliError> {
    let layout = context::layout(&world.home, &world.repo)?;
    repository::claim_repo_name(&layout, &world.repo, out)?;
    let checkout = match &world.rehearsal {
        Some(rehearsed) => &rehearsed.checkout,
        None => world.repo.root(),
    };
    let content = RepoContent::read(checkout);
    let config = Config::load(args, Some(checkout))?;
    let config = match &world.rehearsal {
        Some(_) => {
            trust::note_untrusted(&content, out);
            config.if_trusted()
        }
        None => require_trusted_config(config, &content)?,
    };
    reject_unsupported_options(&file, &config, out)?;
    if world.rehearsal.is_none() {
        let cut_off = agents::agents_without_network(&file.loaded.workflow, &config);
        print_diagnostics(&file, &cut_off, out);
    }
    let mut workflow = file.loaded.workflow;
    if let Some(rehearsed) = &world.rehearsal {
        let original = workflow.clone();
        rehearsed
            .rehearsal
            .prepare(&mut workflow, &|name| agents::resolve_agent(&original, &config, name));
    }
    let files = env_files(&workflow, &file.directory)?;
    let base_env = step_environment(&files);
    let env = profile_env(&workflow, world.profile.as_deref())?;
    let configured = agents::required_agents(&workflow, &config, &base_env)?;
    agents::reject_bypass_as_root(&workflow, &configured, &base_env, &env)?;
    agents::warn_unpriced_agents(&workflow, &configured, out);
    if world.rehearsal.is_none() {
        trust::refuse_commands(&content, world.repo.checkout(), &workflow, &configured)?;
        trust::announce(&content, &configured, out);
    }
    let trusted = trust::trusted_for(&content, world.repo.checkout());
    let mut found = fingerprint_environment(&workflow, &configured, &base_env, &files, &env);
    (found.policy_snapshot, found.owners) = policy_file::snapshot_and_owners(checkout, out);
    let agents =
        configured.iter().map(|(name, config)| ((*name).to_owned(), agent::driver_for(config)));
    let agents = agents.collect();
    let secrets = fetch_secrets(&workflow.secrets, &file.directory, out)?;
    let masked = masked_values(&secrets, &base_env, &layout, &world.repo)?;
    let sandbox = find_sandbox(&workflow, &world.repo, &base_env)?;
    let shutdown = Shutdown::default();
    Ok(RunSettings {
        program: supervisor_program()?,
        base_env,
        env,
        secrets,
        masked,
        sandbox,
        agents,
        trusted,
        grace: config.grace.value,
        idle_timeout: config.idle_timeout.value,
        log_cap: config.log_cap.value,
        disk_floor: config.disk_floor.value,
        durability: config.durability.value,
        max_parallel: world.max_parallel,
        options: RunOptions::default(),
        shutdown: shutdown.clone(),
        reporter,
        confirm: Some(progress::merge_prompt(shutdown)),
        layout,
        repo: world.repo,
        workflow,
        found,
    })
}

/// Returns the configuration, if all of it holds.
fn require_trusted_config(config: Config, content: &RepoContent) -> Result<Config, CliError> {
    if config.withheld.is_empty() {
        return Ok(config);
    }
    trust::require_trust(content, ContentSource::Config)?;
    let message = "the configuration of this repository changes while it is read";
    Err(CliError::new(Exit::Invalid, message).with_hint("`prodigy trust --show` shows it"))
}

/// Refuses to go on in a repository whose configuration is not trusted, before anything starts.
pub(crate) fn require_trust(repo: &Repo) -> Result<(), CliError> {
    trust::require_trust(&RepoContent::read(repo.root()), ContentSource::Config)
}

/// Returns what a replay would run with now.
pub(crate) fn run_fingerprint(
    args: &Cli,
    file: &WorkflowFile,
    profile: Option<&str>,
    root: &Path,
) -> Result<RunFingerprint, CliError> {
    // Nothing is run with it here.
    let config = Config::load(args, Some(root))?.if_trusted();
    let workflow = &file.loaded.workflow;
    let files = env_files(workflow, &file.directory)?;
    let base_env = step_environment(&files);
    let env = profile_env(workflow, profile)?;
    let configured = agents::required_agents(workflow, &config, &base_env)?;
    let found = fingerprint_environment(workflow, &configured, &base_env, &files, &env);
    Ok(RunFingerprint { workflow_hash: file.hash(), found })
}

/// Sees something through that can be stopped by a signal.
fn block_on_run<T>(
    settings: RunSettings,
    job: &JobId,
    work: impl AsyncFnOnce(RunSettings) -> Result<T, run::Error>,
) -> Result<T, CliError> {
    let shutdown = settings.shutdown.clone();
    // One thread: steps wait for processes, and a hand-over between threads at every turn
    // would cost more than all that is computed.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::new(Exit::Failure, "no runtime").with_source(error))?;
    let result = runtime.block_on(async {
        shutdown.install_signal_handlers().map_err(|error| {
            CliError::new(Exit::Failure, "signals cannot be listened to").with_source(error)
        })?;
        work(settings).await.map_err(|error| run_error(error, job))
    });
    // Nothing of the job is left to wait for.
    runtime.shutdown_background();
    result
}

/// Says what a run came to.
fn print_summary(over: &RunSummary<'_>, out: &mut Console) {
    report::show(over, out);
    if over.is_rehearsal {
        return;
    }
    if let Some(path) = std::env::var_os("GITHUB_STEP_SUMMARY").filter(|path| !path.is_empty())
        && let Err(error) = github_summary::append_github_summary(Path::new(&path), over)
    {
        out.note(format_args!("warning: the GitHub step summary was not written: {error}"));
    }
}

/// Refuses a workflow that asks of agents what they cannot do.
fn reject_unsupported_options(
    file: &WorkflowFile,
    config: &Config,
    out: &mut Console,
) -> Result<(), CliError> {
    let found = agents::unsupported_options(&file.loaded.workflow, config);
    print_diagnostics(file, &found, out);
    if found.is_empty() {
        return Ok(());
    }
    let message = "the workflow asks of agents what they cannot do";
    Err(CliError::new(Exit::Invalid, message)
        .with_hint("`prodigy config show --origin` shows where each agent is configured"))
}

/// Shows what there is to say about a workflow.
fn print_diagnostics(file: &WorkflowFile, found: &[Diagnostic], out: &mut Console) {
    let color = out.color();
    for one in found {
        out.preformatted(&format!(
            "{}\n",
            diagnostics::render_diagnostic(&file.loaded.sources, one, color)
        ));
    }
}

/// Returns the program that supervisors are started from.
fn supervisor_program() -> Result<PathBuf, CliError> {
    std::env::current_exe().map_err(|error| {
        CliError::new(Exit::Failure, "prodigy's own program cannot be found").with_source(error)
    })
}

/// Makes sure that the sandbox of the workflow can be made before anything starts.
fn find_sandbox(
    workflow: &Workflow,
    repo: &Repo,
    env: &[(OsString, OsString)],
) -> Result<Option<Sandbox>, CliError> {
    let Some(config) = &workflow.sandbox else { return Ok(None) };
    let found = Sandbox::detect(config, repo.root(), env);
    found.map(Some).map_err(|error| {
        CliError::new(Exit::Invalid, error.to_string())
            .with_hint(format!("{}, or take `sandbox` out", error.hint()))
    })
}
