//! Killing a run at any moment, resuming it, and checking that nothing was lost or done twice.
//!
//! One trial runs a workflow of ten steps that leave traces: lines appended to
//! files, commits, captured variables, a retry, a loop. The process is killed with
//! SIGKILL after a random time, again and again, and resumed until the job is
//! done. Then every trace must be there exactly once.

use std::{fs, path::Path, time::Duration};

use serde_json::Value;

use crate::{
    TestEnv,
    crash::{CrashTrial, TrialFailure, TrialReport, check_processes},
};

/// The workflow that is cut off. Each step leaves a trace that shows how often it happened.
pub const WORKFLOW: &str = r#"name: crash
steps:
  - shell: echo one >> lines.txt && git add --all && git commit --quiet --message one
  - shell: printf 'alpha beta'
    capture: first
  - shell: echo two >> lines.txt
  - shell: |
      printf '{"n": 42}'
    capture:
      second:
        format: json
  - shell: echo try >> tries.txt; test "$(wc -l < tries.txt)" -ge 2
    retry:
      attempts: 20
      backoff:
        type: fixed
        delay: 10ms
  - foreach:
      input: [a, b, c]
      do:
        - shell: echo ${item} >> items.txt
  - shell: git add --all && git commit --quiet --message middle
  - write_file:
      path: notes.txt
      content: "${first} and ${second.n}\n"
    auto_commit: true
  - shell: echo three >> lines.txt; sleep 0.05; echo four >> lines.txt
  - shell: |
      printf '%s\n' ${first} ${second.n} > variables.txt
      echo last >> lines.txt
      git add --all && git commit --quiet --message last
"#;

/// The files that the workflow leaves in the target branch, and their text.
const TRACES: &[(&str, &str)] = &[
    ("lines.txt", "one\ntwo\nthree\nfour\nlast\n"),
    ("tries.txt", "try\ntry\n"),
    ("items.txt", "a\nb\nc\n"),
    ("notes.txt", "alpha beta and 42\n"),
    ("variables.txt", "alpha beta\n42\n"),
];

/// Runs the workflow once without killing it, checks it, and returns how long it took.
pub fn run_without_kills(binary: &Path) -> Result<Duration, Box<TrialFailure>> {
    run_trial(binary, 0, Duration::ZERO).map(|survived| survived.duration)
}

/// Runs the workflow, kills it at moments within `span` that `seed` decides, resumes it until it
/// is done, and checks what is left. A `span` of zero kills nothing.
pub fn run_trial(
    binary: &Path,
    seed: u64,
    span: Duration,
) -> Result<TrialReport, Box<TrialFailure>> {
    let world = TestEnv::with_repo(binary);
    world.write("crash.yml", WORKFLOW);
    world.commit_all("workflow");
    let mut trial = CrashTrial::new(world, "crash.yml", seed);
    let result = trial.run_to_completion(span, |_, _| Ok(())).and_then(|job| check(&trial, &job));
    match result {
        Ok(()) => Ok(trial.report()),
        Err(message) => Err(Box::new(trial.fail(message))),
    }
}

/// Checks everything that must hold once the job is done.
fn check(trial: &CrashTrial, job: &str) -> Result<(), String> {
    for (file, expected) in TRACES {
        let shown = trial.world.command("git").args(["show", &format!("main:{file}")]).output();
        let text = String::from_utf8_lossy(&shown.unwrap().stdout).into_owned();
        if text != *expected {
            return Err(format!("`{file}` in `main` is {text:?} instead of {expected:?}"));
        }
    }
    check_journal(&trial.records(job))?;
    check_git(&trial.world)?;
    check_worktrees(&trial.world)?;
    check_processes(&trial.world)
}

fn check_git(world: &TestEnv) -> Result<(), String> {
    let status = world.git(&["status", "--porcelain"]);
    if !status.is_empty() {
        return Err(format!("the user's checkout is not clean:\n{status}"));
    }
    let worktrees = world.git(&["worktree", "list"]);
    if worktrees.lines().count() != 1 {
        return Err(format!("git still knows a worktree:\n{worktrees}"));
    }
    world.git(&["fsck", "--no-dangling"]);
    Ok(())
}

fn check_worktrees(world: &TestEnv) -> Result<(), String> {
    let mut waiting = vec![world.home().join("worktrees")];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_name() == ".git" || entry.file_name() == "lines.txt" {
                return Err(format!("a worktree is left: `{}`", entry.path().display()));
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                waiting.push(entry.path());
            }
        }
    }
    Ok(())
}

/// Checks that a journal is whole: every line readable, no number missing, no step ended twice.
fn check_journal(text: &str) -> Result<(), String> {
    let mut kinds = Vec::new();
    let mut ended = std::collections::BTreeSet::new();
    for record in parse_journal(text)? {
        let text = |key| record.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (kind, step) = (text("event_type"), text("step"));
        // Steps inside of a loop share their path; those of the file itself do not.
        if kind == "step_completed" && !step.contains('.') && !ended.insert(step.clone()) {
            return Err(format!("step {step} ended twice"));
        }
        kinds.push(kind);
    }
    if kinds.first().is_none_or(|kind| kind != "job_started") {
        return Err(format!("the journal begins with {:?}", kinds.first()));
    }
    match kinds.iter().filter(|kind| *kind == "job_completed").count() {
        1 => Ok(()),
        count => Err(format!("the journal says {count} times that the job was completed")),
    }
}

