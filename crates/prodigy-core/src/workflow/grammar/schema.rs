//! The tables as JSON Schema, for editors.

use serde_json::{Map, Value, json};

use super::{
    file::{MAPREDUCE, WORKFLOW},
    shape::{KeyNames, KeyShape, LARGEST, RecordShape, Shape, TaggedShape},
    step::STEP,
};

/// Returns the JSON Schema (draft 7) of workflow files.
pub fn json_schema() -> Value {
    let mut definitions = Map::new();
    let roots = [
        json!({"type": "array", "minItems": 1, "items": record(&STEP, &mut definitions)}),
        record(&WORKFLOW, &mut definitions),
        record(&MAPREDUCE, &mut definitions),
    ];
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "prodigy workflow",
        "anyOf": roots,
        "definitions": definitions,
    })
}

/// Returns the JSON Schema (draft 7) of files that are one record.
pub fn schema_of(title: &str, root: &'static RecordShape) -> Value {
    let mut definitions = Map::new();
    let root = record(root, &mut definitions);
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": title,
        "allOf": [root],
        "definitions": definitions,
    })
}

/// Returns a reference to a record, and defines it if that has not been done.
fn record(record: &'static RecordShape, definitions: &mut Map<String, Value>) -> Value {
    if !definitions.contains_key(record.name) {
        // The name is taken first, so that a record that holds itself ends here.
        definitions.insert(record.name.to_owned(), Value::Null);
        let definition = definition(record, definitions);
        definitions.insert(record.name.to_owned(), definition);
    }
    json!({"$ref": format!("#/definitions/{}", record.name)})
}

fn definition(record: &'static RecordShape, definitions: &mut Map<String, Value>) -> Value {
    let mut properties = Map::new();
    for key in record.keys() {
        for name in std::iter::once(&key.name).chain(key.aliases) {
            properties.insert((*name).to_owned(), property(record, key, definitions));
        }
    }
    let mut schema = json!({
        "type": "object",
        "description": record.doc,
        "additionalProperties": false,
        "properties": properties,
    });
    // A file that is made from another one need not be whole.
    let base: &[&str] = if ["workflow", "mapreduce"].contains(&record.name) {
        &["extends", "template"]
    } else {
        &[]
    };
    let required = record.keys().filter(|key| key.required);
    let mut rules: Vec<Value> = required
        .map(|key| present(std::iter::once(&key.name).chain(key.aliases).chain(base)))
        .collect();
    if let Some(choice) = record.choice {
        let mut alternatives: Vec<Value> =
            choice.alternatives.iter().map(|names| present(names.iter())).collect();
        if !choice.required {
            let any = choice.alternatives.iter().flat_map(|names| names.iter());
            alternatives.push(json!({"not": present(any)}));
        }
        rules.push(json!({"oneOf": alternatives}));
    }
    if let (Value::Object(schema), false) = (&mut schema, rules.is_empty()) {
        schema.insert("allOf".to_owned(), Value::Array(rules));
    }
    schema
}

/// Returns a schema that asks for at least one of some keys.
fn present<'a>(names: impl Iterator<Item = &'a &'static str>) -> Value {
    let mut each: Vec<Value> = names.map(|name| json!({"required": [name]})).collect();
    match each.len() {
        1 => each.remove(0),
        _ => json!({"anyOf": each}),
    }
}

fn property(
    record: &'static RecordShape,
    key: &'static KeyShape,
    definitions: &mut Map<String, Value>,
) -> Value {
    let mut doc = key.doc.to_owned();
    if !key.default.is_empty() {
        doc = format!("{doc} Default: {}.", key.default);
    }
    if let Some(instead) = key.deprecated {
        doc = format!("{doc} Deprecated: {instead}.");
    }
    // The two kinds of workflow are told apart by their mode.
    let shape = match (record.name, key.name) {
        ("workflow", "mode") => Shape::Word(&["sequential"]),
        ("mapreduce", "mode") => Shape::Word(&["mapreduce"]),
        _ => key.shape,
    };
    let mut schema = Map::from_iter([("description".to_owned(), Value::String(doc))]);
    let value = value(&shape, definitions);
    if let Value::Object(value) = &value
        && !value.contains_key("$ref")
    {
        schema.extend(value.clone());
    } else {
        // Draft 7 ignores what stands beside `$ref`, so a reference is wrapped.
        schema.insert("allOf".to_owned(), json!([value]));
    }
    if key.deprecated.is_some() {
        schema.insert("deprecated".to_owned(), Value::Bool(true));
    }
    Value::Object(schema)
}

