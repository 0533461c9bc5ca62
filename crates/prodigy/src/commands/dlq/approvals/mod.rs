//! `prodigy dlq approvals`.

pub(crate) mod approve;
pub(crate) mod reject;
pub(crate) mod vote;

use prodigy_core::{
    Timestamp,
    dlq::{DeadLetteredItem, EntryStatus},
    ids::JobId,
    replay::{ApprovalState, ReplayTrigger, approval::Approval},
};
use prodigy_engine::{
    clock,
    run::{ApprovalProgress, ReplayEvaluator},
};
use serde_json::{Value, json};

use super::{
    decision::replay_context::ReplayContext,
    entries::{open_job, queue_error, warn_unreadable_entry},
};
use crate::{
    cli::Cli,
    commands::{context, jobs::format_timestamp},
    error::CliError,
    exit::Exit,
    progress::truncate,
    render::{
        console::{Console, one_line},
        table::JsonListWriter,
    },
};

/// The most of an item's data that is shown, in columns.
const LONGEST: usize = 200;

/// List pending approvals
///
/// The digest stands for all that is shown, and for the item, the workflow and the policy. It is
/// passed to `prodigy dlq approve` or `prodigy dlq reject`. `prodigy dlq show` shows the item and
/// how it failed.
#[derive(clap::Args, Debug)]
pub(crate) struct DlqApprovalsArgs {
    /// The job
    job: JobId,

    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(
    args: &Cli,
    command: &DlqApprovalsArgs,
    out: &mut Console,
) -> Result<Exit, CliError> {
    let letters = open_job(args, &command.job, out)?;
    let authority = ReplayContext::load(args, &letters.layout, &letters.job, out)?;
    let bench = authority.approval_evaluator(&letters.queue)?;
    let program = context::self_command(args);
    let mut list = if command.json { Some(JsonListWriter::begin("approvals", out)?) } else { None };
    let mut number = 0;
    for heading in letters.queue.summaries() {
        let heading = match heading {
            Ok(heading) => heading,
            Err(error) => {
                warn_unreadable_entry(&letters.job, &queue_error(error), out);
                continue;
            }
        };
        if heading.status != EntryStatus::Open || !heading.standing.has_approval {
            continue;
        }
        let Some(entry) = letters.queue.entry(&heading.item_id).map_err(queue_error)? else {
            continue;
        };
        let Some(asked) = ApprovalView::load(&bench, &entry, clock::now()) else { continue };
        number += 1;
        if let Some(list) = &mut list {
            list.push(&asked.document(&program), out)?;
            continue;
        }
        if number > 1 {
            out.line("")?;
        }
        asked.show(out)?;
        out.line(format_args!("{:<13}{}", "next", asked.next_command(&program)))?;
    }
    if let Some(list) = list {
        list.end(&[("job_id", json!(letters.job))], out)?;
    } else if number == 0 {
        out.note(format_args!("no pending approvals in job `{}`", letters.job));
    }
    Ok(Exit::Success)
}

/// A pending approval of an entry's replay.
pub(crate) struct ApprovalView<'a> {
    entry: &'a DeadLetteredItem,
    agreement: ApprovalProgress<'a>,
    /// The reasons for the approval, and the facts about the entry.
    why: Vec<String>,
}

/// Returns the flag without which a replay would not be what people were asked about.
pub(crate) fn workflow_flag(entry: &DeadLetteredItem, approval: &Approval) -> &'static str {
    if approval.workflow_hash == entry.workflow_hash { "" } else { " --use-current-workflow" }
}

impl<'a> ApprovalView<'a> {
    /// Returns what was asked about an entry; `None` if nothing was, or it is used up.
    pub(crate) fn load(
        bench: &ReplayEvaluator,
        entry: &'a DeadLetteredItem,
        now: Timestamp,
    ) -> Option<Self> {
        let is_forced = entry.approval.as_ref()?.forced;
        let asked = if is_forced { ReplayTrigger::Forced } else { ReplayTrigger::Asked };
        let ruling = bench.evaluate(entry, asked, now);
        let agreement = bench.approval_progress(entry, &ruling, now)?;
        Some(Self { entry, agreement, why: ruling.explain() })
    }

