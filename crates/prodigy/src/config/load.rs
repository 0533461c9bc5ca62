//! Putting the layers together.

use std::path::Path;

use prodigy_engine::trust::CONFIG_FILE;

use super::{Config, ConfigOrigin, file, home, retention::ConfigLayer, setting::KEYS};
use crate::{cli::Cli, error::CliError, exit::Exit};

impl Config {
    /// Reads every layer; `repo_root` is the top of the checkout, if there is one.
    ///
    /// Everything that is wrong in any layer is reported at once, also if a layer above
    /// sets the same key.
    pub(crate) fn load(args: &Cli, repo_root: Option<&Path>) -> Result<Self, CliError> {
        let mut config = Self::defaults(home::state_home(args)?);
        let mut problems = Vec::new();
        if let Some(path) = home::user_file() {
            file::read(&mut config, &path, &path, ConfigLayer::User, &mut problems)?;
        }
        if let Some(root) = repo_root {
            let shown = Path::new(CONFIG_FILE);
            let path = root.join(shown);
            file::read(&mut config, &path, shown, ConfigLayer::Repository, &mut problems)?;
        }
        for (key, name) in KEYS {
            variable(&mut config, key, name, &mut problems);
        }
        if problems.is_empty() {
            return Ok(config);
        }
        let message = format!("the configuration is invalid\n  {}", problems.join("\n  "));
        Err(CliError::new(Exit::Invalid, message))
    }
}

/// Takes one key from the environment; an empty variable counts as not set.
fn variable(config: &mut Config, key: &str, name: &'static str, problems: &mut Vec<String>) {
    let Some(value) = std::env::var_os(name).filter(|value| !value.is_empty()) else {
        return;
    };
    let set = match value.to_str() {
        Some(text) => config.set(key, text, ConfigOrigin::Variable(name)),
        None => Err("the value is not UTF-8".to_owned()),
    };
    if let Err(problem) = set {
        problems.push(format!("{name}: {problem}"));
    }
}
