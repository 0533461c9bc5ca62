//! Programs that are listened to while they run.

use std::{
    fs,
    ops::ControlFlow,
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

use prodigy_engine::process::{
    Launch, LineSplitter, ProcessOutcome, ProcessStatus, StopToken, SupervisorClient,
    TerminationReason,
};

use super::{
    LONG, PRODIGY, SupervisorFixture,
    clients::{self, PROMISE},
    eventually, mark, marked, sh, text,
};

const SHORT: Duration = Duration::from_millis(300);

/// Returns a launch of a shell script that is listened to, with a log.
fn streamed(bench: &SupervisorFixture, script: &str) -> Launch {
    let log = Some((bench.path("log/out"), bench.path("log/err")));
    Launch { stream: true, log, log_cap: u64::MAX, ..bench.sh(script) }
}

/// Runs a launch, and returns how it ended and what was heard until `is_enough` of all that was.
async fn listen(
    bench: &mut SupervisorFixture,
    launch: &Launch,
    mut is_enough: impl FnMut(&str) -> bool + Send,
) -> (ProcessOutcome, String) {
    let mut heard = Vec::new();
    let ended = bench
        .supervisor
        .run_streaming(launch, &StopToken::new(), &mut |piece| {
            heard.extend_from_slice(piece);
            if is_enough(text(&heard)) {
                ControlFlow::Break(Duration::ZERO)
            } else {
                ControlFlow::Continue(())
            }
        })
        .await
        .unwrap();
    bench.assert_nothing_is_left();
    (ended, String::from_utf8(heard).unwrap())
}

#[tokio::test]
async fn output_is_heard_while_the_program_runs_and_is_stored_as_well() {
    let mut bench = SupervisorFixture::new().await;
    let script = "echo one; echo problem >&2; while ! [ -e heard ]; do sleep 0.01; done; echo two";
    let launch = streamed(&bench, script);
    let file = bench.path("heard");
    let (ended, heard) = listen(&mut bench, &launch, |heard| {
        if heard == "one\n" {
            fs::write(&file, "").unwrap();
        }
        false
    })
    .await;
    assert_eq!((ended.status, ended.ended_by), (ProcessStatus::Exited(0), None));
    assert_eq!(heard, "one\ntwo\n");
    assert_eq!(text(&ended.stdout.head), "one\ntwo\n");
    assert_eq!(text(&ended.stderr.head), "problem\n");
    assert_eq!(fs::read_to_string(bench.path("log/out")).unwrap(), "one\ntwo\n");
    assert_eq!((ended.stdout.log_at, ended.stdout.log_len), (0, 8));

    // The next launch is not heard unless it wants to be.
    let launch = bench.sh("echo three");
    let (_, heard) = listen(&mut bench, &launch, |_| false).await;
    assert_eq!(heard, "");
}

#[tokio::test]
async fn a_secret_is_masked_however_it_is_cut_into_pieces() {
    let mut bench = SupervisorFixture::new().await;
    let script = "for c in a s e c r e t - w o r d b; do printf $c; sleep 0.01; done
        printf '%s' secret-; head -c 70000 /dev/zero | tr '\\0' x; printf 'secret-word'; printf secret-w";
    let mut launch = streamed(&bench, script);
    launch.secrets = vec!["secret-word".into()];
    let (ended, heard) = listen(&mut bench, &launch, |_| false).await;
    let wanted = format!("a***bsecret-{}***secret-w", "x".repeat(70_000));
    assert!(heard == wanted, "{heard}");
    assert_eq!(fs::read_to_string(bench.path("log/out")).unwrap(), wanted);
    assert_eq!(ended.stdout.total, wanted.len() as u64);
}

#[tokio::test]
async fn enough_heard_ends_the_program_with_all_that_it_started() {
    let mut bench = SupervisorFixture::new().await;
    let mut launch = streamed(&bench, &format!("echo limit; {}", clients::STUBBORN));
    launch.grace = SHORT;
    let up = bench.path("up");
    let (ended, heard) = listen(&mut bench, &launch, |_| {
        eventually("the daemon is up", LONG, || up.exists());
        true
    })
    .await;
    assert_eq!(heard, "limit\n");
    assert_eq!(
        (ended.status, ended.ended_by),
        (ProcessStatus::Signaled(9), Some(TerminationReason::Listener))
    );
    assert_eq!(bench.run(&bench.sh("exit 6")).await.status, ProcessStatus::Exited(6));
}

#[tokio::test]
async fn what_the_program_says_while_it_ends_is_heard() {
    let mut bench = SupervisorFixture::new().await;
    let script = "trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.02; done";
    let launch = streamed(&bench, script);
    let (ended, heard) = listen(&mut bench, &launch, |heard| heard == "up\n").await;
    assert_eq!(
        (ended.status, ended.ended_by),
        (ProcessStatus::Exited(3), Some(TerminationReason::Listener))
    );
    assert_eq!(heard, "up\nbye\n");
}

#[tokio::test]
async fn a_program_that_is_over_is_not_ended_for_what_it_said() {
    let mut bench = SupervisorFixture::new().await;
    let launch = streamed(&bench, "echo last words");
    let mark = bench.mark.clone();
    let (ended, _) = listen(&mut bench, &launch, |_| {
        eventually("it is over", LONG, || marked(&mark).is_empty());
        true
    })
    .await;
    assert_eq!((ended.status, ended.ended_by), (ProcessStatus::Exited(0), None));
    // The request came too late, and does not hit the next one.
    assert_eq!(bench.run(&bench.sh("sleep 0.1; exit 6")).await.status, ProcessStatus::Exited(6));
}

#[tokio::test]
async fn limits_hold_for_a_program_that_is_listened_to() {
    let mut bench = SupervisorFixture::new().await;
    let mut launch = streamed(&bench, "echo up; exec sleep 100");
    launch.idle_timeout = Some(SHORT);
    assert_eq!(
        listen(&mut bench, &launch, |_| false).await.0.ended_by,
        Some(TerminationReason::Idle)
    );
    (launch.idle_timeout, launch.timeout) = (None, Some(SHORT));
    assert_eq!(
        listen(&mut bench, &launch, |_| false).await.0.ended_by,
        Some(TerminationReason::Timeout)
    );
}

#[tokio::test]
async fn a_slow_listener_holds_the_program_up_and_loses_nothing() {
    let mut bench = SupervisorFixture::new().await;
    // More than the pipe and the socket hold.
    let mut launch = streamed(&bench, "head -c 3000000 /dev/zero; : > done");
    launch.idle_timeout = Some(SHORT);
    let done = bench.path("done");
    let (mut heard, mut was_done_at_first) = (0, None);
    let ended = bench
        .supervisor
        .run_streaming(&launch, &StopToken::new(), &mut |piece| {
            if heard == 0 {
                std::thread::sleep(3 * SHORT);
                was_done_at_first = Some(done.exists());
            }
            heard += piece.len();
            ControlFlow::Continue(())
        })
        .await
        .unwrap();
    assert_eq!((ended.status, ended.ended_by), (ProcessStatus::Exited(0), None));
    assert_eq!((heard, was_done_at_first), (3_000_000, Some(false)));
    assert_eq!(fs::metadata(bench.path("log/out")).unwrap().len(), 3_000_000);
}

#[tokio::test]
async fn a_flood_drowns_neither_a_stop_nor_others_on_the_same_thread() {
    let mut bench = SupervisorFixture::new().await;
    let mut launch = streamed(&bench, "yes");
    launch.log = None;
    let stop = StopToken::new();
    let (since_turn, longest, all) =
        (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let mut listener = |piece: &[u8]| {
        // The next piece is always there before this one was heard.
        std::thread::sleep(Duration::from_millis(1));
        let since = since_turn.fetch_add(piece.len(), Relaxed) + piece.len();
        longest.fetch_max(since, Relaxed);
        if all.fetch_add(piece.len(), Relaxed) > 10 << 20 {
            stop.request();
        }
        assert!(all.load(Relaxed) < 20 << 20, "the stop was not heard");
        ControlFlow::Continue(())
    };
    let others = async {
        loop {
            since_turn.store(0, Relaxed);
            tokio::task::yield_now().await;
        }
    };
    let ended = tokio::select! {
        biased;
        ended = bench.supervisor.run_streaming(&launch, &stop, &mut listener) => ended.unwrap(),
        () = others => unreachable!(),
    };
    assert_eq!(ended.ended_by, Some(TerminationReason::Stop));
    let longest = longest.into_inner();
    assert!(longest < 1 << 20, "{longest} bytes without a turn for others");
}

#[tokio::test]
async fn a_flood_of_lines_costs_no_memory() {
    const LINES: u64 = 200_000;
    let mut bench = SupervisorFixture::new().await;
    // The program itself takes some, more if it was built for debugging.
    let before = bench.status("VmHWM");
    let line = "x".repeat(1023);
    let mut launch = streamed(&bench, &format!("yes {line} | head -n {LINES}"));
    launch.log_cap = 100_000;
    launch.timeout = Some(Duration::from_secs(120));
    let (mut lines, mut count) = (LineSplitter::default(), 0);
    let ended = bench
        .supervisor
        .run_streaming(&launch, &StopToken::new(), &mut |piece| {
            lines.feed(piece, |line| count += u64::from(line.len() == 1023));
            ControlFlow::Continue(())
        })
        .await
        .unwrap();
    assert_eq!((ended.status, count, lines.dropped()), (ProcessStatus::Exited(0), LINES, 0));
    assert_eq!((ended.stdout.total, ended.stdout.log_len), (LINES * 1024, 100_000));
    let grown = bench.status("VmHWM") - before;
    assert!(grown < 8_000, "the supervisor took {grown} KiB more");
}

#[test]
fn a_killed_listener_leaves_nothing_behind() {
    // One that takes all that it can get, and one that does not take any more.
    for is_stuck in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let mark = mark();
        let mut client =
            clients::start("process::streams::the_listener_of_other_tests", |client| {
                client.env("TEST_CLIENT", directory.path()).env("TEST_CLIENT_MARK", &mark);
                client.env("TEST_CLIENT_IS_STUCK", is_stuck.to_string());
            });
        eventually("something was heard", LONG, || directory.path().join("heard").exists());
        // The client, its supervisor, the program and the daemon.
        assert_eq!(marked(&mark).len(), 4, "{:?}", marked(&mark));
        client.kill().unwrap();
        client.wait().unwrap();
        eventually("nothing is left", PROMISE, || marked(&mark).is_empty());
    }
}

#[tokio::test]
#[ignore = "other tests start this in a process of its own"]
async fn the_listener_of_other_tests() {
    let Some(directory) = std::env::var_os("TEST_CLIENT").map(PathBuf::from) else { return };
    let mark = std::env::var("TEST_CLIENT_MARK").unwrap();
    let is_stuck = std::env::var("TEST_CLIENT_IS_STUCK").unwrap() == "true";
    let mut supervisor = SupervisorClient::start(PRODIGY.as_ref(), mark.as_ref()).await.unwrap();
    let script = "trap '' TERM; mkfifo never; exec 3<>never
        (setsid sh -c 'trap \"\" TERM; : > daemon; read line <&3' >/dev/null 2>&1 &)
        while ! [ -e daemon ]; do sleep 0.01; done
        while :; do echo something; done";
    let launch = Launch { stream: true, ..sh(script, &directory, &mark) };
    supervisor
        .run_streaming(&launch, &StopToken::new(), &mut |_| {
            fs::write(directory.join("heard"), "").unwrap();
            if is_stuck {
                std::thread::sleep(LONG);
            }
            ControlFlow::Continue(())
        })
        .await
        .unwrap();
}
