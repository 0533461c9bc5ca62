//! The lines at the bottom of a terminal while items are worked on.

use std::time::Duration;

use jiff::tz::TimeZone;
use prodigy_core::{
    Timestamp, duration,
    job::{AgentActivity, BusyAgent, ItemSummary},
};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::{
    item_reporter::ItemReporter,
    totals::{TotalsPart, time_until, totals, whole_seconds},
};
use crate::render::{
    console::one_line,
    spend::{format_compact, format_usd},
};

/// The most agents that are shown, each on a line.
const MOST_AGENTS: usize = 12;
/// An agent that was not heard of for so long is said to be quiet.
const QUIET: Duration = Duration::from_secs(30);
/// The least room for a step's name; with less, it is left out.
const LEAST_STEP: usize = 8;

/// The size of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TerminalSize {
    /// Its columns.
    pub(crate) width: usize,
    /// Its rows.
    pub(crate) height: usize,
}

/// Returns the totals and the busy agents, in lines that fit.
pub(crate) fn status_lines(
    items: &ItemSummary,
    teller: &ItemReporter,
    frame: &str,
    (now, zone): (Timestamp, &TimeZone),
    size: TerminalSize,
) -> Vec<String> {
    // A terminal that wraps at its last column would break the lines.
    let width = size.width.saturating_sub(1);
    let mut lines = vec![fitted(frame, totals(items, teller, now, zone), width)];
    // The last row stays free: what is printed above must not push the first line out.
    let room = size.height.saturating_sub(2).min(MOST_AGENTS);
    let shown = if items.agents.len() <= room { room } else { room.saturating_sub(1) };
    let names = items.agents.iter().take(shown);
    let names: Vec<_> = names.map(|(agent, busy)| (agent.to_string(), busy)).collect();
    let widest = |of: &dyn Fn(&(String, &BusyAgent)) -> usize| names.iter().map(of).max();
    let columns = AgentColumns {
        agent: widest(&|(agent, _)| agent.width()).unwrap_or(0),
        item: widest(&|(_, busy)| busy.item.as_str().width()).unwrap_or(0).min(width / 3),
        width,
    };
    lines.extend(names.iter().map(|(agent, busy)| columns.line(agent, busy, now)));
    let more = items.agents.len() - names.len();
    if more > 0 && room > 0 {
        lines.push(truncate(&format!("  … and {more} more"), width));
    }
    lines
}

/// The column widths of an agent's line.
struct AgentColumns {
    agent: usize,
    item: usize,
    width: usize,
}

impl AgentColumns {
    fn line(&self, agent: &str, busy: &BusyAgent, now: Timestamp) -> String {
        let item = truncate(busy.item.as_str(), self.item);
        let who = format!("  {}  {}", padded(agent, self.agent), padded(&item, self.item));
        let step = match &busy.step {
            Some((_, name)) => one_line(name),
            None => "starting".to_owned(),
        };
        let step = match busy.attempt {
            0 | 1 => step,
            attempt => format!("(attempt {attempt}) {step}"),
        };
        let step = activity_text(step, &busy.activity);
        let elapsed = duration::format(whole_seconds(time_until(now, busy.since)));
        let mut ends = line_endings(&busy.activity, now, &elapsed).into_iter();
        let fits = ends.find_map(|end| {
            let room = self.width.checked_sub(who.width() + end.width() + 4)?;
            (room >= LEAST_STEP).then(|| format!("{who}  {}  {end}", truncate(&step, room)))
        });
        fits.unwrap_or_else(|| truncate(&format!("{}  {elapsed}", who.trim_end()), self.width))
    }
}

/// Says what a step does, as far as its agent told.
pub(crate) fn activity_text(step: String, activity: &AgentActivity) -> String {
    match &activity.tool {
        Some((tool, about)) if about.is_empty() => format!("{step} · {}", one_line(tool)),
        Some((tool, about)) => format!("{step} · {}: {}", one_line(tool), one_line(about)),
        None => step,
    }
}

