//! The domain model of prodigy, with no I/O.
//!
//! Everything here is a value or a function of values: the workflow, the
//! templates and expressions, the policies, the events, and the job that the
//! events fold into. The crate has no async runtime, no clock, and no file
//! system; the engine hands those answers in as arguments.

pub mod agent;
pub mod audit;
mod canonical;
pub mod capture;
pub mod checkpoint;
pub mod classify;
pub mod diagnostic;
pub mod dlq;
pub mod duration;
pub mod effect;
pub mod event;
mod event_types;
pub mod expr;
pub mod failure;
pub mod ids;
pub mod items;
pub mod job;
pub mod json_path;
pub mod json_schema;
pub mod mask;
pub mod metrics;
mod nearest;
pub mod policy;
pub mod reference;
pub mod replay;
pub mod signature;
pub mod template;
pub mod vars;
mod wildcard;
pub mod workflow;
pub mod yaml;

/// A moment, as written in the journal: RFC 3339, UTC.
pub type Timestamp = jiff::Timestamp;
