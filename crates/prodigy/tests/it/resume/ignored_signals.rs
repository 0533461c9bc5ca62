//! Signals that were ignored when prodigy began, as `nohup` and background jobs of scripts do it.

use std::{
    fs,
    time::{Duration, Instant},
};

use insta::assert_snapshot;
use prodigy_testkit::TestEnv;
use rustix::process::Signal;

use crate::{
    fixture::workflow::{SpawnedProdigy, stable},
    resume::interrupted::{assert_done_once, assert_nothing_runs, begun, gated, open_gate},
};

/// Makes a world whose third step waits until the gate is opened.
fn waiting() -> TestEnv {
    gated("until test -e \"$TEST_GATE\"; do sleep 0.02; done")
}

/// Starts the workflow behind other words, and waits until its third step holds.
fn start_with(world: &TestEnv, words: &[&str]) -> SpawnedProdigy {
    let prodigy = world.prodigy_command(&["run", "workflow.yml", "-y", "--job-id", "job"]);
    let (program, words) = words.split_first().unwrap();
    let mut command = world.command(program);
    command.args(words).arg(prodigy.get_program()).args(prodigy.get_args());
    command.env("TEST_GATE", world.root().join("gate"));
    let mut started = SpawnedProdigy::of(&mut command);
    started.until(world, "the step begins", || begun(world).exists());
    started
}

/// Returns the words that start a program which ignores these signals.
fn ignoring(signals: &str) -> [String; 4] {
    ["sh", "-c", &format!("trap '' {signals}; exec \"$@\""), "sh"].map(str::to_owned)
}

fn start_ignoring(world: &TestEnv, signals: &str) -> SpawnedProdigy {
    let words = ignoring(signals);
    start_with(world, &words.each_ref().map(String::as_str))
}

#[track_caller]
fn assert_goes_on(world: &TestEnv, started: SpawnedProdigy) {
    open_gate(world);
    let seen = started.seen(world);
    assert_eq!(seen.code, Some(0), "{seen}");
    assert_done_once(world);
}

#[test]
fn nohup_keeps_a_job_running_when_its_terminal_goes_away() {
    let world = waiting();
    let started = start_with(&world, &["nohup"]);
    started.signal(Signal::HUP);
    assert_goes_on(&world, started);
}

#[test]
fn an_ignored_signal_does_not_pause_a_job() {
    for (name, signal) in [("INT", Signal::INT), ("TERM", Signal::TERM), ("HUP", Signal::HUP)] {
        let world = waiting();
        let started = start_ignoring(&world, name);
        started.signal(signal);
        assert_goes_on(&world, started);
    }
}

#[test]
fn signals_that_are_not_ignored_still_pause_the_job() {
    let world = waiting();
    let started = start_with(&world, &["nohup"]);
    started.signal(Signal::INT);
    let seen = started.seen(&world);
    assert_eq!(seen.code, Some(130), "{seen}");
    open_gate(&world);
    assert_eq!(world.prodigy(&["resume", "job"]).code, Some(0));
    assert_done_once(&world);
}

/// Returns whether steps ignore SIGHUP in a job that is started with these words.
fn steps_ignore_hangup(words: &[&str]) -> bool {
    let world = waiting();
    let text = world.read("workflow.yml");
    let status = world.root().join("status");
    let step = format!("- shell: cat /proc/self/status > {}\n", status.display());
    world.write("workflow.yml", format!("{step}{}", text.trim_start()));
    world.commit_all("Tell the signals");
    assert_goes_on(&world, start_with(&world, words));
    let status = fs::read_to_string(status).unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() & 1 != 0
}

#[test]
fn steps_inherit_what_is_ignored() {
    assert!(steps_ignore_hangup(&["nohup"]));
    assert!(!steps_ignore_hangup(&["env"]));
}

#[test]
fn pause_reaches_a_job_that_ignores_ctrl_c() {
    let world = waiting();
    let started = start_ignoring(&world, "INT HUP");
    assert_eq!(world.prodigy(&["pause", "job"]).code, Some(0));
    let seen = started.seen(&world);
    assert_eq!(seen.code, Some(143), "{seen}");
    assert_nothing_runs(&world);
}

#[test]
fn stop_now_reaches_a_job_that_ignores_other_signals() {
    for ignored in ["HUP", "INT HUP", "TERM"] {
        let world = gated("trap \"\" TERM; sleep 300; sleep 300").env("PRODIGY_GRACE", "60s");
        let started = start_ignoring(&world, ignored);
        let asked = Instant::now();
        let seen = world.prodigy(&["stop", "job", "--now"]);
        assert_eq!(seen.code, Some(0), "{ignored}: {seen}");
        assert!(asked.elapsed() < Duration::from_secs(50), "{ignored}: {:?}", asked.elapsed());
        drop(started.seen(&world));
        assert_nothing_runs(&world);
    }
}

#[test]
fn pause_says_when_a_job_ignores_every_signal() {
    let world = waiting();
    let started = start_ignoring(&world, "INT TERM HUP");
    let pid = started.pid().to_string();
    for args in [["pause", "job"], ["stop", "job"]] {
        insta::allow_duplicates!(
            assert_snapshot!(stable(&world.prodigy(&args)).replace(&pid, "[pid]"), @"
        ----- stderr -----
        error: process [pid], which runs job `job`, was started to ignore signals

        hint: `kill -KILL [pid]` ends it with all its steps; `prodigy resume job` goes on
        [exit 1]
        ")
        );
    }
    assert_goes_on(&world, started);
}
