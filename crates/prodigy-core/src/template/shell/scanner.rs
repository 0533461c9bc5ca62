//! The reader's position in a script, and words with their quotes.

use super::{
    analysis::{PlacementError, Quoting, ScriptAnalysis, ScriptParam, ScriptPart},
    commands::PipelineStdin,
    external::ExternalCommand,
    heredoc::PendingHeredoc,
    variables::CarriedValues,
    word::{ShellWord, is_name},
};
use crate::{
    diagnostic::ParseError,
    template::{
        ShellDialect, VarRoots,
        reference::{self, ExpansionOwner, ReferenceContext},
    },
};

/// Deeper nesting than any script has, and shallower than the stack.
const DEEPEST: usize = 48;

/// A script that was read.
pub(in crate::template) struct ScannedScript {
    /// The values it needs.
    pub(in crate::template) slots: Vec<ScriptParam>,
    /// Its parts.
    pub(in crate::template) pieces: Vec<ScriptPart>,
    /// Its commands that change something outside the worktree.
    pub(in crate::template) outside: Vec<ExternalCommand>,
}

/// Reads a script.
pub(in crate::template) fn scan(
    source: &str,
    names: &VarRoots,
    dialect: ShellDialect,
    allow_raw: bool,
) -> Result<ScannedScript, Vec<ParseError>> {
    let mut scanner = ShellScanner {
        source,
        pos: 0,
        names,
        dialect,
        host: ReferenceContext::Shell { allow_raw },
        found: ScriptAnalysis::default(),
        heredocs: Vec::new(),
        feed: PipelineStdin::default(),
        depth: 0,
    };
    scanner.script();
    scanner.found.finish(source)
}

/// A script being read.
pub(super) struct ShellScanner<'a> {
    pub(super) source: &'a str,
    pub(super) pos: usize,
    pub(super) names: &'a VarRoots,
    pub(super) dialect: ShellDialect,
    pub(super) host: ReferenceContext,
    pub(super) found: ScriptAnalysis,
    pub(super) heredocs: Vec<PendingHeredoc>,
    pub(super) feed: PipelineStdin,
    depth: usize,
}

impl<'a> ShellScanner<'a> {
    pub(super) fn rest(&self) -> &'a str {
        self.source.get(self.pos..).unwrap_or_default()
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Returns the byte `ahead` bytes from here; all syntax is ASCII.
    pub(super) fn byte(&self, ahead: usize) -> Option<u8> {
        self.source.as_bytes().get(self.pos + ahead).copied()
    }

    pub(super) fn eat(&mut self, text: &str) -> bool {
        let found = self.rest().starts_with(text);
        if found {
            self.pos += text.len();
        }
        found
    }

    /// Takes one character.
    pub(super) fn bump(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.pos += next.len_utf8();
        Some(next)
    }

    /// Reads something nested, unless it is nested too deeply.
    pub(super) fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.depth >= DEEPEST {
            self.found.add_error(ParseError {
                range: self.pos..self.source.len(),
                message: "the script is nested too deeply".to_owned(),
                help: Some("move parts of it to a script file".to_owned()),
            });
            self.pos = self.source.len();
            return None;
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        Some(result)
    }

    /// Skips spaces, continued lines and comments. What a comment mentions is
    /// left alone: it reaches nobody.
    pub(super) fn skip_blanks(&mut self) {
        loop {
            if self.eat(" ") || self.eat("\t") || self.eat("\\\n") {
                continue;
            }
            if self.peek() != Some('#') {
                return;
            }
            self.pos += self.rest().find('\n').unwrap_or(self.rest().len());
        }
    }

    /// Skips blanks and ends of lines.
    pub(super) fn skip_blank_lines(&mut self) {
        self.skip_blanks();
        while self.eat("\n") {
            self.heredoc_bodies();
            self.skip_blanks();
        }
    }

    /// Reads a word. It is empty if there is none here.
    pub(super) fn word(&mut self) -> ShellWord {
        let mut word = ShellWord::starting_at(self.pos);
        while let Some(next) = self.peek() {
            match next {
                '<' | '>' if self.byte(1) == Some(b'(') => self.process(&mut word),
                '(' if self.opens_group(&word) => self.group(&mut word),
                ' ' | '\t' | '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>' => break,
                '=' => self.equals(&mut word),
                '\'' => self.single(Quoting::Single, &mut word),
                '"' => self.double(&mut word),
                '\\' => self.backslash(&mut word),
                '$' => self.dollar(Quoting::None, &mut word),
                '`' => self.backtick(&mut word),
                _ => {
                    word.text.push(next);
                    self.pos += next.len_utf8();
                }
            }
        }
        word.range.end = self.pos;
        self.check_words_filter(&word);
        word
    }

    /// `|words` turns one word into many, so it must be all of the word.
    fn check_words_filter(&mut self, word: &ShellWord) {
        let alone = word.starts_with.and_then(|number| self.found.range_of(number));
        if alone.as_ref() != Some(&word.range) {
            self.found.refuse_words_filter(
                word,
                "has the filter `words`, so it must stand alone and not touch other text",
            );
        }
    }

    fn backslash(&mut self, word: &mut ShellWord) {
        word.quoted = true;
        self.pos += 1;
        if let Some(escaped) = self.bump().filter(|escaped| *escaped != '\n') {
            word.text.push(escaped);
        }
    }

