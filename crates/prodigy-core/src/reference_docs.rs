//! The journal and its failures, described for people and programs.
//!
//! Everything here is made from the types that write the journal: the names from
//! their fields, the words from their documentation. So a description cannot be
//! forgotten, and none can stay behind when a type changes.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{
    audit::AuditRecord,
    dlq::DeadLetteredItem,
    event::EventRecord,
    failure::{DefaultAction, ReasonClass, ReasonCode},
    job::checkpoint::Checkpoint,
};

/// Where the schema keeps the types that events are made of.
const DEFINITIONS: &str = "definitions";

/// Returns the JSON Schema (draft 7) of the records of the journal.
pub fn event_schema() -> Value {
    titled::<EventRecord>("prodigy event")
}

/// Returns the JSON Schema (draft 7) of the files of dead letters.
pub fn dlq_item_schema() -> Value {
    titled::<DeadLetteredItem>("prodigy dead letter")
}

/// Returns the JSON Schema (draft 7) of the checkpoint of a job.
pub fn checkpoint_schema() -> Value {
    titled::<Checkpoint>("prodigy checkpoint")
}

/// Returns the JSON Schema (draft 7) of the records of the audit trail.
pub fn audit_record_schema() -> Value {
    titled::<AuditRecord>("prodigy audit record")
}

/// Returns the schema of what is written as a type.
fn titled<T: JsonSchema>(title: &str) -> Value {
    let generator = SchemaSettings::draft07().for_serialize().into_generator();
    let mut schema = generator.into_root_schema_for::<T>().to_value();
    if let Some(old) = schema.get_mut("title") {
        *old = Value::from(title);
    }
    schema
}

/// Returns the reference page of events, in Markdown.
pub fn events_markdown() -> String {
    let schema = event_schema();
    let mut page = "# Events\n\n\
        The journal of a job is a list of records, one JSON object on each line. A record says\n\
        what happened; nothing is ever changed or removed. `prodigy events JOB --json` prints them,\n\
        and `prodigy schema event` prints their JSON Schema. On disk each line ends with one more\n\
        field, `crc`, the checksum of what stands before it.\n\n\
        ## Every record\n\n"
        .to_owned();
    page.push_str(&table(&schema));
    page.push_str("\n## Events\n");
    for variant in list(&schema, "oneOf") {
        let name = variant.pointer("/properties/event_type/const").and_then(Value::as_str);
        page.extend(["\n### ", name.unwrap_or_default(), "\n\n", description(variant), "\n\n"]);
        page.push_str(&table(&whole(variant, &schema)));
    }
    page.push_str("\n## Parts of events\n");
    let used_as_part = |name: &str| {
        let reference = format!("#/{DEFINITIONS}/{name}");
        !list(&schema, "oneOf").iter().any(|variant| base(variant) == Some(&reference))
    };
    for (name, definition) in fields(&schema, DEFINITIONS) {
        if used_as_part(name) {
            page.extend(["\n### ", name, "\n\n", description(definition), "\n\n"]);
            page.push_str(&part(name, definition));
        }
    }
    page
}

/// Returns the reference page of dead letters, in Markdown.
pub fn dead_letters_markdown() -> String {
    let schema = dlq_item_schema();
    let mut page = "# Dead letters\n\n\
        A failed item has a file of its own, with everything that is known about it:\n\
        `dlq/REPOSITORY/JOB/mapreduce/dlq/JOB/items/ITEM.json` below `~/.prodigy`, and in `resolved/` beside\n\
        `items/` once it is closed. `prodigy dlq show` shows it, and `prodigy schema dlq-item` prints its JSON Schema.\n\n\
        ## The file\n\n"
        .to_owned();
    page.push_str(&shape(&schema));
    page
}

/// Returns the reference page of checkpoints, in Markdown.
pub fn checkpoint_markdown() -> String {
    let mut page = "# Checkpoints\n\n\
        `state/REPOSITORY/mapreduce/jobs/JOB/checkpoint.json` below `~/.prodigy` sums up a job for other\n\
        programs, and spares a resume a part of the journal. It is written when a phase ends, when a run ends,\n\
        and every few seconds in between; each time but the last `checkpoint_created` is recorded. It can be\n\
        deleted at any time. `prodigy verify JOB` compares it with the journal, and `prodigy schema checkpoint`\n\
        prints its JSON Schema.\n\n\
        ## The file\n\n"
        .to_owned();
    page.push_str(&shape(&checkpoint_schema()));
    page
}

