//! The few ways in which state files are opened, made and replaced.
//!
//! Everything is private to the user under any umask, links are never followed,
//! and nothing counts as written before its directory is synced as well.

use std::{
    fs::{self, File},
    io::{self, Read as _, Write as _},
    os::unix::fs::{
        DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
    },
    path::{Path, PathBuf},
    process,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use rustix::fs::{Access, OFlags};

use super::{Error, atomic_file::AtomicFile};

/// Permissions of directories.
const DIRECTORY: u32 = 0o700;
/// Permissions of files.
const FILE: u32 = 0o600;
/// The most names tried for a temporary file; only a dead process can have taken one.
const TRIES: u32 = 1000;

/// Makes sure that the home is there, is the user's own, and can be written.
///
/// The home itself may be a symbolic link, for instance to a larger disk.
pub fn prepare_home(home: &Path) -> Result<(), Error> {
    let meta = match fs::metadata(home) {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            create_dir(home)?;
            fs::metadata(home).map_err(|error| Error::io("look at", home, error))?
        }
        Err(error) => return Err(Error::io("look at", home, error)),
    };
    if !meta.is_dir() {
        return Err(Error::NotDirectory { path: home.to_owned() });
    }
    check_home(home, rustix::process::geteuid().as_raw(), meta.uid(), meta.mode() & 0o777)?;
    rustix::fs::access(home, Access::WRITE_OK | Access::EXEC_OK).map_err(|errno| {
        Error::ReadOnlyHome { path: home.to_owned(), source: Arc::new(errno.into()) }
    })
}

/// Refuses a home in which somebody but the user could plant a job.
fn check_home(home: &Path, user: u32, owner: u32, mode: u32) -> Result<(), Error> {
    if owner != user {
        return Err(Error::ForeignHome { path: home.to_owned(), owner });
    }
    if mode & 0o022 != 0 {
        return Err(Error::OpenHome { path: home.to_owned(), mode });
    }
    Ok(())
}

/// Creates a directory, and those above it that are missing, for the user alone.
pub fn create_dir(path: &Path) -> Result<(), Error> {
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => return Ok(()),
        Ok(_) => return Err(Error::NotDirectory { path: path.to_owned() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(Error::io("look at", path, error)),
    }
    let parent = parent(path);
    if !parent.is_dir() {
        create_dir(parent)?;
    }
    match fs::DirBuilder::new().mode(DIRECTORY).create(path) {
        Ok(()) => {}
        // Another process was faster, which is just as good.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        Err(error) => return Err(Error::io("create", path, error)),
    }
    // The umask may have taken away even our own rights.
    fs::set_permissions(path, fs::Permissions::from_mode(DIRECTORY))
        .map_err(|error| Error::io("set the permissions of", path, error))?;
    sync_dir(parent)
}

/// Replaces a file's content in one step: readers and crashes see the old or the new one.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let mut new = AtomicFile::create(path)?;
    new.append(bytes)?;
    new.commit().map(drop)
}

/// Replaces a file that can be made again from the journal, in one step.
///
/// Nothing waits for the disk, and directories that are missing are made.
pub fn write_projection(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let begun = match AtomicFile::create(path) {
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            create_dir(parent(path))?;
            AtomicFile::create(path)
        }
        begun => begun,
    };
    let mut new = begun?;
    new.append(bytes)?;
    new.commit_unsynced().map(drop)
}

/// Creates a file that can be made again from the journal, with one write; returns whether it
/// was not there before.
///
/// The file has its name while it is being written, so readers must learn of it from elsewhere.
/// This costs half of what [`write_projection`] costs.
pub fn create_projection(path: &Path, bytes: &[u8]) -> Result<bool, Error> {
    let created = match create_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            create_dir(parent(path))?;
            create_file(path)
        }
        created => created,
    };
    let mut file = match created {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
        Err(error) => return Err(Error::io("create", path, error)),
    };
    match file.write_all(bytes) {
        Ok(()) => Ok(true),
        Err(error) => {
            // Half a file would be taken for a damaged one. If this fails too, it is.
            fs::remove_file(path).ok();
            Err(Error::io("write", path, error))
        }
    }
}

/// Opens a file that can be made again from the journal, to append to it; it and the
/// directories above it are made if they are not there.
pub fn open_projection(path: &Path) -> Result<File, Error> {
    match open_or_create(path) {
        Err(error) if error.is_not_found() => {
            create_dir(parent(path))?;
            open_or_create(path)
        }
        opened => opened,
    }
}

