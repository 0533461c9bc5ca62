//! Worlds in which prodigy runs the real agents, which talk to a scripted model.

use std::{env, fs, path::Path};

use prodigy_testkit::{TestEnv, agents, model::ScriptedModel};
use serde_json::Value;

use crate::map_world::{of_type, write_workflow};

/// The key with which the agents go to their model. It must be found nowhere.
pub(crate) const KEY: &str = "sk-ant-api03-secret-key-of-the-tests";

/// Claude Code, which may commit without asking besides what it may do by itself.
pub(crate) const CLAUDE: &str = r#"
agents:
  claude:
    type: claude
    allowed_tools: ["Bash(git add *)", "Bash(git commit *)"]
"#;

/// Makes a world with a MapReduce workflow and Claude Code, whose model is scripted.
///
/// Claude Code does not ask again by itself: one turn is one request of one agent.
pub(crate) fn claude_world(model: &ScriptedModel, workflow: &str) -> TestEnv {
    let world = bare_claude_world(model, workflow).env("ANTHROPIC_API_KEY", KEY);
    world.commit_all("Add the workflow");
    world
}

/// Makes the same world for somebody with a subscription, who has limits.
pub(crate) fn subscribed_world(model: &ScriptedModel, workflow: &str) -> TestEnv {
    let world = bare_claude_world(model, workflow)
        .env("CLAUDE_CODE_OAUTH_TOKEN", "sk-ant-oat01-secret-token-of-the-tests");
    world.commit_all("Add the workflow");
    world
}

fn bare_claude_world(model: &ScriptedModel, workflow: &str) -> TestEnv {
    let world = TestEnv::with_repo(env!("CARGO_BIN_EXE_prodigy"))
        .env("PRODIGY_DURABILITY", "relaxed")
        .env("PRODIGY_GRACE", "300ms")
        .env("PATH", &path_with(&agents::claude()))
        .env("ANTHROPIC_BASE_URL", &model.url())
        .env("CLAUDE_CODE_MAX_RETRIES", "0")
        .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1");
    write_workflow(&world, workflow);
    world
}

/// Makes a world with a MapReduce workflow and Codex, whose model is scripted.
///
/// Each request is made once; what Codex keeps is not below the directory for temporary files,
/// where it refuses to put what its sandbox needs.
pub(crate) fn codex_world(model: &ScriptedModel, workflow: &str) -> TestEnv {
    let world = TestEnv::with_repo(env!("CARGO_BIN_EXE_prodigy"));
    let temporary = world.root().join("temporary");
    fs::create_dir(&temporary).unwrap();
    let world = world
        .env("PRODIGY_DURABILITY", "relaxed")
        .env("PRODIGY_GRACE", "300ms")
        .env("PATH", &path_with(&agents::codex()))
        .env("TMPDIR", temporary.to_str().unwrap())
        .env("MODEL_KEY", KEY);
    let agent = format!(
        r#"
agents:
  codex:
    type: codex
    model: scripted
    config:
      model_provider: scripted
      model_providers.scripted.name: scripted
      model_providers.scripted.base_url: "{}"
      model_providers.scripted.env_key: MODEL_KEY
      model_providers.scripted.wire_api: responses
      model_providers.scripted.request_max_retries: 0
      model_providers.scripted.stream_max_retries: 0
"#,
        model.responses_url()
    );
    write_workflow(&world, &format!("{}{workflow}", agent.trim_start()));
    world.commit_all("Add the workflow");
    world
}

/// Returns a search path that finds a program first.
fn path_with(program: &Path) -> String {
    let directory = program.parent().unwrap().canonicalize().unwrap();
    let rest = env::var_os("PATH").unwrap_or_default();
    let paths = [directory].into_iter().chain(env::split_paths(&rest));
    env::join_paths(paths).unwrap().into_string().unwrap()
}

/// Returns how the items died, one line each, sorted; of what the agents said, the beginning.
pub(crate) fn deaths(world: &TestEnv) -> String {
    let line = |record: &Value| {
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        let failure = &record["failure"];
        let message: String = text(&failure["message"]).chars().take(60).collect();
        let message = message.trim_end();
        format!("{} {}: {message}", text(&record["item_id"]), text(&failure["kind"]))
    };
    let mut lines: Vec<_> = of_type(world, "item_dead_lettered").iter().map(line).collect();
    lines.sort_unstable();
    lines.join("\n")
}

/// Returns the files below a directory whose bytes hold a text.
pub(crate) fn files_with(directory: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(next) = waiting.pop() {
        for entry in fs::read_dir(next).unwrap().flatten() {
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                waiting.push(entry.path());
            } else if kind.is_file() {
                let bytes = fs::read(entry.path()).unwrap_or_default();
                if String::from_utf8_lossy(&bytes).contains(text) {
                    found.push(entry.path().display().to_string());
                }
            }
        }
    }
    found
}
