//! What agents answer as data: the results of items, as the reduce phase sees them.

use insta::assert_snapshot;
use prodigy_testkit::TestEnv;
use serde_json::Value;

use crate::fixture::{
    map_job::{assert_code, beside, go, map_world},
    real_agents::deaths,
};

/// Makes a world whose one agent answers these about its items, with what the items add.
fn answering(rules: &str, more: &str) -> TestEnv {
    map_world(&format!(
        r#"
agents: {{ claude: {{ type: simulated, rules: [{rules}] }} }}
map:
  input: {{ items: [first, second, third] }}
  item_key: item
  max_parallel: 3
{more}
reduce:
  - write_file: {{ path: results.json, content: "${{map.results}}", format: json }}
  - shell: cp results.json ROOT/results; cat "${{map.results_file}}" > ROOT/file
  - shell: echo "${{map.results[0].result.size:-no}}" "${{map.results[0].result.names[1]:-data}}" > ROOT/fields
"#
    ))
}

/// Returns the results that the reduce phase saw: one line for each item.
#[track_caller]
fn results(world: &TestEnv) -> String {
    let seen: Vec<Value> = serde_json::from_str(&beside(world, "results")).unwrap();
    let file: Vec<Value> = serde_json::from_str(&beside(world, "file")).unwrap();
    assert_eq!(seen, file);
    let line = |one: &Value| format!("{} {} {}", one["item_id"], one["result"], one["reason_code"]);
    seen.iter().map(line).collect::<Vec<_>>().join("\n")
}

const DATA: &str = r#"
  { prompt: first, result: { size: 12, names: [a, "b \"c\""] } },
  { prompt: second, answer: '{"size": 7, "names": []}' },
  { prompt: third, fault: schema_mismatch }"#;

#[test]
fn an_answer_that_satisfies_its_schema_is_the_items_result_as_data() {
    let world = answering(
        DATA,
        r#"  agent_template:
    - claude: "count ${item}"
      output_schema:
        type: object
        properties: { size: { type: integer }, names: { type: array } }
        required: [size, names]"#,
    );
    assert_code(&go(&world), 0);
    assert_snapshot!(results(&world), @r#"
    "first" {"size":12,"names":["a","b \"c\""]} null
    "second" {"size":7,"names":[]} null
    "third" null "schema_invalid"
    "#);
    assert_eq!(beside(&world, "fields"), "12 b \"c\"\n");
    assert_snapshot!(deaths(&world), @"third schema_invalid: the answer does not satisfy `output_schema`: the value must");
}

#[test]
fn without_a_schema_an_answer_is_text() {
    let world = answering(DATA, r#"  agent_template: [{ claude: "count ${item}" }]"#);
    assert_code(&go(&world), 0);
    assert_snapshot!(results(&world), @r#"
    "first" "{\"size\":12,\"names\":[\"a\",\"b \\\"c\\\"\"]}" null
    "second" "{\"size\": 7, \"names\": []}" null
    "third" "\"not what was asked for\"" null
    "#);
    assert_eq!(beside(&world, "fields"), "no data\n");
}

#[test]
fn what_the_map_asks_of_results_is_taken_out_of_an_answer_and_checked() {
    let world = answering(
        r#"
  { prompt: first, answer: '{"size": {"size": 3, "names": ["a", "b"]}}' },
  { prompt: second, answer: '{"size": {"size": "large"}}' },
  { prompt: third, answer: "it is large" }"#,
        r#"  result:
    json_path: $.size
    schema: { type: object, properties: { size: { type: integer } }, required: [size] }
  agent_template:
    - claude: "count ${item}""#,
    );
    assert_code(&go(&world), 0);
    assert_snapshot!(results(&world), @r#"
    "first" {"size":3,"names":["a","b"]} null
    "second" null "schema_invalid"
    "third" null "parse_error"
    "#);
    assert_eq!(beside(&world, "fields"), "3 b\n");
    assert_snapshot!(deaths(&world), @"
    second schema_invalid: the item's result does not fit its schema: `/size` must be `
    third parse_error: the item's result is not usable: expected value at line 1 co
    ");
}
