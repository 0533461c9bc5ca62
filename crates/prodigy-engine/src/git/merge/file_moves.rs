//! Moving files of a checkout so that nobody sees one half written.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::Path,
};

use crate::git::Error;

/// The start of the names of files that are on their way to another file system.
pub(crate) const ON_ITS_WAY: &str = ".prodigy-update-";

/// Writes a file at once and for good.
pub(crate) fn write(path: &Path, text: &[u8]) -> Result<(), Error> {
    let draft = path.with_extension("draft");
    let written = File::create(&draft)
        .and_then(|mut file| file.write_all(text).and_then(|()| file.sync_all()));
    written.and_then(|()| rename(&draft, path)).map_err(Error::file("write", path))
}

/// Gives a file a second name; where that cannot be, copies it.
pub(crate) fn link(from: &Path, to: &Path) -> Result<(), Error> {
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent).map_err(Error::file("create", parent))?;
    }
    if fs::hard_link(from, to).is_ok() {
        return Ok(());
    }
    copy(from, to).map_err(Error::file("copy", from))
}

/// Moves a file to its place in one step, also from one file system to another.
pub(crate) fn move_file(from: &Path, to: &Path) -> Result<(), Error> {
    let parent = to.parent().unwrap_or(to);
    fs::create_dir_all(parent).map_err(Error::file("create", parent))?;
    let moved = match rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            let name = to.file_name().unwrap_or_default().to_string_lossy();
            let beside = parent.join(format!("{ON_ITS_WAY}{name}"));
            copy(from, &beside)
                .and_then(|()| rename(&beside, to))
                .and_then(|()| fs::remove_file(from))
        }
        other => other,
    };
    moved.map_err(Error::file("write", to))
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    if from.symlink_metadata()?.is_symlink() {
        return std::os::unix::fs::symlink(fs::read_link(from)?, to);
    }
    fs::copy(from, to).map(drop)
}

/// Removes a directory in which there are only directories, if it is one.
pub(crate) fn remove_empty(path: &Path) {
    if !path.symlink_metadata().is_ok_and(|found| found.is_dir()) {
        return;
    }
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        remove_empty(&entry.path());
    }
    // One with something in it stays, and what should take its place says so.
    fs::remove_dir(path).ok();
}

#[expect(clippy::disallowed_methods, reason = "the files are the user's checkout, not a store")]
pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)
}
