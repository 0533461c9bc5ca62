//! Hooks of the repository that prodigy's own commits do not run.

use prodigy_engine::git::Repo;

use crate::{commands::context, error::CliError};

/// Says which hooks of the repository are not run, if it has any that would be.
pub(crate) fn skipped_hooks(repo: &Repo) -> Result<Option<String>, CliError> {
    let hooks = repo.commit_hooks().map_err(context::git_error)?;
    let names: Vec<_> = hooks.iter().map(|name| format!("`{name}`")).collect();
    let text =
        format!("prodigy's own commits and merges do not run your hooks {}", names.join(", "));
    Ok(Some(text).filter(|_| !names.is_empty()))
}
