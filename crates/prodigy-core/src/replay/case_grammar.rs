//! The keys of a file of cases, as data.

use super::{
    ApprovalState, EffectEvidence, ReplayTrigger,
    grammar::{ACTION_WORDS, LIMIT, NUMBER},
    words::words,
};
use crate::{
    diagnostic::Diagnostic,
    dlq::CommitState,
    failure::ReasonCode,
    workflow::grammar::{KeyShape, RecordShape, Shape},
    yaml::YamlNode,
};

/// The words for how much somebody wants a replay.
pub(super) const ASKED: &[(&str, ReplayTrigger)] = &[
    ("unasked", ReplayTrigger::Unasked),
    ("asked", ReplayTrigger::Asked),
    ("forced", ReplayTrigger::Forced),
];

/// The words for what attempts may have changed.
pub(super) const STATES: &[(&str, CommitState)] = &[
    ("none", CommitState::None),
    ("local", CommitState::Local),
    ("committed", CommitState::Committed),
    ("mixed", CommitState::Mixed),
    ("unknown", CommitState::Unknown),
];

/// The words for what is known of an effect.
pub(super) const EVIDENCE: &[(&str, EffectEvidence)] = &[
    ("none", EffectEvidence::None),
    ("prepared", EffectEvidence::Prepared),
    ("absent", EffectEvidence::Absent),
    ("committed", EffectEvidence::Committed),
    ("partial", EffectEvidence::Partial),
    ("indeterminate", EffectEvidence::Indeterminate),
];

/// The words for how far an agreement has come.
pub(super) const APPROVALS: &[(&str, ApprovalState)] = &[
    ("pending", ApprovalState::Pending { granted: 0, needed: 1 }),
    ("granted", ApprovalState::Granted),
    ("expired", ApprovalState::Expired),
    ("rejected", ApprovalState::Rejected),
    ("void", ApprovalState::Void),
];

/// A file of cases.
pub(super) static CASES: RecordShape = RecordShape {
    name: "policy_test",
    title: "the file of cases",
    doc: "What a policy must make of some dead letters: `.prodigy/replay-policy.test.yml`.",
    groups: &[&[KeyShape::new(
        "cases",
        Shape::NonEmptyList(&Shape::Record(&CASE)),
        "The cases, in the order in which they are shown.",
    )
    .require()]],
    choice: None,
    rule: None,
};

/// One case.
static CASE: RecordShape = RecordShape {
    name: "case",
    title: "a case",
    doc: "A dead letter, and what the policy must make of it.",
    groups: &[&[
        KeyShape::new("name", Shape::Text, "What it is called.").or("its place, as in `case 2`"),
        KeyShape::new("entry", Shape::Record(&ENTRY), "The dead letter.").require(),
        KeyShape::new("counters", Shape::Record(&COUNTERS), "What was counted so far."),
        KeyShape::new(
            "asked",
            Shape::Word(&words::<_, 3>(ASKED)),
            "How much somebody wants the replay: the job is only resumed, `dlq retry`, or \
             `dlq retry --force`.",
        )
        .or("`asked`"),
        KeyShape::new("expect", Shape::Record(&EXPECT), "What must come out.").require(),
    ]],
    choice: None,
    rule: None,
};

/// The dead letter of a case.
static ENTRY: RecordShape = RecordShape {
    name: "entry",
    title: "`entry`",
    doc: "The dead letter of a case: an entry that is open and intact.",
    groups: &[&[
        KeyShape::new(
            "reason_code",
            Shape::Word(ReasonCode::CODES),
            "Why the item died: one of these [codes](failure-codes.md).",
        )
        .require(),
        KeyShape::new("step", Shape::Text, "The step that failed.").or("none"),
        KeyShape::new("attempts", LIMIT, "How many attempts came to an end.").or("1"),
        KeyShape::new("replays", LIMIT, "How often it was replayed.").or("0"),
        KeyShape::new("signature", Shape::Text, "Its error signature.").or("none"),
        KeyShape::new("age", Shape::Duration, "How long ago the last attempt ended.").or("`1d`"),
        KeyShape::new(
            "commit_state",
            Shape::Word(&words::<_, 5>(STATES)),
            "What the attempts may have changed.",
        )
        .or("`local`"),
        KeyShape::new(
            "evidence",
            Shape::Word(&words::<_, 6>(EVIDENCE)),
            "What was found out about an effect that may have happened.",
        )
        .or("`none`"),
        KeyShape::new("can_check", Shape::Bool, "Whether the step has a `check`.").or("`false`"),
        KeyShape::new("quarantined", Shape::Bool, "Whether somebody put it into quarantine.")
            .or("`false`"),
        KeyShape::new("released", Shape::Bool, "Whether somebody released it from quarantine.")
            .or("`false`"),
        KeyShape::new(
            "changed",
            Shape::Bool,
            "Whether the input, the workflow, a tool or the environment was changed since.",
        )
        .or("`false`"),
        KeyShape::new(
            "approval",
            Shape::Word(&words::<_, 5>(APPROVALS)),
            "How far an agreement has come.",
        )
        .or("none"),
    ]],
    choice: None,
    rule: None,
};

/// The keys of `counters`: the replays and the cost before a case.
static COUNTERS: RecordShape = RecordShape {
    name: "counters",
    title: "`counters`",
    doc: "What was counted before a case.",
    groups: &[&[
        KeyShape::new(
            "signature_replays",
            LIMIT,
            "How often dead letters of the same error signature were replayed.",
        )
        .or("0"),
        KeyShape::new("cost_usd", NUMBER, "What the replays of the job cost.").or("0"),
    ]],
    choice: None,
    rule: None,
};

/// The keys of `expect`: the decision that a case must lead to.
static EXPECT: RecordShape = RecordShape {
    name: "expect",
    title: "`expect`",
    doc: "What must come out of a case; at least one of these.",
    groups: &[&[
        KeyShape::new(
            "verdict",
            Shape::Word(&words::<_, 12>(super::ReplayVerdict::WORDS)),
            "What is decided: one of the [verdicts](#verdicts).",
        ),
        KeyShape::new(
            "action",
            Shape::Word(ACTION_WORDS),
            "What the rule wants done, with what is known of effects: one of the \
             [actions](#actions).",
        ),
        KeyShape::new("rule", Shape::Text, "The rule that decides, as `policy show` names it."),
    ]],
    choice: None,
    rule: Some(something),
};

fn something(node: &YamlNode, diagnostics: &mut Vec<Diagnostic>) {
    if node.as_mapping().is_some_and(<[_]>::is_empty) {
        let empty = Diagnostic::error(node.span, "`expect` is empty");
        diagnostics.push(empty.help("a case without expectation tests nothing: add `verdict: …`"));
    }
}
