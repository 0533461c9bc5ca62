//! Usage limits of agents that are any program.

use std::fs;

use prodigy_testkit::{CommandOutput, TestEnv};

use crate::fixture::{
    map_job::{assert_code, counts, map_world, of_type, started},
    workflow::SpawnedProdigy,
};

/// Makes a world with two items and an agent that is this script; `ROOT` stands for the world.
fn world(script: &str) -> TestEnv {
    let world = map_world(
        r#"
agents:
  own:
    type: command
    command: [sh, ROOT/agent.sh]
    prompt: stdin
    exit_codes: { 9: quota_exhausted }
map:
  input: { items: [one, two] }
  item_key: item
  max_parallel: 2
  agent_template:
    - agent: { use: own, prompt: "${item}" }
"#,
    );
    let script = script.replace("ROOT", &world.root().display().to_string());
    fs::write(world.root().join("agent.sh"), script).unwrap();
    world
}

/// Runs the workflow without waiting for a limit.
fn hasty(world: &TestEnv) -> CommandOutput {
    let args = ["run", "workflow.yml", "-y", "--job-id", "job", "--no-wait"];
    SpawnedProdigy::new(world, &args).seen(world)
}

#[test]
fn a_program_that_says_that_a_limit_is_reached_pauses_the_job() {
    let world = world(
        r#"
if mkdir ROOT/limited 2>/dev/null; then echo $(($(date +%s) + 2)) >ROOT/until; fi
until test -s ROOT/until; do sleep 0.02; done
if test "$(date +%s)" -lt "$(cat ROOT/until)"; then
  echo working
  echo "Claude AI usage limit reached|$(cat ROOT/until)"
  exit 1
fi
echo done
"#,
    );
    let seen = started(&world).seen(&world);
    assert_code(&seen, 0);
    assert_eq!(counts(&world), (2, 0, 0), "{seen}");
    let count = |kind: &str| of_type(&world, kind).len();
    assert_eq!((count("quota_paused"), count("quota_resumed")), (1, 1), "{seen}");
    assert_eq!((count("agent_released"), count("agent_failed")), (2, 0), "{seen}");
    let done = of_type(&world, "agent_completed");
    assert!(done.iter().all(|record| record["attempt"] == 1), "{done:?}");
}

#[test]
fn every_form_of_a_limit_is_no_failure_of_an_item() {
    let forms = [
        (75, "echo \"You've hit your session limit · resets 8pm (America/New_York)\"; exit 1"),
        (
            75,
            "echo half; echo \"ERROR: You've hit your usage limit. Upgrade or try again at 3:45 PM.\" >&2; exit 1",
        ),
        (6, "echo 'Credit balance is too low'; exit 1"),
        (75, "echo 'no more'; exit 9"),
        (75, r#"echo '{"reason_code": "quota_exhausted"}' >"$PRODIGY_RESULT_FILE"; exit 4"#),
    ];
    for (code, script) in forms {
        let world = world(script);
        let seen = hasty(&world);
        assert_eq!(seen.code, Some(code), "{script}: {seen}");
        let count = |kind: &str| of_type(&world, kind).len();
        assert_eq!((count("quota_paused"), count("agent_failed")), (1, 0), "{script}");
    }
}

#[test]
fn a_limit_whose_end_the_program_does_not_tell_is_tried_after_a_while() {
    let world = world("echo 'no more'; exit 9");
    assert_code(&hasty(&world), 75);
    let paused = &of_type(&world, "quota_paused")[0];
    assert_eq!(paused["limit"]["message"], "the agent exited with code 9: no more");
    assert!(paused["limit"].get("resets_at").is_none(), "{paused}");
    assert!(paused["paused_until"].is_string(), "{paused}");
}

#[test]
fn a_program_that_works_on_a_text_about_limits_has_reached_none() {
    let failing = [
        "echo 'I cannot say why \"usage limit reached|1794826800\" is printed'; exit 1",
        "echo \"docs/limits.md:3: You've hit your session limit · resets 8pm\"; exit 1",
        "echo 'test usage_limit_reached ... FAILED' >&2; exit 1",
    ];
    for script in failing {
        let world = world(script);
        assert_code(&hasty(&world), 1);
        assert_eq!(counts(&world), (0, 2, 0), "{script}");
    }
    let world = world("echo 'Claude AI usage limit reached|1794826800'");
    assert_code(&hasty(&world), 0);
    assert_eq!(counts(&world), (2, 0, 0), "it did not fail");
}
