//! Detection of processes that the kernel ended for lack of memory.

use std::fs;

/// Where the kernel counts what it did about memory.
const COUNTERS: &str = "/proc/vmstat";

/// The kernel's count of out-of-memory kills when it was last read.
///
/// The count is that of the whole machine, so it proves nothing by itself. But a program that
/// was killed, though not by us, while the count grew was out of memory.
#[derive(Debug)]
pub(crate) struct OomCounter(Option<u64>);

impl OomCounter {
    /// Looks for the first time. Without the counter nothing is ever found.
    pub(crate) fn read() -> Self {
        Self(fs::read_to_string(COUNTERS).ok().and_then(|text| count(&text)))
    }

    /// Returns whether there are more than the last time.
    pub(crate) fn has_increased(&mut self) -> bool {
        let Self(before) = std::mem::replace(self, Self::read());
        before.zip(self.0).is_some_and(|(before, now)| now > before)
    }
}

fn count(counters: &str) -> Option<u64> {
    counters.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_found_among_the_others() {
        assert_eq!(count("pgfault 5\noom_kill_disable 3\noom_kill 7\nend 1\n"), Some(7));
        assert_eq!(count("pgfault 5\n"), None);
        assert_eq!(count("oom_kill many\n"), None);
    }

    #[test]
    fn only_growth_counts() {
        // No process of this machine dies of anything that would make the count this high.
        assert!(!OomCounter(Some(u64::MAX)).has_increased());
        assert!(!OomCounter(None).has_increased());
    }
}
