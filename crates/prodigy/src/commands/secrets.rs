//! The secrets of a workflow.

use std::{ffi::OsString, path::Path, time::Duration};

use prodigy_core::workflow::{Secret, SecretSource};
use prodigy_engine::process::{Quick, quick};

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
