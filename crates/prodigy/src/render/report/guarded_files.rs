//! Saying that a job changes files that decide what runs in later runs.

use prodigy_core::event::GuardedFile;

use crate::render::console::one_line;

/// Says in one line which files the job changes.
pub(crate) fn line(files: &[GuardedFile]) -> String {
    format!(
        "the job changes files that decide what runs or who approves; read them before you trust \
         them: {}",
        names(files)
    )
}

/// Returns what `jobs show` says of the files.
pub(crate) fn facts(files: &[GuardedFile]) -> Vec<(&'static str, String)> {
    let mut facts: Vec<_> = files.iter().map(|file| ("", name(file))).collect();
    if let Some(first) = facts.first_mut() {
        first.0 = "guarded";
    }
    facts
}

/// Returns the files, with the items that changed them.
pub(crate) fn names(files: &[GuardedFile]) -> String {
    files.iter().map(name).collect::<Vec<_>>().join(", ")
}

fn name(file: &GuardedFile) -> String {
    let GuardedFile { path, items } = file;
    let path = one_line(path);
    if items.is_empty() { format!("`{path}`") } else { format!("`{path}` ({})", items.join(", ")) }
}
