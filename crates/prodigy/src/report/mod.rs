//! Showing people what prodigy knows.

pub(crate) mod diagnostics;
