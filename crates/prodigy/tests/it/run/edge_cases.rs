//! `prodigy run`: limits, verdicts and outputs at their edges.

use insta::assert_snapshot;

use crate::fixture::workflow::{records, run, stable, world};

/// Returns what a step printed, by its path.
fn output(world: &prodigy_testkit::TestEnv, step: &str) -> String {
    let told = records(world);
    let completed = told
        .iter()
        .find(|record| record["event_type"] == "step_completed" && record["step"] == step);
    completed.unwrap()["output"].as_str().unwrap().to_owned()
}

#[test]
fn no_retry_waits_past_the_end_of_the_loop_it_is_in() {
    let world = world(
        r"
- foreach:
    input: [a]
    do:
      - shell: exit 3
        retry: { attempts: 3, backoff: { type: fixed, delay: 1h } }
  timeout: 30s
",
    );
    assert_snapshot!(run(&world), @"
    ----- stderr -----
    · job job · workflow.yml · 1 step
    ✗ 1.foreach.1.1 shell: exit 3: exit code 3
    ✗ 1 foreach: 1 of 1 failed; the first is 1: exit code 3

    failed at step 1: 1 of 1 failed; the first is 1: exit code 3 · 0 of 1 step done
    worktree: $ROOT/home/worktrees/repo/job/job (branch prodigy/job/job)
    output: prodigy logs job 1
    next: prodigy resume job
    [exit 1]
    ");
}

#[test]
fn listing_the_values_of_a_loop_takes_its_share_of_the_time() {
    let world = world(
        r#"
- foreach:
    input: "sleep 2; echo a"
    do:
      - shell: sleep 60
  timeout: 3s
"#,
    );
    run(&world);
    let told = records(&world);
    let failed = told.iter().find(|record| record["event_type"] == "step_failed").unwrap();
    assert_eq!(failed["failure"]["kind"], "timeout");
    let took = failed["duration_ms"].as_u64().unwrap();
    assert!(took < 2500, "the rounds had {took} ms of the 3 s");
}

#[test]
fn the_workflow_environment_is_a_variable_too_and_is_built_once() {
    let world = world(
        r"
env: { COLOUR: blue, PATH: '/added:${env.PATH}' }
profiles: { night: { COLOUR: dark } }
steps:
  - write_file: { path: seen, content: '${env.COLOUR}' }
  - id: seen
    shell: cat seen; echo; test ${env.PATH} = $PATH; case $PATH in /added:/added:*) exit 1;; /added:*) ;; *) exit 2;; esac
",
    );
    run(&world);
    assert_eq!(output(&world, "2"), "blue");
    let args = ["run", "workflow.yml", "-y", "--job-id", "dark", "--profile", "night"];
    assert_eq!(world.prodigy(&args).code, Some(0));
    assert_eq!(world.git(&["show", "refs/prodigy/dark/kept/job:seen"]), "dark");
}

