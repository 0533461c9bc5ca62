//! An account that cannot be used: a key that expired, a login that is gone.
//!
//! That is no failure of an item: the job pauses, and goes on when somebody has logged in again.

use std::{fs, thread};

use insta::assert_snapshot;
use prodigy_testkit::{
    CommandOutput, TestEnv,
    crash::check_processes,
    model::{ModelBehaviour, ModelScript, ScriptedModel},
};

use crate::{
    fixture::{
        map_job::{assert_code, counts, go, map_world, of_type, trace_of},
        real_agents::{claude_world, codex_world},
        workflow::{SpawnedProdigy, stable},
    },
    map::conflicts::mended,
};

/// Claude Code as a program that has access once `ROOT/key` is there.
const PROGRAM: &str = r#"
cat >/dev/null
echo '{"type":"system","subtype":"init","session_id":"s","model":"m","permissionMode":"default"}'
if test -e ROOT/key; then
  echo '{"type":"result","subtype":"success","is_error":false,"num_turns":1,"total_cost_usd":0.01,"result":"{\"status\": \"complete\"}","session_id":"s","permission_denials":[]}'
  exit 0
fi
echo '{"type":"result","subtype":"success","is_error":true,"api_error_status":401,"num_turns":1,"total_cost_usd":0,"result":"Invalid API key · Fix external API key","session_id":"s"}'
exit 1
"#;

/// Makes a world whose agent `claude` has no access until `ROOT/key` is there.
fn locked(workflow: &str) -> TestEnv {
    let world = map_world(&format!(
        "agents: {{ claude: {{ type: claude, command: [sh, ROOT/agent.sh] }} }}\n{workflow}"
    ));
    write_program(&world, PROGRAM);
    world
}

fn write_program(world: &TestEnv, script: &str) {
    let script = script.replace("ROOT", &world.root().display().to_string());
    fs::write(world.root().join("agent.sh"), script).unwrap();
}

/// Gives the agent its access back.
fn unlock(world: &TestEnv) {
    fs::write(world.root().join("key"), "").unwrap();
}

/// Resumes the job, merging at the end.
fn resumed(world: &TestEnv) -> CommandOutput {
    SpawnedProdigy::new(world, &["resume", "job", "-y"]).seen(world)
}

/// Checks that nothing was charged to an item.
#[track_caller]
fn check_nothing_charged(world: &TestEnv, place: &str) {
    let count = |kind: &str| of_type(world, kind).len();
    assert_eq!((count("agent_failed"), count("item_dead_lettered")), (0, 0), "{place}");
    let attempts = of_type(world, "agent_completed");
    assert!(attempts.iter().all(|done| done["attempt"] == 1), "{place}: {attempts:?}");
}

#[test]
fn an_expired_key_pauses_the_job_and_no_item_pays() {
    let items: Vec<String> = (1..=60).map(|number| format!("i{number}")).collect();
    let world = map_world(&format!(
        r#"
agents: {{ claude: {{ type: simulated, rules: [{{ fault: auth_failed }}] }} }}
map:
  input: {{ items: [{}] }}
  item_key: item
  max_parallel: 2
  agent_template:
    - claude: "${{item}}"
error_policy:
  retry_config: {{ max_attempts: 3, backoff: {{ type: fixed, delay: 1ms }} }}
"#,
        items.join(", ")
    ));
    let seen = go(&world);
    assert_code(&seen, 6);
    check_nothing_charged(&world, "run");
    let paused = of_type(&world, "quota_paused");
    assert_eq!(paused.len(), 1, "{seen}");
    assert_eq!(paused[0]["limit"]["kind"], "access");
    assert!(paused[0].get("paused_until").is_none(), "{seen}");
    assert_eq!(of_type(&world, "job_paused")[0]["reason"], "no_access", "{seen}");
    let asked = of_type(&world, "agent_started").len();
    assert!(asked <= 2, "{asked} agents were started: {seen}");

    // The key is still expired: one agent finds that out.
    let seen = resumed(&world);
    assert_code(&seen, 6);
    assert_eq!(of_type(&world, "agent_started").len(), asked + 1, "{seen}");
    check_nothing_charged(&world, "resume");
    assert_code(&world.prodigy(&["verify", "job"]), 0);
}

