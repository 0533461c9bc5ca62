//! Every word of the interface is used: each event is emitted, each key is driven.

use std::{collections::BTreeSet, fs, path::Path};

use prodigy_core::{
    event::Event,
    workflow::grammar::{self, RecordShape, Shape},
    yaml::{self, Node},
};
use prodigy_testkit::World;
use regex::Regex;

use crate::stories::{run_with, world};

/// Returns the types of the events of a job.
fn types(world: &World, job: &str) -> BTreeSet<String> {
    let seen = world.prodigy(&["events", job, "--json"]);
    let lines = seen.stdout.lines();
    lines
        .map(|line| {
            let record: serde_json::Value = serde_json::from_str(line).unwrap();
            record.get("event_type").and_then(serde_json::Value::as_str).unwrap().to_owned()
        })
        .collect()
}

/// A job that fails, is resumed, conflicts, is resumed again, and is merged.
fn troubled() -> BTreeSet<String> {
    let world = world(
        r#"
agents:
  claude: { type: simulated, rules: [{ answer: done, cost_usd: 0.5 }] }
steps:
  - shell: exit 1
    when: "1 == 2"
  - claude: anything
  - shell: git config core.hooksPath elsewhere; echo job > README.md; git commit --quiet --all --message job
  - shell: test -e ../mended
    retry: { attempts: 2, backoff: { type: fixed, delay: 1ms } }
"#,
    );
    run_with(&world, &[]);
    fs::create_dir_all(world.home().join("worktrees/repo/job/mended")).unwrap();
    world.write("README.md", "mine\n");
    world.commit_all("mine");
    assert_eq!(world.prodigy(&["resume", "job"]).code, Some(7), "the merge meets a conflict");
    world.git(&["merge", "--quiet", "--strategy-option=ours", "prodigy/job/job"]);
    assert_eq!(world.prodigy(&["resume", "job"]).code, Some(0));
    types(&world, "job")
}

/// A job that takes longer than the time between two checkpoints, leaves a file behind and
/// stashes something.
fn slow_and_untidy() -> BTreeSet<String> {
    let world =
        world("- shell: touch left; git update-ref refs/stash HEAD; sleep 5.2\n- shell: 'true'\n");
    run_with(&world, &[]);
    types(&world, "job")
}

/// A job of items that succeed, fail, are tried again, are left out and open the circuit; then
/// its dead letters are replayed, and one is dropped.
fn with_items(policy: &str) -> BTreeSet<String> {
    let world = world(&format!(
        "mode: mapreduce\nmap:\n  input: {{ items: [1, 1, 0] }}\n  max_parallel: 1\n  \
         agent_template: [{{ shell: 'test ${{item}} = 0' }}]\nerror_policy:\n  {policy}\n"
    ));
    run_with(&world, &[]);
    // With `skip` there are no dead letters, and nothing to do here.
    let code = if policy.contains("skip") { 0 } else { 3 };
    assert_eq!(world.prodigy(&["dlq", "retry", "job"]).code, Some(code));
    let dropped = world.prodigy(&["dlq", "drop", "job", "item-001", "--reason", "it is enough"]);
    assert!(dropped.code.is_some(), "{dropped}");
    types(&world, "job")
}

/// A job of items that change something outside, which is looked for and undone.
fn with_effects() -> BTreeSet<String> {
    let world = world(
        r"
mode: mapreduce
map:
  input: { items: [1] }
  agent_template:
    - shell: echo made >> ../outside
      effects: external
      check: test -s ../outside
      compensate: rm ../outside && touch ../outside
    - { shell: 'true', effects: external, idempotent: true }
    - shell: 'false'
",
    );
    run_with(&world, &[]);
    let undone = world.prodigy(&["dlq", "check", "job", "--compensate"]);
    assert_eq!(undone.code, Some(1), "one of them cannot be undone: {undone}");
    types(&world, "job")
}

/// A job of items that somebody has to agree to, refuses, and puts away.
fn with_agreements() -> BTreeSet<String> {
    let world = world(
        r#"
mode: mapreduce
map:
  input: { items: [1, 2] }
  agent_template:
    - shell: |
        echo '{"reason_code": "denied"}' > "$PRODIGY_RESULT_FILE"
        exit 1
"#,
    );
    run_with(&world, &[]);
    assert_eq!(world.prodigy(&["dlq", "retry", "job"]).code, Some(8));
    for (item, word) in [("item-001", "approve"), ("item-002", "reject")] {
        let asked = world.prodigy(&["dlq", "show", "job", item, "--json"]).stdout;
        let digest = asked.split("\"digest\":").nth(1).and_then(|rest| rest.split('"').nth(1));
        let args = ["dlq", word, "job", item, "--expect", digest.unwrap(), "--reason", "so it is"];
        assert_eq!(world.prodigy(&args).code, Some(0));
    }
    let away = world.prodigy(&["dlq", "quarantine", "job", "item-001", "--reason", "later"]);
    assert_eq!(away.code, Some(0), "{away}");
    types(&world, "job")
}

