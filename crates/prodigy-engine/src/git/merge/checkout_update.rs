//! Examining a checkout that is to be brought from one commit to another.
//!
//! Git's own commands overwrite ignored files, and refuse files that are already
//! as they should be. So we look for ourselves: what stands in a path may be what the old
//! commit has there or what the new one has, and anything else is in the way.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt as _, fs::MetadataExt as _},
    path::{Path, PathBuf},
};

use crate::git::{
    Error, Repo,
    command::{GitCommand, GitDirs, display_path},
};

/// The mode of an entry that is not there.
const ABSENT: &str = "000000";

/// The mode of a submodule.
const SUBMODULE: &str = "160000";

/// A working tree of the user's that has the target branch checked out.
#[derive(Clone, Copy)]
pub(crate) struct BranchCheckout<'a> {
    pub(crate) repo: &'a Repo,
    pub(crate) place: &'a GitDirs,
}

/// A file in a tree or in the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileEntry {
    mode: String,
    oid: String,
}

/// A path that differs between the two commits.
#[derive(Clone, Debug)]
pub(crate) struct PathChange {
    pub(crate) path: Vec<u8>,
    pub(crate) old: FileEntry,
    pub(crate) new: FileEntry,
    /// The file in the path before it was examined; `None` if there is none.
    pub(crate) stamp: Option<FileStat>,
}

/// The signs by which a file is known to be the one that was examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileStat {
    device: u64,
    inode: u64,
    size: u64,
    mode: u32,
    modified: (i64, i64),
}

/// A file as the index has it.
struct IndexEntry {
    entry: FileEntry,
    is_merged: bool,
    /// Git was told to overlook changes of the file.
    is_hidden: bool,
}

/// A checkout in which nothing is in the way.
pub(crate) struct ExaminedCheckout {
    pub(crate) changes: Vec<PathChange>,
    /// The lines that tell the index about files that are already as they should be.
    pub(crate) arrived: Vec<u8>,
}

/// The paths that would be lost.
pub(crate) struct BlockingPaths {
    pub(crate) paths: Vec<String>,
}

impl<'a> BranchCheckout<'a> {
    pub(crate) fn call(self, args: &[&str]) -> GitCommand<'a> {
        self.repo.git.command_in(self.place, args)
    }

    pub(crate) fn root(self) -> &'a Path {
        &self.place.work_tree
    }

    /// Returns whether a branch is checked out here.
    pub(crate) fn has_branch(self, branch: &str) -> Result<bool, Error> {
        let name = self.call(&["symbolic-ref", "--quiet", "HEAD"]).accept_codes(&[1]).run_text()?;
        Ok(name.strip_prefix("refs/heads/") == Some(branch))
    }
}

impl FileEntry {
    pub(crate) fn is_absent(&self) -> bool {
        self.mode == ABSENT
    }

    pub(crate) fn is_submodule(&self) -> bool {
        self.mode == SUBMODULE
    }
}

impl PathChange {
    /// Returns the path below the working tree, or any other directory.
    pub(crate) fn path_below(&self, root: &Path) -> PathBuf {
        root.join(OsStr::from_bytes(&self.path))
    }
}

impl FileStat {
    /// Returns the stamp of what is in a path, unless that is nothing or a directory.
    pub(crate) fn capture(path: &Path) -> Option<Self> {
        let found = path.symlink_metadata().ok().filter(|found| !found.is_dir())?;
        Some(Self {
            device: found.dev(),
            inode: found.ino(),
            size: found.size(),
            mode: found.mode(),
            modified: (found.mtime(), found.mtime_nsec()),
        })
    }
}