fn value(shape: &Shape, definitions: &mut Map<String, Value>) -> Value {
    match shape {
        Shape::Bool => json!({"type": "boolean"}),
        Shape::Text | Shape::Template => json!({"type": ["string", "number", "boolean"]}),
        Shape::Script | Shape::Expression => {
            json!({"type": ["string", "number", "boolean"], "minLength": 1})
        }
        Shape::JsonPath => json!({"type": "string", "pattern": "^\\$"}),
        Shape::Integer { min, max: LARGEST | i64::MAX } => {
            json!({"type": "integer", "minimum": min})
        }
        Shape::Integer { min, max } => json!({"type": "integer", "minimum": min, "maximum": max}),
        Shape::Number { min, max } if *max < f64::MAX => {
            json!({"type": "number", "minimum": min, "maximum": max})
        }
        Shape::Number { min, .. } => json!({"type": "number", "minimum": min}),
        Shape::Duration => json!({
            "anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "minLength": 1}],
        }),
        Shape::Word(words) => json!({"enum": words}),
        Shape::WordOr { words, prefix, .. } => json!({
            "anyOf": [{"enum": words}, {"type": "string", "pattern": format!("^{prefix}.+")}],
        }),
        Shape::List(element) => json!({"type": "array", "items": value(element, definitions)}),
        Shape::NonEmptyList(element) => {
            json!({"type": "array", "minItems": 1, "items": value(element, definitions)})
        }
        Shape::Table { names, value: element } => json!({
            "type": "object",
            "propertyNames": {"pattern": pattern(*names)},
            "additionalProperties": value(element, definitions),
        }),
        Shape::Record(shape) => record(shape, definitions),
        Shape::Tagged(shape) => tagged(shape, definitions),
        Shape::OneOf(shapes) => {
            let each: Vec<Value> = shapes.iter().map(|shape| value(shape, definitions)).collect();
            json!({"anyOf": each})
        }
        Shape::JsonSchema => json!({"type": ["object", "boolean"]}),
        Shape::Any => json!(true),
    }
}

fn tagged(shape: &'static TaggedShape, definitions: &mut Map<String, Value>) -> Value {
    let each: Vec<Value> =
        shape.variants.iter().map(|(_, variant)| record(variant, definitions)).collect();
    json!({"oneOf": each})
}

fn pattern(names: KeyNames) -> &'static str {
    match names {
        KeyNames::Free => "\\S",
        KeyNames::Variable => "^[A-Za-z_][A-Za-z0-9_]*$",
        KeyNames::Environment => "^[^=]+$",
        KeyNames::ExitCode => "^([1-9][0-9]?|1[0-9][0-9]|2[0-4][0-9]|25[0-5])$",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Collects what every `$ref` points to.
    fn references(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    match (key.as_str(), value) {
                        ("$ref", Value::String(target)) => {
                            found.insert(target.trim_start_matches("#/definitions/").to_owned());
                        }
                        _ => references(value, found),
                    }
                }
            }
            Value::Array(values) => values.iter().for_each(|value| references(value, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    #[test]
    fn every_reference_in_the_schema_is_defined() {
        let schema = json_schema();
        let mut found = BTreeSet::new();
        references(&schema, &mut found);
        let defined: BTreeSet<String> =
            schema["definitions"].as_object().unwrap().keys().cloned().collect();
        assert_eq!(found, defined);
    }

    #[test]
    fn a_definition_says_what_the_table_says() {
        let schema = json_schema();
        insta::assert_snapshot!(
            serde_json::to_string_pretty(&schema["definitions"]["secret"]).unwrap(), @r#"
        {
          "type": "object",
          "description": "Where a value that is never shown comes from.",
          "additionalProperties": false,
          "properties": {
            "env": {
              "description": "An environment variable of prodigy itself.",
              "type": [
                "string",
                "number",
                "boolean"
              ]
            },
            "file": {
              "description": "A file, relative to the workflow file.",
              "type": [
                "string",
                "number",
                "boolean"
              ]
            },
            "command": {
              "description": "A command that prints it.",
              "type": [
                "string",
                "number",
                "boolean"
              ]
            }
          },
          "allOf": [
            {
              "oneOf": [
                {
                  "required": [
                    "env"
                  ]
                },
                {
                  "required": [
                    "file"
                  ]
                },
                {
                  "required": [
                    "command"
                  ]
                }
              ]
            }
          ]
        }
        "#);
        insta::assert_snapshot!(
            serde_json::to_string(&schema["definitions"]["handler_step"]["allOf"]).unwrap(), @r#"[{"oneOf":[{"anyOf":[{"required":["shell"]},{"required":["claude"]}]},{"required":["codex"]},{"required":["agent"]},{"required":["write_file"]},{"required":["foreach"]}]}]"#);
        insta::assert_snapshot!(
            serde_json::to_string_pretty(&schema["definitions"]["map"]["properties"]["agent_timeout"]).unwrap(), @r#"
        {
          "description": "The longest one attempt at an item may take. Default: no limit.",
          "anyOf": [
            {
              "type": "number",
              "minimum": 0
            },
            {
              "type": "string",
              "minLength": 1
            }
          ]
        }
        "#);
    }
}
