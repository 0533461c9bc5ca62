//! Jobs that were killed before their first record: they block nothing.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use insta::assert_snapshot;
use prodigy_testkit::TestEnv;
use rustix::process::{Pid, Signal, kill_process};

use crate::fixture::workflow::{stable, world};

const STEPS: &str = "
- shell: echo done >> lines && git add lines && git commit --quiet -m lines
";

/// The first record of a real job, cut in half.
const HALF: &str = r#"{"format":1,"seq":1,"timestamp":"2026-01-02T03:04:05Z","job_id":"jo"#;

/// A moment at which a job can be killed before its first record.
#[derive(Clone, Copy, Debug)]
enum UnstartedState {
    StateOnly,
    Directory,
    EmptyFile,
    HalfRecord,
}

const MOMENTS: [UnstartedState; 4] = [
    UnstartedState::StateOnly,
    UnstartedState::Directory,
    UnstartedState::EmptyFile,
    UnstartedState::HalfRecord,
];

/// Leaves behind what a job `job` that was killed at a moment leaves behind.
fn leave(world: &TestEnv, moment: UnstartedState) {
    let state = world.home().join("state/repo/mapreduce/jobs/job");
    fs::create_dir_all(&state).unwrap();
    write(&state.join("lock"), "process 1 on host since 2026-01-02T03:04:05Z\n");
    let events = world.home().join("events/repo/job");
    let segment = events.join("events-20260102T030405Z.jsonl");
    match moment {
        UnstartedState::StateOnly => {}
        UnstartedState::Directory => fs::create_dir_all(&events).unwrap(),
        UnstartedState::EmptyFile => {
            fs::create_dir_all(&events).unwrap();
            write(&segment, "");
        }
        UnstartedState::HalfRecord => {
            fs::create_dir_all(&events).unwrap();
            write(&segment, HALF);
        }
    }
    private(&world.home());
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
}

/// Makes the home one that nobody else can write to.
fn private(home: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(home, fs::Permissions::from_mode(0o700)).unwrap();
}

/// Runs the workflow as job `job`.
fn run(world: &TestEnv) -> String {
    stable(&world.prodigy(&["run", "workflow.yml", "-y", "--job-id", "job"]))
}

#[test]
fn a_job_that_never_began_is_started_under_the_same_id() {
    for moment in MOMENTS {
        let world = world(STEPS);
        leave(&world, moment);
        let seen = run(&world);
        assert!(seen.contains("completed · 1 of 1 step\n"), "{moment:?}: {seen}");
        assert_eq!(world.read("lines"), "done\n", "{moment:?}");
        let verified = world.prodigy(&["verify", "job"]);
        assert_eq!(verified.code, Some(0), "{moment:?}: {verified}");
    }
}

#[test]
fn the_torn_first_record_is_kept_aside_when_the_job_starts_again() {
    let world = world(STEPS);
    leave(&world, UnstartedState::HalfRecord);
    run(&world);
    let torn = world.home().join("events/repo/job/events-20260102T030405Z.jsonl.torn");
    assert_eq!(fs::read_to_string(torn).unwrap(), HALF);
}

