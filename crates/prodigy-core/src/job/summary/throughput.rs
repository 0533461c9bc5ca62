//! The rate at which items finish, and the estimated time for the rest.

use std::{collections::VecDeque, time::Duration};

use crate::Timestamp;

/// The most samples that are kept.
const MOST: usize = 60;
/// The least time between two of them.
const APART: Duration = Duration::from_secs(1);
/// So many items must have ended before anything is foretold.
const BASIS: u32 = 3;
/// So long the window must be before anything is foretold.
const BASIS_TIME: Duration = Duration::from_secs(1);

/// The rate at which items finish, over a sliding window.
///
/// The window holds up to 60 samples at least a second apart: it is a minute long if
/// items are quick, and as long as the last sixty of them took if they are slow. So the
/// same few numbers do for items of a millisecond and for items of an hour.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Throughput {
    /// Moments, and how many items had ended by then since the window was begun.
    samples: VecDeque<(Timestamp, u32)>,
}

impl Throughput {
    /// Begins anew: what was before, a pause for example, says nothing about what comes.
    pub fn restart(&mut self, at: Timestamp) {
        self.samples.clear();
        self.samples.push_back((at, 0));
    }

    /// Counts a finished item.
    pub fn record_completion(&mut self, at: Timestamp) {
        let before = self.samples.len().checked_sub(2).and_then(|place| self.samples.get(place));
        let before = before.map(|(sampled, _)| *sampled);
        let Some((last, count)) = self.samples.back_mut() else {
            // Nobody saw the beginning, so this item has no duration.
            self.samples.push_back((at, 0));
            return;
        };
        if before.is_some_and(|before| between(before, at) < APART) {
            (*last, *count) = (at, *count + 1);
            return;
        }
        let count = *count + 1;
        self.samples.push_back((at, count));
        if self.samples.len() > MOST {
            self.samples.pop_front();
        }
    }

    /// Returns how many items end in a second, once there is a basis.
    ///
    /// The time since the last one counts, so that the pace of a job that hangs falls.
    pub fn per_second(&self, now: Timestamp) -> Option<f64> {
        let ((first, before), (_, after)) = (self.samples.front()?, self.samples.back()?);
        let (ended, time) = (after - before, between(*first, now));
        let is_enough = ended >= BASIS && time >= BASIS_TIME;
        is_enough.then(|| f64::from(ended) / time.as_secs_f64())
    }

    /// Returns how long so many more items will take, once there is a basis.
    pub fn eta(&self, remaining: u32, now: Timestamp) -> Option<Duration> {
        let seconds = f64::from(remaining) / self.per_second(now)?;
        Duration::try_from_secs_f64(seconds).ok()
    }
}

/// Returns the time between two moments; none if a clock was set back.
fn between(from: Timestamp, until: Timestamp) -> Duration {
    Duration::try_from(until.duration_since(from)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: i64) -> Timestamp {
        Timestamp::from_millisecond(1_700_000_000_000 + milliseconds).unwrap()
    }

    /// Returns the pace of items that end at these moments, seen at `now`.
    fn seen(ends: impl IntoIterator<Item = i64>, now: i64, remaining: u32) -> String {
        let mut pace = Throughput::default();
        pace.restart(at(0));
        for end in ends {
            pace.record_completion(at(end));
        }
        assert!(pace.samples.len() <= MOST);
        format!("{:.3?}/s, {:.1?} left", pace.per_second(at(now)), pace.eta(remaining, at(now)))
    }

    #[test]
    fn nothing_is_foretold_without_a_basis() {
        let none = "None/s, None left";
        assert_eq!(seen([], 10_000, 5), none);
        assert_eq!(seen([1_000, 2_000], 10_000, 5), none, "two items are too few");
        assert_eq!(seen([1, 2, 3, 4, 5, 6], 900, 5), none, "less than a second is too short");
        assert_eq!(format!("{:?}", Throughput::default().per_second(at(0))), "None");
    }

    #[test]
    fn quick_and_slow_items_have_a_pace() {
        let quick = seen((0..3_000).map(|n| n * 10), 30_000, 200);
        assert_eq!(quick, "Some(100.000)/s, Some(2.0s) left");
        let slow = seen((1..=5).map(|n| n * 600_000), 3_000_000, 2);
        assert_eq!(slow, "Some(0.002)/s, Some(1200.0s) left");
    }

    #[test]
    fn the_window_slides() {
        // A hundred a second for five minutes, then ten a second for five minutes.
        let ends = (0..30_000).map(|n| n * 10).chain((1..=3_000).map(|n| 300_000 + n * 100));
        assert_eq!(seen(ends, 600_000, 100), "Some(10.000)/s, Some(10.0s) left");
    }

    #[test]
    fn the_pace_of_a_job_that_hangs_falls() {
        let ends = || (1..=10).map(|n| n * 1_000);
        assert_eq!(seen(ends(), 10_000, 10), "Some(1.000)/s, Some(10.0s) left");
        assert_eq!(seen(ends(), 100_000, 10), "Some(0.100)/s, Some(100.0s) left");
    }

    #[test]
    fn a_pause_and_a_clock_that_is_set_back_do_no_harm() {
        let mut pace = Throughput::default();
        pace.restart(at(0));
        for n in 1..=10 {
            pace.record_completion(at(n * 1_000));
        }
        pace.restart(at(9_000_000));
        assert_eq!(pace.per_second(at(9_001_000)), None);
        for n in 1..=4 {
            pace.record_completion(at(9_000_000 + n * 500));
        }
        assert_eq!(pace.per_second(at(9_002_000)), Some(2.0));
        pace.record_completion(at(-5_000));
        assert_eq!(pace.per_second(at(-5_000)), None);
        assert_eq!(
            pace.eta(u32::MAX, at(9_002_000)).map(|left| left.as_secs()),
            Some(1_717_986_918)
        );
    }
}
