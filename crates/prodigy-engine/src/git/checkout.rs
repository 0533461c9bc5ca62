//! Bringing the user's checkout from one commit to another without losing anything in it.
//!
//! Git's own commands overwrite ignored files, and refuse files that are already
//! as they should be. A merge that was cut off leaves just such files, so we look
//! for ourselves: what stands in a path may be what the old commit has there or
//! what the new one has, and anything else is in the way.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use tempfile::{NamedTempFile, TempPath};

use super::{Error, Repo, command::shown};

/// The mode of an entry that is not there.
const ABSENT: &str = "000000";

/// The mode of a submodule.
const SUBMODULE: &str = "160000";

/// A file in a tree or in the index.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    mode: String,
    oid: String,
}

/// A path that differs between the two commits.
#[derive(Clone, Debug)]
struct Change {
    path: Vec<u8>,
    old: Entry,
    new: Entry,
}

/// A file as the index has it.
struct Indexed {
    entry: Entry,
    is_merged: bool,
    /// Git was told to overlook changes of the file.
    is_hidden: bool,
}

/// A checkout that can be brought forward.
pub(super) struct Checkout<'a> {
    repo: &'a Repo,
    old: String,
    new: String,
    /// The lines that tell the index about files that are already as they should be.
    arrived: Vec<u8>,
}

/// Why a checkout cannot be brought forward.
pub(super) struct Blocked {
    /// What would be lost.
    pub(super) paths: Vec<String>,
}

impl Entry {
    fn is_absent(&self) -> bool {
        self.mode == ABSENT
    }
}

impl<'a> Checkout<'a> {
    /// Finds out whether the main working tree can go from `old`, which it has checked out, to `new`.
    pub(super) fn examine(
        repo: &'a Repo,
        old: &str,
        new: &str,
    ) -> Result<Result<Self, Blocked>, Error> {
        let changes = changes(repo, old, new)?;
        let indexed = indexed(repo, &changes)?;
        let index = index_copy(repo, &indexed)?;
        let dirty = dirty(repo, &index)?;
        let gone: HashSet<&[u8]> =
            changes.iter().filter(|c| c.new.is_absent()).map(|c| c.path.as_slice()).collect();

        let mut blocked: BTreeSet<Vec<u8>> = BTreeSet::new();
        let mut candidates: Vec<&Change> = Vec::new();
        for change in &changes {
            if let Some(in_the_way) = in_the_way(repo.root(), change, &gone) {
                blocked.insert(in_the_way);
                continue;
            }
            let staged = indexed.get(&change.path);
            let is_old = staged.map_or(change.old.is_absent(), |s| s.entry == change.old);
            let is_new = staged.map_or(change.new.is_absent(), |s| s.entry == change.new);
            if staged.is_some_and(|staged| !staged.is_merged) || !(is_old || is_new) {
                blocked.insert(change.path.clone());
                continue;
            }
            let is_untracked = staged.is_none() && holds_file(repo.root(), &change.path);
            if !is_old || is_untracked || dirty.contains(&change.path) {
                candidates.push(change);
            }
        }

        let arrived = index_lines(&candidates);
        if !arrived.is_empty() {
            let update = repo.call(&["update-index", "-z", "--index-info"]).index(&index);
            update.stdin(arrived.clone()).run()?;
        }
        let dirty = self::dirty(repo, &index)?;
        for change in candidates {
            let is_left = change.new.is_absent() && holds_file(repo.root(), &change.path);
            if is_left || dirty.contains(&change.path) {
                blocked.insert(change.path.clone());
            }
        }
        if blocked.is_empty() {
            return Ok(Ok(Self { repo, old: old.to_owned(), new: new.to_owned(), arrived }));
        }
        Ok(Err(Blocked { paths: blocked.iter().map(|path| shown(path)).collect() }))
    }

    /// Brings files and index forward; the branch stays where it is.
    pub(super) fn bring_forward(self) -> Result<(), Error> {
        if !self.arrived.is_empty() {
            let update = self.repo.call(&["update-index", "-z", "--index-info"]);
            update.stdin(self.arrived).run()?;
        }
        // Files whose times changed but not their content would be refused. That other
        // files did change is no error.
        self.repo.call(&["update-index", "-q", "--refresh"]).or(&[1]).run()?;
        self.repo.call(&["read-tree", "-m", "-u", &self.old, &self.new]).run()?;
        Ok(())
    }
}

/// Returns what differs between two commits.
fn changes(repo: &Repo, old: &str, new: &str) -> Result<Vec<Change>, Error> {
    let args = ["diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames", old, new];
    let fields = repo.call(&args).fields()?;
    let mut changes = Vec::new();
    for pair in fields.chunks(2) {
        let change = || {
            let [header, path] = pair else { return None };
            let header = std::str::from_utf8(header).ok()?.strip_prefix(':')?;
            let mut words = header.split(' ').map(ToOwned::to_owned);
            let (old_mode, new_mode) = (words.next()?, words.next()?);
            let (old_oid, new_oid) = (words.next()?, words.next()?);
            Some(Change {
                path: path.clone(),
                old: Entry { mode: old_mode, oid: old_oid },
                new: Entry { mode: new_mode, oid: new_oid },
            })
        };
        let unexpected = || Error::Unexpected { command: "diff-tree".to_owned() };
        changes.push(change().ok_or_else(unexpected)?);
    }
    Ok(changes)
}

