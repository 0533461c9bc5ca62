//! Taking what differs from case to case out of a message.

use super::{ansi_escapes::strip_ansi, quotes::replace_quoted};

/// The most characters of a message that are looked at.
const MOST_READ: usize = 2000;
/// The most characters of what comes out.
const MOST_KEPT: usize = 200;
/// The maximum number of repeated passes over a text.
const MOST_PASSES: usize = 8;
/// The most characters of one word; longer ones are data.
const LONGEST_WORD: usize = 48;

/// Returns a message without paths, numbers, ids, times, addresses, colours and quoted text.
///
/// The codes by which compilers and databases name an error stay: they tell causes apart.
///
/// It takes time in proportion to the length, and the result is short. What comes
/// out goes in again unchanged.
pub fn normalize(message: &str) -> String {
    let mut text = normal_once(message);
    // What was taken out of a word may make it one that is taken out as a whole.
    for _ in 0..MOST_PASSES {
        let again = normal_once(&text);
        if again == text {
            break;
        }
        text = again;
    }
    text
}

fn normal_once(message: &str) -> String {
    let read: String = message.chars().take(MOST_READ).collect();
    let text = replace_urls(&replace_quoted(&strip_ansi(&read)));
    let mut out = String::new();
    let mut kept = 0;
    let mut before = String::new();
    for word in text.split_inclusive(is_separator) {
        let separator = word.chars().next_back().filter(|c| is_separator(*c));
        let word = separator.map_or(word, |c| word.strip_suffix(c).unwrap_or(word));
        let piece = normal_word(word, &before);
        kept += piece.chars().count() + 1;
        if kept > MOST_KEPT {
            // At the end of the text this would close a quotation.
            out.truncate(out.trim_end_matches([' ', '\'']).len());
            break;
        }
        out.push_str(&piece);
        if !piece.is_empty() {
            before = piece;
        }
        match separator {
            // Line breaks and tabs are spaces, and one is enough.
            Some(c) if c.is_whitespace() || c.is_control() => {
                if !out.is_empty() && !out.ends_with(' ') {
                    out.push(' ');
                } else {
                    kept -= 1;
                }
            }
            Some(c) => out.push(c),
            None => {}
        }
    }
    out.truncate(out.trim_end().len());
    out
}

fn is_separator(c: char) -> bool {
    c.is_whitespace() || c.is_control() || "()[]{},;=|\"'`".contains(c)
}

/// Returns a word without what differs; the punctuation around it stays.
///
/// `preceding` is the word before it, which may say that it is the code of an error.
fn normal_word(word: &str, preceding: &str) -> String {
    const PUNCTUATION: &[char] = &['.', ':', '!', '?'];
    let from_core = word.trim_start_matches(PUNCTUATION);
    let core = from_core.trim_end_matches(PUNCTUATION);
    let before = word.strip_suffix(from_core).unwrap_or_default();
    let after = from_core.strip_prefix(core).unwrap_or_default();
    let core = if is_code(core, after) || is_code_after(core, preceding) {
        core.to_owned()
    } else if core.contains("://") {
        "<url>".to_owned()
    } else if is_time(core) || is_duration(core) {
        "<time>".to_owned()
    } else if is_size(core) {
        "<size>".to_owned()
    } else if is_host(core) {
        "<host>".to_owned()
    } else if is_email(core) {
        "<email>".to_owned()
    } else if is_path(core) {
        "<path>".to_owned()
    } else {
        without_numbers(core)
    };
    // The dots of `./x` and `../x` belong to the path.
    let is_relative = core == "<path>" && from_core.starts_with(['/', '\\']);
    let before = if is_relative { before.trim_end_matches('.') } else { before };
    let normal = format!("{before}{core}{after}");
    if normal.chars().count() > LONGEST_WORD { "<long>".to_owned() } else { normal }
}

