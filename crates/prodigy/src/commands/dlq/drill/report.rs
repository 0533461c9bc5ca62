//! The findings of a rehearsal, each with its expectation.

use std::fmt::Display;

use serde_json::{Value, json};

/// The findings of a rehearsal.
#[derive(Debug, Default)]
pub(crate) struct DrillReport {
    findings: Vec<DrillCheck>,
}

#[derive(Debug)]
struct DrillCheck {
    what: String,
    expected: String,
    actual: String,
}

impl DrillCheck {
    fn has_passed(&self) -> bool {
        self.expected == self.actual
    }
}

impl DrillReport {
    /// Adds a finding with its expected and actual value.
    pub(crate) fn expect(&mut self, what: &str, expected: impl Display, actual: impl Display) {
        let (expected, actual) = (expected.to_string(), actual.to_string());
        self.findings.push(DrillCheck { what: what.to_owned(), expected, actual });
    }

    /// Returns whether everything was as it must be.
    pub(crate) fn has_passed(&self) -> bool {
        !self.findings.is_empty() && self.findings.iter().all(DrillCheck::has_passed)
    }

    /// Returns what was found, for people.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        self.findings.iter().map(|finding| {
            let DrillCheck { what, expected, actual } = finding;
            if finding.has_passed() {
                format!("✓ {what}: {actual}")
            } else {
                format!("✗ {what}: {actual}, and not {expected}")
            }
        })
    }

    /// Returns what was found, for programs.
    pub(crate) fn documents(&self) -> Vec<Value> {
        let document = |finding: &DrillCheck| {
            let DrillCheck { what, expected, actual } = finding;
            let ok = finding.has_passed();
            json!({ "what": what, "expected": expected, "actual": actual, "ok": ok })
        };
        self.findings.iter().map(document).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_that_is_not_as_it_must_be_is_enough() {
        let mut findings = DrillReport::default();
        assert!(!findings.has_passed(), "nothing was looked at");
        findings.expect("effects", 1, 1);
        assert!(findings.has_passed());
        findings.expect("status", "open", "dropped");
        assert!(!findings.has_passed());
        let lines: Vec<_> = findings.lines().collect();
        assert_eq!(lines, ["✓ effects: 1", "✗ status: dropped, and not open"]);
    }
}
