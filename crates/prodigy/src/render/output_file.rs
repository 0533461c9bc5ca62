//! The files that a user names for something to be written to.
//!
//! There is one way for all of them. Links are followed. A regular file, or one that is not there
//! yet, is written beside its place and renamed, so that a reader sees the old or the new one; it keeps
//! its mode and its owner. Everything else (a FIFO, a device, `/dev/stdout`) is written where it is, and
//! so is a file that cannot be replaced.

use std::{
    fs::{self, File, Metadata, OpenOptions, Permissions},
    io::{self, BufWriter, Seek as _, Write as _},
    os::unix::fs::{
        FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown,
    },
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    fs::{Access, OFlags, access},
    io::Errno,
};
use tempfile::{NamedTempFile, TempPath};

use crate::{error::CliError, exit::Exit};

/// The most links that are followed, as in the kernel.
const MOST_LINKS: u32 = 40;
/// The longest that a FIFO may have no reader.
const NO_READER: Duration = Duration::from_secs(30);
/// The time between two looks for a reader.
const PAUSE: Duration = Duration::from_millis(50);
/// The most files that processes of the same number may have left beside a file.
const MOST_LEFTOVERS: u32 = 100;
/// The bits of a mode that can be set.
const MODE_BITS: u32 = 0o7777;

/// A file that a user named cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write `{}`", path.display())]
pub(crate) struct OutputFileError {
    /// The file as it was named.
    path: PathBuf,
    /// The error of the operating system.
    source: io::Error,
}

impl OutputFileError {
    /// Creates the error of a file that was named.
    pub(crate) fn new(path: &Path, source: io::Error) -> Self {
        Self { path: path.to_owned(), source }
    }
}

impl From<OutputFileError> for CliError {
    fn from(error: OutputFileError) -> Self {
        Self::new(Exit::Failure, error.to_string()).with_source(error.source)
    }
}

/// Makes sure that a file can be written, before any work is done for it; changes nothing.
pub(crate) fn check(path: &Path) -> Result<(), CliError> {
    check_target(path).map_err(|error| {
        CliError::new(Exit::Usage, format!("cannot write `{}`", path.display()))
            .with_source(error)
            .with_hint("nothing was done; name a file that can be written")
    })
}

fn check_target(path: &Path) -> io::Result<()> {
    match OutputTarget::find(path)? {
        OutputTarget::InPlace { path, .. } | OutputTarget::Shared { path } => {
            Ok(access(&path, Access::WRITE_OK)?)
        }
        OutputTarget::Regular { path, existing } => {
            if existing.is_some() {
                // A file that can be written but not replaced is written in place.
                return Ok(access(&path, Access::WRITE_OK)?);
            }
            temp_file_beside(&path).map(drop)
        }
    }
}

/// Writes a file that a user named.
pub(crate) fn write<E: From<OutputFileError>>(
    path: &Path,
    fill: impl FnOnce(&mut BufWriter<File>) -> Result<(), E>,
) -> Result<(), E> {
    let failed = |source| OutputFileError::new(path, source);
    let target = OutputTarget::find(path).map_err(failed)?;
    let draft = match &target {
        OutputTarget::Regular { path, existing } => match temp_file_beside(path) {
            Ok(draft) => OutputDraft::Beside(draft),
            Err(_) if existing.is_some() => {
                OutputDraft::Elsewhere(tempfile::tempfile().map_err(failed)?)
            }
            Err(error) => return Err(failed(error).into()),
        },
        OutputTarget::InPlace { .. } | OutputTarget::Shared { .. } => {
            OutputDraft::Elsewhere(tempfile::tempfile().map_err(failed)?)
        }
    };
    let mut out = BufWriter::new(draft.file().map_err(failed)?);
    fill(&mut out)?;
    out.flush().map_err(failed)?;
    drop(out);
    draft.publish(&target).map_err(|source| failed(source).into())
}

/// The place that a name leads to.
enum OutputTarget {
    /// A regular file, or one that is not there yet.
    Regular { path: PathBuf, existing: Option<Metadata> },
    /// A FIFO or a device.
    InPlace { path: PathBuf, is_fifo: bool },
    /// An open file of this process, as `/dev/stdout`; others write to it too.
    Shared { path: PathBuf },
}