/// Creates a file beside `path` that nobody else has open.
pub(super) fn create_temporary(path: &Path) -> Result<(PathBuf, File), Error> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
    for _ in 0..TRIES {
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let temporary = path.with_file_name(format!(".{name}.{}-{number}.tmp", process::id()));
        match create_file(&temporary) {
            Ok(file) => return Ok((temporary, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = error,
            Err(error) => return Err(Error::io("write", path, error)),
        }
    }
    Err(Error::io("write", path, last))
}

/// Creates a file that was not there, to be appended to, for the user alone.
pub(super) fn create_file(path: &Path) -> io::Result<File> {
    let file = fs::OpenOptions::new()
        .append(true)
        .create_new(true)
        .mode(FILE)
        .custom_flags(flags(OFlags::NOFOLLOW))
        .open(path)?;
    file.set_permissions(fs::Permissions::from_mode(FILE))?;
    Ok(file)
}

/// The mode in which an existing file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpenMode {
    /// To be read.
    Read,
    /// To be appended to.
    Append,
}

/// Opens an existing regular file; a link, pipe or device is refused and never waited for.
pub(super) fn open_regular(path: &Path, mode: OpenMode) -> Result<File, Error> {
    let file = fs::OpenOptions::new()
        .read(true)
        .append(mode == OpenMode::Append)
        .custom_flags(flags(OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY))
        .open(path)
        .map_err(|error| refused(path, error))?;
    check_regular(path, &file)?;
    Ok(file)
}

/// Opens an existing file below the home for reading.
///
/// Programs that prodigy runs could have put a link or a pipe in its place, which
/// is refused and never waited for.
pub fn open_to_read(path: &Path) -> Result<File, Error> {
    open_regular(path, OpenMode::Read)
}

/// Opens a file to read it and to append to it; it and the directories above it are made, for
/// good, if they are not there.
pub(crate) fn open_to_append(path: &Path) -> Result<File, Error> {
    match open_regular(path, OpenMode::Append) {
        Err(error) if error.is_not_found() => {
            create_dir(parent(path))?;
            open_or_create(path)?;
            sync_dir(parent(path))?;
            open_regular(path, OpenMode::Append)
        }
        opened => opened,
    }
}

/// Opens a regular file for locking, making it if it is not there.
pub(super) fn open_or_create(path: &Path) -> Result<File, Error> {
    match create_file(path) {
        Ok(file) => Ok(file),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            open_regular(path, OpenMode::Append)
        }
        Err(error) => Err(Error::io("create", path, error)),
    }
}

/// Reads a regular file of at most `limit` bytes; `None` if it is not there.
///
/// As with [`open_to_read`], nothing else is followed or waited for.
pub fn read_bounded(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, Error> {
    let file = match open_regular(path, OpenMode::Read) {
        Ok(file) => file,
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    let read = file.take(limit + 1).read_to_end(&mut bytes);
    read.map_err(|error| Error::io("read", path, error))?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length <= limit) {
        return Ok(Some(bytes));
    }
    let reason = format!("it is longer than {limit} bytes");
    Err(Error::Damaged { path: path.to_owned(), line: 1, reason })
}

/// Returns the first of `path` + `suffix`, `…-2`, `…-3` that nothing has yet.
pub(crate) fn unused_name(path: &Path, suffix: &str) -> Result<PathBuf, Error> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    (1..=TRIES)
        .map(|number| match number {
            1 => path.with_file_name(format!("{name}{suffix}")),
            number => path.with_file_name(format!("{name}{suffix}-{number}")),
        })
        .find(|path| path.symlink_metadata().is_err())
        .ok_or_else(|| Error::io("find a name beside", path, io::ErrorKind::AlreadyExists))
}

/// Moves a file that can be made again out of the way, to a free name beside it.
pub(crate) fn move_to_backup(path: &Path, suffix: &str) -> Result<(), Error> {
    rename(path, &unused_name(path, suffix)?)
}

/// Renames a file that can be made again from the journal, without waiting for the disk.
pub fn rename_projection(from: &Path, to: &Path) -> Result<(), Error> {
    rename(from, to)
}

