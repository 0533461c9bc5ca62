//! What happens when one of the two sides dies.

use std::{
    fs,
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use prodigy_engine::process::{JOB_MARKER, StopToken, SupervisorClient, kill_job_processes};

use super::{LONG, PRODIGY, SupervisorFixture, eventually, mark, marked, sh};

/// A step that resists in every way: it ignores the request, and so does its daemon.
///
/// Reading from a pipe that nobody writes to takes no further process, so there are two.
pub(super) const STUBBORN: &str = "trap '' TERM; mkfifo never; exec 3<>never
     (setsid sh -c 'trap \"\" TERM; : > daemon; read line <&3' >/dev/null 2>&1 &)
     while ! [ -e daemon ]; do sleep 0.01; done
     : > up; read line <&3";

/// No process of a job may outlive prodigy by more than this.
pub(super) const PROMISE: Duration = Duration::from_secs(15);

#[tokio::test]
async fn dropping_the_supervisor_ends_everything() {
    let mut bench = SupervisorFixture::new().await;
    let mut launch = bench.sh(STUBBORN);
    launch.grace = Duration::from_millis(300);
    let up = bench.path("up");
    let stop = StopToken::new();
    tokio::select! {
        ended = bench.supervisor.run(&launch, &stop) => panic!("{ended:?}"),
        () = async { while !up.exists() { tokio::time::sleep(Duration::from_millis(5)).await; } } => {}
    }
    let id = bench.supervisor.id().unwrap();
    drop(bench.supervisor);
    eventually("nothing is left", PROMISE, || marked(&bench.mark).is_empty());
    eventually("the supervisor is reaped", LONG, || !Path::new(&format!("/proc/{id}")).exists());
}

#[tokio::test]
async fn a_launch_that_was_let_go_half_way_ends_and_no_other_begins() {
    let mut bench = SupervisorFixture::new().await;
    let launch = bench.sh("exec sleep 100");
    let stop = StopToken::new();
    tokio::select! {
        ended = bench.supervisor.run(&launch, &stop) => panic!("{ended:?}"),
        () = async { while marked(&bench.mark).is_empty() { tokio::task::yield_now().await; } } => {}
    }
    let error = bench.try_run(&bench.sh(": > started"), &stop).await.unwrap_err();
    insta::assert_snapshot!(error, @"the supervisor of the step is gone; 0 processes of the step were ended");
    bench.assert_nothing_is_left();
    assert!(!bench.path("started").exists());
}

#[tokio::test]
async fn a_killed_supervisor_leaves_nothing_behind() {
    let mut bench = SupervisorFixture::new().await;
    let mut launch = bench.sh(STUBBORN);
    launch.grace = Duration::from_millis(300);
    let up = bench.path("up");
    let id = bench.supervisor.id().unwrap();
    let killing = std::thread::spawn(move || {
        eventually("the step is up", LONG, || up.exists());
        kill(id);
    });
    let error = bench.try_run(&launch, &StopToken::new()).await.unwrap_err();
    killing.join().unwrap();
    bench.assert_nothing_is_left();
    insta::assert_snapshot!(error, @"the supervisor of the step is gone; 2 processes of the step were ended");
}

#[test]
fn a_closed_socket_ends_everything() {
    let directory = tempfile::tempdir().unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mark = mark();
    let mut supervisor = Command::new(PRODIGY)
        .arg("__supervise")
        .env("TEST_MARK", &mark)
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .spawn()
        .unwrap();
    assert_eq!(marked(&mark).len(), 1);
    drop(ours);
    assert!(supervisor.wait().unwrap().success());
    assert_eq!(marked(&mark), [""; 0]);
    drop(directory);
}

#[test]
fn a_killed_prodigy_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let mark = mark();
    let mut client = client(directory.path(), &mark);
    eventually("the step is up", LONG, || directory.path().join("up").exists());
    // The client, its supervisor, the step and the daemon.
    assert_eq!(marked(&mark).len(), 4, "{:?}", marked(&mark));
    client.kill().unwrap();
    client.wait().unwrap();
    eventually("nothing is left", PROMISE, || marked(&mark).is_empty());
}

#[test]
fn leftovers_of_a_job_are_ended_after_its_supervisors_had_their_chance() {
    let directory = tempfile::tempdir().unwrap();
    let job = mark();
    let mut client = client(directory.path(), &job);
    eventually("the step is up", LONG, || directory.path().join("up").exists());
    // What no supervisor knows of: it was started elsewhere with the marks of the job.
    let mut stray = Command::new("sleep")
        .arg("1000")
        .envs([(JOB_MARKER, &*job), ("PRODIGY_AUTOMATION", "true")])
        .spawn()
        .unwrap();
    let mut other = Command::new("sleep")
        .arg("1000")
        .envs([(JOB_MARKER, &*format!("{job}0")), ("PRODIGY_AUTOMATION", "true")])
        .spawn()
        .unwrap();
    client.kill().unwrap();
    client.wait().unwrap();
    let ended = kill_job_processes(Path::new(&job), Duration::from_millis(300));
    stray.wait().unwrap();
    assert!(other.try_wait().unwrap().is_none(), "a process of another job was ended");
    other.kill().unwrap();
    other.wait().unwrap();
    assert_eq!(ended, 1);
    eventually("its supervisor ended the rest", PROMISE, || marked(&job).is_empty());
}

/// Starts this test binary as the process that a supervisor works for.
fn client(directory: &Path, mark: &str) -> std::process::Child {
    start("process::clients::the_client_of_other_tests", |client| {
        client.env("TEST_CLIENT", directory).env("TEST_CLIENT_MARK", mark);
    })
}

/// Starts one test of this binary in a process of its own.
pub(super) fn start(test: &str, set: impl FnOnce(&mut Command)) -> std::process::Child {
    let mut client = Command::new(std::env::current_exe().unwrap());
    set(client.args(["--exact", test, "--ignored"]));
    client.stdout(Stdio::null()).spawn().unwrap()
}

#[tokio::test]
#[ignore = "other tests start this in a process of its own"]
async fn the_client_of_other_tests() {
    let Some(directory) = std::env::var_os("TEST_CLIENT").map(PathBuf::from) else { return };
    let mark = std::env::var("TEST_CLIENT_MARK").unwrap();
    let mut supervisor =
        SupervisorClient::start(Path::new(PRODIGY), Path::new(&mark)).await.unwrap();
    let mut launch = sh(STUBBORN, &directory, &mark);
    launch.env.push((JOB_MARKER.into(), mark.into()));
    launch.env.push(("PRODIGY_AUTOMATION".into(), "true".into()));
    supervisor.run(&launch, &StopToken::new()).await.unwrap();
    fs::write(directory.join("survived"), "").unwrap();
}

fn kill(id: u32) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(id).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}
