//! Where items come from, what their steps see, and what counts as their result.

use std::fs;

use insta::assert_snapshot;
use prodigy_testkit::TestEnv;

use crate::fixture::{
    map_job::{assert_code, beside, go, letter, map_world, of_type, resume, sorted, trace},
    workflow::stable,
};

#[test]
fn the_steps_of_an_item_see_who_they_are() {
    let world = map_world(
        r#"
map:
  input: { items: [{ path: a b }, { path: c }] }
  max_parallel: 1
  agent_template:
    - shell: 'echo "${item_id} ${item_index}/${item_total} ${agent_id} ${item.path} ${item}" >> ROOT/seen'
    - id: tell
      shell: 'echo "$PRODIGY_JOB_ID $PRODIGY_ITEM_ID $PRODIGY_ATTEMPT $PRODIGY_IDEMPOTENCY_KEY $PRODIGY_AUTOMATION" >> ROOT/env; test "$(pwd)" = "$PRODIGY_WORKTREE"; test "$PRODIGY_ATTEMPT" = 2'
    - { shell: 'echo "${item_id}" >> ROOT/when', when: "item.path == 'c'" }
    - write_file: { path: "out/${item_index}.json", content: '{"path": "${item.path}"}', format: json, create_dirs: true }
    - foreach:
        input: [x, "${item.path}"]
        do: [{ shell: 'echo "${index}/${total} ${item}" >> loop' }]
    - shell: cat out/* loop > "ROOT/files.${item_index}"; git status --porcelain >> "ROOT/files.${item_index}"
retry_config: { max_attempts: 2, backoff: { type: fixed, delay: 0ms } }
"#,
    );
    assert_code(&go(&world), 0);
    assert_snapshot!(beside(&world, "seen"), @r#"
    item-001 1/2 agent-1 a b {"path":"a b"}
    item-001 1/2 agent-1 a b {"path":"a b"}
    item-002 2/2 agent-1 c {"path":"c"}
    item-002 2/2 agent-1 c {"path":"c"}
    "#);
    // The key of a step is the same for every attempt.
    assert_snapshot!(beside(&world, "env"), @"
    job item-001 1 job:item-001:tell true
    job item-001 2 job:item-001:tell true
    job item-002 1 job:item-002:tell true
    job item-002 2 job:item-002:tell true
    ");
    assert_eq!(beside(&world, "when"), "item-002\n");
    assert_snapshot!(beside(&world, "files.1"), @r#"
    {
      "path": "a b"
    }
    1/2 x
    2/2 a b
    ?? loop
    ?? out/
    "#);
    assert_eq!(beside(&world, "files.2").lines().last(), Some("?? out/"));
}

/// Runs a workflow with an input and returns the items.
fn items_of(world: &TestEnv, input: &str) -> String {
    fs::remove_file(world.root().join("items")).ok();
    let text = format!(
        "mode: mapreduce\nmap:\n{}\n  isolation: shared\n  max_parallel: 1\n  agent_template: [{{ shell: 'echo \"${{item_id}} ${{item}}\" >> {}/items' }}]\n",
        input.trim_end(),
        world.root().display()
    );
    world.write("workflow.yml", text);
    let seen = world.prodigy(&["run", "workflow.yml", "-y"]);
    assert_code(&seen, 0);
    beside(world, "items")
}

#[test]
fn items_come_from_every_kind_of_input() {
    let world = map_world("map: { input: { items: [] }, agent_template: [{ shell: ls }] }\n");
    world.write("list.json", r#"[{"n": 1}, {"n": 2}]"#);
    world.write("deep.json", r#"{"all": {"items": [{"n": 3, "k": "x"}, {"n": 1, "k": "y"}, {"n": 2, "k": "x"}, {"n": 5, "k": "z"}]}}"#);
    world.write("lines.jsonl", "{\"n\": 1}\n\n{\"n\": 2}\n");
    world.write("table.csv", "name,size\n\"a, b\",3\nc,4\n");
    world.write("table.tsv", "name\tsize\na\t3\n");
    world.write("names.txt", "one\ntwo words\n");
    world.write("src/a.rs", "");
    world.write("src/b.rs", "");
    world.commit_all("Add inputs");
    assert_snapshot!(items_of(&world, "  input: list.json"), @r#"
    item-001 {"n":1}
    item-002 {"n":2}
    "#);
    assert_snapshot!(items_of(&world, "  input: { file: lines.jsonl }"), @r#"
    item-001 {"n":1}
    item-002 {"n":2}
    "#);
    assert_snapshot!(items_of(&world, "  input: table.csv"), @r#"
    item-001 {"name":"a, b","size":"3"}
    item-002 {"name":"c","size":"4"}
    "#);
    assert_snapshot!(items_of(&world, "  input: table.tsv"), @r#"item-001 {"name":"a","size":"3"}"#);
    assert_snapshot!(items_of(&world, "  input: names.txt"), @"
    item-001 one
    item-002 two words
    ");
    assert_snapshot!(items_of(&world, "  input: 'ls src'"), @"
    item-001 a.rs
    item-002 b.rs
    ");
    assert_snapshot!(items_of(&world, "  input: { command: \"echo '[1, {\\\"a\\\": 2}]'\" }"), @r#"
    item-001 1
    item-002 {"a":2}
    "#);
    assert_snapshot!(items_of(&world, "  input: { glob: 'src/*.rs' }"), @"
    item-001 src/a.rs
    item-002 src/b.rs
    ");
    assert_snapshot!(items_of(&world, "  input: { items: [1, two, [3], { four: 4 }] }"), @r#"
    item-001 1
    item-002 two
    item-003 [3]
    item-004 {"four":4}
    "#);
    let deep = "  input: deep.json\n  json_path: '$.all.items[*]'\n";
    assert_snapshot!(items_of(&world, &format!("{deep}  filter: 'item.n > 1'\n  sort_by: 'item.n DESC'")), @r#"
    item-001 {"n":5,"k":"z"}
    item-002 {"n":3,"k":"x"}
    item-003 {"n":2,"k":"x"}
    "#);
    assert_snapshot!(items_of(&world, &format!("{deep}  distinct: item.k\n  offset: 1\n  max_items: 1")), @r#"item-001 {"n":1,"k":"y"}"#);
    assert_snapshot!(items_of(&world, &format!("{deep}  item_key: item.n")), @r#"
    3 {"n":3,"k":"x"}
    1 {"n":1,"k":"y"}
    2 {"n":2,"k":"x"}
    5 {"n":5,"k":"z"}
    "#);
}

#[test]
fn an_input_that_is_not_there_is_one_clear_error_and_mended_by_a_resume() {
    let world = map_world(
        r#"
setup: [{ shell: 'test ! -e ROOT/mended || echo "[1]" > items.json' }]
map: { input: items.json, agent_template: [{ shell: 'echo "${item}" > ROOT/item' }] }
"#,
    );
    let seen = go(&world);
    assert_snapshot!(stable(&seen).replace(&world.root().display().to_string(), "$ROOT"), @r#"
    ----- stderr -----
    · job job · workflow.yml · mapreduce
    ✓ setup.1 shell: test ! -e $ROOT/mended || echo "[1]" > items.json  [time]

    failed: there is no file `items.json` in the job's worktree to read items from · items not loaded yet · [time]
    worktree: $ROOT/home/worktrees/repo/job/job (branch prodigy/job/job)
    put the file into the worktree and resume, or start anew with `--input FILE`
    next: prodigy resume job
    [exit 1]
    "#);
    let failed = &of_type(&world, "job_failed")[0];
    assert_eq!(failed["failure"]["kind"], "input_missing");
    assert_eq!(of_type(&world, "items_selected").len(), 0);
    // The file is mended by hand in the job's worktree.
    fs::write(world.home().join("worktrees/repo/job/job/items.json"), "[7]").unwrap();
    assert_code(&resume(&world), 0);
    assert_eq!(beside(&world, "item"), "7\n");
}

#[test]
fn no_items_are_no_failure_unless_that_was_asked_for() {
    let workflow = "map: { input: { items: [1] }, filter: 'item > 5', agent_template: [{ shell: ls }] }\nreduce: [{ shell: 'echo ${map.total} > ROOT/total' }]\n";
    let world = map_world(workflow);
    assert_snapshot!(stable(&go(&world)).replace(&world.root().display().to_string(), "$ROOT"), @"
    ----- stderr -----
    · job job · workflow.yml · mapreduce
    no items were selected: `filter: item > 5` leaves none of the 1 in the workflow
    · 0 items
    ✓ map: 0/0 done  [time]
    ✓ reduce.1 shell: echo ${map.total} > $ROOT/total  [time]

    completed · 0 of 0 items done · [time]
    nothing to merge: the steps made no commit
    next: prodigy events job
    ");
    assert_eq!(beside(&world, "total"), "0\n");
    let world = map_world(workflow);
    let seen =
        world.prodigy(&["run", "workflow.yml", "-y", "--job-id", "job", "--no-items", "fail"]);
    assert_code(&seen, 4);
    assert_eq!(beside(&world, "total"), "");
}

#[test]
fn the_result_of_an_item_is_checked() {
    let world = map_world(
        r#"
map:
  input: { items: [good, small, missing, broken, nofile] }
  max_parallel: 1
  result:
    file: out.json
    json_path: $.score
    schema: { type: number, minimum: 10 }
  agent_template:
    - shell: |
        case "${item}" in
          good) echo '{"score": 12}' > out.json ;;
          small) echo '{"score": 2}' > out.json ;;
          missing) echo '{}' > out.json ;;
          broken) echo '{' > out.json ;;
        esac
reduce: [{ shell: 'echo "${map.results}" > ROOT/results' }]
"#,
    );
    assert_code(&go(&world), 0);
    assert_snapshot!(trace(&world), @"
    item-001 agent_started 1
    item-001 agent_completed 1
    item-002 agent_started 1
    item-002 agent_failed 1 schema_invalid then dead_letter
    item-002 item_dead_lettered 1 schema_invalid
    item-003 agent_started 1
    item-003 agent_failed 1 schema_invalid then dead_letter
    item-003 item_dead_lettered 1 schema_invalid
    item-004 agent_started 1
    item-004 agent_failed 1 parse_error then dead_letter
    item-004 item_dead_lettered 1 parse_error
    item-005 agent_started 1
    item-005 agent_failed 1 parse_error then dead_letter
    item-005 item_dead_lettered 1 parse_error
    job job_completed completed_with_failures
    ");
    let reasons = ["item-002", "item-003", "item-004", "item-005"]
        .map(|item| letter(&world, item)["reason"].to_string());
    assert_snapshot!(reasons.join("\n"), @r#"
    "the item's result does not fit its schema: the value must be at least 10, found 2"
    "`result.json_path` matches nothing in the item's result"
    "the item's result file `out.json` cannot be used: EOF while parsing an object at line 2 column 0"
    "the item's result file `out.json` cannot be used: it is not there"
    "#);
    let results: serde_json::Value = serde_json::from_str(&beside(&world, "results")).unwrap();
    assert_eq!(results[0]["result"], 12);
    assert_eq!(results[1]["reason_code"], "schema_invalid");
}

#[test]
fn what_the_last_step_printed_is_the_result_and_can_be_checked_too() {
    let world = map_world(
        r#"
map:
  input: { items: ['{"a": [1, 2]}', '{"a": "no"}', 'text'] }
  max_parallel: 1
  result: { json_path: $.a, schema: { type: array } }
  agent_template: [{ shell: echo noise }, { shell: 'echo "${item}"' }]
reduce: [{ shell: 'echo "${map.results[0].result}" > ROOT/result' }]
"#,
    );
    assert_code(&go(&world), 0);
    assert_eq!(beside(&world, "result"), "[1,2]\n");
    assert_eq!(letter(&world, "item-002")["reason_code"], "schema_invalid");
    assert_eq!(letter(&world, "item-003")["reason_code"], "parse_error");
    assert_eq!(sorted(&world, "nothing"), "");
}
