//! The explanation of a replay decision, as `prodigy policy explain` shows it.

use prodigy_core::{
    dlq::DeadLetteredItem,
    ids::JobId,
    replay::{NextAction, ReplayAction, ReplayDecision, ReplayTrigger},
};
use prodigy_engine::{clock, store::JobLock};
use serde_json::json;

use super::{describe_decision, next_command, replay_context::ReplayContext};
use crate::{
    cli::Cli,
    commands::{
        context,
        dlq::{
            approvals::ApprovalView,
            entries::{entry_filter::require_entry, labels::SCHEMA_VERSION, open_job},
        },
        jobs::format_timestamp,
    },
    error::CliError,
    exit::Exit,
    render::console::{Console, one_line},
};

/// Shows what is decided over an entry, why, and what would get it on.
pub(crate) fn explain_decision(
    args: &Cli,
    job: &JobId,
    item: &str,
    asked: ReplayTrigger,
    as_json: bool,
    out: &mut Console,
) -> Result<Exit, CliError> {
    let letters = open_job(args, job, out)?;
    let entry = require_entry(&letters.queue, &letters.job, item)?;
    let authority = ReplayContext::load(args, &letters.layout, &letters.job, out)?;
    let is_running = JobLock::holder(&letters.layout, &letters.job);
    let is_running = is_running.map_err(context::store_error)?.is_some();
    let bench = authority.evaluator(&letters.queue)?.with_running_job(is_running);
    let now = clock::now();
    let ruling = bench.evaluate(&entry, asked, now);
    let program = context::self_command(args);
    let to_agree = authority.approval_evaluator(&letters.queue)?;
    let is_asked = ruling.action == ReplayAction::RequireApproval;
    let request = ApprovalView::load(&to_agree, &entry, now).filter(|_| is_asked);
    let next = match &request {
        Some(request) if ruling.needs == Some(NextAction::Approve) => {
            Some(request.next_command(&program))
        }
        Some(_) | None => next_command_for(&ruling, &entry, asked, &program),
    };
    if as_json {
        let document = json!({
            "schema_version": SCHEMA_VERSION,
            "job_id": entry.job_id,
            "item_id": entry.item_id,
            "revision": entry.revision,
            "reason_code": entry.reason_code,
            "verdict": ruling.verdict,
            "action": ruling.action,
            "rule": ruling.rule.name,
            "policy_snapshot": ruling.snapshot,
            "not_before": ruling.not_before,
            "why": ruling.explain(),
            "approval": request.as_ref().map(ApprovalView::state_label),
            "next": next,
        });
        out.line(format_args!("{document:#}"))?;
        return Ok(Exit::Success);
    }
    let mut facts = vec![
        ("item", format!("{} of job {}", entry.item_id, entry.job_id)),
        ("failed with", format!("{}: {}", entry.reason_code, entry.reason)),
        ("verdict", format!("{}: {}", ruling.verdict.as_str(), describe_decision(ruling.verdict))),
    ];
    facts.extend(ruling.explain().into_iter().map(|why| ("because", why)));
    facts.extend(ruling.not_before.map(|at| ("not before", format_timestamp(at))));
    facts.push(("policy", ruling.snapshot.to_owned()));
    facts.extend(next.map(|next| ("next", next)));
    for (name, value) in facts {
        out.line(format_args!("{name:<13}{}", one_line(&value)))?;
    }
    Ok(Exit::Success)
}

/// Returns the command that would get an entry on.
fn next_command_for(
    ruling: &ReplayDecision<'_>,
    entry: &DeadLetteredItem,
    asked: ReplayTrigger,
    program: &str,
) -> Option<String> {
    let (job, item) = (&entry.job_id, &entry.item_id);
    let retry = || match asked {
        ReplayTrigger::Unasked | ReplayTrigger::Asked => {
            format!("{program} dlq retry {job} {item}")
        }
        ReplayTrigger::Forced => format!("{program} dlq retry {job} --force {item} --reason TEXT"),
    };
    match ruling.needs {
        Some(NextAction::Ask) if asked == ReplayTrigger::Forced => Some(retry()),
        Some(need) => Some(next_command(program, job, item, need)),
        None => ruling.goal.map(|_| retry()),
    }
}
