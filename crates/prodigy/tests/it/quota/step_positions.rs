//! A usage limit, wherever in a workflow an agent runs into it.
//!
//! Failures can be retried, handled, tolerated or judged. A limit is none of these: the job
//! waits, and goes on as if nothing had been.
#![expect(clippy::indexing_slicing, reason = "what is not there fails the test")]

use std::thread;

use insta::assert_snapshot;
use prodigy_testkit::{TestEnv, crash::check_processes};

use crate::fixture::{
    map_job::{assert_code, map_world, of_type, started, trace_of},
    workflow::{SpawnedProdigy, records},
};

/// Makes a world in which the prompt `limited` runs into a limit, which is lifted soon.
fn world(workflow: &str) -> TestEnv {
    map_world(&format!(
        r#"
agents:
  claude:
    type: simulated
    rules:
      - {{ prompt: ^limited, fault: usage_limit, reset_after: 2s, answer: '{{"status": "complete"}}' }}
      - {{ answer: done }}
{workflow}
"#
    ))
}

/// Checks many workflows at once: most of the time they wait.
fn check_all<'w>(workflows: impl IntoIterator<Item = (&'w str, String)>) {
    thread::scope(|scope| {
        for (place, workflow) in workflows {
            scope.spawn(move || check(place, &workflow));
        }
    });
}

/// Runs a workflow whose agent runs into a limit, and checks that nothing was made of that.
fn check(place: &str, workflow: &str) {
    let world = world(workflow);
    let args = ["run", "workflow.yml", "-y", "--job-id", "job", "--no-wait"];
    let seen = SpawnedProdigy::new(&world, &args).seen(&world);
    assert_eq!(seen.code, Some(75), "{place}: {seen}");
    let count = |kind: &str| of_type(&world, kind).len();
    assert_eq!(count("quota_paused"), 1, "{place}");
    assert_code(
        &SpawnedProdigy::new(&world, &["resume", "job", "--no-wait=false"]).seen(&world),
        0,
    );
    assert_eq!((count("quota_paused"), count("quota_resumed")), (1, 1), "{place}");
    assert_eq!(count("agent_failed") + count("item_dead_lettered"), 0, "{place}");
    let attempts = of_type(&world, "agent_completed");
    assert!(attempts.iter().all(|done| done["attempt"] == 1), "{place}: {attempts:?}");
    let failures =
        records(&world).into_iter().map(|record| record["failure"]["message"].to_string());
    let failures: Vec<_> = failures.filter(|message| message.contains("limit")).collect();
    assert_eq!(failures, Vec::<String>::new(), "{place}");
    check_processes(&world).unwrap();
}

/// Returns a workflow with one item and these steps.
fn item(steps: &str) -> String {
    format!("map:\n  input: {{ items: [one] }}\n  agent_template:\n{steps}")
}

#[test]
fn a_limit_in_an_items_steps_is_no_failure() {
    let places = [
        ("retry", "    - { claude: limited, retry: { attempts: 3, initial_delay: 1ms } }"),
        ("continue_on_error", "    - { claude: limited, continue_on_error: true }"),
        ("on_failure", "    - { claude: limited, on_failure: 'true' }"),
        ("a handler", "    - { shell: exit 1, on_failure: { claude: limited } }"),
        ("on_success", "    - { shell: 'true', on_success: { claude: limited } }"),
        ("a judge", "    - { shell: 'true', validate: { claude: limited } }"),
        (
            "on_incomplete",
            "    - shell: 'true'\n      validate: { shell: 'test -e mended', on_incomplete: { commands: [{ claude: limited }, { shell: touch mended }] } }",
        ),
        ("a loop", "    - foreach: { input: [a, b], do: [{ claude: limited }] }"),
    ];
    check_all(places.map(|(place, steps)| (place, item(steps))));
}

#[test]
fn a_limit_in_the_steps_of_the_job_is_no_failure() {
    let map = "map: { input: { items: [one] }, agent_template: [{ shell: touch new, auto_commit: true }] }\n";
    let places = [
        ("setup", "setup: [{ claude: limited, on_failure: 'true' }]\n"),
        (
            "merge",
            "merge:\n  - { claude: limited, on_failure: 'true' }\n  - shell: git -C ROOT/repo merge --quiet --no-edit \"${merge.source_branch}\"\n",
        ),
        ("reduce", "reduce: [{ claude: limited, continue_on_error: true }]\n"),
    ];
    check_all(places.map(|(place, steps)| (place, format!("{map}{steps}"))));
}

#[test]
fn a_limit_in_the_handler_of_an_item_is_waited_for() {
    let world = world(
        r#"
map: { input: { items: [one] }, item_key: item, agent_template: [{ shell: "exit 3" }] }
error_policy:
  on_item_failure: custom:rescue
  handlers: { rescue: [{ claude: limited }] }
"#,
    );
    assert_code(&started(&world).seen(&world), 1);
    assert_snapshot!(trace_of(&world, "one"), @"
    one agent_started 1
    one agent_failed 1 command_failed then handler
    one handler_restarted
    one item_skipped it was left to `rescue`
    ");
}
