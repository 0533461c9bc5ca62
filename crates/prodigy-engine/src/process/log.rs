//! The log file that a program's output is appended to, with a limit per launch.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};

use crate::store::plainly;

/// A log file that stays open from one launch to the next as long as the path is the same.
#[derive(Debug, Default)]
pub(super) struct Log {
    open: Option<(PathBuf, File)>,
}

impl Log {
    /// Begins one launch's share of the log.
    ///
    /// Without a path nothing is stored.
    pub(super) fn begin(&mut self, path: Option<&Path>, cap: u64) -> io::Result<Share<'_>> {
        let Some(path) = path else { return Ok(Share::none()) };
        let size = match self.size_if_current(path) {
            Some(size) => Ok(size),
            None => self.reopen(path),
        };
        match size {
            Ok(at) => Ok(Share {
                file: self.open.as_mut().map(|(_, file)| file),
                at,
                cap,
                ..Share::none()
            }),
            // A full disk costs the log of a step, not the step.
            Err(error) if is_full(&error) => Ok(Share::none()),
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

    fn reopen(&mut self, path: &Path) -> io::Result<u64> {
        self.open = None;
        let file = match open(path) {
            Err(Errno::NOENT) => {
                // The directory inherits our umask, so it is private like the file.
                if let Some(directory) = path.parent() {
                    fs::create_dir_all(directory)?;
                }
                open(path)
            }
            other => other,
        }
        .map_err(|errno| plainly(errno.into()))?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(plainly(Errno::NXIO.into()));
        }
        let size = metadata.len();
        self.open = Some((path.to_owned(), file));
        Ok(size)
    }
}

fn open(path: &Path) -> Result<File, Errno> {
    // Not through a link and not into a pipe: the directory may be in reach of an agent.
    let flags = OFlags::WRONLY
        | OFlags::CREATE
        | OFlags::APPEND
        | OFlags::NOFOLLOW
        | OFlags::NONBLOCK
        | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR).map(File::from)
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

/// One launch's share of a log file.
#[derive(Debug)]
pub(super) struct Share<'a> {
    file: Option<&'a mut File>,
    at: u64,
    cap: u64,
    written: u64,
    dropped: u64,
    /// Whether the last byte written ended a line.
    at_line_start: bool,
}

impl Share<'_> {
    fn none() -> Self {
        Self { file: None, at: 0, cap: 0, written: 0, dropped: 0, at_line_start: true }
    }

    /// Appends as much as there is room for. After the first byte that does not fit, nothing does.
    pub(super) fn append(&mut self, bytes: &[u8]) {
        let Some(file) = &mut self.file else { return };
        let room = if self.dropped > 0 { 0 } else { self.cap.saturating_sub(self.written) };
        let fits = usize::try_from(room).map_or(bytes.len(), |room| room.min(bytes.len()));
        let mut rest = bytes.get(..fits).unwrap_or_default();
        while !rest.is_empty() {
            match file.write(rest) {
                Ok(count) if count > 0 => {
                    self.at_line_start = rest.get(count - 1) == Some(&b'\n');
                    self.written += count as u64;
                    rest = rest.get(count..).unwrap_or_default();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The disk is full or broken. The step is not to blame, so it goes on.
                Ok(_) | Err(_) => break,
            }
        }
        self.dropped += (bytes.len() - fits + rest.len()) as u64;
    }

    /// Says how much was dropped, in the log itself, and returns where the share begins and its length.
    pub(super) fn finish(mut self) -> (u64, u64) {
        if self.dropped > 0
            && let Some(file) = &mut self.file
        {
            let newline = if self.at_line_start { "" } else { "\n" };
            let line = format!("{newline}[prodigy: {} more bytes were not kept]\n", self.dropped);
            // If the disk is full there is no place for this either.
            file.write_all(line.as_bytes()).ok();
        }
        (self.at, self.written)
    }
}
