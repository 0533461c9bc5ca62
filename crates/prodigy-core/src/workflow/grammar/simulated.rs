//! The simulated agent, and the files that say what goes wrong in a rehearsal.

use serde_json::Value;

use super::{
    reference::page_of,
    schema::schema_of,
    shape::{KeyShape, LARGEST, RecordShape, Shape},
};
use crate::{diagnostic::Diagnostic, workflow::SimulatedFault, yaml::YamlNode};

/// The agent that is built in.
pub(super) static SIMULATED_AGENT: RecordShape = RecordShape {
    name: "simulated_agent",
    title: "an agent of type `simulated`",
    doc: "The agent that is built in: scripted answers, no tokens, no network.",
    groups: &[&[
        KeyShape::new("type", Shape::Word(&["simulated"]), "The kind of agent.").require(),
        SEED,
        KeyShape::new(
            "rules",
            Shape::List(&Shape::Record(&SIMULATED_RULE)),
            "What it answers: the first rule that matches the prompt.",
        ),
    ]],
    choice: None,
    rule: None,
};

/// A file that says what goes wrong in a rehearsal.
pub static FAULTS: RecordShape = RecordShape {
    name: "faults",
    title: "the file of faults",
    doc: "What the agents of a rehearsal do, and what goes wrong.",
    groups: &[&[
        SEED,
        KeyShape::new(
            "default",
            Shape::Record(&SIMULATED_WORK),
            "What agents do where no rule decides, and what rules say nothing about.",
        ),
        KeyShape::new(
            "rules",
            Shape::List(&Shape::Record(&SIMULATED_RULE)),
            "The first rule decides that matches and whose fault, if it has one, strikes.",
        ),
    ]],
    choice: None,
    rule: None,
};

/// Returns the JSON Schema of files of faults.
pub fn faults_schema() -> Value {
    schema_of("prodigy faults", &FAULTS)
}

/// Returns the reference page of files of faults, in Markdown.
pub fn faults_markdown() -> String {
    let mut intro = "# Files of faults\n\n\
        What the agents of a rehearsal do and what goes wrong: `prodigy simulate WORKFLOW --faults\n\
        FILE`. The rules of an [agent of type `simulated`](workflow.md#simulated_rule) have the same\n\
        keys. A key that is not listed here is an error.\n\n\
        ## Faults\n\n\
        | fault | what happens | reason code |\n|---|---|---|\n"
        .to_owned();
    for (word, fault) in SimulatedFault::TABLE {
        let cells = ["| `", word, "` | ", fault.meaning(), " | ", fault.leads_to(), " |\n"];
        intro.extend(cells);
    }
    page_of(&intro, &[&FAULTS])
}

const SEED: KeyShape =
    KeyShape::new("seed", Shape::Integer { min: 0, max: i64::MAX }, "Fixes what is random.")
        .or("0");

/// The work of agents in a rehearsal where no rule decides.
static SIMULATED_WORK: RecordShape = RecordShape {
    name: "default",
    title: "`default`",
    doc: "What agents do where no rule decides.",
    groups: &[WORK],
    choice: None,
    rule: None,
};

static SIMULATED_RULE: RecordShape = RecordShape {
    name: "simulated_rule",
    title: "a rule",
    doc: "What the simulated agent does for some prompts.",
    groups: &[WHEN, WORK, TROUBLE],
    choice: None,
    rule: Some(belongs),
};

/// Which prompts a rule is for.
static WHEN: &[KeyShape] = &[
    KeyShape::new("prompt", Shape::Text, "A regular expression on the prompt.").or("every prompt"),
    KeyShape::new(
        "item",
        Shape::Text,
        "The item's id, with `*` for any text; the job's own steps have the item `workflow`.",
    )
    .or("every item"),
    KeyShape::new(
        "step",
        Shape::Text,
        "The step's `id` or its path as it is shown, such as `map.1`, with `*` for any text.",
    )
    .or("every step"),
    KeyShape::new(
        "attempt",
        Shape::Integer { min: 1, max: LARGEST },
        "Which attempt, counted from 1; those of the step and those of its item count.",
    )
    .or("every attempt"),
];