    /// Reads `NAME=`; what follows directly may be a list in parentheses.
    fn equals(&mut self, word: &mut ShellWord) {
        let name = word.text.strip_suffix('+').unwrap_or(&word.text);
        let (base, subscript) = name.split_once('[').unwrap_or((name, "]"));
        if word.equals.is_none() && !word.quoted && is_name(base) && subscript.ends_with(']') {
            word.equals = Some(self.pos);
        }
        if word.equals == Some(self.pos) && self.byte(1) == Some(b'(') {
            self.found.variables.note_list(base);
        }
        let is_list = word.equals == Some(self.pos) && self.byte(1) == Some(b'(');
        self.pos += 1;
        word.text.push('=');
        if is_list {
            self.pos += 1;
            let elements = self.nested(Self::list_elements).unwrap_or_default();
            word.carried.extend(&elements);
            word.push_dynamic();
        }
    }

    fn list_elements(&mut self) -> CarriedValues {
        let mut carried = CarriedValues::default();
        loop {
            self.skip_blank_lines();
            if self.eat(")") || self.peek().is_none() {
                return carried;
            }
            let element = self.word();
            carried.extend(&element.carried);
            if element.range.is_empty() {
                self.found.note_unreadable(self.pos);
                self.bump();
            } else if element.text.starts_with('[') {
                self.found.refuse(element.range, IN_SUBSCRIPT);
            }
        }
    }

    /// Returns true if a `(` here opens a pattern such as `@(a|b)`.
    fn opens_group(&self, word: &ShellWord) -> bool {
        word.text != "!"
            && self.pos > word.range.start
            && self
                .source
                .get(..self.pos)
                .is_some_and(|before| before.ends_with(['@', '?', '*', '+', '!']))
    }

    fn group(&mut self, word: &mut ShellWord) {
        self.pos += 1;
        word.push_dynamic();
        self.nested(|scanner| {
            while let Some(next) = scanner.peek() {
                if scanner.eat(")") {
                    return;
                }
                let part = scanner.word();
                if part.range.is_empty() {
                    scanner.pos += next.len_utf8();
                }
                scanner.found.refuse_words_filter(&part, "has the filter `words` inside a pattern");
            }
        });
    }

    /// Reads `<(…)` or `>(…)`.
    fn process(&mut self, word: &mut ShellWord) {
        let is_output = self.peek() == Some('>');
        self.pos += 2;
        let output = self.substitution();
        let carried = CarriedValues { variables: vec![output], ..CarriedValues::default() };
        self.found.variables.note_document(&carried);
        self.feed.is_written |= is_output && self.feed.is_read();
        word.push_dynamic();
    }

    /// Reads text in double quotes.
    pub(super) fn double(&mut self, word: &mut ShellWord) {
        word.quoted = true;
        self.pos += 1;
        while let Some(next) = self.peek() {
            match next {
                '"' => {
                    self.pos += 1;
                    return;
                }
                '\\' => {
                    self.pos += 1;
                    match self.bump() {
                        Some('\n') | None => {}
                        Some(escaped @ ('$' | '`' | '"' | '\\')) => word.text.push(escaped),
                        Some(other) => word.text.extend(['\\', other]),
                    }
                }
                '$' => self.dollar(Quoting::Double, word),
                '`' => self.backtick(word),
                _ => {
                    word.text.push(next);
                    self.pos += next.len_utf8();
                }
            }
        }
    }

    /// Reads text in single quotes, or in `$'…'`, from its opening quote.
    ///
    /// Names that we do not know are left alone: between these quotes `${a.b}`
    /// is most likely the syntax of some other language.
    pub(super) fn single(&mut self, quoting: Quoting, word: &mut ShellWord) {
        word.quoted = true;
        self.pos += 1;
        while let Some(next) = self.peek() {
            if self.eat("'") {
                return;
            } else if quoting == Quoting::AnsiC && self.eat("\\") {
                word.text.extend(self.bump());
            } else if !self.reference_or_escape(quoting, word) {
                word.text.push(next);
                self.pos += next.len_utf8();
            }
        }
    }

    /// Skips to a closing character, refusing all references on the way.
    pub(super) fn skip_to(&mut self, close: char, refusal: PlacementError<'static>) {
        let mut word = ShellWord::starting_at(self.pos);
        while let Some(next) = self.peek() {
            if next == close {
                self.pos += 1;
                return;
            } else if self.eat("\\") {
                self.bump();
            } else if !self.reference_or_escape(Quoting::Refused(refusal), &mut word) {
                self.pos += next.len_utf8();
            }
        }
    }

    /// Reads a reference or a `$${`, where the shell itself expands nothing.
    pub(super) fn reference_or_escape(&mut self, quoting: Quoting, word: &mut ShellWord) -> bool {
        if self.rest().starts_with("$${") {
            self.found.add_escape(self.pos);
            self.pos += 3;
            word.text.push_str("${");
            return true;
        }
        let ours = self.rest().starts_with("${")
            && reference::expansion_owner(self.source, self.pos, self.names)
                == ExpansionOwner::Template;
        if ours {
            self.reference(quoting, word);
        }
        ours
    }

    /// Reads the reference that starts here.
    pub(super) fn reference(&mut self, quoting: Quoting, word: &mut ShellWord) {
        match reference::parse(self.source, self.pos, self.names, self.host) {
            Ok(reference) => {
                self.pos = reference.range().end;
                let number = self.found.add_reference(reference, quoting);
                word.push_reference(number);
            }
            Err(fault) => {
                self.pos = fault.range.end.max(self.pos + 2);
                self.found.add_error(fault);
                word.push_dynamic();
            }
        }
    }
}

pub(super) const IN_SUBSCRIPT: PlacementError<'static> = PlacementError {
    reason: "stands in a subscript, which bash evaluates as a program",
    help: "put the value into a shell variable first, or loop over the list",
};
