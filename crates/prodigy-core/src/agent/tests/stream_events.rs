//! Tests of the notices while an agent works.

use jiff::tz::TimeZone;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{
    corpus::{names, recorded},
    listen,
};
use crate::{
    agent::{
        AgentOutcome, Conclusion, RunEvidence, StreamDialect, StreamEvent, StreamState, TokenUsage,
        evaluate_run,
    },
    failure::classify::ProcessEnd,
};

fn told(name: &str) -> String {
    let (dialect, stream) = recorded(name);
    let (_, notices) = listen(dialect, &stream);
    notices.iter().map(|notice| format!("{notice:?}")).collect::<Vec<_>>().join("\n")
}

fn report(heard: &StreamState) -> AgentOutcome {
    evaluate_run(RunEvidence {
        end: ProcessEnd::Exited(0),
        oom_killed: false,
        heard,
        stderr: "",
        wants_structured: false,
        now: "2026-11-16T09:00:00Z".parse().unwrap(),
        zone: &TimeZone::UTC,
    })
}

#[test]
fn claude_tells_what_it_does() {
    insta::assert_snapshot!(told("claude/two-tools-one-fails"), @r#"
    Session { id: "2960fe45-59f5-4191-8833-2c351a5c75b8", model: Some("claude-opus-5-5"), cwd: Some("/home/ann/repo"), permission_mode: Some("bypassPermissions") }
    Spoke { text: "Two at once." }
    Usage(TokenUsage { input_tokens: 100, output_tokens: 1, cache_read_tokens: 900, cache_write_tokens: 40 })
    Tool { name: "Bash", about: "echo one" }
    Tool { name: "Bash", about: "ls /does-not-exist" }
    ToolFailed { text: "Exit code 2\nls: cannot access '/does-not-exist': No such file or directory" }
    Spoke { text: "done" }
    Usage(TokenUsage { input_tokens: 200, output_tokens: 2, cache_read_tokens: 1800, cache_write_tokens: 80 })
    Usage(TokenUsage { input_tokens: 200, output_tokens: 40, cache_read_tokens: 1800, cache_write_tokens: 80 })
    Ended
    "#);
}

#[test]
fn claude_tells_of_limits_and_retries() {
    let names = ["claude/subscription-warning", "claude/subscription-limit", "claude/api-529"];
    insta::assert_snapshot!(names.map(told).join("\n--\n"), @r#"
    Session { id: "46ea8726-df4b-4ad3-80bf-9c723f283ab3", model: Some("claude-sonnet-5-5"), cwd: Some("/home/ann/repo"), permission_mode: Some("bypassPermissions") }
    Spoke { text: "done" }
    Usage(TokenUsage { input_tokens: 100, output_tokens: 1, cache_read_tokens: 900, cache_write_tokens: 40 })
    Utilization { window: "five_hour", share: 0.91, resets_at: Some(2026-11-16T10:00:00Z) }
    Utilization { window: "seven_day", share: 0.4, resets_at: Some(2026-11-17T09:00:00Z) }
    Usage(TokenUsage { input_tokens: 100, output_tokens: 20, cache_read_tokens: 900, cache_write_tokens: 40 })
    Ended
    --
    Session { id: "eb68c840-0001-4af2-afd4-0a871d91f2f4", model: Some("claude-sonnet-5-5"), cwd: Some("/home/ann/repo"), permission_mode: Some("bypassPermissions") }
    Limit(QuotaLimit { kind: Usage, resets_at: Some(2026-11-16T11:00:00Z), window: Some("five_hour"), message: "the account's limit `five_hour` is reached" })
    Spoke { text: "You've hit your 5-hour limit · resets 6am (America/New_York)" }
    Ended
    --
    Session { id: "1becdb00-b549-4cc9-821e-753637613d42", model: Some("claude-opus-5-5"), cwd: Some("/home/ann/repo"), permission_mode: Some("bypassPermissions") }
    Retrying { attempt: 1, status: Some(529), error: "overloaded" }
    Spoke { text: "API Error: 529 Overloaded. This is a server-side issue, usually temporary — try again in a moment. If it persists, check your inference gateway (127.0.0.1:8391)." }
    Ended
    "#);
}

#[test]
fn a_limit_beyond_which_usage_is_paid_for_is_none() {
    let is_limit = |name| told(name).contains("Limit(");
    assert!(is_limit("claude/subscription-limit"));
    assert!(!is_limit("claude/subscription-overage"));
    let (dialect, stream) = recorded("claude/subscription-overage");
    assert_eq!(listen(dialect, &stream).0.limit(), None);
    let (dialect, stream) = recorded("claude/hand-limit-lifted");
    assert_eq!(listen(dialect, &stream).0.limit(), None);
    let (dialect, stream) = recorded("claude/hand-limit-stalled");
    assert!(listen(dialect, &stream).0.limit().is_some());
}

#[test]
fn codex_tells_what_it_does() {
    let names = ["codex/commit", "codex/patch", "codex/api-401"];
    insta::assert_snapshot!(names.map(told).join("\n--\n"), @r#"
    Session { id: "01a1e3af-051e-7263-9b55-330068945396", model: None, cwd: None, permission_mode: None }
    Spoke { text: "I will make the change." }
    Tool { name: "command_execution", about: "echo done > agent.txt && git add -A && git commit -qm 'agent work'" }
    Spoke { text: "done" }
    Usage(TokenUsage { input_tokens: 280, output_tokens: 40, cache_read_tokens: 1800, cache_write_tokens: 0 })
    Ended
    --
    Session { id: "01a1e3ae-8382-7430-8d2f-403a9cafe254", model: None, cwd: None, permission_mode: None }
    Tool { name: "file_change", about: "add /home/ann/repo/note.txt" }
    Spoke { text: "done" }
    Usage(TokenUsage { input_tokens: 280, output_tokens: 40, cache_read_tokens: 1800, cache_write_tokens: 0 })
    Ended
    --
    Session { id: "01a1e3af-52bb-73b1-a910-71cefc206c29", model: None, cwd: None, permission_mode: None }
    Retrying { attempt: 1, status: Some(401), error: "unexpected status 401 Unauthorized: Incorrect API key provided: sk-test., url: http://127.0.0.1:8392/v1/responses" }
    Ended
    "#);
}

#[test]
fn what_a_message_wrote_is_known_at_its_end_where_parts_are_streamed() {
    let (dialect, stream) = recorded("claude/partial-messages");
    let (_, notices) = listen(dialect, &stream);
    let output = |notice: &StreamEvent| match notice {
        StreamEvent::Usage(usage) => Some(usage.output_tokens),
        StreamEvent::Session { .. }
        | StreamEvent::Tool { .. }
        | StreamEvent::Spoke { .. }
        | StreamEvent::ToolFailed { .. }
        | StreamEvent::Retrying { .. }
        | StreamEvent::Limit(_)
        | StreamEvent::Utilization { .. }
        | StreamEvent::Ended => None,
    };
    let outputs: Vec<u64> = notices.iter().filter_map(output).collect();
    assert_eq!(outputs, [1, 20, 21, 40]);
}

#[test]
fn a_session_that_codex_resumes_counts_only_what_is_new() {
    let (_, stream) = recorded("codex/resumed");
    let before = TokenUsage {
        input_tokens: 140,
        output_tokens: 20,
        cache_read_tokens: 900,
        ..TokenUsage::default()
    };
    let mut heard = StreamState::resumed(StreamDialect::Codex, before, 0.0);
    for line in stream.split(|byte| *byte == b'\n') {
        heard.handle_line(line);
    }
    assert_eq!(heard.usage(), before);
}

/// Returns what the last run of a session used and cost, by a recording without the newest field.
fn older_resumed(before: TokenUsage, before_usd: f64) -> (TokenUsage, Option<f64>) {
    let (_, stream) = recorded("claude/resumed");
    let mut heard = StreamState::resumed(StreamDialect::Claude, before, before_usd);
    for line in stream.split(|byte| *byte == b'\n') {
        let text = String::from_utf8_lossy(line);
        heard.handle_line(text.replace("model_usage_since_last_result", "x").as_bytes());
    }
    (heard.usage(), heard.cost_usd())
}

#[test]
fn a_session_that_an_older_claude_resumes_counts_only_what_is_new() {
    let one = TokenUsage {
        input_tokens: 100,
        output_tokens: 20,
        cache_read_tokens: 900,
        cache_write_tokens: 40,
    };
    let (usage, cost) = older_resumed(one, 0.00118);
    assert_eq!(usage, one);
    assert!((cost.unwrap() - 0.00118).abs() < 1e-9, "{cost:?}");
    // Nobody heard what the first process used, so the sum is news.
    let (usage, cost) = older_resumed(TokenUsage::default(), 0.0);
    assert_eq!((usage.input_tokens, cost), (200, Some(0.00236)));
    // A sum that is too small for that is one of the last process alone.
    let much = TokenUsage { input_tokens: 5_000, ..one };
    let (usage, cost) = older_resumed(much, 1.0);
    assert_eq!((usage.input_tokens, cost), (200, Some(0.00236)));
}

#[test]
fn ends_of_lines_and_broken_characters_do_not_matter() {
    let mut heard = StreamState::new(StreamDialect::Claude);
    let said = br#"{"type":"assistant","message":{"model":"m","content":[{"type":"text","text":"a\ud83d b"#;
    let line = [said.as_slice(), b"\xff\"}]}}\r\n"].concat();
    let notices = heard.handle_line(&line);
    let text = "a\u{fffd}\u{fffd}\u{fffd} b\u{fffd}".to_owned();
    assert_eq!(notices, [StreamEvent::Spoke { text }]);
    assert_eq!(heard.handle_line(b"\r\n"), []);
    assert_eq!((heard.events(), heard.unparsed_lines()), (1, 0));
}

#[test]
fn lines_that_are_no_events_are_kept_for_the_end() {
    let (heard, notices) =
        listen(StreamDialect::Claude, b"Error: cannot find module\n{\"type\": \n[]\n{}\n7");
    assert_eq!(notices, []);
    assert_eq!((heard.events(), heard.unparsed_lines()), (0, 5));
    assert_eq!(heard.unparsed_tail(), "Error: cannot find module\n{\"type\":\n[]\n{}\n7\n");
}

#[test]
fn however_much_is_said_little_is_kept() {
    let mut heard = StreamState::new(StreamDialect::Claude);
    let long = "x".repeat(3 * 1024 * 1024);
    let event = |value: Value| value.to_string().into_bytes();
    for number in 0..200 {
        let id = format!("tool-{number}");
        heard.handle_line(long.as_bytes());
        heard.handle_line(&event(json!({
            "type": "system", "subtype": "permission_denied", "tool_name": "Bash", "tool_use_id": id,
            "message": &long[..9999],
        })));
        let block =
            json!({ "type": "tool_use", "name": "Bash", "input": { "command": &long[..9999] } });
        let notices = heard.handle_line(&event(json!({
            "type": "assistant",
            "message": { "id": id, "model": "m", "content": [block], "usage": { "input_tokens": 1 } },
        })));
        let Some(StreamEvent::Tool { about, .. }) = notices.first() else { panic!("{notices:?}") };
        assert_eq!(about.chars().count(), 120);
    }
    heard.handle_line(&event(json!({
        "type": "result", "is_error": false, "result": long, "structured_output": long, "num_turns": 200,
    })));
    assert_eq!(heard.usage().input_tokens, 200);
    assert!(heard.unparsed_tail().len() <= 4096);
    let report = report(&heard);
    assert_eq!(report.answer.len(), 1024 * 1024);
    assert_eq!(report.denied.len(), 20);
    assert_eq!(report.conclusion, Conclusion::Answered);
}

/// Returns an event with its fields, and those of what is in it, in another order.
fn reordered(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            // What a tool is given is shown as it is written.
            let other = |(key, value): (String, Value)| match &*key {
                "input" => (key, value),
                _ => (key, reordered(value)),
            };
            Value::Object(fields.into_iter().rev().map(other).collect::<Map<_, _>>())
        }
        Value::Array(values) => Value::Array(values.into_iter().map(reordered).collect()),
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => other,
    }
}

#[test]
fn the_order_of_fields_and_unknown_events_change_nothing() {
    for name in names() {
        let (dialect, stream) = recorded(name);
        let (heard, notices) = listen(dialect, &stream);
        let mut other = StreamState::new(dialect);
        let mut told = Vec::new();
        for line in stream.split(|byte| *byte == b'\n') {
            other.handle_line(br#"{"new":{"type":"result"},"type":"something.new"}"#);
            let line = match serde_json::from_slice::<Value>(line) {
                Ok(event) => reordered(event).to_string().into_bytes(),
                Err(_) => line.to_vec(),
            };
            told.extend(other.handle_line(&line));
        }
        assert_eq!(told, notices, "{name}");
        assert_eq!(report(&other), report(&heard), "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_stream_that_breaks_off_is_no_answer(
        name in prop::sample::select(names().collect::<Vec<_>>()),
        cut in 0.0..1.0_f64,
    ) {
        // There, a whole result comes first, and then another one.
        prop_assume!(name != "claude/subagent");
        let (dialect, stream) = recorded(name);
        let end = stream.trim_ascii_end().len();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a test with small numbers")]
        let cut = (cut * end as f64) as usize;
        let (heard, _) = listen(dialect, &stream[..cut]);
        prop_assert_ne!(report(&heard).conclusion, Conclusion::Answered);
    }

    #[test]
    fn no_line_is_too_strange(
        line in prop::collection::vec(any::<u8>(), 0..200),
        kind in prop::sample::select(&["assistant", "user", "result", "system", "rate_limit_event", "stream_event",
            "item.completed", "item.started", "turn.completed", "turn.failed", "error", "thread.started"][..]),
        field in prop::sample::select(&["message", "usage", "item", "error", "result", "is_error", "rate_limit_info",
            "permission_denials", "modelUsage", "errors", "event", "subtype", "content", "thread_id"][..]),
        value in prop::sample::select(&["7", "-1e999", "null", "[[]]", "{}", "\"x\"", "true", "[{\"type\":\"text\"}]",
            "{\"content\":[{\"type\":\"tool_use\"}]}", "{\"type\":\"command_execution\",\"changes\":[{}]}"][..]),
    ) {
        for dialect in [StreamDialect::Claude, StreamDialect::Codex] {
            let mut heard = StreamState::new(dialect);
            heard.handle_line(&line);
            let event = format!("{{\"type\":\"{kind}\",\"{field}\":{value}}}");
            heard.handle_line(event.as_bytes());
            prop_assert_eq!(heard.events() + heard.unparsed_lines() > 0, true);
            prop_assert!(report(&heard).answer.is_empty());
        }
    }
}
