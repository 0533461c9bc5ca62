//! Work that was kept outside of a job's commits, for people.

use prodigy_core::{
    event::KeptWork,
    ids::JobId,
    job::{KeptEntry, KeptSummary},
};
use serde_json::{Value, json};

use crate::{progress::line::plural, render::console::one_line};

/// The most entries that are named one by one at the end of a run.
const NAMED: usize = 3;

/// Returns what to say of the work that was kept, at the end of a run; `program` is how
/// prodigy was called.
pub(crate) fn summary_lines(kept: &KeptSummary, job: &JobId, program: &str) -> Vec<String> {
    let entries = kept.entries().len();
    if entries <= NAMED {
        return entry_lines(kept);
    }
    let files = plural(kept.files(), "uncommitted file");
    let others = if kept.entries().any(|entry| entry.item.is_none()) { " and the job" } else { "" };
    let left = format!("{files} of {}{others}", plural(kept.items(), "item"));
    let command = KeptSummary::command(job);
    vec![
        format!("{left}; `{command}` applies all of them"),
        format!("`{program} jobs show {job}` names each"),
    ]
}

/// Returns a line for each thing that was kept, with the command that applies it.
pub(crate) fn entry_lines(kept: &KeptSummary) -> Vec<String> {
    kept.entries().flat_map(lines).collect()
}

fn lines(entry: &KeptEntry) -> Vec<String> {
    let (owner, work) = (entry.owner(), &entry.work);
    let KeptWork { reference, files, stray_commits, not_kept, .. } = work;
    let mut lines = Vec::new();
    if let Some(reference) = reference {
        let files = plural(*files, "uncommitted file");
        lines.push(format!(
            "{files} of {owner}; `git cherry-pick --no-commit {reference}` applies {}",
            if work.files == 1 { "it" } else { "them" }
        ));
    }
    lines.extend(stray_commits.iter().map(|reference| {
        format!("commits of {owner} on a branch of its own; `git merge {reference}` merges them")
    }));
    lines.extend(not_kept.iter().map(|path| {
        let path = one_line(path);
        format!("not the repository `{path}` that {owner} made in its worktree")
    }));
    lines
}

/// Returns the work that was kept as JSON.
pub(crate) fn document(kept: &KeptSummary) -> Value {
    let entries = kept.entries().map(|entry| {
        let KeptWork { reference, files, patch, stray_commits, not_kept } = &entry.work;
        json!({
            "item_id": entry.item,
            "reference": reference,
            "files": files,
            "patch": patch,
            "stray_commits": stray_commits,
            "not_kept": not_kept,
            "commands": entry.work.commands(),
        })
    });
    json!({
        "items": kept.items(),
        "files": kept.files(),
        "entries": entries.collect::<Vec<_>>(),
    })
}
