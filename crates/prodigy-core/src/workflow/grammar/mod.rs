//! The grammar of workflow files, as data.
//!
//! One table says which keys exist, what they look like and what they mean. The
//! checker, the JSON Schema and the reference page are all made from it.

mod agents;
mod check;
mod file;
mod fit;
mod handlers;
mod place;
mod policy;
mod reference;
mod sandbox;
mod schema;
mod settings;
mod shape;
mod simulated;
mod step;
mod suggest;
mod words;

pub use agents::AGENT;
pub use check::{check, check_record};
pub use file::{
    CAPTURE_OUTPUT, INPUT, MAP, MAPREDUCE, MERGE, REDUCE, RESULT, SETUP, WORKFLOW, WORKTREE,
};
pub use handlers::{HANDLER, ON_INCOMPLETE, VALIDATE};
pub use policy::{BACKOFF, BUDGET, CIRCUIT_BREAKER, ERROR_POLICY, QUOTA, RETRY, RETRY_CONFIG};
pub use reference::{page_of, reference_markdown};
pub use schema::{json_schema, schema_of};
pub use settings::{PARAMETER, SECRET, TEMPLATE};
pub use shape::{Choice, KeyNames, KeyShape, RecordShape, Shape, TaggedShape};
pub use simulated::{FAULTS, faults_markdown, faults_schema};
pub use step::{AGENT_CALL, CAPTURE, FOREACH, HANDLER_STEP, STEP, WRITE_FILE};
