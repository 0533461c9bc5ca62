//! Tests of the outcome that all the evidence leads to.

use std::io::ErrorKind;

use jiff::tz::TimeZone;

use super::{corpus::recorded, listen};
use crate::{
    agent::{
        AgentOutcome, Conclusion, QuotaKind, RunEvidence, StreamDialect, StreamState, evaluate_run,
    },
    failure::{ReasonCode, classify::ProcessEnd},
};

static UTC: TimeZone = TimeZone::UTC;

fn evidence(heard: &StreamState, end: ProcessEnd) -> RunEvidence<'_> {
    RunEvidence {
        end,
        oom_killed: false,
        heard,
        stderr: "",
        wants_structured: false,
        now: "2026-11-16T09:00:00Z".parse().unwrap(),
        zone: &UTC,
    }
}

fn heard(name: &str) -> StreamState {
    let (dialect, stream) = recorded(name);
    listen(dialect, &stream).0
}

fn short(report: &AgentOutcome) -> String {
    match &report.conclusion {
        Conclusion::Answered => "answered".to_owned(),
        Conclusion::Limited(limit) => format!("limited: {}", limit.message),
        Conclusion::Failed { kind, message } => format!("{kind}: {message}"),
    }
}

#[test]
fn how_a_process_ended_counts_as_well() {
    let nothing = StreamState::new(StreamDialect::Claude);
    let killed = heard("claude/killed");
    let answered = heard("claude/text");
    let refused = heard("claude/api-529");
    let limited = heard("claude/hand-limit-stalled");
    let streams = [&nothing, &killed, &answered, &refused, &limited];
    let ends = [
        ProcessEnd::Exited(0),
        ProcessEnd::Exited(1),
        ProcessEnd::Exited(127),
        ProcessEnd::Signaled(9),
        ProcessEnd::Signaled(11),
        ProcessEnd::TimedOut,
        ProcessEnd::Idle,
        ProcessEnd::Stopped,
        ProcessEnd::NotStarted(Some(ErrorKind::NotFound)),
    ];
    let names = ["nothing heard", "no result", "an answer", "an error", "a limit"];
    let mut rows = Vec::new();
    for end in ends {
        rows.push(format!("{end:?}"));
        for (name, heard) in names.iter().zip(streams) {
            rows.push(format!("  {name}: {}", short(&evaluate_run(evidence(heard, end)))));
        }
    }
    insta::assert_snapshot!(rows.join("\n"), @"
    Exited(0)
      nothing heard: agent_crashed: the agent exited with code 0 without a result
      no result: agent_crashed: the agent exited with code 0 without a result
      an answer: answered
      an error: provider_overloaded: API Error: 529 Overloaded. This is a server-side issue, usually temporary — try again in a moment. If it persists, check your inference gateway (127.0.0.1:8391)
      a limit: limited: the account's limit `five_hour` is reached
    Exited(1)
      nothing heard: agent_crashed: the agent exited with code 1 without a result
      no result: agent_crashed: the agent exited with code 1 without a result
      an answer: agent_error: the agent exited with code 1 although it answered
      an error: provider_overloaded: API Error: 529 Overloaded. This is a server-side issue, usually temporary — try again in a moment. If it persists, check your inference gateway (127.0.0.1:8391)
      a limit: limited: the account's limit `five_hour` is reached
    Exited(127)
      nothing heard: spawn_failed: the agent exited with code 127 without a result
      no result: spawn_failed: the agent exited with code 127 without a result
      an answer: agent_error: the agent exited with code 127 although it answered
      an error: provider_overloaded: API Error: 529 Overloaded. This is a server-side issue, usually temporary — try again in a moment. If it persists, check your inference gateway (127.0.0.1:8391)
      a limit: limited: the account's limit `five_hour` is reached
    Signaled(9)
      nothing heard: agent_crashed: the agent was ended by signal 9
      no result: agent_crashed: the agent was ended by signal 9
      an answer: agent_crashed: the agent was ended by signal 9
      an error: provider_overloaded: API Error: 529 Overloaded. This is a server-side issue, usually temporary — try again in a moment. If it persists, check your inference gateway (127.0.0.1:8391)
      a limit: limited: the account's limit `five_hour` is reached
    Signaled(11)
      nothing heard: agent_crashed: the agent was ended by signal 11
      no result: agent_crashed: the agent was ended by signal 11
      an answer: agent_crashed: the agent was ended by signal 11
      an error: provider_overloaded: API Error: 529 Overloaded. This is a server-side issue, usually temporary — try again in a moment. If it persists, check your inference gateway (127.0.0.1:8391)
      a limit: limited: the account's limit `five_hour` is reached
    TimedOut
      nothing heard: timeout: the agent outlived its time limit
      no result: timeout: the agent outlived its time limit
      an answer: timeout: the agent outlived its time limit
      an error: timeout: the agent outlived its time limit
      a limit: limited: the account's limit `five_hour` is reached
    Idle
      nothing heard: stalled: the agent printed nothing for too long
      no result: stalled: the agent printed nothing for too long
      an answer: stalled: the agent printed nothing for too long
      an error: stalled: the agent printed nothing for too long
      a limit: limited: the account's limit `five_hour` is reached
    Stopped
      nothing heard: cancelled: the run was stopped
      no result: cancelled: the run was stopped
      an answer: cancelled: the run was stopped
      an error: cancelled: the run was stopped
      a limit: limited: the account's limit `five_hour` is reached
    NotStarted(Some(NotFound))
      nothing heard: spawn_failed: the agent could not be started
      no result: spawn_failed: the agent could not be started
      an answer: spawn_failed: the agent could not be started
      an error: spawn_failed: the agent could not be started
      a limit: limited: the account's limit `five_hour` is reached
    ");
}

#[test]
fn a_kernel_without_memory_explains_a_kill_and_nothing_else() {
    let code = |name: &str, end| {
        let heard = heard(name);
        short(&evaluate_run(RunEvidence { oom_killed: true, ..evidence(&heard, end) }))
    };
    insta::assert_snapshot!(code("claude/killed", ProcessEnd::Signaled(9)), @"oom_killed: the agent was ended by signal 9");
    insta::assert_snapshot!(code("claude/killed", ProcessEnd::Exited(137)), @"oom_killed: the agent exited with code 137 without a result");
    // It explains an error after an answer as well.
    insta::assert_snapshot!(code("claude/text", ProcessEnd::Exited(137)), @"oom_killed: the agent exited with code 137 although it answered");
    // Something that the agent ran, and not the agent itself.
    insta::assert_snapshot!(code("claude/text", ProcessEnd::Exited(0)), @"answered");
}

#[test]
fn what_is_said_outside_the_stream_explains_an_end_without_a_result() {
    let errors = [
        "error: unknown option '--nonsense'",
        "Error: Input must be provided either through stdin or as a prompt argument when using --print",
        "Error: connect ECONNREFUSED 127.0.0.1:443",
        "Invalid API key · Please run /login",
        "write EPIPE: ENOSPC: no space left on device",
        "You've hit your session limit · resets 8pm (UTC)",
        "Claude AI usage limit reached|1794826800",
        "Your credit balance is too low to access the Anthropic API",
        "HTTP error 402 Payment Required",
        "",
    ];
    let heard = StreamState::new(StreamDialect::Claude);
    let row = |stderr| {
        short(&evaluate_run(RunEvidence { stderr, ..evidence(&heard, ProcessEnd::Exited(1)) }))
    };
    insta::assert_snapshot!(errors.map(row).join("\n"), @"
    agent_error: the agent exited with code 1 without a result: error: unknown option '--nonsense'
    agent_error: the agent exited with code 1 without a result: Error: Input must be provided either through stdin or as a prompt argument when using --print
    network_error: the agent exited with code 1 without a result: Error: connect ECONNREFUSED 127.0.0.1:443
    limited: the agent exited with code 1 without a result: Invalid API key · Please run /login
    disk_full: the agent exited with code 1 without a result: write EPIPE: ENOSPC: no space left on device
    limited: You've hit your session limit · resets 8pm (UTC)
    limited: Claude AI usage limit reached|1794826800
    limited: Your credit balance is too low to access the Anthropic API
    limited: HTTP error 402 Payment Required
    agent_crashed: the agent exited with code 1 without a result
    ");
}

#[test]
fn people_are_told_why() {
    let names = [
        "claude/api-404",
        "claude/local-command",
        "claude/local-command-silent",
        "claude/max-turns",
        "claude/refusal",
        "claude/resume-unknown-session",
        "claude/says-nothing",
        "claude/schema-broken",
        "claude/schema-ignored",
        "claude/subscription-weekly",
        "codex/api-401",
        "codex/context-window",
    ];
    let row = |name: &str| {
        let heard = heard(name);
        let evidence = evidence(&heard, ProcessEnd::Exited(0));
        format!(
            "{name}: {}",
            short(&evaluate_run(RunEvidence { wants_structured: true, ..evidence }))
        )
    };
    insta::assert_snapshot!(names.map(row).join("\n"), @"
    claude/api-404: agent_error: There's an issue with the selected model (claude-opus-5-5). It may not exist or you may not have access to it. Run --model to pick a different model
    claude/local-command: agent_error: the agent did not ask its model: Total cost: $0.0000 Total duration (API): 0s Total duration (wall): 0s Total code changes: 0 lines added, 0 lines removed Usage: 0 input, 0 output, 0 cache read, 0 cache write
    claude/local-command-silent: agent_error: the agent did not ask its model
    claude/max-turns: turn_limit: Reached maximum number of turns (2)
    claude/refusal: agent_refused: API Error: Opus 5.5's safeguards flagged this message (https://www.anthropic.com/legal/aup). This sometimes happens with safe, normal conversations. Claude Code can't respond to this message with Opus 5.5. Try rephrasing the request in a new session or change your model. Learn more: https://support.claude.com/en/articles/8106465 Message ID: msg_62de69ad45bf4bf8bebd76df39a64b9d
    claude/resume-unknown-session: agent_error: No conversation found with session ID: 11111111-1111-4111-8111-111111111111
    claude/says-nothing: output_unparseable: the agent's answer is not in the form that its schema asks for
    claude/schema-broken: schema_invalid: Failed to provide valid structured output after 2 attempts — last StructuredOutput error: Output does not match required schema: root: must have required property 'summary', /files: must be integer
    claude/schema-ignored: output_unparseable: the agent's answer is not in the form that its schema asks for
    claude/subscription-weekly: limited: You've hit your weekly limit · resets Nov 20, 4am (America/New_York)
    codex/api-401: limited: unexpected status 401 Unauthorized: Incorrect API key provided: sk-test., url: http://127.0.0.1:8392/v1/responses
    codex/context-window: context_overflow: Codex ran out of room in the model's context window. Start a new thread or clear earlier history before retrying
    ");
}

#[test]
fn an_agent_that_talks_about_limits_has_reached_none() {
    let lines = br#"{"type":"assistant","message":{"id":"a","model":"m","content":[{"type":"text","text":"x"}],"usage":{"input_tokens":1}}}
{"type":"result","subtype":"success","is_error":false,"num_turns":1,"result":"I fixed the test `You've hit your session limit, resets 8pm (UTC)`; credit balance is too low is handled as well"}"#;
    let (heard, _) = listen(StreamDialect::Claude, lines);
    let report = evaluate_run(evidence(&heard, ProcessEnd::Exited(0)));
    assert_eq!(report.conclusion, Conclusion::Answered);
}

#[test]
fn a_limit_that_was_told_of_does_not_explain_another_trouble() {
    let event = r#"{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":4102444800,"rateLimitType":"five_hour"}}"#;
    let code = |fields: &str| {
        let result = r#"{"type":"result","subtype":"success","num_turns":1,"result":"x""#;
        let lines = format!("{event}\n{result},{fields}}}");
        let (heard, _) = listen(StreamDialect::Claude, lines.as_bytes());
        short(&evaluate_run(evidence(&heard, ProcessEnd::Exited(0))))
    };
    let refusal = r#""is_error":true,"stop_reason":"refusal""#;
    insta::assert_snapshot!(code(refusal), @"agent_refused: x");
    insta::assert_snapshot!(code(r#""is_error":true,"api_error_status":429"#), @"limited: x");
    insta::assert_snapshot!(code(r#""is_error":true"#), @"limited: x");
    insta::assert_snapshot!(code(r#""is_error":false"#), @"answered");
}

#[test]
fn what_only_money_lifts_is_a_limit_whatever_is_said_about_it() {
    let line = br#"{"type":"result","subtype":"success","is_error":true,"num_turns":1,"result":"ask your administrator","api_error":"billing_error"}"#;
    let (heard, _) = listen(StreamDialect::Claude, line);
    let report = evaluate_run(evidence(&heard, ProcessEnd::Exited(1)));
    let Conclusion::Limited(limit) = report.conclusion else { panic!("{report:?}") };
    assert_eq!((limit.kind, limit.resets_at), (QuotaKind::Credits, None));
    assert_eq!(limit.message, "ask your administrator");
}

#[test]
fn silence_after_work_is_an_answer() {
    let lines = br#"{"type":"assistant","message":{"id":"a","model":"m","content":[{"type":"tool_use","name":"Bash","input":{"command":"true"}}]}}
{"type":"result","subtype":"success","is_error":false,"num_turns":2,"result":""}"#;
    let (heard, _) = listen(StreamDialect::Claude, lines);
    let report = evaluate_run(evidence(&heard, ProcessEnd::Exited(0)));
    assert_eq!(report.conclusion, Conclusion::Answered);
    assert_eq!(report.turns, Some(2));
}

#[test]
fn no_single_field_of_a_result_is_believed() {
    let code = |fields: &str| {
        let line = format!(r#"{{"type":"result","num_turns":1,"result":"x",{fields}}}"#);
        let (heard, _) = listen(StreamDialect::Claude, line.as_bytes());
        match evaluate_run(evidence(&heard, ProcessEnd::Exited(0))).conclusion {
            Conclusion::Answered => None,
            Conclusion::Limited(limit) => panic!("{limit:?}"),
            Conclusion::Failed { kind, .. } => Some(kind),
        }
    };
    let fine = r#""subtype":"success","is_error":false"#;
    assert_eq!(code(fine), None);
    assert_eq!(code(r#""subtype":"success""#), Some(ReasonCode::OutputUnparseable));
    assert_eq!(code(r#""subtype":"success","is_error":"no""#), Some(ReasonCode::OutputUnparseable));
    assert_eq!(code(r#""subtype":"success","is_error":true"#), Some(ReasonCode::AgentError));
    assert_eq!(
        code(r#""subtype":"error_max_turns","is_error":false"#),
        Some(ReasonCode::TurnLimit)
    );
    assert_eq!(
        code(&format!(r#"{fine},"api_error_status":529"#)),
        Some(ReasonCode::ProviderOverloaded)
    );
    assert_eq!(code(&format!(r#"{fine},"stop_reason":"refusal""#)), Some(ReasonCode::AgentRefused));
    assert_eq!(
        code(&format!(r#"{fine},"terminal_reason":"aborted_tools""#)),
        Some(ReasonCode::AgentCrashed)
    );
    assert_eq!(code(&format!(r#"{fine},"terminal_reason":"completed""#)), None);
}