/// Jobs of agents that run into limits, spend all there is, and resolve conflicts.
fn with_agents() -> BTreeSet<String> {
    let mut emitted = BTreeSet::new();
    let limits = r#"
mode: mapreduce
map:
  input: { items: [limit, full, denied, warned, data, huge] }
  item_key: item
  max_parallel: 2
  agent_template:
    - { id: work, claude: "${item}", when: item != "warned" }
    - { agent: { use: near, prompt: "${item}" }, when: item == "warned" }
quota: { throttle_at: 0.9 }
agents:
  near:
    type: claude
    command: [sh, ROOT/near]
  claude:
    type: simulated
    rules:
      - { item: nobody, step: work, attempt: 1, fault: usage_limit, resets_at: "2026-01-02T03:04:05Z" }
      - { item: limit, fault: usage_limit, reset_after: 100ms, times: 1 }
      - { item: full, fault: overloaded, times: 1 }
      - { item: denied, fault: denied_worked_around, edits: [{ path: a, content: b }], commit: c, jitter: 1ms }
      - { item: huge, fault: huge, megabytes: 1 }
      - { result: { size: 1 } }
"#;
    let budget = r#"
mode: mapreduce
map:
  input: { items: [a, b] }
  max_parallel: 1
  agent_template: [{ claude: "do it" }]
budget: { job_usd: 0.5, on_exceeded: stop }
agents: { claude: { type: simulated, rules: [{ cost_usd: 1 }] } }
"#;
    for (text, code) in [(limits, 0), (budget, 6)] {
        let world = World::with_repo(env!("CARGO_BIN_EXE_prodigy"));
        let near = [
            r#"{"type":"rate_limit_event","rate_limit_info":{"status":"allowed_warning","resetsAt":4102444800,"rateLimitType":"five_hour","utilization":0.95}}"#,
            r#"{"type":"assistant","message":{"id":"m","content":[{"type":"tool_use","id":"t","name":"Bash","input":{"command":"ls"}}]}}"#,
            r#"{"type":"result","subtype":"success","is_error":false,"num_turns":1,"result":"done","total_cost_usd":0}"#,
        ];
        let near = format!("cat > /dev/null\ncat <<'END'\n{}\nEND\n", near.join("\n"));
        fs::write(world.root().join("near"), near).unwrap();
        let root = world.root().display().to_string();
        world.write("workflow.yml", text.replace("ROOT", &root));
        world.commit_all("Add the workflow");
        let seen = world.prodigy(&["run", "workflow.yml", "-y", "--job-id", "job"]);
        assert_eq!(seen.code, Some(code), "{seen}");
        emitted.extend(types(&world, "job"));
    }
    for rule in [r#"edits: [{ path: list, content: "x\n" }]"#, "fault: error"] {
        let world = crate::map_conflict::mended(rule);
        crate::map_world::go(&world);
        emitted.extend(types(&world, "job"));
    }
    emitted
}

#[test]
fn every_documented_event_is_emitted() {
    let mut emitted = troubled();
    emitted.extend(slow_and_untidy());
    emitted.extend(with_items(
        "{ retry_config: { max_attempts: 2, backoff: { type: fixed, delay: 1ms } }, \
         circuit_breaker: { failure_threshold: 2, success_threshold: 1, timeout: 10ms } }",
    ));
    emitted.extend(with_items("{ on_item_failure: skip }"));
    emitted.extend(with_effects());
    emitted.extend(with_agreements());
    emitted.extend(with_agents());
    let cut_off = crate::cut_off_handlers::handled_after(&[rustix::process::Signal::KILL]);
    emitted.extend(types(&cut_off, "job"));
    let documented: BTreeSet<String> = Event::TYPES.iter().map(|&name| name.to_owned()).collect();
    assert_eq!(emitted, documented);
}

/// A workflow that is only a list of steps.
static STEPS: Shape = Shape::List(&Shape::Record(&grammar::STEP));

/// A key: the record it stands in, and its name or alias.
type Word = (&'static str, &'static str);

