//! `capture` of an answer in the form of a schema: a variable with fields, wherever steps run.

use std::fs;

use insta::assert_snapshot;

use crate::fixture::map_job::{assert_code, beside, go, map_world, resume};

/// What every agent answers, as data.
const AGENT: &str = r#"
agents:
  claude:
    type: simulated
    rules: [{ prompt: Plan, result: { size: 12, names: [a, "b c"] } }]
"#;

/// A step that captures the answer, and how it goes on.
const PLAN: &str = r"claude: Plan, output_schema: { type: object, required: [size] }";

#[test]
fn a_captured_answer_has_fields_in_every_phase_and_after_a_resume() {
    let world = map_world(&format!(
        r#"{AGENT}
setup:
  commands:
    - {{ {PLAN}, capture: plan }}
    - {{ shell: 'echo "setup ${{plan.size}} ${{plan.names[1]}}" >> ROOT/seen' }}
    - {{ {PLAN} }}
  capture_outputs: {{ outlined: 2, first_name: {{ command_index: 2, json_path: "$.names[0]" }} }}
map:
  input: {{ items: [one] }}
  item_key: item
  agent_template:
    - shell: echo "item ${{plan.size}} ${{outlined.names[1]}} ${{first_name}}" >> ROOT/seen
    - {{ {PLAN}, capture: own }}
    - shell: echo "own ${{own.size}}" >> ROOT/seen
    - foreach:
        input: [x]
        do:
          - {{ {PLAN}, capture: inner }}
          - {{ shell: 'echo "foreach ${{inner.names[0]}}" >> ROOT/seen' }}
reduce:
  - {{ {PLAN}, capture: final }}
  - shell: test -e ROOT/again
  - shell: echo "reduce ${{final.size}} ${{final.names[1]}}" >> ROOT/seen
"#
    ));
    assert_code(&go(&world), 1);
    fs::write(world.root().join("again"), "").unwrap();
    assert_code(&resume(&world), 0);
    assert_snapshot!(beside(&world, "seen"), @"
    setup 12 b c
    item 12 b c a
    own 12
    foreach a
    reduce 12 b c
    ");
}

#[test]
fn a_format_that_is_named_and_an_answer_without_a_schema_stay_what_they_were() {
    let world = map_world(&format!(
        r"{AGENT}
map:
  input: {{ items: [one] }}
  item_key: item
  agent_template:
    - {{ {PLAN}, capture: text, capture_format: string }}
    - {{ {PLAN}, capture: {{ table: {{ format: string }}, data: {{}} }} }}
    - {{ claude: Plan, capture: plain }}
    - shell: |
        printf '%s|' ${{text.size:-none}} ${{table.size:-none}} ${{data.size}} ${{plain.size:-none}} > ROOT/seen
        printf '%s' '${{text}}' > ROOT/text
"
    ));
    assert_code(&go(&world), 0);
    assert_eq!(beside(&world, "seen"), "none|none|12|none|");
    assert_eq!(beside(&world, "text"), r#"{"size":12,"names":["a","b c"]}"#);
}
