//! Secrets that are too long, and commands for secrets that do not end.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use insta::assert_snapshot;
use rustix::process::Signal;

use crate::{
    process::eventually,
    stories::{Started, run, world},
};

const WITH: &str = "secrets:\n  TOKEN: SOURCE\nsteps:\n  - shell: 'test -n \"$TOKEN\"'\n";

#[test]
fn a_secret_that_is_too_long_is_refused_by_its_name() {
    let begun = Instant::now();
    let refused = |source: &str| run(&world(&WITH.replace("SOURCE", source)));
    let long = refused(r#"{ command: 'head -c 300000 /dev/zero | tr "\0" x' }"#);
    assert_snapshot!(long, @"
    ----- stderr -----
    error: the secret `TOKEN` cannot be had: it is longer than 64 KiB; write it to a file that the steps read, and let the secret be the path of the file
    [exit 1]
    ");
    assert_eq!(refused("{ command: 'yes' }"), long);
    assert!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
    let world = world(&WITH.replace("SOURCE", "{ file: token }"));
    world.write("token", "x".repeat(64 * 1024 + 1));
    world.commit_all("Add the secret");
    assert_eq!(run(&world), long);
    world.write("token", "x".repeat(64 * 1024));
    world.commit_all("Make it shorter");
    let seen = world.prodigy(&["run", "workflow.yml", "-y", "--job-id", "shorter"]);
    assert_eq!(seen.code, Some(0), "{seen}");
}

#[test]
fn the_command_of_a_secret_ends_with_the_run() {
    let world =
        world(&WITH.replace(
            "SOURCE",
            "{ command: 'echo $$ > ../pid.new; mv ../pid.new ../pid; sleep 300' }",
        ));
    let pid = world.root().join("pid");
    let mut running = Started::new(&world, &["run", "workflow.yml", "-y", "--job-id", "job"]);
    running.until(&world, "the command begins", || pid.exists());
    let process = format!("/proc/{}", fs::read_to_string(&pid).unwrap().trim());
    // Ctrl-C does the same, but who starts tests in the background has it ignored.
    running.signal(Signal::TERM);
    let seen = running.seen_within(&world, Duration::from_secs(20));
    assert_ne!(seen.code, Some(0), "{seen}");
    eventually("the command is gone", Duration::from_secs(20), || !Path::new(&process).exists());
}
