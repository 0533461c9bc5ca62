//! The outcome of an agent's run.
//!
//! Exit codes lie, and so do single fields of results. All the evidence there is leads to
//! exactly one conclusion here.

use jiff::tz::TimeZone;
use serde_json::Value;

use super::{
    DeniedTool, QuotaKind, QuotaLimit, StreamDialect, StreamState, TokenUsage, codex,
    reported_error::ReportedError,
    stream::{ANSWER_BYTES, DENIALS, StreamResult},
};
use crate::{
    Timestamp,
    failure::{
        ReasonCode,
        classify::{FailureFacts, ProcessEnd, classify},
    },
    text::{one_line, tail},
};

/// The longest sentence about a failure.
const MESSAGE_CHARS: usize = 400;
/// The number of bytes of standard error that are searched for complaints.
const COMPLAINT_BYTES: usize = 8 * 1024;

/// All that is known about a run of an agent that is over.
#[derive(Clone, Copy, Debug)]
pub struct RunEvidence<'a> {
    /// The way in which its process ended.
    ///
    /// An agent that lingers after its last answer and is ended for that has exited with 0.
    pub end: ProcessEnd,
    /// True if the kernel killed a process for lack of memory during the run.
    pub oom_killed: bool,
    /// The stream that it printed to its standard output.
    pub heard: &'a StreamState,
    /// The end of what it printed to its standard error.
    pub stderr: &'a str,
    /// True if the agent was asked to answer in the form of a schema.
    pub wants_structured: bool,
    /// The moment at which it ended.
    pub now: Timestamp,
    /// The zone of the machine's clock.
    pub zone: &'a TimeZone,
}

/// The outcome of an agent's run, with all that is worth keeping of it.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentOutcome {
    /// The agent's final answer; empty if there is none.
    pub answer: String,
    /// The answer in the form of the schema.
    pub structured: Option<Value>,
    /// The usage, as far as the agent reported it.
    pub usage: TokenUsage,
    /// The cost by the agent's own estimate.
    pub cost_usd: Option<f64>,
    /// The number of turns.
    pub turns: Option<u32>,
    /// The name under which it can go on later.
    pub session: Option<String>,
    /// The model it used.
    pub model: Option<String>,
    /// The tools that it wanted to use and was not allowed to, at most 20.
    ///
    /// That is no failure by itself: who knows the worktree can tell whether the work was done.
    pub denied: Vec<DeniedTool>,
    /// The conclusion: answered, limited or failed.
    pub conclusion: Conclusion,
}

/// The conclusion about a run: answered, limited or failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conclusion {
    /// It did. What the answer is worth is seen in the worktree.
    Answered,
    /// A limit of the account kept it from answering. That says nothing about the task.
    Limited(QuotaLimit),
    /// It did not.
    Failed {
        /// The reason of the failure, for code.
        kind: ReasonCode,
        /// The reason of the failure, for people: one line, no full stop.
        message: String,
    },
}

/// Returns what a run of an agent came to.
pub fn evaluate_run(evidence: RunEvidence<'_>) -> AgentOutcome {
    let heard = evidence.heard;
    let ending = heard.ending.as_ref();
    let structured = ending.and_then(|ending| structured(ending, evidence.wants_structured));
    let conclusion = match conclude(evidence, structured.is_some()) {
        // Whatever said so: what only money or a login lifts is a limit of the account.
        Conclusion::Failed { kind, message } => match account_limit(evidence, kind) {
            Some(kind) => {
                Conclusion::Limited(QuotaLimit { kind, resets_at: None, window: None, message })
            }
            None => Conclusion::Failed { kind, message },
        },
        Conclusion::Limited(limit) => Conclusion::Limited(limit),
        Conclusion::Answered => Conclusion::Answered,
    };
    let is_limited = matches!(conclusion, Conclusion::Limited(_));
    let answer = ending.filter(|_| !is_limited).map(|ending| ending.answer.clone());
    AgentOutcome {
        answer: answer.unwrap_or_default(),
        structured,
        usage: heard.usage(),
        cost_usd: heard.cost_usd,
        turns: heard.turns,
        session: heard.session.clone(),
        model: heard.model.clone(),
        denied: denied(evidence),
        conclusion,
    }
}

/// Returns the kind of limit of the account that a failure is, if it is one.
///
/// Words about a refused credential or about money may be about others' if the agent was served
/// before.
fn account_limit(evidence: RunEvidence<'_>, kind: ReasonCode) -> Option<QuotaKind> {
    let is_told = trouble(evidence.heard).and_then(|trouble| trouble.kind) == Some(kind);
    let is_account = is_told || !evidence.heard.was_served();
    if kind == ReasonCode::QuotaExhausted {
        return is_account.then_some(QuotaKind::Credits);
    }
    (kind == ReasonCode::AuthFailed && is_account).then_some(QuotaKind::Access)
}

/// Returns what the agent says went wrong.
fn trouble(heard: &StreamState) -> Option<&ReportedError> {
    match &heard.ending {
        Some(ending) => ending.trouble.as_ref(),
        None => heard.trouble.as_ref(),
    }
}

