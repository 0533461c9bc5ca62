//! Measuring how long something takes, and what of many measurements counts.

use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::error::Error;

/// Some measurements of one thing, in seconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    /// Adds a measurement.
    pub(crate) fn add(&mut self, seconds: f64) {
        self.0.push(seconds);
    }

    /// Adds the measurements of another round.
    pub(crate) fn extend(&mut self, other: &Self) {
        self.0.extend(&other.0);
    }

    /// Returns the smallest; infinite if there is none.
    pub(crate) fn best(&self) -> f64 {
        self.0.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// Returns the middle one; infinite if there is none.
    pub(crate) fn median(&self) -> f64 {
        self.percentile(50)
    }

    /// Returns the one that so many in a hundred are below; infinite if there is none.
    pub(crate) fn percentile(&self, percent: usize) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() * percent / 100).copied().unwrap_or(f64::INFINITY)
    }

    /// Returns the same measurements, each divided by a number.
    pub(crate) fn divided(&self, by: f64) -> Self {
        Self(self.0.iter().map(|seconds| seconds / by).collect())
    }

    /// Returns the best and the median for a table.
    pub(crate) fn shown(&self) -> String {
        format!("{} / {}", milliseconds(self.best()), milliseconds(self.median()))
    }
}

/// Returns seconds as milliseconds for a table.
pub(crate) fn milliseconds(seconds: f64) -> String {
    format!("{:.2} ms", seconds * 1000.0)
}

/// Runs a command that must succeed, its output thrown away, and returns how long it took.
pub(crate) fn time(command: &mut Command) -> Result<Duration, Error> {
    time_ending_with(0, command)
}

/// Does the same with a command that must end with an exit code.
pub(crate) fn time_ending_with(code: i32, command: &mut Command) -> Result<Duration, Error> {
    let shown = format!("{command:?}");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let began = Instant::now();
    let child =
        command.spawn().map_err(|source| Error::Start { program: shown.clone(), source })?;
    let output = child
        .wait_with_output()
        .map_err(|source| Error::Start { program: shown.clone(), source })?;
    let duration = began.elapsed();
    if output.status.code() == Some(code) {
        return Ok(duration);
    }
    Err(Error::Failed {
        command: shown,
        status: output.status.to_string(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_and_the_median_are_found() {
        let samples = Samples(vec![0.003, 0.001, 0.010]);
        assert_eq!(samples.shown(), "1.00 ms / 3.00 ms");
        assert!((samples.percentile(99) - 0.010).abs() < f64::EPSILON);
        assert!(Samples::default().best().is_infinite());
    }

    #[test]
    fn a_command_that_fails_is_no_measurement() {
        assert!(time(&mut Command::new("false")).is_err());
        assert!(time(&mut Command::new("true")).is_ok());
    }
}
