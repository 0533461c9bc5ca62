//! The places that configuration comes from.

use std::path::{Path, PathBuf};

use super::{ConfigOrigin, ConfigValue};
use crate::{cli::Cli, error::CliError, exit::Exit};

/// Returns where prodigy keeps its state.
pub(super) fn state_home(args: &Cli) -> Result<ConfigValue<PathBuf>, CliError> {
    let (home, origin) = match &args.home {
        Some(home) => {
            // The parser takes the variable for the flag if there is no flag.
            let variable = std::env::var_os("PRODIGY_HOME").is_some_and(|value| value == **home);
            let origin = if variable {
                ConfigOrigin::Variable("PRODIGY_HOME")
            } else {
                ConfigOrigin::Flag("--home")
            };
            (home.clone(), origin)
        }
        None => (user_home()?.join(".prodigy"), ConfigOrigin::Default),
    };
    // Agents run in other directories; the home must mean the same there.
    let value = std::path::absolute(&home).map_err(|error| {
        CliError::new(Exit::Failure, format!("`{}` cannot be the home", home.display()))
            .with_source(error)
    })?;
    Ok(ConfigValue { value, origin })
}

/// Returns the user's configuration file, if the user has a home.
pub(super) fn user_file() -> Option<PathBuf> {
    Some(user_directory()?.join("config.yml"))
}

/// Returns the directory of the user's own configuration, if the user has a home.
pub(crate) fn user_directory() -> Option<PathBuf> {
    let xdg = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
    // The XDG specification says that relative paths are to be ignored.
    let base = match xdg.filter(|path| path.is_absolute()) {
        Some(base) => base,
        None => user_home().ok()?.join(".config"),
    };
    Some(base.join("prodigy"))
}

/// Returns the top of the checkout that a directory is in.
pub(crate) fn repo_root(directory: &Path) -> Option<PathBuf> {
    directory.ancestors().find(|above| above.join(".git").exists()).map(Path::to_owned)
}

fn user_home() -> Result<PathBuf, CliError> {
    std::env::home_dir().filter(|home| !home.as_os_str().is_empty()).ok_or_else(|| {
        CliError::new(Exit::Failure, "there is no home directory to keep state in")
            .with_hint("set `PRODIGY_HOME`, or use `--home`")
    })
}