/// Reads the records of a journal, of which none may be missing or damaged.
pub(crate) fn parse_journal(text: &str) -> Result<Vec<Value>, String> {
    let read = |(index, line): (usize, &str)| {
        let record: Value = serde_json::from_str(line)
            .map_err(|error| format!("record {} cannot be read: {error}\n{line}", index + 1))?;
        let seq = record.get("seq").and_then(Value::as_u64).unwrap_or_default();
        if seq != index as u64 + 1 {
            return Err(format!("record {} has the number {seq}", index + 1));
        }
        Ok(record)
    };
    text.lines().enumerate().map(read).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::{path::PathBuf, process::Command};

    use super::*;

    const STARTED: &str = r#"{"seq":1,"event_type":"job_started"}"#;
    const COMPLETED: &str = r#"{"seq":2,"event_type":"job_completed"}"#;

    fn journal(lines: &[&str]) -> String {
        check_journal(&lines.join("\n")).err().unwrap_or_else(|| "whole".to_owned())
    }

    /// A program that does what the workflow says, but repeats a cut-off step blindly.
    const CARELESS: &str = r#"#!/bin/sh
journal="$PRODIGY_HOME/journal"
mkdir -p "$PRODIGY_HOME"
if [ "$1" = events ]; then cat "$journal" 2>/dev/null; exit 0; fi
record() { echo "{\"seq\":$(($(cat "$journal" 2>/dev/null | wc -l) + 1)),$1}" >> "$journal"; }
step() {
    grep -q "\"step\":\"$1\"" "$journal" && return
    printf "$3" >> "$2"; sleep 0.03
    record "\"event_type\":\"step_completed\",\"step\":\"$1\""
}
[ -e "$journal" ] || record '"event_type":"job_started"'
step 1 lines.txt 'one\ntwo\n'
step 2 lines.txt 'three\nfour\n'
step 3 tries.txt 'try\ntry\n'
step 4 items.txt 'a\nb\nc\n'
step 5 notes.txt 'alpha beta and 42\n'
step 6 variables.txt 'alpha beta\n42\n'
step 7 lines.txt 'last\n'
git add --all && git commit --quiet --message all
record '"event_type":"job_completed"'
"#;

    /// Makes a program that stands in for prodigy.
    pub(crate) fn program(text: &str) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let (source, path) = (directory.path().join("source"), directory.path().join("prodigy"));
        fs::write(&source, text).unwrap();
        // Another process makes the file: were it open for writing here, a test that forks at
        // that moment would keep it open, and a file that is open for writing cannot be run.
        let made = Command::new("install").args(["-m", "755"]).args([&source, &path]).status();
        assert!(made.unwrap().success());
        (directory, path)
    }

    /// Returns what a trial that kills nothing says about a program.
    fn said(text: &str) -> String {
        let (_directory, path) = program(text);
        run_without_kills(&path)
            .err()
            .map_or_else(|| "survived".to_owned(), |broken| broken.message)
    }

    #[test]
    fn what_is_missing_or_there_twice_is_noticed() {
        assert_eq!(said(CARELESS), "survived");
        assert_eq!(
            said(&CARELESS.replace("'a\\nb\\nc\\n'", "'a\\nb\\nb\\nc\\n'")),
            r#"`items.txt` in `main` is "a\nb\nb\nc\n" instead of "a\nb\nc\n""#
        );
        assert_eq!(
            said(&CARELESS.replace("git add", "exit 0; git add")),
            r#"`lines.txt` in `main` is "" instead of "one\ntwo\nthree\nfour\nlast\n""#
        );
        assert_eq!(
            said(&CARELESS.replace("step 3", "exit 7 #")),
            "`prodigy run crash.yml -y --job-id crash-1` ended with exit status: 7"
        );
    }

    #[test]
    fn what_is_left_over_is_noticed() {
        let and = |more: &str| said(&format!("{CARELESS}{more}\n"));
        assert_eq!(and("echo mine > mine.txt"), "the user's checkout is not clean:\n?? mine.txt");
        let left = and("git worktree add --quiet --detach \"$PRODIGY_HOME/../left\"");
        assert!(left.starts_with("git still knows a worktree:\n"), "{left}");
        let left = and("mkdir -p \"$PRODIGY_HOME/worktrees/x/.git\"");
        assert!(left.starts_with("a worktree is left: "), "{left}");
    }

    #[test]
    fn a_program_that_repeats_a_step_blindly_does_not_survive() {
        let (_directory, path) = program(CARELESS);
        let span = run_without_kills(&path).unwrap();
        let broken = (0..20).find_map(|seed| run_trial(&path, seed, span).err());
        assert!(broken.is_some());
    }

    #[test]
    fn a_damaged_journal_is_noticed() {
        assert_eq!(journal(&[STARTED, COMPLETED]), "whole");
        assert_eq!(journal(&[]), "the journal begins with None");
        assert_eq!(journal(&[STARTED, STARTED]), "record 2 has the number 1");
        assert_eq!(journal(&[STARTED]), "the journal says 0 times that the job was completed");
        assert_eq!(
            journal(&[STARTED, "{"]),
            "record 2 cannot be read: EOF while parsing an object at line 1 column 1\n{"
        );
        let twice = [
            STARTED,
            r#"{"seq":2,"event_type":"step_completed","step":"4"}"#,
            r#"{"seq":3,"event_type":"step_completed","step":"4"}"#,
        ];
        assert_eq!(journal(&twice), "step 4 ended twice");
    }
}
