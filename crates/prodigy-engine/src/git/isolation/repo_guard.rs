//! Watching the files of a repository that decide which programs git runs.
//!
//! All worktrees of a repository share them, and agents can write to all of
//! them. A filter planted in the configuration would run inside our next
//! `worktree add`, and no switch of git's turns filters off.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{OsStr, OsString},
    fmt, fs, io,
    os::unix::{ffi::OsStringExt as _, fs::PermissionsExt as _},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use super::git_config::{self, GitConfigEntry};
use crate::git::{Error, Repo, repo_id, worktree::remove};

/// The most of one file that is looked at; what is larger is no configuration.
const MOST_BYTES: u64 = 4 << 20;

/// Files that are watched whatever is in them; configuration files are judged by their settings.
const FILES: &[&str] =
    &["info/attributes", "info/grafts", "objects/info/alternates", repo_id::ID_FILE];

/// Directories of watched files; a link in their place would lead us to the user's own files.
const DIRECTORIES: &[&str] = &["hooks", "info", "objects/info", "worktrees"];

/// The content of a repository's dangerous files when a job began.
///
/// It can be stored with the job, so that a resumed run compares with the same.
#[derive(Clone, Debug)]
pub struct RepoGuard {
    repo: Repo,
    before: GuardSnapshot,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct GuardSnapshot {
    /// The configuration files, as absolute paths: the repository's own and what they include.
    configs: BTreeMap<PathBuf, PathContent>,
    /// The other files.
    files: BTreeMap<PathBuf, PathContent>,
    /// The directories that watched files are in.
    directories: BTreeMap<PathBuf, PathContent>,
    /// The directory of hooks.
    hooks: PathBuf,
}

/// A change that was found and taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tampering {
    /// The file that was changed.
    pub path: PathBuf,
    /// The change, e.g. `filter.x.smudge was set to ...`.
    pub what: String,
}

impl fmt::Display for Tampering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.what)
    }
}

/// The content at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum PathContent {
    Nothing,
    File { bytes: Vec<u8>, mode: u32 },
    Link { target: PathBuf },
    Other,
}

impl RepoGuard {
    /// Remembers a repository's files as they are now.
    pub fn capture(repo: &Repo) -> Result<Self, Error> {
        let common = repo.common_dir();
        let mut configs = BTreeMap::new();
        for path in config_files(repo)?.into_iter().chain(included_files(repo)?) {
            let content = PathContent::read(&path)?;
            if let (PathContent::Link { .. }, Ok(target)) = (&content, path.canonicalize()) {
                configs.insert(target.clone(), PathContent::read(&target)?);
            }
            configs.insert(path, content);
        }
        let hooks_dir = common.join("hooks");
        let mut files = BTreeMap::new();
        for path in FILES.iter().map(|file| common.join(file)).chain(hooks(&hooks_dir)?) {
            let content = PathContent::read(&path)?;
            files.insert(path, content);
        }
        let mut directories = BTreeMap::new();
        for path in DIRECTORIES.iter().map(|directory| common.join(directory)) {
            let content = PathContent::read(&path)?;
            directories.insert(path, content);
        }
        let before = GuardSnapshot { configs, files, directories, hooks: hooks_dir };
        Ok(Self { repo: repo.clone(), before })
    }

    /// Returns what was remembered, as JSON.
    pub fn to_json(&self) -> Result<String, Error> {
        serde_json::to_string(&self.before).map_err(|source| Error::Guard { source })
    }

    /// Goes on from what was remembered when the job began.
    pub fn from_json(repo: &Repo, json: &str) -> Result<Self, Error> {
        let before = serde_json::from_str(json).map_err(|source| Error::Guard { source })?;
        Ok(Self { repo: repo.clone(), before })
    }

    /// Returns what was remembered, as JSON, for a repository that was moved meanwhile.
    pub fn relocate_json(json: &str, from: &Path, to: &Path) -> Result<String, Error> {
        let before: GuardSnapshot =
            serde_json::from_str(json).map_err(|source| Error::Guard { source })?;
        let place = |path: &Path| match path.strip_prefix(from) {
            Ok(rest) => to.join(rest),
            Err(_) => path.to_owned(),
        };
        let moved = |paths: BTreeMap<PathBuf, PathContent>| {
            paths.into_iter().map(|(path, content)| (place(&path), content)).collect()
        };
        let before = GuardSnapshot {
            hooks: place(&before.hooks),
            configs: moved(before.configs),
            files: moved(before.files),
            directories: moved(before.directories),
        };
        serde_json::to_string(&before).map_err(|source| Error::Guard { source })
    }

