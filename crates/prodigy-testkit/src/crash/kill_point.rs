//! The moments at which prodigy is killed.

use std::{collections::BTreeMap, fmt, time::Duration};

/// Stands among kinds of records for the first thing that is written of a job.
pub(crate) const FIRST_WRITE: &str = "";

/// The most records of a kind that are let pass before prodigy is killed right after one.
const MOST_PASSED: u64 = 6;

/// The kinds of records that one start writes once at most.
const ONCE: &[&str] = &[
    FIRST_WRITE,
    "job_started",
    "job_resumed",
    "items_selected",
    "checkout_update_started",
    "worktree_cleaned",
    "job_completed",
];

/// The kinds of records that only the first start of a job writes.
const AT_FIRST: &[&str] = &[FIRST_WRITE, "job_started", "items_selected", "item_queued"];

/// The kills right after records, by their kinds.
#[derive(Clone, Debug, Default)]
pub struct KillCounts(BTreeMap<&'static str, u32>);

impl KillCounts {
    /// Adds the kills of another trial.
    pub fn add(&mut self, other: &Self) {
        for (kind, kills) in &other.0 {
            *self.0.entry(kind).or_default() += kills;
        }
    }

    /// Counts a kill, if it came right after a record.
    pub(crate) fn count(&mut self, moment: Option<KillPoint>) {
        if let Some(kind) = moment.and_then(KillPoint::kind) {
            *self.0.entry(kind).or_default() += 1;
        }
    }
}

impl fmt::Display for KillCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds: Vec<_> = self.0.iter().map(|(kind, kills)| format!("{kind} {kills}")).collect();
        if kinds.is_empty() { f.write_str("no record") } else { f.write_str(&kinds.join(", ")) }
    }
}

/// The moment at which a start of prodigy is killed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KillPoint {
    /// So long after the start.
    Elapsed(Duration),
    /// Right after it appended its `nth` record of a kind, from 1, to any journal, or so long
    /// after that.
    Record { kind: &'static str, nth: u32, delay: Duration },
    /// Right after the first thing that it writes of a new job.
    FirstWrite,
    /// So long after a file is there, by its path in the repository.
    File { path: &'static str, delay: Duration },
    /// As soon as a file has another content, by its path in the repository.
    Change { path: &'static str },
}

impl KillPoint {
    /// Returns a moment right after a record of one of the kinds that a start can write;
    /// `pick` returns a number below the one it is given.
    pub(crate) fn after_record(
        kinds: &[&'static str],
        is_first: bool,
        mut pick: impl FnMut(u64) -> u64,
    ) -> Self {
        let is_written =
            |kind: &&str| if is_first { *kind != "job_resumed" } else { !AT_FIRST.contains(kind) };
        let kinds: Vec<_> = kinds.iter().copied().filter(is_written).collect();
        let at = usize::try_from(pick(kinds.len() as u64)).unwrap();
        let kind = *kinds.get(at).unwrap();
        if kind == FIRST_WRITE {
            return Self::FirstWrite;
        }
        let most = if ONCE.contains(&kind) { 1 } else { MOST_PASSED };
        let nth = u32::try_from(1 + pick(most)).unwrap();
        Self::Record { kind, nth, delay: Duration::ZERO }
    }

    /// Returns the kind of record that it comes right after, if that decides over it.
    fn kind(self) -> Option<&'static str> {
        match self {
            Self::Record { kind, .. } => Some(kind),
            Self::FirstWrite => Some("the first write of a job"),
            Self::Elapsed(_) | Self::File { .. } | Self::Change { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the kinds that are drawn for a first start or a later one, with how many of them
    /// pass at most.
    fn drawn(is_first: bool) -> BTreeMap<String, u32> {
        let kinds = [FIRST_WRITE, "job_started", "job_resumed", "agent_failed", "job_completed"];
        let mut drawn = BTreeMap::new();
        for seed in 0..200 {
            let mut state = seed;
            let moment = KillPoint::after_record(&kinds, is_first, |bound| {
                state += 7;
                state % bound
            });
            let nth = if let KillPoint::Record { nth, .. } = moment { nth } else { 1 };
            let most = drawn.entry(moment.kind().unwrap().to_owned()).or_insert(nth);
            *most = nth.max(*most);
        }
        drawn
    }

    #[test]
    fn kills_are_counted_by_the_kind_of_record() {
        let (mut one, mut all) = (KillCounts::default(), KillCounts::default());
        assert_eq!(all.to_string(), "no record");
        one.count(Some(KillPoint::FirstWrite));
        one.count(Some(KillPoint::Elapsed(Duration::ZERO)));
        one.count(None);
        all.add(&one);
        all.add(&one);
        assert_eq!(all.to_string(), "the first write of a job 2");
    }

    #[test]
    fn only_records_that_a_start_can_write_are_waited_for() {
        insta::assert_debug_snapshot!(drawn(true), @r#"
        {
            "agent_failed": 6,
            "job_completed": 1,
            "job_started": 1,
            "the first write of a job": 1,
        }
        "#);
        insta::assert_debug_snapshot!(drawn(false), @r#"
        {
            "agent_failed": 6,
            "job_completed": 1,
            "job_resumed": 1,
        }
        "#);
    }
}
