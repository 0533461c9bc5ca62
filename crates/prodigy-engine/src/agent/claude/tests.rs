//! The command line of Claude Code.

use std::{fs, os::unix::fs::symlink};

use prodigy_core::{
    json_schema::OutputSchema,
    template::{Template, TemplateKind, VarRoots},
};
use serde_json::json;

use super::*;
use crate::agent::tests;

fn claude(config: ClaudeAgent, is_root: bool) -> ClaudeDriver {
    ClaudeDriver { config, is_root }
}

/// Returns the words behind those that every run has.
fn words<'a>(options: &'a AgentOptions, change: impl FnOnce(&mut AgentRequest<'a>)) -> String {
    let launch =
        tests::launch(&claude(ClaudeAgent::default(), false), "--help", options, change).unwrap();
    assert_eq!(launch.stdin, b"--help");
    let words: Vec<_> = launch.argv.iter().map(|word| word.to_str().unwrap()).collect();
    words.join("\n")
}

#[test]
fn without_options_edits_are_accepted_and_nothing_else() {
    insta::assert_snapshot!(words(&AgentOptions::default(), |_| {}), @"
    claude
    -p
    --output-format=stream-json
    --verbose
    --session-id=11111111-2222-4333-8444-555555555555
    --permission-mode=acceptEdits
    ");
}

#[test]
fn every_option_has_its_argument() {
    let scratch = tempfile::tempdir().unwrap();
    let at = scratch.path().to_owned();
    let options = AgentOptions {
        model: Some("opus".to_owned()),
        fallback_model: Some("-sonnet".to_owned()),
        permission_mode: Some(PermissionMode::Plan),
        allowed_tools: Some(vec!["Read".to_owned(), "Bash(git add *)".to_owned()]),
        disallowed_tools: Some(vec!["WebFetch".to_owned()]),
        max_turns: std::num::NonZeroU32::new(7),
        max_budget_usd: Some(1.5),
        system_prompt: Template::parse("never used", &VarRoots::default(), TemplateKind::Text).ok(),
        output_schema: OutputSchema::parse(&json!({"type": "object"})).ok(),
        is_judge: false,
        given: Vec::new(),
    };
    let shown = words(&options, |request| {
        request.system_prompt = Some("Be brief.");
        request.session.resume = true;
        request.scratch = &at;
    });
    let shown = shown.replace(at.to_str().unwrap(), "[scratch]");
    insta::assert_snapshot!(shown, @r#"
    claude
    -p
    --output-format=stream-json
    --verbose
    --resume=11111111-2222-4333-8444-555555555555
    --permission-mode=plan
    --model=opus
    --fallback-model=-sonnet
    --allowedTools=Read
    --allowedTools=Bash(git add *)
    --disallowedTools=WebFetch
    --max-turns=7
    --max-budget-usd=1.5
    --json-schema={"type":"object"}
    --append-system-prompt-file=[scratch]/system-prompt.md
    "#);
    let written = fs::read_to_string(at.join("system-prompt.md")).unwrap();
    assert_eq!(written, "Be brief.");
}

#[test]
fn settings_that_are_not_trusted_are_not_read_and_prose_is() {
    let launch = tests::launch(
        &claude(ClaudeAgent::default(), false),
        "x",
        &AgentOptions::default(),
        |it| {
            it.is_untrusted = true;
        },
    );
    let launch = launch.unwrap();
    let words: Vec<_> = launch.argv.iter().skip(5).map(|word| word.to_str().unwrap()).collect();
    assert_eq!(
        words,
        [
            "--permission-mode=acceptEdits",
            "--setting-sources=user",
            "--add-dir=/nowhere",
            "--strict-mcp-config"
        ]
    );
    assert!(launch.env.contains(&(PROSE_OF_DIRECTORIES.into(), "1".into())));
}

#[test]
fn the_lower_budget_counts() {
    let budget = |own: Option<f64>, left: Option<f64>| {
        let options = AgentOptions { max_budget_usd: own, ..AgentOptions::default() };
        let words = words(&options, |request| request.budget_usd = left);
        let flag = words.lines().find_map(|word| word.strip_prefix("--max-budget-usd="));
        flag.map(str::to_owned)
    };
    assert_eq!(budget(None, None), None);
    assert_eq!(budget(Some(2.0), None).as_deref(), Some("2"));
    assert_eq!(budget(None, Some(0.25)).as_deref(), Some("0.25"));
    assert_eq!(budget(Some(2.0), Some(0.25)).as_deref(), Some("0.25"));
}

#[test]
fn bypass_is_refused_to_root_unless_it_is_said_that_nothing_can_be_harmed() {
    let options =
        AgentOptions { permission_mode: Some(PermissionMode::Bypass), ..AgentOptions::default() };
    let sandbox = [(OsString::from("IS_SANDBOX"), OsString::from("1"))];
    let start = |is_root: bool, env: &[(OsString, OsString)]| {
        let agent = claude(ClaudeAgent::default(), is_root);
        let env = env.to_vec();
        tests::launch(&agent, "x", &options, |request| request.env = &env)
    };
    let refused = start(true, &[]).unwrap_err();
    assert_eq!(refused.kind, ReasonCode::PermissionDenied);
    insta::assert_snapshot!(refused.message, @r#"Claude Code refuses `permission_mode: bypass` to root: run prodigy as another user, or set `env: {IS_SANDBOX: "1"}` where nothing can be harmed"#);
    for allowed in [start(true, &sandbox), start(false, &[])] {
        let launch = allowed.unwrap();
        assert!(launch.argv.contains(&"--dangerously-skip-permissions".into()));
        assert!(!launch.env.iter().any(|(name, _)| name == "IS_SANDBOX"));
    }
}

#[test]
fn what_the_user_set_stays() {
    let config = ClaudeAgent {
        command: vec!["node".to_owned(), "cli.js".to_owned()],
        config_dir: Some("~/work".to_owned()),
        args: vec!["--add-dir".to_owned(), "/data".to_owned()],
        ..ClaudeAgent::default()
    };
    let env = [("HOME", "/home/me"), ("CLAUDE_CODE_MAX_RETRIES", "9")];
    let env = env.map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let launch = tests::launch(&claude(config, false), "x", &AgentOptions::default(), |request| {
        request.env = &env;
    });
    let launch = launch.unwrap();
    assert_eq!(launch.argv[..3], ["node", "cli.js", "-p"]);
    assert_eq!(launch.argv[launch.argv.len() - 2..], ["--add-dir", "/data"]);
    insta::assert_debug_snapshot!(launch.env, @r#"
    [
        (
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
            "1",
        ),
        (
            "DISABLE_AUTOUPDATER",
            "1",
        ),
        (
            "CLAUDE_CONFIG_DIR",
            "/home/me/work",
        ),
    ]
    "#);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test plays the agent")]
fn a_session_is_found_wherever_it_was_begun() {
    let home = tempfile::tempdir().unwrap();
    let here = tempfile::tempdir().unwrap();
    let config_dir = Some(home.path().to_str().unwrap().to_owned());
    let agent = claude(ClaudeAgent { config_dir, ..ClaudeAgent::default() }, false);
    let id = "11111111-2222-4333-8444-555555555555";
    let directory = agent.config_dir(&[]).unwrap();
    let recall = |id: &str| agent.restore_session(id, here.path(), &directory);
    assert!(!recall(id));

    let elsewhere = home.path().join("projects/-somewhere-else");
    fs::create_dir_all(&elsewhere).unwrap();
    fs::write(elsewhere.join(format!("{id}.jsonl")), "first\n").unwrap();
    assert!(recall(id));
    let name = project_name(&here.path().canonicalize().unwrap());
    let copy = home.path().join("projects").join(name).join(format!("{id}.jsonl"));
    assert_eq!(fs::read_to_string(&copy).unwrap(), "first\n");

    fs::write(&copy, "first\nsecond\n").unwrap();
    assert!(recall(id));
    assert_eq!(fs::read_to_string(&copy).unwrap(), "first\nsecond\n");
    assert!(!recall("99999999-2222-4333-8444-555555555555"));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test plays the agent")]
fn a_session_is_not_taken_from_a_link_nor_copied_through_one() {
    let home = tempfile::tempdir().unwrap();
    let here = tempfile::tempdir().unwrap();
    let agent = claude(ClaudeAgent::default(), false);
    let recall = || agent.restore_session("1", here.path(), home.path());
    let (secret, profile) = (home.path().join("secret"), home.path().join("profile"));
    for file in [&secret, &profile] {
        fs::write(file, "mine\n").unwrap();
    }
    let [elsewhere, own] =
        ["elsewhere".to_owned(), project_name(&here.path().canonicalize().unwrap())]
            .map(|name| home.path().join("projects").join(name));
    fs::create_dir_all(&elsewhere).unwrap();
    symlink(&secret, elsewhere.join("1.jsonl")).unwrap();
    assert!(!recall());
    fs::remove_file(elsewhere.join("1.jsonl")).unwrap();
    fs::write(elsewhere.join("1.jsonl"), "planted\n").unwrap();

    fs::create_dir(&own).unwrap();
    symlink(&profile, own.join("1.jsonl")).unwrap();
    assert!(recall());
    assert_eq!(fs::read_to_string(&profile).unwrap(), "mine\n");
    assert_eq!(fs::read_to_string(own.join("1.jsonl")).unwrap(), "planted\n");

    fs::remove_dir_all(&own).unwrap();
    symlink(home.path(), &own).unwrap();
    assert!(recall());
    assert!(!home.path().join("1.jsonl").exists());
}

#[test]
fn the_directory_of_sessions_has_letters_and_dashes_only() {
    assert_eq!(project_name(Path::new("/home/me/a_b.c/ä")), "-home-me-a-b-c--");
}
