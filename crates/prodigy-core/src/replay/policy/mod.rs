//! The replay policy for dead letters.

pub(crate) mod backoff;
pub(crate) mod builtin_rules;
pub(crate) mod lint;
pub(crate) mod match_reader;
pub(crate) mod rate;
pub(crate) mod reader;
pub(crate) mod reference;
pub(crate) mod schema;
pub(crate) mod snapshot;
pub(crate) mod test_case;
pub(crate) mod words;

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU32,
    sync::LazyLock,
    time::Duration,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{EntryFacts, IdentityKind, Rate, ReplayBackoff};
use crate::{event::OwnerRule, failure::ReasonCode};

/// The rules that decide over dead letters, with every default spelled out.
///
/// A policy is not changed once it is made: its snapshot names exactly what it says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReplayPolicy {
    /// The rules. The first that matches decides.
    pub rules: Vec<ReplayRule>,
    /// The limits on the number and the cost of replays.
    pub limits: ReplayLimits,
    /// The limits on the speed of replays.
    pub velocity: ReplayVelocity,
    /// The groups of approvers, by name.
    #[serde(rename = "approver_groups")]
    pub groups: BTreeMap<String, ApproverGroup>,
    /// The alert thresholds.
    pub alerts: AlertRules,
    /// The name of all of the above.
    #[serde(skip)]
    snapshot: String,
}

/// The action for the entries that match.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReplayRule {
    /// The name of the rule: its `id`, or its place in the file.
    pub name: String,
    /// Which entries it is for.
    #[serde(rename = "match")]
    pub matches: RuleMatch,
    /// The action for them.
    pub action: ReplayAction,
    /// The maximum number of replays of one entry.
    pub max_replays: Option<u32>,
    /// The backoff after a failed replay.
    pub backoff: ReplayBackoff,
    /// True if these two hold only for replays that no user asked for, as in the built-in rules,
    /// whose names identify them.
    #[serde(skip)]
    pub is_lenient: bool,
    /// The owner of the entries.
    pub owner: Option<String>,
    /// The group that may approve a replay.
    pub approver_group: Option<String>,
    /// With `check_then_replay`: what happens if nothing was changed outside.
    pub on_absent: ReplayAction,
    /// With `check_then_replay`: what happens if everything was changed outside.
    pub on_committed: ReplayAction,
    /// With `check_then_replay`: what happens if some of it was changed outside.
    pub on_partial: ReplayAction,
}

/// The action of a rule on an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplayAction {
    /// It is replayed.
    AutoReplay,
    /// It is found out what was changed outside, and then decided.
    CheckThenReplay,
    /// It is replayed once somebody has agreed.
    RequireApproval,
    /// A person looks at it and decides.
    ManualReview,
    /// It is kept back until something was changed.
    Quarantine,
    /// It is never replayed.
    Never,
    /// The entry is marked as done without running again: its side effects are there.
    Adopt,
}

/// The limits on the number and the cost of replays. `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ReplayLimits {
    /// The maximum number of replays of one entry.
    pub replays_per_item: Option<u32>,
    /// The maximum number of replays of all entries of one signature together.
    pub replays_per_signature: Option<u32>,
    /// The maximum cost of all replays of a job together.
    pub cost_usd: Option<f64>,
}

/// The limits on the speed of replays. A field that is not set is no limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ReplayVelocity {
    /// The maximum number of replays that start within a period.
    pub rate: Option<Rate>,
    /// The maximum number of replays in flight.
    pub concurrency: Option<NonZeroU32>,
    /// The sizes of the first waves of a signature; empty is all at once.
    pub canary: Vec<NonZeroU32>,
    /// The share of failed replays that ends the replays of a signature.
    pub abort_failure_ratio: Option<f64>,
}

/// A group of approvers, and the requirements of an approval.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ApproverGroup {
    /// The members; as long as there are none, no approval is possible.
    pub members: Vec<String>,
    /// The number of approvals needed.
    pub min_approvals: NonZeroU32,
    /// The time for which a request and its approvals are valid.
    #[serde(serialize_with = "snapshot::seconds")]
    pub ttl: Duration,
    /// Whose own agreement does not count.
    pub distinct_from: Vec<ReplayRole>,
    /// The proof of identity that an approver must give.
    pub identity: IdentityKind,
    /// The file with the keys of people, for signatures.
    pub allowed_signers: Option<String>,
    /// The SHA-256 of that file; left out if it is not known, or not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signers_sha256: Option<String>,
}

