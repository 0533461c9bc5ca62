//! Following a path through a document.

use std::{
    cell::{OnceCell, RefCell},
    cmp::Ordering,
};

use regex::Regex;
use serde_json::{Value, value::RawValue};

use super::{
    DEEPEST, Error,
    ast::{
        FilterComparison, FilterCondition, FilterOperand, FilterQuery, MatchPattern, QueryOrigin,
        QuerySegment, Selector, compile,
    },
    raw,
};
use crate::json_value;

/// A path on its way through one document.
pub(super) struct PathEvaluator<'a> {
    root: &'a RawValue,
    /// The results of the queries in filters that start at the root, once they are known.
    known: Vec<OnceCell<Vec<&'a RawValue>>>,
    /// The pattern from the document that was used last; mostly it is the same for every test.
    pub(super) pattern: RefCell<Option<(String, bool, Option<Regex>)>>,
}

impl<'a> PathEvaluator<'a> {
    /// Starts a search.
    pub(super) fn new(root: &'a RawValue, root_queries: usize) -> Self {
        let known = std::iter::repeat_with(OnceCell::new).take(root_queries).collect();
        Self { root, known, pattern: RefCell::new(None) }
    }

    /// Returns where steps lead from one part.
    pub(super) fn apply_segments(
        &self,
        hops: &[QuerySegment],
        start: &'a RawValue,
    ) -> Result<Vec<&'a RawValue>, Error> {
        let mut parts = vec![start];
        for hop in hops {
            let mut next = Vec::new();
            for part in parts {
                if hop.deep {
                    self.descend(&hop.selectors, part, 0, &mut next)?;
                } else {
                    self.take(&hop.selectors, part, &mut next)?;
                }
            }
            parts = next;
        }
        Ok(parts)
    }

    /// Returns where a query in a filter leads.
    pub(super) fn run_query(
        &self,
        query: &FilterQuery,
        tested: &'a RawValue,
    ) -> Result<Vec<&'a RawValue>, Error> {
        match query.origin {
            QueryOrigin::Tested => self.apply_segments(&query.hops, tested),
            QueryOrigin::Root(number) => {
                let known = self.known.get(number);
                if let Some(parts) = known.and_then(OnceCell::get) {
                    return Ok(parts.clone());
                }
                let parts = self.apply_segments(&query.hops, self.root)?;
                Ok(known.map_or_else(Vec::new, |cell| cell.get_or_init(|| parts).clone()))
            }
        }
    }

    /// Takes from a part and from everything below it; a part comes before what is in it.
    fn descend(
        &self,
        selectors: &[Selector],
        part: &'a RawValue,
        depth: usize,
        found: &mut Vec<&'a RawValue>,
    ) -> Result<(), Error> {
        if depth == DEEPEST {
            return Err(Error::TooDeep);
        }
        self.take(selectors, part, found)?;
        let children = raw::children(part)?;
        children.into_iter().try_for_each(|child| self.descend(selectors, child, depth + 1, found))
    }

    /// Takes from one part.
    fn take(
        &self,
        selectors: &[Selector],
        part: &'a RawValue,
        found: &mut Vec<&'a RawValue>,
    ) -> Result<(), Error> {
        for selector in selectors {
            match selector {
                Selector::Name(name) => found.extend(raw::member(part, name)?),
                Selector::Any => found.extend(raw::children(part)?),
                Selector::Index(index) if raw::is_list(part) => {
                    let values = raw::children(part)?;
                    let index = from_start(*index, values.len());
                    found.extend(usize::try_from(index).ok().and_then(|at| values.get(at)));
                }
                Selector::Slice(start, end, step) if raw::is_list(part) => {
                    let values = raw::children(part)?;
                    let indexes = slice(*start, *end, *step, values.len());
                    found.extend(indexes.filter_map(|at| values.get(at)));
                }
                Selector::Index(_) | Selector::Slice(..) => {}
                Selector::Filter(condition) => {
                    for child in raw::children(part)? {
                        if self.matches_condition(condition, child)? {
                            found.push(child);
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

/// Counts a negative index from the end.
fn from_start(index: i64, length: usize) -> i64 {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    if index < 0 { length.saturating_add(index) } else { index }
}

/// Returns the indexes of a slice, in the order of its step.
fn slice(
    start: Option<i64>,
    end: Option<i64>,
    step: i64,
    length: usize,
) -> Box<dyn Iterator<Item = usize>> {
    let last = i64::try_from(length).unwrap_or(i64::MAX);
    let bound = |index: Option<i64>, missing: i64, low: i64, high: i64| {
        index.map_or(missing, |index| from_start(index, length)).clamp(low, high)
    };
    let width = usize::try_from(step.unsigned_abs()).unwrap_or(usize::MAX);
    let index = |at: i64| usize::try_from(at).ok();
    match step {
        0 => Box::new(std::iter::empty()),
        1.. => {
            let (low, high) = (bound(start, 0, 0, last), bound(end, last, 0, last));
            Box::new((low..high).step_by(width).filter_map(index))
        }
        ..0 => {
            let high = bound(start, last - 1, -1, last - 1);
            let low = bound(end, -1, -1, last - 1);
            Box::new((low + 1..=high).rev().step_by(width).filter_map(index))
        }
    }
}

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
        (Some(a), Some(b)) => json_value::total_cmp(a, b) == Ordering::Equal,
        (a, b) => a.is_none() && b.is_none(),
    }
}

/// Only two numbers or two texts have an order.
fn less(a: Option<&Value>, b: Option<&Value>) -> bool {
    match (a, b) {
        (Some(a @ Value::Number(_)), Some(b @ Value::Number(_)))
        | (Some(a @ Value::String(_)), Some(b @ Value::String(_))) => {
            json_value::total_cmp(a, b) == Ordering::Less
        }
        _ => false,
    }
}