/// Renames a file or directory within the home.
#[expect(
    clippy::disallowed_methods,
    reason = "the callers sync the file before and the directory after"
)]
pub(super) fn rename(from: &Path, to: &Path) -> Result<(), Error> {
    fs::rename(from, to).map_err(|error| Error::io("replace", to, error))
}

/// Makes sure that the names in a directory survive a power failure.
pub(super) fn sync_dir(path: &Path) -> Result<(), Error> {
    File::open(path)
        .and_then(|directory| directory.sync_all())
        .map_err(|error| Error::io("sync", path, error))
}

/// Says plainly why a file was refused that was opened without following links or waiting.
pub(crate) fn describe_refusal(error: io::Error) -> io::Error {
    match rustix::io::Errno::from_io_error(&error) {
        // A pipe that nobody reads.
        Some(rustix::io::Errno::NXIO) => io::Error::other("it is not a regular file"),
        Some(rustix::io::Errno::LOOP) => io::Error::other("it is a symbolic link"),
        Some(_) | None => error,
    }
}

/// Returns the directory that a path lies in.
pub(super) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) | None => Path::new("."),
    }
}

/// Refuses everything but regular files.
fn check_regular(path: &Path, file: &File) -> Result<(), Error> {
    let meta = file.metadata().map_err(|error| Error::io("look at", path, error))?;
    if meta.is_file() { Ok(()) } else { Err(Error::NotRegular { path: path.to_owned() }) }
}

/// Names the errors with which the kernel refuses links, sockets and pipes without a reader.
fn refused(path: &Path, error: io::Error) -> Error {
    let errno = rustix::io::Errno::from_io_error(&error);
    match errno {
        Some(rustix::io::Errno::LOOP | rustix::io::Errno::NXIO | rustix::io::Errno::ISDIR) => {
            Error::NotRegular { path: path.to_owned() }
        }
        Some(_) | None => Error::io("open", path, error),
    }
}

