//! The Responses API, as Codex speaks it.

use std::{io, time::SystemTime};

use serde_json::{Value, json};

use super::{
    http::{HttpConnection, HttpRequest},
    reply::{ModelFault, ModelReply, ReplyPart},
    request::{ModelApi, ModelRequest, list, text},
};

/// The beginnings of texts that the agent itself sends in the user's name.
const OWN_WORDS: &[&str] = &["<environment_context>", "<user_instructions>", "# AGENTS.md"];

/// The tool that runs a program of its own language, which newer models get instead of a shell.
const PROGRAM_TOOL: &str = "exec";

/// Reads a request.
pub(super) fn read(message: &HttpRequest, at: SystemTime) -> ModelRequest {
    let body = &message.body;
    let mut request = ModelRequest {
        at,
        api: ModelApi::Responses,
        session: message.header("session-id").to_owned(),
        model: text(body, "model"),
        prompts: Vec::new(),
        system: text(body, "instructions"),
        tools: names(list(body, "tools")),
        begins: false,
        results: 0,
        body: body.clone(),
    };
    for said in list(body, "input") {
        match (text(said, "type").as_str(), text(said, "role").as_str()) {
            ("additional_tools", _) => request.tools.extend(names(list(said, "tools"))),
            ("message", "user") => add_input_item(&mut request, said),
            ("message", "assistant") => request.begins = false,
            ("message", _own) => request.system.extend(texts(said)),
            ("function_call_output" | "custom_tool_call_output", _) => {
                request.begins = false;
                request.results += 1;
            }
            _other => {}
        }
    }
    request
}

fn add_input_item(request: &mut ModelRequest, said: &Value) {
    let words: Vec<_> = texts(said)
        .into_iter()
        .filter(|text| !OWN_WORDS.iter().any(|own| text.starts_with(own)))
        .collect();
    if !words.is_empty() {
        request.prompts.extend(words);
        request.begins = true;
        request.results = 0;
    }
}

fn texts(said: &Value) -> Vec<String> {
    list(said, "content").iter().map(|part| text(part, "text")).collect()
}

/// Returns the names of tools, those in a group of tools too.
fn names(tools: &[Value]) -> Vec<String> {
    let inner = tools.iter().flat_map(|tool| list(tool, "tools"));
    tools.iter().chain(inner).map(|tool| text(tool, "name")).collect()
}

/// Answers a request; says whether the connection can be used again.
pub(super) fn write(
    connection: &mut HttpConnection,
    request: &ModelRequest,
    reply: ModelReply,
    number: usize,
) -> io::Result<bool> {
    let (items, written) = match reply {
        ModelReply::Fault(ModelFault::Overflow) => {
            return write_failure(connection, number).map(|()| false);
        }
        ModelReply::Fault(fault) => return write_fault(connection, fault).map(|()| true),
        ModelReply::Kill => return connection.kill().map(|()| false),
        ModelReply::Nothing => return connection.silence(None).map(|()| false),
        ModelReply::Garbage => {
            connection.begin_events()?;
            connection.send("event: response.created\ndata: {\"type\": \"resp\n\nno event\n\n")?;
            return Ok(false);
        }
        ModelReply::Cut => {
            connection.begin_events()?;
            connection.event(&created(number))?;
            return Ok(false);
        }
        ModelReply::Refuse => {
            let refusal = json!({ "type": "refusal", "refusal": "I cannot help with that." });
            (vec![message_item(&refusal, number)], 5)
        }
        ModelReply::Say { parts, written, wait } => {
            connection.silence(Some(wait))?;
            let parts = parts.into_iter().enumerate();
            let items = parts.map(|(index, part)| item(part, request, number * 1000 + index));
            (items.collect(), written)
        }
    };
    connection.begin_events()?;
    connection.event(&created(number))?;
    for (index, item) in items.into_iter().enumerate() {
        connection.event(
            &json!({ "type": "response.output_item.done", "output_index": index, "item": item }),
        )?;
    }
    connection.event(&json!({
        "type": "response.completed",
        "response": {
            "id": format!("resp_{number}"),
            "usage": {
                "input_tokens": 100,
                "input_tokens_details": { "cached_tokens": 50 },
                "output_tokens": written,
                "output_tokens_details": { "reasoning_tokens": 5 },
                "total_tokens": 100 + written,
            },
        },
    }))?;
    Ok(false)
}

fn created(number: usize) -> Value {
    json!({ "type": "response.created", "response": { "id": format!("resp_{number}") } })
}

/// Returns an item of the answer.
fn item(part: ReplyPart, request: &ModelRequest, number: usize) -> Value {
    let command = match part {
        ReplyPart::Text(text) => return text_item(&text, number),
        // A schema is asked for with the request, and the words are the result.
        ReplyPart::Result(value) => return text_item(&value.to_string(), number),
        ReplyPart::Shell(command) => command,
        // Patches have a tool and a language of their own; a command does here.
        ReplyPart::Write(name, content) => format!("printf '%s' '{content}' > '{name}'"),
    };
    let id = format!("call_{number}");
    let input = json!({ "cmd": command }).to_string();
    if request.tools.iter().any(|tool| tool == PROGRAM_TOOL) {
        let input = format!("text(await tools.exec_command({input}))");
        return json!({ "type": "custom_tool_call", "call_id": id, "name": PROGRAM_TOOL, "input": input });
    }
    json!({ "type": "function_call", "call_id": id, "name": "exec_command", "arguments": input })
}

fn text_item(text: &str, number: usize) -> Value {
    message_item(&json!({ "type": "output_text", "text": text }), number)
}

fn message_item(content: &Value, number: usize) -> Value {
    json!({ "type": "message", "role": "assistant", "id": format!("msg_{number}"), "content": [content] })
}

/// Fails in the middle of the events, as the server does where the conversation is too long.
fn write_failure(connection: &mut HttpConnection, number: usize) -> io::Result<()> {
    connection.begin_events()?;
    connection.event(&created(number))?;
    connection.event(&json!({
        "type": "response.failed",
        "response": {
            "id": format!("resp_{number}"),
            "error": {
                "code": "context_length_exceeded",
                "message": "Your input exceeds the context window of this model.",
            },
        },
    }))
}

fn write_fault(connection: &mut HttpConnection, fault: ModelFault) -> io::Result<()> {
    let (status, error) = match fault {
        ModelFault::Rate => {
            (429, json!({ "type": "rate_limit_exceeded", "message": "Rate limit reached." }))
        }
        ModelFault::Limit(until) => (
            429,
            json!({
                "type": "usage_limit_reached",
                "message": "The usage limit has been reached",
                "plan_type": "pro",
                "resets_at": until,
            }),
        ),
        ModelFault::Overloaded => {
            (503, json!({ "code": "server_is_overloaded", "message": "The server is overloaded." }))
        }
        ModelFault::Server => {
            (500, json!({ "type": "server_error", "message": "Something broke." }))
        }
        ModelFault::Key => {
            (401, json!({ "code": "invalid_api_key", "message": "Incorrect API key provided." }))
        }
        ModelFault::Credit => (
            429,
            json!({
                "type": "insufficient_quota",
                "code": "insufficient_quota",
                "message": "You exceeded your current quota, please check your plan and billing details.",
            }),
        ),
        ModelFault::Overflow => {
            (400, json!({ "code": "context_length_exceeded", "message": "Too long." }))
        }
    };
    connection.document(status, &[], &json!({ "error": error }), true)
}
