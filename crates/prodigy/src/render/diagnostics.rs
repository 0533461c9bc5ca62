//! Mistakes in files, as people and programs see them.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};
use prodigy_core::diagnostic::{Diagnostic, Severity, SourceFile, Sources};
use serde::Serialize;

/// The width of what is shown; longer lines are cut around the mistake.
const WIDTH: usize = 160;
/// The longest line, in bytes, that is handed to the renderer whole: it looks at every character.
const LONGEST: usize = 2_000;
/// The most characters that are pointed at.
const CARETS: usize = 80;

/// One mistake with its place, as the JSON and GitHub forms show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct DiagnosticView {
    /// `error` or `warning`.
    severity: &'static str,
    /// The file, as the person named it.
    file: String,
    /// The line, from 1; `null` if the mistake is the file itself.
    line: Option<usize>,
    /// The column, from 1, in characters.
    column: Option<usize>,
    /// The line where it ends.
    end_line: Option<usize>,
    /// The column just behind it.
    end_column: Option<usize>,
    /// The message.
    message: String,
    /// The suggested fix.
    help: Option<String>,
}

impl DiagnosticView {
    /// Finds out where a mistake stands.
    pub(crate) fn new(sources: &Sources, diagnostic: &Diagnostic) -> Self {
        let start = sources.position(diagnostic.span);
        let end = sources.end_position(diagnostic.span);
        Self {
            severity: severity(diagnostic.severity),
            file: sources
                .get(diagnostic.span.file)
                .map_or_else(String::new, |file| file.path.clone()),
            line: start.map(|(line, _)| line),
            column: start.map(|(_, column)| column),
            end_line: end.map(|(line, _)| line),
            end_column: end.map(|(_, column)| column),
            message: diagnostic.message.clone(),
            help: diagnostic.help.clone(),
        }
    }

    /// Makes a mistake of a file that could not be read at all.
    pub(crate) fn of_file(file: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            severity: severity(Severity::Error),
            file: file.into(),
            line: None,
            column: None,
            end_line: None,
            end_column: None,
            message: message.into(),
            help: None,
        }
    }

    /// Returns a workflow command for GitHub Actions, which shows it beside the line.
    pub(crate) fn github(&self) -> String {
        let mut place = format!("file={}", escaped(&self.file, true));
        if let (Some(line), Some(column)) = (self.line, self.column) {
            place = format!("{place},line={line},col={column}");
        }
        let help = self.help.as_ref().map(|help| format!("\nhelp: {help}")).unwrap_or_default();
        format!(
            "::{} {place}::{}",
            self.severity,
            escaped(&format!("{}{help}", self.message), false)
        )
    }
}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    }
}

/// Escapes text for a workflow command; properties end at `,` and `:`.
fn escaped(text: &str, property: bool) -> String {
    let text = text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    if property { text.replace(':', "%3A").replace(',', "%2C") } else { text }
}

/// Returns a mistake with the line it stands in, for a terminal.
pub(crate) fn render_diagnostic(sources: &Sources, diagnostic: &Diagnostic, color: bool) -> String {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let mut group = Group::with_title(level.primary_title(strip_controls(&diagnostic.message)));
    let source = sources.get(diagnostic.span.file);
    if let Some((path, excerpt)) = source
        .and_then(|source| Some((source.path.as_str(), SourceExcerpt::new(source, diagnostic)?)))
    {
        let mut snippet = Snippet::source(excerpt.text)
            .line_start(excerpt.line)
            .annotation(AnnotationKind::Primary.span(excerpt.caret));
        if let Some(column) = excerpt.column {
            group = group
                .element(Origin::path(strip_controls(path)).line(excerpt.line).char_column(column));
        } else {
            snippet = snippet.path(strip_controls(path));
        }
        group = group.element(snippet);
    }
    if let Some(help) = &diagnostic.help {
        group = group.element(Level::HELP.message(strip_controls(help)));
    }
    let renderer = if color { Renderer::styled() } else { Renderer::plain() };
    renderer.term_width(WIDTH).render(&[group])
}

/// The line of a mistake.
struct SourceExcerpt {
    line: usize,
    /// Where the mistake starts in the file, if the text is not the whole line.
    column: Option<usize>,
    text: String,
    /// The bytes of `text` to point at.
    caret: Range<usize>,
}

impl SourceExcerpt {
    fn new(source: &SourceFile, diagnostic: &Diagnostic) -> Option<Self> {
        let start = usize::try_from(diagnostic.span.start).ok()?;
        let end = usize::try_from(diagnostic.span.end).ok()?;
        let (line, column) = source.position(start)?;
        let (first, text) = source.line(line)?;
        // A byte order mark is nothing that people see.
        let shown = text.trim_start_matches('\u{feff}');
        let first = first + text.len() - shown.len();
        let start = start.saturating_sub(first).min(shown.len());
        // Only the first line of a longer stretch is shown, and not all of a very long one.
        let longest = advance_chars(shown, start, CARETS);
        let caret = start..end.saturating_sub(first).clamp(start, longest);
        if shown.len() <= LONGEST {
            return Some(Self { line, column: None, text: replace_controls(shown), caret });
        }
        let before = shown.get(..start)?;
        let from = before.char_indices().rev().nth(WIDTH).map_or(0, |(at, _)| at);
        let text = shown.get(from..advance_chars(shown, start, 2 * WIDTH))?;
        let text = replace_controls(text);
        Some(Self { line, column: Some(column), text, caret: caret.start - from..caret.end - from })
    }
}

