//! Decides if a provider served an agent.

use super::TokenUsage;
use crate::failure::ReasonCode;

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
