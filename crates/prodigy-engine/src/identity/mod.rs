//! The identity of a person: asserted by themselves, or proven by an SSH signature.
//!
//! Signatures are made and checked by `ssh-keygen`, with the keys that people have already.

#[cfg(test)]
mod tests;

use std::{
    env,
    ffi::OsString,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use tempfile::NamedTempFile;

use crate::{
    git::Repo,
    process::{self, ShortCommand, ShortCommandOutput, run_helper},
};

/// The longest name of a person, in characters; more is no name.
const LONGEST_NAME: usize = 200;

/// Returns who uses a repository, as its configuration says, or else what the caller has
/// learned from the operating system. Nobody has proved it.
pub fn asserted_identity(repo: &Repo, user: &str) -> String {
    let plain = |name: &str| -> String {
        let shown = |c: char| if c.is_control() { ' ' } else { c };
        name.trim().chars().map(shown).take(LONGEST_NAME).collect()
    };
    repo.user_email().map_or_else(|| plain(user), |email| plain(&email))
}

/// The namespace of the signatures; one that was made for another purpose does not verify.
const NAMESPACE: &str = "prodigy-approval";

/// The first line of every signature.
const BEGIN: &str = "-----BEGIN SSH SIGNATURE-----\n";

/// The longest a signature may be.
const LONGEST: usize = 64 * 1024;

/// The key that somebody signs with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SigningKey {
    /// The file that has it.
    File(PathBuf),
    /// A public key, whose other half `ssh-agent` has.
    Public(String),
}

impl SigningKey {
    /// Returns the key that git signs commits with.
    pub fn from_git_config(repo: &Repo) -> Result<Self, Error> {
        let key = repo.ssh_signing_key().ok_or(Error::NoKey)?;
        let literal = key.strip_prefix("key::").or_else(|| key.starts_with("ssh-").then_some(&key));
        Ok(match literal {
            Some(literal) => Self::Public(literal.to_owned()),
            None => Self::File(key.into()),
        })
    }
}

