//! Workflow files: from text to a checked [`Workflow`].

mod agents;
mod asked;
mod bare;
mod commit_rights;
mod compose;
mod conflict;
pub mod grammar;
mod identity;
mod label;
mod load;
mod lower;
mod merge;
mod model;
mod on_failure;
mod paths;
mod rehearse;
mod sandbox;
mod simulated;
mod walk;

pub use agents::*;
pub use commit_rights::COMMIT_RULES;
pub use conflict::{OnConflict, RESOLVING};
pub use identity::{Counterpart, StepAddress};
pub use label::{rendered_label, step_label};
pub use load::{Loaded, Rejected, load};
pub use lower::{LoadedFaults, read_agents, read_faults};
pub use model::*;
pub use on_failure::{HandlerEnd, OnFailure, StepVerdict, Strategy, Unrecovered};
pub use rehearse::{Rehearsal, WOULD_RUN};
pub use sandbox::SandboxConfig;
pub use simulated::*;
