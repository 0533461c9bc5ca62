//! Turning the output of a step into a variable.

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

/// The format in which captured output is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaptureFormat {
    /// The answer in the form of a schema as data, and any other output as a text without its
    /// trailing newlines.
    #[default]
    Auto,
    /// The text without its trailing newlines.
    String,
    /// A number.
    Number,
    /// A JSON document.
    Json,
    /// A list with one text per line.
    Lines,
    /// `true` or `false`.
    Boolean,
}

/// Which output is captured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaptureStream {
    /// Standard output.
    #[default]
    Stdout,
    /// Standard error.
    Stderr,
    /// Standard output, then standard error.
    Both,
}

impl CaptureFormat {
    /// Returns the format for output that is known to be data, or not to be.
    #[must_use]
    pub fn for_output(self, is_data: bool) -> Self {
        match self {
            Self::Auto if is_data => Self::Json,
            Self::Auto | Self::String | Self::Number | Self::Json | Self::Lines | Self::Boolean => {
                self
            }
        }
    }

    /// Reads output in this format; the error says what was expected and what was found.
    ///
    /// White space around a number, a truth value or a JSON document does not matter: programs
    /// end their output with a newline, and some put spaces in front of a number.
    pub fn read(self, output: &str) -> Result<Value, String> {
        match self {
            Self::Auto | Self::String => {
                Ok(Value::String(output.trim_end_matches(['\n', '\r']).to_owned()))
            }
            Self::Lines => Ok(output.lines().collect()),
            Self::Number => serde_json::from_str::<serde_json::Number>(output.trim())
                .map(Value::Number)
                .map_err(|_| wrong("a number", output)),
            Self::Json => serde_json::from_str(output.trim())
                .map_err(|error| format!("{}: {error}", wrong("JSON", output))),
            Self::Boolean => match output.trim().to_ascii_lowercase().as_str() {
                "true" | "yes" | "1" => Ok(Value::Bool(true)),
                "false" | "no" | "0" => Ok(Value::Bool(false)),
                _ => Err(wrong("`true` or `false`", output)),
            },
        }
    }
}

impl crate::workflow::SetupCapture {
    /// Returns the format in which the output is kept that the variable is made of.
    pub fn source_format(&self) -> CaptureFormat {
        let is_whole = self.pattern.is_none() && self.json_path.is_none();
        if is_whole && self.format == CaptureFormat::Auto {
            CaptureFormat::Auto
        } else {
            CaptureFormat::String
        }
    }

    /// Makes the variable of a setup step's output: the part that a pattern or a path
    /// wants, in its format; what cannot be had becomes the default, if there is one. Output
    /// that is data already stays what it is.
    pub fn read(&self, output: Value) -> Result<Value, String> {
        let text = match output {
            Value::String(text) => text,
            data @ (Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Array(_)
            | Value::Object(_)) => return Ok(data),
        };
        match (self.part(&text), &self.default) {
            (Ok(value), _) => Ok(value),
            (Err(_), Some(default)) => Ok(default.clone()),
            (Err(why), None) => Err(why),
        }
    }

    fn part(&self, output: &str) -> Result<Value, String> {
        let mut text = output.to_owned();
        if let Some(pattern) = &self.pattern {
            let regex = regex::Regex::new(pattern).map_err(|error| error.to_string())?;
            let found = regex.captures(output);
            let found =
                found.ok_or_else(|| format!("`{pattern}` matches nothing in the output"))?;
            let part = found.get(1).or_else(|| found.get(0));
            text = part.map(|part| part.as_str().to_owned()).unwrap_or_default();
        }
        if let Some(path) = &self.json_path {
            let document = serde_json::from_str::<Box<RawValue>>(text.trim())
                .map_err(|error| format!("{}: {error}", wrong("JSON", &text)))?;
            let found = path.select_value(&document).map_err(|error| error.to_string())?;
            let found = found.filter(|found| found.as_array().is_none_or(|list| !list.is_empty()));
            let found = found.ok_or("the JSON path matches nothing in the output")?;
            return self.formatted(found);
        }
        if text.trim().is_empty() && self.default.is_some() {
            return Err("the output is empty".to_owned());
        }
        self.format.read(&text)
    }