#[test]
fn an_output_file_is_whole_or_the_step_fails() {
    let world = world(
        "- shell: head -c 300000 /dev/zero | tr '\\0' a\n  output_file: out\n- shell: wc -c < out\n",
    );
    let args = ["run", "workflow.yml", "-y", "--job-id", "job"];
    let mut command = world.prodigy_command(&args);
    let seen = command.env("PRODIGY_LOG_CAP", "100KiB").output().unwrap();
    assert_snapshot!(String::from_utf8_lossy(&seen.stderr).lines().nth(1).unwrap(), @r#"✗ 1 shell: head -c 300000 /dev/zero | tr '\0' a: output_file `out`: the output has 300000 bytes, and only 102400 of them were kept; raise `log_cap`"#);
    assert_eq!(seen.status.code(), Some(1));
    assert_eq!(world.prodigy(&["resume", "job", "-y"]).code, Some(0));
    assert_eq!(output(&world, "2"), "300000");
}

#[test]
fn a_character_between_head_and_tail_stays_whole() {
    let world = world("- shell: printf x; yes é | head -n 40000 | tr -d '\\n'\n");
    run(&world);
    let expected = format!("x{}", "é".repeat(40000));
    assert!(output(&world, "1") == expected, "the output changed on its way");
}

#[test]
fn a_judge_that_failed_is_not_heard_by_an_older_result() {
    let world = world(
        r#"
- write_file: { path: result.json, content: '{"completion_percentage": 100}' }
- shell: "true"
  validate: { shell: exit 3, result_file: result.json }
"#,
    );
    assert_snapshot!(run(&world), @"
    ----- stderr -----
    · job job · workflow.yml · 2 steps
    ✓ 1 write_file: result.json  [time]
    ✗ 2.validate.1 shell: exit 3: exit code 3
    ✗ 2 shell: true: the judge failed and left no `result.json`: exit code 3

    failed at step 2: the judge failed and left no `result.json`: exit code 3 · 1 of 2 steps done
    worktree: $ROOT/home/worktrees/repo/job/job (branch prodigy/job/job)
    output: prodigy logs job 2
    next: prodigy resume job
    [exit 1]
    ");
}

#[test]
fn a_step_that_stays_incomplete_is_on_record_though_the_run_goes_on() {
    let world = world(
        r#"
- id: half
  shell: "true"
  validate:
    shell: echo '{"completion_percentage":50}'
    on_incomplete: { shell: "true", max_attempts: 1, fail_workflow: false }
- shell: echo ${steps.half.status} ${validation.completion_percentage}
"#,
    );
    assert_snapshot!(run(&world), @"
    ----- stderr -----
    · job job · workflow.yml · 2 steps
    ~ 1 shell: true: warning about shell: validation found 50 % done, and 100 % is wanted; it counts as done
    ✓ 1 shell: true  [time]
    ✓ 2 shell: echo ${steps.half.status} ${validation.completion_percentag…  [time]

    completed · 2 of 2 steps
    warnings: 1; `prodigy events job --type agent_warned` tells all
      validation found 50 % done, and 100 % is wanted; it counts as done  step 1
    nothing to merge: the steps made no commit
    next: prodigy events job
    ");
    assert_eq!(output(&world, "2"), "success 50");
}

#[test]
fn a_result_that_was_merged_by_hand_needs_no_yes() {
    let world = world("- shell: echo x > x && git add x && git commit --quiet --message x\n");
    assert_eq!(world.prodigy(&["run", "workflow.yml", "--job-id", "job"]).code, Some(7));
    world.git(&["merge", "--quiet", "prodigy/job/job"]);
    assert_snapshot!(stable(&world.prodigy(&["resume", "job"])), @"
    ----- stderr -----
    · job job resumed · 1 of 1 step done

    completed · 1 of 1 step
    merged into main at [commit]
    next: prodigy events job
    ");
}

#[test]
fn a_failed_merge_step_is_told_once() {
    let world = world(
        r"
steps:
  - shell: echo x > x && git add x && git commit --quiet --message x
merge:
  - shell: exit 3
",
    );
    assert_snapshot!(run(&world), @"
    ----- stderr -----
    · job job · workflow.yml · 1 step
    ✓ 1 shell: echo x > x && git add x && git commit --quiet --message x  [time]
    ✗ merge.1 shell: exit 3: exit code 3

    failed at step merge.1: exit code 3 · 1 of 1 step done
    worktree: $ROOT/home/worktrees/repo/job/job (branch prodigy/job/job)
    output: prodigy logs job merge.1
    next: prodigy resume job
    [exit 1]
    ");
    let told = records(&world);
    let failures = told.iter().filter(|record| record["event_type"] == "step_failed").count();
    assert_eq!(failures, 1);
}

#[test]
fn a_judge_that_says_no_by_its_exit_code_is_still_heard() {
    let world = world(
        r#"
- shell: "true"
  continue_on_error: true
  validate:
    shell: |
      echo checking >&2
      echo '{"completion_percentage":75,'
      for i in $(seq 30); do echo; done
      echo '"missing":["docs"]}'
      exit 1
- shell: echo ${validation.completion_percentage} ${validation.missing}
"#,
    );
    run(&world);
    assert_eq!(output(&world, "2"), r#"75 ["docs"]"#);
}

#[test]
fn one_endless_line_does_not_fill_the_journal_and_the_screen() {
    let world = world("- shell: head -c 300000 /dev/zero | tr '\\0' a; exit 1\n");
    let seen = run(&world);
    assert!(seen.len() < 8192, "{} bytes were shown", seen.len());
    let told = records(&world);
    let failed = told.iter().find(|record| record["event_type"] == "step_failed").unwrap();
    let tail = failed["failure"]["output_tail"].as_str().unwrap();
    assert_eq!(tail, format!("…{}", "a".repeat(4096)));
}

#[test]
fn a_failure_inside_a_loop_or_the_merge_shows_in_how_the_job_ended() {
    let world = world(
        r"
steps:
  - foreach:
      input: [a, b]
      do:
        - shell: test ${item} = b
          continue_on_error: true
  - shell: exit 1
    on_failure: { commands: [{ shell: exit 2, continue_on_error: true }], strategy: fallback }
  - shell: echo x > x && git add x && git commit --quiet --message x
merge:
  - shell: exit 4
    continue_on_error: true
  - shell: git -C $ROOT merge --quiet ${merge.source_branch}
",
    );
    let args = ["run", "workflow.yml", "-y", "--job-id", "job"];
    let output = world.prodigy_command(&args).env("ROOT", world.repo()).output().unwrap();
    assert_snapshot!(stable(&world.to_output(&output)), @"
    ----- stderr -----
    · job job · workflow.yml · 3 steps
    ✗ 1.foreach.1.1 shell: test ${item} = b: exit code 1
    ~ 1.foreach.1.1 shell: test ${item} = b (failed, going on)  [time]
    ✓ 1 foreach  [time]
    ✗ 2.on_failure.1 shell: exit 2: exit code 2
    ~ 2.on_failure.1 shell: exit 2 (failed, going on)  [time]
    ✗ 2 shell: exit 1: exit code 1
    ~ 2 shell: exit 1 (recovered)  [time]
    ✓ 3 shell: echo x > x && git add x && git commit --quiet --message x  [time]
    ✗ merge.1 shell: exit 4: exit code 4
    ~ merge.1 shell: exit 4 (failed, going on)  [time]
    ✓ merge.2 shell: git -C $ROOT merge --quiet ${merge.source_branch}  [time]

    completed with failures: 2 steps failed · 3 of 3 steps
    merged into main at [commit]
    next: prodigy events job
    ");
}

#[test]
fn what_an_agent_said_has_no_newline_at_its_end_either() {
    let world = world(
        r#"
agents: { claude: { type: command, command: [echo, said] } }
steps:
  - claude: say it
  - shell: printf '[%s]' "${claude.output}"
"#,
    );
    run(&world);
    assert_eq!(output(&world, "1"), "said");
    assert_eq!(output(&world, "2"), "[said]");
}
