//! Claude Code and Codex against a scripted model.

pub(crate) mod claude;
pub(crate) mod codex;
pub(crate) mod codex_quota;
pub(crate) mod costs;
pub(crate) mod faults;
pub(crate) mod mixed;
pub(crate) mod quota;
pub(crate) mod sandbox;
pub(crate) mod sessions;
pub(crate) mod suspended_work;
