//! `prodigy purge`.

mod candidate;
pub(crate) mod purged_jobs;

use std::time::Duration;

use prodigy_core::{
    Timestamp,
    audit::{AuditAction, AuditOutcome, IdentityKind, NewAuditRecord},
    duration,
    ids::JobId,
};
use prodigy_engine::{
    clock,
    git::Repo,
    store::{self, Layout, PurgeKind, PurgeRecord, PurgedPart, Tombstone, audit::AuditTrail},
};
use serde_json::{Value, json};

use crate::{
    cli::Cli,
    commands::{audit::audit_error, context, dlq, lookup::job_error, worktree::ByteSize},
    config::Config,
    error::CliError,
    exit::Exit,
    render::console::Console,
};
use candidate::{DiskUsage, PurgeCandidate, size_of};

/// The version of the document that `--json` prints.
const SCHEMA_VERSION: u32 = 1;

/// Delete what old, finished jobs of this repository left
///
/// Only jobs are touched that are completed and hold nothing that is nowhere else: no open dead
/// letters, no unmerged commits, no work that was kept. `dlq` deletes closed dead letters, `logs` the
/// output of steps, `events` the journal and what is computed from it, `jobs` all of a job. Without any
/// of them, everything goes that `retention` in your configuration gives an age. The age counts from the
/// last event. Nothing is ever purged during a run.
///
/// The audit trail stays, and records each purge; `prodigy jobs show JOB` still says what the job was, and
/// its id is not used again.
///
/// For example, `prodigy purge logs --older-than 30d --dry-run`.
#[derive(clap::Args, Debug)]
pub(crate) struct PurgeArgs {
    /// The part of each job [default: those with an age in `retention`]
    #[arg(value_enum)]
    what: Option<PurgeKindArg>,

    /// Purge jobs whose last event is older than this, e.g. `30d` [default: `retention`]
    #[arg(long, value_name = "AGE", value_parser = duration::parse)]
    older_than: Option<Duration>,

    /// Show what would go, and delete nothing
    #[arg(long)]
    dry_run: bool,

    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// The parts of a job that can be purged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum PurgeKindArg {
    /// Closed dead letters
    Dlq,
    /// The journal and what is computed from it
    Events,
    /// The output of steps
    Logs,
    /// All of a job
    Jobs,
}

impl PurgeKindArg {
    fn kind(self) -> PurgeKind {
        match self {
            Self::Dlq => PurgeKind::Dlq,
            Self::Events => PurgeKind::Events,
            Self::Logs => PurgeKind::Logs,
            Self::Jobs => PurgeKind::Jobs,
        }
    }
}

pub(crate) fn run(args: &Cli, command: &PurgeArgs, out: &mut Console) -> Result<Exit, CliError> {
    let repo = context::repo(None)?;
    let layout = context::layout(&context::resolve_home(args)?, &repo)?;
    let config = Config::load(args, Some(repo.root()))?;
    let rules = rules(command, &config, out)?;
    let purge = RepositoryPurge { args, layout: &layout, repo: &repo, now: clock::now() };
    let mut report = PurgeReport::default();
    for job in layout.jobs().map_err(context::store_error)? {
        purge.purge_job(&job, &rules, command.dry_run, &mut report, out)?;
    }
    purge.purge_orphaned_logs(&rules, command.dry_run, &mut report)?;
    report.show(command, out)?;
    Ok(Exit::Success)
}

/// Returns what is purged from which age on, what takes less of a job first.
fn rules(
    command: &PurgeArgs,
    config: &Config,
    out: &mut Console,
) -> Result<Vec<(PurgeKind, Duration)>, CliError> {
    let retention = &config.retention;
    let named = command.what.map(PurgeKindArg::kind);
    let all = [PurgeKind::Dlq, PurgeKind::Logs, PurgeKind::Events, PurgeKind::Jobs];
    let mut rules = Vec::new();
    for kind in all.into_iter().filter(|kind| named.is_none_or(|named| named == *kind)) {
        // Without a name, a job as a whole has no age of its own.
        let flag = command.older_than.filter(|_| named.is_some() || kind != PurgeKind::Jobs);
        let Some(age) = flag.or_else(|| retention.age(kind)) else { continue };
        let least = retention.minimum_age(kind);
        if let Some(least) = least.filter(|least| *least > age) {
            let (what, least) = (kind.name(), duration::format(least));
            out.note(format_args!("note: this repository keeps {what} for {least}"));
        }
        rules.push((kind, least.map_or(age, |least| least.max(age))));
    }
    if rules.is_empty() {
        let what = named.map_or("anything", PurgeKind::name);
        let message = format!("nothing says from which age on {what} may go");
        return Err(CliError::new(Exit::Usage, message).with_hint(
            "pass `--older-than 30d`, or set `retention: { dlq: 30d, events: 90d, logs: 30d }` in your own configuration",
        ));
    }
    Ok(rules)
}

