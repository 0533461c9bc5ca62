//! Rules that never decide anything.

use crate::{
    diagnostic::{Diagnostic, Span},
    failure::ReasonCode,
    replay::{ReplayAction, ReplayRule},
};

/// Returns a warning, without its place, if the rules before one leave nothing to it.
pub(crate) fn lint_unreachable(rules: &[ReplayRule], at: usize) -> Option<Diagnostic> {
    let rule = rules.get(at)?;
    let all = || ReasonCode::ALL.iter().copied().collect();
    let kinds = rule.matches.reason_codes.clone().unwrap_or_else(all);
    if kinds.is_empty() {
        let message = format!("`{}` never matches: no reason code fulfils all of it", rule.name);
        return Some(Diagnostic::warning(Span::default(), message));
    }
    let mut before: Vec<&str> = Vec::new();
    for kind in kinds {
        let first =
            rules.iter().take(at).find(|first| first.matches.covers(&rule.matches, kind))?;
        if !before.contains(&first.name.as_str()) {
            before.push(&first.name);
        }
    }
    let names: Vec<String> = before.iter().map(|name| format!("`{name}`")).collect();
    let matches = if names.len() == 1 { "matches" } else { "match" };
    let message = format!(
        "`{}` is never reached: {} {matches} all of it before",
        rule.name,
        names.join(" and ")
    );
    let help = "put it first, or take it out";
    Some(Diagnostic::warning(Span::default(), message).help(help))
}

/// Returns a warning, without its place, if a rule wants something replayed that never is.
pub(crate) fn lint_never_replayed(rules: &[ReplayRule], at: usize) -> Option<Diagnostic> {
    let rule = rules.get(at)?;
    let named = rule.matches.reason_codes.as_ref()?;
    let unknown = ReasonCode::UnknownCommitState;
    if rule.action != ReplayAction::AutoReplay || !named.contains(&unknown) {
        return None;
    }
    let message = format!(
        "`{}` never replays `{}`: nobody knows what was changed outside",
        rule.name,
        unknown.code()
    );
    let help = "`check_then_replay` finds out first, `manual_review` leaves it to a person";
    Some(Diagnostic::warning(Span::default(), message).help(help))
}
