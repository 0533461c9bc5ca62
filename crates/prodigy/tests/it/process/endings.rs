//! Programs that do not want to end.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use prodigy_engine::process::{ProcessStatus, StopToken, TerminationReason};

use super::{SupervisorFixture, eventually, text};

const SHORT: Duration = Duration::from_millis(300);
/// By then a program has made its preparations, on a machine that is not quite overwhelmed.
const PREPARED: Duration = Duration::from_secs(2);

#[tokio::test]
async fn a_program_that_ignores_the_request_is_killed_after_its_grace() {
    let mut bench = SupervisorFixture::new().await;
    let mut launch = bench.sh("trap '' TERM; while :; do sleep 100; done");
    (launch.timeout, launch.grace) = (Some(PREPARED), SHORT);
    let ended = bench.run(&launch).await;
    assert_eq!(
        (ended.status, ended.ended_by),
        (ProcessStatus::Signaled(9), Some(TerminationReason::Timeout))
    );
    assert!(ended.duration >= PREPARED + SHORT, "{:?}", ended.duration);
}

#[tokio::test]
async fn a_program_that_heeds_the_request_has_the_last_word() {
    let mut bench = SupervisorFixture::new().await;
    let mut launch = bench.sh("trap 'echo bye; exit 7' TERM; sleep 100 & wait");
    launch.timeout = Some(PREPARED);
    let ended = bench.run(&launch).await;
    assert_eq!(
        (ended.status, ended.ended_by),
        (ProcessStatus::Exited(7), Some(TerminationReason::Timeout))
    );
    assert_eq!(text(&ended.stdout.head), "bye\n");
    assert!(ended.duration < PREPARED + launch.grace, "{:?}", ended.duration);
}

#[tokio::test]
async fn a_program_that_stopped_itself_is_woken_and_ended() {
    let mut bench = SupervisorFixture::new().await;
    let mut launch = bench.sh("trap 'exit 8' TERM; kill -STOP $$; sleep 100");
    launch.timeout = Some(PREPARED);
    let ended = bench.run(&launch).await;
    assert_eq!(
        (ended.status, ended.ended_by),
        (ProcessStatus::Exited(8), Some(TerminationReason::Timeout))
    );
}

#[tokio::test]
async fn silence_and_slowness_are_told_apart() {
    let mut bench = SupervisorFixture::new().await;
    let mut launch = bench.sh("while :; do echo tick; sleep 0.05; done");
    launch.idle_timeout = Some(Duration::from_secs(2));
    launch.timeout = Some(Duration::from_secs(1));
    assert_eq!(bench.run(&launch).await.ended_by, Some(TerminationReason::Timeout));

    let mut launch = bench.sh("echo tick; sleep 100");
    launch.idle_timeout = Some(SHORT);
    assert_eq!(bench.run(&launch).await.ended_by, Some(TerminationReason::Idle));

    let mut launch = bench.sh("for i in 1 2 3 4 5 6; do echo tick >&2; sleep 0.5; done");
    launch.idle_timeout = Some(PREPARED);
    let ended = bench.run(&launch).await;
    assert_eq!((ended.ended_by, ended.status), (None, ProcessStatus::Exited(0)));
}

#[tokio::test]
async fn daemons_are_found_and_ended() {
    let mut bench = SupervisorFixture::new().await;
    let mark = &bench.mark;
    // Reading from a pipe that nobody writes to takes no further process.
    let script = format!(
        "mkfifo never; exec 3<>never
         (setsid sh -c 'trap \"\" TERM; : > one; read line <&3' >/dev/null 2>&1 &)
         (env -i setsid setsid sh -c ': > two; read line <&3' {mark} >/dev/null 2>&1 &)
         nohup sh -c ': > three; read line <&3' >/dev/null 2>&1 &
         until [ -e one ] && [ -e two ] && [ -e three ]; do sleep 0.01; done
         echo started"
    );
    let ended = bench.run(&bench.sh(&script)).await;
    assert_eq!((text(&ended.stdout.head), ended.status), ("started\n", ProcessStatus::Exited(0)));
    assert_eq!((ended.leftovers, ended.survivors, ended.ended_by), (3, 0, None));
}

