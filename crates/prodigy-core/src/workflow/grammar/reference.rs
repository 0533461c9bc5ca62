//! The tables as a page for people.

use std::collections::{BTreeSet, VecDeque};

use super::{
    file::{MAPREDUCE, WORKFLOW},
    shape::{KeyNames, RecordShape, Shape},
    words::expected,
};
use crate::workflow::{Ability, AgentKind};

/// Returns the reference page of workflow keys, in Markdown.
pub fn reference_markdown() -> String {
    let intro = "# Workflow keys\n\n\
        A workflow file is a list of [steps](#step), a mapping with `steps` (a\n\
        [sequential workflow](#workflow)), or a mapping with `mode: mapreduce` (a\n\
        [MapReduce workflow](#mapreduce)). A key that is not listed here is an error.\n";
    page_of(intro, &[&WORKFLOW, &MAPREDUCE]) + &abilities()
}

/// Returns what the kinds of agents can do, as a table.
fn abilities() -> String {
    let kinds: Vec<String> = AgentKind::ALL.iter().map(|k| format!("`{}`", k.as_str())).collect();
    let mut table = format!(
        "\n# What agents can do\n\n\
         A key that the agent of a step cannot honour is an error. A `simulated` agent stands in for\n\
         any other, so it takes every key.\n\n\
         | an agent … | key | {} |\n|---|---|{}\n",
        kinds.join(" | "),
        "---|".repeat(kinds.len())
    );
    for ability in Ability::all() {
        let key = ability.key().map_or_else(String::new, |key| format!("`{key}`"));
        let able = |kind: &AgentKind| if kind.supports(ability) { "yes" } else { "no" };
        let able: Vec<&str> = AgentKind::ALL.iter().map(able).collect();
        let cells = [ability.description(), &key, &able.join(" | ")].join(" | ");
        table.extend(["| ", &cells, " |\n"]);
    }
    table
}

/// Returns a page about some records and all records below them, in Markdown.
pub fn page_of(intro: &str, roots: &[&'static RecordShape]) -> String {
    let mut page = intro.to_owned();
    let mut done = BTreeSet::new();
    let mut waiting: VecDeque<_> = roots.iter().copied().collect();
    while let Some(record) = waiting.pop_front() {
        if done.insert(record.name) {
            page.push_str(&section(record));
            for key in record.keys() {
                collect(&key.shape, &mut waiting);
            }
        }
    }
    page
}

fn section(record: &'static RecordShape) -> String {
    let mut section = format!("\n## {}\n\n{}\n", record.name, record.doc);
    if let Some(choice) = record.choice {
        let alternatives: Vec<String> = choice
            .alternatives
            .iter()
            .map(|names| {
                names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" and ")
            })
            .collect();
        let count = if choice.required { "Exactly one of" } else { "At most one of" };
        let count = if alternatives.len() == 1 { "At least one of" } else { count };
        section.extend([count, ": ", &alternatives.join("; "), ".\n"]);
    }
    section.push_str("\n| key | value | default | meaning |\n|---|---|---|---|\n");
    for key in record.keys() {
        let names: Vec<String> =
            std::iter::once(&key.name).chain(key.aliases).map(|name| format!("`{name}`")).collect();
        let default = if key.required { "required" } else { key.default };
        let mut meaning = key.doc.to_owned();
        if !key.beside.is_empty() {
            let names: Vec<String> = key.beside.iter().map(|name| format!("`{name}`")).collect();
            meaning = format!("{meaning} Only beside {}.", names.join(", "));
        }
        if let Some(instead) = key.deprecated {
            meaning = format!("{meaning} *Deprecated*: {instead}.");
        }
        let cells = [names.join(", "), shape(&key.shape), default.to_owned(), meaning];
        let row = cells.map(|cell| cell.replace('|', "\\|")).join(" | ");
        section.extend(["| ", &row, " |\n"]);
    }
    section
}