/// Returns the reference page of the audit trail, in Markdown.
pub fn audit_markdown() -> String {
    let mut page = "# The audit trail\n\n\
        `audit/REPOSITORY/audit.jsonl` below `~/.prodigy` holds a record, one JSON object on each line, of every\n\
        decision about dead letters: before it is carried out, and once it is. Each record holds the hash of the one\n\
        before it. `prodigy audit show` shows them, `prodigy audit verify` checks them, and\n\
        `prodigy schema audit-record` prints their JSON Schema.\n\n\
        ## A record\n\n"
        .to_owned();
    page.push_str(&shape(&audit_record_schema()));
    page
}

/// Returns the fields of a file, and the types that they are made of.
fn shape(schema: &Value) -> String {
    let mut page = table(schema);
    page.push_str("\n## Parts of it\n");
    for (name, definition) in fields(schema, DEFINITIONS) {
        page.extend(["\n### ", name, "\n\n", description(definition), "\n\n"]);
        page.push_str(&part(name, definition));
    }
    page
}

/// Returns the description of a type that others are made of.
fn part(name: &str, definition: &Value) -> String {
    if name == "ReasonCode" {
        "One of the [reason codes](failure-codes.md).\n".to_owned()
    } else if definition.get("oneOf").is_some() {
        words(definition)
    } else {
        table(definition)
    }
}

/// The note on a reason code that prodigy itself never sets.
const ONLY_BY_STEPS: &str = " Only a step sets it, with `PRODIGY_RESULT_FILE`.";

/// Returns the reference page of reason codes, in Markdown.
pub fn failure_codes_markdown() -> String {
    let mut page = "# Reason codes\n\n\
        A failure has a reason code that says what went wrong. It is in the events `step_failed`,\n\
        `agent_failed`, `item_dead_lettered` and `job_failed` as `failure.kind`, handlers see it as\n\
        `${error.reason}`, and `retry_on` in a workflow names the codes that are worth another try.\n\
        The set is closed: there are no others.\n\n\
        A command or an agent that fails can name the code itself: it writes\n\
        `{\"reason_code\": \"CODE\"}` to the file that `PRODIGY_RESULT_FILE` names. A code that is not\n\
        in this table becomes `unclassified`, and the message names the nearest one. What prodigy ended\n\
        itself, for a limit or a stop, keeps the code of that.\n\n\
        Otherwise the code follows from how the process ended, and what it printed counts last; see\n\
        [how it is found](../design/0011-reason-codes.md).\n\n\
        | code | class | meaning | what becomes of a dead letter |\n|---|---|---|---|\n"
        .to_owned();
    for kind in ReasonCode::ALL {
        let (code, meaning) = (kind.code(), kind.meaning());
        let (class, action) = (name(kind.class()), name(kind.action()));
        let by = if ReasonCode::ONLY_NAMED_BY_STEPS.contains(kind) { ONLY_BY_STEPS } else { "" };
        page.extend(["| `", code, "` | ", &class, " | ", meaning, by, " | `", &action, "` |\n"]);
    }
    page.push_str(
        "\nAn item of which a replay is denied, waits for an approval, or was approved under another\n\
         policy stays a dead letter with the code that it failed with; the audit trail says that the replay\n\
         was denied, or why the approval was refused.\n",
    );
    page.push_str("\n## Classes\n\n");
    page.push_str(&words(&schema_of::<ReasonClass>()));
    page.push_str(
        "\n## What becomes of a dead letter\n\nThis holds if no policy says otherwise.\n\n",
    );
    page.push_str(&words(&schema_of::<DefaultAction>()));
    page
}

fn schema_of<T: JsonSchema>() -> Value {
    SchemaSettings::draft07().into_generator().into_root_schema_for::<T>().to_value()
}

