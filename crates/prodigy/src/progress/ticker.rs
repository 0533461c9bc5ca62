//! Something that is done again and again while a run is shown.

use std::{
    sync::mpsc::{RecvTimeoutError, Sender, channel},
    thread::JoinHandle,
    time::Duration,
};

/// Does something again and again, until it is dropped.
pub(crate) struct Ticker {
    running: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Ticker {
    /// Begins.
    pub(crate) fn start(every: Duration, mut work: impl FnMut() + Send + 'static) -> Self {
        let (stop, stopped) = channel::<()>();
        let thread = std::thread::spawn(move || {
            while stopped.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                work();
            }
        });
        Self { running: Some((stop, thread)) }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.running.take() {
            drop(stop);
            // One that panicked has nothing left to do.
            thread.join().ok();
        }
    }
}
