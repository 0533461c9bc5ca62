//! One configuration file.

use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
};

use prodigy_core::{
    diagnostic::{Diagnostic, Sources, Span},
    suggest,
    yaml::{self, Node},
};

use super::{Config, Origin, setting::KEYS};
use crate::{error::CliError, exit::Exit};

/// The largest file that is read, in bytes.
const LARGEST: u64 = 1 << 20;

/// Reads a file into the configuration, if it exists; `shown` is its path for people.
pub(super) fn read(
    config: &mut Config,
    path: &Path,
    shown: &Path,
    problems: &mut Vec<String>,
) -> Result<(), CliError> {
    let text = match text(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => {
            let message = format!("cannot read `{}`", shown.display());
            return Err(CliError::new(Exit::Invalid, message).because(error));
        }
    };
    let is_comment = |line: &str| line.trim().is_empty() || line.trim().starts_with('#');
    if text.trim_start_matches('\u{feff}').lines().all(is_comment) {
        return Ok(());
    }
    let mut sources = Sources::default();
    let number = sources.add(shown.display().to_string(), text.as_str());
    let found = match yaml::parse(&text, number) {
        Ok(root) => settings(config, &root, &sources),
        Err(found) => found,
    };
    problems.extend(found.iter().map(|problem| line(problem, &sources)));
    Ok(())
}

fn text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(LARGEST + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LARGEST {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the file is larger than 1 MiB"));
    }
    Ok(text)
}

/// Takes the settings of a file and returns what is wrong with them.
fn settings(config: &mut Config, root: &Node, sources: &Sources) -> Vec<Diagnostic> {
    let Some(entries) = root.as_mapping() else {
        let message = format!("expected a mapping, found {}", root.kind());
        return vec![Diagnostic::error(root.span, message)];
    };
    let mut problems = Vec::new();
    for (key, node) in entries {
        let (line, _) = sources.position(key.span).unwrap_or_default();
        let path = sources.get(key.span.file).map(|source| source.path.as_str());
        let origin = Origin::file(Path::new(path.unwrap_or_default()), line);
        if !KEYS.iter().any(|known| known.name == key.text) {
            problems.push(unknown(&key.text, key.span));
        } else if let Some(text) = node.scalar_text() {
            if let Err(problem) = config.set(&key.text, &text, origin) {
                problems.push(Diagnostic::error(node.span, problem));
            }
        } else {
            let message = format!("expected a value for `{}`, found {}", key.text, node.kind());
            problems.push(Diagnostic::error(node.span, message));
        }
    }
    problems
}

fn unknown(key: &str, span: Span) -> Diagnostic {
    let problem = Diagnostic::error(span, format!("unknown key `{key}`"));
    if key == "home" {
        return problem.help("set `PRODIGY_HOME` instead: the home cannot depend on a file");
    }
    match suggest::nearest(key, KEYS.iter().map(|known| known.name)) {
        Some(near) => problem.help(format!("did you mean `{near}`?")),
        None => problem,
    }
}

/// Writes a problem as one line.
fn line(problem: &Diagnostic, sources: &Sources) -> String {
    let path = sources.get(problem.span.file).map(|source| source.path.as_str());
    let (line, column) = sources.position(problem.span).unwrap_or_default();
    let help = problem.help.as_ref().map_or(String::new(), |help| format!("; {help}"));
    format!("{}:{line}:{column}: {}{help}", path.unwrap_or_default(), problem.message)
}
