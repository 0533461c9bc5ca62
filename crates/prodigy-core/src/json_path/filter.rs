//! Test of a part by a filter.

use std::cmp::Ordering;

use serde_json::{Value, value::RawValue};

use super::{
    Error,
    ast::{FilterComparison, FilterCondition, FilterOperand},
    eval::PathEvaluator,
    pattern::{MatchPattern, compile},
    raw,
};
use crate::expr::order;

impl<'a> PathEvaluator<'a> {
    /// Returns whether a condition holds for a part.
    pub(super) fn matches_condition(
        &self,
        condition: &FilterCondition,
        tested: &'a RawValue,
    ) -> Result<bool, Error> {
        match condition {
            FilterCondition::Any(conditions) => {
                for condition in conditions {
                    if self.matches_condition(condition, tested)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            FilterCondition::All(conditions) => {
                for condition in conditions {
                    if !self.matches_condition(condition, tested)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            FilterCondition::Not(condition) => Ok(!self.matches_condition(condition, tested)?),
            FilterCondition::Compare(relation, a, b) => {
                let (a, b) = (self.operand(a, tested)?, self.operand(b, tested)?);
                Ok(compare(*relation, a.as_ref(), b.as_ref()))
            }
            FilterCondition::Exists(query) => Ok(!self.run_query(query, tested)?.is_empty()),
            FilterCondition::Matches(text, pattern) => match self.operand(text, tested)? {
                Some(Value::String(text)) => self.matches(&text, pattern, tested),
                _ => Ok(false),
            },
        }
    }

    /// Returns a value; `None` is the nothing of the standard, which is not `null`.
    fn operand(
        &self,
        operand: &FilterOperand,
        tested: &'a RawValue,
    ) -> Result<Option<Value>, Error> {
        match operand {
            FilterOperand::Literal(value) => Ok(Some(value.clone())),
            FilterOperand::Part(query) => {
                self.run_query(query, tested)?.first().map(|part| raw::value(part)).transpose()
            }
            FilterOperand::Length(operand) => Ok(match self.operand(operand, tested)? {
                Some(Value::String(text)) => Some(text.chars().count().into()),
                Some(Value::Array(values)) => Some(values.len().into()),
                Some(Value::Object(fields)) => Some(fields.len().into()),
                Some(Value::Null | Value::Bool(_) | Value::Number(_)) | None => None,
            }),
            FilterOperand::Count(query) => Ok(Some(self.run_query(query, tested)?.len().into())),
            FilterOperand::Only(query) => match self.run_query(query, tested)?.as_slice() {
                [part] => raw::value(part).map(Some),
                _ => Ok(None),
            },
        }
    }

    fn matches(
        &self,
        text: &str,
        pattern: &MatchPattern,
        tested: &'a RawValue,
    ) -> Result<bool, Error> {
        let (operand, whole) = match pattern {
            MatchPattern::Written(regex) => return Ok(regex.is_match(text)),
            MatchPattern::Found { operand, whole } => (operand, *whole),
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

fn compare(relation: FilterComparison, a: Option<&Value>, b: Option<&Value>) -> bool {
    match relation {
        FilterComparison::Equal => equal(a, b),
        FilterComparison::NotEqual => !equal(a, b),
        FilterComparison::Less => less(a, b),
        FilterComparison::AtMost => less(a, b) || equal(a, b),
        FilterComparison::Greater => less(b, a),
        FilterComparison::AtLeast => less(b, a) || equal(a, b),
    }
}

fn equal(a: Option<&Value>, b: Option<&Value>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => order::total_cmp(a, b) == Ordering::Equal,
        (a, b) => a.is_none() && b.is_none(),
    }
}

/// Only two numbers or two texts have an order.
fn less(a: Option<&Value>, b: Option<&Value>) -> bool {
    match (a, b) {
        (Some(a @ Value::Number(_)), Some(b @ Value::Number(_)))
        | (Some(a @ Value::String(_)), Some(b @ Value::String(_))) => {
            order::total_cmp(a, b) == Ordering::Less
        }
        _ => false,
    }
}
