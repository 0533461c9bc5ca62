//! The start of a run: a new job, or the resume of an interrupted one.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    num::NonZeroU32,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use prodigy_core::{
    dlq::RunFingerprint,
    event::{
        EnvironmentFingerprint, Event, EventRecord, JobStarted, OptionChanges, RunOptions,
        WorkflowChange,
    },
    ids::{JobId, NameError},
    job::{Job, JobOutcome, checkpoint::Checkpoint},
    mask::Mask,
    workflow::{EnvVar, Workflow},
};

use super::{
    Dispatcher, Error, MergeConfirmer, ReplayRequest, Reporter,
    dispatcher::run_state::RunState,
    replay::{ReplaySetup, replay_counts::ReplayedItems},
    run_options,
};
use crate::{
    agent::Agent,
    clock,
    git::{Repo, RepoGuard},
    process,
    run::control::{lost_end::refuse_lost_end, shutdown::Shutdown},
    sandbox::Sandbox,
    store::{
        Durability, JobLock, JournalRecovery, JournalWriter, Layout, create_dir, load_checkpoint,
        read_bounded, refuse_removed, write_atomic,
    },
    trust::TrustedFiles,
};

/// The largest record of a repository's settings that is read back.
const GUARD_LIMIT: u64 = 256 * 1024 * 1024;

/// Everything about a run that does not come from its journal.
pub struct RunSettings {
    /// Every path.
    pub layout: Layout,
    /// The repository.
    pub repo: Repo,
    /// The workflow.
    pub workflow: Workflow,
    /// The fingerprint of the environment in which its steps run.
    pub found: EnvironmentFingerprint,
    /// This program.
    pub program: PathBuf,
    /// The inherited environment with `env_files`, scrubbed.
    pub base_env: Vec<(OsString, OsString)>,
    /// `env` and the chosen profile.
    pub env: Vec<EnvVar>,
    /// Secrets, by variable name.
    pub secrets: Vec<(String, String)>,
    /// The values masked in everything that is stored: the secrets, and others that steps inherit.
    pub masked: Vec<String>,
    /// The sandbox for agents and the steps of items.
    pub sandbox: Option<Sandbox>,
    /// The agents, by name.
    pub agents: BTreeMap<String, Box<dyn Agent>>,
    /// The content of the repository that the user trusts.
    pub trusted: TrustedFiles,
    /// The time between asking a process to end and making it.
    pub grace: Duration,
    /// The longest a step may print nothing.
    pub idle_timeout: Option<Duration>,
    /// The most one step may add to a log file.
    pub log_cap: u64,
    /// The disk space that must stay free, in bytes.
    pub disk_floor: u64,
    /// The most items at once in this run alone.
    pub max_parallel: Option<NonZeroU32>,
    /// The flags of the job; known once its journal is.
    pub options: RunOptions,
    /// The durability of the journal's records: synced to disk or not.
    pub durability: Durability,
    /// The handle that stops the run.
    pub shutdown: Shutdown,
    /// The receiver of the records.
    pub reporter: Box<dyn Reporter>,
    /// The prompt before the merge; taken out while it waits for an answer.
    pub confirm: Option<Box<dyn MergeConfirmer>>,
}

/// A new job.
pub struct NewJob {
    /// Its id.
    pub job: JobId,
    /// Its first record.
    pub started: JobStarted,
    /// The workflow's files.
    pub texts: WorkflowCopy,
    /// The items that were given with `--input`; kept with the job.
    pub items: Option<Vec<u8>>,
}

/// The files of a workflow, kept with the job so that a resume uses the same text.
pub struct WorkflowCopy {
    /// All of them, as JSON.
    pub sources: Vec<u8>,
    /// The workflow's own text, for people.
    pub text: String,
}

impl WorkflowCopy {
    /// Keeps them with a job.
    fn store(&self, state: &Path) -> Result<(), Error> {
        write_atomic(&state.join("workflow.yml"), self.text.as_bytes())?;
        write_atomic(&state.join("sources.json"), &self.sources)?;
        Ok(())
    }
}

