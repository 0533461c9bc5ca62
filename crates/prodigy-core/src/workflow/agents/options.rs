//! Options of an agent.

use std::num::NonZeroU32;

use crate::{diagnostic::Span, json_schema::OutputSchema, template::Template};

/// The options of an agent, set by its configuration or by a step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentOptions {
    /// The model.
    pub model: Option<String>,
    /// The model to use while the other one is overloaded.
    pub fallback_model: Option<String>,
    /// The actions that it may take without asking.
    pub permission_mode: Option<PermissionMode>,
    /// The tools that it may use besides, in its own notation.
    pub allowed_tools: Option<Vec<String>>,
    /// The tools that it may not use, in its own notation.
    pub disallowed_tools: Option<Vec<String>>,
    /// The most turns.
    pub max_turns: Option<NonZeroU32>,
    /// The most that one prompt may cost.
    pub max_budget_usd: Option<f64>,
    /// The text that is added to its own system prompt.
    pub system_prompt: Option<Template>,
    /// The JSON Schema that its answer must satisfy.
    pub output_schema: Option<OutputSchema>,
    /// Set if its answer is the verdict of a judge: an agent that can is given the form of one.
    pub is_judge: bool,
    /// The keys that set all this, for messages.
    pub given: Vec<GivenOption>,
}

/// A key that asks something of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GivenOption {
    /// The ability that the key asks for.
    pub ability: Ability,
    /// Where the key stands.
    pub span: Span,
}

/// The actions that an agent may take without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PermissionMode {
    /// Those that its own settings allow.
    Default,
    /// Change files in the worktree.
    AcceptEdits,
    /// Look, and change nothing.
    Plan,
    /// Everything.
    Bypass,
}

impl AgentOptions {
    /// Returns these options, with those of another set where these say nothing.
    #[must_use]
    pub fn with_defaults(&self, other: &Self) -> Self {
        let (own, other) = (self.clone(), other.clone());
        Self {
            model: own.model.or(other.model),
            fallback_model: own.fallback_model.or(other.fallback_model),
            permission_mode: own.permission_mode.or(other.permission_mode),
            allowed_tools: own.allowed_tools.or(other.allowed_tools),
            disallowed_tools: own.disallowed_tools.or(other.disallowed_tools),
            max_turns: own.max_turns.or(other.max_turns),
            max_budget_usd: own.max_budget_usd.or(other.max_budget_usd),
            system_prompt: own.system_prompt.or(other.system_prompt),
            output_schema: own.output_schema.or(other.output_schema),
            is_judge: own.is_judge,
            given: own.given.into_iter().chain(other.given).collect(),
        }
    }
}

/// Something that not every agent can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ability {
    /// Use the model that is named.
    Model,
    /// Use another model while that one is overloaded.
    FallbackModel,
    /// Keep to a permission mode.
    PermissionMode,
    /// Use tools that are named without asking.
    AllowedTools,
    /// Keep from tools that are named.
    DisallowedTools,
    /// Stop after some turns.
    MaxTurns,
    /// Stop when some money is spent.
    MaxBudget,
    /// Keep to a system prompt.
    SystemPrompt,
    /// Answer in a form that a schema asks for.
    OutputSchema,
    /// Go on where an attempt was cut off.
    Resume,
    /// Say what it cost.
    Cost,
    /// Say how many tokens it used.
    Tokens,
}
