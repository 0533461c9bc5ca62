//! Taking out what colours a text and moves the cursor.

/// Returns a text without the sequences that terminals understand.
///
/// An unfinished sequence is removed up to the end of the text, since its end is unknown.
pub(crate) fn strip_ansi(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c != '\u{1b}' {
            out.push(c);
            continue;
        }
        match rest.next() {
            // Colours and movements: they end with a letter or a sign from the same range.
            Some('[') => drop(rest.find(|c| ('@'..='~').contains(c))),
            // Titles and links: they end with a bell, or with an escape and a backslash.
            Some(']') => {
                if rest.find(|c| matches!(c, '\u{7}' | '\u{1b}')) == Some('\u{1b}') {
                    rest.next();
                }
            }
            Some(_) | None => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_titles_and_movements_go() {
        let text = "\u{1b}[1;31merror\u{1b}[0m: \u{1b}]8;;http://x\u{1b}\\link\u{1b}]0;t\u{7}!\u{1b}M \u{1b}[2";
        assert_eq!(strip_ansi(text), "error: link! ");
    }
}
