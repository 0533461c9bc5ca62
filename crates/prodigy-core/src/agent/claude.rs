//! The events of Claude Code.

use std::borrow::Cow;

use super::{
    DeniedTool, StreamEvent, StreamState, TokenUsage, claude_result,
    json::{self, RawField, partial},
    quota::{QuotaStatus, QuotaWindow},
    reported_error::{ReportedError, code_for_status},
    stream::{ABOUT_CHARS, RESULT_BYTES, SPOKEN_BYTES},
};
use crate::text::{clean_text, head, one_line};

/// The model of messages that the program writes itself.
const SYNTHETIC: &str = "<synthetic>";

/// The event that lists what runs in the background.
const TASKS: &str = "background_tasks_changed";
/// A command in the background. The program ends it soon after its result and says nothing more.
const SHELL: &str = "local_bash";

partial! {
    /// The fields that every event has.
    LineHead { kind = "type", subtype }
}

partial! {
    /// An event of the program about itself.
    ClaudeSystem {
        session_id, model, cwd, permission_mode = "permissionMode",
        attempt, error_status, error,
        tool_name, tool_use_id, message, tasks,
    }
}

partial! {
    /// Something that runs in the background.
    BackgroundTask { kind = "task_type" }
}

partial! {
    /// A message of the model, or one that it was sent.
    ClaudeMessage {
        message, error, api_error_status, is_api_error_message, params = "api_error_params",
        parent = "parent_tool_use_id",
    }
}

partial! {
    /// A message.
    MessageBody { id, model, content, usage }
}

partial! {
    /// A part of a message.
    ContentBlock { kind = "type", text, name, input, content, is_error }
}

partial! {
    /// The tokens that a message has used so far.
    ClaudeTokens {
        input = "input_tokens", output = "output_tokens",
        cache_read = "cache_read_input_tokens", cache_write = "cache_creation_input_tokens",
    }
}

partial! {
    /// The fields of a tool's input that describe its use.
    ToolInput {
        command, file_path, notebook_path, path, pattern, url, query, skill, description, prompt,
    }
}

partial! {
    /// A limit of the account changed.
    RateLimitEvent { rate_limit_info }
}

partial! {
    /// A part of a message, as the model writes it.
    PartialMessage { event, api_message_id }
}

partial! {
    /// A streamed piece of the model's output.
    MessageDelta { kind = "type", usage }
}

/// Takes one line and returns whether it was an event.
pub(super) fn handle_event(
    heard: &mut StreamState,
    line: &str,
    notices: &mut Vec<StreamEvent>,
) -> bool {
    let Some(kind) = kind(line) else { return false };
    // Other events are about the program, and come also when there is nothing left to do.
    heard.is_at_rest &= !["assistant", "user", "stream_event"].contains(&&*kind);
    let understood = match &*kind {
        "assistant" => assistant(heard, line, notices),
        "user" => user(line, notices),
        "result" => claude_result::handle_result(heard, line, notices),
        "system" => system(heard, line, notices),
        "rate_limit_event" => {
            serde_json::from_str(line).ok().map(|event| rate_limit(heard, Some(event), notices))
        }
        "stream_event" => streamed(heard, line, notices),
        // New kinds come with every release.
        _ => serde_json::from_str::<LineHead<'_>>(line).ok().map(drop),
    };
    understood.is_some()
}

/// Returns of which kind an event is. Mostly that stands first, and then the line need not be
/// read one more time.
fn kind(line: &str) -> Option<Cow<'_, str>> {
    let first = line.strip_prefix("{\"type\":\"").and_then(|rest| rest.split_once('"'));
    match first {
        Some((kind, _)) if !kind.contains('\\') => Some(Cow::Borrowed(kind)),
        Some(_) | None => json::text(serde_json::from_str::<LineHead<'_>>(line).ok()?.kind),
    }
}

