//! The files of dead letters, written beside the work.
//!
//! A record of the journal makes an item a dead letter; its file is only a view of that
//! record. So it is written by a thread of its own, where it keeps nobody waiting, and one
//! that cannot be written is a warning and no failure.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Sender, channel},
    },
    thread::{self, JoinHandle},
};

use prodigy_core::{
    event::{Event, Record},
    mask::Mask,
};
use serde_json::{Value, json};

use crate::store::{Layout, Spool, write_projection};

/// The version of a dead letter's file.
const VERSION: u32 = 1;

/// Writes the files of dead letters.
pub(super) struct DeadLetters {
    records: Option<Sender<(Record, usize)>>,
    problems: Arc<Mutex<Vec<String>>>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread works with.
struct Writer {
    layout: Layout,
    mask: Mask,
    spool: Spool,
}

impl DeadLetters {
    /// Starts the thread.
    pub(super) fn start(layout: Layout, mask: Mask, spool: Spool) -> Result<Self, super::Error> {
        let (records, received) = channel::<(Record, usize)>();
        let problems = Arc::<Mutex<Vec<String>>>::default();
        let found = Arc::clone(&problems);
        let writer = Writer { layout, mask, spool };
        let thread = thread::Builder::new().name("letters".to_owned()).spawn(move || {
            for (record, place) in received {
                if let Err(problem) = writer.write(&record, place) {
                    found.lock().unwrap_or_else(PoisonError::into_inner).push(problem);
                }
            }
        });
        let thread = thread.map_err(|source| super::Error::Prepare {
            what: "no thread can be started for dead letters".to_owned(),
            source,
        })?;
        Ok(Self { records: Some(records), problems, thread: Some(thread) })
    }

    /// Has the file of an item written that a record made a dead letter.
    pub(super) fn write(&self, record: Record, place: usize) {
        if let Some(records) = &self.records {
            // A thread that is gone was ended by us.
            records.send((record, place)).ok();
        }
    }

    /// Waits until all files are written, and returns what went wrong.
    pub(super) fn finish(mut self) -> Vec<String> {
        self.end();
        std::mem::take(&mut *self.problems.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn end(&mut self) {
        self.records = None;
        if let Some(thread) = self.thread.take() {
            // What it had to say it has said.
            thread.join().ok();
        }
    }
}

impl Drop for DeadLetters {
    fn drop(&mut self) {
        self.end();
    }
}

impl Writer {
    fn write(&self, record: &Record, place: usize) -> Result<(), String> {
        let (Event::ItemDeadLettered { attempts, failure }, Some(id)) =
            (&record.event, &record.item_id)
        else {
            return Ok(());
        };
        let item = self.spool.read(place).map_err(|error| error.to_string())?;
        let data: Value = serde_json::from_str(item.data.get()).unwrap_or(Value::Null);
        let mut letter = json!({
            "schema_version": VERSION,
            "job_id": record.job_id.as_str(),
            "item_id": id.as_str(),
            "item_data": data,
            "reason_code": failure.kind.code(),
            "reason": failure.message,
            "attempts": attempts,
            "last_attempt": record.timestamp,
            "failure": failure,
        });
        // The item's data comes from the user's own input, which may hold a secret.
        self.mask.mask_value(&mut letter);
        let path = self.layout.dlq_item(&record.job_id, id);
        let text = format!("{letter:#}\n");
        write_projection(&path, text.as_bytes()).map_err(|error| error.to_string())
    }
}
