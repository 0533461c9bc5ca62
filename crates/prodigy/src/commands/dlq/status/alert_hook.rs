//! The command that tells somebody.

use std::{path::Path, time::Duration};

use prodigy_engine::process::{ShortCommand, run_helper};
use serde_json::Value;

use crate::{error::error_chain, render::console::Console};

/// The longest it may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Runs the command of the policy in the repository, with the alerts as JSON on standard input.
///
/// If it fails, that is said, and nothing else: the exit code is about the dead letters.
pub(crate) fn run_alert_hook(hook: &str, root: &Path, alerts: &Value, out: &mut Console) {
    let stdin = format!("{alerts}\n");
    let call = ShortCommand {
        program: "sh".as_ref(),
        args: &["-c".into(), hook.into()],
        cwd: root,
        env: &[],
        stdin: stdin.as_bytes(),
        timeout: TIMEOUT,
    };
    let problem = match run_helper(&call) {
        Ok(output) if output.status == 0 => return,
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = said.lines().rfind(|line| !line.trim().is_empty());
            let said = said.map(|line| format!(": {line}")).unwrap_or_default();
            format!("it ended with exit code {}{said}", output.status)
        }
        Err(error) => error_chain(&error),
    };
    out.note(format_args!("warning: nobody was told by the hook `{hook}`: {problem}"));
}
