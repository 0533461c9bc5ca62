//! Limits that are not to be believed, and limits that are waited for.

use std::fs;

use prodigy_testkit::TestEnv;

use crate::{
    agent::command_line::{program, world},
    fixture::{
        map_job::{assert_code, has_told, of_type, resume, started},
        workflow::SpawnedProdigy,
    },
};

/// Makes a world with one step whose agent is this script; `ROOT` stands for the world.
fn with_claude(settings: &str, script: &str) -> TestEnv {
    let world = world(&format!("{settings}steps:\n- claude: work\n"));
    let script = script.replace("ROOT", &world.root().display().to_string());
    program(&world, "claude", &format!("cat > /dev/null\n{script}"));
    world
}

/// Says that a limit is reached until a moment.
fn limited_until(moment: &str) -> String {
    format!(
        r#"echo '{{"type":"result","subtype":"success","is_error":true,"num_turns":1,"total_cost_usd":0,"result":"Claude AI usage limit reached|'{moment}'"}}'
exit 1
"#
    )
}

/// Returns a run that is over: it does not wait.
#[track_caller]
fn ended(world: &TestEnv) -> prodigy_testkit::CommandOutput {
    let mut run = started(world);
    run.until(world, "it is paused", || has_told(world, "job_paused"));
    run.seen(world)
}

#[test]
fn a_limit_that_ends_in_three_thousand_years_is_not_waited_for() {
    let world = with_claude("", &limited_until("99999999999"));
    let seen = ended(&world);
    assert_code(&seen, 75);
    let paused = &of_type(&world, "quota_paused")[0];
    assert_eq!(paused["waits"], false, "{paused:#}");
    assert!(seen.stderr.contains("a wait longer than `max_wait`, 8d"), "{seen}");
    assert!(seen.stderr.contains("with `--now` at once"), "{seen}");
}

#[test]
fn the_longest_wait_can_be_set() {
    let nine_days = "$(($(date +%s) + 777600))";
    let world = with_claude("quota: { max_wait: 30d }\n", &limited_until(nine_days));
    let mut run = started(&world);
    run.until(&world, "it waits", || has_told(&world, "quota_paused"));
    drop(run);
    let paused = &of_type(&world, "quota_paused")[0];
    assert_ne!(paused["waits"], false, "{paused:#}");
    let bounded = with_claude("", &limited_until(nine_days));
    assert_code(&ended(&bounded), 75);
}

/// An agent whose limit is lifted before the provider said it would be.
fn lifted_early() -> TestEnv {
    let script = r#"
if test -e ROOT/lifted; then
  echo '{"type":"result","subtype":"success","is_error":false,"num_turns":1,"result":"done","total_cost_usd":0.5,"usage":{"input_tokens":30,"output_tokens":2},"permission_denials":[]}'
  exit
fi
"#;
    let limit = limited_until("$(($(date +%s) + 3600))");
    with_claude("", &format!("{script}{limit}"))
}

#[test]
fn a_resume_during_a_pause_says_at_once_until_when_it_waits() {
    let world = lifted_early();
    let args = ["run", "workflow.yml", "-y", "--job-id", "job", "--no-wait"];
    assert_code(&world.prodigy(&args), 75);
    let log = world.root().join("log");
    let mut command = world.prodigy_command(&["resume", "job", "--no-wait=false"]);
    let file = fs::File::create(&log).unwrap();
    let null = std::process::Stdio::null();
    let mut run = SpawnedProdigy::with_streams(&mut command, null, file.into());
    let said = || fs::read_to_string(&log).unwrap();
    run.until(&world, "it says why it waits", || {
        said().contains("waiting: Claude AI usage limit reached")
    });
    assert!(said().contains("it is tried again at"), "{}", said());
    assert!(said().contains("prodigy resume job --now"), "{}", said());
    drop(run);
    assert_eq!(of_type(&world, "agent_session_started").len(), 0);
}

#[test]
fn a_resume_can_try_at_once() {
    tried_at_once();
}

/// A job that waited for a usage limit and was resumed with `--now`, twice.
pub(crate) fn tried_at_once() -> TestEnv {
    let world = lifted_early();
    let args = ["run", "workflow.yml", "-y", "--job-id", "job", "--no-wait"];
    assert_code(&world.prodigy(&args), 75);
    assert_code(&resume(&world), 75);
    assert_eq!(of_type(&world, "agent_usage").len(), 1, "it was not tried again");
    // It is tried, and still limited.
    assert_code(&world.prodigy(&["resume", "job", "--now"]), 75);
    assert_eq!(of_type(&world, "agent_usage").len(), 2);
    fs::write(world.root().join("lifted"), "").unwrap();
    let seen = world.prodigy(&["resume", "job", "--now"]);
    assert_code(&seen, 0);
    assert_eq!(of_type(&world, "quota_resumed").len(), 1, "{seen}");
    world
}