    /// Takes back what was changed since, and says what that was.
    ///
    /// Settings that run nothing, such as the upstream of a branch, may change: the
    /// user goes on working in the repository.
    pub fn check_and_restore(&self) -> Result<Vec<Tampering>, Error> {
        let (repo, before) = (&self.repo, &self.before);
        let mut found = Vec::new();
        for (path, content) in &before.directories {
            check_directory(path, content, &mut found)?;
        }
        let mut configs: BTreeMap<PathBuf, &PathContent> =
            before.configs.iter().map(|(path, content)| (path.clone(), content)).collect();
        for path in config_files(repo)? {
            configs.entry(path).or_insert(&PathContent::Nothing);
        }
        for (path, content) in configs {
            check_config(repo, &path, content, &mut found)?;
        }
        let mut files: BTreeMap<PathBuf, &PathContent> =
            before.files.iter().map(|(path, content)| (path.clone(), content)).collect();
        for path in hooks(&before.hooks)? {
            files.entry(path).or_insert(&PathContent::Nothing);
        }
        for (path, content) in files {
            let now = PathContent::read(&path)?;
            if now != *content {
                found.push(Tampering { what: content.changed_to(&now), path: path.clone() });
                content.write(&path)?;
            }
        }
        Ok(found)
    }
}

impl PathContent {
    fn read(path: &Path) -> Result<Self, Error> {
        let metadata = match path.symlink_metadata() {
            Ok(metadata) => metadata,
            Err(error) if is_absent(&error) => return Ok(Self::Nothing),
            Err(error) => return Err(Error::file("read", path)(error)),
        };
        if metadata.is_symlink() {
            let target = fs::read_link(path).map_err(Error::file("read", path))?;
            return Ok(Self::Link { target });
        }
        // A pipe would keep us waiting, and a huge file would fill our memory.
        if !metadata.is_file() || metadata.len() > MOST_BYTES {
            return Ok(Self::Other);
        }
        let bytes = fs::read(path).map_err(Error::file("read", path))?;
        Ok(Self::File { bytes, mode: metadata.permissions().mode() & 0o777 })
    }

    /// Puts the content back.
    fn write(&self, path: &Path) -> Result<(), Error> {
        match self {
            Self::Nothing => remove(path),
            // What it was made of is not known; it is left to the user, who is told.
            Self::Other => Ok(()),
            Self::Link { target } => {
                remove(path)?;
                std::os::unix::fs::symlink(target, path).map_err(Error::file("write", path))
            }
            Self::File { bytes, mode } => {
                if path.symlink_metadata().is_ok_and(|found| found.is_dir()) {
                    remove(path)?;
                }
                let directory = path.parent().unwrap_or(path);
                fs::create_dir_all(directory).map_err(Error::file("create", directory))?;
                let file = NamedTempFile::new_in(directory).map_err(Error::file("write", path))?;
                io::Write::write_all(&mut file.as_file(), bytes)
                    .and_then(|()| {
                        file.as_file().set_permissions(fs::Permissions::from_mode(*mode))
                    })
                    .and_then(|()| file.as_file().sync_all())
                    .map_err(Error::file("write", path))?;
                file.persist(path).map_err(|error| Error::file("write", path)(error.error))?;
                Ok(())
            }
        }
    }

    fn changed_to(&self, now: &Self) -> String {
        let what = match (self, now) {
            (Self::Nothing, _) => "it was added",
            (_, Self::Nothing) => "it was removed",
            (Self::File { bytes, .. }, Self::File { bytes: new, .. }) if bytes == new => {
                "its permissions were changed"
            }
            (Self::File { .. } | Self::Link { .. } | Self::Other, _) => "it was changed",
        };
        what.to_owned()
    }
}

