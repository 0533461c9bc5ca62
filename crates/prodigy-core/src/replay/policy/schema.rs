//! The keys of a policy file, as data.
//!
//! The checker, the JSON Schema and the reference page are made from these tables.

use std::collections::BTreeSet;

use super::words::{ACTIONS, CLASSES, IDENTITIES, PARTIES, words};
use crate::{
    diagnostic::Diagnostic,
    replay::ReplayBackoff,
    workflow::grammar::{KeyNames, KeyShape, RecordShape, Shape},
    yaml::YamlNode,
};

/// Everything that can be wanted done.
pub(crate) const ACTION_WORDS: &[&str] = &words::<_, 7>(ACTIONS);
// `adopt` is the last word: it is for what is known to be done, and so for no whole rule.
const RULE_WORDS: &[&str] = &words::<_, 6>(ACTIONS);
const CLASS_WORDS: &[&str] = &words::<_, 9>(CLASSES);
const PARTY_WORDS: &[&str] = &words::<_, 2>(PARTIES);
const IDENTITY_WORDS: &[&str] = &words::<_, 2>(IDENTITIES);
const WAIT_WORDS: &[&str] = &words::<_, 4>(ReplayBackoff::WORDS);

const LARGEST: i64 = u32::MAX as i64;
const COUNT: Shape = Shape::Integer { min: 1, max: LARGEST };
/// A count that may be zero.
pub(crate) const LIMIT: Shape = Shape::Integer { min: 0, max: LARGEST };
const SHARE: Shape = Shape::Number { min: 0.0, max: 1.0 };
/// A number that is not negative.
pub(crate) const NUMBER: Shape = Shape::Number { min: 0.0, max: f64::MAX };

/// A policy file.
pub(crate) static POLICY: RecordShape = RecordShape {
    name: "policy",
    title: "the policy",
    doc: "What may become of dead letters.",
    groups: &[&[
        KeyShape::new("version", Shape::Word(&["v1"]), "The version of the format.").require(),
        KeyShape::new(
            "dlq_rules",
            Shape::List(&Shape::Record(&RULE)),
            "What becomes of dead letters. The first rule that matches decides.",
        )
        .or("none"),
        KeyShape::new(
            "defaults",
            Shape::Record(&DEFAULTS),
            "What becomes of the dead letters that no rule matches.",
        )
        .or("what the [reason code](failure-codes.md) says"),
        KeyShape::new(
            "limits",
            Shape::Record(&LIMITS),
            "How often and for how much may be replayed.",
        ),
        KeyShape::new("velocity", Shape::Record(&VELOCITY), "How fast dead letters are replayed."),
        KeyShape::new(
            "approver_groups",
            Shape::Table { names: KeyNames::Free, value: &Shape::Record(&GROUP) },
            "Who may agree to a replay.",
        ),
        KeyShape::new("alerts", Shape::Record(&ALERTS), "What is worth an alert."),
    ]],
    choice: None,
    rule: None,
};

/// The keys of a rule: the match, and the action for the dead letters that match.
pub(crate) static RULE: RecordShape = RecordShape {
    name: "rule",
    title: "a rule",
    doc: "What becomes of the dead letters that match.",
    groups: &[
        &[
            KeyShape::new(
                "id",
                Shape::Text,
                "What the rule is called: letters, digits, `-`, `_` and `.`.",
            )
            .or("its place, as in `rule 2`"),
            KeyShape::new("match", Shape::Record(&MATCH), "Which dead letters it is for.")
                .require(),
        ],
        OUTCOME,
    ],
    choice: None,
    rule: Some(outcome),
};

/// The keys of `defaults`: the action for all other dead letters.
pub(crate) static DEFAULTS: RecordShape = RecordShape {
    name: "defaults",
    title: "`defaults`",
    doc: "What becomes of the dead letters that no rule matches.",
    groups: &[OUTCOME],
    choice: None,
    rule: Some(outcome),
};

/// The keys of an action on dead letters and its bounds.
const OUTCOME: &[KeyShape] = &[
    KeyShape::new("action", Shape::Word(RULE_WORDS), "What becomes of them.").require(),
    KeyShape::new("max_replays", COUNT, "How often one dead letter may be replayed.")
        .or("no limit"),
    KeyShape::new(
        "backoff",
        Shape::Word(WAIT_WORDS),
        "How long to wait after a replay that failed: 30 seconds, and with `exponential` twice as \
         long after each further one, up to an hour. The first replay never waits.",
    )
    .or("`none`"),
    KeyShape::new("owner", Shape::Text, "Who looks after them."),
    KeyShape::new("approver_group", Shape::Text, "Who may agree, with `require_approval`.")
        .or("anybody who did not start the job"),
    KeyShape::new(
        "on_absent",
        Shape::Word(&["auto_replay", "require_approval", "manual_review", "quarantine", "never"]),
        "With `check_then_replay`: what happens if nothing was changed outside.",
    )
    .or("`auto_replay`"),
    KeyShape::new(
        "on_committed",
        Shape::Word(&["adopt", "require_approval", "manual_review", "quarantine", "never"]),
        "With `check_then_replay`: what happens if everything was changed outside.",
    )
    .or("`adopt`"),
    KeyShape::new(
        "on_partial",
        Shape::Word(&["require_approval", "manual_review", "quarantine", "never"]),
        "With `check_then_replay`: what happens if something was changed outside in part.",
    )
    .or("`manual_review`"),
];

