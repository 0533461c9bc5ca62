//! Encoding a value for the place in a document where it is inserted.

use serde_json::Value;

use super::{TemplateKind, filter::FilteredValue};
use crate::vars::value_text;

/// The encoding that a value needs at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// As it is.
    Plain,
    /// As a JSON value of its own.
    Json,
    /// As a part of a JSON string.
    JsonString,
    /// As a YAML value of its own; JSON is YAML.
    Yaml,
    /// As a part of a YAML text in double quotes.
    YamlDouble,
    /// As a part of a YAML text in single quotes.
    YamlSingle,
}

impl Encoding {
    /// Writes a value; an error says what is wrong with it.
    pub(crate) fn write(self, filled: &FilteredValue) -> Result<String, String> {
        let text = || value_text(&filled.value);
        let json = || if filled.encoded { text() } else { filled.value.to_string() };
        match self {
            Self::Plain => Ok(text()),
            Self::Json => Ok(json()),
            Self::JsonString => Ok(unquoted_json(&text())),
            Self::Yaml => Ok(printable(&json())),
            Self::YamlDouble => Ok(printable(&unquoted_json(&text()))),
            Self::YamlSingle => single_quoted(&text()),
        }
    }
}

fn unquoted_json(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default().to_owned()
}

/// Returns true for a character that YAML forbids outside of an escape, or reads as
/// the end of a line.
fn is_unprintable(c: char) -> bool {
    c.is_control() || matches!(u32::from(c), 0x2028 | 0x2029 | 0xFEFF | 0xFFFE | 0xFFFF)
}

/// Escapes what JSON allows in a string and YAML does not. Such characters can
/// stand in the strings of a JSON text only, so the whole text can be searched.
fn printable(json: &str) -> String {
    let mut written = String::with_capacity(json.len());
    for c in json.chars() {
        if is_unprintable(c) {
            // All of them have four digits: YAML allows every character beyond.
            let digit = |place: u32| char::from_digit(u32::from(c) >> (4 * place) & 0xF, 16);
            written.push_str("\\u");
            written.extend((0..4).rev().filter_map(digit));
        } else {
            written.push(c);
        }
    }
    written
}

fn single_quoted(text: &str) -> Result<String, String> {
    if text.contains(is_unprintable) {
        return Err("has a line break or a control character, which YAML cannot write in single \
                    quotes; use double quotes"
            .to_owned());
    }
    Ok(text.replace('\'', "''"))
}

/// Follows a document to know how a value at each point must be encoded.
#[derive(Clone, Debug)]
pub(crate) enum EncodingTracker {
    /// Not a document with a grammar.
    Plain,
    /// A JSON document.
    Json {
        /// Inside a string.
        quoted: bool,
        /// After a backslash.
        escaped: bool,
    },
    /// A YAML document.
    Yaml(YamlTracker),
}

impl EncodingTracker {
    pub(crate) fn new(sink: TemplateKind) -> Self {
        match sink {
            TemplateKind::Text | TemplateKind::Path => Self::Plain,
            TemplateKind::Json => Self::Json { quoted: false, escaped: false },
            TemplateKind::Yaml => Self::Yaml(YamlTracker::default()),
        }
    }

    /// Takes note of literal text.
    pub(crate) fn push_literal(&mut self, text: &str) {
        for c in text.chars() {
            match self {
                Self::Plain => {}
                Self::Json { quoted, escaped } => {
                    if *escaped {
                        *escaped = false;
                    } else if c == '"' {
                        *quoted = !*quoted;
                    } else if c == '\\' {
                        *escaped = *quoted;
                    }
                }
                Self::Yaml(yaml) => yaml.feed(c),
            }
        }
    }

    /// Returns the encoding at this point, where `after` is the text that
    /// follows; an error says why no value can stand here.
    pub(crate) fn encoding_at(&mut self, after: &str) -> Result<Encoding, &'static str> {
        match self {
            Self::Plain => Ok(Encoding::Plain),
            Self::Json { escaped: escaped @ true, .. } => {
                *escaped = false;
                Err(AFTER_BACKSLASH)
            }
            Self::Json { quoted: true, .. } => Ok(Encoding::JsonString),
            Self::Json { quoted: false, .. } => Ok(Encoding::Json),
            Self::Yaml(yaml) => yaml.value(after),
        }
    }
}

pub(crate) const AFTER_BACKSLASH: &str = "a value cannot stand right after a `\\`";
const IN_BLOCK: &str = "a value cannot stand in a `|` or `>` block, where its line breaks and \
                        spaces would change the document";
const IN_PLAIN: &str = "a value cannot be a part of a text without quotes";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum YamlMode {
    #[default]
    Outside,
    Plain,
    Double {
        escaped: bool,
    },
    Single,
    Comment,
    BlockHeader,
    Block,
}

