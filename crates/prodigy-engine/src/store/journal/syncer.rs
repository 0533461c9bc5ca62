//! The thread that makes written records durable, many at a time.
//!
//! `fdatasync` takes as long as a hundred appends, so it is kept off the path of
//! whoever appends: records are written at once and synced together a little later,
//! or right away if somebody waits for it.

use std::{
    fs::File,
    io, mem,
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

use tokio::sync::watch;

use crate::store::Error;

/// The longest that a record waits for others to be synced with.
const GROUP: Duration = Duration::from_millis(10);

/// Makes written records durable in the background.
#[derive(Debug)]
pub(crate) struct Syncer {
    shared: Arc<SyncerShared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct SyncerShared {
    state: Mutex<SyncerState>,
    /// There is something to sync, somebody waits, or the journal is closed.
    work: Condvar,
    /// Something was synced or failed.
    done: Condvar,
    /// The same, for those who must not block.
    progress: watch::Sender<SyncProgress>,
}

/// The progress of syncing.
#[derive(Clone, Debug, Default)]
struct SyncProgress {
    /// The number of durable writes.
    synced: u64,
    /// The error after which nothing is synced any more.
    error: Option<Error>,
}

#[derive(Debug, Default)]
struct SyncerState {
    /// The file to sync.
    file: Option<(Arc<File>, PathBuf)>,
    /// The number of writes so far.
    written: u64,
    /// The number of them that are durable.
    synced: u64,
    /// The number of syncs of the file.
    syncs: u64,
    /// The thread waits for work and has to be woken.
    idle: bool,
    /// Somebody waits: do not wait for more records.
    urgent: bool,
    /// The journal is closed.
    closed: bool,
    /// The first error. A failed sync is never retried: the kernel has dropped the data.
    error: Option<Error>,
}

impl Syncer {
    /// Starts the thread.
    pub(crate) fn start() -> Result<Self, Error> {
        let shared = Arc::new(SyncerShared::default());
        let thread = thread::Builder::new()
            .name("journal".to_owned())
            .spawn({
                let shared = Arc::clone(&shared);
                move || shared.run()
            })
            .map_err(|error| Error::io("start a thread for", "the journal", error))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Names the file that is written from now on; everything written before must be durable.
    pub(crate) fn switch_to(&self, file: &Arc<File>, path: &Path) {
        self.shared.lock().file = Some((Arc::clone(file), path.to_owned()));
    }

    /// Returns the error that ended the syncing, if one did.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.shared.lock().error.clone().map_or(Ok(()), Err)
    }

    /// Says that something was written.
    pub(crate) fn notify_write(&self) {
        let mut state = self.shared.lock();
        state.written += 1;
        // Waking costs a system call; a thread that is not idle looks by itself.
        if mem::take(&mut state.idle) {
            drop(state);
            self.shared.work.notify_one();
        }
    }

    /// Waits until everything written so far is durable.
    pub(crate) fn wait(&self) -> Result<(), Error> {
        let mut state = self.shared.lock();
        let target = state.written;
        loop {
            if let Some(error) = &state.error {
                return Err(error.clone());
            }
            if state.synced >= target {
                return Ok(());
            }
            state.urgent = true;
            self.shared.work.notify_one();
            state = self.shared.done.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Asks for everything written so far to be made durable, without waiting for it.
    pub(crate) fn ticket(&self) -> SyncTicket {
        let progress = self.shared.progress.subscribe();
        let mut state = self.shared.lock();
        let target = state.written;
        if state.synced < target {
            state.urgent = true;
            self.shared.work.notify_one();
        }
        SyncTicket(TicketState::Waiting { target, progress })
    }

    /// Returns how many times the file was synced.
    #[cfg(test)]
    pub(crate) fn syncs(&self) -> u64 {
        self.shared.lock().syncs
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.work.notify_one();
        if let Some(thread) = self.thread.take() {
            // The thread does not panic, and there is nobody left to tell.
            thread.join().ok();
        }
    }
}

impl SyncerShared {
    fn lock(&self) -> MutexGuard<'_, SyncerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Syncs until the journal is closed and everything is durable.
    fn run(&self) {
        let mut state = self.lock();
        while state.error.is_none() {
            if state.synced >= state.written {
                if state.closed {
                    return;
                }
                state.idle = true;
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            if !state.urgent && !state.closed {
                let wait = self.work.wait_timeout_while(state, GROUP, |s| !s.urgent && !s.closed);
                state = wait.unwrap_or_else(PoisonError::into_inner).0;
            }
            state.urgent = false;
            let target = state.written;
            let Some((file, path)) = state.file.clone() else { return };
            drop(state);
            let synced = file.sync_data();
            state = self.lock();
            state.syncs += 1;
            match synced {
                Ok(()) => state.synced = state.synced.max(target),
                Err(error) => state.error = Some(Error::io("sync", path, error)),
            }
            self.done.notify_all();
            let progress = SyncProgress { synced: state.synced, error: state.error.clone() };
            self.progress.send_replace(progress);
        }
    }
}

/// A claim on the durability of everything that was appended before it was given out.
///
/// It can be waited for while the journal is written on.
#[derive(Debug)]
#[must_use = "what is not waited for may be lost"]
pub struct SyncTicket(TicketState);

#[derive(Debug)]
enum TicketState {
    /// The answer is known.
    Known(Result<(), Error>),
    /// So many writes have to become durable.
    Waiting { target: u64, progress: watch::Receiver<SyncProgress> },
}

impl SyncTicket {
    /// Returns a ticket whose answer is known.
    pub(crate) fn ready(answer: Result<(), Error>) -> Self {
        Self(TicketState::Known(answer))
    }

    /// Waits until it is durable, without blocking the thread.
    pub async fn wait(self) -> Result<(), Error> {
        let (target, mut progress) = match self.0 {
            TicketState::Known(answer) => return answer,
            TicketState::Waiting { target, progress } => (target, progress),
        };
        let over = progress.wait_for(|now| now.synced >= target || now.error.is_some()).await;
        match over {
            // What was synced before the failure is safe.
            Ok(now) if now.synced >= target => Ok(()),
            Ok(now) => now.error.clone().map_or(Ok(()), Err),
            // A journal is not closed before everything is synced, unless its thread died.
            Err(_) => Err(Error::io("sync", "the journal", io::ErrorKind::BrokenPipe)),
        }
    }
}
