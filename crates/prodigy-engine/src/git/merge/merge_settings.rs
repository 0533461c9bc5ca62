//! The user's settings that the final merge honours: `merge.ff` and `commit.gpgsign`.
//!
//! Whoever signs runs a program with a key. Both come from the user's own settings only: what is
//! in the repository's configuration, others may have written.

use std::{ffi::OsString, time::Duration};

use crate::git::{Error, Repo, command::GitCommand};

/// The longest a signature may take: nobody is there to type a passphrase.
const SIGNING: Duration = Duration::from_secs(20);

/// The programs that sign, with what git calls if none is set.
const PROGRAMS: [(&str, &str); 4] = [
    ("gpg.program", "gpg"),
    ("gpg.openpgp.program", "gpg"),
    ("gpg.x509.program", "gpgsm"),
    ("gpg.ssh.program", "ssh-keygen"),
];

/// The variables that settings travel in.
const VARIABLES: [(&str, &str); 7] = [
    ("GIT_CONFIG_KEY_0", "GIT_CONFIG_VALUE_0"),
    ("GIT_CONFIG_KEY_1", "GIT_CONFIG_VALUE_1"),
    ("GIT_CONFIG_KEY_2", "GIT_CONFIG_VALUE_2"),
    ("GIT_CONFIG_KEY_3", "GIT_CONFIG_VALUE_3"),
    ("GIT_CONFIG_KEY_4", "GIT_CONFIG_VALUE_4"),
    ("GIT_CONFIG_KEY_5", "GIT_CONFIG_VALUE_5"),
    ("GIT_CONFIG_KEY_6", "GIT_CONFIG_VALUE_6"),
];

/// The answer of `merge.ff`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FastForward {
    /// A fast-forward where one is possible.
    Allowed,
    /// A merge commit always.
    Never,
    /// A fast-forward or nothing.
    Only,
}

/// The settings of a merge.
#[derive(Clone, Debug)]
pub(crate) struct MergeSettings {
    pub(crate) fast_forward: FastForward,
    /// The settings to sign the merge commit with, if it is to be signed.
    signing: Option<SigningOptions>,
}

/// The option and settings to sign a commit with.
#[derive(Clone, Debug)]
struct SigningOptions {
    /// The option that says so, with the key if one is set.
    option: String,
    settings: Vec<(&'static str, String)>,
}

impl MergeSettings {
    /// Reads the settings as they are now.
    pub(crate) fn read(repo: &Repo) -> Result<Self, Error> {
        let list = ["config", "--list", "--includes", "--show-scope", "-z"];
        let fields = repo.call(&list).read_only().run_fields()?;
        let mut found: Vec<(bool, String, String)> = Vec::new();
        let mut fields = fields.iter();
        while let (Some(scope), Some(setting)) = (fields.next(), fields.next()) {
            let text = String::from_utf8_lossy(setting);
            // A name without a value means "true".
            let (name, value) = text.split_once('\n').unwrap_or((&text, "true"));
            if scope != b"command" {
                let is_users = scope == b"global" || scope == b"system";
                found.push((is_users, name.to_owned(), value.to_owned()));
            }
        }
        let newest = |wanted: &str, only_users: bool| {
            let matching = |(is_users, name, _): &&(bool, String, String)| {
                name == wanted && (*is_users || !only_users)
            };
            found.iter().rev().find(matching).map(|(_, _, value)| value.clone())
        };
        let fast_forward = match newest("merge.ff", false).as_deref() {
            Some("only") => FastForward::Only,
            Some(value) if !is_true(value) => FastForward::Never,
            Some(_) | None => FastForward::Allowed,
        };
        let is_signed = newest("commit.gpgsign", false).is_some_and(|value| is_true(&value));
        let own = |name: &str| newest(name, true);
        let signing = if is_signed { Some(SigningOptions::of(repo, own)?) } else { None };
        Ok(Self { fast_forward, signing })
    }

    /// Returns whether merge commits are signed.
    pub(crate) fn is_signed(&self) -> bool {
        self.signing.is_some()
    }

    /// Makes a call of `commit-tree` sign, if that is wanted.
    pub(crate) fn sign<'a>(&self, call: GitCommand<'a>) -> GitCommand<'a> {
        let Some(SigningOptions { option, settings }) = &self.signing else { return call };
        let mut call = call.args([option]).with_timeout(SIGNING);
        // Whatever would ask somebody finds no terminal and no screen.
        for name in ["GPG_TTY", "DISPLAY", "WAYLAND_DISPLAY", "SSH_ASKPASS"] {
            call = call.env(name, "");
        }
        call = call.env("SSH_ASKPASS_REQUIRE", "never");
        call = call.env("GIT_CONFIG_COUNT", settings.len().to_string());
        for ((name, value), (key, variable)) in settings.iter().zip(VARIABLES) {
            call = call.env(key, *name).env(variable, OsString::from(value));
        }
        call
    }
}

impl SigningOptions {
    fn of(repo: &Repo, own: impl Fn(&str) -> Option<String>) -> Result<Self, Error> {
        let format = own("gpg.format").unwrap_or_else(|| "openpgp".to_owned());
        let mut settings = vec![("gpg.format", format.clone())];
        let program = own("gpg.program");
        for (name, usual) in PROGRAMS {
            let fallback = || program.clone().filter(|_| name == "gpg.openpgp.program");
            let value = own(name).or_else(fallback).unwrap_or_else(|| usual.to_owned());
            settings.push((name, value));
        }
        let command = own("gpg.ssh.defaultkeycommand").unwrap_or_default();
        settings.push(("gpg.ssh.defaultKeyCommand", command));
        let key = own("user.signingkey");
        // Without a key of their own the program finds one by the name of the committer.
        let key = match key {
            None if format == "openpgp" => committer(repo)?,
            key => key,
        };
        settings.push(("user.signingkey", key.clone().unwrap_or_default()));
        Ok(Self { option: format!("-S{}", key.unwrap_or_default()), settings })
    }
}

/// Returns the name and address of the committer, by which a key is found.
fn committer(repo: &Repo) -> Result<Option<String>, Error> {
    let text = repo.call(&["var", "GIT_COMMITTER_IDENT"]).run_text()?;
    Ok(text.rsplitn(3, ' ').nth(2).map(ToOwned::to_owned))
}

/// Returns whether git takes a value for true.
fn is_true(value: &str) -> bool {
    let value = value.to_ascii_lowercase();
    matches!(value.as_str(), "true" | "yes" | "on" | "1")
}
