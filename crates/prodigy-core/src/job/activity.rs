//! The last known activity of an agent.

use crate::{
    Timestamp,
    agent::TokenUsage,
    event::{Event, EventRecord},
};

/// The last known activity of an agent.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentActivity {
    /// The tool that it used last in this step, and what for.
    pub tool: Option<(String, String)>,
    /// Set if it reports its activity in this step; other agents may work without any report.
    pub is_talking: bool,
    /// When something of it was last recorded.
    pub heard: Timestamp,
    /// The cost that it reported so far.
    pub cost_usd: f64,
    /// The tokens it used so far.
    pub tokens: TokenUsage,
}

impl AgentActivity {
    /// Begins at a moment.
    pub fn new(at: Timestamp) -> Self {
        let tokens = TokenUsage::default();
        Self { tool: None, is_talking: false, heard: at, cost_usd: 0.0, tokens }
    }

    /// Applies a record about the agent.
    pub fn apply(&mut self, record: &EventRecord) {
        self.heard = record.timestamp;
        if let Event::AgentToolUsed { tool, about, .. } = &record.event {
            self.tool = Some((tool.clone(), about.clone()));
            self.is_talking = true;
        } else if let Event::AgentSessionStarted { .. } = &record.event {
            self.is_talking = true;
        } else if let Event::StepStarted { .. } = &record.event {
            (self.tool, self.is_talking) = (None, false);
        } else if let Event::AgentUsage { cost_usd, tokens, .. } = &record.event {
            self.cost_usd += cost_usd.unwrap_or_default();
            self.tokens += *tokens;
        }
    }
}
