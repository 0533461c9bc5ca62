//! Ctrl-C once and twice, and the signals that mean the same.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
};

use prodigy_core::event::PauseReason;
use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};

use crate::process::{IgnoredSignals, StopToken};

/// Makes a file that grows beyond `ulimit -f` an error of the write, as on a full disk.
///
/// The signal would end the program without a word otherwise. Programs that are
/// started from here are not affected.
pub fn ignore_file_size_signal() -> io::Result<()> {
    let nobody_looks = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(Signal::XFSZ.as_raw(), nobody_looks)?;
    Ok(())
}

/// The request to stop a run, and its reason.
#[derive(Clone, Default)]
pub struct Shutdown {
    stop: StopToken,
    reason: Arc<AtomicU8>,
}

impl Shutdown {
    /// Returns what running processes listen to.
    pub fn stop(&self) -> &StopToken {
        &self.stop
    }

    /// Returns why the run was asked to stop.
    pub fn reason(&self) -> Option<PauseReason> {
        match self.reason.load(Ordering::Acquire) {
            0 => None,
            1 => Some(PauseReason::Interrupted),
            _ => Some(PauseReason::Terminated),
        }
    }

    /// Listens to signals: the first asks, the second insists.
    ///
    /// A signal that was ignored when the program began stays so: that is how `nohup` and
    /// shells say that it is not for us. Programs that are started from here inherit it.
    pub fn install_signal_handlers(&self) -> io::Result<()> {
        let ignored = IgnoredSignals::of_this_process();
        let signals = [(Signal::INT, 1_u8), (Signal::TERM, 2), (Signal::HUP, 2)];
        for (wanted, number) in signals.into_iter().filter(|(wanted, _)| !ignored.contains(*wanted))
        {
            let mut stream = signal(SignalKind::from_raw(wanted.as_raw()))?;
            let shutdown = self.clone();
            // The task ends with the runtime: signals matter as long as anything runs.
            drop(tokio::spawn(async move {
                while stream.recv().await.is_some() {
                    shutdown.ask(number);
                }
            }));
        }
        Ok(())
    }

    /// Asks the run to stop, for a reason given by number.
    fn ask(&self, number: u8) {
        let first =
            self.reason.compare_exchange(0, number, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if first {
            self.stop.request();
        } else {
            self.stop.request_now();
        }
    }
}
