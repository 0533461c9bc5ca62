//! The environment that every step inherits.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

/// Variables that must not reach a step: they would point git at another repository (all that
/// `git rev-parse --local-env-vars` lists), let somebody be asked, or make an agent believe
/// that it runs inside another one.
const SCRUBBED: &[&str] = &[
    "AI_AGENT",
    "CLAUDECODE",
    "CLAUDE_CODE_CHILD_SESSION",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_EXECPATH",
    "CLAUDE_CODE_MESSAGING_SOCKET",
    "CLAUDE_CODE_MESSAGING_TOKEN",
    "CLAUDE_CODE_SESSION_ATTENDED",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CODE_SSE_PORT",
    "CLAUDE_EFFORT",
    "CLAUDE_PID",
    "CODEX_SANDBOX",
    "CODEX_SANDBOX_NETWORK_DISABLED",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_CEILING_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_CONFIG_PARAMETERS",
    "GIT_DIR",
    "GIT_GRAFT_FILE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_INTERNAL_SUPER_PREFIX",
    "GIT_NAMESPACE",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_QUARANTINE_PATH",
    "GIT_REFLOG_ACTION",
    "GIT_REPLACE_REF_BASE",
    "GIT_SEQUENCE_EDITOR",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
    "OLDPWD",
    "PWD",
    "SSH_ASKPASS",
];

/// Variables by which no program asks: nobody is there to answer, and the step would wait.
///
/// `GIT_ASKPASS` stays: on servers it is a script that prints a token.
const SET: &[(&str, &str)] = &[
    ("GIT_EDITOR", "true"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("SSH_ASKPASS_REQUIRE", "never"),
    ("GCM_INTERACTIVE", "never"),
];

/// The variable by which the terminal of an editor is known, whose `GIT_ASKPASS` asks the person.
const ASKING_EDITOR: &str = "VSCODE_GIT_ASKPASS_MAIN";

/// A file of environment variables that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EnvFileError {
    /// A line is not `NAME=value`, or holds a NUL byte, which no variable can.
    #[error("`{}:{line}`: expected `NAME=value` without a NUL byte", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
}

/// Returns the inherited environment without what must not reach a step.
pub fn base_environment(
    inherited: impl Iterator<Item = (OsString, OsString)>,
) -> Vec<(OsString, OsString)> {
    let mut env: Vec<_> = inherited.collect();
    let is_asking = env.iter().any(|(name, _)| name == ASKING_EDITOR);
    env.retain(|(name, _)| {
        let prodigy = name.to_string_lossy().starts_with("PRODIGY_");
        let asks = is_asking && name == "GIT_ASKPASS";
        !prodigy && !asks && !SCRUBBED.iter().any(|scrubbed| name == scrubbed)
    });
    // A commit by an agent must not start a background clean-up of the repository.
    let count = env.iter().find(|(name, _)| name == "GIT_CONFIG_COUNT");
    let mut count: u32 =
        count.and_then(|(_, value)| value.to_str()?.parse().ok()).unwrap_or_default();
    for (key, value) in [("gc.auto", "0"), ("maintenance.auto", "false")] {
        env.push((format!("GIT_CONFIG_KEY_{count}").into(), key.into()));
        env.push((format!("GIT_CONFIG_VALUE_{count}").into(), value.into()));
        count += 1;
    }
    env.retain(|(name, _)| name != "GIT_CONFIG_COUNT" && !SET.iter().any(|(set, _)| name == set));
    env.push(("GIT_CONFIG_COUNT".into(), count.to_string().into()));
    env.extend(SET.iter().map(|(name, value)| (name.into(), value.into())));
    env
}

/// Understands a file of `NAME=value` lines.
///
/// Empty lines and lines that start with `#` are passed over; `export ` may stand
/// in front; a value may stand in quotes. Nothing is expanded.
pub fn parse_env_file(path: &Path, text: &str) -> Result<Vec<(String, String)>, EnvFileError> {
    let mut variables = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line = line.strip_prefix("export ").unwrap_or(line);
        let parsed = line.split_once('=').filter(|(name, _)| is_name(name.trim()));
        let parsed = parsed.filter(|(_, value)| !value.contains('\0'));
        let Some((name, value)) = parsed else {
            return Err(EnvFileError::Line { path: path.to_owned(), line: number + 1 });
        };
        variables.push((name.trim().to_owned(), unquoted(value.trim()).to_owned()));
    }
    Ok(variables)
}

/// Returns whether text can name an environment variable.
fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Takes the quotes off a value that has them on both sides.
fn unquoted(value: &str) -> &str {
    for quote in ['"', '\''] {
        if let Some(inner) = value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) {
            return inner;
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_points_git_elsewhere_is_not_inherited() {
        let inherited = [("HOME", "/h"), ("GIT_DIR", "/evil"), ("PRODIGY_JOB_ID", "x")];
        let env = base_environment(inherited.iter().map(|(n, v)| (n.into(), v.into())));
        let names: Vec<_> = env.iter().map(|(name, _)| name.to_str().unwrap()).collect();
        insta::assert_debug_snapshot!(names, @r#"
        [
            "HOME",
            "GIT_CONFIG_KEY_0",
            "GIT_CONFIG_VALUE_0",
            "GIT_CONFIG_KEY_1",
            "GIT_CONFIG_VALUE_1",
            "GIT_CONFIG_COUNT",
            "GIT_EDITOR",
            "GIT_TERMINAL_PROMPT",
            "SSH_ASKPASS_REQUIRE",
            "GCM_INTERACTIVE",
        ]
        "#);
    }
}