/// Somebody with a part in a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplayRole {
    /// Whoever started the job.
    Submitter,
    /// Whoever asks for the replay.
    Replayer,
}

/// The alert thresholds. `None` turns an alert off.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct AlertRules {
    /// The number of new entries per minute.
    pub growth_per_min: Option<f64>,
    /// Which share of the replays that were asked for is denied.
    pub denial_ratio: Option<f64>,
    /// The time for which the side effects of an entry are unknown.
    #[serde(serialize_with = "snapshot::optional_seconds")]
    pub unknown_commit_age: Option<Duration>,
    /// Which share of the entries has no known reason.
    pub unclassified_ratio: Option<f64>,
    /// The age of the oldest entry.
    #[serde(serialize_with = "snapshot::optional_seconds")]
    pub oldest: Option<Duration>,
    /// The command that is run with an alert.
    pub hook: Option<String>,
}

impl ReplayPolicy {
    /// Makes a policy of its parts.
    pub fn new(
        rules: Vec<ReplayRule>,
        limits: ReplayLimits,
        velocity: ReplayVelocity,
        groups: BTreeMap<String, ApproverGroup>,
        alerts: AlertRules,
    ) -> Self {
        let snapshot = String::new();
        let mut policy = Self { rules, limits, velocity, groups, alerts, snapshot };
        policy.snapshot = snapshot::policy_snapshot(&policy);
        policy
    }

    /// Returns the name of the policy: `sha256:` and the SHA-256 of its canonical form, the
    /// defaults included. The same rules have the same name, however they are written.
    pub fn snapshot(&self) -> &str {
        &self.snapshot
    }

    /// Returns the rule that decides over an entry: the first that matches.
    pub fn rule(&self, subject: &EntryFacts<'_>) -> &ReplayRule {
        // Every policy that was read ends with rules for all reason codes.
        static NONE: LazyLock<ReplayRule> = LazyLock::new(|| {
            ReplayRule::new("no rule", RuleMatch::default(), ReplayAction::ManualReview)
        });
        self.rules.iter().find(|rule| rule.matches.is_match(subject)).unwrap_or(&NONE)
    }

    /// Returns who may agree to a replay by this rule.
    ///
    /// If the rule names no group, anybody may who did not start the job; if it names one
    /// without members, nobody may.
    pub fn group(&self, rule: &ReplayRule) -> &ApproverGroup {
        static UNDESCRIBED: LazyLock<ApproverGroup> = LazyLock::new(ApproverGroup::default);
        let named = rule.approver_group.as_ref().and_then(|name| self.groups.get(name));
        named.unwrap_or(&UNDESCRIBED)
    }

    /// Returns the group that a rule names and that has no members: nobody may agree.
    pub fn group_without_members<'a>(&self, rule: &'a ReplayRule) -> Option<&'a str> {
        let name = rule.approver_group.as_deref()?;
        self.group(rule).members.is_empty().then_some(name)
    }

    /// Returns the rules that say who looks after entries, with those before them: the first that
    /// matches decides.
    pub fn owner_rules(&self) -> Vec<OwnerRule> {
        let last = self.rules.iter().rposition(|rule| rule.owner.is_some());
        let rules = self.rules.iter().take(last.map_or(0, |last| last + 1));
        let owner_rule = |rule: &ReplayRule| OwnerRule {
            matches: rule.matches.clone(),
            owner: rule.owner.clone(),
        };
        rules.map(owner_rule).collect()
    }

    /// Returns the files that groups name with the keys of people, each once.
    pub fn signers_files(&self) -> BTreeSet<&str> {
        self.groups.values().filter_map(|group| group.allowed_signers.as_deref()).collect()
    }

    /// Returns the same policy with the content of the files that groups name with the keys of
    /// people: `sha256` returns that of a file, if it is there. The snapshot names it as well.
    #[must_use]
    pub fn with_signers(mut self, sha256: impl Fn(&str) -> Option<String>) -> Self {
        for group in self.groups.values_mut() {
            group.signers_sha256 = group.allowed_signers.as_deref().and_then(&sha256);
        }
        self.snapshot = snapshot::policy_snapshot(&self);
        self
    }
}