/// A workflow that takes the place of the stored one.
pub struct WorkflowReplacement {
    /// The change as it is recorded in the journal.
    pub workflow: WorkflowChange,
    /// Its files.
    pub texts: WorkflowCopy,
    /// The workflow that the job ran with so far, if it is known.
    pub recorded: Option<Workflow>,
}

/// A job that is taken up again.
pub struct JobResume {
    /// The job.
    pub job: JobId,
    /// The lock, held for life.
    pub lock: JobLock,
    /// The workflow that takes the place of the stored one.
    pub changed: Option<WorkflowReplacement>,
    /// The dead letters that are tried again.
    pub replay: Option<ReplayRequest>,
    /// The flags that are given now; others stay as they were.
    pub given: OptionChanges,
    /// The branch that the result goes to from here on, if another than before.
    pub into: Option<String>,
    /// Set to retry a usage limit at once instead of waiting for its reset.
    pub try_now: bool,
}

/// Makes an id that no other job has: the kind, the time, and four random characters.
pub fn new_job_id(kind: &str) -> Result<JobId, NameError> {
    const LETTERS: &[u8] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let mut random = [0; 4];
    // Without random numbers the time alone has to tell jobs apart.
    getrandom::fill(&mut random).ok();
    let letter = |byte: &u8| LETTERS.get(usize::from(byte % 32)).map_or('x', |c| char::from(*c));
    let word: String = random.iter().map(letter).collect();
    format!("{kind}-{}-{word}", clock::now().strftime("%Y%m%d-%H%M%S")).parse()
}

/// Begins a new job: everything it needs later is on disk before anything runs.
pub fn start(settings: RunSettings, beginning: NewJob) -> Result<Dispatcher, Error> {
    let NewJob { job, mut started, texts, items } = beginning;
    let mut settings = settings;
    run_options::apply_options(&mut settings, started.options);
    // What a resume needs stays as it is; the name is only shown.
    let mask = secret_mask(&settings.masked);
    started.workflow_name = started.workflow_name.map(|name| mask.mask_str(&name));
    started.found = Some(settings.found.clone());
    started.budget = settings.workflow.budget;
    super::dispatcher::actions::check_free_space(&settings)?;
    super::dispatcher::budget_tracker::check_daily_budget(&settings, &job)?;
    refuse_removed(&settings.layout, &job)?;
    let state = settings.layout.state_dir(&job);
    create_dir(&state)?;
    let lock = JobLock::take(&settings.layout, &job)?;
    // A job that is there already is refused before anything of it is replaced.
    let mut journal = JournalWriter::create(&settings.layout, &job, settings.durability)?;
    let first = vec![Event::JobStarted(Box::new(started))];
    let begun = texts.store(&state).and_then(|()| {
        settings.layout.record_location(&job)?;
        if let Some(items) = &items {
            write_atomic(&settings.layout.input_file(&job), items)?;
        }
        let records = journal.append(first, clock::now())?;
        journal.sync()?;
        Ok(records)
    });
    let records = match begun {
        Ok(records) => records,
        Err(error) => {
            // A job without a beginning could be neither resumed nor started again.
            journal.discard();
            return Err(error);
        }
    };
    let mut fold = Job::default();
    let mut parts = RunState::new(settings, job, lock, journal)?;
    parts.apply_records(&mut fold, &records)?;
    Ok(Dispatcher::new(parts, fold))
}

