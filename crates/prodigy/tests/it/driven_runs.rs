//! Runs through the binary that drive each feature once: together they emit every event and fill
//! every documented field.

use std::fs;

use prodigy_testkit::TestEnv;

use crate::{
    approvals_signed,
    approvals_world::{self, office},
    dlq_retry,
    field_walk::Documents,
    map_world::{assert_code, go, map_world, write_workflow},
    stories::{run_with, world},
};

/// Returns what all runs left behind.
pub(crate) fn documents() -> Documents {
    let retried = "{ retry_config: { max_attempts: 2, backoff: { type: fixed, delay: 1ms } }, \
         circuit_breaker: { failure_threshold: 2, success_threshold: 1, timeout: 10ms } }";
    let mut worlds = vec![
        troubled(),
        slow_and_untidy(),
        with_items(retried),
        with_items("{ on_item_failure: skip }"),
        with_effects(),
        with_agreements(),
        crate::cut_off_handlers::handled_after(&[rustix::process::Signal::KILL]),
        with_flags(),
        with_rounds(),
        with_signatures("approve"),
        with_signatures("reject"),
        edited_by_hand(),
        with_waits(),
        unfinished(""),
        unfinished(", check: echo found"),
        left_behind(),
        stopped_by_a_limit(),
        crate::limits_progress::suspended_step(),
        crate::budgets_nested::resumed_with_more(),
        meddling(),
        crate::trust::with_changed_settings(),
        crate::resumed_money::cut_off_by_a_server(),
        crate::costs_without_result::with_prices(),
        crate::lost_end::accepted_loss(),
        crate::limit_bounds::tried_at_once(),
        crate::approvals_rules::refused_below_a_step(),
        crate::effects_moved::with_an_id(),
        crate::effects_by_position::replayed_with_other_steps(),
    ];
    worlds.extend(with_agents());
    let mut documents = Documents::default();
    for world in &worlds {
        documents.add(world);
    }
    documents
}

/// A job that fails, is resumed, conflicts, is resumed again, and is merged.
fn troubled() -> TestEnv {
    let world = world(
        r#"
agents:
  claude: { type: simulated, rules: [{ answer: done, cost_usd: 0.5 }] }
steps:
  - shell: exit 1
    when: "1 == 2"
  - claude: anything
  - shell: git config core.hooksPath elsewhere; echo job > README.md; git commit --quiet --all --message job
  - shell: test -e ../mended
    retry: { attempts: 2, backoff: { type: fixed, delay: 1ms } }
"#,
    );
    run_with(&world, &[]);
    fs::create_dir_all(world.home().join("worktrees/repo/job/mended")).unwrap();
    world.write("README.md", "mine\n");
    world.commit_all("mine");
    assert_eq!(world.prodigy(&["resume", "job"]).code, Some(7), "the merge meets a conflict");
    world.git(&["merge", "--quiet", "--strategy-option=ours", "prodigy/job/job"]);
    assert_eq!(world.prodigy(&["resume", "job"]).code, Some(0));
    world
}

/// A job that takes longer than the time between two checkpoints, leaves a file behind and
/// stashes something.
fn slow_and_untidy() -> TestEnv {
    let world =
        world("- shell: touch left; git update-ref refs/stash HEAD; sleep 5.2\n- shell: 'true'\n");
    run_with(&world, &[]);
    world
}

/// A job of items that succeed, fail, are tried again, are left out and open the circuit; then
/// its dead letters are replayed, and one is dropped.
fn with_items(policy: &str) -> TestEnv {
    let world = world(&format!(
        "mode: mapreduce\nmap:\n  input: {{ items: [1, 1, 0] }}\n  max_parallel: 1\n  \
         agent_template: [{{ shell: 'test ${{item}} = 0' }}]\nerror_policy:\n  {policy}\n"
    ));
    run_with(&world, &[]);
    // With `skip` there are no dead letters, and nothing to do here.
    let code = if policy.contains("skip") { 0 } else { 3 };
    assert_eq!(world.prodigy(&["dlq", "retry", "job"]).code, Some(code));
    let dropped = world.prodigy(&["dlq", "drop", "job", "item-001", "--reason", "it is enough"]);
    assert!(dropped.code.is_some(), "{dropped}");
    assert_code(&world.prodigy(&["dlq", "clear", "job", "-y"]), 0);
    world
}

