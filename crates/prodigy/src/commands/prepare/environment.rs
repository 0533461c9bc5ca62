//! The variables that steps get: inherited ones, those of files and those of the workflow.

use std::{ffi::OsString, path::Path};

use prodigy_core::workflow::{EnvVar, Workflow};
use prodigy_engine::run::{base_environment, parse_env_file};

use crate::{error::CliError, exit::Exit, input};

/// Returns what steps inherit, with the variables of environment files.
pub(crate) fn step_environment(files: &[(String, String)]) -> Vec<(OsString, OsString)> {
    let mut env = base_environment(std::env::vars_os());
    for (name, value) in files {
        env.retain(|(have, _)| *have != **name);
        env.push((name.into(), value.into()));
    }
    env
}

/// Reads the environment files of the workflow.
pub(crate) fn env_files(
    workflow: &Workflow,
    directory: &Path,
) -> Result<Vec<(String, String)>, CliError> {
    let mut all = Vec::new();
    for file in &workflow.env_files {
        let path = directory.join(file);
        let text = input::read(&path).map_err(|error| {
            CliError::new(Exit::Invalid, format!("the environment file cannot be used: {error}"))
        })?;
        let variables = parse_env_file(&path, &text)
            .map_err(|error| CliError::new(Exit::Invalid, error.to_string()))?;
        all.extend(variables);
    }
    Ok(all)
}

/// Returns `env` with the profile's variables behind it.
pub(crate) fn profile_env(
    workflow: &Workflow,
    profile: Option<&str>,
) -> Result<Vec<EnvVar>, CliError> {
    let mut env = workflow.env.clone();
    if let Some(name) = profile {
        let Some(variables) = workflow.profiles.get(name) else {
            let known: Vec<_> = workflow.profiles.keys().map(|name| format!("`{name}`")).collect();
            let hint = if known.is_empty() {
                "the workflow has no `profiles`".to_owned()
            } else {
                format!("it has {}", known.join(", "))
            };
            let message = format!("the workflow has no profile `{name}`");
            return Err(CliError::new(Exit::Usage, message).with_hint(hint));
        };
        env.extend(variables.iter().cloned());
    }
    Ok(env)
}
