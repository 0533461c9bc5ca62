//! Cases that a policy is tested with.

use std::time::Duration;

use super::{
    ApprovalState, EffectEvidence, EntryFacts, EvaluationContext, ReplayAction, ReplayCounters,
    ReplayDecision, ReplayPolicy, ReplayTrigger, ReplayVerdict,
    case_grammar::{APPROVALS, ASKED, CASES, EVIDENCE, STATES},
    evaluate,
    read::{PolicyReader, list, read_u32, read_word, text},
    words::ACTIONS,
};
use crate::{
    Timestamp,
    diagnostic::Sources,
    dlq::{CommitState, EntryStatus},
    failure::ReasonCode,
    workflow::{Rejected, grammar::check_record},
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
