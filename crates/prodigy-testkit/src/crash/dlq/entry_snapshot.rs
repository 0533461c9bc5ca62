//! The dead letters as prodigy shows them, held against the journal.

use std::collections::BTreeMap;

use serde_json::Value;

use super::journal::DlqJournal;
use crate::TestEnv;

/// A dead letter as prodigy shows it.
#[derive(Debug)]
pub(crate) struct EntrySnapshot {
    /// Where it stands.
    status: String,
    /// True if it is only replayed by force.
    is_refused: bool,
    /// The numbers of the attempts in its history.
    history: Vec<u32>,
    replays: u32,
}

/// Reads the dead letters of a job, each of which must be there once, in the list and as a whole.
pub(crate) fn read(world: &TestEnv, job: &str) -> Result<BTreeMap<String, EntrySnapshot>, String> {
    let entries = parse_entries(&run_prodigy(world, &["dlq", "export", job, "--all"])?)?;
    check_list(world, job, &entries)?;
    Ok(entries)
}

/// Reads dead letters, one on each line.
pub(crate) fn parse_entries(text: &str) -> Result<BTreeMap<String, EntrySnapshot>, String> {
    let mut entries = BTreeMap::new();
    for line in text.lines() {
        let value: Value = serde_json::from_str(line)
            .map_err(|error| format!("`dlq export` prints {line:?}: {error}"))?;
        let id = self::text(&value, "item_id");
        if entries.insert(id.clone(), EntrySnapshot::from_json(&value)).is_some() {
            return Err(format!("{id} has two entries"));
        }
    }
    Ok(entries)
}

/// Checks that the list says the same as the entries.
fn check_list(
    world: &TestEnv,
    job: &str,
    entries: &BTreeMap<String, EntrySnapshot>,
) -> Result<(), String> {
    let said = run_prodigy(world, &["dlq", "list", job, "--all", "--json", "--limit", "100000"])?;
    let document: Value = serde_json::from_str(&said)
        .map_err(|error| format!("`dlq list` prints {said}: {error}"))?;
    let listed = document.get("entries").and_then(Value::as_array).cloned().unwrap_or_default();
    for heading in &listed {
        let (id, status) = (text(heading, "item_id"), text(heading, "status"));
        match entries.get(&id) {
            Some(entry) if entry.status == status => {}
            other => return Err(format!("{id} is {status} in the list, but {other:?}")),
        }
    }
    if listed.len() != entries.len() {
        let (listed, entries) = (listed.len(), entries.len());
        return Err(format!("{listed} dead letters are listed, and {entries} are there"));
    }
    Ok(())
}

/// Checks that the dead letters are those that the journal tells of, and say the same.
pub(crate) fn check(
    entries: &BTreeMap<String, EntrySnapshot>,
    story: &DlqJournal,
) -> Result<(), String> {
    for (id, life) in &story.items {
        let found = entries.get(id);
        let (status, expected) = (found.map(|entry| entry.status.as_str()), life.status());
        if status != expected {
            return Err(format!(
                "the entry of {id} is {status:?} instead of {expected:?}: {life:?}"
            ));
        }
        let Some(entry) = found else { continue };
        if life.is_dead() && entry.is_refused != life.is_refused() {
            return Err(format!("{id}: {entry:?} is not replayed as it should be: {life:?}"));
        }
        if entry.history != life.failures || entry.replays != life.replays {
            return Err(format!("{id}: {entry:?} does not have what happened: {life:?}"));
        }
    }
    let strange: Vec<_> = entries.keys().filter(|id| !story.items.contains_key(*id)).collect();
    if strange.is_empty() { Ok(()) } else { Err(format!("entries of unknown items: {strange:?}")) }
}

impl EntrySnapshot {
    fn from_json(value: &Value) -> Self {
        let number = |value: Option<&Value>| {
            value.and_then(Value::as_u64).and_then(|number| u32::try_from(number).ok())
        };
        let history = value.get("failure_history").and_then(Value::as_array);
        let is = |key| value.get(key).and_then(Value::as_bool).unwrap_or_default();
        Self {
            status: text(value, "status"),
            is_refused: !is("reprocess_eligible") || is("manual_review_required"),
            history: history
                .into_iter()
                .flatten()
                .map(|detail| number(detail.get("attempt_number")).unwrap_or_default())
                .collect(),
            replays: number(value.get("replays")).unwrap_or_default(),
        }
    }
}

fn text(value: &Value, key: &str) -> String {
    value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn run_prodigy(world: &TestEnv, args: &[&str]) -> Result<String, String> {
    let seen = world.prodigy(args);
    if seen.code == Some(0) && seen.stderr.is_empty() {
        return Ok(seen.stdout);
    }
    Err(format!("`prodigy {}` says:\n{seen}", args.join(" ")))
}
