//! Replays: policy, approvals, effects, audit.

pub(crate) mod approval_expiry;
pub(crate) mod approval_rules;
pub(crate) mod approvals;
pub(crate) mod audit;
pub(crate) mod claims;
pub(crate) mod effect_crashes;
pub(crate) mod effect_declarations;
pub(crate) mod effects;
pub(crate) mod effects_by_position;
pub(crate) mod entry_actions;
pub(crate) mod lost_audit_trail;
pub(crate) mod moved_effects;
pub(crate) mod partial_effects;
pub(crate) mod plan;
pub(crate) mod policy;
pub(crate) mod policy_source;
pub(crate) mod races;
pub(crate) mod rate;
pub(crate) mod repaired_effects;
pub(crate) mod signed_approvals;
