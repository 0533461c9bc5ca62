//! Templates: text with `${path}` in it.

use std::collections::BTreeSet;

use crate::{diagnostic::Fault, vars::Vars};

/// The roots that a template may use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Namespaces and captured names; anything else is unknown.
    pub roots: BTreeSet<String>,
}

/// What a text is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sink {
    /// A prompt, an environment value, or a plain text file: values go in as they are.
    Text,
    /// A path below the worktree: every value must stay inside.
    Path,
    /// A JSON document: values are encoded for where they stand.
    Json,
    /// A YAML document: values are encoded for where they stand.
    Yaml,
}

/// A template for anything but a shell.
#[derive(Clone, Debug, PartialEq)]
pub struct Text {
    source: String,
}

/// A template for a shell: values travel in the environment, never in the text.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    source: String,
}

/// Which shell a script is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// `sh` and other POSIX shells.
    Posix,
    /// `bash`, and shells close to it.
    Bash,
}

/// A script that is ready to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The program text, with references in place of values.
    pub text: String,
    /// The values, by variable name.
    pub env: Vec<(String, String)>,
    /// Values that go into a temporary file: the variable gets the file's path.
    pub files: Vec<(String, String)>,
}

/// A template could not be filled in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RenderError {
    /// What is wrong, naming the reference.
    pub message: String,
}

impl Text {
    /// Reads a template.
    pub fn parse(source: &str, _names: &Names, _sink: Sink) -> Result<Self, Vec<Fault>> {
        Ok(Self { source: source.to_owned() })
    }

    /// Returns the template as written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Fills the template in.
    pub fn render(&self, _vars: &Vars) -> Result<String, RenderError> {
        Ok(self.source.clone())
    }
}

impl Script {
    /// Reads a shell script; `allow_raw` permits the `raw` filter.
    pub fn parse(
        source: &str,
        _names: &Names,
        _dialect: Dialect,
        _allow_raw: bool,
    ) -> Result<Self, Vec<Fault>> {
        Ok(Self { source: source.to_owned() })
    }

    /// Returns the script as written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Binds the values.
    pub fn bind(&self, _vars: &Vars) -> Result<Bound, RenderError> {
        Ok(Bound { text: self.source.clone(), env: vec![], files: vec![] })
    }
}