/// Signs a text and returns the signature.
pub fn sign(text: &str, key: &SigningKey) -> Result<String, Error> {
    let mut args: Vec<OsString> = vec!["-Y".into(), "sign".into(), "-n".into(), NAMESPACE.into()];
    let (path, shown, _file) = match key {
        SigningKey::File(path) => {
            let path = std::path::absolute(path).map_err(Error::Temporary)?;
            let shown = path.display().to_string();
            if let Err(error) = fs::metadata(&path) {
                return Err(Error::Key { key: shown, why: error.to_string() });
            }
            (path, shown, None)
        }
        SigningKey::Public(key) => {
            args.push("-U".into());
            let file = temporary(format!("{key}\n").as_bytes())?;
            (file.path().to_owned(), key.clone(), Some(file))
        }
    };
    args.extend(["-f".into(), path.into_os_string()]);
    let output = run(&args, text)?;
    if output.status != 0 {
        let why = error_line(&output).unwrap_or_else(|| "`ssh-keygen` gave no reason".to_owned());
        return Err(Error::Key { key: shown, why });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A list of the keys of people.
#[derive(Clone, Copy, Debug)]
pub struct AllowedSigners<'a> {
    /// Its name, for people.
    pub name: &'a str,
    /// Its lines, as `ssh-keygen` reads them.
    pub content: &'a [u8],
}

/// Checks that a signature of a text is by a person whose key is in a list.
pub fn verify(
    text: &str,
    signature: &str,
    identity: &str,
    signers: AllowedSigners<'_>,
) -> Result<(), Error> {
    let not_good = |why: String| Err(Error::NotGood { why });
    if !signature.starts_with(BEGIN) {
        return not_good("it is not a signature that `ssh-keygen -Y sign` makes".to_owned());
    }
    if signature.len() > LONGEST {
        return not_good(format!("it is longer than {LONGEST} bytes"));
    }
    let allowed = temporary(signers.content)?;
    let file = temporary(signature.as_bytes())?;
    let ask = |what: &str, more: &[&str], stdin: &str| {
        let mut args: Vec<OsString> = vec!["-Y".into(), what.into()];
        args.extend(["-f".into(), allowed.path().into()]);
        args.extend(["-s".into(), file.path().into()]);
        args.extend(more.iter().map(Into::into));
        run(&args, stdin)
    };
    let output = ask("verify", &["-n", NAMESPACE, "-I", identity], text)?;
    if output.status == 0 {
        return Ok(());
    }
    // What follows is only about why: it was refused.
    if let Some(why) = error_line(&output) {
        return not_good(why);
    }
    let found = ask("find-principals", &[], "")?;
    let names = String::from_utf8_lossy(&found.stdout);
    let names: Vec<_> = names.lines().map(str::trim).filter(|name| !name.is_empty()).collect();
    if names.is_empty() {
        return not_good(format!("its key is not in `{}`, or no longer counts", signers.name));
    }
    not_good(format!("its key is that of {}, not of {identity}", names.join(", ")))
}

/// Writes a file that is gone as soon as it is no longer needed.
fn temporary(text: &[u8]) -> Result<NamedTempFile, Error> {
    let mut file = NamedTempFile::new().map_err(Error::Temporary)?;
    file.write_all(text).map_err(Error::Temporary)?;
    Ok(file)
}

/// The program.
const PROGRAM: &str = "ssh-keygen";

/// The longest one call may take: somebody may have to touch a security key.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Runs `ssh-keygen` to its end.
pub(super) fn run(args: &[OsString], stdin: &str) -> Result<ShortCommandOutput, Error> {
    run_ssh_keygen_program(PROGRAM, args, stdin)
}

/// Runs a program as if it was `ssh-keygen`.
pub(super) fn run_ssh_keygen_program(
    program: &str,
    args: &[OsString],
    stdin: &str,
) -> Result<ShortCommandOutput, Error> {
    let set = |name: &str, value: &str| (name.into(), Some(value.into()));
    let mut env = vec![
        set("LC_ALL", "C"),
        // A question on the terminal would be waited for without anybody seeing it.
        set("SSH_ASKPASS_REQUIRE", "force"),
    ];
    if env::var_os("SSH_ASKPASS").is_none() {
        env.push(set("SSH_ASKPASS", "false"));
    }
    let call = ShortCommand {
        program: program.as_ref(),
        args,
        cwd: Path::new("/"),
        env: &env,
        stdin: stdin.as_bytes(),
        timeout: TIMEOUT,
    };
    match run_helper(&call) {
        Err(process::Error::Start { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            Err(Error::Missing)
        }
        result => result.map_err(Error::Run),
    }
}

/// Returns the last line of what `ssh-keygen` complained about.
pub(super) fn error_line(output: &ShortCommandOutput) -> Option<String> {
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty());
    line.map(ToOwned::to_owned)
}

/// A failure to sign, or a signature that is not valid.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no `ssh-keygen`.
    #[error("`ssh-keygen` is not installed, or not on the `PATH`")]
    Missing,
    /// `ssh-keygen` could not be run to its end.
    #[error("cannot run `ssh-keygen`")]
    Run(#[source] process::Error),
    /// Nobody said which key is to be used.
    #[error("there is no key to sign with: git is not set up to sign with keys of ssh")]
    NoKey,
    /// The key cannot be used.
    #[error("cannot sign with the key `{key}`: {why}")]
    Key {
        /// The key.
        key: String,
        /// The reason the key cannot be used.
        why: String,
    },
    /// The list of those whose signatures count cannot be read.
    #[error("cannot read the allowed signers in `{path}`: {why}")]
    AllowedSigners {
        /// The file.
        path: String,
        /// The reason the file cannot be read.
        why: String,
    },
    /// The signature is not that of the person, or not for the text.
    #[error("{why}")]
    NotGood {
        /// The defect of the signature.
        why: String,
    },
    /// A file for `ssh-keygen` could not be written.
    #[error("cannot write a file for `ssh-keygen`")]
    Temporary(#[source] io::Error),
}

impl Error {
    /// Returns what the person could do next, if there is something.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Missing => Some("install OpenSSH; Debian calls it `openssh-client`"),
            Self::NoKey => Some(
                "pass `--key FILE`, or set it up with `git config gpg.format ssh` and \
                 `git config user.signingkey FILE`",
            ),
            Self::Key { .. } => Some(
                "the file must be a private key that only you can read; load a key that has a \
                 passphrase with `ssh-add`",
            ),
            Self::AllowedSigners { .. } => Some(
                "it has a line for each person: `alice@example.com ssh-ed25519 AAAA…`; the policy \
                 says where it is, from the root of the repository, and it has to be committed",
            ),
            Self::Run(_) | Self::NotGood { .. } | Self::Temporary(_) => None,
        }
    }
}
