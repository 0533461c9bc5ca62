//! Running a short program of our own, such as git, and waiting for it.
//!
//! Steps of a workflow never run this way: they get a supervisor, which outlives us.

use std::{
    ffi::{OsStr, OsString},
    io::{self, Write as _},
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::process::{CommandExt as _, ExitStatusExt as _},
    },
    path::Path,
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use rustix::{
    buffer::spare_capacity,
    event::PollFlags,
    io::{Errno, ioctl_fionbio},
    process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open},
};

use super::{Error, process_group, stream_io};

/// The most that is held of each stream; more than that from a short program is a mistake.
const OUTPUT_LIMIT: usize = 256 << 20;

/// The size of a read: as much as a pipe holds.
pub(crate) const CHUNK: usize = 64 << 10;

/// The longest that a process left behind may hold our pipe open.
const DRAIN: Duration = Duration::from_millis(300);

/// A short program to run.
#[derive(Clone, Copy, Debug)]
pub struct ShortCommand<'a> {
    /// The program, looked up in our own `PATH`.
    pub program: &'a OsStr,
    /// Its arguments.
    pub args: &'a [OsString],
    /// Where it runs.
    pub cwd: &'a Path,
    /// Changes to our own environment; `None` removes a variable.
    pub env: &'a [(OsString, Option<OsString>)],
    /// The standard input; end of file follows it.
    pub stdin: &'a [u8],
    /// The longest it may take.
    pub timeout: Duration,
}

/// The result of a short program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShortCommandOutput {
    /// The exit code; a signal is 128 plus its number.
    pub status: i32,
    /// The standard output.
    pub stdout: Vec<u8>,
    /// The standard error.
    pub stderr: Vec<u8>,
}

/// Runs a short program to its end.
///
/// This blocks, so async callers wrap it in `spawn_blocking`. The program gets a
/// process group of its own, which is killed when the time is up. Whatever it
/// leaves running in the background may go on, but is not waited for.
pub fn run_helper(q: &ShortCommand<'_>) -> Result<ShortCommandOutput, Error> {
    let program = q.program.to_string_lossy();
    let start = Instant::now();
    let mut child = spawn(q)
        .map_err(|source| Error::Start { program: program.clone().into_owned(), source })?;
    let mut streams = StdioPipes::take(&mut child);
    let ended = match follow(&child, &mut streams, q, start) {
        Ok(ended) => ended,
        Err(source) => {
            kill_group(&mut child);
            return Err(Error::Follow { program: program.into_owned(), source });
        }
    };
    match ended {
        ShortCommandEnd::Exited => {
            let status = child
                .wait()
                .map_err(|source| Error::Follow { program: program.into_owned(), source })?;
            Ok(ShortCommandOutput {
                status: code(status),
                stdout: streams.stdout.bytes,
                stderr: streams.stderr.bytes,
            })
        }
        ShortCommandEnd::TimedOut => {
            kill_group(&mut child);
            Err(Error::TimedOut { program: program.into_owned(), limit: q.timeout })
        }
        ShortCommandEnd::TooMuchOutput => {
            kill_group(&mut child);
            Err(Error::TooMuchOutput { program: program.into_owned(), limit: OUTPUT_LIMIT })
        }
    }
}

/// The reason why we stopped following a program.
enum ShortCommandEnd {
    Exited,
    TimedOut,
    TooMuchOutput,
}

