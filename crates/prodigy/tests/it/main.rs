//! The `prodigy` command, run as people run it.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up should fail here")]

mod completions;
mod config;
mod init;
mod simulate_agent;
