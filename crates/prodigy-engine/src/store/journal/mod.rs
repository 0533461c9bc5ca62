//! A snapshot of a job: a shortcut, never the truth.

pub(crate) mod beginning;
pub(crate) mod line;
pub(crate) mod reader;
pub(crate) mod repair;
pub(crate) mod salvage;
pub(crate) mod segment;
pub(crate) mod syncer;
pub(crate) mod writer;

use prodigy_core::ids::JobId;
use serde::{Serialize, de::DeserializeOwned};

use super::{Error, Layout, atomic_file::AtomicFile, files};

/// The longest a checkpoint may be.
const MAX: u64 = 512 * 1024 * 1024;

/// Replaces the checkpoint of a job.
pub fn save_checkpoint(layout: &Layout, job: &JobId, value: &impl Serialize) -> Result<(), Error> {
    files::create_dir(&layout.state_dir(job))?;
    let mut file = AtomicFile::create(&layout.checkpoint(job))?;
    file.add_pretty(value)?;
    file.append(b"\n")?;
    file.commit().map(drop)
}

/// Reads the checkpoint of a job; `None` if it has none.
///
/// A checkpoint that cannot be read is an error for the caller to mention and to
/// go on without: the journal holds everything that it would say.
pub fn load_checkpoint<T: DeserializeOwned>(
    layout: &Layout,
    job: &JobId,
) -> Result<Option<T>, Error> {
    let path = layout.checkpoint(job);
    let Some(bytes) = files::read_bounded(&path, MAX)? else { return Ok(None) };
    match serde_json::from_slice(&bytes) {
        Ok(value) => Ok(Some(value)),
        Err(error) => {
            let line = u64::try_from(error.line()).unwrap_or_default();
            Err(Error::Damaged { path, line, reason: error.to_string() })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::*;
    use crate::store::fixture::{self, TestHome};

    #[test]
    fn a_checkpoint_that_cannot_be_written_leaves_the_old_one() {
        let home = TestHome::new();
        save_checkpoint(&home.layout, &home.job, &1).unwrap();
        let unwritable = [BTreeMap::from([(vec![1], 2)])];
        let error = save_checkpoint(&home.layout, &home.job, &unwritable).unwrap_err();
        insta::assert_snapshot!(home.show(error), @"cannot write `$HOME/state/repo/mapreduce/jobs/job-1/checkpoint.json` as JSON: key must be a string");
        assert_eq!(load_checkpoint(&home.layout, &home.job).unwrap(), Some(1));
        let files = fixture::files_in(&home.layout.state_dir(&home.job));
        assert_eq!(files, [("checkpoint.json".to_owned(), b"1\n".to_vec())]);
    }

    #[test]
    fn a_checkpoint_comes_back_and_a_damaged_one_is_named() {
        let home = TestHome::new();
        assert_eq!(load_checkpoint::<Value>(&home.layout, &home.job).unwrap(), None);
        let value = json!({"version": 1, "items": [1, 2]});
        save_checkpoint(&home.layout, &home.job, &value).unwrap();
        assert_eq!(load_checkpoint(&home.layout, &home.job).unwrap(), Some(value));

        files::write_atomic(&home.layout.checkpoint(&home.job), b"{\n\"version\": 1").unwrap();
        let error = load_checkpoint::<Value>(&home.layout, &home.job).unwrap_err();
        insta::assert_snapshot!(home.show(error), @"`$HOME/state/repo/mapreduce/jobs/job-1/checkpoint.json` is damaged at line 2: EOF while parsing an object at line 2 column 12");
    }
}
