//! Patterns in which `*` stands for any text.

/// Returns whether a text fits a pattern.
pub(crate) fn matches_wildcard(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(start) else { return false };
    let mut rest = rest;
    // Each piece in between takes the first place where it fits, the last one the end.
    while let Some((piece, after)) = rest.split_once('*') {
        let Some(at) = text.find(piece) else { return false };
        text = text.get(at + piece.len()..).unwrap_or_default();
        rest = after;
    }
    text.ends_with(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        let cases = [
            ("timeout", "timeout", true),
            ("timeout", "timeouts", false),
            ("*", "timeout", true),
            ("unknown_*", "unknown_commit_state", true),
            ("*_error", "network_error", true),
            ("*_error", "network_errors", false),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("a*b*c", "axxbxxc", true),
            ("a*b*c", "acb", false),
            ("**", "x", true),
            ("", "x", false),
        ];
        for (pattern, code, is_fit) in cases {
            assert_eq!(matches_wildcard(pattern, code), is_fit, "{pattern} {code}");
        }
    }
}
