//! Sizes in bytes, as people write them.

/// The units; without one, a number counts bytes.
const UNITS: &[(&str, u64)] = &[
    ("b", 1),
    ("kb", 1000),
    ("mb", 1000 * 1000),
    ("gb", 1000 * 1000 * 1000),
    ("tb", 1000 * 1000 * 1000 * 1000),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
];

/// Reads `4096`, `32MiB`, `1.5 GB`. The error is one line for people.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a size; write for example `32MiB`");
    let trimmed = text.trim();
    let end = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(end);
    let unit = unit.trim().to_ascii_lowercase();
    let factor = match unit.as_str() {
        "" => 1,
        unit => {
            let known = UNITS.iter().find(|(name, _)| *name == unit);
            known.map(|(_, factor)| *factor).ok_or_else(wrong)?
        }
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return Err(wrong());
    }
    // A fraction of a byte, and digits that can only make one, are dropped.
    let fraction: String = fraction.chars().take(18).collect();
    let tens = 10_u128.pow(u32::try_from(fraction.len()).unwrap_or_default());
    let part = fraction.parse().unwrap_or(0_u128) * u128::from(factor) / tens;
    let bytes = whole.parse::<u128>().ok().and_then(|whole| whole.checked_mul(factor.into()));
    bytes
        .and_then(|bytes| u64::try_from(bytes.checked_add(part)?).ok())
        .ok_or_else(|| format!("`{text}` is too large"))
}

/// Returns a size for people: `512 B`, `32 MiB`, `1.5 GiB`.
pub(crate) fn show(bytes: u64) -> String {
    let units = UNITS.iter().rev().filter(|(_, factor)| factor.is_power_of_two());
    let names = ["TiB", "GiB", "MiB", "KiB"];
    for ((_, factor), name) in units.zip(names) {
        if bytes >= *factor {
            let (whole, tenths) = (bytes / factor, bytes % factor * 10 / factor);
            return if tenths == 0 {
                format!("{whole} {name}")
            } else {
                format!("{whole}.{tenths} {name}")
            };
        }
    }
    format!("{bytes} B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        let cases = [
            ("0", 0),
            ("4096", 4096),
            ("32MiB", 32 << 20),
            (" 32 mib ", 32 << 20),
            ("1.5KiB", 1536),
            ("200 MB", 200_000_000),
            ("2GiB", 2 << 30),
            ("1B", 1),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn a_bad_size_says_what_is_wrong() {
        let cases = ["", "MiB", "-1", "1.", ".5", "1.2.3", "5 apples", "1M", "99999999TiB"];
        let shown: Vec<String> = cases.iter().map(|text| parse(text).unwrap_err()).collect();
        insta::assert_snapshot!(shown.join("\n"), @"
        `` is not a size; write for example `32MiB`
        `MiB` is not a size; write for example `32MiB`
        `-1` is not a size; write for example `32MiB`
        `1.` is not a size; write for example `32MiB`
        `.5` is not a size; write for example `32MiB`
        `1.2.3` is not a size; write for example `32MiB`
        `5 apples` is not a size; write for example `32MiB`
        `1M` is not a size; write for example `32MiB`
        `99999999TiB` is too large
        ");
    }

    #[test]
    fn sizes_are_shown_for_people() {
        let sizes = [0, 1023, 1024, 1536, 32 << 20, (200 << 20) + 1, 5 << 30, u64::MAX];
        insta::assert_snapshot!(sizes.map(show).join(", "), @"0 B, 1023 B, 1 KiB, 1.5 KiB, 32 MiB, 200 MiB, 5 GiB, 16777215.9 TiB");
    }
}
