//! Meaning of scalars: the core schema of YAML 1.2.

use saphyr_parser::Tag;

use super::YamlValue;

/// The type that a tag asks of a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScalarTag {
    /// No tag.
    None,
    /// `!!str` or `!`.
    Text,
    /// `!!int`.
    Integer,
    /// `!!float`.
    Float,
    /// `!!bool`.
    Bool,
    /// `!!null`.
    Null,
}

impl ScalarTag {
    /// Returns what a tag asks for, or `None` if it is not a tag of the core schema's scalars.
    pub(super) fn of(tag: &Tag) -> Option<Self> {
        if tag.handle.is_empty() && tag.suffix == "!" {
            return Some(Self::Text);
        }
        if !tag.is_yaml_core_schema() {
            return None;
        }
        match tag.suffix.as_str() {
            "str" => Some(Self::Text),
            "int" => Some(Self::Integer),
            "float" => Some(Self::Float),
            "bool" => Some(Self::Bool),
            "null" => Some(Self::Null),
            _ => None,
        }
    }
}

/// Returns a tag as people write it.
pub(super) fn display_tag(tag: &Tag) -> String {
    if tag.is_yaml_core_schema() {
        format!("!!{}", tag.suffix)
    } else {
        format!("{}{}", tag.handle, tag.suffix)
    }
}

/// Returns what a plain scalar means. `yes` and `on` are text, as is a number too large to hold.
pub(super) fn resolve_plain(text: &str) -> YamlValue {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return YamlValue::Null,
        "true" | "True" | "TRUE" => return YamlValue::Bool(true),
        "false" | "False" | "FALSE" => return YamlValue::Bool(false),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => {
            return YamlValue::Float(f64::INFINITY);
        }
        "-.inf" | "-.Inf" | "-.INF" => return YamlValue::Float(f64::NEG_INFINITY),
        ".nan" | ".NaN" | ".NAN" => return YamlValue::Float(f64::NAN),
        _ => {}
    }
    number(text).unwrap_or_else(|| YamlValue::String(text.to_owned()))
}

/// Returns a scalar as its tag wants it, or `None` if it is not that.
pub(super) fn resolve_tagged(text: &str, tag: ScalarTag) -> Option<YamlValue> {
    let value = resolve_plain(text);
    match tag {
        ScalarTag::None => Some(value),
        ScalarTag::Text => Some(YamlValue::String(text.to_owned())),
        ScalarTag::Integer => matches!(value, YamlValue::Integer(_)).then_some(value),
        ScalarTag::Bool => matches!(value, YamlValue::Bool(_)).then_some(value),
        ScalarTag::Null => matches!(value, YamlValue::Null).then_some(value),
        ScalarTag::Float => match value {
            YamlValue::Float(_) => Some(value),
            YamlValue::Integer(_) => text.parse().ok().map(YamlValue::Float),
            YamlValue::Null
            | YamlValue::Bool(_)
            | YamlValue::String(_)
            | YamlValue::Sequence(_)
            | YamlValue::Mapping(_) => None,
        },
    }
}

fn number(text: &str) -> Option<YamlValue> {
    if let Some(digits) = text.strip_prefix("0o") {
        return radix(digits, 8);
    }
    if let Some(digits) = text.strip_prefix("0x") {
        return radix(digits, 16);
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if !unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    if unsigned.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok().map(YamlValue::Integer);
    }
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
    let is_number = digits(whole)
        && digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && digits(exponent)
        && !exponent.is_empty();
    if is_number { text.parse().ok().map(YamlValue::Float) } else { None }
}

/// Reads `0o…` and `0x…`. A sign inside would be accepted by the standard library, but not by YAML.
fn radix(digits: &str, radix: u32) -> Option<YamlValue> {
    if digits.starts_with(['-', '+']) {
        return None;
    }
    i64::from_str_radix(digits, radix).ok().map(YamlValue::Integer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_follow_the_core_schema() {
        let table = [
            "",
            "~",
            "null",
            "true",
            "False",
            "yes",
            "on",
            "no",
            "0",
            "-7",
            "+7",
            "007",
            "0o17",
            "0x1f",
            "0x-1",
            "1.5",
            "1.",
            ".5",
            "-.5e3",
            "1e3",
            "1e",
            ".",
            "-",
            "e3",
            ".inf",
            "-.INF",
            ".nan",
            "9223372036854775807",
            "9223372036854775808",
            "1_000",
            "1:30",
            "30s",
            "2024-01-01",
            "0b1",
        ]
        .map(|text| format!("{text:?} -> {:?}\n", resolve_plain(text)))
        .concat();
        insta::assert_snapshot!(table, @r#"
        "" -> Null
        "~" -> Null
        "null" -> Null
        "true" -> Bool(true)
        "False" -> Bool(false)
        "yes" -> String("yes")
        "on" -> String("on")
        "no" -> String("no")
        "0" -> Integer(0)
        "-7" -> Integer(-7)
        "+7" -> Integer(7)
        "007" -> Integer(7)
        "0o17" -> Integer(15)
        "0x1f" -> Integer(31)
        "0x-1" -> String("0x-1")
        "1.5" -> Float(1.5)
        "1." -> Float(1.0)
        ".5" -> Float(0.5)
        "-.5e3" -> Float(-500.0)
        "1e3" -> Float(1000.0)
        "1e" -> String("1e")
        "." -> String(".")
        "-" -> String("-")
        "e3" -> String("e3")
        ".inf" -> Float(inf)
        "-.INF" -> Float(-inf)
        ".nan" -> Float(NaN)
        "9223372036854775807" -> Integer(9223372036854775807)
        "9223372036854775808" -> String("9223372036854775808")
        "1_000" -> String("1_000")
        "1:30" -> String("1:30")
        "30s" -> String("30s")
        "2024-01-01" -> String("2024-01-01")
        "0b1" -> String("0b1")
        "#);
    }
}
