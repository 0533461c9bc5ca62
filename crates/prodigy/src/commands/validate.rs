//! `prodigy validate`.

use std::path::{Path, PathBuf};

use prodigy_core::{
    diagnostic::{Diagnostic, Severity, Sources},
    workflow::{Body, Loaded, Rejected, Workflow},
};
use serde_json::json;

use crate::{
    cli::Args,
    error::CliError,
    exit::Exit,
    input,
    output::Output,
    report::{
        count,
        diagnostics::{Finding, human},
    },
    workflow_file,
};

/// Check workflow files without running them
///
/// All mistakes of all files are reported with their line and column. The exit
/// code is 0 if every file is valid and 9 if one is not.
#[derive(clap::Args, Debug)]
pub(crate) struct ValidateArgs {
    /// The workflow files to check
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// How to show mistakes
    #[arg(long, value_enum, default_value_t = Format::Human)]
    format: Format,
}

/// How mistakes are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For people, with the lines that are wrong
    Human,
    /// One JSON document on standard output
    Json,
    /// Annotations for GitHub Actions
    Github,
}

/// A file that was checked.
struct Checked {
    sources: Sources,
    diagnostics: Vec<Diagnostic>,
    /// What is in it, e.g. "3 steps"; only for valid files.
    summary: String,
}

impl Checked {
    fn count(&self, severity: Severity) -> usize {
        self.diagnostics.iter().filter(|diagnostic| diagnostic.severity == severity).count()
    }
}

pub(super) fn run(
    _args: &Args,
    command: &ValidateArgs,
    out: &mut Output,
) -> Result<Exit, CliError> {
    let mut exits = Vec::new();
    let mut findings = Vec::new();
    for path in &command.files {
        match check(path) {
            Ok(checked) => {
                let valid = checked.count(Severity::Error) == 0;
                exits.push(if valid { Exit::Success } else { Exit::Invalid });
                findings.extend(
                    checked.diagnostics.iter().map(|found| Finding::new(&checked.sources, found)),
                );
                if command.format == Format::Human {
                    show(path, &checked, out)?;
                }
            }
            Err(error) => {
                exits.push(error.exit());
                findings.push(Finding::of_file(path.display().to_string(), error.to_string()));
                if command.format == Format::Human {
                    out.note(format_args!("error: {error}"));
                }
            }
        }
    }
    let exit = overall(&exits);
    match command.format {
        Format::Human => {}
        Format::Json => {
            let valid = exit == Exit::Success;
            let document = json!({"schema_version": 1, "valid": valid, "diagnostics": findings});
            out.raw(format!("{document}\n").as_bytes())?;
        }
        Format::Github => {
            for finding in &findings {
                out.line(finding.github())?;
            }
        }
    }
    Ok(exit)
}

/// Checks one file, with everything it includes.
fn check(path: &Path) -> Result<Checked, input::Error> {
    let (parsed, _) = workflow_file::parse(path)?;
    Ok(match parsed {
        Ok(Loaded { workflow, sources, warnings }) => {
            Checked { sources, diagnostics: warnings, summary: summarize(&workflow) }
        }
        Err(Rejected { sources, diagnostics }) => {
            Checked { sources, diagnostics, summary: String::new() }
        }
    })
}

fn show(path: &Path, checked: &Checked, out: &mut Output) -> Result<(), CliError> {
    let color = out.color();
    for diagnostic in &checked.diagnostics {
        out.rendered(&format!("{}\n", human(&checked.sources, diagnostic, color)));
    }
    let errors = checked.count(Severity::Error);
    let warnings = match checked.count(Severity::Warning) {
        0 => String::new(),
        warnings => format!(", {}", count(warnings, "warning")),
    };
    let path = path.display();
    if errors == 0 {
        out.line(format_args!("{path}: ok ({}{warnings})", checked.summary))
    } else {
        out.line(format_args!("{path}: invalid ({}{warnings})", count(errors, "error")))
    }
}

/// Returns what is in a workflow.
fn summarize(workflow: &Workflow) -> String {
    let parts = match &workflow.body {
        Body::Sequential { steps } => return count(steps.len(), "step"),
        Body::MapReduce(parts) => parts,
    };
    let setup = parts.setup.as_ref().map_or(0, |setup| setup.phase.steps.len());
    let reduce = parts.reduce.as_ref().map_or(0, |phase| phase.steps.len());
    let phases: Vec<String> =
        [("setup", setup), ("map", parts.map.steps.len()), ("reduce", reduce)]
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|(name, steps)| format!("{name} {}", count(*steps, "step")))
            .collect();
    format!("mapreduce: {}", phases.join(", "))
}

/// Returns the exit code of the whole: an invalid file weighs more than one that cannot be read.
fn overall(exits: &[Exit]) -> Exit {
    [Exit::Invalid, Exit::Usage, Exit::Failure]
        .into_iter()
        .find(|exit| exits.contains(exit))
        .unwrap_or(Exit::Success)
}
