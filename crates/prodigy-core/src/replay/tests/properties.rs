//! Properties of decisions that hold for every policy and every entry.

use proptest::prelude::*;

use super::*;
use crate::replay::{ApprovalState, ReplayBackoff, ReplayLimits, ReplayVerdict, evaluate};
use ReplayAction::{
    Adopt, AutoReplay, CheckThenReplay, ManualReview, Never, Quarantine, RequireApproval,
};

/// The facts of an entry, owned.
#[derive(Clone, Debug)]
struct Facts {
    subject: EntryFacts<'static>,
    counters: ReplayCounters,
    is_running: bool,
}

fn any_kind() -> impl Strategy<Value = ReasonCode> {
    // Few, so that rules often match.
    prop::sample::select(vec![
        ReasonCode::Timeout,
        ReasonCode::SchemaInvalid,
        ReasonCode::Denied,
        ReasonCode::UnknownCommitState,
    ])
}

fn any_action() -> impl Strategy<Value = ReplayAction> {
    prop::sample::select(vec![
        AutoReplay,
        CheckThenReplay,
        RequireApproval,
        ManualReview,
        Quarantine,
        Never,
        Adopt,
    ])
}

fn any_state() -> impl Strategy<Value = CommitState> {
    prop::sample::select(vec![
        CommitState::None,
        CommitState::Local,
        CommitState::Committed,
        CommitState::Mixed,
        CommitState::Unknown,
    ])
}

fn any_evidence() -> impl Strategy<Value = EffectEvidence> {
    prop::sample::select(vec![
        EffectEvidence::None,
        EffectEvidence::Prepared,
        EffectEvidence::Absent,
        EffectEvidence::Committed,
        EffectEvidence::Partial,
        EffectEvidence::Indeterminate,
    ])
}

fn any_approval() -> impl Strategy<Value = Option<ApprovalState>> {
    prop::sample::select(vec![
        None,
        Some(ApprovalState::Pending { granted: 1, needed: 2 }),
        Some(ApprovalState::Granted),
        Some(ApprovalState::Granted),
        Some(ApprovalState::Expired),
        Some(ApprovalState::Rejected),
        Some(ApprovalState::Void),
    ])
}

prop_compose! {
    fn any_facts()(
        reason_code in any_kind(),
        step in prop::sample::select(vec!["open-pr", "build"]),
        (attempts, replays, ago) in (1_u32..5, 0_u32..4, 0_u64..200),
        (commit_state, effect, can_check) in (any_state(), any_evidence(), any::<bool>()),
        // Most entries are open and intact; the rest is decided at once.
        is_intact in prop::bool::weighted(0.95),
        status in prop::sample::select(vec![
            EntryStatus::Open, EntryStatus::Open, EntryStatus::Open, EntryStatus::Open,
            EntryStatus::Replaying, EntryStatus::Dropped,
        ]),
        is_quarantined in prop::bool::weighted(0.2),
        (is_released, is_changed) in (prop::bool::weighted(0.3), prop::bool::weighted(0.3)),
        approval in any_approval(),
        (signature_replays, cost) in (0_u32..4, 0_u32..4),
        is_running in prop::bool::weighted(0.1),
    ) -> Facts {
        let last_attempt = now().checked_sub(std::time::Duration::from_secs(ago)).unwrap();
        Facts {
            subject: EntryFacts {
                status, step, attempts, replays, last_attempt, commit_state, effect, can_check,
                is_intact, is_quarantined, is_released, is_changed, approval,
                ..subject(reason_code)
            },
            counters: ReplayCounters { signature_replays, cost_usd: f64::from(cost) },
            is_running,
        }
    }
}

prop_compose! {
    fn any_match()(
        reason_codes in prop::option::of(prop::collection::btree_set(any_kind(), 1..3)),
        step in prop::option::weighted(0.2, prop::sample::select(vec!["open-pr", "map.2", "x"])),
        attempts_gte in prop::option::weighted(0.2, 1_u32..5),
        signature in prop::option::weighted(0.2, prop::sample::select(vec!["01", "", "ff"])),
    ) -> RuleMatch {
        RuleMatch {
            reason_codes,
            step: step.map(str::to_owned),
            attempts_gte,
            signature: signature.map(str::to_owned),
        }
    }
}