/// A job of items that change something outside, which is looked for and undone.
fn with_effects() -> TestEnv {
    let world = world(
        r"
mode: mapreduce
map:
  input: { items: [1] }
  agent_template:
    - shell: echo made >> ../outside
      effects: external
      check: echo found; test -s ../outside
      compensate: rm ../outside && touch ../outside
    - { shell: 'true', effects: external, idempotent: true }
    - shell: 'false'
",
    );
    run_with(&world, &[]);
    let undone = world.prodigy(&["dlq", "check", "job", "--compensate"]);
    assert_eq!(undone.code, Some(1), "one of them cannot be undone: {undone}");
    world
}

/// A job of items that somebody has to agree to, refuses, and puts away.
fn with_agreements() -> TestEnv {
    let world = world(
        r#"
mode: mapreduce
map:
  input: { items: [1, 2] }
  agent_template:
    - shell: |
        echo '{"reason_code": "denied"}' > "$PRODIGY_RESULT_FILE"
        exit 1
"#,
    );
    run_with(&world, &[]);
    assert_eq!(world.prodigy(&["dlq", "retry", "job"]).code, Some(8));
    for (item, word) in [("item-001", "approve"), ("item-002", "reject")] {
        let asked = world.prodigy(&["dlq", "show", "job", item, "--json"]).stdout;
        let digest = asked.split("\"digest\":").nth(1).and_then(|rest| rest.split('"').nth(1));
        let args = ["dlq", word, "job", item, "--expect", digest.unwrap(), "--reason", "so it is"];
        assert_code(&approvals_world::by(&world, "carol", &args), 0);
    }
    let away = world.prodigy(&["dlq", "quarantine", "job", "item-001", "--reason", "later"]);
    assert_eq!(away.code, Some(0), "{away}");
    world
}

