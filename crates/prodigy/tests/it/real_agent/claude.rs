//! Real Claude Code, run by prodigy.

use prodigy_testkit::{
    crash::check_processes,
    model::{ModelBehaviour, ModelScript, ScriptedModel},
};

use crate::fixture::{
    map_job::{assert_code, go, of_type},
    real_agents::{CLAUDE, KEY, claude_world, files_with},
};

#[test]
fn a_prompt_and_a_command_of_the_repository_are_carried_out_and_merged() {
    let leak = ModelBehaviour::Shell("printenv TOKEN".to_owned());
    let script = ModelScript::new(ModelBehaviour::Commit).on("item=leak", leak);
    let model = ScriptedModel::start(script);
    let world = claude_world(
        &model,
        &format!(
            r#"{CLAUDE}
secrets: {{ TOKEN: {{ env: THE_TOKEN }} }}
map:
  input: {{ items: [plain, slash, leak] }}
  item_key: item
  agent_template:
    - claude: "Migrate it. item=${{item}}"
      when: "item == 'plain'"
      commit_required: true
      model: claude-haiku-4-5
      system_prompt: "Whoever works on ${{item}} is careful."
      max_turns: 7
    - claude: "/migrate ${{item}}"
      when: "item == 'slash'"
      commit_required: true
    - claude: "Show me. item=${{item}}"
      when: "item == 'leak'"
      allowed_tools: ["Bash(printenv *)"]
"#
        ),
    );
    let world = world.env("THE_TOKEN", "hush-hush-token");
    world.write(".claude/commands/migrate.md", "Migrate as the house does it. item=$ARGUMENTS\n");
    world.commit_all("Add the command");
    assert_code(&go(&world), 0);
    assert_eq!(world.read("plain.txt"), "plain is done\n");
    assert_eq!(world.read("slash.txt"), "slash is done\n");

    let plain = model.turns_of("plain");
    assert_eq!(plain.len(), 1);
    assert_eq!(plain[0].model, "claude-haiku-4-5");
    assert!(plain[0].system.contains("Whoever works on plain is careful."));
    assert_eq!(plain[0].prompt(), "Migrate it. item=plain");
    let slash = model.turns_of("slash");
    assert_eq!(slash.len(), 1);
    assert!(slash[0].prompt().contains("Migrate as the house does it."), "{:?}", slash[0].prompts);

    for (item, turns) in [("plain", plain), ("slash", slash)] {
        let of_item = |kind: &str| {
            let records = of_type(&world, kind);
            records.into_iter().find(|record| record["item_id"] == item).unwrap()
        };
        assert_eq!(of_item("agent_session_started")["session_id"], turns[0].session);
        let usage = of_item("agent_usage");
        assert!(usage["cost_usd"].as_f64().unwrap() > 0.0, "{usage}");
        assert_eq!(usage["tokens"]["output_tokens"], 60);
    }

    let leak = model.requests();
    let leak = leak.iter().rfind(|request| request.item() == "leak").unwrap();
    assert!(leak.body.to_string().contains("hush-hush-token"), "the agent never saw it");
    for secret in [KEY, "hush-hush-token"] {
        assert_eq!(files_with(&world.home(), secret), Vec::<String>::new());
    }
    check_processes(&world).unwrap();
}
