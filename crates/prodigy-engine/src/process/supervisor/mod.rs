//! The supervisor: a process that runs one launch after the other and outlives us if it must.
//!
//! It is single-threaded and small, so that starting a program from it is cheap, and
//! it needs nothing but its socket. When that closes it ends what it runs, then itself.

pub(crate) mod client;
pub(crate) mod log_writer;
pub(crate) mod oom_counter;
pub(crate) mod output_reader;
pub(crate) mod running_launch;
pub(crate) mod wire;

use std::{
    collections::HashSet,
    ffi::{OsStr, OsString},
    io::{self, Write as _},
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::net::UnixStream,
    },
    path::Path,
    time::{Duration, Instant},
};

use log_writer::LogWriter;
use output_reader::{OutputForwarder, OutputReader, is_disconnected};
use prodigy_core::mask::Mask;
use running_launch::{ControlMessage, RunningLaunch};
use rustix::{
    buffer::spare_capacity,
    fs::Mode,
    io::Errno,
    process::{
        Pid, Resource, Rlimit, Signal, WaitOptions, getpid, set_child_subreaper, setrlimit, setsid,
        umask, wait,
    },
};
use wire::{FrameBuffer, SupervisorReply, SupervisorRequest};

use super::{CapturedOutput, Launch, MARKER, ProcessOutcome, process_info, spawn::spawn_launch};

/// The time for killing processes that we cannot follow.
const KILLING: Duration = Duration::from_secs(5);

/// The size of a read from the socket.
const CHUNK: usize = 64 << 10;

