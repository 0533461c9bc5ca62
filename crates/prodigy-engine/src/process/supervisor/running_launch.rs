//! One launch, from its start until nothing of it is left.
//!
//! ```text
//!             ┌─ timeout, idle, stop, enough ─▶ asked to end ─ grace over ─▶ killed ─┐
//! running ────┤  heard, prodigy gone               ▲                               ▼
//!             └─ exited ─▶ output drained ─ leftovers ─────┘ ─── nobody left ────────▶ over
//! ```

use std::{
    collections::HashSet,
    io::{self, Write as _},
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    path::Path,
    process::{Child, ChildStdin},
    time::{Duration, Instant},
};

use rustix::{
    event::PollFlags,
    io::ioctl_fionbio,
    process::{
        Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, getpid, kill_process_group, pidfd_open,
        wait,
    },
};

use super::output_reader::{OutputForwarder, OutputReader};
use crate::process::{
    Launch, ProcessOutcome, ProcessStatus, SANDBOX, TerminationReason,
    process_info::{self, ProcessInfo},
    stream_io,
};

/// The time in which output may still arrive after the program has exited.
const DRAIN: Duration = Duration::from_millis(300);
/// The grace of a process that was left behind, once asked to end.
const LEFTOVER_GRACE: Duration = Duration::from_secs(1);
/// The most grace there is when nobody waits for the result any more.
const ABANDONED_GRACE: Duration = Duration::from_secs(5);
/// The time for killing. A process that is left then hangs in the kernel or is not ours to kill.
const KILLING: Duration = Duration::from_secs(5);
/// The interval of checks for the end of processes that are no children of ours.
const LOOK: Duration = Duration::from_millis(5);
/// The interval of reaping inherited zombies while the program runs.
const REAP: Duration = Duration::from_secs(1);

/// The messages over the socket while a launch is running.
pub(crate) enum ControlMessage {
    /// End it.
    Stop {
        /// Without any grace.
        now: bool,
    },
    /// End it: whoever listens to it has heard enough.
    Enough,
    /// There is nobody any more who waits for it.
    Abandoned,
}

/// A launch whose program has been started.
pub(crate) struct RunningLaunch<'a> {
    launch: &'a Launch,
    program: Pid,
    pidfd: OwnedFd,
    stdin: Option<ChildStdin>,
    unwritten: &'a [u8],
    stdout: OutputReader<'a>,
    stderr: OutputReader<'a>,
    buffer: &'a mut Vec<u8>,
    started: Instant,
    last_output: Instant,
    exited: Option<(WaitStatus, Instant)>,
    ended_by: Option<TerminationReason>,
    kill_at: Option<Instant>,
    leftovers: HashSet<Pid>,
    /// Processes of earlier launches that cannot be ended; there is no point in trying again.
    stuck: &'a mut HashSet<Pid>,
}

impl<'a> RunningLaunch<'a> {
    /// Takes over a program that has just been started.
    pub(crate) fn new(
        launch: &'a Launch,
        child: &mut Child,
        started: Instant,
        (stdout, stderr): (OutputReader<'a>, OutputReader<'a>),
        buffer: &'a mut Vec<u8>,
        stuck: &'a mut HashSet<Pid>,
    ) -> io::Result<Self> {
        let program = Pid::from_child(child);
        let stdin = child.stdin.take();
        if let Some(stdin) = &stdin {
            ioctl_fionbio(stdin, true)?;
        }
        let mut running = Self {
            launch,
            program,
            pidfd: pidfd_open(program, PidfdFlags::empty())?,
            stdin,
            unwritten: &launch.stdin,
            stdout,
            stderr,
            buffer,
            started,
            last_output: started,
            exited: None,
            ended_by: None,
            kill_at: None,
            leftovers: HashSet::new(),
            stuck,
        };
        // Most inputs fit into the pipe, which saves one turn of the loop.
        running.feed();
        Ok(running)
    }

    /// Follows the program until nothing of it is left.
    ///
    /// `listen` is called when the socket has something to say.
    pub(crate) fn follow(
        mut self,
        socket: BorrowedFd<'_>,
        mut listen: impl FnMut() -> Option<ControlMessage>,
    ) -> io::Result<ProcessOutcome> {
        let mut listening = true;
        let survivors = loop {
            let now = Instant::now();
            if let Some(survivors) = self.advance(now)? {
                break survivors;
            }
            let timeout = self.next_check(now);
            let [word, room, stdout, stderr, stdin] =
                self.wait(listening.then_some(socket), timeout)?;
            if room && let Some(forward) = self.stdout.forward() {
                forward.flush();
                // It was we who did not read on.
                self.last_output = Instant::now();
            }
            let printed = stdout && self.stdout.read(self.buffer)?;
            if (stderr && self.stderr.read(self.buffer)?) || printed {
                self.last_output = Instant::now();
            }
            if stdin {
                self.feed();
            }
            if word && let Some(word) = listen() {
                if let ControlMessage::Abandoned = word {
                    listening = false;
                    self.stdout.forward().map(OutputForwarder::close);
                }
                self.handle_message(&word, Instant::now());
            }
        };
        Ok(self.finish(survivors))
    }

