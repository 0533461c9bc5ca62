//! The content of a request, in whatever API.

use std::time::SystemTime;

use serde_json::Value;

/// The language that an agent asks in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelApi {
    /// The Messages API, which Claude Code speaks.
    Messages,
    /// The Responses API, which Codex speaks.
    Responses,
}

/// One request of an agent to the model.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    /// When it came.
    pub at: SystemTime,
    /// The language it is asked in.
    pub api: ModelApi,
    /// The agent's session.
    pub session: String,
    /// The model that is asked.
    pub model: String,
    /// The texts of the user in the session, the oldest first; reminders of the agent left out.
    pub prompts: Vec<String>,
    /// The instructions of the agent itself.
    pub system: String,
    /// The names of the tools that the model may ask for.
    pub tools: Vec<String>,
    /// True if it begins a turn, i.e. is not about the result of a tool.
    pub begins: bool,
    /// The number of tools that were run in this turn.
    pub results: usize,
    /// All of it.
    pub body: Value,
}

impl ModelRequest {
    /// Returns what the user said last.
    pub fn prompt(&self) -> &str {
        self.prompts.last().map(String::as_str).unwrap_or_default()
    }

    /// Returns the item it is about: the word behind `item=`.
    pub fn item(&self) -> String {
        super::script::item(&self.prompts)
    }
}

/// Returns a field of an object as text, or nothing.
pub(crate) fn text(value: &Value, field: &str) -> String {
    value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Returns the entries of a list in a field.
pub(crate) fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}