impl ReplayRule {
    /// Makes a rule that says nothing but what becomes of the entries.
    pub fn new(name: impl Into<String>, matches: RuleMatch, action: ReplayAction) -> Self {
        Self {
            name: name.into(),
            matches,
            action,
            max_replays: None,
            backoff: ReplayBackoff::None,
            is_lenient: false,
            owner: None,
            approver_group: None,
            on_absent: ReplayAction::AutoReplay,
            on_committed: ReplayAction::Adopt,
            on_partial: ReplayAction::ManualReview,
        }
    }
}

impl ReplayAction {
    /// Returns the word for it in a policy.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AutoReplay => "auto_replay",
            Self::CheckThenReplay => "check_then_replay",
            Self::RequireApproval => "require_approval",
            Self::ManualReview => "manual_review",
            Self::Quarantine => "quarantine",
            Self::Never => "never",
            Self::Adopt => "adopt",
        }
    }

    /// Returns what it means, for the reference.
    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Self::AutoReplay => "It is replayed.",
            Self::CheckThenReplay => {
                "It is found out what was changed outside, and then `on_absent`, `on_committed` or \
                 `on_partial` says more. What cannot be found out is left to a person."
            }
            Self::RequireApproval => "It is replayed once somebody has agreed.",
            Self::ManualReview => "A person looks at it and decides.",
            Self::Quarantine => {
                "It is quarantined until the item, the workflow, a tool or the environment \
                 changes, or somebody releases it."
            }
            Self::Never => "It is never replayed.",
            Self::Adopt => {
                "What was changed outside counts as the work done; nothing runs again. Only in \
                 `on_committed`."
            }
        }
    }
}

impl Default for ApproverGroup {
    /// One person who did not start the job, for half an hour.
    fn default() -> Self {
        Self {
            members: Vec::new(),
            min_approvals: NonZeroU32::MIN,
            ttl: Duration::from_secs(30 * 60),
            distinct_from: vec![ReplayRole::Submitter],
            identity: IdentityKind::Asserted,
            allowed_signers: None,
            signers_sha256: None,
        }
    }
}

/// Which entries a rule is for: those that fulfil everything it says. What is `None` is not asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RuleMatch {
    /// The reasons it is for: patterns and classes, resolved.
    #[serde(rename = "reason_code")]
    pub reason_codes: Option<BTreeSet<ReasonCode>>,
    /// The step that failed: its name, its id or its path.
    pub step: Option<String>,
    /// The fewest attempts that came to an end.
    pub attempts_gte: Option<u32>,
    /// The prefix of the error signature.
    pub signature: Option<String>,
}

impl RuleMatch {
    /// Makes a match of all entries with one reason.
    pub fn of(kind: ReasonCode) -> Self {
        Self { reason_codes: Some(BTreeSet::from([kind])), ..Self::default() }
    }

    /// Returns whether an entry is one of those.
    pub fn is_match(&self, subject: &EntryFacts<'_>) -> bool {
        let EntryFacts { reason_code, step, topic, attempts, signature, .. } = *subject;
        self.matches_entry(reason_code, [step, topic], attempts, signature)
    }

    /// Returns whether an entry is one of those, by its reason, the name and the path of its step,
    /// its attempts and its signature.
    pub(crate) fn matches_entry(
        &self,
        reason_code: ReasonCode,
        steps: [&str; 2],
        attempts: u32,
        signature: &str,
    ) -> bool {
        self.reason_codes.as_ref().is_none_or(|codes| codes.contains(&reason_code))
            && self.step.as_deref().is_none_or(|step| steps.contains(&step))
            && self.attempts_gte.is_none_or(|least| attempts >= least)
            && self.signature.as_deref().is_none_or(|start| signature.starts_with(start))
    }

    /// Returns whether every entry of one reason that `other` is for is one of these, too.
    pub(crate) fn covers(&self, other: &Self, kind: ReasonCode) -> bool {
        let same_or_any =
            |wide: &Option<String>, narrow: &Option<String>| wide.is_none() || wide == narrow;
        let signature = match (&self.signature, &other.signature) {
            (None, _) => true,
            (Some(wide), Some(narrow)) => narrow.starts_with(wide.as_str()),
            (Some(_), None) => false,
        };
        self.reason_codes.as_ref().is_none_or(|codes| codes.contains(&kind))
            && same_or_any(&self.step, &other.step)
            && self.attempts_gte.unwrap_or(0) <= other.attempts_gte.unwrap_or(0)
            && signature
    }
}
