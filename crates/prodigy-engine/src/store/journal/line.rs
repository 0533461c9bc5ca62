//! One line of the journal: a record as JSON with a checksum as its last field.

use std::{array, borrow::Cow, str};

use prodigy_core::event::{Event, EventRecord, FORMAT};

/// The longest a line may be.
///
/// Readers hold one line in memory, so this bounds what a damaged file can cost.
pub(crate) const MAX_LINE: usize = 32 * 1024 * 1024;

/// The bytes between a record and its checksum.
const SEAL: &[u8] = b",\"crc\":\"";
/// The length of `,"crc":"xxxxxxxx"}`.
const SEAL_LENGTH: usize = 18;
/// The beginning of every line.
const START: &[u8] = b"{\"format\":";
/// The most offsets tried in one damaged line, so that none can cost minutes.
const MAX_STARTS: usize = 64;

/// The defect of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LineError {
    /// It is not what was written.
    Damaged(String),
    /// It is what was written, by a newer prodigy.
    Future(String),
}

/// Appends a record to `buffer`, with its checksum and a newline.
pub(crate) fn encode(record: &EventRecord, buffer: &mut Vec<u8>) -> Result<(), String> {
    let start = buffer.len();
    serde_json::to_writer(&mut *buffer, record).map_err(|error| error.to_string())?;
    // The closing brace comes back behind the checksum.
    buffer.pop();
    let crc = crc32fast::hash(buffer.get(start..).unwrap_or_default());
    buffer.extend_from_slice(SEAL);
    buffer.extend_from_slice(&digits(crc));
    buffer.extend_from_slice(b"\"}\n");
    Ok(())
}

/// Returns whether a line, without its newline, is exactly what was once written.
fn is_sealed(line: &[u8]) -> bool {
    let Some((body, seal)) = line.len().checked_sub(SEAL_LENGTH).map(|at| line.split_at(at)) else {
        return false;
    };
    let written = seal.strip_prefix(SEAL).and_then(|rest| rest.strip_suffix(b"\"}"));
    written.is_some_and(|written| written == digits(crc32fast::hash(body)))
}

/// Returns a checksum as it is written: eight small hexadecimal digits.
fn digits(crc: u32) -> [u8; 8] {
    let mut rest = crc;
    array::from_fn(|_| {
        rest = rest.rotate_left(4);
        match u8::try_from(rest & 0xf).unwrap_or_default() {
            digit @ 0..=9 => b'0' + digit,
            digit => b'a' + digit - 10,
        }
    })
}

/// Reads a line without its newline.
pub(crate) fn decode(line: &[u8]) -> Result<EventRecord, LineError> {
    if !is_sealed(line) {
        return Err(LineError::Damaged("the checksum does not match".to_owned()));
    }
    match serde_json::from_slice::<EventRecord>(line) {
        Ok(record) if record.format == FORMAT => Ok(record),
        Ok(record) => Err(LineError::Future(format!("its format is {}", record.format))),
        // The checksum says that somebody wrote exactly this, so it is not damage.
        Err(error) => Err(LineError::Future(error.to_string())),
    }
}

/// Checks a line without its newline and returns the record's number and job, no more.
pub(crate) fn decode_header(line: &[u8]) -> Result<(u64, Cow<'_, str>), LineError> {
    if !is_sealed(line) {
        return Err(LineError::Damaged("the checksum does not match".to_owned()));
    }
    match head(line) {
        Some((seq, job)) => Ok((seq, Cow::Borrowed(job))),
        // It is written in another way than ours, or there is something wrong with it.
        None => decode(line).map(|record| (record.seq, Cow::Owned(record.job_id.into()))),
    }
}