prop_compose! {
    fn any_rule()(
        matches in any_match(),
        action in any_action(),
        max_replays in prop::option::of(0_u32..4),
        backoff in prop::sample::select(ReplayBackoff::WORDS.iter().map(|(_, wait)| *wait).collect::<Vec<_>>()),
        (on_absent, on_committed, on_partial) in (any_action(), any_action(), any_action()),
    ) -> ReplayRule {
        let rule = ReplayRule::new("any", matches, action);
        ReplayRule { max_replays, backoff, on_absent, on_committed, on_partial, ..rule }
    }
}

prop_compose! {
    fn any_policy()(
        mut rules in prop::collection::vec(any_rule(), 0..4),
        catch_all in any_rule(),
        (item, signature, cost) in (
            prop::option::of(0_u32..4), prop::option::of(0_u32..4), prop::option::of(0_u32..4),
        ),
    ) -> ReplayPolicy {
        rules.push(ReplayRule { matches: RuleMatch::default(), ..catch_all });
        for (number, rule) in rules.iter_mut().enumerate() {
            rule.name = format!("rule {}", number + 1);
        }
        let limits = ReplayLimits {
            replays_per_item: item,
            replays_per_signature: signature,
            cost_usd: cost.map(f64::from),
        };
        let builtin = ReplayPolicy::builtin().clone();
        ReplayPolicy::new(rules, limits, builtin.velocity, builtin.groups, builtin.alerts)
    }
}

fn verdict(policy: &ReplayPolicy, facts: &Facts, asked: ReplayTrigger) -> ReplayVerdict {
    let Facts { subject, counters, is_running } = facts;
    let (counters, is_running) = (*counters, *is_running);
    evaluate(subject, &EvaluationContext { policy, counters, asked, now: now(), is_running })
        .verdict
}

/// The actions that allow no replay that `action` forbids, whoever asks.
fn stricter(action: ReplayAction, asked: ReplayTrigger) -> &'static [ReplayAction] {
    let is_forced = asked == ReplayTrigger::Forced;
    match action {
        AutoReplay => &[CheckThenReplay, RequireApproval, ManualReview, Quarantine, Never],
        // A person who takes it on themselves lifts a review, and none of these.
        RequireApproval | Quarantine | CheckThenReplay | Adopt if !is_forced => {
            &[ManualReview, Never]
        }
        RequireApproval | Quarantine | CheckThenReplay | Adopt | ManualReview => &[Never],
        Never => &[],
    }
}

/// Makes one part of a policy stricter, of which there are a few.
fn tightened(
    policy: &ReplayPolicy,
    at: usize,
    how: usize,
    pick: usize,
    asked: ReplayTrigger,
) -> ReplayPolicy {
    let mut policy = policy.clone();
    let less = |bound: Option<u32>| Some(bound.map_or(2, |bound| bound.saturating_sub(1)));
    let harder = |action: ReplayAction| {
        let choice = stricter(action, asked);
        choice.get(pick % choice.len().max(1)).copied().unwrap_or(action)
    };
    let count = policy.rules.len();
    let rule = &mut policy.rules[at % count];
    match how {
        0 => rule.action = harder(rule.action),
        1 => rule.max_replays = less(rule.max_replays),
        2 => policy.limits.replays_per_item = less(policy.limits.replays_per_item),
        3 => policy.limits.replays_per_signature = less(policy.limits.replays_per_signature),
        4 => policy.limits.cost_usd = Some(policy.limits.cost_usd.unwrap_or(9.0) / 2.0),
        5 if rule.backoff == ReplayBackoff::None => rule.backoff = ReplayBackoff::Fixed,
        5 => rule.backoff = ReplayBackoff::Exponential,
        6 => rule.on_absent = harder(rule.on_absent),
        7 => rule.on_committed = harder(rule.on_committed),
        _ => rule.on_partial = harder(rule.on_partial),
    }
    policy
}

