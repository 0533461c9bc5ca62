//! `prodigy dlq status`.

mod alert_hook;
mod health;

use std::path::PathBuf;

use prodigy_core::{
    audit::AuditVerification,
    ids::JobId,
    replay::{
        AlertRules, DlqHealth, HealthSample,
        alerts::{Alert, alerts},
    },
};
use prodigy_engine::{
    clock,
    git::Repo,
    store::{Layout, audit},
};

use super::entries::{open_jobs, queue_error, warn_unreadable_entry};
use crate::{
    cli::Cli,
    commands::{context, lookup::visible_layouts, policy::policy_file},
    error::{CliError, error_chain},
    exit::Exit,
    render::console::Console,
    trust::{self, ContentSource, RepoContent},
};

/// Show DLQ health and alerts
///
/// The thresholds of alerts are in `alerts` of `.prodigy/replay-policy.yml`. The defaults are: more
/// than 5 new dead letters per minute and 3 times as many as usual, more than 20% of replays
/// denied, a side effect unknown for 30 minutes, more than 5% of entries without a known reason,
/// an entry that is open for a day, and an audit trail that is not what was recorded. The number
/// of entries alone raises no alert.
///
/// Exit codes: with `--check`, 0 if all is well, 1 if there is an alert, 2 if a side effect is
/// unknown for too long or the audit trail is broken.
#[derive(clap::Args, Debug)]
pub(crate) struct DlqStatusArgs {
    /// The job [default: all jobs of this repository]
    job: Option<JobId>,

    /// Print only alerts, one on each line, and say by the exit code whether there are any
    ///
    /// If there are, the command in `alerts.hook` of the policy is run once, with the alerts as
    /// JSON on its standard input.
    #[arg(long)]
    check: bool,

    /// Print one JSON document
    #[arg(long)]
    json: bool,

    /// Also write the numbers to a file that Prometheus' node exporter collects
    #[arg(long, value_name = "FILE")]
    prometheus: Option<PathBuf>,
}

/// The fault of an audit trail that was deleted with its anchor.
const GONE: &str = "it is gone, although journals hold replays";

/// All that is known.
pub(crate) struct DlqHealthView<'a> {
    job: Option<&'a JobId>,
    pub(crate) vitals: DlqHealth,
    pub(crate) alerts: Vec<Alert>,
    /// The number of records of the audit trail, if it is intact and there is a repository to
    /// check it against.
    pub(crate) records: Option<u64>,
    program: String,
    /// Some entries could not be read.
    is_partial: bool,
}

pub(crate) fn run(
    args: &Cli,
    command: &DlqStatusArgs,
    out: &mut Console,
) -> Result<Exit, CliError> {
    let repo = std::env::current_dir().ok().and_then(|path| Repo::discover(&path).ok());
    let rules = match &repo {
        Some(repo) => alert_rules(repo, out)?,
        None => AlertRules::recommended(),
    };
    if let (true, Some(_), Some(repo)) = (command.check, &rules.hook, &repo) {
        trust::require_trust(&RepoContent::read(repo.root()), ContentSource::Policy)?;
    }
    let status = collect_health(args, command, repo.as_ref(), &rules, out)?;
    match (command.json, command.check) {
        (true, _) => out.raw(format!("{:#}\n", health::document(&status)).as_bytes())?,
        (false, true) => health::print_alerts(&status, out)?,
        (false, false) => health::print_health(&status, out)?,
    }
    out.flush()?;
    if let (true, Some(hook), Some(repo)) = (command.check, &rules.hook, &repo)
        && !status.alerts.is_empty()
    {
        alert_hook::run_alert_hook(hook, repo.root(), &health::document(&status), out);
    }
    let exit = if command.check { status.exit() } else { Exit::Success };
    // Numbers that cannot be written must not hide what is wrong with the dead letters.
    let written =
        command.prometheus.as_ref().map(|path| crate::render::prometheus::write(path, &status));
    match written {
        Some(Err(error)) if exit == Exit::Success => Err(error),
        Some(Err(error)) => {
            out.note(format_args!("warning: {}", error_chain(&error)));
            Ok(exit)
        }
        Some(Ok(())) | None => Ok(exit),
    }
}

