//! MapReduce workflows.

use std::fmt::Write;

use prodigy_core::{
    expr::{Expr, SortBy},
    json_path::JsonPath,
    workflow::{MapInput, MapReduce, WorktreeConfig},
};

use crate::support::{errors, mapreduce, outline, warnings};

const MAP: &str = "mode: mapreduce\nmap: {input: items.json, agent_template: [{shell: a}]}\n";

fn with(text: &str) -> String {
    format!("{MAP}{text}")
}

#[test]
fn the_smallest_workflow_has_all_the_defaults() {
    let MapReduce { setup, map, reduce, error_policy } = mapreduce(MAP);
    assert_eq!((setup, reduce), (None, None));
    assert_eq!(map.worktree, WorktreeConfig::default());
    let mut text = String::new();
    writeln!(
        text,
        "max_parallel {} offset {} max_items {:?}",
        map.max_parallel, map.offset, map.max_items
    )
    .unwrap();
    writeln!(text, "{:?} timeout {:?}", map.isolation, map.agent_timeout).unwrap();
    writeln!(text, "{error_policy:#?}").unwrap();
    insta::assert_snapshot!(text, @"
    max_parallel 10 offset 0 max_items None
    Worktree timeout None
    ErrorPolicy {
        on_item_failure: Dlq,
        handlers: {},
        continue_on_failure: true,
        max_failures: None,
        failure_threshold: None,
        systemic_stop: None,
        min_items: 10,
        error_collection: Aggregate,
        circuit_breaker: None,
        retry: None,
        preserve_worktrees: Failed,
    }
    ");
}

#[test]
fn every_key_of_map_is_read() {
    let map = mapreduce(r#"
mode: mapreduce
map:
  input: items.json
  json_path: "$.items[*]"
  agent_template:
    - claude: "do ${item.name} as ${item_id}, ${item_index} of ${item_total}, on ${agent_id}"
  max_parallel: 4
  filter: score >= 5
  sort_by: item.priority DESC
  distinct: item.id
  offset: 2
  max_items: 7
  agent_timeout: 5m
  item_key: item.id
  isolation: shared
  worktree: {setup: [{shell: npm ci}], include: .worktreeinclude, copy: [.env], link: [node_modules]}
  result: {file: out.json, json_path: $.a, schema: {type: object}}
"#).map;
    let mut text = outline(&map.steps);
    let MapInput::Guess(input) = &map.input else { panic!("{:?}", map.input) };
    let texts = [
        Some(input.source()),
        map.json_path.as_ref().map(JsonPath::source),
        map.filter.as_ref().map(Expr::source),
        map.sort_by.as_ref().map(SortBy::source),
        map.distinct.as_ref().map(Expr::source),
        map.item_key.as_ref().map(Expr::source),
    ];
    writeln!(text, "{texts:?}").unwrap();
    writeln!(
        text,
        "{} {} {:?} {:?}",
        map.max_parallel, map.offset, map.max_items, map.agent_timeout
    )
    .unwrap();
    writeln!(text, "{:?} {:?}", map.isolation, map.result).unwrap();
    let WorktreeConfig { setup, include, copy, link } = &map.worktree;
    writeln!(text, "{include:?} {copy:?} {link:?}\n{}", outline(setup)).unwrap();
    insta::assert_snapshot!(text, @r#"
    claude: do ${item.name} as ${item_id}, ${item_index} of ${item_tota…
    [Some("items.json"), Some("$.items[*]"), Some("score >= 5"), Some("item.priority DESC"), Some("item.id"), Some("item.id")]
    4 2 Some(7) Some(300s)
    Shared ResultConfig { file: Some("out.json"), json_path: Some(JsonPath("$.a")), schema: Some(Schema({"type":"object"})) }
    Some(".worktreeinclude") [".env"] ["node_modules"]
    shell: npm ci
    "#);
}

#[test]
fn an_input_says_what_it_is_or_is_guessed() {
    let inputs = [
        "items.json",
        "git ls-files",
        "\"${setup.dir}/items.json\"",
        "{file: \"${setup.dir}/a b.json\"}",
        "{command: \"ls ${setup.dir}\"}",
        "{glob: src/**/*.rs}",
        "{items: [1, {a: 2}]}",
    ];
    let mut text = String::new();
    for input in inputs {
        let file = format!(
            "mode: mapreduce\nsetup: {{commands: [{{shell: a}}], capture_outputs: {{dir: 0}}}}\n\
             map: {{input: {input}, agent_template: [{{shell: a}}]}}\n"
        );
        let line = match mapreduce(&file).map.input {
            MapInput::Guess(text) => format!("guess {}", text.source()),
            MapInput::File(text) => format!("file {}", text.source()),
            MapInput::Command(script) => format!("command {}", script.source()),
            MapInput::Glob(text) => format!("glob {}", text.source()),
            MapInput::Items(items) => format!("items {}", serde_json::Value::from(items)),
        };
        writeln!(text, "{line}").unwrap();
    }
    insta::assert_snapshot!(text, @r#"
    guess items.json
    guess git ls-files
    file ${setup.dir}/items.json
    file ${setup.dir}/a b.json
    command ls ${setup.dir}
    glob src/**/*.rs
    items [1,{"a":2}]
    "#);
}

#[test]
fn an_input_that_could_be_either_is_an_error() {
    insta::assert_snapshot!(errors(r#"
mode: mapreduce
setup: {commands: [{shell: a}], capture_outputs: {dir: 0}}
map: {input: "ls ${setup.dir}", agent_template: [{shell: a}]}
"#), @"
    main.yml:4:14: error: this could be a file or a command
        write `input: {file: …}` or `input: {command: …}`
    ");
    insta::assert_snapshot!(errors("mode: mapreduce\nmap: {input: {file: a, glob: b}, agent_template: [{shell: a}]}\n"), @"main.yml:2:24: error: `input` has one source, found `file` and `glob`");
    insta::assert_snapshot!(errors("mode: mapreduce\nmap: {input: {}, agent_template: [{shell: a}]}\n"), @"
    main.yml:2:7: error: `input` needs a source
        add `file`, `command`, `glob` or `items`
    ");
}

#[test]
fn setup_names_outputs_in_two_shapes() {
    let setup = mapreduce(&with(
        r#"
setup:
  commands: [{shell: a}, {shell: b}]
  timeout: 300
  capture_outputs:
    count: 0
    found: {command_index: 1, format: json, json_path: $.a, pattern: "(\\d+)", default: [1]}
"#,
    ))
    .setup
    .unwrap();
    assert_eq!(setup.phase.timeout, Some(std::time::Duration::from_secs(300)));
    insta::assert_debug_snapshot!(setup.captures, @r#"
    [
        SetupCapture {
            name: "count",
            command_index: 0,
            format: Auto,
            json_path: None,
            pattern: None,
            default: None,
        },
        SetupCapture {
            name: "found",
            command_index: 1,
            format: Json,
            json_path: Some(
                JsonPath(
                    "$.a",
                ),
            ),
            pattern: Some(
                "(\\d+)",
            ),
            default: Some(
                Array [
                    Number(1),
                ],
            ),
        },
    ]
    "#);
}

#[test]
fn a_path_that_cannot_be_read_has_its_place() {
    insta::assert_snapshot!(errors(r#"
mode: mapreduce
setup: {commands: [{shell: a}], capture_outputs: {one: {command_index: 0, json_path: "$.a[b]"}}}
map:
  input: items.json
  json_path: items[*]
  agent_template: [{shell: a}]
  result: {json_path: "$.a[?@.b = 1]"}
"#), @"
    main.yml:3:91: error: a name in brackets needs quotes
        write `['b']`
    main.yml:6:14: error: expected `$` at the start of the path, found `i`
        write `$.items[*]`
    main.yml:8:33: error: `=` compares nothing
        write `==`
    ");
}

#[test]
fn a_setup_output_needs_a_command_and_a_pattern_that_works() {
    insta::assert_snapshot!(errors(&with(r#"
setup:
  commands: [{shell: a}]
  capture_outputs:
    one: 1
    two: {command_index: 0, pattern: "("}
    three: {format: json}
    not-good: 0
    item: 0
"#)), @"
    main.yml:7:10: error: there is no command 1: setup has 1, counted from 0
    main.yml:8:38: error: `(` is not a regular expression: unclosed group
    main.yml:9:5: error: a captured output needs `command_index`
        add `command_index: …`
    main.yml:10:5: error: `not-good` cannot be the name of a variable: only letters, digits and `_`, no digit first
    main.yml:11:5: error: the variable `item` would hide `${item}`
        choose another name
    ");
}

#[test]
fn an_error_policy_is_read_in_full() {
    let policy = mapreduce(&with(r#"
error_policy:
  on_item_failure: custom:tidy
  handlers:
    tidy: [{shell: "echo ${item} ${error.message}"}]
  continue_on_failure: false
  max_failures: 5
  systemic_stop: 6
  failure_threshold: 0.25
  min_items: 3
  error_collection: {batched: {size: 7}}
  circuit_breaker: {failure_threshold: 10, timeout: 60s}
  retry_config: {max_attempts: 4, backoff: {type: fixed, delay: 2s}, jitter: true, max_delay: 1m, retry_on: [timeout]}
  preserve_worktrees: always
"#)).error_policy;
    let handlers = outline(&policy.handlers["tidy"]);
    let policy = prodigy_core::workflow::ErrorPolicy { handlers: [].into(), ..policy };
    insta::assert_snapshot!(format!("{handlers}{policy:#?}"), @r#"
    shell: echo ${item} ${error.message}
    ErrorPolicy {
        on_item_failure: Custom(
            "tidy",
        ),
        handlers: {},
        continue_on_failure: false,
        max_failures: Some(
            5,
        ),
        failure_threshold: Some(
            0.25,
        ),
        systemic_stop: Some(
            6,
        ),
        min_items: 3,
        error_collection: Batched {
            size: 7,
        },
        circuit_breaker: Some(
            BreakerConfig {
                failure_threshold: 10,
                success_threshold: 2,
                timeout: 60s,
                half_open_requests: 3,
            },
        ),
        retry: Some(
            RetryPolicy {
                attempts: 4,
                backoff: Fixed {
                    delay: 2s,
                },
                max_delay: Some(
                    60s,
                ),
                jitter: true,
                retry_on: [
                    Timeout,
                ],
            },
        ),
        preserve_worktrees: Always,
    }
    "#);
}

#[test]
fn settings_may_stand_at_the_top() {
    let inside = mapreduce(&with(
        "error_policy: {on_item_failure: skip, max_failures: 2, failure_threshold: 0.5, \
         continue_on_failure: false, error_collection: immediate, circuit_breaker: {}, retry_config: {}}\n",
    ));
    let above = mapreduce(&with(
        "on_item_failure: skip\nmax_failures: 2\nfailure_threshold: 0.5\n\
         continue_on_failure: false\nerror_collection: immediate\ncircuit_breaker: {}\nretry_config: {}\n",
    ));
    assert_eq!(inside.error_policy, above.error_policy);
    assert!(inside.error_policy.retry.is_some());
}

#[test]
fn error_collections_have_many_shapes() {
    let shapes = ["aggregate", "immediate", "batched", "batched:5", "{batched: {size: 6}}"];
    let collections = shapes.map(|shape| {
        mapreduce(&with(&format!("error_collection: {shape}\n"))).error_policy.error_collection
    });
    insta::assert_debug_snapshot!(collections, @"
    [
        Aggregate,
        Immediate,
        Batched {
            size: 10,
        },
        Batched {
            size: 5,
        },
        Batched {
            size: 6,
        },
    ]
    ");
}

#[test]
fn wrong_policies_are_errors() {
    insta::assert_snapshot!(errors(&with("
error_policy:
  max_failures: 5
  on_item_failure: custom:tdiy
  handlers: {tidy: [{shell: a}]}
  failure_threshold: 20
  preserve_worktrees: sometimes
  retry_config: {backoff: {type: quadratic}, retry_on: [overload]}
  circuit_breaker: {timeout: soon, failure_threshold: 0}
max_failures: 3
error_collection: batched:0
")), @"
        main.yml:6:20: error: there is no handler `tdiy` in `error_policy.handlers`
            did you mean `tidy`?
        main.yml:8:22: error: `failure_threshold` must be a number from 0 to 1, found `20`
        main.yml:9:23: error: `preserve_worktrees` must be `failed`, `always` or `never`, found `sometimes`
        main.yml:10:34: error: `type` must be `fixed`, `linear`, `exponential` or `fibonacci`, found `quadratic`
        main.yml:10:57: error: each element of `retry_on` must be a reason code such as `timeout`, found `overload`
        main.yml:11:30: error: `soon` is not a duration; write for example `30s` or `1h 30m`
        main.yml:11:55: error: `failure_threshold` must be a whole number from 1, found `0`
        main.yml:12:1: error: `max_failures` stands here and in `error_policy`
            keep the one in `error_policy`
        main.yml:13:19: error: `error_collection` must be `aggregate`, `immediate`, `batched`, `batched:N` or a mapping, found `batched:0`
            did you mean `batched`?
        ");
}

#[test]
fn deprecated_nesting_gives_a_warning() {
    insta::assert_snapshot!(warnings(
        "mode: mapreduce\nmap: {input: a.json, agent_template: {commands: [{shell: a}]}}\nreduce: {commands: [{shell: b}]}\n"
    ), @"
    main.yml:2:39: warning: `commands` is deprecated
        put the steps directly under `agent_template`
    main.yml:3:10: warning: `commands` is not needed here
        put the steps directly under `reduce`
    ");
}

#[test]
fn a_mapreduce_workflow_needs_a_map() {
    insta::assert_snapshot!(errors("mode: mapreduce\nname: x\n"), @"
    main.yml:1:1: error: a MapReduce workflow needs `map`
        add `map: …`
    ");
    insta::assert_snapshot!(errors("mode: mapreduce\nmap: {max_parallel: 2}\n"), @"
    main.yml:2:1: error: `map` needs `input`
        add `input: …`
    main.yml:2:1: error: `map` needs `agent_template`
        add `agent_template: …`
    ");
    insta::assert_snapshot!(errors("name: x\n"), @"
    main.yml:1:1: error: a sequential workflow needs `steps`
        add `steps: …`
    ");
    insta::assert_snapshot!(errors("mode: parallel\nsteps: [{shell: a}]\n"), @"main.yml:1:7: error: `mode` must be `sequential` or `mapreduce`, found `parallel`");
    insta::assert_snapshot!(errors("[]\n"), @"main.yml:1:1: error: there are no steps");
    insta::assert_snapshot!(errors("steps: []\n"), @"main.yml:1:8: error: `steps` is empty");
    insta::assert_snapshot!(errors(""), @"main.yml:1:1: error: the file is empty");
    insta::assert_snapshot!(errors("just text\n"), @"
    main.yml:1:1: error: a workflow is a list of steps or a mapping, found `just text`
        write `- shell: …`, or `mode: mapreduce` with `map:`
    ");
}

#[test]
fn a_schema_that_cannot_be_checked_is_an_error_at_its_key() {
    insta::assert_snapshot!(errors("
mode: mapreduce
map:
  input: items.json
  agent_template: [{shell: a}]
  result:
    schema:
      type: object
      requird: [path]
      properties:
        path: {type: text}
        a/b: {minLength: -1}
        all: {anyOf: [{type: string}, 7]}
        other: {$ref: 'https://example.com/schema.json'}
        more: {$ref: '#/$defs/nothing'}
"), @"
    main.yml:9:7: error: `requird` is no keyword that can be checked here
        did you mean `required`?
    main.yml:11:16: error: `type` must be one of `null`, `boolean`, `object`, `array`, `number`, `integer`, `string`, or a list of them
    main.yml:12:15: error: `minLength` must be a whole number and not negative
    main.yml:13:39: error: each element of `anyOf` must be a schema: a mapping, `true` or `false`
    main.yml:14:17: error: `https://example.com/schema.json` is outside of this schema, and nothing is fetched
        put it into `$defs` and write `#/$defs/NAME`
    main.yml:15:16: error: there is nothing at `#/$defs/nothing`
    ");
    insta::assert_snapshot!(errors("
mode: mapreduce
map: {input: items.json, agent_template: [{shell: a}], result: {schema: object}}
"), @"main.yml:3:73: error: `schema` must be a JSON Schema, found `object`");
}
