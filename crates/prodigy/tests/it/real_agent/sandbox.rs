//! Real agents in prodigy's sandbox: what they can do there, and that they go on where they were.

use std::{fs, path::Path};

use insta::assert_snapshot;
use prodigy_testkit::{
    crash::check_processes,
    model::{ModelBehaviour, ModelScript, ScriptedModel},
};
use serde_json::Value;

use crate::fixture::{
    map_job::{assert_code, go, of_type},
    real_agents::{CLAUDE, claude_world, codex_world, deaths, files_with},
};

#[test]
fn claude_works_and_commits_in_the_sandbox_and_writes_nowhere_else() {
    let reach = r#"cd "$(git rev-parse --git-common-dir)/.."; echo planted >> README.md"#;
    let script = ModelScript::new(ModelBehaviour::Commit)
        .on("item=reaches", ModelBehaviour::Shell(reach.to_owned()))
        .on("item=plans", ModelBehaviour::Edit);
    let model = ScriptedModel::start(script);
    let world = claude_world(
        &model,
        &format!(
            r#"{CLAUDE}
sandbox: bubblewrap
map:
  input: {{ items: [works, reaches, plans] }}
  item_key: item
  agent_template:
    - claude: "Work. item=${{item}}"
      when: "item == 'works'"
      commit_required: true
    - claude: "Work. item=${{item}}"
      when: "item == 'reaches'"
      permission_mode: bypass
    - claude: "Work. item=${{item}}"
      when: "item == 'plans'"
      permission_mode: plan
"#
        ),
    );
    let seen = go(&world);
    assert_code(&seen, 0);
    assert_eq!(world.read("works.txt"), "works is done\n");
    // Nothing but the sandbox kept it from writing to the checkout.
    let requests = model.requests();
    let reached = requests.iter().rfind(|request| request.item() == "reaches").unwrap();
    assert!(reached.body.to_string().contains("README.md: Read-only file system"));
    assert_eq!(world.read("README.md"), "# fixture\n");
    assert!(!world.repo().join("plans.txt").exists());
    assert_snapshot!(deaths(&world), @"plans permission_denied: the agent changed nothing: it was not allowed to use `Write`");
    assert_eq!(of_type(&world, "checkout_changed").len(), 0);
    check_processes(&world).unwrap();
}

/// The settings of somebody who has a hook that says something to the model.
const HOOK: &str = r#"{"hooks":{"SessionStart":[{"hooks":[{"type":"command","command":"echo said by my hook"}]}]}}"#;

/// Returns the names in a directory.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap().flatten();
    let mut names: Vec<_> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    names
}

