//! `prodigy dlq retry`.

use std::{num::NonZeroU32, path::PathBuf, thread, time::Duration};

use prodigy_core::{
    audit::{AuditAction, IdentityKind},
    event::{JobMode, OptionChanges},
    ids::JobId,
    replay::{Rate, ReplayVelocity},
    workflow::{Body, Workflow},
};
use prodigy_engine::{
    clock,
    run::{
        self, EffectCheckRequest, JobResume, ReplayRequest, ReplayScope,
        control::lost_end::refuse_lost_end,
    },
    store::{self, JobLock, Layout, dlq::DeadLetterStore},
};

use super::{
    decision::{
        replay_context::ReplayContext,
        replay_plan::{self, ReplayPlan},
    },
    entries::{
        entry_selection::EntrySelectionArgs, find_to_replay, queue_error, unfinished::is_unfinished,
    },
    plan::ReplayPlanView,
};
use crate::{
    cli::Cli,
    commands::{
        context,
        lookup::{job_error, job_host},
        prepare::{self, workflow_file::WorkflowFile},
        workflow::{exit_rules::ExitRules, resume},
    },
    error::CliError,
    exit::Exit,
    render::{console::Console, output_file},
};

/// The most items that are replayed at once unless somebody says otherwise.
const AT_ONCE: u32 = 5;
/// The time between two looks at a job that another process works on.
const PAUSE: Duration = Duration::from_millis(200);
/// The waves of `--canary` if the policy has none.
const CANARY: [u32; 2] = [1, 5];

/// Replay dead letters as new attempts of the same items in the same job
///
/// Without items or filters all open entries are selected. The policy decides over each of them
/// (`prodigy dlq plan` shows how): what may be replayed is; what may have changed something
/// outside is looked at first; what has changed everything counts as done; for what needs
/// approval, that is requested; the rest is listed with what would help. Each entry is
/// decided over anew and claimed when its replay starts, so a replay can be stopped or killed
/// at any moment: what was under way is taken up by the next `dlq retry` or `resume`. Commits
/// are merged as usual.
///
/// Exit codes: those of `prodigy run`; 3 if nothing that was replayed was resolved; 8 if nothing was
/// resolved and something waits for an approval; 10 if nothing that was asked for may be replayed.
///
/// For example, `prodigy dlq retry JOB || prodigy dlq show JOB` shows why none succeeded.
#[derive(clap::Args, Debug)]
pub(crate) struct DlqRetryArgs {
    /// The job
    job: JobId,

    #[command(flatten)]
    which: EntrySelectionArgs,

    /// Replay this many at once [default: 5, or fewer if the workflow or the policy says so]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    max_parallel: Option<u32>,

    /// Start no more replays than this, e.g. `10/m`; never more than the policy allows
    #[arg(long, value_name = "N/TIME")]
    rate: Option<Rate>,

    /// Of each cause, replay one first, then five, then the rest; stop when its error comes back
    #[arg(long)]
    canary: bool,

    /// The reason to record for the replay
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    /// Run the reduce phase once more when the replays are done
    #[arg(long)]
    rerun_reduce: bool,

    /// Show what would be replayed and what not, and change nothing: `prodigy dlq plan`
    #[arg(long)]
    dry_run: bool,

    /// Show each entry that is replayed, and how it failed before
    #[arg(short, long)]
    verbose: bool,

    /// Merge the result without asking
    #[arg(short, long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", hide_possible_values = true)]
    yes: Option<bool>,

    /// Exit with 3 if the job is done and items are in the dead letter queue
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", hide_possible_values = true)]
    fail_on_dlq: Option<bool>,

    #[command(flatten)]
    spending: crate::commands::workflow::SpendingArgs,

    /// Use the workflow file as it is now instead of as it was
    #[arg(long)]
    use_current_workflow: bool,

    /// Work on the job here although another machine or home worked on it last, without asking
    #[arg(long)]
    here: bool,

    /// Write a JUnit report to this file at the end
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,

