//! Verdicts: what a judge says about how far some work is done.

use std::fmt;

use serde::{
    Deserialize,
    de::{MapAccess, Visitor},
};
use serde_json::{Deserializer, Map, Value};

/// The schema of a verdict, for agents that are asked for one. It is as strict as the strictest of
/// them wants it: nothing is optional and nothing may be added.
pub const VERDICT_SCHEMA: &str = r#"{"type":"object","properties":{"completion_percentage":{"type":"number","minimum":0,"maximum":100,"description":"How much of the work is done"},"status":{"type":"string","enum":["complete","incomplete"]},"missing":{"type":"array","items":{"type":"string"},"description":"What is missing, one entry each"}},"required":["completion_percentage","status","missing"],"additionalProperties":false}"#;

/// The fields that say how far the work is.
const SHARE: &str = "completion_percentage";
const STATUS: &str = "status";

/// The most of an answer that is looked at, from its end: what counts comes last.
const LOOKED_AT: usize = 256 * 1024;

/// The most of an answer that a message repeats.
const SHOWN: usize = 120;

/// The words of `status` for work that is done, in upper or lower case.
const DONE: &[&str] = &["complete", "completed", "passed", "success"];

/// A JSON object as it was written: also that it has a name twice.
struct ParsedObject {
    fields: Map<String, Value>,
    /// A name that it has twice, with different values.
    contradiction: Option<String>,
}

/// Reads the verdict of an agent: an object with `completion_percentage` or `status`.
///
/// Agents like to explain. So it may stand alone, in a block of code, or among prose. If there
/// are several, nobody knows which one is meant unless all say the same. Whatever cannot be
/// read is an error and never a good verdict.
pub fn parse_completion(answer: &str) -> Result<Map<String, Value>, String> {
    let is_verdict =
        |fields: &Map<String, Value>| fields.contains_key(SHARE) || fields.contains_key(STATUS);
    let found = match parse_whole(answer).filter(|it| is_verdict(&it.fields)) {
        Some(one) => vec![one],
        None => find_in_text(answer, is_verdict)?,
    };
    require_agreement(found)?.ok_or_else(|| {
        format!("it has no JSON object with `{SHARE}` or `{STATUS}`, but this: {}", preview(answer))
    })
}

/// Reads the verdict that a command printed, if it printed one: an object that stands alone, or
/// objects with `completion_percentage` among other text.
///
/// A `status` alone is none among other text, since the logs of many programs have it.
pub fn parse_printed_completion(printed: &str) -> Result<Option<Map<String, Value>>, String> {
    let found = match parse_whole(printed) {
        Some(one) => vec![one],
        None => find_in_text(printed, |fields| fields.contains_key(SHARE))?,
    };
    require_agreement(found)
}

/// Reads the verdict in a file, which holds one object and nothing else.
pub fn parse_completion_file(text: &str) -> Result<Map<String, Value>, String> {
    parse_whole(text)
        .ok_or_else(|| "it is not a JSON object".to_owned())
        .and_then(reject_contradiction)
}

/// Returns how much is done by a verdict, from 0 to 100; without a percentage the status decides.
pub fn completion_percentage(fields: &Map<String, Value>) -> f64 {
    let is_done = fields.get(STATUS).and_then(Value::as_str).is_some_and(is_done);
    let by_status = if is_done { 100.0 } else { 0.0 };
    fields.get(SHARE).and_then(Value::as_f64).unwrap_or(by_status)
}

fn is_done(status: &str) -> bool {
    DONE.iter().any(|word| status.eq_ignore_ascii_case(word))
}

fn parse_whole(text: &str) -> Option<ParsedObject> {
    serde_json::from_str(text.trim()).ok()
}

/// Returns the verdicts that stand among other text, in their order.
fn find_in_text(
    text: &str,
    is_verdict: impl Fn(&Map<String, Value>) -> bool,
) -> Result<Vec<ParsedObject>, String> {
    let from = text.len().saturating_sub(LOOKED_AT);
    let from = (from..=text.len()).find(|at| text.is_char_boundary(*at));
    let mut rest = from.and_then(|from| text.get(from..)).unwrap_or_default();
    let (mut all, mut behind) = (Vec::new(), rest);
    while let Some(text) = rest.find('{').and_then(|at| rest.get(at..)) {
        let mut values = Deserializer::from_str(text).into_iter::<ParsedObject>();
        let found = values.next().and_then(Result::ok);
        // What is inside an object that was read is not looked at again.
        let read = if found.is_some() { values.byte_offset() } else { 1 };
        rest = text.get(read..).unwrap_or_default();
        if let Some(found) = found.filter(|it| is_verdict(&it.fields)) {
            all.push(found);
            behind = rest;
        }
    }
    // One that was cut off would have counted.
    let key = format!("\"{SHARE}\"");
    let cut_off = behind.find('{').and_then(|at| behind.get(at..));
    match cut_off.filter(|text| text.contains(&key)) {
        Some(text) => Err(format!("its last verdict cannot be read: {}", preview(text))),
        None => Ok(all),
    }
}

