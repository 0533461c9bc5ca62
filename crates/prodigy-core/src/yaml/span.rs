//! Places in a file: of values, and inside of decoded text.

use std::ops::Range;

use super::YamlNode;
use crate::diagnostic::Span;

/// A stretch of decoded text and where it stands.
struct DecodedRun {
    decoded: usize,
    length: usize,
    source: usize,
    /// Differs from `length` for an escape, which is a piece of its own.
    source_length: usize,
}

impl DecodedRun {
    /// A stretch that stands in the file as it is.
    fn verbatim(decoded: usize, source: usize, length: usize) -> Self {
        Self { decoded, length, source, source_length: length }
    }
}

/// Returns where a byte range of a text value stands in its file.
///
/// Exact wherever the text stands in the file as it is: plain and quoted text, simple escapes,
/// the lines of a block. Where that cannot be told, the whole value is returned.
pub fn inner_span(node: &YamlNode, source: &str, range: Range<usize>) -> Span {
    exact(node, source, &range).unwrap_or(node.span)
}

fn exact(node: &YamlNode, source: &str, range: &Range<usize>) -> Option<Span> {
    let decoded = node.as_str()?;
    let base = usize::try_from(node.span.start).ok()?;
    let written = source.get(base..usize::try_from(node.span.end).ok()?)?;
    let pieces = align(written, decoded)?;
    let start = pieces.iter().find_map(|piece| {
        let offset = range.start.checked_sub(piece.decoded)?;
        (offset < piece.length || (offset == piece.length && range.is_empty()))
            .then_some(piece.source + offset)
    })?;
    let end = if range.is_empty() {
        start
    } else {
        pieces.iter().find_map(|piece| {
            let offset = range.end.checked_sub(piece.decoded)?;
            let width = if offset == piece.length { piece.source_length } else { offset };
            (offset > 0 && offset <= piece.length).then_some(piece.source + width)
        })?
    };
    let offset = |byte: usize| u32::try_from(base + byte).ok();
    Some(Span { file: node.span.file, start: offset(start)?, end: offset(end.max(start))? })
}

fn align(written: &str, decoded: &str) -> Option<Vec<DecodedRun>> {
    match written.chars().next()? {
        '"' => {
            let body = written.strip_prefix('"')?.strip_suffix('"')?;
            if body.contains('\\') { escaped(body, decoded) } else { lines(body, 1, decoded) }
        }
        '\'' => {
            let body = written.strip_prefix('\'')?.strip_suffix('\'')?;
            if body.contains("''") { doubled(body, decoded) } else { lines(body, 1, decoded) }
        }
        '|' | '>' => {
            let header = written.find('\n')? + 1;
            lines(written.get(header..)?, header, decoded)
        }
        _ => lines(written, 0, decoded),
    }
}

/// Aligns text that is cut into lines: each line's text appears in the decoded text, with only
/// line breaks and the spaces of folding in between.
fn lines(body: &str, offset: usize, decoded: &str) -> Option<Vec<DecodedRun>> {
    let mut pieces = Vec::new();
    let mut at = 0;
    let mut source = offset;
    for line in body.split_inclusive('\n') {
        let text = line.trim_end_matches(['\n', '\r']);
        if !text.trim().is_empty() || body.len() == text.len() {
            let (found, cut, length) = place(text, decoded, at)?;
            pieces.push(DecodedRun::verbatim(found, source + cut, length));
            at = found + length;
        }
        source += line.len();
    }
    Some(pieces)
}

/// Finds a line in the decoded text from `at` on: where it is, how much of the line's start is
/// indentation, and how long the rest is.
fn place(line: &str, decoded: &str, at: usize) -> Option<(usize, usize, usize)> {
    let rest = decoded.get(at..)?;
    let indentation = line.len() - line.trim_start_matches([' ', '\t']).len();
    let gap = rest.len() - rest.trim_start_matches([' ', '\n']).len();
    // As much of the indentation as the decoded text has belongs to the text.
    for skipped in 0..=gap {
        for cut in 0..=indentation {
            let text = line.get(cut..)?;
            let found = rest.get(skipped..)?;
            if found.starts_with(text) {
                return Some((at + skipped, cut, text.len()));
            }
            let trimmed = text.trim_end_matches([' ', '\t']);
            if found.starts_with(trimmed) {
                return Some((at + skipped, cut, trimmed.len()));
            }
        }
    }
    None
}