#[test]
fn a_job_that_never_began_is_not_listed_and_not_resumed() {
    for moment in MOMENTS {
        let world = world(STEPS);
        leave(&world, moment);
        insta::allow_duplicates! {
            assert_snapshot!(world.prodigy(&["jobs"]), @"
            ----- stderr -----
            no jobs yet in this repository; `prodigy run WORKFLOW` starts one
            ");
            assert_snapshot!(world.prodigy(&["resume"]), @"
            ----- stderr -----
            error: this repository has no jobs

            hint: `prodigy run WORKFLOW` starts one
            [exit 2]
            ");
        }
    }
}

#[test]
fn bare_resume_passes_over_a_job_that_never_began() {
    let world = world("- shell: test -e ../go || exit 1\n");
    let failed = world.prodigy(&["run", "workflow.yml", "-y", "--job-id", "first"]);
    assert_eq!(failed.code, Some(1), "{failed}");
    for (name, text) in [("empty", ""), ("half", HALF)] {
        let events = world.home().join("events/repo").join(name);
        fs::create_dir_all(&events).unwrap();
        write(&events.join("events-20991231T235959Z.jsonl"), text);
    }
    let seen = world.prodigy(&["resume"]).to_string();
    assert!(seen.contains("job first resumed"), "{seen}");
    let seen = world.prodigy(&["events"]).to_string();
    assert!(seen.contains("job_failed"), "{seen}");
}

#[test]
fn commands_that_name_a_job_that_never_began_say_so() {
    for moment in [UnstartedState::Directory, UnstartedState::EmptyFile, UnstartedState::HalfRecord]
    {
        let world = world(STEPS);
        leave(&world, moment);
        for args in [
            ["resume", "job"].as_slice(),
            &["repair", "job"],
            &["repair", "job", "--dry-run"],
            &["verify", "job"],
            &["jobs", "show", "job"],
            &["events", "job"],
            &["logs", "job"],
            &["dlq", "retry", "job"],
            &["stop", "job"],
        ] {
            let seen = world.prodigy(args).to_string();
            let told = seen.replace("[exit 1]", "").replace("[exit 2]", "");
            assert_eq!(
                told.trim_end(),
                "----- stderr -----\nerror: job `job` never began: its process was killed before the first record\n\n\
                 hint: `prodigy run WORKFLOW --job-id job` starts it, `prodigy jobs rm job` removes it",
                "{moment:?} {args:?}"
            );
        }
    }
}

#[test]
fn a_job_whose_journal_was_emptied_after_it_began_is_not_taken_for_new() {
    let world = world("- shell: exit 1\n");
    let failed = run(&world);
    assert!(failed.contains("[exit 1]"), "{failed}");
    for path in journal(&world) {
        write(&path, "");
    }
    let seen = run(&world);
    assert!(seen.contains("there is already a job `job`"), "{seen}");
    assert_snapshot!(world.prodigy(&["resume"]), @"
    ----- stderr -----
    note: job `job` is passed over: its journal is damaged; see `prodigy repair job --dry-run`
    error: no job of this repository can be resumed

    hint: `prodigy jobs` lists the jobs
    [exit 2]
    ");
    assert_snapshot!(world.prodigy(&["repair", "job"]), @"
    ----- stderr -----
    error: the journal of job `job` is empty, so nothing of it can be kept

    hint: put the journal back from a backup
    [exit 1]
    ");
}

/// Returns the files of the job's journal.
fn journal(world: &TestEnv) -> Vec<PathBuf> {
    let files = fs::read_dir(world.home().join("events/repo/job")).unwrap();
    files.map(|file| file.unwrap().path()).collect()
}

/// Starts the workflow as job `job` and kills it as soon as a path is there.
fn kill_at(world: &TestEnv, path: &str) {
    let path = world.home().join(path);
    let mut command = world.prodigy_command(&["run", "workflow.yml", "-y", "--job-id", "job"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let start = Instant::now();
    while !path.exists() && child.try_wait().unwrap().is_none() {
        assert!(start.elapsed() < Duration::from_secs(60), "it never made {}", path.display());
        std::thread::yield_now();
    }
    if child.try_wait().unwrap().is_none() {
        kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    }
    child.wait().unwrap();
}

#[test]
fn a_job_killed_at_its_first_write_starts_again_or_goes_on() {
    for path in ["state/repo/mapreduce/jobs/job", "events/repo/job", "events/repo/job"] {
        let world = world(STEPS);
        kill_at(&world, path);
        // Whatever was on disk by then: a job that began is resumed, another one starts anew.
        let resumed = world.prodigy(&["resume", "job", "-y"]);
        if resumed.code != Some(0) {
            assert_eq!(resumed.code, Some(2), "{resumed}");
            let seen = run(&world);
            assert!(seen.contains("completed · 1 of 1 step\n"), "{seen}");
        }
        assert_eq!(world.read("lines"), "done\n");
    }
}
