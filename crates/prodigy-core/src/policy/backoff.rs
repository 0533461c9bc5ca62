//! Waiting between tries.

use std::{num::NonZeroU32, time::Duration};

use crate::failure::ReasonCode;

/// The wait before a retry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Backoff {
    /// The same wait every time.
    Fixed {
        /// The wait.
        delay: Duration,
    },
    /// Retry n waits initial + n × increment.
    Linear {
        /// The part that stays.
        initial: Duration,
        /// The part that grows.
        increment: Duration,
    },
    /// Retry n waits initial × multiplier^(n-1).
    Exponential {
        /// The wait before the first retry.
        initial: Duration,
        /// The growth per retry.
        multiplier: f64,
    },
    /// Retry n waits initial × fib(n): 1 1 2 3 5.
    Fibonacci {
        /// The wait before the first retry.
        initial: Duration,
    },
}

/// The retry policy.
#[derive(Clone, Debug, PartialEq)]
pub struct RetryPolicy {
    /// The maximum number of attempts, the first one included.
    pub attempts: NonZeroU32,
    /// The wait between attempts.
    pub backoff: Backoff,
    /// The longest wait.
    pub max_delay: Option<Duration>,
    /// Set to vary the wait at random between half and the whole of it.
    pub jitter: bool,
    /// The failures worth another try; empty means all.
    pub retry_on: Vec<ReasonCode>,
}

impl Backoff {
    /// Returns how long to wait before retry `retry`, from 1.
    ///
    /// The first try is not a retry: number 0 waits for nothing. A long enough
    /// series of retries waits [`Duration::MAX`].
    pub fn delay(self, retry: u32) -> Duration {
        let Some(before) = retry.checked_sub(1) else { return Duration::ZERO };
        match self {
            Self::Fixed { delay } => delay,
            Self::Linear { initial, increment } => {
                initial.saturating_add(increment.saturating_mul(retry))
            }
            // Nothing, however often doubled; the product below would be 0 × ∞.
            Self::Exponential { initial, .. } if initial.is_zero() => Duration::ZERO,
            Self::Exponential { initial, multiplier } => {
                let growth = multiplier.powi(i32::try_from(before).unwrap_or(i32::MAX));
                Duration::try_from_secs_f64(initial.as_secs_f64() * growth).unwrap_or(Duration::MAX)
            }
            Self::Fibonacci { initial } => initial.saturating_mul(fibonacci(retry)),
        }
    }
}

impl RetryPolicy {
    /// Returns how something is tried again that found a provider without room, if the workflow
    /// does not say how: that says nothing about the work.
    pub fn for_busy_provider() -> Self {
        Self {
            attempts: NonZeroU32::MIN.saturating_add(4),
            backoff: Backoff::Exponential { initial: Duration::from_secs(2), multiplier: 2.0 },
            max_delay: Some(Duration::from_secs(60)),
            jitter: true,
            retry_on: ReasonCode::NO_ROOM.to_vec(),
        }
    }

    /// Returns how long to wait before retry `retry`, from 1.
    ///
    /// `random` is between 0 and 1 and is only used with `jitter`: the wait is then
    /// between half and the whole of what it would have been.
    pub fn delay(&self, retry: u32, random: f64) -> Duration {
        let whole = self.backoff.delay(retry).min(self.max_delay.unwrap_or(Duration::MAX));
        if !self.jitter {
            return whole;
        }
        let half = whole / 2;
        let random = if random.is_nan() { 0.0 } else { random.clamp(0.0, 1.0) };
        half.saturating_add(half.mul_f64(random)).min(whole)
    }

    /// Returns true if another try follows when try `attempt`, from 1, failed like this.
    ///
    /// Cancelled work is never retried.
    pub fn allows(&self, attempt: u32, kind: ReasonCode) -> bool {
        kind != ReasonCode::Cancelled
            && attempt < self.attempts.get()
            && (self.retry_on.is_empty() || self.retry_on.contains(&kind))
    }
}

