//! Reading after a `$`: parameters, substitutions, arithmetic.

use super::{
    analysis::{PlacementError, Quoting, ValueConstraint},
    arguments,
    scanner::{IN_SUBSCRIPT, ShellScanner},
    variables::{ARGUMENTS, CarriedValues},
    word::ShellWord,
};
use crate::template::{
    ShellDialect,
    reference::{self, ExpansionOwner},
};

impl ShellScanner<'_> {
    /// Reads what starts with the `$` here.
    pub(super) fn dollar(&mut self, quoting: Quoting, word: &mut ShellWord) {
        let rest = self.rest();
        if rest.starts_with("$${") {
            self.found.add_escape(self.pos);
            self.pos += 1;
            self.parameter(quoting, word);
        } else if rest.starts_with("${") {
            match reference::expansion_owner(self.source, self.pos, self.names) {
                ExpansionOwner::Template => self.reference(quoting, word),
                ExpansionOwner::Shell => self.parameter(quoting, word),
                ExpansionOwner::Nobody(fault) => {
                    self.pos = fault.range.end.max(self.pos + 2);
                    self.found.add_error(fault);
                    word.push_dynamic();
                }
            }
        } else if rest.starts_with("$((") && self.is_arithmetic(3) {
            self.pos += 3;
            self.arithmetic();
            word.push_dynamic();
        } else if self.eat("$(") {
            let output = self.substitution();
            word.push_variable(&output);
        } else if quoting == Quoting::None && rest.starts_with("$'") {
            self.pos += 1;
            self.single(self.ansi_c(), word);
        } else if quoting == Quoting::None && rest.starts_with("$\"") {
            self.pos += 1;
            self.double(word);
        } else if self.eat("$[") {
            self.subscript();
            word.push_dynamic();
        } else {
            self.plain_parameter(quoting, word);
        }
    }

    /// Dash has no `$'…'`: it reads a `$` and then text in single quotes, which
    /// may end elsewhere. In a script for any shell no value can stand there.
    fn ansi_c(&self) -> Quoting {
        match self.dialect {
            ShellDialect::Bash => Quoting::AnsiC,
            ShellDialect::Posix => Quoting::Refused(PlacementError {
                reason: "stands in `$'…'`, which not every `sh` knows",
                help: "use `\"…\"`, or set `shell_program: bash`",
            }),
        }
    }

    /// Reads `$NAME`, `$1`, `$?` or a lone `$`.
    fn plain_parameter(&mut self, quoting: Quoting, word: &mut ShellWord) {
        let start = self.pos;
        self.pos += 1;
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        match self.peek() {
            Some(first) if first.is_ascii_alphabetic() || first == '_' => {
                let rest = self.rest();
                let name = rest.split(|c| !is_part(c)).next().unwrap_or_default();
                self.pos += name.len();
                self.note_variable_use(name, start, quoting, word);
            }
            Some(first) if first.is_ascii_digit() || "@*".contains(first) => {
                self.pos += 1;
                self.note_variable_use(ARGUMENTS, start, quoting, word);
            }
            Some(first) if "#?$!-".contains(first) => {
                self.pos += 1;
                word.push_dynamic();
            }
            Some(_) | None => word.text.push('$'),
        }
    }

    /// Notes the use of a variable that was just read.
    fn note_variable_use(
        &mut self,
        name: &str,
        start: usize,
        quoting: Quoting,
        word: &mut ShellWord,
    ) {
        word.push_variable(name);
        let is_split = quoting == Quoting::None;
        self.found.variables.note_use(name, start..self.pos, is_split);
    }

    /// Reads the commands of `$(…)` after the opening parenthesis; returns the name of their
    /// output.
    pub(super) fn substitution(&mut self) -> String {
        self.found.variables.begin_output();
        self.nested(Self::parenthesised);
        self.found.variables.end_output()
    }

    /// Reads a subscript after its opening bracket.
    fn subscript(&mut self) {
        let start = self.pos;
        self.skip_to(']', IN_SUBSCRIPT);
        self.note_arithmetic(start..self.pos);
    }

    /// Notes that a stretch of the script is evaluated as arithmetic.
    pub(super) fn note_arithmetic(&mut self, range: std::ops::Range<usize>) {
        let source = self.source;
        self.found.variables.demand_numbers(source.get(range).unwrap_or_default());
    }

    /// Reads the shell's own `${…}`.
    fn parameter(&mut self, quoting: Quoting, word: &mut ShellWord) {
        let opening = self.pos;
        self.pos += 2;
        let is_counted = self.byte(0) == Some(b'#') && self.byte(1) != Some(b'}');
        let is_indirect = self.byte(0) == Some(b'!') && self.byte(1) != Some(b'}');
        self.pos += usize::from(is_counted || is_indirect);
        let start = self.pos;
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        self.pos += self.rest().find(|c| !is_part(c)).unwrap_or(self.rest().len());
        if self.pos == start && self.peek().is_some_and(|c| "@*#?$!-".contains(c)) {
            self.pos += 1;
        }
        let name = self.source.get(start..self.pos).unwrap_or_default();
        let is_keys = ["[@]", "[*]", "@}", "*}"].iter().any(|end| self.rest().starts_with(end));
        if self.eat("[") {
            self.subscript();
        }
        let inner = self.operand_quoting(quoting);
        let (operand, operator) = (self.pos, self.rest());
        let assigns = operator.starts_with(":=") || operator.starts_with('=');
        let carried = self.nested(|scanner| scanner.operand(quoting, inner)).unwrap_or_default();
        let is_slice = operator
            .strip_prefix(':')
            .is_some_and(|offset| !offset.starts_with(['-', '=', '+', '?']));
        if assigns {
            arguments::check_assignment(&mut self.found, name, operand..self.pos, &carried);
        }
        if is_counted {
            word.push_dynamic();
            return;
        }
        let is_argument = name.starts_with(|c: char| c.is_ascii_digit() || "@*".contains(c));
        self.note_variable_use(if is_argument { ARGUMENTS } else { name }, opening, quoting, word);
        word.carried.extend(&carried);
        if is_slice {
            self.note_arithmetic(operand..self.pos);
        }
        if (is_indirect && !is_keys) || operator.starts_with("@P}") {
            self.found.variables.refuse(&(opening..self.pos), INDIRECT);
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
    fn operand(&mut self, outer: Quoting, inner: Quoting) -> CarriedValues {
        let mut word = ShellWord::starting_at(self.pos);
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
        self.found
            .refuse_words_filter(&word, "has the filter `words` inside a `${…}` of the shell");
        word.carried
    }

    /// Returns true if the parentheses that opened `skip` bytes from here close together.
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
        let start = self.pos;
        self.nested(|scanner| {
            let mut word = ShellWord::starting_at(scanner.pos);
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
            scanner.found.refuse_words_filter(&word, "has the filter `words` inside arithmetic");
            for output in word.carried.variables.iter().filter(|name| name.starts_with('$')) {
                scanner.found.variables.demand(output, ValueConstraint::NumberInVariable);
            }
        });
        self.note_arithmetic(start..self.pos);
    }

    /// Reads text between backticks.
    pub(super) fn backtick(&mut self, word: &mut ShellWord) {
        self.pos += 1;
        let start = self.pos;
        self.skip_to('`', IN_BACKTICKS);
        // No reference stands here, but variables may.
        let output = self.found.variables.new_output();
        let text = self.source.get(start..self.pos).unwrap_or_default();
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let names = text.split('$').skip(1).map(|text| {
            let text = text.trim_start_matches('{');
            let name = text.split(|c| !is_part(c)).next().unwrap_or_default();
            let is_argument = text.starts_with(|c: char| c.is_ascii_digit() || "@*".contains(c));
            if is_argument { ARGUMENTS } else { name }.to_owned()
        });
        let carried = CarriedValues { references: Vec::new(), variables: names.collect() };
        self.found.variables.note_flow(&output, &carried);
        word.push_variable(&output);
    }
}

const INDIRECT: PlacementError<'static> = PlacementError {
    reason: "the shell reads it as the name of a variable or as a prompt, and runs what it hides",
    help: "use the value itself, or choose the variable with `case`",
};
const IN_OPERATOR: PlacementError<'static> = PlacementError {
    reason: "stands inside a `${…}` of the shell, where quoting is not reliable",
    help: "put the value into a shell variable first: `value=${x}`",
};
const IN_BACKTICKS: PlacementError<'static> = PlacementError {
    reason: "stands between backticks, whose text the shell reads twice",
    help: "write `$(…)` instead of backticks",
};
