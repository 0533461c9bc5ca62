//! Finding a limit of the account in what an agent says.

use jiff::tz::TimeZone;

use super::{QuotaKind, QuotaLimit, reset_time};
use crate::{
    Timestamp,
    failure::{classify::last_agent_lines, signature::strip_ansi},
    text::{one_line, tail},
};

/// The most of a text that is looked at, from its end.
const MOST_BYTES: usize = 16 * 1024;
/// The longest sentence about a limit.
const MESSAGE_CHARS: usize = 300;
/// The maximum number of words between `your` and `limit`.
const BETWEEN: usize = 6;

/// Words by which an account has run out of what only money brings.
const CREDITS: &[&str] = &[
    "credit balance is too low",
    "insufficient_quota",
    "insufficient credits",
    "exceeded your current quota",
    "quota exceeded. check your plan",
    "with your chatgpt plan, upgrade",
    "you hit your spend cap",
    "out of credits",
    "out of usage credits",
    "out of extra usage",
    "org is out of usage",
    "requires usage credits",
    "usage credits are required",
    "extra usage is required",
    "seat type doesn't include",
    "usage limit is set to $0",
    "hit your team's shared budget",
    "payment required",
    "billing hard limit",
];

/// Words that make a limit one of the account, where it is said to be reached.
const QUALIFIERS: &[&str] = &[
    "usage",
    "session",
    "weekly",
    "daily",
    "monthly",
    "hour",
    "5-hour",
    "five_hour",
    "seven_day",
    "opus",
    "sonnet",
    "haiku",
    "spend",
    "spending",
    "plan",
];

/// Words that make a limit another one: servers ask for fewer requests, and agents have
/// limits of their own.
const OTHERS: &[&str] = &[
    "rate",
    "request",
    "requests",
    "token",
    "tokens",
    "turn",
    "turns",
    "context",
    "output",
    "time",
    "size",
    "file",
    "memory",
    "budget",
    "concurrency",
    "connection",
    "length",
    "retry",
    "disk",
];

/// The beginnings of lines, in lower case, that report a limit that was reached.
const BEGINNINGS: &[&str] = &[
    "claude ai usage limit reached",
    "claude usage limit reached",
    "5-hour limit reached",
    "weekly limit reached",
    "the usage limit has been reached",
    "you've hit your ",
    "you have hit your ",
    "you've reached your ",
    "you have reached your ",
    "you've exceeded your ",
    "you exceeded your current quota",
    "you're out of ",
    "you are out of ",
    "you hit your spend cap",
    "credit balance is too low",
    "your credit balance is too low",
];

/// The beginnings of lines, in lower case, that report an account that cannot be used.
const NO_ACCESS: &[&str] = &[
    "invalid api key",
    "incorrect api key",
    "invalid x-api-key",
    "not logged in",
    "please run /login",
    "oauth token has expired",
    "401 unauthorized",
    "401 {",
    "unexpected status 401",
    "authentication_error",
    "openai.authenticationerror",
    "anthropic.authenticationerror",
];

/// The words that can stand before these beginnings.
const OPENINGS: &[&str] = &["fatal", "api", "error", "agent", "claude", "codex"];

/// Words that stand between a limit and what is said of it.
const FILLERS: &[&str] = &["has", "been", "is", "was", "will"];

impl QuotaLimit {
    /// Finds a limit of the account in what an agent or its provider says of an error.
    ///
    /// A time of day is the next such moment in the zone that the text names, or else in the
    /// machine's `zone`. A server that only asks for fewer requests sets no limit.
    pub fn find_in_text(text: &str, now: Timestamp, zone: &TimeZone) -> Option<Self> {
        let text = plain(tail(text, MOST_BYTES));
        // Only ASCII changes, so that a place in one is the same place in the other.
        let lower = text.to_ascii_lowercase();
        let words = words(&lower);
        let credits = CREDITS.iter().filter_map(|phrase| lower.rfind(phrase)).max();
        let usage = (0..words.len()).rev().find_map(|at| usage(&words, at));
        let (from, window) = usage.or_else(|| credits.map(|from| (from, None)))?;
        let rest = lower.get(from..).unwrap_or_default();
        let resets_at = reset_time::find_reset_time(rest, now, zone);
        let kind = match resets_at {
            None if credits.is_some() || is_money(rest) => QuotaKind::Credits,
            None | Some(_) => QuotaKind::Usage,
        };
        let before = text.get(..from).unwrap_or_default();
        let line_from = before.rfind('\n').map_or(0, |end| end + 1);
        let line = text.get(line_from..).and_then(|rest| rest.lines().next());
        let message = one_line(line.unwrap_or(&text), MESSAGE_CHARS);
        Some(Self { kind, resets_at, window, message })
    }

