//! Recorded streams of real agents, and the outcomes they lead to.

use std::{collections::BTreeSet, fs, path::PathBuf};

use jiff::tz::TimeZoneDatabase;

use super::listen;
use crate::{
    agent::{AgentOutcome, Conclusion, RunEvidence, StreamDialect, TokenUsage, evaluate_run},
    failure::classify::ProcessEnd,
};

/// A stream and how its process ended.
struct Run {
    name: &'static str,
    end: ProcessEnd,
    stderr: &'static str,
    wants_structured: bool,
}

const fn ended(name: &'static str, end: ProcessEnd) -> Run {
    Run { name, end, stderr: "", wants_structured: false }
}

const fn exited(name: &'static str, code: i32) -> Run {
    ended(name, ProcessEnd::Exited(code))
}

/// The error of Codex about a thread that it does not know.
const UNKNOWN_THREAD: &str = "Error: thread/resume: thread/resume failed: no rollout found for thread id 11111111-1111-4111-8111-111111111111 (code -32600)";
/// The error of Codex about a patch that it did not allow.
const PATCH_REJECTED: &str = "2026-11-16T09:27:16.714049Z ERROR codex_core::tools::router: error=patch rejected: writing is blocked by read-only sandbox; rejected by user approval settings";

const RUNS: &[Run] = &[
    exited("claude/api-400", 1),
    exited("claude/api-401", 1),
    exited("claude/api-403", 1),
    exited("claude/api-404", 1),
    exited("claude/api-413", 1),
    exited("claude/api-429-unified", 1),
    exited("claude/api-429", 1),
    exited("claude/api-500", 1),
    exited("claude/api-502", 1),
    exited("claude/api-503", 1),
    exited("claude/api-504", 1),
    exited("claude/api-529", 1),
    exited("claude/commit", 0),
    exited("claude/connection-refused", 1),
    exited("claude/context-window", 1),
    exited("claude/denied-tool", 0),
    exited("claude/hand-garbage", 1),
    exited("claude/hand-limit-epoch-called-success", 0),
    exited("claude/hand-limit-epoch", 1),
    exited("claude/hand-limit-lifted", 0),
    exited("claude/hand-limit-milliseconds", 1),
    ended("claude/hand-limit-stalled", ProcessEnd::Idle),
    exited("claude/hand-no-is-error", 0),
    exited("claude/hand-older-result", 0),
    exited("claude/hand-out-of-credits", 1),
    exited("claude/hand-torn-result", 0),
    exited("claude/hand-unknown-events", 0),
    ended("claude/killed", ProcessEnd::Signaled(9)),
    exited("claude/local-command-silent", 0),
    exited("claude/local-command", 0),
    exited("claude/max-budget", 1),
    exited("claude/max-turns", 1),
    exited("claude/no-credit", 1),
    exited("claude/no-such-host", 1),
    exited("claude/not-logged-in", 1),
    exited("claude/output-too-long", 1),
    exited("claude/overloaded-midway", 0),
    exited("claude/partial-messages", 0),
    exited("claude/prompt-too-long", 1),
    exited("claude/refusal", 1),
    exited("claude/resume-unknown-session", 1),
    exited("claude/resumed", 0),
    exited("claude/says-nothing", 0),
    Run { wants_structured: true, ..exited("claude/schema-broken", 1) },
    Run { wants_structured: true, ..exited("claude/schema-ignored", 0) },
    Run { wants_structured: true, ..exited("claude/schema", 0) },
    exited("claude/subagent", 0),
    exited("claude/subscription-allowed", 0),
    exited("claude/subscription-limit", 1),
    exited("claude/subscription-no-credits", 1),
    exited("claude/subscription-overage", 0),
    exited("claude/subscription-warning", 0),
    exited("claude/subscription-weekly", 1),
    exited("claude/text", 0),
    exited("claude/two-tools-one-fails", 0),
    exited("codex/api-400", 1),
    exited("codex/api-401", 1),
    exited("codex/api-403", 1),
    exited("codex/api-404", 1),
    exited("codex/api-413", 1),
    exited("codex/api-429", 1),
    exited("codex/api-500", 1),
    exited("codex/api-503", 1),
    exited("codex/commit", 0),
    ended("codex/connection-refused", ProcessEnd::TimedOut),
    exited("codex/content-filter", 1),
    exited("codex/context-window", 1),
    exited("codex/hand-declined", 0),
    exited("codex/hand-usage-limit-in-days", 1),
    exited("codex/hand-workspace-out-of-credits", 1),
    ended("codex/killed", ProcessEnd::Signaled(9)),
    exited("codex/no-key", 1),
    exited("codex/not-included", 1),
    exited("codex/patch", 0),
    exited("codex/quota", 1),
    Run { stderr: PATCH_REJECTED, ..exited("codex/read-only-patch", 0) },
    exited("codex/read-only", 0),
    exited("codex/refusal", 0),
    Run { stderr: UNKNOWN_THREAD, ..exited("codex/resume-unknown-thread", 1) },
    exited("codex/resumed", 0),
    exited("codex/says-nothing", 0),
    Run { wants_structured: true, ..exited("codex/schema-ignored", 0) },
    Run { wants_structured: true, ..exited("codex/schema", 0) },
    exited("codex/stream-cut", 1),
    exited("codex/text", 0),
    exited("codex/tool-fails", 0),
    exited("codex/usage-limit-no-time", 1),
    exited("codex/usage-limit-today", 1),
    exited("codex/usage-limit", 1),
    exited("codex/workspace-write-commit", 0),
];

