//! Limits of accounts in what agents say.

use jiff::{
    SignedDuration,
    tz::{TimeZone, TimeZoneDatabase},
};
use proptest::prelude::*;

use crate::{
    Timestamp,
    agent::{QuotaKind, QuotaLimit},
};

const NOW: &str = "2026-11-16T09:00:00Z";
const ZONES: &[&str] = &[
    "UTC",
    "America/New_York",
    "Europe/Berlin",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "America/St_Johns",
];

fn zone(name: &str) -> TimeZone {
    TimeZoneDatabase::bundled().get(name).unwrap()
}

fn limit(text: &str) -> Option<QuotaLimit> {
    QuotaLimit::find_in_text(text, NOW.parse().unwrap(), &zone("Europe/Berlin"))
}

fn table(texts: &[&str]) -> String {
    let row = |text: &&str| {
        let found = limit(text).map_or_else(
            || "-".to_owned(),
            |limit| {
                let until = limit.resets_at.map_or_else(|| "-".to_owned(), |at| at.to_string());
                let window = limit.window.as_deref().unwrap_or("-");
                format!("{:?} {until} {window}", limit.kind)
            },
        );
        format!("{found} | {}", text.replace('\n', "⏎").replace('\u{202f}', " "))
    };
    texts.iter().map(row).collect::<Vec<_>>().join("\n")
}

