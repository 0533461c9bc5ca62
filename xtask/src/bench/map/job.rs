//! The same work as a MapReduce job of prodigy.

use std::{fmt::Write as _, fs, path::Path};

use prodigy_testkit::TestEnv;

use super::{
    SLOTS,
    baselines::COMMIT,
    repository::{file, line, repository},
};
use crate::{bench::timing::time_ending_with, error::Error, program::read};

/// The job's id, the same in each world.
const JOB: &str = "bench";

/// The work of each item of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Workload {
    /// `:` in a worktree.
    Nothing,
    /// One commit in a worktree, merged.
    Commit,
    /// `false` in a worktree.
    Failing,
    /// `:` where all share the job's worktree.
    Shared,
    /// `false` where all share the job's worktree.
    SharedFailing,
}

impl Workload {
    /// Returns the exit code of a job of such items: 1 if none of them succeeds.
    fn exit_code(self) -> i32 {
        match self {
            Self::Nothing | Self::Commit | Self::Shared => 0,
            Self::Failing | Self::SharedFailing => 1,
        }
    }

    fn command(self) -> &'static str {
        match self {
            Self::Nothing | Self::Shared => ":",
            Self::Commit => COMMIT,
            Self::Failing | Self::SharedFailing => "false",
        }
    }

    fn isolation(self) -> &'static str {
        match self {
            Self::Nothing | Self::Commit | Self::Failing => "worktree",
            Self::Shared | Self::SharedFailing => "shared",
        }
    }

    /// Returns the event that says how each item must have ended.
    fn end(self) -> &'static str {
        match self {
            Self::Nothing | Self::Commit | Self::Shared => "agent_completed",
            Self::Failing | Self::SharedFailing => "item_dead_lettered",
        }
    }
}

/// A job to be measured, in a world of its own.
pub(crate) struct BenchJob {
    world: TestEnv,
    errand: Workload,
    items: u32,
}

impl BenchJob {
    /// Makes the repository and the workflow; that is not measured.
    pub(crate) fn new(binary: &Path, errand: Workload, items: u32) -> Self {
        Self { world: repository(binary), errand, items }
    }

    /// Runs the job from start to end, checks that it did its work, and returns the seconds.
    pub(crate) fn run(self, kept: &mut Vec<TestEnv>) -> Result<f64, Error> {
        // Beside the repository: a file of this size would make every worktree larger.
        let path = self.world.root().join("bench.yml");
        fs::write(&path, workflow(self.errand, self.items))
            .map_err(|source| Error::File { path: path.clone(), source })?;
        let file = path.to_string_lossy();
        let mut command = self.world.prodigy_command(&["run", &file, "-y", "--job-id", JOB]);
        let seconds = time_ending_with(self.errand.exit_code(), &mut command)?.as_secs_f64();
        self.check()?;
        kept.push(self.world);
        Ok(seconds)
    }

    /// A job that was fast because it left something out is no measurement.
    fn check(&self) -> Result<(), Error> {
        let records = read(&mut self.world.prodigy_command(&["events", JOB, "--json"]))?;
        let end = format!("\"event_type\":\"{}\"", self.errand.end());
        let ended = records.lines().filter(|line| line.contains(&end)).count();
        if u32::try_from(ended) != Ok(self.items) {
            let what = format!("{ended} of {} items have `{}`", self.items, self.errand.end());
            return Err(Error::Incomplete(what));
        }
        if self.errand == Workload::Commit {
            let found = self.world.git(&["log", "--no-merges", "--format=%s", "main"]);
            let found = found.lines().filter(|line| line.starts_with("item ")).count();
            if u32::try_from(found) != Ok(self.items) {
                let what = format!("{found} commits of {} items are in `main`", self.items);
                return Err(Error::Incomplete(what));
            }
        }
        Ok(())
    }
}

fn workflow(errand: Workload, items: u32) -> String {
    let mut text = format!(
        "name: bench\nmode: mapreduce\nmap:\n  max_parallel: {SLOTS}\n  isolation: {}\n  agent_template:\n    - shell: {}\n      env: {{ITEM: '${{item.n}}', FILE: '${{item.file}}', LINE: '${{item.line}}'}}\n  input:\n    items:\n",
        errand.isolation(),
        quoted(errand.command()),
    );
    for item in 0..items {
        // Writing to a string cannot go wrong.
        writeln!(text, "      - {{n: {item}, file: {}, line: {}}}", file(item), line(item)).ok();
    }
    text
}

fn quoted(command: &str) -> String {
    format!("'{}'", command.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workflow_says_what_is_measured() {
        insta::assert_snapshot!(workflow(Workload::Commit, 2), @r#"
        name: bench
        mode: mapreduce
        map:
          max_parallel: 10
          isolation: worktree
          agent_template:
            - shell: 'sed -i "${LINE}s/.*/item $ITEM/" "$FILE" && git commit --quiet --all --message "item $ITEM"'
              env: {ITEM: '${item.n}', FILE: '${item.file}', LINE: '${item.line}'}
          input:
            items:
              - {n: 0, file: src/part-00.txt, line: 1}
              - {n: 1, file: src/part-01.txt, line: 1}
        "#);
        insta::assert_snapshot!(workflow(Workload::SharedFailing, 1), @"
        name: bench
        mode: mapreduce
        map:
          max_parallel: 10
          isolation: shared
          agent_template:
            - shell: 'false'
              env: {ITEM: '${item.n}', FILE: '${item.file}', LINE: '${item.line}'}
          input:
            items:
              - {n: 0, file: src/part-00.txt, line: 1}
        ");
    }
}
