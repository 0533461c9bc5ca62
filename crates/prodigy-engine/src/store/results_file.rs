//! The results of the items, for the reduce phase and for people.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{Error, atomic_file::AtomicFile};

/// A JSON array that is written one element at a time, one to a line.
///
/// It is not synced: the journal holds every result, so the file can be made again.
/// Until [`ResultsFile::finish`] an older file stays as it is.
#[derive(Debug)]
pub struct ResultsFile {
    file: AtomicFile,
    /// The text of one element. It is whole before any of it is written, so that a
    /// value that has no form in JSON does not leave half an element behind.
    element: Vec<u8>,
    elements: u64,
    path: PathBuf,
}

impl ResultsFile {
    /// Begins a new list of results; the directory must be there.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let mut file = AtomicFile::create(path)?;
        file.append(b"[")?;
        Ok(Self { file, element: Vec::new(), elements: 0, path: path.to_owned() })
    }

    /// Adds one element.
    pub fn push(&mut self, element: &impl Serialize) -> Result<(), Error> {
        self.element.clear();
        self.element.extend_from_slice(if self.elements == 0 { b"\n" } else { b",\n" });
        serde_json::to_writer(&mut self.element, element).map_err(|error| Error::Encode {
            path: self.path.clone(),
            reason: error.to_string(),
        })?;
        self.file.append(&self.element)?;
        self.elements += 1;
        Ok(())
    }

    /// Ends the list, puts it in place, and returns its length in bytes.
    pub fn finish(mut self) -> Result<u64, Error> {
        self.file.append(if self.elements == 0 { b"]\n" } else { b"\n]\n" })?;
        self.file.commit_unsynced()
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, fs};

    use serde_json::{Value, json, value::RawValue};

    use super::*;
    use crate::store::fixture;

    #[test]
    fn elements_come_one_to_a_line_and_keep_their_digits() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("map-results.json");
        let mut results = ResultsFile::create(&path).unwrap();
        results.push(&json!({"item_id": "item-001", "text": "a\nb"})).unwrap();
        results
            .push(&RawValue::from_string("1.10000000000000000000000000001".into()).unwrap())
            .unwrap();
        assert_eq!(fixture::files_in(directory.path()).len(), 1);
        assert!(!path.exists());
        let bytes = results.finish().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        insta::assert_snapshot!(text, @r#"
        [
        {"item_id":"item-001","text":"a\nb"},
        1.10000000000000000000000000001
        ]
        "#);
        assert_eq!(bytes, u64::try_from(text.len()).unwrap());
        assert_eq!(fixture::files_in(directory.path()).len(), 1);
    }

    #[test]
    fn no_elements_are_an_empty_list() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("map-results.json");
        assert_eq!(ResultsFile::create(&path).unwrap().finish().unwrap(), 3);
        assert_eq!(fs::read_to_string(&path).unwrap(), "[]\n");
    }

    #[test]
    fn an_element_that_cannot_be_written_is_left_out_as_a_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("map-results.json");
        let mut results = ResultsFile::create(&path).unwrap();
        let unwritable = [BTreeMap::from([(vec![1], 2)])];
        let error = results.push(&unwritable).unwrap_err();
        assert!(matches!(error, Error::Encode { .. }), "{error:?}");
        results.push(&1).unwrap();
        results.finish().unwrap();
        let value: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        assert_eq!(value, json!([1]));
    }
}
