//! The `prodigy` command, run as people run it.

mod validate;
