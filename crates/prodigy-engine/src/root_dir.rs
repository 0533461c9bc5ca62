//! Files beneath a directory that somebody else may change meanwhile.
//!
//! A path that is checked first and opened afterwards can be led elsewhere in between: one
//! directory of it is swapped for a symbolic link. So nothing is checked here that is not held
//! open at the same time. A path without links is opened by the kernel in one step, with
//! `openat2`. Where there are links, directories to be made, or an older kernel, the path is
//! walked: each part is opened from the directory before it, and links are followed by us.

mod copy_tree;

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, Read as _},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::{OsStrExt as _, OsStringExt as _},
    },
    path::{Component, Path, PathBuf},
};

use rustix::{
    fs::{Mode, OFlags, ResolveFlags},
    io::Errno,
};

use crate::store::describe_refusal;

/// The most links that one path may lead through, and swaps that are waited out.
const LINKS: u32 = 40;

/// The reason that a path beneath a directory was not opened.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is absolute, or goes up.
    #[error("`{}` must be relative and stay inside the worktree", .0.display())]
    NotRelative(PathBuf),
    /// A link leads out.
    #[error("`{}` leads out of the worktree by a symbolic link", .0.display())]
    Outside(PathBuf),
    /// It belongs to git, which runs programs that files in there name.
    #[error("`{}` leads into `.git`, where only git writes", .0.display())]
    Git(PathBuf),
    /// The directory itself is a link.
    #[error("a symbolic link was put in the place of the worktree")]
    Replaced,
    /// The directory itself is not there.
    #[error("the worktree is gone: {0}")]
    Gone(#[source] io::Error),
    /// It cannot be opened.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Error {
    /// Returns whether there is nothing at the path.
    pub fn is_not_found(&self) -> bool {
        self.io().is_some_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    /// Returns whether a file is larger than what may be read of it.
    pub fn is_too_large(&self) -> bool {
        self.io().is_some_and(|error| error.kind() == io::ErrorKind::FileTooLarge)
    }

    /// Returns what the operating system said of the path.
    pub fn io(&self) -> Option<&io::Error> {
        match self {
            Self::Io(error) => Some(error),
            Self::NotRelative(_)
            | Self::Outside(_)
            | Self::Git(_)
            | Self::Replaced
            | Self::Gone(_) => None,
        }
    }
}

impl From<Errno> for Error {
    fn from(errno: Errno) -> Self {
        Self::Io(describe_refusal(errno.into()))
    }
}

/// The treatment of a symbolic link at the end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinalLink {
    /// It is followed if it stays inside.
    Follow,
    /// It is what the path means.
    Keep,
}

/// The treatment of missing parent directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingDirs {
    /// They are made.
    Create,
    /// They make the path one that is not there.
    Refuse,
}

/// An open directory; whatever is opened through it lies beneath it.
#[derive(Debug)]
pub struct RootDir {
    fd: OwnedFd,
    path: PathBuf,
}

impl RootDir {
    /// Opens the directory, which must not be a link itself.
    pub fn open(path: &Path) -> Result<Self, Error> {
        match rustix::fs::open(path, DIRECTORY, Mode::empty()) {
            Ok(fd) => Ok(Self { fd, path: path.to_owned() }),
            Err(Errno::NOTDIR) if path.is_symlink() => Err(Error::Replaced),
            Err(errno) => Err(Error::Gone(errno.into())),
        }
    }