/// Returns a program with its arguments, environment and streams.
pub(crate) fn command(q: &ShortCommand<'_>) -> Command {
    #[expect(clippy::disallowed_methods, reason = "this is one of the places that own a process")]
    let mut command = Command::new(q.program);
    command
        .args(q.args)
        .current_dir(q.cwd)
        .process_group(0)
        .stdin(if q.stdin.is_empty() { Stdio::null() } else { Stdio::piped() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    for (name, value) in q.env {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

fn spawn(q: &ShortCommand<'_>) -> io::Result<Child> {
    process_group::spawn(&mut command(q)).map_err(|error| {
        if error.kind() == io::ErrorKind::NotFound && !q.cwd.is_dir() {
            let message = format!("the directory `{}` does not exist", q.cwd.display());
            return io::Error::new(io::ErrorKind::NotFound, message);
        }
        error
    })
}

/// Feeds and reads a program until it is gone.
fn follow(
    child: &Child,
    streams: &mut StdioPipes,
    q: &ShortCommand<'_>,
    start: Instant,
) -> io::Result<ShortCommandEnd> {
    let pidfd = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    if let Some(stdin) = &streams.stdin {
        ioctl_fionbio(stdin, true)?;
    }
    let mut unwritten = q.stdin;
    let mut exited: Option<Instant> = None;
    loop {
        let limit = exited.map_or(q.timeout, |at| at.duration_since(start).saturating_add(DRAIN));
        let left = limit.saturating_sub(start.elapsed());
        if exited.is_some() && (streams.are_closed() || left.is_zero()) {
            return Ok(ShortCommandEnd::Exited);
        }
        if left.is_zero() {
            return Ok(ShortCommandEnd::TimedOut);
        }
        let [stdin, stdout, stderr, exit] =
            streams.wait(exited.is_none().then_some(&pidfd), left)?;
        if stdin {
            streams.feed(&mut unwritten);
        }
        if stdout {
            streams.stdout.read()?;
        }
        if stderr {
            streams.stderr.read()?;
        }
        if streams.stdout.bytes.len().max(streams.stderr.bytes.len()) > OUTPUT_LIMIT {
            return Ok(ShortCommandEnd::TooMuchOutput);
        }
        if exit {
            exited = Some(Instant::now());
        }
    }
}

/// Kills a program with everything in its group and takes it off the process table.
pub(crate) fn kill_group(child: &mut Child) {
    // Either fails only if the process is gone, which is what is wanted.
    kill_process_group(Pid::from_child(child), Signal::KILL).ok();
    child.wait().ok();
}

/// Returns an exit code as a shell would report it.
fn code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(-1)
}

/// Our ends of a program's three streams.
struct StdioPipes {
    stdin: Option<ChildStdin>,
    stdout: PipeBuffer,
    stderr: PipeBuffer,
}

impl StdioPipes {
    fn take(child: &mut Child) -> Self {
        Self {
            stdin: child.stdin.take(),
            stdout: PipeBuffer::new(child.stdout.take().map(OwnedFd::from)),
            stderr: PipeBuffer::new(child.stderr.take().map(OwnedFd::from)),
        }
    }

    fn are_closed(&self) -> bool {
        self.stdout.pipe.is_none() && self.stderr.pipe.is_none()
    }

    fn wait(&self, pidfd: Option<&OwnedFd>, timeout: Duration) -> io::Result<[bool; 4]> {
        let wanted = [
            self.stdin.as_ref().map(|stdin| (stdin.as_fd(), PollFlags::OUT)),
            self.stdout.pipe.as_ref().map(|pipe| (pipe.as_fd(), PollFlags::IN)),
            self.stderr.pipe.as_ref().map(|pipe| (pipe.as_fd(), PollFlags::IN)),
            pidfd.map(|pidfd| (pidfd.as_fd(), PollFlags::IN)),
        ];
        stream_io::poll_ready(wanted, Some(timeout))
    }

    /// Writes as much of the input as fits, and closes the pipe after the last byte.
    fn feed(&mut self, unwritten: &mut &[u8]) {
        let Some(stdin) = &mut self.stdin else { return };
        match stdin.write(unwritten) {
            Ok(count) => *unwritten = unwritten.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // The program does not want to read on. That is its business.
            Err(_) => *unwritten = &[],
        }
        if unwritten.is_empty() {
            self.stdin = None;
        }
    }
}

/// The bytes read from a pipe so far.
struct PipeBuffer {
    pipe: Option<OwnedFd>,
    bytes: Vec<u8>,
}

impl PipeBuffer {
    fn new(pipe: Option<OwnedFd>) -> Self {
        Self { pipe, bytes: Vec::new() }
    }

    /// Reads what is there, once; the caller knows that there is something.
    fn read(&mut self) -> io::Result<()> {
        let Some(pipe) = &self.pipe else { return Ok(()) };
        self.bytes.reserve(CHUNK);
        match rustix::io::read(pipe, spare_capacity(&mut self.bytes)) {
            Ok(0) => self.pipe = None,
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, stdin: &[u8], timeout: Duration) -> Result<ShortCommandOutput, Error> {
        let args = ["-c".into(), script.into()];
        let env = [("ADDED".into(), Some("added".into())), ("HOME".into(), None)];
        run_helper(&ShortCommand {
            program: OsStr::new("sh"),
            args: &args,
            cwd: Path::new("/"),
            env: &env,
            stdin,
            timeout,
        })
    }

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn output_status_and_environment_are_what_the_program_made_of_them() {
        let output = sh("echo \"$ADDED${HOME-gone}\"; pwd >&2; exit 3", b"", LONG).unwrap();
        assert_eq!(
            output,
            ShortCommandOutput { status: 3, stdout: b"addedgone\n".into(), stderr: b"/\n".into() }
        );
    }

    #[test]
    fn a_signal_is_reported_as_a_shell_would() {
        assert_eq!(sh("kill -9 $$", b"", LONG).unwrap().status, 137);
    }

    #[test]
    fn input_larger_than_a_pipe_arrives_whole_while_output_is_read() {
        let input = vec![b'x'; 1 << 20];
        assert_eq!(sh("cat", &input, LONG).unwrap().stdout, input);
    }

    #[test]
    fn a_program_that_does_not_read_its_input_is_not_waited_for() {
        assert_eq!(sh("exit 4", &vec![b'x'; 1 << 20], LONG).unwrap().status, 4);
    }

    #[test]
    fn without_input_it_reads_nothing() {
        assert_eq!(sh("cat", b"", LONG).unwrap().stdout, b"");
    }

    #[test]
    fn the_whole_group_is_killed_at_the_timeout() {
        let directory = tempfile::tempdir().unwrap();
        let pid = directory.path().join("pid");
        let script = format!("trap '' TERM; sleep 60 & echo $! > {}; wait", pid.display());
        let error = sh(&script, b"", Duration::from_millis(300)).unwrap_err();
        insta::assert_snapshot!(error, @"`sh` took longer than 0.3 s and was ended");
        let pid = std::fs::read_to_string(pid).unwrap();
        let stat = format!("/proc/{}/stat", pid.trim());
        let deadline = Instant::now() + LONG;
        // A killed orphan stays visible as a zombie until it is reaped by its new parent.
        while std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
            assert!(Instant::now() < deadline, "the child is still running");
        }
    }

    #[test]
    fn a_process_that_holds_the_pipe_does_not_hold_us() {
        let start = Instant::now();
        let output = sh("sleep 20 & echo $!", b"", LONG).unwrap();
        assert!(start.elapsed() < Duration::from_secs(10));
        let pid = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
        rustix::process::kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    }

    #[test]
    fn a_missing_program_and_a_missing_directory_are_told_apart() {
        let q = ShortCommand {
            program: OsStr::new("no-such-program"),
            args: &[],
            cwd: Path::new("/"),
            env: &[],
            stdin: b"",
            timeout: LONG,
        };
        let message = |q: &ShortCommand<'_>| {
            let error = run_helper(q).unwrap_err();
            format!("{error}: {}", std::error::Error::source(&error).unwrap())
        };
        insta::assert_snapshot!(message(&q), @"cannot start `no-such-program`: No such file or directory (os error 2)");
        let q = ShortCommand { program: OsStr::new("sh"), cwd: Path::new("/no/such/place"), ..q };
        insta::assert_snapshot!(message(&q), @"cannot start `sh`: the directory `/no/such/place` does not exist");
    }
}
