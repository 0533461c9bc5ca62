//! Reading a policy file.

use std::{collections::BTreeMap, num::NonZeroU32, time::Duration};

use super::{
    builtin_rules, lint, match_reader,
    schema::POLICY,
    words::{ACTIONS, IDENTITIES, PARTIES},
};
use crate::{
    diagnostic::{Diagnostic, Severity, Sources, Span},
    duration,
    nearest::did_you_mean,
    replay::{
        AlertRules, ApproverGroup, IdentityKind, ReplayAction, ReplayBackoff, ReplayLimits,
        ReplayPolicy, ReplayRule, ReplayVelocity, RuleMatch,
    },
    workflow::{Rejected, grammar::check_record},
    yaml::{self, YamlNode},
};

/// The maximum number of rules in a policy. Every decision tries one after the other.
const MOST_RULES: usize = 1_000;

/// A policy that can be used.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadedPolicy {
    /// The policy.
    pub policy: ReplayPolicy,
    /// The file it was read from.
    pub sources: Sources,
    /// The warnings, in the order of the file.
    pub warnings: Vec<Diagnostic>,
    /// The steps that rules are for, and where they stand in the file.
    pub steps: Vec<(Span, String)>,
}

impl ReplayPolicy {
    /// Reads a policy file; `path` is what messages call it.
    ///
    /// The rules of the file come first. Behind them stands its `defaults`, or the built-in rule
    /// for each reason code.
    pub fn read(path: &str, text: &str) -> Result<LoadedPolicy, Rejected> {
        let mut sources = Sources::default();
        let file = sources.add(path, text);
        let mut reader = PolicyReader { diagnostics: Vec::new() };
        let mut steps = Vec::new();
        let policy = match yaml::parse(text, file) {
            Ok(root) => {
                steps = named_steps(&root);
                Some(reader.policy(&root))
            }
            Err(diagnostics) => {
                reader.diagnostics = diagnostics;
                None
            }
        };
        let mut diagnostics = reader.diagnostics;
        diagnostics.sort_by_key(|found| (found.span, std::cmp::Reverse(found.severity)));
        diagnostics.dedup();
        match policy {
            Some(policy) if !is_wrong(&diagnostics) => {
                Ok(LoadedPolicy { policy, sources, warnings: diagnostics, steps })
            }
            Some(_) | None => Err(Rejected { sources, diagnostics }),
        }
    }
}

/// Collects what is wrong while a file is read.
///
/// The structure is checked first, with the tables. What is not as they say was reported then
/// and is passed over here.
pub(crate) struct PolicyReader {
    pub(crate) diagnostics: Vec<Diagnostic>,
}

impl PolicyReader {
    pub(crate) fn error(&mut self, span: Span, message: impl Into<String>, help: Option<String>) {
        self.diagnostics.push(Diagnostic { help, ..Diagnostic::error(span, message) });
    }

    fn policy(&mut self, root: &YamlNode) -> ReplayPolicy {
        check_record(root, &POLICY, &mut self.diagnostics);
        let groups = self.groups(root);
        let nodes = root.get("dlq_rules").and_then(YamlNode::as_sequence).unwrap_or_default();
        let mut rules: Vec<ReplayRule> = Vec::new();
        if let Some(node) = nodes.get(MOST_RULES) {
            let message = format!("a policy has at most {MOST_RULES} rules");
            let help = "`reason_code`, with lists and `*`, and `class` say more in one rule";
            self.error(node.span, message, Some(help.to_owned()));
        }
        for node in nodes.iter().take(MOST_RULES) {
            let number = rules.len() + 1;
            let rule = self.rule(node, number, &rules);
            rules.push(rule);
        }
        if let Some(node) = root.get("defaults") {
            rules.push(Self::outcome(node, "defaults".to_owned(), RuleMatch::default()));
        } else {
            rules.extend(builtin_rules::builtin_rules());
        }
        let (limits, velocity) = (limits(root), self.velocity(root));
        let alerts = self.alerts(root);
        self.groups_of_rules(root, &groups);
        // What follows from a mistake is no news.
        if !is_wrong(&self.diagnostics) {
            self.lint(root, &rules);
        }
        ReplayPolicy::new(rules, limits, velocity, groups, alerts)
    }

