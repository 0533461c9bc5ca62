//! The stream of events that an agent prints, and what it comes to.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::{
    QuotaLimit, StreamTotals, TokenUsage, claude, codex, reported_error::ReportedError,
    usage::TokenCounter,
};
use crate::{
    Timestamp,
    text::{head, tail},
};

/// The longest answer that is kept.
pub(super) const ANSWER_BYTES: usize = 1024 * 1024;
/// The most of what an agent says that one notice carries.
pub(super) const SPOKEN_BYTES: usize = 16 * 1024;
/// The most of what a tool answers that one notice carries.
pub(super) const RESULT_BYTES: usize = 2 * 1024;
/// The longest line about what a tool is used for.
pub(super) const ABOUT_CHARS: usize = 120;
/// The maximum number of denied tools that are remembered.
pub(super) const DENIALS: usize = 20;
/// The number of bytes kept of the lines that are no events.
const LAST_WORDS_BYTES: usize = 4096;

/// The way in which an agent writes its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamDialect {
    /// `claude --print --output-format stream-json`.
    Claude,
    /// `codex exec --json`.
    Codex,
}

/// Something in a stream that somebody may want to know while the agent works.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamEvent {
    /// The agent began.
    Session {
        /// The name under which the agent can go on later.
        id: String,
        /// The model it uses.
        model: Option<String>,
        /// The directory it works in.
        cwd: Option<String>,
        /// The permission mode, in the agent's words.
        permission_mode: Option<String>,
    },
    /// It uses a tool.
    Tool {
        /// The tool, in the agent's words.
        name: String,
        /// The purpose: the command, the path. One short line without control characters.
        about: String,
    },
    /// It said something.
    Spoke {
        /// The text, from its beginning.
        text: String,
    },
    /// A tool failed or was not allowed.
    ToolFailed {
        /// The tool's answer, from its beginning.
        text: String,
    },
    /// The agent used more. This is all that it used so far.
    Usage(TokenUsage),
    /// A request failed, and the agent makes it again by itself.
    Retrying {
        /// Which try failed, from 1.
        attempt: u32,
        /// The status that the server returned.
        status: Option<u16>,
        /// The reason, in the agent's words.
        error: String,
    },
    /// A limit of the account keeps the agent from going on.
    Limit(QuotaLimit),
    /// The utilization of a limit of the account.
    Utilization {
        /// The limit, in the provider's words.
        window: String,
        /// The part that is used, where 1 is all of it. It can be more than all.
        share: f64,
        /// When it begins anew, if the provider said so.
        resets_at: Option<Timestamp>,
    },
    /// The agent gave an answer or gave up.
    ///
    /// More may follow: an agent with work in the background speaks again when that is done.
    Ended,
}

/// A tool that the agent wanted to use and was not allowed to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeniedTool {
    /// The tool, in the agent's words.
    pub tool: String,
    /// The purpose: the command, the path. One short line without control characters.
    pub about: String,
}

/// Everything that a stream has told so far.
///
/// It is a fold: [`StreamState::handle_line`] takes the lines one by one. However long the stream is, what
/// is kept has a bound.
#[derive(Clone, Debug)]
pub struct StreamState {
    dialect: StreamDialect,
    pub(super) session: Option<String>,
    pub(super) model: Option<String>,
    pub(super) counter: TokenCounter,
    /// The usage of earlier processes of the same session.
    before: TokenUsage,
    /// The cost of these processes.
    before_usd: f64,
    pub(super) cost_usd: Option<f64>,
    /// The last words of the agent's model, cut; nothing if the program said something since.
    pub(super) spoken: String,
    /// The size of what it said last, in words, if that is too large to be kept.
    pub(super) oversize: Option<String>,
    /// The number of tools that the agent used.
    pub(super) tools: u64,
    /// The last error, if nothing succeeded since.
    pub(super) trouble: Option<ReportedError>,
    /// The limit that stands in the way, if nothing went well since.
    pub(super) limit: Option<QuotaLimit>,
    /// The last result.
    pub(super) ending: Option<StreamResult>,
    /// Set if the last thing it did was to give a result.
    pub(super) is_at_rest: bool,
    /// Set while agents below it work in the background; it speaks again when they are done.
    pub(super) has_background: bool,
    /// True if a result began that cannot be read.
    pub(super) is_torn: bool,
    /// Turns of the results before the last one and of the last one.
    pub(super) turns: Option<u32>,
    /// Tools that were not allowed, each with the id of its use.
    denied: Vec<(String, DeniedTool)>,
    events: u64,
    unreadable: u64,
    last_words: String,
}

