//! Commands: where one ends, where the next begins, and what its words are.

use super::{
    analysis::{PlacementError, ValueConstraint},
    arguments, builtins,
    heredoc::AS_PROGRAM,
    scanner::ShellScanner,
    variables::{ARGUMENTS, CarriedValues},
    word::ShellWord,
};

/// The end of a list of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListEnd {
    /// The end of the script.
    Script,
    /// A closing parenthesis.
    Parenthesis,
    /// `;;` or `esac`.
    CaseItem,
}

/// Commands being read.
struct CommandList {
    end: ListEnd,
    /// The number of open compound commands.
    open: usize,
    words: Vec<ShellWord>,
    here_strings: Vec<ShellWord>,
    /// Set if the command says where its standard input comes from.
    own_stdin: bool,
}

/// The input of programs that run their standard input.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PipelineStdin {
    /// Where the pipeline that is being read starts.
    start: usize,
    /// Set if such a program is part of it.
    is_read: bool,
    /// Set if such a program reads a `>(…)`.
    pub(crate) is_written: bool,
}

impl PipelineStdin {
    /// Returns true if a program in the pipeline runs its standard input.
    pub(crate) fn is_read(self) -> bool {
        self.is_read
    }
}

/// The next action after a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TokenFlow {
    Continue,
    Return { after_esac: bool },
}