    /// Points out what is allowed and of no use.
    fn lint(&mut self, root: &YamlNode, rules: &[ReplayRule]) {
        for (at, node) in list(root.get("dlq_rules")).enumerate() {
            let warnings =
                [lint::lint_unreachable(rules, at), lint::lint_never_replayed(rules, at)];
            for warning in warnings.into_iter().flatten() {
                let span = node.get("match").map_or(node.span, |node| node.span);
                self.diagnostics.push(Diagnostic { span, ..warning });
            }
        }
        let named: Vec<_> = named_groups(root).map(|(_, name)| name).collect();
        for (key, node) in
            root.get("approver_groups").and_then(YamlNode::as_mapping).unwrap_or_default()
        {
            if !named.contains(&key.text) {
                let message = format!("no rule asks group `{}`", key.text);
                let help = format!("name it with `approver_group: {}`, or take it out", key.text);
                self.diagnostics.push(Diagnostic::warning(key.span, message).help(help));
            } else if list(node.get("members")).next().is_none() {
                self.report_empty_group(key.span, &key.text);
            }
        }
    }

    fn rule(&mut self, node: &YamlNode, number: usize, before: &[ReplayRule]) -> ReplayRule {
        let name = self.name(node, number, before);
        let matches = match node.get("match") {
            Some(node) => match_reader::read_match(self, node),
            None => RuleMatch::default(),
        };
        Self::outcome(node, name, matches)
    }

    /// Returns what a rule is called.
    fn name(&mut self, node: &YamlNode, number: usize, before: &[ReplayRule]) -> String {
        let id = node.get("id").and_then(|id| Some((id.span, id.scalar_text()?)));
        let Some((span, id)) = id else { return format!("rule {number}") };
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if id.is_empty() || !id.chars().all(is_allowed) {
            let help = "use letters, digits, `-`, `_` and `.`";
            self.error(span, "this cannot be the id of a rule", Some(help.to_owned()));
        } else if id == "defaults" {
            let help = "the rule for all other dead letters has this name";
            self.error(span, "a rule cannot have the id `defaults`", Some(help.to_owned()));
        } else if before.iter().any(|rule| rule.name == id) {
            let help = "each rule has a name of its own".to_owned();
            self.error(span, format!("two rules have the id `{id}`"), Some(help));
        }
        id
    }

    /// Reads what becomes of dead letters.
    fn outcome(node: &YamlNode, name: String, matches: RuleMatch) -> ReplayRule {
        let action = |key| read_word(node.get(key), ACTIONS);
        let plain =
            ReplayRule::new(name, matches, action("action").unwrap_or(ReplayAction::ManualReview));
        ReplayRule {
            max_replays: read_u32(node.get("max_replays")),
            backoff: read_word(node.get("backoff"), ReplayBackoff::WORDS).unwrap_or_default(),
            owner: text(node.get("owner")),
            approver_group: text(node.get("approver_group")),
            on_absent: action("on_absent").unwrap_or(plain.on_absent),
            on_committed: action("on_committed").unwrap_or(plain.on_committed),
            on_partial: action("on_partial").unwrap_or(plain.on_partial),
            ..plain
        }
    }

    fn groups(&mut self, root: &YamlNode) -> BTreeMap<String, ApproverGroup> {
        let entries =
            root.get("approver_groups").and_then(YamlNode::as_mapping).unwrap_or_default();
        entries.iter().map(|(key, node)| (key.text.clone(), self.group(node))).collect()
    }

    fn group(&mut self, node: &YamlNode) -> ApproverGroup {
        let plain = ApproverGroup::default();
        let ttl = self.duration(node.get("ttl"));
        if let (Some(node), Some(Duration::ZERO)) = (node.get("ttl"), ttl) {
            let help = "an agreement has to hold until the replay begins".to_owned();
            self.error(node.span, "`ttl` must be longer than nothing", Some(help));
        }
        let mut distinct_from = plain.distinct_from;
        if let Some(parties) = node.get("distinct_from") {
            let parties = list(Some(parties)).filter_map(|node| read_word(Some(node), PARTIES));
            distinct_from = parties.collect();
        }
        distinct_from.sort_unstable();
        distinct_from.dedup();
        ApproverGroup {
            members: list(node.get("members")).filter_map(YamlNode::scalar_text).collect(),
            min_approvals: count(node.get("min_approvals")).unwrap_or(plain.min_approvals),
            ttl: ttl.unwrap_or(plain.ttl),
            distinct_from,
            identity: read_word(node.get("identity"), IDENTITIES).unwrap_or(IdentityKind::Asserted),
            allowed_signers: text(node.get("allowed_signers")),
            signers_sha256: None,
        }
    }

    /// Points out that a group has no members.
    fn report_empty_group(&mut self, span: Span, name: &str) {
        let message = format!("group `{name}` has no members, so nobody may approve");
        let help = format!(
            "name them: `approver_groups: {{ {name}: {{ members: [alice@example.com] }} }}`"
        );
        self.diagnostics.push(Diagnostic::warning(span, message).help(help));
    }

