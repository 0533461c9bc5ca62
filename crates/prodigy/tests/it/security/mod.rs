//! Untrusted input, secrets, sandbox and trust.

pub(crate) mod git_tampering;
pub(crate) mod hostile_files;
pub(crate) mod hostile_git;
pub(crate) mod hostile_values;
pub(crate) mod nested_secrets;
pub(crate) mod path_escape;
pub(crate) mod sandbox;
pub(crate) mod sandbox_agents;
pub(crate) mod sandbox_reach;
pub(crate) mod shell_variables;
pub(crate) mod step_location;
pub(crate) mod trust;
pub(crate) mod untrusted_repository;
