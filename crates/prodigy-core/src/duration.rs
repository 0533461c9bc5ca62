//! Durations as people write them.

use std::time::Duration;

const SECOND: u128 = 1_000_000_000;

/// The longest duration that is accepted. Adding it to any date that matters stays a date.
const LONGEST: u128 = 100 * 365 * 86_400 * SECOND;

/// The units, with their length in nanoseconds.
const UNITS: &[(&[&str], u128)] = &[
    (&["ms", "millisecond", "milliseconds"], 1_000_000),
    (&["s", "sec", "secs", "second", "seconds"], SECOND),
    (&["m", "min", "mins", "minute", "minutes"], 60 * SECOND),
    (&["h", "hr", "hrs", "hour", "hours"], 3600 * SECOND),
    (&["d", "day", "days"], 86_400 * SECOND),
    (&["w", "week", "weeks"], 7 * 86_400 * SECOND),
];

/// Reads `90` and `1.5` (seconds), `500ms`, `30s`, `1h 30m`, `2 minutes`, `1d`.
///
/// The error is one line for people, lower case and without a full stop.
pub fn parse(text: &str) -> Result<Duration, String> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err("a duration is missing; write for example `30s` or `1h 30m`".to_owned());
    }
    if rest.starts_with('-') {
        return Err(format!("`{text}` is negative; a duration cannot be"));
    }
    let mut total = 0_u128;
    let mut parts = 0;
    while !rest.is_empty() {
        let (number, after) = split(rest, |c| c.is_ascii_digit() || c == '.');
        if number.is_empty() {
            return Err(not_a_duration(text));
        }
        let (unit, after) = split(after.trim_start(), char::is_alphabetic);
        let nanos = match unit {
            "" if parts == 0 && after.is_empty() => SECOND,
            "" => {
                return Err(format!("`{number}` has no unit in `{text}`; write `{number}s`"));
            }
            unit => unit_nanos(unit).ok_or_else(|| {
                format!("`{unit}` is not a unit of time; use `ms`, `s`, `m`, `h`, `d` or `w`")
            })?,
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        if whole.is_empty() || !is_digits(fraction) {
            return Err(not_a_duration(text));
        }
        total = scaled(whole, fraction, nanos)
            .and_then(|part| total.checked_add(part))
            .filter(|total| *total <= LONGEST)
            .ok_or_else(|| format!("`{text}` is longer than 100 years"))?;
        parts += 1;
        rest = after.trim_start();
    }
    Ok(from_nanos(total))
}

/// Returns a duration for people: `340ms`, `2.3s`, `4m 10s`, `1h 05m`, `2d 03h`.
pub fn format(duration: Duration) -> String {
    let millis = duration.as_millis();
    let tenths = (millis + 50) / 100;
    let seconds = duration.as_secs();
    if millis == 0 {
        "0s".to_owned()
    } else if millis < 1000 {
        format!("{millis}ms")
    } else if tenths < 600 && tenths.is_multiple_of(10) {
        format!("{}s", tenths / 10)
    } else if tenths < 600 {
        format!("{}.{}s", tenths / 10, tenths % 10)
    } else if seconds < 3600 {
        // What rounds up to a minute was short of it: 59.96 s is shown as `1m 00s`.
        let seconds = seconds.max(60);
        format!("{}m {:02}s", seconds / 60, seconds % 60)
    } else if seconds < 86_400 {
        format!("{}h {:02}m", seconds / 3600, seconds % 3600 / 60)
    } else {
        format!("{}d {:02}h", seconds / 86_400, seconds % 86_400 / 3600)
    }
}

/// Splits text after the first characters that are wanted.
fn split(text: &str, wanted: impl Fn(char) -> bool) -> (&str, &str) {
    let end = text.find(|c| !wanted(c)).unwrap_or(text.len());
    text.split_at(end)
}

fn unit_nanos(unit: &str) -> Option<u128> {
    let unit = unit.to_lowercase();
    UNITS.iter().find(|(names, _)| names.contains(&unit.as_str())).map(|(_, nanos)| *nanos)
}

