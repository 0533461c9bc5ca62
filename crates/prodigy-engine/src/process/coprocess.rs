//! A program of our own that stays, such as git in a mode that answers line by line.
//!
//! Starting a program costs more than most questions that we have for it.

use std::{
    io::{self, Write as _},
    os::fd::AsFd as _,
    process::{Child, ChildStdin, ChildStdout, Stdio},
    time::{Duration, Instant},
};

use rustix::{buffer::spare_capacity, event::PollFlags, io::Errno};

use super::{
    Error, ShortCommand, process_group,
    short_command::{CHUNK, command, kill_group},
    stream_io,
};

/// A program that is asked and answers, as often as wanted.
///
/// It sees the end of its input when we are gone, even by `kill -9`, and so ends too.
#[derive(Debug)]
pub struct Coprocess {
    program: String,
    child: Child,
    stdin: ChildStdin,
    stdout: ChildStdout,
    /// The bytes that were read and not yet asked for.
    unread: Vec<u8>,
    timeout: Duration,
}

impl Coprocess {
    /// Starts a program; the input in `q` is what it is told first, and its time is that
    /// of one answer. What it prints on standard error is dropped.
    pub fn start(q: &ShortCommand<'_>) -> Result<Self, Error> {
        let program = q.program.to_string_lossy().into_owned();
        let piped = process_group::spawn(command(q).stdin(Stdio::piped()).stderr(Stdio::null()));
        let mut child =
            piped.map_err(|source| Error::Start { program: program.clone(), source })?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            kill_group(&mut child);
            let source = io::Error::other("it has no streams");
            return Err(Error::Start { program, source });
        };
        let unread = Vec::new();
        let mut duplex = Self { program, child, stdin, stdout, unread, timeout: q.timeout };
        duplex.write(q.stdin)?;
        Ok(duplex)
    }

    /// Gives the program something to read: at most what a pipe holds, for nobody reads the
    /// answers meanwhile.
    pub fn write(&mut self, input: &[u8]) -> Result<(), Error> {
        self.stdin.write_all(input).map_err(|source| self.failed(source))
    }

    /// Returns the next line of the answer, without its end.
    pub fn read_line(&mut self) -> Result<Vec<u8>, Error> {
        let mut seen = 0;
        loop {
            let rest = self.unread.get(seen..).unwrap_or_default();
            if let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
                let mut line = self.take(seen + at + 1);
                line.pop();
                return Ok(line);
            }
            seen = self.unread.len();
            self.read()?;
        }
    }

    /// Returns the next bytes of the answer.
    pub fn read_bytes(&mut self, count: usize) -> Result<Vec<u8>, Error> {
        while self.unread.len() < count {
            self.read()?;
        }
        Ok(self.take(count))
    }

    fn take(&mut self, count: usize) -> Vec<u8> {
        let rest = self.unread.split_off(count);
        std::mem::replace(&mut self.unread, rest)
    }

    /// Reads what is there, and waits for it.
    fn read(&mut self) -> Result<(), Error> {
        let start = Instant::now();
        loop {
            let left = self.timeout.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Err(Error::TimedOut { program: self.program.clone(), limit: self.timeout });
            }
            let wanted = [Some((self.stdout.as_fd(), PollFlags::IN))];
            let [is_ready] =
                stream_io::poll_ready(wanted, Some(left)).map_err(|e| self.failed(e))?;
            if !is_ready {
                continue;
            }
            self.unread.reserve(CHUNK);
            match rustix::io::read(&self.stdout, spare_capacity(&mut self.unread)) {
                Ok(0) => {
                    return Err(self.failed(io::Error::other("it ended without an answer")));
                }
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(self.failed(error.into())),
            }
        }
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::Follow { program: self.program.clone(), source }
    }
}

impl Drop for Coprocess {
    fn drop(&mut self) {
        kill_group(&mut self.child);
    }
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsStr, path::Path};

    use super::*;

    fn sh(script: &str, timeout: Duration) -> Coprocess {
        let args = ["-c".into(), script.into()];
        Coprocess::start(&ShortCommand {
            program: OsStr::new("sh"),
            args: &args,
            cwd: Path::new("/"),
            env: &[],
            stdin: b"",
            timeout,
        })
        .unwrap()
    }

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn it_answers_as_often_as_it_is_asked() {
        let mut duplex = sh("while read a; do echo \"<$a>\"; printf 'x\\ny'; done", LONG);
        for word in ["one", "two"] {
            duplex.write(format!("{word}\n").as_bytes()).unwrap();
            assert_eq!(duplex.read_line().unwrap(), format!("<{word}>").as_bytes());
            assert_eq!(duplex.read_bytes(3).unwrap(), b"x\ny");
        }
    }

    #[test]
    fn silence_and_an_early_end_are_errors() {
        let error = sh("sleep 60", Duration::from_millis(100)).read_line().unwrap_err();
        insta::assert_snapshot!(error, @"`sh` took longer than 0.1 s and was ended");
        let error = sh("exit 3", LONG).read_line().unwrap_err();
        let error = format!("{error}: {}", std::error::Error::source(&error).unwrap());
        insta::assert_snapshot!(error, @"cannot follow `sh`: it ended without an answer");
    }

    #[test]
    fn nothing_of_it_is_left_when_it_is_dropped() {
        let mut duplex = sh("trap '' TERM; sleep 60 & echo $!; wait", LONG);
        let pid = String::from_utf8(duplex.read_line().unwrap()).unwrap();
        drop(duplex);
        let stat = format!("/proc/{}/stat", pid.trim());
        let deadline = Instant::now() + LONG;
        // A killed orphan stays visible as a zombie until it is reaped by its new parent.
        while std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
            assert!(Instant::now() < deadline, "the child is still running");
        }
    }
}
