//! Asking people to agree, and what they answer.

use std::{cell::RefCell, collections::BTreeSet, sync::Arc};

use prodigy_core::{
    audit::{AuditOutcome, IdentityKind, NewAuditRecord},
    dlq::{DeadLetteredItem, RunFingerprint},
    replay::{ApprovalState, ReplayPolicy, ReplayTrigger, ReplayVerdict, approval::Vote},
};

use crate::{
    governance::SignerFiles,
    run::{
        ApprovalService, PendingApproval, ReplayEvaluator, VoteError, VoteOutcome, VoteRequest,
        control::{AuditSink, DeadLetterAction, DeadLetterEditor},
    },
    store::{
        JobLock, audit,
        dlq::{
            tests::fixture::{DlqHarness, died, failed, kept, replayed, started},
            *,
        },
        fixture::at,
    },
};

const POLICY: &str = "
version: v1
dlq_rules:
  - id: ask
    match: { reason_code: command_failed }
    action: require_approval
    approver_group: governance
limits: { replays_per_item: 1 }
approver_groups:
  governance:
    members: [ann, ben, carol, dan]
    min_approvals: 2
    ttl: 30m
    distinct_from: [submitter, replayer]
";

/// A job whose dead letters nobody replays without others.
struct Office {
    world: DlqHarness,
    policy: Arc<ReplayPolicy>,
    workflow: &'static str,
    /// The person who is about to replay.
    replayer: Option<&'static str>,
    trail: RefCell<Vec<NewAuditRecord>>,
    is_trail_broken: bool,
}

impl Office {
    /// Has two dead letters.
    fn new() -> Self {
        let world = DlqHarness::new(&["1", "2"]);
        let mut run = world.begin();
        run.happen(1, &[started(1), failed(1), died(1), kept()]);
        run.happen(2, &[started(1), failed(1), died(1), kept()]);
        run.finish();
        drop(run);
        let (trail, is_trail_broken) = (RefCell::default(), false);
        let policy = policy(POLICY);
        Self { world, policy, workflow: "ab", replayer: None, trail, is_trail_broken }
    }

    fn bench(&self) -> ReplayEvaluator {
        let run =
            RunFingerprint { workflow_hash: self.workflow.repeat(32), ..RunFingerprint::default() };
        let bench =
            ReplayEvaluator::new(Arc::clone(&self.policy), Some(run), &self.world.queue()).unwrap();
        bench.with_people(Some("ann".to_owned()), self.replayer.map(str::to_owned))
    }

    /// Does something as somebody, so many seconds after the job began.
    fn with<T>(
        &self,
        by: &str,
        seconds: i64,
        act: impl FnOnce(&ApprovalService<'_>, &JobLock, &mut AuditSink<'_>) -> T,
    ) -> T {
        let (layout, job) = (&self.world.home.layout, &self.world.home.job);
        let lock = JobLock::take(layout, job).unwrap();
        let queue = DeadLetterStore::open_locked(layout, job, &lock).unwrap();
        let (bench, identity) = (self.bench(), IdentityKind::Asserted);
        let amending = DeadLetterEditor { layout, job, by, identity, reason: "", now: at(seconds) };
        let mut trail = |records: Vec<NewAuditRecord>| {
            if self.is_trail_broken {
                let waited = std::time::Duration::ZERO;
                return Err(audit::Error::Busy { path: "audit".into(), waited });
            }
            self.trail.borrow_mut().extend(records);
            Ok(())
        };
        act(&ApprovalService { queue: &queue, bench: &bench, amending }, &lock, &mut trail)
    }

    fn request(&self, by: &str, seconds: i64) -> PendingApproval {
        let items = [self.world.item(1)];
        let mut requested = self.with(by, seconds, |asking, lock, trail| {
            asking.request(lock, &items, &BTreeSet::new(), trail).unwrap()
        });
        assert_eq!(requested.len(), 1);
        requested.remove(0)
    }

    fn answer(
        &self,
        by: &str,
        seconds: i64,
        vote: Vote,
        expect: &str,
    ) -> Result<VoteOutcome, String> {
        let item = self.world.item(1);
        let signers = SignerFiles::default();
        let answer = VoteRequest { item: &item, vote, expect, key: None, signers: &signers };
        let answered =
            self.with(by, seconds, |asking, lock, trail| asking.vote(lock, answer, trail));
        answered.map_err(|error| match &error {
            VoteError::Refused(refusal) => refusal.code().to_owned(),
            VoteError::NoEntry(_) | VoteError::Identity(_) | VoteError::Amend(_) => {
                error.to_string()
            }
        })
    }