/// Returns what the index has in the changed paths.
fn indexed(repo: &Repo, changes: &[Change]) -> Result<HashMap<Vec<u8>, Indexed>, Error> {
    let wanted: HashSet<&[u8]> = changes.iter().map(|change| change.path.as_slice()).collect();
    let mut indexed = HashMap::new();
    for field in repo.call(&["ls-files", "-v", "--stage", "-z"]).reading().fields()? {
        let entry = || {
            let tab = field.iter().position(|byte| *byte == b'\t')?;
            let path = field.get(tab + 1..)?;
            let mut words = std::str::from_utf8(field.get(..tab)?).ok()?.split(' ');
            let (tag, mode, oid) = (words.next()?, words.next()?, words.next()?);
            let entry = Entry { mode: mode.to_owned(), oid: oid.to_owned() };
            let is_hidden = tag == "S" || tag.starts_with(|c: char| c.is_ascii_lowercase());
            Some((path, Indexed { entry, is_merged: words.next()? == "0", is_hidden }))
        };
        let unexpected = || Error::Unexpected { command: "ls-files".to_owned() };
        let (path, entry) = entry().ok_or_else(unexpected)?;
        if wanted.contains(path) {
            indexed.insert(path.to_vec(), entry);
        }
    }
    Ok(indexed)
}

/// Returns a copy of the index in which no file that exists is hidden from git.
fn index_copy(repo: &Repo, indexed: &HashMap<Vec<u8>, Indexed>) -> Result<TempPath, Error> {
    let directory = repo.common_dir();
    let copy = NamedTempFile::with_prefix_in("prodigy-index-", directory);
    let copy = copy.map_err(Error::file("write to", directory))?.into_temp_path();
    let real = repo.main.git_dir.join("index");
    fs::copy(&real, &copy).map_err(Error::file("copy", &real))?;
    let mut hidden: Vec<u8> = Vec::new();
    for (path, indexed) in indexed {
        if indexed.is_hidden && holds_file(repo.root(), path) {
            hidden.extend_from_slice(path);
            hidden.push(0);
        }
    }
    if !hidden.is_empty() {
        let flags = ["--no-assume-unchanged", "--no-skip-worktree"];
        for flag in flags {
            let show = repo.call(&["update-index", flag, "-z", "--stdin"]).index(&copy);
            show.stdin(hidden.clone()).run()?;
        }
    }
    Ok(copy)
}

/// Returns the paths whose files are not what an index says.
fn dirty(repo: &Repo, index: &Path) -> Result<HashSet<Vec<u8>>, Error> {
    repo.call(&["update-index", "-q", "--refresh"]).index(index).or(&[1]).run()?;
    let args = ["diff-files", "-z", "--name-only", "--ignore-submodules=all", "--no-ext-diff"];
    let paths = repo.call(&args).index(index).reading().fields()?;
    Ok(paths.into_iter().collect())
}

/// Returns what keeps a path's new file from being written, apart from the path itself.
fn in_the_way(root: &Path, change: &Change, gone: &HashSet<&[u8]>) -> Option<Vec<u8>> {
    if change.new.is_absent() || change.new.mode == SUBMODULE {
        return None;
    }
    let path = Path::new(OsStr::from_bytes(&change.path));
    for above in path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()) {
        let is_other = root.join(above).symlink_metadata().is_ok_and(|found| !found.is_dir());
        if is_other && !gone.contains(above.as_os_str().as_bytes()) {
            return Some(above.as_os_str().as_bytes().to_vec());
        }
    }
    // A directory goes if all that is in it goes.
    let mut waiting: Vec<PathBuf> = vec![path.to_owned()];
    while let Some(directory) = waiting.pop() {
        let is_directory =
            root.join(&directory).symlink_metadata().is_ok_and(|found| found.is_dir());
        if !is_directory {
            let name = directory.as_os_str().as_bytes();
            if directory != path && !gone.contains(name) {
                return Some(name.to_vec());
            }
            continue;
        }
        let Ok(entries) = fs::read_dir(root.join(&directory)) else {
            return Some(directory.as_os_str().as_bytes().to_vec());
        };
        waiting.extend(entries.flatten().map(|entry| directory.join(entry.file_name())));
    }
    None
}

/// Returns whether there is something other than a directory in a path.
fn holds_file(root: &Path, path: &[u8]) -> bool {
    let path = root.join(OsStr::from_bytes(path));
    path.symlink_metadata().is_ok_and(|found| !found.is_dir())
}

/// Returns lines for `update-index --index-info` that put the new files into an index.
fn index_lines(changes: &[&Change]) -> Vec<u8> {
    let mut lines = Vec::new();
    for Change { path, new, .. } in changes {
        // Git wants the mode of something that goes as a single digit.
        let mode = if new.is_absent() { "0" } else { &new.mode };
        lines.extend_from_slice(format!("{mode} {}\t", new.oid).as_bytes());
        lines.extend_from_slice(path);
        lines.push(0);
    }
    lines
}
