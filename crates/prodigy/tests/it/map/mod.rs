//! Items: selection, retries, limits, merging.

pub(crate) mod circuit_breaker;
pub(crate) mod conflict_sides;
pub(crate) mod conflicts;
pub(crate) mod error_policy;
pub(crate) mod flags;
pub(crate) mod given_items;
pub(crate) mod handler_variables;
pub(crate) mod handlers;
pub(crate) mod items;
pub(crate) mod large_results;
pub(crate) mod phases;
pub(crate) mod results;
pub(crate) mod systemic_failure;
