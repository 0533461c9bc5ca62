//! Keys that are checked but that this version cannot honour.

/// Keys that a workflow may have but not be run with.
///
/// They are part of the grammar, so that a file written for a later version can be
/// checked; running such a file is refused, because a key is never ignored.
pub const UNSUPPORTED: &[&str] = &["systemic_stop"];