fn any_asked() -> impl Strategy<Value = ReplayTrigger> {
    prop::sample::select(vec![ReplayTrigger::Unasked, ReplayTrigger::Asked, ReplayTrigger::Forced])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn a_stricter_policy_never_allows_a_replay_that_was_not_allowed(
        policy in any_policy(),
        facts in any_facts(),
        asked in any_asked(),
        (at, how, pick) in (0_usize..5, 0_usize..9, 0_usize..6),
    ) {
        let stricter = tightened(&policy, at, how, pick, asked);
        if verdict(&stricter, &facts, asked) == ReplayVerdict::Replay {
            prop_assert_eq!(verdict(&policy, &facts, asked), ReplayVerdict::Replay);
        }
    }

    #[test]
    fn the_floor_holds_for_every_policy(
        policy in any_policy(),
        facts in any_facts(),
        asked in any_asked(),
    ) {
        let subject = &facts.subject;
        let verdict = verdict(&policy, &facts, asked);
        let is_done = matches!(verdict, ReplayVerdict::Replay | ReplayVerdict::Adopt | ReplayVerdict::Check);
        if is_done {
            prop_assert!(subject.is_intact);
            prop_assert_eq!(subject.status, EntryStatus::Open);
            prop_assert!(!facts.is_running);
            if subject.is_quarantined && !subject.is_released {
                prop_assert!(subject.is_changed);
            }
        }
        let unknown = subject.commit_state == CommitState::Unknown
            && !matches!(subject.effect, EffectEvidence::Absent);
        let is_there = subject.commit_state == CommitState::Committed;
        if asked != ReplayTrigger::Forced && verdict == ReplayVerdict::Replay {
            prop_assert!(!unknown);
            prop_assert!(!is_there);
        }
        if verdict == ReplayVerdict::Adopt {
            let is_found = subject.effect == EffectEvidence::Committed;
            prop_assert!([is_there, is_found].contains(&true));
        }
        if verdict == ReplayVerdict::Check {
            prop_assert!(subject.can_check);
        }
    }

    #[test]
    fn the_first_rule_that_matches_decides(policy in any_policy(), facts in any_facts()) {
        let subject = &facts.subject;
        let ruling = evaluate(subject, &situation(&policy));
        let first = policy.rules.iter().position(|rule| rule.matches.is_match(subject)).unwrap();
        prop_assert_eq!(&ruling.rule.name, &format!("rule {}", first + 1));
        let mut without = policy.clone();
        without.rules.truncate(first + 1);
        let alone = evaluate(subject, &situation(&without));
        prop_assert_eq!(alone.verdict, ruling.verdict);
        prop_assert_eq!(alone.explain(), ruling.explain());
    }

    #[test]
    fn whoever_asks_more_is_never_allowed_less(policy in any_policy(), facts in any_facts()) {
        let is_replayed = |asked| verdict(&policy, &facts, asked) == ReplayVerdict::Replay;
        prop_assert!(is_replayed(ReplayTrigger::Unasked) <= is_replayed(ReplayTrigger::Asked));
        prop_assert!(is_replayed(ReplayTrigger::Asked) <= is_replayed(ReplayTrigger::Forced));
    }

    #[test]
    fn force_lifts_no_agreement_no_quarantine_and_no_prohibition(
        policy in any_policy(),
        facts in any_facts(),
    ) {
        let unforced = verdict(&policy, &facts, ReplayTrigger::Asked);
        let kept = [
            ReplayVerdict::Approval, ReplayVerdict::Quarantine, ReplayVerdict::Never, ReplayVerdict::Running,
            ReplayVerdict::Closed, ReplayVerdict::Damaged,
        ];
        if kept.contains(&unforced) {
            prop_assert_eq!(verdict(&policy, &facts, ReplayTrigger::Forced), unforced);
        }
    }

    #[test]
    fn every_ruling_explains_itself(
        policy in any_policy(),
        facts in any_facts(),
        asked in any_asked(),
    ) {
        let Facts { subject, counters, is_running } = facts;
        let situation = EvaluationContext { policy: &policy, counters, asked, now: now(), is_running };
        let ruling = evaluate(&subject, &situation);
        let why = ruling.explain();
        prop_assert!((1..=8).contains(&why.len()), "{:?}", why);
        for sentence in why {
            prop_assert!(!sentence.ends_with('.'));
            prop_assert!(!sentence.is_empty());
        }
        let moves = matches!(ruling.verdict, ReplayVerdict::Replay | ReplayVerdict::Adopt | ReplayVerdict::Closed);
        prop_assert_eq!(ruling.needs.is_none(), moves);
    }
}
