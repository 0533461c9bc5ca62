//! What an agent says about how far some work is done.

use serde_json::{Deserializer, Map, Value};

/// The fields that say how far the work is.
const SHARE: &str = "completion_percentage";
const STATUS: &str = "status";

/// The most of an answer that is looked at, from its end: what counts comes last.
const LOOKED_AT: usize = 256 * 1024;

/// The most of an answer that a message repeats.
const SHOWN: usize = 120;

/// Reads a judgement from an answer: an object with `completion_percentage` or `status`.
///
/// Agents like to explain. So it may stand alone, in a block of code, or behind prose; the
/// last one counts. Whatever cannot be read is an error and never a good judgement.
pub fn judgement(answer: &str) -> Result<Map<String, Value>, String> {
    let Some(fields) = alone(answer).or_else(|| last_of(answer)) else {
        let message = format!(
            "it has no JSON object with `{SHARE}` or `{STATUS}`, but this: {}",
            shown(answer)
        );
        return Err(message);
    };
    if let Some(share) = fields.get(SHARE) {
        let is_share = share.as_f64().is_some_and(|share| (0.0..=100.0).contains(&share));
        if !is_share {
            return Err(format!("`{SHARE}` must be a number from 0 to 100, not {share}"));
        }
        let is_whole = share.as_f64().is_some_and(|share| share >= 100.0);
        if is_whole && fields.get(STATUS).is_some_and(|status| status == "incomplete") {
            return Err(format!("`{SHARE}` is {share}, but `{STATUS}` is `incomplete`"));
        }
    } else if !fields.get(STATUS).is_some_and(Value::is_string) {
        return Err(format!("`{STATUS}` must be text"));
    }
    Ok(fields)
}

fn alone(answer: &str) -> Option<Map<String, Value>> {
    serde_json::from_str::<Value>(answer.trim()).ok().and_then(fields)
}

/// Returns the last judgement that stands among other text.
fn last_of(answer: &str) -> Option<Map<String, Value>> {
    let from = answer.len().saturating_sub(LOOKED_AT);
    let mut rest = answer.get((from..=answer.len()).find(|at| answer.is_char_boundary(*at))?..)?;
    let (mut last, mut behind) = (None, "");
    while let Some(text) = rest.find('{').and_then(|at| rest.get(at..)) {
        let mut values = Deserializer::from_str(text).into_iter::<Value>();
        let found = values.next().and_then(Result::ok);
        // What is inside an object that was read is not looked at again.
        let read = if found.is_some() { values.byte_offset() } else { 1 };
        rest = text.get(read..).unwrap_or_default();
        if let Some(found) = found.and_then(fields) {
            (last, behind) = (Some(found), rest);
        }
    }
    // One that was cut off would have counted.
    let key = format!("\"{SHARE}\"");
    let cut_off = behind.find('{').and_then(|at| behind.get(at..));
    last.filter(|_| !cut_off.is_some_and(|text| text.contains(&key)))
}

fn fields(value: Value) -> Option<Map<String, Value>> {
    match value {
        Value::Object(fields) if fields.contains_key(SHARE) || fields.contains_key(STATUS) => {
            Some(fields)
        }
        Value::Object(_)
        | Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_) => None,
    }
}

/// Returns the start of an answer on one line.
fn shown(answer: &str) -> String {
    let line = answer.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.is_empty() {
        return "nothing".to_owned();
    }
    match line.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("`{}…`", line.get(..end).unwrap_or_default()),
        None => format!("`{line}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(answer: &str) -> String {
        match judgement(answer) {
            Ok(fields) => Value::Object(fields).to_string(),
            Err(why) => format!("no: {why}"),
        }
    }

    #[test]
    fn a_judgement_is_found_where_agents_put_it() {
        let wanted = r#"{"completion_percentage":80,"missing":["a {b}"]}"#;
        for answer in [
            wanted.to_owned(),
            format!("  {wanted}\n"),
            format!("```json\n{wanted}\n```"),
            format!(
                "I looked at {{everything}}.\n\n```json\n{wanted}\n```\nThat is all {{really}}."
            ),
            format!("It is nearly done: {wanted}"),
            format!("First I thought {{\"completion_percentage\": 10}}, but now: {wanted}"),
            format!("{{\"plan\": {{\"status\": \"complete\"}}}} was the plan. {wanted}"),
            format!("A broken one: {{\"completion_percentage\": 100, and {wanted}"),
            format!("{wanted}\nI set \"completion_percentage\" to 80 since {{a}} is missing."),
        ] {
            assert_eq!(read(&answer), wanted, "{answer}");
        }
        assert_eq!(read("{\"status\": \"complete\"}"), "{\"status\":\"complete\"}");
    }

    #[test]
    fn what_is_no_judgement_is_none() {
        let answers = [
            "",
            "All done, 100 %!",
            "{\"done\": true}",
            "Not yet. {\"plan\": {\"status\": \"complete\"}}",
            "{\"completion_percentage\": \"100\"}",
            "{\"completion_percentage\": 900}",
            "{\"status\": true}",
            "{\"completion_percentage\": 100, \"status\": \"incomplete\"}",
            "As in {\"completion_percentage\": 100}? No: { \"completion_percentage\": 20",
        ];
        insta::assert_snapshot!(answers.map(read).join("\n"), @r#"
        no: it has no JSON object with `completion_percentage` or `status`, but this: nothing
        no: it has no JSON object with `completion_percentage` or `status`, but this: `All done, 100 %!`
        no: it has no JSON object with `completion_percentage` or `status`, but this: `{"done": true}`
        no: it has no JSON object with `completion_percentage` or `status`, but this: `Not yet. {"plan": {"status": "complete"}}`
        no: `completion_percentage` must be a number from 0 to 100, not "100"
        no: `completion_percentage` must be a number from 0 to 100, not 900
        no: `status` must be text
        no: `completion_percentage` is 100, but `status` is `incomplete`
        no: it has no JSON object with `completion_percentage` or `status`, but this: `As in {"completion_percentage": 100}? No: { "completion_percentage": 20`
        "#);
    }

    #[test]
    fn a_hostile_answer_takes_no_time() {
        let answer = "{\"a\":".repeat(100_000);
        assert!(judgement(&answer).is_err());
        assert!(judgement(&"{".repeat(1_000_000)).is_err());
    }
}
