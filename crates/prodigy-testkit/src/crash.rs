//! Killing a run at any moment, resuming it, and checking that nothing was lost or done twice.
//!
//! One trial runs a workflow of ten steps that leave traces: lines appended to
//! files, commits, captured variables, a retry, a loop. The process is killed with
//! SIGKILL after a random time, again and again, and resumed until the job is
//! done. Then every trace must be there exactly once.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, ExitStatus},
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::World;

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

/// The longest that one start of prodigy may take.
const START_LIMIT: Duration = Duration::from_secs(60);

/// The longest that processes of a finished job may linger.
const LINGER_LIMIT: Duration = Duration::from_secs(20);

/// How often a run is killed at most in one trial.
const MOST_KILLS: u64 = 4;

/// How often prodigy is started at most in one trial, so that a job that never ends is noticed.
const MOST_STARTS: u32 = 12;

/// A trial that went well.
#[derive(Clone, Copy, Debug)]
pub struct Survived {
    /// How often prodigy was started.
    pub starts: u32,
    /// How often it was killed.
    pub kills: u32,
    /// How long all of it took.
    pub duration: Duration,
}

/// A trial that did not.
#[derive(Debug)]
pub struct Broken {
    /// What is wrong.
    pub message: String,
    /// What was done and seen.
    pub transcript: String,
    /// The world in which it happened.
    pub world: World,
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}\n{}", self.message, self.transcript)
    }
}

/// Runs the workflow once without killing it, checks it, and returns how long it took.
pub fn undisturbed(binary: &Path) -> Result<Duration, Box<Broken>> {
    trial(binary, 0, Duration::ZERO).map(|survived| survived.duration)
}

/// Runs the workflow, kills it at moments within `span` that `seed` decides, resumes it until it
/// is done, and checks what is left. A `span` of zero kills nothing.
pub fn trial(binary: &Path, seed: u64, span: Duration) -> Result<Survived, Box<Broken>> {
    let world = World::with_repo(binary);
    world.write("crash.yml", WORKFLOW);
    world.commit_all("workflow");
    let mut trial =
        Trial { world, random: Random(seed), transcript: Vec::new(), starts: 0, kills: 0, runs: 0 };
    let began = Instant::now();
    let result = trial.until_done(span).and_then(|job| trial.check(&job));
    match result {
        Ok(()) => {
            Ok(Survived { starts: trial.starts, kills: trial.kills, duration: began.elapsed() })
        }
        Err(message) => {
            let transcript = trial.transcript.join("\n");
            Err(Box::new(Broken { message, transcript, world: trial.world }))
        }
    }
}

struct Trial {
    world: World,
    random: Random,
    transcript: Vec<String>,
    starts: u32,
    kills: u32,
    runs: u32,
}

impl Trial {
    /// Starts, kills and resumes until the job is done, and returns the job.
    fn until_done(&mut self, span: Duration) -> Result<String, String> {
        let mut kills_left = if span.is_zero() { 0 } else { 1 + self.random.below(MOST_KILLS) };
        let mut job = self.next_job();
        let mut known = false;
        loop {
            if self.starts == MOST_STARTS {
                return Err(format!("not done after {MOST_STARTS} starts"));
            }
            let kill_after = (kills_left > 0).then(|| self.moment(span));
            let args: Vec<&str> = if known {
                vec!["resume", &job, "-y"]
            } else {
                vec!["run", "crash.yml", "-y", "--job-id", &job]
            };
            let end = self.start(&args, kill_after)?;
            if let Some(status) = end {
                return if status.success() || self.is_completed(&job) {
                    Ok(job)
                } else {
                    Err(format!("`prodigy {}` ended with {status}", args.join(" ")))
                };
            }
            kills_left -= 1;
            known = !self.records(&job).is_empty();
            if !known {
                // Killed before the job existed: as if it had never been started.
                job = self.next_job();
            }
        }
    }

    fn next_job(&mut self) -> String {
        self.runs += 1;
        format!("crash-{}", self.runs)
    }

    fn moment(&mut self, span: Duration) -> Duration {
        let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(self.random.below(micros.max(1)))
    }

    /// Runs prodigy and returns how it ended, or `None` if it was killed on the way.
    fn start(
        &mut self,
        args: &[&str],
        kill_after: Option<Duration>,
    ) -> Result<Option<ExitStatus>, String> {
        self.starts += 1;
        let log = self.log(self.starts);
        // Files, not pipes: an orphan that holds a pipe open must not hold up the trial.
        let output = File::create(&log).unwrap();
        let errors = output.try_clone().unwrap();
        let began = Instant::now();
        let mut child =
            self.world.prodigy_command(args).stdout(output).stderr(errors).spawn().unwrap();
        let end = wait(&mut child, kill_after.unwrap_or(START_LIMIT));
        let killed = end.is_none();
        let how = end.map_or_else(|| "killed".to_owned(), |status| status.to_string());
        self.transcript.push(format!(
            "$ prodigy {}   # {how} after {} ms\n{}",
            args.join(" "),
            began.elapsed().as_millis(),
            fs::read_to_string(&log).unwrap_or_default().trim_end(),
        ));
        if killed && kill_after.is_none() {
            return Err(format!("`prodigy {}` did not end in time", args.join(" ")));
        }
        self.kills += u32::from(killed);
        Ok(end)
    }

