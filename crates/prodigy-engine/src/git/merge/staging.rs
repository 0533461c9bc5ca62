//! The new files of a checkout beside their places, and the old ones, until an update is done.
//!
//! Git writes the new files into an empty directory. From there each takes its place by a
//! rename, so that no file is ever seen half written; the old file stays as a hard link, by
//! which it is put back, the very same file, if the update cannot be finished.

use std::{
    collections::{BTreeSet, HashSet},
    ffi::OsStr,
    fs, io,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::{Path, PathBuf},
};

use prodigy_core::event::CheckoutUpdate;

use super::{
    checkout_update::{BranchCheckout, ExaminedCheckout, FileStat, copy_index, dirty},
    file_moves::{ON_ITS_WAY, link, move_file, remove_empty, write},
};
use crate::git::{
    Error,
    command::{GitDirs, display_path, split_fields},
    isolation::isolated_git_dir::read_regular_or_empty,
    worktree::remove,
};

/// The directory of an update, in the git directory of the working tree that is updated.
pub(crate) struct StagingDir {
    path: PathBuf,
}

/// The changes that an update makes, removals first.
pub(crate) struct UpdatePlan {
    entries: Vec<UpdateEntry>,
}

struct UpdateEntry {
    action: UpdateAction,
    path: PathBuf,
    /// The file that is replaced or removed; `None` if there is none.
    stamp: Option<FileStat>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum UpdateAction {
    Remove,
    Place,
    /// Make the empty directory of a submodule.
    Directory,
}

impl UpdateAction {
    const ALL: &'static [(Self, u8)] =
        &[(Self::Remove, b'-'), (Self::Place, b'+'), (Self::Directory, b'/')];

    fn code(self) -> u8 {
        Self::ALL.iter().find(|(action, _)| *action == self).map_or(b'+', |(_, sign)| *sign)
    }

    fn from_code(sign: u8) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == sign).map(|(action, _)| *action)
    }
}

/// A path that changed after it was examined.
pub(crate) struct ConcurrentChange {
    pub(crate) path: String,
}

impl StagingDir {
    pub(crate) fn of(place: &GitDirs, source_branch: &str) -> Self {
        let name = format!("prodigy-update-{}", source_branch.replace('/', "-"));
        Self { path: place.git_dir.join(name) }
    }

    pub(crate) fn exists(&self) -> bool {
        self.path.symlink_metadata().is_ok()
    }

    /// Makes the directory anew, with nothing in it but the update that it is for.
    pub(crate) fn create(&self, update: &CheckoutUpdate) -> Result<(), Error> {
        self.remove()?;
        for path in [&self.path, &self.new_files(), &self.old_files()] {
            fs::create_dir(path).map_err(Error::file("create", path))?;
        }
        let text = serde_json::to_vec(update).map_err(|source| Error::Guard { source })?;
        write(&self.update(), &text)
    }

    /// Reads the update that the directory is for.
    pub(crate) fn read_update(&self) -> Result<Option<CheckoutUpdate>, Error> {
        Ok(serde_json::from_slice(&read_regular_or_empty(&self.update())?).ok())
    }

    /// Removes the directory; the plan goes first, so that nothing is done by half of it.
    pub(crate) fn remove(&self) -> Result<(), Error> {
        remove(&self.manifest())?;
        remove(&self.path)
    }

    /// Returns the path of an index to try things with.
    pub(crate) fn scratch_index(&self) -> PathBuf {
        self.path.join("scratch-index")
    }

    /// Returns the path of the index that the checkout gets.
    pub(crate) fn index(&self) -> PathBuf {
        self.path.join("index")
    }

    fn new_files(&self) -> PathBuf {
        self.path.join("new")
    }

    fn old_files(&self) -> PathBuf {
        self.path.join("old")
    }

    fn update(&self) -> PathBuf {
        self.path.join("update.json")
    }

    fn manifest(&self) -> PathBuf {
        self.path.join("plan")
    }

