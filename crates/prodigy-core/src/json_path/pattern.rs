//! The patterns of `match` and `search` (RFC 9485).

use regex::{Regex, RegexBuilder};

use super::ast::FilterOperand;

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