/// Returns a shape with links to the records in it.
fn shape(value: &Shape) -> String {
    match value {
        Shape::Record(record) => format!("[{0}](#{0})", record.name),
        Shape::Tagged(tagged) => {
            let each: Vec<String> = tagged
                .variants
                .iter()
                .map(|(_, record)| format!("[{0}](#{0})", record.name))
                .collect();
            each.join(" or ")
        }
        Shape::List(element) | Shape::NonEmptyList(element) => {
            format!("list of {}", shape(element))
        }
        Shape::Table { names, value } => {
            let name = match names {
                KeyNames::Free | KeyNames::Variable | KeyNames::Environment => "name",
                KeyNames::ExitCode => "exit code",
            };
            format!("{name} → {}", shape(value))
        }
        Shape::OneOf(shapes) => shapes.iter().map(shape).collect::<Vec<_>>().join(", or "),
        Shape::Template => "text with `${…}`".to_owned(),
        Shape::Script => "command with `${…}`".to_owned(),
        Shape::Bool
        | Shape::Text
        | Shape::Expression
        | Shape::JsonPath
        | Shape::JsonSchema
        | Shape::Integer { .. }
        | Shape::Number { .. }
        | Shape::Duration
        | Shape::Word(_)
        | Shape::WordOr { .. }
        | Shape::Any => expected(value),
    }
}