    fn log(&self, start: u32) -> PathBuf {
        self.world.root().join(format!("start-{start}.log"))
    }

    /// Returns the job's records as `prodigy events` prints them; nothing for an unknown job.
    fn records(&self, job: &str) -> String {
        self.world.prodigy(&["events", job, "--json"]).stdout
    }

    fn is_completed(&self, job: &str) -> bool {
        self.records(job).contains(r#""event_type":"job_completed""#)
    }

    /// Checks everything that must hold once the job is done.
    fn check(&mut self, job: &str) -> Result<(), String> {
        for (file, expected) in TRACES {
            let shown = self.world.command("git").args(["show", &format!("main:{file}")]).output();
            let text = String::from_utf8_lossy(&shown.unwrap().stdout).into_owned();
            if text != *expected {
                return Err(format!("`{file}` in `main` is {text:?} instead of {expected:?}"));
            }
        }
        check_journal(&self.records(job))?;
        self.check_git()?;
        self.check_worktrees()?;
        self.check_processes()
    }

    fn check_git(&self) -> Result<(), String> {
        let status = self.world.git(&["status", "--porcelain"]);
        if !status.is_empty() {
            return Err(format!("the user's checkout is not clean:\n{status}"));
        }
        let worktrees = self.world.git(&["worktree", "list"]);
        if worktrees.lines().count() != 1 {
            return Err(format!("git still knows a worktree:\n{worktrees}"));
        }
        self.world.git(&["fsck", "--no-dangling"]);
        Ok(())
    }

    fn check_worktrees(&self) -> Result<(), String> {
        let mut waiting = vec![self.world.home().join("worktrees")];
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

    /// Every process of the trial has the world's home in its environment.
    fn check_processes(&self) -> Result<(), String> {
        let until = Instant::now() + LINGER_LIMIT;
        loop {
            let left = processes_with(&self.world.home());
            if left.is_empty() {
                return Ok(());
            }
            if Instant::now() > until {
                return Err(format!("processes are left:\n{}", left.join("\n")));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Waits for a child at most so long; then it is killed and `None` is returned.
fn wait(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let until = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            child.kill().unwrap();
            child.wait().unwrap();
            return None;
        }
        std::thread::sleep(left.min(Duration::from_millis(2)));
    }
}

/// Checks that a journal is whole: every line readable, no number missing, no step ended twice.
fn check_journal(text: &str) -> Result<(), String> {
    let mut kinds = Vec::new();
    let mut ended = std::collections::BTreeSet::new();
    for (index, line) in text.lines().enumerate() {
        let record: Value = serde_json::from_str(line)
            .map_err(|error| format!("record {} cannot be read: {error}\n{line}", index + 1))?;
        let seq = record.get("seq").and_then(Value::as_u64).unwrap_or_default();
        if seq != index as u64 + 1 {
            return Err(format!("record {} has the number {seq}", index + 1));
        }
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

/// Returns the processes whose environment holds a path, as `pid command`.
fn processes_with(path: &Path) -> Vec<String> {
    let path = path.to_string_lossy().into_owned();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with(|c: char| c.is_ascii_digit()) {
            continue;
        }
        // A process may end while we look, and others are not ours to read.
        let environ = fs::read(entry.path().join("environ")).unwrap_or_default();
        if String::from_utf8_lossy(&environ).contains(&path) {
            let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let command = String::from_utf8_lossy(&command).replace('\0', " ");
            found.push(format!("{name} {}", command.trim_end()));
        }
    }
    found
}

/// A small generator of numbers, so that a seed always gives the same trial.
struct Random(u64);

impl Random {
    /// Returns a number below `bound`, which is not zero.
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

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

    fn program(text: &str) -> (tempfile::TempDir, PathBuf) {
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
        undisturbed(&path).err().map_or_else(|| "survived".to_owned(), |broken| broken.message)
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
        let span = undisturbed(&path).unwrap();
        let broken = (0..20).find_map(|seed| trial(&path, seed, span).err());
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

    #[test]
    fn a_process_is_found_by_its_environment() {
        let directory = tempfile::tempdir().unwrap();
        let mut child =
            Command::new("sleep").arg("60").env("MARK", directory.path()).spawn().unwrap();
        // The kernel lets us go on a moment before the new program's environment can be seen.
        let start = Instant::now();
        let found = loop {
            let found = processes_with(directory.path());
            if !found.is_empty() || start.elapsed() > Duration::from_secs(5) {
                break found;
            }
        };
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found, [format!("{} sleep 60", child.id())]);
        assert_eq!(processes_with(directory.path()), Vec::<String>::new());
    }

    #[test]
    fn a_seed_always_gives_the_same_numbers() {
        let numbers = |seed| {
            let mut random = Random(seed);
            (0..4).map(|_| random.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(numbers(1), numbers(1));
        assert_ne!(numbers(1), numbers(2));
    }
}
