//! The result of Claude Code, and what its words for trouble mean.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::{
    DeniedTool, QuotaKind, QuotaLimit, StreamEvent, StreamState, TokenUsage,
    claude::{status, tokens, tool_summary},
    json::{self, RawField, partial},
    reported_error::{ReportedError, code_for_status},
    stream::{ABOUT_CHARS, ANSWER_BYTES, SPOKEN_BYTES, StreamResult},
};
use crate::{
    failure::{ReasonCode, classify::reason_from_output},
    text::{describe_oversize, head, one_line},
};

partial! {
    /// The result of the agent.
    ClaudeResult {
        subtype, is_error, result, structured_output, num_turns, errors,
        stop_reason, terminal_reason, api_error, api_error_status,
        total_cost_usd, usage, model_usage = "modelUsage",
        since = "model_usage_since_last_result", permission_denials,
    }
}

partial! {
    /// The usage of one model.
    ModelUsage {
        input = "inputTokens", output = "outputTokens", cost = "costUSD",
        cache_read = "cacheReadInputTokens", cache_write = "cacheCreationInputTokens",
    }
}

partial! {
    /// A tool that was not allowed.
    PermissionDenial { tool = "tool_name", id = "tool_use_id", input = "tool_input" }
}

partial! {
    /// The stand-in for a value that was too long for its line.
    OmittedValue { bytes = "prodigy:left_out_bytes" }
}

/// Takes a result.
pub(super) fn handle_result(
    heard: &mut StreamState,
    line: &str,
    notices: &mut Vec<StreamEvent>,
) -> Option<()> {
    let event = serde_json::from_str::<ClaudeResult<'_>>(line).ok()?;
    let denials: Vec<PermissionDenial<'_>> =
        json::read(event.permission_denials).unwrap_or_default();
    for denial in denials {
        let tool = json::line(denial.tool).unwrap_or_default();
        let id = json::text(denial.id).unwrap_or_default();
        heard.add_denied_tool(id, DeniedTool { tool, about: tool_summary(denial.input) });
    }
    let before = heard.usage();
    settle(heard, &event);
    if heard.usage() != before {
        notices.push(StreamEvent::Usage(heard.usage()));
    }
    let answer = json::text(event.result).unwrap_or_default();
    let is_of_model = !heard.spoken.is_empty() && heard.spoken == head(answer.trim(), SPOKEN_BYTES);
    let trouble = trouble(heard, &event, &answer, is_of_model);
    if json::is_text(event.api_error, "usage_limit_reached") && heard.limit.is_none() {
        let message = one_line(&answer, ABOUT_CHARS);
        let limit = QuotaLimit { kind: QuotaKind::Usage, resets_at: None, window: None, message };
        heard.limit = Some(limit);
    }
    let structured = event.structured_output.map(RawValue::get).filter(|json| *json != "null");
    let length = size(event.structured_output).unwrap_or(answer.len());
    heard.set_result(
        StreamResult {
            // What the program says of an error is no answer.
            answer: if trouble.is_some() { "" } else { head(&answer, ANSWER_BYTES) }.to_owned(),
            structured: structured.filter(|_| length <= ANSWER_BYTES).map(str::to_owned),
            oversize: describe_oversize(length, ANSWER_BYTES),
            is_of_model,
            trouble,
        },
        json::count_u32(event.num_turns),
    );
    notices.push(StreamEvent::Ended);
    Some(())
}

/// Returns the size of an answer in the form of a schema, also of one that was left out of the
/// line for its size.
fn size(structured: RawField<'_>) -> Option<usize> {
    let raw = structured.filter(|raw| raw.get() != "null")?;
    let left_out = json::read::<OmittedValue<'_>>(structured).and_then(|it| json::count(it.bytes));
    let left_out = left_out.and_then(|bytes| usize::try_from(bytes).ok());
    Some(left_out.unwrap_or(0).max(raw.get().len()))
}

/// Takes what the agent used and what it cost.
///
/// A result says what was used since the one before it. Results of older versions give the sum,
/// some of them also over what earlier processes of a session used, and still older ones leave out
/// what agents below the agent used.
fn settle(heard: &mut StreamState, event: &ClaudeResult<'_>) {
    if let Some((usage, cost)) = by_model(event.since) {
        heard.counter.settle_turn(usage);
        heard.cost_usd = Some(heard.cost_usd.unwrap_or_default() + cost);
        return;
    }
    let total_usd = json::non_negative(event.total_cost_usd);
    let own = tokens(event.usage);
    match by_model(event.model_usage).filter(|(usage, _)| !usage.is_empty()) {
        Some((usage, _)) if heard.includes_earlier_runs(usage, own.unwrap_or_default()) => {
            heard.settle_session_usage(usage);
            let own_usd = total_usd.map(|total_usd| heard.cost_of_this_run(total_usd));
            heard.cost_usd = own_usd.or(heard.cost_usd);
            return;
        }
        Some((usage, _)) => heard.counter.settle_all(usage),
        None => own.into_iter().for_each(|own| heard.counter.settle_turn(own)),
    }
    heard.cost_usd = total_usd.or(heard.cost_usd);
}

