//! Programs that print too much, or what nobody may see.

use std::{
    fmt::Write as _,
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    time::Duration,
};

use prodigy_engine::process::{Launch, ProcessStatus, StopToken};

use super::{SupervisorFixture, text};

/// Lets a launch write to `log/out` and `log/err`.
fn logged(bench: &SupervisorFixture, mut launch: Launch) -> Launch {
    launch.log = Some((bench.path("log/out"), bench.path("log/err")));
    launch
}

#[tokio::test]
async fn output_is_appended_to_private_logs() {
    let mut bench = SupervisorFixture::new().await;
    let first = bench.run(&logged(&bench, bench.sh("echo one; echo problem >&2"))).await;
    let second = bench.run(&logged(&bench, bench.sh("echo second"))).await;
    assert_eq!((first.stdout.log_at, first.stdout.log_len), (0, 4));
    assert_eq!((second.stdout.log_at, second.stdout.log_len), (4, 7));
    assert_eq!((second.stderr.log_at, second.stderr.log_len), (8, 0));
    assert_eq!(fs::read_to_string(bench.path("log/out")).unwrap(), "one\nsecond\n");
    assert_eq!(fs::read_to_string(bench.path("log/err")).unwrap(), "problem\n");
    let mode = |name: &str| fs::metadata(bench.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("log"), mode("log/out"), mode("log/err")), (0o700, 0o600, 0o600));
}

#[tokio::test]
async fn a_log_that_was_removed_is_made_anew() {
    let mut bench = SupervisorFixture::new().await;
    bench.run(&logged(&bench, bench.sh("echo one"))).await;
    fs::remove_file(bench.path("log/out")).unwrap();
    let ended = bench.run(&logged(&bench, bench.sh("echo two"))).await;
    assert_eq!(ended.stdout.log_at, 0);
    assert_eq!(fs::read_to_string(bench.path("log/out")).unwrap(), "two\n");
}

#[tokio::test]
async fn a_log_is_made_with_the_first_byte_that_goes_into_it() {
    let mut bench = SupervisorFixture::new().await;
    let silent = bench.run(&logged(&bench, bench.sh(":"))).await;
    assert_eq!((silent.stdout.log_at, silent.stdout.log_len), (0, 0));
    assert_eq!((silent.stderr.log_at, silent.stderr.log_len), (0, 0));
    assert!(!bench.path("log").exists());

    let mut launch = bench.sh("echo one");
    launch.log = Some((bench.path("log/a/out"), bench.path("log/a/err")));
    let ended = bench.run(&launch).await;
    assert_eq!((ended.stdout.log_at, ended.stdout.log_len), (0, 4));
    assert_eq!(fs::read_to_string(bench.path("log/a/out")).unwrap(), "one\n");
    assert!(!bench.path("log/a/err").exists());
    let mode = |name: &str| fs::metadata(bench.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("log"), mode("log/a"), mode("log/a/out")), (0o700, 0o700, 0o600));
}

#[tokio::test]
async fn a_log_without_room_for_a_byte_says_how_many_there_were() {
    let mut bench = SupervisorFixture::new().await;
    let mut launch = logged(&bench, bench.sh("echo one"));
    launch.log_cap = 0;
    let ended = bench.run(&launch).await;
    assert_eq!((ended.stdout.log_at, ended.stdout.log_len), (0, 0));
    let log = fs::read_to_string(bench.path("log/out")).unwrap();
    assert_eq!(log, "[prodigy: 4 more bytes were not kept]\n");
}

#[tokio::test]
async fn gigabytes_cost_neither_memory_nor_disk() {
    let mut bench = SupervisorFixture::new().await;
    // The program itself takes some, more if it was built for debugging.
    let before = bench.status("VmHWM");
    let mut launch = logged(&bench, bench.sh("head -c 2147483648 /dev/zero; printf end"));
    launch.log_cap = 100_000;
    launch.timeout = Some(Duration::from_secs(120));
    let ended = bench.run(&launch).await;
    assert_eq!(ended.status, ProcessStatus::Exited(0));
    assert_eq!(ended.stdout.total, (2 << 30) + 3);
    assert_eq!((ended.stdout.head.len(), ended.stdout.tail.len()), (64 << 10, 64 << 10));
    assert_eq!(text(&ended.stdout.tail[(64 << 10) - 3..]), "end");
    assert_eq!(ended.stdout.log_len, 100_000);
    let log = fs::read(bench.path("log/out")).unwrap();
    let note = "\n[prodigy: 2147383651 more bytes were not kept]\n";
    assert_eq!(text(&log[100_000..]), note);
    let grown = bench.status("VmHWM") - before;
    assert!(grown < 8_000, "the supervisor took {grown} KiB more");
}

