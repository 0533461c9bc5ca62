//! The domain model of prodigy, with no I/O.
//!
//! Everything here is a value or a function of values: the workflow, the
//! templates and expressions, the policies, the events, and the job that the
//! events fold into. The crate has no async runtime, no clock, and no file
//! system; the engine hands those answers in as arguments.

pub mod agent;
pub mod audit;
pub mod capture;
pub mod diagnostic;
pub mod dlq;
pub mod duration;
pub mod effect;
pub mod event;
pub mod expr;
pub mod failure;
pub mod ids;
pub mod items;
pub mod job;
pub mod json_path;
pub mod json_schema;
mod json_value;
pub mod mask;
mod nearest;
pub mod policy;
pub mod reference_docs;
pub mod replay;
pub mod template;
pub(crate) mod text;
pub mod vars;
mod wildcard;
pub mod workflow;
pub mod yaml;

/// A moment, as written in the journal: RFC 3339, UTC.
pub type Timestamp = jiff::Timestamp;
