//! `prodigy dlq plan`.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use prodigy_core::{ids::JobId, replay::ReplayVerdict};
use prodigy_engine::{
    clock,
    store::{
        JobLock,
        dlq::{DeadLetterStore, DeadLetterSummary},
    },
};
use serde_json::{Value, json};

use super::{
    decision::{
        DecisionSummary, DecisionView, count_entries, decision_label, next_command,
        replay_context::ReplayContext,
    },
    entries::{
        entry_selection::{EntrySelectionArgs, SkippedEntries},
        find_to_replay, queue_error,
    },
};
use crate::{
    cli::Cli,
    commands::{context, policy::policy_file},
    error::CliError,
    exit::Exit,
    render::{console::Console, table::JsonListWriter},
};

/// Show what a replay would do, and change nothing
///
/// For each entry: what would become of it, by which rule, and why; at the end how many there
/// are of each, and what would get the others on. With `--policy`, what another policy would
/// change. The job may be running.
///
/// Exit codes: 0; 8 if every selected entry waits for an approval; 10 if none of
/// them may be replayed.
#[derive(clap::Args, Debug)]
pub(crate) struct DlqPlanArgs {
    /// The job
    job: JobId,

    #[command(flatten)]
    which: EntrySelectionArgs,

    /// The reason for the replay, as `--force` needs one
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    /// Show what this policy would change against the one that is in force
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,

    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Cli, command: &DlqPlanArgs, out: &mut Console) -> Result<Exit, CliError> {
    let (layout, job) = find_to_replay(args, &command.job)?;
    let authority = ReplayContext::load(args, &layout, &job, out)?;
    let queue = DeadLetterStore::open(&layout, &job).map_err(queue_error)?;
    let is_running = JobLock::holder(&layout, &job).map_err(context::store_error)?.is_some();
    let showing = ReplayPlanView { program: context::self_command(args), job, queue, is_running };
    match &command.policy {
        Some(candidate) => {
            showing.compare(&authority, &command.which, candidate, command.json, out)
        }
        None => showing.show(&authority, &command.which, command.json, out),
    }
}

/// A plan that is shown.
pub(super) struct ReplayPlanView {
    pub(super) program: String,
    pub(super) job: JobId,
    pub(super) queue: DeadLetterStore,
    pub(super) is_running: bool,
}

impl ReplayPlanView {
    /// Shows what would become of each entry.
    pub(super) fn show(
        &self,
        authority: &ReplayContext,
        which: &EntrySelectionArgs,
        as_json: bool,
        out: &mut Console,
    ) -> Result<Exit, CliError> {
        let Self { program, job, queue, is_running } = self;
        let mut bench = authority.evaluator(queue)?.with_running_job(*is_running);
        let meant = which.to_selection(queue, job, clock::now())?;
        let mut outcomes = DecisionSummary::default();
        let mut list = if as_json { Some(JsonListWriter::begin("entries", out)?) } else { None };
        let passed = meant.evaluate_all(queue, job, &mut bench, out, |heading, outcome, out| {
            match &mut list {
                Some(list) => list.push(&outcome.document(program, job, heading), out)?,
                None => line(heading, &outcome, out)?,
            }
            outcomes.add(outcome);
            Ok(())
        })?;
        if let Some(list) = list {
            let fields = [
                ("job_id", json!(job)),
                ("policy_snapshot", json!(authority.policy.policy.snapshot())),
                ("interrupted", json!(passed.interrupted)),
                ("summary", outcomes.document()),
            ];
            list.end(&fields, out)?;
        } else {
            out.flush()?;
            self.summary(&outcomes, passed, out);
        }
        Ok(exit_for_decisions(&outcomes, passed))
    }

    fn summary(&self, outcomes: &DecisionSummary, passed: SkippedEntries, out: &mut Console) {
        let Self { program, job, .. } = self;
        if outcomes.is_empty() && passed.interrupted == 0 {
            out.note(format_args!("no matching dead letters in job `{job}`"));
            return;
        }
        out.note("");
        for group in outcomes.groups() {
            let (first, word) = (&group.first, decision_label(group.first.verdict));
            let entries = count_entries(group.count);
            out.note(format_args!("{word:<10} {entries} by rule `{}`", first.rule));
            if let Some(need) = first.needs {
                out.note(format_args!(
                    "           then: {}",
                    next_command(program, job, &first.item, need)
                ));
            }
        }
        if passed.interrupted > 0 {
            let entries = count_entries(passed.interrupted);
            out.note(format_args!("{:<10} {entries} that were interrupted", "finish"));
        }
        out.note("nothing was changed");
    }

