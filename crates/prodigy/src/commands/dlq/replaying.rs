//! The dead letters of a retry that are not simply replayed.

use std::collections::BTreeSet;

use prodigy_core::{
    audit::{AuditAction, AuditOutcome, IdentityKind, NewRecord},
    ids::{ItemId, JobId},
    replay::Verdict,
};
use prodigy_engine::{
    clock,
    dlq::{Amendment, Heading, Queue, Requested, Wanted},
    store::JobLock,
};

use super::{
    authority::{Authority, amend_error, append},
    outcome::{NAMED, Outcome, Outcomes, entries},
    plan,
    planning::{Meant, Passed},
    queues::queue_error,
};
use crate::{
    commands::jobs::second,
    error::CliError,
    exit::Exit,
    output::Output,
    report::{count, exit_code::RetryRest},
};

/// The decisions over the selected dead letters.
pub(super) struct Plan {
    /// Those that are replayed.
    pub(super) wanted: Wanted,
    /// Those of which has to be found out what they changed outside.
    pub(super) check: Vec<ItemId>,
    /// Those whose work counts as done.
    adopt: Vec<Outcome>,
    /// Those that somebody has to agree to.
    approval: Vec<ItemId>,
    /// The others, each by itself if they were named.
    denied: Vec<Outcome>,
    /// All of them.
    outcomes: Outcomes,
    /// The entries that are not replayed.
    refused: Outcomes,
    pub(super) passed: Passed,
}

impl Plan {
    /// Decides over the dead letters that are meant.
    pub(super) fn make(
        authority: &Authority,
        queue: &Queue,
        job: &JobId,
        meant: &Meant,
        is_verbose: bool,
        out: &mut Output,
    ) -> Result<Self, CliError> {
        let mut plan = Self {
            wanted: Wanted::default(),
            check: Vec::new(),
            adopt: Vec::new(),
            approval: Vec::new(),
            denied: Vec::new(),
            outcomes: Outcomes::default(),
            refused: Outcomes::default(),
            passed: Passed::default(),
        };
        let mut bench = authority.bench(queue)?;
        let is_named = meant.names_items();
        plan.passed = meant.decide(queue, job, &mut bench, out, |heading, outcome, out| {
            if is_verbose && outcome.verdict == Verdict::Replay {
                tell(heading, out);
            }
            plan.take(heading, outcome, is_named);
            Ok(())
        })?;
        Ok(plan)
    }

    fn take(&mut self, heading: &Heading, outcome: Outcome, is_named: bool) {
        self.outcomes.add(outcome.clone());
        match outcome.verdict {
            Verdict::Replay => self.wanted.add(heading),
            Verdict::Check => self.check.push(outcome.item),
            Verdict::Adopt => self.adopt.push(outcome),
            Verdict::Approval => {
                self.approval.push(outcome.item.clone());
                self.refused.add(outcome);
            }
            Verdict::Review
            | Verdict::Quarantine
            | Verdict::Later
            | Verdict::Limit
            | Verdict::Never
            | Verdict::Running
            | Verdict::Closed
            | Verdict::Damaged => {
                if is_named {
                    self.denied.push(outcome.clone());
                }
                self.refused.add(outcome);
            }
        }
    }

    /// Returns what is not replayed and decides over the exit code all the same.
    pub(super) fn rest(&self) -> RetryRest {
        RetryRest {
            has_adopted: !self.adopt.is_empty(),
            awaits_approval: !self.approval.is_empty(),
        }
    }

    /// Says that nothing is replayed.
    pub(super) fn nothing(&self, job: &JobId, out: &mut Output) -> Exit {
        if self.outcomes.is_empty() {
            out.note(format_args!(
                "nothing to replay: no open dead letter of job `{job}` is meant"
            ));
        } else if self.adopt.is_empty() {
            out.note("nothing was replayed");
        }
        plan::exit(&self.outcomes, self.passed)
    }
}

/// Says who has to agree to a replay.
fn waiting(request: &Requested) -> String {
    let Requested { item, group, missing, expires_at, is_kept, .. } = request;
    let until = second(*expires_at);
    if *missing == 0 {
        return format!(
            "{item} waits for somebody else to replay it: who agreed does not, until {until}"
        );
    }
    let people = count(*missing, "person").replace("persons", "people");
    let group = group.as_ref().map(|group| format!(" of group `{group}`")).unwrap_or_default();
    let asked = if *is_kept { "still waits" } else { "waits" };
    format!("{item} {asked} for {people}{group} to agree, until {until}")
}

