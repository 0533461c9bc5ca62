//! The replay policy of a repository.

use std::{
    io,
    path::{Path, PathBuf},
};

use prodigy_core::{
    diagnostic::{Diagnostic, Sources},
    event::OwnerRule,
    ids::hex,
    replay::{LoadedPolicy, ReplayPolicy},
    workflow::Rejected,
};
use prodigy_engine::governance::{self, CommittedPolicy, OTHER_ENDING, PolicyError, PolicySource};
use sha2::{Digest as _, Sha256};

use crate::{
    commands::context::{git_error, store_error},
    config::repo_root,
    error::{CliError, error_chain},
    exit::Exit,
    input,
    render::{console::Console, diagnostics},
};

/// Where the policy of a repository stands, from its root.
pub(crate) const FILE: &str = governance::POLICY_FILE;

/// The hint for a policy that cannot be used.
const HINT: &str = "`prodigy policy lint` lists what is wrong; until that is fixed, nothing is \
                    decided over dead letters";

/// Reads the policy of a repository; without a file, the built-in one holds.
///
/// A file that is there and cannot be used is an error, whatever is wrong with it: a mistake must
/// not allow what the rest of the file forbids.
pub(crate) fn load(repo_root: &Path, out: &mut Console) -> Result<ReplayPolicy, CliError> {
    let path = repo_root.join(FILE);
    refuse_other_ending(repo_root)?;
    if !exists(&path) {
        return Ok(ReplayPolicy::builtin().clone());
    }
    let policy = parse(FILE, &read_repo_file(&path, FILE)?, out)?;
    Ok(policy.with_signers(|signers| sha256(&repo_root.join(signers))))
}

/// Reads the policy of a branch; what is wrong with it is shown before the error is returned.
pub(crate) fn load_committed(
    source: &PolicySource,
    out: &mut Console,
) -> Result<CommittedPolicy, CliError> {
    let committed = source.read().map_err(|error| policy_error(error, out))?;
    print_diagnostics(&committed.sources, &committed.warnings, out);
    for note in &committed.notes {
        out.note(format_args!("note: {note}"));
    }
    Ok(committed)
}

/// Turns the reason why no policy can decide into an error for people.
pub(crate) fn policy_error(error: PolicyError, out: &mut Console) -> CliError {
    let hint = error.hint();
    let shown = match error {
        PolicyError::Rejected(rejected) => invalid_file_error(FILE, &rejected, out),
        PolicyError::Git(error) => return git_error(error),
        PolicyError::Store(error) => return store_error(error),
        PolicyError::Audit(_)
        | PolicyError::Trail
        | PolicyError::NotText
        | PolicyError::OtherEnding
        | PolicyError::Uncommitted { .. }
        | PolicyError::Unconfirmed(_) => CliError::new(Exit::Invalid, error_chain(&error)),
    };
    match hint {
        Some(hint) => shown.with_hint(hint),
        None => shown,
    }
}

/// Refuses a policy with a name that is not read, unless there is one that is.
pub(crate) fn refuse_other_ending(repo_root: &Path) -> Result<(), CliError> {
    if exists(&repo_root.join(OTHER_ENDING)) && !exists(&repo_root.join(FILE)) {
        let error = PolicyError::OtherEnding;
        let shown = CliError::new(Exit::Invalid, error.to_string());
        return Err(match error.hint() {
            Some(hint) => shown.with_hint(hint),
            None => shown,
        });
    }
    Ok(())
}

/// Returns the SHA-256 of a file, if it can be read.
fn sha256(path: &Path) -> Option<String> {
    std::fs::read(path).ok().map(|content| hex(&Sha256::digest(content)))
}

/// Returns the name of a repository's policy and the rules that name owners, for what does not
/// decide by it; nothing if it has none.
pub(crate) fn snapshot_and_owners(repo_root: &Path, out: &mut Console) -> (String, Vec<OwnerRule>) {
    let path = repo_root.join(FILE);
    if !exists(&path) {
        return (String::new(), Vec::new());
    }
    let policy = read_repo_file(&path, FILE).map(|text| ReplayPolicy::read(FILE, &text));
    if let Ok(Ok(loaded)) = policy {
        let policy = loaded.policy.with_signers(|signers| sha256(&repo_root.join(signers)));
        return (policy.snapshot().to_owned(), policy.owner_rules());
    }
    out.note(format_args!(
        "note: `{FILE}` cannot be used, and nothing is replayed until it is fixed: \
         `prodigy policy lint` lists what is wrong"
    ));
    (String::new(), Vec::new())
}

/// Reads a policy file that a person named.
pub(crate) fn read(path: &Path, out: &mut Console) -> Result<ReplayPolicy, CliError> {
    parse(&path.to_string_lossy(), &read_named_file(path)?, out)
}

/// Reads the text of a policy; what is wrong with it is shown before the error is returned.
fn parse(shown: &str, text: &str, out: &mut Console) -> Result<ReplayPolicy, CliError> {
    match ReplayPolicy::read(shown, text) {
        Ok(LoadedPolicy { policy, sources, warnings, .. }) => {
            print_diagnostics(&sources, &warnings, out);
            Ok(policy)
        }
        Err(rejected) => Err(invalid_file_error(shown, &rejected, out).with_hint(HINT)),
    }
}

/// Shows what is wrong with a file, and returns that it cannot be used.
pub(crate) fn invalid_file_error(shown: &str, rejected: &Rejected, out: &mut Console) -> CliError {
    print_diagnostics(&rejected.sources, &rejected.diagnostics, out);
    CliError::new(Exit::Invalid, format!("`{shown}` cannot be used"))
}

fn print_diagnostics(sources: &Sources, found: &[Diagnostic], out: &mut Console) {
    let color = out.color();
    for one in found {
        out.preformatted(&format!("{}\n", diagnostics::render_diagnostic(sources, one, color)));
    }
}

/// Reads a file of the repository that is there; `shown` is its path for people.
pub(crate) fn read_repo_file(path: &Path, shown: &str) -> Result<String, CliError> {
    input::read(path).map_err(|error| {
        CliError::new(Exit::Invalid, format!("`{shown}` cannot be read")).with_source(error)
    })
}

/// Reads a file that a person named.
pub(crate) fn read_named_file(path: &Path) -> Result<String, CliError> {
    input::read(path).map_err(|error| CliError::new(error.exit(), error.to_string()))
}

/// Returns whether a file is there. One that cannot be looked at is, and so is a broken link.
pub(crate) fn exists(path: &Path) -> bool {
    match path.symlink_metadata() {
        Ok(_) => true,
        Err(error) => {
            !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        }
    }
}

/// Returns the root of the repository that prodigy was started in.
pub(crate) fn current_repo_root() -> Result<PathBuf, CliError> {
    let here = std::env::current_dir().map_err(|error| {
        CliError::new(Exit::Failure, "cannot tell the current directory").with_source(error)
    })?;
    // Outside of a repository, a policy may stand beside what it is for.
    Ok(repo_root(&here).unwrap_or(here))
}