    /// Opens a regular file to write it anew; its mode holds if it was not there before.
    pub fn create(&self, path: &Path, mode: u32, dirs: MissingDirs) -> Result<File, Error> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
        self.open_file(path, flags, Mode::from_raw_mode(mode), FinalLink::Keep, dirs)
    }

    /// Opens a regular file to read it; through links, if they stay inside.
    pub fn read(&self, path: &Path) -> Result<File, Error> {
        let (link, dirs) = (FinalLink::Follow, MissingDirs::Refuse);
        self.open_file(path, OFlags::RDONLY, Mode::empty(), link, dirs)
    }

    /// Reads a regular file of at most `limit` bytes; `None` if it is not there.
    pub fn read_bounded(&self, path: &Path, limit: u64) -> Result<Option<Vec<u8>>, Error> {
        let file = match self.read(path) {
            Ok(file) => file,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut bytes = Vec::new();
        let length = file.metadata()?.len();
        file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
        let read = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        if read <= limit {
            return Ok(Some(bytes));
        }
        // It may have grown meanwhile.
        let length = length.max(read);
        let message = format!("it has {length} bytes, and at most {limit} are read");
        Err(io::Error::new(io::ErrorKind::FileTooLarge, message).into())
    }

    /// Removes a file or a link.
    pub fn remove_file(&self, path: &Path) -> Result<(), Error> {
        let place = self.locate(path, FinalLink::Keep, MissingDirs::Refuse)?;
        Ok(rustix::fs::unlinkat(place.dir(self), place.name()?, rustix::fs::AtFlags::empty())?)
    }

    /// Opens a directory; through links, if they stay inside.
    pub fn directory(&self, path: &Path) -> Result<OwnedFd, Error> {
        let place = self.locate(path, FinalLink::Follow, MissingDirs::Refuse)?;
        let name = place.name.as_deref().unwrap_or(OsStr::new("."));
        Ok(rustix::fs::openat(place.dir(self), name, DIRECTORY, Mode::empty())?)
    }

    /// Opens a regular file, in one step if no link is in the way.
    fn open_file(
        &self,
        path: &Path,
        flags: OFlags,
        mode: Mode,
        link: FinalLink,
        dirs: MissingDirs,
    ) -> Result<File, Error> {
        check_path(path)?;
        // Neither a pipe nor a device keeps us waiting.
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
        let file = match rustix::fs::openat2(&self.fd, path, flags, mode, resolve) {
            Ok(file) => file,
            // The walk says better what is wrong, if it is more than a link or an old kernel.
            Err(_) => self.open_by_walking(path, flags, mode, link, dirs)?,
        };
        let file = File::from(file);
        if file.metadata()?.is_file() { Ok(file) } else { Err(Errno::NXIO.into()) }
    }

    /// Opens a file part by part.
    fn open_by_walking(
        &self,
        path: &Path,
        flags: OFlags,
        mode: Mode,
        link: FinalLink,
        dirs: MissingDirs,
    ) -> Result<OwnedFd, Error> {
        let place = self.locate(path, link, dirs)?;
        Ok(rustix::fs::openat(place.dir(self), place.name()?, flags, mode)?)
    }

    /// Finds the directory of a path and its name in there.
    pub(crate) fn locate(
        &self,
        path: &Path,
        link: FinalLink,
        dirs: MissingDirs,
    ) -> Result<LocatedPath, Error> {
        check_path(path)?;
        let mut walk =
            PathWalk { root: self, path, above: Vec::new(), ahead: Vec::new(), links: 0 };
        walk.expect(path);
        walk.run(link, dirs)
    }
}

/// A directory, opened for nothing but to go on from there.
const DIRECTORY: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Where a path leads: a name in an open directory.
#[derive(Debug)]
pub(crate) struct LocatedPath {
    /// The directory; `None` for the root.
    directory: Option<OwnedFd>,
    /// The name in it; `None` if the path leads to the root itself.
    name: Option<OsString>,
}

impl LocatedPath {
    /// Returns the directory.
    pub(crate) fn dir<'a>(&'a self, root: &'a RootDir) -> BorrowedFd<'a> {
        self.directory.as_ref().map_or(root.fd.as_fd(), AsFd::as_fd)
    }

    /// Returns the name in the directory.
    pub(crate) fn name(&self) -> Result<&OsStr, Error> {
        self.name.as_deref().ok_or_else(|| Errno::ISDIR.into())
    }
}

/// A path on the way from its root to its end.
struct PathWalk<'a> {
    root: &'a RootDir,
    /// The path, for messages.
    path: &'a Path,
    /// The directories that were entered, the deepest last.
    above: Vec<OwnedFd>,
    /// The names that are still ahead, the next one last.
    ahead: Vec<OsString>,
    links: u32,
}