/// The content of an agent's result.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct StreamResult {
    /// The answer.
    pub(super) answer: String,
    /// The answer in the form that was asked for, as JSON.
    pub(super) structured: Option<String>,
    /// The size of an answer that is too large to be kept as a whole, in words.
    pub(super) oversize: Option<String>,
    /// Set if its text is what the model said last, and not what the program says.
    pub(super) is_of_model: bool,
    /// The error that the result reports, if any.
    pub(super) trouble: Option<ReportedError>,
}

impl StreamState {
    /// Creates a stream of which nothing was heard yet.
    pub fn new(dialect: StreamDialect) -> Self {
        Self {
            dialect,
            session: None,
            model: None,
            counter: TokenCounter::default(),
            before: TokenUsage::default(),
            before_usd: 0.0,
            cost_usd: None,
            spoken: String::new(),
            oversize: None,
            tools: 0,
            trouble: None,
            limit: None,
            ending: None,
            is_at_rest: false,
            has_background: false,
            is_torn: false,
            turns: None,
            denied: Vec::new(),
            events: 0,
            unreadable: 0,
            last_words: String::new(),
        }
    }

    /// Creates the stream of an agent that goes on in a session of which earlier processes used
    /// the given tokens and cost so much. Some agents count those again.
    pub fn resumed(dialect: StreamDialect, before: TokenUsage, before_usd: f64) -> Self {
        Self { before, before_usd, ..Self::new(dialect) }
    }

    /// Takes one line, with or without its end, and returns what is worth telling.
    ///
    /// One line can tell several things: what an agent says and what it used for that.
    pub fn handle_line(&mut self, line: &[u8]) -> Vec<StreamEvent> {
        let mut notices = Vec::new();
        // Replacing what is no text is slow also where there is nothing to replace.
        let line =
            str::from_utf8(line).map_or_else(|_| String::from_utf8_lossy(line), Cow::Borrowed);
        let text = line.trim();
        if text.is_empty() {
            return notices;
        }
        let is_event = match self.dialect {
            StreamDialect::Claude => claude::handle_event(self, text, &mut notices),
            StreamDialect::Codex => codex::handle_event(self, text, &mut notices),
        };
        if is_event {
            self.events = self.events.saturating_add(1);
        } else {
            self.not_understood(text);
        }
        notices
    }

    /// Returns the name under which the agent can go on later.
    pub fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// Returns the model that the agent uses.
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// Returns what was used so far.
    ///
    /// Before the first result it is less than the truth: agents tell how much was written in a
    /// message only at the end.
    pub fn usage(&self) -> TokenUsage {
        self.counter.total()
    }

    /// Returns the sums of everything that was heard.
    pub fn totals(&self) -> StreamTotals {
        StreamTotals {
            settled: self.counter.settled(),
            unsettled: self.counter.unsettled(),
            cost_usd: self.cost_usd,
            model: self.model.clone(),
        }
    }

    /// Returns whether its model did anything for it.
    pub(super) fn was_served(&self) -> bool {
        !self.usage().is_empty() || !self.spoken.is_empty() || self.tools > 0
    }

    /// Returns what it cost by the agent's own estimate, which comes with a result.
    pub fn cost_usd(&self) -> Option<f64> {
        self.cost_usd
    }

