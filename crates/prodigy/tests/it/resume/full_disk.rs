//! A disk that fills up: nothing finished is lost, and the job goes on when there is space again.

use insta::assert_snapshot;
use prodigy_testkit::TestEnv;
use regex::Regex;

use crate::fixture::workflow::{events, run, stable, world};

const STEPS: &str = "
- shell: echo one >> lines
- shell: printf '%.0sx' $(seq 20000); echo two >> lines
- shell: printf '%.0sx' $(seq 20000); echo three >> lines
- shell: git add lines && git commit --quiet -m lines
";

/// Runs `prodigy` with files of at most so many KiB, as on a disk that is full from there on.
fn limited(world: &TestEnv, kibibytes: u32, args: &[&str]) -> String {
    let mut command = world.command("sh");
    let script = format!("ulimit -f {}; exec \"$0\" \"$@\"", kibibytes * 2);
    command.args(["-c", &script, env!("CARGO_BIN_EXE_prodigy")]).args(args);
    named(&stable(&world.to_output(&command.output().unwrap())))
}

/// Takes the time out of the names of the journal's files.
fn named(text: &str) -> String {
    Regex::new(r"\d{8}T\d{6}Z").unwrap().replace_all(text, "[time]").into_owned()
}

#[test]
fn a_journal_that_cannot_be_written_pauses_the_job() {
    let world = world(STEPS);
    let run = ["run", "workflow.yml", "-y", "--job-id", "job"];
    assert_snapshot!(limited(&world, 32, &run), @"
    ----- stderr -----
    · job job · workflow.yml · 4 steps
    ✓ 1 shell: echo one >> lines  [time]
    ✓ 2 shell: printf '%.0sx' $(seq 20000); echo two >> lines  [time]
    error: job `job` is paused: its journal cannot be written: cannot write `$ROOT/home/events/repo/job/events-[time].jsonl`: File too large (os error 27)

    hint: `prodigy resume job` goes on once that is fixed
    [exit 1]
    ");
    assert_snapshot!(events(&world).join(" "), @"job_started worktree_created phase_started step_started step_completed step_started step_completed step_started");
    assert_snapshot!(limited(&world, 8, &["resume"]), @"
    ----- stderr -----
    error: job `job` is paused: its journal cannot be written: cannot write `$ROOT/home/events/repo/job/events-[time].jsonl`: File too large (os error 27)

    hint: `prodigy resume job` goes on once that is fixed
    [exit 1]
    ");
    assert_snapshot!(stable(&world.prodigy(&["resume"])), @"
    ----- stderr -----
    · job job resumed · 2 of 4 steps done
    the worktree was set back to where the step began; what it held is kept in `refs/prodigy/job/aside-1`
    ✓ 3 shell: printf '%.0sx' $(seq 20000); echo three >> lines  [time]
    ✓ 4 shell: git add lines && git commit --quiet -m lines  [time]

    completed · 4 of 4 steps
    merged into main at [commit]
    next: prodigy events job
    ");
    assert_eq!(world.read("lines"), "one\ntwo\nthree\n");
}

#[test]
fn a_disk_that_is_full_from_the_start_leaves_no_job() {
    let world = world(STEPS);
    let run = ["run", "workflow.yml", "-y", "--job-id", "job"];
    assert_snapshot!(limited(&world, 0, &run), @"
    ----- stderr -----
    error: cannot write `$ROOT/repo/.git/prodigy.id`: File too large (os error 27)
    [exit 1]
    ");
    assert!(!world.home().join("events/repo/job").exists());
    assert_snapshot!(world.prodigy(&["jobs"]), @"
    ----- stderr -----
    no jobs yet in this repository; `prodigy run WORKFLOW` starts one
    ");
    assert_snapshot!(stable(&world.prodigy(&run)), @"
    ----- stderr -----
    · job job · workflow.yml · 4 steps
    ✓ 1 shell: echo one >> lines  [time]
    ✓ 2 shell: printf '%.0sx' $(seq 20000); echo two >> lines  [time]
    ✓ 3 shell: printf '%.0sx' $(seq 20000); echo three >> lines  [time]
    ✓ 4 shell: git add lines && git commit --quiet -m lines  [time]

    completed · 4 of 4 steps
    merged into main at [commit]
    next: prodigy events job
    ");
}

#[test]
fn a_log_that_cannot_be_written_does_not_stop_the_step() {
    let world = world(
        "- shell: head -c 300000 /dev/zero | tr '\\0' x\n  on_success: { shell: echo fine }\n",
    );
    let run = ["run", "workflow.yml", "-y", "--job-id", "job"];
    assert_snapshot!(limited(&world, 200, &run), @r#"
    ----- stderr -----
    · job job · workflow.yml · 1 step
    ✓ 1 shell: head -c 300000 /dev/zero | tr '\0' x  [time]
    warning: the checkpoint was not written: cannot write `$ROOT/home/state/repo/mapreduce/jobs/job/checkpoint.json`: File too large (os error 27)

    completed · 1 of 1 step
    nothing to merge: the steps made no commit
    next: prodigy events job
    "#);
}

/// Runs `prodigy` in a home of so many KiB; returns `None` where that cannot be made.
fn on_a_small_disk(world: &TestEnv, kibibytes: u32, script: &str) -> Option<String> {
    let mut command = world.command("unshare");
    let script = format!(
        "mkdir -p \"$PRODIGY_HOME\" && mount -t tmpfs -o size={kibibytes}k,mode=700 none \"$PRODIGY_HOME\" || exit 99\n{script}"
    );
    command.args(["--mount", "sh", "-c", &script, env!("CARGO_BIN_EXE_prodigy")]);
    command.env("PRODIGY_DISK_FLOOR", "0");
    let seen = world.to_output(&command.output().ok()?);
    let cannot = seen.stderr.starts_with("unshare:") || seen.code == Some(99);
    (!cannot).then(|| named(&stable(&seen)))
}

#[test]
fn a_home_on_a_full_disk_pauses_and_resumes() {
    let world = world(
        "- shell: echo one >> lines\n\
         - name: fill the disk\n  shell: echo two >> lines; test -e ../full || head -c 100000000 /dev/zero > ../full; printf '%.0sx' $(seq 20000)\n\
         - shell: git add lines && git commit --quiet -m lines\n",
    );
    let script = r#"
        "$0" run workflow.yml -y --job-id job; echo "exit $?"
        "$0" run workflow.yml -y --job-id other; echo "exit $?"
        ls "$PRODIGY_HOME/events/repo"
        : > "$PRODIGY_HOME/worktrees/repo/job/full"
        "$0" resume; echo "exit $?"
    "#;
    let Some(seen) = on_a_small_disk(&world, 4096, script) else { return };
    assert_snapshot!(seen, @"
    exit 1
    exit 1
    job
    exit 0
    ----- stderr -----
    · job job · workflow.yml · 3 steps
    ✓ 1 shell: echo one >> lines  [time]
    error: job `job` is paused: its journal cannot be written: cannot write `$ROOT/home/events/repo/job/events-[time].jsonl`: No space left on device (os error 28)

    hint: `prodigy resume job` goes on once that is fixed
    error: cannot write `$ROOT/home/state/repo/mapreduce/jobs/other/workflow.yml`
      caused by: No space left on device (os error 28)

    hint: `prodigy doctor` checks the home
    · job job resumed · 1 of 3 steps done
    the worktree was set back to where the step began; what it held is kept in `refs/prodigy/job/aside-1`
    ✓ 2 fill the disk  [time]
    ✓ 3 shell: git add lines && git commit --quiet -m lines  [time]

    completed · 3 of 3 steps
    merged into main at [commit]
    next: prodigy events job
    ");
    assert_eq!(world.read("lines"), "one\ntwo\n");
}

#[test]
fn too_little_space_is_refused_before_anything_starts() {
    let world = world(STEPS).env("PRODIGY_DISK_FLOOR", "900000GiB");
    let free = Regex::new(r"only \d+ MiB").unwrap();
    assert_snapshot!(free.replace(&run(&world), "only [some] MiB"), @"
    ----- stderr -----
    error: only [some] MiB are free in `$ROOT/home`, and 921600000 MiB are wanted

    hint: make some room, or set `PRODIGY_DISK_FLOOR` lower
    [exit 1]
    ");
    assert!(!world.home().join("events").exists());
    assert_eq!(world.git(&["branch", "--list", "prodigy/*"]), "");
}

#[test]
fn space_that_runs_out_pauses_the_job_between_steps() {
    let world = world(
        "- shell: echo one >> lines; head -c 3000000 /dev/zero > ../ballast\n\
         - shell: echo two >> lines; git add lines; git commit --quiet -m lines\n",
    );
    let script = r#"
        export PRODIGY_DISK_FLOOR=2MiB
        "$0" run workflow.yml -y --job-id job; echo "exit $?"
        rm "$PRODIGY_HOME/worktrees/repo/job/ballast"
        "$0" resume; echo "exit $?"
    "#;
    let Some(seen) = on_a_small_disk(&world, 4096, script) else { return };
    let free = Regex::new(r"only \d+ MiB").unwrap();
    assert_snapshot!(free.replace_all(&seen, "only [some] MiB"), @"
    exit 1
    exit 0
    ----- stderr -----
    · job job · workflow.yml · 2 steps
    ✓ 1 shell: echo one >> lines; head -c 3000000 /dev/zero > ../ballast  [time]
    only [some] MiB are free in `$ROOT/home`, and 2 MiB are wanted

    paused: too little disk space is left · 1 of 2 steps done
    next: prodigy resume job
    · job job resumed · 1 of 2 steps done
    ✓ 2 shell: echo two >> lines; git add lines; git commit --quiet -m lin…  [time]

    completed · 2 of 2 steps
    merged into main at [commit]
    next: prodigy events job
    ");
    assert_eq!(world.read("lines"), "one\ntwo\n");
}

#[test]
fn git_that_finds_no_space_is_reported_with_the_cause() {
    let world = world("- shell: echo one\n");
    world.write("large.txt", "x".repeat(200_000));
    world.commit_all("Add a file");
    let script = "\"$0\" run workflow.yml -y --job-id job";
    let Some(seen) = on_a_small_disk(&world, 120, script) else { return };
    let free = Regex::new(r"only \d+ KiB").unwrap();
    assert_snapshot!(free.replace(&seen, "only [some] KiB"), @"
    ----- stderr -----
    · job job · workflow.yml · 1 step
    error: `git worktree` ended with 128: unable to write file large.txt: not enough space on the disk: only [some] KiB are free in `$ROOT/home/worktrees/repo/job`
    [exit 1]
    ");
}
