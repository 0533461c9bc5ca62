//! What is wrong with a file, and where.

/// A stretch of one source file, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// Which file, as an index into [`Sources`].
    pub file: u32,
    /// The first byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

/// One file that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The path as the user would type it.
    pub path: String,
    /// The text.
    pub text: String,
}

/// The files that a workflow was read from; the first is the one that was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    files: Vec<Source>,
}

impl Sources {
    /// Adds a file and returns the number that spans use for it.
    pub fn add(&mut self, path: impl Into<String>, text: impl Into<String>) -> u32 {
        let number = u32::try_from(self.files.len()).unwrap_or(u32::MAX);
        self.files.push(Source { path: path.into(), text: text.into() });
        number
    }

    /// Returns the file that a span lies in.
    pub fn get(&self, file: u32) -> Option<&Source> {
        self.files.get(usize::try_from(file).ok()?)
    }

    /// Returns the line and column where a span starts, both from 1; the column counts characters.
    pub fn position(&self, span: Span) -> Option<(usize, usize)> {
        let text = &self.get(span.file)?.text;
        let before = text.get(..usize::try_from(span.start).ok()?)?;
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Some((line, column))
    }

    /// Returns all files, in the order they were read.
    pub fn iter(&self) -> impl Iterator<Item = &Source> {
        self.files.iter()
    }
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The file can be used, but something should change.
    Warning,
    /// The file cannot be used.
    Error,
}

/// One thing that is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// Where.
    pub span: Span,
    /// What is wrong: lower case, no full stop.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

impl Diagnostic {
    /// Creates an error.
    pub fn error(span: Span, message: impl Into<String>) -> Self {
        Self { severity: Severity::Error, span, message: message.into(), help: None }
    }

    /// Creates a warning.
    pub fn warning(span: Span, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, span, message: message.into(), help: None }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// Something wrong inside a piece of text, in bytes from its start.
///
/// Templates and expressions report these; whoever knows where the text stands
/// in its file turns them into [`Diagnostic`]s.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The part of the text that is wrong.
    pub range: std::ops::Range<usize>,
    /// What is wrong: lower case, no full stop.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}
