//! Every word of the interface is used: each event is emitted, each key is driven.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use prodigy_core::{
    event::Event,
    workflow::grammar::{self, RecordShape, Shape},
    yaml::{self, YamlNode},
};
use regex::Regex;

use crate::docs::field_coverage::DOCUMENTS;

#[test]
fn every_documented_event_is_emitted() {
    let events = DOCUMENTS.all.iter().filter(|(kind, _)| *kind == "event");
    let emitted: BTreeSet<String> =
        events.map(|(_, event)| event["event_type"].as_str().unwrap().to_owned()).collect();
    let documented: BTreeSet<String> = Event::TYPES.iter().map(|&name| name.to_owned()).collect();
    assert_eq!(emitted, documented);
}

/// A workflow that is only a list of steps.
static STEPS: Shape = Shape::List(&Shape::Record(&grammar::STEP));

/// A key: the record it stands in, and its name or alias.
type Word = (&'static str, &'static str);

/// Returns the record's name; a step of a handler is a step like any other.
fn name_of(record: &'static RecordShape) -> &'static str {
    if record.name == "handler_step" { "step" } else { record.name }
}

/// Collects every key of the records below a record.
fn keys_below(record: &'static RecordShape, keys: &mut BTreeSet<Word>) {
    for key in record.keys() {
        let is_new = keys.insert((name_of(record), key.name));
        keys.extend(key.aliases.iter().map(|alias| (name_of(record), *alias)));
        if is_new {
            for record in records_of(&key.shape) {
                keys_below(record, keys);
            }
        }
    }
}

/// Returns the records that a shape may be.
fn records_of(shape: &Shape) -> Vec<&'static RecordShape> {
    match shape {
        Shape::Record(record) => vec![record],
        Shape::Tagged(tagged) => tagged.variants.iter().map(|(_, record)| *record).collect(),
        Shape::List(inner) | Shape::NonEmptyList(inner) | Shape::Table { value: inner, .. } => {
            records_of(inner)
        }
        Shape::OneOf(shapes) => shapes.iter().flat_map(records_of).collect(),
        Shape::Bool
        | Shape::Text
        | Shape::Template
        | Shape::Script
        | Shape::Expression
        | Shape::JsonPath
        | Shape::JsonSchema
        | Shape::Integer { .. }
        | Shape::Number { .. }
        | Shape::Duration
        | Shape::Word(_)
        | Shape::WordOr { .. }
        | Shape::Any => Vec::new(),
    }
}

/// Collects the keys that a piece of a workflow uses.
fn keys_in(node: &YamlNode, shape: &Shape, used: &mut BTreeSet<Word>) {
    let entries = node.as_mapping();
    match shape {
        Shape::Record(record) => {
            for (key, value) in entries.unwrap_or_default() {
                if let Some(known) = record.key(&key.text) {
                    let names = std::iter::once(&known.name).chain(known.aliases);
                    let name = names.copied().find(|name| *name == key.text).unwrap();
                    used.insert((name_of(record), name));
                    keys_in(value, &known.shape, used);
                }
            }
        }
        Shape::Tagged(tagged) => {
            let tag = node.get(tagged.tag).and_then(YamlNode::as_str);
            let chosen = tagged.variants.iter().find(|(value, _)| Some(*value) == tag);
            if let Some((_, record)) = chosen {
                keys_in(node, &Shape::Record(record), used);
            }
        }
        Shape::List(inner) | Shape::NonEmptyList(inner) => {
            for element in node.as_sequence().unwrap_or_default() {
                keys_in(element, inner, used);
            }
        }
        Shape::Table { value: inner, .. } => {
            for (_, value) in entries.unwrap_or_default() {
                keys_in(value, inner, used);
            }
        }
        Shape::OneOf(shapes) => shapes.iter().for_each(|shape| keys_in(node, shape, used)),
        Shape::Bool
        | Shape::Text
        | Shape::Template
        | Shape::Script
        | Shape::Expression
        | Shape::JsonPath
        | Shape::JsonSchema
        | Shape::Integer { .. }
        | Shape::Number { .. }
        | Shape::Duration
        | Shape::Word(_)
        | Shape::WordOr { .. }
        | Shape::Any => {}
    }
}

/// Returns the files below a directory.
fn files_below(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

/// Returns the texts of the files with this ending below a directory.
fn texts(directory: &str, ending: &str) -> Vec<String> {
    files_below(&Path::new(env!("CARGO_MANIFEST_DIR")).join(directory))
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == ending))
        // A file that is only checked drives nothing.
        .filter(|path| !path.ends_with("validate.rs") && !path.ends_with("bad_input.rs"))
        .map(|path| fs::read_to_string(path).unwrap())
        .collect()
}

/// Returns the workflows that these tests, the examples and the guides run.
fn workflows() -> Vec<String> {
    let mut workflows = texts("../../examples/quickstart", "yml");
    let raw = Regex::new(r###"(?s)r##"(.*?)"##|r#"(.*?)"#"###).unwrap();
    let plain = Regex::new(r#""((?:[^"\\]|\\.)*)""#).unwrap();
    for source in texts("tests/it", "rs") {
        workflows.extend(raw.captures_iter(&source).map(|found| {
            let text = found.get(1).or_else(|| found.get(2)).unwrap();
            text.as_str().to_owned()
        }));
        let source = raw.replace_all(&source, "");
        workflows.extend(plain.captures_iter(&source).map(|found| {
            found[1].replace("\\n", "\n").replace("\\\"", "\"").replace("\\\\", "\\")
        }));
    }
    let block = Regex::new(r"(?s)<!-- file: \S+ -->\n```yaml\n(.*?)```").unwrap();
    for page in texts("../../docs/guide", "md") {
        workflows.extend(block.captures_iter(&page).map(|found| found[1].to_owned()));
    }
    workflows
}

#[test]
fn every_workflow_key_is_driven() {
    let mut keys = BTreeSet::new();
    keys_below(&grammar::WORKFLOW, &mut keys);
    let mut used = BTreeSet::new();
    for text in workflows() {
        if let Ok(root) = yaml::parse(&text, 0) {
            keys_in(&root, &Shape::Record(&grammar::WORKFLOW), &mut used);
            keys_in(&root, &STEPS, &mut used);
        }
    }
    let idle: Vec<_> = keys.difference(&used).collect();
    assert_eq!(idle, Vec::<&Word>::new(), "no test runs a workflow with these");
}
