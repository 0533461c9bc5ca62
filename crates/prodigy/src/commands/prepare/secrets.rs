//! The secrets of a workflow.

use std::{ffi::OsString, ops::ControlFlow, path::Path, time::Duration};

use prodigy_core::{
    mask::{Mask, env_secrets},
    workflow::{Secret, SecretSource},
};
use prodigy_engine::{
    git::Repo,
    process::{Launch, ProcessStatus, StopToken, SupervisorClient},
    store::Layout,
};

use crate::{commands::context, error::CliError, exit::Exit, input, render::console::Console};

/// The timeout of a secret's command.
const SECRET_TIMEOUT: Duration = Duration::from_secs(30);

/// The grace period between asking that command to end and killing it.
const SECRET_GRACE: Duration = Duration::from_secs(1);

/// The longest that a secret can be: every step gets it in a variable, and everything that is
/// stored is searched for it.
const SECRET_LIMIT: usize = 64 << 10;

/// Fetches the secrets; one that cannot be had stops the run before it begins.
pub(crate) fn fetch_secrets(
    declared: &[Secret],
    directory: &Path,
    out: &mut Console,
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
pub(crate) fn masked_values(
    secrets: &[(String, String)],
    env: &[(OsString, OsString)],
    layout: &Layout,
    repo: &Repo,
) -> Result<Vec<String>, CliError> {
    let variables = env.iter().filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)));
    let (home, root) = (layout.home().to_string_lossy(), repo.root().to_string_lossy());
    let found = env_secrets(variables, &[&home, &root]);
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

/// Returns a text without the secrets that every step inherits.
pub(crate) fn mask_inherited(text: &str) -> String {
    mask(text, &[], Path::new(""))
}

/// Returns a text without the secrets that every step inherits, and those that a workflow takes
/// from variables and files. The commands of secrets are not run for it.
pub(crate) fn mask(text: &str, declared: &[Secret], directory: &Path) -> String {
    let variables: Vec<(String, String)> = std::env::vars().collect();
    let variables = variables.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let mut masked = env_secrets(variables, &[]);
    let at_hand = declared.iter().filter(|secret| match secret.source {
        SecretSource::Env(_) | SecretSource::File(_) => true,
        SecretSource::Command(_) => false,
    });
    // One that cannot be had cannot stand in the text either.
    masked.extend(at_hand.filter_map(|secret| fetch(secret, directory).ok()));
    Mask::new(masked).mask_str(text)
}

/// Fetches one secret, without the newline at its end.
fn fetch(secret: &Secret, directory: &Path) -> Result<String, String> {
    let value = match &secret.source {
        SecretSource::Env(name) => std::env::var(name)
            .map_err(|_| format!("the environment variable `{name}` is not set"))?,
        SecretSource::File(file) => {
            input::read(&directory.join(file)).map_err(|error| error.to_string())?
        }
        SecretSource::Command(command) => run_secret_command(command, directory)?,
    };
    if value.len() > SECRET_LIMIT {
        return Err(too_long_message());
    }
    if value.contains('\0') {
        return Err("it holds a NUL byte, which no variable can".to_owned());
    }
    Ok(value.trim_end_matches(['\n', '\r']).to_owned())
}

/// Returns what the command of a secret prints.
///
/// It runs under a supervisor, so that it ends with us: nobody hears signals yet.
fn run_secret_command(command: &str, directory: &Path) -> Result<String, String> {
    let launch = Launch {
        argv: vec!["sh".into(), "-c".into(), command.into()],
        env: std::env::vars_os().collect(),
        cwd: std::path::absolute(directory).map_err(|error| error.to_string())?,
        root: None,
        stdin: Vec::new(),
        log: None,
        log_cap: 0,
        timeout: Some(SECRET_TIMEOUT),
        idle_timeout: None,
        grace: SECRET_GRACE,
        secrets: Vec::new(),
        stream: true,
    };
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let mut value = Vec::new();
    let ended = runtime.block_on(async {
        let mut supervisor = SupervisorClient::start(&program, directory).await?;
        let mut hear = |bytes: &[u8]| {
            value.extend_from_slice(bytes);
            match value.len() {
                length if length > SECRET_LIMIT => ControlFlow::Break(Duration::ZERO),
                _ => ControlFlow::Continue(()),
            }
        };
        let ended = supervisor.run_streaming(&launch, &StopToken::new(), &mut hear).await;
        supervisor.close().await;
        ended
    });
    let ended = ended.map_err(|error| error.to_string())?;
    if value.len() > SECRET_LIMIT {
        return Err(too_long_message());
    }
    match (ended.ended_by, ended.status) {
        (None, ProcessStatus::Exited(0)) => {}
        (None, ProcessStatus::Exited(code)) => {
            return Err(format!("its command ended with exit code {code}"));
        }
        (None, ProcessStatus::NotStarted { message, .. }) => return Err(message),
        (None, ProcessStatus::Signaled(signal)) => {
            return Err(format!("its command was ended by signal {signal}"));
        }
        (Some(_), _) => {
            let limit = prodigy_core::duration::format(SECRET_TIMEOUT);
            return Err(format!("its command took longer than {limit}"));
        }
    }
    String::from_utf8(value).map_err(|_| "it is not UTF-8 text".to_owned())
}

fn too_long_message() -> String {
    let limit = SECRET_LIMIT >> 10;
    format!(
        "it is longer than {limit} KiB; write it to a file that the steps read, and let the secret \
         be the path of the file"
    )
}