/// Returns the record's name; a step of a handler is a step like any other.
fn name_of(record: &'static RecordShape) -> &'static str {
    if record.name == "handler_step" { "step" } else { record.name }
}

/// Collects every key of the records below a record.
fn keys_below(record: &'static RecordShape, keys: &mut BTreeSet<Word>) {
    for key in record.keys() {
        let is_new = keys.insert((name_of(record), key.name));
        keys.extend(key.aliases.iter().map(|alias| (name_of(record), *alias)));
        if is_new {
            for record in records_of(&key.shape) {
                keys_below(record, keys);
            }
        }
    }
}

/// Returns the records that a shape may be.
fn records_of(shape: &Shape) -> Vec<&'static RecordShape> {
    match shape {
        Shape::Record(record) => vec![record],
        Shape::Tagged(tagged) => tagged.variants.iter().map(|(_, record)| *record).collect(),
        Shape::List(inner) | Shape::NonEmptyList(inner) | Shape::Table { value: inner, .. } => {
            records_of(inner)
        }
        Shape::OneOf(shapes) => shapes.iter().flat_map(records_of).collect(),
        Shape::Bool
        | Shape::Text
        | Shape::Template
        | Shape::Script
        | Shape::Expression
        | Shape::JsonPath
        | Shape::JsonSchema
        | Shape::Integer { .. }
        | Shape::Number { .. }
        | Shape::Duration
        | Shape::Word(_)
        | Shape::WordOr { .. }
        | Shape::Any => Vec::new(),
    }
}

/// Collects the keys that a piece of a workflow uses.
fn keys_in(node: &Node, shape: &Shape, used: &mut BTreeSet<Word>) {
    let entries = node.as_mapping();
    match shape {
        Shape::Record(record) => {
            for (key, value) in entries.unwrap_or_default() {
                if let Some(known) = record.key(&key.text) {
                    let names = std::iter::once(&known.name).chain(known.aliases);
                    let name = names.copied().find(|name| *name == key.text).unwrap();
                    used.insert((name_of(record), name));
                    keys_in(value, &known.shape, used);
                }
            }
        }
        Shape::Tagged(tagged) => {
            let tag = node.get(tagged.tag).and_then(Node::as_str);
            let chosen = tagged.variants.iter().find(|(value, _)| Some(*value) == tag);
            if let Some((_, record)) = chosen {
                keys_in(node, &Shape::Record(record), used);
            }
        }
        Shape::List(inner) | Shape::NonEmptyList(inner) => {
            for element in node.as_sequence().unwrap_or_default() {
                keys_in(element, inner, used);
            }
        }
        Shape::Table { value: inner, .. } => {
            for (_, value) in entries.unwrap_or_default() {
                keys_in(value, inner, used);
            }
        }
        Shape::OneOf(shapes) => shapes.iter().for_each(|shape| keys_in(node, shape, used)),
        Shape::Bool
        | Shape::Text
        | Shape::Template
        | Shape::Script
        | Shape::Expression
        | Shape::JsonPath
        | Shape::JsonSchema
        | Shape::Integer { .. }
        | Shape::Number { .. }
        | Shape::Duration
        | Shape::Word(_)
        | Shape::WordOr { .. }
        | Shape::Any => {}
    }
}

/// Returns the texts of the files with this ending in a directory.
fn texts(directory: &str, ending: &str) -> Vec<String> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
    let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    files
        .filter(|path| path.extension().is_some_and(|extension| extension == ending))
        // A file that is only checked drives nothing.
        .filter(|path| !path.ends_with("validate.rs") && !path.ends_with("bad_input.rs"))
        .map(|path| fs::read_to_string(path).unwrap())
        .collect()
}

/// Returns the workflows that these tests, the examples and the guides run.
fn workflows() -> Vec<String> {
    let mut workflows = texts("../../examples/quickstart", "yml");
    let raw = Regex::new(r###"(?s)r##"(.*?)"##|r#"(.*?)"#"###).unwrap();
    let plain = Regex::new(r#""((?:[^"\\]|\\.)*)""#).unwrap();
    for source in texts("tests/it", "rs") {
        workflows.extend(raw.captures_iter(&source).map(|found| {
            let text = found.get(1).or_else(|| found.get(2)).unwrap();
            text.as_str().to_owned()
        }));
        let source = raw.replace_all(&source, "");
        workflows.extend(plain.captures_iter(&source).map(|found| {
            found[1].replace("\\n", "\n").replace("\\\"", "\"").replace("\\\\", "\\")
        }));
    }
    let block = Regex::new(r"(?s)<!-- file: \S+ -->\n```yaml\n(.*?)```").unwrap();
    for page in texts("../../docs/guide", "md") {
        workflows.extend(block.captures_iter(&page).map(|found| found[1].to_owned()));
    }
    workflows
}

#[test]
fn every_workflow_key_is_driven() {
    let mut keys = BTreeSet::new();
    keys_below(&grammar::WORKFLOW, &mut keys);
    let mut used = BTreeSet::new();
    for text in workflows() {
        if let Ok(root) = yaml::parse(&text, 0) {
            keys_in(&root, &Shape::Record(&grammar::WORKFLOW), &mut used);
            keys_in(&root, &STEPS, &mut used);
        }
    }
    let idle: Vec<_> = keys.difference(&used).collect();
    assert_eq!(idle, Vec::<&Word>::new(), "no test runs a workflow with these");
}