#[tokio::test]
async fn a_process_that_holds_the_pipe_does_not_hold_the_launch() {
    let mut bench = SupervisorFixture::new().await;
    let start = Instant::now();
    let ended = bench.run(&bench.sh("sleep 100 & echo done")).await;
    assert_eq!((text(&ended.stdout.head), ended.status), ("done\n", ProcessStatus::Exited(0)));
    assert_eq!(ended.leftovers, 1);
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

#[tokio::test]
async fn late_output_of_a_child_is_still_read() {
    let mut bench = SupervisorFixture::new().await;
    let ended = bench.run(&bench.sh("(sleep 0.1; echo late) & echo early")).await;
    assert_eq!(text(&ended.stdout.head), "early\nlate\n");
    assert_eq!(ended.leftovers, 0);
}

#[tokio::test]
async fn a_crowd_that_left_the_group_is_ended() {
    let mut bench = SupervisorFixture::new().await;
    let script = "for i in $(seq 100); do setsid sh -c 'trap \"\" TERM; sleep 100; :' & done; wait";
    let mut launch = bench.sh(script);
    (launch.timeout, launch.grace) = (Some(Duration::from_secs(1)), SHORT);
    let ended = bench.run(&launch).await;
    assert_eq!((ended.ended_by, ended.survivors), (Some(TerminationReason::Timeout), 0));
}

#[tokio::test]
async fn a_process_that_runs_away_by_forking_is_caught() {
    let mut bench = SupervisorFixture::new().await;
    // It gives up by itself after a while, in case that nobody catches it.
    let script = r#"perl -e '
        $SIG{TERM} = "IGNORE";
        my $end = time + 20;
        while (time < $end) {
            open(my $trace, ">", "trace");
            my $child = fork;
            exit if $child;
            setpgrp;
        }'"#;
    let mut launch = bench.sh(script);
    launch.grace = SHORT;
    let ended = bench.run(&launch).await;
    assert_eq!((ended.status, ended.survivors), (ProcessStatus::Exited(0), 0));
    // A glance at the list of processes can miss it, but not its trace.
    fs::remove_file(bench.path("trace")).unwrap();
    std::thread::sleep(SHORT);
    assert!(!bench.path("trace").exists(), "it is still running");
}

#[tokio::test]
async fn a_stop_asks_and_a_second_one_kills() {
    for (twice, status) in [(false, ProcessStatus::Exited(7)), (true, ProcessStatus::Signaled(9))] {
        let mut bench = SupervisorFixture::new().await;
        let handler = if twice { "echo no > heard" } else { "exit 7" };
        let script = format!("trap '{handler}' TERM; : > up; while :; do sleep 0.05; done");
        let mut launch = bench.sh(&script);
        launch.grace = Duration::from_secs(600);
        let (up, heard) = (bench.path("up"), bench.path("heard"));
        let stop = StopToken::new();
        let asking = {
            let stop = stop.clone();
            std::thread::spawn(move || {
                eventually("the program is up", super::LONG, || up.exists());
                stop.request();
                if twice {
                    eventually("the program heard it", super::LONG, || heard.exists());
                    stop.request_now();
                }
            })
        };
        let ended = bench.try_run(&launch, &stop).await.unwrap();
        bench.assert_nothing_is_left();
        asking.join().unwrap();
        assert_eq!((ended.status, ended.ended_by), (status, Some(TerminationReason::Stop)));
    }
}

#[tokio::test]
async fn nothing_is_started_after_a_stop() {
    let mut bench = SupervisorFixture::new().await;
    let stop = StopToken::new();
    stop.request();
    let ended = bench.try_run(&bench.sh(": > started"), &stop).await.unwrap();
    assert_eq!(ended.ended_by, Some(TerminationReason::Stop));
    assert!(!bench.path("started").exists());
}

#[tokio::test]
async fn zombies_are_reaped_while_the_program_runs() {
    let mut bench = SupervisorFixture::new().await;
    // Each of them is handed to the supervisor when its parent is gone, and ends at once.
    let script = "for i in 1 2 3 4 5 6 7 8 9 10; do (sleep 0.01 & ) ; done; sleep 2.5
         cat /proc/$PPID/task/$PPID/children | wc -w";
    let ended = bench.run(&bench.sh(script)).await;
    assert_eq!(text(&ended.stdout.head), "1\n");
}

#[tokio::test]
async fn a_supervisor_that_its_program_stopped_is_given_up() {
    let mut bench = SupervisorFixture::new().await;
    let mut launch = bench.sh("kill -STOP $PPID; : > up; exec sleep 100");
    launch.grace = Duration::ZERO;
    let up = bench.path("up");
    let id = bench.supervisor.id().unwrap();
    let stop = StopToken::new();
    let asking = {
        let stop = stop.clone();
        std::thread::spawn(move || {
            eventually("the program is up", super::LONG, || up.exists());
            stop.request();
        })
    };
    let start = Instant::now();
    let error = bench.try_run(&launch, &stop).await.unwrap_err();
    asking.join().unwrap();
    insta::assert_snapshot!(error, @"the supervisor of the step is gone; 1 processes of the step were ended");
    assert!(start.elapsed() < super::LONG);
    bench.assert_nothing_is_left();
    assert!(!Path::new(&format!("/proc/{id}")).exists());
}