/// Aligns single-quoted text with `''` in it; only on one line.
fn doubled(body: &str, decoded: &str) -> Option<Vec<DecodedRun>> {
    let mut pieces = Vec::new();
    let (mut at, mut source) = (0, 1);
    for part in body.split_inclusive("''") {
        let length = if part.ends_with("''") { part.len() - 1 } else { part.len() };
        if decoded.get(at..at + length)? != part.get(..length)? {
            return None;
        }
        pieces.push(DecodedRun::verbatim(at, source, length));
        at += length;
        source += part.len();
    }
    Some(pieces)
}

/// Aligns double-quoted text with escapes; only on one line.
fn escaped(body: &str, decoded: &str) -> Option<Vec<DecodedRun>> {
    let mut pieces = Vec::new();
    let (mut at, mut source) = (0, 0);
    while let Some(rest) = body.get(source..).filter(|rest| !rest.is_empty()) {
        let character = decoded.get(at..)?.chars().next()?;
        let width = if let Some(escape) = rest.strip_prefix('\\') {
            match escape.chars().next()? {
                'x' => 4,
                'u' => 6,
                'U' => 10,
                '\n' | '\r' => return None,
                other => 1 + other.len_utf8(),
            }
        } else if rest.starts_with(character) {
            character.len_utf8()
        } else {
            return None;
        };
        let length = character.len_utf8();
        pieces.push(DecodedRun { decoded: at, length, source: source + 1, source_length: width });
        at += length;
        source += width;
    }
    (at == decoded.len()).then_some(pieces)
}

