//! What follows a `$`: parameters, substitutions, arithmetic.

use super::{
    found::{Quoting, Refusal},
    rules,
    scanner::{IN_SUBSCRIPT, Scanner},
    word::Word,
};
use crate::template::{
    Dialect,
    reference::{self, Owner},
};

impl Scanner<'_> {
    /// Reads what starts with the `$` here.
    pub(super) fn dollar(&mut self, quoting: Quoting, word: &mut Word) {
        let rest = self.rest();
        if rest.starts_with("$${") {
            self.found.escape(self.pos);
            self.pos += 1;
            self.parameter(quoting, word);
        } else if rest.starts_with("${") {
            match reference::owner(self.source, self.pos, self.names) {
                Owner::Template => self.reference(quoting, word),
                Owner::Shell => self.parameter(quoting, word),
                Owner::Nobody(fault) => {
                    self.pos = fault.range.end.max(self.pos + 2);
                    self.found.fault(fault);
                    word.push_unknown();
                }
            }
        } else if rest.starts_with("$((") && self.is_arithmetic(3) {
            self.pos += 3;
            self.arithmetic();
            word.push_unknown();
        } else if self.eat("$(") {
            self.substitution();
            word.push_unknown();
        } else if quoting == Quoting::None && rest.starts_with("$'") {
            self.pos += 1;
            self.single(self.ansi_c(), word);
        } else if quoting == Quoting::None && rest.starts_with("$\"") {
            self.pos += 1;
            self.double(word);
        } else if self.eat("$[") {
            self.skip_to(']', IN_SUBSCRIPT);
            word.push_unknown();
        } else {
            self.plain_parameter(word);
        }
    }

    /// Dash has no `$'…'`: it reads a `$` and then text in single quotes, which
    /// may end elsewhere. In a script for any shell no value can stand there.
    fn ansi_c(&self) -> Quoting {
        match self.dialect {
            Dialect::Bash => Quoting::AnsiC,
            Dialect::Posix => Quoting::Refused(Refusal {
                reason: "stands in `$'…'`, which not every `sh` knows",
                help: "use `\"…\"`, or set `shell_program: bash`",
            }),
        }
    }

    /// Reads `$NAME`, `$1`, `$?` or a lone `$`.
    fn plain_parameter(&mut self, word: &mut Word) {
        self.pos += 1;
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        match self.peek() {
            Some(first) if first.is_ascii_alphabetic() || first == '_' => {
                let name = self.rest().find(|c| !is_part(c)).unwrap_or(self.rest().len());
                self.pos += name;
                word.push_unknown();
            }
            Some(first) if first.is_ascii_digit() || "@*#?$!-".contains(first) => {
                self.pos += 1;
                word.push_unknown();
            }
            Some(_) | None => word.text.push('$'),
        }
    }

    /// Reads the commands of `$(…)` after the opening parenthesis.
    pub(super) fn substitution(&mut self) {
        self.nested(Self::parenthesised);
    }

    /// Reads the shell's own `${…}`.
    fn parameter(&mut self, quoting: Quoting, word: &mut Word) {
        self.pos += 2;
        word.push_unknown();
        if matches!(self.byte(0), Some(b'#' | b'!')) && self.byte(1) != Some(b'}') {
            self.pos += 1;
        }
        let start = self.pos;
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        self.pos += self.rest().find(|c| !is_part(c)).unwrap_or(self.rest().len());
        if self.pos == start && self.peek().is_some_and(|c| "@*#?$!-".contains(c)) {
            self.pos += 1;
        }
        let name = start..self.pos;
        if self.eat("[") {
            self.skip_to(']', IN_SUBSCRIPT);
        }
        let inner = self.operand_quoting(quoting);
        let operand = self.pos;
        let assigns = self.rest().starts_with(":=") || self.rest().starts_with('=');
        self.nested(|scanner| scanner.operand(quoting, inner));
        if assigns && let Some(name) = self.source.get(name).map(str::to_owned) {
            rules::assigned(&mut self.found, &name, operand..self.pos);
        }
    }

    /// Returns how a reference in the operand of `${name…}` is spelled.
    fn operand_quoting(&self, outer: Quoting) -> Quoting {
        let operator = self.rest();
        let operator = operator.strip_prefix(':').unwrap_or(operator).chars().next();
        let trims = self.peek().is_some_and(|c| c == '%' || c == '#');
        let defaults = operator.is_some_and(|c| "-=+?".contains(c));
        match outer {
            Quoting::None | Quoting::Double | Quoting::Here if defaults => outer,
            // Quotes inside the operand keep the value from being a pattern.
            Quoting::None | Quoting::Double if trims => Quoting::None,
            Quoting::Refused(_) => outer,
            Quoting::None
            | Quoting::Double
            | Quoting::Single
            | Quoting::AnsiC
            | Quoting::Here
            | Quoting::Arithmetic => Quoting::Refused(IN_OPERATOR),
        }
    }

    /// Reads the operand of `${name…}` and its closing brace.
    fn operand(&mut self, outer: Quoting, inner: Quoting) {
        let mut word = Word::at(self.pos);
        while let Some(next) = self.peek() {
            match next {
                '}' => {
                    self.pos += 1;
                    break;
                }
                '\\' => {
                    self.pos += 1;
                    self.bump();
                }
                '$' => self.dollar(inner, &mut word),
                '`' => self.backtick(&mut word),
                '"' if outer == Quoting::None => self.double(&mut word),
                '\'' if outer == Quoting::None => self.single(Quoting::Single, &mut word),
                // Shells disagree about quotes inside of an operand inside of quotes.
                '"' => {
                    self.pos += 1;
                    self.skip_to('"', IN_OPERATOR);
                }
                '\'' if inner == Quoting::None => {
                    self.pos += 1;
                    self.skip_to('\'', IN_OPERATOR);
                }
                _ => self.pos += next.len_utf8(),
            }
        }
        word.range.end = self.pos;
        self.found.forbid_words(&word, "has the filter `words` inside a `${…}` of the shell");
    }

    /// Whether the parentheses that opened `skip` bytes from here close together.
    pub(super) fn is_arithmetic(&self, skip: usize) -> bool {
        let mut depth = 0_usize;
        let mut bytes = self.rest().bytes().skip(skip).peekable();
        while let Some(byte) = bytes.next() {
            match byte {
                b'\\' => {
                    bytes.next();
                }
                b'(' => depth += 1,
                b')' if depth > 0 => depth -= 1,
                b')' => return bytes.peek() == Some(&b')'),
                _ => {}
            }
        }
        false
    }

    /// Reads arithmetic after its opening parentheses.
    pub(super) fn arithmetic(&mut self) {
        self.nested(|scanner| {
            let mut word = Word::at(scanner.pos);
            let mut depth = 0_usize;
            while let Some(next) = scanner.peek() {
                match next {
                    '$' => scanner.dollar(Quoting::Arithmetic, &mut word),
                    '`' => scanner.backtick(&mut word),
                    '\\' => {
                        scanner.pos += 1;
                        scanner.bump();
                    }
                    ')' if depth == 0 => {
                        scanner.pos += 1;
                        scanner.eat(")");
                        break;
                    }
                    _ => {
                        match next {
                            '(' => depth += 1,
                            ')' => depth -= 1,
                            _ => {}
                        }
                        scanner.pos += next.len_utf8();
                    }
                }
            }
            word.range.end = scanner.pos;
            scanner.found.forbid_words(&word, "has the filter `words` inside arithmetic");
        });
    }

    /// Reads text between backticks.
    pub(super) fn backtick(&mut self, word: &mut Word) {
        self.pos += 1;
        self.skip_to('`', IN_BACKTICKS);
        word.push_unknown();
    }
}

const IN_OPERATOR: Refusal<'static> = Refusal {
    reason: "stands inside a `${…}` of the shell, where quoting is not reliable",
    help: "put the value into a shell variable first: `value=${x}`",
};
const IN_BACKTICKS: Refusal<'static> = Refusal {
    reason: "stands between backticks, whose text the shell reads twice",
    help: "write `$(…)` instead of backticks",
};
