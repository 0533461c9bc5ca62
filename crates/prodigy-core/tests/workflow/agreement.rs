//! The grammar tables and the reading of files agree.
//!
//! Workflows are made from the tables: every key, in every shape. None of them may hold
//! a key that has no effect, or a value that the tables allow and the reading does not.

use prodigy_core::workflow::{
    Rejected,
    grammar::{FAULTS, KeyNames, KeyShape, MAPREDUCE, RecordShape, Shape, WORKFLOW},
    read_faults,
};
use serde_json::{Map, Value, json};

use crate::support::{load_files, show};

/// How deep steps are nested before only what must be there is written.
const DEEPEST: usize = 5;

/// Keys whose sample would contradict another key of the same sample.
const LEFT_OUT: &[&str] = &[
    // Read before the tables are asked.
    "extends",
    "imports",
    "template",
    // `capture` means the same.
    "capture_output",
    // A parameter with a default is never missing.
    "required",
    // `backoff` may be given in full.
    "initial_delay",
    // The name of a step is used once.
    "id",
];

/// Makes samples; `pick` chooses among alternatives.
struct Sampler {
    pick: usize,
    /// Where the settings of the error policy stand, and those of a handler.
    nested: bool,
    /// Whether the steps are those of a worktree, which have no effects outside.
    shared: bool,
}

impl Sampler {
    fn record(&self, record: &RecordShape, depth: usize) -> Value {
        let mut mapping = Map::new();
        let chosen: Vec<&str> = record.choice.as_ref().map_or(Vec::new(), |choice| {
            // At the end the first one is taken: it holds no steps.
            let pick = if depth > DEEPEST { 0 } else { self.pick };
            let alternative = choice.alternatives[pick % choice.alternatives.len()];
            match record.name {
                // Two actions can have little else beside them.
                "handler_step" => vec![alternative[self.depth_pick(depth, alternative.len())]],
                _ => alternative.to_vec(),
            }
        });
        let excluded = |name: &str| {
            record.choice.as_ref().is_some_and(|choice| {
                choice.alternatives.iter().any(|keys| keys.contains(&name))
                    && !chosen.contains(&name)
            })
        };
        for key in record.keys() {
            let must = key.required || chosen.contains(&key.name);
            if excluded(key.name) || (!must && (depth > DEEPEST || self.is_left_out(record, key))) {
                continue;
            }
            // A table of captures says the format of each.
            let in_table = mapping.get("capture").is_some_and(Value::is_object);
            if key.name == "capture_format" && in_table {
                continue;
            }
            if !key.beside.is_empty() && !key.beside.iter().any(|name| mapping.contains_key(*name))
            {
                continue;
            }
            let is_outside = mapping.get("effects").is_some_and(|effects| effects == "external");
            if matches!(key.name, "idempotent" | "check" | "compensate") && !is_outside {
                continue;
            }
            let is_fault = |fault: &str| mapping.get("fault").is_some_and(|have| have == fault);
            let is_elsewhere = match key.name {
                "reset_after" => !is_fault("usage_limit") || self.nested,
                "resets_at" => !is_fault("usage_limit") || !self.nested,
                "megabytes" => !is_fault("huge"),
                // Items that share one worktree have no conflicts.
                "on_conflict" => mapping.get("isolation").is_some_and(|have| have == "shared"),
                "isolation" => mapping.contains_key("on_conflict"),
                _ => false,
            };
            if is_elsewhere {
                continue;
            }
            let name = match key.aliases {
                [alias, ..] if self.pick % 2 == 1 => alias,
                _ => key.name,
            };
            let value = match key.name {
                "mode" if record.name == "write_file" => json!("0644"),
                "mode" if record.name == "mapreduce" => json!("mapreduce"),
                "mode" => json!("sequential"),
                "resets_at" => json!("2026-01-02T03:04:05Z"),
                // The default and the choices of a parameter are text.
                "type" if record.name == "parameter" => json!("string"),
                // Files and loops change nothing outside themselves.
                "effects" if self.shared || mapping.contains_key("write_file") => json!("local"),
                "effects" if mapping.contains_key("foreach") => json!("none"),
                // Relative to what, nobody could say.
                "config_dir" => json!("/text"),
                "setup" if record.name == "worktree" => {
                    Self { shared: true, ..*self }.value(&key.shape, depth + 1)
                }
                _ => self.value(&key.shape, depth + 1),
            };
            mapping.insert(name.to_owned(), value);
        }
        Value::Object(mapping)
    }