impl ShellScanner<'_> {
    /// Reads the whole script.
    pub(crate) fn script(&mut self) {
        self.list(ListEnd::Script);
    }

    /// Reads commands up to a closing parenthesis.
    pub(crate) fn parenthesised(&mut self) {
        self.list(ListEnd::Parenthesis);
    }

    /// Reads commands; returns whether `esac` ended them, or the script.
    fn list(&mut self, end: ListEnd) -> bool {
        let mut list = CommandList {
            end,
            open: 0,
            words: Vec::new(),
            here_strings: Vec::new(),
            own_stdin: false,
        };
        loop {
            self.skip_blanks();
            let Some(next) = self.peek() else {
                self.finish(&mut list);
                return true;
            };
            if let TokenFlow::Return { after_esac } = self.token(next, &mut list) {
                return after_esac;
            }
        }
    }

    fn token(&mut self, next: char, list: &mut CommandList) -> TokenFlow {
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
                if ends_item && list.end == ListEnd::CaseItem {
                    return TokenFlow::Return { after_esac: false };
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
                if list.end == ListEnd::Parenthesis {
                    return TokenFlow::Return { after_esac: false };
                }
            }
            '(' => self.open_parenthesis(list),
            '<' | '>' if self.byte(1) != Some(b'(') => self.redirection(list),
            _ => return self.command_word(list),
        }
        TokenFlow::Continue
    }

    fn open_parenthesis(&mut self, list: &mut CommandList) {
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
        self.skip_blanks();
        self.eat(")");
    }

    fn command_word(&mut self, list: &mut CommandList) -> TokenFlow {
        let word = self.word();
        if word.range.is_empty() {
            self.bump();
            return TokenFlow::Continue;
        }
        let is_descriptor = !word.quoted
            && matches!(self.byte(0), Some(b'<' | b'>'))
            && word.text.bytes().all(|b| b.is_ascii_digit());
        if is_descriptor {
            return TokenFlow::Continue;
        }
        if list.words.is_empty() && !word.quoted {
            return self.keyword(word, list);
        }
        list.words.push(word);
        TokenFlow::Continue
    }

    fn keyword(&mut self, word: ShellWord, list: &mut CommandList) -> TokenFlow {
        match word.text.as_str() {
            "if" | "while" | "until" | "{" => list.open += 1,
            "then" | "elif" | "else" | "do" | "!" => {}
            "time" => {
                self.skip_blanks();
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
            "esac" if list.end == ListEnd::CaseItem => {
                self.finish(list);
                return TokenFlow::Return { after_esac: true };
            }
            "function" => {
                self.skip_blanks();
                let name = self.word();
                self.found.variables.note_function(&name.text);
                self.found.refuse(name.range, AS_NAME);
                self.skip_blanks();
                self.eat("()");
            }
            "[[" => self.conditional(),
            _ => list.words.push(word),
        }
        TokenFlow::Continue
    }

    /// Reads `NAME in words` after `for`.
    fn loop_head(&mut self) {
        self.skip_blanks();
        if self.eat("((") {
            self.arithmetic();
            return;
        }
        let name = self.word();
        self.found.refuse(name.range.clone(), AS_NAME);
        self.skip_blank_lines();
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
            self.skip_blanks();
            let word = self.word();
            if word.range.is_empty() {
                break;
            }
            carried.extend(&word.carried);
        }
        arguments::check_assignment(&mut self.found, &name.text, start..self.pos, &carried);
    }

    /// Reads a `case` after its first word.
    fn case(&mut self) {
        self.skip_blanks();
        let subject = self.word();
        self.found.refuse_words_filter(&subject, IN_CASE);
        self.skip_blank_lines();
        self.word();
        loop {
            self.skip_blank_lines();
            let parenthesis = self.eat("(");
            self.skip_blanks();
            let pattern = self.word();
            let over = self.peek().is_none() || (!parenthesis && pattern.is_keyword("esac"));
            self.found.refuse_words_filter(&pattern, IN_CASE);
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
                self.found.refuse_words_filter(&pattern, IN_CASE);
            }
            if self.list(ListEnd::CaseItem) {
                return;
            }
        }
    }

    /// Reads `[[ … ]]` after its opening brackets.
    fn conditional(&mut self) {
        let mut words: Vec<ShellWord> = Vec::new();
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
            self.found.refuse_words_filter(&word, "has the filter `words` inside `[[ ]]`");
            words.push(word);
        }
        for (number, word) in words.iter().enumerate() {
            let after = words.get(number + 1);
            if ARITHMETIC.contains(&word.text.as_str()) {
                // Bash evaluates both sides, and `a[$(command)]` runs the command.
                let before = number.checked_sub(1).and_then(|before| words.get(before));
                for side in [before, after].into_iter().flatten() {
                    for number in &side.references {
                        self.found.constrain_reference(*number, ValueConstraint::Integer);
                    }
                    builtins::require_numbers(&mut self.found, side);
                }
            } else if matches!(word.text.as_str(), "-v" | "-R")
                && let Some(name) = after
            {
                self.found.refuse(name.range.clone(), AS_NAME);
            }
        }
    }

    /// Reads a redirection and its target.
    fn redirection(&mut self, list: &mut CommandList) {
        list.own_stdin |= self.peek() == Some('<');
        if self.eat("<<<") {
            self.skip_blanks();
            let word = self.word();
            self.found.refuse_words_filter(&word, IN_REDIRECTION);
            self.found.variables.note_document(&word.carried);
            list.here_strings.push(word);
        } else if self.eat("<<-") {
            self.announce_heredoc(true);
        } else if self.eat("<<") {
            self.announce_heredoc(false);
        } else {
            self.pos += 1;
            while self.eat(">") || self.eat("&") || self.eat("|") {}
            self.skip_blanks();
            let word = self.word();
            self.found.refuse_words_filter(&word, IN_REDIRECTION);
        }
    }

    /// Notes that what follows gets no output of what stands before.
    ///
    /// A compound command and all that is in it counts as one, because its
    /// parts share one standard input.
    fn start_pipeline(&mut self, list: &CommandList) {
        if list.end == ListEnd::Script && list.open == 0 {
            self.feed = PipelineStdin { start: self.pos, ..PipelineStdin::default() };
            self.found.variables.begin_pipeline();
        }
    }

    /// Applies the rules to the command that just ended.
    fn finish(&mut self, list: &mut CommandList) {
        let words = std::mem::take(&mut list.words);
        let here_strings = std::mem::take(&mut list.here_strings);
        let own_stdin = std::mem::take(&mut list.own_stdin);
        let reads_program = arguments::check_simple_command(&mut self.found, &words);
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

const AS_NAME: PlacementError<'static> = PlacementError {
    reason: "stands where a fixed name is expected",
    help: "write the name, or keep the value in an argument",
};
const IN_CASE: &str = "has the filter `words`, but `case` takes one word";
const IN_REDIRECTION: &str = "has the filter `words`, but a redirection takes one word";
