//! Reading files that people name.

use std::{
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use crate::exit::Exit;

/// The largest file that is read. No workflow comes near it; a larger file is the wrong one.
pub(crate) const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// The reason that a file could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// It is not there.
    #[error("there is no file `{}`", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// It is a directory.
    #[error("`{}` is a directory, not a file", path.display())]
    Directory {
        /// The file.
        path: PathBuf,
    },
    /// It is a pipe, a socket or a device, which might never end.
    #[error("`{}` is not a regular file", path.display())]
    Special {
        /// The file.
        path: PathBuf,
    },
    /// It is larger than [`MAX_BYTES`].
    #[error("`{}` is larger than {} MiB", path.display(), MAX_BYTES / 1024 / 1024)]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// It is not UTF-8.
    #[error("`{}` is not UTF-8 text: byte {offset} is wrong", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
        /// The first byte that is wrong, from 0.
        offset: usize,
    },
    /// The system refused.
    #[error("cannot read `{}`: {source}", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl Error {
    /// Returns the exit code that scripts see.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Missing { .. } | Self::Directory { .. } | Self::Special { .. } => Exit::Usage,
            Self::TooLarge { .. } | Self::NotText { .. } => Exit::Invalid,
            Self::Refused { .. } => Exit::Failure,
        }
    }
}

/// Reads a text file.
///
/// The type and the size of the file are checked before a byte is read.
pub(crate) fn read(path: &Path) -> Result<String, Error> {
    let refused = |source: io::Error| {
        let path = path.to_owned();
        if source.kind() == io::ErrorKind::NotFound {
            Error::Missing { path }
        } else {
            Error::Refused { path, source }
        }
    };
    let metadata = std::fs::metadata(path).map_err(refused)?;
    if metadata.is_dir() {
        return Err(Error::Directory { path: path.to_owned() });
    }
    if !metadata.is_file() {
        return Err(Error::Special { path: path.to_owned() });
    }
    if metadata.len() > MAX_BYTES {
        return Err(Error::TooLarge { path: path.to_owned() });
    }
    let mut bytes = Vec::new();
    // The file may have grown since.
    File::open(path)
        .and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes))
        .map_err(refused)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > MAX_BYTES {
        return Err(Error::TooLarge { path: path.to_owned() });
    }
    String::from_utf8(bytes).map_err(|error| Error::NotText {
        path: path.to_owned(),
        offset: error.utf8_error().valid_up_to(),
    })
}