/// Returns how the line of an agent may end, the longest first: how long it has been quiet,
/// what it used, how long it takes.
pub(crate) fn line_endings(activity: &AgentActivity, now: Timestamp, elapsed: &str) -> [String; 3] {
    let quiet = time_until(now, activity.heard);
    let is_quiet = activity.is_talking && quiet >= QUIET;
    let quiet = is_quiet.then(|| format!("quiet {}", duration::format(whole_seconds(quiet))));
    let used = match activity.cost_usd {
        cost if cost > 0.0 => Some(format_usd(cost)),
        _ => Some(activity.tokens.total())
            .filter(|total| *total > 0)
            .map(|total| format!("{} tokens", format_compact(total))),
    };
    let joined = |parts: [&Option<String>; 2]| {
        let parts = parts.into_iter().flatten().map(String::as_str);
        parts.chain([elapsed]).collect::<Vec<_>>().join(" · ")
    };
    [joined([&quiet, &used]), joined([&quiet, &None]), elapsed.to_owned()]
}

/// Returns the parts that fit, behind the picture of the spinner.
fn fitted(frame: &str, mut parts: Vec<TotalsPart>, width: usize) -> String {
    loop {
        let texts: Vec<_> = parts.iter().map(|part| part.text.as_str()).collect();
        let line = format!("{frame} {}", texts.join(" · "));
        let first = parts.iter().map(|part| part.gives_way).max();
        if line.width() <= width || parts.len() <= 1 {
            return truncate(&line, width);
        }
        parts.retain(|part| Some(part.gives_way) != first);
    }
}

/// Returns text with spaces behind it, so that it has a width.
pub(crate) fn padded(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(text.width())))
}

/// Returns text that fits into some columns.
pub(crate) fn truncate(text: &str, room: usize) -> String {
    if text.width() <= room {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut used = 1;
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used > room {
            break;
        }
        kept.push(c);
    }
    if room > 0 {
        kept.push('…');
    }
    kept
}

#[cfg(test)]
mod tests {
    use prodigy_core::{job::Job, workflow::ErrorCollection};
    use serde_json::json;

    use super::*;
    use crate::progress::job_fixture::JobFixture;

    /// Returns the block of a job with so many busy agents, after 90 items ended in a minute.
    fn shown(agents: u32, width: usize, height: usize) -> String {
        let mut told = JobFixture::new(400);
        for item in 1..=90 {
            told.start(item, 1, 1);
            told.wait(600);
            if item % 30 == 0 {
                told.fail(item, 1, "dead_letter", "exit code 1");
            } else {
                told.complete(item, 1, "c0", 0);
            }
        }
        for agent in 1..=agents {
            told.start(90 + agent, agent, 1 + u32::from(agent == 2));
        }
        lines(&told, 61_500, TerminalSize { width, height })
    }

    fn lines(told: &JobFixture, now: i64, size: TerminalSize) -> String {
        let mut teller = ItemReporter::new(ErrorCollection::Aggregate, 10);
        let mut job = Job::default();
        for record in &told.records {
            job.apply(record).unwrap();
            job.cost_usd = 1.234;
            teller.handle_record(record, &job);
        }
        let (items, now) =
            (teller.items.as_ref().unwrap(), crate::progress::job_fixture::timestamp_at(now));
        let lines = status_lines(items, &teller, "⠋", (now, &TimeZone::UTC), size);
        assert!(lines.len() < size.height.max(2), "{lines:#?}");
        for line in &lines {
            assert!(line.width() < size.width, "{line}");
        }
        lines.join("\n")
    }

