//! Sample values for a rehearsal, so that a step can continue.

use serde_json::{Map, Value, json};

use super::{SimulatedEdit, SimulatedRequest, SimulatedWork, USUAL_ANSWER};
use crate::{capture::CaptureFormat, ids::safe_name, json_schema::OutputSchema};

/// The maximum depth of a sample value.
const DEEPEST: usize = 32;

/// Returns work with everything that the step needs and nobody has said.
pub(super) fn with_sample_values(
    mut work: SimulatedWork,
    request: &SimulatedRequest<'_>,
) -> SimulatedWork {
    if work.answer.is_none() && work.result.is_none() {
        match request.schema {
            Some(schema) => work.result = Some(fitting(schema)),
            None if is_judge(request.step) => work.result = Some(all_done()),
            None => work.answer = Some(answer(request.format).to_owned()),
        }
    }
    if request.commit_required {
        if work.edits.is_empty() {
            work.edits.push(sample_edit(request));
        }
        work.commit.get_or_insert_with(|| format!("Simulated change for {}", request.item));
    }
    work
}

/// Returns an edit that changes something in every attempt of every step of every item.
pub(super) fn sample_edit(request: &SimulatedRequest<'_>) -> SimulatedEdit {
    let name = safe_name(&format!("{}-{}", request.item, request.step));
    SimulatedEdit {
        path: format!("simulated/{name}.txt"),
        content: format!("attempt {}\n{}\n", request.attempt, request.prompt),
        append: true,
    }
}

/// Returns whether a step judges another one.
pub(super) fn is_judge(step: &str) -> bool {
    step.rsplit('.').nth(1) == Some("validate")
}

/// Returns the judgement that nothing is missing.
fn all_done() -> Value {
    json!({ "completion_percentage": 100, "status": "complete", "missing": [], "gaps": {} })
}

/// Returns the judgement that something is missing.
pub(super) fn incomplete() -> Value {
    json!({ "completion_percentage": 0, "status": "incomplete", "missing": ["simulated"], "gaps": {} })
}

/// Returns an answer that can be read in a format.
fn answer(format: CaptureFormat) -> &'static str {
    match format {
        CaptureFormat::Auto | CaptureFormat::String | CaptureFormat::Lines => USUAL_ANSWER,
        CaptureFormat::Number => "0",
        CaptureFormat::Json => "{}",
        CaptureFormat::Boolean => "true",
    }
}

/// Returns a value that satisfies a schema, if a simple one does.
fn fitting(schema: &OutputSchema) -> Value {
    value(schema.source(), schema.source(), DEEPEST)
}

/// Returns what to say of a result that was made up and does not satisfy the schema.
pub(super) fn sample_violation(
    work: &SimulatedWork,
    request: &SimulatedRequest<'_>,
) -> Option<String> {
    let violations = request.schema?.validate(work.result.as_ref()?).err()?;
    let violation = violations.first()?;
    Some(format!(
        "no answer can be made up for `output_schema`: {violation}; give one in the file of faults: `rules: [{{ step: {}, result: … }}]`",
        request.id.map_or_else(|| request.display_step(), Into::into)
    ))
}

/// Returns a value that does not satisfy a schema, if there is a simple one.
pub(super) fn invalid_sample(schema: Option<&OutputSchema>) -> Value {
    let candidates =
        [json!("not what was asked for"), json!({"unexpected": true}), json!(-1.5), Value::Null];
    let is_wrong = |value: &Value| schema.is_some_and(|schema| schema.validate(value).is_err());
    candidates
        .iter()
        .find(|value| is_wrong(value))
        .or(candidates.first())
        .cloned()
        .unwrap_or(Value::Null)
}

/// Makes a value for a part of a schema.
fn value(schema: &Value, root: &Value, deepest: usize) -> Value {
    let Some(schema) = schema.as_object() else { return json!({}) };
    if deepest == 0 {
        return Value::Null;
    }
    let inner = |part: &Value| value(part, root, deepest - 1);
    if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
        let target = target.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        return target.map_or(Value::Null, inner);
    }
    if let Some(fixed) = schema.get("const").or_else(|| schema.get("default")) {
        return fixed.clone();
    }
    let first = |key: &str| schema.get(key).and_then(Value::as_array).and_then(|list| list.first());
    if let Some(first) = first("enum").or_else(|| first("examples")) {
        return first.clone();
    }
    if let Some(first) = first("anyOf").or_else(|| first("oneOf")) {
        return inner(first);
    }
    if let Some(parts) = schema.get("allOf").and_then(Value::as_array) {
        return together(parts.iter().map(inner));
    }
    match kind(schema) {
        "object" => Value::Object(object(schema, &inner)),
        "array" => {
            let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or(0).min(100);
            let item = schema.get("items").map_or(Value::Null, inner);
            (0..least).map(|_| item.clone()).collect()
        }
        "string" => {
            let least = schema.get("minLength").and_then(Value::as_u64).unwrap_or(0).min(10_000);
            let most = schema.get("maxLength").and_then(Value::as_u64).unwrap_or(u64::MAX);
            let text = "simulated ".chars().cycle();
            let length = least.max(9).min(most);
            Value::String(text.take(usize::try_from(length).unwrap_or_default()).collect())
        }
        "number" | "integer" => number(schema),
        "boolean" => json!(true),
        _ => Value::Null,
    }
}

/// Returns the type that a schema asks for, or that its other keywords are about.
fn kind(schema: &Map<String, Value>) -> &str {
    let named = schema.get("type").and_then(|kind| match kind {
        Value::Array(kinds) => kinds.first().and_then(Value::as_str),
        Value::String(kind) => Some(kind.as_str()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    });
    let hints = [
        ("properties", "object"),
        ("required", "object"),
        ("items", "array"),
        ("minItems", "array"),
        ("minLength", "string"),
        ("pattern", "string"),
        ("minimum", "number"),
        ("maximum", "number"),
    ];
    let hinted = hints.iter().find(|(key, _)| schema.contains_key(*key)).map(|(_, kind)| *kind);
    named.or(hinted).unwrap_or("object")
}

/// Makes the properties that are required.
fn object(schema: &Map<String, Value>, inner: &dyn Fn(&Value) -> Value) -> Map<String, Value> {
    let required = schema.get("required").and_then(Value::as_array);
    let names = required.into_iter().flatten().filter_map(Value::as_str);
    let properties = schema.get("properties");
    names
        .map(|name| {
            let part = properties.and_then(|properties| properties.get(name));
            (name.to_owned(), part.map_or_else(|| json!("simulated"), inner))
        })
        .collect()
}

/// Makes a number that is as large as it has to be.
fn number(schema: &Map<String, Value>) -> Value {
    let bound = |key: &str| schema.get(key).filter(|bound| bound.is_number());
    if let Some(least) = bound("minimum") {
        return least.clone();
    }
    if let Some(least) = bound("exclusiveMinimum").and_then(Value::as_i64) {
        return json!(least + 1);
    }
    match bound("maximum") {
        Some(most) if most.as_f64().is_some_and(|most| most < 0.0) => most.clone(),
        Some(_) | None => json!(0),
    }
}

/// Puts parts of an object together; of other values the last one counts.
fn together(parts: impl Iterator<Item = Value>) -> Value {
    parts.fold(Value::Null, |all, part| match (all, part) {
        (Value::Object(mut all), Value::Object(part)) => {
            all.extend(part);
            Value::Object(all)
        }
        (_, part) => part,
    })
}