/// Takes a job up again: fold the journal, end what the dead run left, go on.
pub fn resume(settings: RunSettings, resumption: JobResume) -> Result<Dispatcher, Error> {
    let JobResume { job, lock, changed, replay, given, into, try_now } = resumption;
    super::dispatcher::actions::check_free_space(&settings)?;
    super::dispatcher::budget_tracker::check_daily_budget(&settings, &job)?;
    let mut settings = settings;
    let (journal, opened, fold) = load_job(&mut settings, &job)?;
    let Some(started) = &fold.started else { return Err(Error::NoBeginning { job }) };
    let repository = settings.layout.current_path(&started.repository)?;
    if repository != settings.repo.root().to_string_lossy() {
        return Err(Error::OtherRepository { job, repository: repository.into() });
    }
    settings.repo.enter_linked_checkout(started.worktree.as_deref())?;
    let options =
        run_options::resumed_options(started, &settings.workflow, changed.is_some(), given);
    run_options::apply_options(&mut settings, options);
    let options = Some(Box::new(options)).filter(|options| **options != started.options);
    let run = RunFingerprint {
        workflow_hash: match &changed {
            Some(changed) => changed.workflow.hash.clone(),
            None => started.workflow_hash.clone(),
        },
        found: settings.found.clone(),
    };
    let ReplaySetup { replays, reopened, gate } = match replay {
        Some(replay) => replay.prepare(&mut settings, &job, &fold, run, &lock)?,
        None => ReplaySetup::default(),
    };
    if matches!(fold.end, Some(JobOutcome::Completed(_))) && reopened.is_none() {
        super::dispatcher::views::restore_views(&mut settings, &job, &fold, &lock);
        return Err(Error::Completed { job, state: Box::new(fold) });
    }
    if reopened.is_some() {
        // What the items come to is found out anew; if nothing changes, it is the same again.
        forget(&settings.layout.results_file(&job))?;
    }
    let mut changed = changed;
    if let Some(changed) = &mut changed {
        changed.match_steps(&fold, started, &settings.workflow)?;
        changed.texts.store(&settings.layout.state_dir(&job))?;
    }
    settings.layout.record_location(&job)?;
    clean_up_dead_run(&mut settings, &job, &fold)?;
    let mut parts = RunState::new(settings, job, lock, journal)?;
    parts.replays = Arc::new(replays);
    parts.gate = gate;
    parts.before = opened.last_seq;
    parts.replayed_before = ReplayedItems::of(&fold);
    parts.merge_waited = fold.waits_for_merge();
    if let Some(torn) = &opened.torn {
        parts.note(&format!(
            "the last record of the journal was cut off: `{}` line {} was saved to `{}`",
            torn.file.display(),
            torn.line,
            torn.saved_to.display()
        ));
    }
    let mut run = Dispatcher::new(parts, fold);
    let unknown = run.record_interrupted_runs()?;
    run.catch_up_spending();
    let known = run.job.started.as_ref().and_then(|started| started.found.as_ref());
    let found = Some(run.parts.settings.found.clone()).filter(|found| Some(found) != known);
    let found = found.map(Box::new);
    if reopened.as_ref().is_some_and(|reopened| reopened.base_commit.is_none()) {
        // Once it is recorded that the items come first, nobody knows of the step any more.
        run.restore_interrupted_step()?;
    }
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let workflow = changed.map(|changed| changed.workflow);
    if workflow.as_ref().is_some_and(|workflow| !workflow.same_steps) {
        run.note_lost_suspensions();
    }
    let known = run.job.started.as_ref().map(|started| started.budget).unwrap_or_default();
    let budget = Some(run.parts.settings.workflow.budget).filter(|budget| *budget != known);
    let resumed =
        Event::JobResumed { version, workflow, reopened, found, budget, options, into, try_now };
    let records = run.parts.journal.append(vec![resumed], clock::now());
    let job = &run.parts.id;
    let records = records.map_err(|source| Error::Journal { job: job.clone(), source })?;
    run.parts.apply_records(&mut run.job, &records)?;
    run.hold_for_unknown_cost(unknown)?;
    run.note_wait();
    Ok(run)
}