fn corpus() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src/agent/corpus"))
}

/// Returns a recorded stream and the dialect it is in.
pub(super) fn recorded(name: &str) -> (StreamDialect, Vec<u8>) {
    let dialect =
        if name.starts_with("claude/") { StreamDialect::Claude } else { StreamDialect::Codex };
    (dialect, fs::read(corpus().join(format!("{name}.jsonl"))).unwrap())
}

/// Returns the names of all recorded streams.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    RUNS.iter().map(|run| run.name)
}

fn report(run: &Run) -> AgentOutcome {
    let (dialect, stream) = recorded(run.name);
    let (heard, _) = listen(dialect, &stream);
    evaluate_run(RunEvidence {
        end: run.end,
        oom_killed: false,
        heard: &heard,
        stderr: run.stderr,
        wants_structured: run.wants_structured,
        now: "2026-11-16T09:00:00Z".parse().unwrap(),
        zone: &TimeZoneDatabase::bundled().get("America/New_York").unwrap(),
    })
}

fn row(run: &Run) -> String {
    let report = report(run);
    let conclusion = match &report.conclusion {
        Conclusion::Answered => "answered".to_owned(),
        Conclusion::Limited(limit) => {
            let until = limit.resets_at.map_or_else(|| "never".to_owned(), |at| at.to_string());
            format!(
                "limited {:?} {} until {until}",
                limit.kind,
                limit.window.as_deref().unwrap_or("-")
            )
        }
        Conclusion::Failed { kind, .. } => kind.code().to_owned(),
    };
    let TokenUsage { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens } =
        report.usage;
    let mut row = format!(
        "{}: {conclusion} | {:.30} | ${} | {input_tokens}/{output_tokens}/{cache_read_tokens}/{cache_write_tokens}",
        run.name,
        report.answer.escape_debug().to_string(),
        report.cost_usd.map_or_else(|| "-".to_owned(), |cost| cost.to_string()),
    );
    for denied in &report.denied {
        row = format!("{row} | denied {}: {:.20}", denied.tool, denied.about);
    }
    if let Some(structured) = &report.structured {
        row = format!("{row} | {structured}");
    }
    row
}

#[test]
fn every_recorded_stream_has_a_row() {
    let mut files = BTreeSet::new();
    for directory in ["claude", "codex"] {
        for entry in fs::read_dir(corpus().join(directory)).unwrap() {
            let path = entry.unwrap().path();
            let stem = path.file_stem().unwrap().to_str().unwrap();
            files.insert(format!("{directory}/{stem}"));
        }
    }
    let rows: BTreeSet<String> = RUNS.iter().map(|run| run.name.to_owned()).collect();
    assert_eq!(files, rows);
}