/// Jobs of agents that run into limits, spend all there is, and resolve conflicts.
fn with_agents() -> Vec<TestEnv> {
    let mut worlds = Vec::new();
    let limits = r#"
mode: mapreduce
map:
  input: { items: [limit, full, denied, warned, data, huge] }
  item_key: item
  max_parallel: 2
  agent_template:
    - { id: work, claude: "${item}", when: item != "warned" }
    - { agent: { use: near, prompt: "${item}" }, when: item == "warned" }
quota: { throttle_at: 0.9 }
agents:
  near:
    type: claude
    command: [sh, ROOT/near]
  claude:
    type: simulated
    rules:
      - { item: nobody, step: work, attempt: 1, fault: usage_limit, resets_at: "2026-01-02T03:04:05Z" }
      - { item: limit, fault: usage_limit, reset_after: 100ms, times: 1, cost_usd: 0.25 }
      - { item: full, fault: overloaded, times: 1 }
      - { item: denied, fault: denied_worked_around, edits: [{ path: a, content: b }], commit: c, jitter: 1ms }
      - { item: huge, fault: huge, megabytes: 1 }
      - { result: { size: 1 } }
"#;
    let budget = r#"
mode: mapreduce
map:
  input: { items: [a, b] }
  max_parallel: 1
  agent_template: [{ claude: "do it" }]
budget: { job_usd: 0.5, on_exceeded: stop }
agents: { claude: { type: simulated, rules: [{ cost_usd: 1 }] } }
"#;
    for (text, code) in [(limits, 0), (budget, 6)] {
        let world = TestEnv::with_repo(env!("CARGO_BIN_EXE_prodigy"));
        let near = [
            r#"{"type":"rate_limit_event","rate_limit_info":{"status":"allowed_warning","resetsAt":4102444800,"rateLimitType":"five_hour","utilization":0.95}}"#,
            r#"{"type":"assistant","message":{"id":"m","content":[{"type":"tool_use","id":"t","name":"Bash","input":{"command":"ls"}}]}}"#,
            r#"{"type":"result","subtype":"success","is_error":false,"num_turns":1,"result":"done","total_cost_usd":0,"usage":{"input_tokens":1,"output_tokens":2,"cache_read_input_tokens":3,"cache_creation_input_tokens":4}}"#,
        ];
        let near = format!("cat > /dev/null\ncat <<'END'\n{}\nEND\n", near.join("\n"));
        fs::write(world.root().join("near"), near).unwrap();
        let root = world.root().display().to_string();
        world.write("workflow.yml", text.replace("ROOT", &root));
        world.commit_all("Add the workflow");
        let seen = world.prodigy(&["run", "workflow.yml", "-y", "--job-id", "job"]);
        assert_eq!(seen.code, Some(code), "{seen}");
        worlds.push(world);
    }
    for rule in
        [r#"edits: [{ path: list, content: "x\n" }], cost_usd: 0.5"#, "fault: error, cost_usd: 0.5"]
    {
        let world = crate::map_conflict::mended(rule);
        crate::map_world::go(&world);
        worlds.push(world);
    }
    worlds
}

/// A job with every setting and flag, which fails in its setup, is resumed with other flags and
/// another workflow, and has its dead letters replayed.
fn with_flags() -> TestEnv {
    let workflow = r#"
name: everything
parameters: { who: { type: string, default: nobody } }
profiles: { fast: { SPEED: high } }
budget: { item_usd: 50, job_usd: 90, day_usd: 200, on_exceeded: stop }
agents: { claude: { type: simulated, rules: [{ answer: done, cost_usd: 0.5 }] } }
setup:
  - { shell: "echo set > up; test -e ROOT/go", auto_commit: true }
map:
  input: { items: [1] }
  item_key: item
  max_parallel: 1
  agent_template:
    - { id: ask, claude: "do ${item}" }
    - { shell: "echo made", effects: external }
    - { id: mended, shell: "false", on_failure: { shell: "true" } }
    - { id: ignored, shell: "false", continue_on_error: true }
    - shell: |
        if test ${item} = good; then
          echo x > left; git init --quiet inner; touch inner/file
          git checkout --quiet -b stray; git commit --quiet --allow-empty -m stray; git checkout --quiet -
          exit 0
        fi
        echo y > draft
        test -e ROOT/mended && exit 0
        echo "thread 'main' panicked at src/main.rs:4:2:" >&2
        echo "  at main (main.js:1:2)" >&2
        exit 101
    - { shell: "echo published", effects: external }
reduce: [{ shell: "true" }]
"#;
    let world = map_world(workflow);
    world.git(&["worktree", "add", "--quiet", "-b", "linked", "../linked"]);
    let linked = world.root().join("linked").display().to_string();
    let file = world.root().join("linked/workflow.yml").display().to_string();
    let items = world.root().join("items.json").display().to_string();
    fs::write(&items, r#"["good", "bad"]"#).unwrap();
    let began = world.prodigy(&[
        "run",
        &file,
        "--path",
        &linked,
        "--into",
        "result",
        "--input",
        &items,
        "--max-parallel",
        "2",
        "--no-items",
        "fail",
        "--no-wait",
        "--fail-on-dlq",
        "--budget-usd",
        "80",
        "--param",
        "who=me",
        "--profile",
        "fast",
        "-y",
        "--job-id",
        "job",
    ]);
    assert_code(&began, 1);
    fs::write(world.root().join("go"), "").unwrap();
    let resumed = world.prodigy(&[
        "resume",
        "job",
        "--into",
        "other",
        "--budget-usd",
        "70",
        "--max-parallel",
        "1",
        "--yes=true",
    ]);
    assert_code(&resumed, 3);
    fs::write(world.root().join("mended"), "").unwrap();
    let text = fs::read_to_string(&file).unwrap();
    let text = text.replace("reduce: [", "reduce: [{ shell: 'true' }, ");
    fs::write(&file, text.replace("SPEED: high", "SPEED: low")).unwrap();
    let replayed = world.prodigy(&[
        "dlq",
        "retry",
        "job",
        "-y",
        "--use-current-workflow",
        "--rerun-reduce",
        "--reason",
        "mended",
    ]);
    assert_code(&replayed, 0);
    world
}

/// A job of steps in rounds, with captures, loops and steps that are tried again.
fn with_rounds() -> TestEnv {
    let world = world(
        r#"
- { id: look, shell: "echo seen; echo hidden >&2", capture: what }
- { id: never, shell: "true", when: "1 == 2" }
- id: loop
  foreach:
    input: [1, 2]
    parallel: 2
    # They wait for each other, so that they run side by side.
    do:
      - id: inside
        shell: "echo ${item}; touch side-${item}; until test -e side-1 -a -e side-2; do sleep 0.02; done; exit 3"
        timeout: 60s
        continue_on_error: true
- { shell: "test $PRODIGY_ATTEMPT != 1", retry: { attempts: 2, backoff: { type: fixed, delay: 1ms } } }
- { shell: "exit 4", continue_on_error: true }
- shell: git init --quiet inner && touch inner/file
"#,
    );
    run_with(&world, &["--args", "a", "b"]);
    world
}

/// A job with a dead letter that somebody approves or rejects with a signature.
fn with_signatures(verb: &str) -> TestEnv {
    let world = approvals_signed::signed();
    let digest = approvals_world::ask(&world);
    let key = approvals_signed::key(&world, "carol");
    let args = ["dlq", verb, "job", "item-001", "--expect", &digest, "--sign", "--key", &key];
    let why = if verb == "reject" { &["--reason", "not so"][..] } else { &[] };
    assert_code(&approvals_world::by(&world, "carol", &[&args, why].concat()), 0);
    if verb == "approve" {
        assert_code(&approvals_world::retry(&world, "ben", &[]), 0);
    }
    world
}

/// Dead letters that somebody puts away, lets out, edits and drops.
fn edited_by_hand() -> TestEnv {
    let world = office("version: v1\n", &["a", "b"]);
    for args in [
        vec!["quarantine", "job", "item-001", "--reason", "later", "--owner", "ann"],
        vec!["release", "job", "item-001", "--reason", "now"],
        vec!["edit", "job", "item-001", "--data", "\"c\"", "--reason", "other data"],
        vec!["drop", "job", "item-002", "--reason", "not needed"],
    ] {
        let seen = world.prodigy(&[&["dlq"], args.as_slice()].concat());
        assert_code(&seen, 0);
    }
    let args = ["dlq", "retry", "job", "-y", "--force", "item-001", "--reason", "looked at it"];
    assert_code(&world.prodigy(&args), 8);
    world
}

/// A dead letter that waits for its next replay.
fn with_waits() -> TestEnv {
    let world = dlq_retry::failing(dlq_retry::WORKFLOW, &["a"]);
    let policy = "version: v1\ndlq_rules:\n  - match: { step: none, attempts_gte: 9, signature: ffff }\n    \
        action: manual_review\n    owner: others\n  - match: { reason_code: command_failed }\n    \
        action: auto_replay\n    max_replays: 3\n    backoff: exponential_jitter\n    owner: team\n";
    world.write(".prodigy/replay-policy.yml", policy);
    world.commit_all("Add the policy");
    assert_code(&go(&world), 0);
    assert_code(&dlq_retry::retry(&world, &[]), 3);
    let forced = dlq_retry::retry(&world, &["--force", "item-001", "--reason", "now"]);
    assert_code(&forced, 3);
    world
}

/// Items that change something outside and do not come to an end; `more` is said of their step.
fn unfinished(more: &str) -> TestEnv {
    let world = map_world("map: { input: { items: [1] } }\n");
    let workflow = format!(
        "map:\n  input: {{ items: [1] }}\n  isolation: shared\n  agent_template:\n    \
         - {{ shell: sleep 30, effects: external, timeout: 1s{more} }}\n"
    );
    write_workflow(&world, &workflow);
    world.commit_all("Share");
    assert!(go(&world).code.is_some());
    world
}

/// An item that fails, prints why, and leaves a file.
fn left_behind() -> TestEnv {
    let world = map_world(
        "map:\n  input: { items: [1] }\n  agent_template:\n    \
         - shell: echo because >&2; echo y > draft; exit 3\n",
    );
    assert_code(&go(&world), 1);
    world
}

/// A step of a job whose agent runs into a limit that the job does not wait for.
fn stopped_by_a_limit() -> TestEnv {
    let world = world(
        "agents:\n  claude: { type: simulated, rules: [{ fault: usage_limit, reset_after: 1h }] }\n\
         steps: [{ claude: anything }]\n",
    );
    let seen = world.prodigy(&["run", "workflow.yml", "-y", "--job-id", "job", "--no-wait"]);
    assert_code(&seen, 75);
    world
}

/// A step that changes a setting of the user's checkout.
fn meddling() -> TestEnv {
    let world = map_world("map: { input: { items: [1] } }\n");
    world.git(&["config", "remote.origin.url", "before"]);
    let step = "git -C ROOT/repo config remote.origin.url after";
    write_workflow(
        &world,
        &format!("map: {{ input: {{ items: [1] }}, agent_template: [{{ shell: '{step}' }}] }}\n"),
    );
    world.commit_all("Meddle");
    assert_code(&go(&world), 0);
    world
}