fn collect(shape: &Shape, waiting: &mut VecDeque<&'static RecordShape>) {
    match shape {
        Shape::Record(record) => waiting.push_back(record),
        Shape::Tagged(tagged) => waiting.extend(tagged.variants.iter().map(|(_, record)| *record)),
        Shape::List(value) | Shape::NonEmptyList(value) | Shape::Table { value, .. } => {
            collect(value, waiting);
        }
        Shape::OneOf(shapes) => shapes.iter().for_each(|shape| collect(shape, waiting)),
        Shape::Bool
        | Shape::Text
        | Shape::Template
        | Shape::Script
        | Shape::Expression
        | Shape::JsonPath
        | Shape::JsonSchema
        | Shape::Integer { .. }
        | Shape::Number { .. }
        | Shape::Duration
        | Shape::Word(_)
        | Shape::WordOr { .. }
        | Shape::Any => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workflow::grammar::json_schema;

    #[test]
    fn the_page_has_every_record_of_the_schema() {
        let page = reference_markdown();
        let sections: BTreeSet<&str> =
            page.lines().filter_map(|line| line.strip_prefix("## ")).collect();
        let schema = json_schema();
        let records: BTreeSet<&str> =
            schema["definitions"].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(sections, records);
        assert_eq!(page.matches("\n## ").count(), records.len(), "a name is used for two records");
    }

    #[test]
    fn the_page_says_what_agents_can_do() {
        insta::assert_snapshot!(abilities(), @"
        # What agents can do

        A key that the agent of a step cannot honour is an error. A `simulated` agent stands in for
        any other, so it takes every key.

        | an agent … | key | `claude` | `codex` | `command` | `simulated` |
        |---|---|---|---|---|---|
        | uses the model that is named | `model` | yes | yes | no | yes |
        | uses another model while that one is overloaded | `fallback_model` | yes | no | no | yes |
        | keeps to a permission mode | `permission_mode` | yes | yes | no | yes |
        | uses tools that are named without asking | `allowed_tools` | yes | no | no | yes |
        | keeps from tools that are named | `disallowed_tools` | yes | no | no | yes |
        | stops after so many turns | `max_turns` | yes | no | no | yes |
        | stops when so much money is spent | `max_budget_usd` | yes | no | no | yes |
        | keeps to what it is told besides its own system prompt | `system_prompt` | yes | yes | no | yes |
        | has its answer checked against a JSON Schema | `output_schema` | yes | yes | yes | yes |
        | goes on where an attempt was cut off |  | yes | yes | no | no |
        | says what it cost |  | yes | no | no | yes |
        | says how many tokens it used |  | yes | yes | no | yes |
        ");
    }

    #[test]
    fn a_section_lists_every_key() {
        insta::assert_snapshot!(section(&MAPREDUCE), @"
        ## mapreduce

        Steps that run for many items at once, with a setup before and a reduce after.

        | key | value | default | meaning |
        |---|---|---|---|
        | `mode` | `sequential` or `mapreduce` | required | The kind of workflow. |
        | `setup` | list of [step](#step), or [setup](#setup) |  | Runs once, first. |
        | `map` | [map](#map) | required | Runs for each item. |
        | `reduce` | list of [step](#step), or [reduce](#reduce) |  | Runs once, when every item is final. |
        | `merge` | list of [step](#step), or [merge](#merge) |  | The steps that merge the result, instead of plain git. |
        | `error_policy` | [error_policy](#error_policy) |  | What to do when items fail. |
        | `on_item_failure` | `dlq`, `retry`, `skip`, `stop` or `HANDLER` | `dlq` | What becomes of an item whose attempts are used up. `custom:NAME` or just the name runs that handler of `error_policy.handlers`. |
        | `continue_on_failure` | `true` or `false` | `true` | Goes on with other items after a failure. |
        | `max_failures` | a whole number from 1 | no limit | Stops the job at this many failed items. |
        | `failure_threshold` | a number from 0 to 1 | no limit | Stops the job at this share of failed items. |
        | `error_collection` | `aggregate`, `immediate`, `batched` or `batched:N`, or [error_collection](#error_collection) | `aggregate` | When failures are reported: at the end, as they happen, or some at a time. |
        | `circuit_breaker` | [circuit_breaker](#circuit_breaker) |  | Holds items back while everything fails. |
        | `retry_config` | [retry_config](#retry_config) |  | How items are tried again before they count as failed. |
        | `name` | text | the file's name | What the workflow is called. |
        | `env` | name → text with `${…}` |  | Sets environment variables for every step. |
        | `env_files` | text, or list of text |  | Files with more environment variables, relative to this file. |
        | `secrets` | name → [secret](#secret) |  | Values that are never shown: in no log, event or report. |
        | `profiles` | name → name → text with `${…}` |  | Sets of environment variables chosen with `--profile`. |
        | `parameters` | name → [parameter](#parameter) |  | Values set with `--param`, used as `${params.NAME}`. |
        | `agents` | name → [claude_agent](#claude_agent) or [codex_agent](#codex_agent) or [command_agent](#command_agent) or [simulated_agent](#simulated_agent) |  | The agents that steps may name. |
        | `sandbox` | `none` or `bubblewrap`, or [bubblewrap](#bubblewrap) | `none` | Keeps agents and the steps of items from the rest of the machine. |
        | `budget` | [budget](#budget) |  | Limits what the job may cost. |
        | `quota` | [quota](#quota) |  | What to do at the usage limit of an agent. |
        | `extends` | text, or list of text |  | Workflow files whose keys this one changes, relative to this file; a later one wins. |
        | `imports` | text, or list of text |  | Files with settings that are added, relative to this file. |
        | `template` | [template](#template) |  | Makes this workflow from a template. |
        ");
        insta::assert_snapshot!(section(&crate::workflow::grammar::HANDLER), @"

        ## on_failure

        What to do when a step fails.
        At most one of: `shell` and `claude`; `commands`.

        | key | value | default | meaning |
        |---|---|---|---|
        | `shell` | command with `${…}` |  | A shell command to run. |
        | `claude` | text with `${…}` |  | A prompt for `claude`; it runs after `shell`. |
        | `commands` | list of [handler_step](#handler_step) |  | The steps to run. |
        | `max_attempts`, `max_retries` | a whole number from 1 | 1 | How often the original step is tried in all; the handler runs before each new try. |
        | `fail_workflow` | `true` or `false` | in the steps of items `true`, else `false` | Fails the phase if the step stays failed. |
        | `strategy` | `recovery`, `fallback`, `cleanup` or `custom` | `recovery` | What the handler is for; with `fallback` its success is the step's success. `cleanup` and `custom` never recover the step. |
        | `timeout` | a duration such as `30s`, or seconds | no limit | The longest the handler may take. |
        | `handler_failure_fatal` | `true` or `false` | `false` | Fails the phase if the handler fails. |
        | `capture` | name → text |  | Makes variables of the handler's combined output. |
        | `retry_original` | `true` or `false` |  | No longer needed. *Deprecated*: set `max_attempts` above 1: that tries the original again. |
        ");
    }
}
