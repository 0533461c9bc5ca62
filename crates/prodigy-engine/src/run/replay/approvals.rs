//! Asking people to agree to replays, and taking what they say.
//!
//! Both happen while the job's lock is held, from what is stored at that moment: nothing can
//! change between what is checked and what is recorded.

use std::collections::BTreeSet;

use prodigy_core::{
    Timestamp,
    audit::{AuditAction, AuditOutcome, IdentityKind, NewAuditRecord},
    dlq::{DeadLetteredItem, EntryStatus},
    event::{ApprovalRequest, Event},
    ids::ItemId,
    replay::{
        ApprovalState, NextAction, ReplayDecision, ReplayTrigger, ReplayVerdict,
        approval::{self, ApprovalError, ApprovalResponse, Approver, ApproverRules, Vote},
    },
};

use crate::{
    governance::SignerFiles,
    identity::{self, AllowedSigners, SigningKey},
    run::{
        ReplayEvaluator,
        control::{AuditSink, DeadLetterEditor, EditorError, dead_letter_editor::item_event},
    },
    store::{
        JobLock,
        dlq::{DeadLetterStore, Error, rebuild::JournalScan},
    },
};

/// Where people are asked, and by which rules.
#[derive(Clone, Copy, Debug)]
pub struct ApprovalService<'a> {
    /// The entries.
    pub queue: &'a DeadLetterStore,
    /// The evaluator of their replays.
    pub bench: &'a ReplayEvaluator,
    /// The person who requests or answers, the time, and the reason.
    pub amending: DeadLetterEditor<'a>,
}

/// An approval request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingApproval {
    /// The item.
    pub item: ItemId,
    /// The digest of the replay to approve.
    pub digest: String,
    /// The group whose members may approve; anyone may if there is none.
    pub group: Option<String>,
    /// The number of missing approvals.
    pub missing: u32,
    /// When it is too late.
    pub expires_at: Timestamp,
    /// True if the request was made before and is still valid.
    pub is_kept: bool,
}

/// A person's answer to an approval request.
#[derive(Clone, Copy, Debug)]
pub struct VoteRequest<'a> {
    /// The item.
    pub item: &'a ItemId,
    /// Yes or no.
    pub vote: Vote,
    /// The digest of what they were shown, or its first digits.
    pub expect: &'a str,
    /// The key that they sign with, if they sign.
    pub key: Option<&'a SigningKey>,
    /// The files of signers that the policy names.
    pub signers: &'a SignerFiles,
}

/// An answer that was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VoteOutcome {
    /// The digest that was approved or rejected.
    pub digest: String,
    /// The kind of proof of the approver's identity.
    pub identity: IdentityKind,
    /// The state of the approval after this answer.
    pub state: ApprovalState,
}

