//! How long agents may take, and how long they may say nothing.

use insta::assert_snapshot;

use crate::{
    agent::command_line::{program, world},
    fixture::{map_job::of_type, workflow::run},
};

#[test]
fn an_agent_that_says_nothing_is_stalled_and_one_that_talks_too_long_is_late() {
    let world = world(
        r"
steps:
  - { claude: silent, idle_timeout: 1s, timeout: 20s, on_failure: true }
  - { claude: talking, idle_timeout: 2s, timeout: 3s, on_failure: true }
  - { claude: silent, timeout: 20s, on_failure: true }
",
    );
    let script = r#"read -r prompt
case "$prompt" in
  silent) sleep 30 ;;
  talking) for round in $(seq 50); do echo '{"type":"system","subtype":"status"}'; sleep 0.2; done ;;
esac
"#;
    program(&world, "claude", script);
    // The setting holds where a step says nothing else.
    let world = world.env("PRODIGY_IDLE_TIMEOUT", "1500ms").env("PRODIGY_GRACE", "300ms");
    let seen = run(&world);
    let failed = of_type(&world, "step_failed");
    let failed = failed.iter().map(|record| {
        let failure = &record["failure"];
        format!("{} {} {}", record["step"], failure["kind"], failure["message"])
    });
    let failed = failed.collect::<Vec<_>>().join("\n");
    assert_snapshot!(failed, @r#"
    "1" "stalled" "printed nothing for 1s"
    "2" "timeout" "still running after 3s"
    "3" "stalled" "printed nothing for 1.5s"
    "#);
    assert!(seen.contains("3 of 3 steps"), "{seen}");
}

#[test]
fn an_agent_that_always_promises_the_end_of_a_limit_is_asked_less_and_less_often() {
    let world = world("quota: { max_wait: 15s }\nsteps:\n- claude: work\n");
    let script = r#"cat > /dev/null
echo '{"type":"result","subtype":"success","is_error":true,"num_turns":9,"total_cost_usd":2.5,"result":"weekly limit reached, resets in 1 second"}'
exit 1
"#;
    program(&world, "claude", script);
    let seen = world.prodigy(&["run", "workflow.yml", "-y", "--job-id", "job"]);
    assert_eq!(seen.code, Some(75), "{seen}");
    // Waits of 1, 1, 2 and 4 seconds; then one of 8 would be too long. A slow machine takes some
    // of that time for the tries themselves.
    let tries = of_type(&world, "quota_paused").len();
    assert!((3..=5).contains(&tries), "{tries} {seen}");
}
