//! Reading configuration files of git's, to tell a harmless change from a dangerous one.

use std::{collections::BTreeSet, path::Path};

use crate::git::{Error, Git};

/// One setting: its name in lower case, and its value.
pub(crate) type GitConfigEntry = (String, String);

/// The settings that change all the time and run nothing: section, last part of the name.
const HARMLESS: &[(&str, &str)] = &[
    ("branch", "remote"),
    ("branch", "merge"),
    ("branch", "rebase"),
    ("branch", "pushremote"),
    ("branch", "description"),
    ("remote", "url"),
    ("remote", "pushurl"),
    ("remote", "fetch"),
    ("remote", "tagopt"),
    ("remote", "prune"),
    ("core", "sparsecheckout"),
    ("core", "sparsecheckoutcone"),
    ("index", "sparse"),
];

/// Returns whether a setting may come and go while a job runs.
pub(crate) fn is_harmless(name: &str) -> bool {
    let (Some((section, _)), Some((_, key))) = (name.split_once('.'), name.rsplit_once('.')) else {
        return false;
    };
    HARMLESS.contains(&(section, key))
}

/// Returns the settings of one file, `None` if it is not a configuration file at all.
///
/// Git reads the file without being in any repository, and follows no includes.
pub(crate) fn read(git: &Git, path: &Path) -> Result<Option<BTreeSet<GitConfigEntry>>, Error> {
    let call = git.command(Path::new("/"), &["config", "--no-includes", "--list", "-z", "--file"]);
    let call = call.args([path]).env("GIT_DIR", "/dev/null").read_only();
    let fields = match call.run_fields() {
        Ok(fields) => fields,
        Err(Error::Failed { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let setting = |field: &Vec<u8>| {
        let text = String::from_utf8_lossy(field).into_owned();
        // A name without a value means "true".
        let (name, value) = text.split_once('\n').unwrap_or((&text, "true"));
        (name.to_owned(), value.to_owned())
    };
    Ok(Some(fields.iter().map(setting).collect()))
}

/// Adds a setting to a file.
pub(crate) fn add(git: &Git, path: &Path, (name, value): &GitConfigEntry) -> Result<(), Error> {
    let call = git.command(Path::new("/"), &["config", "--file"]);
    // The pieces are arguments of options or stand behind them; git checks the name.
    call.args([path]).args(["--add", name, value]).env("GIT_DIR", "/dev/null").run()?;
    Ok(())
}
