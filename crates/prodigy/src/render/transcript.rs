//! The transcript of an agent, for people.

use prodigy_core::agent::{QuotaLimit, StreamDialect, StreamEvent, StreamState};
use prodigy_engine::process::truncated_bytes;
use unicode_width::UnicodeWidthStr as _;

use crate::{progress::truncate, render::console::Style};

/// The widest that text is set: longer lines are hard to read.
const WIDEST: usize = 100;
/// The number of lines shown of a tool's error.
const ERROR_LINES: usize = 3;
/// From which part on it is worth a line that a limit is used up so far.
const WORTH_A_LINE: f64 = 0.75;

/// A line for people.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StyledLine {
    pub(crate) style: Style,
    pub(crate) text: String,
}

/// The stream state of an agent, and its presentation.
pub(crate) struct TranscriptPrinter {
    heard: StreamState,
    dialect: StreamDialect,
    /// The columns that there are, if they are limited.
    width: Option<usize>,
    /// The directory that the agent works in, with a slash.
    cwd: Option<String>,
    /// True if anything was shown.
    has_begun: bool,
    /// The last message of the agent.
    spoken: String,
    /// The usage of limits that was shown last, in percent.
    shares: Vec<(String, u32)>,
    /// The number of denied tools that were shown.
    denied: usize,
    /// A line that looks like the beginning of an event: it may be where a transcript was cut.
    held: Option<String>,
    /// True if the rest was not kept.
    is_cut: bool,
    shown: Vec<StyledLine>,
}

impl TranscriptPrinter {
    /// Begins with nothing told.
    pub(crate) fn new(width: Option<usize>) -> Self {
        let dialect = StreamDialect::Claude;
        Self {
            heard: StreamState::new(dialect),
            dialect,
            width,
            cwd: None,
            has_begun: false,
            spoken: String::new(),
            shares: Vec::new(),
            denied: 0,
            held: None,
            is_cut: false,
            shown: Vec::new(),
        }
    }

    /// Takes one line of a transcript and returns what is shown of it.
    pub(crate) fn push_line(&mut self, line: &[u8]) -> Vec<StyledLine> {
        if let Some(bytes) = truncated_bytes(line) {
            self.mark_truncated(bytes);
            return std::mem::take(&mut self.shown);
        }
        self.flush_held_line();
        let dialect = StreamDialect::detect(line).unwrap_or(self.dialect);
        if dialect != self.dialect {
            *self = Self { dialect, heard: StreamState::new(dialect), ..Self::new(self.width) };
        }
        let unreadable = self.heard.unparsed_lines();
        for notice in self.heard.handle_line(line) {
            self.handle_event(notice);
        }
        if self.heard.unparsed_lines() > unreadable {
            let text = String::from_utf8_lossy(line);
            if line.starts_with(b"{") {
                self.held = Some(text.into_owned());
            } else {
                self.push_text(&text);
            }
        }
        std::mem::take(&mut self.shown)
    }

    /// Says that the rest was not kept. The half of an event before that tells nobody anything.
    fn mark_truncated(&mut self, bytes: u64) {
        self.held = None;
        self.is_cut = true;
        let text = format!("cut off at `log_cap`: {bytes} more bytes were not kept");
        self.push_note(Style::Quiet, "… ", &text);
    }

    /// Shows a line that was held back.
    fn flush_held_line(&mut self) {
        if let Some(held) = self.held.take() {
            self.push_text(&held);
        }
    }

    /// Returns what is shown when nothing follows.
    pub(crate) fn finish(&mut self) -> Vec<StyledLine> {
        self.flush_held_line();
        if self.heard.events() > 0 && !self.heard.has_result() && !self.is_cut {
            self.push_note(Style::Bad, "✗ ", "it ended without a result");
        }
        std::mem::take(&mut self.shown)
    }

    /// Returns what is shown of events that are too long to be read.
    pub(crate) fn skipped_events_line(events: u64) -> StyledLine {
        let text = format!("  [{events} too long to be shown; see `--raw`]");
        StyledLine { style: Style::Quiet, text }
    }

    fn handle_event(&mut self, notice: StreamEvent) {
        match notice {
            StreamEvent::Session { id, model, cwd, permission_mode } => {
                self.cwd = cwd.map(|cwd| format!("{}/", cwd.trim_end_matches('/')));
                let parts = [Some(format!("session {id}")), model, permission_mode];
                let parts: Vec<String> = parts.into_iter().flatten().collect();
                self.push_note(Style::Quiet, "", &parts.join(" · "));
            }
            StreamEvent::Tool { name, about } => {
                let about = self.relative_to_worktree(&about);
                self.push_note(Style::Quiet, "› ", &format!("{name}  {about}"));
            }
            StreamEvent::Spoke { text } => {
                self.push_speech(&text);
                self.spoken = text;
            }
            StreamEvent::ToolFailed { text } => self.push_error(&text),
            StreamEvent::Usage(_) => {}
            StreamEvent::Retrying { attempt, status, error } => {
                let status = status.map(|status| format!("{status} ")).unwrap_or_default();
                let text = format!("request failed, try {attempt}: {status}{error}");
                self.push_note(Style::Bad, "↻ ", &text);
            }
            StreamEvent::Limit(limit) => self.push_limit(&limit),
            StreamEvent::Utilization { window, share, .. } => self.push_utilization(window, share),
            StreamEvent::Ended => self.push_end(),
        }
    }