    /// Moves the launch on, and returns how many processes could not be ended once it is over.
    fn advance(&mut self, now: Instant) -> io::Result<Option<u32>> {
        let children_left = self.reap(now)? && (self.stuck.is_empty() || self.are_any_left());
        if let Some((_, exited)) = self.exited {
            if !children_left {
                self.drain(exited)?;
                return Ok(Some(0));
            }
            let closed = self.stdout.pipe().is_none() && self.stderr.pipe().is_none();
            let is_drained = closed || now >= exited + DRAIN;
            if self.ended_by.is_none() && (self.kill_at.is_some() || is_drained) {
                self.leftovers.extend(self.descendants().iter().map(|left| left.pid));
            }
            if self.kill_at.is_none() && is_drained {
                self.ask_to_end(now, LEFTOVER_GRACE.min(self.launch.grace));
            }
        } else if self.kill_at.is_none() {
            let over = |limit: Option<Duration>, since: Instant| {
                limit.is_some_and(|limit| now.duration_since(since) >= limit)
            };
            if over(self.launch.timeout, self.started) {
                self.end(TerminationReason::Timeout, now, self.launch.grace);
            } else if over(self.idle_timeout(), self.last_output) {
                self.end(TerminationReason::Idle, now, self.launch.grace);
            }
        }
        match self.kill_at {
            Some(kill_at) if now >= kill_at => Ok(self.kill(now.duration_since(kill_at))),
            Some(_) | None => Ok(None),
        }
    }

    /// Heeds what was said over the socket.
    fn handle_message(&mut self, word: &ControlMessage, now: Instant) {
        let (ended_by, grace) = match word {
            ControlMessage::Stop { now: true } => (TerminationReason::Stop, Duration::ZERO),
            ControlMessage::Stop { now: false } => (TerminationReason::Stop, self.launch.grace),
            ControlMessage::Enough => (TerminationReason::Listener, self.launch.grace),
            ControlMessage::Abandoned => {
                (TerminationReason::Stop, ABANDONED_GRACE.min(self.launch.grace))
            }
        };
        match self.kill_at {
            Some(kill_at) => self.kill_at = Some(kill_at.min(now + grace)),
            // The program is over and what it left will be ended in a moment anyway.
            None if self.exited.is_some() => {}
            None => self.end(ended_by, now, grace),
        }
    }

    fn end(&mut self, ended_by: TerminationReason, now: Instant, grace: Duration) {
        self.ended_by = Some(ended_by);
        self.ask_to_end(now, grace);
    }

    /// Asks everything to end, and sets the time when it will be killed.
    fn ask_to_end(&mut self, now: Instant, grace: Duration) {
        self.kill_at = Some(now + grace);
        if !grace.is_zero() {
            // What has been stopped must go on to hear the request.
            self.signal(&[Signal::TERM, Signal::CONT]);
        }
    }

    /// Kills everything, and returns how many are left if trying on makes no sense.
    fn kill(&mut self, tried_for: Duration) -> Option<u32> {
        let left = self.signal(&[Signal::KILL]);
        if tried_for < KILLING || left.is_empty() {
            return None;
        }
        self.stuck.extend(left.iter().map(|left| left.pid));
        Some(u32::try_from(left.len()).unwrap_or(u32::MAX))
    }

    /// Returns every process of this launch that is still there.
    fn descendants(&self) -> Vec<ProcessInfo> {
        let mut found = process_info::descendants(getpid());
        found.retain(|process| !self.stuck.contains(&process.pid));
        found
    }

    fn are_any_left(&self) -> bool {
        !self.descendants().is_empty()
    }

    /// Sends signals to the program's group and to every descendant that left the group,
    /// and returns all that were there.
    fn signal(&self, signals: &[Signal]) -> Vec<ProcessInfo> {
        let group = self.program.as_raw_nonzero().get();
        let descendants = self.descendants();
        if self.is_sandboxed() && !signals.contains(&Signal::KILL) {
            let inside = descendants.iter().filter(|process| process.pid != self.program);
            inside.for_each(|process| process.signal(signals));
            return descendants;
        }
        // Once the program is reaped its number is only ours if somebody still is in that group.
        if self.exited.is_none() || descendants.iter().any(|process| process.group == group) {
            for signal in signals {
                // The group may be empty by now, which is what is wanted.
                kill_process_group(self.program, *signal).ok();
            }
        }
        for process in descendants.iter().filter(|process| process.group != group) {
            process.signal(signals);
        }
        descendants
    }

