//! The state of a lowering: the sources, the diagnostics, the known names.

use std::collections::BTreeSet;

use crate::{
    diagnostic::{Diagnostic, ParseError, Severity, Sources, Span},
    yaml::{self, YamlNode},
};

/// The state of one lowering.
pub(super) struct Lower<'a> {
    /// The files that spans point into.
    pub(super) sources: &'a Sources,
    /// Every step id of the workflow.
    pub(super) ids: BTreeSet<String>,
    /// The declared parameters; `None` if the file declares none.
    pub(super) parameters: Option<BTreeSet<String>>,
    /// The variables that the setup phase captures.
    pub(super) setup_names: BTreeSet<String>,
    diagnostics: &'a mut Vec<Diagnostic>,
    reported: BTreeSet<Span>,
}

impl<'a> Lower<'a> {
    /// Starts a lowering; `diagnostics` holds what the structural check found.
    pub(super) fn new(sources: &'a Sources, diagnostics: &'a mut Vec<Diagnostic>) -> Self {
        let reported = diagnostics
            .iter()
            .filter(|diagnostic| diagnostic.severity == Severity::Error)
            .map(|diagnostic| diagnostic.span)
            .collect();
        Self {
            sources,
            ids: BTreeSet::new(),
            parameters: None,
            setup_names: BTreeSet::new(),
            diagnostics,
            reported,
        }
    }

    /// Reports something that the structural check does not look for.
    ///
    /// Where that check has an error at or inside the same place, it has the word.
    pub(super) fn report(&mut self, diagnostic: Diagnostic) {
        let span = diagnostic.span;
        let first = Span { end: 0, ..span };
        let last = Span { start: span.end, end: u32::MAX, ..span };
        let known = self.reported.range(first..=last).any(|other| other.end <= span.end);
        if !known {
            self.diagnostics.push(diagnostic);
        }
    }

    /// Reports a part that cannot be used and that the structural check should have reported.
    ///
    /// If that check found anything wrong, this is a consequence of it. If it found
    /// nothing, the two disagree, and the part must not be left out in silence.
    pub(super) fn unusable(&mut self, span: Span, message: impl Into<String>) {
        if self.reported.is_empty() {
            self.diagnostics.push(Diagnostic::error(span, message));
        }
    }

    /// Reports a value of the wrong kind, which the structural check should have reported.
    pub(super) fn wrong_kind(&mut self, node: &YamlNode, expected: &str) {
        self.unusable(node.span, format!("expected {expected}, found {}", node.kind_name()));
    }

    /// Reports what is wrong inside a scalar.
    pub(super) fn faults(&mut self, node: &YamlNode, faults: impl IntoIterator<Item = ParseError>) {
        let text = self.sources.get(node.span.file).map(|source| source.text.as_str());
        for fault in faults {
            let span = yaml::inner_span(node, text.unwrap_or_default(), fault.range);
            let mut diagnostic = Diagnostic::error(span, fault.message);
            diagnostic.help = fault.help;
            self.diagnostics.push(diagnostic);
        }
    }
}
