//! Policy files as a page for people and a schema for editors.

use serde_json::Value;

use super::{schema::POLICY, test_case::CASES, words::ACTIONS};
use crate::{
    replay::ReplayVerdict,
    workflow::grammar::{page_of, schema_of},
};

const INTRO: &str = "# Replay policy\n\n\
    `.prodigy/replay-policy.yml` in the root of a repository says what may become of\n\
    [dead letters](dead-letters.md). `prodigy policy lint` checks it, `prodigy policy show` shows\n\
    the effective rules, and `prodigy policy test` runs the [cases](#policy_test) of\n\
    `.prodigy/replay-policy.test.yml`. A key that is not listed here is an error, and every\n\
    command that decides over dead letters refuses a file with errors.\n\n\
    The first [rule](#rule) that matches decides; without `defaults`, the last word has\n\
    what [the reason code](failure-codes.md) says. Below every rule is a floor: what may have\n\
    happened outside is looked for, or decided by a person, before it is done again, and what is\n\
    known to be done is not done again.\n";

/// Returns the JSON Schema (draft 7) of policy files.
pub fn policy_schema() -> Value {
    schema_of("prodigy replay policy", &POLICY)
}

/// Returns the reference page of policy files, in Markdown.
pub fn policy_markdown() -> String {
    let mut intro = INTRO.to_owned();
    intro.push_str(
        "\n## Actions\n\nWhat a rule may want done.\n\n| action | meaning |\n|---|---|\n",
    );
    for (word, action) in ACTIONS {
        intro.extend(["| `", word, "` | ", action.meaning(), " |\n"]);
    }
    intro.push_str(
        "\n## Verdicts\n\nWhat is decided, by the rule, the floor, the limits and the time.\n\n\
         | verdict | meaning |\n|---|---|\n",
    );
    for (word, verdict) in ReplayVerdict::WORDS {
        intro.extend(["| `", word, "` | ", verdict.meaning(), " |\n"]);
    }
    page_of(&intro, &[&POLICY, &CASES])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_written_as_it_is_serialized() {
        for (word, verdict) in ReplayVerdict::WORDS {
            assert_eq!(serde_json::to_value(verdict).unwrap(), *word);
        }
    }

    #[test]
    fn the_schema_and_the_page_know_every_key() {
        let schema = policy_schema();
        let page = policy_markdown();
        for (name, definition) in schema["definitions"].as_object().unwrap() {
            assert!(page.contains(&format!("\n## {name}\n")), "{name}");
            for key in definition["properties"].as_object().unwrap().keys() {
                assert!(page.contains(&format!("| `{key}` |")), "{key}");
            }
        }
        assert_eq!(schema["definitions"].as_object().unwrap().len(), 8);
    }
}
