//! When a limit is lifted, as far as a text says so.

use jiff::{
    SignedDuration,
    civil::{Date, DateTime, Time},
    tz::{TimeZone, TimeZoneDatabase},
};

use super::quota::timestamp_from_epoch;
use crate::Timestamp;

/// The words that stand before the moment at which a limit is lifted.
const CUES: &[&str] =
    &["limit reached|", "resets", "reset", "try again", "regain access", "available again"];
/// The maximum number of words after a cue that can belong to a moment.
const MOST_WORDS: usize = 16;
/// Agents leave out the seconds, so that a moment that has only just passed is meant.
const JUST_PASSED: SignedDuration = SignedDuration::from_mins(2);

const MONTHS: &[&str] =
    &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// Returns when a limit is lifted. The text is in lower case.
pub(crate) fn find_reset_time(text: &str, now: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    CUES.iter().find_map(|cue| {
        text.match_indices(cue).find_map(|(at, _)| {
            let after = text.get(at + cue.len()..)?;
            read(after, now, zone)
        })
    })
}

/// The parts of a moment that were found.
#[derive(Default)]
struct DateParts {
    year: Option<i16>,
    month: Option<i8>,
    day: Option<i8>,
    time: Option<Time>,
    zone: Option<TimeZone>,
}

fn read(text: &str, now: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    let words: Vec<&str> = text.split_whitespace().take(MOST_WORDS).collect();
    let is_filler = |word: &&&str| matches!(trim(word), "at" | "on" | "after" | "");
    let skipped = words.iter().take_while(is_filler).count();
    let words = words.get(skipped..)?;
    let first = trim(words.first()?);
    if first == "in" {
        return now.checked_add(duration(words.get(1..)?)?).ok();
    }
    if first.len() >= 9 && first.bytes().all(|b| b.is_ascii_digit()) {
        return timestamp_from_epoch(first.parse().ok()?);
    }
    if let Ok(exact) = first.to_ascii_uppercase().parse::<Timestamp>() {
        return Some(exact);
    }
    let parts = parts(words);
    let zone = parts.zone.clone().unwrap_or_else(|| zone.clone());
    parts.moment(now, &zone)
}

/// Returns a word without what stands around it.
fn trim(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_alphanumeric())
}

/// Returns how long it takes: `3 days 4 hours 12 minutes`, `2h 5m`.
fn duration(words: &[&str]) -> Option<SignedDuration> {
    let mut sum = SignedDuration::ZERO;
    let mut number = None;
    let mut is_some = false;
    for word in words {
        let word = trim(word);
        let digits = word.find(|c: char| !c.is_ascii_digit()).unwrap_or(word.len());
        let (count, unit) = word.split_at(digits);
        if !count.is_empty() {
            number = Some(count.parse::<i64>().ok()?);
        }
        let unit = match (unit, number) {
            ("" | "and" | "less" | "than" | "about", _) => continue,
            ("a" | "an" | "one", _) => {
                number = Some(1);
                continue;
            }
            (unit, Some(_)) => seconds(unit),
            (_, None) => break,
        };
        let Some(unit) = unit else { break };
        let seconds = number.take().unwrap_or_default().checked_mul(unit)?;
        sum = sum.checked_add(SignedDuration::from_secs(seconds))?;
        is_some = true;
    }
    is_some.then_some(sum)
}

fn seconds(unit: &str) -> Option<i64> {
    match unit {
        "s" | "sec" | "secs" | "second" | "seconds" => Some(1),
        "m" | "min" | "mins" | "minute" | "minutes" => Some(60),
        "h" | "hr" | "hrs" | "hour" | "hours" => Some(60 * 60),
        "d" | "day" | "days" => Some(24 * 60 * 60),
        "w" | "week" | "weeks" => Some(7 * 24 * 60 * 60),
        _ => None,
    }
}

