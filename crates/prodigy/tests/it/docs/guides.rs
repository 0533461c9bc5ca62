//! Every word of the documents is true of the binary.
//!
//! A fenced block of YAML is a workflow or a part of one, and is loaded. A block of commands
//! may only use commands and flags that exist. A comment in front of a block says more:
//!
//! - `<!-- file: NAME -->`: the block is that file, for the blocks that follow on the page.
//! - `<!-- run -->`: the commands of the block are run, and print what stands below them. Where
//!   that has a line `^C`, Ctrl-C is pressed once everything before it was printed.
//! - `<!-- refused: NAME -->`: the block must be refused, and the next block says how.
//! - `<!-- config -->`: the block is a configuration file.
//! - `<!-- policy -->`: the block is a replay policy.

use std::{
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use prodigy_core::{
    workflow::{self, grammar},
    yaml,
};
use prodigy_testkit::{
    TestEnv,
    model::{ModelBehaviour, ModelScript, ScriptedModel},
};
use regex::Regex;
use rustix::process::Signal;

use crate::fixture::workflow::SpawnedProdigy;

/// The documents for users, from the root of the workspace.
const PAGES: &[&str] = &[
    "README.md",
    "docs/guide/first-steps.md",
    "docs/guide/workflows.md",
    "docs/guide/mapreduce.md",
    "docs/guide/dead-letters.md",
    "docs/guide/replaying-safely.md",
    "docs/guide/agents.md",
    "docs/guide/running-claude.md",
    "docs/guide/limits-cost-safety.md",
    "docs/guide/rehearsing.md",
    "docs/guide/when-things-stop.md",
];

/// The longest that a command of a document may take to get somewhere.
const PATIENCE: Duration = Duration::from_secs(30);

/// A fenced block.
#[derive(Debug)]
struct FencedBlock {
    /// Where it stands, for messages.
    place: String,
    /// The comment in front of it.
    mark: Option<String>,
    language: String,
    text: String,
}

impl FencedBlock {
    /// Returns what stands behind the colon of the mark, if the mark is of this kind.
    fn marked(&self, kind: &str) -> Option<&str> {
        self.mark.as_deref()?.strip_prefix(kind)?.strip_prefix(':').map(str::trim)
    }

    fn is_marked(&self, kind: &str) -> bool {
        self.mark.as_deref() == Some(kind)
    }
}

fn workspace() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Returns the blocks of a page, in order.
fn blocks(page: &str) -> Vec<FencedBlock> {
    let text = fs::read_to_string(workspace().join(page)).unwrap();
    let mut blocks = Vec::new();
    let mut mark = None;
    let mut open: Option<FencedBlock> = None;
    for (number, line) in text.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(language)) => {
                let place = format!("{page}:{}", number + 1);
                let language = language.to_owned();
                open =
                    Some(FencedBlock { place, mark: mark.take(), language, text: String::new() });
            }
            (None, None) => {
                let comment = line.strip_prefix("<!--").and_then(|rest| rest.strip_suffix("-->"));
                mark = comment.map(|comment| comment.trim().to_owned());
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(block), None) => block.text.extend([line, "\n"]),
        }
    }
    assert!(open.is_none(), "{page}: the last block has no end");
    blocks
}

/// Makes a world in which `prodigy` is on the path.
fn world() -> TestEnv {
    let world = TestEnv::with_repo(env!("CARGO_BIN_EXE_prodigy"));
    let binaries = Path::new(env!("CARGO_BIN_EXE_prodigy")).parent().unwrap().display();
    let path = format!("{binaries}:{}", std::env::var("PATH").unwrap());
    world.env("PATH", &path)
}

/// Returns text without what differs from run to run.
fn stable(world: &TestEnv, text: &str) -> String {
    let root = world.root().canonicalize().unwrap();
    let text = text.replace(&*root.join("home").to_string_lossy(), "~/.prodigy");
    let text = text.replace(&*root.to_string_lossy(), "~");
    let rules = [
        (r"\b\d+(\.\d+)?(ms|s)\b", "[time]"),
        (r"\bat [0-9a-f]{10}\b", "at [commit]"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "[second]"),
        (r"\d{4}-\d\d-\d\d \d\d:\d\d", "[minute]"),
        (r"\bat \d\d:\d\d:\d\d \(in [^)]*\)", "at [clock]"),
        // How wide the column is depends on how long it took.
        (r"TOOK +REASON", "TOOK REASON"),
        (r"\[time\] +", "[time] "),
        // Two failures of one cause may lie in different seconds.
        (r"\[second\] to \[second\]", "[second]"),
        (r"\bworkflow-\d{8}-\d{6}-[a-z0-9]{4}\b", "[job]"),
    ];
    let text = rules.iter().fold(text, |text, (pattern, instead)| {
        Regex::new(pattern).unwrap().replace_all(&text, *instead).into_owned()
    });
    text.trim_end().to_owned()
}

