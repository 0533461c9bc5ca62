//! Explanations of text that is not YAML, in words that help.

use std::ops::Range;

/// A mistake in the text, and its place.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct YamlSyntaxError {
    /// The bytes that are wrong.
    pub(crate) range: Range<usize>,
    /// The error message.
    pub(crate) message: String,
    /// The way to fix it.
    pub(crate) help: Option<&'static str>,
}

/// Says in our words what the parser found wrong at byte `at`.
pub(crate) fn explain_syntax_error(info: &str, text: &str, at: usize) -> YamlSyntaxError {
    if let Some(tab) = indentation_tab(text, at) {
        return YamlSyntaxError {
            range: tab..tab + 1,
            message: "a tab is used for indentation".to_owned(),
            help: Some("YAML is indented with spaces only"),
        };
    }
    let (message, help) = translate(info, text.get(at..).unwrap_or_default());
    let end = text.get(at..).and_then(|rest| rest.chars().next()).map_or(at, |c| at + c.len_utf8());
    // An error at the end of a line is shown on that line, not on the next.
    let range =
        if text.get(at..end).is_some_and(|c| c == "\n" || c == "\r") { at..at } else { at..end };
    YamlSyntaxError { range, message, help }
}

/// Returns a tab in the indentation of the line with byte `at` or of the line before it.
fn indentation_tab(text: &str, at: usize) -> Option<usize> {
    let line = text.get(..at)?.rfind('\n').map_or(0, |newline| newline + 1);
    let tab_of = |start: usize| {
        let rest = text.get(start..)?;
        let indentation = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        let content = rest.get(indentation..)?;
        let blank = content.is_empty() || content.starts_with(['\n', '\r', '#']);
        let tab = rest.get(..indentation)?.find('\t')?;
        (!blank).then_some(start + tab)
    };
    let before =
        text.get(..line.saturating_sub(1)).map(|text| text.rfind('\n').map_or(0, |n| n + 1));
    tab_of(line).or_else(|| before.and_then(tab_of))
}

/// Returns our message and help for the parser's message; `rest` is the text from the error on.
fn translate(info: &str, rest: &str) -> (String, Option<&'static str>) {
    if let Some(quoted) = info.strip_prefix("unexpected character: ") {
        let character = quoted.chars().nth(1).unwrap_or('`');
        return (
            format!("a value cannot start with `{character}`"),
            Some("put the value in quotes"),
        );
    }
    let (message, help) = match info {
        "mapping values are not allowed in this context" => (
            "`: ` is not allowed inside this text",
            Some(
                "put the whole text in quotes, or use a block: `key: |` and the text on the next lines",
            ),
        ),
        "illegal placement of ':' indicator" | "simple key expected" | "simple key expect ':'" => (
            "`:` is out of place here",
            Some(
                "check that every key is on its own line, and that quotes and brackets are closed",
            ),
        ),
        "while parsing a block mapping, did not find expected key" => (
            "this line does not fit the mapping it stands in",
            Some("keys of one mapping start in the same column; check the indentation"),
        ),
        "while parsing a block collection, did not find expected '-' indicator" => (
            "this line does not fit the list it stands in",
            Some("elements of one list start with `- ` in the same column; check the indentation"),
        ),
        "block sequence entries are not allowed in this context" => (
            "a list cannot start here",
            Some("put `- ` on a new line below the key, or write `[a, b]`"),
        ),
        "while parsing a flow mapping, did not find expected ',' or '}'" => (
            "expected `,` or `}`",
            Some("inside `{…}` text with `{`, `}`, `[`, `]` or `,` needs quotes"),
        ),
        "while parsing a flow sequence, expected ',' or ']'" => (
            "expected `,` or `]`",
            Some("inside `[…]` text with `{`, `}`, `[`, `]` or `,` needs quotes"),
        ),
        "invalid indentation in flow construct" => (
            "a line inside `[…]` or `{…}` is not indented enough",
            Some("check that every `[` and `{` is closed"),
        ),
        "while scanning a quoted scalar, found unexpected end of stream"
        | "invalid indentation in quoted scalar" => (
            "this quote is never closed",
            Some("add the closing quote; every line of quoted text must be indented"),
        ),
        "invalid trailing content after double-quoted scalar" => (
            "unexpected text after the closing quote",
            Some("put the whole value in quotes, e.g. in single quotes: `'\"a\" b'`"),
        ),
        "while parsing a quoted scalar, found unknown escape character" => (
            "unknown escape in double quotes",
            Some("write `\\\\` for a backslash, or use single quotes"),
        ),
        "while parsing node, found unknown anchor" => {
            let name: String = rest.chars().take_while(|c| !c.is_whitespace()).collect();
            return (
                format!("`{name}` refers to an anchor that does not exist"),
                Some("text that starts with `*` needs quotes"),
            );
        }
        "wrongly indented line in block scalar" => (
            "this line is indented less than the first line of its block",
            Some("indent every line of the block alike"),
        ),
        "recursion limit exceeded" => {
            return (super::parse::depth_message(), None);
        }
        "while scanning a plain scalar, found a tab" => (
            "a tab is not allowed here",
            Some("YAML is indented with spaces only; text with a tab needs quotes"),
        ),
        "found unprintable character" => ("a control character is not allowed here", None),
        _ => return (format!("not valid YAML: {info}"), None),
    };
    (message.to_owned(), help)
}
