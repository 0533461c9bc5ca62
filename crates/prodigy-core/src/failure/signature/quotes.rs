//! Taking quoted text out of a message.

/// Returns a message with each quoted stretch replaced by `<q>`.
///
/// A quote without a partner is left, and so is the apostrophe of `can't`: single
/// quotes open where no word has begun and close where none goes on.
pub(crate) fn replace_quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut before = ' ';
    // Once a quote has no partner, the same quote later on has none either; not
    // searching again keeps the time linear.
    let mut unpaired = Vec::new();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        let opens = match c {
            '"' | '`' => true,
            '\'' => !is_wordish(before),
            _ => false,
        };
        before = c;
        if opens {
            let mut after = None;
            if !unpaired.contains(&c) {
                after = closing(c, rest.as_str());
                if after.is_none() {
                    unpaired.push(c);
                }
            }
            let after = after.or_else(|| if c == '`' { old_closing(rest.as_str()) } else { None });
            if let Some(after) = after {
                out.push_str("<q>");
                rest = after.chars();
                continue;
            }
        }
        out.push(c);
    }
    out
}

/// Returns what follows the quote that closes, if there is one.
fn closing(quote: char, text: &str) -> Option<&str> {
    let mut rest = text;
    loop {
        let (_, after) = rest.split_once(quote)?;
        if quote != '\'' || !after.chars().next().is_some_and(is_wordish) {
            return Some(after);
        }
        rest = after;
    }
}

/// Returns what follows one word in the quotes of older programs: `` `word' ``.
fn old_closing(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !c.is_alphanumeric() && !"_.:/-+~".contains(c))?;
    let after = text.get(end..)?.strip_prefix('\'')?;
    (end > 0 && !after.chars().next().is_some_and(is_wordish)).then_some(after)
}

/// Returns true if a character belongs to a word, or to a placeholder for one.
fn is_wordish(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '<' | '>')
}
