//! Steps that must commit: the agent may, or prodigy does it, or the file is refused.

use std::fs;

use insta::assert_snapshot;
use prodigy_testkit::{
    crash::check_processes,
    model::{ModelBehaviour, ModelScript, ScriptedModel},
};

use crate::fixture::{
    map_job::{assert_code, counts, go, map_world},
    real_agents::{claude_world, codex_world, deaths},
};

/// Returns the MapReduce example of the README, without its first line.
fn readme_example() -> String {
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md")).unwrap();
    let (_, rest) = text.split_once("```yaml\nmode: mapreduce\n").unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    // No toolchain is set up in the test's home.
    example.replace("shell: cargo check --quiet", "shell: git diff --quiet HEAD")
}

#[test]
fn the_readme_example_commits() {
    let script = ModelScript::new(ModelBehaviour::Answer("what?".to_owned()))
        .on("comments to src/lib.rs", ModelBehaviour::CommitAs("lib".to_owned()))
        .on("comments to src/other.rs", ModelBehaviour::CommitAs("other".to_owned()))
        .on("Sum up 2 of 2", ModelBehaviour::CommitAs("changes".to_owned()));
    let model = ScriptedModel::start(script);
    let world = claude_world(&model, &readme_example());
    world.write("src/lib.rs", "mod other;\n");
    world.write("src/other.rs", "");
    world.commit_all("Add sources");
    let seen = go(&world);
    assert_code(&seen, 0);
    assert_eq!(deaths(&world), "", "{seen}");
    let read = ["lib.txt", "other.txt", "changes.txt"].map(|name| world.read(name));
    assert_eq!(read, ["lib is done\n", "other is done\n", "changes is done\n"], "{seen}");
    check_processes(&world).unwrap();
}

