//! Proof that no value of a template is ever run, split or altered by a shell.
//!
//! Everything here runs real shells. Set `PRODIGY_FULL=1` to run every template
//! with every value in a process of its own; without it the templates share one
//! process per value, and single processes are a sample.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot set up should fail here"
)]
#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "these tests exist to run real shells on real files"
)]

mod accepted;
mod contexts;
mod hostile;
mod probe;
mod property;
mod refused;
mod values;
