//! `prodigy __simulate`, as the supervisor runs it.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, Stdio},
};

use insta::assert_snapshot;
use prodigy_testkit::{CommandOutput, TestEnv};

fn world() -> TestEnv {
    TestEnv::with_repo(env!("CARGO_BIN_EXE_prodigy"))
}

/// Starts the agent's process with a turn on its standard input.
fn start(world: &TestEnv, args: &[&str], turn: &str) -> Child {
    let mut child = world
        .prodigy_command(&[&["__simulate"], args].concat())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(turn.as_bytes()).unwrap();
    child
}

/// Runs the agent's process with a turn on its standard input.
fn turn(world: &TestEnv, turn: &str) -> CommandOutput {
    world.to_output(&start(world, &[], turn).wait_with_output().unwrap())
}

fn full_turn(end: &str) -> String {
    let edits = r#"[{"path":"notes/a.md","content":"one\n","append":true},{"path":"b.md","content":"two\n","append":false}]"#;
    format!(
        r#"{{"session_id":"s1","answer":"all done","edits":{edits},"commit":"Write notes","cost_usd":0.02,"end":{end}}}"#
    )
}

#[test]
fn edits_are_committed_and_everything_is_told_in_events() {
    let world = world();
    assert_snapshot!(turn(&world, &full_turn(r#""well""#)), @r#"
    {"type":"system","subtype":"init","cwd":".","tools":["Bash","Write"],"model":"simulated","permissionMode":"acceptEdits","session_id":"s1"}
    {"type":"assistant","message":{"type":"message","role":"assistant","model":"simulated","content":[{"type":"tool_use","id":"toolu_1","name":"Write","input":{"file_path":"notes/a.md","content":"one\n"}}],"stop_reason":null},"session_id":"s1"}
    {"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"The file was written","is_error":false}]},"session_id":"s1"}
    {"type":"assistant","message":{"type":"message","role":"assistant","model":"simulated","content":[{"type":"tool_use","id":"toolu_2","name":"Write","input":{"file_path":"b.md","content":"two\n"}}],"stop_reason":null},"session_id":"s1"}
    {"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_2","content":"The file was written","is_error":false}]},"session_id":"s1"}
    {"type":"assistant","message":{"type":"message","role":"assistant","model":"simulated","content":[{"type":"tool_use","id":"toolu_3","name":"Bash","input":{"command":"git commit --all --message=\"Write notes\""}}],"stop_reason":null},"session_id":"s1"}
    {"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_3","content":"","is_error":false}]},"session_id":"s1"}
    {"type":"assistant","message":{"type":"message","role":"assistant","model":"simulated","content":[{"type":"text","text":"all done"}],"stop_reason":null},"session_id":"s1"}
    {"type":"result","duration_ms":0,"num_turns":1,"total_cost_usd":0.02,"usage":{"input_tokens":0,"output_tokens":0,"cache_read_input_tokens":0,"cache_creation_input_tokens":0},"permission_denials":[],"subtype":"success","is_error":false,"api_error_status":null,"stop_reason":"end_turn","result":"all done","session_id":"s1"}
    "#);
    assert_snapshot!(world.git(&["log", "--format=%s", "--name-status", "-1"]), @"
    Write notes

    A	b.md
    A	notes/a.md
    ");
    assert_eq!(world.git(&["status", "--porcelain"]), "");
}

#[test]
fn nothing_to_commit_is_no_commit() {
    let world = world();
    let before = world.git(&["rev-parse", "HEAD"]);
    turn(&world, r#"{"session_id":"s1","answer":"ok","commit":"Nothing"}"#);
    assert_eq!(world.git(&["rev-parse", "HEAD"]), before);
}

#[test]
fn a_crash_leaves_the_work_half_done() {
    let world = world();
    let ended = start(&world, &[], &full_turn(r#""crash""#)).wait_with_output().unwrap();
    assert_eq!(ended.status.code(), None);
    assert_snapshot!(world.git(&["status", "--porcelain", "--untracked-files=all"]), @"?? notes/a.md");
}

#[test]
fn an_error_is_told_and_has_an_exit_code() {
    let world = world();
    let seen = turn(&world, r#"{"session_id":"s1","answer":"no way","end":"error"}"#);
    assert_snapshot!(seen, @r#"
    {"type":"system","subtype":"init","cwd":".","tools":["Bash","Write"],"model":"simulated","permissionMode":"acceptEdits","session_id":"s1"}
    {"type":"result","duration_ms":0,"num_turns":1,"total_cost_usd":0.0,"usage":{"input_tokens":0,"output_tokens":0,"cache_read_input_tokens":0,"cache_creation_input_tokens":0},"permission_denials":[],"subtype":"error_during_execution","is_error":true,"errors":["no way"],"session_id":"s1"}
    [exit 1]
    "#);
}

#[test]
fn agents_that_are_given_the_same_file_share_a_limit() {
    let world = world();
    let limit = r#"{"session_id":"s1","end":{"usage_limit":{"after_ms":3600000}}}"#;
    let other = r#"{"session_id":"s2","answer":"ok"}"#;
    let code = |turn: &str| {
        let child = start(&world, &["--limit", "limit"], turn);
        child.wait_with_output().unwrap().status.code()
    };
    assert_eq!([code(other), code(limit), code(other)], [Some(0), Some(1), Some(1)]);
}

#[test]
fn an_edit_outside_of_the_worktree_is_refused() {
    let world = world();
    let edit = r#"[{"path":"../x","content":"","append":false}]"#;
    let turn = start(&world, &[], &format!(r#"{{"session_id":"s1","edits":{edit}}}"#));
    let ended = turn.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    assert_snapshot!(String::from_utf8_lossy(&ended.stderr), @"
    error: the simulated agent could not do its work
      caused by: `../x` is not a path inside the worktree
    ");
    assert!(!world.root().join("x").exists());
}

#[test]
fn input_that_is_no_turn_is_refused() {
    assert_snapshot!(turn(&world(), "{}"), @"
    ----- stderr -----
    error: standard input is not a turn of the simulated agent
      caused by: missing field `session_id` at line 1 column 2
    [exit 2]
    ");
}

#[test]
fn a_hanging_agent_begins_and_says_no_more() {
    let world = world();
    let mut child = start(&world, &[], &full_turn(r#""hang""#));
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert!(line.contains(r#""subtype":"init""#), "{line}");
    child.kill().unwrap();
    line.clear();
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "");
    child.wait().unwrap();
    assert_eq!(world.git(&["status", "--porcelain"]), "");
}
