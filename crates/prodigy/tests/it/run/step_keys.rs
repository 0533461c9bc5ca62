//! Keys that no other story needs, each with what it is for.

use std::time::Duration;

use insta::assert_snapshot;
use prodigy_core::Timestamp;

use crate::fixture::workflow::{records, run, run_with, stable, world};

/// Returns how long the job waited before each retry of a step.
fn waits(world: &prodigy_testkit::TestEnv, step: &str) -> Vec<Duration> {
    let mut waits = Vec::new();
    let mut failed: Option<Timestamp> = None;
    for record in records(world).iter().filter(|record| record["step"] == step) {
        let at: Timestamp = record["timestamp"].as_str().unwrap().parse().unwrap();
        match record["event_type"].as_str().unwrap() {
            "step_failed" => failed = Some(at),
            "step_started" => {
                waits.extend(failed.map(|failed| at.duration_since(failed).unsigned_abs()));
            }
            _ => {}
        }
    }
    waits
}

#[test]
fn waits_between_tries_grow_as_written() {
    let world = world(
        "
steps:
  - shell: exit 1
    retry: { attempts: 4, backoff: { type: linear, initial: 10ms, increment: 40ms } }
    on_failure: true
  - shell: exit 1
    retry: { attempts: 4, backoff: { type: exponential, initial: 40ms, multiplier: 3 } }
    on_failure: true
  - shell: exit 1
    retry: { attempts: 4, backoff: { type: fibonacci, initial: 60ms } }
    on_failure: true
  - shell: exit 1
    retry: { attempts: 3, backoff: { type: exponential, initial: 1h }, max_delay: 80ms, jitter: true }
    on_failure: true
  - shell: exit 1
    retry: { attempts: 3, backoff: linear, initial_delay: 30ms }
    on_failure: true
",
    );
    run(&world);
    let least = [
        ("1", vec![50, 90, 130]),
        ("2", vec![40, 120, 360]),
        ("3", vec![60, 60, 120]),
        ("4", vec![40, 40]),
        ("5", vec![60, 90]),
    ];
    for (step, least) in least {
        let waits = waits(&world, step);
        assert_eq!(waits.len(), least.len(), "step {step}: {waits:?}");
        for (wait, least) in waits.iter().zip(least) {
            let (least, most) = (Duration::from_millis(least), Duration::from_secs(10));
            // A failure may be written down a moment after the wait has begun.
            let wait = *wait + Duration::from_millis(30);
            assert!(wait >= least && wait < most, "step {step}: {wait:?} for {least:?}");
        }
    }
}

#[test]
fn a_step_that_ran_out_of_time_cannot_say_otherwise() {
    let world = world(
        r#"
- shell: echo '{"reason_code":"network_error"}' > "$PRODIGY_RESULT_FILE"; sleep 20
  timeout: 300ms
"#,
    );
    run(&world);
    let failed = records(&world);
    let failed = failed.iter().find(|record| record["event_type"] == "job_failed").unwrap();
    assert_eq!(failed["failure"]["kind"], "timeout");
}