fn system(heard: &mut StreamState, line: &str, notices: &mut Vec<StreamEvent>) -> Option<()> {
    let event = serde_json::from_str::<LineHead<'_>>(line).ok()?;
    let subtype = json::text(event.subtype).unwrap_or_default();
    if !["init", "api_retry", "permission_denied", TASKS].contains(&&*subtype) {
        return Some(());
    }
    let event = serde_json::from_str::<ClaudeSystem<'_>>(line).ok()?;
    match &*subtype {
        "init" => {
            heard.is_at_rest = false;
            let Some(id) = json::session(event.session_id) else { return Some(()) };
            let model = json::line(event.model);
            if heard.start_session(id.clone(), model.clone()) {
                let cwd = json::line(event.cwd);
                let permission_mode = json::line(event.permission_mode);
                notices.push(StreamEvent::Session { id, model, cwd, permission_mode });
            }
        }
        "api_retry" => notices.push(StreamEvent::Retrying {
            attempt: json::count_u32(event.attempt).unwrap_or_default(),
            status: status(event.error_status),
            error: json::text(event.error).map_or_else(String::new, |text| one_line(&text, 120)),
        }),
        TASKS => {
            let tasks: Vec<BackgroundTask<'_>> = json::read(event.tasks).unwrap_or_default();
            heard.has_background = tasks.iter().any(|task| !json::is_text(task.kind, SHELL));
        }
        // The result tells of it again and says what for; a run that is cut off has no result.
        _ => {
            let about = json::text(event.message).unwrap_or_default();
            let tool = json::line(event.tool_name).unwrap_or_default();
            let id = json::text(event.tool_use_id).unwrap_or_default();
            heard.add_denied_tool(id, DeniedTool { tool, about: one_line(&about, ABOUT_CHARS) });
        }
    }
    Some(())
}

fn assistant(heard: &mut StreamState, line: &str, notices: &mut Vec<StreamEvent>) -> Option<()> {
    let said = serde_json::from_str::<ClaudeMessage<'_>>(line).ok()?;
    let Some(message) = json::read::<MessageBody<'_>>(said.message) else { return Some(()) };
    let blocks: Vec<ContentBlock<'_>> = json::read(message.content).unwrap_or_default();
    let is_synthetic = json::is_text(message.model, SYNTHETIC);
    if is_synthetic {
        heard.spoken.clear();
        if json::flag(said.is_api_error_message) == Some(true) {
            let text = blocks.iter().find_map(|block| json::text(block.text)).unwrap_or_default();
            let word = json::text(said.error).unwrap_or_default();
            let kind = code_for_status(status(said.api_error_status))
                .or_else(|| claude_result::code_for_word(&word));
            heard.trouble = Some(ReportedError { kind, text: clean_text(&text, SPOKEN_BYTES) });
            if heard.limit.is_none() {
                rate_limit(heard, said.params, notices);
            }
        }
    } else {
        heard.clear_errors();
        heard.model = heard.model.take().or_else(|| json::line(message.model));
    }
    // What agents below it say is not its answer.
    let is_own = !is_synthetic && json::text(said.parent).is_none();
    for block in blocks {
        match json::text(block.kind).as_deref() {
            Some("text") => {
                let text = json::text(block.text).unwrap_or_default();
                if is_own {
                    head(text.trim(), SPOKEN_BYTES).clone_into(&mut heard.spoken);
                }
                let text = clean_text(&text, SPOKEN_BYTES);
                if !text.is_empty() {
                    notices.push(StreamEvent::Spoke { text });
                }
            }
            Some("tool_use") => {
                heard.tools = heard.tools.saturating_add(1);
                let name = json::line(block.name).unwrap_or_default();
                notices.push(StreamEvent::Tool { about: tool_summary(block.input), name });
            }
            Some(_) | None => {}
        }
    }
    let usage = tokens(message.usage);
    let id = json::text(message.id);
    if let (Some(usage), Some(id)) = (usage, id) {
        count(heard, &id, usage, notices);
    }
    Some(())
}