/// Returns the word that a value is written as.
fn name(value: impl Serialize) -> String {
    serde_json::to_value(value)
        .ok()
        .and_then(|value| value.as_str().map(str::to_owned))
        .unwrap_or_default()
}

/// Returns a variant with the fields of the type that it is made of.
fn whole(variant: &Value, schema: &Value) -> Value {
    let Some(definition) = base(variant).and_then(|path| schema.pointer(path.strip_prefix('#')?))
    else {
        return variant.clone();
    };
    definition.clone()
}

/// Returns the reference to the type that a variant is made of, if it is made of one.
fn base(variant: &Value) -> Option<&str> {
    variant.pointer("/allOf/0/$ref").and_then(Value::as_str)
}

/// Returns the fields of an object as a table; `event_type` is the heading already.
fn table(object: &Value) -> String {
    let required: Vec<&str> = list(object, "required").iter().filter_map(Value::as_str).collect();
    let mut table = "| field | value | | meaning |\n|---|---|---|---|\n".to_owned();
    for (name, field) in fields(object, "properties") {
        if name != "event_type" {
            let optional = if required.contains(&name.as_str()) { "" } else { "may be left out" };
            let row = format!("| `{name}` | {} | {optional} | {} |\n", value(field), cell(field));
            table.push_str(&row);
        }
    }
    table
}

/// Returns the words that a value can be as a table.
fn words(words: &Value) -> String {
    let mut table = "| value | meaning |\n|---|---|\n".to_owned();
    for word in list(words, "oneOf") {
        // A word that carries values is an object with one field, which is named like it.
        let named = word.get("const").or_else(|| list(word, "required").first());
        let name = named.and_then(Value::as_str).unwrap_or_default();
        table.extend(["| `", name, "` | ", &cell(word), " |\n"]);
    }
    table
}

/// Returns what a value looks like, with a link where it is a type of its own.
fn value(schema: &Value) -> String {
    let inner = |name| list(schema, name).first().map(value);
    if let Some(path) = schema.get("$ref").and_then(Value::as_str) {
        let name = path.rsplit('/').next().unwrap_or_default();
        return format!("[{name}](#{})", name.to_lowercase());
    }
    if let Some(inner) = inner("allOf").or_else(|| inner("anyOf")) {
        return inner;
    }
    let kind = schema.get("type").and_then(|kind| match kind {
        Value::Array(kinds) => kinds.first().and_then(Value::as_str),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            kind.as_str()
        }
    });
    match kind {
        Some("string") if schema.get("format").is_some() => "time, RFC 3339".to_owned(),
        Some("string") => "text".to_owned(),
        Some("integer") => "whole number".to_owned(),
        Some("number") => "number".to_owned(),
        Some("boolean") => "`true` or `false`".to_owned(),
        Some("array") => format!("list of {}", schema.get("items").map(value).unwrap_or_default()),
        Some("object") => {
            let of = schema.get("additionalProperties").filter(|of| of.is_object()).map(value);
            format!("name → {}", of.unwrap_or_else(|| "any value".to_owned()))
        }
        Some(_) | None => "any value".to_owned(),
    }
}

fn description(schema: &Value) -> &str {
    schema.get("description").and_then(Value::as_str).unwrap_or_default()
}

/// Returns a description that fits into a table.
fn cell(schema: &Value) -> String {
    description(schema).replace('\n', " ").replace('|', "\\|")
}

