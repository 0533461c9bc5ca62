//! The log file that a program's output is appended to, with a limit per launch.
//!
//! Most programs print to one stream at most, so a file and the directories above it
//! are made with the first byte that goes into it, and not before.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    mem,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{Access, Mode, OFlags},
    io::Errno,
};

use crate::store::describe_refusal;

/// A log file that stays open from one launch to the next as long as the path is the same.
#[derive(Debug, Default)]
pub(crate) struct LogWriter {
    open: Option<(PathBuf, File)>,
}

/// The treatment of a missing file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MissingLog {
    /// Nothing.
    Leave,
    /// It is made, and the directories above it.
    Make,
}

impl LogWriter {
    /// Begins one launch's share of the log.
    ///
    /// A file that cannot be written is refused here, before anything has run. Without
    /// a path nothing is stored.
    pub(crate) fn begin_launch<'a>(
        &'a mut self,
        path: Option<&'a Path>,
        cap: u64,
    ) -> io::Result<LaunchLog<'a>> {
        let Some(path) = path else { return Ok(LaunchLog::none()) };
        let size = match self.size_if_current(path) {
            Some(size) => Ok(Some(size)),
            None => self.reopen(path, MissingLog::Leave),
        };
        match size {
            Ok(Some(at)) => Ok(LaunchLog { at, cap, ..LaunchLog::to(self.file()) }),
            Ok(None) => {
                check_makeable(path)?;
                Ok(LaunchLog { cap, ..LaunchLog::to(LogTarget::Missing(self, path)) })
            }
            // A full disk costs the log of a step, not the step.
            Err(error) if is_full(&error) => Ok(LaunchLog::none()),
            Err(error) => Err(error),
        }
    }

    /// Returns the size of the open file if it still is the file at that path.
    fn size_if_current(&self, path: &Path) -> Option<u64> {
        use std::os::unix::fs::MetadataExt as _;
        let (open, file) = self.open.as_ref()?;
        let metadata = if open == path { file.metadata().ok()? } else { return None };
        // A file that was removed meanwhile would swallow everything.
        (metadata.nlink() > 0).then_some(metadata.len())
    }

    /// Opens another file and returns its size; `None` if it is not there and is not to be made.
    fn reopen(&mut self, path: &Path, missing: MissingLog) -> io::Result<Option<u64>> {
        self.open = None;
        let file = match (open(path, missing), missing) {
            (Err(Errno::NOENT), MissingLog::Leave) => return Ok(None),
            (Err(Errno::NOENT), MissingLog::Make) => {
                // The directories inherit our umask, so they are private like the file.
                fs::create_dir_all(directory(path))?;
                open(path, missing)
            }
            (opened, MissingLog::Leave | MissingLog::Make) => opened,
        }
        .map_err(|errno| describe_refusal(errno.into()))?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(describe_refusal(Errno::NXIO.into()));
        }
        let size = metadata.len();
        self.open = Some((path.to_owned(), file));
        Ok(Some(size))
    }

    /// Returns the open file.
    fn file(&mut self) -> LogTarget<'_> {
        self.open.as_mut().map_or(LogTarget::Nowhere, |(_, file)| LogTarget::File(file))
    }
}

/// Opens a log file.
///
/// Neither the file nor its directory may be a link, and nobody waits for a pipe: both
/// may be in reach of an agent.
fn open(path: &Path, missing: MissingLog) -> Result<File, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::open(directory(path), flags, Mode::empty())?;
    let mut flags =
        OFlags::WRONLY | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    flags.set(OFlags::CREATE, missing == MissingLog::Make);
    let name = path.file_name().ok_or(Errno::ISDIR)?;
    rustix::fs::openat(directory, name, flags, Mode::RUSR | Mode::WUSR).map(File::from)
}