fn user(line: &str, notices: &mut Vec<StreamEvent>) -> Option<()> {
    // Nobody asks what tools answer that did well, and these are the longest events of all.
    if !line.contains("\"is_error\"") {
        return serde_json::from_str::<LineHead<'_>>(line).ok().map(drop);
    }
    let said = serde_json::from_str::<ClaudeMessage<'_>>(line).ok()?;
    let Some(message) = json::read::<MessageBody<'_>>(said.message) else { return Some(()) };
    let blocks: Vec<ContentBlock<'_>> = json::read(message.content).unwrap_or_default();
    let has_failed = |block: &&ContentBlock<'_>| {
        json::is_text(block.kind, "tool_result") && json::flag(block.is_error) == Some(true)
    };
    for block in blocks.iter().filter(has_failed) {
        let text = json::text(block.content).unwrap_or_else(|| {
            let parts: Vec<ContentBlock<'_>> = json::read(block.content).unwrap_or_default();
            let texts: Vec<_> = parts.iter().filter_map(|part| json::text(part.text)).collect();
            Cow::Owned(texts.join("\n"))
        });
        notices.push(StreamEvent::ToolFailed { text: clean_text(&text, RESULT_BYTES) });
    }
    Some(())
}

fn rate_limit(heard: &mut StreamState, event: RawField<'_>, notices: &mut Vec<StreamEvent>) {
    let Some(event) = json::read::<RateLimitEvent<'_>>(event) else { return };
    let Some(said) = QuotaStatus::read(event.rate_limit_info) else { return };
    notices.extend(said.windows.into_iter().map(|QuotaWindow { name, share, resets_at }| {
        StreamEvent::Utilization { window: name, share, resets_at }
    }));
    heard.limit.clone_from(&said.limit);
    notices.extend(said.limit.map(StreamEvent::Limit));
}

/// Takes what a message used up to its end: until then it says one token or so was written.
fn streamed(heard: &mut StreamState, line: &str, notices: &mut Vec<StreamEvent>) -> Option<()> {
    let event = serde_json::from_str::<PartialMessage<'_>>(line).ok()?;
    let delta = json::read::<MessageDelta<'_>>(event.event);
    let usage = delta.filter(|delta| json::is_text(delta.kind, "message_delta"));
    let usage = usage.and_then(|delta| tokens(delta.usage));
    if let (Some(id), Some(usage)) = (json::text(event.api_message_id), usage) {
        count(heard, &id, usage, notices);
    }
    Some(())
}

fn count(heard: &mut StreamState, id: &str, usage: TokenUsage, notices: &mut Vec<StreamEvent>) {
    if heard.counter.count_message(id, usage) {
        notices.push(StreamEvent::Usage(heard.usage()));
    }
}

/// Returns the tokens of an object, if it counts any.
pub(super) fn tokens(raw: RawField<'_>) -> Option<TokenUsage> {
    let tokens = json::read::<ClaudeTokens<'_>>(raw)?;
    let count = |raw| json::count(raw).unwrap_or_default();
    let usage = TokenUsage {
        input_tokens: count(tokens.input),
        output_tokens: count(tokens.output),
        cache_read_tokens: count(tokens.cache_read),
        cache_write_tokens: count(tokens.cache_write),
    };
    (!usage.is_empty()).then_some(usage)
}

/// Returns what a server answered.
pub(super) fn status(raw: RawField<'_>) -> Option<u16> {
    json::count(raw).and_then(|status| u16::try_from(status).ok())
}

/// Returns what a tool is used for, in one short line.
pub(super) fn tool_summary(raw: RawField<'_>) -> String {
    let Some(input) = json::read::<ToolInput<'_>>(raw) else { return String::new() };
    // What is looked for says more than where.
    if let (Some(pattern), Some(path)) = (json::text(input.pattern), json::text(input.path)) {
        return one_line(&format!("{pattern} in {path}"), ABOUT_CHARS);
    }
    let telling = [
        input.command,
        input.file_path,
        input.notebook_path,
        input.pattern,
        input.path,
        input.url,
        input.query,
        input.skill,
        input.description,
        input.prompt,
    ];
    let text = telling.into_iter().find_map(json::text);
    let text = text.unwrap_or_else(|| Cow::Borrowed(raw.map_or("", |raw| raw.get())));
    one_line(&text, ABOUT_CHARS)
}
