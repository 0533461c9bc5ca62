//! Cases that a policy is tested with.

use std::time::Duration;

use super::{
    reader::{PolicyReader, list, read_u32, read_word, text},
    schema::{ACTION_WORDS, LIMIT, NUMBER},
    words::{ACTIONS, words},
};
use crate::{
    Timestamp,
    diagnostic::{Diagnostic, Sources},
    dlq::{CommitState, EntryStatus},
    failure::ReasonCode,
    replay::{
        ApprovalState, EffectEvidence, EntryFacts, EvaluationContext, ReplayAction, ReplayCounters,
        ReplayDecision, ReplayPolicy, ReplayTrigger, ReplayVerdict, evaluate,
    },
    workflow::{
        Rejected,
        grammar::{KeyShape, RecordShape, Shape, check_record},
    },
    yaml::{self, YamlNode},
};

/// The age of the last attempt unless a case sets it: longer than any backoff.
const LONG_AGO: Duration = Duration::from_secs(24 * 60 * 60);

/// An entry, and what a policy must make of it.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyCase {
    /// The name of the case.
    pub name: String,
    /// The expected decision.
    pub expected: ExpectedDecision,
    entry: CaseEntry,
    asked: ReplayTrigger,
    counters: ReplayCounters,
}

/// The expected decision of a case. A field that is `None` matches anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpectedDecision {
    /// The expected verdict.
    pub verdict: Option<ReplayVerdict>,
    /// The expected action of the rule.
    pub action: Option<ReplayAction>,
    /// The rule that decides.
    pub rule: Option<String>,
}

/// The facts of an entry that a case sets.
#[derive(Clone, Debug, PartialEq)]
struct CaseEntry {
    reason_code: ReasonCode,
    step: String,
    attempts: u32,
    replays: u32,
    signature: String,
    age: Duration,
    commit_state: CommitState,
    evidence: EffectEvidence,
    can_check: bool,
    is_quarantined: bool,
    is_released: bool,
    is_changed: bool,
    approval: Option<ApprovalState>,
}

impl PolicyCase {
    /// Reads a file of cases; `path` is what messages call it.
    pub fn read(path: &str, text: &str) -> Result<Vec<Self>, Rejected> {
        let mut sources = Sources::default();
        let file = sources.add(path, text);
        let mut reader = PolicyReader { diagnostics: Vec::new() };
        let cases = match yaml::parse(text, file) {
            Ok(root) => {
                check_record(&root, &CASES, &mut reader.diagnostics);
                let nodes = list(root.get("cases"));
                (1..)
                    .zip(nodes)
                    .filter_map(|(number, node)| case(&mut reader, node, number))
                    .collect()
            }
            Err(diagnostics) => {
                reader.diagnostics = diagnostics;
                Vec::new()
            }
        };
        if reader.diagnostics.is_empty() {
            return Ok(cases);
        }
        let mut diagnostics = reader.diagnostics;
        diagnostics.sort_by_key(|found| found.span);
        diagnostics.dedup();
        Err(Rejected { sources, diagnostics })
    }

    /// Decides over the case as if it happened now.
    pub fn evaluate<'a>(&self, policy: &'a ReplayPolicy, now: Timestamp) -> ReplayDecision<'a> {
        let entry = &self.entry;
        let subject = EntryFacts {
            item: "item",
            status: EntryStatus::Open,
            reason_code: entry.reason_code,
            topic: &entry.step,
            step: &entry.step,
            attempts: entry.attempts,
            replays: entry.replays,
            signature: &entry.signature,
            last_attempt: now.checked_sub(entry.age).unwrap_or(Timestamp::MIN),
            commit_state: entry.commit_state,
            effect: entry.evidence,
            can_check: entry.can_check,
            is_intact: true,
            is_quarantined: entry.is_quarantined,
            is_released: entry.is_released,
            is_changed: entry.is_changed,
            changed: &[],
            approval: entry.approval,
        };
        let (counters, asked) = (self.counters, self.asked);
        evaluate(&subject, &EvaluationContext { policy, counters, asked, now, is_running: false })
    }
}

impl ExpectedDecision {
    /// Returns whether a ruling is what was expected.
    pub fn matches(&self, ruling: &ReplayDecision<'_>) -> bool {
        self.verdict.is_none_or(|verdict| verdict == ruling.verdict)
            && self.action.is_none_or(|action| action == ruling.action)
            && self.rule.as_ref().is_none_or(|rule| *rule == ruling.rule.name)
    }
}