/// Returns the last of several verdicts, if all of them say the same.
fn require_agreement(all: Vec<ParsedObject>) -> Result<Option<Map<String, Value>>, String> {
    let mut last: Option<Map<String, Value>> = None;
    for fields in all.into_iter().map(reject_contradiction) {
        let fields = fields?;
        let (before, now) =
            (last.as_ref().map(completion_percentage), completion_percentage(&fields));
        if let Some(before) = before.filter(|before| before.total_cmp(&now).is_ne()) {
            return Err(format!("its verdicts contradict each other: {before} % and {now} %"));
        }
        last = Some(fields);
    }
    Ok(last)
}

/// Checks that a verdict does not contradict itself.
fn reject_contradiction(
    ParsedObject { fields, contradiction }: ParsedObject,
) -> Result<Map<String, Value>, String> {
    if let Some(name) = contradiction {
        return Err(format!("it has `{name}` twice, with different values"));
    }
    let share = fields.get(SHARE);
    let is_share = |share: &Value| share.as_f64().is_some_and(|it| (0.0..=100.0).contains(&it));
    if let Some(share) = share.filter(|share| !is_share(share)) {
        return Err(format!("`{SHARE}` must be a number from 0 to 100, not {share}"));
    }
    let status = match fields.get(STATUS) {
        Some(Value::String(status)) => status,
        None => return Ok(fields),
        Some(Value::Null) if share.is_some() => return Ok(fields),
        Some(_) => return Err(format!("`{STATUS}` must be text")),
    };
    let is_whole = share.and_then(Value::as_f64).is_some_and(|share| share >= 100.0);
    if is_whole && !status.is_empty() && !is_done(status) {
        return Err(format!("`{SHARE}` is 100, but `{STATUS}` is `{status}`"));
    }
    Ok(fields)
}

impl<'de> Deserialize<'de> for ParsedObject {
    fn deserialize<D: serde::Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct ParsedObjectVisitor;
        impl<'de> Visitor<'de> for ParsedObjectVisitor {
            type Value = ParsedObject;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut entries: A,
            ) -> Result<ParsedObject, A::Error> {
                let mut read = ParsedObject { fields: Map::new(), contradiction: None };
                while let Some((name, value)) = entries.next_entry::<String, Value>()? {
                    if read.fields.get(&name).is_some_and(|before| *before != value) {
                        read.contradiction = Some(name.clone());
                    }
                    read.fields.insert(name, value);
                }
                Ok(read)
            }
        }
        input.deserialize_map(ParsedObjectVisitor)
    }
}

/// Returns the start of an answer on one line.
fn preview(answer: &str) -> String {
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
        match parse_completion(answer) {
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
            format!("I think {{\"completion_percentage\": 80.0}}, that is: {wanted}"),
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
            "{\"completion_percentage\": 100, \"status\": \"done?\"}",
            "{\"completion_percentage\": 100, \"completion_percentage\": 20}",
            "First {\"completion_percentage\": 10}, then {\"completion_percentage\": 100}",
            "[{\"status\": \"incomplete\"}, {\"status\": \"complete\"}]",
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
        no: `completion_percentage` is 100, but `status` is `done?`
        no: it has `completion_percentage` twice, with different values
        no: its verdicts contradict each other: 10 % and 100 %
        no: its verdicts contradict each other: 0 % and 100 %
        no: its last verdict cannot be read: `{ "completion_percentage": 20`
        "#);
    }

    #[test]
    fn a_command_judges_by_what_it_prints_only_if_that_is_a_verdict() {
        let printed = [
            "",
            "all is well",
            "{\"status\": \"Passed\"}",
            "{\"tests\": 3}",
            "checked: {\"completion_percentage\": 40}",
            "log: {\"status\": 200}",
            "{\"status\": 200}",
            "{\"completion_percentage\": 40}\n{\"completion_percentage\": 100}",
            "{\"completion_percentage\": 100}\n{\"completion_percentage\": 4",
        ];
        let seen = printed.map(|printed| match parse_printed_completion(printed) {
            Ok(Some(fields)) => format!("{} %", completion_percentage(&fields)),
            Ok(None) => "none".to_owned(),
            Err(why) => format!("no: {why}"),
        });
        insta::assert_snapshot!(seen.join("\n"), @r#"
        none
        none
        100 %
        0 %
        40 %
        none
        no: `status` must be text
        no: its verdicts contradict each other: 40 % and 100 %
        no: its last verdict cannot be read: `{"completion_percentage": 4`
        "#);
    }

    #[test]
    fn a_hostile_answer_takes_no_time() {
        let answer = "{\"a\":".repeat(100_000);
        assert!(parse_completion(&answer).is_err());
        assert!(parse_completion(&"{".repeat(1_000_000)).is_err());
    }
}
