//! Reports of agents that print a stream of events.

use jiff::tz::TimeZone;
use prodigy_core::{
    agent::{Conclusion, RunEvidence, evaluate_run as conclude},
    failure::{Failure, ReasonCode},
};

use super::{AgentExit, AgentReport, judge};

/// Judges how such an agent ended.
pub(super) fn evaluate_stream(traces: &AgentExit<'_>) -> AgentReport {
    let Some(heard) = traces.heard else {
        // Nobody listened, so nobody knows.
        let failure = Failure::new(ReasonCode::InternalError, "nobody listened to the agent");
        return AgentReport { failure: Some(failure), ..AgentReport::default() };
    };
    let ended = traces.ended;
    let report = conclude(RunEvidence {
        end: ended.process_end(),
        oom_killed: ended.oom_killed,
        heard,
        stderr: &judge::output_text(&ended.stderr),
        wants_structured: traces.wants_structured,
        now: traces.now,
        zone: &TimeZone::system(),
    });
    let (limit, failure) = match report.conclusion {
        Conclusion::Answered => (None, None),
        Conclusion::Limited(limit) => (Some(limit), None),
        Conclusion::Failed { kind, message } => (None, Some(Failure::new(kind, message))),
    };
    AgentReport {
        output: report.answer,
        is_printed: false,
        structured: report.structured,
        usage: report.usage,
        cost_usd: report.cost_usd,
        model: report.model,
        session: report.session,
        denied: report.denied,
        limit,
        failure: failure.map(|failure| with_words(failure, traces)),
    }
}

/// Adds the exit code and what the program complained about to a failure; its events say
/// nothing to people.
fn with_words(failure: Failure, traces: &AgentExit<'_>) -> Failure {
    let failure = judge::with_output(failure, traces.ended);
    let complained = traces.ended.stderr.total > 0;
    let last_words = || traces.heard.map(|heard| heard.unparsed_tail().trim_end().to_owned());
    let output_tail =
        if complained { failure.output_tail } else { last_words().unwrap_or_default() };
    Failure { output_tail, ..failure }
}