    /// With `--dry-run`: print JSON
    #[arg(long, requires = "dry_run")]
    json: bool,
}

pub(super) fn run(args: &Cli, command: &DlqRetryArgs, out: &mut Console) -> Result<Exit, CliError> {
    let asked_at = clock::now();
    if let Some(path) = &command.junit {
        output_file::check(path)?;
    }
    let (layout, job) = find_to_replay(args, &command.job)?;
    let started = context::job_started(&layout, &job)?;
    if started.mode == JobMode::Sequential {
        let message = format!("job `{job}` has no items, so nothing of it can be a dead letter");
        return Err(CliError::new(Exit::Usage, message)
            .with_hint(format!("`prodigy resume {job}` takes up a step that failed")));
    }
    let stored = crate::commands::prepare::workflow_file::load_stored(&layout.state_dir(&job))?;
    let file = resume::workflow_to_resume(
        command.use_current_workflow,
        &stored,
        &started.workflow_file,
        out,
    )?;
    let authority = ReplayContext::load_with_workflow(args, &layout, &job, Some(&file), out)?;
    let program = context::self_command(args);
    let reason = command.reason.as_deref().map(|reason| authority.mask_secrets(reason));
    if command.dry_run {
        let queue = DeadLetterStore::open(&layout, &job).map_err(queue_error)?;
        let showing = ReplayPlanView { program, job, queue, is_running: false };
        return showing.show(&authority, &command.which, command.json, out);
    }
    prepare::require_trust(&authority.repo)?;
    authority.refuse_automation(AuditAction::Replay, &command.which.items)?;
    job_host::confirm_takeover(
        &layout,
        &job,
        command.here,
        &format!("prodigy dlq retry {job}"),
        out,
    )?;
    let mut lock = acquire_job_lock(command, &layout, &job, out)?;
    refuse_lost_end(&layout, &job).map_err(|error| job_error(&job, error))?;
    let mut queue = DeadLetterStore::open_locked(&layout, &job, &lock).map_err(queue_error)?;
    let meant = command.which.to_selection(&queue, &job, asked_at)?;
    let mut plan = ReplayPlan::build(&authority, &queue, &job, &meant, command.verbose, out)?;
    if !plan.check.is_empty() {
        drop(queue);
        let asked = EffectCheckRequest {
            job: job.clone(),
            lock,
            items: Some(plan.check.clone()),
            compensate: false,
            by: authority.by.clone(),
            recorded: resume::recorded_workflow(&stored, &started),
        };
        check_effects(args, command, &authority, &file, asked, out)?;
        lock = acquire_job_lock(command, &layout, &job, out)?;
        queue = DeadLetterStore::open_locked(&layout, &job, &lock).map_err(queue_error)?;
        plan = ReplayPlan::build(&authority, &queue, &job, &meant, false, out)?;
    }
    let handling = replay_plan::RetryActions {
        authority: &authority,
        program: &program,
        job: &job,
        queue: &queue,
        lock: &lock,
        reason: reason.as_deref(),
        forced: &meant.forced,
    };
    handling.adopt_entries(&plan, out)?;
    handling.record_denials(&plan, out)?;
    handling.request_approvals(&plan, out)?;
    if plan.wanted.is_empty() && plan.passed.interrupted == 0 {
        if !is_unfinished(&layout, &job)? {
            return Ok(plan.nothing_to_replay(&job, out));
        }
        out.note(format_args!("no more to replay; job `{job}` is not finished and goes on"));
    }
    drop(queue);
    let rest = plan.unreplayed();
    let resumption = JobResume {
        job: job.clone(),
        lock,
        changed: resume::changed_workflow(&file, &stored, &started),
        replay: Some(ReplayRequest {
            which: ReplayScope::Asked { wanted: plan.wanted, forced: meant.forced },
            rerun_reduce: command.rerun_reduce,
            by: authority.by.clone(),
            identity: IdentityKind::Asserted,
            reason: reason.clone(),
            velocity: effective_velocity(command, &authority.policy.policy.velocity, out),
            policy: authority.policy.clone(),
        }),
        given: OptionChanges {
            yes: command.yes,
            fail_on_dlq: command.fail_on_dlq,
            ..command.spending.changes()
        },
        into: None,
        try_now: false,
    };
    let mut world = run_request(args, command, &authority, &file)?;
    world.exit.retry = Some(rest);
    prepare::run_to_end(args, world, file, out, |settings| run::resume(settings, resumption), &job)
}

