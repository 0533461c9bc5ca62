//! What a value in a workflow file may look like.

/// What a value may look like.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// `true` or `false`.
    Bool,
    /// Any text; numbers and booleans are taken as they are written.
    Text,
    /// Text with `${…}` in it.
    Template,
    /// A shell command with `${…}` in it.
    Script,
    /// An expression.
    Expression,
    /// A whole number within bounds, both included.
    Integer {
        /// The smallest.
        min: i64,
        /// The largest.
        max: i64,
    },
    /// A number within bounds, both included.
    Number {
        /// The smallest.
        min: f64,
        /// The largest.
        max: f64,
    },
    /// Seconds, or text such as `30s` or `1h 30m`.
    Duration,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A list.
    List(&'static Shape),
    /// A mapping whose keys the author chooses.
    Table(&'static Shape),
    /// A mapping with these keys and no others.
    Record(&'static Record),
    /// Any of these, told apart by whether the value is a scalar, a list or a mapping.
    OneOf(&'static [Shape]),
    /// Anything at all.
    Any,
}

/// A mapping with fixed keys.
#[derive(Debug)]
pub struct Record {
    /// The name in the schema and the reference, e.g. `step`.
    pub name: &'static str,
    /// What it is, in one sentence.
    pub doc: &'static str,
    /// The keys.
    pub keys: &'static [Key],
}

/// One key of a [`Record`].
#[derive(Debug)]
pub struct Key {
    /// The name to write.
    pub name: &'static str,
    /// Other names that mean the same.
    pub aliases: &'static [&'static str],
    /// What the value looks like.
    pub shape: Shape,
    /// Whether it must be there.
    pub required: bool,
    /// What is used when it is not there, as shown in the reference.
    pub default: &'static str,
    /// What it means, in one sentence.
    pub doc: &'static str,
    /// If set: the key still works, and this says what to write instead.
    pub deprecated: Option<&'static str>,
}
