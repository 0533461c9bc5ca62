//! What people see while a limit keeps a job waiting, and while agents are at work.

use std::collections::BTreeSet;

use insta::assert_snapshot;
use prodigy_testkit::{CommandOutput, TestEnv};
use regex::Regex;
use serde_json::Value;

use crate::{
    fixture::{
        map_job::{assert_code, go, has_told, map_world, of_type, started},
        workflow::stable,
    },
    security::hostile_values::on_a_terminal_of,
};

/// A job whose first item runs into a limit that is lifted soon.
const LIMITED: &str = "
agents:
  claude:
    type: simulated
    rules:
      - { prompt: first, fault: usage_limit, reset_after: 2s }
      - { cost_usd: 0.5 }
map:
  input: { items: [first, second] }
  max_parallel: 1
  agent_template:
    - claude: fix ${item}
";

/// Returns what a person sees, without what differs from run to run.
fn timeless(seen: &CommandOutput) -> String {
    let text = stable(seen);
    let text = Regex::new(r"\d\d:\d\d:\d\d").unwrap().replace_all(&text, "[clock]").into_owned();
    let text = Regex::new(r"\(in [^)]*\)").unwrap().replace_all(&text, "(in [time])").into_owned();
    Regex::new(r"\d{4}-\d\d-\d\dT\S+Z").unwrap().replace_all(&text, "[moment]").into_owned()
}

