//! `prodigy jobs`.

pub(crate) mod control;
mod document;
pub(crate) mod events;
pub(crate) mod integrity;
mod items;
pub(crate) mod logs;
mod next_command;
pub(crate) mod purge;
mod remove;

use jiff::tz::TimeZone;
use prodigy_core::{
    Timestamp, duration,
    event::PhaseName,
    ids::JobId,
    job::{ItemSummary, JobOutcome, JobStatus, JobSummary},
};
use prodigy_engine::{
    clock,
    store::{self, AgentRun, Layout},
};
use serde_json::{Value, json};

use self::document::document;
use super::{
    context,
    lookup::{
        all_layouts, find_job, job_error, job_host, job_summary, repository, visible_layouts,
    },
    workflow::flags,
};
use crate::{
    cli::Cli,
    error::CliError,
    exit::Exit,
    progress::quota_message,
    render::{
        console::{Console, one_line},
        report::{checkout, guarded_files, kept_work, suspended_work, warnings},
        spend::{SpendView, format_cost, spent_today_usd},
    },
};
use next_command::next_command;

pub(crate) use remove::JobRemoval;

/// The version of the JSON documents.
const SCHEMA_VERSION: u32 = 1;

/// List the jobs of this repository, the newest last
///
/// Outside of a repository the jobs of all repositories are listed.
#[derive(clap::Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct JobsArgs {
    #[command(subcommand)]
    command: Option<JobsCommand>,

    #[command(flatten)]
    list: JobsListArgs,
}

#[derive(clap::Subcommand, Debug)]
pub(crate) enum JobsCommand {
    /// List the jobs of this repository, the newest last
    #[command(alias = "list")]
    Ls(JobsListArgs),
    /// Show one job
    Show(JobsShowArgs),
    Rm(remove::JobsRemoveArgs),
}

#[derive(clap::Args, Debug)]
pub(crate) struct JobsListArgs {
    /// List the jobs of all repositories
    #[arg(long)]
    all: bool,

    /// Take over the jobs of this repository if it was moved, without asking
    #[arg(long, conflicts_with = "all")]
    relocate: bool,

    /// Work on the jobs of this repository here although another machine or home worked on them last
    #[arg(long, conflicts_with = "all")]
    here: bool,

    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args, Debug)]
pub(crate) struct JobsShowArgs {
    /// The job
    job: JobId,

    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Cli, command: &JobsArgs, out: &mut Console) -> Result<Exit, CliError> {
    match &command.command {
        None => list(args, &command.list, out),
        Some(JobsCommand::Ls(command)) => list(args, command, out),
        Some(JobsCommand::Show(command)) => show(args, command, out),
        Some(JobsCommand::Rm(command)) => remove::run(args, command, out),
    }
}

/// A job and what can be said of it.
struct JobView {
    layout: Layout,
    job: JobId,
    summary: JobSummary,
    status: JobStatus,
    damage: Option<store::Error>,
}

fn row(layout: &Layout, job: JobId) -> Result<JobView, store::Error> {
    let (mut summary, status, damage) = job_summary(layout, &job)?;
    if status == JobStatus::Interrupted {
        // The next resume counts what agents used that died with it.
        let uncounted = AgentRun::pending_runs(layout, &job).len();
        summary.costs.untold += u64::try_from(uncounted).unwrap_or_default();
    }
    if let Some(started) = &mut summary.started {
        started.repository = layout.current_path(&started.repository)?;
    }
    Ok(JobView { layout: layout.clone(), job, summary, status, damage })
}

/// Returns a job as `prodigy jobs show --json` shows it.
pub(crate) fn describe(layout: &Layout, job: &JobId) -> Result<Value, store::Error> {
    Ok(document(&row(layout, job.clone())?, clock::now()))
}

