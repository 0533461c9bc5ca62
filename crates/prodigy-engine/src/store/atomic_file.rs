//! A file that takes the place of another in one step, however long it is.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use serde::Serialize;

use super::{Error, files};

/// The size of the write buffer.
const BUFFER: usize = 128 * 1024;

/// A new content that is written beside the old one until it is whole.
///
/// If it is dropped before its end, the old content stays and nothing is left behind.
#[derive(Debug)]
pub(crate) struct AtomicFile {
    path: PathBuf,
    temporary: PathBuf,
    file: BufWriter<File>,
    written: u64,
    renamed: bool,
}

impl AtomicFile {
    /// Begins a new content for `path`, whose directory must be there.
    pub(crate) fn create(path: &Path) -> Result<Self, Error> {
        let (temporary, file) = files::create_temporary(path)?;
        let file = BufWriter::with_capacity(BUFFER, file);
        Ok(Self { path: path.to_owned(), temporary, file, written: 0, renamed: false })
    }

    /// Adds bytes to the content.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.write_all(bytes).map_err(|error| Error::io("write", &self.path, error))
    }

    /// Adds a value as JSON with line breaks, without ever holding all of its text.
    pub(crate) fn add_pretty(&mut self, value: &impl Serialize) -> Result<(), Error> {
        serde_json::to_writer_pretty(&mut *self, value).map_err(|error| {
            if error.is_io() {
                Error::io("write", &self.path, error)
            } else {
                Error::Encode { path: self.path.clone(), reason: error.to_string() }
            }
        })
    }

    /// Puts the new content in place so that it survives a power failure.
    pub(crate) fn commit(mut self) -> Result<u64, Error> {
        let synced = self.file.flush().and_then(|()| self.file.get_ref().sync_all());
        synced.map_err(|error| Error::io("write", &self.path, error))?;
        self.rename()?;
        files::sync_dir(files::parent(&self.path))?;
        Ok(self.written)
    }

    /// Puts the new content in place without waiting for the disk.
    ///
    /// This is for what can be made again: after a power failure the file may be gone.
    pub(crate) fn commit_unsynced(mut self) -> Result<u64, Error> {
        self.file.flush().map_err(|error| Error::io("write", &self.path, error))?;
        self.rename()?;
        Ok(self.written)
    }

    fn rename(&mut self) -> Result<(), Error> {
        files::rename(&self.temporary, &self.path)?;
        self.renamed = true;
        Ok(())
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if !self.renamed {
            // The first error is the one to report; a leftover harms nobody.
            fs::remove_file(&self.temporary).ok();
        }
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.written += u64::try_from(count).unwrap_or_default();
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::fixture;

    #[test]
    fn a_content_that_is_given_up_leaves_the_old_one_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let mut old = AtomicFile::create(&path).unwrap();
        old.append(b"old").unwrap();
        assert_eq!(old.commit().unwrap(), 3);

        let mut new = AtomicFile::create(&path).unwrap();
        new.append(&vec![b'x'; 3 * BUFFER]).unwrap();
        drop(new);
        assert_eq!(fixture::files_in(directory.path()), [("file".to_owned(), b"old".to_vec())]);
    }

    #[test]
    fn a_value_without_a_form_in_json_is_named_as_that() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let keyed = std::collections::BTreeMap::from([(vec![1], 2)]);
        let error = AtomicFile::create(&path).unwrap().add_pretty(&keyed).unwrap_err();
        let shown = error.to_string().replace(directory.path().to_str().unwrap(), "$TMP");
        insta::assert_snapshot!(shown, @"cannot write `$TMP/file` as JSON: key must be a string");
        assert_eq!(fixture::files_in(directory.path()), []);
    }
}
