//! The time that checking a large workflow file takes.

use std::{fmt::Write as _, path::Path};

use prodigy_testkit::TestEnv;

use super::{
    table::BenchRow,
    timing::{Samples, milliseconds, time},
};
use crate::error::Error;

const ROUNDS: usize = 15;
/// A busy machine gets more rounds: the budget is about us, and noise only ever adds.
const MOST_ROUNDS: usize = 150;
const MOST_SECONDS: f64 = 0.1;
const MEBIBYTE: usize = 1 << 20;

pub(super) fn measure(binary: &Path) -> Result<Vec<BenchRow>, Error> {
    let world = TestEnv::new(binary);
    let files = [("1,000 steps", many_steps(1000)), ("1 MiB", large_file())];
    let mut rows = Vec::new();
    for (what, text) in files {
        let path = world.root().join("large.yml");
        std::fs::write(&path, text).map_err(|source| Error::File { path: path.clone(), source })?;
        let mut samples = Samples::default();
        for round in 0..MOST_ROUNDS {
            if round >= ROUNDS && samples.best() < MOST_SECONDS {
                break;
            }
            let mut command = world.prodigy_command(&["validate", "large.yml"]);
            samples.add(time(&mut command)?.as_secs_f64());
        }
        rows.push(BenchRow {
            what: format!("`prodigy validate`, {what}"),
            measured: samples.shown(),
            floor: "–".to_owned(),
            ratio: samples.best() / MOST_SECONDS,
            budget: milliseconds(MOST_SECONDS),
            limit: Some(1.0),
        });
    }
    Ok(rows)
}

/// Returns a workflow whose steps use what steps usually use.
fn many_steps(count: usize) -> String {
    let mut text = String::from("name: large\nsteps:\n");
    for number in 0..count {
        write!(
            text,
            "  - id: step-{number}\n    shell: cargo test --package \"p{number}\"\n    timeout: 30s\n    when: \"env.CI == 'true' && {number} < 5000\"\n    on_failure:\n      shell: echo ${{error.message}}\n      max_attempts: 2\n"
        )
        .ok();
    }
    text
}

/// Returns a workflow of one mebibyte with long scripts in it.
fn large_file() -> String {
    let mut text = String::from("name: large\nsteps:\n");
    let mut number = 0;
    while text.len() < MEBIBYTE {
        write!(text, "  - id: step-{number}\n    shell: |\n").ok();
        for line in 0..40 {
            writeln!(text, "      echo \"line {line} of ${{workflow.name}}\" 'and more' | cat")
                .ok();
        }
        number += 1;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_are_as_large_as_they_say() {
        assert_eq!(many_steps(1000).matches("  - id:").count(), 1000);
        assert!((MEBIBYTE..MEBIBYTE + 8192).contains(&large_file().len()));
    }
}
