//! The keys of a step, the same in every phase.

use super::{
    agents::{MONEY, PERMISSION_MODES, TOOLS, TURNS},
    handlers::{ON_FAILURE, VALIDATE, both_places},
    policy::RETRY,
    settings::{ENVIRONMENT, FORMATS},
    shape::{Choice, KeyNames, KeyShape, LARGEST, RecordShape, Shape},
};

/// The actions that run an agent.
const AGENTS: &[&str] = &["claude", "codex", "agent"];

/// A list of steps.
pub(super) static STEPS: Shape = Shape::NonEmptyList(&Shape::Record(&STEP));

/// One step.
pub static STEP: RecordShape = RecordShape {
    name: "step",
    title: "a step",
    doc: "One step: exactly one action, and what goes with it.",
    groups: &[ACTIONS, MODIFIERS, AGENT_MODIFIERS],
    choice: Some(Choice {
        what: "action",
        alternatives: &[
            &["shell"],
            &["claude"],
            &["codex"],
            &["agent"],
            &["write_file"],
            &["foreach"],
        ],
        required: true,
    }),
    rule: Some(both_places),
};

/// A step of a handler, where `shell` and `claude` may stand together.
pub static HANDLER_STEP: RecordShape = RecordShape {
    name: "handler_step",
    title: "a step",
    doc: "A step of a handler: like any step, but `shell` and `claude` may stand together and run in that order.",
    groups: &[ACTIONS, MODIFIERS, AGENT_MODIFIERS],
    choice: Some(Choice {
        what: "action",
        alternatives: &[
            &["shell", "claude"],
            &["codex"],
            &["agent"],
            &["write_file"],
            &["foreach"],
        ],
        required: true,
    }),
    rule: Some(both_places),
};

/// The keys of the actions.
static ACTIONS: &[KeyShape] = &[
    KeyShape::new(
        "shell",
        Shape::Script,
        "Runs a shell command in the worktree; inserted values travel as environment variables, never as program text.",
    ),
    KeyShape::new("claude", Shape::Template, "Gives a prompt to the agent named `claude`."),
    KeyShape::new("codex", Shape::Template, "Gives a prompt to the agent named `codex`."),
    KeyShape::new("agent", Shape::Record(&AGENT_CALL), "Gives a prompt to any configured agent."),
    KeyShape::new("write_file", Shape::Record(&WRITE_FILE), "Writes a file inside the worktree."),
    KeyShape::new("foreach", Shape::Record(&FOREACH), "Runs steps for each of some values."),
];

/// The keys that go with any action.
static MODIFIERS: &[KeyShape] = &[
    KeyShape::new(
        "id",
        Shape::Text,
        "Names the step for `${steps.ID.output}`, `.exit_code` and `.status`.",
    ),
    KeyShape::new("name", Shape::Text, "What progress shows.").or("the action"),
    KeyShape::new("when", Shape::Expression, "Skips the step unless the expression is true."),
    KeyShape::new(
        "timeout",
        Shape::Duration,
        "Ends the step with all its processes when it takes longer.",
    )
    .or("no limit"),
    KeyShape::new(
        "idle_timeout",
        Shape::Duration,
        "Ends the step when it prints nothing for this long.",
    )
    .or("no limit"),
    KeyShape::new("env", ENVIRONMENT, "Adds environment variables for this step."),
    KeyShape::new(
        "working_dir",
        Shape::Template,
        "Where the step runs, relative to the worktree and inside it.",
    )
    .or("the worktree"),
    KeyShape::new("shell_program", Shape::Text, "The shell that runs the command.")
        .or("`sh`")
        .only_beside(&["shell"]),
    KeyShape::new(
        "allow_raw",
        Shape::Bool,
        "Allows `${x|raw}`, which makes a value part of the program text.",
    )
    .or("`false`")
    .only_beside(&["shell"]),
    KeyShape::new(
        "capture",
        Shape::OneOf(&[
            Shape::Text,
            Shape::Table { names: KeyNames::Variable, value: &Shape::Record(&CAPTURE) },
        ]),
        "Keeps the output as a variable: a name, or names with format and stream.",
    ),
    KeyShape::new(
        "capture_output",
        Shape::OneOf(&[Shape::Bool, Shape::Text]),
        "The old spelling of `capture`.",
    )
    .deprecate("write `capture: NAME`"),
    KeyShape::new(
        "capture_format",
        Shape::Word(FORMATS),
        "How captured output is read; output in another format fails the step.",
    )
    .or("`string`")
    .only_beside(&["capture", "capture_output"]),
    KeyShape::new(
        "output_file",
        Shape::Template,
        "A file in the worktree that gets a copy of standard output.",
    ),
    KeyShape::new("commit_required", Shape::Bool, "Fails the step if it makes no commit.")
        .or("`false`"),
    KeyShape::new(
        "auto_commit",
        Shape::Bool,
        "Commits what the step leaves uncommitted, at most 1,000 files or 50 MB.",
    )
    .or("`true` for agents without `commit_required`, and for Codex and programs also with it, but not with `isolation: shared`, in `merge` or in `validate`; else `false`"),
    KeyShape::new("continue_on_error", Shape::Bool, "Records a failure and runs the next step.")
        .or("`false`"),
    KeyShape::new("retry", Shape::Record(&RETRY), "Tries this step alone again when it fails."),
    KeyShape::new(
        "on_failure",
        ON_FAILURE,
        "What to do when the step fails: `true` to ignore it, commands, or a handler.",
    ),
    KeyShape::new(
        "max_attempts",
        Shape::Integer { min: 1, max: LARGEST },
        "Means the same as inside `on_failure`.",
    )
    .alias(&["max_retries"])
    .or("1")
    .only_beside(&["on_failure"]),
    KeyShape::new("fail_workflow", Shape::Bool, "Means the same as inside `on_failure`.")
        .or("`false`")
        .only_beside(&["on_failure"]),
    KeyShape::new(
        "on_success",
        Shape::Record(&HANDLER_STEP),
        "A step to run when this one succeeds.",
    ),
    KeyShape::new(
        "on_exit_code",
        Shape::Table { names: KeyNames::ExitCode, value: &Shape::Record(&HANDLER_STEP) },
        "Picks a step by exit code, before `on_failure` is considered.",
    ),
    KeyShape::new(
        "validate",
        Shape::Record(&VALIDATE),
        "A judge that says whether the step is done.",
    ),
    KeyShape::new(
        "effects",
        Shape::Word(&["none", "local", "external"]),
        "Says how far the effects of the step reach: `none`; `local`, confined to the worktree; `external`, which is never repeated unless somebody decided so.",
    )
    .or("`local`"),
    KeyShape::new(
        "idempotent",
        Shape::Bool,
        "Says that making the external effect twice does no harm.",
    )
    .or("`false`")
    .only_beside(&["effects"]),
    KeyShape::new(
        "check",
        Shape::Script,
        "A read-only command that finds out whether the external effect has happened: exit 0 for yes (it prints the receipt), 1 for no, 2 for a part of it, anything else for unknown.",
    )
    .only_beside(&["effects"]),
    KeyShape::new(
        "compensate",
        Shape::Script,
        "A command that undoes the external effect; `check` confirms it.",
    )
    .only_beside(&["effects"]),
];

