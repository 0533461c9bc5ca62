//! `prodigy policy show`.

use prodigy_core::{
    duration,
    replay::{
        AlertRules, ApproverGroup, IdentityKind, ReplayAction, ReplayBackoff, ReplayLimits,
        ReplayRole, ReplayRule, ReplayVelocity, RuleMatch,
    },
};
use serde_json::json;

use crate::{
    commands::policy::policy_file::{self, FILE, current_repo_root, exists},
    error::CliError,
    exit::Exit,
    progress::{padded, plural},
    render::console::Console,
};

/// Show the rules that hold here, with every default spelled out
///
/// The snapshot is a hash of the rules and of all else that the policy says. It stands in every
/// decision, so that it can be told later by which rules it was taken.
#[derive(clap::Args, Debug)]
pub(crate) struct PolicyShowArgs {
    /// Print JSON, with durations in seconds
    #[arg(long)]
    json: bool,
}

pub(super) fn run(command: &PolicyShowArgs, out: &mut Console) -> Result<Exit, CliError> {
    let root = current_repo_root()?;
    let policy = policy_file::load(&root, out)?;
    let file = exists(&root.join(FILE)).then_some(FILE);
    let snapshot = policy.snapshot();
    if command.json {
        let document =
            json!({"schema_version": 1, "file": file, "snapshot": snapshot, "policy": policy});
        out.raw(format!("{document}\n").as_bytes())?;
        return Ok(Exit::Success);
    }
    out.line(format_args!("policy    {}", file.unwrap_or("built in")))?;
    out.line(format_args!("snapshot  {snapshot}"))?;
    out.line("\nrules; the first that matches decides")?;
    let rows: Vec<_> = policy
        .rules
        .iter()
        .map(|rule| [rule.name.clone(), matches(&rule.matches), outcome(rule)])
        .collect();
    table(&rows, out)?;
    let parts = [
        ("limits", limits(policy.limits)),
        ("velocity", velocity(&policy.velocity)),
        ("alerts", alerts(&policy.alerts)),
    ];
    for (name, rows) in parts {
        section(name, &rows, out)?;
    }
    let groups: Vec<_> = policy.groups.iter().map(|(name, it)| [name.clone(), group(it)]).collect();
    section("approver groups", &groups, out)?;
    Ok(Exit::Success)
}

fn section(name: &str, rows: &[[String; 2]], out: &mut Console) -> Result<(), CliError> {
    if rows.is_empty() {
        return Ok(());
    }
    out.line(format_args!("\n{name}"))?;
    table(rows, out)
}

/// Writes rows whose cells stand below each other.
fn table<const N: usize>(rows: &[[String; N]], out: &mut Console) -> Result<(), CliError> {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            // One long list of codes must not push all other rows out of sight.
            let length = cell.chars().count();
            *width = (*width).max(if length <= 40 { length } else { 0 });
        }
    }
    for row in rows {
        let cells: Vec<String> =
            row.iter().zip(widths).map(|(cell, width)| padded(cell, width)).collect();
        out.line(format!("  {}", cells.join("  ")).trim_end())?;
    }
    Ok(())
}

/// Returns which entries a rule is for.
fn matches(matches: &RuleMatch) -> String {
    let RuleMatch { reason_codes, step, attempts_gte, signature } = matches;
    let codes = reason_codes.as_ref().map(|codes| {
        let codes: Vec<&str> = codes.iter().map(|kind| kind.code()).collect();
        if codes.is_empty() { "nothing".to_owned() } else { codes.join(" or ") }
    });
    let parts = [
        codes,
        step.as_ref().map(|step| format!("step {step}")),
        attempts_gte.map(|least| format!("{least} attempts or more")),
        signature.as_ref().map(|start| format!("signature {start}")),
    ];
    let said: Vec<String> = parts.into_iter().flatten().collect();
    if said.is_empty() { "everything else".to_owned() } else { said.join(", ") }
}

/// Returns what becomes of the entries that match.
fn outcome(rule: &ReplayRule) -> String {
    let mut said = vec![rule.action.as_str().to_owned()];
    if rule.action == ReplayAction::CheckThenReplay {
        let clauses = [
            ("absent", rule.on_absent),
            ("committed", rule.on_committed),
            ("partial", rule.on_partial),
        ];
        said.extend(clauses.iter().map(|(found, action)| format!("{found}: {}", action.as_str())));
    }
    said.extend(rule.max_replays.map(|most| format!("at most {}", plural(most, "replay"))));
    if rule.backoff != ReplayBackoff::None {
        said.push(format!("backoff {}", rule.backoff.as_str()));
    }
    said.extend(rule.approver_group.as_ref().map(|group| format!("by {group}")));
    said.extend(rule.owner.as_ref().map(|owner| format!("owner {owner}")));
    said.join(", ")
}

fn limits(limits: ReplayLimits) -> Vec<[String; 2]> {
    let ReplayLimits { replays_per_item, replays_per_signature, cost_usd } = limits;
    rows([
        ("replays_per_item", replays_per_item.map(|it| it.to_string())),
        ("replays_per_signature", replays_per_signature.map(|it| it.to_string())),
        ("cost_usd", cost_usd.map(|it| it.to_string())),
    ])
}

fn velocity(velocity: &ReplayVelocity) -> Vec<[String; 2]> {
    let ReplayVelocity { rate, concurrency, canary, abort_failure_ratio } = velocity;
    let waves: Vec<String> = canary.iter().map(ToString::to_string).collect();
    rows([
        ("rate", rate.map(|it| it.to_string())),
        ("concurrency", concurrency.map(|it| it.to_string())),
        ("canary", (!waves.is_empty()).then(|| waves.join(", "))),
        ("abort_failure_ratio", abort_failure_ratio.map(|it| it.to_string())),
    ])
}

fn alerts(alerts: &AlertRules) -> Vec<[String; 2]> {
    let number = |value: Option<f64>| value.map(|it| it.to_string());
    rows([
        ("growth_per_min", number(alerts.growth_per_min)),
        ("denial_ratio", number(alerts.denial_ratio)),
        ("unknown_commit_age", alerts.unknown_commit_age.map(duration::format)),
        ("unclassified_ratio", number(alerts.unclassified_ratio)),
        ("oldest", alerts.oldest.map(duration::format)),
        ("hook", alerts.hook.clone()),
    ])
}

fn rows<const N: usize>(rows: [(&str, Option<String>); N]) -> Vec<[String; 2]> {
    rows.into_iter().filter_map(|(key, value)| Some([key.to_owned(), value?])).collect()
}

/// Returns who may agree, and what it takes.
fn group(group: &ApproverGroup) -> String {
    let mut said = format!("{} of {}", group.min_approvals, group.members.join(", "));
    said = format!("{said}; holds for {}", duration::format(group.ttl));
    for party in &group.distinct_from {
        said.push_str(match party {
            ReplayRole::Submitter => "; not who started the job",
            ReplayRole::Replayer => "; not who asks for the replay",
        });
    }
    match (group.identity, &group.allowed_signers) {
        (IdentityKind::Asserted, _) => said,
        (IdentityKind::Signed, None) => format!("{said}; signed"),
        (IdentityKind::Signed, Some(file)) => format!("{said}; signed, with keys of {file}"),
    }
}
