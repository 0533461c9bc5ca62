//! Simulated agents and rehearsals.

pub(crate) mod agent;
pub(crate) mod command;
pub(crate) mod effects;
pub(crate) mod faults;
pub(crate) mod output;
pub(crate) mod unsatisfied_validators;
