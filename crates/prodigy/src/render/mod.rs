//! Output: the console, tables, reports and files that people read.

pub(crate) mod console;
pub(crate) mod dead_letter;
pub(crate) mod diagnostics;
pub(crate) mod event_line;
pub(crate) mod file_check;
pub(crate) mod log_printer;
pub(crate) mod output_file;
pub(crate) mod pretty_json;
pub(crate) mod prometheus;
pub(crate) mod report;
pub(crate) mod spend;
pub(crate) mod table;
pub(crate) mod transcript;
