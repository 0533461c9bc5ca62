//! Checking the fields of what `${…}` refers to, as far as a load can see.

use std::ops::Range;

use super::context::Lower;
use crate::{
    diagnostic::ParseError,
    expr::Expr,
    nearest::did_you_mean,
    template::VarReference,
    vars::{PathSegment, VarPath},
    yaml::YamlNode,
};

const STEP: &[&str] = &["exit_code", "output", "status"];

const WORKFLOW: &[&str] = &["commits", "files_changed", "job_id", "name"];

const MAP: &[&str] = &[
    "cost_usd",
    "dlq",
    "duration",
    "error_types",
    "failed",
    "failure_patterns",
    "failure_rate",
    "results",
    "results_file",
    "skipped",
    "successful",
    "total",
    "total_items",
];

const MERGE: &[&str] = &[
    "commit_count",
    "commits",
    "file_list",
    "job_id",
    "session_id",
    "source_branch",
    "target_branch",
    "worktree",
];

/// A variable that a text mentions.
struct Mention<'m> {
    path: &'m VarPath,
    range: Range<usize>,
    has_default: bool,
}

impl Lower<'_> {
    /// Checks what a template or a script refers to.
    pub(super) fn check_references<'r>(
        &mut self,
        node: &YamlNode,
        references: impl Iterator<Item = &'r VarReference>,
    ) {
        let faults: Vec<ParseError> = references
            .filter_map(|reference| {
                let has_default = reference.default().is_some();
                self.fault_in(&Mention {
                    path: reference.path(),
                    range: reference.range(),
                    has_default,
                })
            })
            .collect();
        self.faults(node, faults);
    }

    /// Checks what an expression refers to.
    pub(super) fn check_paths(&mut self, node: &YamlNode, expression: &Expr) {
        let paths = expression.references();
        let mentions = paths.iter().map(|(path, range)| Mention {
            path,
            range: range.clone(),
            has_default: false,
        });
        let faults: Vec<ParseError> =
            mentions.filter_map(|mention| self.fault_in(&mention)).collect();
        self.faults(node, faults);
    }

    fn fault_in(&self, mention: &Mention<'_>) -> Option<ParseError> {
        let mut fields = mention.path.rest.iter().map_while(|segment| match segment {
            PathSegment::Field(name) => Some(name.as_str()),
            PathSegment::Index(_) => None,
        });
        let field = fields.next()?;
        let root = mention.path.root.as_str();
        // A default is for a value that may be missing; a name that nobody declares is a slip.
        match root {
            "steps" if !self.ids.contains(field) => {
                let ids = self.ids.iter().map(String::as_str);
                Some(fault(mention, format!("no step has the id `{field}`"), field, ids))
            }
            "steps" => unknown(mention, "a step", fields.next()?, STEP.iter().copied()),
            "params" => {
                let declared = self.parameters.as_ref()?;
                if declared.contains(field) {
                    return None;
                }
                let names = declared.iter().map(String::as_str);
                Some(fault(mention, format!("no parameter is called `{field}`"), field, names))
            }
            "setup" => {
                let names = self.setup_names.iter().map(String::as_str);
                unknown(mention, "`setup`", field, names)
            }
            "workflow" => unknown(mention, "`workflow`", field, WORKFLOW.iter().copied()),
            "map" => unknown(mention, "`map`", field, MAP.iter().copied()),
            "merge" => unknown(mention, "`merge`", field, MERGE.iter().copied()),
            _ => None,
        }
    }
}

/// Returns a fault if a field is not one of those that exist.
fn unknown<'k>(
    mention: &Mention<'_>,
    what: &str,
    field: &str,
    known: impl Iterator<Item = &'k str> + Clone,
) -> Option<ParseError> {
    if mention.has_default || known.clone().any(|name| name == field) {
        return None;
    }
    Some(fault(mention, format!("{what} has no `{field}`"), field, known))
}

fn fault<'k>(
    mention: &Mention<'_>,
    message: String,
    word: &str,
    known: impl Iterator<Item = &'k str>,
) -> ParseError {
    ParseError { range: mention.range.clone(), message, help: did_you_mean(word, known) }
}