/// Reads one case; `None` if it is not whole, which was reported by then.
fn case(reader: &mut PolicyReader, node: &YamlNode, number: usize) -> Option<PolicyCase> {
    let name = text(node.get("name")).unwrap_or_else(|| format!("case {number}"));
    let expect = node.get("expect")?;
    let counters = node.get("counters");
    let counter = |key| counters.and_then(|node| node.get(key));
    Some(PolicyCase {
        name,
        expected: ExpectedDecision {
            verdict: read_word(expect.get("verdict"), ReplayVerdict::WORDS),
            action: read_word(expect.get("action"), ACTIONS),
            rule: text(expect.get("rule")),
        },
        entry: entry(reader, node.get("entry")?)?,
        asked: read_word(node.get("asked"), ASKED).unwrap_or(ReplayTrigger::Asked),
        counters: ReplayCounters {
            signature_replays: read_u32(counter("signature_replays")).unwrap_or(0),
            cost_usd: counter("cost_usd").and_then(YamlNode::as_f64).unwrap_or(0.0),
        },
    })
}

fn entry(reader: &mut PolicyReader, node: &YamlNode) -> Option<CaseEntry> {
    let is = |key| node.get(key).and_then(YamlNode::as_bool).unwrap_or(false);
    let code = text(node.get("reason_code"))?;
    let evidence = read_word(node.get("evidence"), EVIDENCE).unwrap_or_default();
    // What is there is all that there was to do, unless the case says otherwise.
    let usual = match evidence {
        EffectEvidence::Committed => CommitState::Committed,
        EffectEvidence::None
        | EffectEvidence::Prepared
        | EffectEvidence::Absent
        | EffectEvidence::Partial
        | EffectEvidence::Indeterminate => CommitState::Local,
    };
    Some(CaseEntry {
        // What is no reason code was reported by then.
        reason_code: ReasonCode::parse(&code).ok()?,
        step: text(node.get("step")).unwrap_or_default(),
        attempts: read_u32(node.get("attempts")).unwrap_or(1),
        replays: read_u32(node.get("replays")).unwrap_or(0),
        signature: text(node.get("signature")).unwrap_or_default().to_ascii_lowercase(),
        age: reader.duration(node.get("age")).unwrap_or(LONG_AGO),
        commit_state: read_word(node.get("commit_state"), STATES).unwrap_or(usual),
        evidence,
        can_check: is("can_check"),
        is_quarantined: is("quarantined"),
        is_released: is("released"),
        is_changed: is("changed"),
        approval: read_word(node.get("approval"), APPROVALS),
    })
}

/// The words for how much somebody wants a replay.
pub(crate) const ASKED: &[(&str, ReplayTrigger)] = &[
    ("unasked", ReplayTrigger::Unasked),
    ("asked", ReplayTrigger::Asked),
    ("forced", ReplayTrigger::Forced),
];

/// The words for what attempts may have changed.
pub(crate) const STATES: &[(&str, CommitState)] = &[
    ("none", CommitState::None),
    ("local", CommitState::Local),
    ("committed", CommitState::Committed),
    ("mixed", CommitState::Mixed),
    ("unknown", CommitState::Unknown),
];

/// The words for what is known of an effect.
pub(crate) const EVIDENCE: &[(&str, EffectEvidence)] = &[
    ("none", EffectEvidence::None),
    ("prepared", EffectEvidence::Prepared),
    ("absent", EffectEvidence::Absent),
    ("committed", EffectEvidence::Committed),
    ("partial", EffectEvidence::Partial),
    ("indeterminate", EffectEvidence::Indeterminate),
];

/// The words for how far an agreement has come.
pub(crate) const APPROVALS: &[(&str, ApprovalState)] = &[
    ("pending", ApprovalState::Pending { granted: 0, needed: 1 }),
    ("granted", ApprovalState::Granted),
    ("expired", ApprovalState::Expired),
    ("rejected", ApprovalState::Rejected),
    ("void", ApprovalState::Void),
];

/// A file of cases.
pub(crate) static CASES: RecordShape = RecordShape {
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
            "Evaluate as `resume`, `dlq retry` or `dlq retry --force`.",
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
            "Why the item failed: one of these [codes](failure-codes.md).",
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
            Shape::Word(&words::<_, 12>(crate::replay::ReplayVerdict::WORDS)),
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
