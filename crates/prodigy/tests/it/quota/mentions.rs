//! Text that is about limits, by agents whose accounts have none in the way.

use insta::assert_snapshot;

use crate::{
    agent::command_line::{program, world},
    fixture::map_job::of_type,
};

/// Claude Code whose model writes of limits: in an answer, in a refusal, in what it says before
/// it fails, in what a tool printed.
const CLAUDE: &str = r#"
read -r prompt
limit="You've hit your limit · resets 8pm"
epoch='Claude AI usage limit reached|1794826800'
say() { echo "{\"type\":\"assistant\",\"message\":{\"id\":\"m\",\"model\":\"opus-4\",\"content\":[{\"type\":\"text\",\"text\":\"$1\"}]}}"; }
end() { echo "{\"type\":\"result\",\"num_turns\":2,\"result\":\"$1\",\"total_cost_usd\":0.25,\"usage\":{\"input_tokens\":30,\"output_tokens\":2},$2}"; }
echo '{"type":"system","subtype":"init","session_id":"theirs","model":"opus-4"}'
case "$prompt" in
  answers) say "$epoch"; end "$epoch" '"subtype":"success","is_error":false' ;;
  explains) end "$epoch is what it prints" '"subtype":"success","is_error":false' ;;
  tells) say "$limit"; end "$limit" '"subtype":"success","is_error":false' ;;
  refuses) say "$limit"; end "$limit" '"subtype":"success","is_error":false,"stop_reason":"refusal"'; exit 1 ;;
  fails) say "$limit"; end "$limit" '"subtype":"error_during_execution","is_error":true'; exit 1 ;;
  spends) say 'Out of credits: credit balance is too low'; end 'Out of credits: credit balance is too low' '"subtype":"error_during_execution","is_error":true'; exit 1 ;;
  turns) say "$limit"; end "$limit" '"subtype":"error_max_turns","is_error":true'; exit 1 ;;
  breaks) say "$limit"; echo "the docs say: $limit" >&2; exit 1 ;;
esac
"#;

const CODEX: &str = r#"
read -r prompt
echo '{"type":"thread.started","thread_id":"theirs"}'
epoch='Claude AI usage limit reached|1794826800'
say() { echo "{\"type\":\"item.completed\",\"item\":{\"id\":\"i\",\"type\":\"agent_message\",\"text\":\"$1\"}}"; }
say "$epoch"
echo '{"type":"turn.completed","usage":{"input_tokens":40,"output_tokens":5}}'
"#;

#[test]
fn text_that_mentions_a_limit_does_not_pause_a_job() {
    let world = world(
        r#"
agents:
  own: { type: command, command: [sh, ROOT/bin/own] }
  played: { type: simulated, rules: [{ answer: "Claude AI usage limit reached|1794826800" }] }
steps:
  - { claude: answers, on_failure: true }
  - { claude: explains, on_failure: true }
  - { claude: tells, on_failure: true }
  - { claude: refuses, on_failure: true }
  - { claude: fails, on_failure: true }
  - { claude: spends, on_failure: true }
  - { claude: turns, on_failure: true }
  - { claude: breaks, on_failure: true }
  - { codex: answers, on_failure: true }
  - { agent: { use: played, prompt: answers }, on_failure: true }
  - { agent: { use: own, prompt: prints }, on_failure: true }
  - { agent: { use: own, prompt: fails }, on_failure: true }
  - { shell: 'echo "Claude AI usage limit reached|1794826800"; exit 1', on_failure: true }
"#,
    );
    program(&world, "claude", CLAUDE);
    program(&world, "codex", CODEX);
    program(
        &world,
        "own",
        "read -r prompt\necho 'Claude AI usage limit reached|1794826800'\n\
         case $prompt in fails) echo 'is what the docs say'; exit 1;; esac\n",
    );
    let args = ["run", "workflow.yml", "-y", "--job-id", "job", "--no-wait"];
    let seen = world.prodigy(&args);
    assert_eq!(seen.code, Some(0), "{seen}");
    assert_eq!(of_type(&world, "quota_paused").len(), 0, "{seen}");
    let failed = of_type(&world, "step_failed");
    let failed = failed.iter().map(|it| format!("{} {}", it["step"], it["failure"]["kind"]));
    assert_snapshot!(failed.collect::<Vec<_>>().join("\n"), @r#"
    "4" "agent_refused"
    "5" "agent_error"
    "6" "agent_error"
    "7" "turn_limit"
    "8" "agent_crashed"
    "12" "quota_exhausted"
    "13" "quota_exhausted"
    "#);
}