impl OutputTarget {
    /// Follows links to what is there, or to where it would be made.
    fn find(named: &Path) -> io::Result<Self> {
        let mut path = named.to_owned();
        for _ in 0..MOST_LINKS {
            let existing = match fs::symlink_metadata(&path) {
                Ok(metadata) => Some(metadata),
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => return Err(error),
            };
            let Some(metadata) = &existing else {
                path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
                return Ok(Self::Regular { path, existing });
            };
            let kind = metadata.file_type();
            if kind.is_symlink() {
                let directory = directory_of(&path).canonicalize()?;
                if directory.starts_with("/proc") {
                    return Ok(Self::Shared { path });
                }
                path = directory.join(fs::read_link(&path)?);
            } else if kind.is_file() {
                return Ok(Self::Regular { path, existing });
            } else if kind.is_dir() {
                return Err(io::ErrorKind::IsADirectory.into());
            } else if kind.is_socket() {
                return Err(io::Error::other("it is a socket"));
            } else {
                return Ok(Self::InPlace { path, is_fifo: kind.is_fifo() });
            }
        }
        Err(Errno::LOOP.into())
    }

    /// Opens what is there to write to it in place.
    fn open(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        match self {
            Self::Regular { path, .. } => options.write(true).truncate(true).open(path),
            Self::Shared { path } => options.append(true).open(path),
            Self::InPlace { path, is_fifo: false } => options.write(true).open(path),
            Self::InPlace { path, is_fifo: true } => open_fifo(path),
        }
    }
}

/// Opens a FIFO as soon as it has a reader.
fn open_fifo(path: &Path) -> io::Result<File> {
    let no_wait = OFlags::NONBLOCK.bits().cast_signed();
    let start = Instant::now();
    loop {
        match OpenOptions::new().write(true).custom_flags(no_wait).open(path) {
            Ok(file) => {
                rustix::io::ioctl_fionbio(&file, false)?;
                return Ok(file);
            }
            Err(error) if error.raw_os_error() != Some(Errno::NXIO.raw_os_error()) => {
                return Err(error);
            }
            Err(_) if start.elapsed() < NO_READER => poll_delay(),
            Err(_) => return Err(io::Error::new(io::ErrorKind::TimedOut, "no program reads it")),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "another process is waited for in real time")]
fn poll_delay() {
    thread::sleep(PAUSE);
}

/// Makes a file beside another one.
fn temp_file_beside(path: &Path) -> io::Result<NamedTempFile> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let process = std::process::id();
    for number in 0..MOST_LEFTOVERS {
        let draft = directory_of(path).join(format!(".{name}.{process}-{number}.tmp"));
        match OpenOptions::new().read(true).write(true).create_new(true).open(&draft) {
            Ok(file) => {
                let path = TempPath::try_from_path(draft)?;
                return Ok(NamedTempFile::from_parts(file, path));
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Returns the directory of a file.
fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        Some(_) | None => Path::new("."),
    }
}

/// Something written that is not at its place yet.
enum OutputDraft {
    Beside(NamedTempFile),
    Elsewhere(File),
}

impl OutputDraft {
    /// Returns the file to write to.
    fn file(&self) -> io::Result<File> {
        match self {
            Self::Beside(draft) => draft.as_file().try_clone(),
            Self::Elsewhere(draft) => draft.try_clone(),
        }
    }

    /// Brings it to its place.
    fn publish(self, target: &OutputTarget) -> io::Result<()> {
        let draft = match (self, target) {
            (Self::Beside(draft), OutputTarget::Regular { path, existing: None }) => {
                return draft.persist(path).map(drop).map_err(|failed| failed.error);
            }
            (Self::Beside(draft), OutputTarget::Regular { path, existing: Some(metadata) }) => {
                match replace(draft, path, metadata) {
                    None => return Ok(()),
                    Some(draft) => draft.into_file(),
                }
            }
            (Self::Beside(draft), OutputTarget::InPlace { .. } | OutputTarget::Shared { .. }) => {
                draft.into_file()
            }
            (Self::Elsewhere(draft), _) => draft,
        };
        copy(draft, target)
    }
}

/// Replaces a file, which keeps its mode and owner; returns the draft if that cannot be done.
fn replace(draft: NamedTempFile, path: &Path, metadata: &Metadata) -> Option<NamedTempFile> {
    match copy_owner_and_mode(draft.as_file(), metadata) {
        Ok(()) => draft.persist(path).err().map(|failed| failed.file),
        Err(_) => Some(draft),
    }
}

/// Gives a file the owner and the mode of another one.
fn copy_owner_and_mode(file: &File, metadata: &Metadata) -> io::Result<()> {
    let own = file.metadata()?;
    if (own.uid(), own.gid()) != (metadata.uid(), metadata.gid()) {
        fchown(file, Some(metadata.uid()), Some(metadata.gid()))?;
    }
    file.set_permissions(Permissions::from_mode(metadata.mode() & MODE_BITS))
}

/// Copies a draft to where it is written in place.
fn copy(mut draft: File, target: &OutputTarget) -> io::Result<()> {
    let mut file = target.open()?;
    draft.rewind()?;
    io::copy(&mut draft, &mut file)?;
    file.flush()
}
