//! Commands: where one ends, where the next begins, and what its words are.

use super::{
    found::{Check, Refusal},
    heredoc::AS_PROGRAM,
    rules,
    scanner::Scanner,
    word::Word,
};

/// What ends a list of commands.
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
    /// Where the pipeline that is being read starts.
    pipeline: usize,
    /// The same for the compound commands around it.
    outer: Vec<usize>,
    words: Vec<Word>,
    here_strings: Vec<Word>,
}

/// What to do after a token.
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
        let mut list = List {
            end,
            pipeline: self.pos,
            outer: Vec::new(),
            words: Vec::new(),
            here_strings: Vec::new(),
        };
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
                list.pipeline = self.pos;
            }
            ';' => {
                self.finish(list);
                let ends_item = matches!(self.byte(1), Some(b';' | b'&'));
                while self.eat(";") || self.eat("&") {}
                list.pipeline = self.pos;
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
                list.pipeline = self.pos;
            }
            '|' => {
                self.finish(list);
                if self.eat("||") {
                    list.pipeline = self.pos;
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
            "if" | "while" | "until" | "{" => {
                list.outer.push(list.pipeline);
                list.pipeline = self.pos;
            }
            "then" | "elif" | "else" | "do" => list.pipeline = self.pos,
            "!" => {}
            "time" => {
                self.blanks();
                self.eat("-p");
            }
            "fi" | "done" | "}" => list.pipeline = list.outer.pop().unwrap_or(self.pos),
            "for" | "select" => {
                list.outer.push(list.pipeline);
                self.loop_head();
                list.pipeline = self.pos;
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
            return;
        }
        let start = self.pos;
        loop {
            self.blanks();
            if self.word().range.is_empty() {
                break;
            }
        }
        rules::assigned(&mut self.found, &name.text, start..self.pos);
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
                    self.found.require(side, Check::Integer);
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
        if self.eat("<<<") {
            self.blanks();
            let word = self.word();
            self.found.forbid_words(&word, IN_REDIRECTION);
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

    /// Applies the rules to the command that just ended.
    fn finish(&mut self, list: &mut List) {
        let words = std::mem::take(&mut list.words);
        let here_strings = std::mem::take(&mut list.here_strings);
        let Some(start) = words.first().map(|word| word.range.start) else { return };
        if !rules::simple_command(&mut self.found, &words) {
            return;
        }
        // What reaches a program reader's standard input becomes a program.
        self.found.refuse(list.pipeline..start, AS_PROGRAM);
        for word in here_strings {
            self.found.refuse(word.range, AS_PROGRAM);
        }
        for heredoc in &mut self.heredocs {
            heredoc.is_program |= heredoc.at >= list.pipeline;
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
