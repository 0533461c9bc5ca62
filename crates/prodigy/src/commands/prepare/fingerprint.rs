//! The environment of a run's steps: the programs, and the variables that the workflow sets.
//!
//! A dead letter records it. After a change of it, a failed item may succeed.

use std::{
    ffi::OsString,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use prodigy_core::{
    event::EnvironmentFingerprint,
    ids::hex,
    workflow::{AgentConfig, EnvVar, Workflow},
};
use sha2::{Digest as _, Sha256};

/// Returns what the steps of a workflow find.
///
/// `files` are the variables of `env_files`. Secrets and what is inherited do not count: the
/// ones must not be guessed from a hash, the other changes all the time.
pub(crate) fn fingerprint_environment(
    workflow: &Workflow,
    agents: &[(&str, AgentConfig)],
    base_env: &[(OsString, OsString)],
    files: &[(String, String)],
    env: &[EnvVar],
) -> EnvironmentFingerprint {
    let mut tools = FingerprintHasher::default();
    tools.add(env!("CARGO_PKG_VERSION"));
    for (name, config) in agents {
        tools.add(name);
        tools.add(&format!("{config:?}"));
        if let Some(program) = config.program() {
            tools.add(&program_fingerprint(program, base_env));
        }
    }
    let mut variables = FingerprintHasher::default();
    for (name, value) in files {
        variables.add(name);
        variables.add(value);
    }
    // A variable of the workflow takes the place of one in a file, so the order matters.
    variables.add("");
    for var in env {
        variables.add(&var.name);
        variables.add(var.value.source());
    }
    EnvironmentFingerprint {
        tool_hash: tools.finish(),
        env_hash: variables.finish(),
        last_effect: workflow.last_effect(),
        owners: Vec::new(),
        policy_snapshot: String::new(),
        shares_worktree: workflow.shares_worktree(),
    }
}

/// Returns what tells one version of a program from another without running it.
fn program_fingerprint(program: &str, env: &[(OsString, OsString)]) -> String {
    let Some(path) = find_program(program, env) else { return String::new() };
    let path = path.canonicalize().unwrap_or(path);
    let told = path.metadata().map(|data| format!("{} {}", data.size(), data.mtime()));
    format!("{} {}", path.display(), told.unwrap_or_default())
}

/// Returns the file of a program, if it is there.
pub(crate) fn find_program(program: &str, env: &[(OsString, OsString)]) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| path.is_file());
    }
    let path = env.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value)?;
    let mut files = std::env::split_paths(path).map(|directory| directory.join(program));
    files.find(|file: &PathBuf| Path::is_file(file))
}

/// A hash of texts that cannot run into each other.
#[derive(Default)]
struct FingerprintHasher {
    hash: Sha256,
}

impl FingerprintHasher {
    fn add(&mut self, text: &str) {
        self.hash.update(text.len().to_le_bytes());
        self.hash.update(text.as_bytes());
    }

    fn finish(self) -> String {
        format!("sha256:{}", hex(&self.hash.finalize()))
    }
}
