//! One `${…}`: a path, a default, and filters.

use std::ops::Range;

use super::{VarRoots, filter::TemplateFilter};
use crate::nearest::nearest;
use crate::{
    diagnostic::ParseError,
    vars::{PathSegment, VarPath},
};

/// One reference of a template, as read.
#[derive(Clone, Debug, PartialEq)]
pub struct VarReference {
    path: VarPath,
    spelled: String,
    default: Option<String>,
    filters: Vec<TemplateFilter>,
    range: Range<usize>,
}

impl VarReference {
    /// Returns the variable that is referred to.
    pub fn path(&self) -> &VarPath {
        &self.path
    }

    /// Returns where the reference stands in the template, in bytes, braces included.
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// Returns the text used when there is no value.
    ///
    /// As in a shell, `:-` also replaces `null` and empty text.
    pub fn default(&self) -> Option<&str> {
        self.default.as_deref()
    }

    /// Returns the path as the author spelled it, for messages.
    pub(super) fn path_text(&self) -> &str {
        &self.spelled
    }

    pub(super) fn filters(&self) -> &[TemplateFilter] {
        &self.filters
    }

    /// Returns the filter that says how the value travels into a shell script.
    pub(super) fn shell_filter(&self) -> Option<TemplateFilter> {
        self.filters.last().copied().filter(|filter| filter.is_shell_only())
    }

    /// Returns true if two references always have the same value.
    pub(super) fn is_same_value(&self, other: &Self) -> bool {
        self.path == other.path && self.default == other.default && self.filters == other.filters
    }
}

/// Which kind of template a reference stands in; the rules differ a little.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReferenceContext {
    /// Anything but a shell script.
    Text,
    /// A shell script; `allow_raw` is the step's.
    Shell { allow_raw: bool },
}

/// The owner of a `${` in a shell script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ExpansionOwner {
    /// A reference to one of our variables.
    Template,
    /// An expansion of the shell's own.
    Shell,
    /// Neither can make sense of it.
    Nobody(ParseError),
}

/// Decides whom the `${` at `start` of a shell script belongs to.
pub(super) fn expansion_owner(source: &str, start: usize, names: &VarRoots) -> ExpansionOwner {
    let inner = source.get(start + 2..).unwrap_or_default();
    let sign = inner.chars().next().filter(|first| matches!(first, '#' | '!'));
    let name_text = if sign.is_some() { inner.get(1..).unwrap_or_default() } else { inner };
    let root = root_name(name_text, names);
    let after = name_text.get(root.len()..).and_then(|rest| rest.chars().next());
    let range = start..start + 2 + closing(inner);
    let known = names.roots.contains(root);
    match sign {
        Some(sign) if known && after != Some('=') => ExpansionOwner::Nobody(ParseError {
            range,
            message: format!(
                "`${{{sign}{root}…}}` is for shell variables, and `{root}` is not one"
            ),
            help: Some(if sign == '#' {
                format!("write `${{{root}|length}}`, or `$${{#{root}}}` for the shell's own")
            } else {
                format!("write `$${{!{root}}}` for the shell's own")
            }),
        }),
        None if known => ExpansionOwner::Template,
        None if after == Some('.') && !root.is_empty() => {
            ExpansionOwner::Nobody(unknown_root(root, range, names))
        }
        Some(_) | None => ExpansionOwner::Shell,
    }
}

fn unknown_root(root: &str, range: Range<usize>, names: &VarRoots) -> ParseError {
    let help = match nearest(root, names.roots.iter().map(String::as_str)) {
        Some(known) => format!("did you mean `{known}`?"),
        None if names.roots.is_empty() => "no variables exist here".to_owned(),
        None => {
            let roots: Vec<String> = names.roots.iter().map(|root| format!("`{root}`")).collect();
            format!("write `$${{` for a literal `${{`; the variables here are {}", roots.join(", "))
        }
    };
    ParseError { range, message: format!("unknown variable `{root}`"), help: Some(help) }
}

/// Returns the name that a text starts with. A captured name may have hyphens,
/// but `${x-y}` is the shell's unless `x-y` is known.
fn root_name<'a>(text: &'a str, names: &VarRoots) -> &'a str {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
    match text.get(..end) {
        Some(long) if names.roots.contains(long) => long,
        Some(_) | None => identifier(text),
    }
}

/// Returns the identifier that a text starts with.
fn identifier(text: &str) -> &str {
    let is_name = |(at, c): &(usize, char)| {
        c.is_ascii_alphabetic() || *c == '_' || (*at > 0 && c.is_ascii_digit())
    };
    let end = text.char_indices().take_while(is_name).count();
    text.get(..end).unwrap_or_default()
}