/// Reads the fields before the event, if they and the kind of the event are all as we write them.
fn head(line: &[u8]) -> Option<(u64, &str)> {
    let (format, rest) = until(line.strip_prefix(START)?, b',')?;
    let (seq, rest) = until(rest.strip_prefix(b"\"seq\":")?, b',')?;
    let (_, rest) = text(rest.strip_prefix(b"\"timestamp\":")?)?;
    let (job, mut rest) = text(rest.strip_prefix(b",\"job_id\":")?)?;
    for name in [&b",\"agent_id\":"[..], b",\"item_id\":"] {
        if let Some(value) = rest.strip_prefix(name) {
            (_, rest) = text(value)?;
        }
    }
    let (kind, _) = text(rest.strip_prefix(b",\"event_type\":")?)?;
    let known = Event::TYPES.iter().any(|name| name.as_bytes() == kind);
    let ours = str::from_utf8(format).ok()?.parse() == Ok(FORMAT);
    let seq = str::from_utf8(seq).ok()?.parse().ok()?;
    (known && ours).then_some((seq, str::from_utf8(job).ok()?))
}

/// Takes a text in which nothing is escaped, and returns it and what follows.
fn text(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (text, rest) = until(bytes.strip_prefix(b"\"")?, b'"')?;
    (!text.contains(&b'\\')).then_some((text, rest))
}

/// Returns what stands before a byte, and what behind it.
fn until(bytes: &[u8], end: u8) -> Option<(&[u8], &[u8])> {
    let at = bytes.iter().position(|byte| *byte == end)?;
    Some((bytes.get(..at)?, bytes.get(at + 1..)?))
}

/// Returns whether whole records stand anywhere in `bytes`.
///
/// If so, what stands before them was not cut off by a crash: it was damaged later.
pub(crate) fn holds_records(bytes: &[u8]) -> bool {
    count_records(bytes) > 0
}

/// Returns the whole record that stands at the end of a line, wherever it starts.
pub(crate) fn whole_record(line: &[u8]) -> Option<EventRecord> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let starts = line.windows(START.len()).enumerate().filter(|(_, window)| *window == START);
    starts.take(MAX_STARTS).find_map(|(at, _)| decode(line.get(at..)?).ok())
}

