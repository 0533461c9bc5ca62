//! `prodigy policy lint`.

use std::path::{Path, PathBuf};

use prodigy_core::replay::{LoadedPolicy, Policy};

use crate::{
    error::CliError,
    exit::Exit,
    input,
    output::Output,
    replay_policy::{FILE, here, is_there},
    report::{
        checked::{Checked, ComplaintFormat, report},
        count,
    },
};

/// Check a policy file
///
/// All mistakes are reported with their line and column, and also rules that never decide
/// anything. The exit code is 0 if the file is valid and 9 if it is not.
#[derive(clap::Args, Debug)]
pub(crate) struct LintArgs {
    /// The policy file [default: .prodigy/replay-policy.yml in the root of the repository]
    file: Option<PathBuf>,

    /// How to show mistakes
    #[arg(long, value_enum, default_value_t = ComplaintFormat::Human)]
    format: ComplaintFormat,
}

pub(super) fn run(command: &LintArgs, out: &mut Output) -> Result<Exit, CliError> {
    let files = if let Some(file) = &command.file {
        vec![(file.clone(), check(file, &file.to_string_lossy()))]
    } else {
        let path = here()?.join(FILE);
        if is_there(&path) {
            vec![(PathBuf::from(FILE), check(&path, FILE))]
        } else {
            out.note(format_args!("there is no {FILE}: the built-in rules hold"));
            Vec::new()
        }
    };
    report(files, command.format, out)
}

fn check(path: &Path, shown: &str) -> Result<Checked, input::Error> {
    let text = input::read(path)?;
    Ok(match Policy::read(shown, &text) {
        Ok(LoadedPolicy { policy, sources, warnings }) => {
            Checked { sources, diagnostics: warnings, summary: summarize(&policy) }
        }
        Err(rejected) => rejected.into(),
    })
}

/// Returns what is in a policy.
fn summarize(policy: &Policy) -> String {
    let builtin = Policy::builtin().rules.len();
    let is_builtin = policy.rules.ends_with(&Policy::builtin().rules);
    if is_builtin {
        let own = policy.rules.len() - builtin;
        format!("{}, then the built-in ones", count(own, "rule"))
    } else {
        // The last rule is `defaults`.
        format!("{} and defaults", count(policy.rules.len() - 1, "rule"))
    }
}
