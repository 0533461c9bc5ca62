//! Finding the jobs whose dead letters are asked for.

pub(crate) mod causes;
pub(crate) mod entry_filter;
pub(crate) mod entry_selection;
pub(crate) mod labels;
pub(crate) mod unfinished;

use std::collections::HashMap;

use prodigy_core::{
    Timestamp,
    dlq::{DeadLetteredItem, EntryStatus},
    ids::JobId,
    replay::{ReplayDecision, ReplayTrigger, ReplayVerdict},
};
use prodigy_engine::{
    clock,
    run::ReplayEvaluator,
    store::{
        self, Layout,
        dlq::{self, DeadLetterStore, DeadLetterSummary},
    },
};

use super::decision::replay_context::read_only_evaluator;
use crate::{
    cli::Cli,
    commands::{
        context::{self, store_error},
        lookup::{all_layouts, current_layout, find_job, job_error, visible_layouts},
    },
    error::{CliError, error_chain},
    exit::Exit,
    progress::truncate,
    render::console::Console,
};
use entry_filter::EntryFilter;

/// The longest explanation that is shown of what is wrong with a file.
pub(crate) const LONGEST: usize = 400;

/// The dead letters of one job.
pub(crate) struct JobDeadLetters {
    pub(crate) layout: Layout,
    pub(crate) job: JobId,
    pub(crate) queue: DeadLetterStore,
}

impl JobDeadLetters {
    /// Returns whether the job has a journal; older programs, and homes that lost it, have none.
    pub(crate) fn has_journal(&self) -> bool {
        self.layout.events_dir(&self.job).is_dir()
    }
}

/// The policy's verdicts on the entries of a job.
pub(crate) struct EntryEvaluator {
    bench: Option<ReplayEvaluator>,
    now: Timestamp,
    /// Entries of a job without a journal cannot be replayed.
    pub(crate) has_journal: bool,
}

impl EntryEvaluator {
    /// Finds out what decides over the entries of a job.
    pub(crate) fn load(args: &Cli, letters: &JobDeadLetters, out: &mut Console) -> Self {
        let JobDeadLetters { layout, job, queue } = letters;
        let has_journal = letters.has_journal();
        let bench =
            if has_journal { read_only_evaluator(args, layout, job, queue, out) } else { None };
        Self { bench, now: clock::now(), has_journal }
    }

    /// Returns what the policy says about an entry, if that is known.
    pub(crate) fn evaluate(
        &self,
        letters: &JobDeadLetters,
        heading: &DeadLetterSummary,
    ) -> Option<ReplayDecision<'_>> {
        let bench = self.bench.as_ref()?;
        Some(bench.evaluate_summary(&letters.queue, heading, ReplayTrigger::Asked, self.now))
    }

    /// Returns what the policy says about an entry, with all that is known of it.
    pub(crate) fn evaluate_entry(&self, entry: &DeadLetteredItem) -> Option<ReplayDecision<'_>> {
        Some(self.bench.as_ref()?.evaluate(entry, ReplayTrigger::Asked, self.now))
    }

    /// Returns what becomes of an entry, if that is known.
    pub(crate) fn verdict(
        &self,
        letters: &JobDeadLetters,
        heading: &DeadLetterSummary,
    ) -> Option<ReplayVerdict> {
        self.evaluate(letters, heading).map(|ruling| ruling.verdict)
    }
}

/// Opens the dead letters of one job.
pub(crate) fn open_job(
    args: &Cli,
    job: &JobId,
    out: &mut Console,
) -> Result<JobDeadLetters, CliError> {
    let (layout, job) = find_any_job(args, job)?;
    let queue = DeadLetterStore::open(&layout, &job).map_err(queue_error)?;
    warn_if_stale(&job, &queue, out);
    Ok(JobDeadLetters { layout, job, queue })
}

/// Opens the dead letters of one job, or of every job of this repository that has some, the
/// newest first. One job that cannot be read does not hide the others.
///
/// They are opened one by one as they are asked for.
pub(crate) fn open_jobs(args: &Cli, job: Option<&JobId>) -> Result<DeadLetterJobs, CliError> {
    if let Some(job) = job {
        return Ok(DeadLetterJobs { left: vec![find_any_job(args, job)?], skipped: 0 });
    }
    let mut left = Vec::new();
    for layout in visible_layouts(args)? {
        let mut jobs = DeadLetterStore::jobs(&layout).map_err(queue_error)?;
        // Jobs of older programs have no journal; they are older than any that has one.
        let by_age = layout.jobs().map_err(store_error)?;
        let age: HashMap<_, _> = by_age.iter().zip(1_usize..).collect();
        jobs.sort_by_key(|job| age.get(job).copied().unwrap_or(0));
        left.extend(jobs.into_iter().map(|job| (layout.clone(), job)));
    }
    Ok(DeadLetterJobs { left, skipped: 0 })
}

/// Finds a job whose entries are to be replayed; one without a journal names the way out.
pub(crate) fn find_to_replay(args: &Cli, job: &JobId) -> Result<(Layout, JobId), CliError> {
    find_job(args, job).map_err(|error| {
        if find_any_job(args, job).is_err() {
            return error;
        }
        let message =
            format!("job `{job}` has no journal: its dead letters can be read and not be replayed");
        let [export, run] = recovery_commands(&context::self_command(args), job);
        CliError::new(Exit::Usage, message)
            .with_hint(format!("`{export}`, then `{run}` with {WITH_EXPORT}"))
    })
}