#[test]
fn a_pause_names_the_agent_and_what_to_do() {
    let world = locked(
        "map: { input: { items: [a, b] }, item_key: item, max_parallel: 1, agent_template: [{ claude: '${item}' }] }\n",
    );
    assert_snapshot!(stable(&go(&world)), @"
    ----- stderr -----
    · job job · workflow.yml · mapreduce
    · 2 items
    ✗ agent `claude` has no access to its account: Invalid API key · Fix external API key; run `claude` and type `/login`, or set `ANTHROPIC_API_KEY` to a valid key

    paused: agent `claude` has no access to its account: Invalid API key · Fix external API key; run `claude` and type `/login`, or set `ANTHROPIC_API_KEY` to a valid key · 0 of 2 items done · [time]
    items: 0 successful, 2 waiting
    worktree: $ROOT/home/worktrees/repo/job/job (branch prodigy/job/job)
    next: prodigy resume job
    [exit 6]
    ");
    unlock(&world);
    assert_code(&resumed(&world), 0);
    assert_eq!(counts(&world), (2, 0, 0));
    assert_eq!(of_type(&world, "quota_resumed").len(), 1);
    check_nothing_charged(&world, "both");
}

/// Runs a workflow whose agent has no access, gives it back, and checks that nothing was made of it.
fn check(place: &str, workflow: &str) {
    let world = locked(workflow);
    let seen =
        SpawnedProdigy::new(&world, &["run", "workflow.yml", "-y", "--job-id", "job"]).seen(&world);
    assert_eq!(seen.code, Some(6), "{place}: {seen}");
    assert_eq!(of_type(&world, "quota_paused").len(), 1, "{place}: {seen}");
    unlock(&world);
    let seen = resumed(&world);
    assert_eq!(seen.code, Some(0), "{place}: {seen}");
    check_nothing_charged(&world, place);
    check_processes(&world).unwrap();
}

/// Checks many workflows at once.
fn check_all<'w>(workflows: impl IntoIterator<Item = (&'w str, String)>) {
    thread::scope(|scope| {
        for (place, workflow) in workflows {
            scope.spawn(move || check(place, &workflow));
        }
    });
}

#[test]
fn no_access_in_an_items_steps_is_no_failure() {
    let item = |steps: &str| {
        format!("map:\n  input: {{ items: [one] }}\n  agent_template:\n    - {steps}\n")
    };
    let places = [
        ("retry", "{ claude: a, retry: { attempts: 3, initial_delay: 1ms } }"),
        ("continue_on_error", "{ claude: a, continue_on_error: true }"),
        ("ignored", "{ claude: a, on_failure: true }"),
        ("a handler", "{ shell: exit 1, on_failure: { claude: a } }"),
        ("on_exit_code", "{ shell: exit 1, on_exit_code: { 1: { claude: a } } }"),
        ("on_success", "{ shell: 'true', on_success: { claude: a } }"),
        ("a judge", "{ shell: 'true', validate: { claude: a } }"),
        (
            "a loop",
            "{ foreach: { input: [a, b], parallel: 2, continue_on_error: true, do: [{ claude: a }] } }",
        ),
    ];
    check_all(places.map(|(place, steps)| (place, item(steps))));
}

#[test]
fn no_access_in_the_steps_of_the_job_is_no_failure() {
    let map = "map: { input: { items: [one] }, agent_template: [{ shell: touch new, auto_commit: true }] }\n";
    let places = [
        ("setup", "setup: [{ claude: a, on_failure: 'true' }]\n"),
        (
            "merge",
            "merge:\n  - { claude: a, on_failure: 'true' }\n  - shell: git -C ROOT/repo merge --quiet --no-edit \"${merge.source_branch}\"\n",
        ),
        ("reduce", "reduce: [{ claude: a, continue_on_error: true }]\n"),
    ];
    check_all(places.map(|(place, steps)| (place, format!("{map}{steps}"))));
}

#[test]
fn no_access_in_a_handler_of_the_policy_repeats_only_the_handler() {
    let world = locked(
        r#"
map: { input: { items: [one] }, item_key: item, agent_template: [{ shell: "exit 3" }] }
error_policy:
  on_item_failure: custom:rescue
  handlers: { rescue: [{ claude: a }] }
"#,
    );
    assert_code(&go(&world), 6);
    unlock(&world);
    resumed(&world);
    let trace = trace_of(&world, "one");
    assert!(trace.ends_with("one item_skipped it was left to `rescue`"), "{trace}");
}

#[test]
fn no_access_while_a_conflict_is_resolved_keeps_the_conflict_for_later() {
    let world = mended("fault: auth_failed");
    let seen =
        SpawnedProdigy::new(&world, &["run", "workflow.yml", "-y", "--job-id", "job"]).seen(&world);
    assert_code(&seen, 6);
    assert_eq!(of_type(&world, "resolution_failed").len(), 0, "{seen}");
    assert_eq!(of_type(&world, "item_dead_lettered").len(), 0, "{seen}");
    assert_eq!(world.git(&["log", "-1", "--format=%s", "prodigy/job/second"]), "second");
}