/// Ends what a run that died left behind.
pub(crate) fn clean_up_dead_run(
    settings: &mut RunSettings,
    job: &JobId,
    fold: &Job,
) -> Result<(), Error> {
    process::kill_job_processes(&state_dir(settings, job), settings.grace);
    if let Some(began) = fold.started_at {
        let in_flight = settings.layout.in_flight_dir(job);
        for lock in settings.repo.remove_job_locks(job.as_str(), began.into(), &in_flight)? {
            let note = format!("a git that was killed left `{}`; it was removed", lock.display());
            settings.reporter.note(&note);
        }
    }
    super::dispatcher::checkout_watch::recover_checkout(
        settings,
        job,
        fold.checkout_update.as_ref(),
    )
}

/// Deletes a file that can be made again.
fn forget(path: &Path) -> Result<(), Error> {
    match std::fs::remove_file(path) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            let what = format!("`{}` cannot be removed", path.display());
            Err(Error::Prepare { what, source })
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Opens a journal to go on with it, and folds it, from its checkpoint if there is a usable one.
pub(crate) fn load_job(
    settings: &mut RunSettings,
    job: &JobId,
) -> Result<(JournalWriter, JournalRecovery, Job), Error> {
    settings.layout.refuse_other_location(job)?;
    refuse_lost_end(&settings.layout, job)?;
    let checkpoint = load_checkpoint::<Checkpoint>(&settings.layout, job).unwrap_or_else(|error| {
        // It is only a shortcut: the journal holds everything that it would say.
        settings.reporter.note(&format!("the checkpoint is not used: {error}"));
        None
    });
    let readable = checkpoint.filter(|checkpoint| {
        let is_readable = checkpoint.is_readable();
        if !is_readable {
            let note = "the checkpoint is not used: it is of another version of prodigy";
            settings.reporter.note(note);
        }
        is_readable
    });
    let mut fold = readable.map(Checkpoint::into_job).unwrap_or_default();
    let apply = |fold: &mut Job, record: &EventRecord| {
        fold.apply(record).map_err(|source| Error::Journalled { job: job.clone(), source })
    };
    let (layout, covered) = (&settings.layout, fold.seq);
    let each = |record| apply(&mut fold, &record);
    let (journal, opened) =
        JournalWriter::open_after(layout, job, settings.durability, covered, each)?;
    Ok((journal, opened, fold))
}

/// Returns where a job's state is, by the one path that its processes are known by.
pub(crate) fn state_dir(settings: &RunSettings, job: &JobId) -> PathBuf {
    let state = settings.layout.state_dir(job);
    state.canonicalize().unwrap_or(state)
}

/// Remembers the repository's settings as they were when the job began.
pub(crate) fn load_repo_guard(settings: &RunSettings, job: &JobId) -> Result<RepoGuard, Error> {
    let path = settings.layout.state_dir(job).join("guard.json");
    if let Some(text) = read_bounded(&path, GUARD_LIMIT)? {
        let text = String::from_utf8_lossy(&text);
        return Ok(RepoGuard::from_json(&settings.repo, &text)?);
    }
    let guard = RepoGuard::capture(&settings.repo)?;
    write_atomic(&path, guard.to_json()?.as_bytes())?;
    Ok(guard)
}

/// Lets what is remembered of a repository's settings hold where the repository is now.
pub fn relocate_guard(layout: &Layout, job: &JobId, from: &Path, to: &Path) -> Result<(), Error> {
    let path = layout.state_dir(job).join("guard.json");
    if let Some(text) = read_bounded(&path, GUARD_LIMIT)? {
        let text = RepoGuard::relocate_json(&String::from_utf8_lossy(&text), from, to)?;
        write_atomic(&path, text.as_bytes())?;
    }
    Ok(())
}

/// Forgets the repository's settings: until the job goes on they are the user's to change.
pub(crate) fn delete_repo_guard(settings: &RunSettings, job: &JobId) {
    // If it stays, a resumed run compares with older settings, which is only stricter.
    std::fs::remove_file(settings.layout.state_dir(job).join("guard.json")).ok();
}

/// Returns what keeps the secrets of a run out of what is stored.
pub(crate) fn secret_mask(masked: &[String]) -> Mask {
    Mask::new(masked.iter().cloned())
}
