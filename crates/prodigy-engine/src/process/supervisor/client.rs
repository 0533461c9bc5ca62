//! Our side of a supervisor.

use std::{
    io,
    ops::ControlFlow,
    path::Path,
    time::{Duration, Instant},
};

use tokio::{
    io::AsyncWriteExt as _,
    net::UnixStream,
    task::{spawn_blocking, yield_now},
    time::{sleep_until, timeout},
};

use super::{
    oom_counter::OomCounter,
    wire::{self, FrameBuffer, SupervisorReply},
};
use crate::process::{
    CapturedOutput, Error, JOB_MARKER, Launch, MARKER, ProcessOutcome, ProcessStatus, StopToken,
    TerminationReason,
    orphans::{Reaper, reap},
    process_group::TRIES,
    spawn::{new_marker, spawn},
    stop_token::StopUrgency,
};

/// The longest that a supervisor may take to start.
const COMING_UP: Duration = Duration::from_secs(20);

/// The time beyond a launch's limits after which its supervisor counts as stuck.
const STUCK: Duration = Duration::from_secs(10);

/// The longest that a supervisor may take to end its processes and itself.
const CLOSING: Duration = Duration::from_secs(13);

/// The size of a read from the socket: a reply without much output.
const CHUNK: usize = 4 << 10;

/// The size of a read from the socket when output is streamed.
const STREAM_CHUNK: usize = 64 << 10;

/// The number of output bytes handled before other tasks may run.
const TURN: usize = 256 << 10;

/// The most grace that is given to the processes of a supervisor that is gone.
const ORPHAN_GRACE: Duration = Duration::from_secs(5);

/// The exit code of a program that was killed, as a shell reports it.
const KILLED: i32 = 137;

/// Hears what a program prints on standard output, masked, in pieces that are no lines.
///
/// With `Break` it says that it has heard enough: the program is ended after that time, unless
/// the listener says `Continue` before. It still hears what the program prints until it is over,
/// but cannot change its mind any more once the program is asked to end.
pub type OutputListener<'a> = &'a mut (dyn FnMut(&[u8]) -> ControlFlow<Duration> + Send);

/// A process that runs launches for us, one at a time.
///
/// Dropping it ends what it runs and then itself, in the background; [`SupervisorClient::close`]
/// does the same and waits. So does our death.
#[derive(Debug)]
pub struct SupervisorClient {
    /// None only while it is being closed.
    guarded: Option<SupervisorProcess>,
    inbox: FrameBuffer,
    outbox: Vec<u8>,
    /// Set while a launch was begun and its end not seen.
    busy: bool,
    /// Looked at when the supervisor starts and then only when something was killed.
    oom_kills: OomCounter,
}

/// The reason why a supervisor did not start.
enum SupervisorStartError {
    /// A signal to our process group ended it.
    Hit,
    /// Something is wrong.
    Failed(Error),
}

impl From<Error> for SupervisorStartError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// The process and the socket whose closing ends it.
#[derive(Debug)]
struct SupervisorProcess {
    socket: UnixStream,
    keeper: Reaper,
}

impl SupervisorClient {
    /// Starts `program __supervise`, where `program` is the `prodigy` binary.
    ///
    /// The supervisor carries the marks of the job whose state is in `state`, so that
    /// [`crate::process::kill_job_processes`] knows it. It is born in our process group, and a signal to that
    /// can end it before it has come up; then another one is started.
    pub async fn start(program: &Path, state: &Path) -> Result<Self, Error> {
        let mut started = Self::try_start(program, state).await;
        for _ in 1..TRIES {
            match started {
                Err(SupervisorStartError::Hit) => started = Self::try_start(program, state).await,
                Ok(_) | Err(SupervisorStartError::Failed(_)) => break,
            }
        }
        started.map_err(|not_up| match not_up {
            SupervisorStartError::Failed(error) => error,
            SupervisorStartError::Hit => Error::NoSupervisor {
                program: program.display().to_string(),
                source: io::Error::other("it is ended by a signal whenever it is started"),
            },
        })
    }