#[test]
fn recorded_streams_lead_to_one_conclusion_each() {
    let table: Vec<String> = RUNS.iter().map(row).collect();
    insta::assert_snapshot!(table.join("\n"), @r#"
    claude/api-400: agent_error |  | $0 | 0/0/0/0
    claude/api-401: limited Access - until never |  | $0 | 0/0/0/0
    claude/api-403: limited Access - until never |  | $0 | 0/0/0/0
    claude/api-404: agent_error |  | $0 | 0/0/0/0
    claude/api-413: payload_too_large |  | $0 | 0/0/0/0
    claude/api-429-unified: rate_limited |  | $0 | 0/0/0/0
    claude/api-429: rate_limited |  | $0 | 0/0/0/0
    claude/api-500: dependency_unavailable |  | $0 | 0/0/0/0
    claude/api-502: dependency_unavailable |  | $0 | 0/0/0/0
    claude/api-503: provider_overloaded |  | $0 | 0/0/0/0
    claude/api-504: dependency_unavailable |  | $0 | 0/0/0/0
    claude/api-529: provider_overloaded |  | $0 | 0/0/0/0
    claude/commit: answered | done | $0.00236 | 200/40/1800/80
    claude/connection-refused: network_error |  | $0 | 0/0/0/0
    claude/context-window: context_overflow |  | $0.00472 | 400/80/3600/160
    claude/denied-tool: answered | I was not allowed to commit, s | $0.00236 | 200/40/1800/80 | denied Bash: echo done > agent.tx
    claude/hand-garbage: agent_error |  | $- | 0/0/0/0
    claude/hand-limit-epoch-called-success: limited Usage - until 2026-11-16T11:00:00Z |  | $0 | 0/0/0/0
    claude/hand-limit-epoch: limited Usage - until 2026-11-16T11:00:00Z |  | $0 | 0/0/0/0
    claude/hand-limit-lifted: answered | done | $0.00118 | 100/20/900/40
    claude/hand-limit-milliseconds: limited Usage five_hour until 2026-11-16T11:00:00Z |  | $0 | 0/0/0/0
    claude/hand-limit-stalled: limited Usage five_hour until 2026-11-16T11:00:00Z |  | $- | 0/0/0/0
    claude/hand-no-is-error: output_unparseable |  | $0.00118 | 100/20/900/40
    claude/hand-older-result: answered | done | $0.00118 | 100/20/900/40
    claude/hand-out-of-credits: limited Credits overage until never |  | $0 | 0/0/0/0
    claude/hand-torn-result: output_unparseable |  | $- | 100/1/900/40
    claude/hand-unknown-events: answered | done | $0.00118 | 100/20/900/40
    claude/killed: agent_crashed |  | $- | 100/1/900/40
    claude/local-command-silent: agent_error |  | $0 | 0/0/0/0
    claude/local-command: agent_error | Total cost:            $0.0000 | $0 | 0/0/0/0
    claude/max-budget: budget_exceeded |  | $0.00354 | 300/60/2700/120
    claude/max-turns: turn_limit |  | $0.00236 | 200/40/1800/80
    claude/no-credit: limited Credits - until never |  | $0 | 0/0/0/0
    claude/no-such-host: network_error |  | $0 | 0/0/0/0
    claude/not-logged-in: limited Access - until never |  | $0 | 0/0/0/0
    claude/output-too-long: context_overflow |  | $0.00472 | 400/80/3600/160
    claude/overloaded-midway: answered | done | $0.00008 | 5/3/0/0
    claude/partial-messages: answered | done | $0.00236 | 200/40/1800/80
    claude/prompt-too-long: context_overflow |  | $0 | 0/0/0/0
    claude/refusal: agent_refused |  | $0.00236 | 200/40/1800/80
    claude/resume-unknown-session: agent_error |  | $0 | 0/0/0/0
    claude/resumed: answered | done | $0.00118 | 100/20/900/40
    claude/says-nothing: agent_crashed |  | $0.00236 | 200/40/1800/80
    claude/schema-broken: schema_invalid |  | $0.00236 | 200/40/1800/80
    claude/schema-ignored: output_unparseable | There are three files. | $0.00236 | 200/40/1800/80
    claude/schema: answered | {\"files\":3,\"summary\":\"fin | $0.00118 | 100/20/900/40 | {"files":3,"summary":"fine"}
    claude/subagent: answered | done | $0.00472 | 400/80/3600/160
    claude/subscription-allowed: answered | done | $0.00059 | 100/20/900/40
    claude/subscription-limit: limited Usage five_hour until 2026-11-16T11:00:00Z |  | $0 | 0/0/0/0
    claude/subscription-no-credits: limited Usage five_hour until 2026-11-16T11:00:00Z |  | $0 | 0/0/0/0
    claude/subscription-overage: answered | done | $0.00059 | 100/20/900/40
    claude/subscription-warning: answered | done | $0.00059 | 100/20/900/40
    claude/subscription-weekly: limited Usage seven_day until 2026-11-20T09:00:00Z |  | $0 | 0/0/0/0
    claude/text: answered | done | $0.00118 | 100/20/900/40
    claude/two-tools-one-fails: answered | done | $0.00236 | 200/40/1800/80
    codex/api-400: agent_error |  | $- | 0/0/0/0
    codex/api-401: limited Access - until never |  | $- | 0/0/0/0
    codex/api-403: limited Access - until never |  | $- | 0/0/0/0
    codex/api-404: agent_error |  | $- | 0/0/0/0
    codex/api-413: payload_too_large |  | $- | 0/0/0/0
    codex/api-429: rate_limited |  | $- | 0/0/0/0
    codex/api-500: provider_overloaded |  | $- | 0/0/0/0
    codex/api-503: provider_overloaded |  | $- | 0/0/0/0
    codex/commit: answered | done | $- | 280/40/1800/0
    codex/connection-refused: timeout |  | $- | 0/0/0/0
    codex/content-filter: agent_refused |  | $- | 0/0/0/0
    codex/context-window: context_overflow |  | $- | 0/0/0/0
    codex/hand-declined: answered | done | $- | 280/40/1800/0 | denied command_execution: echo done > agent.tx
    codex/hand-usage-limit-in-days: limited Usage - until 2026-11-19T13:12:00Z |  | $- | 0/0/0/0
    codex/hand-workspace-out-of-credits: limited Credits - until never |  | $- | 0/0/0/0
    codex/killed: agent_crashed |  | $- | 0/0/0/0
    codex/no-key: limited Access - until never |  | $- | 0/0/0/0
    codex/not-included: limited Credits - until never |  | $- | 0/0/0/0
    codex/patch: answered | done | $- | 280/40/1800/0
    codex/quota: limited Credits - until never |  | $- | 0/0/0/0
    codex/read-only-patch: answered | done | $- | 280/40/1800/0 | denied file_change: patch rejected: writ
    codex/read-only: answered | done | $- | 280/40/1800/0 | denied command_execution: echo done > agent.tx
    codex/refusal: agent_crashed |  | $- | 140/20/900/0
    codex/resume-unknown-thread: agent_error |  | $- | 0/0/0/0
    codex/resumed: answered | done | $- | 280/40/1800/0
    codex/says-nothing: agent_crashed |  | $- | 140/20/900/0
    codex/schema-ignored: output_unparseable | There are three files. | $- | 140/20/900/0
    codex/schema: answered | {\"files\":3,\"summary\":\"fin | $- | 140/20/900/0 | {"files":3,"summary":"fine"}
    codex/stream-cut: network_error |  | $- | 0/0/0/0
    codex/text: answered | done | $- | 140/20/900/0
    codex/tool-fails: answered | done | $- | 280/40/1800/0
    codex/usage-limit-no-time: limited Usage - until never |  | $- | 0/0/0/0
    codex/usage-limit-today: limited Usage - until 2026-11-16T09:53:00Z |  | $- | 0/0/0/0
    codex/usage-limit: limited Usage - until 2026-11-19T09:00:00Z |  | $- | 0/0/0/0
    codex/workspace-write-commit: answered | done | $- | 280/40/1800/0 | denied command_execution: echo done > agent.tx
    "#);
}
