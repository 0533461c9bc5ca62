//! Usage limits in the middle of work, with the real agents and a scripted model: what was paid
//! for is kept, and paid for once.

use std::time::Duration;

use prodigy_testkit::{
    TestEnv,
    crash::check_processes,
    model::{ModelBehaviour, ModelRequest, ModelScript, ScriptedModel},
};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::fixture::{
    map_job::{assert_code, has_told, of_type},
    real_agents::{CLAUDE, codex_world, deaths, subscribed_world},
    workflow::SpawnedProdigy,
};

/// The time until a limit is lifted.
const WAIT: Duration = Duration::from_secs(5);

/// Runs the workflow to its end, waiting for limits.
fn run(world: &TestEnv) {
    let args = ["run", "workflow.yml", "-y", "--job-id", "job"];
    let seen = SpawnedProdigy::new(world, &args).seen_within(world, Duration::from_secs(170));
    assert_code(&seen, 0);
    assert_eq!(deaths(world), "");
    check_processes(world).unwrap();
}

/// Returns a model that runs into its limit in the middle of its first turn, once.
fn limit_in_the_middle(first: ModelBehaviour) -> ScriptedModel {
    let acts = first.times(1).then(ModelBehaviour::Answer("done".to_owned()));
    ScriptedModel::start(ModelScript::new(acts))
}

#[test]
fn claude_keeps_its_commit_and_its_session_across_a_limit() {
    let model = limit_in_the_middle(ModelBehaviour::CommitThenLimit(WAIT));
    let workflow = format!(
        "{CLAUDE}map:\n  input: {{ items: [a] }}\n  agent_template:\n    - claude: \"Work. item=${{item}}\"\n"
    );
    let world = subscribed_world(&model, &workflow);
    run(&world);
    assert_eq!(world.read("a.txt"), "a is done\n", "the commit is merged");
    let turns = model.turns_of("a");
    assert_eq!(turns.len(), 2);
    assert_eq!(turns[0].session, turns[1].session);
    assert!(turns[1].prompt().contains("The files are as you left them"), "{}", turns[1].prompt());
}

#[test]
fn claude_keeps_its_commit_across_a_limit_outside_of_items() {
    let map = "map: { input: { items: [x] }, agent_template: [{ shell: 'true' }] }\n";
    let work = "- { claude: \"Work. item=a\", commit_required: true }";
    let places = [
        ("setup", format!("{CLAUDE}setup:\n  {work}\n{map}")),
        ("reduce", format!("{CLAUDE}{map}reduce:\n  {work}\n")),
        (
            "the handler of a step",
            format!("{CLAUDE}{map}reduce:\n  - shell: exit 1\n    on_failure:\n      {work}\n"),
        ),
    ];
    for (place, workflow) in places {
        let model = limit_in_the_middle(ModelBehaviour::CommitThenLimit(WAIT));
        let world = subscribed_world(&model, &workflow);
        run(&world);
        assert_eq!(world.read("a.txt"), "a is done\n", "{place}");
        let turns = model.turns_of("a");
        assert_eq!(turns.len(), 2, "{place}");
        assert_eq!(turns[0].session, turns[1].session, "{place}");
    }
}

/// Returns a verdict that all is done.
fn verdict() -> Value {
    json!({ "completion_percentage": 100, "status": "complete", "missing": [] })
}

/// Returns an item with five prompts.
fn five_prompts(agent: &str) -> String {
    let prompt = |number: u32| format!("    - {agent}: \"Work. item=p{number}\"\n");
    let prompts: String = (1..=5).map(prompt).collect();
    format!("map:\n  input: {{ items: [x] }}\n  agent_template:\n{prompts}")
}

/// Checks that each of the five prompts was answered once, and that its work is merged.
fn check_five(model: &ScriptedModel, world: &TestEnv) {
    for number in 1..=5 {
        let name = format!("p{number}");
        assert_eq!(world.read(&format!("{name}.txt")), format!("{name} is done\n"));
        // One more at the most: the one that was refused.
        assert!(model.turns_of(&name).len() <= 2, "{name}");
    }
    assert!(model.turns().len() <= 6, "{}", model.turns().len());
}

#[test]
fn claude_gets_through_five_prompts_at_three_per_window() {
    let model = ScriptedModel::start(ModelScript::new(ModelBehaviour::Commit).window(3, WAIT));
    let world = subscribed_world(&model, &format!("{CLAUDE}{}", five_prompts("claude")));
    run(&world);
    check_five(&model, &world);
    assert_eq!(of_type(&world, "work_suspended")[0]["finished_steps"], 3);
}

