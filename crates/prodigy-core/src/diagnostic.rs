//! Diagnostics: errors and warnings about a file, with their position.

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
pub struct SourceFile {
    /// The path as the user would type it.
    pub path: String,
    /// The text.
    pub text: String,
    /// Where each line starts, so that many positions in a large file are found quickly.
    lines: Vec<usize>,
}

/// The files that a workflow was read from; the first is the one that was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    files: Vec<SourceFile>,
}

impl Sources {
    /// Adds a file and returns the number that spans use for it.
    pub fn add(&mut self, path: impl Into<String>, text: impl Into<String>) -> u32 {
        let number = u32::try_from(self.files.len()).unwrap_or(u32::MAX);
        let text = text.into();
        let lines =
            std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        self.files.push(SourceFile { path: path.into(), text, lines });
        number
    }

    /// Returns the file that a span lies in.
    pub fn get(&self, file: u32) -> Option<&SourceFile> {
        self.files.get(usize::try_from(file).ok()?)
    }

    /// Returns the line and column where a span starts, both from 1; the column counts characters.
    pub fn position(&self, span: Span) -> Option<(usize, usize)> {
        self.get(span.file)?.position(usize::try_from(span.start).ok()?)
    }

    /// Returns the line and column just behind a span, both from 1.
    pub fn end_position(&self, span: Span) -> Option<(usize, usize)> {
        self.get(span.file)?.position(usize::try_from(span.end).ok()?)
    }

    /// Returns all files, in the order they were read.
    pub fn iter(&self) -> impl Iterator<Item = &SourceFile> {
        self.files.iter()
    }
}

impl SourceFile {
    /// Returns the line and column of a byte, both from 1; the column counts characters.
    pub fn position(&self, byte: usize) -> Option<(usize, usize)> {
        let line = self.lines.partition_point(|&start| start <= byte);
        let before = self.text.get(*self.lines.get(line.checked_sub(1)?)?..byte)?;
        // A byte order mark takes no column in any editor.
        let before = before.strip_prefix('\u{feff}').unwrap_or(before);
        Some((line, before.chars().count() + 1))
    }

    /// Returns the text of a line, counted from 1, without its line break, and its first byte.
    pub fn line(&self, line: usize) -> Option<(usize, &str)> {
        let start = *self.lines.get(line.checked_sub(1)?)?;
        let end = self.lines.get(line).copied().unwrap_or(self.text.len());
        Some((start, self.text.get(start..end)?.trim_end_matches(['\n', '\r'])))
    }
}

/// The severity of a diagnostic.
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
    /// The severity: a warning or an error.
    pub severity: Severity,
    /// Where.
    pub span: Span,
    /// The problem: lower case, no full stop.
    pub message: String,
    /// A suggestion to fix the problem.
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
pub struct ParseError {
    /// The part of the text that is wrong.
    pub range: std::ops::Range<usize>,
    /// The problem: lower case, no full stop.
    pub message: String,
    /// A suggestion to fix the problem.
    pub help: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_lines_and_characters() {
        let mut sources = Sources::default();
        let file = sources.add("f.yml", "\u{feff}aé: 1\r\n\nb: 日本 x");
        let at = |start| sources.position(Span { file, start, end: start });
        assert_eq!(at(0), Some((1, 1)));
        assert_eq!(at(3), Some((1, 1)));
        assert_eq!(at(6), Some((1, 3)), "`é` is one column");
        assert_eq!(at(11), Some((2, 1)));
        assert_eq!(at(12), Some((3, 1)));
        assert_eq!(at(22), Some((3, 7)), "`日本` is two columns");
        assert_eq!(at(23), Some((3, 8)), "the end of the text is a position");
        assert_eq!(at(24), None);
        assert_eq!(at(5), None, "inside a character");
        assert_eq!(sources.get(file).and_then(|source| source.line(1)), Some((0, "\u{feff}aé: 1")));
        assert_eq!(sources.get(file).and_then(|source| source.line(4)), None);
    }
}