/// Returns the sum over all models, if there is a list of them.
fn by_model(raw: RawField<'_>) -> Option<(TokenUsage, f64)> {
    let models: BTreeMap<String, ModelUsage<'_>> = json::read(raw)?;
    let count = |raw| json::count(raw).unwrap_or_default();
    let mut sum = (TokenUsage::default(), 0.0);
    for model in models.values() {
        sum.0 += TokenUsage {
            input_tokens: count(model.input),
            output_tokens: count(model.output),
            cache_read_tokens: count(model.cache_read),
            cache_write_tokens: count(model.cache_write),
        };
        sum.1 += json::non_negative(model.cost).unwrap_or_default();
    }
    Some(sum)
}

/// Returns what went wrong. No single field is believed: `subtype` says `success` of requests
/// that the server refused.
fn trouble(
    heard: &StreamState,
    event: &ClaudeResult<'_>,
    answer: &str,
    is_of_model: bool,
) -> Option<ReportedError> {
    let subtype = json::text(event.subtype).unwrap_or_default();
    let is_refusal = json::is_text(event.stop_reason, "refusal");
    let status = status(event.api_error_status);
    let Some(is_error) = json::flag(event.is_error) else {
        let text = "the agent's result does not say whether it is an error".to_owned();
        return Some(ReportedError { kind: Some(ReasonCode::OutputUnparseable), text });
    };
    let is_aborted =
        json::text(event.terminal_reason).is_some_and(|reason| reason.starts_with("aborted"));
    let is_fine = !is_error && !is_refusal && !is_aborted && status.is_none();
    if is_fine && !subtype.starts_with("error") {
        return None;
    }
    let errors: Vec<String> = json::read(event.errors).unwrap_or_default();
    let text = if answer.trim().is_empty() { errors.join("\n") } else { answer.to_owned() };
    let kind = is_refusal
        .then_some(ReasonCode::AgentRefused)
        .or_else(|| code_for_word(&subtype))
        .or_else(|| code_for_word(&json::text(event.terminal_reason)?))
        .or_else(|| code_for_word(&json::text(event.api_error)?))
        .or_else(|| code_for_status(status))
        // The message before a result names the cause where no server was asked.
        .or_else(|| heard.trouble.as_ref()?.kind)
        // A model may write about anything.
        .or_else(|| reason_from_output(&text).filter(|_| !is_of_model));
    Some(ReportedError { kind, text: head(&text, ANSWER_BYTES).to_owned() })
}

/// Returns what a word of the program for trouble means, as far as that is certain.
pub(super) fn code_for_word(word: &str) -> Option<ReasonCode> {
    match word {
        "error_max_turns" | "max_turns" => Some(ReasonCode::TurnLimit),
        "error_max_budget_usd" | "budget_exhausted" => Some(ReasonCode::BudgetExceeded),
        "error_max_structured_output_retries" | "structured_output_retry_exhausted" => {
            Some(ReasonCode::SchemaInvalid)
        }
        "prompt_too_long" | "max_output_tokens" | "autocompact_thrashing" => {
            Some(ReasonCode::ContextOverflow)
        }
        "connection_failed"
        | "no_response"
        | "stream_idle_timeout"
        | "computer_slept"
        | "tls_untrusted_ca"
        | "network_edge_blocked" => Some(ReasonCode::NetworkError),
        "authentication_failed"
        | "oauth_org_not_allowed"
        | "account_on_hold"
        | "verification_required"
        | "cloud_credential_error"
        | "provider_credentials"
        | "stored_login_refused"
        | "gateway_signin_required"
        | "gateway_session_expired"
        | "api_key_auth_disabled"
        | "org_disabled_credential"
        | "invalid_credential_header" => Some(ReasonCode::AuthFailed),
        "billing_error" | "model_requires_usage_credits" | "long_context_credits_required" => {
            Some(ReasonCode::QuotaExhausted)
        }
        "rate_limit" => Some(ReasonCode::RateLimited),
        "overloaded" => Some(ReasonCode::ProviderOverloaded),
        "server_error" => Some(ReasonCode::DependencyUnavailable),
        "empty_completion"
        | "malformed_tool_use_exhausted"
        | "aborted_streaming"
        | "aborted_tools" => Some(ReasonCode::AgentCrashed),
        "hook_denied" | "dlp_request_denied" => Some(ReasonCode::PermissionDenied),
        "safety_monitor_blocked" => Some(ReasonCode::AgentRefused),
        _ => None,
    }
}