    /// Finds a limit of the account in the last lines of a program that failed.
    ///
    /// Such a program may have printed anything, and worked on a text about limits. So a line
    /// counts only if it begins as those about a limit do.
    pub fn find_in_output(printed: &str, now: Timestamp, zone: &TimeZone) -> Option<Self> {
        let printed = strip_ansi(last_agent_lines(printed));
        let mut lines: Vec<&str> = printed.lines().collect();
        let Some(at) = lines.iter().rposition(|line| starts_with_any(line, BEGINNINGS)) else {
            let line = lines.iter().rfind(|line| starts_with_any(line, NO_ACCESS))?;
            return Some(Self::no_access(one_line(line, MESSAGE_CHARS)));
        };
        // When it is lifted may stand in the lines after it.
        Self::find_in_text(&lines.split_off(at).join("\n"), now, zone)
    }
}

/// Returns whether a line begins in one of these ways.
fn starts_with_any(line: &str, beginnings: &[&str]) -> bool {
    let lower = plain(line).trim_start().to_ascii_lowercase();
    let mut rest = lower.as_str();
    while let Some(after) = OPENINGS.iter().find_map(|opening| rest.strip_prefix(opening)) {
        let next = after.trim_start_matches([':', ' ']);
        if next.len() == after.len() || beginnings.iter().any(|begins| rest.starts_with(begins)) {
            break;
        }
        rest = next;
    }
    beginnings.iter().any(|beginning| rest.starts_with(beginning))
}

/// Returns whether a limit is one of money.
fn is_money(text: &str) -> bool {
    text.contains("spend limit") || text.contains("credit limit")
}

/// A word and where it begins.
type LocatedWord<'a> = (usize, &'a str);

/// Returns where a sentence about a limit begins whose word `limit` is the given one, and
/// which limit it is.
fn usage(words: &[LocatedWord<'_>], at: usize) -> Option<(usize, Option<String>)> {
    let word = |at: usize| words.get(at).map(|(_, word)| *word);
    if !matches!(word(at), Some("limit" | "limits")) {
        return None;
    }
    let first = at.saturating_sub(BETWEEN + 2);
    let before = words.get(first..at).unwrap_or_default();
    if let Some(hit) = before.windows(2).rposition(|pair| {
        let pair: Vec<&str> = pair.iter().map(|(_, word)| *word).collect();
        matches!(pair.as_slice(), ["hit" | "reached" | "exceeded", "your"])
    }) {
        let between: Vec<&str> = before.iter().skip(hit + 2).map(|(_, word)| *word).collect();
        let is_other = between.iter().any(|word| OTHERS.contains(word));
        let window = Some(between.join(" ")).filter(|name| !name.is_empty() && name != "usage");
        let from = before.get(hit).map(|(from, _)| *from)?;
        return (!is_other).then_some((from, window));
    }
    let (from, qualifier) = *before.last()?;
    let after = (at + 1..at + 4).filter_map(word).find(|word| !FILLERS.contains(word));
    let is_reached = matches!(after, Some("reached" | "hit" | "exceeded"));
    if is_reached && QUALIFIERS.contains(&qualifier) {
        let window = Some(qualifier.to_owned()).filter(|name| name != "usage");
        return Some((from, window));
    }
    let will_reset = after == Some("reset") || after == Some("resets");
    (will_reset && (qualifier == "your" || QUALIFIERS.contains(&qualifier))).then_some((from, None))
}

/// Returns a text with plain apostrophes and spaces.
fn plain(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '’' | '‘' => '\'',
            '\u{a0}' | '\u{202f}' | '\u{2009}' => ' ',
            other => other,
        })
        .collect()
}

fn words(text: &str) -> Vec<LocatedWord<'_>> {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '\'' | '_' | '-');
    let mut words = Vec::new();
    let mut from = 0;
    for piece in text.split(|c| !is_part(c)) {
        if !piece.is_empty() {
            words.push((from, piece));
        }
        // Nothing but one character stands between two pieces.
        let gap = text.get(from + piece.len()..).and_then(|rest| rest.chars().next());
        from += piece.len() + gap.map_or(0, char::len_utf8);
    }
    words
}
