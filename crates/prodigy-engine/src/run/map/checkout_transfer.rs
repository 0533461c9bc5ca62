//! Preparation of a new worktree before the first item: copies, links, setup steps.

use std::path::Path;

use prodigy_core::{
    failure::Failure,
    workflow::{StepAddress, WorktreeConfig},
};

use super::worker_pool::WorkerContext;
use crate::{
    root_dir::{self, RootDir},
    step::{self, StepContext, StepOutcome, StepScope, StepTask, worktree_failure},
};

/// The file that names ignored files to copy, if the workflow names no other.
const INCLUDE: &str = ".worktreeinclude";

/// The longest such file.
const LIST_LIMIT: u64 = 1024 * 1024;

/// Copies and links what the workflow names, then runs its setup steps.
///
/// Returns what has to stay when the worktree is made ready for another item.
pub(crate) async fn provision_worktree(
    crew: &WorkerContext,
    workplace: &StepContext,
) -> Result<Vec<String>, Failure> {
    let config = &crew.map.worktree;
    let from = crew.repo.checkout().to_owned();
    let to = workplace.tree.path().to_owned();
    let (copy, link) = (config.copy.clone(), config.link.clone());
    let include = config.include.clone();
    let done = tokio::task::spawn_blocking(move || {
        let transfer = CheckoutTransfer::open(&from, &to)?;
        copy.iter().try_for_each(|path| transfer.copy(path))?;
        link.iter().try_for_each(|path| transfer.link(path))?;
        let included = included(&from, include.as_deref())?;
        included.iter().try_for_each(|path| transfer.copy(path))
    });
    let brought: Result<(), Failure> = done.await.map_err(|error| failure(error.to_string()))?;
    brought?;
    let mut scope =
        StepScope::new(prodigy_core::vars::Vars::with_base(std::sync::Arc::clone(&crew.vars)));
    let list = StepAddress::named("worktree");
    for (number, step) in config.setup.iter().enumerate() {
        let address = list.step(&config.setup, number);
        let task = StepTask { step, address: &address, top_level: false, deadline: None };
        match step::run(workplace, task, &mut scope).await {
            StepOutcome::Skipped { .. } | StepOutcome::GoOn(_) => {}
            StepOutcome::Stop { mut failure, .. } => {
                failure.message = format!("worktree.setup: {}", failure.message);
                return Err(failure);
            }
            StepOutcome::Interrupted => return Err(step::cancelled_failure()),
        }
    }
    if config.setup.is_empty() && config.copy.is_empty() && config.link.is_empty() {
        let include = config.include.as_deref();
        return included(crew.repo.checkout(), include);
    }
    let tree = workplace.tree.clone();
    workplace.check_repo_guard()?;
    super::worker::blocking(move || tree.uncommitted_and_ignored()).await
}

/// Copies what worktrees get from the user's checkout to another checkout; nothing is linked.
pub fn copy_worktree_files(config: &WorktreeConfig, from: &Path, to: &Path) -> Result<(), Failure> {
    let included = included(from, config.include.as_deref())?;
    let transfer = CheckoutTransfer::open(from, to)?;
    let mut paths = config.copy.iter().chain(&config.link).chain(&included);
    paths.try_for_each(|path| transfer.copy(path))
}

/// The copy of files from the user's checkout to a worktree.
struct CheckoutTransfer {
    from: RootDir,
    to: RootDir,
}

impl CheckoutTransfer {
    fn open(from: &Path, to: &Path) -> Result<Self, Failure> {
        let open = |path| RootDir::open(path).map_err(|error| failure(error.to_string()));
        Ok(Self { from: open(from)?, to: open(to)? })
    }

    /// Copies a path; what is not there is not missed.
    fn copy(&self, path: &str) -> Result<(), Failure> {
        let copied = self.to.copy_from(&self.from, Path::new(path));
        copied.map_err(|error| transfer_failure(path, &error))
    }

    /// Links a path; what is not there is not missed.
    fn link(&self, path: &str) -> Result<(), Failure> {
        let linked = self.to.link_to(&self.from, Path::new(path));
        linked.map_err(|error| transfer_failure(path, &error))
    }
}

fn transfer_failure(path: &str, why: &root_dir::Error) -> Failure {
    failure(format!("`{path}` cannot be brought along: {why}"))
}

/// Returns the paths that the include file names, one pattern per line.
fn included(root: &Path, file: Option<&str>) -> Result<Vec<String>, Failure> {
    let name = file.unwrap_or(INCLUDE);
    let read = RootDir::open(root).and_then(|root| root.read_bounded(Path::new(name), LIST_LIMIT));
    let text = match read {
        Ok(Some(bytes)) => String::from_utf8_lossy(&bytes).into_owned(),
        Ok(None) if file.is_none() => return Ok(Vec::new()),
        Ok(None) => return Err(failure(format!("`{name}` cannot be read: it is not there"))),
        Err(error) => return Err(failure(format!("`{name}` cannot be read: {error}"))),
    };
    let mut paths = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let pattern = line.trim_end_matches('/').trim_start_matches('/');
        if root.join(pattern).symlink_metadata().is_ok() {
            paths.push(pattern.to_owned());
            continue;
        }
        let found = super::item_selection::matching_files(root, pattern);
        paths.extend(found.map_err(|error| failure(error.to_string()))?);
    }
    Ok(paths)
}

fn failure(message: String) -> Failure {
    worktree_failure(message)
}
