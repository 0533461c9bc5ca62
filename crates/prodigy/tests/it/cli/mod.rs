//! The command line: help, configuration, exit codes, output.

pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod doctor;
pub(crate) mod exit_codes;
pub(crate) mod init;
pub(crate) mod output_files;
pub(crate) mod plan;
pub(crate) mod validate;