    /// Starts one and waits for its first word.
    async fn try_start(program: &Path, state: &Path) -> Result<Self, SupervisorStartError> {
        let name = || program.display().to_string();
        let cannot_start = |source| Error::Start { program: name(), source };
        let marker = new_marker().map_err(cannot_start)?;
        let env = vec![
            (JOB_MARKER, state.as_os_str().to_owned()),
            ("PRODIGY_AUTOMATION", "true".into()),
            (MARKER, marker.clone().into()),
        ];
        let path = program.to_owned();
        let (child, socket) = blocking(move || spawn(&path, env)).await.map_err(cannot_start)?;
        let keeper = Reaper { child, marker };
        let socket = match UnixStream::from_std(socket) {
            Ok(socket) => socket,
            Err(source) => {
                reap(keeper, Duration::ZERO).await;
                return Err(Error::Start { program: name(), source }.into());
            }
        };
        let mut supervisor = Self {
            guarded: Some(SupervisorProcess { socket, keeper }),
            inbox: FrameBuffer::default(),
            outbox: Vec::new(),
            busy: false,
            oom_kills: OomCounter::read(),
        };
        let ready = timeout(COMING_UP, supervisor.reply(CHUNK)).await;
        match ready.unwrap_or_else(|elapsed| Err(elapsed.into())) {
            Ok(SupervisorReply::Ready) => Ok(supervisor),
            Ok(
                SupervisorReply::Output(_)
                | SupervisorReply::Ended(_)
                | SupervisorReply::LogFailed { .. },
            ) => {
                let source = io::Error::other(wire::WireError);
                Err(Error::NoSupervisor { program: name(), source }.into())
            }
            Err(source) => {
                if supervisor.was_signaled().await {
                    return Err(SupervisorStartError::Hit);
                }
                Err(Error::NoSupervisor { program: name(), source }.into())
            }
        }
    }

    /// Finds out whether a supervisor that does not answer was ended by a signal.
    async fn was_signaled(&mut self) -> bool {
        let Some(SupervisorProcess { socket, mut keeper }) = self.guarded.take() else {
            return false;
        };
        drop(socket);
        let looked = spawn_blocking(move || {
            let was_hit = keeper.was_signaled(CLOSING);
            if !was_hit {
                keeper.finish(Duration::ZERO);
            }
            was_hit
        });
        // It does not panic; if it were cancelled the runtime is going down.
        looked.await.unwrap_or_default()
    }

    /// Runs a launch until nothing of it is left.
    ///
    /// After [`Error::Lost`], and after this future was dropped half-way, the supervisor
    /// is of no more use. A stop that was asked for before means that nothing is started.
    pub async fn run(
        &mut self,
        launch: &Launch,
        stop: &StopToken,
    ) -> Result<ProcessOutcome, Error> {
        self.run_streaming(launch, stop, &mut |_| ControlFlow::Continue(())).await
    }

    /// Does the same, and lets somebody hear what it prints if the launch is to be streamed.
    ///
    /// The program is held up while the listener is busy, and so is everything else on this thread.
    pub async fn run_streaming(
        &mut self,
        launch: &Launch,
        stop: &StopToken,
        listener: OutputListener<'_>,
    ) -> Result<ProcessOutcome, Error> {
        if stop.is_requested() {
            return Ok(stopped_before());
        }
        self.outbox.clear();
        wire::encode_launch(launch, &mut self.outbox).map_err(|wire::WireError| Error::TooLarge)?;
        if std::mem::replace(&mut self.busy, true) {
            self.shutdown().await;
            return Err(Error::Lost { ended: 0 });
        }
        // Whatever went wrong with the socket, it means that there is nobody to talk to.
        let Ok(reply) = self.exchange(launch, stop, listener).await else {
            return Err(self.kill_orphans(launch.grace).await);
        };
        match reply {
            SupervisorReply::Ended(mut ended) => {
                self.busy = false;
                // A shell reports the end of its last program as an exit code of its own.
                if ended.ended_by.is_none() && ended.status.code() == KILLED {
                    ended.oom_killed = self.oom_kills.has_increased();
                }
                Ok(*ended)
            }
            SupervisorReply::LogFailed { message } => {
                self.busy = false;
                Err(Error::Log { message })
            }
            SupervisorReply::Ready | SupervisorReply::Output(_) => {
                Err(self.kill_orphans(launch.grace).await)
            }
        }
    }

    /// Ends the supervisor and waits until it is gone.
    pub async fn close(mut self) {
        self.shutdown().await;
    }

    /// Lets the supervisor end what it runs and then itself.
    async fn shutdown(&mut self) {
        if let Some(SupervisorProcess { socket, keeper }) = self.guarded.take() {
            drop(socket);
            reap(keeper, CLOSING).await;
        }
    }

    /// Returns the number of the supervisor's process, for people who look at `ps`.
    pub fn id(&self) -> Option<u32> {
        self.guarded.as_ref().map(|guarded| guarded.keeper.child.id())
    }

