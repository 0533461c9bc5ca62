//! Here-documents: announced in a command, read after the end of its line.

use super::{
    analysis::{PlacementError, Quoting},
    scanner::ShellScanner,
    word::ShellWord,
};

/// A here-document whose text is still to come.
#[derive(Clone, Debug)]
pub(super) struct PendingHeredoc {
    /// Where it was announced.
    pub(super) at: usize,
    delimiter: String,
    quoted: bool,
    strip_tabs: bool,
    /// Set if a program will run the text.
    pub(super) is_program: bool,
}

impl ShellScanner<'_> {
    /// Reads the delimiter after `<<` or `<<-`.
    pub(super) fn announce_heredoc(&mut self, strip_tabs: bool) {
        let at = self.pos;
        self.skip_blanks();
        let word = self.word();
        self.found.refuse(
            word.range,
            PlacementError {
                reason: "stands where the end mark of a here-document is expected",
                help: "write a fixed word such as `EOF`",
            },
        );
        self.heredocs.push(PendingHeredoc {
            at,
            delimiter: word.text,
            quoted: word.quoted,
            strip_tabs,
            is_program: false,
        });
    }

    /// Reads the texts that were announced on the line that just ended.
    pub(super) fn heredoc_bodies(&mut self) {
        for pending in std::mem::take(&mut self.heredocs) {
            self.heredoc_body(&pending);
        }
    }

    fn heredoc_body(&mut self, pending: &PendingHeredoc) {
        let start = self.pos;
        let end = self.body_end(pending);
        let quoting = if pending.quoted { Quoting::Refused(IN_QUOTED) } else { Quoting::Here };
        let mut word = ShellWord::starting_at(start);
        while self.pos < end.0 {
            let Some(next) = self.peek() else { break };
            match next {
                '\\' if !pending.quoted => {
                    self.pos += 1;
                    self.bump();
                }
                '$' if pending.quoted => {
                    if !self.reference_or_escape(quoting, &mut word) {
                        self.pos += 1;
                    }
                }
                '$' => self.dollar(Quoting::Here, &mut word),
                '`' if !pending.quoted => self.backtick(&mut word),
                _ => self.pos += next.len_utf8(),
            }
        }
        self.found.variables.note_document(&word.carried);
        if pending.is_program {
            self.found.refuse(start..self.pos, AS_PROGRAM);
        }
        // A substitution that never closes may have read past the end.
        self.pos = self.pos.max(end.1);
    }

    /// Returns where the text ends, and where the line after it starts.
    fn body_end(&self, pending: &PendingHeredoc) -> (usize, usize) {
        let mut at = self.pos;
        for line in self.rest().split_inclusive('\n') {
            let text = line.strip_suffix('\n').unwrap_or(line);
            let text = if pending.strip_tabs { text.trim_start_matches('\t') } else { text };
            if text == pending.delimiter {
                // The line's end stays: it ends the command as well.
                return (at, at + line.len());
            }
            at += line.len();
        }
        (at, at)
    }
}

const IN_QUOTED: PlacementError<'static> = PlacementError {
    reason: "stands in a here-document with a quoted end mark, where the shell expands nothing",
    help: "take the quotes off the end mark and write `\\$` for a literal `$`",
};
pub(super) const AS_PROGRAM: PlacementError<'static> = PlacementError {
    reason: "stands in text that becomes a program on standard input",
    help: "pass the value as an argument, or set an environment variable: `X=${x} command …`",
};
