//! The replay policy that decides over the dead letters of a job, and who vouches for it.
//!
//! The policy in force is the one committed on the branch that the job merges into. A file that
//! is only in the checkout can be written by every step; a commit can be reviewed later.

mod active_policy;
mod confirmation;
mod error;
mod policy_source;

pub use active_policy::{ActivePolicy, SignerFiles};
pub use confirmation::{UnconfirmedFile, confirmation};
pub use error::PolicyError;
pub use policy_source::{CommittedPolicy, PolicySource, guarded_files};

/// The file of the policy, from the root of a repository.
pub const POLICY_FILE: &str = ".prodigy/replay-policy.yml";

/// A name that people give the file, and that is not read.
pub const OTHER_ENDING: &str = ".prodigy/replay-policy.yaml";
