//! The `prodigy` command, run as people run it.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up should fail here")]
#![expect(clippy::disallowed_methods, reason = "tests start programs and write files directly")]

mod bad_input;
mod completions;
mod config;
mod crash;
mod doctor;
mod documents;
mod events;
mod examples;
mod fixture;
mod full_disk;
mod hostile;
mod init;
mod interrupt;
mod jobs;
mod keys;
mod logs;
mod process;
mod repair;
mod review_run;
mod review_security;
mod run;
mod simulate_agent;
mod stop;
mod stories;
mod tampering;
mod validate;
mod verify;
mod vocabulary;
mod worktree;
