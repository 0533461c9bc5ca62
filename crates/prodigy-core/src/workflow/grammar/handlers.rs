//! Follow-ups of a step: handlers and judges.

use super::{
    shape::{Choice, KeyNames, KeyShape, LARGEST, RecordShape, Shape},
    step::HANDLER_STEP,
};
use crate::{diagnostic::Diagnostic, yaml::YamlNode};

/// `on_failure`, in all its forms.
pub(super) static ON_FAILURE: Shape = Shape::OneOf(&[
    Shape::Bool,
    Shape::Script,
    Shape::NonEmptyList(&Shape::OneOf(&[Shape::Script, Shape::Record(&HANDLER_STEP)])),
    Shape::Record(&HANDLER),
]);

/// Commands to run one after the other.
static COMMANDS: Shape = Shape::NonEmptyList(&Shape::Record(&HANDLER_STEP));

const COMMAND_CHOICE: &[&[&str]] = &[&["shell", "claude"], &["commands"]];

/// The handler of a failed step.
pub static HANDLER: RecordShape = RecordShape {
    name: "on_failure",
    title: "`on_failure`",
    doc: "What to do when a step fails.",
    groups: &[&[
        KeyShape::new("shell", Shape::Script, "A shell command to run."),
        KeyShape::new("claude", Shape::Template, "A prompt for `claude`; it runs after `shell`."),
        KeyShape::new("commands", COMMANDS, "The steps to run."),
        KeyShape::new(
            "max_attempts",
            Shape::Integer { min: 1, max: LARGEST },
            "How often the original step is tried in all; the handler runs before each new try.",
        )
        .alias(&["max_retries"])
        .or("1"),
        KeyShape::new("fail_workflow", Shape::Bool, "Fails the phase if the step stays failed.")
            .or("in the steps of items `true`, else `false`"),
        KeyShape::new(
            "strategy",
            Shape::Word(&["recovery", "fallback", "cleanup", "custom"]),
            "What the handler is for; with `fallback` its success is the step's success. `cleanup` \
             and `custom` never recover the step.",
        )
        .or("`recovery`"),
        KeyShape::new("timeout", Shape::Duration, "The longest the handler may take.")
            .or("no limit"),
        KeyShape::new(
            "handler_failure_fatal",
            Shape::Bool,
            "Fails the phase if the handler fails.",
        )
        .or("`false`"),
        KeyShape::new(
            "capture",
            Shape::Table { names: KeyNames::Variable, value: &Shape::Text },
            "Makes variables of the handler's combined output.",
        ),
        KeyShape::new("retry_original", Shape::Bool, "No longer needed.")
            .deprecate("set `max_attempts` above 1: that tries the original again"),
    ]],
    choice: Some(Choice {
        what: "way to name commands",
        alternatives: COMMAND_CHOICE,
        required: false,
    }),
    rule: None,
};

/// A judge that says whether a step is done.
pub static VALIDATE: RecordShape = RecordShape {
    name: "validate",
    title: "`validate`",
    doc: "A judge that says whether a step is done. Its result is JSON: `completion_percentage`, `status`, `missing`, `gaps`.",
    groups: &[&[
        KeyShape::new("shell", Shape::Script, "A shell command that judges."),
        KeyShape::new("claude", Shape::Template, "A prompt that judges."),
        KeyShape::new("commands", COMMANDS, "The steps that judge."),
        KeyShape::new(
            "result_file",
            Shape::Template,
            "Where the judge leaves its result, relative to the worktree.",
        )
        .or("its output"),
        KeyShape::new(
            "threshold",
            Shape::Number { min: 0.0, max: 100.0 },
            "The percentage that counts as done.",
        )
        .or("100"),
        KeyShape::new(
            "on_incomplete",
            Shape::Record(&ON_INCOMPLETE),
            "What to do when it is not done.",
        ),
    ]],
    choice: Some(Choice { what: "way to judge", alternatives: COMMAND_CHOICE, required: true }),
    rule: None,
};

/// The steps to run when a judge is not satisfied.
pub static ON_INCOMPLETE: RecordShape = RecordShape {
    name: "on_incomplete",
    title: "`on_incomplete`",
    doc: "What to do when the judge is not satisfied; then it judges again.",
    groups: &[&[
        KeyShape::new("shell", Shape::Script, "A shell command to run."),
        KeyShape::new("claude", Shape::Template, "A prompt for `claude`."),
        KeyShape::new("commands", COMMANDS, "The steps to run."),
        KeyShape::new(
            "max_attempts",
            Shape::Integer { min: 1, max: LARGEST },
            "How often this is tried.",
        )
        .alias(&["max_retries"])
        .or("2"),
        KeyShape::new("fail_workflow", Shape::Bool, "Fails the step if it is still not done.")
            .or("`true`"),
    ]],
    choice: Some(Choice {
        what: "way to name commands",
        alternatives: COMMAND_CHOICE,
        required: false,
    }),
    rule: None,
};

/// Reports settings that stand both beside `on_failure` and in it, and output captured twice.
pub(super) fn both_places(step: &YamlNode, diagnostics: &mut Vec<Diagnostic>) {
    if let Some(handler) = step.get("on_failure") {
        for names in [&["max_attempts", "max_retries"][..], &["fail_workflow"][..]] {
            let inside = names.iter().any(|name| handler.get(name).is_some());
            let outside =
                names.iter().find_map(|name| step.key_span(name).map(|span| (name, span)));
            if let (true, Some((name, span))) = (inside, outside) {
                diagnostics.push(
                    Diagnostic::error(span, format!("`{name}` stands here and in `on_failure`"))
                        .help("keep the one in `on_failure`"),
                );
            }
        }
    }
    if let (Some(_), Some(span)) = (step.get("capture"), step.key_span("capture_output")) {
        diagnostics.push(
            Diagnostic::error(span, "`capture` and `capture_output` mean the same")
                .help("keep `capture`"),
        );
    }
}
