//! One configuration file.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::Path,
};

use prodigy_core::{
    diagnostic::{Diagnostic, Sources},
    workflow::{grammar::check_record, read_agents},
    yaml::{self, YamlNode},
};
use prodigy_engine::trust::{CONFIG_FILE, TrustFile};

use super::{
    Config, ConfigOrigin, ConfigValue,
    agent_restriction::restrict_agent,
    retention::ConfigLayer,
    setting::{FILE, is_scalar},
    trust_claims::{is_blank, trust_claims},
};
use crate::{error::CliError, exit::Exit, trust};

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
            return Err(CliError::new(Exit::Invalid, message).with_source(error));
        }
    };
    if is_blank(&text) {
        return Ok(());
    }
    let needs_trust = layer == ConfigLayer::Repository && !trust_claims(&text).is_empty();
    let holds = !needs_trust || is_trusted(path, &text);
    let mut sources = Sources::default();
    let number = sources.add(shown.display().to_string(), text.as_str());
    let found = match yaml::parse(&text, number) {
        Ok(root) => settings(config, &root, (layer, holds), &sources),
        Err(found) => found,
    };
    problems.extend(found.iter().map(|problem| line(problem, &sources)));
    Ok(())
}

/// Returns whether the user trusts the file of a repository with this text.
fn is_trusted(path: &Path, text: &str) -> bool {
    // The file is `.prodigy/config.yml` below the root.
    let root = path.ancestors().nth(2).unwrap_or(path);
    trust::is_trusted(root, &TrustFile::new(CONFIG_FILE, text.as_bytes()))
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
    root: &YamlNode,
    (layer, holds): (ConfigLayer, bool),
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
    let origin = |span| ConfigOrigin::file(path, sources.position(span).unwrap_or_default().0);
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
            let agent = restrict_agent(config.agents.get(&name), ConfigValue { value, origin });
            let agents = if holds { &mut config.agents } else { &mut config.withheld };
            agents.insert(name, agent);
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
