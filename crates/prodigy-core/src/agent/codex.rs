//! The events of Codex.

use std::borrow::Cow;

use super::{
    DeniedTool, StreamEvent, StreamState, TokenUsage,
    json::{self, RawField, partial},
    reported_error::{ReportedError, code_for_status},
    stream::{ABOUT_CHARS, ANSWER_BYTES, RESULT_BYTES, SPOKEN_BYTES, StreamResult},
};
use crate::{
    failure::{ReasonCode, classify::reason_from_output},
    text::{clean_text, describe_oversize, head, one_line},
};

partial! {
    /// An event.
    CodexEvent { kind = "type", thread_id, item, usage, error, message }
}

partial! {
    /// Something that the agent does or says.
    CodexItem {
        id, kind = "type", text, command, changes, server, tool, query, status,
        output = "aggregated_output", error,
    }
}

partial! {
    /// A change of a file.
    CodexFileChange { path, kind }
}

partial! {
    /// The usage of the whole thread.
    CodexTokens {
        input = "input_tokens", cached = "cached_input_tokens",
        written = "cache_write_input_tokens", output = "output_tokens",
    }
}

partial! {
    /// The message of an error.
    CodexError { message }
}

/// The texts of errors, in lower case, each with its failure kind.
const COMPLAINTS: &[(&str, ReasonCode)] = &[
    ("is at capacity", ReasonCode::ProviderOverloaded),
    ("experiencing high demand", ReasonCode::ProviderOverloaded),
    ("experiencing high load", ReasonCode::ProviderOverloaded),
    ("ran out of room in the model's context window", ReasonCode::ContextOverflow),
    ("reason: content_filter", ReasonCode::AgentRefused),
    ("reason: max_output_tokens", ReasonCode::ContextOverflow),
    ("missing environment variable", ReasonCode::AuthFailed),
    ("stream disconnected before completion", ReasonCode::NetworkError),
    ("connection failed", ReasonCode::NetworkError),
];

/// Takes one line and returns whether it was an event.
pub(super) fn handle_event(
    heard: &mut StreamState,
    line: &str,
    notices: &mut Vec<StreamEvent>,
) -> bool {
    let Ok(event) = serde_json::from_str::<CodexEvent<'_>>(line) else { return false };
    let Some(kind) = json::text(event.kind) else { return false };
    heard.is_at_rest &= !(kind.starts_with("item.") || kind == "turn.started");
    match &*kind {
        "thread.started" => {
            let Some(id) = json::session(event.thread_id) else { return true };
            if heard.start_session(id.clone(), None) {
                notices.push(StreamEvent::Session {
                    id,
                    model: None,
                    cwd: None,
                    permission_mode: None,
                });
            }
        }
        "item.started" => {
            if let Some(item) = json::read::<CodexItem<'_>>(event.item) {
                notices.extend(item.tool());
            }
        }
        "item.completed" => {
            if let Some(item) = json::read::<CodexItem<'_>>(event.item) {
                completed(heard, &item, notices);
            }
        }
        "error" => complain(heard, &json::text(event.message).unwrap_or_default(), notices),
        "turn.completed" => {
            if let Some(used) = tokens(event.usage) {
                heard.settle_session_usage(used);
            }
            let answer = std::mem::take(&mut heard.spoken);
            let oversize = heard.oversize.take();
            let ending =
                StreamResult { answer, oversize, is_of_model: true, ..StreamResult::default() };
            heard.set_result(ending, None);
            notices.push(StreamEvent::Usage(heard.usage()));
            notices.push(StreamEvent::Ended);
        }
        "turn.failed" => {
            let complaint = json::read::<CodexError<'_>>(event.error);
            let said = complaint.and_then(|complaint| json::text(complaint.message));
            let trouble = Some(trouble(&said.unwrap_or_default()));
            heard.set_result(StreamResult { trouble, ..StreamResult::default() }, None);
            notices.push(StreamEvent::Ended);
        }
        // New kinds come with every release.
        _ => {}
    }
    true
}

impl<'a> CodexItem<'a> {
    /// Returns that a tool is used, if it is one.
    fn tool(&self) -> Option<StreamEvent> {
        let name = self.tool_name()?;
        Some(StreamEvent::Tool { name: name.into_owned(), about: self.about() })
    }

