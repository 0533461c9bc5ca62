//! Which entries a rule is for.

use std::collections::BTreeSet;

use serde::Serialize;

use super::Subject;
use crate::failure::FailureKind;

/// Which entries a rule is for: those that fulfil everything it says. What is `None` is not asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Match {
    /// The reasons it is for: patterns and classes, resolved.
    #[serde(rename = "reason_code")]
    pub reason_codes: Option<BTreeSet<FailureKind>>,
    /// The step that failed: its name, its id or its path.
    pub step: Option<String>,
    /// The fewest attempts that came to an end.
    pub attempts_gte: Option<u32>,
    /// What the error signature begins with.
    pub signature: Option<String>,
}

impl Match {
    /// Makes a match of all entries with one reason.
    pub fn of(kind: FailureKind) -> Self {
        Self { reason_codes: Some(BTreeSet::from([kind])), ..Self::default() }
    }

    /// Returns whether an entry is one of those.
    pub fn is_match(&self, subject: &Subject<'_>) -> bool {
        let reason = self.reason_codes.as_ref();
        let step = self.step.as_deref();
        let signature = self.signature.as_deref();
        reason.is_none_or(|codes| codes.contains(&subject.reason_code))
            && step.is_none_or(|step| step == subject.step || step == subject.topic)
            && self.attempts_gte.is_none_or(|least| subject.attempts >= least)
            && signature.is_none_or(|start| subject.signature.starts_with(start))
    }

    /// Returns whether every entry of one reason that `other` is for is one of these, too.
    pub(super) fn covers(&self, other: &Self, kind: FailureKind) -> bool {
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

/// Returns whether a reason code fits a pattern, in which `*` stands for any text.
pub(super) fn fits(pattern: &str, code: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == code };
    let Some(mut code) = code.strip_prefix(start) else { return false };
    let mut rest = rest;
    // Each piece in between takes the first place where it fits, the last one the end.
    while let Some((piece, after)) = rest.split_once('*') {
        let Some(at) = code.find(piece) else { return false };
        code = code.get(at + piece.len()..).unwrap_or_default();
        rest = after;
    }
    code.ends_with(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        let cases = [
            ("timeout", "timeout", true),
            ("timeout", "timeouts", false),
            ("*", "timeout", true),
            ("unknown_*", "unknown_commit_state", true),
            ("*_error", "network_error", true),
            ("*_error", "network_errors", false),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("a*b*c", "axxbxxc", true),
            ("a*b*c", "acb", false),
            ("**", "x", true),
            ("", "x", false),
        ];
        for (pattern, code, is_fit) in cases {
            assert_eq!(fits(pattern, code), is_fit, "{pattern} {code}");
        }
    }
}