    /// Reads one value that a path found; by default it stays what it is.
    fn formatted(&self, value: Value) -> Result<Value, String> {
        match self.format {
            CaptureFormat::Auto | CaptureFormat::String | CaptureFormat::Json => Ok(value),
            CaptureFormat::Number | CaptureFormat::Lines | CaptureFormat::Boolean => {
                self.format.read(&crate::vars::value_text(&value))
            }
        }
    }
}

/// Says what was expected, and shows the beginning of what came instead.
fn wrong(expected: &str, output: &str) -> String {
    const SHOWN: usize = 40;
    let output = output.trim();
    if output.is_empty() {
        return format!("expected {expected}, found nothing");
    }
    let mut found = String::new();
    for c in output.chars().take(SHOWN) {
        if c.is_control() { found.extend(c.escape_default()) } else { found.push(c) }
    }
    if output.chars().nth(SHOWN).is_some() {
        found.push('…');
    }
    format!("expected {expected}, found `{found}`")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn each_format_reads_what_programs_print() {
        let cases = [
            (CaptureFormat::String, " a b \r\n\n", json!(" a b ")),
            (CaptureFormat::String, "", json!("")),
            (CaptureFormat::String, "a\n\nb", json!("a\n\nb")),
            (CaptureFormat::Number, "  42\n", json!(42)),
            (CaptureFormat::Number, "-2.5e3", json!(-2500.0)),
            (CaptureFormat::Json, "{\"a\": [1, null]}\n", json!({"a": [1, null]})),
            (CaptureFormat::Json, "\"text\"", json!("text")),
            (CaptureFormat::Lines, "a\r\nb\n", json!(["a", "b"])),
            (CaptureFormat::Lines, "a\n\n", json!(["a", ""])),
            (CaptureFormat::Lines, "a", json!(["a"])),
            (CaptureFormat::Lines, "", json!([])),
            (CaptureFormat::Boolean, "TRUE\n", json!(true)),
            (CaptureFormat::Boolean, "yes", json!(true)),
            (CaptureFormat::Boolean, "1", json!(true)),
            (CaptureFormat::Boolean, "False", json!(false)),
            (CaptureFormat::Boolean, "no", json!(false)),
            (CaptureFormat::Boolean, " 0 ", json!(false)),
        ];
        for (format, output, expected) in cases {
            assert_eq!(format.read(output), Ok(expected), "{format:?} {output:?}");
        }
    }

    #[test]
    fn output_in_another_format_is_refused_with_an_excerpt() {
        let cases = [
            (CaptureFormat::Number, ""),
            (CaptureFormat::Number, "12 files"),
            (CaptureFormat::Number, "0x10"),
            (CaptureFormat::Number, "007"),
            (CaptureFormat::Number, "NaN"),
            (CaptureFormat::Number, "1e999"),
            (CaptureFormat::Json, "{\"a\": }"),
            (CaptureFormat::Json, "warning: 3 problems were found\n{\"a\": 1}"),
            (CaptureFormat::Json, "1 2"),
            (CaptureFormat::Boolean, "\n"),
            (CaptureFormat::Boolean, "maybe\u{1b}[0m"),
        ];
        let shown: Vec<String> =
            cases.iter().map(|(format, output)| format.read(output).unwrap_err()).collect();
        insta::assert_snapshot!(shown.join("\n"), @r#"
        expected a number, found nothing
        expected a number, found `12 files`
        expected a number, found `0x10`
        expected a number, found `007`
        expected a number, found `NaN`
        expected a number, found `1e999`
        expected JSON, found `{"a": }`: expected value at line 1 column 7
        expected JSON, found `warning: 3 problems were found\n{"a": 1}`: expected value at line 1 column 1
        expected JSON, found `1 2`: trailing characters at line 1 column 3
        expected `true` or `false`, found nothing
        expected `true` or `false`, found `maybe\u{1b}[0m`
        "#);
    }

    proptest! {
        #[test]
        fn any_output_is_read_or_refused_in_few_words(output in "\\PC{0,200}") {
            for format in [
                CaptureFormat::String,
                CaptureFormat::Number,
                CaptureFormat::Json,
                CaptureFormat::Lines,
                CaptureFormat::Boolean,
            ] {
                if let Err(message) = format.read(&output) {
                    prop_assert!(message.chars().count() < 600, "{}", message);
                }
            }
        }

        #[test]
        fn a_json_value_is_read_back(number: i64, text: String) {
            let value = json!({"number": number, "text": text});
            prop_assert_eq!(CaptureFormat::Json.read(&value.to_string()), Ok(value));
        }
    }
}
