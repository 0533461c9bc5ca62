//! Reading an index that we had git write, and removing the files that are not in it.
//!
//! `git clean` does the latter too, at the price of a process per item.

use std::{
    collections::HashSet,
    fs, io,
    os::unix::{ffi::OsStrExt as _, fs::PermissionsExt as _},
    path::{Path, PathBuf},
};

use super::{
    Error,
    command::{GitCommand, split_fields},
    worktree::remove,
};

/// The length of an index's header, in bytes: signature, version and number of entries.
const HEADER: usize = 12;

/// The number of bytes of an entry before the name of its object.
const STAT: usize = 40;

/// Where the mode of an entry is.
const MODE: std::ops::Range<usize> = 24..28;

const EXTENDED: u16 = 0x4000;
const SKIP_WORKTREE: u16 = 0x4000;
const SUBMODULE: u32 = 0o160_000;

/// The paths of an index.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct IndexPaths {
    files: HashSet<PathBuf>,
    submodules: HashSet<PathBuf>,
    /// The directories that files and submodules are in.
    directories: HashSet<PathBuf>,
}

impl IndexPaths {
    /// Reads the paths that an index says are in the worktree.
    ///
    /// `hash` is how many bytes the name of an object has.
    pub(super) fn read(index: &Path, hash: usize) -> Result<Self, Error> {
        let bytes = fs::read(index).map_err(Error::file("read", index))?;
        let unexpected = || Error::Unexpected { command: "read-tree".to_owned() };
        Self::parse(&bytes, hash).ok_or_else(unexpected)
    }

    /// Returns the submodules of an index that have a repository of their own in a worktree.
    ///
    /// An index that we cannot read is none of ours, and may have any.
    pub(super) fn checked_out_submodules(
        index: &Path,
        hash: usize,
        root: &Path,
    ) -> Option<Vec<PathBuf>> {
        let bytes = match fs::read(index) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Some(Vec::new()),
            other => other.ok()?,
        };
        let mut found: Vec<_> = Self::parse(&bytes, hash)?.submodules.into_iter().collect();
        found.retain(|path| root.join(path).join(".git").symlink_metadata().is_ok());
        Some(found)
    }

    fn parse(bytes: &[u8], hash: usize) -> Option<Self> {
        let version = number(bytes.get(4..8)?);
        if bytes.get(..4)? != b"DIRC" || !matches!(version, 2 | 3) {
            return None;
        }
        let mut paths = Self::default();
        let mut rest = bytes.get(HEADER..)?;
        for _ in 0..number(bytes.get(8..HEADER)?) {
            let mode = number(rest.get(MODE)?);
            let flags = short(rest.get(STAT + hash..)?)?;
            let mut start = STAT + hash + 2;
            let mut is_left_out = false;
            if flags & EXTENDED != 0 {
                is_left_out = short(rest.get(start..)?)? & SKIP_WORKTREE != 0;
                start += 2;
            }
            let name = rest.get(start..)?;
            let length = name.iter().position(|byte| *byte == 0)?;
            if !is_left_out {
                paths.add(Path::new(std::ffi::OsStr::from_bytes(name.get(..length)?)), mode);
            }
            // Entries are filled up with one to eight zeros.
            rest = rest.get((start + length) / 8 * 8 + 8..)?;
        }
        Some(paths)
    }

    fn add(&mut self, path: &Path, mode: u32) {
        let mut above = path.parent();
        while let Some(directory) = above {
            if directory.as_os_str().is_empty() || !self.directories.insert(directory.to_owned()) {
                break;
            }
            above = directory.parent();
        }
        let set = if mode == SUBMODULE { &mut self.submodules } else { &mut self.files };
        set.insert(path.to_owned());
    }

    /// Removes everything from a worktree that is not in the index, but for `kept`.
    pub(super) fn remove_untracked(&self, root: &Path, kept: &[PathBuf]) -> Result<(), Error> {
        let mut waiting = vec![PathBuf::new()];
        while let Some(directory) = waiting.pop() {
            let at = root.join(&directory);
            for entry in fs::read_dir(&at).map_err(Error::file("read", &at))? {
                let entry = entry.map_err(Error::file("read", &at))?;
                let path = directory.join(entry.file_name());
                let kind = entry.file_type().map_err(Error::file("read", &at))?;
                if path == Path::new(".git") || kept.contains(&path) {
                    continue;
                }
                let holds_kept = || kept.iter().any(|kept| kept.starts_with(&path));
                if !kind.is_dir() {
                    // No file of git's is a pipe or a socket, whatever its name.
                    let is_plain = kind.is_file() || kind.is_symlink();
                    if !is_plain || !self.files.contains(&path) {
                        remove(&entry.path())?;
                    }
                } else if self.directories.contains(&path) || holds_kept() {
                    waiting.push(path);
                } else {
                    remove_directory(&entry.path())?;
                    if self.submodules.contains(&path) {
                        fs::create_dir(entry.path())
                            .map_err(Error::file("create", entry.path()))?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Removes a directory, also one that its maker has closed.
fn remove_directory(path: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_up(path);
            remove(path)
        }
        other => other.map_err(Error::file("remove", path)),
    }
}

/// Lets us into a directory and those below.
fn open_up(path: &Path) {
    // If this does not work, removing fails too, and says why.
    fs::set_permissions(path, fs::Permissions::from_mode(0o700)).ok();
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}

fn number(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

fn short(bytes: &[u8]) -> Option<u16> {
    let [high, low, ..] = bytes else { return None };
    Some(u16::from_be_bytes([*high, *low]))
}

/// Takes repositories inside a worktree off an index, so that `git add` does not look into them.
///
/// It would run `git status` there, with that repository's filters, and no setting keeps it
/// from that. What is not on the index is added by the commit it stands at, which is all
/// that is recorded of it anyway. `hash` is how many bytes the name of an object has.
pub(super) fn remove_nested_repos<'a>(
    call: impl Fn(&[&str]) -> GitCommand<'a>,
    index: &Path,
    root: &Path,
    hash: usize,
) -> Result<(), Error> {
    let paths = match IndexPaths::checked_out_submodules(index, hash, root) {
        Some(found) => {
            let paths = found.iter().map(|path| [path.as_os_str().as_encoded_bytes(), b"\0"]);
            paths.flatten().collect::<Vec<_>>().concat()
        }
        None => listed(&call(&["ls-files", "--stage", "-z"]).run()?.stdout),
    };
    if !paths.is_empty() {
        call(&["update-index", "--force-remove", "-z", "--stdin"]).stdin(paths).run()?;
    }
    Ok(())
}

/// Returns the submodules of a listed index, each ended by a NUL byte.
fn listed(stage: &[u8]) -> Vec<u8> {
    let mut paths = Vec::new();
    for field in split_fields(stage) {
        let path = field.splitn(2, |byte| *byte == b'\t').nth(1).unwrap_or_default();
        if field.starts_with(b"160000 ") {
            paths.extend(path);
            paths.push(0);
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_submodules_are_taken_from_a_list() {
        let stage = b"100644 1111 0\ta\x00160000 2222 0\tb\tc\x00160000 3333 2\td\x00";
        assert_eq!(listed(stage), b"b\tc\0d\0");
    }
}
