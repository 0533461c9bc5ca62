//! Naming files that decide what runs in later runs before a job's change of them is merged.

use std::collections::{BTreeMap, BTreeSet};

use prodigy_core::{
    event::{Event, GuardedFile},
    ids::ItemId,
};

use crate::{
    git::Repo,
    governance,
    run::{Dispatcher, Error},
    store::JournalReader,
    trust,
};

impl Dispatcher {
    /// Records which of those files a branch changes, each time that they are others.
    pub(crate) fn record_guarded_files(
        &mut self,
        repo: &Repo,
        base: &str,
        source: &str,
        target: &str,
    ) -> Result<(), Error> {
        let mut files = guarded_changes(repo, base, source, target)?;
        if files.is_empty() {
            return Ok(());
        }
        self.add_items(repo, &mut files)?;
        if files == self.parts.guarded {
            return Ok(());
        }
        self.parts.guarded.clone_from(&files);
        self.append(vec![Event::GuardedFilesChanged { files }])
    }

    /// Adds the items that changed files, by the commits of their last successful attempts.
    fn add_items(&self, repo: &Repo, files: &mut [GuardedFile]) -> Result<(), Error> {
        let mut attempts: BTreeMap<ItemId, (String, String)> = BTreeMap::new();
        for record in JournalReader::open(&self.parts.settings.layout, &self.parts.id)? {
            let record = record?;
            if let (Some(item), Event::AgentCompleted(done)) = (record.item_id, record.event)
                && done.has_commits()
            {
                attempts.insert(item, (done.base.clone(), done.head.clone()));
            }
        }
        for (item, (base, head)) in attempts {
            let changed = repo.files_changed(&base, &head)?;
            for file in files.iter_mut().filter(|file| changed.contains(&file.path)) {
                file.items.push(item.to_string());
            }
        }
        Ok(())
    }
}

/// Returns the files that decide what runs or who may agree, and that a branch changes.
fn guarded_changes(
    repo: &Repo,
    base: &str,
    source: &str,
    target: &str,
) -> Result<Vec<GuardedFile>, Error> {
    // A policy that names other signers decides by those once it is merged.
    let of_policy = [target, source].map(|branch| governance::guarded_files(repo, branch));
    let of_policy: BTreeSet<String> = of_policy.into_iter().flatten().collect();
    let mut files = Vec::new();
    for path in repo.files_changed(base, source)? {
        let is_guarded = path == trust::CONFIG_FILE
            || of_policy.contains(&path)
            || is_program_file(repo, base, source, &path)?;
        if is_guarded {
            files.push(GuardedFile { path, items: Vec::new() });
        }
    }
    Ok(files)
}

/// Returns whether a file is one of Claude Code's that brings in programs, before or after.
fn is_program_file(repo: &Repo, base: &str, source: &str, path: &str) -> Result<bool, Error> {
    if !trust::is_claude_file(path) {
        return Ok(false);
    }
    for commit in [source, base] {
        let content = repo.read_file_at(commit, path)?;
        if content.is_some() && trust::is_active_in_commit(path, content.as_deref()) {
            return Ok(true);
        }
    }
    Ok(false)
}