/// Returns text without the control characters that the renderer does not show by pictures.
///
/// Each is replaced by as many bytes as it has, so that the caret stays in place.
fn replace_controls(text: &str) -> String {
    text.replace(|c: char| ('\u{80}'..='\u{9f}').contains(&c), "\u{bf}")
}

/// Returns the byte that is `count` characters behind byte `at`, or the end of the text.
fn advance_chars(text: &str, at: usize, count: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    rest.char_indices().nth(count).map_or(text.len(), |(byte, _)| at + byte)
}

/// Returns text without the control characters that could steer a terminal.
fn strip_controls(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use prodigy_core::diagnostic::Span;

    use super::*;

    /// Renders an error about the first `needle` in a file.
    fn shown(text: &str, needle: &str) -> String {
        let mut sources = Sources::default();
        let file = sources.add("dir/f.yml", text);
        let start = u32::try_from(text.find(needle).unwrap()).unwrap();
        let end = start + u32::try_from(needle.len()).unwrap();
        let diagnostic =
            Diagnostic::error(Span { file, start, end }, "this is wrong").help("do it right");
        render_diagnostic(&sources, &diagnostic, false)
    }

    #[test]
    fn a_mistake_is_shown_in_its_line() {
        insta::assert_snapshot!(shown("a: 1\nkey: 日本 wrong é\nb: 2\n", "wrong"), @"
        error: this is wrong
         --> dir/f.yml:2:9
          |
        2 | key: 日本 wrong é
          |           ^^^^^
          |
          = help: do it right
        ");
        insta::assert_snapshot!(shown("\u{feff}key: wrong\r\n", "wrong"), @"
        error: this is wrong
         --> dir/f.yml:1:6
          |
        1 | key: wrong
          |      ^^^^^
          |
          = help: do it right
        ");
        insta::assert_snapshot!(shown("a:\n  - one\n  - two\nb: 1\n", "- one\n  - two"), @"
        error: this is wrong
         --> dir/f.yml:2:3
          |
        2 |   - one
          |   ^^^^^
          |
          = help: do it right
        ");
        insta::assert_snapshot!(shown("a: \x1b[31mred\ttab\n", "tab"), @"
        error: this is wrong
         --> dir/f.yml:1:13
          |
        1 | a: ␛[31mred    tab
          |                ^^^
          |
          = help: do it right
        ");
        insta::assert_snapshot!(shown("a: 1\n", ""), @"
        error: this is wrong
         --> dir/f.yml:1:1
          |
        1 | a: 1
          | ^
          |
          = help: do it right
        ");
    }

    #[test]
    fn a_long_line_is_cut_around_the_mistake() {
        let long = format!("key: {}wrong{}\n", "é".repeat(500), "x".repeat(500));
        insta::assert_snapshot!(shown(&long, "wrong"), @"
        error: this is wrong
         --> dir/f.yml:1:506
          |
        1 | ...ééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééwrongxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...
          |                                                                            ^^^^^
          |
          = help: do it right
        ");
        let long = format!("key: {}wrong{}\n", "é".repeat(500), "x".repeat(1 << 20));
        insta::assert_snapshot!(shown(&long, "wrong"), @"
        error: this is wrong
         --> dir/f.yml:1:506
          |
         ::: 
        1 | ...ééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééwrongxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...
          |                                                                            ^^^^^
          |
          = help: do it right
        ");
        let all = format!("key: {}\n", "w".repeat(1 << 20));
        insta::assert_snapshot!(shown(&all, &"w".repeat(1 << 20)), @"
        error: this is wrong
         --> dir/f.yml:1:6
          |
         ::: 
        1 | key: wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww...
          |      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
          |
          = help: do it right
        ");
    }

    #[test]
    fn colour_is_used_only_if_asked_for() {
        let mut sources = Sources::default();
        sources.add("f.yml", "a: 1\n");
        let diagnostic = Diagnostic::warning(Span { file: 0, start: 0, end: 1 }, "old\x1b[0m");
        insta::assert_snapshot!(render_diagnostic(&sources, &diagnostic, false), @"
        warning: old�[0m
         --> f.yml:1:1
          |
        1 | a: 1
          | ^
        ");
        insta::assert_snapshot!(format!("{:?}", render_diagnostic(&sources, &diagnostic, true)), @r#""\u{1b}[1m\u{1b}[33mwarning\u{1b}[0m\u{1b}[1m: old�[0m\u{1b}[0m\n \u{1b}[1m\u{1b}[94m--> \u{1b}[0mf.yml:1:1\n  \u{1b}[1m\u{1b}[94m|\u{1b}[0m\n\u{1b}[1m\u{1b}[94m1\u{1b}[0m \u{1b}[1m\u{1b}[94m|\u{1b}[0m a: 1\n  \u{1b}[1m\u{1b}[94m|\u{1b}[0m \u{1b}[1m\u{1b}[33m^\u{1b}[0m""#);
    }

    #[test]
    fn workflow_commands_escape_what_would_end_them() {
        let mut sources = Sources::default();
        sources.add("a,b:c.yml", "a: 1\n");
        let diagnostic =
            Diagnostic::error(Span { file: 0, start: 3, end: 4 }, "100% wrong\nreally")
                .help("fix it");
        insta::assert_snapshot!(DiagnosticView::new(&sources, &diagnostic).github(), @"::error file=a%2Cb%3Ac.yml,line=1,col=4::100%25 wrong%0Areally%0Ahelp: fix it");
        insta::assert_snapshot!(DiagnosticView::of_file("x.yml", "there is no file `x.yml`").github(), @"::error file=x.yml::there is no file `x.yml`");
    }
}
