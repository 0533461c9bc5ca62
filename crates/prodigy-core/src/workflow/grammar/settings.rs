//! Keys at the top of a file: environment, secrets, parameters, agents.

use super::agents::AGENT;
use super::policy::{BUDGET, QUOTA};
use super::sandbox::SANDBOX;
use super::shape::{Choice, KeyNames, KeyShape, RecordShape, Shape};

/// The formats in which captured output can be read.
pub(super) const FORMATS: &[&str] = &["string", "number", "json", "lines", "boolean"];

/// Environment variables.
pub(super) const ENVIRONMENT: Shape =
    Shape::Table { names: KeyNames::Environment, value: &Shape::Template };

/// A list of texts.
pub(super) const TEXTS: Shape = Shape::List(&Shape::Text);

/// The keys that both kinds of workflow have.
pub(super) static SETTINGS: &[KeyShape] = &[
    KeyShape::new("name", Shape::Text, "What the workflow is called.").or("the file's name"),
    KeyShape::new("env", ENVIRONMENT, "Sets environment variables for every step."),
    KeyShape::new(
        "env_files",
        Shape::OneOf(&[Shape::Text, TEXTS]),
        "Files with more environment variables, relative to this file.",
    ),
    KeyShape::new(
        "secrets",
        Shape::Table { names: KeyNames::Environment, value: &Shape::Record(&SECRET) },
        "Values that are never shown: in no log, event or report.",
    ),
    KeyShape::new(
        "profiles",
        Shape::Table { names: KeyNames::Free, value: &ENVIRONMENT },
        "Sets of environment variables chosen with `--profile`.",
    ),
    KeyShape::new(
        "parameters",
        Shape::Table { names: KeyNames::Variable, value: &Shape::Record(&PARAMETER) },
        "Values set with `--param`, used as `${params.NAME}`.",
    ),
    KeyShape::new(
        "agents",
        Shape::Table { names: KeyNames::Free, value: &Shape::Tagged(&AGENT) },
        "The agents that steps may name.",
    ),
    KeyShape::new(
        "sandbox",
        SANDBOX,
        "Keeps agents and the steps of items from the rest of the machine.",
    )
    .or("`none`"),
    KeyShape::new("budget", Shape::Record(&BUDGET), "Limits what the job may cost."),
    KeyShape::new("quota", Shape::Record(&QUOTA), "What to do at the usage limit of an agent."),
    KeyShape::new(
        "extends",
        Shape::OneOf(&[Shape::Text, TEXTS]),
        "Workflow files whose keys this one changes, relative to this file; a later one wins.",
    ),
    KeyShape::new(
        "imports",
        Shape::OneOf(&[Shape::Text, TEXTS]),
        "Files with settings that are added, relative to this file.",
    ),
    KeyShape::new("template", Shape::Record(&TEMPLATE), "Makes this workflow from a template."),
];

/// A value that is never shown.
pub static SECRET: RecordShape = RecordShape {
    name: "secret",
    title: "a secret",
    doc: "Where a value that is never shown comes from.",
    groups: &[&[
        KeyShape::new("env", Shape::Text, "An environment variable of prodigy itself."),
        KeyShape::new("file", Shape::Text, "A file, relative to the workflow file."),
        KeyShape::new("command", Shape::Text, "A command that prints it."),
    ]],
    choice: Some(Choice {
        what: "source",
        alternatives: &[&["env"], &["file"], &["command"]],
        required: true,
    }),
    rule: None,
};

/// A value that the person who runs the workflow chooses.
pub static PARAMETER: RecordShape = RecordShape {
    name: "parameter",
    title: "a parameter",
    doc: "A value that the person who runs the workflow chooses.",
    groups: &[&[
        KeyShape::new(
            "type",
            Shape::Word(&["string", "number", "boolean", "array", "object"]),
            "What it must be.",
        )
        .or("`string`"),
        KeyShape::new("default", Shape::Any, "Used when it is not given."),
        KeyShape::new("required", Shape::Bool, "Says that it must be given.").or("`false`"),
        KeyShape::new("enum", Shape::NonEmptyList(&Shape::Any), "The only values allowed.")
            .or("any"),
        KeyShape::new("description", Shape::Text, "Says what it is for."),
    ]],
    choice: None,
    rule: None,
};

/// A template and its values.
pub static TEMPLATE: RecordShape = RecordShape {
    name: "template",
    title: "`template`",
    doc: "A template that the workflow is made from.",
    groups: &[&[
        KeyShape::new("source", Shape::Text, "The file of the template, relative to this file.")
            .require(),
        KeyShape::new(
            "with",
            Shape::Table { names: KeyNames::Variable, value: &Shape::Any },
            "The parameters of the template.",
        ),
    ]],
    choice: None,
    rule: None,
};
