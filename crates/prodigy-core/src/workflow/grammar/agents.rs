//! Configuration of agents.

use super::{
    settings::TEXTS,
    shape::{KeyNames, KeyShape, LARGEST, RecordShape, Shape, TaggedShape},
    simulated::SIMULATED_AGENT,
};
use crate::failure::ReasonCode;

/// The configuration of an agent.
pub static AGENT: TaggedShape = TaggedShape {
    name: "agent",
    tag: "type",
    variants: &[
        ("claude", &CLAUDE_AGENT),
        ("codex", &CODEX_AGENT),
        ("command", &COMMAND_AGENT),
        ("simulated", &SIMULATED_AGENT),
    ],
};

/// The words for the actions that an agent may take without asking.
pub(super) const PERMISSION_MODES: Shape =
    Shape::Word(&["default", "acceptEdits", "plan", "bypass"]);

/// Names of tools.
pub(super) const TOOLS: Shape = Shape::OneOf(&[Shape::Text, TEXTS]);

/// A number of turns.
pub(super) const TURNS: Shape = Shape::Integer { min: 1, max: LARGEST };

/// An amount of money.
pub(super) const MONEY: Shape = Shape::Number { min: 0.0, max: f64::MAX };

/// The key for the prices of an agent's tokens.
const PRICES_KEY: KeyShape = KeyShape::new(
    "prices",
    Shape::Record(&PRICES),
    "The prices of its tokens, for runs that do not tell what they cost.",
)
.or("what earlier results of the same model imply");

static PRICES: RecordShape = RecordShape {
    name: "prices",
    title: "`prices`",
    doc: "Prices of an agent's tokens, in US dollars per million.",
    groups: &[&[
        KeyShape::new("input", MONEY, "Tokens that it reads and that are in no cache.").require(),
        KeyShape::new("output", MONEY, "Tokens that it writes.").require(),
        KeyShape::new("cache_read", MONEY, "Tokens that it reads from a cache.").or("as `input`"),
        KeyShape::new("cache_write", MONEY, "Tokens that it puts into a cache.").or("as `input`"),
    ]],
    choice: None,
    rule: None,
};

static CLAUDE_AGENT: RecordShape = RecordShape {
    name: "claude_agent",
    title: "an agent of type `claude`",
    doc: "Claude Code, run without a terminal. What a step says wins over what stands here.",
    groups: &[&[
        KeyShape::new("type", Shape::Word(&["claude"]), "The kind of agent.").require(),
        KeyShape::new(
            "command",
            Shape::NonEmptyList(&Shape::Text),
            "The program and its first arguments.",
        )
        .or("`[claude]`"),
        KeyShape::new("model", Shape::Text, "The model that it uses.").or("its own choice"),
        KeyShape::new(
            "fallback_model",
            Shape::Text,
            "The model that it uses while the other one is overloaded; more than one stand behind commas.",
        )
        .or("none"),
        KeyShape::new(
            "permission_mode",
            PERMISSION_MODES,
            "What it may do without asking; nobody is there to be asked, so the rest is denied.",
        )
        .or("`acceptEdits`"),
        KeyShape::new(
            "allowed_tools",
            TOOLS,
            "The tools that it may use besides, e.g. `Bash(git commit *)`.",
        ),
        KeyShape::new("disallowed_tools", TOOLS, "The tools that it may not use."),
        KeyShape::new("max_turns", TURNS, "The most turns that it may take.").or("no limit"),
        KeyShape::new("max_budget_usd", MONEY, "The most that one prompt may cost.")
            .or("no limit"),
        KeyShape::new(
            "system_prompt",
            Shape::Template,
            "What it is told besides its own system prompt.",
        ),
        KeyShape::new(
            "config_dir",
            Shape::Text,
            "The directory of its settings, credentials and sessions, absolute or with `~/`.",
        )
        .or("its own choice"),
        KeyShape::new("args", TEXTS, "More arguments, behind those that prodigy gives it."),
        PRICES_KEY,
    ]],
    choice: None,
    rule: None,
};

static CODEX_AGENT: RecordShape = RecordShape {
    name: "codex_agent",
    title: "an agent of type `codex`",
    doc: "Codex, run without a terminal. What a step says wins over what stands here.",
    groups: &[&[
        KeyShape::new("type", Shape::Word(&["codex"]), "The kind of agent.").require(),
        KeyShape::new(
            "command",
            Shape::NonEmptyList(&Shape::Text),
            "The program and its first arguments.",
        )
        .or("`[codex]`"),
        KeyShape::new("model", Shape::Text, "The model that it uses.").or("its own choice"),
        KeyShape::new(
            "sandbox",
            Shape::Word(&["read-only", "workspace-write", "danger-full-access"]),
            "What the commands that it runs may touch.",
        )
        .or("`workspace-write`"),
        KeyShape::new(
            "system_prompt",
            Shape::Template,
            "What it is told besides its own system prompt.",
        ),
        KeyShape::new(
            "config",
            Shape::Table { names: KeyNames::Free, value: &Shape::Any },
            "Values of its configuration, by dotted name.",
        ),
        KeyShape::new("args", TEXTS, "More arguments, behind those that prodigy gives it."),
        PRICES_KEY,
    ]],
    choice: None,
    rule: None,
};

static COMMAND_AGENT: RecordShape = RecordShape {
    name: "command_agent",
    title: "an agent of type `command`",
    doc: "An agent that is any program.",
    groups: &[&[
        KeyShape::new("type", Shape::Word(&["command"]), "The kind of agent.").require(),
        KeyShape::new(
            "command",
            Shape::NonEmptyList(&Shape::Text),
            "The program and its arguments.",
        )
        .require(),
        KeyShape::new("prompt", Shape::Word(&["stdin", "argument"]), "How the prompt reaches it.")
            .or("`stdin`"),
        KeyShape::new(
            "exit_codes",
            Shape::Table {
                names: KeyNames::ExitCode,
                value: &Shape::OneOf(&[Shape::Word(&["success"]), Shape::Word(ReasonCode::CODES)]),
            },
            "What its exit codes mean: `success`, or a reason code.",
        )
        .or("any but 0 is `agent_error`, or what it printed says more"),
        KeyShape::new(
            "result_file",
            Shape::Text,
            "The file that has its answer, relative to where it runs.",
        )
        .or("what it prints"),
    ]],
    choice: None,
    rule: None,
};
