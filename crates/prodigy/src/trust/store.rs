//! The content that the user trusts, kept in the user's configuration directory.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

use prodigy_core::ids::hex;
use prodigy_engine::{
    store::{create_dir, write_atomic},
    trust::{TrustFile, combined_hash},
};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{RepoContent, VARIABLE};
use crate::{commands::context::store_error, config::user_directory, error::CliError, exit::Exit};

/// The directory below the user's configuration that holds a file for each repository.
const DIRECTORY: &str = "trust";

/// The number of digits of the hash that names a repository's file.
const NAME_DIGITS: usize = 32;

/// The content of one repository that is trusted.
#[derive(Debug, Default, Serialize, Deserialize)]
struct TrustRecord {
    version: u32,
    /// The main working tree.
    repository: String,
    /// The hashes of contents, by path.
    files: BTreeMap<String, BTreeSet<String>>,
}

/// Returns whether the user trusts a file of a repository with this content.
pub(crate) fn is_trusted(root: &Path, file: &TrustFile) -> bool {
    if load(root).is_some_and(|kept| kept.has(file)) {
        return true;
    }
    let Some(hash) = named_hash() else { return false };
    let files = RepoContent::files_of(root);
    files.contains(file) && combined_hash(&files) == hash
}

/// Returns those of some files that the user trusts.
pub(super) fn trusted_among(root: &Path, files: &BTreeSet<TrustFile>) -> BTreeSet<TrustFile> {
    if named_hash().is_some_and(|hash| combined_hash(files) == hash) {
        return files.clone();
    }
    let Some(kept) = load(root) else { return BTreeSet::new() };
    files.iter().filter(|file| kept.has(file)).cloned().collect()
}

/// Returns all contents of a repository that the user ever trusted and did not revoke.
pub(super) fn all_trusted(root: &Path) -> BTreeSet<TrustFile> {
    let files = load(root).unwrap_or_default().files;
    let of_path = |(path, hashes): (String, BTreeSet<String>)| {
        let file = move |hash| TrustFile { path: path.clone(), sha256: Some(hash) };
        hashes.into_iter().map(file)
    };
    files.into_iter().flat_map(of_path).collect()
}

/// Trusts the content of some files, besides what is trusted already.
pub(crate) fn remember<'f>(
    root: &Path,
    files: impl IntoIterator<Item = &'f TrustFile>,
) -> Result<(), CliError> {
    let place = trust_file_path(root).ok_or_else(|| no_trust_store_error(root))?;
    let mut kept = load(root).unwrap_or_default();
    (kept.version, kept.repository) = (1, main_root(root).display().to_string());
    for file in files {
        if let Some(hash) = &file.sha256 {
            kept.files.entry(file.path.clone()).or_default().insert(hash.clone());
        }
    }
    if let Some(directory) = place.parent() {
        create_dir(directory).map_err(store_error)?;
    }
    let text = serde_json::to_string_pretty(&kept).unwrap_or_default();
    write_atomic(&place, format!("{text}\n").as_bytes()).map_err(store_error)
}

/// Trusts nothing of a repository any more; returns whether something was trusted.
pub(crate) fn forget(root: &Path) -> Result<bool, CliError> {
    let place = trust_file_path(root).ok_or_else(|| no_trust_store_error(root))?;
    match fs::remove_file(&place) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => {
            let message = format!("cannot remove `{}`", place.display());
            Err(CliError::new(Exit::Failure, message).with_source(error))
        }
    }
}

impl TrustRecord {
    fn has(&self, file: &TrustFile) -> bool {
        let hashes = self.files.get(&file.path);
        file.sha256.as_ref().is_some_and(|hash| hashes.is_some_and(|all| all.contains(hash)))
    }
}

/// Reads what is kept of a repository. A file that cannot be read trusts nothing.
fn load(root: &Path) -> Option<TrustRecord> {
    let kept: TrustRecord = serde_json::from_slice(&fs::read(trust_file_path(root)?).ok()?).ok()?;
    let is_meant = Path::new(&kept.repository) == main_root(root);
    (kept.version == 1 && is_meant).then_some(kept)
}

/// Returns the hash of [`VARIABLE`], if it is set.
fn named_hash() -> Option<String> {
    std::env::var(VARIABLE).ok().map(|hash| hash.trim().to_owned()).filter(|hash| !hash.is_empty())
}

/// Returns the file of a repository, unless the user's configuration lies in that repository:
/// what is committed there must not trust itself.
fn trust_file_path(root: &Path) -> Option<PathBuf> {
    let directory = user_directory()?;
    let root = main_root(root);
    let real = directory.ancestors().find_map(|above| above.canonicalize().ok());
    if [root.as_path(), root_of_checkout(&root).as_path()]
        .iter()
        .any(|root| real.as_ref().is_none_or(|real| real.starts_with(root)))
    {
        return None;
    }
    let name = hex(&Sha256::digest(root.display().to_string()));
    let name = name.get(..NAME_DIGITS).unwrap_or(&name);
    Some(directory.join(DIRECTORY).join(format!("{name}.json")))
}

fn no_trust_store_error(root: &Path) -> CliError {
    let message = format!(
        "the configuration directory of the user is missing or lies inside of `{}`, so trust \
         cannot be kept there",
        root.display()
    );
    CliError::new(Exit::Usage, message)
        .with_hint(format!("set `XDG_CONFIG_HOME` to a place outside, or use `{VARIABLE}`"))
}

fn root_of_checkout(root: &Path) -> PathBuf {
    root.canonicalize().unwrap_or_else(|_| root.to_owned())
}

/// Returns the main working tree of a repository: trust counts for its linked ones, too.
pub(super) fn main_root(root: &Path) -> PathBuf {
    let root = root_of_checkout(root);
    main_of_linked(&root).unwrap_or(root)
}

/// Returns the main working tree of a linked one, if both name each other.
fn main_of_linked(root: &Path) -> Option<PathBuf> {
    let pointer = root.join(".git");
    let text = fs::read_to_string(&pointer).ok()?;
    let admin = PathBuf::from(text.strip_prefix("gitdir: ")?.trim_end());
    let back = fs::read_to_string(admin.join("gitdir")).ok()?;
    let back = PathBuf::from(back.trim_end()).canonicalize().ok()?;
    let worktrees = admin.parent()?;
    let is_linked = back == pointer && worktrees.ends_with("worktrees");
    worktrees.parent()?.parent()?.canonicalize().ok().filter(|_| is_linked)
}
