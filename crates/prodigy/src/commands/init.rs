//! `prodigy init`.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use prodigy_core::workflow::grammar;
use prodigy_engine::git::{self, Repo};

use super::context::shell_quote;
use crate::{cli::Cli, config::repo_root, error::CliError, exit::Exit, render::console::Console};

/// The first workflow.
const WORKFLOW: &str = include_str!("init/workflow.yml");

/// The configuration file; everything in it is a comment.
const CONFIG: &str = include_str!("init/config.yml");

/// Returns what is written: the paths below the directory, and the texts.
fn files() -> [(&'static str, String); 3] {
    let schema = format!("{:#}\n", grammar::json_schema());
    [
        (".prodigy/config.yml", CONFIG.to_owned()),
        // Editors that know YAML offer keys and underline mistakes with it.
        (".prodigy/workflow.schema.json", schema),
        ("workflow.yml", WORKFLOW.to_owned()),
    ]
}

/// Write a first workflow and a configuration file
#[derive(clap::Args, Debug)]
pub(crate) struct InitArgs {
    /// Where to write them [default: the current directory]
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,

    /// Replace files that are there already
    #[arg(long)]
    force: bool,
}

pub(super) fn run(_args: &Cli, command: &InitArgs, out: &mut Console) -> Result<Exit, CliError> {
    let directory = command.path.as_deref().unwrap_or(Path::new("."));
    let top = directory.canonicalize().map_err(|error| {
        let message = format!("cannot use the directory `{}`", directory.display());
        CliError::new(Exit::Usage, message)
            .with_source(error)
            .with_hint("make it first, or leave out `--path` to use the current directory")
    })?;
    let files = files();
    if !command.force {
        refuse_to_replace(&top, &files)?;
    }
    for (path, text) in &files {
        write(&top.join(path), text, command.force).map_err(|error| {
            let message = format!("cannot write `{}`", directory.join(path).display());
            CliError::new(Exit::Failure, message).with_source(error)
        })?;
        out.line(format_args!("wrote {}", display_path(directory, path)))?;
    }
    let enter = match &command.path {
        Some(path) => format!("cd {} && ", shell_quote(path)),
        None => String::new(),
    };
    let begin = if repo_root(&top).is_none() {
        "git init && git commit --allow-empty --message first && "
    } else if matches!(Repo::discover(&top), Err(git::Error::NoCommits { .. })) {
        "git commit --allow-empty --message first && "
    } else {
        ""
    };
    out.flush()?;
    out.note(format_args!("\nnext: {enter}{begin}prodigy run workflow.yml -y"));
    Ok(Exit::Success)
}

/// Refuses before anything is written, so that it is all or nothing.
fn refuse_to_replace(top: &Path, files: &[(&str, String)]) -> Result<(), CliError> {
    // A link that leads nowhere is something, too.
    let there = files.iter().filter(|(path, _)| top.join(path).symlink_metadata().is_ok());
    let there: Vec<String> = there.map(|(path, _)| format!("`{path}`")).collect();
    let are = match there.as_slice() {
        [] => return Ok(()),
        [_] => "is",
        _ => "are",
    };
    Err(CliError::new(Exit::Usage, format!("{} {are} there already", there.join(", ")))
        .with_hint("`prodigy init --force` replaces what is there"))
}

/// Writes a file; unless forced, only if there is none.
fn write(path: &Path, text: &str, force: bool) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let mut options = OpenOptions::new();
    if force {
        options.write(true).create(true).truncate(true);
    } else {
        options.write(true).create_new(true);
    }
    options.open(path)?.write_all(text.as_bytes())
}

fn display_path(directory: &Path, path: &str) -> String {
    if directory == Path::new(".") {
        path.to_owned()
    } else {
        directory.join(path).display().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prodigy_core::workflow;

    #[test]
    fn the_first_workflow_is_right() {
        let loaded = workflow::load("workflow.yml", &mut |_| Ok(WORKFLOW.to_owned())).unwrap();
        assert_eq!(loaded.warnings, []);
        assert_eq!(loaded.workflow.agents.len(), 1);
    }
}
