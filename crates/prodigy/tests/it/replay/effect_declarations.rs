//! What a workflow says of changes outside, and what a job remembers of what its steps find.

use insta::assert_snapshot;
use prodigy_testkit::TestEnv;

use crate::fixture::{
    effects::{WITH_CHECK, furnish, item_world, made, put},
    map_job::{assert_code, go, letter, map_world, of_type, write_workflow},
    workflow::world,
};

#[test]
fn commands_that_reach_outside_have_to_say_so() {
    let world = world("- shell: |\n    # git push later\n    make && git push origin main\n");
    assert_snapshot!(world.prodigy(&["validate", "workflow.yml"]), @"
    workflow.yml: ok (1 step, 1 warning)
    ----- stderr -----
    warning: `git push` changes something outside, and the step does not say so
     --> workflow.yml:3:13
      |
    3 |     make && git push origin main
      |             ^^^^^^^^^^^^^^^^^^^^
      |
      = help: declare `effects: external`, best with a `check`; `effects: local` if it is harmless
    ");
    assert_snapshot!(world.prodigy(&["validate", "workflow.yml", "--format", "json"]), @r#"{"schema_version":1,"valid":true,"diagnostics":[{"severity":"warning","file":"workflow.yml","line":3,"column":13,"end_line":3,"end_column":33,"message":"`git push` changes something outside, and the step does not say so","help":"declare `effects: external`, best with a `check`; `effects: local` if it is harmless"}]}"#);
    world.write("workflow.yml", "- shell: git push\n  effects: local\n");
    assert_snapshot!(world.prodigy(&["validate", "workflow.yml"]), @"workflow.yml: ok (1 step)");
}

#[test]
fn a_plan_says_how_far_steps_reach() {
    let world = world(
        r"
- { shell: echo a, effects: external }
- { shell: echo b, effects: external, idempotent: true }
- { shell: echo c, effects: external, check: echo d, compensate: echo e }
- { shell: echo f, effects: none }
- { shell: echo g, effects: local }
",
    );
    let seen = world.prodigy(&["plan", "workflow.yml"]).stdout;
    let steps: Vec<_> = seen.lines().skip(2).take(9).collect();
    assert_snapshot!(steps.join("\n"), @"
    steps
        1  shell: echo a
           changes something outside (cannot be checked)
        2  shell: echo b
           changes something outside (harmless twice)
        3  shell: echo c
           changes something outside (can be checked, can be undone)
        4  shell: echo f
           changes nothing
    ");
    assert_code(&go(&world), 0);
}

/// Returns what the last record about it says that steps find.
fn found(world: &TestEnv, kind: &str) -> serde_json::Value {
    of_type(world, kind).last().unwrap()["found"].clone()
}

#[test]
fn a_job_remembers_what_its_steps_find() {
    let workflow = |env: &str, delay: u32| {
        format!(
            "env: {{ PLACE: {env} }}\n\
             agents: {{ claude: {{ type: simulated, rules: [{{ delay: {delay}ms }}] }} }}\n\
             map:\n  input: {{ items: [a] }}\n  agent_template:\n\
             \x20   - claude: hello\n\
             \x20   - {{ shell: sh ROOT/deed a, effects: external }}\n\
             \x20   - foreach: {{ input: [1], do: [{{ shell: sh ROOT/deed b, effects: external }}] }}\n\
             \x20   - shell: sh ROOT/other last\n"
        )
    };
    let world = map_world(&workflow("here", 1));
    furnish(&world);
    put(&world, "does.last", "exit 3\n");
    assert_code(&go(&world), 1);
    let first = found(&world, "job_started");
    assert!(first["last_effect"].is_null(), "{first}");
    let entry = letter(&world, "item-001");
    assert_eq!(
        [&entry["tool_hash"], &entry["env_hash"]],
        [&first["tool_hash"], &first["env_hash"]]
    );
    assert_eq!(entry["commit_state"], "mixed", "a step is left");
    // As long as it is the same, nothing is recorded.
    let again = |more: &[&str]| {
        let retry = ["dlq", "retry", "job", "--force", "item-001", "--reason", "see"];
        assert_code(&world.prodigy(&[&retry, more].concat()), 3);
        found(&world, "job_resumed")
    };
    assert_eq!(again(&[]), serde_json::Value::Null);
    let mut known = first;
    for (env, delay, changed) in [("there", 1, "env_hash"), ("there", 2, "tool_hash")] {
        write_workflow(&world, &workflow(env, delay));
        let now = again(&["--use-current-workflow"]);
        let same = if changed == "env_hash" { "tool_hash" } else { "env_hash" };
        assert_ne!(now[changed], known[changed], "{changed}");
        assert_eq!(now[same], known[same], "{changed}");
        assert_eq!(letter(&world, "item-001")[changed], now[changed]);
        known = now;
    }
}

#[test]
fn secrets_do_not_get_into_receipts_and_do_not_hide_names() {
    let text = "secrets: { TOKEN: { env: TOKEN } }\n";
    let world = item_world(WITH_CHECK).env("TOKEN", "item-001");
    let workflow = world.read("workflow.yml").replacen("map:", &format!("{text}map:"), 1);
    world.write("workflow.yml", workflow);
    world.commit_all("Add a secret");
    put(&world, "does.after.a", "echo \"it is $TOKEN\"\n");
    put(&world, "does.last", "rm ROOT/does.last; exit 3\n");
    assert_code(&go(&world), 1);
    let committed = of_type(&world, "effect_committed");
    assert_snapshot!(format!("{} {}", committed[0]["key"], committed[0]["receipt"]), @r#""job:item-001:deed" "it is ***\nreceipt of a""#);
    // It is found again by its name.
    let retry = ["dlq", "retry", "job", "--force", "item-001", "--reason", "see"];
    assert_code(&world.prodigy(&retry), 0);
    assert_eq!(made(&world), 1);
}
