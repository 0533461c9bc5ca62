//! What a rehearsal says is true: of its answers, of its policies and of what is left.

use insta::assert_snapshot;
use prodigy_testkit::CommandOutput;

use crate::{
    fixture::map_job::assert_code,
    simulate::command::{simulate, world},
};

const FORM: &str = r#"
map:
  input: { items: [a] }
  agent_template:
    - claude: "Name ${item}"
      output_schema:
        type: object
        required: [name]
        properties: { name: { type: string, pattern: "^v[0-9]+$" } }
"#;

/// Returns the lines that hold a text.
fn lines(seen: &CommandOutput, text: &str) -> String {
    let all = seen.to_string();
    let lines: Vec<_> = all.lines().filter(|line| line.contains(text)).collect();
    lines.join("\n")
}

#[test]
fn an_answer_that_cannot_be_made_up_is_told_with_the_way_out() {
    let world = world(FORM);
    let seen = simulate(&world, &[]);
    assert_snapshot!(lines(&seen, "output_schema"), @"  agent_error: no answer can be made up for `output_schema`: `/name` does not match the pattern `^v[0-9]+$`; give one in the file of faults: `rules: [{ step: map.1, result: … }]`  item-001");
    world.write("faults.yml", "rules: [{ step: map.1, result: { name: v1 } }]\n");
    let seen = simulate(&world, &["--faults", "faults.yml", "--fail-on-dlq"]);
    assert_code(&seen, 0);
    assert_snapshot!(lines(&seen, "policies"), @"policies: none had to act");
    world.write("faults.yml", "default: { result: { name: v2 } }\n");
    assert_code(&simulate(&world, &["--faults", "faults.yml", "--fail-on-dlq"]), 0);
}

#[test]
fn a_rehearsal_that_failed_does_not_say_that_all_went_well() {
    let workflow = "setup: [{ shell: exit 1 }]\nmap: { input: { items: [a] }, agent_template: [{ shell: 'true' }] }\n";
    let seen = simulate(&world(workflow), &[]);
    assert_code(&seen, 1);
    assert_snapshot!(lines(&seen, "policies"), @"policies: none had to act");
}

#[test]
fn a_pause_that_is_not_waited_for_is_not_one_for_good() {
    let world = world("map: { input: { items: [a] }, agent_template: [{ claude: fix }] }\n");
    world.write("faults.yml", "rules: [{ fault: usage_limit, reset_after: 1h }]\n");
    let seen = simulate(&world, &["--faults", "faults.yml", "--no-wait"]);
    assert_code(&seen, 75);
    let paused = lines(&seen, "  paused").split(" · resets at").next().unwrap().to_owned();
    assert_snapshot!(paused, @"  paused, and did not go on: You've hit your limit");
}

#[test]
fn what_a_command_does_outside_of_the_copy_is_not_denied() {
    let world = world(
        "setup: [{ shell: git -C ROOT/repo branch made }]\nmap: { input: { items: [a] }, agent_template: [{ shell: 'true' }] }\n",
    );
    let seen = world.prodigy(&["simulate", "workflow.yml"]);
    assert_code(&seen, 0);
    assert_snapshot!(world.git(&["branch", "--list", "made"]), @"  made");
    assert_snapshot!(lines(&seen, "this was"), @"this was a rehearsal: your repository is unchanged; commands may have had outside effects");
}

#[test]
fn the_rules_of_the_own_simulated_agent_strike_without_a_file_of_faults() {
    let seen = simulate(
        &world(
            "agents: { claude: { type: simulated, rules: [{ fault: refusal }] } }\nmap: { input: { items: [a] }, agent_template: [{ claude: fix }] }\n",
        ),
        &["--fail-on-dlq"],
    );
    assert_code(&seen, 3);
}