#[test]
fn every_known_form_of_a_usage_limit_is_found() {
    insta::assert_snapshot!(table(&[
        "Claude AI usage limit reached|1794826800",
        "Claude AI usage limit reached|1794826800000",
        "You've hit your session limit · resets 8pm (America/New_York)",
        "You've hit your 5-hour limit · resets 3:30am (Europe/Berlin)",
        "You've hit your weekly limit · resets Nov 18, 8pm (America/New_York)",
        "You've hit your weekly limit · resets Jan 3, 2027, 8:15am (Asia/Kolkata)",
        "You've hit your Opus limit · resets Nov 18 (UTC) · progress saved",
        "You've hit your org's monthly usage limit · resets Dec 1, 1am (Europe/Berlin)",
        "You've reached your weekly limit",
        "5-hour limit reached ∙ resets 3pm",
        "Weekly limit reached ∙ resets 11pm (Area/City)",
        "Claude usage limit reached. Your limit will reset at 3pm (UTC).",
        "Your limit will reset at 3pm (UTC)",
        "You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC.",
        "You’ve hit your usage limit. Upgrade to Pro (https://chatgpt.com/explore/pro), visit https://chatgpt.com/settings/usage to purchase more credits or try again at Nov 5th, 2026 3:14 PM.",
        "You've hit your usage limit. Upgrade to Plus to continue using Codex, or try again in 3 days 4 hours 12 minutes.",
        "You've hit your usage limit. Try again in less than a minute.",
        "You’ve hit your usage limit for GPT-5. Switch to another model now, or try again at 4:53\u{202f}AM.",
        "You’ve hit your usage limit. To get more access now, send a request to your admin or try again later.",
        "ERROR: the usage limit has been reached\nTry again at 2026-11-16T10:00:00Z",
        "You're out of usage credits · resets 6pm (UTC)",
    ]), @"
    Usage 2026-11-16T11:00:00Z - | Claude AI usage limit reached|1794826800
    Usage 2026-11-16T11:00:00Z - | Claude AI usage limit reached|1794826800000
    Usage 2026-11-17T01:00:00Z session | You've hit your session limit · resets 8pm (America/New_York)
    Usage 2026-11-17T02:30:00Z 5-hour | You've hit your 5-hour limit · resets 3:30am (Europe/Berlin)
    Usage 2026-11-19T01:00:00Z weekly | You've hit your weekly limit · resets Nov 18, 8pm (America/New_York)
    Usage 2027-01-03T02:45:00Z weekly | You've hit your weekly limit · resets Jan 3, 2027, 8:15am (Asia/Kolkata)
    Usage 2026-11-18T00:00:00Z opus | You've hit your Opus limit · resets Nov 18 (UTC) · progress saved
    Usage 2026-12-01T00:00:00Z org's monthly usage | You've hit your org's monthly usage limit · resets Dec 1, 1am (Europe/Berlin)
    Usage - weekly | You've reached your weekly limit
    Usage 2026-11-16T14:00:00Z 5-hour | 5-hour limit reached ∙ resets 3pm
    Usage 2026-11-16T22:00:00Z weekly | Weekly limit reached ∙ resets 11pm (Area/City)
    Usage 2026-11-16T15:00:00Z - | Claude usage limit reached. Your limit will reset at 3pm (UTC).
    Usage 2026-11-16T15:00:00Z - | Your limit will reset at 3pm (UTC)
    Usage 2026-12-01T00:00:00Z specified api usage | You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC.
    Usage 2026-11-05T14:14:00Z - | You’ve hit your usage limit. Upgrade to Pro (https://chatgpt.com/explore/pro), visit https://chatgpt.com/settings/usage to purchase more credits or try again at Nov 5th, 2026 3:14 PM.
    Usage 2026-11-19T13:12:00Z - | You've hit your usage limit. Upgrade to Plus to continue using Codex, or try again in 3 days 4 hours 12 minutes.
    Usage 2026-11-16T09:01:00Z - | You've hit your usage limit. Try again in less than a minute.
    Usage 2026-11-17T03:53:00Z - | You’ve hit your usage limit for GPT-5. Switch to another model now, or try again at 4:53 AM.
    Usage - - | You’ve hit your usage limit. To get more access now, send a request to your admin or try again later.
    Usage 2026-11-16T10:00:00Z - | ERROR: the usage limit has been reached⏎Try again at 2026-11-16T10:00:00Z
    Usage 2026-11-16T18:00:00Z - | You're out of usage credits · resets 6pm (UTC)
    ");
}

#[test]
fn what_only_money_lifts_has_no_end() {
    insta::assert_snapshot!(table(&[
        "Credit balance is too low",
        "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits.",
        "{\"error\":{\"code\":\"insufficient_quota\"}}",
        "You exceeded your current quota, please check your plan and billing details.",
        "Quota exceeded. Check your plan and billing details.",
        "Your workspace is out of credits. Add credits to continue.",
        "You hit your spend cap set in your workspace. Increase your spend cap to continue.",
        "You've hit your monthly spend limit. Switch to another model to continue.",
        "You've hit your team's shared budget. /model to switch models.",
        "You're out of usage credits. /model to switch models.",
        "Your org is out of usage · add funds to continue",
        "Opus 5 requires usage credits. /model to switch models.",
        "To use Codex with your ChatGPT plan, upgrade to Plus: https://chatgpt.com/explore/plus.",
    ]), @r#"
    Credits - - | Credit balance is too low
    Credits - - | Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits.
    Credits - - | {"error":{"code":"insufficient_quota"}}
    Credits - - | You exceeded your current quota, please check your plan and billing details.
    Credits - - | Quota exceeded. Check your plan and billing details.
    Credits - - | Your workspace is out of credits. Add credits to continue.
    Credits - - | You hit your spend cap set in your workspace. Increase your spend cap to continue.
    Credits - monthly spend | You've hit your monthly spend limit. Switch to another model to continue.
    Credits - - | You've hit your team's shared budget. /model to switch models.
    Credits - - | You're out of usage credits. /model to switch models.
    Credits - - | Your org is out of usage · add funds to continue
    Credits - - | Opus 5 requires usage credits. /model to switch models.
    Credits - - | To use Codex with your ChatGPT plan, upgrade to Plus: https://chatgpt.com/explore/plus.
    "#);
}

#[test]
fn a_server_that_wants_fewer_requests_sets_no_limit() {
    let texts = [
        "API Error: Request rejected (429) · This request would exceed your account's rate limit. Please try again later.",
        "API Error: 529 Overloaded. This is a server-side issue, usually temporary — try again in a moment.",
        "exceeded retry limit, last status: 429 Too Many Requests",
        "Rate limit reached for gpt-5 in organization org-x on tokens per min (TPM): Limit 30000. Please try again in 20ms.",
        "You've hit your rate limit, try again in 5 minutes",
        "Reached maximum number of turns (2)",
        "Reached maximum budget ($0.003)",
        "Prompt is too long · the request is ~215031 tokens (limit 200000)",
        "the file size limit was reached",
        "error: limit",
        "resets 8pm (America/New_York)",
        "",
    ];
    for text in texts {
        assert_eq!(limit(text), None, "{text}");
    }
}

#[test]
fn people_are_told_the_whole_line() {
    let text =
        "something else\nYou've hit your session limit · resets 8pm (America/New_York)\nmore";
    let message = limit(text).unwrap().message;
    assert_eq!(message, "You've hit your session limit · resets 8pm (America/New_York)");
}

#[test]
fn a_moment_that_has_only_just_passed_is_meant() {
    let at = |now: &str| {
        let text = "You've hit your session limit · resets 8pm (UTC)";
        let limit = QuotaLimit::find_in_text(text, now.parse().unwrap(), &TimeZone::UTC).unwrap();
        limit.resets_at.unwrap().to_string()
    };
    assert_eq!(at("2026-11-16T19:59:59Z"), "2026-11-16T20:00:00Z");
    assert_eq!(at("2026-11-16T20:01:00Z"), "2026-11-16T20:00:00Z");
    assert_eq!(at("2026-11-16T20:03:00Z"), "2026-11-17T20:00:00Z");
}

#[test]
fn a_date_that_has_passed_is_one_of_the_next_year() {
    let at = |now: &str, date: &str| {
        let text = format!("You've hit your weekly limit · resets {date}, 4am (UTC)");
        let limit = QuotaLimit::find_in_text(&text, now.parse().unwrap(), &TimeZone::UTC).unwrap();
        limit.resets_at.map(|at| at.to_string())
    };
    let december = "2026-12-30T09:00:00Z";
    assert_eq!(at(december, "Jan 2").as_deref(), Some("2027-01-02T04:00:00Z"));
    assert_eq!(at(december, "Dec 31").as_deref(), Some("2026-12-31T04:00:00Z"));
}

#[test]
fn quotes_and_spaces_of_printers_make_no_difference() {
    let texts = [
        "Your seat type doesn’t include this model",
        "You’ve hit your team’s shared budget",
        "You’ve hit your session limit · resets 8:15\u{202f}pm (UTC)",
    ];
    insta::assert_snapshot!(table(&texts), @"
    Credits - - | Your seat type doesn’t include this model
    Credits - - | You’ve hit your team’s shared budget
    Usage 2026-11-16T20:15:00Z session | You’ve hit your session limit · resets 8:15 pm (UTC)
    ");
}

#[test]
fn clocks_that_are_set_forward_and_back_are_understood() {
    let at = |now: &str, time: &str| {
        let text = format!("You've hit your session limit · resets {time} (America/New_York)");
        let limit = QuotaLimit::find_in_text(&text, now.parse().unwrap(), &TimeZone::UTC).unwrap();
        limit.resets_at.unwrap().to_string()
    };
    // On 8 March 2026 there is no 2:30 in New York.
    assert_eq!(at("2026-03-08T06:00:00Z", "2:30am"), "2026-03-08T07:30:00Z");
    // On 1 November 2026 there are two.
    assert_eq!(at("2026-11-01T05:00:00Z", "1:30am"), "2026-11-01T05:30:00Z");
    assert_eq!(at("2026-11-01T05:45:00Z", "1:30am"), "2026-11-01T06:30:00Z");
}

/// Returns whether Claude Code writes the day of a moment as well.
fn is_far(at: Timestamp, now: Timestamp) -> bool {
    at.duration_since(now) > SignedDuration::from_hours(24)
}

/// Writes a moment as Claude Code does.
fn as_written(at: Timestamp, now: Timestamp, name: &str) -> String {
    let shown = at.to_zoned(zone(name));
    let time = if shown.minute() == 0 { "%-I%P" } else { "%-I:%M%P" };
    let this_year = now.to_zoned(zone(name)).year();
    let date = match (is_far(at, now), shown.year() == this_year) {
        (false, _) => "",
        (true, true) => "%b %-d, ",
        (true, false) => "%b %-d, %Y, ",
    };
    format!("{} ({name})", shown.strftime(&format!("{date}{time}")))
}

fn moments() -> impl Strategy<Value = Timestamp> {
    // From 2024 to 2034.
    (1_704_067_200_i64..2_019_686_400).prop_map(|second| Timestamp::from_second(second).unwrap())
}

proptest! {
    #[test]
    fn a_moment_is_read_as_it_was_written(
        now in moments(),
        minutes in 1_i64..60 * 24 * 20,
        name in prop::sample::select(ZONES),
    ) {
        let at = now + SignedDuration::from_mins(minutes);
        // Seconds are left out.
        let at = Timestamp::from_second(at.as_second() / 60 * 60).unwrap();
        let reading = |at: Timestamp| at.to_zoned(zone(name)).datetime();
        // Without its day, what is almost a day ahead reads like what has only just passed.
        let day_before = reading(at) - SignedDuration::from_hours(24);
        let has_passed = day_before > reading(now) - SignedDuration::from_mins(2);
        prop_assume!(is_far(at, now) || !has_passed);
        let text = format!("You've hit your session limit · resets {}", as_written(at, now, name));
        let limit = QuotaLimit::find_in_text(&text, now, &TimeZone::UTC).unwrap();
        let found = limit.resets_at.unwrap();
        // Where clocks are set back, one reading stands for two moments.
        prop_assert_eq!(reading(found), reading(at));
        let apart = found.duration_since(at).abs();
        prop_assert!(apart <= SignedDuration::from_hours(1));
        prop_assert!(found > now - SignedDuration::from_mins(2));
    }

    #[test]
    fn seconds_and_milliseconds_are_told_apart(at in moments()) {
        let seconds = format!("Claude AI usage limit reached|{}", at.as_second());
        let milliseconds = format!("Claude AI usage limit reached|{}", at.as_millisecond());
        let expected = QuotaLimit {
            kind: QuotaKind::Usage,
            resets_at: Some(at),
            window: None,
            message: seconds.clone(),
        };
        prop_assert_eq!(limit(&seconds), Some(expected.clone()));
        prop_assert_eq!(limit(&milliseconds).unwrap().resets_at, expected.resets_at);
    }

    #[test]
    fn a_span_of_time_is_added(days in 0_i64..30, hours in 0_i64..24, minutes in 1_i64..60) {
        let text = format!("You've hit your usage limit or try again in {days} days {hours} hours {minutes} minutes.");
        let span = SignedDuration::from_mins((days * 24 + hours) * 60 + minutes);
        let now: Timestamp = NOW.parse().unwrap();
        prop_assert_eq!(limit(&text).unwrap().resets_at, Some(now + span));
    }

    #[test]
    fn no_text_is_too_strange(
        before in "\\PC{0,40}",
        after in "\\PC{0,60}",
        words in prop::collection::vec(prop::sample::select(&[
            "resets", "in", "at", "Nov", "31", "99999999999999999999", "pm", "13pm", "25:61", "(", "()",
            "(Nowhere/City)", "usage limit reached|", "limit", "hit your", "try again", "days", "-1", "2026-02-30",
        ][..]), 0..12),
    ) {
        let text = format!("{before} You've hit your usage limit {} {after}", words.join(" "));
        prop_assert!(limit(&text).is_some());
        // Whether there is one in these is open; they only must not be too much.
        drop(limit(&words.join(" ")));
        drop(limit(&before));
    }
}

/// Returns what the last lines of a program say of a limit.
fn last_lines(printed: &str) -> String {
    let found = QuotaLimit::find_in_output(printed, NOW.parse().unwrap(), &zone("Europe/Berlin"));
    found.map_or_else(
        || "-".to_owned(),
        |limit| {
            let until = limit.resets_at.map_or_else(|| "-".to_owned(), |at| at.to_string());
            format!("{:?} {until} {}", limit.kind, limit.message)
        },
    )
}

#[test]
fn a_program_that_failed_says_in_its_last_lines_that_a_limit_is_reached() {
    insta::assert_snapshot!([
        "Claude AI usage limit reached|1794826800",
        "working\n\nYou've hit your session limit · resets 8pm (America/New_York)\n\n",
        "\u{1b}[31mERROR: You’ve hit your usage limit. Upgrade to Pro (https://chatgpt.com/explore/pro) or try again at 3:45 PM.\u{1b}[0m",
        "API Error: Claude AI usage limit reached|1794826800\ngiving up\nexit 1",
        "  Credit balance is too low",
        "Error: You exceeded your current quota, please check your plan and billing details.",
        "ERROR: the usage limit has been reached\nTry again at 2026-11-16T10:00:00Z",
        "You've hit your weekly limit",
    ].map(last_lines).join("\n"), @"
    Usage 2026-11-16T11:00:00Z Claude AI usage limit reached|1794826800
    Usage 2026-11-17T01:00:00Z You've hit your session limit · resets 8pm (America/New_York)
    Usage 2026-11-16T14:45:00Z ERROR: You've hit your usage limit. Upgrade to Pro (https://chatgpt.com/explore/pro) or try again at 3:45 PM.
    Usage 2026-11-16T11:00:00Z API Error: Claude AI usage limit reached|1794826800
    Credits - Credit balance is too low
    Credits - Error: You exceeded your current quota, please check your plan and billing details.
    Usage 2026-11-16T10:00:00Z ERROR: the usage limit has been reached
    Usage - You've hit your weekly limit
    ");
}

#[test]
fn a_program_that_failed_while_it_worked_on_a_text_about_limits_has_reached_none() {
    for printed in [
        "",
        "I could not find out why `You've hit your session limit · resets 8pm` is printed twice",
        "\"You've hit your session limit · resets 8pm (America/New_York)\"",
        "> You've hit your session limit · resets 8pm (America/New_York)",
        "+You've hit your session limit · resets 8pm (America/New_York)",
        "12:You've hit your usage limit. Try again at 3:45 PM.",
        "src/limits.rs:7: usage limit reached|1794826800",
        "test usage_limit_reached ... FAILED",
        "assertion failed: usage limit reached",
        "Usage limit reached: expected true, found false",
        "You've hit your rate limit",
        "Error: payment required is not handled",
        "The credit balance is too low in the fixture",
        "the agent says Claude AI usage limit reached|1794826800",
        "You've hit your session limit · resets 8pm\n1\n2\n3\n4\n5",
    ] {
        assert_eq!(last_lines(printed), "-", "{printed}");
    }
}