#[test]
fn a_session_of_claude_in_the_sandbox_is_gone_on_with_and_its_own_settings_stay_as_they_are() {
    for (directory, state) in [("user/.claude", "user/.claude.json"), ("mine", "mine/.claude.json")]
    {
        let busy = ModelBehaviour::Overloaded.times(1).then(ModelBehaviour::Commit);
        let model = ScriptedModel::start(ModelScript::new(busy));
        let world = claude_world(
            &model,
            &format!(
                r#"{CLAUDE}
sandbox: bubblewrap
map:
  input: {{ items: [busy] }}
  item_key: item
  agent_template:
    - claude: "Work. item=${{item}}"
      commit_required: true
error_policy:
  retry_config: {{ max_attempts: 2, backoff: {{ type: fixed, delay: 100ms }} }}
"#
            ),
        );
        let place = world.root().join(directory);
        fs::create_dir_all(place.join("plugins")).unwrap();
        fs::create_dir(place.join("projects")).unwrap();
        fs::write(place.join("settings.json"), HOOK).unwrap();
        fs::write(world.root().join(state), r#"{"numStartups":7}"#).unwrap();
        let before = names(&place);
        let world = match directory {
            "mine" => world.env("CLAUDE_CONFIG_DIR", &place.display().to_string()),
            _ => world,
        };
        let seen = go(&world);
        assert_code(&seen, 0);
        let turns = model.turns_of("busy");
        assert_eq!(turns.len(), 2, "{directory}: {seen}");
        assert_eq!(turns[0].session, turns[1].session, "{directory}");
        assert_eq!(turns[1].prompts.len(), 2, "{:?}", turns[1].prompts);
        let is_told = |body: &Value| body.to_string().contains("said by my hook");
        assert!(is_told(&model.requests()[0].body), "{directory}");
        assert_eq!(world.read("busy.txt"), "busy is done\n");
        assert_eq!(names(&place), before, "{directory}");
        // What the agent wrote of its session is not kept when nobody needs it any more.
        assert_eq!(files_with(&world.home().join("state"), "parentUuid"), Vec::<String>::new());
        assert_eq!(names(&place.join("projects")), Vec::<String>::new());
        let state = fs::read_to_string(world.root().join(state)).unwrap();
        assert_eq!(state, r#"{"numStartups":7}"#);
        check_processes(&world).unwrap();
    }
}

#[test]
fn codex_that_has_worked_outside_works_in_the_sandbox() {
    let model = ScriptedModel::start(ModelScript::new(ModelBehaviour::Commit));
    let workflow = r#"
map:
  input: { items: [outside] }
  item_key: item
  agent_template:
    - codex: "Work. item=${item}"
      permission_mode: bypass
      commit_required: true
"#;
    let world = codex_world(&model, workflow);
    assert_code(&go(&world), 0);
    assert_eq!(world.read("outside.txt"), "outside is done\n");
    let kept = fs::read_dir(world.root().join("user/.codex")).unwrap().count();
    assert!(kept > 3, "it keeps something: {kept}");
    let inside = world.read("workflow.yml").replace("[outside]", "[inside]");
    world.write("workflow.yml", format!("sandbox: bubblewrap\n{inside}"));
    world.commit_all("Go into the sandbox");
    let seen = world.prodigy(&["run", "workflow.yml", "-y", "--job-id", "second"]);
    assert_code(&seen, 0);
    assert_eq!(world.read("inside.txt"), "inside is done\n", "{seen}");
}

#[test]
fn codex_runs_commands_and_commits_in_the_sandbox_and_writes_nowhere_else() {
    let reach = r#"cd "$(git rev-parse --git-common-dir)/.."; echo planted >> README.md"#;
    let script = ModelScript::new(ModelBehaviour::Commit)
        .on("item=reaches", ModelBehaviour::Shell(reach.to_owned()))
        .on(
            "item=plans",
            ModelBehaviour::Shell(
                "echo planted > here; git status > /tmp/x && echo looked".to_owned(),
            ),
        )
        .on("item=busy", ModelBehaviour::Overloaded.times(1).then(ModelBehaviour::Commit));
    let model = ScriptedModel::start(script);
    let world = codex_world(
        &model,
        r#"
sandbox: bubblewrap
map:
  input: { items: [works, reaches, plans, busy] }
  item_key: item
  agent_template:
    - codex: "Work. item=${item}"
      when: "item == 'works' || item == 'busy'"
      commit_required: true
    - codex: "Work. item=${item}"
      when: "item == 'reaches'"
    - codex: "Work. item=${item}"
      when: "item == 'plans'"
      permission_mode: plan
error_policy:
  retry_config: { max_attempts: 2, backoff: { type: fixed, delay: 100ms } }
"#,
    );
    let place = world.root().join("user/.codex");
    fs::create_dir_all(&place).unwrap();
    fs::write(place.join("config.toml"), "model_reasoning_effort = \"high\"\n").unwrap();
    let seen = go(&world);
    assert_code(&seen, 0);
    assert_snapshot!(deaths(&world), @"reaches permission_denied: the agent changed nothing: it was not allowed to use `comman");
    assert_eq!(
        [world.read("works.txt"), world.read("busy.txt")],
        ["works is done\n", "busy is done\n"]
    );
    let failure = &of_type(&world, "item_dead_lettered")[0]["failure"];
    let way_out = "; `sandbox: { write: … }` of the workflow can allow it";
    assert!(failure["message"].as_str().unwrap().ends_with(way_out), "{failure}");
    // What its commands said: those that wrote to the checkout, and those of the one that plans.
    let last = |item: &str| {
        let requests = model.requests();
        requests.iter().rfind(|request| request.item() == item).unwrap().body.to_string()
    };
    assert!(last("reaches").contains("README.md: Read-only file system"), "{}", last("reaches"));
    assert!(last("plans").contains("here: Read-only file system"), "{}", last("plans"));
    assert!(last("plans").contains("looked"), "{}", last("plans"));
    assert_eq!(world.read("README.md"), "# fixture\n");
    assert!(!world.repo().join("here").exists());
    let busy = model.turns_of("busy");
    assert_eq!((busy.len(), &busy[0].session), (2, &busy[1].session));
    assert_eq!(busy[1].prompts.len(), 2, "{:?}", busy[1].prompts);
    assert_eq!(names(&place), ["config.toml"]);
    check_processes(&world).unwrap();
}
