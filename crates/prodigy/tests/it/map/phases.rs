//! Setup before the items, reduce and merge after them, and what they see of each other.

use std::fs;

use insta::assert_snapshot;
use prodigy_testkit::TestEnv;
use serde_json::Value;

use crate::fixture::{
    map_job::{assert_code, beside, go, letter, map_world, of_type, resume, trace},
    workflow::stable,
};

#[test]
fn setup_captures_reach_items_and_reduce_in_every_format() {
    let world = map_world(
        r#"
setup:
  timeout: 20s
  commands:
    - shell: echo 'hello  there'
    - shell: echo 42
    - shell: echo '{"a":{"b":[1,"two"]},"n":5}'
    - shell: printf 'l1\nl 2\n'
    - shell: echo yes
    - shell: 'true'
    - shell: echo twice
      capture: twice
  capture_outputs:
    plain: 0
    num: { command_index: 1, format: number }
    doc: { command_index: 2, format: json }
    part: { command_index: 2, json_path: "$.a.b[1]" }
    n: { command_index: 2, json_path: "$.n", format: number }
    names: { command_index: 3, format: lines }
    flag: { command_index: 4, format: boolean }
    word: { command_index: 0, pattern: "h(el+)o" }
    whole: { command_index: 0, pattern: "the.e" }
    empty: { command_index: 5, default: fallback }
    gone: { command_index: 2, json_path: "$.nope", default: [7] }
map:
  input: { items: [x] }
  agent_template:
    - write_file:
        path: seen
        content: |
          ${setup.plain}|${plain}
          ${setup.num}|${num}
          ${setup.doc}|${doc.a.b[0]}
          ${setup.part}|${n}
          ${setup.names}|${names[1]}
          ${setup.flag}|${flag}
          ${setup.word}|${whole}
          ${setup.empty}|${gone}
          ${twice}
    - shell: 'cp seen ROOT/seen; echo "${setup.plain}" > ROOT/shell'
    - { shell: touch ROOT/when, when: "${setup.num} == 42 && ${flag}" }
reduce: [{ shell: 'echo "${setup.plain}|${num}|${names}|${setup.empty}|${twice}" > ROOT/reduced' }]
"#,
    );
    assert_code(&go(&world), 0);
    assert_snapshot!(beside(&world, "seen"), @r#"
    hello  there|hello  there
    42|42
    {"a":{"b":[1,"two"]},"n":5}|1
    two|5
    ["l1","l 2"]|l 2
    true|true
    ell|there
    fallback|[7]
    twice
    "#);
    assert_eq!(beside(&world, "shell"), "hello  there\n");
    assert!(world.root().join("when").exists());
    assert_snapshot!(beside(&world, "reduced"), @r#"hello  there|42|["l1","l 2"]|fallback|twice"#);
}

#[test]
fn a_capture_that_cannot_be_had_fails_the_setup() {
    let world = map_world(
        r#"
setup:
  commands: [{ shell: test -e ROOT/mended && echo 5 || echo many }]
  capture_outputs: { count: { command_index: 0, format: number } }
map: { input: { items: [x] }, agent_template: [{ shell: 'echo "${count}" > ROOT/count' }] }
"#,
    );
    assert_code(&go(&world), 1);
    assert_snapshot!(trace(&world), @"job job_failed setup.1: cannot capture `count`: expected a number, found `many`");
    assert_eq!(of_type(&world, "job_failed")[0]["failure"]["kind"], "parse_error");
    fs::write(world.root().join("mended"), "").unwrap();
    assert_code(&resume(&world), 0);
    assert_eq!(beside(&world, "count"), "5\n");
}

#[test]
fn a_setup_that_fails_fails_the_job_and_is_repeated_by_resume() {
    let world = map_world(
        r#"
setup:
  - shell: echo one >> ROOT/ran; echo first
    capture: first
  - shell: echo two >> ROOT/ran; test -e ROOT/mended
map: { input: { items: [x] }, agent_template: [{ shell: 'echo "${first}" > ROOT/item' }] }
"#,
    );
    let seen = go(&world);
    assert_snapshot!(stable(&seen).replace(&world.root().display().to_string(), "$ROOT"), @"
    ----- stderr -----
    · job job · workflow.yml · mapreduce
    ✓ setup.1 shell: echo one >> $ROOT/ran; echo first  [time]
    ✗ setup.2 shell: echo two >> $ROOT/ran; test -e $ROOT/me…: exit code 1

    failed at step setup.2: exit code 1 · items not loaded yet · [time]
    worktree: $ROOT/home/worktrees/repo/job/job (branch prodigy/job/job)
    output: prodigy logs job setup.2
    next: prodigy resume job
    [exit 1]
    ");
    assert_eq!(of_type(&world, "item_queued").len(), 0);
    fs::write(world.root().join("mended"), "").unwrap();
    assert_code(&resume(&world), 0);
    // The step that was done is not done twice.
    assert_eq!(beside(&world, "ran"), "one\ntwo\ntwo\n");
    assert_eq!(beside(&world, "item"), "first\n");
}

#[test]
fn the_time_limits_of_setup_reduce_and_merge_cover_the_whole_phase() {
    let map = "map: { input: { items: [x] }, agent_template: [{ shell: 'echo x > x', auto_commit: true }] }\n";
    let steps = "{ timeout: 2s, commands: [{ shell: 'sleep 0.1' }, { shell: 'sleep 30' }] }\n";
    for (phase, step) in [("setup", "setup.2"), ("reduce", "reduce.2"), ("merge", "merge.2")] {
        let world = map_world(&format!("{map}{phase}: {steps}"));
        assert_code(&go(&world), 1);
        let failed = &of_type(&world, "job_failed")[0];
        assert_eq!(
            (&failed["step"], &failed["failure"]["kind"]),
            (&step.into(), &"timeout".into())
        );
        assert!(!world.repo().join("x").exists());
    }
}

#[test]
fn reduce_sees_what_became_of_every_item() {
    let world = map_world(
        r#"
agents: { claude: { type: simulated, rules: [{ answer: done, cost_usd: 0.25 }] } }
map:
  input: { items: [{ n: 1 }, { n: 2 }, { n: 3 }, { n: 4 }, { n: 5 }] }
  max_parallel: 1
  agent_template:
    - shell: echo "${item.n}" > "file.${item.n}"; test "${item.n}" -lt 3
      auto_commit: true
    - claude: hello
    - shell: echo "made ${item.n}"
reduce:
  - write_file:
      path: seen
      content: |
        ${map.total} ${map.successful} ${map.failed} ${map.skipped} ${map.dlq} ${map.failure_rate} ${map.cost_usd}
        ${map.total_items} ${map.error_types}
        ${map.failure_patterns}
  - shell: cp seen ROOT/seen; cat "${map.results_file}" > ROOT/file; echo "${map.duration}" > ROOT/duration; ls > ROOT/files
  - write_file: { path: results.json, content: "${map.results}", format: json }
  - shell: 'cp results.json ROOT/results; echo "${map.results[0].result}/${map.results[4].status}" > ROOT/fields'
"#,
    );
    assert_code(&go(&world), 0);
    assert_snapshot!(beside(&world, "seen"), @r#"
    5 2 3 0 3 0.6 0.5
    5 {"CommandFailed":3}
    [{"pattern_type":"CommandFailed","frequency":3,"suggested_action":"Review error logs for more details.","example":"echo <q> > <q>; test <q> -lt <n> failed with exit code <n>"}]
    "#);
    assert_eq!(beside(&world, "fields"), "made 1/dead_lettered\n");
    // What the items committed is there.
    assert_eq!(beside(&world, "files"), "README.md\nfile.1\nfile.2\nseen\nworkflow.yml\n");
    assert!(beside(&world, "duration").trim().parse::<f64>().unwrap() > 0.0);
    let results: Value = serde_json::from_str(&beside(&world, "results")).unwrap();
    let file: Value = serde_json::from_str(&beside(&world, "file")).unwrap();
    assert_eq!(results, file);
    let mut results = results;
    for result in results.as_array_mut().unwrap() {
        assert!(result["duration_ms"].take().as_u64().is_some());
    }
    assert_snapshot!(format!("{results:#}"), @r#"
    [
      {
        "item_id": "item-001",
        "status": "success",
        "attempts": 1,
        "result": "made 1",
        "commits": 1,
        "duration_ms": null,
        "cost_usd": 0.25
      },
      {
        "item_id": "item-002",
        "status": "success",
        "attempts": 1,
        "result": "made 2",
        "commits": 1,
        "duration_ms": null,
        "cost_usd": 0.25
      },
      {
        "item_id": "item-003",
        "status": "dead_lettered",
        "attempts": 1,
        "commits": 0,
        "duration_ms": null,
        "error": "`echo \"${item.n}\" > \"file.${item.n}\"; test \"${item.n}\" -lt 3` failed with exit code 1",
        "reason_code": "command_failed"
      },
      {
        "item_id": "item-004",
        "status": "dead_lettered",
        "attempts": 1,
        "commits": 0,
        "duration_ms": null,
        "error": "`echo \"${item.n}\" > \"file.${item.n}\"; test \"${item.n}\" -lt 3` failed with exit code 1",
        "reason_code": "command_failed"
      },
      {
        "item_id": "item-005",
        "status": "dead_lettered",
        "attempts": 1,
        "commits": 0,
        "duration_ms": null,
        "error": "`echo \"${item.n}\" > \"file.${item.n}\"; test \"${item.n}\" -lt 3` failed with exit code 1",
        "reason_code": "command_failed"
      }
    ]
    "#);
}

#[test]
fn results_that_are_too_big_for_a_variable_reach_the_shell() {
    let world = map_world(
        r#"
map:
  input: "seq 300"
  isolation: shared
  max_parallel: 4
  agent_template: [{ shell: "printf '%01024d' ${item}" }]
reduce:
  - shell: 'echo "${map.results}" > ROOT/results; printf %s "${map.results}" | wc -c > ROOT/size'
"#,
    );
    assert_code(&go(&world), 0);
    let results: Vec<Value> = serde_json::from_str(&beside(&world, "results")).unwrap();
    assert_eq!(results.len(), 300);
    for (number, result) in (1..).zip(&results) {
        assert_eq!(result["result"], format!("{number:01024}"));
    }
    assert!(beside(&world, "size").trim().parse::<u32>().unwrap() > 300 * 1024);
}

#[test]
fn merge_steps_see_every_merge_variable() {
    let world = map_world(
        r#"
map:
  input: { items: [a, b] }
  max_parallel: 1
  agent_template: [{ shell: 'echo x > "${item}.txt"; git add . ; git commit --quiet -m "add ${item}"' }]
reduce: [{ shell: echo reduced > reduced.txt, auto_commit: true }]
merge:
  - shell: |
      echo "${merge.worktree} ${merge.source_branch} ${merge.target_branch} ${merge.job_id} ${merge.session_id} ${merge.commit_count}" > ROOT/vars
      echo "${merge.file_list}" >> ROOT/vars
      echo "${map.successful} ${PRODIGY_JOB_ID}" >> ROOT/vars
  - shell: echo "${merge.commits[0].id}" > ROOT/commit; echo "${merge.commits}" > ROOT/commits
  - shell: git -C ROOT/repo merge --quiet --no-edit "${merge.source_branch}"
"#,
    );
    let before = world.git(&["rev-parse", "HEAD"]);
    assert_code(&go(&world), 0);
    let seen = beside(&world, "vars").replace(&world.root().display().to_string(), "$ROOT");
    assert_snapshot!(seen, @r#"
        $ROOT/home/worktrees/repo/job/job prodigy/job/job main job job 3
        ["a.txt","b.txt","reduced.txt"]
        2 job
        "#);
    let commits: Vec<Value> = serde_json::from_str(&beside(&world, "commits")).unwrap();
    let mut subjects: Vec<_> =
        commits.iter().map(|commit| commit["subject"].as_str().unwrap()).collect();
    subjects.sort_unstable();
    assert_snapshot!(subjects.join("\n"), @"
        add a
        add b
        shell: echo reduced > reduced.txt
        ");
    let listed = world.git(&["log", "--format=%H", &format!("{before}..main")]);
    assert!(commits.iter().all(|commit| listed.contains(commit["id"].as_str().unwrap())));
    assert_eq!(world.git(&["ls-files", "*.txt"]), "a.txt\nb.txt\nreduced.txt");
}

#[test]
fn the_environment_is_the_same_in_every_phase() {
    let line = r#""$PLAIN $FROM_FILE $FROM_PROFILE $KEY ${params.who} ${env.PLAIN} $PRODIGY_JOB_ID/$PRODIGY_AUTOMATION""#;
    let world = map_world(
        &r#"
env: { PLAIN: plain }
env_files: [vars.env]
secrets: { KEY: { env: MY_KEY } }
profiles: { loud: { FROM_PROFILE: loud } }
parameters: { who: { default: nobody } }
setup: [{ shell: 'echo LINE > ROOT/setup' }]
map:
  input: { items: [good, bad] }
  agent_template:
    - shell: 'echo LINE > ROOT/item.${item}; echo "key $KEY" ; echo "key $KEY" >&2; echo "$KEY" > left; test "${item}" = good'
      auto_commit: true
    - shell: 'echo "the key is $KEY"'
reduce: [{ shell: 'echo LINE > ROOT/reduce' }]
merge:
  - shell: 'echo LINE > ROOT/merge; git -C ROOT/repo merge --quiet --no-edit "${merge.source_branch}"'
error_policy:
  on_item_failure: custom:note
  handlers: { note: [{ shell: 'echo LINE > ROOT/handler; echo "said $KEY"; exit 1' }] }
"#
        .replace("LINE", line),
    )
    .env("MY_KEY", "hunter2secret");
    world.write("vars.env", "FROM_FILE=file\n");
    world.commit_all("Add variables");
    let args =
        ["run", "workflow.yml", "-y", "--job-id", "job", "--profile", "loud", "--param", "who=me"];
    let seen = world.prodigy(&args);
    assert_code(&seen, 0);
    let expected = "plain file loud hunter2secret me plain job/true\n";
    for phase in ["setup", "item.good", "item.bad", "handler", "reduce", "merge"] {
        assert_eq!(beside(&world, phase), expected, "{phase}");
    }
    // Nothing that prodigy keeps or says holds the secret, but what was committed is the user's.
    assert!(!seen.to_string().contains("hunter2"), "{seen}");
    for directory in ["events", "logs", "state", "dlq"] {
        assert_eq!(holders(&world, directory, "hunter2"), "", "{directory}");
    }
    let logs = world
        .command("grep")
        .args(["-r", "-h", "key is"])
        .arg(world.home().join("logs"))
        .output()
        .unwrap();
    assert_snapshot!(String::from_utf8_lossy(&logs.stdout), @"the key is ***");
}

#[test]
fn a_secret_in_an_item_is_not_kept_in_its_dead_letter() {
    let world = map_world(
        r#"
secrets: { KEY: { env: MY_KEY } }
setup: [{ shell: 'echo "[{\"key\": \"$KEY\"}]" > items.json' }]
map:
  input: items.json
  agent_template: [{ shell: 'echo "${item.key}" > ROOT/seen; echo "bad ${item.key}"; exit 1' }]
"#,
    )
    .env("MY_KEY", "hunter2secret");
    assert_code(&go(&world), 1);
    assert_eq!(beside(&world, "seen"), "hunter2secret\n");
    assert_eq!(letter(&world, "item-001")["item_data"]["key"], "***");
    for directory in ["events", "logs", "dlq"] {
        assert_eq!(holders(&world, directory, "hunter2"), "", "{directory}");
    }
}

/// Returns the files below a directory of the home that hold a text.
fn holders(world: &TestEnv, directory: &str, text: &str) -> String {
    let mut command = world.command("grep");
    let found = command.args(["-r", "-l", text]).arg(world.home().join(directory)).output();
    String::from_utf8(found.unwrap().stdout).unwrap()
}
