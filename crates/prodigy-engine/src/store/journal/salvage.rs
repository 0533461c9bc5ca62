//! The effect records behind the damage in a journal.
//!
//! Side effects stay in place whatever happens to the journal. So these records are
//! carried over when it is repaired; the content of the damaged line itself counts as unknown.

use std::{
    collections::BTreeSet,
    io::{self, BufRead as _, Read as _, Seek as _},
};

use prodigy_core::{
    effect::{Effect, EffectFinding, EffectState},
    event::{Event, EventRecord, NewEvent},
    ids::{JobId, OWN_STEPS},
};

use super::{
    line,
    reader::{BadLine, ReadOutcome},
    segment::JournalSegment,
};
use crate::store::{
    Error, JournalReader, Layout,
    files::{self, OpenMode},
};

/// The name that stands in the records for whoever found out.
const BY: &str = "repair";

/// Returns the records of effects behind a damaged line, as they are to be written again.
pub(crate) fn effects_after_damage(
    layout: &Layout,
    job: &JobId,
    segments: &[JournalSegment],
    spot: &BadLine,
) -> Result<Vec<NewEvent>, Error> {
    let mut salvage = EffectSalvage { known: known_keys(layout, job)?, facts: Vec::new() };
    let from = segments.iter().position(|segment| segment.path == spot.path).unwrap_or_default();
    let limit = u64::try_from(line::MAX_LINE).unwrap_or(u64::MAX);
    for segment in segments.iter().skip(from) {
        let is_first = segment.path == spot.path;
        let reading = |error| Error::io("read", &segment.path, error);
        let mut file = io::BufReader::new(files::open_regular(&segment.path, OpenMode::Read)?);
        let skip = if is_first { spot.offset } else { 0 };
        file.seek(io::SeekFrom::Start(skip)).map_err(reading)?;
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            let read = (&mut file).take(limit).read_until(b'\n', &mut bytes);
            if read.map_err(reading)? == 0 {
                break;
            }
            match line::whole_record(&bytes) {
                Some(record) => salvage.add(record, true),
                None => salvage.add_damaged(&bytes),
            }
        }
    }
    Ok(salvage.facts)
}

/// Returns the keys of the effects that are known from before the damage.
fn known_keys(layout: &Layout, job: &JobId) -> Result<BTreeSet<String>, Error> {
    let mut keys = BTreeSet::new();
    let mut reader = JournalReader::open(layout, job)?;
    loop {
        match reader.read_next() {
            Ok(ReadOutcome::Record(record)) => {
                if let Event::EffectPrepared(effect) = &record.event {
                    keys.insert(effect.key.clone());
                }
            }
            Ok(ReadOutcome::Passed) => {}
            Ok(ReadOutcome::End | ReadOutcome::Torn(_)) | Err(Error::Damaged { .. }) => {
                return Ok(keys);
            }
            Err(error) => return Err(error),
        }
    }
}

/// The records of effects that were found so far.
struct EffectSalvage {
    /// The effects of which the beginning is known.
    known: BTreeSet<String>,
    facts: Vec<NewEvent>,
}

impl EffectSalvage {
    /// Adds a record; `is_whole` is false if its line is damaged.
    fn add(&mut self, record: EventRecord, is_whole: bool) {
        let EventRecord { item_id, job_id, event, .. } = record;
        let fact = |event| NewEvent { agent_id: None, item_id: item_id.clone(), event };
        let key = if let Event::EffectPrepared(effect) = &event {
            self.known.insert(effect.key.clone());
            self.facts.push(fact(event));
            return;
        } else if let Event::EffectCommitted { key, .. }
        | Event::EffectReconciled { key, .. }
        | Event::EffectCompensated { key, .. } = &event
        {
            key.clone()
        } else {
            return;
        };
        if self.known.insert(key.clone()) {
            let item = item_id.as_ref().map_or(OWN_STEPS, |item| item.as_str());
            self.facts
                .push(fact(Event::EffectPrepared(Box::new(effect_with_key(&job_id, item, &key)))));
        }
        let (finding, by) = (EffectFinding::Indeterminate, BY.to_owned());
        let unknown = Event::EffectReconciled { key, finding, receipt: None, by };
        self.facts.push(fact(if is_whole { event } else { unknown }));
    }

    /// Adds the record of a damaged line, as far as it can be parsed.
    fn add_damaged(&mut self, bytes: &[u8]) {
        if let Ok(record) = serde_json::from_slice::<EventRecord>(bytes) {
            self.add(record, false);
        }
    }
}

/// Returns an effect of which the beginning is lost: nothing but its key is known.
fn effect_with_key(job: &JobId, item: &str, key: &str) -> Effect {
    let step = key.strip_prefix(&format!("{job}:{item}:")).unwrap_or(key).to_owned();
    // A key of an older version ends with the number of the step.
    let last = step.rsplit('.').next().unwrap_or_default();
    let is_path = last.bytes().all(|byte| byte.is_ascii_digit());
    Effect {
        key: key.to_owned(),
        identity: (!is_path).then(|| step.clone()),
        name: step.clone(),
        step,
        intent_hash: String::new(),
        attempt: 0,
        state: EffectState::Prepared,
        receipt: None,
        can_check: false,
        can_compensate: false,
        idempotent: false,
        is_earlier: false,
    }
}
