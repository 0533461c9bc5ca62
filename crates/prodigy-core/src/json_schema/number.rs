//! Numbers as JSON Schema sees them, where `1` and `1.0` are one number.

use std::cmp::Ordering;

use serde_json::{Number, Value};

use super::rule::NumberBound;

/// From here on not every whole number is a float.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Returns the number if it was written as a whole one.
fn whole(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

fn float(number: &Number) -> f64 {
    number.as_f64().unwrap_or(f64::NAN)
}

/// Returns true if a number has no fraction.
pub(super) fn is_integer(number: &Number) -> bool {
    whole(number).is_some() || float(number).fract() == 0.0
}

/// Returns true if a number is on the right side of a bound.
pub(super) fn is_within(number: &Number, bound: NumberBound, limit: &Number) -> bool {
    let order = match (whole(number), whole(limit)) {
        (Some(number), Some(limit)) => Some(number.cmp(&limit)),
        _ => float(number).partial_cmp(&float(limit)),
    };
    match bound {
        NumberBound::Minimum => order.is_some_and(Ordering::is_ge),
        NumberBound::Maximum => order.is_some_and(Ordering::is_le),
        NumberBound::Above => order.is_some_and(Ordering::is_gt),
        NumberBound::Below => order.is_some_and(Ordering::is_lt),
    }
}

/// Returns true if a number is a multiple of another.
///
/// Floats are given the tolerance of their own rounding: 0.3 is a multiple of 0.1.
pub(super) fn is_multiple(number: &Number, of: &Number) -> bool {
    if let (Some(number), Some(of)) = (whole(number), whole(of)) {
        return number.checked_rem(of) == Some(0);
    }
    let times = float(number) / float(of);
    times.is_finite() && (times - times.round()).abs() <= 1e-12 * times.abs().max(1.0)
}

/// Writes a value so that equal values have equal texts: keys in order, whole
/// numbers without a fraction.
pub(super) fn canonical(value: &Value) -> String {
    let mut text = String::new();
    write(value, &mut text);
    text
}

fn write(value: &Value, text: &mut String) {
    match value {
        Value::Number(number) if whole(number).is_none() && float(number).abs() < EXACT => {
            let number = float(number);
            // Adding zero takes the sign from a negative zero.
            text.push_str(&(number + 0.0).to_string());
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            text.push_str(&value.to_string());
        }
        Value::Array(elements) => {
            text.push('[');
            for (number, element) in elements.iter().enumerate() {
                if number > 0 {
                    text.push(',');
                }
                write(element, text);
            }
            text.push(']');
        }
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            text.push('{');
            for (number, (name, field)) in fields.into_iter().enumerate() {
                if number > 0 {
                    text.push(',');
                }
                text.push_str(&Value::from(name.as_str()).to_string());
                text.push(':');
                write(field, text);
            }
            text.push('}');
        }
    }
}
