//! What people are told of an agent that did its work, but not without something to know.

use insta::assert_snapshot;
use prodigy_testkit::TestEnv;
use serde_json::Value;

use crate::{
    agent::command_line::{program, world},
    fixture::{
        map_job::{assert_code, go},
        workflow::stable,
    },
    security::hostile_values::on_a_terminal_of,
};

/// Makes a world with three items: two agents are denied something and work around it.
fn denied_world() -> TestEnv {
    let world = world(
        r#"
mode: mapreduce
map:
  input: { items: [fine, one, two] }
  item_key: item
  max_parallel: 1
  agent_template:
    - claude: "Work on ${item}."
      auto_commit: true
"#,
    );
    let script = r#"
task=$(cat)
name=$(echo "$task" | grep -o 'on [a-z]*' | cut -c 4-)
echo x > "$name"
denials='[]'
case "$name" in one|two)
  denials='[{"tool_name":"Bash","tool_use_id":"t","tool_input":{"command":"git push"}}]';;
esac
echo '{"type":"result","subtype":"success","is_error":false,"num_turns":1,"result":"done","total_cost_usd":0.5,"permission_denials":'$denials'}'
"#;
    program(&world, "claude", script);
    world
}

#[test]
fn warnings_about_agents_are_told_while_a_job_runs_and_at_its_end() {
    let world = denied_world();
    let seen = go(&world);
    assert_code(&seen, 0);
    assert_snapshot!(stable(&seen), @"
    ----- stderr -----
    · job job · workflow.yml · mapreduce
    · 3 items
    ✓ fine  [time] · 1 commit
    ~ one at step 1: warning about claude: it was not allowed to use `Bash` (git push); `allowed_tools` can allow it
    ✓ one  [time] · 1 commit
    ~ two at step 1: warning about claude: it was not allowed to use `Bash` (git push); `allowed_tools` can allow it
    ✓ two  [time] · 1 commit
    ✓ map: 3/3 done  [time]

    completed · 3 of 3 items done · [time] · cost $1.50
    items: 3 successful
    warnings: 2 about 2 items; `prodigy events job --type agent_warned` tells all
      it was not allowed to use `Bash` (git push); `allowed_tools` can allow it  one, two
    cost: $0.50 per completed item
    merged into main at [commit]
    next: prodigy events job
    ");
    assert_snapshot!(warnings_of(&world.prodigy(&["jobs", "show", "job"]).stdout), @"
    warnings    2 about 2 items
                it was not allowed to use `Bash` (git push); `allowed_tools` can allow it  one, two
    ");
    let shown = world.prodigy(&["jobs", "show", "job", "--json"]);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_snapshot!(format!("{:#}", shown["job"]["warnings"]), @r#"
    {
      "count": 2,
      "items": 2,
      "first": [
        {
          "item_id": "one",
          "step": "1",
          "agent": "claude",
          "message": "it was not allowed to use `Bash` (git push); `allowed_tools` can allow it"
        },
        {
          "item_id": "two",
          "step": "1",
          "agent": "claude",
          "message": "it was not allowed to use `Bash` (git push); `allowed_tools` can allow it"
        }
      ]
    }
    "#);
}

#[test]
fn a_terminal_shows_warnings_above_what_is_going_on() {
    let world = denied_world();
    let args = ["run", "workflow.yml", "-y", "--job-id", "job"];
    let (seen, code) = on_a_terminal_of(&world, &args, (120, 24), |_| {});
    assert_eq!(code, 0, "{seen}");
    let line = "two at step 1: warning about claude: it was not allowed to use `Bash` (git push)";
    assert!(seen.contains(line), "{seen}");
}

/// Returns the lines about warnings.
fn warnings_of(shown: &str) -> String {
    let from = shown.lines().skip_while(|line| !line.starts_with("warnings"));
    from.take_while(|line| !line.starts_with("cost")).collect::<Vec<_>>().join("\n")
}