/// Returns a part of a workflow as a whole one: with a step, if it has none.
fn whole(text: &str) -> String {
    let Ok(root) = yaml::parse(text, 0) else { return text.to_owned() };
    let bodies = ["steps", "commands", "map", "extends", "template"];
    let is_whole = root.as_sequence().is_some() || bodies.iter().any(|key| root.get(key).is_some());
    if is_whole { text.to_owned() } else { format!("{text}\nsteps: [{{ shell: 'true' }}]\n") }
}

#[test]
fn every_workflow_of_the_documents_can_be_run() {
    for page in PAGES {
        let blocks = blocks(page);
        let named = |name: &str| blocks.iter().find(|block| block.marked("file") == Some(name));
        for block in blocks.iter().filter(|block| block.language == "yaml") {
            let is_workflow = !block.is_marked("config") && !block.is_marked("policy");
            if !is_workflow || block.marked("refused").is_some() {
                continue;
            }
            let mut read = |name: &str| match name {
                "this" => Ok(whole(&block.text)),
                name => Ok(named(name).ok_or("there is no such block")?.text.clone()),
            };
            let loaded = workflow::load("this", &mut read);
            if let Err(rejected) = loaded {
                panic!("{}: {:#?}", block.place, rejected.diagnostics);
            }
        }
    }
}

#[test]
fn what_the_documents_call_refused_is_refused_as_they_say() {
    for page in PAGES {
        let world = world();
        let blocks = blocks(page);
        for (block, answer) in blocks.iter().zip(blocks.iter().skip(1)) {
            let Some(name) = block.marked("refused") else { continue };
            world.write(name, &block.text);
            let seen = world.prodigy(&["validate", name]);
            assert_eq!(seen.code, Some(9), "{}: {seen}", block.place);
            let said = stable(&world, &seen.to_string());
            for line in answer.text.lines() {
                let found = said.lines().any(|said| said == line);
                assert!(found, "{}: no line `{line}` in\n{said}", answer.place);
            }
        }
    }
}

#[test]
fn the_configuration_of_the_documents_is_accepted() {
    for page in PAGES {
        for block in blocks(page).iter().filter(|block| block.is_marked("config")) {
            let world = world();
            world.write(".prodigy/config.yml", &block.text);
            let seen = world.prodigy(&["config", "show"]);
            assert_eq!(seen.code, Some(0), "{}: {seen}", block.place);
        }
    }
}

#[test]
fn the_policies_of_the_documents_are_accepted() {
    for page in PAGES {
        for block in blocks(page).iter().filter(|block| block.is_marked("policy")) {
            let world = world();
            world.write(".prodigy/replay-policy.yml", &block.text);
            let seen = world.prodigy(&["policy", "lint"]);
            assert_eq!(seen.code, Some(0), "{}: {seen}", block.place);
        }
    }
}

/// Returns the commands of a block, each with what it prints.
fn commands(block: &FencedBlock) -> Vec<(String, String)> {
    let mut commands: Vec<(String, String)> = Vec::new();
    for line in block.text.lines() {
        let command = line.strip_prefix("$ ").or((block.language == "sh").then_some(line));
        if let Some(command) = command {
            commands.push((command.to_owned(), String::new()));
        } else {
            let (_, printed) = commands.last_mut().unwrap();
            printed.extend([line, "\n"]);
        }
    }
    commands
}

#[test]
fn every_command_of_the_documents_exists() {
    let world = world();
    let rest = Regex::new(r" (2?>|\||;).*| *;.*").unwrap();
    for page in PAGES {
        for block in blocks(page) {
            if !matches!(&*block.language, "sh" | "console") {
                continue;
            }
            for (command, _) in commands(&block) {
                let line = command.split(" # ").next().unwrap_or_default().trim();
                if line.starts_with("prodigy ") {
                    let shell = format!("{} --help", rest.replace(line, ""));
                    let output = world.command("sh").args(["-c", &shell]).output().unwrap();
                    assert!(
                        output.status.success(),
                        "{}: {}",
                        block.place,
                        world.to_output(&output)
                    );
                }
            }
        }
    }
}

