//! The backoff after a failed replay.

use std::time::Duration;

use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::policy::Backoff;

/// The wait after the first replay that failed.
const FIRST: Duration = Duration::from_secs(30);

/// The longest wait.
const LONGEST: Duration = Duration::from_secs(60 * 60);

/// The backoff after a failed replay. The first replay never waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplayBackoff {
    /// Not at all.
    #[default]
    None,
    /// 30 seconds each time.
    Fixed,
    /// 30 seconds, and twice as long after each further one, up to an hour.
    Exponential,
    /// The same, between half and the whole of it, so that entries do not come back all at once.
    ExponentialJitter,
}

impl ReplayBackoff {
    /// Every way to wait, with its word in a policy.
    pub const WORDS: &[(&'static str, Self)] = &[
        ("none", Self::None),
        ("fixed", Self::Fixed),
        ("exponential", Self::Exponential),
        ("exponential_jitter", Self::ExponentialJitter),
    ];

    /// Returns the word for it in a policy.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Fixed => "fixed",
            Self::Exponential => "exponential",
            Self::ExponentialJitter => "exponential_jitter",
        }
    }

    /// Returns how long an item waits after its last attempt, if `replays` of it failed.
    pub fn delay(self, item: &str, replays: u32) -> Duration {
        let whole = || {
            let growing = Backoff::Exponential { initial: FIRST, multiplier: 2.0 };
            growing.delay(replays).min(LONGEST)
        };
        match self {
            Self::None => Duration::ZERO,
            Self::Fixed => Backoff::Fixed { delay: FIRST }.delay(replays),
            Self::Exponential => whole(),
            Self::ExponentialJitter => {
                let half = whole() / 2;
                half + half.mul_f64(luck(item, replays))
            }
        }
    }
}

/// Returns a number from 0 to 1 that depends on nothing but the arguments.
///
/// A decision that is made twice must come out the same, so chance has no part in it.
fn luck(item: &str, replays: u32) -> f64 {
    let hash = Sha256::new().chain_update(replays.to_be_bytes()).chain_update(item).finalize();
    let number = hash.iter().take(4).fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
    f64::from(number) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::duration::format;
    use proptest::prelude::*;

    fn series(wait: ReplayBackoff) -> String {
        let waits: Vec<String> = (0..10).map(|n| format(wait.delay("item-1", n))).collect();
        waits.join(" ")
    }

    #[test]
    fn the_first_replay_never_waits_and_later_ones_wait_up_to_an_hour() {
        insta::assert_snapshot!(series(ReplayBackoff::None), @"0s 0s 0s 0s 0s 0s 0s 0s 0s 0s");
        insta::assert_snapshot!(series(ReplayBackoff::Fixed), @"0s 30s 30s 30s 30s 30s 30s 30s 30s 30s");
        insta::assert_snapshot!(series(ReplayBackoff::Exponential), @"0s 30s 1m 00s 2m 00s 4m 00s 8m 00s 16m 00s 32m 00s 1h 00m 1h 00m");
        insta::assert_snapshot!(series(ReplayBackoff::ExponentialJitter), @"0s 20.6s 36.9s 1m 42s 2m 03s 6m 19s 12m 11s 31m 23s 50m 33s 51m 11s");
        assert_eq!(ReplayBackoff::Exponential.delay("item-1", u32::MAX), LONGEST);
    }

    #[test]
    fn every_way_to_wait_has_its_word() {
        for (word, wait) in ReplayBackoff::WORDS {
            assert_eq!(wait.as_str(), *word);
            assert_eq!(serde_json::to_value(wait).unwrap(), *word);
        }
    }

    proptest! {
        #[test]
        fn jitter_differs_by_item_and_keeps_within_bounds(item in "[a-z]{1,8}", replays in 1_u32..40) {
            let whole = ReplayBackoff::Exponential.delay(&item, replays);
            let varied = ReplayBackoff::ExponentialJitter.delay(&item, replays);
            prop_assert!(whole / 2 <= varied);
            prop_assert!(varied <= whole);
            prop_assert_eq!(varied, ReplayBackoff::ExponentialJitter.delay(&item, replays));
            prop_assert_ne!(varied, ReplayBackoff::ExponentialJitter.delay("another item", replays));
        }
    }
}