    /// Prints what is to be agreed to.
    pub(crate) fn show(&self, out: &mut Console) -> Result<(), CliError> {
        let Self { entry, agreement, .. } = self;
        let ApprovalProgress { approval, shown, state, .. } = agreement;
        let mut facts = vec![
            ("item", entry.item_id.to_string()),
            ("state", describe_approval_state(*state)),
            ("action", format!("{} (replay {})", action(&shown.action), entry.replays + 1)),
            ("failed with", format!("{}: {}", entry.reason_code, entry.reason)),
            ("why", self.why.join("; ")),
            ("data", truncate(entry.item_data.get(), LONGEST)),
        ];
        if shown.workflow_hash != entry.workflow_hash {
            facts.push(("workflow", "another than the one it failed with".to_owned()));
        }
        let commit: String = shown.commit.chars().take(10).collect();
        facts.push(("commit", commit));
        let effects = shown.effects.iter().map(|(key, state)| format!("{key} is {state}"));
        facts.extend(effects.map(|effect| ("outside", effect)));
        let evidence = shown.evidence.iter().flat_map(|said| said.lines());
        facts.extend(evidence.map(|said| ("evidence", said.to_owned())));
        let asked =
            format!("{}, {}", approval.requested_by, format_timestamp(approval.requested_at));
        facts.push(("asked by", asked));
        for grant in &approval.grants {
            let identity = grant.identity;
            facts.push((
                "agreed",
                format!("{} ({identity}), {}", grant.by, format_timestamp(grant.at)),
            ));
        }
        if let Some(rejection) = &approval.rejection {
            facts.push(("refused", format!("{}: {}", rejection.by, rejection.reason)));
        }
        facts.push(("until", format_timestamp(approval.expires_at)));
        facts.push(("digest", approval.digest.clone()));
        for (name, value) in facts {
            out.line(format_args!("{name:<13}{}", one_line(&value)))?;
        }
        Ok(())
    }

    /// Returns the word for how far it has come.
    pub(crate) fn state_label(&self) -> &'static str {
        approval_state_label(self.agreement.state)
    }

    /// Returns the command that gets it on.
    pub(crate) fn next_command(&self, program: &str) -> String {
        let (job, item) = (&self.entry.job_id, &self.entry.item_id);
        match self.agreement.state {
            ApprovalState::Pending { .. } => {
                let digest = &self.agreement.approval.digest;
                format!("{program} dlq approve {job} {item} --expect {digest}")
            }
            ApprovalState::Granted
            | ApprovalState::SelfApproval
            | ApprovalState::Expired
            | ApprovalState::Void => {
                let flag = workflow_flag(self.entry, self.agreement.approval);
                format!("{program} dlq retry {job} {item}{flag}")
            }
            ApprovalState::Rejected => format!("{program} dlq drop {job} {item} --reason TEXT"),
        }
    }

    fn document(&self, program: &str) -> Value {
        let Self { entry, agreement, why } = self;
        let ApprovalProgress { approval, shown, state, .. } = agreement;
        let missing = match state {
            ApprovalState::Pending { granted, needed } => needed.saturating_sub(*granted),
            ApprovalState::Granted => 0,
            ApprovalState::SelfApproval
            | ApprovalState::Expired
            | ApprovalState::Rejected
            | ApprovalState::Void => approval.needed,
        };
        json!({
            "item_id": entry.item_id,
            "digest": approval.digest,
            "state": self.state_label(),
            "reason_code": entry.reason_code,
            "reason": entry.reason,
            "why": why,
            "needed": approval.needed,
            "missing": missing,
            "group": approval.group,
            "requested_by": approval.requested_by,
            "requested_at": approval.requested_at,
            "expires_at": approval.expires_at,
            "forced": approval.forced,
            "grants": approval.grants,
            "rejection": approval.rejection,
            "shown": shown,
            "next": self.next_command(program),
        })
    }
}

/// Returns what would be done, for people.
fn action(word: &str) -> &str {
    match word {
        "forced_replay" => "replay, lifting what speaks against it",
        word => word,
    }
}

fn approval_state_label(state: ApprovalState) -> &'static str {
    match state {
        ApprovalState::Pending { .. } => "pending",
        ApprovalState::Granted => "granted",
        ApprovalState::SelfApproval => "self_approval",
        ApprovalState::Expired => "expired",
        ApprovalState::Rejected => "rejected",
        ApprovalState::Void => "void",
    }
}

fn describe_approval_state(state: ApprovalState) -> String {
    match state {
        ApprovalState::Pending { granted, needed } => {
            format!("pending: {granted} of {needed} approvals")
        }
        ApprovalState::Granted => "granted: it can be replayed once".to_owned(),
        ApprovalState::SelfApproval => {
            "void: somebody agreed who has a part in it; somebody else has to".to_owned()
        }
        ApprovalState::Expired => "expired: `prodigy dlq retry` asks anew".to_owned(),
        ApprovalState::Rejected => "rejected: it is not replayed as it is".to_owned(),
        ApprovalState::Void => {
            "void: something of it has changed; `prodigy dlq retry` asks anew".to_owned()
        }
    }
}