/// Shows an entry that is replayed, and how it failed before.
fn tell(heading: &Heading, out: &mut Output) {
    let Heading { item_id, reason_code, error_pattern, attempts, .. } = heading;
    let after = count(*attempts, "attempt");
    out.note(format_args!("· {item_id}  {reason_code} after {after}: {error_pattern}"));
}

/// The context in which entries that are not replayed are handled.
pub(super) struct Handling<'a> {
    pub(super) authority: &'a Authority,
    pub(super) program: &'a str,
    pub(super) job: &'a JobId,
    pub(super) queue: &'a Queue,
    pub(super) lock: &'a JobLock,
    pub(super) reason: Option<&'a str>,
    /// Those that somebody takes on themselves.
    pub(super) forced: &'a BTreeSet<ItemId>,
}

impl Handling<'_> {
    /// Takes what was changed outside for the work done.
    pub(super) fn adopt(&self, plan: &Plan, out: &mut Output) -> Result<(), CliError> {
        if plan.adopt.is_empty() {
            return Ok(());
        }
        let items: Vec<ItemId> = plan.adopt.iter().map(|outcome| outcome.item.clone()).collect();
        let reason = self.reason.unwrap_or("all that it was to change outside is changed");
        let identity = IdentityKind::Asserted;
        let amendment = Amendment::Adopt;
        let adopted =
            self.authority.amend(Some(self.lock), &items, &amendment, identity, reason)?;
        for item in adopted {
            out.line(format_args!("adopted  {item}"))?;
        }
        Ok(())
    }

    /// Asks for the agreements that are missing, and says what to type to give them.
    pub(super) fn ask(&self, plan: &Plan, out: &mut Output) -> Result<(), CliError> {
        if plan.approval.is_empty() {
            return Ok(());
        }
        let (authority, queue) = (self.authority, self.queue);
        let bench = authority.bench(queue)?;
        let asking = authority.asking(queue, &bench, self.reason.unwrap_or_default());
        let audit = authority.audit()?;
        let mut trail = |records| audit.append(records, clock::now()).map(drop);
        let requested = asking.request(self.lock, &plan.approval, self.forced, &mut trail);
        let requested = requested.map_err(amend_error)?;
        for request in requested.iter().take(NAMED) {
            out.note(waiting(request));
            let (program, job, Requested { item, digest, .. }) = (self.program, self.job, request);
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
    pub(super) fn deny(&self, plan: &Plan, out: &mut Output) -> Result<(), CliError> {
        let records = self.denials(plan)?;
        if !records.is_empty() {
            append(&self.authority.audit()?, records)?;
        }
        plan.refused.show(self.program, self.job, out);
        if plan.passed.meanwhile > 0 {
            let entries = entries(plan.passed.meanwhile);
            out.note(format_args!("not replayed: {entries} that another replay took meanwhile"));
        }
        Ok(())
    }

    /// Returns a record for each entry that was named, or one for those of a rule together.
    fn denials(&self, plan: &Plan) -> Result<Vec<NewRecord>, CliError> {
        if !plan.denied.is_empty() {
            let record = |outcome: &Outcome| {
                let entry = self.queue.entry(&outcome.item).map_err(queue_error)?;
                let mut record = self.denial(outcome);
                record.entry = outcome.item.to_string();
                record.revision = entry.map_or(0, |entry| entry.revision);
                Ok(record)
            };
            return plan.denied.iter().map(record).collect();
        }
        let groups = plan.refused.groups();
        let denied = groups.filter(|group| group.first.verdict != Verdict::Approval);
        Ok(denied
            .map(|group| {
                let mut record = self.denial(&group.first);
                record.entries = Some(u64::from(group.count));
                record
            })
            .collect())
    }

    fn denial(&self, outcome: &Outcome) -> NewRecord {
        let mut record = self.authority.record(AuditAction::Replay);
        record.decision = Some(super::outcome::word(outcome.verdict).to_owned());
        record.rule = Some(outcome.rule.clone());
        record.policy_snapshot = Some(outcome.snapshot.clone());
        record.reason = self.reason.map(str::to_owned);
        record.with_outcome(AuditOutcome::Denied)
    }
}
