//! The reports of a run: live on a terminal, in plain lines elsewhere, and a summary at its end.

mod block;
pub(crate) mod checked;
pub(crate) mod checkout;
pub(crate) mod diagnostics;
pub(crate) mod exit_code;
#[cfg(test)]
mod fixture;
pub(crate) mod guarded;
mod hold;
mod item_totals;
mod items;
pub(crate) mod junit;
pub(crate) mod kept_work;
mod lines;
mod live;
pub(crate) mod money;
pub(crate) mod notebook;
mod plain;
pub(crate) mod progress;
pub(crate) mod rehearsal;
pub(crate) mod replays;
pub(crate) mod step_summary;
pub(crate) mod summary;
pub(crate) mod suspended;
mod ticker;
mod totals;
pub(crate) mod warnings;
mod xml;

pub(crate) use block::{activity_text, line_endings, padded, truncate};
pub(crate) use hold::quota_message;
pub(crate) use lines::plural;
pub(crate) use totals::{format_estimate, format_rate};