/// Which dead letters a rule is for.
pub(crate) static MATCH: RecordShape = RecordShape {
    name: "match",
    title: "`match`",
    doc: "Which dead letters a rule is for: those that fulfil everything it says.",
    groups: &[&[
        KeyShape::new(
            "reason_code",
            Shape::OneOf(&[Shape::Text, Shape::NonEmptyList(&Shape::Text)]),
            "Why the item failed: one of these [codes](failure-codes.md). `*` stands for any text.",
        ),
        KeyShape::new(
            "class",
            Shape::OneOf(&[
                Shape::Word(CLASS_WORDS),
                Shape::NonEmptyList(&Shape::Word(CLASS_WORDS)),
            ]),
            "What kind of reason that is: one of these classes.",
        ),
        KeyShape::new(
            "step",
            Shape::Text,
            "The step that failed: its name, its id or its path, as in `map.2`.",
        ),
        KeyShape::new("attempts_gte", COUNT, "The fewest attempts that came to an end."),
        KeyShape::new(
            "signature",
            Shape::Text,
            "The error signature, or what it begins with: hexadecimal digits.",
        ),
    ]],
    choice: None,
    rule: Some(not_empty),
};

/// The keys of `limits`: the bounds on the number and the cost of replays.
pub(crate) static LIMITS: RecordShape = RecordShape {
    name: "limits",
    title: "`limits`",
    doc: "How often and for how much may be replayed.",
    groups: &[&[
        KeyShape::new("replays_per_item", LIMIT, "How often one item may be replayed.")
            .or("no limit"),
        KeyShape::new(
            "replays_per_signature",
            LIMIT,
            "How often the dead letters of one error signature may be replayed, all together.",
        )
        .or("no limit"),
        KeyShape::new("cost_usd", NUMBER, "What the replays of a job may cost, all together.")
            .or("no limit"),
    ]],
    choice: None,
    rule: None,
};

/// The keys of `velocity`: the bounds on the speed of replays.
pub(crate) static VELOCITY: RecordShape = RecordShape {
    name: "velocity",
    title: "`velocity`",
    doc: "How fast dead letters are replayed.",
    groups: &[&[
        KeyShape::new("rate", Shape::Text, "How many replays may start, as in `6/min` or `1/s`.")
            .or("no limit"),
        KeyShape::new("concurrency", COUNT, "How many replays may be under way at once.")
            .or("as many as agents"),
        KeyShape::new(
            "canary",
            Shape::NonEmptyList(&COUNT),
            "How many dead letters of one error signature are replayed at first, and after them.",
        )
        .or("all at once"),
        KeyShape::new(
            "abort_failure_ratio",
            SHARE,
            "The share of failed replays that ends the replays of an error signature.",
        )
        .or("no limit"),
    ]],
    choice: None,
    rule: None,
};

/// The keys of a group of approvers.
pub(crate) static GROUP: RecordShape = RecordShape {
    name: "approver_group",
    title: "a group",
    doc: "Who may agree to a replay, and what an agreement takes.",
    groups: &[&[
        KeyShape::new(
            "members",
            Shape::List(&Shape::Text),
            "Who belongs to it. Without members nobody may agree.",
        )
        .or("nobody"),
        KeyShape::new("min_approvals", COUNT, "The number of approvals needed.").or("1"),
        KeyShape::new("ttl", Shape::Duration, "How long an agreement holds.").or("`30m`"),
        KeyShape::new(
            "distinct_from",
            Shape::List(&Shape::Word(PARTY_WORDS)),
            "Whose own agreement does not count; `[]` is nobody's.",
        )
        .or("`[submitter]`"),
        KeyShape::new(
            "identity",
            Shape::Word(IDENTITY_WORDS),
            "How people show who they are: they say so, or they sign with their key.",
        )
        .or("`asserted`"),
        KeyShape::new(
            "allowed_signers",
            Shape::Text,
            "The file with the keys of people, as `ssh-keygen` reads it, from the root of the \
             repository. It counts as it is committed on the branch that the job merges into.",
        ),
    ]],
    choice: None,
    rule: Some(group),
};