#[test]
fn no_access_in_a_sequential_workflow_pauses_it() {
    let world = crate::fixture::workflow::world(
        "agents: { claude: { type: simulated, rules: [{ fault: auth_failed }] } }\nsteps:\n  - shell: echo a\n  - { claude: b, on_failure: 'true', retry: { attempts: 3, initial_delay: 1ms } }\n",
    );
    assert_snapshot!(crate::fixture::workflow::run(&world), @"
    ----- stderr -----
    · job job · workflow.yml · 2 steps
    ✓ 1 shell: echo a  [time]
    ✗ agent `claude` has no access to its account: Invalid API key · Fix external API key; renew its credential

    paused: agent `claude` has no access to its account: Invalid API key · Fix external API key; renew its credential · 1 of 2 steps done
    next: prodigy resume job
    [exit 6]
    ");
}

/// Makes a world with one item and an agent that is any program.
fn program(script: &str) -> TestEnv {
    let world = map_world(
        r#"
agents:
  own:
    type: command
    command: [sh, ROOT/agent.sh]
    prompt: stdin
    exit_codes: { 9: auth_failed }
map:
  input: { items: [one] }
  item_key: item
  agent_template:
    - agent: { use: own, prompt: "${item}" }
"#,
    );
    write_program(&world, script);
    world
}

#[test]
fn a_program_says_that_it_has_no_access_in_several_ways() {
    let forms = [
        "echo working; echo 'Invalid API key · Please run /login'; exit 1",
        "echo 'Error: 401 Unauthorized' >&2; exit 1",
        "echo 'ERROR: Not logged in. Run codex login' >&2; exit 1",
        "echo 'no more'; exit 9",
        r#"echo '{"reason_code": "auth_failed"}' >"$PRODIGY_RESULT_FILE"; exit 4"#,
    ];
    for script in forms {
        let world = program(script);
        let seen = go(&world);
        assert_eq!(seen.code, Some(6), "{script}: {seen}");
        check_nothing_charged(&world, script);
    }
}

#[test]
fn a_program_whose_work_was_refused_elsewhere_has_access() {
    let forms = [
        "echo 'git@github.com: Permission denied (publickey).' >&2; exit 1",
        "echo 'test login ... FAILED: expected 200, found 401 Unauthorized'; exit 1",
        "echo 'remote: Invalid username or password.' >&2; exit 128",
    ];
    for script in forms {
        let world = program(script);
        go(&world);
        assert_eq!(counts(&world), (0, 1, 0), "{script}");
    }
}

#[test]
fn a_shell_step_without_access_fails_its_item_alone() {
    let world = map_world(
        "map: { input: { items: [a, b] }, agent_template: [{ shell: 'test ${item} = b || { echo Invalid API key; exit 1; }' }] }\n",
    );
    assert_code(&go(&world), 0);
    assert_eq!(counts(&world), (1, 1, 0));
}

#[test]
fn a_replay_without_access_leaves_the_dead_letter_open() {
    let world = locked(
        "map: { input: { items: [one, two] }, item_key: item, agent_template: [{ shell: 'test ${item} = two || test -e ROOT/tried || { touch ROOT/tried; exit 1; }' }, { claude: a, when: \"item == 'one'\" }] }\n",
    );
    assert_code(&go(&world), 0);
    let seen = world.prodigy(&["dlq", "retry", "job", "-y"]);
    assert_code(&seen, 6);
    assert_eq!(of_type(&world, "item_dead_lettered").len(), 1, "{seen}");
    unlock(&world);
    let seen = world.prodigy(&["dlq", "retry", "job", "-y"]);
    assert_code(&seen, 0);
    assert_eq!(of_type(&world, "item_dead_lettered").len(), 1, "{seen}");
    let seen = world.prodigy(&["dlq", "list", "job"]);
    assert!(seen.to_string().contains("no open dead letters"), "{seen}");
}

#[test]
fn claude_without_access_pauses_the_job() {
    let script = ModelScript::new(
        ModelBehaviour::Unauthorised.times(2).then(ModelBehaviour::Answer("done".to_owned())),
    );
    let model = ScriptedModel::start(script);
    let world = claude_world(
        &model,
        r#"
map:
  input: { items: [a, b, c] }
  item_key: item
  max_parallel: 1
  agent_template:
    - claude: "Work. item=same"
"#,
    );
    assert_snapshot!(stable(&go(&world)), @"
    ----- stderr -----
    · job job · workflow.yml · mapreduce
    · 3 items
    ✗ agent `claude` has no access to its account: Invalid API key · Fix external API key; run `claude` and type `/login`, or set `ANTHROPIC_API_KEY` to a valid key

    paused: agent `claude` has no access to its account: Invalid API key · Fix external API key; run `claude` and type `/login`, or set `ANTHROPIC_API_KEY` to a valid key · 0 of 3 items done · [time]
    items: 0 successful, 3 waiting
    worktree: $ROOT/home/worktrees/repo/job/job (branch prodigy/job/job)
    next: prodigy resume job
    [exit 6]
    ");
    assert_eq!(model.turns().len(), 1);
    assert_code(&resumed(&world), 6);
    assert_eq!(model.turns().len(), 2);
    assert_code(&resumed(&world), 0);
    assert_eq!(counts(&world), (3, 0, 0));
    check_nothing_charged(&world, "all");
    check_processes(&world).unwrap();
}

#[test]
fn codex_without_access_pauses_the_job() {
    let model = ScriptedModel::start(ModelScript::new(ModelBehaviour::Unauthorised));
    let world = codex_world(
        &model,
        "map: { input: { items: [a, b] }, item_key: item, max_parallel: 1, agent_template: [{ codex: 'Work. item=${item}' }] }\n",
    );
    let seen = go(&world);
    assert_code(&seen, 6);
    assert!(seen.to_string().contains("run `codex login`"), "{seen}");
    check_nothing_charged(&world, "codex");
}
