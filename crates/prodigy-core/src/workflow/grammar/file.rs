//! The two kinds of workflow file.

use super::{
    policy::{ERROR_POLICY, POLICY},
    settings::{FORMATS, SETTINGS, TEXTS},
    shape::{Choice, KeyNames, KeyShape, LARGEST, RecordShape, Shape},
    step::STEPS,
};
use crate::{diagnostic::Diagnostic, yaml::YamlNode};

const MODES: Shape = Shape::Word(&["sequential", "mapreduce"]);

/// A sequential workflow.
pub static WORKFLOW: RecordShape = RecordShape {
    name: "workflow",
    title: "a sequential workflow",
    doc: "Steps that run one after the other.",
    groups: &[
        &[
            KeyShape::new("mode", MODES, "The kind of workflow.").or("`sequential`"),
            KeyShape::new("steps", STEPS, "The steps.").alias(&["commands"]).require(),
            LEFTOVERS,
            KeyShape::new(
                "merge",
                PHASE_SHAPE,
                "The steps that merge the result, instead of plain git.",
            ),
        ],
        SETTINGS,
    ],
    choice: None,
    rule: None,
};

/// A MapReduce workflow.
pub static MAPREDUCE: RecordShape = RecordShape {
    name: "mapreduce",
    title: "a MapReduce workflow",
    doc: "Steps that run for many items at once, with a setup before and a reduce after.",
    groups: &[
        &[
            KeyShape::new("mode", MODES, "The kind of workflow.").require(),
            KeyShape::new(
                "setup",
                Shape::OneOf(&[STEPS, Shape::Record(&SETUP)]),
                "Runs once, first.",
            ),
            KeyShape::new("map", Shape::Record(&MAP), "Runs for each item.").require(),
            KeyShape::new(
                "reduce",
                Shape::OneOf(&[STEPS, Shape::Record(&REDUCE)]),
                "Runs once, when every item is final.",
            ),
            KeyShape::new(
                "merge",
                PHASE_SHAPE,
                "The steps that merge the result, instead of plain git.",
            ),
            KeyShape::new(
                "error_policy",
                Shape::Record(&ERROR_POLICY),
                "What to do when items fail.",
            ),
        ],
        POLICY,
        SETTINGS,
    ],
    choice: None,
    rule: Some(policy_twice),
};

const LEFTOVERS: KeyShape = KeyShape::new(
    "leftovers",
    Shape::Word(&["keep", "commit", "discard"]),
    "What becomes of files that are uncommitted at the end: kept as a reference and a patch, \
     committed (at most 1,000 files or 50 MB), or thrown away. Ignored files do not count.",
)
.or("`keep`");

static PHASE_SHAPE: Shape = Shape::OneOf(&[STEPS, Shape::Record(&MERGE)]);

static PHASE: &[KeyShape] = &[
    KeyShape::new("commands", STEPS, "The steps.").require(),
    KeyShape::new("timeout", Shape::Duration, "The longest all of them together may take.")
        .or("no limit"),
];

/// The setup phase in full.
pub static SETUP: RecordShape = RecordShape {
    name: "setup",
    title: "`setup`",
    doc: "The setup phase in full.",
    groups: &[
        PHASE,
        &[KeyShape::new(
            "capture_outputs",
            Shape::Table {
                names: KeyNames::Variable,
                value: &Shape::OneOf(&[
                    Shape::Integer { min: 0, max: LARGEST },
                    Shape::Record(&CAPTURE_OUTPUT),
                ]),
            },
            "Makes variables of the output of steps: the number of the step, from 0, or in full.",
        )],
    ],
    choice: None,
    rule: None,
};

/// The capture of a setup step's output in a variable.
pub static CAPTURE_OUTPUT: RecordShape = RecordShape {
    name: "capture_output",
    title: "a captured output",
    doc: "How the output of a setup step becomes a variable.",
    groups: &[&[
        KeyShape::new(
            "command_index",
            Shape::Integer { min: 0, max: LARGEST },
            "The number of the step, from 0.",
        )
        .require(),
        KeyShape::new("format", Shape::Word(FORMATS), "How the output is read.").or("`string`"),
        KeyShape::new("json_path", Shape::JsonPath, "The part of a JSON output that is wanted."),
        KeyShape::new(
            "pattern",
            Shape::Text,
            "A regular expression whose first group, or whole match, is wanted.",
        ),
        KeyShape::new("default", Shape::Any, "Used when there is nothing to capture."),
    ]],
    choice: None,
    rule: None,
};

/// The reduce phase in full.
pub static REDUCE: RecordShape = RecordShape {
    name: "reduce",
    title: "`reduce`",
    doc: "The reduce phase in full.",
    groups: &[PHASE],
    choice: None,
    rule: Some(commands_alone),
};

/// The merge phase in full.
pub static MERGE: RecordShape = RecordShape {
    name: "merge",
    title: "`merge`",
    doc: "The merge phase in full.",
    groups: &[PHASE],
    choice: None,
    rule: None,
};