#[test]
fn claude_gets_through_a_loop_with_judges_and_a_kill_in_the_pause() {
    let model = ScriptedModel::start(
        ModelScript::new(ModelBehaviour::Commit)
            .on("Judge", ModelBehaviour::Structured(verdict()))
            .window(3, Duration::from_secs(12)),
    );
    let workflow = format!(
        "{CLAUDE}map:\n  input: {{ items: [x] }}\n  agent_template:\n    - foreach:\n        input: [p1, p2, p3]\n        do:\n          - claude: \"Work. item=${{item}}\"\n            commit_required: true\n            validate: {{ claude: \"Judge. item=${{item}}\" }}\n"
    );
    let world = subscribed_world(&model, &workflow);
    let args = ["run", "workflow.yml", "-y", "--job-id", "job"];
    let mut started = SpawnedProdigy::new(&world, &args);
    started.until(&world, "it is paused", || has_told(&world, "quota_paused"));
    started.signal(Signal::KILL);
    started.seen(&world);
    let seen = SpawnedProdigy::new(&world, &["resume", "job"])
        .seen_within(&world, Duration::from_secs(170));
    assert_code(&seen, 0);
    for name in ["p1", "p2", "p3"] {
        assert_eq!(world.read(&format!("{name}.txt")), format!("{name} is done\n"));
    }
    let judges = model.turns().into_iter().filter(|turn| turn.prompt().contains("Judge"));
    let has_form = |tools: &[String]| tools.iter().any(|tool| tool == "StructuredOutput");
    assert!(judges.map(|turn| turn.tools).all(|tools| has_form(&tools)), "they get the schema");
    // Six prompts, and the one that was refused.
    assert!(model.turns().len() <= 7, "{}", model.turns().len());
    check_processes(&world).unwrap();
}

#[test]
fn claude_merges_and_resolves_conflicts_across_a_limit() {
    let map = "map: { input: { items: [x] }, agent_template: [{ shell: 'echo new >new.txt', auto_commit: true }] }\n";
    let merge = "merge:\n  - { claude: \"Work. item=a\", commit_required: true }\n  - shell: git -C ROOT/repo merge --quiet --no-edit \"${merge.source_branch}\"\n";
    let model = limit_in_the_middle(ModelBehaviour::CommitThenLimit(WAIT));
    let world = subscribed_world(&model, &format!("{CLAUDE}{map}{merge}"));
    run(&world);
    assert_eq!(
        (world.read("a.txt"), world.read("new.txt")),
        ("a is done\n".into(), "new\n".into())
    );
    assert_eq!(model.turns_of("a").len(), 2);

    // Two items write the same file; the agent that resolves it is refused at first.
    let both = "echo one >same.txt && echo two >>same.txt && git add same.txt";
    let acts = ModelBehaviour::LimitFor(WAIT).times(1).then(ModelBehaviour::Shell(both.to_owned()));
    let model = ScriptedModel::start(ModelScript::new(acts));
    let conflict = "agents:\n  claude: { type: claude, permission_mode: bypass }\nmap:\n  input: { items: [one, two] }\n  item_key: item\n  max_parallel: 2\n  on_conflict: claude\n  agent_template:\n    - shell: \"touch ROOT/${item}; until test -e ROOT/one -a -e ROOT/two; do sleep 0.05; done; echo ${item} >same.txt\"\n      auto_commit: true\n";
    let world = subscribed_world(&model, conflict).env("IS_SANDBOX", "1");
    run(&world);
    assert_eq!(world.read("same.txt"), "one\ntwo\n");
    assert_eq!(of_type(&world, "resolution_started").len(), 2);
}

#[test]
fn codex_keeps_what_it_edited_across_a_limit() {
    let model = limit_in_the_middle(ModelBehaviour::EditThenLimit(Duration::from_secs(3600)));
    let workflow =
        "map:\n  input: { items: [a] }\n  agent_template:\n    - codex: \"Work. item=${item}\"\n";
    let world = codex_world(&model, workflow);
    let args = ["run", "workflow.yml", "-y", "--job-id", "job", "--no-wait"];
    assert_code(&SpawnedProdigy::new(&world, &args).seen(&world), 75);
    let resume = ["resume", "job", "--now", "--no-wait=false"];
    assert_code(&SpawnedProdigy::new(&world, &resume).seen(&world), 0);
    assert_eq!(world.read("a.txt"), "a is done\n");
    let turns = model.turns_of("a");
    assert_eq!(turns.len(), 2);
    assert!(turns[1].prompt().contains("The files are as you left them"), "{}", turns[1].prompt());
    assert_eq!(deaths(&world), "");
    check_processes(&world).unwrap();
}

#[test]
fn codex_gets_through_five_prompts_at_three_per_window() {
    // One request is refused, whenever the next one comes.
    let script = ModelScript::new(ModelBehaviour::Edit).window(3, Duration::ZERO);
    let model = ScriptedModel::start(script);
    let world = codex_world(&model, &five_prompts("codex"));
    let args = ["run", "workflow.yml", "-y", "--job-id", "job", "--no-wait"];
    assert_code(&SpawnedProdigy::new(&world, &args).seen(&world), 75);
    let resume = ["resume", "job", "--now", "--no-wait=false"];
    assert_code(&SpawnedProdigy::new(&world, &resume).seen(&world), 0);
    check_five(&model, &world);
}

#[test]
fn codex_judges_by_the_schema_of_a_verdict() {
    let answer = ModelBehaviour::Answer(verdict().to_string());
    let model = ScriptedModel::start(ModelScript::new(ModelBehaviour::Edit).on("Judge", answer));
    let workflow = "map:\n  input: { items: [a] }\n  agent_template:\n    - codex: \"Work. item=${item}\"\n      validate: { commands: [{ codex: \"Judge. item=${item}\" }] }\n";
    let world = codex_world(&model, workflow);
    run(&world);
    let asked = |turn: &ModelRequest| turn.body["text"].to_string();
    let forms: Vec<_> =
        model.turns().iter().map(|turn| asked(turn).contains("completion_percentage")).collect();
    assert_eq!(forms, [false, true], "only the judge gets it");
}
