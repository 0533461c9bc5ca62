//! One line of the journal: a record as JSON with a checksum as its last field.

use prodigy_core::event::{FORMAT, Record};

/// The longest a line may be.
///
/// Readers hold one line in memory, so this bounds what a damaged file can cost.
pub(super) const MAX_LINE: usize = 32 * 1024 * 1024;

/// What stands between a record and its checksum.
const SEAL: &[u8] = b",\"crc\":\"";
/// The length of `,"crc":"xxxxxxxx"}`.
const SEAL_LENGTH: usize = 18;
/// How every line starts.
const START: &[u8] = b"{\"format\":";
/// How many places of one damaged line are tried, so that none can cost minutes.
const MAX_STARTS: usize = 64;

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// It is not what was written.
    Damaged(String),
    /// It is what was written, by a newer prodigy.
    Future(String),
}

/// Appends a record to `buffer`, with its checksum and a newline.
pub(super) fn encode(record: &Record, buffer: &mut Vec<u8>) -> Result<(), String> {
    let start = buffer.len();
    serde_json::to_writer(&mut *buffer, record).map_err(|error| error.to_string())?;
    // The closing brace comes back behind the checksum.
    buffer.pop();
    let crc = crc32fast::hash(buffer.get(start..).unwrap_or_default());
    buffer.extend_from_slice(SEAL);
    buffer.extend_from_slice(format!("{crc:08x}").as_bytes());
    buffer.extend_from_slice(b"\"}\n");
    Ok(())
}

/// Returns whether a line, without its newline, is exactly what was once written.
fn is_sealed(line: &[u8]) -> bool {
    let Some((body, seal)) = line.len().checked_sub(SEAL_LENGTH).map(|at| line.split_at(at)) else {
        return false;
    };
    let digits = seal.strip_prefix(SEAL).and_then(|rest| rest.strip_suffix(b"\"}"));
    digits.is_some_and(|digits| digits == format!("{:08x}", crc32fast::hash(body)).as_bytes())
}

/// Reads a line without its newline.
pub(super) fn decode(line: &[u8]) -> Result<Record, Flaw> {
    if !is_sealed(line) {
        return Err(Flaw::Damaged("the checksum does not match".to_owned()));
    }
    match serde_json::from_slice::<Record>(line) {
        Ok(record) if record.format == FORMAT => Ok(record),
        Ok(record) => Err(Flaw::Future(format!("its format is {}", record.format))),
        // The checksum says that somebody wrote exactly this, so it is not damage.
        Err(error) => Err(Flaw::Future(error.to_string())),
    }
}

/// Returns whether whole records stand anywhere in `bytes`.
///
/// If so, what stands before them was not cut off by a crash: it was damaged later.
pub(super) fn holds_records(bytes: &[u8]) -> bool {
    count_records(bytes) > 0
}

/// Counts the whole records in `bytes`, wherever their lines start.
///
/// The opening of a line cannot stand inside another one, because JSON escapes
/// the quotes of a text.
pub(super) fn count_records(bytes: &[u8]) -> u64 {
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

    fn line(record: &Record) -> String {
        let mut buffer = Vec::new();
        encode(record, &mut buffer).unwrap();
        String::from_utf8(buffer).unwrap()
    }

    fn record() -> Record {
        let job_id = "job-1".parse().unwrap();
        Record { format: FORMAT, seq: 7, timestamp: at(0), job_id, event: event("say \"hi\"\n") }
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
                let Err(Flaw::Damaged(_)) = decode(&changed) else { panic!("byte {at} bit {bit}") };
            }
            let Err(Flaw::Damaged(_)) = decode(&line[..at]) else { panic!("cut at {at}") };
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
        let Err(Flaw::Future(reason)) = decode(sealed(&value).as_bytes()) else { panic!() };
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
