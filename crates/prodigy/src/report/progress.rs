//! Who watches a run, and who is asked before the merge.

use std::{
    io::{self, BufRead as _, IsTerminal as _, Write as _},
    sync::mpsc::{RecvTimeoutError, channel},
    time::{Duration, Instant},
};

use prodigy_core::{
    event::{Event, Record},
    job::Job,
};
use prodigy_engine::{
    run::{Confirm, MergeQuestion, Reporter},
    shutdown::Shutdown,
};

use super::{
    lines::{StepNames, Weight, line},
    live::Live,
};
use crate::output::{one_line, plain_text};

/// A workflow of so many steps is shown whole.
const ALWAYS_SHOWN: u32 = 50;

/// The least time between two routine lines of a longer one.
const ROUTINE_EVERY: Duration = Duration::from_millis(100);

/// How often the wait for an answer looks whether it has to end.
const LOOK: Duration = Duration::from_millis(50);

/// Returns who shows a run: a live line on a terminal, plain lines elsewhere.
pub(crate) fn reporter(color: bool) -> Box<dyn Reporter> {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    if io::stderr().is_terminal() && !dumb && !set("CI") {
        Box::new(Live::new(color))
    } else {
        Box::new(Plain { names: StepNames::default(), color, last: None, left_out: 0 })
    }
}

/// Shows a run in plain lines, at a bounded rate.
struct Plain {
    names: StepNames,
    color: bool,
    last: Option<Instant>,
    left_out: u32,
}

impl Reporter for Plain {
    fn record(&mut self, record: &Record, job: &Job) {
        self.names.record(record);
        if let Some(line) = line(record, job, &self.names) {
            let routine = line.weight == Weight::Routine;
            if routine && is_inner(record) {
                // `prodigy events` tells about the steps inside other steps.
            } else if routine && self.is_too_much(job) {
                self.left_out += 1;
            } else {
                self.catch_up();
                let sign = line.sign.show(self.color);
                print(&format!("{sign} {}", one_line(&line.text)));
                self.last = Some(Instant::now());
            }
        }
        self.names.forget(record);
    }

    fn note(&mut self, note: &str) {
        print(&plain_text(note));
    }
}

impl Plain {
    /// Returns whether a routine line has to be left out to keep the rate bounded.
    ///
    /// That is so for most of a long workflow that runs fast; the last step is always shown.
    fn is_too_much(&self, job: &Job) -> bool {
        let many = job.steps_in_all() > ALWAYS_SHOWN;
        let soon = self.last.is_some_and(|last| last.elapsed() < ROUTINE_EVERY);
        many && soon && job.done < job.steps_in_all()
    }

    /// Says how many lines were left out.
    fn catch_up(&mut self) {
        if self.left_out > 0 {
            print(&format!("· {} more", super::lines::count(self.left_out, "step")));
            self.left_out = 0;
        }
    }
}

fn print(text: &str) {
    // A reader that went away must not stop the work.
    writeln!(io::stderr(), "{text}").ok();
}

/// Returns whether a record is about a step inside another one.
fn is_inner(record: &Record) -> bool {
    let Event::StepCompleted(step) = &record.event else { return false };
    !step.is_top_level() && !step.step.starts_with("merge.")
}

/// Returns who is asked before the merge.
pub(crate) fn confirm(yes: bool, shutdown: Shutdown) -> Box<dyn Confirm> {
    Box::new(Person { yes, shutdown })
}

/// The person at the terminal, if there is one.
struct Person {
    yes: bool,
    shutdown: Shutdown,
}

impl Confirm for Person {
    fn merge(&mut self, question: &MergeQuestion) -> Option<bool> {
        if self.yes {
            return Some(true);
        }
        if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            return None;
        }
        let MergeQuestion { source, target, commits, files } = question;
        let commits = super::lines::count(*commits, "commit");
        let files = super::lines::count(*files, "file");
        write!(io::stderr(), "merge {source} into {target} ({commits}, {files})? [y/N] ").ok()?;
        io::stderr().flush().ok()?;
        let answer = self.answer()?;
        Some(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
    }
}

impl Person {
    /// Waits for a line; Ctrl-C ends the wait, which it would not do by itself.
    fn answer(&self) -> Option<String> {
        let (answered, answer) = channel();
        // If nobody answers, the thread ends with the program.
        drop(std::thread::spawn(move || {
            let mut line = String::new();
            if io::stdin().lock().read_line(&mut line).is_ok() {
                // Nobody waits any more after Ctrl-C.
                answered.send(line).ok();
            }
        }));
        loop {
            match answer.recv_timeout(LOOK) {
                Ok(line) => return Some(line),
                Err(RecvTimeoutError::Timeout) if self.shutdown.reason().is_none() => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    // The question stands in an unfinished line.
                    writeln!(io::stderr()).ok();
                    return None;
                }
            }
        }
    }
}
