//! Templates: text with `${path}` in it.
//!
//! A template is read once, when the workflow is loaded, and filled in many
//! times. It is read in one pass and the values are never looked at again for
//! more references. There are two kinds: [`Template`] puts values into text, encoded
//! for what the text is; [`Script`] puts *references* into a shell script and
//! hands the values over in the environment or in files, so that no value ever
//! becomes part of the program.

mod encode;
mod filter;
mod reference;
mod resolve;
mod script;
mod shell;
mod text;

use std::collections::BTreeSet;

pub use self::{reference::VarReference, script::Script, shell::ExternalCommand, text::Template};

/// The roots that a template may use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VarRoots {
    /// Namespaces and captured names; anything else is unknown.
    pub roots: BTreeSet<String>,
}

/// The use of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemplateKind {
    /// A prompt, an environment value, or a plain text file: values go in as they are.
    Text,
    /// A path below the worktree: every value must stay inside.
    Path,
    /// A JSON document: values are encoded for where they stand.
    Json,
    /// A YAML document: values are encoded for where they stand.
    Yaml,
}

/// Which shell a script is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShellDialect {
    /// `sh` and other POSIX shells.
    Posix,
    /// `bash`, and shells close to it.
    Bash,
}

/// A script that is ready to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundScript {
    /// The program text, with references in place of values.
    pub text: String,
    /// The values, by variable name.
    pub env: Vec<(String, String)>,
    /// Values that go into a temporary file, which must exist until the script
    /// ends: the variable gets the file's path.
    pub files: Vec<(String, String)>,
}

/// A template could not be filled in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RenderError {
    /// The error message, with the name of the reference.
    pub message: String,
}
