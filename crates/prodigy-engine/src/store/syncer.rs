//! The thread that makes written records durable, many at a time.
//!
//! `fdatasync` takes as long as a hundred appends, so it is kept off the path of
//! whoever appends: records are written at once and synced together a little later,
//! or right away if somebody waits for it.

use std::{
    fs::File,
    mem,
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

use super::Error;

/// The longest that a record waits for others to be synced with.
const GROUP: Duration = Duration::from_millis(10);

/// Makes written records durable in the background.
#[derive(Debug)]
pub(super) struct Syncer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// There is something to sync, somebody waits, or the journal is closed.
    work: Condvar,
    /// Something was synced or failed.
    done: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The file to sync.
    file: Option<(Arc<File>, PathBuf)>,
    /// How many writes there were.
    written: u64,
    /// How many of them are durable.
    synced: u64,
    /// How many times the file was synced.
    syncs: u64,
    /// The thread waits for work and has to be woken.
    idle: bool,
    /// Somebody waits: do not wait for more records.
    urgent: bool,
    /// The journal is closed.
    closed: bool,
    /// What went wrong. A failed sync is never tried again: the kernel has dropped the data.
    error: Option<Error>,
}

impl Syncer {
    /// Starts the thread.
    pub(super) fn start() -> Result<Self, Error> {
        let shared = Arc::new(Shared::default());
        let thread = thread::Builder::new()
            .name("journal".to_owned())
            .spawn({
                let shared = Arc::clone(&shared);
                move || shared.run()
            })
            .map_err(|error| Error::io("start a thread for", "the journal", error))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Names the file that is written from now on; everything before it must be synced.
    pub(super) fn switch_to(&self, file: &Arc<File>, path: &Path) {
        let mut state = self.shared.lock();
        state.file = Some((Arc::clone(file), path.to_owned()));
        state.synced = state.written;
    }

    /// Returns the error that ended the syncing, if one did.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.shared.lock().error.clone().map_or(Ok(()), Err)
    }

    /// Says that something was written.
    pub(super) fn wrote(&self) {
        let mut state = self.shared.lock();
        state.written += 1;
        // Waking costs a system call; a thread that is not idle looks by itself.
        if mem::take(&mut state.idle) {
            drop(state);
            self.shared.work.notify_one();
        }
    }

    /// Waits until everything written so far is durable.
    pub(super) fn wait(&self) -> Result<(), Error> {
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

    /// Returns how many times the file was synced.
    #[cfg(test)]
    pub(super) fn syncs(&self) -> u64 {
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

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
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
        }
    }
}
