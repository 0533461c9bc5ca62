//! Whose word counts, for what, and how long.

use proptest::prelude::*;

use super::*;

const LATER: i64 = 1800;

/// No group: anybody may approve.
const ANYBODY: ApproverRules<'static> =
    ApproverRules { members: None, distinct_from: &[], signed: false };

/// The digest of what [`shown`] returns.
const DIGEST_SHOWN: &str =
    "sha256:8c37626bb096f649b8615ee38a167ccb7d29e2d57f049a6c7158b451f61434a2";

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_767_323_045 + seconds).unwrap()
}

fn shown() -> ApprovalScope {
    ApprovalScope {
        job: "job-1".parse().unwrap(),
        item: "item-001".parse().unwrap(),
        revision: 3,
        record_hash: "aa".to_owned(),
        input_hash: "bb".to_owned(),
        workflow_hash: "cc".to_owned(),
        commit: "c0".to_owned(),
        effects: vec![("push".to_owned(), "unknown".to_owned())],
        evidence: Some("absent".to_owned()),
        action: "replay".to_owned(),
        rule: "denied".to_owned(),
        policy_snapshot: "sha256:dd".to_owned(),
        expires_at: at(LATER),
    }
}

fn requested(needed: u32) -> Approval {
    Approval {
        digest: shown().digest(),
        policy_snapshot: shown().policy_snapshot,
        workflow_hash: shown().workflow_hash,
        commit: shown().commit,
        forced: false,
        group: Some("governance".to_owned()),
        needed,
        requested_by: "ada@example.com".to_owned(),
        requested_at: at(0),
        expires_at: at(LATER),
        grants: Vec::new(),
        rejection: None,
        consumed: false,
    }
}

fn grant(by: &str, seconds: i64) -> ApprovalGrant {
    ApprovalGrant { by: by.to_owned(), identity: IdentityKind::Asserted, at: at(seconds) }
}

/// Asks whether somebody may approve, one second after the request.
fn ask(approval: &Approval, by: &str) -> Result<(), ApprovalError> {
    ask_with(approval, &shown(), &shown().digest(), by, false)
}

fn ask_with(
    approval: &Approval,
    shown_now: &ApprovalScope,
    expect: &str,
    by: &str,
    signed: bool,
) -> Result<(), ApprovalError> {
    let members = ["grace@example.com", "mary@example.com", "ada@example.com"].map(str::to_owned);
    let distinct_from = ["ada@example.com".to_owned()];
    let rules = ApproverRules { members: Some(&members), distinct_from: &distinct_from, signed };
    let word = ApprovalResponse { expect, ..yes(by, IdentityKind::Asserted) };
    check_response(Some(approval), &word, shown_now, &rules, at(1))
}

fn yes(name: &str, identity: IdentityKind) -> ApprovalResponse<'_> {
    ApprovalResponse {
        vote: Vote::Approve,
        expect: DIGEST_SHOWN,
        approver: Approver { name, identity },
    }
}

#[test]
fn a_member_who_was_shown_what_is_there_may_approve() {
    assert_eq!(ask(&requested(1), "grace@example.com"), Ok(()));
}

