//! Agents that were not allowed to use a tool, where the answer is what counts.

use insta::assert_snapshot;

use crate::{
    agent::command_line::{program, world},
    fixture::{map_job::of_type, workflow::run},
};

#[test]
fn where_the_answer_counts_a_tool_that_was_not_allowed_is_only_a_warning() {
    let world = world(
        r#"
steps:
  - { claude: plain, on_failure: true }
  - { claude: captured, capture: answer }
  - { claude: formed, output_schema: { type: object } }
  - { claude: filed, output_file: answer.txt }
  - { claude: looking, effects: none }
  - shell: "true"
    validate: { claude: judge, threshold: 70 }
"#,
    );
    let script = r#"case "$(cat)" in
  formed) answer='"","structured_output":{"a":1}' ;;
  judge) answer='"{\\"completion_percentage\\": 80}"' ;;
  *) answer='"sorry"' ;;
esac
echo '{"type":"result","subtype":"success","is_error":false,"num_turns":1,"result":'"$answer"',"permission_denials":[{"tool_name":"Bash","tool_use_id":"t","tool_input":{"command":"ls"}}]}'
"#;
    program(&world, "claude", script);
    assert_snapshot!(run(&world), @"
    ----- stderr -----
    · job job · workflow.yml · 6 steps
    ✗ 1 claude: plain: the agent changed nothing: it was not allowed to use `Bash` (ls); `allowed_tools` can allow it
    ~ 1 claude: plain (failed, going on)  [time]
    ~ 2 claude: captured: warning about claude: it was not allowed to use `Bash` (ls); `allowed_tools` can allow it
    ✓ 2 claude: captured  [time]
    ~ 3 claude: formed: warning about claude: it was not allowed to use `Bash` (ls); `allowed_tools` can allow it
    ✓ 3 claude: formed  [time]
    ~ 4 claude: filed: warning about claude: it was not allowed to use `Bash` (ls); `allowed_tools` can allow it
    ✓ 4 claude: filed  [time]
    ~ 5 claude: looking: warning about claude: it was not allowed to use `Bash` (ls); `allowed_tools` can allow it
    ✓ 5 claude: looking  [time]
    ~ 6.validate.1 claude: judge: warning about claude: it was not allowed to use `Bash` (ls); `allowed_tools` can allow it
    ✓ 6 shell: true  [time]

    completed with failures: 1 step failed · 6 of 6 steps · cost unknown
    warnings: 5; `prodigy events job --type agent_warned` tells all
      it was not allowed to use `Bash` (ls); `allowed_tools` can allow it  step 2, step 3, step 4, step 5, step 6.validate.1
    merged into main at [commit]
    next: prodigy events job
    ");
    let warned = of_type(&world, "agent_warned");
    let steps: Vec<_> = warned.iter().map(|record| record["step"].to_string()).collect();
    assert_snapshot!(steps.join(" "), @r#""2" "3" "4" "5" "6.validate.1""#);
}

#[test]
fn a_codex_that_was_denied_something_is_told_what_allows_it() {
    let world = world(
        "steps:\n- { codex: plain, on_failure: true }\n- { codex: looking, effects: none }\n",
    );
    let script = r#"cat > /dev/null
printf '%s\n' '{"type":"thread.started","thread_id":"one"}' \
'{"type":"item.completed","item":{"id":"i","type":"command_execution","command":"git commit","aggregated_output":"index.lock: Read-only file system","exit_code":128,"status":"failed"}}' \
'{"type":"item.completed","item":{"id":"j","type":"agent_message","text":"done"}}' \
'{"type":"turn.completed","usage":{"input_tokens":3,"output_tokens":6}}'
"#;
    program(&world, "codex", script);
    let seen = run(&world);
    let denied: Vec<_> = seen.lines().filter(|line| line.contains("not allowed")).take(2).collect();
    assert_snapshot!(denied.join("\n"), @"
    ✗ 1 codex: plain: the agent changed nothing: it was not allowed to use `command_execution` (git commit); its `sandbox` or `permission_mode` can allow it
    ~ 2 codex: looking: warning about codex: it was not allowed to use `command_execution` (git commit); its `sandbox` or `permission_mode` can allow it
    ");
}