#[test]
fn handlers_have_a_time_a_verdict_and_an_output() {
    let world = world(
        r#"
agents:
  claude: { type: simulated, rules: [{ answer: "I had a look" }] }
steps:
  - name: what the handler printed
    shell: exit 1
    on_failure:
      claude: "look at ${error.step}"
      max_retries: 1
      retry_original: false
      capture: { seen: output }
  - shell: test "${seen}" = "I had a look"
  - name: settings beside the handler
    shell: rm here
    on_failure: touch here
    max_attempts: 2
    fail_workflow: true
  - name: by its other name
    shell: rm there
    on_failure: touch there
    max_retries: 2
  - name: the handler takes too long
    shell: exit 1
    on_failure: { shell: sleep 60, timeout: 200ms }
  - name: the handler must not fail
    shell: exit 1
    on_failure: { commands: [{ shell: exit 2 }], handler_failure_fatal: true }
"#,
    );
    assert_snapshot!(run(&world), @r#"
    ----- stderr -----
    warning: `retry_original` is deprecated
      --> workflow.yml:10:7
       |
    10 |       retry_original: false
       |       ^^^^^^^^^^^^^^
       |
       = help: set `max_attempts` above 1: that tries the original again

    · job job · workflow.yml · 6 steps
    ✗ 1 what the handler printed: exit code 1
    ~ 1 what the handler printed (failed, going on)  [time]
    ✓ 2 shell: test "${seen}" = "I had a look"  [time]
    ✗ 3 settings beside the handler: exit code 1; attempt 2 follows
    ~ 3 settings beside the handler (recovered)  [time]
    ✗ 4 by its other name: exit code 1; attempt 2 follows
    ~ 4 by its other name (recovered)  [time]
    ✗ 5.on_failure.1 shell: sleep 60: still running after [time]
    ✗ 5 the handler takes too long: exit code 1
    ~ 5 the handler takes too long (failed, going on)  [time]
    ✗ 6.on_failure.1 shell: exit 2: exit code 2
    ✗ 6 the handler must not fail: exit code 1 (its handler failed: exit code 2)

    failed at step 6: exit code 1 (its handler failed: exit code 2) · 5 of 6 steps done
    worktree: $ROOT/home/worktrees/repo/job/job (branch prodigy/job/job)
    output: prodigy logs job 6
    next: prodigy resume job
    [exit 1]
    "#);
}

#[test]
fn judges_are_commands_or_agents_and_have_things_completed() {
    let world = world(
        r#"
agents:
  claude:
    type: simulated
    rules:
      - prompt: judge
        edits: [{ path: result.json, content: '{"completion_percentage": 50, "missing": ["b"]}' }]
      - prompt: "complete \\[\"b\"\\]"
        edits: [{ path: done.txt, content: "b" }]
steps:
  - name: judged by an agent
    shell: "true"
    validate:
      claude: judge
      result_file: result.json
      threshold: 60
      on_incomplete: { claude: "complete ${validation.missing}", max_retries: 1, fail_workflow: false }
  - shell: test "${validation.completion_percentage}" = 50 && test "$(cat done.txt)" = b
  - name: judged by commands
    shell: "true"
    validate:
      commands: [{ shell: echo x >> looks }, { shell: test -e mended }]
      on_incomplete:
        commands: [{ shell: touch mended }]
  - shell: test "$(wc -l < looks)" -eq 2
  - shell: rm looks mended done.txt result.json
"#,
    );
    assert_snapshot!(run(&world), @r#"
    ----- stderr -----
    · job job · workflow.yml · 5 steps
    ~ 1 judged by an agent: warning about shell: validation found 50 % done, and 60 % is wanted; it counts as done
    ✓ 1 judged by an agent  [time]
    ✓ 2 shell: test "${validation.completion_percentage}" = 50 && test "$(…  [time]
    ✗ 3.validate.2 shell: test -e mended: exit code 1
    ✓ 3 judged by commands  [time]
    ✓ 4 shell: test "$(wc -l < looks)" -eq 2  [time]
    ✓ 5 shell: rm looks mended done.txt result.json  [time]

    completed · 5 of 5 steps
    warnings: 1; `prodigy events job --type agent_warned` tells all
      validation found 50 % done, and 60 % is wanted; it counts as done  step 1
    merged into main at [commit]
    kept: 1 uncommitted file of the job; `git cherry-pick --no-commit refs/prodigy/job/kept/job` applies it
    next: prodigy events job
    "#);
}

#[test]
fn a_step_chooses_its_shell_its_place_and_its_agent() {
    let world = world(
        r#"
agents:
  codex: { type: command, command: [cat] }
parameters:
  words: { required: true, description: "What to say" }
secrets:
  KEY: { file: ../key }
commands:
  - write_file: { path: deep/er/x.txt, content: "x\n", create_dirs: true }
  - shell: '[[ -n $BASH_VERSION ]] && cat x.txt'
    shell_program: bash
    working_dir: deep/er
    capture_output: x
  - codex: "say ${x}"
  - shell: test "${claude.output}" = "say x"
  - shell: echo ${params.words|raw} | tr a-z A-Z > deep/er/said.txt
    allow_raw: true
    auto_commit: true
  - shell: exit 3
    continue_on_error: true
  - shell: test "$KEY" = opensesame
"#,
    );
    std::fs::write(world.root().join("key"), "opensesame\n").unwrap();
    assert_snapshot!(run(&world), @"
    ----- stderr -----
    warning: `capture_output` is deprecated
      --> workflow.yml:13:5
       |
    13 |     capture_output: x
       |     ^^^^^^^^^^^^^^
       |
       = help: write `capture: NAME`

    error: the parameter `words` must be given

    hint: add `--param words=VALUE`
    [exit 2]
    ");
    assert_snapshot!(run_with(&world, &["--param", "words=hello; echo world"]), @r#"
    ----- stderr -----
    warning: `capture_output` is deprecated
      --> workflow.yml:13:5
       |
    13 |     capture_output: x
       |     ^^^^^^^^^^^^^^
       |
       = help: write `capture: NAME`

    · job job · workflow.yml · 7 steps
    ✓ 1 write_file: deep/er/x.txt  [time]
    ✓ 2 shell: [[ -n $BASH_VERSION ]] && cat x.txt  [time]
    ✓ 3 codex: say ${x}  [time]
    ✓ 4 shell: test "${claude.output}" = "say x"  [time]
    ✓ 5 shell: echo ${params.words|raw} | tr a-z A-Z > deep/er/said.txt  [time]
    ✗ 6 shell: exit 3: exit code 3
    ~ 6 shell: exit 3 (failed, going on)  [time]
    ✓ 7 shell: test "$KEY" = ***  [time]

    completed with failures: 1 step failed · 7 of 7 steps · cost unknown
    merged into main at [commit]
    next: prodigy events job
    "#);
    assert_snapshot!(world.read("deep/er/said.txt"), @"WORLD");
}

#[test]
fn merge_steps_have_a_time() {
    let world = world(
        "
steps:
  - shell: git commit --quiet --allow-empty --message x
merge: { commands: [{ shell: sleep 60 }], timeout: 300ms }
",
    );
    assert_snapshot!(run(&world), @"
    ----- stderr -----
    · job job · workflow.yml · 1 step
    ✓ 1 shell: git commit --quiet --allow-empty --message x  [time]
    ✗ merge.1 shell: sleep 60: still running after [time]

    failed at step merge.1: still running after [time] · 1 of 1 step done
    worktree: $ROOT/home/worktrees/repo/job/job (branch prodigy/job/job)
    output: prodigy logs job merge.1
    next: prodigy resume job
    [exit 1]
    ");
}

#[test]
fn the_same_seed_has_the_same_luck() {
    let text = r#"
agents:
  claude:
    type: simulated
    seed: 1
    rules: [{ delay: 1ms, fault: error, probability: 0.5 }]
steps:
  - foreach:
      input: [a, b, c, d, e, f, g, h]
      continue_on_error: true
      do: [{ claude: "${item}" }]
    on_failure: true
"#;
    let outcome = |seed: &str| {
        let world = world(&text.replace("seed: 1", seed));
        run(&world);
        let told = records(&world);
        let failed = told.iter().filter(|record| record["event_type"] == "step_failed");
        failed.map(|record| record["step"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let first = outcome("seed: 1");
    assert_eq!(outcome("seed: 1"), first);
    assert_ne!(outcome("seed: 2"), first);
    // Some of eight went wrong, and not all; the loop itself is the last.
    assert!((2..9).contains(&first.len()), "{first:?}");
}

#[test]
fn a_skipped_step_has_a_status_and_no_output() {
    let world = world(
        r#"
- id: never
  shell: echo no
  when: "1 == 2"
- shell: echo "${steps.never.status} ${steps.never.exit_code}"
- foreach:
    input: [a]
    do:
      - { id: inner, shell: echo no, when: "1 == 2" }
      - shell: echo "${steps.inner.status}"
"#,
    );
    run(&world);
    assert_snapshot!(stable(&world.prodigy(&["logs", "job"])), @r#"
    ── 2 shell: echo "${steps.never.status} ${steps.never.exit_code}" (exit 0, [time])
    skipped 0
    ── 3.foreach.1.2 shell: echo "${steps.inner.status}" (exit 0, [time])
    skipped
    "#);
}

#[test]
fn a_step_names_the_reason_of_its_failure_but_cannot_stop_the_run() {
    let world = world(
        r#"
- shell: 'echo "{\"reason_code\": \"no_commit\"}" > "$PRODIGY_RESULT_FILE"; exit 1'
  on_failure: echo "${error.reason}" >> ../reasons
- shell: 'echo "{\"reason_code\": \"cancelled\"}" > "$PRODIGY_RESULT_FILE"; exit 1'
  on_failure: { shell: 'echo "${error.reason}" >> ../reasons', max_attempts: 2 }
"#,
    );
    assert_snapshot!(run(&world), @r#"
    ----- stderr -----
    · job job · workflow.yml · 2 steps
    ✗ 1 shell: echo "{\"reason_code\": \"no_commit\"}" > "$PRODIGY_RESULT_…: exit code 1
    ~ 1 shell: echo "{\"reason_code\": \"no_commit\"}" > "$PRODIGY_RESULT_… (failed, going on)  [time]
    ✗ 2 shell: echo "{\"reason_code\": \"cancelled\"}" > "$PRODIGY_RESULT_…: exit code 1; attempt 2 follows
    ✗ 2 shell: echo "{\"reason_code\": \"cancelled\"}" > "$PRODIGY_RESULT_…: exit code 1
    ~ 2 shell: echo "{\"reason_code\": \"cancelled\"}" > "$PRODIGY_RESULT_… (failed, going on)  [time]

    completed with failures: 2 steps failed · 2 of 2 steps
    nothing to merge: the steps made no commit
    next: prodigy events job
    "#);
    let reasons = world.home().join("worktrees/repo/job/reasons");
    assert_snapshot!(std::fs::read_to_string(reasons).unwrap(), @"
        no_commit
        cancelled
        ");
}