/// Takes back what stands in place of a directory, or of the link that led to it.
fn check_directory(
    path: &Path,
    before: &PathContent,
    found: &mut Vec<Tampering>,
) -> Result<(), Error> {
    let now = PathContent::read(path)?;
    let is_followed = |content: &PathContent| match content {
        PathContent::Link { .. } | PathContent::File { .. } => true,
        PathContent::Nothing | PathContent::Other => false,
    };
    if now == *before || !(is_followed(&now) || is_followed(before)) {
        return Ok(());
    }
    found.push(Tampering { path: path.to_owned(), what: before.changed_to(&now) });
    if is_followed(before) {
        return before.write(path);
    }
    remove(path)?;
    fs::create_dir_all(path).map_err(Error::file("create", path))
}

/// Compares one configuration file with what it was.
fn check_config(
    repo: &Repo,
    path: &Path,
    before: &PathContent,
    found: &mut Vec<Tampering>,
) -> Result<(), Error> {
    let now = PathContent::read(path)?;
    if now == *before {
        return Ok(());
    }
    let old = parsed(repo, before)?.unwrap_or_default();
    let Some(new) = parsed(repo, &now)? else {
        found.push(Tampering { path: path.to_owned(), what: before.changed_to(&now) });
        return before.write(path);
    };
    let dangerous: Vec<String> = new
        .difference(&old)
        .map(|(name, value)| (name, format!("`{name}` was set to `{}`", value.escape_debug())))
        .chain(old.difference(&new).map(|(name, _)| (name, format!("`{name}` was removed"))))
        .filter(|(name, _)| !git_config::is_harmless(name))
        .map(|(_, what)| what)
        .collect();
    if dangerous.is_empty() {
        return Ok(());
    }
    before.write(path)?;
    // What the user did beside it stays: only the dangerous settings go.
    let harmless = new.difference(&old).filter(|(name, _)| git_config::is_harmless(name));
    for setting in harmless {
        git_config::add(&repo.git, path, setting)?;
    }
    let what = dangerous.into_iter().map(|what| Tampering { path: path.to_owned(), what });
    found.extend(what);
    Ok(())
}

/// Returns the settings in a configuration file's content, `None` if it is not one.
fn parsed(repo: &Repo, content: &PathContent) -> Result<Option<BTreeSet<GitConfigEntry>>, Error> {
    match content {
        PathContent::Nothing => Ok(Some(BTreeSet::new())),
        PathContent::Link { .. } | PathContent::Other => Ok(None),
        PathContent::File { bytes, .. } => {
            // A copy is read, so that what is judged is what was compared.
            let failed = || Error::file("write to", repo.common_dir());
            let file = NamedTempFile::new_in(repo.common_dir()).map_err(failed())?;
            io::Write::write_all(&mut file.as_file(), bytes).map_err(failed())?;
            git_config::read(&repo.git, file.path())
        }
    }
}

/// Returns the repository's own configuration files, whether they exist or not.
fn config_files(repo: &Repo) -> Result<Vec<PathBuf>, Error> {
    let common = repo.common_dir();
    let mut files = vec![common.join("config"), common.join("config.worktree")];
    for worktree in listed(&common.join("worktrees"))? {
        files.push(worktree.join("config.worktree"));
    }
    Ok(files)
}

/// Returns the files that the repository's own configuration includes.
fn included_files(repo: &Repo) -> Result<Vec<PathBuf>, Error> {
    let args = ["config", "--local", "--includes", "--show-origin", "--name-only", "-z", "--list"];
    let fields = repo.call(&args).read_only().run_fields()?;
    let file = |origin: &Vec<u8>| {
        let path = origin.strip_prefix(b"file:")?;
        let path = PathBuf::from(OsString::from_vec(path.to_vec()));
        Some(if path.is_absolute() { path } else { repo.root().join(path) })
    };
    let mut files: Vec<PathBuf> = fields.iter().step_by(2).filter_map(file).collect();
    files.retain(|file| *file != repo.common_dir().join("config"));
    files.dedup();
    Ok(files)
}

/// Returns the hooks in a directory; git's samples are none.
fn hooks(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut hooks = listed(directory)?;
    hooks.retain(|hook| hook.extension() != Some(OsStr::new("sample")));
    Ok(hooks)
}

/// Returns the paths in a directory that need not exist.
fn listed(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if is_absent(&error) => return Ok(Vec::new()),
        Err(error) => return Err(Error::file("read", directory)(error)),
    };
    let path = |entry: io::Result<fs::DirEntry>| {
        entry.map(|entry| entry.path()).map_err(Error::file("read", directory))
    };
    entries.map(path).collect()
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
