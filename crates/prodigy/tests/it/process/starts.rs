//! What a program finds when it starts, and programs that do not.

use std::{collections::BTreeSet, fmt::Write as _, fs, os::unix::fs::PermissionsExt as _};

use insta::assert_snapshot;
use prodigy_engine::process::ProcessStatus;
use prodigy_testkit::TestEnv;

use super::{PRODIGY, SupervisorFixture, text};

#[tokio::test]
async fn output_and_status_come_back() {
    let mut bench = SupervisorFixture::new().await;
    let ended = bench.run(&bench.sh("echo out; echo err >&2; exit 3")).await;
    assert_eq!(ended.status, ProcessStatus::Exited(3));
    assert_eq!((text(&ended.stdout.head), ended.stdout.total), ("out\n", 4));
    assert_eq!((text(&ended.stderr.head), ended.stderr.total), ("err\n", 4));
    assert_eq!((ended.ended_by, ended.leftovers, ended.survivors), (None, 0, 0));
    bench.supervisor.close().await;
}

#[tokio::test]
async fn one_supervisor_runs_many_launches() {
    let mut bench = SupervisorFixture::new().await;
    let supervisor = bench.supervisor.id();
    for number in 0..50 {
        let ended = bench.run(&bench.sh(&format!("echo {number}; exit {number}"))).await;
        assert_eq!(ended.status, ProcessStatus::Exited(number));
        assert_eq!(text(&ended.stdout.head), format!("{number}\n"));
    }
    assert_eq!(bench.supervisor.id(), supervisor);
}

#[tokio::test]
async fn a_signal_is_a_status_of_its_own() {
    let mut bench = SupervisorFixture::new().await;
    let ended = bench.run(&bench.sh("kill -SEGV $$")).await;
    assert_eq!((ended.status.code(), ended.status), (139, ProcessStatus::Signaled(11)));
}

#[tokio::test]
async fn the_environment_is_the_one_of_the_launch() {
    let mut bench = SupervisorFixture::new().await;
    let mut launch = bench.sh("");
    launch.argv = vec!["env".into()];
    launch.env.push(("WORD".into(), "two words\nand a line".into()));
    let ended = bench.run(&launch).await;
    let printed = text(&ended.stdout.head);
    let mut names: Vec<_> = printed.lines().map(|line| line.split('=').next().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["PATH", "PRODIGY_SUPERVISOR", "TEST_MARK", "WORD", "and a line"]);
}

#[tokio::test]
async fn it_inherits_no_descriptor_no_core_dump_and_a_private_umask() {
    let mut bench = SupervisorFixture::new().await;
    let ended = bench.run(&bench.sh("umask; ulimit -c; ulimit -Hc; ls /proc/self/fd")).await;
    let printed = text(&ended.stdout.head);
    let fds = printed.strip_prefix("0077\n0\n0\n").unwrap();
    let fds: BTreeSet<u32> = fds.lines().map(|fd| fd.parse().unwrap()).collect();
    // The fourth is the directory that `ls` itself reads. What whoever started the tests left
    // open on purpose is passed on by everybody.
    let mut expected = BTreeSet::from([0, 1, 2, 3]);
    for entry in fs::read_dir("/proc/self/fdinfo").unwrap() {
        let entry = entry.unwrap();
        let info = fs::read_to_string(entry.path()).unwrap_or_default();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.map(|flags| u32::from_str_radix(flags.trim(), 8).unwrap());
        if flags.is_some_and(|flags| flags & 0o2_000_000 == 0) {
            expected.insert(entry.file_name().to_str().unwrap().parse().unwrap());
        }
    }
    assert_eq!(fds, expected);
}

#[tokio::test]
async fn input_arrives_whole_and_then_ends() {
    let mut bench = SupervisorFixture::new().await;
    let mut launch = bench.sh("wc -c");
    assert_eq!(text(&bench.run(&launch).await.stdout.head), "0\n");
    launch.stdin = vec![b'x'; 3 << 20];
    assert_eq!(text(&bench.run(&launch).await.stdout.head), "3145728\n");
}

#[tokio::test]
async fn a_program_that_does_not_read_its_input_ends_all_the_same() {
    let mut bench = SupervisorFixture::new().await;
    let mut launch = bench.sh("exit 4");
    launch.stdin = vec![b'x'; 3 << 20];
    assert_eq!(bench.run(&launch).await.status, ProcessStatus::Exited(4));
}

#[tokio::test]
async fn the_program_is_looked_up_in_the_launch_s_own_path() {
    let mut bench = SupervisorFixture::new().await;
    let tool = bench.path("bin/tool");
    fs::create_dir(bench.path("bin")).unwrap();
    fs::write(&tool, "#!/bin/sh\necho \"mine: $1\"\n").unwrap();
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
    let mut launch = bench.sh("");
    launch.argv = vec!["tool".into(), "x".into()];
    launch.env = vec![("PATH".into(), "/no/such/place:bin:/usr/bin".into())];
    assert_eq!(text(&bench.run(&launch).await.stdout.head), "mine: x\n");
    launch.argv = vec!["./bin/tool".into(), "y".into()];
    assert_eq!(text(&bench.run(&launch).await.stdout.head), "mine: y\n");
}

#[tokio::test]
async fn what_cannot_be_started_says_why() {
    let mut bench = SupervisorFixture::new().await;
    fs::write(bench.path("plain"), "no program").unwrap();
    let root = bench.directory.path().to_string_lossy().into_owned();
    let mut seen = String::new();
    let mut launch = bench.sh("");
    launch.env = vec![("PATH".into(), bench.directory.path().into())];
    for (program, directory) in [
        ("no-such-program", "."),
        ("./missing", "."),
        ("plain", "."),
        ("./plain", "."),
        ("sh", "gone"),
    ] {
        if program == "sh" {
            launch.env = vec![];
        }
        launch.argv = vec![program.into()];
        launch.cwd = bench.path(directory);
        let status = bench.run(&launch).await.status;
        let ProcessStatus::NotStarted { errno, message } = &status else { panic!("{status:?}") };
        let message = message.replace(&root, "$ROOT");
        writeln!(seen, "{} {errno:?} {message}", status.code()).unwrap();
    }
    launch.argv = vec![];
    writeln!(seen, "{:?}", bench.run(&launch).await.status).unwrap();
    assert_snapshot!(seen, @r#"
    127 Some(2) `no-such-program` is in no directory of PATH
    127 Some(2) cannot start `./missing`: No such file or directory (os error 2)
    126 Some(13) `$ROOT/plain` is not executable
    126 Some(13) cannot start `./plain`: Permission denied (os error 13)
    127 Some(2) the directory `$ROOT/gone` does not exist
    NotStarted { errno: None, message: "there is no program to start" }
    "#);
}

#[test]
fn a_person_is_told_that_the_command_is_not_for_people() {
    let world = TestEnv::new(PRODIGY);
    assert_snapshot!(world.prodigy(&["__supervise"]), @"
    ----- stderr -----
    error: `prodigy __supervise` is started by prodigy itself
      caused by: Socket operation on non-socket (os error 88)
    [exit 2]
    ");
}
