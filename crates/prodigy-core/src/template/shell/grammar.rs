//! Commands: where one ends, where the next begins, and what its words are.

use super::{
    found::{Check, Refusal},
    heredoc::AS_PROGRAM,
    rules,
    scanner::Scanner,
    special,
    variables::{ARGUMENTS, CarriedValues},
    word::Word,
};

/// The end of a list of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The end of the script.
    Script,
    /// A closing parenthesis.
    Parenthesis,
    /// `;;` or `esac`.
    CaseItem,
}

/// Commands being read.
struct List {
    end: End,
    /// The number of open compound commands.
    open: usize,
    words: Vec<Word>,
    here_strings: Vec<Word>,
    /// Set if the command says where its standard input comes from.
    own_stdin: bool,
}

/// The input of programs that run their standard input.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Feed {
    /// Where the pipeline that is being read starts.
    start: usize,
    /// Set if such a program is part of it.
    is_read: bool,
    /// Set if such a program reads a `>(…)`.
    pub(super) is_written: bool,
}

impl Feed {
    /// Returns true if a program in the pipeline runs its standard input.
    pub(super) fn is_read(self) -> bool {
        self.is_read
    }
}

/// The next action after a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Continue,
    Return { after_esac: bool },
}

impl Scanner<'_> {
    /// Reads the whole script.
    pub(super) fn script(&mut self) {
        self.list(End::Script);
    }

    /// Reads commands up to a closing parenthesis.
    pub(super) fn parenthesised(&mut self) {
        self.list(End::Parenthesis);
    }

    /// Reads commands; returns whether `esac` ended them, or the script.
    fn list(&mut self, end: End) -> bool {
        let mut list =
            List { end, open: 0, words: Vec::new(), here_strings: Vec::new(), own_stdin: false };
        loop {
            self.blanks();
            let Some(next) = self.peek() else {
                self.finish(&mut list);
                return true;
            };
            if let Next::Return { after_esac } = self.token(next, &mut list) {
                return after_esac;
            }
        }
    }

    fn token(&mut self, next: char, list: &mut List) -> Next {
        match next {
            '\n' => {
                self.finish(list);
                self.pos += 1;
                self.heredoc_bodies();
                self.start_pipeline(list);
            }
            ';' => {
                self.finish(list);
                let ends_item = matches!(self.byte(1), Some(b';' | b'&'));
                while self.eat(";") || self.eat("&") {}
                self.start_pipeline(list);
                if ends_item && list.end == End::CaseItem {
                    return Next::Return { after_esac: false };
                }
            }
            '&' if self.byte(1) == Some(b'>') => {
                self.pos += 1;
                self.redirection(list);
            }
            '&' => {
                self.finish(list);
                while self.eat("&") {}
                self.start_pipeline(list);
            }
            '|' => {
                self.finish(list);
                self.found.variables.pipe();
                if self.eat("||") {
                    self.start_pipeline(list);
                } else if !self.eat("|&") {
                    self.pos += 1;
                }
            }
            ')' => {
                self.finish(list);
                self.pos += 1;
                if list.end == End::Parenthesis {
                    return Next::Return { after_esac: false };
                }
            }
            '(' => self.open_parenthesis(list),
            '<' | '>' if self.byte(1) != Some(b'(') => self.redirection(list),
            _ => return self.command_word(list),
        }
        Next::Continue
    }

    fn open_parenthesis(&mut self, list: &mut List) {
        let at_command = list.words.is_empty();
        if at_command && self.rest().starts_with("((") && self.is_arithmetic(2) {
            self.pos += 2;
            self.arithmetic();
            return;
        }
        self.pos += 1;
        if at_command {
            self.substitution();
            return;
        }
        // `name()` starts a function.
        for name in std::mem::take(&mut list.words) {
            self.found.variables.note_function(&name.text);
            self.found.refuse(name.range, AS_NAME);
        }
        self.blanks();
        self.eat(")");
    }

    fn command_word(&mut self, list: &mut List) -> Next {
        let word = self.word();
        if word.range.is_empty() {
            self.bump();
            return Next::Continue;
        }
        let is_descriptor = !word.quoted
            && matches!(self.byte(0), Some(b'<' | b'>'))
            && word.text.bytes().all(|b| b.is_ascii_digit());
        if is_descriptor {
            return Next::Continue;
        }
        if list.words.is_empty() && !word.quoted {
            return self.keyword(word, list);
        }
        list.words.push(word);
        Next::Continue
    }

    fn keyword(&mut self, word: Word, list: &mut List) -> Next {
        match word.text.as_str() {
            "if" | "while" | "until" | "{" => list.open += 1,
            "then" | "elif" | "else" | "do" | "!" => {}
            "time" => {
                self.blanks();
                self.eat("-p");
            }
            "fi" | "done" | "}" => list.open = list.open.saturating_sub(1),
            "for" | "select" => {
                list.open += 1;
                self.loop_head();
            }
            "case" => {
                self.nested(Self::case);
            }
            "esac" if list.end == End::CaseItem => {
                self.finish(list);
                return Next::Return { after_esac: true };
            }
            "function" => {
                self.blanks();
                let name = self.word();
                self.found.variables.note_function(&name.text);
                self.found.refuse(name.range, AS_NAME);
                self.blanks();
                self.eat("()");
            }
            "[[" => self.conditional(),
            _ => list.words.push(word),
        }
        Next::Continue
    }

    /// Reads `NAME in words` after `for`.
    fn loop_head(&mut self) {
        self.blanks();
        if self.eat("((") {
            self.arithmetic();
            return;
        }
        let name = self.word();
        self.found.refuse(name.range.clone(), AS_NAME);
        self.blank_lines();
        let before = self.pos;
        if !self.word().is_keyword("in") {
            self.pos = before;
            let arguments =
                CarriedValues { variables: vec![ARGUMENTS.to_owned()], ..CarriedValues::default() };
            self.found.variables.note_flow(&name.text, &arguments);
            return;
        }
        let start = self.pos;
        let mut carried = CarriedValues::default();
        loop {
            self.blanks();
            let word = self.word();
            if word.range.is_empty() {
                break;
            }
            carried.extend(&word.carried);
        }
        rules::assigned(&mut self.found, &name.text, start..self.pos, &carried);
    }

    /// Reads a `case` after its first word.
    fn case(&mut self) {
        self.blanks();
        let subject = self.word();
        self.found.forbid_words(&subject, IN_CASE);
        self.blank_lines();
        self.word();
        loop {
            self.blank_lines();
            let parenthesis = self.eat("(");
            self.blanks();
            let pattern = self.word();
            let over = self.peek().is_none() || (!parenthesis && pattern.is_keyword("esac"));
            self.found.forbid_words(&pattern, IN_CASE);
            if over {
                return;
            }
            while let Some(next) = self.peek() {
                if self.eat(")") {
                    break;
                }
                let pattern = self.word();
                if pattern.range.is_empty() {
                    self.pos += next.len_utf8();
                }
                self.found.forbid_words(&pattern, IN_CASE);
            }
            if self.list(End::CaseItem) {
                return;
            }
        }
    }

    /// Reads `[[ … ]]` after its opening brackets.
    fn conditional(&mut self) {
        let mut words: Vec<Word> = Vec::new();
        while let Some(next) = self.peek() {
            if next.is_whitespace() || self.rest().starts_with("\\\n") {
                self.bump();
                continue;
            }
            let mut word = self.word();
            if word.is_keyword("]]") {
                break;
            }
            if word.range.is_empty() {
                word.text.push(next);
                self.pos += next.len_utf8();
            }
            self.found.forbid_words(&word, "has the filter `words` inside `[[ ]]`");
            words.push(word);
        }
        for (number, word) in words.iter().enumerate() {
            let after = words.get(number + 1);
            if ARITHMETIC.contains(&word.text.as_str()) {
                // Bash evaluates both sides, and `a[$(command)]` runs the command.
                let before = number.checked_sub(1).and_then(|before| words.get(before));
                for side in [before, after].into_iter().flatten() {
                    for number in &side.references {
                        self.found.require_of(*number, Check::Integer);
                    }
                    special::evaluated(&mut self.found, side);
                }
            } else if matches!(word.text.as_str(), "-v" | "-R")
                && let Some(name) = after
            {
                self.found.refuse(name.range.clone(), AS_NAME);
            }
        }
    }

    /// Reads a redirection and its target.
    fn redirection(&mut self, list: &mut List) {
        list.own_stdin |= self.peek() == Some('<');
        if self.eat("<<<") {
            self.blanks();
            let word = self.word();
            self.found.forbid_words(&word, IN_REDIRECTION);
            self.found.variables.note_document(&word.carried);
            list.here_strings.push(word);
        } else if self.eat("<<-") {
            self.announce_heredoc(true);
        } else if self.eat("<<") {
            self.announce_heredoc(false);
        } else {
            self.pos += 1;
            while self.eat(">") || self.eat("&") || self.eat("|") {}
            self.blanks();
            let word = self.word();
            self.found.forbid_words(&word, IN_REDIRECTION);
        }
    }

    /// Notes that what follows gets no output of what stands before.
    ///
    /// A compound command and all that is in it counts as one, because its
    /// parts share one standard input.
    fn start_pipeline(&mut self, list: &List) {
        if list.end == End::Script && list.open == 0 {
            self.feed = Feed { start: self.pos, ..Feed::default() };
            self.found.variables.begin_pipeline();
        }
    }

    /// Applies the rules to the command that just ended.
    fn finish(&mut self, list: &mut List) {
        let words = std::mem::take(&mut list.words);
        let here_strings = std::mem::take(&mut list.here_strings);
        let own_stdin = std::mem::take(&mut list.own_stdin);
        let reads_program = rules::simple_command(&mut self.found, &words);
        if reads_program && !own_stdin {
            self.feed.is_read = true;
            let start = words.first().map_or(self.pos, |word| word.range.start);
            self.found.refuse(self.feed.start..start, AS_PROGRAM);
        }
        if self.feed.is_written {
            self.found.refuse(self.feed.start..self.pos, AS_PROGRAM);
        }
        if reads_program || self.feed.is_read {
            for word in here_strings {
                self.found.refuse(word.range, AS_PROGRAM);
            }
            for heredoc in &mut self.heredocs {
                heredoc.is_program |= heredoc.at >= self.feed.start;
            }
        }
    }
}

/// Operators of `[[ ]]` that evaluate both sides as arithmetic.
const ARITHMETIC: [&str; 6] = ["-eq", "-ne", "-lt", "-le", "-gt", "-ge"];

const AS_NAME: Refusal<'static> = Refusal {
    reason: "stands where a fixed name is expected",
    help: "write the name, or keep the value in an argument",
};
const IN_CASE: &str = "has the filter `words`, but `case` takes one word";
const IN_REDIRECTION: &str = "has the filter `words`, but a redirection takes one word";
