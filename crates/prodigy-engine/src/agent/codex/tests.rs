//! The command line of Codex.

use std::collections::BTreeMap;

use prodigy_core::json_schema::OutputSchema;
use serde_json::json;

use super::*;
use crate::agent::tests;

fn words<'a>(
    config: CodexAgent,
    options: &'a AgentOptions,
    change: impl FnOnce(&mut AgentRequest<'a>),
) -> String {
    let launch = tests::launch(&CodexDriver::new(config), "--help", options, change).unwrap();
    assert_eq!(launch.stdin, b"--help");
    let words: Vec<_> = launch.argv.iter().map(|word| word.to_str().unwrap()).collect();
    words.join("\n")
}

#[test]
fn without_options_the_worktree_may_be_written() {
    let shown = words(CodexAgent::default(), &AgentOptions::default(), |_| {});
    insta::assert_snapshot!(shown, @"
    codex
    exec
    --json
    --sandbox=workspace-write
    -
    ");
}

#[test]
fn every_option_has_its_argument() {
    let scratch = tempfile::tempdir().unwrap();
    let at = scratch.path().to_owned();
    let config = CodexAgent {
        command: vec!["npx".to_owned(), "codex".to_owned()],
        sandbox: CodexSandbox::ReadOnly,
        config: BTreeMap::from([
            ("model_reasoning_effort".to_owned(), json!("high")),
            ("a.b".to_owned(), json!({"list": [1, true, "x\"y"], "n": 0.5})),
        ]),
        args: vec!["--oss".to_owned()],
        ..CodexAgent::default()
    };
    let options = AgentOptions {
        model: Some("gpt".to_owned()),
        output_schema: OutputSchema::parse(&json!({"type": "object"})).ok(),
        ..AgentOptions::default()
    };
    let shown = words(config, &options, |request| {
        request.system_prompt = Some("Be \"brief\".\nAlways.");
        request.session.resume = true;
        request.scratch = &at;
    });
    insta::assert_snapshot!(shown.replace(at.to_str().unwrap(), "[scratch]"), @r#"
    npx
    codex
    exec
    --json
    --sandbox=read-only
    --model=gpt
    --output-schema=[scratch]/output-schema.json
    --config=a.b={"list" = [1, true, "x\"y"], "n" = 0.5}
    --config=model_reasoning_effort="high"
    --config=developer_instructions="Be \"brief\".\nAlways."
    --oss
    resume
    11111111-2222-4333-8444-555555555555
    -
    "#);
    let written = fs::read_to_string(at.join("output-schema.json")).unwrap();
    assert_eq!(written, r#"{"type":"object"}"#);
}

#[test]
fn a_permission_mode_is_a_sandbox_unless_there_is_another_around_it() {
    let sandbox = |mode: PermissionMode, is_confined: bool| {
        let options = AgentOptions { permission_mode: Some(mode), ..AgentOptions::default() };
        let words =
            words(CodexAgent::default(), &options, |request| request.is_confined = is_confined);
        let flag = words.lines().find_map(|word| word.strip_prefix("--sandbox="));
        flag.unwrap_or("-").to_owned()
    };
    for (mode, own) in [
        (PermissionMode::Default, "-"),
        (PermissionMode::Plan, "read-only"),
        (PermissionMode::AcceptEdits, "workspace-write"),
        (PermissionMode::Bypass, "danger-full-access"),
    ] {
        assert_eq!(sandbox(mode, false), own);
        assert_eq!(sandbox(mode, true), "danger-full-access");
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test plays the agent")]
fn a_session_is_found_below_the_day_it_was_begun_on() {
    let home = tempfile::tempdir().unwrap();
    let day = home.path().join("sessions/2026/03/07");
    fs::create_dir_all(&day).unwrap();
    fs::write(day.join("rollout-2026-03-07T10-00-00-abc.jsonl"), "").unwrap();
    let env = [(OsString::from("CODEX_HOME"), home.path().as_os_str().to_owned())];
    let agent = CodexDriver::new(CodexAgent::default());
    let directory = agent.config_dir(&env).unwrap();
    assert!(agent.restore_session("abc", Path::new("/"), &directory));
    assert!(!agent.restore_session("abd", Path::new("/"), &directory));
    assert!(!agent.restore_session("abc", Path::new("/"), &day));
    assert_eq!(agent.config_dir(&[]), None);
}
