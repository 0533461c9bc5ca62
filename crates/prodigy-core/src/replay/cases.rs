//! Cases that a policy is tested with.

use std::time::Duration;

use super::{
    ApprovalState, Asked, Counters, EffectEvidence, Policy, ReplayAction, Ruling, Situation,
    Subject, Verdict,
    case_grammar::{APPROVALS, ASKED, CASES, EVIDENCE, STATES},
    decide,
    read::{Reader, list, text, whole, word},
    words::ACTIONS,
};
use crate::{
    Timestamp,
    diagnostic::Sources,
    dlq::{CommitState, EntryStatus},
    failure::FailureKind,
    workflow::{Rejected, grammar::check_record},
    yaml::{self, Node},
};

/// The age of the last attempt unless a case sets it: longer than any backoff.
const LONG_AGO: Duration = Duration::from_secs(24 * 60 * 60);

/// An entry, and what a policy must make of it.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyCase {
    /// The name of the case.
    pub name: String,
    /// The expected decision.
    pub expected: Expected,
    entry: Entry,
    asked: Asked,
    counters: Counters,
}

/// The expected decision of a case. A field that is `None` matches anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// The expected verdict.
    pub verdict: Option<Verdict>,
    /// The expected action of the rule.
    pub action: Option<ReplayAction>,
    /// The rule that decides.
    pub rule: Option<String>,
}

/// The facts of an entry that a case sets.
#[derive(Clone, Debug, PartialEq)]
struct Entry {
    reason_code: FailureKind,
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
        let mut reader = Reader { diagnostics: Vec::new() };
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
    pub fn run<'a>(&self, policy: &'a Policy, now: Timestamp) -> Ruling<'a> {
        let entry = &self.entry;
        let subject = Subject {
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
        decide(&subject, &Situation { policy, counters, asked, now, is_running: false })
    }
}

impl Expected {
    /// Returns whether a ruling is what was expected.
    pub fn is_met(&self, ruling: &Ruling<'_>) -> bool {
        self.verdict.is_none_or(|verdict| verdict == ruling.verdict)
            && self.action.is_none_or(|action| action == ruling.action)
            && self.rule.as_ref().is_none_or(|rule| *rule == ruling.rule.name)
    }
}

/// Reads one case; `None` if it is not whole, which was reported by then.
fn case(reader: &mut Reader, node: &Node, number: usize) -> Option<PolicyCase> {
    let name = text(node.get("name")).unwrap_or_else(|| format!("case {number}"));
    let expect = node.get("expect")?;
    let counters = node.get("counters");
    let counter = |key| counters.and_then(|node| node.get(key));
    Some(PolicyCase {
        name,
        expected: Expected {
            verdict: word(expect.get("verdict"), Verdict::WORDS),
            action: word(expect.get("action"), ACTIONS),
            rule: text(expect.get("rule")),
        },
        entry: entry(reader, node.get("entry")?)?,
        asked: word(node.get("asked"), ASKED).unwrap_or(Asked::Asked),
        counters: Counters {
            signature_replays: whole(counter("signature_replays")).unwrap_or(0),
            cost_usd: counter("cost_usd").and_then(Node::as_f64).unwrap_or(0.0),
        },
    })
}

fn entry(reader: &mut Reader, node: &Node) -> Option<Entry> {
    let is = |key| node.get(key).and_then(Node::as_bool).unwrap_or(false);
    let code = text(node.get("reason_code"))?;
    let evidence = word(node.get("evidence"), EVIDENCE).unwrap_or_default();
    // What is there is all that there was to do, unless the case says otherwise.
    let usual = match evidence {
        EffectEvidence::Committed => CommitState::Committed,
        EffectEvidence::None
        | EffectEvidence::Prepared
        | EffectEvidence::Absent
        | EffectEvidence::Partial
        | EffectEvidence::Indeterminate => CommitState::Local,
    };
    Some(Entry {
        // What is no reason code was reported by then.
        reason_code: FailureKind::named(&code).ok()?,
        step: text(node.get("step")).unwrap_or_default(),
        attempts: whole(node.get("attempts")).unwrap_or(1),
        replays: whole(node.get("replays")).unwrap_or(0),
        signature: text(node.get("signature")).unwrap_or_default().to_ascii_lowercase(),
        age: reader.duration(node.get("age")).unwrap_or(LONG_AGO),
        commit_state: word(node.get("commit_state"), STATES).unwrap_or(usual),
        evidence,
        can_check: is("can_check"),
        is_quarantined: is("quarantined"),
        is_released: is("released"),
        is_changed: is("changed"),
        approval: word(node.get("approval"), APPROVALS),
    })
}
