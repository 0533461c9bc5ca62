//! The signals that a process ignores.

use std::fs;

use rustix::process::{Pid, Signal, getpid};

/// The signals that a process ignores, as a mask of the kernel.
#[derive(Clone, Copy, Debug, Default)]
pub struct IgnoredSignals(u64);

impl IgnoredSignals {
    /// Returns the signals that this process ignores.
    pub fn of_this_process() -> Self {
        Self::of(getpid())
    }

    /// Returns the signals that a process ignores; none where the kernel does not say.
    pub fn of(process: Pid) -> Self {
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        Self::read(&status)
    }

    fn read(status: &str) -> Self {
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        Self(mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default())
    }

    /// Returns whether a signal is ignored.
    pub fn contains(self, signal: Signal) -> bool {
        let bit = u32::try_from(signal.as_raw() - 1).ok().and_then(|bit| 1_u64.checked_shl(bit));
        bit.is_some_and(|bit| self.0 & bit != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_names_signals_from_one_on() {
        let ignored = IgnoredSignals::read("Name:\tsh\nSigIgn:\t0000000000001003\nSigCgt:\t4\n");
        let signals = [Signal::HUP, Signal::INT, Signal::PIPE, Signal::TERM, Signal::QUIT];
        assert_eq!(
            signals.map(|signal| ignored.contains(signal)),
            [true, true, true, false, false]
        );
    }

    #[test]
    fn a_status_without_a_mask_ignores_nothing() {
        assert!(!IgnoredSignals::read("Name:\tsh\n").contains(Signal::HUP));
    }
}
