//! Every verdict, with what would get the entry on and why.

use std::{collections::BTreeMap, num::NonZeroU32};

use super::*;
use crate::effect::{Effect, EffectLedger, EffectState};
use crate::replay::{
    ApprovalState, ApproverGroup, NextAction, ReplayBackoff, ReplayLimits, ReplayVerdict, evaluate,
};
use ReplayAction::{
    Adopt, AutoReplay, CheckThenReplay, ManualReview, Never, Quarantine, RequireApproval,
};
use {CommitState as State, EffectEvidence as Evidence};

/// Shows a ruling: the verdict, what it needs, and why.
fn ruled(subject: &EntryFacts<'_>, situation: &EvaluationContext<'_>) -> String {
    let ruling = evaluate(subject, situation);
    assert_eq!(ruling.snapshot, situation.policy.snapshot());
    assert_eq!(ruling, evaluate(subject, situation), "the same facts give the same ruling");
    let needs = ruling.needs.map_or("nothing".to_owned(), |needs| format!("{needs:?}"));
    let why = ruling.explain().join("\n  ");
    format!("{:?}, needs {needs}\n  {why}", ruling.verdict)
}

/// Shows what a policy makes of an entry that a test may change first.
fn ruled_by(
    policy: &ReplayPolicy,
    change: impl FnOnce(&mut EntryFacts<'_>, &mut EvaluationContext<'_>),
) -> String {
    let mut subject = subject(ReasonCode::Timeout);
    let mut situation = situation(policy);
    change(&mut subject, &mut situation);
    ruled(&subject, &situation)
}

fn plain(action: ReplayAction) -> ReplayPolicy {
    policy_of(action, |_| {})
}

