//! The meaning of each error word of Claude Code, where nothing else tells it.

use jiff::tz::TimeZone;

use super::listen;
use crate::{
    agent::{Conclusion, RunEvidence, StreamDialect, evaluate_run},
    failure::classify::ProcessEnd,
};

static UTC: TimeZone = TimeZone::UTC;

/// Returns what a result with these fields leads to, after these lines.
fn meaning(before: &str, result: &str, fields: &str) -> String {
    let end = format!(
        r#"{{"type":"result","subtype":"success","is_error":true,"num_turns":1,"result":"{result}",{fields}}}"#
    );
    let (heard, _) = listen(StreamDialect::Claude, format!("{before}{end}").as_bytes());
    let report = evaluate_run(RunEvidence {
        end: ProcessEnd::Exited(1),
        oom_killed: false,
        heard: &heard,
        stderr: "",
        wants_structured: false,
        now: "2026-11-16T09:00:00Z".parse().unwrap(),
        zone: &UTC,
    });
    match report.conclusion {
        Conclusion::Answered => "answered".to_owned(),
        Conclusion::Limited(limit) => format!("limited ({:?})", limit.kind),
        Conclusion::Failed { kind, .. } => kind.to_string(),
    }
}

#[test]
fn each_word_of_claude_code_has_its_reason_code() {
    let words = [
        "account_on_hold",
        "api_key_auth_disabled",
        "authentication_failed",
        "autocompact_thrashing",
        "billing_error",
        "budget_exhausted",
        "cloud_credential_error",
        "computer_slept",
        "connection_failed",
        "dlp_request_denied",
        "empty_completion",
        "gateway_session_expired",
        "gateway_signin_required",
        "hook_denied",
        "invalid_credential_header",
        "long_context_credits_required",
        "malformed_tool_use_exhausted",
        "max_output_tokens",
        "max_turns",
        "model_requires_usage_credits",
        "network_edge_blocked",
        "no_response",
        "oauth_org_not_allowed",
        "org_disabled_credential",
        "overloaded",
        "prompt_too_long",
        "provider_credentials",
        "rate_limit",
        "safety_monitor_blocked",
        "server_error",
        "something_new",
        "stored_login_refused",
        "stream_idle_timeout",
        "structured_output_retry_exhausted",
        "tls_untrusted_ca",
        "usage_limit_reached",
        "verification_required",
    ];
    let row = |word: &str| {
        let fields = [r#""api_error""#, r#""terminal_reason""#];
        let [error, reason] = fields.map(|name| meaning("", "x", &format!(r#"{name}:"{word}""#)));
        let other = if error == reason { String::new() } else { format!(", as a reason {reason}") };
        format!("{word}: {error}{other}")
    };
    insta::assert_snapshot!(words.map(row).join("\n"), @"
    account_on_hold: limited (Access)
    api_key_auth_disabled: limited (Access)
    authentication_failed: limited (Access)
    autocompact_thrashing: context_overflow
    billing_error: limited (Credits)
    budget_exhausted: budget_exceeded
    cloud_credential_error: limited (Access)
    computer_slept: network_error
    connection_failed: network_error
    dlp_request_denied: permission_denied
    empty_completion: agent_crashed
    gateway_session_expired: limited (Access)
    gateway_signin_required: limited (Access)
    hook_denied: permission_denied
    invalid_credential_header: limited (Access)
    long_context_credits_required: limited (Credits)
    malformed_tool_use_exhausted: agent_crashed
    max_output_tokens: context_overflow
    max_turns: turn_limit
    model_requires_usage_credits: limited (Credits)
    network_edge_blocked: network_error
    no_response: network_error
    oauth_org_not_allowed: limited (Access)
    org_disabled_credential: limited (Access)
    overloaded: provider_overloaded
    prompt_too_long: context_overflow
    provider_credentials: limited (Access)
    rate_limit: rate_limited
    safety_monitor_blocked: agent_refused
    server_error: dependency_unavailable
    something_new: agent_error
    stored_login_refused: limited (Access)
    stream_idle_timeout: network_error
    structured_output_retry_exhausted: schema_invalid
    tls_untrusted_ca: network_error
    usage_limit_reached: limited (Usage), as a reason agent_error
    verification_required: limited (Access)
    ");
}

#[test]
fn each_status_of_a_server_has_its_reason_code() {
    let statuses = [400, 401, 403, 404, 408, 413, 429, 500, 502, 503, 504, 529];
    let row = |status: i32| {
        let code = meaning("", "x", &format!(r#""api_error_status":{status}"#));
        format!("{status}: {code}")
    };
    insta::assert_snapshot!(statuses.map(row).join("\n"), @"
    400: agent_error
    401: limited (Access)
    403: limited (Access)
    404: agent_error
    408: dependency_unavailable
    413: payload_too_large
    429: rate_limited
    500: dependency_unavailable
    502: dependency_unavailable
    503: provider_overloaded
    504: dependency_unavailable
    529: provider_overloaded
    ");
}

#[test]
fn where_a_result_has_no_word_the_message_before_it_counts_and_then_the_text() {
    let said = r#"{"type":"assistant","message":{"id":"a","model":"<synthetic>","content":[{"type":"text","text":"x"}]},"error":"authentication_failed","is_api_error_message":true}"#;
    let none = r#""errors":[]"#;
    assert_eq!(meaning("", "x", none), "agent_error");
    assert_eq!(meaning(&format!("{said}\n"), "x", none), "limited (Access)");
    assert_eq!(meaning("", "connect ECONNREFUSED 127.0.0.1:443", none), "network_error");
    let word = r#""api_error":"overloaded""#;
    assert_eq!(meaning(&format!("{said}\n"), "ECONNREFUSED", word), "provider_overloaded");
}

#[test]
fn where_more_usage_is_paid_for_a_limit_is_in_nobodys_way() {
    let told = |more: &str| {
        let info = format!(r#"{{"status":"rejected","rateLimitType":"five_hour"{more}}}"#);
        let event = format!(r#"{{"type":"rate_limit_event","rate_limit_info":{info}}}"#);
        meaning(&format!("{event}\n"), "x", r#""errors":[]"#)
    };
    assert_eq!(told(""), "limited (Usage)");
    assert_eq!(told(r#","overageStatus":"rejected","isUsingOverage":false"#), "limited (Usage)");
    for paid in [
        r#","isUsingOverage":true"#,
        r#","overageInUse":true"#,
        r#","overageStatus":"allowed""#,
        r#","overageStatus":"allowed_warning""#,
    ] {
        assert_eq!(told(paid), "agent_error", "{paid}");
    }
    // What more usage costs may be limited, too, and that limit ends.
    let spent = r#","overageDisabledReason":"out_of_credits""#;
    assert_eq!(told(spent), "limited (Credits)");
    assert_eq!(told(&format!(r#"{spent},"overageResetsAt":4102444800"#)), "limited (Usage)");
}