/// Returns open flags as the standard library takes them.
fn flags(flags: OFlags) -> i32 {
    flags.bits().cast_signed()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use rustix::{fs::FileType, process::umask};

    use super::{
        super::{
            Layout,
            fixture::{self, at, event},
        },
        *,
    };
    use crate::store::{Durability, JobLock, JournalWriter, save_checkpoint};

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o7777
    }

    /// Returns every path below `path` with its permissions.
    fn modes(path: &Path) -> Vec<(PathBuf, u32)> {
        let mut found = vec![(path.to_owned(), mode(path))];
        if path.is_dir() {
            for entry in fs::read_dir(path).unwrap() {
                found.extend(modes(&entry.unwrap().path()));
            }
        }
        found
    }

    #[test]
    fn everything_is_private_under_any_umask() {
        if let Some(directory) = fixture::in_child() {
            for mask in [0o000, 0o022, 0o077, 0o777] {
                umask(rustix::fs::Mode::from_raw_mode(mask));
                let home = directory.join(format!("above-{mask:03o}/home"));
                let layout = Layout::new(home.clone(), "repo".parse().unwrap());
                let job = "job-1".parse().unwrap();
                prepare_home(&home).unwrap();
                let _lock = JobLock::take(&layout, &job).unwrap();
                let mut journal = JournalWriter::create(&layout, &job, Durability::Full).unwrap();
                journal.append(vec![event("x")], at(0)).unwrap();
                save_checkpoint(&layout, &job, &1).unwrap();
                let all = modes(&directory.join(format!("above-{mask:03o}")));
                assert_eq!(all.len(), 13, "{all:?}");
                for (path, mode) in all {
                    let wanted = if path.is_dir() { DIRECTORY } else { FILE };
                    assert_eq!(mode, wanted, "{} under {mask:03o}", path.display());
                }
            }
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        fixture::run_child(
            "store::files::tests::everything_is_private_under_any_umask",
            "exec \"$@\"",
            &directory,
        );
    }

    #[test]
    fn a_file_is_replaced_as_a_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.json");
        write_atomic(&path, b"a long first content").unwrap();
        write_atomic(&path, b"short").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"short");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_projection_is_replaced_as_a_whole_and_makes_its_directories() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("dlq/items/item-001.json");
        write_projection(&path, b"a long first content").unwrap();
        write_projection(&path, b"short").unwrap();
        let seen = modes(directory.path());
        let wanted = [("dlq", 0o700), ("dlq/items", 0o700), ("dlq/items/item-001.json", 0o600)];
        let wanted = wanted.map(|(name, mode)| (directory.path().join(name), mode));
        assert_eq!(seen.into_iter().skip(1).collect::<Vec<_>>(), wanted);
        assert_eq!(fs::read(&path).unwrap(), b"short");
        std::os::unix::fs::symlink("/nowhere", directory.path().join("link")).unwrap();
        let error = write_projection(&directory.path().join("link/file"), b"").unwrap_err();
        assert!(matches!(error, Error::NotDirectory { .. }), "{error:?}");
    }

    #[test]
    fn a_link_is_replaced_and_never_written_through() {
        let directory = tempfile::tempdir().unwrap();
        let (victim, link) = (directory.path().join("victim"), directory.path().join("link"));
        write_atomic(&victim, b"precious").unwrap();
        std::os::unix::fs::symlink(&victim, &link).unwrap();
        write_atomic(&link, b"new").unwrap();
        assert_eq!(fs::read(&victim).unwrap(), b"precious");
        assert_eq!(fs::read(&link).unwrap(), b"new");
    }

    #[test]
    fn a_write_that_cannot_be_finished_leaves_the_old_file_alone() {
        if let Some(directory) = fixture::in_child() {
            let path = directory.join("state.json");
            let error = write_atomic(&path, &vec![b'x'; 100_000]).unwrap_err();
            assert!(error.is_disk_full(), "{error:?}");
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        write_atomic(&directory.path().join("state.json"), b"old").unwrap();
        fixture::run_child(
            "store::files::tests::a_write_that_cannot_be_finished_leaves_the_old_file_alone",
            "trap '' XFSZ; ulimit -f 8; exec \"$@\"",
            &directory,
        );
        assert_eq!(fs::read(directory.path().join("state.json")).unwrap(), b"old");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn pipes_links_devices_and_directories_are_refused_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        rustix::fs::mknodat(
            rustix::fs::CWD,
            path("pipe"),
            FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        std::os::unix::fs::symlink("/dev/zero", path("link")).unwrap();
        write_atomic(&path("file"), b"").unwrap();
        std::os::unix::fs::symlink(path("file"), path("link-to-file")).unwrap();
        let names = ["pipe", "link", "link-to-file", ".", "/dev/zero"];
        let start = Instant::now();
        for name in names {
            for mode in [OpenMode::Read, OpenMode::Append] {
                let error = open_regular(&path(name), mode).unwrap_err();
                assert!(matches!(error, Error::NotRegular { .. }), "{mode:?} {error:?}");
            }
        }
        assert!(start.elapsed().as_secs() < 5);
    }

    #[test]
    fn a_home_that_others_could_change_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().join("home");
        let seen = |home: &Path| {
            let error = prepare_home(home).unwrap_err().to_string();
            error.replace(directory.path().to_str().unwrap(), "$TMP")
        };
        prepare_home(&home).unwrap();
        prepare_home(&home).unwrap();

        fs::set_permissions(&home, fs::Permissions::from_mode(0o777)).unwrap();
        insta::assert_snapshot!(seen(&home), @"the home `$TMP/home` can be written by other users (mode 777)");
        fs::set_permissions(&home, fs::Permissions::from_mode(0o770)).unwrap();
        insta::assert_snapshot!(seen(&home), @"the home `$TMP/home` can be written by other users (mode 770)");
        let file = directory.path().join("file");
        write_atomic(&file, b"").unwrap();
        insta::assert_snapshot!(seen(&file), @"`$TMP/file` is not a directory");
        fs::set_permissions(&home, fs::Permissions::from_mode(0o755)).unwrap();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&home, &link).unwrap();
        prepare_home(&link).unwrap();
    }

    #[test]
    fn a_home_of_another_user_is_refused() {
        let refused = |user, owner| check_home(Path::new("/h"), user, owner, 0o700).unwrap_err();
        insta::assert_snapshot!(refused(1000, 0), @"the home `/h` belongs to the user with number 0, not to you");
        insta::assert_snapshot!(refused(0, 1000), @"the home `/h` belongs to the user with number 1000, not to you");
    }

    #[test]
    fn a_home_that_cannot_be_written_is_refused_unless_we_are_root() {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o500)).unwrap();
        let refused = matches!(prepare_home(directory.path()), Err(Error::ReadOnlyHome { .. }));
        assert_eq!(refused, !rustix::process::geteuid().is_root());
    }
}