/// Refuses a path at which no file could be made.
fn check_makeable(path: &Path) -> io::Result<()> {
    for above in directory(path).ancestors() {
        match rustix::fs::access(above, Access::WRITE_OK | Access::EXEC_OK) {
            Err(Errno::NOENT) => {}
            Ok(()) if above.is_dir() => return Ok(()),
            Ok(()) => return Err(Errno::NOTDIR.into()),
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// Returns the directory of a file.
fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

/// Where a share goes.
#[derive(Debug)]
enum LogTarget<'a> {
    /// Nothing is stored.
    Nowhere,
    /// The file is not there yet.
    Missing(&'a mut LogWriter, &'a Path),
    /// The file.
    File(&'a mut File),
}

/// The text around the number of bytes that were not kept, in the log itself.
const NOTE: &str = "[prodigy: ";
const NOTE_END: &str = " more bytes were not kept]";

/// Returns how many bytes were not kept, if a line of a log says that.
pub fn truncated_bytes(line: &[u8]) -> Option<u64> {
    let line = std::str::from_utf8(line).ok()?.trim_end();
    line.strip_prefix(NOTE)?.strip_suffix(NOTE_END)?.parse().ok()
}

/// One launch's share of a log file.
#[derive(Debug)]
pub(crate) struct LaunchLog<'a> {
    target: LogTarget<'a>,
    at: u64,
    cap: u64,
    written: u64,
    dropped: u64,
    /// Set if the last byte written ended a line.
    at_line_start: bool,
}

impl<'a> LaunchLog<'a> {
    fn none() -> Self {
        Self::to(LogTarget::Nowhere)
    }

    fn to(target: LogTarget<'a>) -> Self {
        Self { target, at: 0, cap: 0, written: 0, dropped: 0, at_line_start: true }
    }

    /// Returns the file, making it if it is not there; `None` if nothing is stored.
    fn file(&mut self) -> Option<&mut File> {
        self.target = match mem::replace(&mut self.target, LogTarget::Nowhere) {
            LogTarget::Missing(log, path) => match log.reopen(path, MissingLog::Make) {
                Ok(at) => {
                    self.at = at.unwrap_or_default();
                    log.file()
                }
                // The disk is full, or somebody was faster. The program runs already,
                // and it is not to blame.
                Err(_) => LogTarget::Nowhere,
            },
            target @ (LogTarget::Nowhere | LogTarget::File(_)) => target,
        };
        match &mut self.target {
            LogTarget::File(file) => Some(file),
            LogTarget::Nowhere | LogTarget::Missing(..) => None,
        }
    }

    /// Appends as much as there is room for. After the first byte that does not fit, nothing does.
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let room = if self.dropped > 0 { 0 } else { self.cap.saturating_sub(self.written) };
        let Some(file) = self.file() else { return };
        let fits = usize::try_from(room).map_or(bytes.len(), |room| room.min(bytes.len()));
        let fitting = bytes.get(..fits).unwrap_or_default();
        let mut rest = fitting;
        while !rest.is_empty() {
            match file.write(rest) {
                Ok(count) if count > 0 => rest = rest.get(count..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The disk is full or broken. The step is not to blame, so it goes on.
                Ok(_) | Err(_) => break,
            }
        }
        let written = fits - rest.len();
        if let Some(last) = written.checked_sub(1).and_then(|last| fitting.get(last)) {
            self.at_line_start = *last == b'\n';
        }
        self.written += written as u64;
        self.dropped += (bytes.len() - written) as u64;
    }

    /// Says how much was dropped, in the log itself, and returns where the share begins and its length.
    pub(crate) fn finish(mut self) -> (u64, u64) {
        if self.dropped > 0 {
            let newline = if self.at_line_start { "" } else { "\n" };
            let line = format!("{newline}{NOTE}{}{NOTE_END}\n", self.dropped);
            let Some(file) = self.file() else { return (self.at, self.written) };
            // If the disk is full there is no place for this either.
            file.write_all(line.as_bytes()).ok();
        }
        (self.at, self.written)
    }
}
