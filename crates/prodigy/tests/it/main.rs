//! The `prodigy` command, run as people run it.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up should fail here")]
#![expect(clippy::disallowed_methods, reason = "tests start programs and write files directly")]

pub(crate) mod agent;
pub(crate) mod cli;
pub(crate) mod dlq;
pub(crate) mod docs;
pub(crate) mod fixture;
pub(crate) mod jobs;
pub(crate) mod map;
mod process;
pub(crate) mod quota;
pub(crate) mod real_agent;
pub(crate) mod replay;
pub(crate) mod resume;
pub(crate) mod run;
pub(crate) mod security;
pub(crate) mod simulate;
pub(crate) mod spend;
pub(crate) mod worktree;
