//! Agents that judge whether a step is done: what they say counts, not that they answered.

use insta::assert_snapshot;

use crate::stories::{run, world};

/// Runs a step that an agent judges, with this configuration of the agent; returns how it ended.
fn judged(agent: &str) -> String {
    let world = world(&format!(
        "agents: {{ claude: {{ {agent} }} }}\n\
         steps:\n  - {{ shell: 'true', validate: {{ claude: judge, threshold: 70 }} }}\n"
    ));
    let seen = run(&world);
    seen.lines().find(|line| line.contains(" 1 shell: true")).unwrap_or(&seen).to_owned()
}

#[test]
fn an_agent_judges_by_what_it_says_and_not_by_ending_well() {
    let agents = [
        r#"type: simulated, rules: [{ answer: 'Nearly. {"completion_percentage": 80}' }]"#,
        r#"type: simulated, rules: [{ answer: '{"completion_percentage": 60}' }]"#,
        "type: simulated, rules: [{ answer: 'All done, 100 %!' }]",
        "type: simulated, rules: [{ fault: error, answer: no idea }]",
        r#"type: command, exit_codes: { 3: command_failed }, command: [sh, -c, "echo '{\"completion_percentage\": 80}'; exit 3"]"#,
    ];
    assert_snapshot!(agents.map(judged).join("\n"), @r#"
    ✓ 1 shell: true  [time]
    ✗ 1 shell: true: validation found 60 % done, and 70 % is wanted
    ✗ 1 shell: true: the judge's answer cannot be used: it has no JSON object with `completion_percentage` or `status`, but this: `All done, 100 %!`
    ✗ 1 shell: true: validate: no idea
    ✗ 1 shell: true: validate: the agent exited with code 3: {"completion_percentage": 80}
    "#);
}