/// One part of a job that went, or would go.
struct PurgeRow {
    job: JobId,
    what: PurgeKind,
    size: DiskUsage,
}

impl PurgeRow {
    fn document(&self) -> Value {
        let Self { job, what, size } = self;
        let (what, files, bytes) = (what.name(), size.files, size.bytes);
        json!({"job_id": job, "what": what, "files": files, "bytes": bytes})
    }
}

/// The result of a purge.
#[derive(Default)]
struct PurgeReport {
    rows: Vec<PurgeRow>,
    /// The jobs that are old enough and stay, and why.
    kept: Vec<(JobId, Vec<String>)>,
}

/// A purge of one repository.
struct RepositoryPurge<'a> {
    args: &'a Cli,
    layout: &'a Layout,
    repo: &'a Repo,
    now: Timestamp,
}

impl RepositoryPurge<'_> {
    /// Purges what is old enough of a job.
    fn purge_job(
        &self,
        job: &JobId,
        rules: &[(PurgeKind, Duration)],
        dry_run: bool,
        report: &mut PurgeReport,
        out: &mut Console,
    ) -> Result<(), CliError> {
        let failed = |error| job_error(job, error);
        let Some(mut candidate) = PurgeCandidate::read(self.layout, job).map_err(failed)? else {
            return Ok(());
        };
        let due: Vec<_> =
            rules.iter().filter(|(_, age)| candidate.is_older(*age, self.now)).collect();
        if due.is_empty() {
            return Ok(());
        }
        let work = candidate.lost_work(self.layout, self.repo)?;
        if !work.is_empty() {
            report.kept.push((job.clone(), work));
            return Ok(());
        }
        // What ends the job takes the rest with it.
        let end = due.iter().rev().find(|(kind, _)| kind.ends_job());
        let parts = end.map_or_else(
            || due.clone(),
            |end| match end.0 {
                PurgeKind::Jobs => vec![*end],
                PurgeKind::Dlq | PurgeKind::Logs | PurgeKind::Events => {
                    due.iter().filter(|rule| rule.0 != PurgeKind::Dlq).copied().collect()
                }
            },
        );
        for (kind, age) in parts {
            let size = match kind {
                PurgeKind::Dlq => {
                    let closed = dlq::closed_entries(self.args, job, out)?;
                    DiskUsage { files: u64::try_from(closed.len()).unwrap_or(u64::MAX), bytes: 0 }
                }
                PurgeKind::Logs => size_of(&[self.layout.job_logs_dir(job)]),
                PurgeKind::Events => size_of(&store::files_but_logs(self.layout, job)),
                PurgeKind::Jobs => {
                    let mut all = store::files_but_logs(self.layout, job);
                    all.push(self.layout.job_logs_dir(job));
                    size_of(&all)
                }
            };
            if size.files == 0 {
                continue;
            }
            if !dry_run {
                self.purge_part(&mut candidate, (*kind, *age), size, out)?;
            }
            report.rows.push(PurgeRow { job: job.clone(), what: *kind, size });
        }
        Ok(())
    }

    /// Purges one part of a job.
    fn purge_part(
        &self,
        candidate: &mut PurgeCandidate<'_>,
        (kind, age): (PurgeKind, Duration),
        size: DiskUsage,
        out: &mut Console,
    ) -> Result<(), CliError> {
        let job = candidate.job;
        let failed = |error| job_error(job, error);
        let lock = candidate.lock(self.layout)?;
        let shown = super::describe(self.layout, job).map_err(failed)?;
        let rule = PurgeRule { job, kind, age, size };
        self.record_and_delete(&rule, shown, |by| {
            if kind.ends_job() {
                let (job_id, removed_at, forced) = (job.clone(), self.now, false);
                let tombstone = Tombstone { job_id, removed_at, by, forced };
                tombstone.write(self.layout).map_err(failed)?;
                candidate.remove_from_git(self.layout, self.repo)?;
            }
            match kind {
                PurgeKind::Dlq => {
                    drop(lock);
                    dlq::clear_closed(self.args, self.layout, job, "purged", out)?;
                    candidate.observe(self.layout).map_err(failed)
                }
                PurgeKind::Logs => store::remove_logs(self.layout, job).map_err(failed),
                PurgeKind::Events => store::remove_files_but_logs(self.layout, job).map_err(failed),
                PurgeKind::Jobs => store::remove_files(self.layout, job).map_err(failed),
            }
        })
    }

    /// Records that a part of a job goes, has it deleted, and records that it went.
    fn record_and_delete(
        &self,
        rule: &PurgeRule<'_>,
        shown: Value,
        delete: impl FnOnce(String) -> Result<(), CliError>,
    ) -> Result<(), CliError> {
        let PurgeRule { job, kind, age, size } = rule;
        let (by, older_than) = (context::actor(self.repo), duration::format(*age));
        let mut said = NewAuditRecord::new(
            by.clone(),
            IdentityKind::Asserted,
            AuditAction::Purge,
            (*job).clone(),
        );
        let (what, DiskUsage { files, bytes }) = (kind.name(), *size);
        let told = format!("{what} older than {older_than}: {files} files, {}", ByteSize(bytes));
        said.reason = Some(told);
        let audit = AuditTrail::open(self.layout, self.repo).map_err(audit_error)?;
        let record = |said| audit.append(vec![said], clock::now()).map_err(audit_error);
        record(said.clone())?;
        let part =
            PurgedPart { what: *kind, at: self.now, by: by.clone(), older_than, files, bytes };
        PurgeRecord::add(self.layout, job, shown, part).map_err(|error| job_error(job, error))?;
        delete(by)?;
        record(said.with_outcome(AuditOutcome::Done)).map(drop)
    }

    /// Purges the logs of jobs whose journals went before, and finishes purges that were cut off.
    fn purge_orphaned_logs(
        &self,
        rules: &[(PurgeKind, Duration)],
        dry_run: bool,
        report: &mut PurgeReport,
    ) -> Result<(), CliError> {
        for record in PurgeRecord::list_ended(self.layout).map_err(context::store_error)? {
            let job = &record.job_id;
            let failed = |error| job_error(job, error);
            let Some(end) = record.final_purge() else { continue };
            if !dry_run {
                store::remove_files_but_logs(self.layout, job).map_err(failed)?;
            }
            let last = record.job.get("last_event_at").and_then(Value::as_str);
            let last = last.and_then(|at| at.parse().ok()).unwrap_or(end.at);
            let is_due = |kind: PurgeKind, age: Duration| {
                !matches!(kind, PurgeKind::Dlq | PurgeKind::Events)
                    && candidate::is_past(last, age, self.now)
            };
            let due = rules.iter().find(|(kind, age)| is_due(*kind, *age));
            let size = size_of(&[self.layout.job_logs_dir(job)]);
            let cut_off = (end.what == PurgeKind::Jobs).then_some(Duration::ZERO);
            let Some(age) = due.map(|(_, age)| *age).or(cut_off) else { continue };
            if size.files == 0 {
                continue;
            }
            if !dry_run {
                let rule = PurgeRule { job, kind: PurgeKind::Logs, age, size };
                let delete = |_| store::remove_logs(self.layout, job).map_err(failed);
                self.record_and_delete(&rule, record.job.clone(), delete)?;
            }
            report.rows.push(PurgeRow { job: job.clone(), what: PurgeKind::Logs, size });
        }
        Ok(())
    }
}