/// Finds out whether a checkout can go from `old`, which it has, to `new`.
///
/// `scratch` is a path for an index to try things with.
pub(crate) fn examine(
    seat: BranchCheckout<'_>,
    old: &str,
    new: &str,
    scratch: &Path,
) -> Result<Result<ExaminedCheckout, BlockingPaths>, Error> {
    let root = seat.root();
    let mut changes = changes(seat.repo, old, new)?;
    for change in &mut changes {
        change.stamp = FileStat::capture(&change.path_below(root));
    }
    let indexed = indexed(seat, &changes)?;
    copy_index(seat, scratch)?;
    unhide(seat, &indexed, scratch)?;
    let dirty = self::dirty(seat, scratch)?;
    let gone: HashSet<&[u8]> =
        changes.iter().filter(|c| c.new.is_absent()).map(|c| c.path.as_slice()).collect();

    let mut blocked: BTreeSet<Vec<u8>> = BTreeSet::new();
    let mut candidates: Vec<&PathChange> = Vec::new();
    for change in &changes {
        if let Some(in_the_way) = in_the_way(root, change, &gone) {
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
        let is_untracked = staged.is_none() && change.stamp.is_some();
        if !is_old || is_untracked || dirty.contains(&change.path) {
            candidates.push(change);
        }
    }

    let arrived = index_lines(&candidates);
    if !arrived.is_empty() {
        let update = seat.call(&["update-index", "-z", "--index-info"]).index(scratch);
        update.stdin(arrived.clone()).run()?;
    }
    let dirty = self::dirty(seat, scratch)?;
    for change in candidates {
        let is_left = change.new.is_absent() && change.stamp.is_some();
        if is_left || dirty.contains(&change.path) {
            blocked.insert(change.path.clone());
        }
    }
    if blocked.is_empty() {
        return Ok(Ok(ExaminedCheckout { changes, arrived }));
    }
    Ok(Err(BlockingPaths { paths: blocked.iter().map(|path| display_path(path)).collect() }))
}

/// Returns the lines that bring an index from one commit to another where it still has the old.
pub(crate) fn pending_index_lines(
    seat: BranchCheckout<'_>,
    old: &str,
    new: &str,
) -> Result<Vec<u8>, Error> {
    let changes = changes(seat.repo, old, new)?;
    let indexed = indexed(seat, &changes)?;
    let is_old = |change: &&PathChange| {
        let staged = indexed.get(&change.path);
        staged.map_or(change.old.is_absent(), |s| s.is_merged && s.entry == change.old)
    };
    Ok(index_lines(&changes.iter().filter(is_old).collect::<Vec<_>>()))
}

/// Returns what differs between two commits.
pub(crate) fn changes(repo: &Repo, old: &str, new: &str) -> Result<Vec<PathChange>, Error> {
    let args = ["diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames", old, new];
    let fields = repo.call(&args).run_fields()?;
    let mut changes = Vec::new();
    for pair in fields.chunks(2) {
        let change = || {
            let [header, path] = pair else { return None };
            let header = std::str::from_utf8(header).ok()?.strip_prefix(':')?;
            let mut words = header.split(' ').map(ToOwned::to_owned);
            let (old_mode, new_mode) = (words.next()?, words.next()?);
            let (old_oid, new_oid) = (words.next()?, words.next()?);
            Some(PathChange {
                path: path.clone(),
                old: FileEntry { mode: old_mode, oid: old_oid },
                new: FileEntry { mode: new_mode, oid: new_oid },
                stamp: None,
            })
        };
        let unexpected = || Error::Unexpected { command: "diff-tree".to_owned() };
        changes.push(change().ok_or_else(unexpected)?);
    }
    Ok(changes)
}

/// Returns what the index has in the changed paths.
fn indexed(
    seat: BranchCheckout<'_>,
    changes: &[PathChange],
) -> Result<HashMap<Vec<u8>, IndexEntry>, Error> {
    let wanted: HashSet<&[u8]> = changes.iter().map(|change| change.path.as_slice()).collect();
    let mut indexed = HashMap::new();
    for field in seat.call(&["ls-files", "-v", "--stage", "-z"]).read_only().run_fields()? {
        let entry = || {
            let tab = field.iter().position(|byte| *byte == b'\t')?;
            let path = field.get(tab + 1..)?;
            let mut words = std::str::from_utf8(field.get(..tab)?).ok()?.split(' ');
            let (tag, mode, oid) = (words.next()?, words.next()?, words.next()?);
            let entry = FileEntry { mode: mode.to_owned(), oid: oid.to_owned() };
            let is_hidden = tag == "S" || tag.starts_with(|c: char| c.is_ascii_lowercase());
            Some((path, IndexEntry { entry, is_merged: words.next()? == "0", is_hidden }))
        };
        let unexpected = || Error::Unexpected { command: "ls-files".to_owned() };
        let (path, entry) = entry().ok_or_else(unexpected)?;
        if wanted.contains(path) {
            indexed.insert(path.to_vec(), entry);
        }
    }
    Ok(indexed)
}

/// Copies the index of a checkout.
pub(crate) fn copy_index(seat: BranchCheckout<'_>, copy: &Path) -> Result<(), Error> {
    let real = seat.place.git_dir.join("index");
    fs::copy(&real, copy).map(drop).map_err(Error::file("copy", &real))
}

/// Changes a copy of the index so that no file that exists is hidden from git.
fn unhide(
    seat: BranchCheckout<'_>,
    indexed: &HashMap<Vec<u8>, IndexEntry>,
    copy: &Path,
) -> Result<(), Error> {
    let mut hidden: Vec<u8> = Vec::new();
    for (path, indexed) in indexed {
        if indexed.is_hidden
            && FileStat::capture(&seat.root().join(OsStr::from_bytes(path))).is_some()
        {
            hidden.extend_from_slice(path);
            hidden.push(0);
        }
    }
    if hidden.is_empty() {
        return Ok(());
    }
    for flag in ["--no-assume-unchanged", "--no-skip-worktree"] {
        let show = seat.call(&["update-index", flag, "-z", "--stdin"]).index(copy);
        show.stdin(hidden.clone()).run()?;
    }
    Ok(())
}

/// Returns the paths whose files are not what an index says.
pub(crate) fn dirty(seat: BranchCheckout<'_>, index: &Path) -> Result<HashSet<Vec<u8>>, Error> {
    refresh(seat, index)?;
    let args = ["diff-files", "-z", "--name-only", "--ignore-submodules=all", "--no-ext-diff"];
    let paths = seat.call(&args).index(index).read_only().run_fields()?;
    Ok(paths.into_iter().collect())
}

/// Tells an index the times of the files that are as it says. That others are not is no error.
pub(crate) fn refresh(seat: BranchCheckout<'_>, index: &Path) -> Result<(), Error> {
    seat.call(&["update-index", "-q", "--refresh"]).index(index).accept_codes(&[1]).run()?;
    Ok(())
}

/// Returns what keeps a path's new file from being written, apart from the path itself.
fn in_the_way(root: &Path, change: &PathChange, gone: &HashSet<&[u8]>) -> Option<Vec<u8>> {
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

/// Returns lines for `update-index --index-info` that put the new files into an index.
pub(crate) fn index_lines(changes: &[&PathChange]) -> Vec<u8> {
    let mut lines = Vec::new();
    for PathChange { path, new, .. } in changes {
        // Git wants the mode of something that goes as a single digit.
        let mode = if new.is_absent() { "0" } else { &new.mode };
        lines.extend_from_slice(format!("{mode} {}\t", new.oid).as_bytes());
        lines.extend_from_slice(path);
        lines.push(0);
    }
    lines
}
