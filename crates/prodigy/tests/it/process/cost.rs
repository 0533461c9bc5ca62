//! What a launch costs on top of the bare program. Meaningful in release builds only.

use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use prodigy_engine::process::StopToken;

use super::SupervisorFixture;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement, to be run by hand with --release"]
async fn the_supervisor_adds_little_to_a_bare_start() {
    const LAUNCHES: usize = 2000;
    let mut bench = SupervisorFixture::new().await;
    let mut launch = bench.sh(":");
    launch.log = Some((bench.path("out"), bench.path("err")));
    launch.env.extend((0..40).map(|n| (format!("VARIABLE_{n}").into(), "x".repeat(60).into())));
    let stop = StopToken::new();
    let (mut bare, mut supervised) = (Vec::new(), Vec::new());
    // One after the other, so that both see the same machine.
    for _ in 0..LAUNCHES {
        let start = Instant::now();
        Command::new("/bin/sh")
            .args(["-c", ":"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap();
        bare.push(start.elapsed());
        let start = Instant::now();
        bench.try_run(&launch, &stop).await.unwrap();
        supervised.push(start.elapsed());
    }
    bare.sort_unstable();
    supervised.sort_unstable();
    for percent in [1, 10, 25, 50] {
        let at = LAUNCHES * percent / 100;
        let (bare, supervised) = (bare[at], supervised[at]);
        let added = supervised.saturating_sub(bare);
        println!("p{percent}: bare {bare:?}, supervised {supervised:?}, added {added:?}");
    }
    // A busy machine blurs everything but the fastest.
    let at = LAUNCHES / 10;
    assert!(supervised[at] < bare[at] + Duration::from_micros(150));
}
