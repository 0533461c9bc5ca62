//! `prodigy validate`.

use std::path::{Path, PathBuf};

use prodigy_core::workflow::{Body, Loaded, Workflow};

use crate::{
    cli::Cli,
    commands::prepare::{agents, workflow_file},
    config::{Config, repo_root},
    error::CliError,
    exit::Exit,
    input,
    progress::plural,
    render::{
        console::Console,
        file_check::{DiagnosticFormat, FileCheck, print_file_checks},
    },
    trust::{self, RepoContent},
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

    /// Show mistakes in this format
    #[arg(long, value_enum, default_value_t = DiagnosticFormat::Human)]
    format: DiagnosticFormat,
}

pub(crate) fn run(args: &Cli, command: &ValidateArgs, out: &mut Console) -> Result<Exit, CliError> {
    let here = std::env::current_dir().unwrap_or_default();
    let root = repo_root(&here);
    // Nothing of it runs here: names and kinds of agents count, trusted or not.
    let config = Config::load(args, root.as_deref())?.if_trusted();
    if let Some(root) = &root {
        trust::note_untrusted(&RepoContent::read(root), out);
    }
    let mut files = Vec::new();
    for path in &command.files {
        // The file may be meant for another repository, with agents of its own.
        let place = here.join(path);
        let other = place.parent().and_then(repo_root).filter(|other| Some(other) != root.as_ref());
        let other = other.map(|other| Config::load(args, Some(&other))).transpose()?;
        let other = other.map(Config::if_trusted);
        let known: Vec<&Config> = [&config].into_iter().chain(&other).collect();
        files.push((path.clone(), check(path, &config, &known)));
    }
    print_file_checks(files, command.format, out)
}

/// Checks one file, with everything it includes and the agents that are configured elsewhere.
///
/// An agent is one that any of `known` has configured.
fn check(path: &Path, config: &Config, known: &[&Config]) -> Result<FileCheck, input::Error> {
    let (parsed, _) = workflow_file::parse(path)?;
    Ok(match parsed {
        Ok(Loaded { workflow, sources, mut warnings }) => {
            warnings.extend(agents::unsupported_options(&workflow, config));
            warnings.extend(agents::unknown_agents(&workflow, known));
            warnings.extend(agents::agents_without_network(&workflow, config));
            FileCheck { sources, diagnostics: warnings, summary: summarize(&workflow) }
        }
        Err(rejected) => rejected.into(),
    })
}

/// Returns what is in a workflow.
fn summarize(workflow: &Workflow) -> String {
    let parts = match &workflow.body {
        Body::Sequential { steps, .. } => return plural(steps.len(), "step"),
        Body::MapReduce(parts) => parts,
    };
    let setup = parts.setup.as_ref().map_or(0, |setup| setup.phase.steps.len());
    let reduce = parts.reduce.as_ref().map_or(0, |phase| phase.steps.len());
    let phases: Vec<String> =
        [("setup", setup), ("map", parts.map.steps.len()), ("reduce", reduce)]
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|(name, steps)| format!("{name} {}", plural(*steps, "step")))
            .collect();
    format!("mapreduce: {}", phases.join(", "))
}
