//! Paths as trees.

use regex::{Regex, RegexBuilder};
use serde_json::Value;

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

/// The largest compiled pattern, in bytes.
const SIZE: usize = 1 << 20;

/// The pattern of `match` and `search`.
#[derive(Clone)]
pub(super) enum MatchPattern {
    /// It stands in the path.
    Written(Regex),
    /// It comes from the document.
    Found {
        /// From where.
        operand: Box<FilterOperand>,
        /// Set if it must match all of the text.
        whole: bool,
    },
}

/// Compiles a pattern; the error says why it cannot be used.
pub(super) fn compile(pattern: &str, whole: bool) -> Result<Regex, String> {
    let pattern = translate(pattern);
    let pattern = if whole { format!(r"\A(?:{pattern})\z") } else { pattern };
    RegexBuilder::new(&pattern).size_limit(SIZE).build().map_err(|error| {
        if matches!(error, regex::Error::CompiledTooBig(_)) {
            return "it is too large".to_owned();
        }
        // The first lines of the message draw the pattern again.
        let text = error.to_string();
        text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
    })
}

/// Writes a pattern in the dialect of the `regex` crate.
///
/// There, `.` also matches a carriage return, and `&&`, `~~` and `[` mean something inside brackets.
fn translate(pattern: &str) -> String {
    let mut text = String::with_capacity(pattern.len() + 16);
    let mut brackets = false;
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                text.push('\\');
                text.extend(chars.next());
                continue;
            }
            '.' if !brackets => {
                text.push_str(r"[^\n\r]");
                continue;
            }
            '[' if !brackets => brackets = true,
            ']' => brackets = false,
            '&' | '~' | '[' if brackets => text.push('\\'),
            _ => {}
        }
        text.push(c);
    }
    text
}