/// Returns the tools that were not allowed, at most 20.
fn denied(evidence: RunEvidence<'_>) -> Vec<DeniedTool> {
    let heard = evidence.heard.denied().cloned();
    match evidence.heard.dialect() {
        StreamDialect::Claude => heard.collect(),
        StreamDialect::Codex => {
            heard.chain(codex::denied_in_stderr(evidence.stderr)).take(DENIALS).collect()
        }
    }
}

/// Returns the answer in the form of a schema, which some agents give as their only answer.
fn structured(ending: &StreamResult, is_wanted: bool) -> Option<Value> {
    let answer = is_wanted.then_some(ending.answer.as_str());
    let text = ending.structured.as_deref().or(answer)?;
    serde_json::from_str(text).ok()
}

fn conclude(evidence: RunEvidence<'_>, is_structured: bool) -> Conclusion {
    let heard = evidence.heard;
    let trouble = trouble(heard);
    if let Some(limit) = limit(evidence, trouble) {
        return Conclusion::Limited(limit);
    }
    match evidence.end {
        ProcessEnd::TimedOut
        | ProcessEnd::Idle
        | ProcessEnd::Stopped
        | ProcessEnd::NotStarted(_) => {
            return broken(evidence);
        }
        ProcessEnd::Exited(_) | ProcessEnd::Signaled(_) => {}
    }
    if let Some(trouble) = trouble {
        return failed(trouble.kind.unwrap_or(ReasonCode::AgentError), &trouble.text);
    }
    match &heard.ending {
        None if heard.is_torn && evidence.end == ProcessEnd::Exited(0) => {
            failed(ReasonCode::OutputUnparseable, "the agent's result is damaged")
        }
        // A program that claims success and yet fails has not been believed by itself.
        Some(_) if evidence.end != ProcessEnd::Exited(0) => broken(evidence),
        None => broken(evidence),
        Some(ending) => answered(evidence, ending, is_structured),
    }
}

/// Returns what an answer is worth that nothing speaks against.
///
/// No turn at all is no work: the prompt was taken for a command to the program itself. Nothing
/// said and no tool used is no answer either, whereas silence after work may well be one.
fn answered(evidence: RunEvidence<'_>, ending: &StreamResult, is_structured: bool) -> Conclusion {
    let heard = evidence.heard;
    let is_silent = ending.answer.trim().is_empty();
    if heard.turns == Some(0) {
        let said = one_line(&ending.answer, MESSAGE_CHARS);
        let said = if is_silent { String::new() } else { format!(": {said}") };
        return failed(ReasonCode::AgentError, &format!("the agent did not ask its model{said}"));
    }
    if let Some(size) = ending.oversize.as_ref().filter(|_| evidence.wants_structured) {
        let text = format!(
            "the agent's answer for `output_schema` has {size}, and at most {ANSWER_BYTES} are taken"
        );
        return failed(ReasonCode::OutputTooLarge, &text);
    }
    if evidence.wants_structured && !is_structured {
        let text = "the agent's answer is not in the form that its schema asks for";
        return failed(ReasonCode::OutputUnparseable, text);
    }
    if is_silent && !is_structured && heard.tools == 0 {
        return failed(ReasonCode::AgentCrashed, "the agent did nothing and said nothing");
    }
    Conclusion::Answered
}

/// Returns the limit that kept the agent from answering.
fn limit(evidence: RunEvidence<'_>, trouble: Option<&ReportedError>) -> Option<QuotaLimit> {
    let heard = evidence.heard;
    let in_text = |text: &str| QuotaLimit::find_in_text(text, evidence.now, evidence.zone);
    match (&heard.ending, trouble) {
        // An older version calls the limit its answer and says that all is well.
        (Some(ending), None) => {
            let is_limit = !ending.is_of_model && is_old_limit(&ending.answer);
            return in_text(&ending.answer).filter(|_| is_limit);
        }
        (_, Some(trouble)) => {
            // A model may write about limits, too.
            let is_of_model = heard.ending.as_ref().is_some_and(|ending| ending.is_of_model);
            let said = if is_of_model { None } else { in_text(&trouble.text) };
            let is_alike = matches!(trouble.kind, None | Some(ReasonCode::RateLimited));
            if let Some(mut limit) = heard.limit.clone().filter(|_| is_alike) {
                // An event has no words and is exact; a text has words and leaves out seconds.
                limit.message = one_line(&trouble.text, MESSAGE_CHARS);
                limit.resets_at = limit.resets_at.or(said.and_then(|said| said.resets_at));
                return Some(limit);
            }
            if said.is_some() {
                return said;
            }
        }
        (None, None) => {}
    }
    if heard.has_result() {
        return None;
    }
    heard.limit.clone().or_else(|| limit_in_stderr(evidence))
}

