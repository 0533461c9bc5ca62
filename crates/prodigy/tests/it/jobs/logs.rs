//! `prodigy logs`.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::Stdio,
};

use insta::assert_snapshot;
use prodigy_testkit::TestEnv;

use crate::fixture::{
    journal::{
        completed, failed, half, hold, layout, log, output, record, step_completed, step_failed,
        step_started, world,
    },
    workflow,
};

const STDOUT: &str = "formatted\n1 failed";

fn with_failure() -> TestEnv {
    let world = world();
    record(&layout(&world), "job-1", &failed());
    output(&layout(&world), "job-1", STDOUT, "assertion fails");
    world
}

#[test]
fn each_step_has_a_header_and_its_output() {
    assert_snapshot!(with_failure().prodigy(&["logs", "job-1"]), @"
    ── 1 shell: cargo fmt (exit 0, 1.2s)
    formatted
    ── 2 shell: cargo test (exit 101, 2s)
    1 failed
    assertion fails
    ");
}

#[test]
fn one_step_or_one_stream_can_be_chosen() {
    let world = with_failure();
    assert_snapshot!(world.prodigy(&["logs", "job-1", "1"]), @"
    ── 1 shell: cargo fmt (exit 0, 1.2s)
    formatted
    ");
    assert_snapshot!(world.prodigy(&["logs", "job-1", "2", "--stderr"]), @"
    ── 2 shell: cargo test (exit 101, 2s)
    assertion fails
    ");
    assert_snapshot!(world.prodigy(&["logs", "job-1", "7"]), @"
    ----- stderr -----
    error: job `job-1` ran no step `7`

    hint: `prodigy events job-1 --type step_started` lists its steps
    [exit 2]
    ");
}

#[test]
fn without_a_job_the_newest_is_shown() {
    assert_snapshot!(with_failure().prodigy(&["logs"]).stderr, @"job job-1");
}

#[test]
fn output_is_as_it_was_when_it_is_piped() {
    let world = world();
    let bytes = "a\x1b[31m\r\n\u{9b}x";
    let length = u64::try_from(bytes.len()).unwrap();
    let mut events = half();
    events[4].1 = step_completed("1", 1200, &log((0, length), (0, 0)));
    record(&layout(&world), "job-1", &events[..5]);
    output(&layout(&world), "job-1", bytes, "");
    let seen = world.prodigy(&["logs", "job-1"]).stdout;
    assert_eq!(seen, format!("── 1 shell: cargo fmt (exit 0, 1.2s)\n{bytes}\n"));
}

#[test]
fn a_step_that_is_not_finished_shows_what_it_printed_so_far() {
    let world = world();
    let layout = layout(&world);
    record(&layout, "job-1", &half());
    output(&layout, "job-1", "formatted\nso far", "");
    assert_snapshot!(world.prodigy(&["logs", "job-1", "2"]), @"
    ── 2 shell: cargo test (not finished)
    so far
    ");
    let _lock = hold(&layout, "job-1");
    assert_snapshot!(world.prodigy(&["logs", "job-1", "2"]), @"
    ── 2 shell: cargo test (running)
    so far
    ");
}

#[test]
fn output_that_is_gone_is_said_to_be() {
    let world = world();
    record(&layout(&world), "job-1", &completed());
    assert_snapshot!(world.prodigy(&["logs", "job-1", "1"]), @"
    ── 1 shell: cargo fmt (exit 0, 1.2s)
    ----- stderr -----
    warning: `$ROOT/home/logs/repo/job-1/workflow/attempt-1.out` is gone
    ");
}

#[test]
fn steps_that_print_nothing_leave_no_files_and_no_complaint() {
    let world = workflow::world("- shell: 'true'\n- shell: 'true'\n");
    workflow::run(&world);
    assert!(!world.home().join("logs").exists());
    assert_snapshot!(world.prodigy(&["logs", "job"]), @"");
    assert_snapshot!(world.prodigy(&["logs", "job", "2"]), @"");
    assert_snapshot!(world.prodigy(&["logs", "job", "--follow"]), @"");
    let verified = world.prodigy(&["verify", "job"]).stdout;
    let logs = verified.lines().find(|line| line.contains("logs")).unwrap_or_default();
    assert_snapshot!(logs, @"ok    logs — 0 outputs of finished steps, all in their files");
}

#[test]
fn a_stream_that_nothing_was_printed_to_has_no_file() {
    let world = workflow::world("- shell: 'true'\n- shell: echo problem >&2\n");
    workflow::run(&world);
    let (out, err) = layout(&world).log_files(&"job".parse().unwrap(), None, 1, 0);
    assert_eq!((out.exists(), std::fs::read_to_string(err).unwrap()), (false, "problem\n".into()));
    assert_snapshot!(workflow::stable(&world.prodigy(&["logs", "job"])), @"
    ── 2 shell: echo problem >&2 (exit 0, [time])
    problem
    ");
}

#[test]
fn a_step_that_has_printed_nothing_yet_is_shown_as_running() {
    let world = world();
    record(&layout(&world), "job-1", &half()[..4]);
    let _lock = hold(&layout(&world), "job-1");
    assert_snapshot!(world.prodigy(&["logs", "job-1"]), @"── 1 shell: cargo fmt (running)");
}

#[test]
fn a_pipe_in_the_place_of_a_log_is_refused() {
    let world = with_failure();
    let (out, _) = layout(&world).log_files(&"job-1".parse().unwrap(), None, 1, 0);
    std::fs::remove_file(&out).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &out).unwrap();
    assert_snapshot!(world.prodigy(&["logs", "job-1"]), @"
    ── 1 shell: cargo fmt (exit 0, 1.2s)
    ----- stderr -----
    error: `$ROOT/home/logs/repo/job-1/workflow/attempt-1.out` is not a regular file

    hint: `prodigy doctor` checks the home
    [exit 1]
    ");
}

#[test]
fn following_shows_output_as_it_comes_and_ends_with_the_job() {
    let world = world();
    let layout = layout(&world);
    record(&layout, "job-1", &half());
    output(&layout, "job-1", "formatted\n", "");
    let _lock = hold(&layout, "job-1");
    let mut child = world
        .prodigy_command(&["logs", "job-1", "--follow"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut seen: Vec<String> = lines.by_ref().take(3).map(Result::unwrap).collect();
    let (out, err) = layout.log_files(&"job-1".parse().unwrap(), None, 1, 0);
    let append = |path: &std::path::Path, text: &str| {
        let mut file = std::fs::File::options().append(true).open(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    };
    append(&out, "1 test\n");
    seen.extend(lines.by_ref().take(1).map(Result::unwrap));
    append(&out, "!");
    append(&err, "assertion fails");
    record(&layout, "job-1", &failed()[6..]);
    seen.extend(lines.map(Result::unwrap));
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_snapshot!(seen.join("\n"), @"
    ── 1 shell: cargo fmt (exit 0, 1.2s)
    formatted
    ── 2 shell: cargo test (running)
    1 test
    !
    assertion fails
    ── 2 ended: exit 101, 2s
    ");
}

#[test]
fn a_failure_that_the_job_went_on_from_is_shown_once() {
    let world = world();
    let layout = layout(&world);
    let mut events = failed();
    events.truncate(7);
    events.push((3300, step_completed("2", 2100, &log((10, 8), (0, 15)))));
    events.push((3301, step_started("3", "shell: true")));
    events.push((3302, step_completed("3", 1, &log((18, 0), (15, 0)))));
    record(&layout, "job-1", &events);
    output(&layout, "job-1", STDOUT, "assertion fails");
    assert_snapshot!(world.prodigy(&["logs", "job-1"]), @"
    ── 1 shell: cargo fmt (exit 0, 1.2s)
    formatted
    ── 2 shell: cargo test (exit 101, 2s)
    1 failed
    assertion fails
    ── 3 shell: true (exit 0, 1ms)
    ");
}

#[test]
fn a_handler_comes_after_the_step_that_it_belongs_to() {
    let world = world();
    let layout = layout(&world);
    let mut events = half();
    events.extend([
        (1300, step_started("2.on_failure.1", "shell: fix")),
        (1400, step_completed("2.on_failure.1", 100, &log((15, 5), (0, 0)))),
        (1401, step_failed("2", 200, &log((10, 5), (0, 0)))),
    ]);
    record(&layout, "job-1", &events);
    output(&layout, "job-1", "formatted\nboom\nfix!\n", "");
    assert_snapshot!(world.prodigy(&["logs", "job-1"]), @"
    ── 1 shell: cargo fmt (exit 0, 1.2s)
    formatted
    ── 2 shell: cargo test (exit 101, 200ms)
    boom
    ── 2.on_failure.1 shell: fix (exit 0, 100ms)
    fix!
    ");
}