/// An error that ends the supervisor. Only a person who starts it by hand sees this.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorError {
    /// Standard input is not our socket.
    #[error("`prodigy __supervise` is started by prodigy itself")]
    NotOurs(#[source] io::Error),
    /// The operating system refused something.
    #[error("the supervisor cannot go on")]
    Io(#[from] io::Error),
}

impl From<Errno> for SupervisorError {
    fn from(errno: Errno) -> Self {
        Self::Io(errno.into())
    }
}

/// Runs what is asked for on standard input, which is a socket, until that is closed.
pub fn run_supervisor() -> Result<(), SupervisorError> {
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    rustix::net::sockopt::socket_type(&socket)
        .map_err(|errno| SupervisorError::NotOurs(errno.into()))?;
    setsid()?;
    set_child_subreaper(Some(getpid()))?;
    umask(Mode::RWXG | Mode::RWXO);
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    Supervisor::new(socket).serve()
}

/// The state of a supervisor from one launch to the next.
struct Supervisor {
    link: EngineConnection,
    marker: OsString,
    stdout: LogWriter,
    stderr: LogWriter,
    secrets: Vec<String>,
    mask: Mask,
    buffer: Vec<u8>,
    stuck: HashSet<Pid>,
}

impl Supervisor {
    fn new(socket: OwnedFd) -> Self {
        Self {
            link: EngineConnection {
                socket: socket.into(),
                inbox: FrameBuffer::default(),
                outbox: Vec::new(),
            },
            marker: std::env::var_os(MARKER).unwrap_or_default(),
            stdout: LogWriter::default(),
            stderr: LogWriter::default(),
            secrets: Vec::new(),
            mask: Mask::default(),
            buffer: Vec::new(),
            stuck: HashSet::new(),
        }
    }

    fn serve(mut self) -> Result<(), SupervisorError> {
        self.link.send(&SupervisorReply::Ready)?;
        while let Some(request) = self.link.receive()? {
            match request {
                SupervisorRequest::Launch(launch) => {
                    let reply = self.run(&launch).inspect_err(|_| end_children())?;
                    self.link.send(&reply)?;
                }
                // It came too late: what it was meant for has just ended.
                SupervisorRequest::Stop { .. } | SupervisorRequest::Enough => {}
            }
        }
        Ok(())
    }

    fn run(&mut self, launch: &Launch) -> io::Result<SupervisorReply> {
        if launch.secrets != self.secrets {
            self.mask = Mask::new(launch.secrets.iter().cloned());
            self.secrets.clone_from(&launch.secrets);
        }
        let (stdout, stderr) = launch.log.as_ref().map_or((None, None), |(stdout, stderr)| {
            (Some(stdout.as_path()), Some(stderr.as_path()))
        });
        let stdout_log = match self.stdout.begin_launch(stdout, launch.log_cap) {
            Ok(log) => log,
            Err(error) => return Ok(log_failed(stdout, &error)),
        };
        let stderr_log = match self.stderr.begin_launch(stderr, launch.log_cap) {
            Ok(log) => log,
            Err(error) => return Ok(log_failed(stderr, &error)),
        };
        let started = Instant::now();
        let mut child = match spawn_launch(launch, &[(OsStr::new(MARKER), &self.marker)]) {
            Ok(child) => child,
            Err(status) => {
                return Ok(SupervisorReply::Ended(Box::new(ProcessOutcome {
                    status,
                    ended_by: None,
                    stdout: CapturedOutput::default(),
                    stderr: CapturedOutput::default(),
                    duration: started.elapsed(),
                    leftovers: 0,
                    survivors: 0,
                    oom_killed: false,
                })));
            }
        };
        let EngineConnection { socket, inbox, outbox } = &mut self.link;
        let forward = launch.stream.then(|| OutputForwarder::new(socket, outbox));
        let outlets = (
            OutputReader::new(child.stdout.take().map(Into::into), self.mask.stream(), stdout_log)
                .with_forwarder(forward),
            OutputReader::new(child.stderr.take().map(Into::into), self.mask.stream(), stderr_log),
        );
        let running = RunningLaunch::new(
            launch,
            &mut child,
            started,
            outlets,
            &mut self.buffer,
            &mut self.stuck,
        )?;
        let ended = running.follow(socket.as_fd(), || read_control_message(socket, inbox))?;
        Ok(SupervisorReply::Ended(Box::new(ended)))
    }
}

/// Kills what is running, for when we cannot follow it any longer.
fn end_children() {
    let start = Instant::now();
    while start.elapsed() < KILLING && wait(WaitOptions::NOHANG).is_ok() {
        for process in process_info::descendants(getpid()) {
            process.signal(&[Signal::KILL]);
        }
    }
}

fn log_failed(path: Option<&Path>, error: &io::Error) -> SupervisorReply {
    let path = path.unwrap_or(Path::new("")).display();
    SupervisorReply::LogFailed { message: format!("`{path}`: {error}") }
}

/// Reads the requests that arrive while a launch is running.
fn read_control_message(socket: &UnixStream, inbox: &mut FrameBuffer) -> Option<ControlMessage> {
    if !read(socket, inbox).unwrap_or(false) {
        return Some(ControlMessage::Abandoned);
    }
    let mut word = None;
    while let Some(body) = inbox.next() {
        word = match wire::decode_request(body) {
            Ok(SupervisorRequest::Stop { now: false })
                if matches!(word, Some(ControlMessage::Stop { .. })) =>
            {
                word
            }
            Ok(SupervisorRequest::Stop { now }) => Some(ControlMessage::Stop { now }),
            Ok(SupervisorRequest::Enough) => word.or(Some(ControlMessage::Enough)),
            // Nobody sends a second launch before the first has ended.
            Ok(SupervisorRequest::Launch(_)) | Err(wire::WireError) => {
                return Some(ControlMessage::Abandoned);
            }
        };
    }
    word
}

/// Reads once, and returns whether the other side is still there.
fn read(socket: &UnixStream, inbox: &mut FrameBuffer) -> io::Result<bool> {
    inbox.bytes.reserve(CHUNK);
    match rustix::io::read(socket, spare_capacity(&mut inbox.bytes)) {
        Ok(count) => Ok(count > 0),
        Err(Errno::INTR) => Ok(true),
        Err(Errno::CONNRESET) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// The socket to the process that we work for.
struct EngineConnection {
    socket: UnixStream,
    inbox: FrameBuffer,
    /// The bytes not sent yet, among them output of the program.
    outbox: Vec<u8>,
}

impl EngineConnection {
    /// Waits for the next request; `None` means that there will be none.
    fn receive(&mut self) -> io::Result<Option<SupervisorRequest>> {
        loop {
            if let Some(body) = self.inbox.next() {
                // Whoever sends nonsense is not the one we work for.
                return Ok(wire::decode_request(body).ok());
            }
            if !read(&self.socket, &mut self.inbox)? {
                return Ok(None);
            }
        }
    }

    fn send(&mut self, reply: &SupervisorReply) -> io::Result<()> {
        wire::encode_reply(reply, &mut self.outbox).map_err(io::Error::other)?;
        let sent = self.socket.write_all(&self.outbox);
        self.outbox.clear();
        match sent {
            // Nobody is there to read it; the next read says so and ends us.
            Err(error) if is_disconnected(&error) => Ok(()),
            other => other,
        }
    }
}