    /// Chooses differently at each depth, so that one sample shows more than one choice.
    fn depth_pick(&self, depth: usize, length: usize) -> usize {
        (self.pick + depth) % length
    }

    fn is_left_out(&self, record: &RecordShape, key: &KeyShape) -> bool {
        let in_policy = |name| {
            let policy = MAPREDUCE.key("error_policy").map(|key| key.shape);
            matches!(policy, Some(Shape::Record(policy)) if policy.key(name).is_some())
        };
        let elsewhere = match record.name {
            "mapreduce" => self.nested && in_policy(key.name),
            "error_policy" => !self.nested && MAPREDUCE.key(key.name).is_some(),
            "step" | "handler_step" => {
                self.nested && matches!(key.name, "max_attempts" | "fail_workflow")
            }
            "on_failure" => !self.nested && matches!(key.name, "max_attempts" | "fail_workflow"),
            _ => false,
        };
        elsewhere || LEFT_OUT.contains(&key.name)
    }

    fn value(&self, shape: &Shape, depth: usize) -> Value {
        match shape {
            Shape::Bool => json!(self.pick.is_multiple_of(2)),
            Shape::Text | Shape::Template | Shape::Script | Shape::Any => json!("text"),
            Shape::Expression => json!("true"),
            Shape::JsonPath => json!("$.text"),
            Shape::JsonSchema => json!({"type": "string"}),
            Shape::Integer { min, .. } => json!(min),
            Shape::Number { min, .. } => json!(min),
            Shape::Duration => [json!("5s"), json!(5)][self.pick % 2].clone(),
            Shape::Word(words) => json!(words[self.pick % words.len()]),
            Shape::WordOr { words, prefix, .. } => {
                let index = self.pick % (words.len() + 1);
                words.get(index).map_or_else(|| json!(format!("{prefix}7")), |word| json!(word))
            }
            Shape::List(element) | Shape::NonEmptyList(element) => {
                json!([self.value(element, depth + 1)])
            }
            Shape::Table { names, value } => {
                let name = match names {
                    KeyNames::Free | KeyNames::ExitCode => "7",
                    KeyNames::Variable | KeyNames::Environment => "name",
                };
                json!({ name: self.value(value, depth + 1) })
            }
            Shape::Record(record) => self.record(record, depth),
            Shape::Tagged(tagged) => {
                let (word, record) = tagged.variants[self.pick % tagged.variants.len()];
                let mut value = self.record(record, depth);
                value[tagged.tag] = json!(word);
                value
            }
            Shape::OneOf(shapes) => self.value(&shapes[self.pick % shapes.len()], depth),
        }
    }
}

#[test]
fn whatever_the_tables_allow_is_read() {
    for record in [&WORKFLOW, &MAPREDUCE] {
        for pick in 0..24 {
            for nested in [false, true] {
                let sample = Sampler { pick, nested, shared: false }.record(record, 0);
                let text = serde_json::to_string_pretty(&sample).unwrap();
                if let Err(Rejected { sources, diagnostics }) = load_files(&[("main.yml", &text)]) {
                    panic!("{text}\n{}", show(&sources, &diagnostics));
                }
            }
        }
    }
}

#[test]
fn whatever_the_tables_allow_in_a_file_of_faults_is_read() {
    for pick in 0..24 {
        for nested in [false, true] {
            let sample = Sampler { pick, nested, shared: false }.record(&FAULTS, 0);
            let text = serde_json::to_string_pretty(&sample).unwrap();
            if let Err(Rejected { sources, diagnostics }) = read_faults("faults.yml", &text) {
                panic!("{text}\n{}", show(&sources, &diagnostics));
            }
        }
    }
}