/// Runs a command of a document and returns what it printed on both streams.
fn run(world: &TestEnv, command: &str, expected: &str) -> String {
    let file = world.root().join("printed");
    let printed = fs::File::create(&file).unwrap();
    let before = expected.split_once("^C\n").map(|(before, _)| before);
    // A signal must reach the command itself, and not a shell around it.
    let line = if before.is_some() { format!("exec {command}") } else { command.to_owned() };
    let mut shell = world.command("sh");
    shell.args(["-c", &line]);
    let streams = (printed.try_clone().unwrap().into(), printed.into());
    let started = SpawnedProdigy::with_streams(&mut shell, streams.0, streams.1);
    if let Some(before) = before {
        until(|| fs::read_to_string(&file).unwrap().lines().count() >= before.lines().count());
        // The next step is under way once its record is there.
        let begun = before.lines().filter(|line| line.starts_with('✓')).count() + 1;
        until(|| {
            let seen = world.prodigy(&["events", "--type", "step_started", "--json"]);
            seen.stdout.lines().count() >= begun
        });
        started.signal(Signal::INT);
    }
    assert!(started.seen(world).code.is_some(), "`{command}` was ended by a signal");
    fs::read_to_string(&file).unwrap()
}

/// Waits, within bounds, until something holds.
fn until(mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "a command of a document takes too long");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Runs everything on a page that is marked to be run.
fn runs_as_it_says(page: &str) {
    runs_in(&world(), page);
}

/// Does the same in a world of the test's own.
fn runs_in(world: &TestEnv, page: &str) {
    let mut ran = 0;
    for block in blocks(page) {
        if let Some(name) = block.marked("file") {
            world.write(name, &block.text);
            world.commit_all(&format!("Add {name}"));
        }
        if block.is_marked("run") {
            for (command, expected) in commands(&block) {
                let printed = run(world, &command, &expected);
                let expected = expected.replace("^C\n", "");
                let (printed, expected) = (stable(world, &printed), stable(world, &expected));
                assert!(
                    printed == expected,
                    "{}: `{command}` printed\n{printed}\n\nand should print\n{expected}",
                    block.place
                );
                ran += 1;
            }
        }
    }
    assert!(ran > 0, "nothing on {page} is run");
}

#[test]
fn the_readme_runs_as_it_says() {
    runs_as_it_says("README.md");
}

#[test]
fn the_first_steps_run_as_they_say() {
    runs_as_it_says("docs/guide/first-steps.md");
}

#[test]
fn the_guide_to_workflows_runs_as_it_says() {
    runs_as_it_says("docs/guide/workflows.md");
}

#[test]
fn the_guide_to_many_items_runs_as_it_says() {
    runs_as_it_says("docs/guide/mapreduce.md");
}

#[test]
fn the_guide_to_items_that_fail_runs_as_it_says() {
    runs_as_it_says("docs/guide/dead-letters.md");
}

#[test]
fn the_guide_to_safe_replays_runs_as_it_says() {
    runs_as_it_says("docs/guide/replaying-safely.md");
}

#[test]
fn the_guide_to_limits_and_money_runs_as_it_says() {
    runs_as_it_says("docs/guide/limits-cost-safety.md");
}

#[test]
fn the_guide_to_rehearsals_runs_as_it_says() {
    runs_as_it_says("docs/guide/rehearsing.md");
}

/// The agent is the real one; only its model is scripted.
#[test]
fn the_guide_to_claude_runs_as_it_says() {
    let script = ["one", "two", "three"].into_iter().fold(
        ModelScript::new(ModelBehaviour::Answer("There is nothing to do.".to_owned())),
        |script, name| {
            let file = format!("docs/{name}.txt");
            let commands = format!(
                "echo Heading >> {file} && git add {file} && git commit -qm 'Add a heading to {file}'"
            );
            script.on(&file, ModelBehaviour::Shell(commands))
        },
    );
    let model = ScriptedModel::start(script);
    let claude = prodigy_testkit::agent_package::claude();
    let binaries = Path::new(env!("CARGO_BIN_EXE_prodigy")).parent().unwrap().display();
    let path = format!(
        "{binaries}:{}:{}",
        claude.parent().unwrap().display(),
        std::env::var("PATH").unwrap()
    );
    let world = TestEnv::with_repo(env!("CARGO_BIN_EXE_prodigy"))
        .env("PATH", &path)
        .env("ANTHROPIC_BASE_URL", &model.url())
        .env("ANTHROPIC_API_KEY", "sk-ant-test");
    runs_in(&world, "docs/guide/running-claude.md");
    let again = world.prodigy(&["run", "headers.yml", "-y", "--job-id", "again"]);
    assert_eq!(again.code, Some(0), "it can be run as often as one likes: {again}");
}

