//! Which events are asked for.

use std::num::NonZeroUsize;

use prodigy_core::{
    Timestamp, duration,
    event::{Event, EventRecord},
    ids::ItemId,
};
use prodigy_engine::clock;
use serde_json::Value;

use crate::{error::CliError, exit::Exit};

#[derive(clap::Args, Debug)]
pub(crate) struct EventFilterArgs {
    /// Show only events of this type (can be repeated)
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',')]
    types: Vec<String>,

    /// Show only events of this agent, by id (`agent-3`) or by name (`claude`)
    #[arg(long)]
    agent: Option<String>,

    /// Show only events of this item, by id or by key
    #[arg(long, value_name = "ID")]
    item: Option<String>,

    /// Show only events of this step and of the steps inside it
    #[arg(long)]
    step: Option<String>,

    /// Show only events since a time, or of the last while, e.g. `10m`
    #[arg(long, value_name = "TIME")]
    since: Option<String>,

    /// Show only the last N of them
    #[arg(long, value_name = "N")]
    limit: Option<NonZeroUsize>,

    /// Print the records as JSON, one on each line
    #[arg(long)]
    json: bool,
}

/// Which events are asked for, and how.
pub(crate) struct EventFilter {
    types: Vec<String>,
    agent: Option<String>,
    item: Option<(String, ItemId)>,
    step: Option<String>,
    since: Option<Timestamp>,
    text: Option<String>,
    pub(crate) limit: Option<NonZeroUsize>,
    pub(crate) json: bool,
}

impl EventFilterArgs {
    /// Makes sense of the arguments; `text` has to stand in the record.
    pub(crate) fn to_filter(&self, text: Option<&str>) -> Result<EventFilter, CliError> {
        for name in &self.types {
            if !Event::TYPES.contains(&name.as_str()) {
                let message = format!("there is no event type `{name}`");
                return Err(CliError::new(Exit::Usage, message)
                    .with_hint(format!("the types are {}", Event::TYPES.join(", "))));
            }
        }
        Ok(EventFilter {
            types: self.types.clone(),
            agent: self.agent.clone(),
            item: self.item.as_ref().map(|item| (item.clone(), ItemId::from_key(item))),
            step: self.step.clone(),
            since: self.since.as_deref().map(parse_since).transpose()?,
            text: text.map(str::to_owned),
            limit: self.limit,
            json: self.json,
        })
    }
}

/// Reads a time, or how long ago it was.
pub(crate) fn parse_since(text: &str) -> Result<Timestamp, CliError> {
    if let Ok(time) = text.parse() {
        return Ok(time);
    }
    let ago = duration::parse(text).ok();
    ago.and_then(|ago| clock::now().checked_sub(ago).ok()).ok_or_else(|| {
        let message = format!("`{text}` is neither a time nor a duration");
        CliError::new(Exit::Usage, message)
            .with_hint("write `--since 10m` or `--since 2026-01-31T08:00:00Z`")
    })
}

impl EventFilter {
    /// Returns whether a record is asked for.
    pub(crate) fn matches(&self, record: &EventRecord) -> bool {
        if !self.types.is_empty() && !self.types.iter().any(|t| t == record.event.event_type()) {
            return false;
        }
        if self.since.is_some_and(|since| record.timestamp < since) {
            return false;
        }
        if let Some((id, of_key)) = &self.item
            && record.item_id.as_ref().is_none_or(|item| item.as_str() != id && item != of_key)
        {
            return false;
        }
        if self.agent.is_none() && self.step.is_none() && self.text.is_none() {
            return true;
        }
        // What the journal's reader could parse can be written again.
        let value = serde_json::to_value(record).unwrap_or_default();
        let field = |name: &str| value.get(name).and_then(Value::as_str);
        let is_agent = |agent| field("agent_id") == Some(agent) || field("agent") == Some(agent);
        self.agent.as_deref().is_none_or(is_agent)
            && self.step.as_deref().is_none_or(|step| field("step").is_some_and(|s| is_in(s, step)))
            && self.text.as_deref().is_none_or(|text| value.to_string().contains(text))
    }
}

/// Returns whether a step's path is `step` or lies inside it.
fn is_in(path: &str, step: &str) -> bool {
    path.strip_prefix(step).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}