#[test]
fn what_may_be_replayed_is_replayed() {
    insta::assert_snapshot!(ruled_by(ReplayPolicy::builtin(), |_, _| {}), @"
    Replay, needs nothing
      rule `built-in:timeout` says auto_replay
    ");
    insta::assert_snapshot!(ruled_by(&plain(AutoReplay), |_, situation| situation.asked = ReplayTrigger::Unasked), @"
    Replay, needs nothing
      rule `the rule` says auto_replay
    ");
}

#[test]
fn what_was_changed_by_others_or_is_closed_is_left_alone() {
    let policy = plain(AutoReplay);
    insta::assert_snapshot!(ruled_by(&policy, |subject, situation| {
        (subject.is_intact, situation.asked) = (false, ReplayTrigger::Forced);
    }), @"
    Damaged, needs Fsck
      the entry is not as it was written
    ");
    insta::assert_snapshot!(ruled_by(&policy, |subject, situation| {
        (subject.status, situation.asked) = (EntryStatus::Resolved, ReplayTrigger::Forced);
    }), @"
    Closed, needs nothing
      the entry is closed: a replay succeeded or its work was adopted
    ");
    insta::assert_snapshot!(ruled_by(&policy, |subject, _| subject.status = EntryStatus::Dropped), @"
    Closed, needs nothing
      the entry is closed: the item was left out
    ");
    insta::assert_snapshot!(ruled_by(&policy, |subject, situation| {
        (subject.status, situation.asked) = (EntryStatus::Replaying, ReplayTrigger::Forced);
    }), @"
    Running, needs Idle
      it is being replayed
    ");
    insta::assert_snapshot!(ruled_by(&policy, |_, situation| {
        (situation.is_running, situation.asked) = (true, ReplayTrigger::Forced);
    }), @"
    Running, needs Idle
      rule `the rule` says auto_replay
      another run works on the job
    ");
}

#[test]
fn a_check_comes_before_a_replay() {
    let policy = plain(CheckThenReplay);
    let with = |commit_state, effect, can_check| {
        ruled_by(&policy, |subject, _| {
            (subject.commit_state, subject.effect) = (commit_state, effect);
            subject.can_check = can_check;
        })
    };
    insta::assert_snapshot!(with(State::Local, Evidence::None, false), @"
    Replay, needs nothing
      rule `the rule` says check_then_replay
      nothing was changed outside
      for that the rule says auto_replay (`on_absent`)
    ");
    insta::assert_snapshot!(with(State::Unknown, Evidence::Prepared, true), @"
    Check, needs Check
      rule `the rule` says check_then_replay
      something outside may have been changed, and nobody has looked
    ");
    insta::assert_snapshot!(with(State::Unknown, Evidence::None, false), @"
    Review, needs Force
      rule `the rule` says check_then_replay
      something outside may have been changed, and nobody has looked
      the step has no `check` that could tell
    ");
    insta::assert_snapshot!(with(State::Unknown, Evidence::Absent, true), @"
    Replay, needs nothing
      rule `the rule` says check_then_replay
      what may have happened outside was looked for and is not there
      for that the rule says auto_replay (`on_absent`)
    ");
    insta::assert_snapshot!(with(State::Committed, Evidence::Committed, true), @"
    Adopt, needs nothing
      rule `the rule` says check_then_replay
      all that it was to change outside is changed
      for that the rule says adopt (`on_committed`)
    ");
    insta::assert_snapshot!(with(State::Unknown, Evidence::Partial, true), @"
    Review, needs Force
      rule `the rule` says check_then_replay
      something outside was changed in part
      for that the rule says manual_review (`on_partial`)
    ");
    insta::assert_snapshot!(with(State::Unknown, Evidence::Indeterminate, true), @"
        Review, needs Check
          rule `the rule` says check_then_replay
          something outside may have been changed, and looking gave no answer
          so a person has to find out
        ");
    insta::assert_snapshot!(with(State::Mixed, Evidence::None, true), @"
    Replay, needs nothing
      rule `the rule` says check_then_replay
      some of what it was to change outside is changed: only the rest would run
      for that the rule says auto_replay (`on_absent`)
    ");
}

#[test]
fn of_several_effects_the_one_that_least_is_known_of_counts() {
    let effect = |state| Effect {
        identity: None,
        key: format!("{state:?}"),
        step: "map.2".to_owned(),
        name: "open-pr".to_owned(),
        intent_hash: String::new(),
        attempt: 1,
        state,
        receipt: None,
        can_check: true,
        can_compensate: false,
        idempotent: false,
        is_earlier: false,
    };
    let states = [
        EffectState::Indeterminate,
        EffectState::Partial,
        EffectState::Prepared,
        EffectState::Committed,
        EffectState::Absent,
    ];
    let evidence = |states: &[EffectState]| {
        EffectEvidence::from_ledger(&EffectLedger::from_effects(
            states.iter().copied().map(effect).collect(),
        ))
    };
    assert_eq!(evidence(&states), Evidence::Indeterminate);
    assert_eq!(evidence(&states[1..]), Evidence::Partial);
    assert_eq!(evidence(&states[2..]), Evidence::Prepared);
    assert_eq!(evidence(&states[3..]), Evidence::Committed);
    assert_eq!(evidence(&states[4..]), Evidence::Absent);
    assert_eq!(evidence(&[EffectState::Compensated]), Evidence::Absent);
    assert_eq!(evidence(&[]), Evidence::None);
    let harmless = Effect { idempotent: true, ..effect(EffectState::Prepared) };
    assert_eq!(
        EffectEvidence::from_ledger(&EffectLedger::from_effects(vec![harmless])),
        Evidence::None
    );
}

#[test]
fn a_rule_says_what_follows_from_a_check() {
    let policy = policy_of(CheckThenReplay, |rule| {
        rule.on_absent = RequireApproval;
        rule.on_committed = ManualReview;
        rule.on_partial = Never;
    });
    let with = |commit_state, effect| {
        let ruled = ruled_by(&policy, |subject, _| {
            (subject.commit_state, subject.effect) = (commit_state, effect);
        });
        ruled.lines().next().unwrap().to_owned()
    };
    assert_eq!(with(CommitState::Unknown, EffectEvidence::Absent), "Approval, needs Ask");
    assert_eq!(with(CommitState::Committed, EffectEvidence::Committed), "Review, needs Adopt");
    assert_eq!(with(CommitState::Unknown, EffectEvidence::Partial), "Never, needs Drop");
}

#[test]
fn no_rule_lowers_the_floor() {
    let policy = plain(AutoReplay);
    let unknown = |can_check, asked| {
        ruled_by(&policy, |subject, situation| {
            subject.commit_state = CommitState::Unknown;
            (subject.can_check, situation.asked) = (can_check, asked);
        })
    };
    insta::assert_snapshot!(unknown(true, ReplayTrigger::Asked), @"
    Check, needs Check
      rule `the rule` says auto_replay
      something outside may have been changed, and nobody has looked
      what may have happened is looked for before anything runs again, whatever the rules say
    ");
    insta::assert_snapshot!(unknown(false, ReplayTrigger::Unasked), @"
    Review, needs Force
      rule `the rule` says auto_replay
      something outside may have been changed, and nobody has looked
      what may have happened is never done again without a person's decision, whatever the rules say
    ");
    insta::assert_snapshot!(unknown(false, ReplayTrigger::Forced), @"
    Replay, needs nothing
      rule `the rule` says auto_replay
      something outside may have been changed, and nobody has looked
      somebody takes the decision on themselves
    ");
    let committed = |asked| {
        ruled_by(&policy, |subject, situation| {
            subject.commit_state = CommitState::Committed;
            situation.asked = asked;
        })
    };
    insta::assert_snapshot!(committed(ReplayTrigger::Asked), @"
    Adopt, needs nothing
      rule `the rule` says auto_replay
      all that it was to change outside is changed
      what is done is not done again, whatever the rules say
    ");
    insta::assert_snapshot!(committed(ReplayTrigger::Forced), @"
    Replay, needs nothing
      rule `the rule` says auto_replay
      all that it was to change outside is changed
      somebody takes the decision on themselves; what is changed outside is not changed again
    ");
    insta::assert_snapshot!(ruled_by(&policy, |subject, situation| {
        subject.commit_state = CommitState::Unknown;
        situation.is_running = true;
    }), @"
    Running, needs Idle
      rule `the rule` says auto_replay
      something outside may have been changed, and nobody has looked
      what may have happened is looked for before anything runs again, whatever the rules say
      another run works on the job
    ");
}

#[test]
fn what_is_committed_is_only_adopted_if_the_rule_would_have_replayed_it() {
    let verdict = |action| {
        let policy = plain(action);
        let mut subject = subject(ReasonCode::Timeout);
        subject.commit_state = CommitState::Committed;
        subject.replays = 7;
        evaluate(&subject, &situation(&policy)).verdict
    };
    assert_eq!(verdict(AutoReplay), ReplayVerdict::Adopt);
    assert_eq!(verdict(Adopt), ReplayVerdict::Adopt);
    assert_eq!(verdict(CheckThenReplay), ReplayVerdict::Adopt);
    assert_eq!(verdict(RequireApproval), ReplayVerdict::Approval);
    assert_eq!(verdict(ManualReview), ReplayVerdict::Review);
    assert_eq!(verdict(Quarantine), ReplayVerdict::Quarantine);
    assert_eq!(verdict(Never), ReplayVerdict::Never);
}

#[test]
fn only_what_is_known_to_be_done_is_adopted() {
    let policy = plain(Adopt);
    insta::assert_snapshot!(ruled_by(&policy, |_, _| {}), @"
    Review, needs Force
      rule `the rule` says adopt
    ");
}

#[test]
fn a_rule_matches_if_all_that_it_says_is_so() {
    let with = |change: fn(&mut RuleMatch)| {
        let mut matches = RuleMatch::of(ReasonCode::Timeout);
        change(&mut matches);
        matches.is_match(&subject(ReasonCode::Timeout))
    };
    assert!(with(|_| {}));
    assert!(with(|matches| matches.reason_codes = None));
    assert!(!with(|matches| *matches = RuleMatch::of(ReasonCode::Stalled)));
    assert!(with(|matches| matches.step = Some("open-pr".to_owned())));
    assert!(with(|matches| matches.step = Some("map.2".to_owned())));
    assert!(!with(|matches| matches.step = Some("map".to_owned())));
    assert!(with(|matches| matches.attempts_gte = Some(3)));
    assert!(!with(|matches| matches.attempts_gte = Some(4)));
    assert!(with(|matches| matches.signature = Some("0123".to_owned())));
    assert!(!with(|matches| matches.signature = Some("1".to_owned())));
}

#[test]
fn an_adoption_is_not_a_replay_and_waits_for_nothing() {
    let policy = limited(
        policy_of(AutoReplay, |rule| {
            (rule.max_replays, rule.backoff) = (Some(1), ReplayBackoff::Exponential);
        }),
        |limits| limits.cost_usd = Some(0.0),
    );
    let adopted = ruled_by(&policy, |subject, _| {
        (subject.replays, subject.commit_state) = (9, CommitState::Committed);
    });
    insta::assert_snapshot!(adopted, @"
    Adopt, needs nothing
      rule `the rule` says auto_replay
      all that it was to change outside is changed
      what is done is not done again, whatever the rules say
    ");
}

#[test]
fn quarantine_holds_until_something_is_changed_or_somebody_releases_it() {
    let quarantine = plain(Quarantine);
    let replay = plain(AutoReplay);
    insta::assert_snapshot!(ruled_by(&quarantine, |_, situation| situation.asked = ReplayTrigger::Forced), @"
    Quarantine, needs Release
      rule `the rule` says quarantine
      nothing changed since it failed
    ");
    insta::assert_snapshot!(ruled_by(&quarantine, |subject, _| {
        subject.reason_code = ReasonCode::SchemaInvalid;
    }), @"
    Quarantine, needs Edit
      rule `the rule` says quarantine
      nothing changed since it failed
    ");
    insta::assert_snapshot!(ruled_by(&quarantine, |subject, _| subject.is_released = true), @"
    Replay, needs nothing
      rule `the rule` says quarantine
      it was released from quarantine
    ");
    insta::assert_snapshot!(ruled_by(&quarantine, |subject, _| {
        (subject.is_changed, subject.changed) = (true, &["input", "workflow"]);
    }), @"
    Replay, needs nothing
      rule `the rule` says quarantine
      changed since it failed: input, workflow
    ");
    insta::assert_snapshot!(ruled_by(&replay, |subject, situation| {
        (subject.is_quarantined, situation.asked) = (true, ReplayTrigger::Forced);
    }), @"
    Quarantine, needs Release
      rule `the rule` says auto_replay
      somebody put it into quarantine
    ");
    insta::assert_snapshot!(ruled_by(&replay, |subject, _| {
        (subject.is_quarantined, subject.is_released) = (true, true);
    }), @"
    Replay, needs nothing
      rule `the rule` says auto_replay
      it was released from quarantine
    ");
    // What was released may still have happened outside.
    insta::assert_snapshot!(ruled_by(&quarantine, |subject, _| {
        (subject.is_released, subject.commit_state) = (true, CommitState::Unknown);
    }), @"
    Check, needs Check
      rule `the rule` says quarantine
      something outside may have been changed, and nobody has looked
      it was released from quarantine
      what may have happened is looked for before anything runs again, whatever the rules say
    ");
}

#[test]
fn a_person_looks_at_it_or_takes_it_on_themselves() {
    let policy = plain(ManualReview);
    insta::assert_snapshot!(ruled_by(&policy, |_, _| {}), @"
    Review, needs Force
      rule `the rule` says manual_review
    ");
    insta::assert_snapshot!(ruled_by(&policy, |_, situation| situation.asked = ReplayTrigger::Forced), @"
    Replay, needs nothing
      rule `the rule` says manual_review
      somebody takes the decision on themselves
    ");
    insta::assert_snapshot!(ruled_by(&policy, |subject, _| subject.commit_state = CommitState::Unknown), @"
    Review, needs Check
      rule `the rule` says manual_review
      something outside may have been changed, and nobody has looked
    ");
}

#[test]
fn never_is_never() {
    insta::assert_snapshot!(ruled_by(&plain(Never), |_, situation| situation.asked = ReplayTrigger::Forced), @"
    Never, needs Drop
      rule `the rule` says never
    ");
}

#[test]
fn limits_end_replays_until_somebody_lifts_them() {
    let policy = limited(policy_of(AutoReplay, |rule| rule.max_replays = Some(2)), |limits| {
        *limits = ReplayLimits {
            replays_per_item: Some(3),
            replays_per_signature: Some(20),
            cost_usd: Some(10.0),
        };
    });
    let with = |replays, signature_replays, cost_usd, asked| {
        ruled_by(&policy, |subject, situation| {
            subject.replays = replays;
            situation.counters = ReplayCounters { signature_replays, cost_usd };
            situation.asked = asked;
        })
    };
    insta::assert_snapshot!(with(1, 19, 9.99, ReplayTrigger::Asked), @"
    Replay, needs nothing
      rule `the rule` says auto_replay
    ");
    insta::assert_snapshot!(with(2, 0, 0.0, ReplayTrigger::Asked), @"
    Limit, needs Force
      rule `the rule` says auto_replay
      it was replayed 2 times, and rule `the rule` allows 2
    ");
    insta::assert_snapshot!(with(2, 0, 0.0, ReplayTrigger::Forced), @"
    Replay, needs nothing
      rule `the rule` says auto_replay
      it was replayed 2 times, and rule `the rule` allows 2, which somebody lifts
    ");
    insta::assert_snapshot!(with(1, 20, 0.0, ReplayTrigger::Asked), @"
    Limit, needs Force
      rule `the rule` says auto_replay
      entries of its signature were replayed 20 times, and `replays_per_signature` is 20
    ");
    insta::assert_snapshot!(with(1, 0, 10.0, ReplayTrigger::Asked), @"
    Limit, needs Force
      rule `the rule` says auto_replay
      the replays of the job cost $10.00, and `cost_usd` is $10.00
    ");
    let policy = limited(plain(AutoReplay), |limits| limits.replays_per_item = Some(1));
    insta::assert_snapshot!(ruled_by(&policy, |subject, _| subject.replays = 1), @"
    Limit, needs Force
      rule `the rule` says auto_replay
      it was replayed once, and `replays_per_item` is 1
    ");
    let policy = limited(plain(AutoReplay), |limits| limits.replays_per_item = Some(0));
    insta::assert_snapshot!(ruled_by(&policy, |_, _| {}), @"
    Limit, needs Force
      rule `the rule` says auto_replay
      it was replayed 0 times, and `replays_per_item` is 0
    ");
}

#[test]
fn somebody_has_to_agree() {
    let policy = plain(RequireApproval);
    let with = |approval, asked| {
        ruled_by(&policy, |subject, situation| {
            (subject.approval, situation.asked) = (approval, asked);
        })
    };
    insta::assert_snapshot!(with(None, ReplayTrigger::Forced), @"
        Approval, needs Ask
          rule `the rule` says require_approval
          0 of 1 approvals
        ");
    insta::assert_snapshot!(with(Some(ApprovalState::Pending { granted: 1, needed: 2 }), ReplayTrigger::Asked), @"
    Approval, needs Approve
      rule `the rule` says require_approval
      1 of 2 approvals
    ");
    insta::assert_snapshot!(with(Some(ApprovalState::Granted), ReplayTrigger::Unasked), @"
    Replay, needs nothing
      rule `the rule` says require_approval
      1 of 1 approvals
    ");
    insta::assert_snapshot!(with(Some(ApprovalState::Expired), ReplayTrigger::Asked), @"
        Approval, needs Ask
          rule `the rule` says require_approval
          the approval has expired
        ");
    insta::assert_snapshot!(with(Some(ApprovalState::Void), ReplayTrigger::Asked), @"
        Approval, needs Ask
          rule `the rule` says require_approval
          somebody agreed, but what they agreed to has changed since
        ");
    insta::assert_snapshot!(with(Some(ApprovalState::Rejected), ReplayTrigger::Forced), @"
    Never, needs Drop
      rule `the rule` says require_approval
      the approval was rejected
    ");
}

#[test]
fn the_group_of_a_rule_says_how_many_have_to_agree() {
    let rule = policy_of(RequireApproval, |rule| rule.approver_group = Some("security".to_owned()));
    let members = vec!["grace".to_owned(), "mary".to_owned()];
    let min_approvals = NonZeroU32::new(2).unwrap();
    let group = ApproverGroup { members, min_approvals, ..ApproverGroup::default() };
    let groups = BTreeMap::from([("security".to_owned(), group)]);
    let policy = ReplayPolicy::new(rule.rules, rule.limits, rule.velocity, groups, rule.alerts);
    insta::assert_snapshot!(ruled_by(&policy, |_, _| {}), @"
        Approval, needs Ask
          rule `the rule` says require_approval
          0 of 2 approvals by `security`
        ");
}

#[test]
fn a_replay_waits_after_one_that_failed() {
    let policy = policy_of(AutoReplay, |rule| rule.backoff = ReplayBackoff::Exponential);
    let with = |replays, seconds_ago, asked| {
        ruled_by(&policy, |subject, situation| {
            subject.replays = replays;
            subject.last_attempt =
                now().checked_sub(std::time::Duration::from_secs(seconds_ago)).unwrap();
            situation.asked = asked;
        })
    };
    insta::assert_snapshot!(with(0, 0, ReplayTrigger::Unasked), @"
    Replay, needs nothing
      rule `the rule` says auto_replay
    ");
    insta::assert_snapshot!(with(1, 29, ReplayTrigger::Asked), @"
    Later, needs Wait(2026-01-02T03:04:06Z)
      rule `the rule` says auto_replay
      rule `the rule` waits after replays that failed (exponential): not before 2026-01-02T03:04:06Z
    ");
    insta::assert_snapshot!(with(1, 29, ReplayTrigger::Forced), @"
    Replay, needs nothing
      rule `the rule` says auto_replay
      rule `the rule` waits after replays that failed (exponential): not before 2026-01-02T03:04:06Z, which somebody lifts
    ");
    insta::assert_snapshot!(with(1, 30, ReplayTrigger::Asked), @"
    Replay, needs nothing
      rule `the rule` says auto_replay
    ");
    insta::assert_snapshot!(with(2, 30, ReplayTrigger::Asked), @"
    Later, needs Wait(2026-01-02T03:04:35Z)
      rule `the rule` says auto_replay
      rule `the rule` waits after replays that failed (exponential): not before 2026-01-02T03:04:35Z
    ");
}

#[test]
fn the_moment_from_which_it_may_be_replayed_is_known_before_and_after() {
    let policy = policy_of(AutoReplay, |rule| rule.backoff = ReplayBackoff::Fixed);
    let mut subject = subject(ReasonCode::Timeout);
    subject.replays = 1;
    let until = now().checked_add(std::time::Duration::from_secs(30)).unwrap();
    let ruling = evaluate(&subject, &situation(&policy));
    assert_eq!(
        (ruling.verdict, ruling.needs),
        (ReplayVerdict::Later, Some(NextAction::Wait(until)))
    );
    assert_eq!(ruling.not_before, Some(until));
    let later = EvaluationContext { now: until, ..situation(&policy) };
    let ruling = evaluate(&subject, &later);
    assert_eq!((ruling.verdict, ruling.not_before), (ReplayVerdict::Replay, Some(until)));
    subject.last_attempt = Timestamp::MAX;
    assert_eq!(evaluate(&subject, &later).not_before, Some(Timestamp::MAX));
}

#[test]
fn every_reason_code_has_a_rule_that_does_what_the_table_says() {
    let policy = ReplayPolicy::builtin();
    let row = |kind: &ReasonCode| {
        let subject = subject(*kind);
        let first = evaluate(&subject, &situation(policy));
        let again = EntryFacts { replays: 1, ..subject };
        let asked = evaluate(&again, &situation(policy)).verdict;
        assert_eq!(asked, first.verdict, "who asks is bound by a policy of their own only");
        let unasked = EvaluationContext { asked: ReplayTrigger::Unasked, ..situation(policy) };
        let again = evaluate(&again, &unasked).verdict;
        assert_eq!(first.rule.name, format!("built-in:{kind}"));
        format!(
            "{:<24} {:<17} {:?}, then {again:?}",
            kind.code(),
            first.rule.action.as_str(),
            first.verdict
        )
    };
    let rows: Vec<String> = ReasonCode::ALL.iter().map(row).collect();
    insta::assert_snapshot!(rows.join("\n"), @"
    timeout                  auto_replay       Replay, then Later
    stalled                  auto_replay       Replay, then Later
    dependency_unavailable   auto_replay       Replay, then Later
    network_error            auto_replay       Replay, then Later
    rate_limited             auto_replay       Replay, then Later
    provider_overloaded      auto_replay       Replay, then Later
    no_workers               auto_replay       Replay, then Later
    worker_lost              auto_replay       Replay, then Later
    interrupted              auto_replay       Replay, then Later
    spawn_failed             auto_replay       Replay, then Limit
    max_scheduling_retries   auto_replay       Replay, then Later
    store_unavailable        auto_replay       Replay, then Later
    oom_killed               auto_replay       Replay, then Limit
    disk_full                manual_review     Review, then Review
    budget_exceeded          require_approval  Approval, then Approval
    quota_exhausted          manual_review     Review, then Review
    turn_limit               require_approval  Approval, then Approval
    context_overflow         quarantine        Quarantine, then Quarantine
    schema_invalid           quarantine        Quarantine, then Quarantine
    parse_error              quarantine        Quarantine, then Quarantine
    template_error           quarantine        Quarantine, then Quarantine
    tool_contract_mismatch   quarantine        Quarantine, then Quarantine
    payload_too_large        quarantine        Quarantine, then Quarantine
    input_missing            quarantine        Quarantine, then Quarantine
    poison_repeat            quarantine        Quarantine, then Quarantine
    command_failed           auto_replay       Replay, then Limit
    validation_failed        auto_replay       Replay, then Limit
    no_commit                auto_replay       Replay, then Limit
    output_unparseable       auto_replay       Replay, then Limit
    output_too_large         auto_replay       Replay, then Limit
    agent_crashed            auto_replay       Replay, then Later
    agent_error              manual_review     Review, then Review
    agent_refused            manual_review     Review, then Review
    merge_conflict           auto_replay       Replay, then Limit
    worktree_error           auto_replay       Replay, then Later
    dirty_target             manual_review     Review, then Review
    hook_failed              quarantine        Quarantine, then Quarantine
    push_rejected            check_then_replay Replay, then Replay
    denied                   require_approval  Approval, then Approval
    approval_required        require_approval  Approval, then Approval
    approval_rejected        never             Never, then Never
    approval_expired         require_approval  Approval, then Approval
    policy_snapshot_mismatch require_approval  Approval, then Approval
    permission_denied        quarantine        Quarantine, then Quarantine
    auth_failed              quarantine        Quarantine, then Quarantine
    secret_detected          quarantine        Quarantine, then Quarantine
    unknown_commit_state     check_then_replay Replay, then Replay
    partial_external_write   manual_review     Review, then Review
    effect_check_failed      manual_review     Review, then Review
    compensation_failed      manual_review     Review, then Review
    idempotency_conflict     manual_review     Review, then Review
    replay_denied            manual_review     Review, then Review
    replay_budget_exhausted  manual_review     Review, then Review
    cancelled                never             Never, then Never
    internal_error           manual_review     Review, then Review
    corrupt_record           manual_review     Review, then Review
    reconstructed            manual_review     Review, then Review
    unclassified             manual_review     Review, then Review
    ");
}