#[test]
fn a_wait_for_a_limit_is_told_with_its_end() {
    let world = map_world(LIMITED);
    assert_snapshot!(timeless(&go(&world)), @"
    ----- stderr -----
    · job job · workflow.yml · mapreduce
    · 2 items
    ✗ You've hit your limit · resets at [moment]; it is tried again at [clock] (in [time])
    · trying with one agent
    ✓ agents are served again
    ✓ item-001  [time]
    ✓ item-002  [time]
    ✓ map: 2/2 done  [time]

    completed · 2 of 2 items done · [time] · cost $0.50
    items: 2 successful
    cost: $0.25 per completed item
    nothing to merge: the steps made no commit
    next: prodigy events job
    ");
}

#[test]
fn a_terminal_counts_down_to_the_end_of_a_limit() {
    let world = map_world(&LIMITED.replace("reset_after: 2s", "reset_after: 4s"));
    let args = ["run", "workflow.yml", "-y", "--job-id", "job"];
    let (seen, code) = on_a_terminal_of(&world, &args, (90, 24), |_| {});
    assert_eq!(code, 0, "{seen}");
    let waits =
        Regex::new(r"0/2 done · usage limit · resumes \d\d:\d\d:\d\d \(in (\d)s\)").unwrap();
    let left = waits.captures_iter(&seen).map(|found| found[1].to_owned());
    let left: BTreeSet<String> = left.collect();
    assert!(left.len() >= 2, "{left:?} {seen}");
    assert!(seen.contains("usage limit · trying with one agent"), "{seen}");
}

#[test]
fn a_terminal_shows_the_wait_of_a_workflow_of_steps_too() {
    let world = crate::fixture::workflow::world(
        "agents: { claude: { type: simulated, rules: [{ fault: usage_limit, reset_after: 2s }] } }\nsteps:\n- claude: one\n",
    );
    let args = ["run", "workflow.yml", "-y", "--job-id", "job"];
    let (seen, code) = on_a_terminal_of(&world, &args, (90, 24), |_| {});
    assert_eq!(code, 0, "{seen}");
    let waits = Regex::new(r"\S usage limit · resumes \d\d:\d\d:\d\d \(in \ds\)").unwrap();
    assert!(waits.is_match(&seen), "{seen}");
}

#[test]
fn another_process_sees_that_a_job_waits_for_a_limit() {
    let world = map_world(&LIMITED.replace("reset_after: 2s", "reset_after: 1h"));
    let mut run = started(&world);
    run.until(&world, "it waits", || has_told(&world, "quota_paused"));
    let shown = world.prodigy(&["jobs", "show", "job"]);
    let limit = |shown: &CommandOutput| {
        let line =
            timeless(shown).lines().find(|line| line.starts_with("limit")).map(str::to_owned);
        line.unwrap_or_default()
    };
    assert_snapshot!(limit(&shown), @"limit       You've hit your limit · resets at [moment]; it is tried again at [clock] (in [time])");
    let document = world.prodigy(&["jobs", "show", "job", "--json"]);
    let document: Value = serde_json::from_str(&document.stdout).unwrap();
    assert_eq!(document["job"]["limit"]["limit"]["kind"], "usage");
    drop(run);
    assert_code(&world.prodigy(&["resume", "job", "--no-wait"]), 75);
}

#[test]
fn a_job_that_does_not_wait_says_what_a_resume_will_do() {
    let world = map_world(&LIMITED.replace("reset_after: 2s", "reset_after: 1h"));
    let seen = world.prodigy(&["run", "workflow.yml", "-y", "--job-id", "job", "--no-wait"]);
    assert_code(&seen, 75);
    assert_snapshot!(timeless(&seen), @"
    ----- stderr -----
    · job job · workflow.yml · mapreduce
    · 2 items
    ✗ You've hit your limit · resets at [moment]; `prodigy resume` tries it with one agent from [clock] (in [time]) on

    paused: You've hit your limit · resets at [moment]; `prodigy resume` tries it with one agent from [moment] on, and with `--now` at once · 0 of 2 items done · [time]
    items: 0 successful, 2 waiting
    worktree: $ROOT/home/worktrees/repo/job/job (branch prodigy/job/job)
    next: prodigy resume job
    [exit 75]
    ");
    let shown = timeless(&world.prodigy(&["jobs", "show", "job"]));
    let lines: Vec<_> = shown.lines().filter(|line| line.contains("resume")).collect();
    assert_snapshot!(lines.join("\n"), @"
    limit       You've hit your limit · resets at [moment]; `prodigy resume` tries it with one agent from [clock] (in [time]) on
    paused      You've hit your limit · resets at [moment]; `prodigy resume` tries it with one agent from [moment] on, and with `--now` at once
    next: `prodigy resume job` goes on
    ");
    let again = world.prodigy(&["resume", "job", "--no-wait"]);
    assert_code(&again, 75);
    assert_snapshot!(timeless(&again), @"
    ----- stderr -----
    · job job resumed · 0 of 2 items done

    paused: You've hit your limit · resets at [moment]; `prodigy resume` tries it with one agent from [moment] on, and with `--now` at once · 0 of 2 items done · [time]
    items: 0 successful, 2 waiting
    worktree: $ROOT/home/worktrees/repo/job/job (branch prodigy/job/job)
    next: prodigy resume job
    [exit 75]
    ");
}

#[test]
fn a_job_whose_quota_says_stop_stops_again_when_it_is_resumed_too_early() {
    let limited = LIMITED.replace("reset_after: 2s", "reset_after: 1h");
    let world = map_world(&format!("quota: {{ on_limit: stop }}\n{limited}"));
    assert_code(&go(&world), 75);
    assert_code(&world.prodigy(&["resume", "job"]), 75);
    assert!(of_type(&world, "quota_paused").iter().all(|paused| paused["waits"] == false));
}

/// Returns a world with an agent that uses a tool and then waits to be let go.
fn at_work() -> TestEnv {
    let script = r#"printf '%s\n' \
'{"type":"system","subtype":"init","session_id":"s","model":"m","tools":[]}' \
'{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t","name":"Bash","input":{"command":"cargo test"}}]},"session_id":"s"}'
until test -e ROOT/go; do sleep 0.02; done
printf '%s\n' '{"type":"result","subtype":"success","is_error":false,"result":"done","num_turns":1,"total_cost_usd":0.5,"session_id":"s"}'
"#;
    let world = map_world(
        "
agents: { claude: { type: claude, command: [sh, ROOT/agent.sh] } }
map:
  input: { items: [first] }
  agent_template:
    - { claude: fix it, timeout: 20s }
",
    );
    let script = script.replace("ROOT", &world.root().display().to_string());
    std::fs::write(world.root().join("agent.sh"), script).unwrap();
    world
}

#[test]
fn an_agent_at_work_is_shown_with_the_tool_that_it_uses() {
    let world = at_work();
    let mut run = started(&world);
    run.until(&world, "it uses a tool", || has_told(&world, "agent_tool_used"));
    let shown = stable(&world.prodigy(&["jobs", "show", "job"]));
    let line = shown.lines().find(|line| line.starts_with("agent "));
    assert_snapshot!(line.unwrap_or_default(), @"agent       agent-1  item-001  1 claude: fix it · Bash: cargo test  [time]");
    let document = world.prodigy(&["jobs", "show", "job", "--json"]);
    let document: Value = serde_json::from_str(&document.stdout).unwrap();
    assert_eq!(document["job"]["items"]["agents"][0]["last_tool"], "Bash");
    std::fs::write(world.root().join("go"), "").unwrap();
    let seen = run.seen(&world);
    assert_code(&seen, 0);
    assert!(seen.stderr.contains("cost $0.50"), "{seen}");
}
