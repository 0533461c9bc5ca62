//! One configuration file.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::Path,
};

use prodigy_core::{
    diagnostic::{Diagnostic, Sources},
    workflow::{grammar::check_record, read_agents},
    yaml::{self, Node},
};

use super::{
    Config, Origin, Setting,
    retention::ConfigLayer,
    setting::{FILE, is_scalar},
};
use crate::{error::CliError, exit::Exit};

/// The largest file that is read, in bytes.
const LARGEST: u64 = 1 << 20;

/// Reads a file into the configuration, if it exists; `shown` is its path for people.
pub(super) fn read(
    config: &mut Config,
    path: &Path,
    shown: &Path,
    layer: ConfigLayer,
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
        Ok(root) => settings(config, &root, layer, &sources),
        Err(found) => found,
    };
    problems.extend(found.iter().map(|problem| line(problem, &sources)));
    Ok(())
}

fn text(path: &Path) -> io::Result<String> {
    // Opening a pipe waits for a writer, so look first.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut text = String::new();
    File::open(path)?.take(LARGEST + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LARGEST {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the file is larger than 1 MiB"));
    }
    Ok(text)
}

/// Takes the settings of a file and returns what is wrong with them.
fn settings(
    config: &mut Config,
    root: &Node,
    layer: ConfigLayer,
    sources: &Sources,
) -> Vec<Diagnostic> {
    let mut problems = Vec::new();
    check_record(root, &FILE, &mut problems);
    if let Some(home) = root.key_span("home")
        && let Some(problem) = problems.iter_mut().find(|problem| problem.span == home)
    {
        problem.help = Some("set `PRODIGY_HOME`: the home cannot depend on a file".to_owned());
    }
    let path = sources.get(root.span.file).map(|source| source.path.as_str());
    let path = Path::new(path.unwrap_or_default());
    let origin = |span| Origin::file(path, sources.position(span).unwrap_or_default().0);
    for (key, node) in root.as_mapping().unwrap_or_default() {
        // What is no text, or of no known key, was reported by the check.
        if let Some(text) = node.scalar_text().filter(|_| is_scalar(&key.text))
            && let Err(problem) = config.set(&key.text, &text, origin(key.span))
        {
            problems.push(Diagnostic::error(node.span, problem));
        }
    }
    if let Some(node) = root.get("retention") {
        let place = |name: &str| origin(node.key_span(name).unwrap_or(node.span));
        config.retention.read(node, layer, &place, &mut problems);
    }
    if let Some(agents) = root.get("agents") {
        for (name, value) in read_agents(agents, sources, &mut problems) {
            let origin = origin(agents.key_span(&name).unwrap_or(agents.span));
            config.agents.insert(name, Setting { value, origin });
        }
    }
    problems.sort_by_key(|problem| problem.span);
    problems
}

/// Writes a problem as one line.
fn line(problem: &Diagnostic, sources: &Sources) -> String {
    let path = sources.get(problem.span.file).map(|source| source.path.as_str());
    let (line, column) = sources.position(problem.span).unwrap_or_default();
    let help = problem.help.as_ref().map_or(String::new(), |help| format!("; {help}"));
    format!("{}:{line}:{column}: {}{help}", path.unwrap_or_default(), problem.message)
}
