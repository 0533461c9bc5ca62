//! One call of `ssh-keygen`.

use std::{env, ffi::OsString, io, path::Path, time::Duration};

use super::Error;
use crate::process::{self, HelperCommand, HelperOutput, run_helper};

/// The program.
const PROGRAM: &str = "ssh-keygen";

/// The longest one call may take: somebody may have to touch a security key.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Runs `ssh-keygen` to its end.
pub(super) fn run(args: &[OsString], stdin: &str) -> Result<HelperOutput, Error> {
    run_ssh_keygen_program(PROGRAM, args, stdin)
}

/// Runs a program as if it was `ssh-keygen`.
pub(super) fn run_ssh_keygen_program(
    program: &str,
    args: &[OsString],
    stdin: &str,
) -> Result<HelperOutput, Error> {
    let set = |name: &str, value: &str| (name.into(), Some(value.into()));
    let mut env = vec![
        set("LC_ALL", "C"),
        // A question on the terminal would be waited for without anybody seeing it.
        set("SSH_ASKPASS_REQUIRE", "force"),
    ];
    if env::var_os("SSH_ASKPASS").is_none() {
        env.push(set("SSH_ASKPASS", "false"));
    }
    let call = HelperCommand {
        program: program.as_ref(),
        args,
        cwd: Path::new("/"),
        env: &env,
        stdin: stdin.as_bytes(),
        timeout: TIMEOUT,
    };
    match run_helper(&call) {
        Err(process::Error::Start { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            Err(Error::Missing)
        }
        result => result.map_err(Error::Run),
    }
}

/// Returns the last line of what `ssh-keygen` complained about.
pub(super) fn error_line(output: &HelperOutput) -> Option<String> {
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty());
    line.map(ToOwned::to_owned)
}