    /// Has git write the new index and the new files, and links the old ones.
    pub(crate) fn write_files(
        &self,
        seat: BranchCheckout<'_>,
        examined: &ExaminedCheckout,
        (old, new): (&str, &str),
    ) -> Result<Result<UpdatePlan, ConcurrentChange>, Error> {
        let index = self.index();
        copy_index(seat, &index)?;
        if !examined.arrived.is_empty() {
            let update = seat.call(&["update-index", "-z", "--index-info"]).index(&index);
            update.stdin(examined.arrived.clone()).run()?;
        }
        let place = GitDirs { work_tree: self.new_files(), ..seat.place.clone() };
        let elsewhere = BranchCheckout { repo: seat.repo, place: &place };
        elsewhere.call(&["read-tree", "-m", "-u", old, new]).index(&index).run()?;
        let plan = self.plan(seat, examined);
        for entry in &plan.entries {
            let from = seat.root().join(&entry.path);
            if FileStat::capture(&from) != entry.stamp {
                return Ok(Err(entry.concurrent_change()));
            }
            if entry.stamp.is_some() {
                link(&from, &self.old_files().join(&entry.path))?;
            }
        }
        plan.write(&self.manifest())?;
        Ok(Ok(plan))
    }

    /// Returns the changes, from the files that git has written.
    fn plan(&self, seat: BranchCheckout<'_>, examined: &ExaminedCheckout) -> UpdatePlan {
        let new_files = self.new_files();
        let (mut removals, mut others) = (Vec::new(), Vec::new());
        for change in &examined.changes {
            let path = PathBuf::from(OsStr::from_bytes(&change.path));
            let stamp = change.stamp;
            if change.new.is_absent() {
                if stamp.is_some() {
                    removals.push(UpdateEntry { action: UpdateAction::Remove, path, stamp });
                }
            } else if change.new.is_submodule() {
                if !change.path_below(seat.root()).is_dir() {
                    others.push(UpdateEntry { action: UpdateAction::Directory, path, stamp });
                }
            } else if FileStat::capture(&new_files.join(&path)).is_some() {
                others.push(UpdateEntry { action: UpdateAction::Place, path, stamp });
            }
        }
        removals.append(&mut others);
        UpdatePlan { entries: removals }
    }

