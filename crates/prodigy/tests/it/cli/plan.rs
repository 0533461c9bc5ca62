//! `prodigy plan` of a workflow with items.

use insta::assert_snapshot;
use serde_json::Value;

use crate::fixture::workflow;

const WORKFLOW: &str = r#"
name: many
mode: mapreduce
setup: [{ shell: make ready }]
map:
  input: { items: [{ path: a.rs }, { path: "b c's.rs" }, { path: d.rs }] }
  max_parallel: 2
  worktree:
    copy: [.env]
    link: [node_modules]
    setup: [{ shell: npm ci }]
  agent_template:
    - claude: "/fix ${item.path} after ${shell.output}"
    - shell: "test -e ${item.path} && echo '${item.path}' \"${item.path}\" $HOME ${shell.output}"
reduce: [{ shell: "echo ${map.successful}" }]
error_policy:
  on_item_failure: custom:mend
  handlers: { mend: [{ shell: echo }] }
  max_failures: 3
  systemic_stop: 4
  failure_threshold: 0.2
  retry_config: { max_attempts: 8, backoff: { type: exponential, initial: 1s }, max_delay: 10s }
  circuit_breaker: { failure_threshold: 5, timeout: 30s }
"#;

fn stable(text: &str) -> String {
    let commit = regex::Regex::new(r"\bat [0-9a-f]{10}\b").unwrap();
    commit.replace_all(text, "at [commit]").into_owned()
}

#[test]
fn a_plan_shows_items_worktrees_and_policy() {
    let world = workflow::world(WORKFLOW);
    assert_snapshot!(stable(&world.prodigy(&["plan", "workflow.yml"]).to_string()), @r#"
    workflow  many (workflow.yml)
    start     main at [commit]
    setup
        1  shell: make ready
    items     3 (values are filled in to be read; a run passes them as data)
      item-001  {"path":"a.rs"}
           claude: /fix a.rs after ${shell.output}
           shell: test -e a.rs && echo 'a.rs' "a.rs" $HOME ${shell.output}
      item-002  {"path":"b c's.rs"}
           claude: /fix b c's.rs after ${shell.output}
           shell: test -e 'b c'\''s.rs' && echo 'b c's.rs' "b c's.rs" $HOME ${shell.output}
      item-003  {"path":"d.rs"}
           claude: /fix d.rs after ${shell.output}
           shell: test -e d.rs && echo 'd.rs' "d.rs" $HOME ${shell.output}
    worktrees 2, used by one item after another · copied: `.env` · linked: `node_modules` · 1 step in each new one
    new worktree
        1  shell: npm ci
    map       2 at once
        1  claude: /fix ${item.path} after ${shell.output}
           its changes are committed
        2  shell: test -e ${item.path} && echo '${item.path}' "${item.path}" $HOME ${shell.output}
    policy    an item is tried up to 8 times, after 1s, 2s, 4s, 8s, 10s, …
              then the handler `mend` runs (1 step)
              the job stops at 3 failed items
              the job stops if more than 20 % of the items failed, judged from 10 on
              the job stops at 4 failed items in a row with the same cause
              after 5 failures in a row nothing starts for 30s; then up to 3 trials at once, and 2 successes make all start again
              failures are told at the end
              worktrees of failed items are kept
    reduce
        1  shell: echo ${map.successful}
    merge     plain git, asks first (`-y` says yes)
    cost      unknown: no history of this workflow
    "#);
}

#[test]
fn a_plan_knows_how_many_items_at_once_the_command_line_wants() {
    let world = workflow::world(WORKFLOW);
    let lines = |args: &[&str]| {
        let seen = world.prodigy(args).stdout;
        let lines =
            seen.lines().filter(|line| line.starts_with("worktrees") || line.contains("at once"));
        lines.map(str::to_owned).collect::<Vec<_>>().join("\n")
    };
    let wide = lines(&["plan", "workflow.yml", "--max-parallel", "100"]);
    assert_snapshot!(wide, @"
    worktrees 3, used by one item after another · copied: `.env` · linked: `node_modules` · 1 step in each new one
    map       100 at once
              after 5 failures in a row nothing starts for 30s; then up to 3 trials at once, and 2 successes make all start again
    ");
    let dry = lines(&["run", "workflow.yml", "--dry-run", "--max-parallel", "1"]);
    assert_snapshot!(dry, @"
    worktrees 1, used by one item after another · copied: `.env` · linked: `node_modules` · 1 step in each new one
    map       1 at once
              after 5 failures in a row nothing starts for 30s; then up to 3 trials at once, and 2 successes make all start again
    ");
}

#[test]
fn a_plan_without_a_policy_says_what_holds_then() {
    let world = workflow::world(
        "mode: mapreduce\nmap:\n  input: { command: ls }\n  isolation: shared\n  \
         agent_template: [{ shell: \"wc ${item}\" }, { foreach: { input: [x], do: [{ shell: \"echo ${item}\" }] } }]\n",
    );
    assert_snapshot!(stable(&world.prodigy(&["plan", "workflow.yml"]).to_string()), @"
    workflow  unnamed (workflow.yml)
    start     main at [commit]
    items     known later: `ls` prints them
    worktrees none of their own: items share that of the job
    map       10 at once
        1  shell: wc ${item}
        2  foreach: 1 step
             shell: echo ${item}
    policy    an item that fails is not tried again
              then it goes into the dead letter queue
              failures are told at the end
              worktrees of failed items are kept
    merge     plain git, asks first (`-y` says yes)
    cost      none: no step asks an agent
    ");
}

#[test]
fn a_plan_of_items_is_there_for_programs_too() {
    let world = workflow::world(WORKFLOW);
    let seen = world.prodigy(&["plan", "workflow.yml", "--json"]).stdout;
    let plan: Value = serde_json::from_str(&seen).unwrap();
    assert_snapshot!(format!("{:#}", plan["map"]["worktrees"]), @r#"
    {
      "isolation": "worktree",
      "slots": 2,
      "copy": [
        ".env"
      ],
      "include": null,
      "link": [
        "node_modules"
      ]
    }
    "#);
    assert_eq!(plan["map"]["max_parallel"], 2);
    assert_eq!(plan["map"]["policy"].as_array().unwrap().len(), 8);
    assert_eq!(plan["map"]["worktree_setup"][0]["text"], "npm ci");
}

#[test]
fn a_sequential_workflow_has_no_items_to_plan_for() {
    let world = workflow::world("- shell: 'true'\n");
    assert_eq!(world.prodigy(&["plan", "workflow.yml", "--max-parallel", "2"]).code, Some(2));
}
