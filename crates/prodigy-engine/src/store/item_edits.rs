//! The data of items that were edited by hand.
//!
//! The selected data stays unchanged. The edited data is stored beside it, under its own hash,
//! before the journal names it.

use std::{collections::HashMap, path::PathBuf};

use prodigy_core::ids::{JobId, hex};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use super::{Error, Layout, create_dir, read_bounded, write_atomic};

/// The largest data of an item that is read back.
const LIMIT: u64 = 256 * 1024 * 1024;

/// The items of a job that have other data than what was chosen.
#[derive(Clone, Debug, Default)]
pub struct ItemEdits {
    directory: PathBuf,
    /// The SHA-256 of the data, by the place of the item.
    places: HashMap<usize, String>,
}

impl ItemEdits {
    /// Names the items, by their places, and the SHA-256 of their data.
    pub fn new(layout: &Layout, job: &JobId, places: HashMap<usize, String>) -> Self {
        Self { directory: layout.edits_dir(job), places }
    }

    /// Returns the data of an item, if it was changed.
    pub(crate) fn read(&self, place: usize) -> Option<Result<Box<RawValue>, Error>> {
        self.places.get(&place).map(|sha256| read(self.directory.join(name(sha256)), sha256))
    }
}

/// Stores the data of an item; returns the SHA-256 that it is found by. When this returns it
/// survives a power failure.
pub fn write_edit(layout: &Layout, job: &JobId, data: &RawValue) -> Result<String, Error> {
    let sha256 = hex(&Sha256::digest(data.get().as_bytes()));
    let directory = layout.edits_dir(job);
    create_dir(&directory)?;
    write_atomic(&directory.join(name(&sha256)), data.get().as_bytes())?;
    Ok(sha256)
}

/// Reads data that was stored.
pub fn read_edit(layout: &Layout, job: &JobId, sha256: &str) -> Result<Box<RawValue>, Error> {
    read(layout.edits_dir(job).join(name(sha256)), sha256)
}

fn name(sha256: &str) -> String {
    format!("{sha256}.json")
}

fn read(path: PathBuf, sha256: &str) -> Result<Box<RawValue>, Error> {
    let missing = || std::io::Error::from(std::io::ErrorKind::NotFound);
    let bytes = read_bounded(&path, LIMIT)?;
    let bytes = bytes.ok_or_else(|| Error::io("open", &path, missing()))?;
    let found = hex(&Sha256::digest(&bytes));
    if found != sha256 {
        return Err(Error::Altered { path, wanted: sha256.to_owned(), found });
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    RawValue::from_string(text).map_err(|error| {
        let line = u64::try_from(error.line()).unwrap_or(1);
        Error::Damaged { path, line, reason: error.to_string() }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::fixture::TestHome;

    #[test]
    fn data_comes_back_byte_for_byte_and_damage_is_refused() {
        let home = TestHome::new();
        let data = RawValue::from_string("{\"a\": 1.10,\n \"b\": \"é\"}".to_owned()).unwrap();
        let sha256 = write_edit(&home.layout, &home.job, &data).unwrap();
        let read = || read_edit(&home.layout, &home.job, &sha256);
        assert_eq!(read().unwrap().get(), data.get());
        let file = home.layout.edits_dir(&home.job).join(name(&sha256));
        super::write_atomic(&file, b"{}").unwrap();
        assert!(matches!(read(), Err(Error::Altered { .. })));
        std::fs::remove_file(&file).unwrap();
        assert!(read().unwrap_err().is_not_found());
    }
}
