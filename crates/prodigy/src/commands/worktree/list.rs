//! `prodigy worktree ls`.

use serde_json::json;

use super::inventory::{ByteSize, WorktreeKind, WorktreeView, list_worktrees};
use crate::{
    cli::Cli, commands::context, error::CliError, exit::Exit, progress::plural,
    render::console::Console,
};

/// List the worktrees of this repository's jobs
///
/// Each line names a job, says how it is, what of its work is nowhere else, what its
/// worktree takes on disk, and where it is. Worktrees of items are listed with the job's,
/// and so are branches that are left without a worktree, and records of failed items.
#[derive(clap::Args, Debug)]
pub(crate) struct WorktreeListArgs {
    /// Print a JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(
    args: &Cli,
    command: &WorktreeListArgs,
    out: &mut Console,
) -> Result<Exit, CliError> {
    let home = context::resolve_home(args)?;
    let repo = context::repo(None)?;
    let left = list_worktrees(&context::layout(&home, &repo)?, &repo, None)?;
    if command.json {
        let document = json!({ "schema_version": 1, "worktrees": left });
        out.raw(format!("{document:#}\n").as_bytes())?;
        return Ok(Exit::Success);
    }
    let width = left.iter().map(|left| left.job.as_str().len()).max().unwrap_or_default();
    for left in &left {
        out.line(format_args!("{:width$}  {}", left.job.as_str(), describe(left)))?;
    }
    Ok(Exit::Success)
}

fn describe(left: &WorktreeView) -> String {
    let status = left.status.map_or("no journal".to_owned(), |status| status.to_string());
    let place = location(left);
    let size = ByteSize(left.bytes).to_string();
    format!("{status:<23}  {:<33}  {size:>10}  {place}", unmerged_work(left))
}

/// Says where it is.
pub(crate) fn location(left: &WorktreeView) -> String {
    let first = left.references.first().map(String::as_str).unwrap_or_default();
    match (&left.path, &left.branch, left.references.len()) {
        (Some(path), ..) => path.display().to_string(),
        (None, Some(branch), _) => format!("branch {branch}"),
        (None, None, 0 | 1) => first.to_owned(),
        (None, None, many) => format!("{first} and {} more", many - 1),
    }
}

/// Says what of a job's work is nowhere else.
pub(crate) fn unmerged_work(left: &WorktreeView) -> String {
    let mut parts = Vec::new();
    match left.unmerged_commits {
        0 => {}
        1 => parts.push("1 unmerged commit".to_owned()),
        count => parts.push(format!("{count} unmerged commits")),
    }
    match left.uncommitted_files {
        Some(0) => {}
        Some(1) => parts.push("1 uncommitted file".to_owned()),
        Some(count) => parts.push(format!("{count} uncommitted files")),
        None if left.kind == WorktreeKind::Worktree => parts.push("in use".to_owned()),
        None => parts.push("not a worktree".to_owned()),
    }
    if left.kind == WorktreeKind::Records {
        parts.push(plural(left.references.len(), "record"));
    }
    if left.kind == WorktreeKind::Trash {
        parts.push("half removed".to_owned());
    }
    if parts.is_empty() { "clean".to_owned() } else { parts.join(", ") }
}
