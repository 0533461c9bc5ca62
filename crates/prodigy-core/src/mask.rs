//! Keeping secrets out of everything that is stored or shown.

/// Replaces secrets in a stream of bytes.
#[derive(Clone, Debug, Default)]
pub struct Mask {}