/// The keys of `alerts`: the thresholds.
pub(crate) static ALERTS: RecordShape = RecordShape {
    name: "alerts",
    title: "`alerts`",
    doc: "What is worth an alert.",
    groups: &[&[
        KeyShape::new("growth_per_min", NUMBER, "So many dead letters come in per minute.").or("5"),
        KeyShape::new("denial_ratio", SHARE, "This share of the replays asked for is denied.")
            .or("0.2"),
        KeyShape::new(
            "unknown_commit_age",
            Shape::Duration,
            "For so long it is unknown what an item changed outside.",
        )
        .or("`30m`"),
        KeyShape::new(
            "unclassified_ratio",
            SHARE,
            "This share of the dead letters has no known reason.",
        )
        .or("0.05"),
        KeyShape::new("oldest", Shape::Duration, "The oldest dead letter is so old.").or("`24h`"),
        KeyShape::new("hook", Shape::Script, "The command that is run with an alert."),
    ]],
    choice: None,
    rule: None,
};

fn not_empty(node: &YamlNode, diagnostics: &mut Vec<Diagnostic>) {
    if node.as_mapping().is_some_and(<[_]>::is_empty) {
        let empty = Diagnostic::error(node.span, "`match` is empty");
        diagnostics.push(empty.help("`defaults` is for all dead letters that no rule matches"));
    }
}

/// Reports keys that mean nothing with the action that a rule has.
fn outcome(node: &YamlNode, diagnostics: &mut Vec<Diagnostic>) {
    let action = node.get("action").and_then(YamlNode::as_str).unwrap_or_default();
    if !RULE_WORDS.contains(&action) {
        return;
    }
    let clauses = ["on_absent", "on_committed", "on_partial"];
    let is_check = action == "check_then_replay";
    let asks = |key: &&str| node.get(key).and_then(YamlNode::as_str) == Some("require_approval");
    let is_asking = action == "require_approval" || (is_check && clauses.iter().any(asks));
    let is_replaying = !["manual_review", "never"].contains(&action);
    let mut useless = |key: &str, help: &str| {
        if let Some(span) = node.key_span(key) {
            let message = format!("`{key}` has no effect with `action: {action}`");
            diagnostics.push(Diagnostic::error(span, message).help(help));
        }
    };
    if !is_check {
        for key in clauses {
            useless(key, "it belongs to `action: check_then_replay`");
        }
    }
    if !is_asking {
        useless("approver_group", "`action: require_approval` asks a group");
    }
    if !is_replaying {
        for key in ["max_replays", "backoff"] {
            useless(key, "only a replay that a rule allows is counted and waits");
        }
    }
}

/// Reports what does not fit together in a group.
fn group(node: &YamlNode, diagnostics: &mut Vec<Diagnostic>) {
    let identity = node.get("identity");
    let is_signed = identity.and_then(YamlNode::as_str) == Some("signed");
    if let (true, Some(identity), None) = (is_signed, identity, node.get("allowed_signers")) {
        let message = "signatures cannot be checked without `allowed_signers`";
        diagnostics.push(
            Diagnostic::error(identity.span, message)
                .help("add `allowed_signers: .prodigy/allowed_signers`"),
        );
    }
    if let (false, Some(span)) = (is_signed, node.key_span("allowed_signers")) {
        let message = "`allowed_signers` has no effect without `identity: signed`";
        diagnostics.push(Diagnostic::error(span, message).help("add `identity: signed`"));
    }
    let members = node.get("members").and_then(YamlNode::as_sequence).unwrap_or_default();
    let mut seen = BTreeSet::new();
    for (span, name) in members.iter().filter_map(|node| Some((node.span, node.scalar_text()?))) {
        if name.trim().is_empty() {
            diagnostics.push(Diagnostic::error(span, "a member has no name"));
        } else if !seen.insert(name.clone()) {
            let message = format!("`{name}` is listed twice");
            diagnostics.push(Diagnostic::error(span, message).help("take one out"));
        }
    }
    if let Some(wanted) = node.get("min_approvals")
        && let Some(count) = wanted.as_i64()
        && usize::try_from(count).is_ok_and(|count| count > members.len() && !members.is_empty())
    {
        let message = format!("{count} approvals needed, and the group has {}", members.len());
        diagnostics
            .push(Diagnostic::error(wanted.span, message).help("add members, or ask for fewer"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_all_taken_over() {
        assert_eq!(RULE_WORDS.last(), Some(&"never"));
        assert_eq!(ACTION_WORDS.len(), ACTIONS.len());
        assert_eq!(CLASS_WORDS.len(), CLASSES.len());
        assert_eq!(WAIT_WORDS.len(), ReplayBackoff::WORDS.len());
        for list in [ACTION_WORDS, CLASS_WORDS, PARTY_WORDS, IDENTITY_WORDS, WAIT_WORDS] {
            assert!(!list.contains(&""));
        }
    }
}