    /// Returns whether the program is a sandbox: it must outlive what is in it, which would
    /// otherwise be killed without having been asked.
    fn is_sandboxed(&self) -> bool {
        let program = self.launch.argv.first().map(Path::new);
        program.and_then(Path::file_name).is_some_and(|name| name == SANDBOX)
    }

    /// Reaps everything that has ended, and returns whether we still have children.
    ///
    /// Being the subreaper, we have children exactly as long as anything of the launch is left.
    fn reap(&mut self, now: Instant) -> io::Result<bool> {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.program => {
                    self.exited = Some((status, now));
                }
                Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
                Ok(None) => return Ok(true),
                Err(rustix::io::Errno::CHILD) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Reads what is still in the pipes. Nobody is left to write, unless a pipe was handed away.
    fn drain(&mut self, exited: Instant) -> io::Result<()> {
        // Whoever listens may have kept us from reading until now.
        let since = if self.launch.stream { Instant::now() } else { exited };
        while since.elapsed() < DRAIN {
            let [.., stdout, stderr, _] = self.wait(None, Some(Duration::ZERO))?;
            if stdout {
                self.stdout.read(self.buffer)?;
                self.stdout.forward().map(OutputForwarder::wait_for_room);
            }
            if stderr {
                self.stderr.read(self.buffer)?;
            }
            if !stdout && !stderr {
                break;
            }
        }
        Ok(())
    }

    /// Returns how long nothing needs to be looked at if nothing happens.
    fn next_check(&self, now: Instant) -> Option<Duration> {
        if self.kill_at.is_some() {
            return Some(LOOK);
        }
        if let Some((_, exited)) = self.exited {
            return Some((exited + DRAIN).saturating_duration_since(now).min(LOOK));
        }
        let left = |limit: Option<Duration>, since: Instant| {
            limit.map(|limit| limit.saturating_sub(now.duration_since(since)))
        };
        [
            Some(REAP),
            left(self.launch.timeout, self.started),
            left(self.idle_timeout(), self.last_output),
            self.stdout.batch_delay(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Returns the longest it may print nothing, unless it is held up.
    fn idle_timeout(&self) -> Option<Duration> {
        self.launch.idle_timeout.filter(|_| !self.stdout.is_behind())
    }

    /// Waits for the socket to be read and to be written, the two outputs and the input, and
    /// returns which of them can go on.
    ///
    /// Standard output is read no faster than it is taken, if there is a socket, and has its rests.
    fn wait(
        &self,
        socket: Option<BorrowedFd<'_>>,
        timeout: Option<Duration>,
    ) -> io::Result<[bool; 5]> {
        let to_read = |fd| (fd, PollFlags::IN);
        let behind = socket.filter(|_| self.stdout.is_behind());
        let rests = self.exited.is_none() && self.stdout.batch_delay().is_some();
        let [word, room, stdout, stderr, stdin, _] = stream_io::poll_ready(
            [
                socket.map(to_read),
                behind.map(|socket| (socket, PollFlags::OUT)),
                self.stdout.pipe().filter(|_| behind.is_none() && !rests).map(to_read),
                self.stderr.pipe().map(to_read),
                self.stdin.as_ref().map(|stdin| (stdin.as_fd(), PollFlags::OUT)),
                // Reaping shows whether the program has exited, so waking up is enough.
                self.exited.is_none().then_some((self.pidfd.as_fd(), PollFlags::IN)),
            ],
            timeout,
        )?;
        Ok([word, room, stdout, stderr, stdin])
    }

    /// Writes as much of the input as fits, and closes the pipe after the last byte.
    fn feed(&mut self) {
        let Some(stdin) = &mut self.stdin else { return };
        match stdin.write(self.unwritten) {
            Ok(count) => self.unwritten = self.unwritten.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // The program does not want to read on. That is its business.
            Err(_) => self.unwritten = &[],
        }
        if self.unwritten.is_empty() {
            self.stdin = None;
        }
    }

    fn finish(self, survivors: u32) -> ProcessOutcome {
        let status = match self.exited {
            Some((status, _)) => match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => ProcessStatus::Exited(code),
                (None, signal) => ProcessStatus::Signaled(signal.unwrap_or_default()),
            },
            // It hangs in the kernel. For all that we can see, it was killed.
            None => ProcessStatus::Signaled(Signal::KILL.as_raw()),
        };
        ProcessOutcome {
            status,
            ended_by: self.ended_by,
            stdout: self.stdout.finish(),
            stderr: self.stderr.finish(),
            duration: self.exited.map_or_else(Instant::now, |(_, at)| at) - self.started,
            leftovers: u32::try_from(self.leftovers.len()).unwrap_or(u32::MAX),
            survivors,
            oom_killed: false,
        }
    }
}
