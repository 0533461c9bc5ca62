//! How long agents may take, and how long they may say nothing.

use insta::assert_snapshot;

use crate::{
    agents::{program, world},
    map_world::of_type,
    stories::run,
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
