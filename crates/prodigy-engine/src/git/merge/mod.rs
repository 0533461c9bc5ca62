//! Merging: items into the job branch, the job branch into the branch of the user.

pub(crate) mod branch_move;
pub(crate) mod checkout_session;
pub(crate) mod checkout_update;
pub(crate) mod conflict;
pub(crate) mod conflict_markers;
pub(crate) mod conflict_sides;
pub(crate) mod file_moves;
pub(crate) mod item_merger;
pub(crate) mod job_merge;
pub(crate) mod merge_settings;
pub(crate) mod plumbing;
pub(crate) mod restore_result;
pub(crate) mod staging;
