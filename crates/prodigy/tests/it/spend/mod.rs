//! Costs and budgets.

pub(crate) mod budgets;
pub(crate) mod display;
pub(crate) mod estimate;
pub(crate) mod exhausted;
pub(crate) mod interrupted;
pub(crate) mod missing_result;
pub(crate) mod nested_budgets;
pub(crate) mod resumed_sessions;
pub(crate) mod unknown_costs;