#[test]
fn every_reason_to_refuse_has_its_own_name_and_says_what_to_do() {
    let grace = "grace@example.com";
    let refused = |change: &dyn Fn(&mut Approval), by: &str| {
        let mut approval = requested(1);
        change(&mut approval);
        ask(&approval, by).unwrap_err()
    };
    let consumed = refused(&|one| one.consumed = true, grace);
    let rejection = ApprovalRejection { by: "mary".to_owned(), reason: "no".to_owned(), at: at(1) };
    let rejected = refused(&|one| one.rejection = Some(rejection.clone()), grace);
    let expired = refused(&|one| one.expires_at = at(1), grace);
    let twice = refused(&|one| one.grants.push(grant(grace, 0)), grace);
    let itself = refused(&|_| {}, "Ada@example.com ");
    let stranger = refused(&|_| {}, "eve@example.com");
    let mut policy = shown();
    policy.policy_snapshot = "sha256:ee".to_owned();
    let policy = ask_with(&requested(1), &policy, &shown().digest(), grace, false).unwrap_err();
    let mut changed = shown();
    changed.revision += 1;
    let changed = ask_with(&requested(1), &changed, &shown().digest(), grace, false).unwrap_err();
    let other = ask_with(&requested(1), &shown(), "sha256:ff", grace, false).unwrap_err();
    let unsigned = ask_with(&requested(1), &shown(), &shown().digest(), grace, true).unwrap_err();
    let rules = ApproverRules { members: None, distinct_from: &[], signed: false };
    let word = yes(grace, IdentityKind::Signed);
    let nothing = check_response(None, &word, &shown(), &rules, at(1)).unwrap_err();
    let bad = ApprovalError::BadSignature { why: "no principal matched".to_owned() };
    let all = [
        consumed, rejected, expired, twice, itself, stranger, policy, changed, other, unsigned,
        nothing, bad,
    ];
    let lines = all.map(|refusal| format!("{}: {refusal}", refusal.code()));
    insta::assert_snapshot!(lines.join("\n"), @"
    consumed: the approval was used up by a replay; if the entry is open again, request a new one with `prodigy dlq retry`
    rejected: mary has rejected this; change what they object to, or close the entry with `prodigy dlq drop`
    expired: the request has expired at 2026-01-02T03:04:06Z; request a new approval with `prodigy dlq retry`
    already_approved: grace@example.com has approved this already, and counts once; ask somebody else
    self_approval: Ada@example.com  takes part in this and cannot approve it; ask somebody else
    not_in_group: eve@example.com is not a member of the group `governance`; ask somebody who is
    policy_mismatch: the policy was changed since the approval was requested; request a new one with `prodigy dlq retry`
    digest_mismatch: what was shown has changed since the approval was requested; request a new one with `prodigy dlq retry`
    digest_mismatch: the digest is not that of the request; look at it again with `prodigy dlq approvals` and pass the digest that is shown there
    not_signed: the group takes only signed words; pass `--sign`
    nothing_requested: no approval was requested for this entry; `prodigy dlq retry` requests one
    bad_signature: the signature is not good: no principal matched
    ");
}

#[test]
fn without_a_group_anybody_else_may_approve() {
    let distinct_from = ["ada".to_owned()];
    let rules = ApproverRules { members: None, distinct_from: &distinct_from, signed: false };
    let ask = |name| {
        let word = yes(name, IdentityKind::Asserted);
        check_response(Some(&requested(1)), &word, &shown(), &rules, at(1))
    };
    assert_eq!(ask("eve"), Ok(()));
    assert_eq!(ask("ada").unwrap_err().code(), "self_approval");
}

#[test]
fn a_group_without_members_lets_nobody_approve() {
    let rules = ApproverRules { members: Some(&[]), distinct_from: &[], signed: false };
    let word = yes("grace", IdentityKind::Signed);
    let asked = check_response(Some(&requested(1)), &word, &shown(), &rules, at(1));
    assert_eq!(asked.unwrap_err().code(), "no_members");
    // What was said before there was such a rule does not count either.
    let mut approval = requested(1);
    approval.grants.push(grant("grace", 1));
    let pending = Some(ApprovalState::Pending { granted: 0, needed: 1 });
    assert_eq!(approval_state(&approval, &shown().digest(), &rules, at(2)), pending);
}

/// Returns a policy with a group, and a rule that names it.
fn policy_with(group: ApproverGroup) -> (ReplayPolicy, ReplayRule) {
    let groups = [("governance".to_owned(), group)].into();
    let (limits, velocity) =
        (crate::replay::ReplayLimits::default(), crate::replay::ReplayVelocity::default());
    let policy = ReplayPolicy::new(
        Vec::new(),
        limits,
        velocity,
        groups,
        crate::replay::AlertRules::recommended(),
    );
    let action = crate::replay::ReplayAction::RequireApproval;
    let mut rule = ReplayRule::new("ask", crate::replay::RuleMatch::default(), action);
    rule.approver_group = Some("governance".to_owned());
    (policy, rule)
}

#[test]
fn the_rules_of_a_group_are_those_of_the_policy() {
    let group = ApproverGroup {
        members: vec!["grace".to_owned()],
        identity: IdentityKind::Signed,
        ..ApproverGroup::default()
    };
    let (policy, mut rule) = policy_with(group);
    let rules = ApproverRules::of(&policy, &rule, &[]);
    assert_eq!((rules.members, rules.signed), (Some(["grace".to_owned()].as_slice()), true));
    rule.approver_group = Some("nobody".to_owned());
    let rules = ApproverRules::of(&policy, &rule, &[]);
    assert_eq!((rules.members, rules.signed), (Some([].as_slice()), false));
    rule.approver_group = None;
    assert_eq!(ApproverRules::of(&policy, &rule, &[]).members, None);
}

#[test]
fn a_signed_approval_is_taken_where_signatures_are_wanted() {
    let members = ["grace".to_owned()];
    let rules = ApproverRules { members: Some(&members), distinct_from: &[], signed: true };
    let word = yes("grace", IdentityKind::Signed);
    let asked = check_response(Some(&requested(1)), &word, &shown(), &rules, at(1));
    assert_eq!(asked, Ok(()));
}

#[test]
fn an_approval_goes_from_pending_to_granted_and_ends() {
    let digest = shown().digest();
    let mut approval = requested(2);
    let mut seen = vec![approval_state(&approval, &digest, &ANYBODY, at(1))];
    approval.grants.push(grant("grace@example.com", 1));
    // One person is one person, however often and however written.
    approval.grants.push(grant("GRACE@example.com", 2));
    seen.push(approval_state(&approval, &digest, &ANYBODY, at(3)));
    approval.grants.push(grant("mary@example.com", 3));
    seen.push(approval_state(&approval, &digest, &ANYBODY, at(4)));
    assert_eq!(
        seen,
        [
            Some(ApprovalState::Pending { granted: 0, needed: 2 }),
            Some(ApprovalState::Pending { granted: 1, needed: 2 }),
            Some(ApprovalState::Granted),
        ]
    );
    assert_eq!(
        approval_state(&approval, &digest, &ANYBODY, at(LATER - 1)),
        Some(ApprovalState::Granted)
    );
    assert_eq!(
        approval_state(&approval, &digest, &ANYBODY, at(LATER)),
        Some(ApprovalState::Expired)
    );
    assert_eq!(approval_state(&approval, "sha256:ff", &ANYBODY, at(4)), Some(ApprovalState::Void));
    let rejection = ApprovalRejection { by: "eve".to_owned(), reason: "no".to_owned(), at: at(5) };
    let rejected = Approval { rejection: Some(rejection), ..approval.clone() };
    assert_eq!(approval_state(&rejected, &digest, &ANYBODY, at(6)), Some(ApprovalState::Rejected));
    assert_eq!(
        approval_state(&rejected, &digest, &ANYBODY, at(LATER)),
        Some(ApprovalState::Rejected)
    );
    // What was rejected is not there any more: somebody can be asked about what is.
    assert_eq!(approval_state(&rejected, "sha256:ff", &ANYBODY, at(6)), Some(ApprovalState::Void));
    let consumed = Approval { consumed: true, ..approval };
    assert_eq!(approval_state(&consumed, &digest, &ANYBODY, at(6)), None);
}

#[test]
fn nobody_is_never_enough_and_late_words_do_not_count() {
    let digest = shown().digest();
    let nobody = requested(0);
    let pending = Some(ApprovalState::Pending { granted: 0, needed: 1 });
    assert_eq!(approval_state(&nobody, &digest, &ANYBODY, at(1)), pending);
    let mut late = requested(1);
    late.grants.push(grant("grace@example.com", LATER));
    assert_eq!(approval_state(&late, &digest, &ANYBODY, at(1)), pending);
}

#[test]
fn the_word_of_those_who_have_a_part_in_it_does_not_count() {
    let digest = shown().digest();
    let mut approval = requested(2);
    approval.grants.push(grant("grace@example.com", 1));
    let involved = ["Mary@example.com ".to_owned()];
    let rules = ApproverRules { distinct_from: &involved, ..ANYBODY };
    let pending = Some(ApprovalState::Pending { granted: 1, needed: 2 });
    assert_eq!(approval_state(&approval, &digest, &rules, at(2)), pending);
    approval.grants.push(grant("mary@example.com", 2));
    assert_eq!(approval_state(&approval, &digest, &ANYBODY, at(3)), Some(ApprovalState::Granted));
    assert_eq!(
        approval_state(&approval, &digest, &rules, at(3)),
        Some(ApprovalState::SelfApproval)
    );
}

#[test]
fn a_group_says_who_has_a_part_in_it() {
    let group = |parties: &[ReplayRole]| ApproverGroup {
        distinct_from: parties.to_vec(),
        ..ApproverGroup::default()
    };
    let names = |parties: &[ReplayRole], submitter| {
        involved_people(&group(parties), submitter, &["ben", "carol"]).join(" ")
    };
    assert_eq!(names(&[], Some("ann")), "");
    assert_eq!(names(&[ReplayRole::Submitter], Some("ann")), "ann");
    assert_eq!(names(&[ReplayRole::Submitter], None), "");
    assert_eq!(names(&[ReplayRole::Submitter, ReplayRole::Replayer], Some("ann")), "ann ben carol");
}

#[test]
fn who_has_a_part_in_it_may_be_against_it_and_a_stranger_may_not() {
    let group = ApproverGroup {
        members: vec!["ada".to_owned(), "grace".to_owned()],
        identity: IdentityKind::Signed,
        ..ApproverGroup::default()
    };
    let involved = ["ada".to_owned()];
    let (policy, rule) = policy_with(group);
    let rules = ApproverRules::of(&policy, &rule, &involved);
    let say = |approval: &Approval, name, identity| {
        let word = ApprovalResponse { vote: Vote::Reject, ..yes(name, identity) };
        check_response(Some(approval), &word, &shown(), &rules, at(1))
            .map_err(|refusal| refusal.code())
    };
    let mut approval = requested(2);
    assert_eq!(say(&approval, "ada", IdentityKind::Signed), Ok(()));
    assert_eq!(say(&approval, "eve", IdentityKind::Signed), Err("not_in_group"));
    assert_eq!(say(&approval, "grace", IdentityKind::Asserted), Err("not_signed"));
    // Somebody may think better of it.
    approval.grants.push(grant("grace", 0));
    assert_eq!(say(&approval, "grace", IdentityKind::Signed), Ok(()));
}

#[test]
fn a_digest_is_named_by_enough_of_its_first_digits() {
    let is_meant = |text: &str| matches_digest(text, DIGEST_SHOWN);
    assert!(is_meant(DIGEST_SHOWN) && is_meant("sha256:8c37626bb096"));
    assert!(is_meant("sha256:8C37626BB096F6"));
    for other in [
        "",
        "sha256:",
        "sha256:8c37626bb09",
        "8c37626bb096f649",
        "sha256:8c37626bb097",
        "sha256:626bb096f649b861",
        "sha256:8c37626bb096f649b8615ee38a167ccb7d29e2d57f049a6c7158b451f61434a20",
        "sha512:8c37626bb096",
    ] {
        assert!(!is_meant(other), "{other}");
    }
}

#[test]
fn a_yes_is_not_a_no_for_who_signs() {
    insta::assert_snapshot!(Vote::Approve.signed_text("sha256:aa") + &Vote::Reject.signed_text("sha256:aa"), @"
    prodigy approve sha256:aa
    prodigy reject sha256:aa
    ");
}

#[test]
fn the_digest_of_what_is_shown_stays_the_same() {
    assert_eq!(shown().digest(), DIGEST_SHOWN);
    let text = serde_json::to_string(&shown()).unwrap();
    let read: ApprovalScope = serde_json::from_str(&text).unwrap();
    assert_eq!(read.digest(), shown().digest());
}

/// Changes one field to something else.
fn change(shown: &mut ApprovalScope, field: usize, text: &str) {
    let longer = |old: &mut String| *old = format!("{old}{text}");
    let name = |prefix: &str| format!("{prefix}{}", text.len());
    match field {
        0 => shown.job = name("other-").parse().unwrap(),
        1 => shown.item = name("other-").parse().unwrap(),
        2 => shown.revision += u32::try_from(text.len()).unwrap(),
        3 => longer(&mut shown.record_hash),
        4 => longer(&mut shown.input_hash),
        5 => longer(&mut shown.workflow_hash),
        6 => longer(&mut shown.effects[0].0),
        7 => longer(&mut shown.effects[0].1),
        8 => shown.effects.push((text.to_owned(), String::new())),
        9 => shown.effects.clear(),
        10 => shown.evidence = None,
        11 => longer(shown.evidence.as_mut().unwrap()),
        12 => longer(&mut shown.action),
        13 => longer(&mut shown.rule),
        14 => longer(&mut shown.policy_snapshot),
        15 => shown.expires_at = at(LATER + i64::try_from(text.len()).unwrap()),
        16 => {
            let nanosecond = shown.expires_at.as_nanosecond() + 1;
            shown.expires_at = Timestamp::from_nanosecond(nanosecond).unwrap();
        }
        // What is moved from one field to the next is a change too.
        17 => {
            shown.record_hash.push_str("bb");
            shown.input_hash.clear();
        }
        other => panic!("there is no field {other}"),
    }
}

proptest! {
    #[test]
    fn any_change_of_any_field_changes_the_digest_and_voids_the_approval(
        field in 0_usize..18,
        text in "\\PC{1,20}",
    ) {
        let mut other = shown();
        change(&mut other, field, &text);
        prop_assert_ne!(&other, &shown());
        prop_assert_ne!(other.digest(), shown().digest());
        let mut approval = requested(1);
        approval.grants.push(grant("grace@example.com", 1));
        prop_assert_eq!(approval_state(&approval, &other.digest(), &ANYBODY, at(2)), Some(ApprovalState::Void));
        let asked = ask_with(&requested(1), &other, &shown().digest(), "grace@example.com", false);
        let code = if field == 14 { "policy_mismatch" } else { "digest_mismatch" };
        prop_assert_eq!(asked.unwrap_err().code(), code);
    }

    #[test]
    fn an_approval_is_granted_by_enough_different_people_only(
        needed in 0_u32..5,
        people in proptest::collection::vec(0_u8..4, 0..10),
    ) {
        let mut approval = requested(needed);
        for (person, seconds) in people.iter().zip(1..) {
            approval.grants.push(grant(&format!("p{person}@example.com"), seconds));
        }
        let different: std::collections::BTreeSet<_> = people.iter().collect();
        let granted = u32::try_from(different.len()).unwrap();
        let expected = if granted >= needed.max(1) {
            ApprovalState::Granted
        } else {
            ApprovalState::Pending { granted, needed: needed.max(1) }
        };
        prop_assert_eq!(approval_state(&approval, &shown().digest(), &ANYBODY, at(100)), Some(expected));
    }
}
