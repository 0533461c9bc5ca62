//! Work of failed items that is still in the worktree of an agent, and of which nothing is
//! recorded.

use std::{fs, path::Path};

use prodigy_core::{
    ids::{AgentId, JobId},
    job::{ItemStage, Job},
};
use prodigy_engine::store::Layout;

use super::journal_check::IntegrityCheck;

/// Finds the items that failed while no record says what they left, although an agent's worktree
/// is still on their branch; `None` if there is none.
pub(crate) fn unrecorded_failures(
    layout: &Layout,
    id: &JobId,
    job: &Job,
) -> Option<IntegrityCheck> {
    let map = job.map.as_ref()?;
    let mut items = Vec::new();
    for entry in fs::read_dir(layout.worktrees_dir(id)).ok()?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(item) = name.parse::<AgentId>().ok().and_then(|_| item(&entry.path(), id)) else {
            continue;
        };
        let found = item.parse().ok().and_then(|item| map.find(&item));
        let is_unkept = found.is_some_and(|(at, item)| {
            matches!(item.stage, ItemStage::DeadLettered | ItemStage::Skipped)
                && !map.secured.contains(&at)
        });
        if is_unkept {
            items.push(format!("{item} in `{}`", entry.path().display()));
        }
    }
    items.sort_unstable();
    (!items.is_empty()).then(|| {
        let items = items.join(", ");
        let detail = format!(
            "failed, and what they left is not kept yet: {items}; `prodigy resume {id}` keeps it"
        );
        IntegrityCheck::new("kept work", Err(detail))
    })
}

/// Returns the item whose branch a worktree is on.
fn item(worktree: &Path, job: &JobId) -> Option<String> {
    let link = fs::read_to_string(worktree.join(".git")).ok()?;
    let head = Path::new(link.strip_prefix("gitdir: ")?.trim_end()).join("HEAD");
    let head = fs::read_to_string(head).ok()?;
    let branch = head.trim_end().strip_prefix("ref: refs/heads/prodigy/")?;
    branch.strip_prefix(job.as_str())?.strip_prefix('/').map(str::to_owned)
}
