//! Where a value really starts, which the parser does not always say.

/// Returns where a value starts after its tag and anchor.
pub(super) fn skip_properties(text: &str, mut at: usize) -> usize {
    while let Some(rest) = text.get(at..)
        && rest.starts_with(['&', '!'])
    {
        at += rest.find(|c: char| c.is_whitespace()).unwrap_or(rest.len());
        at = skip_blank(text, at);
    }
    at
}

/// Returns the place after white space, line breaks and comments.
fn skip_blank(text: &str, mut at: usize) -> usize {
    while let Some(rest) = text.get(at..) {
        let blank = rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
        at += blank;
        match rest.get(blank..) {
            Some(rest) if rest.starts_with('#') => at += rest.find('\n').unwrap_or(rest.len()),
            Some(_) | None => break,
        }
    }
    at
}

/// Returns the `|` or `>` of a block, looking from the end of what stands before it.
///
/// The parser reports only where the content starts.
pub(super) fn block_header(text: &str, previous: usize) -> Option<usize> {
    let mut at = skip_blank(text, previous);
    loop {
        at = skip_properties(text, at);
        match text.as_bytes().get(at)? {
            b'|' | b'>' => return Some(at),
            b':' | b'-' | b'?' => at = skip_blank(text, at + 1),
            _ => return None,
        }
    }
}

/// Returns the `-` in front of the first element, for lists that the parser starts behind it.
pub(super) fn sequence_start(text: &str, at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    let starts_here = rest.starts_with('[')
        || rest
            .strip_prefix('-')
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(|c: char| c.is_whitespace()));
    if starts_here {
        return at;
    }
    let before = text.get(..at).unwrap_or_default().trim_end_matches([' ', '\t']);
    if before.ends_with('-') { before.len() - 1 } else { at }
}
