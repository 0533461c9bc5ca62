//! Paths as trees.

use serde_json::Value;

use super::pattern::MatchPattern;

/// One step of a path; the standard calls it a segment.
#[derive(Clone)]
pub(super) struct QuerySegment {
    /// `..`: from everything below as well.
    pub(super) deep: bool,
    /// The selectors, one after the other.
    pub(super) selectors: Vec<Selector>,
}

/// A selector of a step.
#[derive(Clone)]
pub(super) enum Selector {
    /// `'name'`
    Name(String),
    /// `*`
    Any,
    /// `-1`
    Index(i64),
    /// `1:5:2`
    Slice(Option<i64>, Option<i64>, i64),
    /// `?@.score > 5`
    Filter(FilterCondition),
}

/// A path inside a filter.
#[derive(Clone)]
pub(super) struct FilterQuery {
    pub(super) origin: QueryOrigin,
    pub(super) hops: Vec<QuerySegment>,
}

/// Where a path inside a filter starts.
#[derive(Clone, Copy)]
pub(super) enum QueryOrigin {
    /// `@`: the part that is tested.
    Tested,
    /// `$`: the document. What the path leads to is the same for every part that is tested, so it
    /// has a number under which it is kept.
    Root(usize),
}

/// Returns whether steps lead to one part at most, in any document.
pub(super) fn is_singular(hops: &[QuerySegment]) -> bool {
    hops.iter().all(|hop| {
        let one = matches!(hop.selectors.as_slice(), [Selector::Name(_) | Selector::Index(_)]);
        one && !hop.deep
    })
}

/// A test.
#[derive(Clone)]
pub(super) enum FilterCondition {
    /// `a || b || c`
    Any(Vec<Self>),
    /// `a && b && c`
    All(Vec<Self>),
    /// `!a`
    Not(Box<Self>),
    /// `a < b`
    Compare(FilterComparison, FilterOperand, FilterOperand),
    /// A path on its own: whether it leads anywhere.
    Exists(FilterQuery),
    /// `match(a, 'pattern')`
    Matches(FilterOperand, MatchPattern),
}

/// The operator of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FilterComparison {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
}

/// One value, or nothing.
#[derive(Clone)]
pub(super) enum FilterOperand {
    /// A value as written.
    Literal(Value),
    /// The value at a singular path.
    Part(FilterQuery),
    /// `length(a)`
    Length(Box<Self>),
    /// `count(@.*)`
    Count(FilterQuery),
    /// `value(@..a)`
    Only(FilterQuery),
}
