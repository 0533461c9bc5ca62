//! What a new worktree gets before the first item works in it.

use std::{fs, io, os::unix::fs::symlink, path::Path};

use prodigy_core::{failure::Failure, workflow::WorktreeConfig};

use super::crew::Crew;
use crate::step::{self, Finished, Scope, Task, Workplace, worktree_fault};

/// The file that names ignored files to copy, if the workflow names no other.
const INCLUDE: &str = ".worktreeinclude";

/// Copies and links what the workflow names, then runs its setup steps.
///
/// Returns what has to stay when the worktree is made ready for another item.
pub(super) async fn furnish(crew: &Crew, workplace: &Workplace) -> Result<Vec<String>, Failure> {
    let config = &crew.map.worktree;
    let from = crew.repo.root().to_owned();
    let to = workplace.tree.path().to_owned();
    let (copy, link) = (config.copy.clone(), config.link.clone());
    let include = config.include.clone();
    let done = tokio::task::spawn_blocking(move || {
        for path in &copy {
            bring(&from, &to, path, copy_all)?;
        }
        for path in &link {
            bring(&from, &to, path, |source, target| symlink(source, target))?;
        }
        for path in included(&from, include.as_deref())? {
            bring(&from, &to, &path, copy_all)?;
        }
        Ok(())
    });
    let brought: Result<(), Failure> = done.await.map_err(|error| failure(error.to_string()))?;
    brought?;
    let mut scope = Scope::new(prodigy_core::vars::Vars::over(std::sync::Arc::clone(&crew.vars)));
    for (number, step) in config.setup.iter().enumerate() {
        let path = format!("worktree.{}", number + 1);
        let task = Task { step, path: &path, top_level: false, deadline: None };
        match step::run(workplace, task, &mut scope).await {
            Finished::Skipped { .. } | Finished::GoOn(_) => {}
            Finished::Stop { mut failure, .. } => {
                failure.message = format!("worktree.setup: {}", failure.message);
                return Err(failure);
            }
            Finished::Interrupted => return Err(step::stopped()),
        }
    }
    if config.setup.is_empty() && config.copy.is_empty() && config.link.is_empty() {
        let include = config.include.as_deref();
        return included(crew.repo.root(), include);
    }
    let tree = workplace.tree.clone();
    workplace.check_settings()?;
    super::worker::blocking(move || tree.extras()).await
}

/// Copies what worktrees get from the user's checkout to another checkout; nothing is linked.
pub fn bring_along(config: &WorktreeConfig, from: &Path, to: &Path) -> Result<(), Failure> {
    let included = included(from, config.include.as_deref())?;
    for path in config.copy.iter().chain(&config.link).chain(&included) {
        bring(from, to, path, copy_all)?;
    }
    Ok(())
}

/// Brings one path from the user's checkout; what is not there is not missed.
fn bring(
    from: &Path,
    to: &Path,
    path: &str,
    way: impl Fn(&Path, &Path) -> io::Result<()>,
) -> Result<(), Failure> {
    let cannot = |why: String| failure(format!("`{path}` cannot be brought along: {why}"));
    let target = step::inside(to, Path::new(path)).map_err(cannot)?;
    let source = step::inside(from, Path::new(path)).map_err(cannot)?;
    if source.symlink_metadata().is_err() || target.symlink_metadata().is_ok() {
        return Ok(());
    }
    let brought = target.parent().map_or(Ok(()), fs::create_dir_all);
    brought.and_then(|()| way(&source, &target)).map_err(|error| cannot(error.to_string()))
}

/// Copies a file, a link or a whole directory.
fn copy_all(source: &Path, target: &Path) -> io::Result<()> {
    let found = source.symlink_metadata()?;
    if found.is_symlink() {
        return symlink(fs::read_link(source)?, target);
    }
    if !found.is_dir() {
        // Pipes and devices have nothing to copy.
        return if found.is_file() { fs::copy(source, target).map(drop) } else { Ok(()) };
    }
    fs::create_dir(target)?;
    for entry in fs::read_dir(source)? {
        let entry = entry?;
        if entry.file_name() != ".git" {
            copy_all(&entry.path(), &target.join(entry.file_name()))?;
        }
    }
    Ok(())
}

/// Returns the paths that the include file names, one pattern per line.
fn included(root: &Path, file: Option<&str>) -> Result<Vec<String>, Failure> {
    let name = file.unwrap_or(INCLUDE);
    let text = match fs::read_to_string(root.join(name)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound && file.is_none() => {
            return Ok(Vec::new());
        }
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
        let found = super::files::matching_files(root, pattern);
        paths.extend(found.map_err(|error| failure(error.to_string()))?);
    }
    Ok(paths)
}

fn failure(message: String) -> Failure {
    worktree_fault(message)
}
