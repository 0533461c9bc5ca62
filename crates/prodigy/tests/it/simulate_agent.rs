//! `prodigy __simulate`, as the supervisor runs it.

use std::{
    io::Write as _,
    process::Stdio,
    time::{Duration, Instant},
};

use insta::assert_snapshot;
use prodigy_testkit::{Seen, World};

fn world() -> World {
    World::with_repo(env!("CARGO_BIN_EXE_prodigy"))
}

/// Runs the agent's process with a turn on its standard input.
fn turn(world: &World, turn: &str) -> Seen {
    let mut child = world
        .prodigy_command(&["__simulate"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(turn.as_bytes()).unwrap();
    world.seen(&child.wait_with_output().unwrap())
}

fn full_turn(fault: &str) -> String {
    let edits = r#"[{"path":"notes/a.md","content":"one\n","append":true},{"path":"b.md","content":"two\n","append":false}]"#;
    format!(
        r#"{{"answer":"all done","delay_ms":0,"edits":{edits},"commit":"Write notes","cost_usd":0.02,"fault":{fault}}}"#
    )
}

#[test]
fn edits_are_committed_and_the_answer_is_printed() {
    let world = world();
    assert_snapshot!(turn(&world, &full_turn("null")), @r#"{"answer":"all done","cost_usd":0.02,"permission_denied":false}"#);
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
    let seen = turn(
        &world,
        r#"{"answer":"ok","delay_ms":0,"edits":[],"commit":"Nothing","cost_usd":0.0,"fault":null}"#,
    );
    assert_snapshot!(seen, @r#"{"answer":"ok","cost_usd":0.0,"permission_denied":false}"#);
    assert_eq!(world.git(&["rev-parse", "HEAD"]), before);
}

#[test]
fn a_crash_leaves_the_work_half_done() {
    let world = world();
    assert_snapshot!(turn(&world, &full_turn(r#""crash""#)), @"[killed]");
    assert_snapshot!(world.git(&["status", "--porcelain", "--untracked-files=all"]), @"?? notes/a.md");
}

#[test]
fn a_lie_sounds_like_a_success() {
    let world = world();
    assert_snapshot!(turn(&world, &full_turn(r#""lie""#)), @r#"{"answer":"all done","cost_usd":0.02,"permission_denied":false}"#);
    assert_eq!(world.git(&["status", "--porcelain"]), "");
}

#[test]
fn an_error_has_a_message_and_an_exit_code() {
    let world = world();
    assert_snapshot!(turn(&world, &full_turn(r#""error""#)), @"
    ----- stderr -----
    error: all done
    [exit 1]
    ");
    assert_eq!(world.git(&["status", "--porcelain"]), "");
}

#[test]
fn a_denied_permission_is_polite_and_does_nothing() {
    let world = world();
    assert_snapshot!(turn(&world, &full_turn(r#""permission_denied""#)), @r#"{"answer":"all done","cost_usd":0.02,"permission_denied":true}"#);
    assert_eq!(world.git(&["status", "--porcelain"]), "");
}

#[test]
fn an_edit_outside_of_the_worktree_is_refused() {
    let world = world();
    let seen = turn(
        &world,
        r#"{"answer":"ok","delay_ms":0,"edits":[{"path":"../x","content":"","append":false}],"commit":null,"cost_usd":0.0,"fault":null}"#,
    );
    assert_snapshot!(seen, @"
    ----- stderr -----
    error: the simulated agent could not do its work
      caused by: `../x` is not a path inside the worktree
    [exit 1]
    ");
    assert!(!world.root().join("x").exists());
}

#[test]
fn input_that_is_no_turn_is_refused() {
    assert_snapshot!(turn(&world(), "{}"), @"
    ----- stderr -----
    error: standard input is not a turn of the simulated agent
      caused by: missing field `answer` at line 1 column 2
    [exit 2]
    ");
}

#[test]
fn a_hanging_agent_says_nothing_until_it_is_ended() {
    let world = world();
    let mut child = world
        .prodigy_command(&["__simulate"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(full_turn(r#""hang""#).as_bytes()).unwrap();
    // There is no event to wait for: the point is that none comes.
    let until = Instant::now() + Duration::from_millis(300);
    while Instant::now() < until {
        assert_eq!(child.try_wait().unwrap(), None);
        std::thread::yield_now();
    }
    child.kill().unwrap();
    assert_snapshot!(world.seen(&child.wait_with_output().unwrap()), @"[killed]");
    assert_eq!(world.git(&["status", "--porcelain"]), "");
}
