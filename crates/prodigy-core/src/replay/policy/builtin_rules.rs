//! The policy that holds where no file says otherwise.

use std::{collections::BTreeMap, sync::LazyLock};

use crate::{
    failure::{DefaultAction, ReasonCode},
    replay::{
        AlertRules, ReplayAction, ReplayBackoff, ReplayLimits, ReplayPolicy, ReplayRule,
        ReplayVelocity, RuleMatch,
    },
};

impl ReplayPolicy {
    /// Returns the policy that holds where there is no file: a rule for each reason code.
    pub fn builtin() -> &'static Self {
        static BUILTIN: LazyLock<ReplayPolicy> = LazyLock::new(|| {
            let (limits, velocity) = (ReplayLimits::default(), ReplayVelocity::default());
            ReplayPolicy::new(
                builtin_rules(),
                limits,
                velocity,
                BTreeMap::new(),
                AlertRules::default(),
            )
        });
        &BUILTIN
    }
}

/// Returns the rules of the table of reason codes, in its order.
pub(crate) fn builtin_rules() -> Vec<ReplayRule> {
    ReasonCode::ALL.iter().map(|kind| rule(*kind)).collect()
}

fn rule(kind: ReasonCode) -> ReplayRule {
    let action = match kind.action() {
        DefaultAction::Always | DefaultAction::Once => ReplayAction::AutoReplay,
        DefaultAction::Check => ReplayAction::CheckThenReplay,
        DefaultAction::Approval => ReplayAction::RequireApproval,
        DefaultAction::Review => ReplayAction::ManualReview,
        DefaultAction::Quarantine => ReplayAction::Quarantine,
        DefaultAction::Never => ReplayAction::Never,
    };
    let name = format!("built-in:{}", kind.code());
    let mut rule = ReplayRule::new(name, RuleMatch::of(kind), action);
    // Who asks has looked, or has mended something; a policy of their own may bind them.
    rule.is_lenient = true;
    match kind.action() {
        // What failed for a passing reason may be tried for ever, so it has to slow down.
        DefaultAction::Always => rule.backoff = ReplayBackoff::ExponentialJitter,
        DefaultAction::Once => rule.max_replays = Some(1),
        DefaultAction::Check
        | DefaultAction::Approval
        | DefaultAction::Review
        | DefaultAction::Quarantine
        | DefaultAction::Never => {}
    }
    rule
}
