//! The output of a command: data on stdout, everything else on stderr.

use std::{
    error::Error as _,
    fmt,
    io::{self, IsTerminal as _, Write},
};

use crate::{error::CliError, exit::Exit};

/// The two streams of a command.
pub(crate) struct Console {
    stdout: Box<dyn Write>,
    stderr: Box<dyn Write>,
    color: bool,
    /// True if data may use colour.
    data_color: bool,
    terminal: bool,
}

/// The style of a line of data where colours are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// Like all others.
    Plain,
    /// Less important than others.
    Quiet,
    /// It went well.
    Good,
    /// It went wrong.
    Bad,
}

impl Style {
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Quiet => "\x1b[2m",
            Self::Good => "\x1b[32m",
            Self::Bad => "\x1b[31m",
        }
    }
}

impl Console {
    /// Writes to the process's own streams.
    pub(crate) fn stdio() -> Self {
        Self {
            stdout: Box::new(io::BufWriter::new(io::stdout())),
            stderr: Box::new(io::stderr()),
            color: wants_color(io::stderr().is_terminal()),
            data_color: wants_color(io::stdout().is_terminal()),
            terminal: io::stdout().is_terminal(),
        }
    }

    /// Writes one line of data. A reader that went away (`| head`) ends the program quietly.
    pub(crate) fn line(&mut self, line: impl fmt::Display) -> Result<(), CliError> {
        writeln!(self.stdout, "{}", EscapedText(&line.to_string()))
            .map_err(|error| stdout_error(&error))
    }

    /// Writes one line of data, with colour where that is wanted.
    pub(crate) fn styled(&mut self, style: Style, line: &str) -> Result<(), CliError> {
        if !self.data_color || style == Style::Plain {
            return self.line(line);
        }
        let (code, line) = (style.code(), EscapedText(line));
        writeln!(self.stdout, "{code}{line}\x1b[0m").map_err(|error| stdout_error(&error))
    }

    /// Writes data as it is, e.g. a JSON document, a schema or a log.
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> Result<(), CliError> {
        self.stdout.write_all(bytes).map_err(|error| stdout_error(&error))
    }

    /// Writes what a program printed: as it was to a file or pipe, harmless to a terminal.
    pub(crate) fn program_output(&mut self, bytes: &[u8]) -> Result<(), CliError> {
        if !self.terminal {
            return self.raw(bytes);
        }
        // A carriage return would overwrite what stands before it.
        let text = String::from_utf8_lossy(bytes).replace("\r\n", "\n").replace('\r', "\n");
        write!(self.stdout, "{}", EscapedText(&text)).map_err(|error| stdout_error(&error))
    }

    /// Makes sure that everything written so far is out.
    pub(crate) fn flush(&mut self) -> Result<(), CliError> {
        self.stdout.flush().map_err(|error| stdout_error(&error))
    }

    /// Writes a note for the person at the terminal.
    pub(crate) fn note(&mut self, note: impl fmt::Display) {
        // A terminal that went away must not stop the work.
        writeln!(self.stderr, "{}", EscapedText(&note.to_string())).ok();
    }

    /// Writes a note that is already laid out, maybe with colour.
    ///
    /// The caller answers for control characters: nothing is escaped here.
    pub(crate) fn preformatted(&mut self, note: &str) {
        // A terminal that went away must not stop the work.
        writeln!(self.stderr, "{note}").ok();
    }

    /// Returns how many columns data has, if it goes to a terminal.
    pub(crate) fn width(&self) -> Option<usize> {
        if !self.terminal {
            return None;
        }
        let size = rustix::termios::tcgetwinsize(io::stdout());
        let columns = size.map_or(80, |size| size.ws_col);
        // A terminal that does not know its size says 0.
        Some(if columns == 0 { 80 } else { columns.max(20).into() })
    }

    /// Returns whether notes may use colour.
    pub(crate) fn color(&self) -> bool {
        self.color
    }

    /// Writes an error, what caused it, and a hint, and returns the exit code.
    pub(crate) fn error(&mut self, error: &CliError) -> Exit {
        // The exit code stands even if the stream is gone.
        self.stdout.flush().ok();
        if error.exit() == Exit::Success {
            return Exit::Success;
        }
        let (bold, plain) = if self.color { ("\x1b[1;31m", "\x1b[0m") } else { ("", "") };
        writeln!(self.stderr, "{bold}error:{plain} {}", EscapedText(&error.to_string())).ok();
        let mut cause = error.source();
        while let Some(error) = cause {
            writeln!(self.stderr, "  caused by: {}", EscapedText(&error.to_string())).ok();
            cause = error.source();
        }
        if let Some(hint) = error.hint() {
            writeln!(self.stderr, "\nhint: {}", EscapedText(hint)).ok();
        }
        error.exit()
    }
}

/// Returns whether colour is wanted on a stream that is or is not a terminal.
pub(crate) fn wants_color(terminal: bool) -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if set("NO_COLOR") {
        return false;
    }
    if set("CLICOLOR_FORCE") {
        return true;
    }
    terminal && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Turns an error of stdout into one of ours; a closed pipe is a quiet end.
fn stdout_error(error: &io::Error) -> CliError {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return CliError::new(Exit::Success, "");
    }
    CliError::new(Exit::Failure, format!("cannot write to standard output: {error}"))
}

/// Returns text without the control characters that could steer a terminal.
pub(crate) fn escape_controls(text: &str) -> String {
    EscapedText(text).to_string()
}

/// Returns text on one line, so that it cannot pretend to be a line of ours.
pub(crate) fn one_line(text: &str) -> String {
    escape_controls(text).replace('\n', "\\n")
}

/// Text without the control characters that could steer a terminal.
struct EscapedText<'a>(&'a str);

impl fmt::Display for EscapedText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '\n' | '\t' => write!(f, "{c}")?,
                c if c.is_control() => write!(f, "{}", c.escape_default())?,
                c => write!(f, "{c}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, rc::Rc};

    use super::*;

    #[derive(Clone, Default)]
    struct ScreenBuffer(Rc<RefCell<Vec<u8>>>);

    impl Write for ScreenBuffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn printed(terminal: bool, bytes: &[u8]) -> Vec<u8> {
        let screen = ScreenBuffer::default();
        let stdout = Box::new(screen.clone());
        let stderr = Box::new(io::sink());
        let mut out = Console { stdout, stderr, color: false, data_color: false, terminal };
        out.program_output(bytes).unwrap();
        screen.0.take()
    }

    #[test]
    fn what_programs_print_cannot_steer_a_terminal() {
        let bytes = b"\x1b[2J\x1b]0;title\x07a\r\nb\rc\td\xff\xc2\x9b";
        let harmless = "\\u{1b}[2J\\u{1b}]0;title\\u{7}a\nb\nc\td\u{fffd}\\u{9b}";
        assert_eq!(String::from_utf8(printed(true, bytes)).unwrap(), harmless);
        assert_eq!(printed(false, bytes), bytes);
    }
}
