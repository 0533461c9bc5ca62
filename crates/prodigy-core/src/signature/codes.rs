//! Codes by which programs name an error, such as `E0308` or `TS2345`.

/// Words after which a code stands.
const ANNOUNCE: &[&str] = &["error", "warning", "fatal", "lint", "<path>"];

/// Returns true if a word alone looks like a code: `TS2345:`, `ORA-00942:`.
pub(super) fn is_code(word: &str, after: &str) -> bool {
    let Some((letters, digits)) = parts(word) else { return false };
    let is_long = letters.trim_end_matches('-').len() >= 2;
    // A ticket or an item may be called `ABC-123`.
    let is_plain = !letters.ends_with('-') || digits.len() == 5;
    after.starts_with(':') && is_long && is_plain
}

/// Returns true if the word before makes this one a code: `error[E0308]`, `SQLSTATE[23505]`.
pub(super) fn is_code_after(word: &str, preceding: &str) -> bool {
    let preceding = preceding.trim_matches(['.', ':', '!', '?']).to_ascii_lowercase();
    if preceding == "sqlstate" {
        let is_part = |b: u8| b.is_ascii_digit() || b.is_ascii_uppercase();
        return word.len() == 5 && word.bytes().all(is_part);
    }
    ANNOUNCE.contains(&preceding.as_str()) && parts(word).is_some()
}

/// Splits a word into capital letters and a number of three to five digits.
fn parts(word: &str) -> Option<(&str, &str)> {
    let at = word.find(|c: char| c.is_ascii_digit())?;
    let (letters, digits) = word.split_at_checked(at)?;
    let name = letters.strip_suffix('-').unwrap_or(letters);
    let is_name = (1..=6).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_uppercase());
    let is_number = (3..=5).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    (is_name && is_number).then_some((letters, digits))
}
