//! Output of the simulated agent: the stream of events that Claude Code prints.
//!
//! So its transcripts are read, shown and judged by the same code.

use std::io::{self, Write};

use prodigy_core::{Timestamp, workflow::SimulatedTurn};
use serde_json::{Map, Value, json};

/// The name of the model in messages of the program itself.
const SYNTHETIC: &str = "<synthetic>";
/// The number of bytes of noise per message.
const MOUTHFUL: u64 = 64 * 1024;

/// The events of one turn, printed as they happen.
pub(crate) struct EventPrinter<'a> {
    turn: &'a SimulatedTurn,
    out: &'a mut dyn Write,
    denials: Vec<Value>,
    tools: u32,
}

impl<'a> EventPrinter<'a> {
    pub(crate) fn new(turn: &'a SimulatedTurn, out: &'a mut dyn Write) -> Self {
        Self { turn, out, denials: Vec::new(), tools: 0 }
    }

    /// Says who speaks.
    pub(crate) fn init(&mut self) -> io::Result<()> {
        self.event(json!({
            "type": "system",
            "subtype": "init",
            "cwd": ".",
            "tools": ["Bash", "Write"],
            "model": self.turn.model,
            "permissionMode": "acceptEdits",
        }))
    }

    /// Says something.
    pub(crate) fn text(&mut self, text: &str) -> io::Result<()> {
        self.assistant(&json!({ "type": "text", "text": text }))
    }

    /// Says very much.
    pub(crate) fn long_text(&mut self, bytes: u64) -> io::Result<()> {
        let mut rest = bytes;
        while rest > 0 {
            let length = rest.min(MOUTHFUL);
            self.text(&"x".repeat(usize::try_from(length).unwrap_or_default()))?;
            rest -= length;
        }
        Ok(())
    }

    /// Says that a tool is used, with what comes of it.
    pub(crate) fn use_tool(&mut self, name: &str, input: &Value, outcome: &str) -> io::Result<()> {
        let id = self.call(name, input)?;
        self.tool_result(&id, outcome, false)
    }

    /// Says that a tool is to be used and is denied.
    pub(crate) fn denied_tool(&mut self, name: &str, input: &Value) -> io::Result<()> {
        let id = self.call(name, input)?;
        let message = "This command requires approval";
        self.event(json!({
            "type": "system",
            "subtype": "permission_denied",
            "tool_name": name,
            "tool_use_id": id,
            "message": message,
        }))?;
        self.tool_result(&id, message, true)?;
        self.denials.push(json!({ "tool_name": name, "tool_use_id": id, "tool_input": input }));
        Ok(())
    }

    /// Says that the provider refused once and is asked again.
    pub(crate) fn retry(&mut self, status: u16, error: &str) -> io::Result<()> {
        self.event(json!({
            "type": "system",
            "subtype": "api_retry",
            "attempt": 1,
            "max_retries": 1,
            "retry_delay_ms": 0,
            "error_status": status,
            "error": error,
        }))
    }

    /// Says that the usage limit of the account is reached.
    pub(crate) fn rate_limit(&mut self, resets_at: Timestamp) -> io::Result<()> {
        self.event(json!({
            "type": "rate_limit_event",
            "rate_limit_info": {
                "status": "rejected",
                "resetsAt": whole_seconds(resets_at),
                "rateLimitType": "five_hour",
            },
        }))
    }

    /// Says that an answer of the provider ended it.
    pub(crate) fn api_error(&mut self, status: u16, error: &str, message: &str) -> io::Result<()> {
        self.explain(error, Some(status), message)?;
        self.result(json!({
            "subtype": "success",
            "is_error": true,
            "api_error_status": status,
            "result": message,
            "terminal_reason": "api_error",
        }))
    }

    /// Says that it declined.
    pub(crate) fn refusal(&mut self, message: &str) -> io::Result<()> {
        self.explain("invalid_request", None, message)?;
        self.result(json!({
            "subtype": "success",
            "is_error": true,
            "stop_reason": "refusal",
            "result": message,
        }))
    }