/// Finds a limit in what the program complained about outside its stream.
///
/// Where its model was at work, what is printed there may be about that work.
fn limit_in_stderr(evidence: RunEvidence<'_>) -> Option<QuotaLimit> {
    let complaints = complaints(evidence);
    if !evidence.heard.was_served() {
        return QuotaLimit::find_in_text(&complaints, evidence.now, evidence.zone);
    }
    let said = QuotaLimit::find_in_output(&complaints, evidence.now, evidence.zone);
    said.filter(|limit| limit.kind != QuotaKind::Access)
}

/// Returns whether an answer is that of an older Claude Code at a limit, and nothing else.
fn is_old_limit(answer: &str) -> bool {
    let moment = answer.trim().strip_prefix("Claude AI usage limit reached|");
    moment.is_some_and(|it| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns why an agent broke off, from how its process ended and what it said last.
fn broken(evidence: RunEvidence<'_>) -> Conclusion {
    let heard = evidence.heard;
    let printed = complaints(evidence);
    let facts = FailureFacts {
        end: evidence.end,
        oom_killed: evidence.oom_killed,
        is_agent: true,
        printed: &printed,
    };
    let kind = classify(facts);
    let last = printed.lines().rev().find(|line| !line.trim().is_empty());
    let last = last.map_or_else(String::new, |line| format!(": {}", line.trim()));
    let (kind, text) = match evidence.end {
        ProcessEnd::TimedOut => (kind, "the agent outlived its time limit".to_owned()),
        ProcessEnd::Idle => (kind, "the agent printed nothing for too long".to_owned()),
        ProcessEnd::Stopped => (kind, "the run was stopped".to_owned()),
        ProcessEnd::NotStarted(_) => (kind, format!("the agent could not be started{last}")),
        ProcessEnd::Signaled(signal) => (kind, format!("the agent was ended by signal {signal}")),
        ProcessEnd::Exited(code) => {
            // A program that complains before it begins has an error of its own, and so has one
            // that fails after its answer; one that falls silent has crashed.
            let is_complaint = code != 0 && !printed.trim().is_empty() && heard.events() == 0;
            let kind = match (kind, heard.has_result()) {
                (ReasonCode::OomKilled, _) => kind,
                (_, true) => ReasonCode::AgentError,
                (ReasonCode::AgentError, false) if !is_complaint => ReasonCode::AgentCrashed,
                (_, false) => kind,
            };
            let result =
                if heard.has_result() { "although it answered" } else { "without a result" };
            (kind, format!("the agent exited with code {code} {result}{last}"))
        }
    };
    failed(kind, &text)
}

/// Returns what the program complained about outside its stream.
fn complaints(evidence: RunEvidence<'_>) -> String {
    let stderr = tail(evidence.stderr, COMPLAINT_BYTES);
    format!("{}\n{stderr}", evidence.heard.unparsed_tail())
}

fn failed(kind: ReasonCode, text: &str) -> Conclusion {
    let message = one_line(text, MESSAGE_CHARS);
    let message = message.trim_end_matches('.');
    let message = if message.is_empty() { kind.meaning().trim_end_matches('.') } else { message };
    Conclusion::Failed { kind, message: message.to_owned() }
}

/// Returns whether a run of an agent that ran into no limit shows that its provider serves the
/// account.
///
/// One without room turned the agent away. Of one that never got so far, or was cut off, only what
/// it used tells, and so it does of one that broke down, if it `tells` what it uses. Every other
/// end comes after an answer, however bad.
pub fn was_served(failure: Option<ReasonCode>, usage: TokenUsage, tells: bool) -> bool {
    let Some(kind) = failure else { return true };
    let is_turned_away = ReasonCode::NO_ROOM.contains(&kind) || kind == ReasonCode::QuotaExhausted;
    let broke_down = matches!(kind, ReasonCode::AgentError | ReasonCode::AgentCrashed);
    let is_unclear =
        kind.is_environmental() || kind == ReasonCode::AuthFailed || tells && broke_down;
    !is_turned_away && (!is_unclear || !usage.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_was_turned_away_was_not_served() {
        let some = TokenUsage { output_tokens: 1, ..TokenUsage::default() };
        let of = |kind: &ReasonCode| {
            let [nothing, something] =
                [TokenUsage::default(), some].map(|usage| was_served(Some(*kind), usage, true));
            (!nothing)
                .then(|| format!("{kind}{}", if something { " unless it used tokens" } else { "" }))
        };
        let not_served: Vec<String> = ReasonCode::ALL.iter().filter_map(of).collect();
        insta::assert_snapshot!(not_served.join("\n"), @"
        timeout unless it used tokens
        stalled unless it used tokens
        dependency_unavailable unless it used tokens
        network_error unless it used tokens
        rate_limited
        provider_overloaded
        no_workers unless it used tokens
        worker_lost unless it used tokens
        interrupted unless it used tokens
        spawn_failed unless it used tokens
        max_scheduling_retries unless it used tokens
        store_unavailable unless it used tokens
        quota_exhausted
        agent_crashed unless it used tokens
        agent_error unless it used tokens
        auth_failed unless it used tokens
        cancelled unless it used tokens
        ");
        assert!(was_served(None, TokenUsage::default(), true));
        assert!(was_served(Some(ReasonCode::AgentError), TokenUsage::default(), false));
    }
}
