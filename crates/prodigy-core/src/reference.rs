//! The journal and its failures, described for people and programs.
//!
//! Everything here is made from the types that write the journal: the names from
//! their fields, the words from their documentation. So a description cannot be
//! forgotten, and none can stay behind when a type changes.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use crate::{event::Record, failure::FailureKind};

/// Where the schema keeps the types that events are made of.
const DEFINITIONS: &str = "definitions";

/// Returns the JSON Schema (draft 7) of the records of the journal.
pub fn event_schema() -> Value {
    let generator = SchemaSettings::draft07().for_serialize().into_generator();
    let mut schema = generator.into_root_schema_for::<Record>().to_value();
    if let Some(title) = schema.get_mut("title") {
        *title = Value::from("prodigy event");
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
            page.push_str(&if name == "FailureKind" {
                "One of the [failure codes](failure-codes.md).\n".to_owned()
            } else if definition.get("oneOf").is_some() {
                words(definition)
            } else {
                table(definition)
            });
        }
    }
    page
}

/// Returns the reference page of failure codes, in Markdown.
pub fn failure_codes_markdown() -> String {
    let kinds = SchemaSettings::draft07().into_generator().into_root_schema_for::<FailureKind>();
    let mut page = "# Failure codes\n\n\
        A failure has a code that says what went wrong. It is in the events `step_failed` and\n\
        `job_failed` as `failure.kind`, handlers see it as `${error.reason}`, and `retry_on` in a\n\
        workflow names the codes that are worth another try.\n\n\
        A command or an agent that fails can name the code itself: it writes\n\
        `{\"reason_code\": \"CODE\"}` to the file that `PRODIGY_RESULT_FILE` names.\n\n"
        .to_owned();
    page.push_str(&words(&kinds.to_value()));
    page
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
        let name = word.get("const").and_then(Value::as_str).unwrap_or_default();
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
        for line in golden.lines().chain(items.lines()) {
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
    fn everything_has_a_meaning_and_a_kind() {
        for page in [events_markdown(), failure_codes_markdown()] {
            for line in page.lines().filter(|line| line.starts_with('|')) {
                assert!(!line.contains("|  |  |") && !line.ends_with("|  |"), "{line}");
            }
        }
    }

    #[test]
    fn every_failure_code_is_described() {
        let page = failure_codes_markdown();
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
        let codes: Vec<_> = FailureKind::ALL.iter().map(|kind| kind.code()).collect();
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
        | `failure` | [Failure](#failure) |  | Why it failed. |
        | `then` | [AfterFailure](#afterfailure) |  | What follows: another try, the next step, or the end of the phase. |
        | `duration_ms` | whole number |  | How long it took. |
        | `log` | [LogRange](#logrange) | may be left out | Where its output stands in the log files. |
        ");
    }
}