fn list(args: &Cli, command: &JobsListArgs, out: &mut Console) -> Result<Exit, CliError> {
    if !command.all
        && let Ok(repo) = context::repo(None)
    {
        repository::take_over(&context::resolve_home(args)?, &repo, None, command.relocate, out)?;
    }
    let layouts = if command.all {
        all_layouts(&context::resolve_home(args)?)?
    } else {
        visible_layouts(args)?
    };
    let mut rows = Vec::new();
    for layout in &layouts {
        for job in layout.jobs().map_err(context::store_error)? {
            if command.here {
                job_host::confirm_takeover(layout, &job, true, "prodigy jobs", out)?;
            }
            match row(layout, job.clone()) {
                Ok(row) => rows.push(row),
                // One job that cannot be read does not hide the others.
                Err(error) => out.note(format_args!("warning: job `{job}`: {error}")),
            }
        }
    }
    rows.sort_by_key(|row| row.summary.started_at);
    for JobView { job, damage, .. } in &rows {
        if let Some(error) = damage {
            out.note(format_args!("warning: {error}; see `prodigy repair {job} --dry-run`"));
        }
    }
    let now = clock::now();
    if command.json {
        let jobs: Vec<Value> = rows.iter().map(|row| document(row, now)).collect();
        out.raw(
            format!(
                "{:#}\n",
                json!({"schema_version": SCHEMA_VERSION, "jobs": jobs, "purged": purge::purged_jobs::purged_documents(&layouts)?})
            )
            .as_bytes(),
        )?;
        return Ok(Exit::Success);
    }
    if rows.is_empty() {
        let place = if layouts.len() == 1 && !command.all { " in this repository" } else { "" };
        out.note(format_args!("no jobs yet{place}; `prodigy run WORKFLOW` starts one"));
    } else {
        table(&rows, layouts.len() > 1, now, out)?;
    }
    purge::purged_jobs::print_purged_note(&layouts, out)?;
    Ok(Exit::Success)
}

