//! Files that were checked without being used, as people and programs are told.

use std::path::PathBuf;

use prodigy_core::{
    diagnostic::{Diagnostic, Severity, Sources},
    workflow::Rejected,
};
use serde_json::json;

use super::diagnostics::{DiagnosticView, render_diagnostic};
use crate::{error::CliError, exit::Exit, input, progress::plural, render::console::Console};

/// The format in which mistakes are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum DiagnosticFormat {
    /// For people, with the lines that are wrong
    Human,
    /// One JSON document on standard output
    Json,
    /// Annotations for GitHub Actions
    Github,
}

/// The result of checking a file.
pub(crate) struct FileCheck {
    /// The file, with everything that it includes.
    pub(crate) sources: Sources,
    /// The errors and warnings.
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// A summary of its content, e.g. "3 steps"; only for valid files.
    pub(crate) summary: String,
}

impl FileCheck {
    fn count(&self, severity: Severity) -> usize {
        self.diagnostics.iter().filter(|diagnostic| diagnostic.severity == severity).count()
    }
}

impl From<Rejected> for FileCheck {
    fn from(Rejected { sources, diagnostics }: Rejected) -> Self {
        Self { sources, diagnostics, summary: String::new() }
    }
}

/// Tells what was found in files, and returns how the command ends.
pub(crate) fn print_file_checks(
    files: Vec<(PathBuf, Result<FileCheck, input::Error>)>,
    format: DiagnosticFormat,
    out: &mut Console,
) -> Result<Exit, CliError> {
    let is_human = format == DiagnosticFormat::Human;
    let mut exits = Vec::new();
    let mut findings = Vec::new();
    for (path, checked) in files {
        let shown = path.display().to_string();
        match checked {
            Ok(checked) => {
                let is_valid = checked.count(Severity::Error) == 0;
                exits.push(if is_valid { Exit::Success } else { Exit::Invalid });
                let found = checked.diagnostics.iter();
                findings.extend(found.map(|found| DiagnosticView::new(&checked.sources, found)));
                if is_human {
                    show(&shown, &checked, out)?;
                }
            }
            Err(error) => {
                exits.push(error.exit());
                findings.push(DiagnosticView::of_file(shown, error.to_string()));
                if is_human {
                    out.note(format_args!("error: {error}"));
                }
            }
        }
    }
    let exit = overall(&exits);
    match format {
        DiagnosticFormat::Human => {}
        DiagnosticFormat::Json => {
            let valid = exit == Exit::Success;
            let document = json!({"schema_version": 1, "valid": valid, "diagnostics": findings});
            out.raw(format!("{document}\n").as_bytes())?;
        }
        DiagnosticFormat::Github => {
            for finding in &findings {
                out.line(finding.github())?;
            }
        }
    }
    Ok(exit)
}

fn show(path: &str, checked: &FileCheck, out: &mut Console) -> Result<(), CliError> {
    let color = out.color();
    for diagnostic in &checked.diagnostics {
        out.preformatted(&format!("{}\n", render_diagnostic(&checked.sources, diagnostic, color)));
    }
    let errors = checked.count(Severity::Error);
    let warnings = match checked.count(Severity::Warning) {
        0 => String::new(),
        warnings => format!(", {}", plural(warnings, "warning")),
    };
    if errors == 0 {
        out.line(format_args!("{path}: ok ({}{warnings})", checked.summary))
    } else {
        out.line(format_args!("{path}: invalid ({}{warnings})", plural(errors, "error")))
    }
}

/// Returns the exit code of the whole: an invalid file weighs more than one that cannot be read.
fn overall(exits: &[Exit]) -> Exit {
    [Exit::Invalid, Exit::Usage, Exit::Failure]
        .into_iter()
        .find(|exit| exits.contains(exit))
        .unwrap_or(Exit::Success)
}