/// Returns the n-th number of 1 1 2 3 5 8…, or the largest there is.
fn fibonacci(n: u32) -> u32 {
    let (mut current, mut next) = (0_u32, 1_u32);
    for _ in 0..n {
        if current == u32::MAX {
            break;
        }
        (current, next) = (next, current.saturating_add(next));
    }
    current
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::duration::format;
    use proptest::prelude::*;

    fn series(backoff: Backoff) -> String {
        let waits: Vec<String> = (0..=6).map(|retry| format(backoff.delay(retry))).collect();
        waits.join(" ")
    }

    fn retry(backoff: Backoff) -> RetryPolicy {
        RetryPolicy {
            attempts: NonZeroU32::new(3).unwrap(),
            backoff,
            max_delay: None,
            jitter: false,
            retry_on: vec![],
        }
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_fixed_wait_is_always_the_same() {
        insta::assert_snapshot!(series(Backoff::Fixed { delay: SECOND }), @"0s 1s 1s 1s 1s 1s 1s");
    }

    #[test]
    fn a_linear_wait_grows_by_its_increment_from_the_first_retry_on() {
        let backoff = Backoff::Linear { initial: SECOND, increment: Duration::from_millis(500) };
        insta::assert_snapshot!(series(backoff), @"0s 1.5s 2s 2.5s 3s 3.5s 4s");
    }

    #[test]
    fn an_exponential_wait_starts_at_its_initial_delay() {
        let double = Backoff::Exponential { initial: SECOND, multiplier: 2.0 };
        insta::assert_snapshot!(series(double), @"0s 1s 2s 4s 8s 16s 32s");
        let half_more =
            Backoff::Exponential { initial: Duration::from_millis(200), multiplier: 1.5 };
        insta::assert_snapshot!(series(half_more), @"0s 200ms 300ms 450ms 675ms 1s 1.5s");
    }

    #[test]
    fn a_fibonacci_wait_follows_the_fibonacci_numbers() {
        insta::assert_snapshot!(series(Backoff::Fibonacci { initial: SECOND }), @"0s 1s 1s 2s 3s 5s 8s");
    }

    #[test]
    fn endless_growth_ends_at_the_longest_duration() {
        let exponential = Backoff::Exponential { initial: SECOND, multiplier: 2.0 };
        assert_eq!(exponential.delay(u32::MAX), Duration::MAX);
        let nothing = Backoff::Exponential { initial: Duration::ZERO, multiplier: 2.0 };
        assert_eq!(nothing.delay(u32::MAX), Duration::ZERO);
        let linear = Backoff::Linear { initial: SECOND, increment: Duration::MAX };
        assert_eq!(linear.delay(2), Duration::MAX);
        let fibonacci = Backoff::Fibonacci { initial: Duration::MAX };
        assert_eq!(fibonacci.delay(u32::MAX), Duration::MAX);
    }

    #[test]
    fn a_wait_is_never_longer_than_the_longest_allowed() {
        let mut retry = retry(Backoff::Exponential { initial: SECOND, multiplier: 2.0 });
        retry.max_delay = Some(Duration::from_secs(5));
        let waits: Vec<u64> = (1..=5).map(|n| retry.delay(n, 0.5).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 5, 5]);
    }

    #[test]
    fn jitter_takes_up_to_half_of_the_wait_away() {
        let mut retry = retry(Backoff::Fixed { delay: SECOND });
        retry.jitter = true;
        let waits: Vec<u128> = [0.0, 0.5, 1.0, 7.0, -1.0, f64::NAN]
            .iter()
            .map(|random| retry.delay(1, *random).as_millis())
            .collect();
        assert_eq!(waits, [500, 750, 1000, 1000, 500, 500]);
    }

    #[test]
    fn only_listed_failures_are_tried_again_and_only_so_often() {
        let mut retry = retry(Backoff::Fixed { delay: SECOND });
        assert!(retry.allows(1, ReasonCode::Timeout));
        assert!(retry.allows(2, ReasonCode::Timeout));
        assert!(!retry.allows(3, ReasonCode::Timeout));
        assert!(!retry.allows(1, ReasonCode::Cancelled));
        retry.retry_on = vec![ReasonCode::Stalled];
        assert!(retry.allows(1, ReasonCode::Stalled));
        assert!(!retry.allows(1, ReasonCode::Timeout));
    }

    proptest! {
        #[test]
        fn any_policy_has_a_wait(
            seconds: u64,
            increment: u64,
            multiplier: f64,
            n: u32,
            random: f64,
            shape in 0..4,
        ) {
            let initial = Duration::from_secs(seconds);
            let mut retry = retry(match shape {
                0 => Backoff::Fixed { delay: initial },
                1 => Backoff::Linear { initial, increment: Duration::from_secs(increment) },
                2 => Backoff::Exponential { initial, multiplier },
                _ => Backoff::Fibonacci { initial },
            });
            let whole = retry.delay(n, random);
            retry.jitter = true;
            let varied = retry.delay(n, random);
            prop_assert!(whole / 2 <= varied);
            prop_assert!(varied <= whole);
        }
    }
}
