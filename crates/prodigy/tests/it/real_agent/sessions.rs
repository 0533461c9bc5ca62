//! How real agents go on after a failure.

use insta::assert_snapshot;
use prodigy_testkit::model::{ModelBehaviour, ModelScript, ScriptedModel};

use crate::fixture::{
    map_job::{assert_code, go, trace_of},
    real_agents::{CLAUDE, claude_world, codex_world},
};

#[test]
fn a_session_is_gone_on_with_where_the_servers_failed_and_begun_anew_where_the_agent_did() {
    let script = ModelScript::new(ModelBehaviour::Commit)
        .on("item=busy", ModelBehaviour::Overloaded.times(1).then(ModelBehaviour::Commit))
        .on(
            "item=lazy",
            ModelBehaviour::Answer("All is fine.".into()).times(1).then(ModelBehaviour::Commit),
        );
    let model = ScriptedModel::start(script);
    let world = claude_world(
        &model,
        &format!(
            r#"{CLAUDE}
map:
  input: {{ items: [busy, lazy] }}
  item_key: item
  agent_template:
    - claude: "Work. item=${{item}}"
      commit_required: true
error_policy:
  retry_config: {{ max_attempts: 2, backoff: {{ type: fixed, delay: 100ms }} }}
"#
        ),
    );
    assert_code(&go(&world), 0);
    let busy = model.turns_of("busy");
    assert_eq!(busy.len(), 2);
    assert_eq!(busy[0].session, busy[1].session);
    let lazy = model.turns_of("lazy");
    assert_eq!(lazy.len(), 2);
    assert_ne!(lazy[0].session, lazy[1].session);
    assert_snapshot!(lazy[1].prompts.join("\n--\n"), @"
    Work. item=lazy

    This was tried before and failed:

    - attempt 1: no_commit: the step made no commit, and `commit_required` is set
      All is fine.
    ");
    let said = busy[1].prompts.iter().map(|said| said.trim_end()).collect::<Vec<_>>();
    assert_snapshot!(said.join("\n--\n"), @"
    Work. item=busy
    --
    You were cut off before you had finished. This is a fresh worktree: what you changed before is not in it, so make those changes again. Go on with this:

    Work. item=busy
    ");
    assert_snapshot!(trace_of(&world, "busy"), @"
    busy agent_started 1
    busy agent_failed 1 provider_overloaded then retry
    busy agent_retrying 2 after 100ms
    busy agent_started 2
    busy agent_completed 2
    ");
    assert_snapshot!(trace_of(&world, "lazy"), @"
    lazy agent_started 1
    lazy agent_failed 1 no_commit then retry
    lazy agent_retrying 2 after 100ms
    lazy agent_started 2
    lazy agent_completed 2
    ");
}

#[test]
fn a_step_that_is_tried_again_goes_on_with_the_files_as_they_were_left() {
    let busy = ModelBehaviour::Overloaded.times(1).then(ModelBehaviour::Commit);
    let script = ModelScript::new(ModelBehaviour::Commit).on("item=plain", busy.clone());
    let model = ScriptedModel::start(script.on("item=slash", busy));
    let retry = "retry: { attempts: 2, backoff: { type: fixed, delay: 100ms } }";
    let world = claude_world(
        &model,
        &format!(
            r#"{CLAUDE}
map:
  input: {{ items: [plain, slash] }}
  item_key: item
  agent_template:
    - {{ claude: "Work. item=${{item}}", when: "item == 'plain'", {retry} }}
    - {{ claude: "/migrate ${{item}}", when: "item == 'slash'", {retry} }}
"#
        ),
    );
    world.write(".claude/commands/migrate.md", "Migrate as the house does it. item=$ARGUMENTS\n");
    world.commit_all("Add the command");
    assert_code(&go(&world), 0);
    let left = "You were cut off before you had finished. The files are as you left them";
    let plain = model.turns_of("plain");
    assert_eq!((plain.len(), &plain[0].session), (2, &plain[1].session));
    assert!(plain[1].prompt().starts_with(left), "{:?}", plain[1].prompts);
    // The session knows what the command stands for.
    let slash = model.turns_of("slash");
    assert_eq!((slash.len(), &slash[0].session), (2, &slash[1].session));
    let known = slash[1].prompts.iter().map(|prompt| prompt.trim_end());
    let known = known.filter(|prompt| *prompt == "Migrate as the house does it. item=slash");
    assert_eq!(known.count(), 1, "{:?}", slash[1].prompts);
    let last = slash[1].prompt();
    assert!(last.starts_with(left) && last.ends_with("\n\n/migrate slash"), "{last}");
}

#[test]
fn a_session_of_codex_is_gone_on_with_where_the_servers_failed() {
    let busy = ModelBehaviour::Overloaded.times(1).then(ModelBehaviour::Edit);
    let model = ScriptedModel::start(ModelScript::new(busy));
    let world = codex_world(
        &model,
        r#"
map:
  input: { items: [busy] }
  item_key: item
  agent_template:
    - codex: "Work. item=${item}"
      auto_commit: true
error_policy:
  retry_config: { max_attempts: 2, backoff: { type: fixed, delay: 100ms } }
"#,
    );
    assert_code(&go(&world), 0);
    assert_eq!(world.read("busy.txt"), "busy is done\n");
    let turns = model.turns();
    assert_eq!(turns.len(), 2);
    assert_eq!(turns[0].session, turns[1].session);
    assert_eq!(turns[1].prompts.len(), 2, "{:?}", turns[1].prompts);
}
