//! The lines at the bottom of a terminal while items are worked on.

use prodigy_core::{
    Timestamp, duration,
    job::{BusyAgent, ItemSummary},
};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::items::{Part, totals, until_from, whole_seconds};
use crate::output::one_line;

/// The most agents that are shown, each on a line.
const MOST_AGENTS: usize = 12;
/// The least room for a step's name; with less, it is left out.
const LEAST_STEP: usize = 8;

/// The size of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    /// Its columns.
    pub(super) width: usize,
    /// Its rows.
    pub(super) height: usize,
}

/// Returns the totals and the busy agents, in lines that fit.
pub(super) fn block(
    items: &ItemSummary,
    cost_usd: f64,
    frame: &str,
    now: Timestamp,
    size: Size,
) -> Vec<String> {
    // A terminal that wraps at its last column would break the lines.
    let width = size.width.saturating_sub(1);
    let mut lines = vec![fitted(frame, totals(items, cost_usd, now), width)];
    // The last row stays free: what is printed above must not push the first line out.
    let room = size.height.saturating_sub(2).min(MOST_AGENTS);
    let shown = if items.agents.len() <= room { room } else { room.saturating_sub(1) };
    let names = items.agents.iter().take(shown);
    let names: Vec<_> = names.map(|(agent, busy)| (agent.to_string(), busy)).collect();
    let widest = |of: &dyn Fn(&(String, &BusyAgent)) -> usize| names.iter().map(of).max();
    let columns = Columns {
        agent: widest(&|(agent, _)| agent.width()).unwrap_or(0),
        item: widest(&|(_, busy)| busy.item.as_str().width()).unwrap_or(0).min(width / 3),
        width,
    };
    lines.extend(names.iter().map(|(agent, busy)| columns.line(agent, busy, now)));
    let more = items.agents.len() - names.len();
    if more > 0 && room > 0 {
        lines.push(shortened(&format!("  … and {more} more"), width));
    }
    lines
}

/// How the line of an agent is laid out.
struct Columns {
    agent: usize,
    item: usize,
    width: usize,
}

impl Columns {
    fn line(&self, agent: &str, busy: &BusyAgent, now: Timestamp) -> String {
        let elapsed = duration::show(whole_seconds(until_from(now, busy.since)));
        let item = shortened(busy.item.as_str(), self.item);
        let who = format!("  {}  {}", padded(agent, self.agent), padded(&item, self.item));
        let step = match &busy.step {
            Some((_, name)) => one_line(name),
            None => "starting".to_owned(),
        };
        let step = match busy.attempt {
            0 | 1 => step,
            attempt => format!("(attempt {attempt}) {step}"),
        };
        let room = self.width.saturating_sub(who.width() + elapsed.width() + 4);
        if room < LEAST_STEP {
            return shortened(&format!("{}  {elapsed}", who.trim_end()), self.width);
        }
        format!("{who}  {}  {elapsed}", shortened(&step, room))
    }
}

/// Returns the parts that fit, behind the picture of the spinner.
fn fitted(frame: &str, mut parts: Vec<Part>, width: usize) -> String {
    loop {
        let texts: Vec<_> = parts.iter().map(|part| part.text.as_str()).collect();
        let line = format!("{frame} {}", texts.join(" · "));
        let first = parts.iter().map(|part| part.gives_way).max();
        if line.width() <= width || parts.len() <= 1 {
            return shortened(&line, width);
        }
        parts.retain(|part| Some(part.gives_way) != first);
    }
}

/// Returns text with spaces behind it, so that it has a width.
pub(crate) fn padded(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(text.width())))
}

/// Returns text that fits into some columns.
pub(crate) fn shortened(text: &str, room: usize) -> String {
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
    use serde_json::json;

    use super::{super::fixture::Told, *};

    /// Returns the block of a job with so many busy agents, after 90 items ended in a minute.
    fn shown(agents: u32, width: usize, height: usize) -> String {
        let mut told = Told::new(400);
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
        lines(&told, 61_500, Size { width, height })
    }

    fn lines(told: &Told, now: i64, size: Size) -> String {
        let mut items = ItemSummary::new(400, super::super::fixture::at(0));
        told.records.iter().for_each(|record| items.apply(record));
        let lines = block(&items, 1.234, "⠋", super::super::fixture::at(now), size);
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
        let mut told = Told::new(400);
        told.start(1, 1, 1);
        told.fail(1, 1, "dead_letter", "exit code 1");
        let until = super::super::fixture::at(30_000);
        told.tell(json!({"event_type": "circuit_open", "failures": 1, "until": until}));
        let size = Size { width: 80, height: 24 };
        insta::assert_snapshot!(lines(&told, 7_000, size), @"⠋ 0/400 done · 1 failed · 1 in DLQ · circuit open for 23s · $1.23");
        insta::assert_snapshot!(lines(&told, 31_000, size), @"⠋ 0/400 done · 1 failed · 1 in DLQ · circuit open for 0s · $1.23");
        told.tell(json!({"event_type": "circuit_half_open"}));
        insta::assert_snapshot!(lines(&told, 31_000, Size { width: 40, height: 24 }), @"⠋ 0/400 done · circuit half open");
    }

    #[test]
    fn wide_and_evil_names_do_not_break_the_lines() {
        let mut told = Told::new(400);
        told.start(1, 1, 1);
        let name = "日本語の名前が長いときどうなるか\x1b[31m\nforged";
        let step = json!({"event_type": "step_started", "step": "2", "name": name, "attempt": 1});
        told.item(1, Some(1), step);
        insta::assert_snapshot!(lines(&told, 1_000, Size { width: 80, height: 24 }), @r#"
        ⠋ 0/400 done · 1 running · $1.23
          agent-1  item-001  日本語の名前が長いときどうなるか\u{1b}[31m\nforged  1s
        "#);
        insta::assert_snapshot!(lines(&told, 1_000, Size { width: 50, height: 24 }), @"
        ⠋ 0/400 done · 1 running · $1.23
          agent-1  item-001  日本語の名前が長いとき…  1s
        ");
    }
}