fn list<'v>(schema: &'v Value, name: &str) -> &'v [Value] {
    schema.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn fields<'v>(schema: &'v Value, name: &str) -> impl Iterator<Item = (&'v String, &'v Value)> {
    schema.get(name).and_then(Value::as_object).into_iter().flat_map(Map::iter)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::event::Event;

    #[test]
    fn every_event_is_described() {
        let schema = event_schema();
        let names: Vec<_> = list(&schema, "oneOf")
            .iter()
            .map(|variant| variant["properties"]["event_type"]["const"].as_str().unwrap())
            .collect();
        assert_eq!(names, Event::TYPES);
        let page = events_markdown();
        let headings: BTreeSet<_> =
            page.lines().filter_map(|line| line.strip_prefix("### ")).collect();
        for name in names {
            assert!(headings.contains(name), "{name}");
        }
    }

    #[test]
    fn every_field_that_is_written_is_described() {
        let schema = event_schema();
        let golden = include_str!("../../prodigy-engine/tests/golden/v1/every-event.jsonl");
        let items = include_str!("../../prodigy-engine/tests/golden/v1/items.jsonl");
        let governed = include_str!("../../prodigy-engine/tests/golden/v1/governed.jsonl");
        let agents = include_str!("../../prodigy-engine/tests/golden/v1/agents.jsonl");
        let checkout = include_str!("../../prodigy-engine/tests/golden/v1/checkout.jsonl");
        let conflict = include_str!("../../prodigy-engine/tests/golden/v1/conflict.jsonl");
        let kept = include_str!("../../prodigy-engine/tests/golden/v1/kept-work.jsonl");
        let all = [golden, items, governed, agents, checkout, conflict, kept];
        for line in all.iter().flat_map(|text| text.lines()) {
            let record: Value = serde_json::from_str(line).unwrap();
            let is_it = |variant: &&Value| {
                variant["properties"]["event_type"]["const"] == record["event_type"]
            };
            let variant = list(&schema, "oneOf").iter().find(is_it).unwrap();
            let variant = whole(variant, &schema);
            let known: BTreeSet<&String> = fields(&variant, "properties")
                .chain(fields(&schema, "properties"))
                .map(|(name, _)| name)
                .collect();
            for (name, _) in record.as_object().unwrap() {
                let sealed = name == "crc" || name == "event_type";
                if !sealed {
                    assert!(known.contains(name), "{name} of {}", record["event_type"]);
                }
            }
        }
    }

    #[test]
    fn every_field_of_a_dead_letter_is_described() {
        let schema = dlq_item_schema();
        let text = include_str!("dlq/tests/entry.json");
        let entry: Value = serde_json::from_str(text).unwrap();
        let known: BTreeSet<_> = fields(&schema, "properties").map(|(name, _)| name).collect();
        for (name, _) in entry.as_object().unwrap() {
            assert!(known.contains(name), "{name}");
        }
        let parsed = crate::json_schema::OutputSchema::parse(&schema).unwrap();
        assert_eq!(parsed.validate(&entry), Ok(()));
        let mut wrong = entry;
        wrong["status"] = Value::from("somewhere");
        assert_eq!(parsed.validate(&wrong).unwrap_err().len(), 1);
        let page = dead_letters_markdown();
        for name in known {
            assert!(page.contains(&format!("| `{name}` | ")), "{name}");
        }
    }

    #[test]
    fn everything_has_a_meaning_and_a_kind() {
        let pages = [
            events_markdown(),
            dead_letters_markdown(),
            failure_codes_markdown(),
            checkpoint_markdown(),
            audit_markdown(),
        ];
        for page in pages {
            for line in page.lines().filter(|line| line.starts_with('|')) {
                assert!(!line.contains("|  |  |") && !line.ends_with("|  |"), "{line}");
            }
        }
    }

    #[test]
    fn every_failure_code_is_described() {
        let page = failure_codes_markdown();
        let page = page.split("\n## ").next().unwrap();
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
        let codes: Vec<_> = ReasonCode::ALL.iter().map(|kind| kind.code()).collect();
        assert_eq!(rows.collect::<Vec<_>>(), codes);
    }

    #[test]
    fn an_event_is_shown_as_a_table_of_its_fields() {
        let page = events_markdown();
        let start = page.find("### step_failed").unwrap();
        let end = start + page[start..].find("\n### step_skipped").unwrap();
        insta::assert_snapshot!(&page[start..end], @"
        ### step_failed

        A try of a step failed.

        | field | value | | meaning |
        |---|---|---|---|
        | `step` | text |  | The step's path. |
        | `attempt` | whole number |  | Which try this was. |
        | `failure` | [Failure](#failure) |  | The failure. |
        | `then` | [StepFailureDecision](#stepfailuredecision) |  | The next act: another try, the next step, or the end of the phase. |
        | `duration_ms` | whole number |  | The duration of the try. |
        | `log` | [LogRange](#logrange) | may be left out | Where its output stands in the log files. |
        ");
    }
}
