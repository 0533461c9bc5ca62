//! What agents tell while they work: where it is, and how it is shown.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    process::Stdio,
};

use insta::assert_snapshot;
use prodigy_engine::store::LogFile;
use prodigy_testkit::TestEnv;
use serde_json::{Value, json};

use crate::fixture::{
    journal::{
        half, hold, layout, log, output, record, started, step_completed, step_failed,
        step_started, world,
    },
    map_job::{assert_code, go, map_world},
};

/// Returns where a step's output is, if it is a transcript.
fn transcribed(stdout: (u64, u64), stderr: (u64, u64)) -> Value {
    let mut range = log(stdout, stderr);
    range.as_object_mut().unwrap().insert("transcript".into(), json!(true));
    range
}

/// Writes the transcript of the job's own steps.
fn transcribe(world: &TestEnv, text: &str) {
    let job = "job-1".parse().unwrap();
    let path = layout(world).log_file(&job, None, 1, 0, LogFile::Transcript);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn verify_looks_for_a_transcript_in_its_own_file() {
    let world = world();
    let mut events = half();
    events[4].1 = step_completed("1", 1200, &transcribed((0, 10), (0, 4)));
    record(&layout(&world), "job-1", &events[..5]);
    output(&layout(&world), "job-1", "", "oops");
    let logs = || {
        let seen = world.prodigy(&["verify", "job-1"]).stdout;
        seen.lines().find(|line| line.contains("logs")).unwrap().to_owned()
    };
    assert_snapshot!(logs(), @"FAIL  logs — step 1 printed up to byte 10 of $ROOT/home/logs/repo/job-1/workflow/attempt-1.jsonl, which has 0");
    transcribe(&world, "{\"a\":123}\n");
    assert_snapshot!(logs(), @"ok    logs — 1 output of finished steps, all in their files");
}

/// Returns what a real agent told.
fn corpus(name: &str) -> String {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../prodigy-core/src/agent/corpus/claude");
    fs::read_to_string(format!("{root}/{name}.jsonl")).unwrap()
}

/// Returns a job with one step, an agent's, that told this.
fn told(text: &str) -> TestEnv {
    let world = world();
    let length = u64::try_from(text.len()).unwrap();
    let events = [
        (0, started()),
        (1, step_started("1", "claude: fix it")),
        (2, step_completed("1", 1200, &transcribed((0, length), (0, 0)))),
    ];
    record(&layout(&world), "job-1", &events);
    transcribe(&world, text);
    world
}

#[test]
fn what_an_agent_did_is_shown_for_people() {
    let world = told(&corpus("two-tools-one-fails"));
    assert_snapshot!(world.prodigy(&["logs", "job-1"]), @"
    ── 1 claude: fix it (exit 0, 1.2s)
      session 2960fe45-59f5-4191-8833-2c351a5c75b8 · claude-opus-5-5 · bypassPermissions

    Two at once.
      › Bash  echo one
      › Bash  ls /does-not-exist
        ✗ Exit code 2
          ls: cannot access '/does-not-exist': No such file or directory

    done
      ✓ 3 turns · $0.0024 · 2120 tokens
    ");
}

#[test]
fn a_raw_transcript_is_as_it_was_written() {
    let text = corpus("two-tools-one-fails");
    let seen = told(&text).prodigy(&["logs", "job-1", "--raw"]).stdout;
    assert_eq!(seen, format!("── 1 claude: fix it (exit 0, 1.2s)\n{text}"));
}

#[test]
fn trouble_limits_and_denied_tools_are_marked() {
    let seen = [
        "max-turns",
        "api-529",
        "subscription-limit",
        "subscription-warning",
        "denied-tool",
        "killed",
        "local-command",
    ]
    .map(|name| {
        let shown = told(&corpus(name)).prodigy(&["logs", "job-1"]).stdout;
        format!("{name}:\n{}", shown.split_once('\n').unwrap().1)
    });
    assert_snapshot!(seen.concat(), @"
    max-turns:
      session fdc7cae8-5fe2-44c3-9544-618f65d5df54 · claude-opus-5-5 · bypassPermissions
      › Bash  true
      › Bash  true
      ✗ ended: Reached maximum number of turns (2)
        3 turns · $0.0024 · 2120 tokens
    api-529:
      session 1becdb00-b549-4cc9-821e-753637613d42 · claude-opus-5-5 · bypassPermissions
      ↻ request failed, try 1: 529 overloaded

    API Error: 529 Overloaded. This is a server-side issue, usually temporary — try again in a moment. If it persists, check your inference gateway (127.0.0.1:8391).
      ✗ ended with this error · 1 turn
    subscription-limit:
      session eb68c840-0001-4af2-afd4-0a871d91f2f4 · claude-sonnet-5-5 · bypassPermissions
      ✗ the account's limit `five_hour` is reached, until 2026-11-16T11:00:00Z

    You've hit your 5-hour limit · resets 6am (America/New_York)
      ✗ ended with this error · 1 turn
    subscription-warning:
      session 46ea8726-df4b-4ad3-80bf-9c723f283ab3 · claude-sonnet-5-5 · bypassPermissions

    done
      91 % of the limit `five_hour` used
      ✓ 1 turn · $0.0006 · 1060 tokens
    denied-tool:
      session d8122b08-d61f-4340-99aa-cca92c5cc07e · claude-opus-5-5 · acceptEdits

    I will make the change.
      › Bash  echo done > agent.txt && git add -A && git commit -qm 'agent work'
        ✗ This Bash command contains multiple operations. The following parts require approval: git add -A, git commit -qm 'agent work'

    I was not allowed to commit, so nothing is done.
      ✗ not allowed: Bash  echo done > agent.txt && git add -A && git commit -qm 'agent work'
      ✓ 2 turns · $0.0024 · 2120 tokens
    killed:
      session 15e99e3a-6444-4e15-b78f-ec27e62a78e8 · claude-opus-5-5 · bypassPermissions

    I will make the change.
      › Bash  echo done > agent.txt && git add -A && git commit -qm 'agent work'
      ✗ it ended without a result
    local-command:
      session 638bd0ca-fb5d-47a6-99d3-4ab50eaabe82 · claude-opus-5-5 · bypassPermissions

    Total cost:            $0.0000
    Total duration (API):  0s
    Total duration (wall): 0s
    Total code changes:    0 lines added, 0 lines removed
    Usage:                 0 input, 0 output, 0 cache read, 0 cache write
      ✓ 0 turns
    ");
}

#[test]
fn lines_that_are_no_events_are_shown_as_they_are() {
    let world = told("warning: \u{1b}[31mold\n[prodigy: 7 more bytes were not kept]\n");
    assert_snapshot!(world.prodigy(&["logs", "job-1"]), @r"
    ── 1 claude: fix it (exit 0, 1.2s)
    warning: \u{1b}[31mold
      … cut off at `log_cap`: 7 more bytes were not kept
    ");
}

/// The agent prints more than is kept, and its item succeeds all the same.
#[test]
fn a_transcript_that_was_cut_says_so_and_not_that_it_failed() {
    let world = map_world(
        "agents: { claude: { type: simulated, rules: [{ fault: huge, megabytes: 1 }] } }\n\
         map:\n  input: { items: [a] }\n  agent_template:\n    - claude: fix\n    - shell: echo next\n",
    )
    .env("PRODIGY_LOG_CAP", "100KiB");
    assert_code(&go(&world), 0);
    let seen = world.prodigy(&["logs", "job", "item-001"]).to_string();
    let is_told = |line: &&str| ["…", "✗", "next"].iter().any(|one| line.trim().starts_with(one));
    let told: Vec<_> = seen.lines().filter(is_told).collect();
    let told =
        regex::Regex::new(r"\d{6}").unwrap().replace_all(&told.join("\n"), "[n]").into_owned();
    assert_snapshot!(told, @r"
      … cut off at `log_cap`: [n] more bytes were not kept
    next
    ");
    let raw = world.prodigy(&["logs", "job", "item-001", "--raw"]).to_string();
    let notes = raw.lines().filter(|line| line.starts_with("[prodigy: ")).count();
    assert_eq!(notes, 1);
}

#[test]
fn colours_are_for_those_who_want_them_and_the_agent_has_none() {
    let tool = json!({"type": "tool_use", "name": "Bash", "input": {"command": "ls \u{1b}[32m"}});
    let event = json!({"type": "assistant", "message": {"content": [tool]}});
    let world = told(&format!("{event}\n"));
    let mut command = world.prodigy_command(&["logs", "job-1"]);
    let seen = command.env("CLICOLOR_FORCE", "1").output().unwrap().stdout;
    let seen = String::from_utf8(seen).unwrap();
    assert_snapshot!(seen.escape_debug().to_string().replace("\\n", "\n"), @r"
    ── 1 claude: fix it (exit 0, 1.2s)
    \u{1b}[2m  › Bash  ls\u{1b}[0m
    \u{1b}[31m  ✗ it ended without a result\u{1b}[0m
    ");
}

#[test]
fn a_handler_comes_after_the_agent_that_it_belongs_to() {
    let world = world();
    let text = corpus("text");
    let length = u64::try_from(text.len()).unwrap();
    record(
        &layout(&world),
        "job-1",
        &[
            (0, started()),
            (1, step_started("1", "shell: first")),
            (2, step_completed("1", 1, &log((0, 6), (0, 0)))),
            (3, step_started("2", "claude: fix it")),
            (4, step_started("2.on_failure.1", "shell: undo")),
            (5, step_completed("2.on_failure.1", 1, &log((6, 5), (0, 0)))),
            (6, step_failed("2", 2, &transcribed((0, length), (0, 0)))),
        ],
    );
    output(&layout(&world), "job-1", "first\nundo\n", "");
    transcribe(&world, &text);
    assert_snapshot!(world.prodigy(&["logs", "job-1"]), @"
    ── 1 shell: first (exit 0, 1ms)
    first
    ── 2 claude: fix it (exit 101, 2ms)
      session 4db1cc06-f83e-4479-a2ea-5e5533030490 · claude-opus-5-5 · bypassPermissions

    done
      ✓ 1 turn · $0.0012 · 1060 tokens
    ── 2.on_failure.1 shell: undo (exit 0, 1ms)
    undo
    ");
}

#[test]
fn an_agent_is_followed_event_by_event() {
    let world = world();
    let layout = layout(&world);
    let mut events = half();
    events[5].1 = step_started("2", "claude: fix it");
    record(&layout, "job-1", &events);
    output(&layout, "job-1", "formatted\n", "");
    let text = corpus("two-tools-one-fails");
    let (first, rest) = text.split_at(text.find("\"assistant\"").unwrap());
    transcribe(&world, first);
    let _lock = hold(&layout, "job-1");
    let mut child = world
        .prodigy_command(&["logs", "job-1", "--follow"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut seen: Vec<String> = lines.by_ref().take(4).map(Result::unwrap).collect();
    seen.push("(the second event is not whole yet)".to_owned());
    let path = layout.log_file(&"job-1".parse().unwrap(), None, 1, 0, LogFile::Transcript);
    let mut file = fs::File::options().append(true).open(path).unwrap();
    // The last event comes only just before the step ends.
    let (middle, last) = rest.split_at(rest.trim_end().rfind('\n').unwrap() + 1);
    file.write_all(middle.as_bytes()).unwrap();
    seen.extend(lines.by_ref().take(1).map(Result::unwrap));
    file.write_all(last.as_bytes()).unwrap();
    let length = u64::try_from(text.len()).unwrap();
    let end = [
        (3208, step_completed("2", 2000, &transcribed((0, length), (0, 0)))),
        (
            3209,
            json!({"event_type": "job_completed", "status": "completed", "duration_ms": 5000, "commits": 0}),
        ),
    ];
    record(&layout, "job-1", &end);
    seen.extend(lines.map(Result::unwrap));
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_snapshot!(seen.join("\n"), @"
    ── 1 shell: cargo fmt (exit 0, 1.2s)
    formatted
    ── 2 claude: fix it (running)
      session 2960fe45-59f5-4191-8833-2c351a5c75b8 · claude-opus-5-5 · bypassPermissions
    (the second event is not whole yet)

    Two at once.
      › Bash  echo one
      › Bash  ls /does-not-exist
        ✗ Exit code 2
          ls: cannot access '/does-not-exist': No such file or directory

    done
      ✓ 3 turns · $0.0024 · 2120 tokens
    ── 2 ended: exit 0, 2s
    ");
}

#[test]
fn what_an_agent_looks_for_is_told_with_the_place_behind_it() {
    let uses = [
        json!({"type": "tool_use", "name": "Grep", "input": {"path": "/tree/src", "pattern": "fn main"}}),
        json!({"type": "tool_use", "name": "Glob", "input": {"pattern": "**/*.rs"}}),
        json!({"type": "tool_use", "name": "LS", "input": {"path": "/elsewhere"}}),
    ];
    let said = json!({"type": "assistant", "message": {"content": uses}});
    let init = json!({"type": "system", "subtype": "init", "session_id": "s", "cwd": "/tree"});
    let world = told(&format!("{init}\n{said}\n"));
    let seen = world.prodigy(&["logs", "job-1"]).stdout;
    let lines: Vec<_> = seen.lines().filter(|line| line.contains('›')).collect();
    assert_snapshot!(lines.join("\n"), @"
    › Grep  fn main in src
    › Glob  **/*.rs
    › LS  /elsewhere
    ");
}
