//! `prodigy worktree du`.

use std::collections::BTreeMap;

use serde_json::json;

use super::inventory::{ByteSize, list_worktrees};
use crate::{cli::Cli, commands::context, error::CliError, exit::Exit, render::console::Console};

/// Show what the worktrees of this repository's jobs take on disk
#[derive(clap::Args, Debug)]
pub(crate) struct WorktreeDuArgs {
    /// Print a JSON document
    #[arg(long)]
    json: bool,
}

pub(super) fn run(
    args: &Cli,
    command: &WorktreeDuArgs,
    out: &mut Console,
) -> Result<Exit, CliError> {
    let home = context::resolve_home(args)?;
    let repo = context::repo(None)?;
    let mut jobs: BTreeMap<String, u64> = BTreeMap::new();
    for left in list_worktrees(&context::layout(&home, &repo)?, &repo, None)? {
        if left.path.is_some() {
            *jobs.entry(left.job.into()).or_default() += left.bytes;
        }
    }
    let total: u64 = jobs.values().sum();
    if command.json {
        let jobs: Vec<_> =
            jobs.iter().map(|(job, bytes)| json!({ "job": job, "bytes": bytes })).collect();
        let document = json!({ "schema_version": 1, "total_bytes": total, "jobs": jobs });
        out.raw(format!("{document:#}\n").as_bytes())?;
        return Ok(Exit::Success);
    }
    for (job, bytes) in jobs {
        out.line(format_args!("{:>10}  {job}", ByteSize(bytes).to_string()))?;
    }
    out.line(format_args!("{:>10}  total", ByteSize(total).to_string()))?;
    Ok(Exit::Success)
}
