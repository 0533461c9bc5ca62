//! `prodigy policy lint`.

use std::path::{Path, PathBuf};

use prodigy_core::{
    diagnostic::{Diagnostic, Span},
    replay::{LoadedPolicy, ReplayPolicy},
    workflow::{Body, Workflow, step_label},
};
use prodigy_engine::git::Repo;

use crate::{
    commands::{
        policy::policy_file::{FILE, current_repo_root, exists, refuse_other_ending},
        prepare::workflow_file,
    },
    error::CliError,
    exit::Exit,
    input,
    progress::plural,
    render::{
        console::Console,
        file_check::{DiagnosticFormat, FileCheck, print_file_checks},
    },
};

/// The names of files that may hold a workflow.
const WORKFLOWS: &[&str] = &["*.yml", "*.yaml"];

/// Check a policy file
///
/// All mistakes are reported with their line and column, and also rules that never decide
/// anything, groups without members, and steps that no workflow of the repository has. The exit code is 0 if the file is valid and 9 if it is not.
#[derive(clap::Args, Debug)]
pub(crate) struct PolicyLintArgs {
    /// The policy file [default: .prodigy/replay-policy.yml in the root of the repository]
    file: Option<PathBuf>,

    /// Show mistakes in this format
    #[arg(long, value_enum, default_value_t = DiagnosticFormat::Human)]
    format: DiagnosticFormat,
}

pub(super) fn run(command: &PolicyLintArgs, out: &mut Console) -> Result<Exit, CliError> {
    let files = if let Some(file) = &command.file {
        vec![(file.clone(), check(file, &file.to_string_lossy()))]
    } else {
        let root = current_repo_root()?;
        refuse_other_ending(&root)?;
        let path = root.join(FILE);
        if exists(&path) {
            vec![(PathBuf::from(FILE), check(&path, FILE))]
        } else {
            out.note(format_args!("there is no {FILE}: the built-in rules hold"));
            Vec::new()
        }
    };
    print_file_checks(files, command.format, out)
}

fn check(path: &Path, shown: &str) -> Result<FileCheck, input::Error> {
    let text = input::read(path)?;
    Ok(match ReplayPolicy::read(shown, &text) {
        Ok(LoadedPolicy { policy, sources, mut warnings, steps }) => {
            warnings.extend(unknown_steps(&steps, path));
            FileCheck { sources, diagnostics: warnings, summary: summarize(&policy) }
        }
        Err(rejected) => rejected.into(),
    })
}

/// Warns of the steps that no workflow of the repository has.
///
/// Where there are no workflows, or no repository, nothing can be said.
fn unknown_steps(steps: &[(Span, String)], policy: &Path) -> Vec<Diagnostic> {
    if steps.is_empty() {
        return Vec::new();
    }
    let directory = policy.parent().filter(|path| !path.as_os_str().is_empty());
    let repo = Repo::discover(directory.unwrap_or(Path::new(".")));
    let found = repo.and_then(|repo| Ok((repo.files_matching(WORKFLOWS)?, repo)));
    let Ok((files, repo)) = found else { return Vec::new() };
    let parsed =
        files.iter().filter_map(|file| workflow_file::parse(&repo.checkout().join(file)).ok());
    let workflows: Vec<Workflow> =
        parsed.filter_map(|(parsed, _)| Some(parsed.ok()?.workflow)).collect();
    if workflows.is_empty() {
        return Vec::new();
    }
    let is_known = |step: &str| workflows.iter().any(|workflow| has_step(workflow, step));
    let unknown = steps.iter().filter(|(_, step)| !is_known(step));
    let warning = |(span, step): &(Span, String)| {
        let message = format!("no workflow of the repository has a step `{step}`");
        let help = "a step is called by its `name`, its `id` or its path, such as `map.2`";
        Diagnostic::warning(*span, message).help(help)
    };
    unknown.map(warning).collect()
}

/// Returns whether a workflow has a step that a rule calls by its name, id or path.
fn has_step(workflow: &Workflow, called: &str) -> bool {
    let is_path = called.strip_prefix("map.").is_some_and(|path| has_path(workflow, path));
    if is_path || ["map", "merge"].contains(&called) {
        return true;
    }
    let mut is_found = false;
    workflow.visit_steps(&mut |step| {
        is_found |= step.id.as_deref() == Some(called) || step_label(step) == called;
    });
    is_found
}

/// Returns whether the items of a workflow have a step with a path; of the steps inside of it only
/// the first number counts.
fn has_path(workflow: &Workflow, path: &str) -> bool {
    let Body::MapReduce(job) = &workflow.body else { return false };
    let number = path.split('.').next().unwrap_or_default();
    match number.parse::<usize>() {
        Ok(number) => (1..=job.map.steps.len()).contains(&number),
        // A step of a handler, or the one that resolves conflicts.
        Err(_) => true,
    }
}

/// Returns what is in a policy.
fn summarize(policy: &ReplayPolicy) -> String {
    let builtin = ReplayPolicy::builtin().rules.len();
    let is_builtin = policy.rules.ends_with(&ReplayPolicy::builtin().rules);
    if is_builtin {
        let own = policy.rules.len() - builtin;
        format!("{}, then the built-in ones", plural(own, "rule"))
    } else {
        // The last rule is `defaults`.
        format!("{} and defaults", plural(policy.rules.len() - 1, "rule"))
    }
}