/// The little of YAML's grammar that decides about quoting.
#[derive(Clone, Debug)]
pub(crate) struct YamlTracker {
    mode: YamlMode,
    before: char,
    flow: usize,
    /// Spaces at the start of this line, while there is nothing else on it.
    indent: usize,
    at_line_start: bool,
    /// The indentation of the line whose block is being read.
    block_indent: usize,
}

impl Default for YamlTracker {
    fn default() -> Self {
        Self {
            mode: YamlMode::Outside,
            before: '\n',
            flow: 0,
            indent: 0,
            at_line_start: true,
            block_indent: 0,
        }
    }
}

impl YamlTracker {
    fn feed(&mut self, c: char) {
        if self.at_line_start && c != '\n' {
            if c == ' ' {
                self.indent += 1;
            } else {
                self.at_line_start = false;
                if self.mode == YamlMode::Block && self.indent <= self.block_indent {
                    self.mode = YamlMode::Outside;
                }
            }
        }
        self.mode = self.next_mode(c);
        if c == '\n' {
            self.at_line_start = true;
            self.indent = 0;
        }
        self.before = c;
    }

    fn next_mode(&mut self, c: char) -> YamlMode {
        let after_blank = self.before.is_whitespace();
        match self.mode {
            YamlMode::Double { escaped: true } => YamlMode::Double { escaped: false },
            YamlMode::Double { escaped: false } => match c {
                '"' => YamlMode::Outside,
                '\\' => YamlMode::Double { escaped: true },
                _ => self.mode,
            },
            // A doubled quote closes the text and opens it again: the same thing here.
            YamlMode::Single if c == '\'' => YamlMode::Outside,
            YamlMode::Comment if c == '\n' => YamlMode::Outside,
            YamlMode::BlockHeader if c == '\n' => {
                self.block_indent = self.indent;
                YamlMode::Block
            }
            YamlMode::Single | YamlMode::Comment | YamlMode::BlockHeader | YamlMode::Block => {
                self.mode
            }
            YamlMode::Plain => match c {
                '\n' => YamlMode::Outside,
                '#' if after_blank => YamlMode::Comment,
                ',' if self.flow > 0 => YamlMode::Outside,
                ']' | '}' if self.flow > 0 => {
                    self.flow -= 1;
                    YamlMode::Outside
                }
                _ if c.is_whitespace() && self.before == ':' => YamlMode::Outside,
                _ => YamlMode::Plain,
            },
            YamlMode::Outside => self.after_outside(c, after_blank),
        }
    }

    fn after_outside(&mut self, c: char, after_blank: bool) -> YamlMode {
        match c {
            '"' => YamlMode::Double { escaped: false },
            '\'' => YamlMode::Single,
            '#' if after_blank => YamlMode::Comment,
            '|' | '>' if self.flow == 0 => YamlMode::BlockHeader,
            '[' | '{' => {
                self.flow += 1;
                YamlMode::Outside
            }
            ']' | '}' => {
                self.flow = self.flow.saturating_sub(1);
                YamlMode::Outside
            }
            '-' | '?' | ':' | ',' => YamlMode::Outside,
            _ if c.is_whitespace() => YamlMode::Outside,
            _ => YamlMode::Plain,
        }
    }

    fn value(&mut self, after: &str) -> Result<Encoding, &'static str> {
        if self.at_line_start && self.mode == YamlMode::Block && self.indent <= self.block_indent {
            self.mode = YamlMode::Outside;
        }
        self.at_line_start = false;
        let encoding = match self.mode {
            YamlMode::Double { escaped: true } => {
                self.mode = YamlMode::Double { escaped: false };
                return Err(AFTER_BACKSLASH);
            }
            YamlMode::Double { escaped: false } => Encoding::YamlDouble,
            YamlMode::Single => Encoding::YamlSingle,
            YamlMode::Comment => Encoding::Yaml,
            YamlMode::Block | YamlMode::BlockHeader => return Err(IN_BLOCK),
            YamlMode::Plain => return Err(IN_PLAIN),
            YamlMode::Outside => {
                let starts = self.before.is_whitespace()
                    || (self.flow > 0 && matches!(self.before, '[' | '{' | ','));
                if !starts || !self.ends_scalar(after) {
                    return Err(IN_PLAIN);
                }
                Encoding::Yaml
            }
        };
        // What was inserted ends like a text in quotes.
        self.before = '"';
        Ok(encoding)
    }

    fn ends_scalar(&self, after: &str) -> bool {
        let rest = after.trim_start_matches([' ', '\t']);
        match rest.chars().next() {
            None | Some('\n' | '\r') => true,
            Some(':') => rest
                .get(1..)
                .is_some_and(|more| more.is_empty() || more.starts_with(char::is_whitespace)),
            Some('#') => rest.len() < after.len(),
            Some(',' | ']' | '}') => self.flow > 0,
            Some(_) => false,
        }
    }
}