/// The keys that go with steps that run an agent.
static AGENT_MODIFIERS: &[KeyShape] = &[
    KeyShape::new(
        "output_schema",
        Shape::JsonSchema,
        "A JSON Schema that the agent's answer must satisfy.",
    )
    .only_beside(AGENTS),
    KeyShape::new("model", Shape::Text, "The model that the agent uses.")
        .or("what the agent is configured with")
        .only_beside(AGENTS),
    KeyShape::new(
        "permission_mode",
        PERMISSION_MODES,
        "What the agent may do without asking; `bypass` must be asked for by name.",
    )
    .or("what the agent is configured with")
    .only_beside(AGENTS),
    KeyShape::new("allowed_tools", TOOLS, "The tools that the agent may use besides.")
        .or("what the agent is configured with")
        .only_beside(AGENTS),
    KeyShape::new("disallowed_tools", TOOLS, "The tools that the agent may not use.")
        .or("what the agent is configured with")
        .only_beside(AGENTS),
    KeyShape::new("max_turns", TURNS, "The most turns the agent may take.")
        .or("what the agent is configured with")
        .only_beside(AGENTS),
    KeyShape::new("max_budget_usd", MONEY, "The most the agent may spend.")
        .or("what the agent is configured with")
        .only_beside(AGENTS),
    KeyShape::new(
        "system_prompt",
        Shape::Template,
        "What the agent is told besides its own system prompt.",
    )
    .or("what the agent is configured with")
    .only_beside(AGENTS),
];

/// A prompt for any agent.
pub static AGENT_CALL: RecordShape = RecordShape {
    name: "agent_call",
    title: "`agent`",
    doc: "A prompt for any configured agent.",
    groups: &[&[
        KeyShape::new("use", Shape::Text, "The agent's name in `agents`.").require(),
        KeyShape::new("prompt", Shape::Template, "The prompt.").require(),
    ]],
    choice: None,
    rule: None,
};

/// A file to write.
pub static WRITE_FILE: RecordShape = RecordShape {
    name: "write_file",
    title: "`write_file`",
    doc: "A file to write inside the worktree, never outside it.",
    groups: &[&[
        KeyShape::new("path", Shape::Template, "Where the file goes, relative to the worktree.")
            .require(),
        KeyShape::new("content", Shape::Template, "What the file gets.").require(),
        KeyShape::new(
            "format",
            Shape::Word(&["text", "json", "yaml"]),
            "What the content must be.",
        )
        .or("`text`"),
        KeyShape::new("mode", Shape::Text, "The file's permissions, e.g. `0644`."),
        KeyShape::new("create_dirs", Shape::Bool, "Makes missing directories.").or("`false`"),
    ]],
    choice: None,
    rule: None,
};

/// A loop.
pub static FOREACH: RecordShape = RecordShape {
    name: "foreach",
    title: "`foreach`",
    doc: "Steps for each of some values; they see `${item}`, `${index}` and `${total}`.",
    groups: &[&[
        KeyShape::new(
            "input",
            Shape::OneOf(&[Shape::Script, Shape::List(&Shape::Any)]),
            "The values, or a command that prints one per line.",
        )
        .require(),
        KeyShape::new("do", STEPS, "The steps for each value.").require(),
        KeyShape::new(
            "parallel",
            Shape::Integer { min: 1, max: 1024 },
            "How many values are worked on at once.",
        )
        .or("1"),
        KeyShape::new(
            "continue_on_error",
            Shape::Bool,
            "Goes on with the other values when one fails.",
        )
        .or("`false`"),
        KeyShape::new(
            "max_items",
            Shape::Integer { min: 0, max: LARGEST },
            "The most values taken.",
        )
        .or("all"),
    ]],
    choice: None,
    rule: None,
};

/// The capture of one output in a variable.
pub static CAPTURE: RecordShape = RecordShape {
    name: "capture",
    title: "`capture`",
    doc: "How the output of a step becomes a variable.",
    groups: &[&[
        KeyShape::new("format", Shape::Word(FORMATS), "How the output is read.").or("`string`"),
        KeyShape::new("stream", Shape::Word(&["stdout", "stderr", "both"]), "Which output.")
            .or("`stdout`"),
    ]],
    choice: None,
    rule: None,
};
