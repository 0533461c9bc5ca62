//! `prodigy trust`.

use std::path::{Path, PathBuf};

use prodigy_engine::{process::ProcessOrigin, trust::content};
use serde_json::{Value, json};

use super::context;
use crate::{
    cli::Cli,
    error::CliError,
    exit::Exit,
    render::console::{Console, one_line},
    trust::{self, ContentFile, RepoContent},
};

/// Trust the programs and permissions that this repository brings in
///
/// A repository brings in programs and permissions with `agents` in `.prodigy/config.yml`, `alerts.hook` in
/// `.prodigy/replay-policy.yml`, and with `.mcp.json` and the settings, hooks, and commands with tools in `.claude`. They
/// hold once you trusted that very content; a file that changes has to be trusted again. What you
/// trust is kept for this repository in your configuration directory, never in the repository.
///
/// For machines that nobody types at, `PRODIGY_TRUST=HASH` trusts the content with that hash.
/// A running step cannot trust.
///
/// Examples: `prodigy trust --show` shows all of it, then `prodigy trust HASH` trusts what was
/// shown; `prodigy trust --revoke` takes it back.
///
/// Exit codes: 0 if it is done or there is nothing to do, 1 if the content has another hash, 9
/// below a running step.
#[derive(clap::Args, Debug)]
pub(crate) struct TrustArgs {
    /// The hash of what you have read [default: whatever the content is now]
    #[arg(value_name = "HASH", conflicts_with_all = ["show", "revoke"])]
    hash: Option<String>,

    /// Show what the repository brings in and whether it is trusted, and change nothing
    #[arg(long, conflicts_with = "revoke")]
    show: bool,

    /// Trust nothing of this repository any more
    #[arg(long)]
    revoke: bool,

    /// Print one JSON document
    #[arg(long)]
    json: bool,

    /// Work on the repository in this directory [default: the current one]
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
}

pub(super) fn run(_args: &Cli, command: &TrustArgs, out: &mut Console) -> Result<Exit, CliError> {
    let repo = context::repo(command.path.as_deref())?;
    let before = RepoContent::read(repo.root());
    if command.show {
        return show(&before, command.json, out);
    }
    if ProcessOrigin::of_process().is_automation {
        let message = "a step of a job cannot decide what this repository is trusted with";
        return Err(CliError::new(Exit::Invalid, message)
            .with_hint("`prodigy trust` is for a person, outside of a job"));
    }
    if command.revoke {
        return revoke(repo.root(), command.json, out);
    }
    if let Some(hash) = &command.hash
        && *hash != before.hash()
    {
        let message = format!("the content has another hash: {}", before.hash());
        return Err(CliError::new(Exit::Failure, message)
            .with_hint("`prodigy trust --show` shows what it is now"));
    }
    if let Some(file) = before.files.iter().find(|file| file.file.sha256.is_none()) {
        let message = format!("`{}` cannot be read, and so cannot be trusted", file.file.path);
        return Err(CliError::new(Exit::Failure, message));
    }
    if !before.files.is_empty() {
        trust::remember(repo.root(), before.files.iter().map(|file| &file.file))?;
    }
    let after = RepoContent::read(repo.root());
    if command.json {
        document(&after, "trusted", out)?;
        return Ok(Exit::Success);
    }
    if before.files.is_empty() {
        out.line("nothing to trust: this repository brings in no programs or permissions")?;
    }
    for file in &before.files {
        out.line(format_args!("trusted  {}", one_line(&file.line())))?;
    }
    Ok(Exit::Success)
}

/// Shows what the repository brings in.
fn show(content: &RepoContent, is_json: bool, out: &mut Console) -> Result<Exit, CliError> {
    if is_json {
        document(content, "shown", out)?;
        return Ok(Exit::Success);
    }
    if content.files.is_empty() {
        out.line("nothing to trust: this repository brings in no programs or permissions")?;
        return Ok(Exit::Success);
    }
    for file in &content.files {
        show_file(&content.root, file, out)?;
    }
    out.line(format_args!("hash      {}", content.hash()))?;
    if !content.is_trusted() {
        out.flush()?;
        out.note(format_args!("next: prodigy trust {}", content.hash()));
    }
    Ok(Exit::Success)
}

/// Shows one file, with its text.
fn show_file(root: &Path, file: &ContentFile, out: &mut Console) -> Result<(), CliError> {
    let state = if file.is_trusted { "trusted" } else { "not trusted" };
    out.line(format_args!("file      {} ({state})", one_line(&file.file.path)))?;
    for line in &file.brings {
        out.line(format_args!("brings    {}", one_line(line)))?;
    }
    let text = content(&root.join(&file.file.path)).unwrap_or_default();
    for line in String::from_utf8_lossy(&text).lines() {
        out.line(format_args!("| {}", one_line(line)))?;
    }
    Ok(())
}

/// Trusts nothing any more.
fn revoke(root: &Path, is_json: bool, out: &mut Console) -> Result<Exit, CliError> {
    let was_trusted = trust::forget(root)?;
    if is_json {
        document(&RepoContent::read(root), "revoked", out)?;
    } else if was_trusted {
        out.line("revoked: nothing of this repository is trusted any more")?;
    } else {
        out.line("nothing to revoke: nothing of this repository was trusted")?;
    }
    Ok(Exit::Success)
}

/// Prints the content for programs, and what was done.
fn document(content: &RepoContent, action: &str, out: &mut Console) -> Result<(), CliError> {
    let mut document = json!({ "schema_version": 1, "action": action });
    if let (Value::Object(document), Value::Object(content)) = (&mut document, content.document()) {
        document.extend(content);
    }
    out.line(format_args!("{document:#}"))
}
