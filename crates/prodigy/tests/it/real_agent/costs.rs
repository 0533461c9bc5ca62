//! What real agents cost that end without a result.
#![expect(clippy::indexing_slicing, reason = "what is not there fails the test")]

use std::fs;

use prodigy_testkit::{
    TestEnv,
    model::{ModelBehaviour, ModelScript, ScriptedModel},
};
use rustix::process::Signal;
use serde_json::Value;

use crate::fixture::{
    map_job::{assert_code, go, of_type, resume, started},
    real_agents::{CLAUDE, claude_world, codex_world},
};

/// A job in which Claude Code does one item and never comes to an end with the other.
fn endless_world(model: &ScriptedModel) -> TestEnv {
    claude_world(
        model,
        &format!(
            r#"{CLAUDE}
map:
  input: {{ items: [good, endless] }}
  item_key: item
  max_parallel: 1
  agent_template:
    - claude: "Work. item=${{item}}"
      timeout: 6s
"#
        ),
    )
}

fn endless_model() -> ScriptedModel {
    let script = ModelScript::new(ModelBehaviour::Commit);
    ScriptedModel::start(script.on("item=endless", ModelBehaviour::Endless))
}

#[track_caller]
fn assert_estimated(usage: &Value) {
    assert_eq!(usage["item_id"], "endless", "{usage}");
    assert_eq!(usage["estimated"], true, "{usage}");
    assert!(usage["cost_usd"].as_f64().unwrap() > 0.0, "{usage}");
    assert!(usage["tokens"]["output_tokens"].as_u64().unwrap() > 0, "{usage}");
}

#[test]
fn a_claude_that_never_ends_costs_what_its_messages_used() {
    let model = endless_model();
    let world = endless_world(&model);
    assert_code(&go(&world), 0);
    let usages = of_type(&world, "agent_usage");
    assert_eq!(usages.len(), 2);
    assert_eq!(usages[0]["estimated"], Value::Null, "{}", usages[0]);
    assert_estimated(&usages[1]);
}

#[test]
fn a_claude_that_was_at_work_when_prodigy_was_killed_is_counted_once() {
    let model = endless_model();
    let world = endless_world(&model);
    let mut run = started(&world);
    run.until(&world, "the agent has used something", || {
        let log = world.home().join("logs/repo/job/endless/attempt-1.jsonl");
        let text = fs::read_to_string(log).unwrap_or_default();
        text.lines().filter(|line| line.contains("\"type\":\"assistant\"")).count() >= 2
    });
    run.signal(Signal::KILL);
    run.seen(&world);
    assert_eq!(of_type(&world, "agent_usage").len(), 1);
    assert_code(&resume(&world), 0);
    let usages = of_type(&world, "agent_usage");
    assert_eq!(usages.len(), 3, "the cut-off run, and the one that timed out after it");
    assert_estimated(&usages[1]);
    assert_estimated(&usages[2]);
    assert_ne!(usages[1]["run"], usages[2]["run"]);
    let resumed = of_type(&world, "job_resumed");
    assert!(usages[1]["seq"].as_u64() < resumed[0]["seq"].as_u64(), "{resumed:?}");
}

#[test]
fn a_codex_with_prices_costs_its_tokens() {
    let model = ScriptedModel::start(ModelScript::new(ModelBehaviour::Edit));
    let world = codex_world(
        &model,
        "    prices: { input: 1000, output: 1000 }\nbudget: { job_usd: 99, on_unknown: stop }\nmap:\n  input: { items: [a, b] }\n  item_key: item\n  max_parallel: 1\n  agent_template:\n    - codex: \"Work. item=${item}\"\n      auto_commit: true\n",
    );
    let seen = go(&world);
    assert_code(&seen, 0);
    let usages = of_type(&world, "agent_usage");
    assert_eq!(usages.len(), 2);
    for usage in &usages {
        let tokens = usage["tokens"].as_object().unwrap();
        let tokens: u64 = tokens.values().map(|count| count.as_u64().unwrap()).sum();
        let expected = f64::from(u32::try_from(tokens).unwrap()) / 1000.0;
        assert!(tokens > 0, "{usage}");
        assert!((usage["cost_usd"].as_f64().unwrap() - expected).abs() < 1e-9, "{usage}");
    }
}
