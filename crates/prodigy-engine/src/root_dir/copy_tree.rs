//! Copying from beneath one directory to beneath another.

use std::{
    ffi::{OsStr, OsString},
    fs::{File, Permissions},
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::{
            ffi::{OsStrExt as _, OsStringExt as _},
            fs::PermissionsExt as _,
        },
    },
    path::Path,
};

use rustix::{
    fs::{AtFlags, Dir, FileType, Mode, OFlags},
    io::Errno,
};

use super::{Error, FinalLink, LocatedPath, MissingDirs, RootDir, is_git};

/// The bits of a file's mode that are copied.
const PERMISSIONS: u32 = 0o777;

impl RootDir {
    /// Copies a file, a link or a whole directory from the same path in another directory.
    ///
    /// Nothing is done if it is missing there, or something is here already.
    pub fn copy_from(&self, from: &Self, path: &Path) -> Result<(), Error> {
        let Some(source) = from.existing(path)? else { return Ok(()) };
        let (source, name) = (source.dir(from), source.name()?);
        let target = self.locate(path, FinalLink::Keep, MissingDirs::Create)?;
        let (target, new) = (target.dir(self), target.name()?);
        if exists(target, new)? { Ok(()) } else { copy(source, name, target, new) }
    }

    /// Makes a symbolic link to the same path in another directory, on the same terms.
    pub fn link_to(&self, from: &Self, path: &Path) -> Result<(), Error> {
        if from.existing(path)?.is_none() {
            return Ok(());
        }
        let place = self.locate(path, FinalLink::Keep, MissingDirs::Create)?;
        match rustix::fs::symlinkat(from.path.join(path), place.dir(self), place.name()?) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Finds what is at a path, if there is something.
    fn existing(&self, path: &Path) -> Result<Option<LocatedPath>, Error> {
        match self.locate(path, FinalLink::Keep, MissingDirs::Refuse) {
            Ok(place) if exists(place.dir(self), place.name()?)? => Ok(Some(place)),
            Ok(_) => Ok(None),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Returns whether a directory holds a name.
fn exists(directory: BorrowedFd<'_>, name: &OsStr) -> Result<bool, Error> {
    match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Copies a name of one directory to a new name of another.
fn copy(
    source: BorrowedFd<'_>,
    name: &OsStr,
    target: BorrowedFd<'_>,
    new: &OsStr,
) -> Result<(), Error> {
    let found = rustix::fs::statat(source, name, AtFlags::SYMLINK_NOFOLLOW)?;
    match FileType::from_raw_mode(found.st_mode) {
        FileType::Symlink => {
            let link = rustix::fs::readlinkat(source, name, Vec::new())?;
            Ok(rustix::fs::symlinkat(OsStr::from_bytes(link.as_bytes()), target, new)?)
        }
        FileType::RegularFile => copy_file(source, name, target, new),
        FileType::Directory => copy_entries(source, name, target, new),
        // Pipes and devices have nothing to copy.
        FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => Ok(()),
    }
}

fn copy_file(
    source: BorrowedFd<'_>,
    name: &OsStr,
    target: BorrowedFd<'_>,
    new: &OsStr,
) -> Result<(), Error> {
    let always = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let mut from = File::from(open(source, name, OFlags::RDONLY | always)?);
    let mode = from.metadata()?.permissions().mode() & PERMISSIONS;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | always;
    let mut to = File::from(rustix::fs::openat(target, new, flags, Mode::from_raw_mode(mode))?);
    io::copy(&mut from, &mut to)?;
    // The umask may have taken something away.
    Ok(to.set_permissions(Permissions::from_mode(mode))?)
}

fn copy_entries(
    source: BorrowedFd<'_>,
    name: &OsStr,
    target: BorrowedFd<'_>,
    new: &OsStr,
) -> Result<(), Error> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let from = open(source, name, flags)?;
    rustix::fs::mkdirat(target, new, Mode::from_raw_mode(PERMISSIONS))?;
    let to = open(target, new, flags)?;
    for entry in Dir::read_from(&from)? {
        let entry = OsString::from_vec(entry?.file_name().to_bytes().to_vec());
        if entry != "." && entry != ".." && !is_git(&entry) {
            copy(from.as_fd(), &entry, to.as_fd(), &entry)?;
        }
    }
    Ok(())
}

fn open(directory: BorrowedFd<'_>, name: &OsStr, flags: OFlags) -> Result<OwnedFd, Error> {
    Ok(rustix::fs::openat(directory, name, flags, Mode::empty())?)
}
