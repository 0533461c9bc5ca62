//! Documents and reference pages against the binary.

pub(crate) mod coverage;
pub(crate) mod documented_fields;
pub(crate) mod examples;
pub(crate) mod field_coverage;
pub(crate) mod guides;
