//! Agents that have given their result and whose processes do not end.

use std::{fs, path::Path};

use insta::assert_snapshot;
use prodigy_testkit::TestEnv;

use crate::{
    agent::command_line::{program, world},
    fixture::map_job::{assert_code, beside, go, of_type},
};

/// A workflow in which each item is a prompt for the agent that it names first.
const WORKFLOW: &str = r#"
mode: mapreduce
map:
  input: { items: [ITEMS] }
  item_key: item
  max_parallel: 9
  agent_template:
    - { claude: "${item}", when: 'item != "codex"', timeout: TIMEOUT, idle_timeout: 40s }
    - { codex: "${item}", when: 'item == "codex"', timeout: 50s, idle_timeout: 40s }
    - shell: echo "${item_id} ${claude.output} ${last.exit_code}" >> ROOT/answers
retry_config: { max_attempts: 1 }
"#;

/// Keeps a process that cannot be asked to end, with a child of its own, and writes both down.
const LINGER: &str = r"
trap '' TERM; sleep 300 & echo $$ $! >> ROOT/processes; wait; sleep 300
";

const CLAUDE: &str = r#"
read -r prompt
echo '{"type":"system","subtype":"init","session_id":"theirs","model":"opus-4"}'
answer() {
  echo "{\"type\":\"assistant\",\"message\":{\"id\":\"m$1\",\"model\":\"opus-4\",\"content\":[{\"type\":\"text\",\"text\":\"$1\"}]}}"
  echo "{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":$2,\"num_turns\":1,\"result\":\"$1\",\"total_cost_usd\":0.25,\"usage\":{\"input_tokens\":30,\"output_tokens\":2}$3}"
}
case "$prompt" in
  good) answer good false ;;
  failed) answer 'Overloaded' true ',"api_error_status":529' ;;
  background)
    echo '{"type":"system","subtype":"background_tasks_changed","tasks":[{"task_id":"a","task_type":"local_agent"}]}'
    answer first false
    sleep 9
    echo '{"type":"system","subtype":"background_tasks_changed","tasks":[]}'
    answer second false ;;
  late) answer in-time false ;;
esac
LINGER
"#;

const CODEX: &str = r#"
cat > /dev/null
echo '{"type":"thread.started","thread_id":"theirs"}'
echo '{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":"coded"}}'
echo '{"type":"turn.completed","usage":{"input_tokens":40,"output_tokens":5}}'
LINGER
"#;

/// Makes a world with agents that linger after their results.
fn lingering(items: &str, timeout: &str) -> TestEnv {
    let workflow = WORKFLOW.replace("ITEMS", items).replace("TIMEOUT", timeout);
    let world = world(workflow.trim_start());
    let root = world.root().display().to_string();
    for (name, script) in [("claude", CLAUDE), ("codex", CODEX)] {
        program(&world, name, &script.replace("LINGER", LINGER).replace("ROOT", &root));
    }
    world.env("PRODIGY_DURABILITY", "relaxed").env("PRODIGY_GRACE", "300ms")
}

/// Returns what the items were answered, sorted, and checks that no process is left.
#[track_caller]
fn answers(world: &TestEnv, lingered: usize) -> String {
    let processes = beside(world, "processes");
    assert_eq!(processes.lines().count(), lingered);
    for process in processes.split_whitespace() {
        let status = fs::read_to_string(Path::new("/proc").join(process).join("cmdline"));
        assert_eq!(status.unwrap_or_default(), "", "process {process} is left");
    }
    let mut answers: Vec<String> =
        beside(world, "answers").lines().map(ToOwned::to_owned).collect();
    answers.sort_unstable();
    answers.join("\n")
}

#[test]
fn an_agent_that_lingers_after_its_result_is_ended_with_the_outcome_of_the_result() {
    let world = lingering("good, failed, background, codex", "50s");
    assert_code(&go(&world), 0);
    assert_snapshot!(answers(&world, 4), @"
    background second 0
    codex coded 0
    good good 0
    ");
    let failed = of_type(&world, "item_dead_lettered");
    let failed = failed.iter().map(|it| format!("{} {}", it["item_id"], it["failure"]["kind"]));
    assert_snapshot!(failed.collect::<Vec<_>>().join("\n"), @r#""failed" "provider_overloaded""#);
    // It is over long before any of its limits.
    let took = of_type(&world, "agent_completed");
    assert!(took.iter().all(|it| it["duration_ms"].as_u64().unwrap() < 35_000), "{took:?}");
    let costs = of_type(&world, "agent_usage");
    let costs: f64 = costs.iter().filter_map(|it| it["cost_usd"].as_f64()).sum();
    assert!((costs - 0.75).abs() < 1e-9, "{costs}");
}

#[test]
fn a_result_in_time_counts_although_the_process_outlives_the_time_limit() {
    let world = lingering("late", "2s");
    assert_code(&go(&world), 0);
    assert_snapshot!(answers(&world, 1), @"late in-time 0");
}