    /// Sends the launch that is in the outbox and waits for its end, passing on what is asked meanwhile.
    async fn exchange(
        &mut self,
        launch: &Launch,
        stop: &StopToken,
        listener: OutputListener<'_>,
    ) -> io::Result<SupervisorReply> {
        let outbox = std::mem::take(&mut self.outbox);
        self.send(&outbox).await?;
        self.outbox = outbox;
        let chunk = if launch.stream { STREAM_CHUNK } else { CHUNK };
        let mut urgency = StopUrgency::None;
        let mut has_enough = false;
        // When a program that goes on although enough was heard is ended.
        let mut enough_at = None;
        let mut heard = 0;
        // A program can stop its own supervisor; nobody then keeps the time but us.
        let after = |time: Duration| {
            Instant::now().checked_add(time)?.checked_add(launch.grace)?.checked_add(STUCK)
        };
        let mut deadline = launch.timeout.and_then(after);
        loop {
            // First the requests to end: a program that never ceases to print must not drown them.
            tokio::select! {
                biased;
                raised = stop.wait_for_more_urgent(urgency) => {
                    urgency = raised;
                    let now = raised == StopUrgency::Now;
                    let grace = if now { Duration::ZERO } else { launch.grace };
                    deadline = Instant::now().checked_add(grace).and_then(|at| at.checked_add(STUCK));
                    self.ask(|frame| wire::encode_stop(now, frame)).await?;
                }
                () = at(enough_at), if !has_enough => {
                    has_enough = true;
                    deadline = deadline.into_iter().chain(after(Duration::ZERO)).min();
                    self.ask(wire::encode_enough).await?;
                }
                reply = self.reply(chunk) => match reply? {
                    SupervisorReply::Output(bytes) => {
                        enough_at = match listener(&bytes) {
                            ControlFlow::Continue(()) => None,
                            ControlFlow::Break(wait) => {
                                enough_at.or_else(|| Instant::now().checked_add(wait))
                            }
                        };
                        heard += bytes.len();
                        if heard >= TURN {
                            heard = 0;
                            yield_now().await;
                        }
                    }
                    reply @ (SupervisorReply::Ready | SupervisorReply::Ended(_) | SupervisorReply::LogFailed { .. }) => {
                        return Ok(reply);
                    }
                },
                () = at(deadline) => return Err(io::ErrorKind::TimedOut.into()),
            }
        }
    }

    /// Sends one more request.
    async fn ask(
        &mut self,
        put: impl FnOnce(&mut Vec<u8>) -> Result<(), wire::WireError>,
    ) -> io::Result<()> {
        let mut frame = Vec::new();
        put(&mut frame).map_err(io::Error::other)?;
        self.send(&frame).await
    }

    async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let guarded = self.guarded.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        guarded.socket.write_all(bytes).await
    }

    /// Waits for the next reply. Nothing is lost if this is cancelled.
    async fn reply(&mut self, chunk: usize) -> io::Result<SupervisorReply> {
        let guarded = self.guarded.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        loop {
            if let Some(body) = self.inbox.next() {
                return wire::decode_reply(body).map_err(io::Error::other);
            }
            guarded.socket.readable().await?;
            self.inbox.bytes.reserve(chunk);
            match guarded.socket.try_read_buf(&mut self.inbox.bytes) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Ends what a supervisor left behind that is gone, stuck or confused.
    async fn kill_orphans(&mut self, grace: Duration) -> Error {
        let Some(SupervisorProcess { socket, mut keeper }) = self.guarded.take() else {
            return Error::Lost { ended: 0 };
        };
        drop(socket);
        let ended = spawn_blocking(move || keeper.kill(grace.min(ORPHAN_GRACE))).await;
        // The search does not panic; if it were cancelled the runtime is going down.
        Error::Lost { ended: ended.unwrap_or_default() }
    }
}

impl Drop for SupervisorClient {
    fn drop(&mut self) {
        if let Some(SupervisorProcess { socket, mut keeper }) = self.guarded.take() {
            drop(socket);
            // Not on the runtime, which may be going down. If no thread can be had, the
            // supervisor still ends itself; only its entry in the process table stays.
            std::thread::Builder::new().spawn(move || keeper.finish(CLOSING)).ok();
        }
    }
}

/// Waits until then; forever if there is no such time.
async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    spawn_blocking(work).await.map_err(io::Error::other)?
}

fn stopped_before() -> ProcessOutcome {
    ProcessOutcome {
        status: ProcessStatus::NotStarted {
            errno: None,
            message: "the run was stopped before".to_owned(),
        },
        ended_by: Some(TerminationReason::Stop),
        stdout: CapturedOutput::default(),
        stderr: CapturedOutput::default(),
        duration: Duration::ZERO,
        leftovers: 0,
        survivors: 0,
        oom_killed: false,
    }
}
