//! Proof that no value of a template is ever run, split or altered by a shell.
//!
//! Everything here runs real shells. By default the templates share one process
//! per value, and what costs most is a sample; `PRODIGY_FULL=1` leaves nothing
//! out and also runs every template with every value in a process of its own.
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
mod forbidden;
mod hostile;
mod probe;
mod property;
mod refused;
mod values;
mod variables;
