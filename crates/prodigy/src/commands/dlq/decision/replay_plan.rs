//! The dead letters of a retry that are not simply replayed.

use std::collections::BTreeSet;

use prodigy_core::{
    audit::{AuditAction, AuditOutcome, IdentityKind, NewAuditRecord},
    ids::{ItemId, JobId},
    replay::ReplayVerdict,
};
use prodigy_engine::{
    clock,
    run::{PendingApproval, ReplayBatch, control::DeadLetterAction},
    store::{
        JobLock,
        dlq::{DeadLetterStore, DeadLetterSummary},
    },
};

use super::{
    DecisionSummary, DecisionView, NAMED, count_entries,
    replay_context::{ReplayContext, amend_error, append_audit},
};
use crate::{
    commands::{
        dlq::{
            entries::{
                entry_selection::{EntrySelection, SkippedEntries},
                queue_error,
            },
            plan,
        },
        jobs::format_timestamp,
        workflow::exit_rules::UnreplayedEntries,
    },
    error::CliError,
    exit::Exit,
    progress::plural,
    render::console::Console,
};

/// The decisions over the selected dead letters.
pub(crate) struct ReplayPlan {
    /// Those that are replayed.
    pub(crate) wanted: ReplayBatch,
    /// Those of which has to be found out what they changed outside.
    pub(crate) check: Vec<ItemId>,
    /// Those whose work counts as done.
    adopt: Vec<DecisionView>,
    /// Those that somebody has to agree to.
    approval: Vec<ItemId>,
    /// The others, each by itself if they were named.
    denied: Vec<DecisionView>,
    /// All of them.
    outcomes: DecisionSummary,
    /// The entries that are not replayed.
    refused: DecisionSummary,
    pub(crate) passed: SkippedEntries,
}

impl ReplayPlan {
    /// Decides over the dead letters that are meant.
    pub(crate) fn build(
        authority: &ReplayContext,
        queue: &DeadLetterStore,
        job: &JobId,
        meant: &EntrySelection,
        is_verbose: bool,
        out: &mut Console,
    ) -> Result<Self, CliError> {
        let mut plan = Self {
            wanted: ReplayBatch::default(),
            check: Vec::new(),
            adopt: Vec::new(),
            approval: Vec::new(),
            denied: Vec::new(),
            outcomes: DecisionSummary::default(),
            refused: DecisionSummary::default(),
            passed: SkippedEntries::default(),
        };
        let mut bench = authority.evaluator(queue)?;
        let is_named = meant.has_named_items();
        plan.passed =
            meant.evaluate_all(queue, job, &mut bench, out, |heading, outcome, out| {
                if is_verbose && outcome.verdict == ReplayVerdict::Replay {
                    print_replayed_entry(heading, out);
                }
                plan.add(heading, outcome, is_named);
                Ok(())
            })?;
        Ok(plan)
    }

    fn add(&mut self, heading: &DeadLetterSummary, outcome: DecisionView, is_named: bool) {
        self.outcomes.add(outcome.clone());
        match outcome.verdict {
            ReplayVerdict::Replay => self.wanted.add(heading),
            ReplayVerdict::Check => self.check.push(outcome.item),
            ReplayVerdict::Adopt => self.adopt.push(outcome),
            ReplayVerdict::Approval => {
                self.approval.push(outcome.item.clone());
                self.refused.add(outcome);
            }
            ReplayVerdict::Review
            | ReplayVerdict::Quarantine
            | ReplayVerdict::Later
            | ReplayVerdict::Limit
            | ReplayVerdict::Never
            | ReplayVerdict::Running
            | ReplayVerdict::Closed
            | ReplayVerdict::Damaged => {
                if is_named {
                    self.denied.push(outcome.clone());
                }
                self.refused.add(outcome);
            }
        }
    }

    /// Returns what is not replayed and decides over the exit code all the same.
    pub(crate) fn unreplayed(&self) -> UnreplayedEntries {
        UnreplayedEntries {
            has_adopted: !self.adopt.is_empty(),
            awaits_approval: !self.approval.is_empty(),
        }
    }

    /// Says that nothing is replayed.
    pub(crate) fn nothing_to_replay(&self, job: &JobId, out: &mut Console) -> Exit {
        if self.outcomes.is_empty() {
            out.note(format_args!("nothing to replay: no matching dead letters in job `{job}`"));
        } else if self.adopt.is_empty() {
            out.note("nothing was replayed");
        }
        plan::exit_for_decisions(&self.outcomes, self.passed)
    }
}

/// Says who has to agree to a replay.
fn pending_approval_line(request: &PendingApproval) -> String {
    let PendingApproval { item, group, missing, expires_at, is_kept, .. } = request;
    let until = format_timestamp(*expires_at);
    if *missing == 0 {
        return format!(
            "{item} waits for somebody else to replay it: who agreed does not, until {until}"
        );
    }
    let approvals = plural(*missing, "approval");
    let group = group.as_ref().map(|group| format!(" by `{group}`")).unwrap_or_default();
    let asked = if *is_kept { "still waits" } else { "waits" };
    format!("{item} {asked} for {approvals}{group}, until {until}")
}

