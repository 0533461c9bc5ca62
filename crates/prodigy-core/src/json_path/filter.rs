//! Test of a part by a filter.

use std::cmp::Ordering;

use serde_json::{Value, value::RawValue};

use super::{
    Error,
    ast::{Condition, Operand, Relation},
    eval::Search,
    pattern::{Pattern, compile},
    raw,
};
use crate::expr::order;

impl<'a> Search<'a> {
    /// Returns whether a condition holds for a part.
    pub(super) fn holds(&self, condition: &Condition, tested: &'a RawValue) -> Result<bool, Error> {
        match condition {
            Condition::Any(conditions) => {
                for condition in conditions {
                    if self.holds(condition, tested)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Condition::All(conditions) => {
                for condition in conditions {
                    if !self.holds(condition, tested)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Condition::Not(condition) => Ok(!self.holds(condition, tested)?),
            Condition::Compare(relation, a, b) => {
                let (a, b) = (self.operand(a, tested)?, self.operand(b, tested)?);
                Ok(compare(*relation, a.as_ref(), b.as_ref()))
            }
            Condition::Exists(query) => Ok(!self.query(query, tested)?.is_empty()),
            Condition::Matches(text, pattern) => match self.operand(text, tested)? {
                Some(Value::String(text)) => self.matches(&text, pattern, tested),
                _ => Ok(false),
            },
        }
    }

    /// Returns a value; `None` is the nothing of the standard, which is not `null`.
    fn operand(&self, operand: &Operand, tested: &'a RawValue) -> Result<Option<Value>, Error> {
        match operand {
            Operand::Literal(value) => Ok(Some(value.clone())),
            Operand::Part(query) => {
                self.query(query, tested)?.first().map(|part| raw::value(part)).transpose()
            }
            Operand::Length(operand) => Ok(match self.operand(operand, tested)? {
                Some(Value::String(text)) => Some(text.chars().count().into()),
                Some(Value::Array(values)) => Some(values.len().into()),
                Some(Value::Object(fields)) => Some(fields.len().into()),
                Some(Value::Null | Value::Bool(_) | Value::Number(_)) | None => None,
            }),
            Operand::Count(query) => Ok(Some(self.query(query, tested)?.len().into())),
            Operand::Only(query) => match self.query(query, tested)?.as_slice() {
                [part] => raw::value(part).map(Some),
                _ => Ok(None),
            },
        }
    }

    fn matches(&self, text: &str, pattern: &Pattern, tested: &'a RawValue) -> Result<bool, Error> {
        let (operand, whole) = match pattern {
            Pattern::Written(regex) => return Ok(regex.is_match(text)),
            Pattern::Found { operand, whole } => (operand, *whole),
        };
        let Some(Value::String(pattern)) = self.operand(operand, tested)? else {
            return Ok(false);
        };
        let mut last = self.pattern.borrow_mut();
        if let Some((known, known_whole, regex)) = last.as_ref()
            && *known == pattern
            && *known_whole == whole
        {
            return Ok(regex.as_ref().is_some_and(|regex| regex.is_match(text)));
        }
        // The standard says that a pattern which is none matches nothing.
        let regex = compile(&pattern, whole).ok();
        let matches = regex.as_ref().is_some_and(|regex| regex.is_match(text));
        *last = Some((pattern, whole, regex));
        Ok(matches)
    }
}

fn compare(relation: Relation, a: Option<&Value>, b: Option<&Value>) -> bool {
    match relation {
        Relation::Equal => equal(a, b),
        Relation::NotEqual => !equal(a, b),
        Relation::Less => less(a, b),
        Relation::AtMost => less(a, b) || equal(a, b),
        Relation::Greater => less(b, a),
        Relation::AtLeast => less(b, a) || equal(a, b),
    }
}

fn equal(a: Option<&Value>, b: Option<&Value>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => order::total(a, b) == Ordering::Equal,
        (a, b) => a.is_none() && b.is_none(),
    }
}

/// Only two numbers or two texts have an order.
fn less(a: Option<&Value>, b: Option<&Value>) -> bool {
    match (a, b) {
        (Some(a @ Value::Number(_)), Some(b @ Value::Number(_)))
        | (Some(a @ Value::String(_)), Some(b @ Value::String(_))) => {
            order::total(a, b) == Ordering::Less
        }
        _ => false,
    }
}