    /// Returns what a tool is used for, without the place of the worktree, which everything is in.
    fn relative_to_worktree(&self, about: &str) -> String {
        self.cwd.as_ref().map_or_else(|| about.to_owned(), |cwd| about.replace(cwd, ""))
    }

    /// Shows what the agent said, apart from what it did before.
    fn push_speech(&mut self, text: &str) {
        if std::mem::replace(&mut self.has_begun, true) {
            self.shown.push(StyledLine { style: Style::Plain, text: String::new() });
        }
        self.push_text(text);
    }

    /// Shows text with lines broken between words.
    fn push_text(&mut self, text: &str) {
        let width = self.width.map(|width| width.min(WIDEST));
        for line in text.trim_end().lines() {
            let lines = width.map_or_else(|| vec![line.to_owned()], |width| wrap_line(line, width));
            self.shown
                .extend(lines.into_iter().map(|text| StyledLine { style: Style::Plain, text }));
        }
    }

    /// Shows one line that nobody said.
    fn push_note(&mut self, style: Style, sign: &str, text: &str) {
        let text = format!("  {sign}{}", text.trim_end());
        let text = self.width.map_or_else(|| text.clone(), |width| truncate(&text, width));
        self.shown.push(StyledLine { style, text });
        self.has_begun = true;
    }

    /// Shows the beginning of what a tool answered that failed.
    fn push_error(&mut self, text: &str) {
        let mut lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty());
        self.push_note(Style::Bad, "  ✗ ", lines.next().unwrap_or("it failed"));
        for line in lines.by_ref().take(ERROR_LINES - 1) {
            self.push_note(Style::Quiet, "    ", line);
        }
        let more = lines.count();
        if more > 0 {
            self.push_note(Style::Quiet, "    ", &format!("… {more} more lines"));
        }
    }

    fn push_limit(&mut self, limit: &QuotaLimit) {
        let until = limit.resets_at.map(|at| format!(", until {at}")).unwrap_or_default();
        self.push_note(Style::Bad, "✗ ", &format!("{}{until}", limit.message));
    }

    /// Shows how far a limit is used up, if that is much and was not shown before.
    fn push_utilization(&mut self, window: String, share: f64) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the cast saturates, and no share is negative"
        )]
        let percent = (share * 100.0) as u32;
        let known = self.shares.iter_mut().find(|(known, _)| *known == window);
        if share < WORTH_A_LINE || known.as_ref().is_some_and(|(_, known)| *known == percent) {
            return;
        }
        self.push_note(Style::Quiet, "", &format!("{percent} % of the limit `{window}` used"));
        match self.shares.iter_mut().find(|(known, _)| *known == window) {
            Some((_, known)) => *known = percent,
            None => self.shares.push((window, percent)),
        }
    }

    /// Shows what it came to: what it may not use, the answer if it was not said, and the sums.
    fn push_end(&mut self) {
        let denied = self.heard.denied().skip(self.denied);
        let denied: Vec<_> = denied
            .map(|one| format!("{}  {}", one.tool, self.relative_to_worktree(&one.about)))
            .collect();
        self.denied += denied.len();
        for one in denied {
            self.push_note(Style::Bad, "✗ ", &format!("not allowed: {one}"));
        }
        if let Some(answer) = self.heard.answer().map(str::trim)
            && !answer.starts_with(self.spoken.trim_end_matches('…'))
        {
            let answer = answer.to_owned();
            self.push_speech(&answer);
        }
        let sums = self.usage_summary();
        match self.heard.error_text() {
            // The program itself says what went wrong as if it were the model.
            Some(trouble) if self.spoken.trim() == trouble.trim() => {
                let parts = [vec!["ended with this error".to_owned()], sums].concat();
                self.push_note(Style::Bad, "✗ ", &parts.join(" · "));
            }
            Some(trouble) => {
                let trouble = trouble.lines().next().unwrap_or_default().to_owned();
                self.push_note(Style::Bad, "✗ ", &format!("ended: {trouble}"));
                self.push_note(Style::Quiet, "  ", &sums.join(" · "));
            }
            None => self.push_note(Style::Good, "✓ ", &sums.join(" · ")),
        }
    }

    /// Returns what it took.
    fn usage_summary(&self) -> Vec<String> {
        let turns = self.heard.turns().map(|turns| match turns {
            1 => "1 turn".to_owned(),
            turns => format!("{turns} turns"),
        });
        let cost = self.heard.cost_usd().filter(|cost| *cost > 0.0).map(format_usd);
        let tokens = self.heard.usage().total();
        let tokens = (tokens > 0).then(|| format!("{} tokens", format_compact(tokens)));
        [turns, cost, tokens].into_iter().flatten().collect()
    }
}

