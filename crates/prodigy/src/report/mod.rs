//! What people see of a run: live on a terminal, in plain lines elsewhere, and at its end.

pub(crate) mod diagnostics;
mod lines;
mod live;
pub(crate) mod progress;
pub(crate) mod summary;

pub(crate) use lines::count;