/// The input of a workflow that works on the items of exported entries.
pub(crate) const WITH_EXPORT: &str = "`input: entries.json` and `json_path: '$[*].item_data'`";

/// Returns the commands that try the items of a job without a journal in a new one.
pub(crate) fn recovery_commands(program: &str, job: &JobId) -> [String; 2] {
    [
        format!("{program} dlq export {job} --format json --output entries.json"),
        format!("{program} run WORKFLOW"),
    ]
}

/// Finds a job by its id; one that only has dead letters, from an older program, is one too.
fn find_any_job(args: &Cli, job: &JobId) -> Result<(Layout, JobId), CliError> {
    find_job(args, job).or_else(|error| {
        let home = context::resolve_home(args)?;
        for layout in current_layout(&home)?.into_iter().chain(all_layouts(&home)?) {
            if DeadLetterStore::jobs(&layout).map_err(queue_error)?.contains(job) {
                return Ok((layout, job.clone()));
            }
        }
        Err(error)
    })
}

/// The jobs whose dead letters are asked for; the next one stands last.
pub(crate) struct DeadLetterJobs {
    left: Vec<(Layout, JobId)>,
    /// The number of queues that could not be read, or only in part.
    pub(crate) skipped: u32,
}

impl DeadLetterJobs {
    /// Returns the exit code of a listing: what could not be read is an error, not nothing.
    pub(crate) fn exit(&self) -> Exit {
        if self.skipped == 0 { Exit::Success } else { Exit::Failure }
    }

    /// Opens the next one that can be opened, and names those that cannot.
    pub(crate) fn open_next(&mut self, out: &mut Console) -> Option<JobDeadLetters> {
        while let Some((layout, job)) = self.left.pop() {
            match DeadLetterStore::open(&layout, &job) {
                Ok(queue) => {
                    warn_if_stale(&job, &queue, out);
                    self.skipped += u32::from(queue.read_error().is_some());
                    return Some(JobDeadLetters { layout, job, queue });
                }
                Err(error) => {
                    self.skipped += 1;
                    warn_unreadable_entry(&job, &queue_error(error), out);
                }
            }
        }
        None
    }
}

/// The entries beyond the requested number.
pub(crate) enum RemainingEntries {
    /// Nothing.
    Nothing,
    /// So many entries.
    Entries(u64),
    /// Some entries; how many was not looked into.
    Some,
}

/// Goes through the entries of jobs that are meant, up to the limit.
///
/// An entry that cannot be read is named and left out.
pub(crate) fn entries(
    jobs: &mut DeadLetterJobs,
    chosen: &EntryFilter,
    statuses: &[EntryStatus],
    out: &mut Console,
    mut take: impl FnMut(&JobDeadLetters, DeadLetterSummary, &mut Console) -> Result<(), CliError>,
) -> Result<RemainingEntries, CliError> {
    let mut room = chosen.limit.unwrap_or(usize::MAX);
    while let Some(letters) = jobs.open_next(out) {
        let mut taken = 0;
        for heading in chosen.select(&letters.queue, &[], statuses) {
            match heading {
                Err(error) => warn_unreadable_entry(&letters.job, &error, out),
                Ok(_) if room == 0 && chosen.is_unfiltered() => {
                    let mut left = letters.queue.open_entries().saturating_sub(taken).max(1);
                    while let Some(letters) = jobs.open_next(out) {
                        left += letters.queue.open_entries();
                    }
                    return Ok(RemainingEntries::Entries(left));
                }
                Ok(_) if room == 0 => return Ok(RemainingEntries::Some),
                Ok(heading) => {
                    room -= 1;
                    taken += 1;
                    take(&letters, heading, out)?;
                }
            }
        }
    }
    Ok(RemainingEntries::Nothing)
}

/// Says that something could not be read and was left out.
pub(crate) fn warn_unreadable_entry(job: &JobId, error: &CliError, out: &mut Console) {
    out.note(format_args!("warning: job `{job}`: {}", error_chain(error)));
}

/// Warns that the files say less than the journal.
fn warn_if_stale(job: &JobId, queue: &DeadLetterStore, out: &mut Console) {
    if let Some(error) = queue.read_error() {
        let why = error_chain(error);
        out.note(format_args!(
            "warning: job `{job}`: the files of its dead letters cannot be read, so the journal is: {why}"
        ));
    } else if let Some(error) = queue.stale_reason() {
        let why = error_chain(error);
        out.note(format_args!(
            "warning: job `{job}`: the files of its dead letters cannot be completed, so the journal is read: {why}"
        ));
    }
}

/// Turns an error of the queue into one for people.
pub(crate) fn queue_error(error: dlq::Error) -> CliError {
    match error {
        dlq::Error::Store(store::Error::Locked { job, holder }) => {
            job_error(&job.clone(), store::Error::Locked { job, holder })
        }
        dlq::Error::Store(store::Error::NoJob { job }) => {
            job_error(&job.clone(), store::Error::NoJob { job })
        }
        dlq::Error::Store(store::Error::Elsewhere { job, host, home }) => {
            job_error(&job.clone(), store::Error::Elsewhere { job, host, home })
        }
        dlq::Error::Store(store::Error::LostEnd { job, last, ahead }) => {
            job_error(&job.clone(), store::Error::LostEnd { job, last, ahead })
        }
        dlq::Error::Store(error) => store_error(error),
        dlq::Error::Entry { .. } => {
            CliError::new(Exit::Failure, truncate(&error.to_string(), LONGEST))
                .with_hint("`prodigy dlq fsck` makes it anew from the journal")
        }
    }
}