/// Returns what Claude Code could do of some commands, each in an item of its own.
fn committed(commands: &[(&str, &str)], step: &str) -> String {
    let script = commands.iter().fold(
        ModelScript::new(ModelBehaviour::Commit),
        |script, (item, command)| {
            script.on(&format!("item={item}."), ModelBehaviour::Shell((*command).to_owned()))
        },
    );
    let model = ScriptedModel::start(script);
    let items: Vec<&str> = commands.iter().map(|(item, _)| *item).collect();
    let world = claude_world(
        &model,
        &format!(
            r#"
map:
  input: {{ items: [{}] }}
  item_key: item
  max_parallel: 3
  agent_template:
    - claude: "Work. item=${{item}}. Now."
      commit_required: true
{step}
"#,
            items.join(", ")
        ),
    );
    go(&world);
    let dead = deaths(&world);
    items
        .iter()
        .map(|item| {
            let line = dead.lines().find(|line| line.starts_with(&format!("{item} ")));
            line.map_or_else(|| format!("{item} committed"), str::to_owned)
        })
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn claude_may_commit_in_the_ways_it_commits() {
    let heredoc = "git commit --allow-empty -m \"$(cat <<'EOF'\nSubject\n\nA body.\nEOF\n)\"";
    assert_snapshot!(committed(&[
        ("plain", "git commit --allow-empty -m 'x'"),
        ("both", "git add -A && git commit --allow-empty -m \"a subject\""),
        ("three", "git add . && git commit --allow-empty -m x && git status"),
        ("lines", "git add -A\ngit commit --allow-empty -m x"),
        ("heredoc", heredoc),
        ("push", "git commit --allow-empty -m x && git push origin main"),
        ("reset", "git reset --hard HEAD"),
        ("inject", "git commit --allow-empty -m \"$(touch pwned)\""),
    ], ""), @"
    plain committed
    both committed
    three committed
    lines committed
    heredoc committed
    push permission_denied: the agent changed nothing: it was not allowed to use `Bash`
    reset permission_denied: the agent changed nothing: it was not allowed to use `Bash`
    inject permission_denied: the agent changed nothing: it was not allowed to use `Bash`
    ");
}

#[test]
fn a_program_that_must_commit_has_its_changes_committed() {
    let world = map_world(
        r#"
agents:
  own: { type: command, command: [sh, -c, 'cat >made-$PRODIGY_ITEM_ID'] }
map:
  input: { items: [a, b] }
  item_key: item
  agent_template:
    - agent: { use: own, prompt: "${item}" }
      commit_required: true
"#,
    );
    let seen = go(&world);
    assert_code(&seen, 0);
    assert_eq!(counts(&world), (2, 0, 0), "{seen}");
    assert_eq!(
        [world.read("made-a"), world.read("made-b")].map(|text| text.trim().to_owned()),
        ["a", "b"]
    );
}

#[test]
fn a_program_that_changes_nothing_has_not_committed() {
    let world = map_world(
        "agents: { own: { type: command, command: ['true'] } }\nmap: { input: { items: [a] }, item_key: item, agent_template: [{ agent: { use: own, prompt: x }, commit_required: true }] }\n",
    );
    go(&world);
    assert_snapshot!(deaths(&world), @"a no_commit: the step made no commit, and `commit_required` is set");
}

#[test]
fn codex_that_must_commit_has_its_changes_committed() {
    let model = ScriptedModel::start(ModelScript::new(ModelBehaviour::Edit));
    let world = codex_world(
        &model,
        "map: { input: { items: [a] }, item_key: item, agent_template: [{ codex: 'Work. item=${item}', commit_required: true }] }\n",
    );
    let seen = go(&world);
    assert_code(&seen, 0);
    assert_eq!(world.read("a.txt"), "a is done\n", "{seen}");
}

#[test]
fn steps_that_can_never_commit_are_refused() {
    let step = |step: &str| {
        let world =
            crate::fixture::workflow::world(&format!("- {{ {step}, commit_required: true }}\n"));
        let seen = world.prodigy(&["validate", "workflow.yml"]);
        let errors = seen.to_string();
        let errors = errors.lines().filter(|line| {
            line.starts_with("error:") || line.contains("-->") || line.contains("= help:")
        });
        let errors: Vec<&str> = errors.map(str::trim).collect();
        format!(
            "{step}\n{}[exit {}]",
            errors.iter().flat_map(|line| ["  ", line, "\n"]).collect::<String>(),
            seen.code.unwrap()
        )
    };
    let steps = [
        "claude: a",
        "claude: a, permission_mode: plan",
        "claude: a, disallowed_tools: [Edit, 'Bash(git:*)']",
        "claude: a, disallowed_tools: 'Edit Bash(git commit *)'",
        "claude: a, disallowed_tools: [Bash], auto_commit: true",
        "claude: a, disallowed_tools: ['Bash(git push *)']",
        "codex: a",
        "codex: a, permission_mode: plan",
        "codex: a, auto_commit: false",
        "codex: a, auto_commit: false, permission_mode: bypass",
    ];
    assert_snapshot!(steps.map(step).join("\n"), @"
    claude: a
    [exit 0]
    claude: a, permission_mode: plan
      error: agent `claude` changes nothing with `permission_mode: plan`, and the step has `commit_required`
      --> workflow.yml:1:16
      = help: use `permission_mode: acceptEdits`, or take `commit_required` out
    [exit 9]
    claude: a, disallowed_tools: [Edit, 'Bash(git:*)']
      error: `disallowed_tools` has `Bash(git:*)`, so agent `claude` cannot commit, and the step has `commit_required`
      --> workflow.yml:1:16
      = help: take `Bash(git:*)` out of `disallowed_tools`, or add `auto_commit: true` to the step
    [exit 9]
    claude: a, disallowed_tools: 'Edit Bash(git commit *)'
      error: `disallowed_tools` has `Bash(git commit *)`, so agent `claude` cannot commit, and the step has `commit_required`
      --> workflow.yml:1:16
      = help: take `Bash(git commit *)` out of `disallowed_tools`, or add `auto_commit: true` to the step
    [exit 9]
    claude: a, disallowed_tools: [Bash], auto_commit: true
    [exit 0]
    claude: a, disallowed_tools: ['Bash(git push *)']
    [exit 0]
    codex: a
    [exit 0]
    codex: a, permission_mode: plan
      error: agent `codex` may only read, and the step has `commit_required`
      --> workflow.yml:1:15
      = help: let it write (`permission_mode: acceptEdits`, or its `sandbox`), or take `commit_required` out
    [exit 9]
    codex: a, auto_commit: false
      error: agent `codex` cannot commit in its own sandbox, nothing is committed for it here, and the step has `commit_required`
      --> workflow.yml:1:3
      = help: add `auto_commit: true` to the step, or take `commit_required` out
    [exit 9]
    codex: a, auto_commit: false, permission_mode: bypass
    [exit 0]
    ");
}

#[test]
fn plan_shows_who_commits() {
    let world = crate::fixture::workflow::world(
        "agents: { own: { type: command, command: [cat] } }\nsteps:\n  - { claude: a, commit_required: true }\n  - { codex: b, commit_required: true }\n  - { agent: { use: own, prompt: c }, commit_required: true }\n",
    );
    let seen = world.prodigy(&["plan", "workflow.yml"]);
    let notes: Vec<&str> =
        seen.stdout.lines().filter(|line| line.contains("must commit")).map(str::trim).collect();
    assert_snapshot!(notes.join("\n"), @"
    must commit · may use `git add` and `git commit`
    must commit · its changes are committed
    must commit · its changes are committed
    ");
}
