//! The Messages API, as Claude Code speaks it.

use std::{io, time::SystemTime};

use serde_json::{Value, json};

use super::{
    http::{HttpConnection, HttpRequest},
    reply::{ModelFault, ModelReply, ReplyPart},
    request::{ModelApi, ModelRequest, list, text},
};

/// The beginnings of texts that the agent itself sends in the user's name.
const OWN_WORDS: &[&str] = &[
    "<system-reminder>",
    "[structured-output-enforce]",
    "Your response above was stopped by a safety classifier",
];

/// The tool that takes the result when a schema was asked for.
const RESULT_TOOL: &str = "StructuredOutput";

/// Reads a request.
pub(super) fn read(message: &HttpRequest, at: SystemTime) -> ModelRequest {
    let body = &message.body;
    let mut request = ModelRequest {
        at,
        api: ModelApi::Messages,
        session: message.header("x-claude-code-session-id").to_owned(),
        model: text(body, "model"),
        prompts: Vec::new(),
        system: texts(body, "system").join("\n"),
        tools: list(body, "tools").iter().map(|tool| text(tool, "name")).collect(),
        begins: false,
        results: 0,
        body: body.clone(),
    };
    for said in list(body, "messages") {
        match text(said, "role").as_str() {
            "user" => add_user_message(&mut request, said),
            "assistant" => request.begins = false,
            _own => request.system.extend(texts(said, "content")),
        }
    }
    request
}

/// Adds a message of the user, or the tool results that the agent sends in the user's name: these
/// come with the user's text when a turn that was cut off continues.
fn add_user_message(request: &mut ModelRequest, said: &Value) {
    let is_result = |part: &&Value| text(part, "type") == "tool_result";
    let results = list(said, "content").iter().filter(is_result).count();
    if results > 0 {
        request.begins = false;
        request.results += results;
    }
    let words: Vec<_> = texts(said, "content")
        .into_iter()
        .filter(|text| !OWN_WORDS.iter().any(|own| text.starts_with(own)))
        .collect();
    if !words.is_empty() {
        request.prompts.extend(words);
        request.begins = true;
        request.results = 0;
    }
}

/// Returns the texts of a field that is a text or a list of parts.
fn texts(value: &Value, field: &str) -> Vec<String> {
    match value.get(field) {
        Some(Value::String(text)) => vec![text.clone()],
        Some(_) | None => list(value, field)
            .iter()
            .filter(|part| text(part, "type") == "text")
            .map(|part| text(part, "text"))
            .collect(),
    }
}

/// Answers a request; says whether the connection can be used again.
pub(super) fn write(
    connection: &mut HttpConnection,
    request: &ModelRequest,
    reply: ModelReply,
    number: usize,
) -> io::Result<bool> {
    let (parts, written, stop) = match reply {
        ModelReply::Fault(fault) => return write_fault(connection, fault).map(|()| true),
        ModelReply::Kill => return connection.kill().map(|()| false),
        ModelReply::Nothing => return connection.silence(None).map(|()| false),
        ModelReply::Garbage => {
            connection.begin_events()?;
            connection
                .send("event: message_start\ndata: {\"type\": \"mess\n\nno event at all\n\n")?;
            return Ok(false);
        }
        // The whole answer at once, asked for where a stream has failed, is cut before it begins.
        ModelReply::Cut if !is_stream(request) => return Ok(false),
        ModelReply::Cut => {
            connection.begin_events()?;
            let start = message(request, number, &[], None, 1);
            connection.event(&json!({ "type": "message_start", "message": start }))?;
            return Ok(false);
        }
        ModelReply::Refuse => {
            (vec![ReplyPart::Text("I cannot help with that.".to_owned())], 5, "refusal")
        }
        ModelReply::Say { parts, written, wait } => {
            connection.silence(Some(wait))?;
            let calls = parts.iter().any(|part| is_call(part, request));
            (parts, written, if calls { "tool_use" } else { "end_turn" })
        }
    };
    let numbers = number * 1000..;
    let blocks: Vec<_> =
        parts.into_iter().zip(numbers).map(|(part, number)| block(part, request, number)).collect();
    if is_stream(request) {
        write_events(connection, &message(request, number, &[], None, 1), &blocks, stop, written)?;
        return Ok(false);
    }
    let message = message(request, number, &blocks, Some(stop), written);
    connection.document(200, &[], &message, true).map(|()| true)
}

fn is_stream(request: &ModelRequest) -> bool {
    request.body.get("stream").and_then(Value::as_bool) == Some(true)
}

fn write_events(
    connection: &mut HttpConnection,
    start: &Value,
    blocks: &[MessageBlock],
    stop: &str,
    written: u64,
) -> io::Result<()> {
    connection.begin_events()?;
    connection.event(&json!({ "type": "message_start", "message": start }))?;
    for (index, block) in blocks.iter().enumerate() {
        let start = block.start();
        let delta = block.delta();
        connection.event(
            &json!({ "type": "content_block_start", "index": index, "content_block": start }),
        )?;
        connection
            .event(&json!({ "type": "content_block_delta", "index": index, "delta": delta }))?;
        connection.event(&json!({ "type": "content_block_stop", "index": index }))?;
    }
    connection.event(&json!({
        "type": "message_delta",
        "delta": { "stop_reason": stop, "stop_sequence": null },
        "usage": { "output_tokens": written },
    }))?;
    connection.event(&json!({ "type": "message_stop" }))
}

