//! Real Codex, run by prodigy.

use prodigy_testkit::{
    crash::check_processes,
    model::{ModelBehaviour, ModelScript, ScriptedModel},
};

use crate::fixture::{
    map_job::{assert_code, go},
    real_agents::{KEY, codex_world, files_with},
};

#[test]
fn codex_writes_a_file_and_what_it_left_is_committed_and_merged() {
    let model = ScriptedModel::start(ModelScript::new(ModelBehaviour::Edit));
    // Its sandbox keeps it from writing to the repository itself, so prodigy commits.
    let world = codex_world(
        &model,
        r#"
map:
  input: { items: [one] }
  item_key: item
  agent_template:
    - codex: "Migrate. item=${item}"
      auto_commit: true
      commit_required: true
      system_prompt: "Whoever works on ${item} is careful."
"#,
    );
    assert_code(&go(&world), 0);
    assert_eq!(world.read("one.txt"), "one is done\n");
    let turns = model.turns();
    assert_eq!(turns.len(), 1);
    assert_eq!((turns[0].model.as_str(), turns[0].prompt()), ("scripted", "Migrate. item=one"));
    assert!(turns[0].system.contains("Whoever works on one is careful."));
    assert_eq!(files_with(&world.home(), KEY), Vec::<String>::new());
    check_processes(&world).unwrap();
}

#[test]
fn codex_commits_only_where_its_own_sandbox_lets_it() {
    let model = ScriptedModel::start(ModelScript::new(ModelBehaviour::Commit));
    let world = codex_world(
        &model,
        r#"
map:
  input: { items: [kept, free] }
  item_key: item
  agent_template:
    - codex: "Work. item=${item}"
      when: "item == 'kept'"
      auto_commit: false
    - codex: "Work. item=${item}"
      when: "item == 'free'"
      permission_mode: bypass
      commit_required: true
"#,
    );
    let seen = go(&world);
    assert_code(&seen, 0);
    assert_eq!(world.read("free.txt"), "free is done\n", "{seen}");
    assert!(!world.repo().join("kept.txt").exists());
}
