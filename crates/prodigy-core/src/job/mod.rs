//! A job: the fold over its journal, and the decision what follows.

mod decide;
mod state;
mod summary;

pub use decide::{Action, Decision, Ending, Input, Surroundings, decide};
pub use state::{End, Job, JobTreeState, Unexpected, set_output, set_step_result};
pub use summary::{JobStatus, Summary};
