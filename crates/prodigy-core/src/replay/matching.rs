//! Which entries a rule is for.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::EntryFacts;
use crate::failure::ReasonCode;

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
    pub(super) fn covers(&self, other: &Self, kind: ReasonCode) -> bool {
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
