//! Words that stand for a moment, an amount or an address.

/// Returns true if a word is a date, a time of day or both: `2026-01-02T03:04:05Z`.
pub(super) fn is_time(word: &str) -> bool {
    let is_part = |b: u8| b.is_ascii_digit() || b"-:.+TZ".contains(&b);
    let starts = |byte: u8| word.bytes().filter(|b| *b == byte).count();
    let is_date = word.bytes().take_while(u8::is_ascii_digit).count() == 4 && starts(b'-') >= 2;
    word.bytes().all(is_part)
        && word.bytes().next().is_some_and(|b| b.is_ascii_digit())
        && (is_date || starts(b':') >= 2)
}

/// Returns true if a word is a duration: `5ms`, `2.5s`, `1h30m`.
pub(super) fn is_duration(word: &str) -> bool {
    const UNITS: &[&str] =
        &["ns", "us", "µs", "ms", "s", "sec", "secs", "m", "min", "mins", "h", "hr", "hrs", "d"];
    are_amounts(word, UNITS)
}

/// Returns true if a word is an amount of bytes: `512B`, `1.5GiB`.
pub(super) fn is_size(word: &str) -> bool {
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
pub(super) fn is_host(word: &str) -> bool {
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
pub(super) fn is_email(word: &str) -> bool {
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
