//! Limits and money, as one line for people.

use prodigy_core::{
    agent::TokenUsage,
    event::{BudgetScope, Event, QuotaPaused},
};

use super::shorten_line;
use crate::progress::plural;

/// Returns what an event about limits or money says, if it is one.
pub(crate) fn format_quota_event(event: &Event) -> Option<String> {
    Some(if let Event::AgentSessionStarted { step, agent, session_id, model, resumed } = event {
        let model =
            model.as_ref().map(|model| format!("  {}", shorten_line(model))).unwrap_or_default();
        let again = if *resumed { "  goes on" } else { "" };
        format!("{step}  {}{model}  session {session_id}{again}", shorten_line(agent))
    } else if let Event::AgentToolUsed { step, tool, about, uses } = event {
        let more = if *uses > 1 { format!("  ({uses} uses)") } else { String::new() };
        format!("{step}  {}  {}{more}", shorten_line(tool), shorten_line(about))
    } else if let Event::AgentUsage { step, agent, cost_usd, tokens, estimated, .. } = event {
        let about = if *estimated { "about " } else { "" };
        let cost =
            cost_usd.map_or_else(|| "cost unknown".to_owned(), |cost| format!("{about}${cost:.2}"));
        format!("{step}  {}  {cost}{}", shorten_line(agent), tokens_suffix(*tokens))
    } else if let Event::AgentWarned { step, agent, message } = event {
        format!("{step}  {}  {}", shorten_line(agent), shorten_line(message))
    } else if let Event::AgentReleased { reason, .. } = event {
        format!("not charged  {}", shorten_line(reason))
    } else if let Event::WorkSuspended(work) = event {
        let step = work.step.as_ref().map(|step| format!("{step}  ")).unwrap_or_default();
        let kept = if work.snapshot.is_some() { "worktree kept" } else { "starts over" };
        format!("{step}{kept}  {} finished", plural(work.finished_steps, "step"))
    } else if let Event::QuotaPaused(paused) = event {
        let QuotaPaused { limit, paused_until, .. } = &**paused;
        let until = paused_until.map(|until| format!("until {until:.0}  ")).unwrap_or_default();
        format!("{until}{}", shorten_line(&limit.message))
    } else if let Event::QuotaWarned { share, window, .. } = event {
        let window = window.as_deref().map(|window| format!(" of {window}")).unwrap_or_default();
        format!("{:.0} %{window} used", share * 100.0)
    } else if let Event::BudgetExceeded { scope, limit_usd, spent_usd } = event {
        let whose = match scope {
            BudgetScope::Job => "job",
            BudgetScope::Day => "day",
        };
        format!("{whose}  ${spent_usd:.2} of ${limit_usd:.2}")
    } else if let Event::ConcurrencyChanged { max, reason } = event {
        format!("{max} at once  {}", shorten_line(reason))
    } else {
        return None;
    })
}

/// Returns how many tokens were used, if any were.
fn tokens_suffix(tokens: TokenUsage) -> String {
    match tokens.total() {
        0 => String::new(),
        total => format!("  {total} tokens"),
    }
}