/// Returns true if a word is a path or the name of a file, perhaps with a line number.
fn is_path(word: &str) -> bool {
    let is_count = |text: &str| is_number(text) || text == "<n>";
    if word.split_once('/').is_some_and(|(part, whole)| is_count(part) && is_count(whole)) {
        return false;
    }
    if word.contains(['/', '\\']) {
        return word.chars().any(char::is_alphanumeric);
    }
    let mut name = word;
    while let Some((start, end)) = name.rsplit_once(':')
        && is_number(end)
    {
        name = start;
    }
    let Some((stem, extension)) = name.rsplit_once('.') else { return false };
    let is_short = (1..=5).contains(&extension.len());
    let is_plain = extension.bytes().all(|b| b.is_ascii_alphanumeric());
    let is_named = extension.bytes().next().is_some_and(|b| b.is_ascii_alphabetic());
    // `e.g` is no file; `a.c:5` and `a.o` are.
    let is_source = name.len() < word.len() || "chos".contains(extension);
    let is_abbreviation = extension.len() == 1 && stem.len() == 1 && !is_number(stem) && !is_source;
    !stem.is_empty() && is_short && is_plain && is_named && !is_abbreviation
}

/// Replaces numbers, hashes and made-up ids within a word.
fn without_numbers(word: &str) -> String {
    let mut out = String::new();
    // The sign belongs to the number.
    let signed = word.strip_prefix(['-', '+']);
    let mut rest = signed.filter(|rest| starts_with_digit(rest)).unwrap_or(word);
    while let Some(c) = rest.chars().next() {
        if let Some(after) = uuid(rest) {
            out.push_str("<id>");
            rest = after;
        } else if c.is_ascii_alphanumeric() {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
            let (run, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
            let ends_in_digit = run.bytes().next_back().is_some_and(|b| b.is_ascii_digit());
            rest = if ends_in_digit { after_decimals(after) } else { after };
            out.push_str(&normal_run(run));
        } else {
            out.push(c);
            rest = rest.strip_prefix(c).unwrap_or_default();
        }
    }
    out
}

fn starts_with_digit(text: &str) -> bool {
    text.bytes().next().is_some_and(|b| b.is_ascii_digit())
}

fn is_number(run: &str) -> bool {
    !run.is_empty() && run.bytes().all(|b| b.is_ascii_digit())
}

/// Returns what follows the rest of a number: `1.5` and `1.20.3` are one.
fn after_decimals(text: &str) -> &str {
    let mut rest = text;
    while let Some(more) = rest.strip_prefix('.')
        && starts_with_digit(more)
    {
        rest = more.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    rest
}

/// Returns what follows a UUID, if there is one.
fn uuid(text: &str) -> Option<&str> {
    let (start, after) = text.split_at_checked(36)?;
    let groups: Vec<&str> = start.split('-').collect();
    let is_group = |(group, length): (&&str, usize)| {
        group.len() == length && group.bytes().all(|b| b.is_ascii_hexdigit())
    };
    let is_end = !after.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
    (groups.len() == 5 && is_end && groups.iter().zip([8, 4, 4, 4, 12]).all(is_group))
        .then_some(after)
}

/// Replaces the numbers of a run of letters and digits, or all of it if it is a
/// hash or an id that a program made up.
fn normal_run(run: &str) -> String {
    let kinds: Vec<bool> = run.bytes().map(|b| b.is_ascii_digit()).collect();
    let changes = kinds.windows(2).filter(|pair| pair.first() != pair.last()).count();
    let is_hex = |text: &str| text.bytes().all(|b| b.is_ascii_hexdigit());
    if changes > 0 && (run.len() >= 7 && is_hex(run) || run.strip_prefix("0x").is_some_and(is_hex))
    {
        // One hash in thirty has no letter among its first digits, so it must not make a difference.
        return "<n>".to_owned();
    }
    if changes >= 3 {
        return "<id>".to_owned();
    }
    let mut out = String::new();
    let mut in_number = false;
    for c in run.chars() {
        if !c.is_ascii_digit() {
            out.push(c);
        } else if !in_number {
            out.push_str("<n>");
        }
        in_number = c.is_ascii_digit();
    }
    out
}

/// Returns true if a word is a date, a time of day or both: `2026-01-02T03:04:05Z`.
pub(crate) fn is_time(word: &str) -> bool {
    let is_part = |b: u8| b.is_ascii_digit() || b"-:.+TZ".contains(&b);
    let starts = |byte: u8| word.bytes().filter(|b| *b == byte).count();
    let is_date = word.bytes().take_while(u8::is_ascii_digit).count() == 4 && starts(b'-') >= 2;
    word.bytes().all(is_part)
        && word.bytes().next().is_some_and(|b| b.is_ascii_digit())
        && (is_date || starts(b':') >= 2)
}

/// Returns true if a word is a duration: `5ms`, `2.5s`, `1h30m`.
pub(crate) fn is_duration(word: &str) -> bool {
    const UNITS: &[&str] =
        &["ns", "us", "µs", "ms", "s", "sec", "secs", "m", "min", "mins", "h", "hr", "hrs", "d"];
    are_amounts(word, UNITS)
}

/// Returns true if a word is an amount of bytes: `512B`, `1.5GiB`.
pub(crate) fn is_size(word: &str) -> bool {
    const UNITS: &[&str] = &[
        "B", "b", "kB", "KB", "kb", "MB", "Mb", "mb", "GB", "Gb", "gb", "TB", "KiB", "MiB", "GiB",
        "TiB", "K", "M", "G",
    ];
    are_amounts(word, UNITS)
}

/// Returns true if a word consists of numbers that are each followed by one of the units.
fn are_amounts(word: &str, units: &[&str]) -> bool {
    let is_digit = |c: char| c.is_ascii_digit() || c == '.';
    let mut rest = word;
    while rest.starts_with(|c: char| c.is_ascii_digit()) {
        let unit = rest.trim_start_matches(is_digit);
        let end = unit.find(is_digit).unwrap_or(unit.len());
        let Some((unit, after)) = unit.split_at_checked(end) else { return false };
        if !units.contains(&unit) {
            return false;
        }
        rest = after;
    }
    rest.is_empty() && !word.is_empty()
}

/// Returns true if a word is a host name or address, perhaps with a port.
pub(crate) fn is_host(word: &str) -> bool {
    const ENDS: &[&str] = &[
        "com",
        "org",
        "net",
        "io",
        "dev",
        "ai",
        "app",
        "cloud",
        "edu",
        "gov",
        "local",
        "internal",
        "localdomain",
        "lan",
        "test",
        "example",
    ];
    let (name, port) = word.split_once(':').unwrap_or((word, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !is_number(port) && port != "<n>" {
        return false;
    }
    let labels: Vec<&str> = name.split('.').collect();
    let is_label = |label: &&str| {
        !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    let is_address = labels.len() == 4 && labels.iter().all(|label| is_number(label));
    let is_name = labels.len() > 1 && labels.last().is_some_and(|last| ENDS.contains(last));
    name == "localhost" || is_address || is_name && labels.iter().all(is_label)
}

/// Returns true if a word is an email address.
pub(crate) fn is_email(word: &str) -> bool {
    let Some((name, domain)) = word.split_once('@') else { return false };
    let Some((_, end)) = domain.rsplit_once('.') else { return false };
    let is_plain = |text: &str| {
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._+-".contains(&b))
    };
    is_plain(name)
        && is_plain(domain)
        && !end.is_empty()
        && end.bytes().all(|b| b.is_ascii_alphabetic())
}

/// Words after which a code stands.
const ANNOUNCE: &[&str] = &["error", "warning", "fatal", "lint", "<path>"];

/// Returns true if a word alone looks like a code: `TS2345:`, `ORA-00942:`.
pub(crate) fn is_code(word: &str, after: &str) -> bool {
    let Some((letters, digits)) = parts(word) else { return false };
    let is_long = letters.trim_end_matches('-').len() >= 2;
    // A ticket or an item may be called `ABC-123`.
    let is_plain = !letters.ends_with('-') || digits.len() == 5;
    after.starts_with(':') && is_long && is_plain
}

/// Returns true if the word before makes this one a code: `error[E0308]`, `SQLSTATE[23505]`.
pub(crate) fn is_code_after(word: &str, preceding: &str) -> bool {
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

/// Returns a message with each `scheme://…` replaced by `<url>`.
///
/// The punctuation of the sentence around it stays.
pub(crate) fn replace_urls(text: &str) -> String {
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
