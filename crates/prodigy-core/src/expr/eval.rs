//! The value of an expression.

use std::{borrow::Cow, cmp::Ordering};

use serde_json::Value;

use super::{Comparison, Function, Term};
use crate::{json_value, vars::Vars};

/// Evaluates a tree.
pub(super) fn evaluate<'v>(term: &'v Term, vars: &'v Vars) -> Cow<'v, Value> {
    match term {
        Term::Literal(value) => Cow::Borrowed(value),
        Term::Variable(path, default) => match (vars.get(path), default) {
            (Some(Value::Null) | None, Some(default)) => text(default.clone()),
            (Some(Value::String(value)), Some(default)) if value.is_empty() => {
                text(default.clone())
            }
            (Some(value), _) => Cow::Borrowed(value),
            (None, None) => Cow::Owned(Value::Null),
        },
        Term::List(terms) => {
            Cow::Owned(terms.iter().map(|term| evaluate(term, vars).into_owned()).collect())
        }
        Term::Not(term) => boolean(!is_truthy(&evaluate(term, vars))),
        Term::All(terms) => boolean(terms.iter().all(|term| is_truthy(&evaluate(term, vars)))),
        Term::Any(terms) => boolean(terms.iter().any(|term| is_truthy(&evaluate(term, vars)))),
        Term::Compare(comparison, a, b) => {
            boolean(compare(*comparison, &evaluate(a, vars), &evaluate(b, vars)))
        }
        Term::Matches(term, pattern) => {
            let value = evaluate(term, vars);
            boolean(scalar_text(&value).is_some_and(|text| pattern.0.is_match(&text)))
        }
        Term::Exists(path) => boolean(vars.get(path).is_some()),
        Term::Call(function, arguments) => {
            let argument = |n: usize| {
                arguments.get(n).map_or(Cow::Owned(Value::Null), |term| evaluate(term, vars))
            };
            call(*function, &argument(0), &argument(1))
        }
    }
}

/// Returns whether a value counts as true on its own.
pub(super) fn is_truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty() && text != "false",
        Value::Array(_) | Value::Object(_) => true,
    }
}

fn compare(comparison: Comparison, a: &Value, b: &Value) -> bool {
    let is = |wanted: fn(Ordering) -> bool| json_value::loosely_cmp(a, b).is_some_and(wanted);
    match comparison {
        Comparison::Equal => json_value::loosely_equal(a, b),
        Comparison::NotEqual => !json_value::loosely_equal(a, b),
        Comparison::Less => is(Ordering::is_lt),
        Comparison::AtMost => is(Ordering::is_le),
        Comparison::Greater => is(Ordering::is_gt),
        Comparison::AtLeast => is(Ordering::is_ge),
        Comparison::In => has(b, a),
    }
}

/// Calls a function; those with one argument leave the second alone.
fn call<'v>(function: Function, a: &Value, b: &Value) -> Cow<'v, Value> {
    match function {
        Function::Contains => boolean(match a {
            Value::Object(fields) => scalar_text(b).is_some_and(|key| fields.contains_key(&*key)),
            Value::Array(_) => has(a, b),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                texts(a, b, |text, part| text.contains(part))
            }
        }),
        Function::StartsWith => boolean(texts(a, b, |text, part| text.starts_with(part))),
        Function::EndsWith => boolean(texts(a, b, |text, part| text.ends_with(part))),
        Function::Length => match a {
            Value::String(text) => Cow::Owned(text.chars().count().into()),
            Value::Array(values) => Cow::Owned(values.len().into()),
            Value::Object(fields) => Cow::Owned(fields.len().into()),
            Value::Null | Value::Bool(_) | Value::Number(_) => Cow::Owned(Value::Null),
        },
        Function::Lower => mapped(a, str::to_lowercase),
        Function::Upper => mapped(a, str::to_uppercase),
        Function::IsNull => boolean(a.is_null()),
        Function::IsNotNull => boolean(!a.is_null()),
        Function::IsNumber => boolean(a.is_number()),
        Function::IsString => boolean(a.is_string()),
        Function::IsBool => boolean(a.is_boolean()),
        Function::IsArray => boolean(a.is_array()),
        Function::IsObject => boolean(a.is_object()),
    }
}

/// Returns whether a list has a value.
fn has(list: &Value, value: &Value) -> bool {
    list.as_array()
        .is_some_and(|list| list.iter().any(|entry| json_value::loosely_equal(entry, value)))
}

fn texts(a: &Value, b: &Value, test: fn(&str, &str) -> bool) -> bool {
    match (scalar_text(a), scalar_text(b)) {
        (Some(a), Some(b)) => test(&a, &b),
        (None, _) | (_, None) => false,
    }
}

fn mapped<'v>(value: &Value, map: fn(&str) -> String) -> Cow<'v, Value> {
    scalar_text(value).map_or(Cow::Owned(Value::Null), |value| text(map(&value)))
}

/// Returns a text, a number or a truth value as text.
fn scalar_text(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::String(text) => Some(Cow::Borrowed(text)),
        Value::Bool(_) | Value::Number(_) => Some(Cow::Owned(value.to_string())),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn boolean<'v>(value: bool) -> Cow<'v, Value> {
    Cow::Owned(Value::Bool(value))
}

fn text<'v>(text: String) -> Cow<'v, Value> {
    Cow::Owned(Value::String(text))
}
