//! Taking addresses on the web out of a message.

/// Returns a message with each `scheme://…` replaced by `<url>`.
///
/// The punctuation of the sentence around it stays.
pub(super) fn replace_urls(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        let scheme = before.trim_end_matches(|c: char| c.is_ascii_alphanumeric() || c == '+');
        out.push_str(scheme);
        let end = after.find(ends).unwrap_or(after.len());
        let (address, follows) = after.split_at_checked(end).unwrap_or((after, ""));
        let punctuation = address.trim_end_matches(['.', ',', ':', ';', '!', '?']);
        out.push_str("<url>");
        out.push_str(address.strip_prefix(punctuation).unwrap_or_default());
        rest = follows;
    }
    out.push_str(rest);
    out
}

fn ends(c: char) -> bool {
    c.is_whitespace() || c.is_control() || "\"'`<>()[]{}|".contains(c)
}