impl PathWalk<'_> {
    /// Puts the parts of a path ahead of everything else.
    fn expect(&mut self, path: &Path) {
        let parts = path.components().rev().map(|part| part.as_os_str().to_owned());
        self.ahead.extend(parts);
    }

    fn run(mut self, link: FinalLink, dirs: MissingDirs) -> Result<LocatedPath, Error> {
        while let Some(name) = self.ahead.pop() {
            if name == "." {
                continue;
            }
            if name == ".." {
                self.above.pop().ok_or_else(|| self.outside())?;
                continue;
            }
            if is_git(&name) {
                return Err(Error::Git(self.path.to_owned()));
            }
            let is_last = self.ahead.is_empty();
            let keep = is_last && link == FinalLink::Keep;
            if !keep && let Some(target) = self.link_target(&name)? {
                self.follow(&target)?;
                continue;
            }
            if is_last {
                return Ok(LocatedPath { directory: self.above.pop(), name: Some(name) });
            }
            self.enter(name, dirs)?;
        }
        Ok(LocatedPath { directory: self.above.pop(), name: None })
    }

    fn current(&self) -> BorrowedFd<'_> {
        self.above.last().map_or(self.root.fd.as_fd(), AsFd::as_fd)
    }

    /// Returns where a name leads if it is a link.
    fn link_target(&self, name: &OsStr) -> Result<Option<PathBuf>, Error> {
        match rustix::fs::readlinkat(self.current(), name, Vec::new()) {
            Ok(target) => Ok(Some(OsString::from_vec(target.into_bytes()).into())),
            Err(Errno::INVAL | Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Goes on where a link leads.
    fn follow(&mut self, target: &Path) -> Result<(), Error> {
        self.count()?;
        if !target.is_absolute() {
            self.expect(target);
            return Ok(());
        }
        let Ok(inside) = target.strip_prefix(&self.root.path) else { return Err(self.outside()) };
        self.above.clear();
        self.expect(inside);
        Ok(())
    }

    /// Enters a directory.
    fn enter(&mut self, name: OsString, dirs: MissingDirs) -> Result<(), Error> {
        match rustix::fs::openat(self.current(), &name, DIRECTORY, Mode::empty()) {
            Ok(directory) => {
                self.above.push(directory);
                return Ok(());
            }
            Err(Errno::NOENT) if dirs == MissingDirs::Create => {
                match rustix::fs::mkdirat(self.current(), &name, Mode::from_raw_mode(0o777)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(errno.into()),
                }
            }
            // It was a directory a moment ago, and has become a link.
            Err(Errno::NOTDIR) if self.link_target(&name)?.is_some() => {}
            Err(errno) => return Err(errno.into()),
        }
        self.count()?;
        self.ahead.push(name);
        Ok(())
    }

    /// Counts a link, or a part that is looked at again.
    fn count(&mut self) -> Result<(), Error> {
        self.links += 1;
        if self.links > LINKS { Err(Errno::LOOP.into()) } else { Ok(()) }
    }

    fn outside(&self) -> Error {
        Error::Outside(self.path.to_owned())
    }
}

/// Refuses a path that names something outside, or something of git's.
fn check_path(path: &Path) -> Result<(), Error> {
    for part in path.components() {
        match part {
            Component::Normal(name) if is_git(name) => return Err(Error::Git(path.to_owned())),
            Component::Normal(_) | Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::ParentDir => {
                return Err(Error::NotRelative(path.to_owned()));
            }
        }
    }
    Ok(())
}

/// Returns whether a name is git's own, also where the case of names does not count.
pub(crate) fn is_git(name: &OsStr) -> bool {
    name.as_bytes().eq_ignore_ascii_case(b".git")
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write as _, os::unix::fs::symlink};

    use super::*;

    /// A directory with files, links that stay inside and links that lead out.
    fn planted() -> (tempfile::TempDir, RootDir) {
        let around = tempfile::tempdir().unwrap();
        let root = around.path().canonicalize().unwrap().join("root");
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::create_dir_all(root.join("sub/.git")).unwrap();
        fs::create_dir(root.join("../outside")).unwrap();
        for (link, target) in [
            ("in", "a/b"),
            ("round", "loop"),
            ("loop", "round"),
            ("up", "a/../a/b/../.."),
            ("out", "../outside"),
            ("far", "/tmp"),
            ("git", "sub/.git"),
        ] {
            symlink(target, root.join(link)).unwrap();
        }
        symlink(root.join("a"), root.join("whole")).unwrap();
        let opened = RootDir::open(&root).unwrap();
        (around, opened)
    }

    const PATHS: [&str; 16] = [
        "new",
        "a/new",
        "in/new",
        "up/a/new",
        "whole/b/new",
        "./a/./new",
        "x/y/new",
        "out/new",
        "far/new",
        "round/new",
        "git/new",
        "sub/.git/new",
        ".GIT",
        "a/../new",
        "/tmp/new",
        "in",
    ];

    fn shown(result: Result<File, Error>) -> String {
        let written = result.and_then(|mut file| Ok(file.write_all(b"x")?));
        written.map_or_else(|error| error.to_string(), |()| "written".to_owned())
    }

    #[test]
    fn files_are_created_inside_only_with_and_without_the_kernels_help() {
        let (around, root) = planted();
        let created = PATHS.map(|path| {
            let file = root.create(Path::new(path), 0o600, MissingDirs::Create);
            format!("{path}: {}", shown(file))
        });
        insta::assert_snapshot!(created.join("\n"), @"
        new: written
        a/new: written
        in/new: written
        up/a/new: written
        whole/b/new: written
        ./a/./new: written
        x/y/new: written
        out/new: `out/new` leads out of the worktree by a symbolic link
        far/new: `far/new` leads out of the worktree by a symbolic link
        round/new: it is a symbolic link
        git/new: `git/new` leads into `.git`, where only git writes
        sub/.git/new: `sub/.git/new` leads into `.git`, where only git writes
        .GIT: `.GIT` leads into `.git`, where only git writes
        a/../new: `a/../new` must be relative and stay inside the worktree
        /tmp/new: `/tmp/new` must be relative and stay inside the worktree
        in: it is a symbolic link
        ");
        assert_eq!(fs::read_dir(around.path().join("outside")).unwrap().count(), 0);

        let (around, root) = planted();
        let walked = PATHS.map(|path| {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW;
            let (mode, keep) = (Mode::from_raw_mode(0o600), FinalLink::Keep);
            let file =
                root.open_by_walking(Path::new(path), flags, mode, keep, MissingDirs::Create);
            format!("{path}: {}", shown(file.map(File::from)))
        });
        assert_eq!(walked, created);
        assert_eq!(fs::read_dir(around.path().join("outside")).unwrap().count(), 0);
    }

    #[test]
    fn files_and_directories_are_found_through_links_that_stay_inside() {
        let (_around, root) = planted();
        shown(root.create(Path::new("a/b/f"), 0o600, MissingDirs::Refuse));
        symlink("b/f", root.path.join("a/l")).unwrap();
        let read = |path: &str| match root.read_bounded(Path::new(path), 1) {
            Ok(found) => format!("{found:?}"),
            Err(error) => error.to_string(),
        };
        let paths = ["a/b/f", "in/f", "whole/l", "up/a/l", "none", "out/f", "a", "far"];
        insta::assert_snapshot!(paths.map(read).join("\n"), @"
        Some([120])
        Some([120])
        Some([120])
        Some([120])
        None
        `out/f` leads out of the worktree by a symbolic link
        it is not a regular file
        `far` leads out of the worktree by a symbolic link
        ");
        let entered = ["", ".", "in", "up", "a/b", "out", "a/b/f", "none"].map(|path| {
            let entered = root.directory(Path::new(path));
            entered.map_or_else(|error| error.to_string(), |_| "entered".to_owned())
        });
        insta::assert_snapshot!(entered.join("\n"), @"
        entered
        entered
        entered
        entered
        entered
        `out` leads out of the worktree by a symbolic link
        Not a directory (os error 20)
        No such file or directory (os error 2)
        ");
    }

    #[test]
    fn a_link_in_the_place_of_the_directory_is_not_opened() {
        let (_around, root) = planted();
        let refused = ["in", "none"].map(|path| RootDir::open(&root.path.join(path)).unwrap_err());
        insta::assert_snapshot!(refused.map(|error| error.to_string()).join("\n"), @"
        a symbolic link was put in the place of the worktree
        the worktree is gone: No such file or directory (os error 2)
        ");
    }

    #[test]
    fn trees_are_copied_without_git_and_never_through_links_that_lead_out() {
        let (_from_around, from) = planted();
        let (_to_around, to) = planted();
        fs::create_dir_all(from.path.join("tree/deep/.git")).unwrap();
        shown(from.create(Path::new("tree/deep/f"), 0o751, MissingDirs::Refuse));
        symlink("f", from.path.join("tree/deep/l")).unwrap();
        to.copy_from(&from, Path::new("tree")).unwrap();
        to.copy_from(&from, Path::new("none/such")).unwrap();
        let mode = fs::metadata(to.path.join("tree/deep/l")).unwrap().permissions();
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o751);
        assert_eq!(fs::read_link(to.path.join("tree/deep/l")).unwrap(), Path::new("f"));
        assert!(!to.path.join("tree/deep/.git").exists());
        fs::create_dir(from.path.join("plain")).unwrap();
        shown(from.create(Path::new("plain/f"), 0o600, MissingDirs::Refuse));
        symlink("../outside", to.path.join("plain")).unwrap();
        let refused = ["plain/f", "out/f"].map(|path| to.copy_from(&from, Path::new(path)));
        let refused = refused.map(|copied| copied.unwrap_err().to_string());
        insta::assert_snapshot!(refused.join("\n"), @"
        `plain/f` leads out of the worktree by a symbolic link
        `out/f` leads out of the worktree by a symbolic link
        ");
    }
}
