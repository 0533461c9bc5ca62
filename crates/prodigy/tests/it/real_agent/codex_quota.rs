//! Usage limits in the middle of work with the real Codex and a scripted model, wherever a
//! workflow can start an agent: what was paid for is kept, and paid for once.
//!
//! Codex tells the end of a limit to the minute only, so these jobs stop at the limit and are
//! resumed as soon as it is lifted.

use std::time::Duration;

use prodigy_testkit::{
    TestEnv,
    crash::check_processes,
    model::{ModelBehaviour, ModelScript, ScriptedModel},
};
use rustix::process::Signal;

use crate::fixture::{
    map_job::{assert_code, has_told, of_type},
    real_agents::{codex_world, deaths},
    workflow::SpawnedProdigy,
};

const HOUR: Duration = Duration::from_secs(3600);
const RUN: [&str; 6] = ["run", "workflow.yml", "-y", "--job-id", "job", "--no-wait"];
const RESUME: [&str; 4] = ["resume", "job", "--now", "--no-wait=false"];
const MAP: &str = "map: { input: { items: [x] }, agent_template: [{ shell: 'echo new >new.txt', auto_commit: true }] }\n";

/// Returns a model that edits a file, meets its limit before it can say so, and then answers.
fn edit_then_limit() -> ScriptedModel {
    let acts = ModelBehaviour::EditThenLimit(HOUR)
        .times(1)
        .then(ModelBehaviour::Answer("done".to_owned()));
    ScriptedModel::start(ModelScript::new(acts))
}

/// Runs a job into its limit and resumes it, now that the limit is lifted.
fn run_and_resume(world: &TestEnv, case: &str) {
    let stopped = SpawnedProdigy::new(world, &RUN).seen(world);
    assert_eq!(stopped.code, Some(75), "{case}: {stopped:?}");
    assert_eq!(of_type(world, "quota_paused").len(), 1, "{case}");
    let resumed = SpawnedProdigy::new(world, &RESUME).seen(world);
    assert_eq!(resumed.code, Some(0), "{case}: {resumed:?}");
    assert_eq!(deaths(world), "", "{case}");
    check_processes(world).unwrap();
}

#[test]
fn codex_keeps_its_edit_across_a_limit_in_every_phase() {
    let work = "{ codex: \"Work. item=a\" }";
    // Agents of `merge` steps commit nothing by default.
    let committed = "{ codex: \"Work. item=a\", auto_commit: true }";
    let into = "shell: git -C ROOT/repo merge --quiet --no-edit \"${merge.source_branch}\"";
    let cases = [
        ("setup", format!("setup:\n  - {work}\n{MAP}")),
        ("reduce", format!("{MAP}reduce:\n  - {work}\n")),
        ("merge", format!("{MAP}merge:\n  - {committed}\n  - {into}\n")),
        (
            "handler of a reduce step",
            format!("{MAP}reduce:\n  - shell: test -e a.txt\n    on_failure: [{work}]\n"),
        ),
        (
            "handler of an item",
            format!(
                "map:\n  input: {{ items: [x] }}\n  agent_template:\n    - shell: echo new >new.txt\n      auto_commit: true\n    - shell: test -e a.txt\n      on_failure: [{work}]\n"
            ),
        ),
        (
            "retry of an incomplete step",
            format!(
                "map:\n  input: {{ items: [x] }}\n  agent_template:\n    - shell: echo new >new.txt\n      auto_commit: true\n      validate:\n        commands: [{{ shell: 'test -e a.txt && echo \"{{\\\"completion_percentage\\\": 100}}\" || echo \"{{\\\"completion_percentage\\\": 0}}\"' }}]\n        threshold: 100\n        on_incomplete: {{ commands: [{work}] }}\n"
            ),
        ),
    ];
    for (case, workflow) in cases {
        let model = edit_then_limit();
        let world = codex_world(&model, &workflow);
        run_and_resume(&world, case);
        assert_eq!(world.read("a.txt"), "a is done\n", "{case}");
        assert_eq!(world.read("new.txt"), "new\n", "{case}");
        let turns = model.turns_of("a");
        assert_eq!(turns.len(), 2, "{case}");
        let told = turns[1].prompt();
        assert!(told.contains("The files are as you left them"), "{case}: {told}");
    }
}

#[test]
fn codex_gets_through_a_loop_with_judges_and_a_kill_in_the_pause() {
    let verdict = ModelBehaviour::Answer(
        r#"{"completion_percentage": 100, "status": "complete", "missing": []}"#.to_owned(),
    );
    let refused_once = ModelBehaviour::LimitFor(HOUR).times(1).then(verdict.clone());
    let script = ModelScript::new(ModelBehaviour::Edit)
        .on("Judge. item=p2", refused_once)
        .on("Judge", verdict);
    let model = ScriptedModel::start(script);
    let workflow = "map:\n  input: { items: [x] }\n  agent_template:\n    - foreach:\n        input: [p1, p2]\n        do:\n          - codex: \"Work. item=${item}\"\n            validate: { commands: [{ codex: \"Judge. item=${item}\" }] }\n";
    let world = codex_world(&model, workflow);
    let mut started =
        SpawnedProdigy::new(&world, &["run", "workflow.yml", "-y", "--job-id", "job"]);
    started.until(&world, "it is paused", || has_told(&world, "quota_paused"));
    started.signal(Signal::KILL);
    started.seen(&world);
    assert_code(&SpawnedProdigy::new(&world, &["resume", "job", "--now"]).seen(&world), 0);
    for name in ["p1", "p2"] {
        assert_eq!(world.read(&format!("{name}.txt")), format!("{name} is done\n"));
    }
    let turns =
        |text: &str| model.turns().iter().filter(|turn| turn.prompt().contains(text)).count();
    assert_eq!((turns("Work. item=p1"), turns("Work. item=p2")), (1, 1), "paid for once");
    assert_eq!((turns("Judge. item=p1"), turns("Judge. item=p2")), (1, 2), "one was refused");
    check_processes(&world).unwrap();
}

#[test]
fn codex_resolves_a_conflict_after_a_limit() {
    let both = "printf 'one\\ntwo\\n' >same.txt && git add same.txt";
    let acts = ModelBehaviour::LimitFor(HOUR).times(1).then(ModelBehaviour::Shell(both.to_owned()));
    let model = ScriptedModel::start(ModelScript::new(acts));
    let workflow = "map:\n  input: { items: [one, two] }\n  item_key: item\n  max_parallel: 2\n  on_conflict: codex\n  agent_template:\n    - shell: \"touch ROOT/${item}; until test -e ROOT/one -a -e ROOT/two; do sleep 0.05; done; echo ${item} >same.txt\"\n      auto_commit: true\n";
    let world = codex_world(&model, workflow);
    run_and_resume(&world, "conflict");
    assert_eq!(world.read("same.txt"), "one\ntwo\n");
    assert_eq!(of_type(&world, "resolution_started").len(), 2);
}