    fn tool_name(&self) -> Option<Cow<'a, str>> {
        let kind = json::text(self.kind)?;
        let is_tool = matches!(
            &*kind,
            "command_execution"
                | "file_change"
                | "mcp_tool_call"
                | "web_search"
                | "collab_tool_call"
        );
        let name = json::text(self.tool).unwrap_or(kind);
        is_tool.then_some(name)
    }

    /// Returns what a tool is used for, in one short line.
    fn about(&self) -> String {
        if let Some(command) = json::text(self.command) {
            return one_line(without_shell(&command), ABOUT_CHARS);
        }
        let changes: Vec<CodexFileChange<'_>> = json::read(self.changes).unwrap_or_default();
        let change = |change: CodexFileChange<'_>| {
            let kind = json::text(change.kind).unwrap_or_default();
            Some(format!("{kind} {}", json::text(change.path)?))
        };
        let changes: Vec<String> = changes.into_iter().filter_map(change).collect();
        let other = json::text(self.query).or_else(|| json::text(self.server));
        let text = if changes.is_empty() {
            other.unwrap_or_default().into_owned()
        } else {
            changes.join(", ")
        };
        one_line(text.trim(), ABOUT_CHARS)
    }

    /// Returns whether the sandbox or the settings did not allow it.
    fn is_denied(&self) -> bool {
        let is_failed = json::is_text(self.status, "failed");
        let output = json::text(self.output).unwrap_or_default();
        json::is_text(self.status, "declined")
            || is_failed && output.contains("Read-only file system")
    }
}

fn completed(heard: &mut StreamState, item: &CodexItem<'_>, notices: &mut Vec<StreamEvent>) {
    if json::is_text(item.kind, "agent_message") {
        heard.clear_errors();
        let text = json::text(item.text).unwrap_or_default();
        head(&text, ANSWER_BYTES).clone_into(&mut heard.spoken);
        heard.oversize = describe_oversize(text.len(), ANSWER_BYTES);
        notices.push(StreamEvent::Spoke { text: clean_text(&text, SPOKEN_BYTES) });
        return;
    }
    let Some(tool) = item.tool_name() else { return };
    heard.tools = heard.tools.saturating_add(1);
    if item.is_denied() {
        let id = json::text(item.id).unwrap_or_default();
        heard.add_denied_tool(id, DeniedTool { tool: tool.into_owned(), about: item.about() });
    }
    if item.status.is_some() && !json::is_text(item.status, "completed") {
        let complaint = json::read::<CodexError<'_>>(item.error);
        let text = json::text(item.output).or_else(|| json::text(complaint?.message));
        let text = clean_text(&text.unwrap_or_default(), RESULT_BYTES);
        notices.push(StreamEvent::ToolFailed { text });
    }
}

/// Takes a complaint, which is about a request that is made again or about the end.
fn complain(heard: &mut StreamState, text: &str, notices: &mut Vec<StreamEvent>) {
    let Some(rest) = text.strip_prefix("Reconnecting...") else {
        heard.trouble = Some(trouble(text));
        return;
    };
    let rest = rest.trim();
    let attempt = rest.split('/').next().and_then(|number| number.parse().ok());
    let error = rest.split_once('(').map_or(rest, |(_, error)| error);
    notices.push(StreamEvent::Retrying {
        attempt: attempt.unwrap_or_default(),
        status: status_in(rest),
        error: one_line(error.trim_end_matches(')'), ABOUT_CHARS),
    });
}

fn trouble(text: &str) -> ReportedError {
    let lower = text.to_lowercase();
    let said = COMPLAINTS.iter().find(|(phrase, _)| lower.contains(phrase)).map(|(_, kind)| *kind);
    let kind = code_for_status(status_in(text)).or(said).or_else(|| reason_from_output(text));
    ReportedError { kind, text: head(text, SPOKEN_BYTES).to_owned() }
}

/// Returns what a server answered, where the program says so: `unexpected status 401 …`.
fn status_in(text: &str) -> Option<u16> {
    let (_, after) = text.split_once("status")?;
    let word = after.trim_start_matches([':', ' ']).split_whitespace().next()?;
    word.parse().ok().filter(|status| (400..600).contains(status))
}

fn tokens(raw: RawField<'_>) -> Option<TokenUsage> {
    let tokens = json::read::<CodexTokens<'_>>(raw)?;
    let count = |raw| json::count(raw).unwrap_or_default();
    let (cached, written) = (count(tokens.cached), count(tokens.written));
    Some(TokenUsage {
        // All that was read is counted there, from where ever it came.
        input_tokens: count(tokens.input).saturating_sub(cached).saturating_sub(written),
        output_tokens: count(tokens.output),
        cache_read_tokens: cached,
        cache_write_tokens: written,
    })
}

/// Returns a command without the shell that runs it.
fn without_shell(command: &str) -> &str {
    let Some((shell, inner)) = command.split_once(" -lc ") else { return command };
    if shell.contains(' ') || !shell.ends_with("sh") {
        return command;
    }
    let quoted = |quote: char| inner.strip_prefix(quote)?.strip_suffix(quote);
    quoted('\'').or_else(|| quoted('"')).unwrap_or(inner)
}

/// Returns the tools that the program says on its standard error that it did not allow; its
/// stream does not tell of them.
pub(super) fn denied_in_stderr(stderr: &str) -> impl Iterator<Item = DeniedTool> {
    let rejected =
        stderr.lines().filter(|line| line.contains("rejected by user approval settings"));
    rejected.map(|line| {
        let about = line.split_once("error=").map_or(line, |(_, about)| about);
        let tool = if about.starts_with("patch") { "file_change" } else { "command_execution" };
        DeniedTool { tool: tool.to_owned(), about: one_line(about, ABOUT_CHARS) }
    })
}
