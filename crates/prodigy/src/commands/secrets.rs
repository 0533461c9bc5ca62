//! The secrets of a workflow.

use std::{ffi::OsString, path::Path, time::Duration};

use prodigy_core::{
    mask::inherited,
    workflow::{Secret, SecretSource},
};
use prodigy_engine::{
    git::Repo,
    process::{Quick, quick},
    store::Layout,
};

use super::context;
use crate::{error::CliError, exit::Exit, input, output::Output};

/// How long the command of a secret may take.
const SECRET_TIMEOUT: Duration = Duration::from_secs(30);

/// Fetches the secrets; one that cannot be had stops the run before it begins.
pub(super) fn secrets(
    declared: &[Secret],
    directory: &Path,
    out: &mut Output,
) -> Result<Vec<(String, String)>, CliError> {
    let mut secrets = Vec::new();
    for secret in declared {
        let value = fetch(secret, directory).map_err(|why| {
            let message = format!("the secret `{}` cannot be had: {why}", secret.name);
            CliError::new(Exit::Failure, message)
        })?;
        if value.len() < 4 {
            out.note(format_args!(
                "note: the secret `{}` is too short to be masked in output",
                secret.name
            ));
        }
        secrets.push((secret.name.clone(), value));
    }
    Ok(secrets)
}

/// Returns what is hidden in everything that is stored: the secrets of the workflow, and those
/// that nobody declared but every step inherits.
pub(super) fn masked(
    secrets: &[(String, String)],
    env: &[(OsString, OsString)],
    layout: &Layout,
    repo: &Repo,
) -> Result<Vec<String>, CliError> {
    let variables = env.iter().filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)));
    let (home, root) = (layout.home().to_string_lossy(), repo.root().to_string_lossy());
    let found = inherited(variables, &[&home, &root]);
    let mut masked: Vec<String> = secrets.iter().map(|(_, value)| value.clone()).collect();
    if found.iter().all(|value| masked.contains(value)) {
        return Ok(masked);
    }
    let head = repo.head().map_err(context::git_error)?;
    // What stands in every record cannot be hidden.
    let is_plain = |value: &str| {
        head.commit.contains(value) || head.branch.as_ref().is_some_and(|name| name.contains(value))
    };
    for value in found {
        if !masked.contains(&value) && !is_plain(value.trim()) {
            masked.push(value);
        }
    }
    Ok(masked)
}

/// Fetches one secret, without the newline at its end.
fn fetch(secret: &Secret, directory: &Path) -> Result<String, String> {
    let value = match &secret.source {
        SecretSource::Env(name) => std::env::var(name)
            .map_err(|_| format!("the environment variable `{name}` is not set"))?,
        SecretSource::File(file) => {
            input::read(&directory.join(file)).map_err(|error| error.to_string())?
        }
        SecretSource::Command(command) => {
            let program = OsString::from("sh");
            let args = [OsString::from("-c"), command.into()];
            let launch = Quick {
                program: &program,
                args: &args,
                cwd: directory,
                env: &[],
                stdin: b"",
                timeout: SECRET_TIMEOUT,
            };
            let output = quick(&launch).map_err(|error| error.to_string())?;
            if output.status != 0 {
                return Err(format!("its command ended with exit code {}", output.status));
            }
            String::from_utf8(output.stdout).map_err(|_| "it is not UTF-8 text".to_owned())?
        }
    };
    if value.contains('\0') {
        return Err("it holds a NUL byte, which no variable can".to_owned());
    }
    Ok(value.trim_end_matches(['\n', '\r']).to_owned())
}