/// Returns a message of the model, whole or just begun.
fn message(
    request: &ModelRequest,
    number: usize,
    blocks: &[MessageBlock],
    stop: Option<&str>,
    written: u64,
) -> Value {
    json!({
        "id": format!("msg_{number:020}"),
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": blocks.iter().map(MessageBlock::to_json).collect::<Vec<_>>(),
        "stop_reason": stop,
        "stop_sequence": null,
        "usage": {
            "input_tokens": 100,
            "cache_creation_input_tokens": 10,
            "cache_read_input_tokens": 50,
            "output_tokens": written,
        },
    })
}

/// A content block.
enum MessageBlock {
    Text(String),
    Call { id: String, tool: &'static str, input: Value },
}

impl MessageBlock {
    /// Returns all of it.
    fn to_json(&self) -> Value {
        match self {
            Self::Text(text) => json!({ "type": "text", "text": text }),
            Self::Call { id, tool, input } => {
                json!({ "type": "tool_use", "id": id, "name": tool, "input": input })
            }
        }
    }

    /// Returns it as it is begun in a stream: empty.
    fn start(&self) -> Value {
        match self {
            Self::Text(_) => Self::Text(String::new()).to_json(),
            Self::Call { id, tool, .. } => {
                Self::Call { id: id.clone(), tool, input: json!({}) }.to_json()
            }
        }
    }

    /// Returns what follows in a stream: all that is in it.
    fn delta(&self) -> Value {
        match self {
            Self::Text(text) => json!({ "type": "text_delta", "text": text }),
            Self::Call { input, .. } => {
                json!({ "type": "input_json_delta", "partial_json": input.to_string() })
            }
        }
    }
}

fn is_call(part: &ReplyPart, request: &ModelRequest) -> bool {
    match part {
        ReplyPart::Text(_) => false,
        ReplyPart::Shell(_) | ReplyPart::Write(..) => true,
        ReplyPart::Result(_) => request.tools.iter().any(|tool| tool == RESULT_TOOL),
    }
}

fn block(part: ReplyPart, request: &ModelRequest, number: usize) -> MessageBlock {
    let call = |tool, input| MessageBlock::Call { id: format!("toolu_{number:020}"), tool, input };
    let is_call = is_call(&part, request);
    match part {
        ReplyPart::Text(text) => MessageBlock::Text(text),
        ReplyPart::Shell(command) => call("Bash", json!({ "command": command })),
        ReplyPart::Write(name, content) => {
            let path = format!("{}/{name}", directory(request));
            call("Write", json!({ "file_path": path, "content": content }))
        }
        ReplyPart::Result(value) if is_call => call(RESULT_TOOL, value),
        ReplyPart::Result(value) => MessageBlock::Text(value.to_string()),
    }
}

/// Returns where the agent works: files are written by their whole path.
fn directory(request: &ModelRequest) -> &str {
    // A session that goes on elsewhere is told so last: `NEW (was OLD)`.
    let behind = request.system.rsplit_once("working directory: ");
    let line = behind.and_then(|(_, rest)| rest.lines().next()).unwrap_or(".");
    line.split(" (was ").next().unwrap_or(line).trim()
}

fn write_fault(connection: &mut HttpConnection, fault: ModelFault) -> io::Result<()> {
    let no = |kind: &str, message: &str| (kind.to_owned(), message.to_owned());
    let rate = "This request would exceed your account's rate limit. Please try again later.";
    let mut headers = Vec::new();
    let (status, (kind, message)) = match fault {
        ModelFault::Rate => (429, no("rate_limit_error", rate)),
        ModelFault::Limit(until) => {
            headers = limit_headers(until);
            (429, no("rate_limit_error", rate))
        }
        ModelFault::Overloaded => (529, no("overloaded_error", "Overloaded")),
        ModelFault::Server => (500, no("api_error", "Internal server error")),
        ModelFault::Key => (401, no("authentication_error", "invalid x-api-key")),
        ModelFault::Credit => (
            400,
            no(
                "invalid_request_error",
                "Your credit balance is too low to access the Anthropic API.",
            ),
        ),
        ModelFault::Overflow => {
            (400, no("invalid_request_error", "prompt is too long: 215000 tokens > 200000 maximum"))
        }
    };
    let body = json!({ "type": "error", "error": { "type": kind, "message": message } });
    connection.document(status, &headers, &body, true)
}

fn limit_headers(until: u64) -> Vec<(&'static str, String)> {
    let until = until.to_string();
    vec![
        ("anthropic-ratelimit-unified-status", "rejected".to_owned()),
        ("anthropic-ratelimit-unified-reset", until.clone()),
        ("anthropic-ratelimit-unified-representative-claim", "five_hour".to_owned()),
        ("anthropic-ratelimit-unified-5h-status", "rejected".to_owned()),
        ("anthropic-ratelimit-unified-5h-reset", until),
        ("anthropic-ratelimit-unified-5h-utilization", "1.0".to_owned()),
        ("x-should-retry", "false".to_owned()),
    ]
}