    /// Says that it gave up.
    pub(crate) fn error_result(&mut self, subtype: &str, message: &str) -> io::Result<()> {
        self.result(json!({ "subtype": subtype, "is_error": true, "errors": [message] }))
    }

    /// Says that the work is done.
    pub(crate) fn success_result(&mut self, answer: &str) -> io::Result<()> {
        if !answer.is_empty() {
            self.text(answer)?;
        }
        let mut result = json!({
            "subtype": "success",
            "is_error": false,
            "api_error_status": null,
            "stop_reason": "end_turn",
            "result": answer,
        });
        if let Some(structured) = &self.turn.result {
            add(&mut result, json!({ "structured_output": structured }));
        }
        self.result(result)
    }

    /// Is cut off in the middle of the last word.
    pub(crate) fn truncated_line(&mut self) -> io::Result<()> {
        self.out.write_all(br#"{"type":"result","subtype":"success","is_error":fal"#)?;
        self.out.write_all(b"\n")?;
        self.out.flush()
    }

    fn call(&mut self, name: &str, input: &Value) -> io::Result<String> {
        self.tools += 1;
        let id = format!("toolu_{}", self.tools);
        self.assistant(&json!({ "type": "tool_use", "id": id, "name": name, "input": input }))?;
        Ok(id)
    }

    fn tool_result(&mut self, id: &str, content: &str, is_error: bool) -> io::Result<()> {
        self.event(json!({
            "type": "user",
            "message": {
                "role": "user",
                "content": [{
                    "type": "tool_result",
                    "tool_use_id": id,
                    "content": content,
                    "is_error": is_error,
                }],
            },
        }))
    }

    fn assistant(&mut self, content: &Value) -> io::Result<()> {
        self.event(message(&self.turn.model, content))
    }

    /// Says what went wrong, in the name of the program.
    fn explain(&mut self, error: &str, status: Option<u16>, text: &str) -> io::Result<()> {
        let mut event = message(SYNTHETIC, &json!({ "type": "text", "text": text }));
        let more = json!({
            "error": error,
            "is_api_error_message": true,
            "api_error_status": status,
        });
        add(&mut event, more);
        self.event(event)
    }

    /// Says how it ended, with what it used.
    fn result(&mut self, how: Value) -> io::Result<()> {
        let tokens = self.turn.tokens;
        let mut event = json!({
            "type": "result",
            "duration_ms": self.turn.delay_ms,
            "num_turns": self.turn.turns,
            "total_cost_usd": self.turn.cost_usd,
            "usage": {
                "input_tokens": tokens.input_tokens,
                "output_tokens": tokens.output_tokens,
                "cache_read_input_tokens": tokens.cache_read_tokens,
                "cache_creation_input_tokens": tokens.cache_write_tokens,
            },
            "permission_denials": self.denials,
        });
        add(&mut event, how);
        self.event(event)
    }

    fn event(&mut self, mut event: Value) -> io::Result<()> {
        add(&mut event, json!({ "session_id": self.turn.session_id }));
        writeln!(self.out, "{event}")?;
        self.out.flush()
    }
}

/// Returns something that is said.
fn message(model: &str, content: &Value) -> Value {
    json!({
        "type": "assistant",
        "message": {
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": [content],
            "stop_reason": null,
        },
    })
}

/// Adds fields to an object.
fn add(object: &mut Value, fields: Value) {
    let fields: Map<String, Value> = match fields {
        Value::Object(fields) => fields,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            return;
        }
    };
    if let Some(object) = object.as_object_mut() {
        object.extend(fields);
    }
}

/// Returns a moment in seconds, never too early: whoever waits for it must find it passed.
pub(crate) fn whole_seconds(moment: Timestamp) -> i64 {
    moment.as_second() + i64::from(moment.subsec_nanosecond() > 0)
}
