//! `prodigy dlq retry`.

use std::{
    collections::BTreeSet,
    num::{NonZeroU32, NonZeroUsize},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use prodigy_core::{
    Timestamp,
    dlq::EntryStatus,
    event::Mode,
    ids::{ItemId, JobId},
    workflow::{Body, Workflow},
};
use prodigy_engine::{
    clock,
    dlq::{Heading, Queue},
    run::{self, Replay, Resumption, Which},
    store::{self, JobLock, Layout},
};

use super::{
    chosen::{ChoiceArgs, named},
    queues::{queue_error, skipped},
    refusal::{Refusals, can_be_forced, preview},
};
use crate::{
    cli::Args,
    commands::{
        context,
        lookup::{find_job, job_error},
        resume, setup,
    },
    error::CliError,
    exit::Exit,
    output::Output,
    report::count,
};

/// The most items that are replayed at once unless somebody says otherwise.
const AT_ONCE: u32 = 5;
/// The time between two looks at a job that another process works on.
const PAUSE: Duration = Duration::from_millis(200);

/// Replay dead letters as new attempts of the same items in the same job
///
/// Without items or filters all open entries are meant. Those whose reason speaks against a
/// replay are left alone and listed with what would help. Each entry is claimed when its
/// replay starts, so a replay can be stopped or killed at any moment: what was under way is
/// taken up by the next `dlq retry` or `resume`. Commits are merged as usual.
///
/// Exit codes: those of `prodigy run`, and 10 if nothing that was asked for may be replayed.
#[derive(clap::Args, Debug)]
pub(crate) struct RetryArgs {
    /// The job
    job: JobId,

    /// The items, by id or key [default: all that are open]
    items: Vec<String>,

    /// Replay only entries for which this is true
    ///
    /// The expression is one as in `filter` of a workflow. It may use the fields of the
    /// entry and, below `item`, the data of the item: `item.priority >= 5 && attempts > 2`.
    #[arg(long, value_name = "EXPR")]
    filter: Option<String>,

    /// Replay only entries of this cause, by the first digits of its signature
    #[arg(long = "signature", value_name = "HEX", value_delimiter = ',')]
    signatures: Vec<String>,

    /// Replay only the newest N of them
    #[arg(long, value_name = "N")]
    limit: Option<NonZeroUsize>,

    /// Replay this many at once [default: 5, or fewer if the workflow says so]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    max_parallel: Option<u32>,

    /// Replay this item although its reason speaks against it; needs `--reason` (can be repeated)
    #[arg(long, value_name = "ITEM", requires = "reason")]
    force: Vec<String>,

    /// Why it is replayed; it is recorded
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    /// Run the reduce phase once more when the replays are done
    #[arg(long)]
    rerun_reduce: bool,

    /// Show what would be replayed and what not, and replay nothing
    #[arg(long)]
    dry_run: bool,

    /// Show each entry that is replayed, and how it failed before
    #[arg(short, long)]
    verbose: bool,

    /// Merge the result without asking
    #[arg(short, long)]
    yes: bool,

    /// Exit with 3 if the job is done and items are in the dead letter queue
    #[arg(long)]
    fail_on_dlq: bool,

    /// Give up at once if another process works on the job
    #[arg(long)]
    no_wait: bool,

    /// Use the workflow file as it is now instead of as it was
    #[arg(long)]
    use_current_workflow: bool,

    /// Write a JUnit report to this file at the end
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,

    /// With `--dry-run`: print JSON
    #[arg(long, requires = "dry_run")]
    json: bool,
}

/// What is replayed, and what not.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// The items that are replayed.
    pub(super) items: Vec<ItemId>,
    /// Those of them that are replayed although their reason speaks against it.
    pub(super) forced: Vec<ItemId>,
    /// How many are under way already: whoever replayed them is gone.
    pub(super) interrupted: u32,
    /// What is not replayed.
    pub(super) refusals: Refusals,
}