/// Prints one line for each job.
fn table(rows: &[JobView], repos: bool, now: Timestamp, out: &mut Console) -> Result<(), CliError> {
    let head =
        ["JOB", "STATUS", "WORKFLOW", "STEPS", "ITEMS", "STARTED", "TOOK", "COST", "REPOSITORY"];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    let some_costs = rows.iter().any(|row| format_cost(&row.summary.costs).is_some());
    let some_items = rows.iter().any(|row| row.summary.items.is_some());
    lines.extend(rows.iter().map(|row| {
        let JobView { layout, job, summary, .. } = row;
        vec![
            job.to_string(),
            status(row),
            workflow_name(summary),
            format!("{}/{}", summary.steps_done, summary.steps_total),
            summary.items.as_ref().map(format_progress).unwrap_or_default(),
            summary.started_at.map(format_minute).unwrap_or_default(),
            duration::format(elapsed(row, now)),
            format_cost(&summary.costs).unwrap_or_default(),
            layout.repo().to_string(),
        ]
    }));
    for line in &mut lines {
        line.truncate(if repos { 9 } else { 8 });
        if !some_costs {
            line.remove(7);
        }
        if !some_items {
            line.remove(4);
        }
    }
    let width = |column: usize| {
        lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..head.len()).map(|column| width(column).unwrap_or(0)).collect();
    for line in &lines {
        let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        out.line(cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}

fn show(args: &Cli, command: &JobsShowArgs, out: &mut Console) -> Result<Exit, CliError> {
    let (layout, job) = match find_job(args, &command.job) {
        Ok(found) => found,
        Err(error) => {
            return purge::purged_jobs::show(args, &command.job, command.json, error, out);
        }
    };
    let row = row(&layout, job).map_err(|error| job_error(&command.job, error))?;
    let now = clock::now();
    if let Some(error) = &row.damage {
        out.note(format_args!("warning: {error}; see `prodigy repair {} --dry-run`", row.job));
    }
    if command.json {
        let document = json!({"schema_version": SCHEMA_VERSION, "job": document(&row, now)});
        out.raw(format!("{document:#}\n").as_bytes())?;
        return Ok(Exit::Success);
    }
    for (name, value) in
        facts(&row, now).into_iter().chain(purge::purged_jobs::facts(&layout, &row.job)?)
    {
        out.line(format_args!("{name:<12}{value}"))?;
    }
    if let Some(next) = next_command(&row) {
        out.note(format_args!("\nnext: {next}"));
    }
    Ok(Exit::Success)
}

/// Returns what there is to say of a job, by name.
fn facts(row: &JobView, now: Timestamp) -> Vec<(&'static str, String)> {
    let JobView { job, summary, .. } = row;
    let started = summary.started.as_ref();
    let mut facts = vec![("job", job.to_string()), ("status", status(row))];
    facts.push(("workflow", workflow_name(summary)));
    facts.extend(started.map(|started| ("repository", started.repository.clone())));
    facts.extend(started.and_then(flags::kept_flags).map(|flags| ("flags", flags)));
    let steps = format!("{} of {} done", summary.steps_done, summary.steps_total);
    let failed = match summary.steps_failed {
        0 => String::new(),
        failed => format!(", {failed} failed"),
    };
    if summary.steps_total > 0 || summary.items.is_none() {
        facts.push(("steps", steps + &failed));
    }
    let is_running = row.status == JobStatus::Running;
    if is_running {
        facts.extend(summary.phase.map(|phase| ("phase", phase_name(phase).to_owned())));
    }
    facts.extend(items::item_facts(summary, is_running, now));
    facts.extend(summary.running.iter().map(|(step, name)| ("at step", format!("{step} {name}"))));
    facts.extend(summary.started_at.map(|at| ("started", format_timestamp(at))));
    facts.extend(summary.last_at.map(|at| ("last event", format_timestamp(at))));
    facts.push(("took", duration::format(elapsed(row, now))));
    match summary.resumed {
        0 => {}
        1 => facts.push(("resumed", "once".to_owned())),
        times => facts.push(("resumed", format!("{times} times"))),
    }
    if let Some(paused) = summary.quota.as_ref().filter(|_| is_open(row.status)) {
        let until = paused.paused_until.filter(|until| *until > now);
        let message =
            quota_message(&paused.limit.message, until, is_running, now, &TimeZone::system());
        facts.push(("limit", one_line(&message)));
    }
    if let Some(in_all) = warnings::warning_count(&summary.warnings) {
        facts.push(("warnings", in_all));
        facts.extend(warnings::lines(&summary.warnings).into_iter().map(|line| ("", line)));
    }
    facts.extend(checkout::facts(&summary.checkout, summary.checkout_in_all));
    facts.extend(guarded_files::facts(&summary.guarded));
    let money = spend_view(row);
    if let Some(total) = format_cost(&summary.costs) {
        let details = money.details().into_iter();
        facts.push(("cost", [total].into_iter().chain(details).collect::<Vec<_>>().join(" · ")));
    }
    let left = money.remaining();
    if !left.is_empty() {
        facts.push(("budget", left.join(" · ")));
    }
    let target = started.and_then(|started| started.target_branch.clone());
    facts.extend(summary.branch.clone().map(|branch| ("branch", branch)));
    match (&summary.merged, target) {
        (Some(commit), Some(target)) => facts.push(("merged", format!("{commit} into {target}"))),
        (Some(commit), None) => facts.push(("merged", commit.clone())),
        (None, _) => {}
    }
    facts.extend(summary.worktree.clone().map(|path| ("worktree", path)));
    facts.extend(kept_work::entry_lines(&summary.kept).into_iter().map(|line| ("kept", line)));
    if is_open(row.status) {
        facts.extend(suspended_work::line(&summary.suspended).map(|line| ("suspended", line)));
    }
    match &summary.end {
        Some(JobOutcome::Failed { step, failure }) => {
            facts.push(("failure", format!("step {step}: {}: {}", failure.kind, failure.message)));
        }
        Some(JobOutcome::Paused { message, .. }) => facts.push(("paused", message.clone())),
        Some(JobOutcome::Completed(_)) | None => {}
    }
    facts
}

/// Returns whether a job goes on or may go on.
fn is_open(status: JobStatus) -> bool {
    status == JobStatus::Running || status.is_resumable()
}

/// Returns what a job cost and what is left.
fn spend_view(row: &JobView) -> SpendView<'_> {
    let JobView { layout, summary, status, .. } = row;
    let budget = summary.started.as_ref().map(|started| started.budget).unwrap_or_default();
    // What is left of the day matters only to a job that may go on.
    let today_usd =
        budget.day_usd.filter(|_| is_open(*status)).and_then(|_| spent_today_usd(layout));
    let successful = summary.items.as_ref().map(|items| items.counts.successful);
    let job_usd = summary.costs.cost_usd;
    SpendView { costs: &summary.costs, job_usd, successful, budget, today_usd }
}

/// Returns how many items are done, of how many.
fn format_progress(items: &ItemSummary) -> String {
    format!("{}/{}", items.counts.successful, items.total)
}

/// Returns what people call a phase.
fn phase_name(phase: PhaseName) -> &'static str {
    match phase {
        PhaseName::Steps => "steps",
        PhaseName::Setup => "setup",
        PhaseName::Map => "map",
        PhaseName::Reduce => "reduce",
        PhaseName::Merge => "merge",
    }
}

fn status(row: &JobView) -> String {
    if row.damage.is_some() { "damaged".to_owned() } else { row.status.to_string() }
}

fn elapsed(row: &JobView, now: Timestamp) -> std::time::Duration {
    row.summary.duration(row.status == JobStatus::Running, now)
}

/// Returns what people call the workflow.
fn workflow_name(summary: &JobSummary) -> String {
    summary.started.as_ref().map_or_else(
        || "?".to_owned(),
        |started| started.workflow_name.as_ref().unwrap_or(&started.workflow_file).clone(),
    )
}

/// Returns a moment for a table.
pub(crate) fn format_minute(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M").to_string()
}

/// Returns a moment as it can be typed for `--since`.
pub(crate) fn format_timestamp(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