/// A part of a job that goes, and the age from which on it does.
struct PurgeRule<'a> {
    job: &'a JobId,
    kind: PurgeKind,
    age: Duration,
    size: DiskUsage,
}

impl PurgeReport {
    fn show(&self, command: &PurgeArgs, out: &mut Console) -> Result<(), CliError> {
        if command.json {
            let purged: Vec<_> = self.rows.iter().map(PurgeRow::document).collect();
            let kept: Vec<_> =
                self.kept.iter().map(|(job, work)| json!({"job_id": job, "work": work})).collect();
            let document = json!({
                "schema_version": SCHEMA_VERSION, "dry_run": command.dry_run, "purged": purged, "kept": kept,
            });
            return out.raw(format!("{document:#}\n").as_bytes());
        }
        let verb = if command.dry_run { "would purge" } else { "purged" };
        for PurgeRow { job, what, size } in &self.rows {
            let unit = if *what == PurgeKind::Dlq { "dead letters" } else { "files" };
            let size_of =
                if size.bytes > 0 { format!(", {}", ByteSize(size.bytes)) } else { String::new() };
            out.line(format_args!(
                "{verb}  {job}  {}  {} {unit}{size_of}",
                what.name(),
                size.files
            ))?;
        }
        for (job, work) in &self.kept {
            out.note(format_args!("kept  {job}  {}", work.join("; ")));
        }
        if self.rows.is_empty() {
            out.note("nothing to purge");
        }
        Ok(())
    }
}
