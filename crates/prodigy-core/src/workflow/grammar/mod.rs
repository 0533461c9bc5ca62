//! The grammar of workflow files, as data.
//!
//! One table says which keys exist, what they look like and what they mean. The
//! checker, the JSON Schema and the reference page are all made from it.

mod shape;

pub use shape::{Key, Record, Shape};