    fn approve(&self, by: &str, seconds: i64, expect: &str) -> Result<VoteOutcome, String> {
        self.answer(by, seconds, Vote::Approve, expect)
    }

    /// Shows why an agreement is not taken.
    fn refusal(&self, by: &str, seconds: i64, expect: &str) -> String {
        self.approve(by, seconds, expect).unwrap_err()
    }

    /// Has something happen to an item in a run.
    fn happen(&self, number: usize, events: &[serde_json::Value]) {
        self.world.reopen();
        let mut run = self.world.resume();
        run.happen(number, events);
        run.finish();
    }

    fn entry(&self) -> DeadLetteredItem {
        self.world.queue().entry(&self.world.item(1)).unwrap().unwrap()
    }

    fn verdict(&self, seconds: i64) -> ReplayVerdict {
        self.bench().evaluate(&self.entry(), ReplayTrigger::Asked, at(seconds)).verdict
    }

    /// Shows what is in the audit trail.
    fn trail(&self) -> String {
        let line = |record: &NewAuditRecord| {
            let digest = record.digest.as_ref().map_or("", |digest| digest.get(7..11).unwrap());
            format!(
                "{} {} {} {} {}{} {digest}",
                record.actor,
                record.action,
                record.entry,
                record.outcome,
                record.rule.as_ref().map(|rule| format!("by {rule} ")).unwrap_or_default(),
                record.decision.as_deref().unwrap_or("-"),
            )
        };
        self.trail.borrow().iter().map(line).collect::<Vec<_>>().join("\n")
    }

    /// Checks that the files say what the journal says.
    fn assert_sound(&self) {
        let report = fsck(&self.world.home.layout, &self.world.home.job, false).unwrap();
        assert!(report.is_clean() && report.foreign.is_empty(), "{report:?}");
    }
}

fn policy(text: &str) -> Arc<ReplayPolicy> {
    Arc::new(ReplayPolicy::read("policy.yml", text).unwrap().policy)
}

#[test]
fn enough_different_people_let_an_entry_be_replayed() {
    let office = Office::new();
    let before = office.entry().revision;
    let PendingApproval { digest, expires_at, missing, is_kept, .. } = office.request("ben", 10);
    assert_eq!((expires_at, missing, is_kept), (at(10 + 1800), 2, false));
    assert_eq!(office.verdict(11), ReplayVerdict::Approval);
    let first = office.approve("carol", 20, &digest).unwrap();
    assert_eq!(first.state, ApprovalState::Pending { granted: 1, needed: 2 });
    assert_eq!(office.verdict(21), ReplayVerdict::Approval);
    let second = office.approve("dan", 30, digest.get(..19).unwrap()).unwrap();
    assert_eq!((second.digest, second.state), (digest, ApprovalState::Granted));
    assert_eq!(office.verdict(31), ReplayVerdict::Replay);
    assert_eq!(office.verdict(10 + 1800), ReplayVerdict::Approval);
    let heading = office.world.queue().summaries().next().unwrap().unwrap();
    assert!(heading.standing.has_approval);
    assert_eq!(office.entry().revision, before);
    office.assert_sound();
}

