//! Seeing to it that a supervisor and all that it started are gone.

use std::{
    os::{fd::AsFd as _, unix::process::ExitStatusExt as _},
    process::{Child, ExitStatus},
    time::{Duration, Instant},
};

use rustix::{
    event::PollFlags,
    process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, waitid},
};
use tokio::task::spawn_blocking;

use super::{ready, strays::kill_supervisor_orphans};

/// The process, and what its orphans are known by.
#[derive(Debug)]
pub(super) struct Reaper {
    pub(super) child: Child,
    pub(super) marker: String,
}

impl Reaper {
    /// Waits until the supervisor has ended by itself, and ends it if it does not.
    pub(super) fn finish(&mut self, patience: Duration) {
        if self.has_ended(patience) && self.child.wait().is_ok_and(|status| status.success()) {
            return;
        }
        self.kill(Duration::ZERO);
    }

    /// Returns whether the supervisor was ended by a signal that asks a program to end, which it
    /// hears only before it has come up.
    pub(super) fn was_signaled(&mut self, patience: Duration) -> bool {
        let asking = [Signal::INT, Signal::TERM, Signal::HUP].map(Signal::as_raw);
        let signal = |status: ExitStatus| status.signal().is_some_and(|hit| asking.contains(&hit));
        self.has_ended(patience) && self.child.wait().is_ok_and(signal)
    }

    /// Kills the supervisor, then ends what it left behind, and returns how many those were.
    pub(super) fn kill(&mut self, grace: Duration) -> usize {
        // It fails only if the process is gone.
        self.child.kill().ok();
        let supervisor = Pid::from_child(&self.child);
        // Reaped only afterwards: until then nobody can get its number, which names its session.
        waitid(WaitId::Pid(supervisor), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).ok();
        let ended = kill_supervisor_orphans(supervisor, &self.marker, grace);
        self.child.wait().ok();
        ended
    }

    fn has_ended(&self, patience: Duration) -> bool {
        let Ok(pidfd) = pidfd_open(Pid::from_child(&self.child), PidfdFlags::empty()) else {
            return false;
        };
        let start = Instant::now();
        loop {
            let left = patience.saturating_sub(start.elapsed());
            match ready::poll_ready([Some((pidfd.as_fd(), PollFlags::IN))], Some(left)) {
                Ok([false]) if !left.is_zero() => {}
                Ok([has_ended]) => return has_ended,
                Err(_) => return false,
            }
        }
    }
}

/// Waits for a supervisor's end without holding up the runtime.
pub(super) async fn reap(mut keeper: Reaper, patience: Duration) {
    // It does not panic; if it were cancelled the runtime is going down.
    spawn_blocking(move || keeper.finish(patience)).await.ok();
}