/// The reason that an answer was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum VoteError {
    /// It is not one that counts; the audit trail says so.
    #[error(transparent)]
    Refused(#[from] ApprovalError),
    /// The item has no entry.
    #[error("there is no dead letter of item `{0}`")]
    NoEntry(ItemId),
    /// It could not be signed, or the signature not be checked.
    #[error(transparent)]
    Identity(#[from] identity::Error),
    /// It could not be recorded.
    #[error(transparent)]
    Amend(#[from] EditorError),
}

impl From<Error> for VoteError {
    fn from(error: Error) -> Self {
        Self::Amend(error.into())
    }
}

impl ApprovalService<'_> {
    /// Asks people to agree to replays that wait for that; returns what they are asked. What
    /// they were asked before and still holds is not asked anew.
    ///
    /// `forced` are the items that somebody takes on themselves.
    pub fn request(
        &self,
        _lock: &JobLock,
        items: &[ItemId],
        forced: &BTreeSet<ItemId>,
        trail: &mut AuditSink<'_>,
    ) -> Result<Vec<PendingApproval>, EditorError> {
        let mut requested = Vec::new();
        let (mut facts, mut records) = (Vec::new(), Vec::new());
        for item in items {
            let Some(entry) = self.queue.entry(item)? else { continue };
            let is_forced = forced.contains(item);
            let asked = if is_forced { ReplayTrigger::Forced } else { ReplayTrigger::Asked };
            let ruling = self.bench.evaluate(&entry, asked, self.amending.now);
            let is_askable = ruling.needs != Some(NextAction::Members);
            if ruling.verdict != ReplayVerdict::Approval || !is_askable {
                continue;
            }
            if let Some(kept) = self.still_pending(&entry, &ruling) {
                requested.push(kept);
                continue;
            }
            let request = self.ask(&entry, &ruling, is_forced);
            let mut record = self.amending.audit_record(AuditAction::RequestApproval);
            record.entry = item.to_string();
            record.revision = entry.revision;
            record.decision = Some(ruling.verdict.as_str().to_owned());
            record.rule = Some(request.rule.clone());
            record.policy_snapshot = Some(request.policy_snapshot.clone());
            record.digest = Some(request.digest.clone());
            records.push(record);
            requested.push(PendingApproval {
                item: item.clone(),
                digest: request.digest.clone(),
                group: request.group.clone(),
                missing: request.needed,
                expires_at: request.expires_at,
                is_kept: false,
            });
            facts.push(item_event(item, Event::ApprovalRequested(Box::new(request))));
        }
        if !facts.is_empty() {
            let scan = JournalScan::read(self.amending.layout, self.amending.job, u64::MAX)?;
            self.amending.commit(scan, records, || Ok(facts), trail)?;
        }
        Ok(requested)
    }

    /// Returns what people were asked before, if that still holds.
    fn still_pending(
        &self,
        entry: &DeadLetteredItem,
        ruling: &ReplayDecision<'_>,
    ) -> Option<PendingApproval> {
        let agreement = self.bench.approval_progress(entry, ruling, self.amending.now)?;
        let missing = match agreement.state {
            ApprovalState::Pending { granted, needed } => needed.saturating_sub(granted),
            ApprovalState::Granted | ApprovalState::SelfApproval => 0,
            ApprovalState::Expired | ApprovalState::Rejected | ApprovalState::Void => return None,
        };
        Some(PendingApproval {
            item: entry.item_id.clone(),
            digest: agreement.approval.digest.clone(),
            group: agreement.approval.group.clone(),
            missing,
            expires_at: agreement.approval.expires_at,
            is_kept: true,
        })
    }

    /// Returns what somebody is asked.
    fn ask(
        &self,
        entry: &DeadLetteredItem,
        ruling: &ReplayDecision<'_>,
        forced: bool,
    ) -> ApprovalRequest {
        let group = self.bench.policy().group(ruling.rule);
        // A moment that no calendar has is as good as never.
        let expires_at = self.amending.now.checked_add(group.ttl).unwrap_or(Timestamp::MAX);
        let shown = self.bench.new_approval_scope(entry, ruling, expires_at);
        ApprovalRequest {
            digest: shown.digest(),
            by: self.amending.by.to_owned(),
            rule: shown.rule,
            policy_snapshot: shown.policy_snapshot,
            workflow_hash: shown.workflow_hash,
            commit: shown.commit,
            forced,
            group: ruling.rule.approver_group.clone(),
            needed: group.min_approvals.get(),
            expires_at,
        }
    }

    /// Takes what somebody says to a replay, if it counts.
    pub fn vote(
        &self,
        _lock: &JobLock,
        answer: VoteRequest<'_>,
        trail: &mut AuditSink<'_>,
    ) -> Result<VoteOutcome, VoteError> {
        let Some(entry) = self.queue.entry(answer.item)? else {
            return Err(VoteError::NoEntry(answer.item.clone()));
        };
        let ruling = self.bench.evaluate(&entry, asked(&entry), self.amending.now);
        let mut record = self.intent_record(&entry, &ruling, answer);
        let taken = self.check_vote(&entry, &ruling, answer).map_err(VoteError::from);
        let taken = taken.and_then(|digest| {
            let signature = answer.key.map(|key| self.sign(&digest, &ruling, answer, key));
            Ok((digest, signature.transpose()?))
        });
        let (digest, signature) = match taken {
            Ok(taken) => taken,
            Err(VoteError::Refused(refusal)) => {
                record.decision = Some(refusal.code().to_owned());
                let refused = record.with_outcome(AuditOutcome::Refused);
                trail(vec![refused]).map_err(EditorError::Audit)?;
                return Err(refusal.into());
            }
            Err(error) => return Err(error),
        };
        let identity = identity(signature.is_some());
        (record.digest, record.identity) = (Some(digest.clone()), identity);
        let event = self.event(answer.vote, digest.clone(), identity, signature);
        let facts = || Ok(vec![item_event(answer.item, event)]);
        let scan = JournalScan::read(self.amending.layout, self.amending.job, u64::MAX)?;
        self.amending.commit(scan, vec![record], facts, trail)?;
        let state = self.state(answer.item)?;
        Ok(VoteOutcome { digest, identity, state })
    }

    /// Returns what the audit trail says of an answer.
    fn intent_record(
        &self,
        entry: &DeadLetteredItem,
        ruling: &ReplayDecision<'_>,
        answer: VoteRequest<'_>,
    ) -> NewAuditRecord {
        let mut record = self.amending.audit_record(match answer.vote {
            Vote::Approve => AuditAction::Approve,
            Vote::Reject => AuditAction::Reject,
        });
        record.entry = entry.item_id.to_string();
        record.revision = entry.revision;
        record.decision = Some(ruling.verdict.as_str().to_owned());
        record.rule = Some(ruling.rule.name.clone());
        record.policy_snapshot = Some(ruling.snapshot.to_owned());
        record.digest = Some(answer.expect.to_owned());
        record
    }

    /// Returns what is recorded of an answer.
    fn event(
        &self,
        vote: Vote,
        digest: String,
        identity: IdentityKind,
        signature: Option<String>,
    ) -> Event {
        let by = self.amending.by.to_owned();
        match vote {
            Vote::Approve => Event::ApprovalGranted { digest, by, identity, signature },
            Vote::Reject => {
                let reason = self.amending.reason.to_owned();
                Event::ApprovalDenied { digest, by, identity, reason, signature }
            }
        }
    }

    /// Returns the digest that somebody answers to, if they may say that and sign as they want.
    fn check_vote(
        &self,
        entry: &DeadLetteredItem,
        ruling: &ReplayDecision<'_>,
        answer: VoteRequest<'_>,
    ) -> Result<String, ApprovalError> {
        let now = self.amending.now;
        let name = self.amending.by;
        let approver = Approver { name, identity: identity(answer.key.is_some()) };
        let word = ApprovalResponse { vote: answer.vote, expect: answer.expect, approver };
        let policy = self.bench.policy();
        if let Some(group) = policy.group_without_members(ruling.rule) {
            return Err(ApprovalError::NoMembers { group: group.to_owned() });
        }
        let agreement = self.bench.approval_progress(entry, ruling, now);
        let Some(agreement) = agreement.filter(|_| entry.status == EntryStatus::Open) else {
            return match &entry.approval {
                Some(approval) if self.bench.is_approval_used(approval) => {
                    Err(ApprovalError::Consumed)
                }
                Some(_) | None => Err(ApprovalError::NothingRequested),
            };
        };
        let rules = ApproverRules::of(policy, ruling.rule, &agreement.involved);
        approval::check_response(Some(agreement.approval), &word, &agreement.shown, &rules, now)?;
        Ok(agreement.approval.digest.clone())
    }

    /// Signs what somebody says, and checks that the signature is theirs.
    fn sign(
        &self,
        digest: &str,
        ruling: &ReplayDecision<'_>,
        answer: VoteRequest<'_>,
        key: &SigningKey,
    ) -> Result<String, VoteError> {
        let bad = |why: String| VoteError::Refused(ApprovalError::BadSignature { why });
        let group = self.bench.policy().group(ruling.rule);
        let Some(signers) = &group.allowed_signers else {
            let why = "the policy names no `allowed_signers` that it could be checked against";
            return Err(bad(why.to_owned()));
        };
        let text = answer.vote.signed_text(digest);
        let signature = identity::sign(&text, key)?;
        let unreadable = |why| identity::Error::AllowedSigners { path: signers.clone(), why };
        let content = answer.signers.content(signers).map_err(unreadable)?;
        let signers = AllowedSigners { name: signers, content };
        match identity::verify(&text, &signature, self.amending.by, signers) {
            Ok(()) => Ok(signature),
            Err(identity::Error::NotGood { why }) => Err(bad(why)),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns how far an agreement has come.
    fn state(&self, item: &ItemId) -> Result<ApprovalState, VoteError> {
        let now = self.amending.now;
        let entry = self.queue.entry(item)?;
        let entry = entry.ok_or_else(|| VoteError::NoEntry(item.clone()))?;
        let ruling = self.bench.evaluate(&entry, asked(&entry), now);
        let agreement = self.bench.approval_progress(&entry, &ruling, now);
        Ok(agreement.map_or(ApprovalState::Void, |agreement| agreement.state))
    }
}

/// Returns how much somebody wanted what people are asked about.
fn asked(entry: &DeadLetteredItem) -> ReplayTrigger {
    let is_forced = entry.approval.as_ref().is_some_and(|approval| approval.forced);
    if is_forced { ReplayTrigger::Forced } else { ReplayTrigger::Asked }
}

fn identity(is_signed: bool) -> IdentityKind {
    if is_signed { IdentityKind::Signed } else { IdentityKind::Asserted }
}
