//! `prodigy trust`: content is trusted by its hash, outside of the repository.

use std::fs;

use prodigy_testkit::TestEnv;
use serde_json::Value;

use crate::{
    agent::command_line::{left, world},
    fixture::{
        map_job::{assert_code, go, map_world, of_type},
        real_agents::claude_world,
    },
};

/// A configuration that says what `helper` is.
const HELPER: &str =
    "agents: { helper: { type: command, command: [sh, -c, 'cat > /dev/null; echo done'] } }\n";

/// The line of a run of which item `two` changes guarded files.
const CHANGED: &str = "`.mcp.json` (two), `.prodigy/config.yml` (two)";

fn with_config(config: &str) -> TestEnv {
    let world = world("- agent: { use: helper, prompt: b }\n");
    world.write(".prodigy/config.yml", config);
    world.commit_all("Add the configuration");
    world
}

fn run(world: &TestEnv, job: &str) -> prodigy_testkit::CommandOutput {
    world.prodigy(&["run", "workflow.yml", "--job-id", job])
}

fn document(world: &TestEnv) -> Value {
    serde_json::from_str(&world.prodigy(&["trust", "--show", "--json"]).stdout).unwrap()
}

#[test]
fn content_holds_once_it_is_trusted_and_until_it_changes() {
    let world = with_config(HELPER);
    let hash = document(&world)["hash"].as_str().unwrap().to_owned();
    let refused = run(&world, "refused");
    assert_code(&refused, 9);
    assert!(refused.stderr.contains("`.prodigy/config.yml`: agents.helper: "), "{refused}");
    assert!(refused.stderr.contains(&format!("`prodigy trust {hash}` trusts it")), "{refused}");
    assert!(!world.home().exists(), "nothing was begun");
    assert_code(&world.prodigy(&["trust", &hash]), 0);
    let seen = run(&world, "trusted");
    assert_code(&seen, 0);
    assert!(
        seen.stderr.contains("note: trusted: `.prodigy/config.yml`: agents.helper: "),
        "{seen}"
    );
    assert_eq!(document(&world)["trusted"], true);
    world.write(".prodigy/config.yml", format!("{HELPER}# another\n"));
    assert_code(&run(&world, "changed"), 9);
    assert_code(&world.prodigy(&["trust", &hash]), 1);
    world.write(".prodigy/config.yml", HELPER);
    assert_code(&run(&world, "as-before"), 0);
    assert_code(&world.prodigy(&["trust", "--revoke"]), 0);
    assert_code(&run(&world, "revoked"), 9);
    assert_eq!(document(&world)["trusted"], false);
}

#[test]
fn the_variable_trusts_content_with_its_hash_alone() {
    let world = with_config(HELPER);
    let hash = document(&world)["hash"].as_str().unwrap().to_owned();
    let world = world.env("PRODIGY_TRUST", &hash);
    assert_code(&run(&world, "job"), 0);
    world.write(".mcp.json", "{}");
    assert_code(&run(&world, "more"), 9);
}

#[test]
fn settings_without_programs_need_no_trust() {
    let world = world("- shell: true\n");
    world.write(".prodigy/config.yml", "grace: 1s\nretention: { logs: 2h }\n");
    assert_code(&run(&world, "job"), 0);
    assert_eq!(document(&world)["files"], serde_json::json!([]));
}

#[test]
fn trust_is_kept_outside_of_the_repository_or_not_at_all() {
    let world = with_config(HELPER);
    let inside = world.repo().join(".config");
    let world = world.env("XDG_CONFIG_HOME", inside.to_str().unwrap());
    assert_code(&world.prodigy(&["trust"]), 2);
    assert!(!inside.exists());
}

#[test]
fn a_copy_of_trusted_content_in_another_repository_is_not_trusted() {
    let world = with_config(HELPER);
    world.trust();
    world.git(&["clone", "--quiet", ".", "../other"]);
    let args = ["run", "workflow.yml", "--job-id", "job", "--path", "../other"];
    assert_code(&world.prodigy(&args), 9);
}

#[test]
fn a_step_cannot_trust() {
    let world = with_config(HELPER);
    let prodigy = env!("CARGO_BIN_EXE_prodigy");
    let text = format!("- shell: cd {} && {prodigy} trust\n", world.repo().display());
    fs::write(world.root().join("own.yml"), text).unwrap();
    fs::remove_file(world.repo().join(".prodigy/config.yml")).unwrap();
    world.write(".mcp.json", "{}");
    let seen = world.prodigy(&["run", "../own.yml", "--job-id", "job"]);
    assert_code(&seen, 1);
    assert_eq!(document(&world)["trusted"], false);
}

