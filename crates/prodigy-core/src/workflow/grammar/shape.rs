//! Shapes of the values in a workflow file.

use crate::{diagnostic::Diagnostic, yaml::YamlNode};

/// The largest whole number that a count may have.
pub(super) const LARGEST: i64 = u32::MAX as i64;

/// The shape of a value.
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
    /// A path into JSON (RFC 9535).
    JsonPath,
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
    /// One of these words, or a prefix with something of the author's choice behind it.
    WordOr {
        /// The words.
        words: &'static [&'static str],
        /// The start of the other form, e.g. `custom:`.
        prefix: &'static str,
        /// The part behind the prefix, as shown to people, e.g. `NAME`.
        rest: &'static str,
    },
    /// A list, maybe empty.
    List(&'static Self),
    /// A list with at least one element.
    NonEmptyList(&'static Self),
    /// A mapping whose keys the author chooses.
    Table {
        /// The names that the keys may have.
        names: KeyNames,
        /// The shape of each value.
        value: &'static Self,
    },
    /// A mapping with these keys and no others.
    Record(&'static RecordShape),
    /// A mapping with one key that says which other keys it has.
    Tagged(&'static TaggedShape),
    /// Any of these, told apart by whether the value is a scalar, a list or a mapping.
    OneOf(&'static [Self]),
    /// A JSON Schema.
    JsonSchema,
    /// Anything at all.
    Any,
}

/// The names that keys chosen by the author may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyNames {
    /// Any text that is not empty.
    Free,
    /// Names that `${…}` can hold.
    Variable,
    /// Names of environment variables.
    Environment,
    /// Exit codes from 1 to 255.
    ExitCode,
}

/// A mapping with fixed keys.
#[derive(Debug)]
pub struct RecordShape {
    /// The name in the schema and the reference, e.g. `step`.
    pub name: &'static str,
    /// The name in messages, e.g. "a step" or "`map`".
    pub title: &'static str,
    /// The description, in one sentence.
    pub doc: &'static str,
    /// The keys, in groups, so that records can share some of them.
    pub groups: &'static [&'static [KeyShape]],
    /// Keys that exclude each other.
    pub choice: Option<Choice>,
    /// A check of rules that the tables cannot express.
    pub rule: Option<fn(&YamlNode, &mut Vec<Diagnostic>)>,
}

/// Keys that exclude each other: those of one alternative may stand together.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// The name in messages, e.g. "action".
    pub what: &'static str,
    /// The alternatives.
    pub alternatives: &'static [&'static [&'static str]],
    /// Set if one of them must be present.
    pub required: bool,
}

/// A mapping with one key that says which other keys it has.
#[derive(Debug)]
pub struct TaggedShape {
    /// The name in the schema and the reference.
    pub name: &'static str,
    /// The key that decides.
    pub tag: &'static str,
    /// Its values, and the mapping that belongs to each. The mapping has the deciding key, too.
    pub variants: &'static [(&'static str, &'static RecordShape)],
}

/// One key of a [`RecordShape`].
#[derive(Debug)]
pub struct KeyShape {
    /// The name to write.
    pub name: &'static str,
    /// Other names that mean the same.
    pub aliases: &'static [&'static str],
    /// The shape of the value.
    pub shape: Shape,
    /// Set if the key must be present.
    pub required: bool,
    /// The default value, as shown in the reference; empty for none.
    pub default: &'static str,
    /// The meaning, in one sentence.
    pub doc: &'static str,
    /// If set: the key still works, and this says what to write instead.
    pub deprecated: Option<&'static str>,
    /// If not empty: the key means something only beside one of these.
    pub beside: &'static [&'static str],
}

impl RecordShape {
    /// Returns all keys.
    pub fn keys(&self) -> impl Iterator<Item = &'static KeyShape> + use<> {
        self.groups.iter().flat_map(|group| group.iter())
    }

    /// Returns the key with this name or alias.
    pub fn key(&self, name: &str) -> Option<&'static KeyShape> {
        self.keys().find(|key| key.name == name || key.aliases.contains(&name))
    }
}

impl KeyShape {
    /// Creates an optional key.
    pub const fn new(name: &'static str, shape: Shape, doc: &'static str) -> Self {
        Self {
            name,
            aliases: &[],
            shape,
            required: false,
            default: "",
            doc,
            deprecated: None,
            beside: &[],
        }
    }

    /// Says that the key must be there.
    #[must_use]
    pub const fn require(mut self) -> Self {
        self.required = true;
        self
    }

    /// Says what is used when the key is not there.
    #[must_use]
    pub const fn or(mut self, default: &'static str) -> Self {
        self.default = default;
        self
    }

    /// Adds names that mean the same.
    #[must_use]
    pub const fn alias(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    /// Says what to write instead.
    #[must_use]
    pub const fn deprecate(mut self, instead: &'static str) -> Self {
        self.deprecated = Some(instead);
        self
    }

    /// Says which keys it needs beside it.
    #[must_use]
    pub const fn only_beside(mut self, keys: &'static [&'static str]) -> Self {
        self.beside = keys;
        self
    }
}
