//! What people see of a run: live on a terminal, in plain lines elsewhere, and at its end.

mod block;
pub(crate) mod diagnostics;
#[cfg(test)]
mod fixture;
mod item_totals;
mod items;
pub(crate) mod junit;
pub(crate) mod ledger;
mod lines;
mod live;
mod plain;
pub(crate) mod progress;
pub(crate) mod step_summary;
pub(crate) mod summary;

pub(crate) use block::{padded, shortened};
pub(crate) use items::{roughly, speed};
pub(crate) use lines::count;