/// Counts the whole records in `bytes`, wherever their lines start.
///
/// The opening of a line cannot stand inside another one, because JSON escapes
/// the quotes of a text.
pub(crate) fn count_records(bytes: &[u8]) -> u64 {
    bytes
        .split(|byte| *byte == b'\n')
        .map(|line| {
            let starts = line.windows(START.len()).enumerate().filter(|(_, w)| *w == START);
            u64::from(starts.take(MAX_STARTS).any(|(at, _)| line.get(at..).is_some_and(is_sealed)))
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::store::fixture::{at, event};

    fn line(record: &EventRecord) -> String {
        let mut buffer = Vec::new();
        encode(record, &mut buffer).unwrap();
        String::from_utf8(buffer).unwrap()
    }

    fn record() -> EventRecord {
        let job_id = "job-1".parse().unwrap();
        EventRecord {
            format: FORMAT,
            seq: 7,
            timestamp: at(0),
            job_id,
            agent_id: None,
            item_id: None,
            event: event("say \"hi\"\n"),
        }
    }

    /// Seals any JSON object, as a prodigy of another time would.
    fn sealed(value: &serde_json::Value) -> String {
        let text = value.to_string();
        let body = text.strip_suffix('}').unwrap();
        format!("{body},\"crc\":\"{:08x}\"}}", crc32fast::hash(body.as_bytes()))
    }

    #[test]
    fn a_line_is_the_record_with_its_checksum_as_the_last_field() {
        insta::assert_snapshot!(line(&record()), @r#"{"format":1,"seq":7,"timestamp":"2026-01-02T03:04:05Z","job_id":"job-1","event_type":"step_started","step":"1","name":"say \"hi\"\n","attempt":1,"crc":"a3c03720"}"#);
        assert_eq!(decode(line(&record()).trim_end().as_bytes()), Ok(record()));
    }

    #[test]
    fn no_changed_byte_goes_unnoticed() {
        let line = line(&record()).trim_end().as_bytes().to_vec();
        for at in 0..line.len() {
            for bit in 0..8 {
                let mut changed = line.clone();
                changed[at] ^= 1 << bit;
                let Err(LineError::Damaged(_)) = decode(&changed) else {
                    panic!("byte {at} bit {bit}")
                };
                assert_eq!(decode_header(&changed).unwrap_err(), decode(&changed).unwrap_err());
            }
            let Err(LineError::Damaged(_)) = decode(&line[..at]) else { panic!("cut at {at}") };
        }
    }

    #[test]
    fn a_glance_sees_what_reading_sees() {
        let golden = include_str!("../../../tests/golden/v1/every-event.jsonl");
        let items = include_str!("../../../tests/golden/v1/items.jsonl");
        let mut seen = 0;
        for line in golden.lines().chain(items.lines()).map(str::as_bytes) {
            let record = decode(line).unwrap();
            assert_eq!(head(line), Some((record.seq, record.job_id.as_str())));
            assert_eq!(decode_header(line), Ok((record.seq, record.job_id.as_str().into())));
            seen += 1;
        }
        assert!(seen >= Event::TYPES.len(), "{seen}");
    }

    #[test]
    fn a_glance_at_a_strange_line_says_what_reading_says() {
        let ours = serde_json::to_value(record()).unwrap();
        let with = |name: &str, value: serde_json::Value| {
            let mut changed = ours.clone();
            changed[name] = value;
            changed
        };
        let whole = |value: &serde_json::Value| sealed(value).into_bytes();
        let mut first = json!({"a_new_field": {"seq": 9}});
        first.as_object_mut().unwrap().extend(ours.as_object().unwrap().clone());
        let no_job: serde_json::Value = ours
            .as_object()
            .unwrap()
            .iter()
            .filter(|(name, _)| *name != "job_id")
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        for line in [
            whole(&with("format", json!(2))),
            whole(&with("format", json!("1"))),
            whole(&with("event_type", json!("moon_landed"))),
            whole(&with("event_type", json!(7))),
            whole(&with("seq", json!(-1))),
            whole(&with("seq", json!(1.5))),
            whole(&with("job_id", json!("job\"\\2"))),
            whole(&first),
            whole(&no_job),
            sealed(&json!({})).into_bytes(),
            b"{\"format\":1}".to_vec(),
            b"".to_vec(),
        ] {
            let read = decode(&line).map(|record| (record.seq, record.job_id.as_str().to_owned()));
            let seen = decode_header(&line).map(|(seq, job)| (seq, job.into_owned()));
            assert_eq!(seen, read, "{}", String::from_utf8_lossy(&line));
        }
    }

    #[test]
    fn what_a_newer_prodigy_wrote_is_not_damage() {
        let mut value = serde_json::to_value(record()).unwrap();
        value["new_field"] = json!([1]);
        assert_eq!(decode(sealed(&value).as_bytes()), Ok(record()));
        value["format"] = json!(2);
        insta::assert_debug_snapshot!(decode(sealed(&value).as_bytes()).unwrap_err(), @r#"
        Future(
            "its format is 2",
        )
        "#);
        value["format"] = json!(1);
        value["event_type"] = json!("moon_landed");
        let Err(LineError::Future(reason)) = decode(sealed(&value).as_bytes()) else { panic!() };
        assert_eq!(reason.split(", expected").next(), Some("unknown variant `moon_landed`"));
    }

    #[test]
    fn whole_records_are_found_wherever_they_start() {
        let whole = line(&record());
        for (bytes, count) in [
            (String::new(), 0),
            (whole.clone(), 1),
            (whole.trim_end().to_owned(), 1),
            (format!("{}{whole}", &whole[..50]), 1),
            (format!("{}\n{whole}{whole}\0\0", &whole[..50]), 2),
            (whole[1..].to_owned(), 0),
        ] {
            assert_eq!(count_records(bytes.as_bytes()), count, "{bytes}");
            assert_eq!(holds_records(bytes.as_bytes()), count > 0);
        }
    }
}
