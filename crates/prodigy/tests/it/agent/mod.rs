//! Agents: command line, answers, timeouts.

pub(crate) mod command_line;
pub(crate) mod denied_tools;
pub(crate) mod exit_codes;
pub(crate) mod lingering;
pub(crate) mod overload;
pub(crate) mod permissions;
pub(crate) mod session_names;
pub(crate) mod timeouts;
pub(crate) mod transcripts;
pub(crate) mod warnings;