/// Returns how many bytes of a faulty reference to mark and to skip: up to the
/// closing brace, or to the end of the line.
fn closing(inner: &str) -> usize {
    match inner.find(['}', '\n']) {
        Some(at) if inner.as_bytes().get(at) == Some(&b'}') => at + 1,
        Some(at) => at,
        None => inner.len(),
    }
}

/// Reads the reference whose `${` is at `start`.
pub(super) fn parse(
    source: &str,
    start: usize,
    names: &VarRoots,
    host: ReferenceContext,
) -> Result<VarReference, ParseError> {
    ReferenceParser { source, start, pos: start + 2, names, host }.reference()
}

struct ReferenceParser<'a> {
    source: &'a str,
    start: usize,
    pos: usize,
    names: &'a VarRoots,
    host: ReferenceContext,
}

impl ReferenceParser<'_> {
    fn rest(&self) -> &str {
        self.source.get(self.pos..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn eat(&mut self, text: &str) -> bool {
        let found = self.rest().starts_with(text);
        if found {
            self.pos += text.len();
        }
        found
    }

    fn blanks(&mut self) {
        while self.peek().is_some_and(|c| c == ' ' || c == '\t') {
            self.pos += 1;
        }
    }

    fn fault(&self, message: impl Into<String>, help: impl Into<String>) -> ParseError {
        let inner = self.source.get(self.start + 2..).unwrap_or_default();
        let range = self.start..self.start + 2 + closing(inner);
        ParseError { range, message: message.into(), help: Some(help.into()) }
    }

    fn reference(mut self) -> Result<VarReference, ParseError> {
        self.blanks();
        let path_start = self.pos;
        let path = self.path()?;
        let spelled = self.source.get(path_start..self.pos).unwrap_or_default().to_owned();
        let mut default = None;
        let mut filters = Vec::new();
        loop {
            self.blanks();
            if self.eat("}") {
                break;
            } else if default.is_none() && self.eat(":-") {
                default = Some(self.default()?);
            } else if self.eat("|") {
                filters.push(self.filter()?);
            } else {
                return Err(self.unexpected(&spelled));
            }
        }
        self.check_filters(&filters)?;
        Ok(VarReference { path, spelled, default, filters, range: self.start..self.pos })
    }

    fn path(&mut self) -> Result<VarPath, ParseError> {
        let root = root_name(self.rest(), self.names).to_owned();
        if root.is_empty() {
            return Err(match self.peek() {
                Some('}') => self.fault("`${}` names no variable", LITERAL),
                None => self.fault("`${` is never closed", LITERAL),
                Some(_) => self.fault("`${` must be followed by the name of a variable", LITERAL),
            });
        }
        self.pos += root.len();
        if !self.names.roots.contains(&root) {
            let inner = self.source.get(self.start + 2..).unwrap_or_default();
            let range = self.start..self.start + 2 + closing(inner);
            return Err(unknown_root(&root, range, self.names));
        }
        let mut rest = Vec::new();
        loop {
            if self.eat(".") {
                rest.push(PathSegment::Field(self.field()?));
            } else if self.eat("[") {
                rest.push(self.subscript()?);
            } else {
                return Ok(VarPath { root, rest });
            }
        }
    }

    fn field(&mut self) -> Result<String, ParseError> {
        if self.eat("\"") {
            return self.quoted('"');
        }
        let is_part = |c: &char| c.is_alphanumeric() || matches!(c, '_' | '-');
        let name: String = self.rest().chars().take_while(is_part).collect();
        if name.is_empty() {
            return Err(self.fault("a `.` must be followed by the name of a field", FIELD));
        }
        self.pos += name.len();
        Ok(name)
    }

    fn subscript(&mut self) -> Result<PathSegment, ParseError> {
        let segment = if self.eat("\"") {
            PathSegment::Field(self.quoted('"')?)
        } else if self.eat("'") {
            PathSegment::Field(self.quoted('\'')?)
        } else {
            let digits: String = self.rest().chars().take_while(char::is_ascii_digit).collect();
            self.pos += digits.len();
            match digits.parse() {
                Ok(index) => PathSegment::Index(index),
                Err(_) => return Err(self.fault("`[` must be followed by a number", FIELD)),
            }
        };
        if self.eat("]") { Ok(segment) } else { Err(self.fault("a `[` is never closed", FIELD)) }
    }

    fn quoted(&mut self, quote: char) -> Result<String, ParseError> {
        match self.rest().find([quote, '\n']) {
            Some(end) if self.rest().get(end..).is_some_and(|rest| rest.starts_with(quote)) => {
                let text = self.rest().get(..end).unwrap_or_default().to_owned();
                self.pos += end + 1;
                Ok(text)
            }
            Some(_) | None => Err(self.fault(format!("a `{quote}` is never closed"), FIELD)),
        }
    }

    /// Reads a default: up to `|` or `}`, where `\` takes away their meaning,
    /// or between quotes.
    fn default(&mut self) -> Result<String, ParseError> {
        for quote in ['"', '\''] {
            let start = self.pos;
            if self.eat(quote.encode_utf8(&mut [0; 4])) {
                if let Ok(text) = self.quoted(quote)
                    && matches!(self.peek(), Some('}' | '|'))
                {
                    return self.plain_default(text);
                }
                self.pos = start;
            }
        }
        let mut text = String::new();
        while let Some(c) = self.peek() {
            match c {
                '}' | '|' => return self.plain_default(text),
                '\\' => {
                    self.pos += 1;
                    let escaped = self.peek().filter(|c| matches!(c, '}' | '|' | '\\'));
                    text.push(escaped.unwrap_or('\\'));
                    self.pos += escaped.map_or(0, char::len_utf8);
                }
                _ => {
                    text.push(c);
                    self.pos += c.len_utf8();
                }
            }
        }
        Err(self.fault("`${` is never closed", LITERAL))
    }

    /// A default is plain text. Refusing what looks like more than that is kinder
    /// than inserting it unexpanded.
    fn plain_default(&self, text: String) -> Result<String, ParseError> {
        let help = "set the value in an earlier step, or in `env`";
        match self.host {
            ReferenceContext::Text if text.contains("${") => {
                Err(self.fault("a default is plain text and cannot hold a `${…}`", help))
            }
            ReferenceContext::Shell { .. } if text.contains(['$', '`']) => {
                Err(self.fault("a default is plain text: the shell does not expand it", help))
            }
            ReferenceContext::Text | ReferenceContext::Shell { .. } => Ok(text),
        }
    }

    fn filter(&mut self) -> Result<TemplateFilter, ParseError> {
        self.blanks();
        let is_part = |c: &char| c.is_alphanumeric() || *c == '_';
        let name: String = self.rest().chars().take_while(is_part).collect();
        if name.is_empty() {
            return Err(
                self.fault("a `|` must be followed by a filter", TemplateFilter::suggestion(""))
            );
        }
        self.pos += name.len();
        TemplateFilter::from_name(&name).ok_or_else(|| {
            self.fault(format!("unknown filter `{name}`"), TemplateFilter::suggestion(&name))
        })
    }

    fn check_filters(&self, filters: &[TemplateFilter]) -> Result<(), ParseError> {
        let before_last = filters.len().saturating_sub(1);
        if let Some(early) = filters.iter().take(before_last).find(|f| f.is_shell_only()) {
            let name = early.name();
            return Err(self.fault(
                format!("the filter `{name}` must be the last one"),
                format!("move `|{name}` to the end"),
            ));
        }
        let Some(last) = filters.last().filter(|filter| filter.is_shell_only()) else {
            return Ok(());
        };
        match self.host {
            ReferenceContext::Text => Err(self.fault(
                format!("the filter `{}` is for shell commands only", last.name()),
                "leave it out: here a value is inserted as it is",
            )),
            ReferenceContext::Shell { allow_raw: false } if *last == TemplateFilter::Raw => Err(self.fault(
                "the filter `raw` makes the value a part of the program",
                "set `allow_raw: true` on the step if every possible value can be trusted like code",
            )),
            ReferenceContext::Shell { .. } => Ok(()),
        }
    }

    fn unexpected(&self, spelled: &str) -> ParseError {
        let Some(found) = self.peek().filter(|c| *c != '\n') else {
            return self.fault("`${` is never closed", LITERAL);
        };
        let message = format!("unexpected `{found}` after `{spelled}`");
        match self.host {
            ReferenceContext::Text => {
                self.fault(message, "only `:-default` and `|filter` may follow a variable")
            }
            ReferenceContext::Shell { .. } => self.fault(
                message,
                format!(
                    "the shell's operators work on shell variables only: \
                     put the value into one with `value=${{{spelled}}}`, then use `${{value…}}`"
                ),
            ),
        }
    }
}

const LITERAL: &str = "write `$${` for a literal `${`";
const FIELD: &str = "paths look like `item.name`, `item.files[0]` or `item.\"odd name\"`";