    /// Returns the limit that stands in the way, if nothing went well since.
    pub fn limit(&self) -> Option<&QuotaLimit> {
        self.limit.as_ref()
    }

    /// Returns whether the agent gave an answer or gave up.
    pub fn has_result(&self) -> bool {
        self.ending.is_some()
    }

    /// Returns whether the agent has given its result and has nothing left to do: a process that
    /// goes on now only lingers.
    pub fn is_idle(&self) -> bool {
        self.is_at_rest && !self.has_background
    }

    /// Returns whether the last result says that all went well.
    pub fn has_answered(&self) -> bool {
        self.ending.as_ref().is_some_and(|ending| ending.trouble.is_none())
    }

    /// Returns how many events were heard, also of unknown kinds.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Returns how many lines were no events.
    pub fn unparsed_lines(&self) -> u64 {
        self.unreadable
    }

    /// Returns the end of the lines that were no events: what a program says when it breaks.
    pub fn unparsed_tail(&self) -> &str {
        &self.last_words
    }

    /// Returns the tools that were not allowed, at most 20.
    pub fn denied(&self) -> impl Iterator<Item = &DeniedTool> {
        self.denied.iter().map(|(_, denied)| denied)
    }

    /// Returns the way in which the agent writes.
    pub fn dialect(&self) -> StreamDialect {
        self.dialect
    }

    /// Takes what the session used altogether, whoever worked on it.
    pub(super) fn settle_session_usage(&mut self, all: TokenUsage) {
        self.counter.settle_all(all.saturating_sub(self.before));
    }

    /// Returns whether a sum counts what earlier processes of the session used besides what this
    /// one did.
    pub(super) fn includes_earlier_runs(&self, sum: TokenUsage, own: TokenUsage) -> bool {
        let mut least = self.before;
        least += own;
        !self.before.is_empty() && least.saturating_sub(sum).is_empty()
    }

    /// Returns what this process cost, of the cost of the whole session.
    pub(super) fn cost_of_this_run(&self, session_usd: f64) -> f64 {
        (session_usd - self.before_usd).max(0.0)
    }

    /// Takes down the name of the session and returns whether it is new.
    pub(super) fn start_session(&mut self, id: String, model: Option<String>) -> bool {
        let is_new = self.session.as_ref() != Some(&id);
        self.session = Some(id);
        self.model = model.or_else(|| self.model.take());
        is_new
    }

    /// Takes down that the agent's model answered, so what was in the way no longer is.
    pub(super) fn clear_errors(&mut self) {
        self.trouble = None;
        self.limit = None;
    }

    /// Takes down that a tool was not allowed. What is said later of the same use is kept.
    pub(super) fn add_denied_tool(&mut self, id: Cow<'_, str>, denied: DeniedTool) {
        if let Some((_, known)) = self.denied.iter_mut().find(|(known, _)| *known == id) {
            *known = denied;
        } else if self.denied.len() < DENIALS {
            self.denied.push((id.into_owned(), denied));
        }
    }

    /// Takes down a result, with the turns that led to it.
    pub(super) fn set_result(&mut self, ending: StreamResult, turns: Option<u32>) {
        self.ending = Some(ending);
        self.is_at_rest = true;
        self.is_torn = false;
        self.turns = match (self.turns, turns) {
            (Some(before), Some(now)) => Some(before.saturating_add(now)),
            (before, now) => now.or(before),
        };
    }

    fn not_understood(&mut self, line: &str) {
        self.unreadable = self.unreadable.saturating_add(1);
        // The line was to be a result and broke off.
        self.is_torn |= line.starts_with('{') && line.contains("\"type\":\"result\"");
        let keep = head(line, LAST_WORDS_BYTES);
        self.last_words = format!("{}{keep}\n", self.last_words);
        if self.last_words.len() > LAST_WORDS_BYTES {
            self.last_words = tail(&self.last_words, LAST_WORDS_BYTES).to_owned();
        }
    }
}
