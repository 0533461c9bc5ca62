//! Reading templates, scripts and expressions, and checking what they refer to.

use super::{context::Lower, scope::Scope};
use crate::{
    diagnostic::{Diagnostic, Span},
    expr::{Expr, ExprContext, SortBy},
    json_path::JsonPath,
    json_schema::OutputSchema,
    template::{Script, ShellDialect, Template, TemplateKind},
    yaml::YamlNode,
};

impl Lower<'_> {
    /// Reads a template.
    pub(super) fn template(
        &mut self,
        node: &YamlNode,
        scope: &Scope,
        sink: TemplateKind,
    ) -> Option<Template> {
        let source = self.text(node)?;
        match Template::parse(&source, &scope.names, sink) {
            Ok(text) => {
                self.check_references(node, text.references());
                Some(text)
            }
            Err(faults) => {
                self.faults(node, faults);
                None
            }
        }
    }

    /// Reads a shell script.
    pub(super) fn script(
        &mut self,
        node: &YamlNode,
        scope: &Scope,
        dialect: ShellDialect,
        allow_raw: bool,
    ) -> Option<Script> {
        let source = self.filled(node)?;
        match Script::parse(&source, &scope.names, dialect, allow_raw) {
            Ok(script) => {
                self.check_references(node, script.references());
                Some(script)
            }
            Err(faults) => {
                self.faults(node, faults);
                None
            }
        }
    }

    /// Reads an expression.
    pub(super) fn expression(&mut self, node: &YamlNode, place: ExprContext) -> Option<Expr> {
        let source = self.filled(node)?;
        match Expr::parse(&source, place) {
            Ok(expression) => {
                // The paths of `filter` and the like may be fields of the item.
                if place == ExprContext::When {
                    self.check_paths(node, &expression);
                }
                Some(expression)
            }
            Err(fault) => {
                self.faults(node, [fault]);
                None
            }
        }
    }

    /// Reads sort keys.
    pub(super) fn sort_by(&mut self, node: &YamlNode) -> Option<SortBy> {
        let source = self.filled(node)?;
        match SortBy::parse(&source) {
            Ok(keys) => Some(keys),
            Err(fault) => {
                self.faults(node, [fault]);
                None
            }
        }
    }

    /// Reads a path into JSON.
    pub(super) fn json_path(&mut self, node: &YamlNode) -> Option<JsonPath> {
        let source = self.filled(node)?;
        match JsonPath::parse(&source) {
            Ok(path) => Some(path),
            Err(fault) => {
                self.faults(node, [fault]);
                None
            }
        }
    }

    /// Reads a JSON Schema.
    pub(super) fn schema(&mut self, node: &YamlNode) -> Option<OutputSchema> {
        match OutputSchema::parse(&node.to_json()) {
            Ok(schema) => Some(schema),
            Err(errors) => {
                for error in errors {
                    let span = at_pointer(node, &error.pointer);
                    let mut diagnostic = Diagnostic::error(span, error.message);
                    diagnostic.help = error.help;
                    self.report(diagnostic);
                }
                None
            }
        }
    }
}

/// Returns where a JSON pointer leads: to a key, or to an element of a list.
fn at_pointer(node: &YamlNode, pointer: &str) -> Span {
    let (mut node, mut span) = (node, node.span);
    for part in pointer.split('/').skip(1) {
        let name = part.replace("~1", "/").replace("~0", "~");
        let element = || node.as_sequence()?.get(name.parse::<usize>().ok()?);
        let Some(next) = node.get(&name).or_else(element) else { break };
        span = node.key_span(&name).unwrap_or(next.span);
        node = next;
    }
    span
}
