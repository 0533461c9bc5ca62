//! Reading a workflow file with everything it includes.

use super::{AgentConfig, Workflow, compose::compose, grammar, lower::lower};
use crate::diagnostic::{Diagnostic, Severity, Sources, Span};

/// A workflow that can be used.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// The workflow.
    pub workflow: Workflow,
    /// The files it was read from; a job stores them so that it can be resumed.
    pub sources: Sources,
    /// The warnings, in the order of the files.
    pub warnings: Vec<Diagnostic>,
}

/// A workflow that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// The files that were read.
    pub sources: Sources,
    /// Everything that is wrong, in the order of the files.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads a workflow file and all files that it includes.
///
/// `read` returns the text of a file, or the reason why there is none. It is given
/// paths joined to the directory of the file that names them, with `/` and without
/// `.` and `..` where possible; so a stored copy of the files can answer as well.
pub fn load(
    path: &str,
    read: &mut dyn FnMut(&str) -> Result<String, String>,
) -> Result<Loaded, Rejected> {
    let mut sources = Sources::default();
    let mut diagnostics = Vec::new();
    let root = compose(path, read, &mut sources, &mut diagnostics);
    let workflow = root.and_then(|root| {
        grammar::check(&root, &mut diagnostics);
        let workflow = lower(&root, &sources, &mut diagnostics);
        if workflow.is_none() && !diagnostics.iter().any(is_error) {
            // Every part that is left out was reported, so this says that a report is missing.
            diagnostics.push(Diagnostic::error(root.span, "the workflow has no usable body"));
        }
        if let Some(workflow) = &workflow {
            let kind_of = |name: &str| workflow.agents.get(name).map(AgentConfig::kind);
            diagnostics.extend(workflow.unsupported_options(&kind_of));
        }
        workflow
    });
    diagnostics.sort_by_key(|diagnostic| {
        let Span { file, start, end } = diagnostic.span;
        (file, start, end, std::cmp::Reverse(diagnostic.severity))
    });
    diagnostics.dedup();
    match workflow {
        Some(workflow) if !diagnostics.iter().any(is_error) => {
            Ok(Loaded { workflow, sources, warnings: diagnostics })
        }
        Some(_) | None => Err(Rejected { sources, diagnostics }),
    }
}

fn is_error(diagnostic: &Diagnostic) -> bool {
    diagnostic.severity == Severity::Error
}