    /// Reads the plan of an update that was cut off; `None` if it had not begun.
    pub(crate) fn read_plan(&self) -> Result<Option<UpdatePlan>, Error> {
        let manifest = self.manifest();
        let text = match fs::read(&manifest) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::file("read", &manifest)(error)),
        };
        let mut entries = Vec::new();
        for mut field in split_fields(&text) {
            let unexpected = || Error::Unexpected { command: "update plan".to_owned() };
            let sign = field.first().copied().ok_or_else(unexpected)?;
            let path = PathBuf::from(std::ffi::OsString::from_vec(field.split_off(1)));
            let stamp = FileStat::capture(&self.old_files().join(&path));
            let action = UpdateAction::from_code(sign).ok_or_else(unexpected)?;
            entries.push(UpdateEntry { action, path, stamp });
        }
        Ok(Some(UpdatePlan { entries }))
    }

    /// Removes and places the files; stops at the first that changed since it was examined.
    pub(crate) fn apply(
        &self,
        seat: BranchCheckout<'_>,
        plan: &UpdatePlan,
    ) -> Result<Result<(), ConcurrentChange>, Error> {
        for entry in &plan.entries {
            if FileStat::capture(&seat.root().join(&entry.path)) != entry.stamp {
                return Ok(Err(entry.concurrent_change()));
            }
            self.apply_entry(seat, entry)?;
        }
        plan.remove_empty_dirs(seat.root(), UpdateAction::Remove);
        Ok(Ok(()))
    }

    /// Does what is still to be done of an update that was cut off, and leaves alone what
    /// somebody has changed since.
    pub(crate) fn finish(&self, seat: BranchCheckout<'_>, plan: &UpdatePlan) -> Result<(), Error> {
        for entry in &plan.entries {
            let is_to_do = match entry.action {
                UpdateAction::Place => {
                    FileStat::capture(&self.new_files().join(&entry.path)).is_some()
                }
                UpdateAction::Remove | UpdateAction::Directory => true,
            };
            if is_to_do && FileStat::capture(&seat.root().join(&entry.path)) == entry.stamp {
                self.apply_entry(seat, entry)?;
            }
        }
        plan.remove_empty_dirs(seat.root(), UpdateAction::Remove);
        Ok(())
    }

    fn apply_entry(&self, seat: BranchCheckout<'_>, entry: &UpdateEntry) -> Result<(), Error> {
        let to = seat.root().join(&entry.path);
        match entry.action {
            UpdateAction::Remove => remove(&to),
            UpdateAction::Place => {
                remove_empty(&to);
                move_file(&self.new_files().join(&entry.path), &to)
            }
            UpdateAction::Directory => {
                remove(&to)?;
                fs::create_dir_all(&to).map_err(Error::file("create", &to))
            }
        }
    }

    /// Puts back what was done of an update; returns the paths that somebody has changed since,
    /// which stay as they are.
    pub(crate) fn undo(
        &self,
        seat: BranchCheckout<'_>,
        plan: &UpdatePlan,
    ) -> Result<Vec<String>, Error> {
        let changed: HashSet<Vec<u8>> = dirty(seat, &self.index())?;
        let mut kept = Vec::new();
        plan.remove_leftovers(seat.root())?;
        for entry in plan.entries.iter().rev() {
            let at = seat.root().join(&entry.path);
            let backup = self.old_files().join(&entry.path);
            let now = FileStat::capture(&at);
            if now == entry.stamp {
                continue;
            }
            let is_ours = match entry.action {
                UpdateAction::Place => {
                    now.is_some() && !changed.contains(entry.path.as_os_str().as_bytes())
                }
                UpdateAction::Remove | UpdateAction::Directory => now.is_none(),
            };
            if !is_ours {
                kept.push(entry);
            } else if entry.stamp.is_some() {
                remove_empty(&at);
                move_file(&backup, &at)?;
            } else {
                remove(&at)?;
            }
        }
        for entry in plan.entries.iter().filter(|entry| entry.action == UpdateAction::Directory) {
            remove_empty(&seat.root().join(&entry.path));
        }
        plan.remove_empty_dirs(seat.root(), UpdateAction::Place);
        self.changed_by_others(seat, &kept)
    }

    /// Returns the paths among those that were left alone that are not as the index has them.
    fn changed_by_others(
        &self,
        seat: BranchCheckout<'_>,
        kept: &[&UpdateEntry],
    ) -> Result<Vec<String>, Error> {
        if kept.is_empty() {
            return Ok(Vec::new());
        }
        copy_index(seat, &self.scratch_index())?;
        let changed = dirty(seat, &self.scratch_index())?;
        let path = |entry: &&UpdateEntry| {
            let path = entry.path.as_os_str().as_bytes();
            (entry.stamp.is_none() || changed.contains(path)).then(|| display_path(path))
        };
        Ok(kept.iter().filter_map(path).collect())
    }
}

impl UpdateEntry {
    fn concurrent_change(&self) -> ConcurrentChange {
        ConcurrentChange { path: display_path(self.path.as_os_str().as_bytes()) }
    }
}

impl UpdatePlan {
    fn write(&self, path: &Path) -> Result<(), Error> {
        let mut text = Vec::new();
        for entry in &self.entries {
            text.push(entry.action.code());
            text.extend_from_slice(entry.path.as_os_str().as_bytes());
            text.push(0);
        }
        write(path, &text)
    }

    /// Removes the directories that an action has left empty.
    fn remove_empty_dirs(&self, root: &Path, action: UpdateAction) {
        for entry in self.entries.iter().filter(|entry| entry.action == action) {
            for above in entry.path.ancestors().skip(1).filter(|p| !p.as_os_str().is_empty()) {
                // One with something in it stays.
                if fs::remove_dir(root.join(above)).is_err() {
                    break;
                }
            }
        }
    }

    /// Removes files that a kill has left on their way to another file system.
    fn remove_leftovers(&self, root: &Path) -> Result<(), Error> {
        let parents: BTreeSet<_> = self.entries.iter().filter_map(|e| e.path.parent()).collect();
        for parent in parents {
            // One that is not there holds nothing.
            for entry in fs::read_dir(root.join(parent)).into_iter().flatten().flatten() {
                if entry.file_name().as_bytes().starts_with(ON_ITS_WAY.as_bytes()) {
                    remove(&entry.path())?;
                }
            }
        }
        Ok(())
    }
}