pub(super) fn run(args: &Args, command: &RetryArgs, out: &mut Output) -> Result<Exit, CliError> {
    let asked_at = clock::now();
    let (layout, job) = find_job(args, &command.job)?;
    let started = context::started(&layout, &job)?;
    if started.mode == Mode::Sequential {
        let message = format!("job `{job}` has no items, so nothing of it can be a dead letter");
        return Err(CliError::new(Exit::Usage, message)
            .with_hint(format!("`prodigy resume {job}` takes up a step that failed")));
    }
    if command.dry_run {
        let queue = Queue::open(&layout, &job).map_err(queue_error)?;
        let plan = plan(command, &job, &queue, asked_at, out, |_, _| {})?;
        return preview(command.json, &job, &plan, out);
    }
    let lock = wait(command, &layout, &job, out)?;
    let queue = Queue::open_held(&layout, &job, &lock).map_err(queue_error)?;
    let verbose = command.verbose;
    let plan = plan(command, &job, &queue, asked_at, out, |out, heading| {
        if verbose {
            let Heading { item_id, reason_code, error_pattern, attempts, .. } = heading;
            let after = count(*attempts, "attempt");
            out.note(format_args!("· {item_id}  {reason_code} after {after}: {error_pattern}"));
        }
    })?;
    plan.refusals.show(&context::program(args), &job, out);
    if plan.items.is_empty() && plan.interrupted == 0 {
        return Ok(nothing(&job, &plan, out));
    }
    drop(queue);
    let stored = crate::workflow_file::stored(&layout.state_dir(&job))?;
    let file = resume::current(command.use_current_workflow, &stored, &started.workflow_file, out)?;
    setup::refuse_unsupported(&file)?;
    let changed = resume::changed(&file, &started);
    let items = setup::ItemRules {
        max_parallel: at_once(command.max_parallel, &file.loaded.workflow),
        needs_items: false,
        fail_on_dlq: command.fail_on_dlq,
    };
    let world = setup::World {
        home: context::prepared_home(args)?,
        repo: context::repo(Some(Path::new(&started.repository)))?,
        yes: command.yes || started.yes,
        profile: started.profile,
        items,
        junit: command.junit.clone(),
    };
    let replay = Replay {
        which: Which::Asked { items: plan.items, forced: plan.forced },
        rerun_reduce: command.rerun_reduce,
        by: context::user(),
        reason: command.reason.clone(),
    };
    let resumption = Resumption { job: job.clone(), lock, changed, replay: Some(replay) };
    setup::go(args, world, file, out, |settings| run::resume(settings, resumption), &job)
}

/// Returns how many items are replayed at once.
fn at_once(wanted: Option<u32>, workflow: &Workflow) -> Option<NonZeroU32> {
    let most = match &workflow.body {
        Body::Sequential { .. } => AT_ONCE,
        Body::MapReduce(body) => body.map.max_parallel.get().min(AT_ONCE),
    };
    NonZeroU32::new(wanted.unwrap_or(most))
}

/// Takes the job's lock as soon as nobody else works on the job.
fn wait(
    command: &RetryArgs,
    layout: &Layout,
    job: &JobId,
    out: &mut Output,
) -> Result<JobLock, CliError> {
    let mut is_told = false;
    loop {
        match JobLock::take(layout, job) {
            Ok(lock) => return Ok(lock),
            Err(store::Error::Locked { holder, .. }) if !command.no_wait => {
                if !is_told {
                    out.note(format_args!(
                        "note: {holder} works on the job; waiting until it is done (Ctrl-C gives up)"
                    ));
                    is_told = true;
                }
                pause();
            }
            Err(error) => return Err(job_error(job, error)),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "another process is waited for in real time")]
fn pause() {
    thread::sleep(PAUSE);
}

/// Chooses what is replayed.
///
/// An entry that was replayed by somebody else after this was asked for is not meant any
/// more: of two that are asked for at once, one takes it.
fn plan(
    command: &RetryArgs,
    job: &JobId,
    queue: &Queue,
    asked_at: Timestamp,
    out: &mut Output,
    mut each: impl FnMut(&mut Output, &Heading),
) -> Result<Plan, CliError> {
    let choice =
        ChoiceArgs::of(command.filter.clone(), command.signatures.clone(), command.limit).read()?;
    let forced: BTreeSet<ItemId> = named(queue, job, &command.force)?.into_iter().collect();
    let mut items = named(queue, job, &command.items)?;
    if !items.is_empty() || choice.is_all() {
        items.extend(forced.iter().cloned());
    }
    let mut seen = BTreeSet::new();
    items.retain(|item| seen.insert(item.clone()));
    let statuses = [EntryStatus::Open, EntryStatus::Replaying];
    let limit = choice.limit.unwrap_or(usize::MAX);
    let mut plan = Plan::default();
    let mut taken = 0;
    for heading in choice.pick(queue, &items, &statuses) {
        if taken >= limit {
            break;
        }
        let heading = match heading {
            Ok(heading) => heading,
            Err(error) => {
                skipped(job, &error, out);
                continue;
            }
        };
        let is_forced = forced.contains(&heading.item_id) && can_be_forced(heading.reason_code);
        if heading.status == EntryStatus::Replaying {
            plan.interrupted += 1;
        } else if heading.last_attempt > asked_at {
            plan.refusals.meanwhile += 1;
        } else if is_forced || heading.reprocess_eligible && !heading.manual_review_required {
            each(out, &heading);
            taken += 1;
            if is_forced {
                plan.forced.push(heading.item_id.clone());
            }
            plan.items.push(heading.item_id);
        } else {
            plan.refusals.add(&heading);
        }
    }
    // They are claimed in the order of the items.
    plan.items.sort();
    plan.refusals.sort();
    Ok(plan)
}

/// Says that nothing is replayed.
fn nothing(job: &JobId, plan: &Plan, out: &mut Output) -> Exit {
    if plan.refusals.is_empty() {
        out.note(format_args!("nothing to replay: no open dead letter of job `{job}` is meant"));
        return Exit::Success;
    }
    out.note("nothing was replayed");
    Exit::ReplayDenied
}