/// The keys of the simulated agent's work.
static WORK: &[KeyShape] = &[
    KeyShape::new("answer", Shape::Text, "What it answers, or the message of an error.")
        .or("`done`"),
    KeyShape::new("result", Shape::Any, "Its answer as data, e.g. for `output_schema`."),
    KeyShape::new("delay", Shape::Duration, "How long it takes.").or("0"),
    KeyShape::new("jitter", Shape::Duration, "How much longer it may take, by chance.").or("0"),
    KeyShape::new("edits", Shape::List(&Shape::Record(&SIMULATED_EDIT)), "The files it writes."),
    KeyShape::new("commit", Shape::Text, "The message of the commit it makes of everything.")
        .or("no commit"),
    KeyShape::new("cost_usd", Shape::Number { min: 0.0, max: f64::MAX }, "What it says it cost.")
        .or("0"),
    KeyShape::new("tokens", Shape::Record(&SIMULATED_TOKENS), "What it says it used."),
    KeyShape::new(
        "turns",
        Shape::Integer { min: 0, max: LARGEST },
        "How many turns it says it took.",
    )
    .or("1"),
    KeyShape::new("model", Shape::Text, "The model it says it used.").or("`simulated`"),
];

/// The keys of a fault.
static TROUBLE: &[KeyShape] = &[
    KeyShape::new("fault", Shape::Word(SimulatedFault::WORDS), "What goes wrong.").or("nothing"),
    KeyShape::new("probability", Shape::Number { min: 0.0, max: 1.0 }, "How likely that is.")
        .or("1")
        .only_beside(&["fault"]),
    KeyShape::new(
        "times",
        Shape::Integer { min: 0, max: LARGEST },
        "In how many attempts, counted from the first, it may go wrong; for `not_satisfied`, in how many judgements.",
    )
    .or("no limit")
    .only_beside(&["fault"]),
    KeyShape::new(
        "reset_after",
        Shape::Duration,
        "For `usage_limit`: how long after the first attempt that ran into it the limit is reset.",
    )
    .or("`1m`")
    .only_beside(&["fault"]),
    KeyShape::new(
        "resets_at",
        Shape::Text,
        "For `usage_limit`: when the limit is reset, e.g. `2026-01-02T03:04:05Z`.",
    )
    .only_beside(&["fault"]),
    KeyShape::new(
        "megabytes",
        Shape::Integer { min: 1, max: 100_000 },
        "For `huge`: how much it prints.",
    )
    .or("16")
    .only_beside(&["fault"]),
];

static SIMULATED_EDIT: RecordShape = RecordShape {
    name: "simulated_edit",
    title: "an edit",
    doc: "A file that the simulated agent writes. `{prompt}` stands for the prompt and `{item}` for the item's id.",
    groups: &[&[
        KeyShape::new("path", Shape::Text, "The file, relative to the worktree.").require(),
        KeyShape::new("content", Shape::Text, "The text.").or("nothing"),
        KeyShape::new("append", Shape::Bool, "Appends instead of replacing.").or("`false`"),
    ]],
    choice: None,
    rule: None,
};

static SIMULATED_TOKENS: RecordShape = RecordShape {
    name: "simulated_tokens",
    title: "`tokens`",
    doc: "The tokens that the simulated agent says it used.",
    groups: &[&[
        KeyShape::new("input", Shape::Integer { min: 0, max: i64::MAX }, "What it read.").or("0"),
        KeyShape::new("output", Shape::Integer { min: 0, max: i64::MAX }, "What it wrote.").or("0"),
    ]],
    choice: None,
    rule: None,
};

/// Reports what belongs to another fault.
fn belongs(node: &YamlNode, diagnostics: &mut Vec<Diagnostic>) {
    let Some(fault) = node.get("fault").and_then(YamlNode::as_str) else { return };
    if !SimulatedFault::WORDS.contains(&fault) {
        return;
    }
    let owners =
        [("reset_after", "usage_limit"), ("resets_at", "usage_limit"), ("megabytes", "huge")];
    for (key, owner) in owners {
        if let (true, Some(span)) = (fault != owner, node.key_span(key)) {
            let message = format!("`{key}` has no effect with `fault: {fault}`");
            let help = format!("it belongs to `fault: {owner}`");
            diagnostics.push(Diagnostic::error(span, message).help(help));
        }
    }
    if let (Some(_), Some(span)) = (node.get("reset_after"), node.key_span("resets_at")) {
        let message = "`resets_at` and `reset_after` exclude each other";
        diagnostics.push(Diagnostic::error(span, message).help("keep one of them"));
    }
}