/// Returns what is worth an alert in a repository.
fn alert_rules(repo: &Repo, out: &mut Console) -> Result<AlertRules, CliError> {
    let said = policy_file::load(repo.root(), out)?.alerts;
    // A policy that says nothing about alerts does not mean that nobody wants to know.
    Ok(if said == AlertRules::default() { AlertRules::recommended() } else { said })
}

/// Looks at every entry and at the audit trail.
fn collect_health<'a>(
    args: &Cli,
    command: &'a DlqStatusArgs,
    repo: Option<&Repo>,
    rules: &AlertRules,
    out: &mut Console,
) -> Result<DlqHealthView<'a>, CliError> {
    let job = command.job.as_ref();
    let mut vitals = DlqHealth::new(clock::now());
    let mut is_partial = false;
    let mut jobs = open_jobs(args, job)?;
    while let Some(letters) = jobs.open_next(out) {
        for heading in letters.queue.summaries() {
            match heading {
                Ok(heading) => vitals.add(&HealthSample {
                    job: &letters.job,
                    item: &heading.item_id,
                    status: heading.status,
                    reason_code: heading.reason_code,
                    at: heading.last_attempt,
                    commit_state: heading.standing.commit_state,
                    owner: heading.standing.owner.as_deref(),
                }),
                Err(error) => {
                    is_partial = true;
                    warn_unreadable_entry(&letters.job, &queue_error(error), out);
                }
            }
        }
    }
    is_partial |= jobs.skipped > 0;
    for layout in visible_layouts(args)? {
        if let Err(error) = add_audit_records(&layout, job, &mut vitals) {
            vitals.audit_fault = Some(error_chain(&error));
        }
    }
    let mut records = None;
    if let Some(repo) = repo {
        let layout = context::layout(&context::resolve_home(args)?, repo)?;
        match audit::verify_trail(&layout, repo) {
            Ok(AuditVerification::Whole { head, .. }) if head.seq == 0 => {
                match audit::review(&layout).map(|review| review.unrecorded.is_empty()) {
                    Ok(true) => records = Some(0),
                    Ok(false) => vitals.audit_fault = Some(GONE.to_owned()),
                    Err(error) => vitals.audit_fault = Some(error_chain(&error)),
                }
            }
            Ok(AuditVerification::Whole { head, .. }) => records = Some(head.seq),
            Ok(verified) => vitals.audit_fault = health::audit_problem(&verified),
            Err(error) => vitals.audit_fault = Some(error_chain(&error)),
        }
    }
    let alerts = alerts(&vitals, rules);
    Ok(DlqHealthView {
        job,
        vitals,
        alerts,
        records,
        program: context::self_command(args),
        is_partial,
    })
}

/// Counts what was decided over replays.
fn add_audit_records(
    layout: &Layout,
    job: Option<&JobId>,
    vitals: &mut DlqHealth,
) -> Result<(), audit::Error> {
    for record in audit::read_trail(layout)? {
        let record = match record {
            Ok(record) => record,
            // Whether the trail can be relied on is found out elsewhere.
            Err(audit::Error::Unreadable { .. }) => continue,
            Err(error) => return Err(error),
        };
        if job.is_none_or(|job| record.said.job == *job) {
            vitals.add_audit_record(&record);
        }
    }
    Ok(())
}

impl DlqHealthView<'_> {
    /// Returns the exit code, as monitoring systems know it: all is well, a warning, critical.
    fn exit(&self) -> Exit {
        if self.alerts.iter().any(|alert| alert.kind.is_critical()) {
            Exit::Usage
        } else if self.alerts.is_empty() && !self.is_partial {
            Exit::Success
        } else {
            Exit::Failure
        }
    }
}