/// Returns where the replays take place.
fn run_request(
    args: &Cli,
    command: &DlqRetryArgs,
    authority: &ReplayContext,
    file: &WorkflowFile,
) -> Result<prepare::RunSetup, CliError> {
    Ok(prepare::RunSetup {
        verbose: false,
        home: context::ensure_home(args)?,
        repo: authority.repo.clone(),
        profile: authority.started.profile.clone(),
        max_parallel: replay_concurrency(command.max_parallel, &file.loaded.workflow),
        junit: command.junit.clone(),
        rehearsal: None,
        exit: ExitRules::default(),
    })
}

/// Finds out what entries may have changed outside.
fn check_effects(
    args: &Cli,
    command: &DlqRetryArgs,
    authority: &ReplayContext,
    file: &WorkflowFile,
    asked: EffectCheckRequest,
    out: &mut Console,
) -> Result<(), CliError> {
    let world = run_request(args, command, authority, file)?;
    for effect in authority.check_effects(args, world, file.clone(), asked, out)? {
        let (item, name, state) = (&effect.item, &effect.before.name, effect.state.as_str());
        let problem = effect.problem.map(|why| format!(": {why}")).unwrap_or_default();
        out.note(format_args!("checked  {item}  {name}: {state}{problem}"));
    }
    Ok(())
}

/// Returns how fast is replayed: as the policy says, or as was asked for if that is slower.
fn effective_velocity(
    command: &DlqRetryArgs,
    policy: &ReplayVelocity,
    out: &mut Console,
) -> ReplayVelocity {
    let mut velocity = policy.clone();
    if let Some(rate) = command.rate {
        match policy.rate.filter(|most| most.interval() > rate.interval()) {
            Some(most) => out.note(format_args!("note: the policy allows {most}, not {rate}")),
            None => velocity.rate = Some(rate),
        }
    }
    if let (Some(wanted), Some(most)) = (command.max_parallel, policy.concurrency)
        && wanted > most.get()
    {
        out.note(format_args!("note: the policy allows {most} at once, not {wanted}"));
    }
    if command.canary && velocity.canary.is_empty() {
        velocity.canary = CANARY.into_iter().filter_map(NonZeroU32::new).collect();
    }
    velocity
}

/// Returns how many items are replayed at once.
fn replay_concurrency(wanted: Option<u32>, workflow: &Workflow) -> Option<NonZeroU32> {
    let most = match &workflow.body {
        Body::Sequential { .. } => AT_ONCE,
        Body::MapReduce(body) => body.map.max_parallel.get().min(AT_ONCE),
    };
    NonZeroU32::new(wanted.unwrap_or(most))
}

/// Takes the job's lock as soon as nobody else works on the job.
fn acquire_job_lock(
    command: &DlqRetryArgs,
    layout: &Layout,
    job: &JobId,
    out: &mut Console,
) -> Result<JobLock, CliError> {
    let mut is_told = false;
    loop {
        match JobLock::take(layout, job) {
            Ok(lock) => return Ok(lock),
            Err(store::Error::Locked { holder, .. }) if command.spending.no_wait != Some(true) => {
                if !is_told {
                    out.note(format_args!(
                        "note: {holder} works on the job; waiting until it is done (Ctrl-C gives up)"
                    ));
                    is_told = true;
                }
                poll_delay();
            }
            Err(error) => return Err(job_error(job, error)),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "another process is waited for in real time")]
fn poll_delay() {
    thread::sleep(PAUSE);
}