/// Returns an amount of money; small ones with more digits.
fn format_usd(cost: f64) -> String {
    if cost < 0.1 { format!("${cost:.4}") } else { format!("${cost:.2}") }
}

/// Returns a large number in a few characters.
fn format_compact(number: u64) -> String {
    match number {
        0..10_000 => number.to_string(),
        10_000..1_000_000 => format!("{}.{}k", number / 1000, number % 1000 / 100),
        _ => format!("{}.{}M", number / 1_000_000, number % 1_000_000 / 100_000),
    }
}

/// Returns a line in pieces that fit, broken between words, each as far from the left.
fn wrap_line(line: &str, width: usize) -> Vec<String> {
    if line.width() <= width {
        return vec![line.to_owned()];
    }
    let indent: String = line.chars().take_while(|c| *c == ' ').collect();
    let mut pieces = Vec::new();
    let mut piece = indent.clone();
    for word in line.split_whitespace() {
        let is_first = piece.len() == indent.len();
        if !is_first && piece.width() + 1 + word.width() > width {
            pieces.push(std::mem::replace(&mut piece, indent.clone()));
        } else if !is_first {
            piece.push(' ');
        }
        piece.push_str(word);
    }
    pieces.push(piece);
    pieces
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn shown(width: usize, events: &[Value]) -> String {
        let mut transcript = TranscriptPrinter::new(Some(width));
        let mut lines: Vec<StyledLine> = events
            .iter()
            .flat_map(|event| transcript.push_line(event.to_string().as_bytes()))
            .collect();
        lines.extend(transcript.finish());
        lines.into_iter().map(|line| line.text + "|\n").collect()
    }

    fn said(block: &Value) -> Value {
        json!({"type": "assistant", "message": {"content": [block]}})
    }

    fn used(tool: &str, input: &Value) -> Value {
        said(&json!({"type": "tool_use", "name": tool, "input": input}))
    }

    #[test]
    fn everything_fits_into_the_columns_there_are() {
        let text = "A line that is longer than this.\n\n    - an item with some words\nunbreakable-because-it-is-one-word 日本語日本語日本語日本語";
        let events = [
            json!({"type": "system", "subtype": "init", "session_id": "s", "cwd": "/home/ann/tree"}),
            said(&json!({"type": "text", "text": text})),
            used("Edit", &json!({"file_path": "/home/ann/tree/src/main.rs"})),
            used("Bash", &json!({"command": "cat /home/ann/tree/src/main.rs"})),
            json!({"type": "user", "message": {"content": [
                {"type": "tool_result", "is_error": true, "content": "one\n\ntwo\nthree\nfour\nfive"},
            ]}}),
            json!({"type": "user", "message": {"content": [
                {"type": "tool_result", "is_error": true, "content": ""},
            ]}}),
        ];
        insta::assert_snapshot!(shown(24, &events), @"
          session s|
        |
        A line that is longer|
        than this.|
        |
            - an item with some|
            words|
        unbreakable-because-it-is-one-word|
        日本語日本語日本語日本語|
          › Edit  src/main.rs|
          › Bash  cat src/main.…|
            ✗ one|
              two|
              three|
              … 2 more lines|
            ✗ it failed|
          ✗ it ended without a …|
        ");
    }

    #[test]
    fn a_limit_is_told_when_its_use_has_grown() {
        let used_up = |window: &str, share: f64| {
            let info = json!({"status": "allowed", "rateLimitType": window, "utilization": share});
            json!({"type": "rate_limit_event", "rate_limit_info": info})
        };
        let events = [
            used_up("five_hour", 0.5),
            used_up("five_hour", 0.8),
            used_up("five_hour", 0.801),
            used_up("seven_day", 0.8),
            used_up("five_hour", 1.2),
        ];
        insta::assert_snapshot!(shown(80, &events), @"
        80 % of the limit `five_hour` used|
        80 % of the limit `seven_day` used|
        120 % of the limit `five_hour` used|
        ✗ it ended without a result|
        ");
    }

    #[test]
    fn another_agent_begins_anew() {
        let events = [
            said(&json!({"type": "text", "text": "mine"})),
            json!({"type": "thread.started", "thread_id": "t"}),
        ];
        let mut transcript = TranscriptPrinter::new(None);
        for event in events {
            transcript.push_line(event.to_string().as_bytes());
        }
        assert_eq!(transcript.dialect, StreamDialect::Codex);
        assert_eq!(transcript.spoken, "");
    }

    #[test]
    fn numbers_are_short() {
        let numbers =
            [0, 9_999, 10_000, 999_999, 1_000_000, 12_345_678].map(format_compact).join(" ");
        insta::assert_snapshot!(numbers, @"0 9999 10.0k 999.9k 1.0M 12.3M");
        insta::assert_snapshot!([0.004_21, 0.1, 12.345].map(format_usd).join(" "), @"$0.0042 $0.10 $12.35");
    }
}
