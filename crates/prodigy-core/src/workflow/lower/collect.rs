//! Finding all names of a workflow before any text is read.
//!
//! The name in `${x}` is a variable if any step of the phase captures it, so
//! the captured names and the step ids are collected first.

use std::collections::BTreeSet;

use super::{context::Lower, scope::namespaces};
use crate::{
    diagnostic::{Diagnostic, Span},
    yaml::{YamlNode, YamlValue},
};

/// The names that some steps define.
#[derive(Default)]
pub(super) struct Found {
    captures: Vec<(String, Span)>,
    ids: Vec<(String, Span)>,
}

impl Found {
    /// Collects the names of some steps, at any depth.
    pub(super) fn of(node: Option<&YamlNode>) -> Self {
        let mut found = Self::default();
        if let Some(node) = node {
            found.walk(node);
        }
        found
    }

    /// Returns the captured names.
    pub(super) fn captures(&self) -> impl Iterator<Item = &String> {
        self.captures.iter().map(|(name, _)| name)
    }

    fn walk(&mut self, node: &YamlNode) {
        for entry in node.as_sequence().unwrap_or_default() {
            self.walk(entry);
        }
        for (key, value) in node.as_mapping().unwrap_or_default() {
            match key.text.as_str() {
                "id" => self.ids.extend(value.scalar_text().map(|id| (id, value.span))),
                "capture" | "capture_output" | "capture_outputs" => self.capture(value),
                "on_failure" | "on_success" | "on_incomplete" | "validate" | "commands"
                | "foreach" | "do" | "agent_template" | "worktree" | "setup" => self.walk(value),
                "on_exit_code" | "handlers" => {
                    for (_, steps) in value.as_mapping().unwrap_or_default() {
                        self.walk(steps);
                    }
                }
                _ => {}
            }
        }
    }

    fn capture(&mut self, node: &YamlNode) {
        match &node.value {
            YamlValue::String(name) => self.captures.push((name.clone(), node.span)),
            YamlValue::Mapping(entries) => {
                self.captures.extend(entries.iter().map(|(key, _)| (key.text.clone(), key.span)));
            }
            // `capture_output: true` names nothing; the rest is a structural error.
            YamlValue::Null
            | YamlValue::Bool(_)
            | YamlValue::Integer(_)
            | YamlValue::Float(_)
            | YamlValue::Sequence(_) => {}
        }
    }
}

impl Lower<'_> {
    /// Checks the collected names and remembers the step ids.
    pub(super) fn check_names<'f>(&mut self, phases: impl IntoIterator<Item = &'f Found>) {
        let taken = namespaces();
        let mut ids: BTreeSet<String> = BTreeSet::new();
        for found in phases {
            for (name, span) in &found.captures {
                if taken.contains(name.as_str()) {
                    let message = format!("the variable `{name}` would hide `${{{name}}}`");
                    self.report(Diagnostic::error(*span, message).help("choose another name"));
                }
            }
            for (id, span) in &found.ids {
                if !ids.insert(id.clone()) {
                    let message = format!("there is another step with the id `{id}`");
                    self.report(Diagnostic::error(*span, message));
                }
            }
        }
        self.ids = ids;
    }
}