/// Multiplies a decimal number with a unit, exactly; `None` if the result is too large. Digits
/// below a nanosecond are dropped.
fn scaled(whole: &str, fraction: &str, unit: u128) -> Option<u128> {
    let mut part = 0;
    let mut place = unit;
    for digit in fraction.chars().filter_map(|digit| digit.to_digit(10)) {
        place /= 10;
        part += place * u128::from(digit);
    }
    whole.parse::<u128>().ok()?.checked_mul(unit)?.checked_add(part)
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn from_nanos(nanos: u128) -> Duration {
    let seconds = u64::try_from(nanos / SECOND).unwrap_or(u64::MAX);
    let rest = u32::try_from(nanos % SECOND).unwrap_or_default();
    Duration::new(seconds, rest)
}

fn not_a_duration(text: &str) -> String {
    format!("`{text}` is not a duration; write for example `30s` or `1h 30m`")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        let cases = [
            ("90", 90_000),
            ("0", 0),
            ("1.5", 1_500),
            ("0.0015", 1),
            ("500ms", 500),
            ("30s", 30_000),
            (" 30 s ", 30_000),
            ("1h 30m", 5_400_000),
            ("1h30m", 5_400_000),
            ("2 minutes", 120_000),
            ("1 Hour 2 Min 3 sec", 3_723_000),
            ("1d", 86_400_000),
            ("0.5h", 1_800_000),
            ("1w", 604_800_000),
        ];
        for (text, millis) in cases {
            let read = parse(text).unwrap();
            assert_eq!(read.as_millis(), millis, "{text}");
        }
    }

    #[test]
    fn a_bad_duration_says_what_is_wrong() {
        let cases = [
            "",
            "  ",
            "-5",
            "abc",
            "5 parsecs",
            "1h 30",
            "30 1h",
            "1.2.3s",
            ".5s",
            "5.",
            "1e3",
            "99999999999999999999999999999999999999999",
            "200 years",
            "40000d",
            "∞",
            "1h,30m",
        ];
        let shown: Vec<String> =
            cases.iter().map(|text| format!("{text:?}: {}", parse(text).unwrap_err())).collect();
        insta::assert_snapshot!(shown.join("\n"), @r#"
        "": a duration is missing; write for example `30s` or `1h 30m`
        "  ": a duration is missing; write for example `30s` or `1h 30m`
        "-5": `-5` is negative; a duration cannot be
        "abc": `abc` is not a duration; write for example `30s` or `1h 30m`
        "5 parsecs": `parsecs` is not a unit of time; use `ms`, `s`, `m`, `h`, `d` or `w`
        "1h 30": `30` has no unit in `1h 30`; write `30s`
        "30 1h": `30` has no unit in `30 1h`; write `30s`
        "1.2.3s": `1.2.3s` is not a duration; write for example `30s` or `1h 30m`
        ".5s": `.5s` is not a duration; write for example `30s` or `1h 30m`
        "5.": `5.` is not a duration; write for example `30s` or `1h 30m`
        "1e3": `e` is not a unit of time; use `ms`, `s`, `m`, `h`, `d` or `w`
        "99999999999999999999999999999999999999999": `99999999999999999999999999999999999999999` is longer than 100 years
        "200 years": `years` is not a unit of time; use `ms`, `s`, `m`, `h`, `d` or `w`
        "40000d": `40000d` is longer than 100 years
        "∞": `∞` is not a duration; write for example `30s` or `1h 30m`
        "1h,30m": `1h,30m` is not a duration; write for example `30s` or `1h 30m`
        "#);
    }

    #[test]
    fn durations_are_shown_for_people() {
        let millis = [0, 1, 340, 999, 1000, 2345, 9_950, 30_000, 59_940, 59_960, 60_000, 250_000];
        let mut shown: Vec<String> =
            millis.iter().map(|millis| format(Duration::from_millis(*millis))).collect();
        shown.push(format(Duration::from_secs(3_900)));
        shown.push(format(Duration::from_secs(2 * 86_400 + 3 * 3600)));
        shown.push(format(Duration::MAX));
        insta::assert_snapshot!(shown.join(", "), @"0s, 1ms, 340ms, 999ms, 1s, 2.3s, 10s, 30s, 59.9s, 1m 00s, 1m 00s, 4m 10s, 1h 05m, 2d 03h, 213503982334601d 07h");
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,30}") {
            parse(&text).ok();
        }

        #[test]
        fn what_is_shown_can_be_read_back(millis in 0_u64..1_000_000_000_000) {
            let shown = format(Duration::from_millis(millis));
            prop_assert_eq!(format(parse(&shown).unwrap()), shown);
        }
    }
}
