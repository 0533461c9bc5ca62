//! Signatures of approvals.

use std::{ffi::OsString, fs, io::Write as _, path::PathBuf};

use tempfile::NamedTempFile;

use super::{
    Error,
    ssh::{error_line, run},
};
use crate::git::Repo;

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