    /// Shows what another policy would change.
    fn compare(
        &self,
        authority: &ReplayContext,
        which: &EntrySelectionArgs,
        candidate: &Path,
        as_json: bool,
        out: &mut Console,
    ) -> Result<Exit, CliError> {
        let Self { job, queue, is_running, .. } = self;
        let shown = candidate.display().to_string();
        let policy = Arc::new(policy_file::read(candidate, out)?);
        let snapshot = policy.snapshot().to_owned();
        let mut bench = authority.evaluator(queue)?.with_running_job(*is_running);
        let mut other =
            authority.evaluator_with_policy(queue, policy)?.with_running_job(*is_running);
        let meant = which.to_selection(queue, job, clock::now())?;
        let mut list = if as_json { Some(JsonListWriter::begin("changes", out)?) } else { None };
        let mut changes: BTreeMap<(&str, &str), u32> = BTreeMap::new();
        let (mut decided, now_is) = (0, clock::now());
        meant.evaluate_all(queue, job, &mut bench, out, |heading, now, out| {
            decided += 1;
            let then = meant.evaluate(queue, heading, &mut other, now_is);
            let (from, to) = (decision_label(now.verdict), decision_label(then.verdict));
            if from == to && now.rule == then.rule {
                return Ok(());
            }
            if from != to {
                *changes.entry((from, to)).or_default() += 1;
            }
            match &mut list {
                Some(list) => list.push(&change(&now, &then), out),
                None if from == to => Ok(()),
                None => {
                    let item = &now.item;
                    let (old, new) = (&now.rule, &then.rule);
                    out.line(format_args!("{item}  {from} → {to}  (`{old}` → `{new}`)"))
                }
            }
        })?;
        let counted = changes.iter().map(|((from, to), count)| (*from, *to, *count));
        if let Some(list) = list {
            let summary: Vec<Value> = counted
                .map(|(from, to, count)| json!({ "from": from, "to": to, "entries": count }))
                .collect();
            let in_force = authority.policy.policy.snapshot();
            let fields = [
                ("job_id", json!(job)),
                ("policy_snapshot", json!(in_force)),
                ("candidate_snapshot", json!(snapshot)),
                ("decided", json!(decided)),
                ("summary", json!(summary)),
            ];
            list.end(&fields, out)?;
            return Ok(Exit::Success);
        }
        out.flush()?;
        let number: u32 = changes.values().sum();
        out.note(format_args!(
            "\n`{shown}` decides otherwise over {number} of {}; nothing was changed",
            count_entries(decided)
        ));
        for (from, to, count) in counted {
            out.note(format_args!("  {from} → {to}: {}", count_entries(count)));
        }
        Ok(Exit::Success)
    }
}

/// Prints what would become of an entry.
fn line(
    heading: &DeadLetterSummary,
    outcome: &DecisionView,
    out: &mut Console,
) -> Result<(), CliError> {
    let forced = if outcome.is_forced { "  forced" } else { "" };
    let (word, item) = (decision_label(outcome.verdict), &heading.item_id);
    out.line(format_args!("{word:<10} {item}{forced}  {}", outcome.explanation()))
}

fn change(now: &DecisionView, then: &DecisionView) -> Value {
    json!({
        "item_id": now.item,
        "from": { "verdict": now.verdict, "rule": now.rule },
        "to": { "verdict": then.verdict, "rule": then.rule, "why": then.why },
    })
}

/// Returns how it ends if nothing that is meant may be replayed.
pub(super) fn exit_for_decisions(outcomes: &DecisionSummary, passed: SkippedEntries) -> Exit {
    let goes_on = [ReplayVerdict::Replay, ReplayVerdict::Adopt, ReplayVerdict::Check];
    let goes_on = goes_on.iter().any(|verdict| outcomes.count(*verdict) > 0);
    if goes_on || passed.interrupted > 0 || outcomes.is_empty() {
        Exit::Success
    } else if outcomes.count(ReplayVerdict::Approval) > 0 {
        Exit::AwaitingApproval
    } else {
        Exit::ReplayDenied
    }
}