#[test]
fn what_is_asked_and_answered_is_in_the_audit_trail() {
    let office = Office::new();
    let digest = office.request("ben", 10).digest;
    office.approve("carol", 20, &digest).unwrap();
    office.answer("ann", 21, Vote::Reject, &digest).unwrap();
    let shown = office.trail().replace(digest.get(7..11).unwrap(), "[digest]");
    insta::assert_snapshot!(shown, @"
    ben request_approval item-001 intended by ask approval [digest]
    ben request_approval item-001 done by ask approval [digest]
    carol approve item-001 intended by ask approval [digest]
    carol approve item-001 done by ask approval [digest]
    ann reject item-001 intended by ask approval [digest]
    ann reject item-001 done by ask approval [digest]
    ");
}

#[test]
fn every_refusal_is_in_the_audit_trail_and_changes_nothing() {
    let office = Office::new();
    assert_eq!(office.refusal("carol", 5, "sha256:000000000000"), "nothing_requested");
    let digest = office.request("ben", 10).digest;
    office.approve("carol", 11, &digest).unwrap();
    let before = office.entry().record_hash;
    office.trail.borrow_mut().clear();
    let seen = [
        office.refusal("ann", 20, &digest),
        office.refusal("BEN", 20, &digest),
        office.refusal("carol", 20, &digest),
        office.refusal("eve", 20, &digest),
        office.refusal("dan", 20, "sha256:000000000000"),
        office.refusal("dan", 20, digest.get(..18).unwrap()),
        office.refusal("dan", 10 + 1800, &digest),
    ];
    assert_eq!(office.entry().record_hash, before);
    insta::assert_snapshot!(seen.join("\n"), @"
    self_approval
    self_approval
    already_approved
    not_in_group
    digest_mismatch
    digest_mismatch
    expired
    ");
    let trail = office.trail.borrow();
    let codes: Vec<_> = trail.iter().filter_map(|record| record.decision.clone()).collect();
    assert_eq!(codes, seen);
    assert!(trail.iter().all(|record| record.outcome == AuditOutcome::Refused));
}

#[test]
fn what_was_asked_is_kept_while_it_holds() {
    let office = Office::new();
    let first = office.request("ben", 10);
    office.approve("carol", 11, &first.digest).unwrap();
    let seq = office.entry().journal_seq;
    let kept = office.request("dan", 20);
    assert_eq!(kept, PendingApproval { missing: 1, is_kept: true, ..first.clone() });
    assert_eq!(office.entry().journal_seq, seq);
    // Its time is over: nobody has said anything to what is asked now.
    let renewed = office.request("dan", 10 + 1800);
    assert!(!renewed.is_kept && renewed.missing == 2);
    assert_ne!(renewed.digest, first.digest);
    assert_eq!(office.entry().approval.unwrap().requested_by, "dan");
    assert_eq!(office.refusal("carol", 2000, &first.digest), "digest_mismatch");
    office.assert_sound();
}

#[test]
fn whatever_changes_about_an_entry_voids_what_was_agreed_to() {
    type OfficeChange = fn(&mut Office);
    let changes: [(&str, OfficeChange); 4] = [
        ("digest_mismatch", |office| office.workflow = "cd"),
        ("policy_mismatch", |office| office.policy = policy(&POLICY.replace("30m", "31m"))),
        ("digest_mismatch", |office| {
            let items = [office.world.item(1)];
            let edit = DeadLetterAction::Edit(
                serde_json::value::RawValue::from_string("7".to_owned()).unwrap(),
            );
            office.with("ben", 40, |asking, lock, trail| {
                asking.amending.apply_locked(lock, &items, &edit, trail).unwrap()
            });
        }),
        ("digest_mismatch", |office| {
            let reconciled = serde_json::json!({
                "event_type": "effect_reconciled", "key": "job-1:item-001:1", "finding": "absent",
                "by": "ben",
            });
            office.happen(1, &[reconciled]);
        }),
    ];
    for (code, change) in changes {
        let mut office = Office::new();
        let digest = office.request("ben", 10).digest;
        for by in ["carol", "dan"] {
            office.approve(by, 20, &digest).unwrap();
        }
        assert_eq!(office.verdict(30), ReplayVerdict::Replay);
        change(&mut office);
        assert_eq!(office.verdict(50), ReplayVerdict::Approval);
        assert_eq!(office.refusal("carol", 50, &digest), code);
        let again = office.request("ben", 60);
        assert!(!again.is_kept && again.digest != digest);
        assert_eq!(office.refusal("carol", 70, &digest), "digest_mismatch");
        office.approve("carol", 80, &again.digest).unwrap();
        office.approve("dan", 80, &again.digest).unwrap();
        assert_eq!(office.verdict(90), ReplayVerdict::Replay);
        office.assert_sound();
    }
}

#[test]
fn who_agreed_cannot_be_the_one_who_replays() {
    let mut office = Office::new();
    let digest = office.request("ben", 10).digest;
    for by in ["carol", "dan"] {
        office.approve(by, 20, &digest).unwrap();
    }
    office.replayer = Some("Carol");
    assert_eq!(office.verdict(30), ReplayVerdict::Approval);
    // Asking anew does not take away what the others said.
    let kept = office.request("carol", 30);
    assert!(kept.is_kept && kept.digest == digest);
    office.replayer = Some("ben");
    assert_eq!(office.verdict(30), ReplayVerdict::Replay);
}

#[test]
fn a_no_ends_it_until_something_is_changed() {
    let mut office = Office::new();
    let digest = office.request("ben", 10).digest;
    office.approve("carol", 20, &digest).unwrap();
    let said = office.answer("dan", 21, Vote::Reject, &digest).unwrap();
    assert_eq!(said.state, ApprovalState::Rejected);
    assert_eq!(office.verdict(30), ReplayVerdict::Never);
    assert_eq!(office.refusal("ann", 30, &digest), "rejected");
    office.workflow = "cd";
    assert_eq!(office.verdict(40), ReplayVerdict::Approval);
    assert!(!office.request("ben", 40).is_kept);
}

#[test]
fn a_replay_uses_an_agreement_up() {
    let office = Office::new();
    let digest = office.request("ben", 10).digest;
    for by in ["carol", "dan"] {
        office.approve(by, 20, &digest).unwrap();
    }
    let mut replay = replayed(1);
    replay["allowed"] = serde_json::json!({
        "rule": "ask", "policy_snapshot": office.policy.snapshot(), "approval": digest,
    });
    office.happen(1, &[replay, started(2), failed(2), died(2)]);
    assert_eq!(office.refusal("ann", 30, &digest), "consumed");
    let entry = office.entry();
    assert!(entry.approval.unwrap().consumed);
    office.assert_sound();
}

#[test]
fn agreeing_to_a_replay_is_not_agreeing_to_one_that_lifts_a_limit() {
    let mut office = Office::new();
    office.policy = policy(&POLICY.replace("replays_per_item", "replays_per_signature"));
    let digest = office.request("ben", 10).digest;
    for by in ["carol", "dan"] {
        office.approve(by, 20, &digest).unwrap();
    }
    let forced = |office: &Office, seconds| {
        office.bench().evaluate(&office.entry(), ReplayTrigger::Forced, at(seconds)).verdict
    };
    // Nothing is in the way that somebody would lift.
    assert_eq!(forced(&office, 30), ReplayVerdict::Replay);
    // Another entry of the same cause uses up what is allowed; this one is as it was.
    office.happen(2, &[replayed(1), started(2), failed(2), died(2)]);
    assert_eq!(
        (office.verdict(40), forced(&office, 40)),
        (ReplayVerdict::Limit, ReplayVerdict::Approval)
    );
    let items = [office.world.item(1)];
    let lifted: BTreeSet<_> = items.iter().cloned().collect();
    let requested = office.with("ben", 50, |asking, lock, trail| {
        asking.request(lock, &items, &lifted, trail).unwrap()
    });
    let digest = &requested.first().unwrap().digest;
    for by in ["carol", "dan"] {
        office.approve(by, 60, digest).unwrap();
    }
    assert_eq!(
        (office.verdict(70), forced(&office, 70)),
        (ReplayVerdict::Limit, ReplayVerdict::Replay)
    );
}

#[test]
fn nothing_is_asked_or_taken_that_the_audit_trail_does_not_hold() {
    let mut office = Office::new();
    office.is_trail_broken = true;
    let items = [office.world.item(1)];
    let asked = office.with("ben", 10, |asking, lock, trail| {
        asking.request(lock, &items, &BTreeSet::new(), trail).unwrap_err().to_string()
    });
    assert_eq!(asked, "nothing was changed: the audit trail cannot be appended to");
    assert!(office.entry().approval.is_none());
    office.is_trail_broken = false;
    let digest = office.request("ben", 10).digest;
    office.is_trail_broken = true;
    let said = office.refusal("carol", 20, &digest);
    assert_eq!(said, "nothing was changed: the audit trail cannot be appended to");
    assert!(office.entry().approval.unwrap().grants.is_empty());
}

#[test]
fn only_what_waits_for_somebody_is_asked_about() {
    let mut office = Office::new();
    office.policy = policy("version: v1\ndlq_rules: []\ndefaults: { action: manual_review }\n");
    let items = [office.world.item(1), office.world.item(2)];
    let asked = office.with("ben", 10, |asking, lock, trail| {
        asking.request(lock, &items, &BTreeSet::new(), trail).unwrap()
    });
    assert_eq!(asked, []);
    assert_eq!(office.trail(), "");
    assert!(office.entry().approval.is_none());
}
