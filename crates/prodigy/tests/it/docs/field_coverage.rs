//! Every documented field of checkpoint, event, dead letter and audit record is filled by some
//! run of the feature: the schemas that the binary prints say which fields there are.

use std::{collections::BTreeSet, fs, path::Path, sync::LazyLock};

use prodigy_testkit::TestEnv;
use serde_json::{Map, Value};

use crate::fixture::driven_runs;

/// What runs of the binary left behind, by kind of document.
#[derive(Default)]
pub(crate) struct Documents {
    /// The kind, as `prodigy schema` calls it, and the document.
    pub(crate) all: Vec<(&'static str, Value)>,
}

/// The documents of all runs; they are made once.
pub(crate) static DOCUMENTS: LazyLock<Documents> = LazyLock::new(driven_runs::documents);

impl Documents {
    /// Adds what is in the home of a world.
    pub(crate) fn add(&mut self, world: &TestEnv) {
        self.add_below(&world.home(), &world.home());
    }

    fn add_below(&mut self, home: &Path, directory: &Path) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let below = path.strip_prefix(home).unwrap().to_string_lossy().into_owned();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_symlink() || below.starts_with("worktrees") {
                continue;
            }
            let extension = path.extension().map(|it| it.to_string_lossy().into_owned());
            match (path.is_dir(), extension.as_deref()) {
                (true, _) => self.add_below(home, &path),
                (_, Some("jsonl")) if below.starts_with("events/") => {
                    self.add_lines("event", &path);
                }
                (_, Some("jsonl")) if name == "audit.jsonl" => {
                    self.add_lines("audit-record", &path);
                }
                _ if name == "checkpoint.json" => self.add_file("checkpoint", &path),
                (_, Some("json")) if below.starts_with("dlq/") && name != "index.json" => {
                    self.add_file("dlq-item", &path);
                }
                _ => {}
            }
        }
    }

    fn add_lines(&mut self, kind: &'static str, path: &Path) {
        let text = fs::read_to_string(path).unwrap();
        let records = text.lines().filter_map(|line| serde_json::from_str(line).ok());
        self.all.extend(records.map(|record| (kind, record)));
    }

    fn add_file(&mut self, kind: &'static str, path: &Path) {
        let text = fs::read_to_string(path).unwrap();
        self.all.push((kind, serde_json::from_str(&text).unwrap()));
    }
}

/// A schema that the binary prints, and the kind of document that it is about.
struct DocumentSchema {
    kind: &'static str,
    root: Value,
}

impl DocumentSchema {
    /// Calls `found` with the owner and name of each field below a node; with a value, of those
    /// that it fills.
    fn walk(
        &self,
        owner: &str,
        node: &Value,
        value: Option<&Value>,
        found: &mut BTreeSet<String>,
        visited: &mut BTreeSet<String>,
    ) {
        if let Some(path) = node["$ref"].as_str() {
            let name = path.rsplit('/').next().unwrap();
            let owner = format!("{} {name}", self.kind);
            // Without values a type says the same each time.
            if value.is_some() || visited.insert(owner.clone()) {
                let definition = self.root.pointer(path.strip_prefix('#').unwrap()).unwrap();
                self.walk(&owner, definition, value, found, visited);
            }
            return;
        }
        for alternative in list(node, "allOf").chain(list(node, "anyOf")) {
            self.walk(owner, alternative, value, found, visited);
        }
        for variant in list(node, "oneOf") {
            if let Some(name) = tag(variant)
                && value.is_none_or(|value| has_tag(variant, value))
            {
                self.walk(&format!("{owner}::{name}"), variant, value, found, visited);
            }
        }
        for (name, field) in fields(node) {
            let inner = value.map(|value| &value[name]);
            let path = format!("{owner}.{name}");
            let counts = FALSE_COUNTS.contains(&path.as_str());
            let says = |value: &Value| is_filled(value) || (counts && value.is_boolean());
            if inner.is_none_or(says) && field.get("const").is_none() {
                found.insert(path);
            }
            if inner.is_none_or(|inner| !inner.is_null()) {
                self.walk(owner, field, inner, found, visited);
            }
        }
        for inner in ["items", "additionalProperties"] {
            let Some(of) = node.get(inner).filter(|of| of.is_object()) else { continue };
            match value {
                None => self.walk(owner, of, None, found, visited),
                Some(Value::Array(values)) => {
                    for it in values {
                        self.walk(owner, of, Some(it), found, visited);
                    }
                }
                Some(Value::Object(values)) => {
                    for it in values.values() {
                        self.walk(owner, of, Some(it), found, visited);
                    }
                }
                Some(_) => {}
            }
        }
    }
}

fn list<'v>(node: &'v Value, name: &str) -> impl Iterator<Item = &'v Value> {
    node.get(name).and_then(Value::as_array).into_iter().flatten()
}

fn fields(node: &Value) -> impl Iterator<Item = (&String, &Value)> {
    node.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::iter)
}

/// Returns the name of a variant that has fields.
fn tag(variant: &Value) -> Option<String> {
    let constant = fields(variant).find_map(|(_, field)| field["const"].as_str());
    let only = fields(variant).next().map(|(name, _)| name.as_str());
    constant.or(only).map(str::to_owned)
}

/// Returns whether a value is of a variant.
fn has_tag(variant: &Value, value: &Value) -> bool {
    let mut constants = fields(variant).filter(|(_, field)| field.get("const").is_some());
    match constants.next() {
        Some((name, field)) => value[name] == field["const"],
        None => fields(variant).next().is_some_and(|(name, _)| value.get(name).is_some()),
    }
}

/// Fields that no run can fill, and why.
const NEVER_FILLED: &[(&str, &str)] =
    &[("event Effect.receipt", "an effect that is about to be made has no receipt yet")];

/// Fields whose `false` says more than their absence.
const FALSE_COUNTS: &[&str] = &["event QuotaPaused.waits"];

/// Returns whether a value says something.
fn is_filled(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(is_so) => *is_so,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(values) => !values.is_empty(),
        Value::Object(values) => !values.is_empty(),
    }
}

#[test]
fn every_documented_field_is_filled_by_a_run() {
    let world = TestEnv::new(env!("CARGO_BIN_EXE_prodigy"));
    let mut empty = Vec::new();
    for kind in ["event", "dlq-item", "checkpoint", "audit-record"] {
        let printed = world.prodigy(&["schema", kind]);
        let shape = DocumentSchema { kind, root: serde_json::from_str(&printed.stdout).unwrap() };
        let (mut documented, mut filled) = (BTreeSet::new(), BTreeSet::new());
        let mut visited = BTreeSet::new();
        shape.walk(kind, &shape.root, None, &mut documented, &mut visited);
        for (_, document) in DOCUMENTS.all.iter().filter(|(of, _)| *of == kind) {
            shape.walk(kind, &shape.root, Some(document), &mut filled, &mut visited);
        }
        assert!(documented.len() > 10, "{kind}: {documented:?}");
        empty.extend(documented.difference(&filled).cloned());
    }
    let never: Vec<&str> = NEVER_FILLED.iter().map(|(field, _)| *field).collect();
    assert_eq!(empty, never, "no run fills the fields on the left");
}