#[test]
fn the_stricter_of_user_and_trusted_repository_holds() {
    let cases = [
        ("permission_mode: plan", "permission_mode: bypass", "--permission-mode=plan"),
        ("permission_mode: acceptEdits", "permission_mode: plan", "--permission-mode=plan"),
        ("permission_mode: plan", "args: [--add-dir, /]", "--permission-mode=plan"),
    ];
    for (own, theirs, expected) in cases {
        let world = world("- claude: a\n").env("IS_SANDBOX", "1");
        let place = world.root().join("user/.config/prodigy");
        fs::create_dir_all(&place).unwrap();
        let agent =
            |options: &str| format!("agents: {{ claude: {{ type: claude, {options} }} }}\n");
        fs::write(place.join("config.yml"), agent(own)).unwrap();
        world.write(".prodigy/config.yml", agent(theirs));
        world.trust();
        assert_code(&run(&world, "job"), 0);
        let argv = left(&world, "claude.argv");
        assert!(argv.contains(expected), "{own} and {theirs}: {argv}");
        assert!(!argv.contains("dangerously"), "{own} and {theirs}: {argv}");
        assert!(!argv.contains("--add-dir"), "{own} and {theirs}: {argv}");
    }
}

/// Runs a job of which one item changes files that decide what later runs do.
pub(crate) fn with_changed_settings() -> TestEnv {
    let world = map_world(
        r#"
map:
  input: { items: [one, two] }
  item_key: item
  max_parallel: 1
  agent_template:
    - shell: |
        if [ "${item}" = two ]; then
          mkdir -p .prodigy && echo 'grace: 1s' > .prodigy/config.yml && echo '{}' > .mcp.json
        fi
        touch ${item} && git add -A && git commit -qm ${item}
"#,
    );
    let seen = go(&world);
    assert_code(&seen, 0);
    assert!(seen.stderr.contains(CHANGED), "{seen}");
    world
}

#[test]
fn a_change_of_guarded_files_is_named_before_the_merge() {
    let world = with_changed_settings();
    let records = of_type(&world, "guarded_files_changed");
    assert_eq!(records.len(), 1);
    let merged = of_type(&world, "worktree_merged").pop().unwrap();
    assert!(records[0]["seq"].as_u64() < merged["seq"].as_u64(), "before the merge");
    let shown = world.prodigy(&["jobs", "show", "job"]);
    assert!(shown.stdout.contains("`.prodigy/config.yml` (two)"), "{shown}");
    let json: Value =
        serde_json::from_str(&world.prodigy(&["jobs", "show", "job", "--json"]).stdout).unwrap();
    assert!(json.to_string().contains("guarded_files"), "{json}");
}

#[test]
fn plan_shows_what_the_repository_brings_in() {
    let world = with_config(HELPER);
    let seen = world.prodigy(&["plan", "workflow.yml"]);
    assert!(
        seen.stdout.contains("trust     not trusted: `.prodigy/config.yml`: agents.helper"),
        "{seen}"
    );
    world.trust();
    let seen = world.prodigy(&["plan", "workflow.yml", "--json"]);
    let document: Value = serde_json::from_str(&seen.stdout).unwrap();
    assert_eq!(document["trust"]["trusted"], true);
}

#[test]
fn real_claude_runs_no_program_of_a_repository_before_it_is_trusted() {
    use prodigy_testkit::model::{ModelBehaviour, ModelScript, ScriptedModel};
    let model = ScriptedModel::start(ModelScript::new(ModelBehaviour::Commit));
    let agents = crate::fixture::real_agents::CLAUDE;
    let world = claude_world(
        &model,
        &format!(
            "{agents}\nmap:\n  input: {{ items: [one] }}\n  item_key: item\n  agent_template:\n    - claude: \"Do it. item=${{item}}\"\n"
        ),
    );
    let root = world.root().display().to_string();
    let hook = format!(r#"[{{"hooks":[{{"type":"command","command":"touch {root}/hook"}}]}}]"#);
    world.write(
        ".claude/settings.json",
        format!(r#"{{"hooks":{{"SessionStart":{hook},"UserPromptSubmit":{hook}}}}}"#),
    );
    world.write(
        ".mcp.json",
        format!(r#"{{"mcpServers":{{"evil":{{"command":"touch","args":["{root}/server"]}}}}}}"#),
    );
    world.write("CLAUDE.md", "Be kind to the house.\n");
    world.commit_all("Add settings");
    let ran = || ["hook", "server"].map(|name| world.root().join(name).exists());
    assert_code(&go(&world), 0);
    assert_eq!(ran(), [false, false]);
    let requests = model.requests();
    let is_told = requests.iter().any(|one| one.body.to_string().contains("Be kind to the house."));
    assert!(is_told, "CLAUDE.md is prose and counts");
    world.trust();
    assert_code(&world.prodigy(&["run", "workflow.yml", "-y", "--job-id", "again"]), 0);
    assert_eq!(ran(), [true, true]);
}