/// The map phase.
pub static MAP: RecordShape = RecordShape {
    name: "map",
    title: "`map`",
    doc: "The map phase: which items there are, and the steps for each.",
    groups: &[&[
        KeyShape::new(
            "input",
            Shape::OneOf(&[Shape::Template, Shape::Record(&INPUT)]),
            "Where the items come from: a file, a command, or in full.",
        )
        .require(),
        KeyShape::new(
            "json_path",
            Shape::JsonPath,
            "Which part of a JSON input holds the items (RFC 9535).",
        ),
        KeyShape::new(
            "agent_template",
            Shape::OneOf(&[STEPS, Shape::Record(&AGENT_TEMPLATE)]),
            "The steps for each item.",
        )
        .require(),
        KeyShape::new(
            "max_parallel",
            Shape::Integer { min: 1, max: 1024 },
            "How many items are worked on at once.",
        )
        .or("10"),
        KeyShape::new("filter", Shape::Expression, "Takes only the items for which it is true.")
            .or("all"),
        KeyShape::new(
            "sort_by",
            Shape::Expression,
            "The order of the items, e.g. `item.priority DESC NULLS LAST, item.path`.",
        )
        .or("as they come"),
        KeyShape::new(
            "distinct",
            Shape::Expression,
            "Takes only the first item for each value of this.",
        ),
        KeyShape::new(
            "offset",
            Shape::Integer { min: 0, max: LARGEST },
            "How many items to pass over.",
        )
        .or("0"),
        KeyShape::new(
            "max_items",
            Shape::Integer { min: 0, max: LARGEST },
            "The most items taken.",
        )
        .or("all"),
        KeyShape::new(
            "agent_timeout_secs",
            Shape::Duration,
            "The longest one attempt at an item may take.",
        )
        .alias(&["agent_timeout", "timeout_per_agent"])
        .or("no limit"),
        KeyShape::new("item_key", Shape::Expression, "Gives each item a stable id.")
            .or("`item-001`, by position"),
        KeyShape::new(
            "isolation",
            Shape::Word(&["worktree", "shared"]),
            "Gives each item a worktree of its own, or lets all share one.",
        )
        .or("`worktree`"),
        KeyShape::new("worktree", Shape::Record(&WORKTREE), "What a new worktree needs."),
        KeyShape::new("result", Shape::Record(&RESULT), "What counts as an item's result."),
        KeyShape::new(
            "on_conflict",
            Shape::WordOr { words: &["rerun", "fail"], prefix: "", rest: "AGENT" },
            "What to do when an item's commits conflict with what was merged meanwhile: try it once \
             more, give it up, or have the agent of that name resolve the conflict.",
        )
        .or("`rerun`"),
        LEFTOVERS,
    ]],
    choice: None,
    rule: None,
};

static AGENT_TEMPLATE: RecordShape = RecordShape {
    name: "agent_template",
    title: "`agent_template`",
    doc: "The old form of the steps for each item.",
    groups: &[&[KeyShape::new("commands", STEPS, "The steps for each item.")
        .require()
        .deprecate("put the steps directly under `agent_template`")]],
    choice: None,
    rule: None,
};

/// Where items come from, in full.
pub static INPUT: RecordShape = RecordShape {
    name: "input",
    title: "`input`",
    doc: "Where items come from, in full.",
    groups: &[&[
        KeyShape::new(
            "file",
            Shape::Template,
            "A file: JSON, JSONL, CSV, TSV, or one item per line, by its extension.",
        ),
        KeyShape::new("command", Shape::Script, "A command that prints the items."),
        KeyShape::new("glob", Shape::Template, "A pattern of file names."),
        KeyShape::new("items", Shape::List(&Shape::Any), "The items themselves."),
    ]],
    choice: Some(Choice {
        what: "source",
        alternatives: &[&["file"], &["command"], &["glob"], &["items"]],
        required: true,
    }),
    rule: None,
};

/// The steps and files that a new worktree needs.
pub static WORKTREE: RecordShape = RecordShape {
    name: "worktree",
    title: "`worktree`",
    doc: "What a new worktree needs.",
    groups: &[&[
        KeyShape::new("setup", STEPS, "Steps that run once in each new worktree."),
        KeyShape::new("include", Shape::Text, "A file with patterns of ignored files to copy.")
            .or("`.worktreeinclude`"),
        KeyShape::new("copy", TEXTS, "Paths to copy from the checkout."),
        KeyShape::new("link", TEXTS, "Paths to link to the checkout."),
    ]],
    choice: None,
    rule: None,
};

/// The definition of an item's result.
pub static RESULT: RecordShape = RecordShape {
    name: "result",
    title: "`result`",
    doc: "What counts as an item's result.",
    groups: &[&[
        KeyShape::new("file", Shape::Text, "A file that the item leaves."),
        KeyShape::new("json_path", Shape::JsonPath, "The part of it that is wanted."),
        KeyShape::new("schema", Shape::JsonSchema, "A JSON Schema that it must satisfy."),
    ]],
    choice: Some(Choice {
        what: "setting",
        alternatives: &[&["file", "json_path", "schema"]],
        required: true,
    }),
    rule: None,
};

/// Reports settings that stand both at the top and in `error_policy`.
fn policy_twice(file: &YamlNode, diagnostics: &mut Vec<Diagnostic>) {
    let Some(policy) = file.get("error_policy") else {
        return;
    };
    for key in POLICY {
        if let (Some(_), Some(span)) = (policy.get(key.name), file.key_span(key.name)) {
            diagnostics.push(
                Diagnostic::error(
                    span,
                    format!("`{}` stands here and in `error_policy`", key.name),
                )
                .help("keep the one in `error_policy`"),
            );
        }
    }
}

/// Warns about a mapping that holds nothing but the steps.
fn commands_alone(phase: &YamlNode, diagnostics: &mut Vec<Diagnostic>) {
    if let (Some(span), Some(1)) = (phase.key_span("commands"), phase.as_mapping().map(<[_]>::len))
    {
        diagnostics.push(
            Diagnostic::warning(span, "`commands` is not needed here")
                .help("put the steps directly under `reduce`"),
        );
    }
}