#[test]
fn the_guide_to_agents_runs_as_it_says() {
    runs_as_it_says("docs/guide/agents.md");
}

#[test]
fn the_guide_to_stops_runs_as_it_says() {
    runs_as_it_says("docs/guide/when-things-stop.md");
}

#[test]
fn the_guides_name_every_key_that_can_be_used_in_a_step() {
    let guide = fs::read_to_string(workspace().join("docs/guide/workflows.md")).unwrap();
    let missing: Vec<_> = grammar::STEP
        .keys()
        .map(|key| key.name)
        .filter(|name| !guide.contains(&format!("`{name}")) && !guide.contains(&format!("{name}:")))
        .collect();
    assert_eq!(missing, Vec::<&str>::new());
}

#[test]
fn the_guide_to_many_items_names_every_key_that_only_such_workflows_have() {
    let guide = fs::read_to_string(workspace().join("docs/guide/mapreduce.md")).unwrap();
    let shapes = [
        &grammar::SETUP,
        &grammar::CAPTURE_OUTPUT,
        &grammar::MAP,
        &grammar::INPUT,
        &grammar::WORKTREE,
        &grammar::RESULT,
        &grammar::ERROR_POLICY,
        &grammar::CIRCUIT_BREAKER,
        &grammar::RETRY_CONFIG,
    ];
    let is_named = |name: &str| {
        let ways = [format!("`{name}"), format!("{name}:"), format!("`worktree.{name}")];
        ways.iter().any(|way| guide.contains(way))
    };
    let missing: Vec<_> = shapes
        .iter()
        .flat_map(|shape| shape.keys().map(|key| (shape.name, key.name)))
        .filter(|(_, name)| !is_named(name))
        .collect();
    assert_eq!(missing, Vec::<(&str, &str)>::new());
}

#[test]
fn the_reference_is_what_the_binary_says() {
    let pages: [(&str, &[&str]); 18] = [
        ("audit-record.schema.json", &["schema", "audit-record"]),
        ("audit.md", &["__reference", "audit"]),
        ("checkpoint.schema.json", &["schema", "checkpoint"]),
        ("checkpoints.md", &["__reference", "checkpoint"]),
        ("cli.md", &["__reference", "cli"]),
        ("dead-letters.md", &["__reference", "dead-letters"]),
        ("dlq-item.schema.json", &["schema", "dlq-item"]),
        ("event.schema.json", &["schema", "event"]),
        ("events.md", &["__reference", "events"]),
        ("exit-codes.md", &["__reference", "exit-codes"]),
        ("failure-codes.md", &["__reference", "failure-codes"]),
        ("faults.md", &["__reference", "faults"]),
        ("faults.schema.json", &["schema", "faults"]),
        ("flags.md", &["__reference", "flags"]),
        ("policy.md", &["__reference", "policy"]),
        ("policy.schema.json", &["schema", "policy"]),
        ("workflow.md", &["__reference", "workflow"]),
        ("workflow.schema.json", &["schema", "workflow"]),
    ];
    let world = world();
    for (page, args) in pages {
        let seen = world.prodigy(args);
        let written = fs::read_to_string(workspace().join("docs/reference").join(page)).unwrap();
        assert!(seen.stdout == written, "{page} is out of date; run `cargo xtask docs`");
        assert_eq!((seen.stderr.as_str(), seen.code), ("", Some(0)), "{page}");
    }
    let reference = fs::read_dir(workspace().join("docs/reference")).unwrap();
    assert_eq!(reference.count(), pages.len(), "every page of the reference is generated");
}

#[test]
fn links_of_the_documents_lead_somewhere() {
    let link = Regex::new(r"\]\(([^)#]+)(#[^)]*)?\)").unwrap();
    for page in PAGES {
        let path = workspace().join(page);
        let text = fs::read_to_string(&path).unwrap();
        for found in link.captures_iter(&text) {
            let target = found.get(1).unwrap().as_str();
            let there = target.contains("://") || path.parent().unwrap().join(target).exists();
            assert!(there, "{page}: there is no `{target}`");
        }
    }
}
