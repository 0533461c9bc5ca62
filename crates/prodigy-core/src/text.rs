//! Text of agents, cut and cleaned for people.

use crate::failure::signature::strip_ansi;

/// The mark where a text was cut off.
const CUT: char = '…';

/// Returns a text as one line of at most so many characters, without anything that a
/// terminal would act on.
pub(crate) fn one_line(text: &str, most: usize) -> String {
    let mut line = String::new();
    let mut count = 0;
    for word in clean(text, most.saturating_mul(8)).split_whitespace() {
        if count > 0 {
            line.push(' ');
            count += 1;
        }
        for c in word.chars() {
            line.push(c);
            count += 1;
        }
        if count > most {
            break;
        }
    }
    if count > most {
        line = line.chars().take(most.saturating_sub(1)).collect();
        line.truncate(line.trim_end().len());
        line.push(CUT);
    }
    line
}

/// Returns a text of at most so many bytes, without anything that a terminal would act on.
pub(crate) fn clean_text(text: &str, most: usize) -> String {
    let text = clean(text, most);
    text.trim().to_owned()
}

/// Returns the beginning of a text: so many bytes, up to the end of a character.
pub(crate) fn head(text: &str, most: usize) -> &str {
    let ends = |end: &usize| text.is_char_boundary(*end);
    let end = (0..=most.min(text.len())).rev().find(ends).unwrap_or(0);
    text.get(..end).unwrap_or(text)
}

/// Returns the end of a text: so many bytes, from the beginning of a character.
pub(crate) fn tail(text: &str, most: usize) -> &str {
    let begins = |from: &usize| text.is_char_boundary(*from);
    let from = (text.len().saturating_sub(most)..=text.len()).find(begins).unwrap_or(0);
    text.get(from..).unwrap_or(text)
}

fn clean(text: &str, most: usize) -> String {
    let cut = head(text, most);
    let mut out = if cut.contains('\u{1b}') { strip_ansi(cut) } else { cut.to_owned() };
    // Most text is plain, which bytes tell several times faster than characters.
    if !out.bytes().all(|byte| matches!(byte, b'\n' | b'\t' | b' '..=b'~')) {
        out.retain(|c| matches!(c, '\n' | '\t') || !is_hidden(c));
    }
    if cut.len() < text.len() {
        out.push(CUT);
    }
    out
}

/// Returns whether a terminal acts on a character, or shows text in another order because of it.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns the size of a text that is longer than what is kept of it, in words. One that is
/// hardly longer was perhaps shortened when its line was read.
pub(crate) fn describe_oversize(length: usize, kept: usize) -> Option<String> {
    match length.checked_sub(kept) {
        None | Some(0) => None,
        Some(1..=16) => Some(format!("more than {kept} bytes")),
        Some(_) => Some(format!("{length} bytes")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_is_short_and_harmless() {
        assert_eq!(one_line("  git \n commit\t-m 'x'  ", 120), "git commit -m 'x'");
        assert_eq!(one_line("\u{1b}[31mred\u{1b}[0m\r\u{7} \u{202e}text", 120), "red text");
        assert_eq!(one_line("one two three", 8), "one two…");
        assert_eq!(one_line("one two", 7), "one two");
        assert_eq!(one_line("", 7), "");
    }

    proptest! {
        #[test]
        fn whatever_was_said_the_bounds_hold(text in ".{0,300}", most in 1_usize..150) {
            let line = one_line(&text, most);
            prop_assert!(line.chars().count() <= most);
            prop_assert!(!line.chars().any(is_hidden));
            prop_assert!(clean_text(&text, most).len() <= most + CUT.len_utf8());
            prop_assert!(tail(&text, most).len() <= most);
            prop_assert!(text.ends_with(tail(&text, most)));
        }
    }
}