    #[test]
    fn totals_and_agents_fit_any_width() {
        insta::assert_snapshot!(shown(3, 200, 24), @"
        ⠋ 87/400 done · 3 running · 3 failed · 3 in DLQ · 1.4/s · about 4m left · $1.23
          agent-1  item-091  shell: cargo test  7s
          agent-2  item-092  (attempt 2) shell: cargo test  7s
          agent-3  item-093  shell: cargo test  7s
        ");
        insta::assert_snapshot!(shown(3, 80, 24), @"
        ⠋ 87/400 done · 3 running · 3 failed · 3 in DLQ · 1.4/s · about 4m left · $1.23
          agent-1  item-091  shell: cargo test  7s
          agent-2  item-092  (attempt 2) shell: cargo test  7s
          agent-3  item-093  shell: cargo test  7s
        ");
        insta::assert_snapshot!(shown(3, 60, 24), @"
        ⠋ 87/400 done · 3 running · 3 failed · about 4m left
          agent-1  item-091  shell: cargo test  7s
          agent-2  item-092  (attempt 2) shell: cargo test  7s
          agent-3  item-093  shell: cargo test  7s
        ");
        insta::assert_snapshot!(shown(3, 40, 24), @"
        ⠋ 87/400 done · 3 running · 3 failed
          agent-1  item-091  shell: cargo …  7s
          agent-2  item-092  (attempt 2) s…  7s
          agent-3  item-093  shell: cargo …  7s
        ");
        insta::assert_snapshot!(shown(3, 20, 24), @"
        ⠋ 87/400 done
          agent-1  item-… …
          agent-2  item-… …
          agent-3  item-… …
        ");
    }

    #[test]
    fn many_agents_are_cut_to_the_height_of_the_terminal() {
        insta::assert_snapshot!(shown(50, 50, 24), @"
        ⠋ 87/400 done · 50 running · 3 failed
          agent-1   item-091  shell: cargo test  7s
          agent-2   item-092  (attempt 2) shell: car…  7s
          agent-3   item-093  shell: cargo test  7s
          agent-4   item-094  shell: cargo test  7s
          agent-5   item-095  shell: cargo test  7s
          agent-6   item-096  shell: cargo test  7s
          agent-7   item-097  shell: cargo test  7s
          agent-8   item-098  shell: cargo test  7s
          agent-9   item-099  shell: cargo test  7s
          agent-10  item-100  shell: cargo test  7s
          agent-11  item-101  shell: cargo test  7s
          … and 39 more
        ");
        insta::assert_snapshot!(shown(50, 50, 6), @"
        ⠋ 87/400 done · 50 running · 3 failed
          agent-1  item-091  shell: cargo test  7s
          agent-2  item-092  (attempt 2) shell: carg…  7s
          agent-3  item-093  shell: cargo test  7s
          … and 47 more
        ");
        insta::assert_snapshot!(shown(50, 50, 3), @"
        ⠋ 87/400 done · 50 running · 3 failed
          … and 50 more
        ");
        insta::assert_snapshot!(shown(50, 50, 1), @"⠋ 87/400 done · 50 running · 3 failed");
    }

    #[test]
    fn an_open_circuit_is_counted_down() {
        let mut told = JobFixture::new(400);
        told.start(1, 1, 1);
        told.fail(1, 1, "dead_letter", "exit code 1");
        let until = crate::progress::job_fixture::timestamp_at(30_000);
        told.emit(json!({"event_type": "circuit_open", "failures": 1, "until": until}));
        let size = TerminalSize { width: 80, height: 24 };
        insta::assert_snapshot!(lines(&told, 7_000, size), @"⠋ 0/400 done · 1 failed · 1 in DLQ · circuit open for 23s · $1.23");
        insta::assert_snapshot!(lines(&told, 31_000, size), @"⠋ 0/400 done · 1 failed · 1 in DLQ · circuit open for 0s · $1.23");
        told.emit(json!({"event_type": "circuit_half_open"}));
        insta::assert_snapshot!(lines(&told, 31_000, TerminalSize { width: 40, height: 24 }), @"⠋ 0/400 done · circuit half open");
    }

    /// Returns a job in which an agent works for a while, after others were at it.
    fn at_work() -> JobFixture {
        let mut told = JobFixture::new(400);
        told.start(1, 1, 1);
        told.start(2, 2, 1);
        let tool = json!({
            "event_type": "agent_tool_used", "step": "1", "tool": "Bash",
            "about": "cargo test --workspace", "uses": 3,
        });
        let usage = json!({
            "event_type": "agent_usage", "step": "1", "agent": "claude", "cost_usd": 0.12,
            "tokens": {"input_tokens": 12_345},
        });
        let untold = json!({
            "event_type": "agent_usage", "step": "1", "agent": "codex",
            "tokens": {"input_tokens": 12_345},
        });
        told.emit_for_item(1, Some(1), usage);
        told.emit_for_item(2, Some(2), untold);
        told.wait(10_000);
        told.emit_for_item(1, Some(1), tool);
        told
    }

    #[test]
    fn an_agent_is_shown_with_its_tool_what_it_used_and_how_long_it_is_quiet() {
        let told = at_work();
        insta::assert_snapshot!(lines(&told, 20_000, TerminalSize { width: 90, height: 24 }), @"
        ⠋ 0/400 done · 2 running · at least $1.23
          agent-1  item-001  shell: cargo test · Bash: cargo test --workspace  $0.12 · 20s
          agent-2  item-002  shell: cargo test  12.3k tokens · 20s
        ");
        insta::assert_snapshot!(lines(&told, 70_000, TerminalSize { width: 90, height: 24 }), @"
        ⠋ 0/400 done · 2 running · at least $1.23
          agent-1  item-001  shell: cargo test · Bash: cargo test…  quiet 1m 00s · $0.12 · 1m 10s
          agent-2  item-002  shell: cargo test  12.3k tokens · 1m 10s
        ");
        insta::assert_snapshot!(lines(&told, 70_000, TerminalSize { width: 50, height: 24 }), @"
        ⠋ 0/400 done · 2 running · at least $1.23
          agent-1  item-001  shell: cargo test ·…  1m 10s
          agent-2  item-002  shell: cargo test  1m 10s
        ");
        insta::assert_snapshot!(lines(&told, 70_000, TerminalSize { width: 44, height: 24 }), @"
        ⠋ 0/400 done · 2 running · at least $1.23
          agent-1  item-001  shell: cargo …  1m 10s
          agent-2  item-002  shell: cargo …  1m 10s
        ");
    }

    #[test]
    fn what_keeps_a_job_is_shown_and_counted_down() {
        let size = TerminalSize { width: 90, height: 24 };
        let mut told = JobFixture::new(400);
        let fewer = json!({
            "event_type": "concurrency_changed", "max": 4, "reason": "the provider has no room",
        });
        told.emit(fewer);
        insta::assert_snapshot!(lines(&told, 1_000, size), @"⠋ 0/400 done · throttled to 4 of 10 · $1.23");
        let limit = json!({"kind": "usage", "message": "5-hour limit reached"});
        let until = crate::progress::job_fixture::timestamp_at(2_520_000);
        told.emit(json!({"event_type": "quota_paused", "limit": limit, "paused_until": until}));
        insta::assert_snapshot!(lines(&told, 1_000, size), @"⠋ 0/400 done · usage limit · resumes 03:46:05 (in 41m 59s) · $1.23");
        told.wait(2_520_000);
        told.start(1, 1, 1);
        insta::assert_snapshot!(lines(&told, 2_521_000, size), @"
        ⠋ 0/400 done · 1 running · usage limit · trying with one agent · $1.23
          agent-1  item-001  shell: cargo test  1s
        ");
        told.emit(json!({"event_type": "quota_resumed"}));
        let spent = json!({"event_type": "budget_exceeded", "scope": "job", "limit_usd": 1, "spent_usd": 1.5});
        told.emit(spent);
        insta::assert_snapshot!(lines(&told, 2_522_000, size), @"
        ⠋ 0/400 done · 1 running · budget spent · $1.23
          agent-1  item-001  shell: cargo test  2s
        ");
    }

    #[test]
    fn wide_and_evil_names_do_not_break_the_lines() {
        let mut told = JobFixture::new(400);
        told.start(1, 1, 1);
        let name = "日本語の名前が長いときどうなるか\x1b[31m\nforged";
        let step = json!({"event_type": "step_started", "step": "2", "name": name, "attempt": 1});
        told.emit_for_item(1, Some(1), step);
        insta::assert_snapshot!(lines(&told, 1_000, TerminalSize { width: 80, height: 24 }), @r#"
        ⠋ 0/400 done · 1 running · $1.23
          agent-1  item-001  日本語の名前が長いときどうなるか\u{1b}[31m\nforged  1s
        "#);
        insta::assert_snapshot!(lines(&told, 1_000, TerminalSize { width: 50, height: 24 }), @"
        ⠋ 0/400 done · 1 running · $1.23
          agent-1  item-001  日本語の名前が長いとき…  1s
        ");
    }
}