/// Returns what the first words say of a moment.
fn parts(words: &[&str]) -> DateParts {
    let mut parts = DateParts::default();
    let mut rest = words.iter().copied().peekable();
    while let Some(whole) = rest.next() {
        let word = trim(whole);
        if whole.starts_with('(') {
            // A name of several words is none of a zone.
            parts.zone = zone_named(word);
            break;
        }
        if let Some(month) = month(word) {
            parts.month = Some(month);
        } else if let Ok(date) = word.parse::<Date>() {
            parts.year = Some(date.year());
            parts.month = Some(date.month());
            parts.day = Some(date.day());
        } else if let Some(time) = time(word, rest.peek().map(|next| trim(next))) {
            parts.time = Some(time);
            rest.next_if(|next| matches!(trim(next), "am" | "pm"));
        } else if let Some(number) = ordinal(word) {
            match i8::try_from(number) {
                Ok(day) => parts.day = Some(day),
                Err(_) => parts.year = Some(number),
            }
        } else if matches!(word, "utc" | "gmt") {
            parts.zone = Some(TimeZone::UTC);
        } else if !matches!(word, "at" | "on" | "") {
            break;
        }
    }
    parts
}

impl DateParts {
    fn moment(&self, now: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let today = zone.to_datetime(now).date();
        let earliest = now - JUST_PASSED;
        let next = |mut dates: [Option<Date>; 2], time: Time| {
            let moments = dates.iter_mut().flatten().flat_map(|date| at(*date, time, zone));
            moments.flatten().find(|moment| *moment > earliest)
        };
        match (self.month, self.day, self.time) {
            (Some(month), Some(day), time) => {
                let time = time.unwrap_or(Time::midnight());
                let date = |year: i16| Date::new(year, month, day).ok();
                match self.year {
                    Some(year) => at(date(year)?, time, zone).into_iter().flatten().next(),
                    // A date that has passed is one of the next year.
                    None => next([date(today.year()), date(today.year() + 1)], time),
                }
            }
            (None, _, Some(time)) => next([Some(today), today.tomorrow().ok()], time),
            (Some(_), None, _) | (None, _, None) => None,
        }
    }
}

/// Returns the moments at which clocks show a time: two where they are set back.
fn at(date: Date, time: Time, zone: &TimeZone) -> [Option<Timestamp>; 2] {
    let shown = DateTime::from_parts(date, time);
    let ambiguous = || zone.to_ambiguous_timestamp(shown);
    [ambiguous().compatible().ok(), ambiguous().later().ok()]
}

/// Returns the zone of that name.
///
/// The names come with prodigy, so that it does not matter which ones the machine knows.
fn zone_named(name: &str) -> Option<TimeZone> {
    TimeZoneDatabase::bundled().get(name).ok()
}

fn month(word: &str) -> Option<i8> {
    let names = MONTHS.iter().zip(1_i8..);
    let mut found = names.filter(|(name, _)| word.starts_with(*name) && word.len() <= 9);
    found.next().map(|(_, number)| number)
}

/// Returns a number, also one that counts: `5th`.
fn ordinal(word: &str) -> Option<i16> {
    let ends = ["st", "nd", "rd", "th"];
    let digits = ends.iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word);
    digits.parse().ok()
}

/// Returns a time of day: `8pm`, `3:30am`, `3:14 PM`, `15:14`.
fn time(word: &str, next: Option<&str>) -> Option<Time> {
    let half = ["am", "pm"].into_iter().find(|half| word.ends_with(half));
    let digits = half.and_then(|half| word.strip_suffix(half)).unwrap_or(word);
    let half = half.or_else(|| next.filter(|next| matches!(*next, "am" | "pm")));
    if half.is_none() && !digits.contains(':') {
        return None;
    }
    let mut numbers = digits.split(':').map(|number| number.parse::<i8>().ok());
    let hour = numbers.next()??;
    let minute = numbers.next().unwrap_or(Some(0))?;
    let second = numbers.next().unwrap_or(Some(0))?;
    let hour = match half {
        Some(_) if !(1..=12).contains(&hour) => return None,
        Some("pm") => hour % 12 + 12,
        Some(_) => hour % 12,
        None => hour,
    };
    numbers.next().is_none().then(|| Time::new(hour, minute, second, 0).ok())?
}