/// Shows an entry that is replayed, and how it failed before.
fn print_replayed_entry(heading: &DeadLetterSummary, out: &mut Console) {
    let DeadLetterSummary { item_id, reason_code, error_pattern, attempts, .. } = heading;
    let after = plural(*attempts, "attempt");
    out.note(format_args!("· {item_id}  {reason_code} after {after}: {error_pattern}"));
}

/// The context in which entries that are not replayed are handled.
pub(crate) struct RetryActions<'a> {
    pub(crate) authority: &'a ReplayContext,
    pub(crate) program: &'a str,
    pub(crate) job: &'a JobId,
    pub(crate) queue: &'a DeadLetterStore,
    pub(crate) lock: &'a JobLock,
    pub(crate) reason: Option<&'a str>,
    /// Those that somebody takes on themselves.
    pub(crate) forced: &'a BTreeSet<ItemId>,
}

impl RetryActions<'_> {
    /// Takes what was changed outside for the work done.
    pub(crate) fn adopt_entries(
        &self,
        plan: &ReplayPlan,
        out: &mut Console,
    ) -> Result<(), CliError> {
        if plan.adopt.is_empty() {
            return Ok(());
        }
        let items: Vec<ItemId> = plan.adopt.iter().map(|outcome| outcome.item.clone()).collect();
        let reason = self.reason.unwrap_or("all that it was to change outside is changed");
        let identity = IdentityKind::Asserted;
        let amendment = DeadLetterAction::Adopt;
        let adopted =
            self.authority.apply_action(Some(self.lock), &items, &amendment, identity, reason)?;
        for item in adopted {
            out.line(format_args!("adopted  {item}"))?;
        }
        Ok(())
    }

    /// Asks for the agreements that are missing, and says what to type to give them.
    pub(crate) fn request_approvals(
        &self,
        plan: &ReplayPlan,
        out: &mut Console,
    ) -> Result<(), CliError> {
        if plan.approval.is_empty() {
            return Ok(());
        }
        let (authority, queue) = (self.authority, self.queue);
        let bench = authority.evaluator(queue)?;
        let asking = authority.approval_service(queue, &bench, self.reason.unwrap_or_default());
        let audit = authority.audit_trail()?;
        let mut trail = |records| audit.append(records, clock::now()).map(drop);
        let requested = asking.request(self.lock, &plan.approval, self.forced, &mut trail);
        let requested = requested.map_err(amend_error)?;
        for request in requested.iter().take(NAMED) {
            out.note(pending_approval_line(request));
            let (program, job, PendingApproval { item, digest, .. }) =
                (self.program, self.job, request);
            if request.missing > 0 {
                let approve = format!("dlq approve {job} {item} --expect {digest}");
                out.note(format_args!("  then: {program} {approve}"));
            } else {
                out.note(format_args!("  then: {program} dlq retry {job} {item}"));
            }
        }
        let more = requested.len().saturating_sub(NAMED);
        if more > 0 {
            let (program, job) = (self.program, self.job);
            out.note(format_args!("and {more} more: {program} dlq approvals {job}"));
        }
        Ok(())
    }

    /// Says what is not replayed, and records that it was denied.
    pub(crate) fn record_denials(
        &self,
        plan: &ReplayPlan,
        out: &mut Console,
    ) -> Result<(), CliError> {
        let records = self.denials(plan)?;
        if !records.is_empty() {
            append_audit(&self.authority.audit_trail()?, records)?;
        }
        plan.refused.show(self.program, self.job, out);
        if plan.passed.meanwhile > 0 {
            let entries = count_entries(plan.passed.meanwhile);
            out.note(format_args!("not replayed: {entries} that another replay took meanwhile"));
        }
        Ok(())
    }

    /// Returns a record for each entry that was named, or one for those of a rule together.
    fn denials(&self, plan: &ReplayPlan) -> Result<Vec<NewAuditRecord>, CliError> {
        if !plan.denied.is_empty() {
            let record = |outcome: &DecisionView| {
                let entry = self.queue.entry(&outcome.item).map_err(queue_error)?;
                let mut record = self.denial(outcome);
                record.entry = outcome.item.to_string();
                record.revision = entry.map_or(0, |entry| entry.revision);
                Ok(record)
            };
            return plan.denied.iter().map(record).collect();
        }
        let groups = plan.refused.groups();
        let denied = groups.filter(|group| group.first.verdict != ReplayVerdict::Approval);
        Ok(denied
            .map(|group| {
                let mut record = self.denial(&group.first);
                record.entries = Some(u64::from(group.count));
                record
            })
            .collect())
    }

    fn denial(&self, outcome: &DecisionView) -> NewAuditRecord {
        let mut record = self.authority.new_audit_record(AuditAction::Replay);
        record.decision = Some(super::decision_label(outcome.verdict).to_owned());
        record.rule = Some(outcome.rule.clone());
        record.policy_snapshot = Some(outcome.snapshot.clone());
        record.reason = self.reason.map(str::to_owned);
        record.with_outcome(AuditOutcome::Denied)
    }
}