    /// Reports groups that rules name and nobody describes.
    fn groups_of_rules(&mut self, root: &YamlNode, groups: &BTreeMap<String, ApproverGroup>) {
        let is_described = root.get("approver_groups").is_some();
        for (span, name) in named_groups(root).filter(|(_, name)| !groups.contains_key(name)) {
            if is_described {
                let help = did_you_mean(&name, groups.keys().map(String::as_str))
                    .unwrap_or_else(|| format!("describe `{name}` in `approver_groups`"));
                self.error(span, format!("there is no group `{name}`"), Some(help));
            } else {
                self.report_empty_group(span, &name);
            }
        }
    }

    fn velocity(&mut self, root: &YamlNode) -> ReplayVelocity {
        let Some(node) = root.get("velocity") else { return ReplayVelocity::default() };
        let rate = node.get("rate").and_then(|node| Some((node.span, node.scalar_text()?)));
        let rate = rate.and_then(|(span, text)| match text.parse() {
            Ok(rate) => Some(rate),
            Err(message) => {
                self.error(span, message, None);
                None
            }
        });
        ReplayVelocity {
            rate,
            concurrency: count(node.get("concurrency")),
            canary: list(node.get("canary")).filter_map(|node| count(Some(node))).collect(),
            abort_failure_ratio: node.get("abort_failure_ratio").and_then(YamlNode::as_f64),
        }
    }

    fn alerts(&mut self, root: &YamlNode) -> AlertRules {
        let Some(node) = root.get("alerts") else { return AlertRules::default() };
        let usual = AlertRules::recommended();
        let number = |key| node.get(key).and_then(YamlNode::as_f64);
        AlertRules {
            growth_per_min: number("growth_per_min").or(usual.growth_per_min),
            denial_ratio: number("denial_ratio").or(usual.denial_ratio),
            unknown_commit_age: self
                .duration(node.get("unknown_commit_age"))
                .or(usual.unknown_commit_age),
            unclassified_ratio: number("unclassified_ratio").or(usual.unclassified_ratio),
            oldest: self.duration(node.get("oldest")).or(usual.oldest),
            hook: text(node.get("hook")),
        }
    }

    /// Returns a duration; what is none is reported.
    pub(crate) fn duration(&mut self, node: Option<&YamlNode>) -> Option<Duration> {
        let node = node?;
        match duration::parse(&node.scalar_text()?) {
            Ok(duration) => Some(duration),
            Err(message) => {
                self.error(node.span, message, None);
                None
            }
        }
    }
}

fn is_wrong(diagnostics: &[Diagnostic]) -> bool {
    diagnostics.iter().any(|found| found.severity == Severity::Error)
}

/// Returns the groups that rules name, and where.
fn named_groups(root: &YamlNode) -> impl Iterator<Item = (Span, String)> {
    let rules = list(root.get("dlq_rules")).chain(root.get("defaults"));
    let named = rules.filter_map(|node| node.get("approver_group"));
    named.filter_map(|node| Some((node.span, node.scalar_text()?)))
}

/// Returns the steps that rules are for, and where they stand.
fn named_steps(root: &YamlNode) -> Vec<(Span, String)> {
    let steps = list(root.get("dlq_rules")).filter_map(|node| node.get("match")?.get("step"));
    steps.filter_map(|node| Some((node.span, node.scalar_text()?))).collect()
}

fn limits(root: &YamlNode) -> ReplayLimits {
    let node = root.get("limits");
    let get = |key| node.and_then(|node| node.get(key));
    ReplayLimits {
        replays_per_item: read_u32(get("replays_per_item")),
        replays_per_signature: read_u32(get("replays_per_signature")),
        cost_usd: get("cost_usd").and_then(YamlNode::as_f64),
    }
}

/// Returns the value of a word, if it is one of the table's.
pub(crate) fn read_word<T: Copy>(node: Option<&YamlNode>, table: &[(&str, T)]) -> Option<T> {
    let word = node?.scalar_text()?;
    table.iter().find(|(known, _)| *known == word).map(|(_, value)| *value)
}

/// Returns text, if there is some.
pub(crate) fn text(node: Option<&YamlNode>) -> Option<String> {
    node?.scalar_text()
}

/// Returns a whole number that is not negative.
pub(crate) fn read_u32(node: Option<&YamlNode>) -> Option<u32> {
    u32::try_from(node?.as_i64()?).ok()
}

fn count(node: Option<&YamlNode>) -> Option<NonZeroU32> {
    NonZeroU32::new(read_u32(node)?)
}

/// Returns the elements of a list.
pub(crate) fn list(node: Option<&YamlNode>) -> impl Iterator<Item = &YamlNode> {
    node.and_then(YamlNode::as_sequence).unwrap_or_default().iter()
}