#[tokio::test]
async fn head_and_tail_meet_without_a_gap() {
    for size in [65_535, 65_536, 65_537, 131_072, 131_073, 300_000_usize] {
        let mut bench = SupervisorFixture::new().await;
        let ended = bench.run(&bench.sh(&format!("seq 100000 | head -c {size}"))).await;
        let mut all = String::new();
        for number in 1..=100_000 {
            writeln!(all, "{number}").unwrap();
        }
        let all = &all.as_bytes()[..size];
        let head = &all[..size.min(65_536)];
        let tail = &all[head.len().max(size.saturating_sub(65_536))..];
        assert_eq!(ended.stdout.total, size as u64);
        assert!(ended.stdout.head == head && ended.stdout.tail == tail, "of {size} bytes");
    }
}

#[tokio::test]
async fn a_full_disk_does_not_fail_the_step() {
    // To a program, a file that may not grow is like a disk that is full.
    let mut bench = SupervisorFixture::with_file_limit(0).await;
    let launch = logged(&bench, bench.sh("echo kept; exit 5"));
    let ended = bench.run(&launch).await;
    assert_eq!(ended.status, ProcessStatus::Exited(5));
    assert_eq!((text(&ended.stdout.head), ended.stdout.log_len), ("kept\n", 0));
}

#[tokio::test]
async fn a_log_that_is_a_link_is_refused_before_the_start() {
    let mut bench = SupervisorFixture::new().await;
    fs::write(bench.path("victim"), "").unwrap();
    fs::create_dir(bench.path("log")).unwrap();
    symlink(bench.path("victim"), bench.path("log/err")).unwrap();
    let launch = logged(&bench, bench.sh(": > started"));
    let error = bench.try_run(&launch, &StopToken::new()).await.unwrap_err().to_string();
    let error = error.replace(&*bench.directory.path().to_string_lossy(), "$ROOT");
    insta::assert_snapshot!(error, @"cannot write the log `$ROOT/log/err`: it is a symbolic link");
    assert!(!bench.path("started").exists());
    assert_eq!(bench.run(&bench.sh("exit 6")).await.status, ProcessStatus::Exited(6));
}

#[tokio::test]
async fn a_log_that_could_not_be_made_is_refused_before_the_start() {
    let mut bench = SupervisorFixture::new().await;
    fs::create_dir(bench.path("elsewhere")).unwrap();
    symlink(bench.path("elsewhere"), bench.path("link")).unwrap();
    fs::write(bench.path("file"), "").unwrap();
    for directory in ["link", "file", "file/deeper"] {
        let mut launch = bench.sh(": > started; echo one");
        let log = bench.path(directory);
        launch.log = Some((log.join("out"), log.join("err")));
        let error = bench.try_run(&launch, &StopToken::new()).await.unwrap_err().to_string();
        let wanted =
            format!("cannot write the log `{}`: Not a directory", log.join("out").display());
        assert_eq!(error.split(" (").next(), Some(wanted.as_str()));
    }
    assert!(!bench.path("started").exists());
    assert_eq!(fs::read_dir(bench.path("elsewhere")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_log_that_is_spoilt_while_the_program_runs_costs_only_the_log() {
    let mut bench = SupervisorFixture::new().await;
    fs::write(bench.path("victim"), "precious").unwrap();
    let script = format!(
        "mkdir log && ln -s '{}' log/out && echo one && echo problem >&2",
        bench.path("victim").display()
    );
    let ended = bench.run(&logged(&bench, bench.sh(&script))).await;
    assert_eq!(ended.status, ProcessStatus::Exited(0));
    assert_eq!((text(&ended.stdout.head), ended.stdout.log_len), ("one\n", 0));
    assert_eq!((text(&ended.stderr.head), ended.stderr.log_len), ("problem\n", 8));
    assert_eq!(fs::read_to_string(bench.path("victim")).unwrap(), "precious");
}

#[tokio::test]
async fn secrets_are_masked_even_if_they_come_in_pieces() {
    let mut bench = SupervisorFixture::new().await;
    let script = "printf 'a my-sec'; sleep 0.2; printf 'ret-word b'; printf my-secret-word >&2";
    let mut launch = logged(&bench, bench.sh(script));
    launch.secrets = vec!["my-secret-word".into()];
    let ended = bench.run(&launch).await;
    assert_eq!(text(&ended.stdout.head), "a *** b");
    assert_eq!(text(&ended.stderr.head), "***");
    assert_eq!(fs::read_to_string(bench.path("log/out")).unwrap(), "a *** b");
    assert_eq!(fs::read_to_string(bench.path("log/err")).unwrap(), "***");
    launch.secrets.clear();
    let ended = bench.run(&launch).await;
    assert_eq!(text(&ended.stderr.head), "my-secret-word");
}