/// Returns where a value starts after its tag and anchor.
pub(crate) fn skip_properties(text: &str, mut at: usize) -> usize {
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
pub(crate) fn block_header(text: &str, previous: usize) -> Option<usize> {
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
pub(crate) fn sequence_start(text: &str, at: usize) -> usize {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::yaml::parse;

    /// Returns the part of the file that is shown for `needle` inside the value of `key`.
    fn shown(source: &str, needle: &str) -> String {
        let root = parse(source, 0).unwrap();
        let node = root.get("key").unwrap();
        let start = node.as_str().unwrap().find(needle).unwrap();
        let span = inner_span(node, source, start..start + needle.len());
        source[span.start as usize..span.end as usize].to_owned()
    }

    #[test]
    fn text_is_found_where_it_stands() {
        let cases = [
            ("key: echo ${x} é ${yy}\n", "${yy}"),
            ("key: 'echo ${x} é ${yy}'\n", "${yy}"),
            ("key: \"echo ${x} é ${yy}\"\n", "${yy}"),
            ("key: 'it''s ${yy}'\n", "${yy}"),
            ("key: \"a\\n\\u00e9\\x41 ${yy}\"\n", "${yy}"),
            ("key: \"a\\nb\"\n", "\n"),
            ("key: |\n  one\n\n    two ${yy}\n  three\n", "${yy}"),
            ("key: |-  # note\n  one\n  ${yy}", "${yy}"),
            ("key: |2\n    one\n  ${yy}", "  one"),
            ("key: >\n  one\n  two ${yy}\n\n    three\n", "two ${yy}"),
            ("key: |\r\n  one\r\n  two ${yy}\r\n", "${yy}"),
            ("key: &a !!str\n  one\n  two ${yy}\n", "${yy}"),
            ("key: \"one\n  two ${yy}\n\n  three\"\n", "${yy}"),
            ("key: |\n  one\n  two\n", "one\ntwo"),
            ("\u{feff}key: é ${yy}\n", "${yy}"),
            ("key: \"a \\\n  b ${yy}\"\n", "${yy}"),
        ];
        let table = cases
            .map(|(source, needle)| format!("{source:?} -> {:?}\n", shown(source, needle)))
            .concat();
        insta::assert_snapshot!(table, @r#"
        "key: echo ${x} é ${yy}\n" -> "${yy}"
        "key: 'echo ${x} é ${yy}'\n" -> "${yy}"
        "key: \"echo ${x} é ${yy}\"\n" -> "${yy}"
        "key: 'it''s ${yy}'\n" -> "${yy}"
        "key: \"a\\n\\u00e9\\x41 ${yy}\"\n" -> "${yy}"
        "key: \"a\\nb\"\n" -> "\\n"
        "key: |\n  one\n\n    two ${yy}\n  three\n" -> "${yy}"
        "key: |-  # note\n  one\n  ${yy}" -> "${yy}"
        "key: |2\n    one\n  ${yy}" -> "  one"
        "key: >\n  one\n  two ${yy}\n\n    three\n" -> "two ${yy}"
        "key: |\r\n  one\r\n  two ${yy}\r\n" -> "${yy}"
        "key: &a !!str\n  one\n  two ${yy}\n" -> "${yy}"
        "key: \"one\n  two ${yy}\n\n  three\"\n" -> "${yy}"
        "key: |\n  one\n  two\n" -> "one\n  two"
        "\u{feff}key: é ${yy}\n" -> "${yy}"
        "key: \"a \\\n  b ${yy}\"\n" -> "\"a \\\n  b ${yy}\""
        "#);
    }

    /// Lines of text that every style can hold.
    fn text_lines() -> impl Strategy<Value = Vec<String>> {
        proptest::collection::vec("[a-z$][a-z é${}'\"]{0,8}[a-z}]", 1..5)
    }

    /// Writes the lines in one of the styles.
    fn write(lines: &[String], style: usize, indent: usize) -> String {
        let pad = " ".repeat(indent);
        let block = |header: &str| {
            let body = format!("{pad}{}\n", lines.join(&format!("\n{pad}")));
            format!("key: {header}\n{body}next: 1\n")
        };
        let joined = lines.join(&format!("\n{pad}"));
        match style {
            0 => block("|"),
            1 => block(">"),
            2 => format!("key: '{}'\n", joined.replace('\'', "''")),
            3 => format!("key: \"{}\"\n", joined.replace('"', "\\\"")),
            4 => format!("key: {}\n", lines[0]),
            _ => format!("key: '{}'\n", joined.replace('\'', "_")),
        }
    }

    proptest! {
        #[test]
        fn a_range_shows_its_own_text_or_the_whole_value(
            lines in text_lines(), style in 0_usize..6, indent in 1_usize..5,
            from in 0_usize..40, length in 1_usize..12,
        ) {
            let source = write(&lines, style, indent);
            let Ok(root) = parse(&source, 0) else { return Ok(()) };
            let Some(node) = root.get("key") else { return Ok(()) };
            let Some(decoded) = node.as_str() else { return Ok(()) };
            let range = from..from + length;
            let Some(wanted) = decoded.get(range.clone()) else { return Ok(()) };
            // What folding made of a line break stands nowhere in the file.
            if wanted.contains('\n') || wanted.starts_with(' ') || wanted.ends_with(' ') { return Ok(()) }
            let span = inner_span(node, &source, range);
            let shown = &source[span.start as usize..span.end as usize];
            let exact_style = matches!(style, 0 | 4) || (lines.len() == 1);
            if exact_style || span != node.span {
                let unfolded: Vec<&str> = shown.split_whitespace().collect();
                let expected: Vec<&str> = wanted.split_whitespace().collect();
                // A quote stands twice in a quoted text, and may stand twice in any other.
                let once = |text: String| {
                    let mut chars: Vec<char> = text.chars().collect();
                    chars.dedup_by(|a, b| *a == '\'' && a == b);
                    chars.into_iter().collect::<String>()
                };
                let shown = once(unfolded.join(" ").replace("\\\"", "\""));
                prop_assert_eq!(shown, once(expected.join(" ")));
            }
            prop_assert!(span.start >= node.span.start && span.end <= node.span.end);
        }
    }
}
