//! Runs that are stopped, killed or damaged half-way, and what `prodigy resume` makes of them.

use std::{
    fs,
    io::Write as _,
    path::PathBuf,
    time::{Duration, Instant},
};

use insta::assert_snapshot;
use prodigy_testkit::{CommandOutput, TestEnv};
use regex::Regex;
use rustix::process::Signal;

use crate::{
    fixture::workflow::{SpawnedProdigy, events, journal, run, stable, world},
    process::{eventually, marked},
};

const LONG: Duration = Duration::from_secs(15);

/// Makes a world whose third step says `begun` and then waits for `gate`, both beside the repository.
///
/// Each step adds a line; the last one commits them.
pub(crate) fn gated(hold: &str) -> TestEnv {
    let world = world("- shell: 'true'\n");
    let root = world.root().display().to_string();
    world.write(
        "workflow.yml",
        format!(
            r#"
- shell: echo one >> lines
- shell: echo kept word; echo two >> lines
  capture: said
- name: wait for the gate
  shell: 'echo three >> lines; test -e {root}/gate || {{ touch {root}/begun; {hold}; }}'
- shell: echo "four ${{said}}" >> lines
- shell: git add lines && git commit --quiet --message lines
"#
        ),
    );
    world.commit_all("Hold the third step");
    world.env("PRODIGY_GRACE", "500ms")
}

/// Starts the workflow and waits until its third step holds.
pub(crate) fn start(world: &TestEnv) -> SpawnedProdigy {
    let mut started = SpawnedProdigy::new(world, &["run", "workflow.yml", "-y", "--job-id", "job"]);
    started.until(world, "the step begins", || begun(world).exists());
    started
}

/// Resumes the job and waits until its third step holds again.
fn start_again(world: &TestEnv) -> SpawnedProdigy {
    fs::remove_file(begun(world)).unwrap();
    let mut started = SpawnedProdigy::new(world, &["resume", "job"]);
    started.until(world, "the step begins again", || begun(world).exists());
    started
}

pub(crate) fn begun(world: &TestEnv) -> PathBuf {
    world.root().join("begun")
}

/// Lets the third step pass from now on.
pub(crate) fn open_gate(world: &TestEnv) {
    fs::write(world.root().join("gate"), "").unwrap();
}

fn resume(world: &TestEnv) -> String {
    stable(&world.prodigy(&["resume", "job"]))
}

/// Checks that every step did its work once.
#[track_caller]
pub(crate) fn assert_done_once(world: &TestEnv) {
    assert_eq!(world.read("lines"), "one\ntwo\nthree\nfour kept word\n");
    assert_nothing_runs(world);
}

#[track_caller]
pub(crate) fn assert_nothing_runs(world: &TestEnv) {
    assert_eq!(marked(&world.root().display().to_string()), [""; 0]);
}

#[test]
fn ctrl_c_ends_the_children_and_resume_goes_on() {
    let world = gated("sleep 300");
    let started = start(&world);
    started.signal(Signal::INT);
    assert_snapshot!(stable(&started.seen(&world)), @"
    ----- stderr -----
    · job job · workflow.yml · 5 steps
    ✓ 1 shell: echo one >> lines  [time]
    ✓ 2 shell: echo kept word; echo two >> lines  [time]

    paused: stopped by Ctrl-C · 2 of 5 steps done
    next: prodigy resume job
    [exit 130]
    ");
    assert_nothing_runs(&world);
    assert_snapshot!(events(&world).join(" "), @"job_started worktree_created phase_started step_started step_completed step_started step_completed step_started job_paused");
    open_gate(&world);
    assert_snapshot!(resume(&world), @r#"
    ----- stderr -----
    · job job resumed · 2 of 5 steps done
    the worktree was set back to where the step began; what it held is kept in `refs/prodigy/job/aside-1`
    ✓ 3 wait for the gate  [time]
    ✓ 4 shell: echo "four ${said}" >> lines  [time]
    ✓ 5 shell: git add lines && git commit --quiet --message lines  [time]

    completed · 5 of 5 steps
    merged into main at [commit]
    next: prodigy events job
    "#);
    assert_done_once(&world);
    assert_snapshot!(resume(&world), @"
    ----- stderr -----
    job `job` is already completed
    next: prodigy jobs show job
    ");
}

#[test]
fn a_second_ctrl_c_does_not_wait() {
    let world = gated("trap \"\" TERM INT; sleep 300; sleep 300").env("PRODIGY_GRACE", "60s");
    let started = start(&world);
    started.signal(Signal::INT);
    started.signal(Signal::INT);
    let asked = Instant::now();
    // Two equal signals may arrive as one.
    eventually("it ends", LONG, || {
        started.signal(Signal::INT);
        asked.elapsed() > Duration::from_millis(200)
    });
    let seen = started.seen(&world);
    assert!(asked.elapsed() < LONG, "{:?}", asked.elapsed());
    assert_snapshot!(stable(&seen), @"
    ----- stderr -----
    · job job · workflow.yml · 5 steps
    ✓ 1 shell: echo one >> lines  [time]
    ✓ 2 shell: echo kept word; echo two >> lines  [time]

    paused: stopped by Ctrl-C · 2 of 5 steps done
    next: prodigy resume job
    [exit 130]
    ");
    assert_nothing_runs(&world);
    open_gate(&world);
    assert_eq!(world.prodigy(&["resume", "job"]).code, Some(0));
    assert_done_once(&world);
}

#[test]
fn other_signals_stop_a_run_too() {
    for signal in [Signal::TERM, Signal::HUP] {
        let world = gated("trap \"\" TERM; sleep 300; sleep 300");
        let started = start(&world);
        started.signal(signal);
        let seen = stable(&started.seen(&world));
        let ending: Vec<_> = seen.lines().skip(5).collect();
        let paused = "paused: stopped by a signal · 2 of 5 steps done";
        assert_eq!(ending, [paused, "next: prodigy resume job", "[exit 143]"]);
        assert_nothing_runs(&world);
        open_gate(&world);
        assert_eq!(world.prodigy(&["resume", "job"]).code, Some(0));
        assert_done_once(&world);
    }
}

#[test]
fn nothing_outlives_a_killed_run() {
    let world = gated(
        "( trap \"\" TERM; sleep 300; sleep 301 ) & \
         env -i PATH=\"$PATH\" setsid --fork sh -c \"sleep 302; : $PRODIGY_WORKTREE\"; \
         sh -c \"kill -STOP \\$\\$; : $PRODIGY_WORKTREE\" & \
         wait",
    );
    let root = world.root().display().to_string();
    let started = start(&world);
    eventually("all of them run", LONG, || marked(&root).len() >= 6);
    started.signal(Signal::KILL);
    started.seen(&world);
    eventually("everything is gone", LONG, || marked(&root).is_empty());
    open_gate(&world);
    assert_snapshot!(resume(&world), @r#"
    ----- stderr -----
    · job job resumed · 2 of 5 steps done
    the worktree was set back to where the step began; what it held is kept in `refs/prodigy/job/aside-1`
    ✓ 3 wait for the gate  [time]
    ✓ 4 shell: echo "four ${said}" >> lines  [time]
    ✓ 5 shell: git add lines && git commit --quiet --message lines  [time]

    completed · 5 of 5 steps
    merged into main at [commit]
    next: prodigy events job
    "#);
    assert_done_once(&world);
}

#[test]
fn a_first_step_that_was_cut_off_starts_from_the_beginning() {
    let world = world("- shell: 'true'\n").env("PRODIGY_GRACE", "500ms");
    let root = world.root().display().to_string();
    let text = "- name: hold\n  shell: echo one >> lines; git add lines; git commit --quiet -m half; echo more > more; test -e ROOT/gate || { touch ROOT/begun; sleep 300; }\n";
    world.write("workflow.yml", text.replace("ROOT", &root));
    let started = start(&world);
    started.signal(Signal::KILL);
    started.seen(&world);
    open_gate(&world);
    assert_snapshot!(resume(&world), @"
    ----- stderr -----
    · job job resumed · 0 of 1 step done
    the worktree was set back to where the step began; what it held is kept in `refs/prodigy/job/aside-1`
    ✓ 1 hold  [time]

    completed · 1 of 1 step
    merged into main at [commit]
    kept: 1 uncommitted file of the job; `git cherry-pick --no-commit refs/prodigy/job/kept/job` applies it
    next: prodigy events job
    ");
    assert_eq!(world.read("lines"), "one\n");
    assert_nothing_runs(&world);
}

#[test]
fn a_job_of_the_same_name_elsewhere_is_left_alone() {
    let (here, elsewhere) = (gated("sleep 300"), gated("sleep 300"));
    let started = start(&here);
    started.signal(Signal::KILL);
    started.seen(&here);
    let mut other = start(&elsewhere);
    open_gate(&here);
    assert_eq!(world_resumes(&here), Some(0));
    open_gate(&elsewhere);
    let alive = || !marked(&elsewhere.root().display().to_string()).is_empty();
    other.until(&elsewhere, "it still runs", alive);
    other.signal(Signal::INT);
    assert_eq!(other.seen(&elsewhere).code, Some(130));
    assert_eq!(world_resumes(&elsewhere), Some(0));
    assert_done_once(&here);
    assert_done_once(&elsewhere);
}

/// Resumes the job and returns the exit code.
fn world_resumes(world: &TestEnv) -> Option<i32> {
    world.prodigy(&["resume", "job"]).code
}

#[test]
fn one_of_two_resumes_works_and_the_other_names_it() {
    let world = gated("sleep 300");
    let started = start(&world);
    started.signal(Signal::KILL);
    started.seen(&world);
    let first = start_again(&world);
    let holder = format!("process {} on ", first.pid().as_raw_nonzero());
    let second = stable(&world.prodigy(&["resume", "job"])).replace(&holder, "process [first] on ");
    let since = Regex::new(r"on \S+ since \S+").unwrap();
    assert_snapshot!(since.replace(&second, "on [host] since [time]"), @"
    ----- stderr -----
    error: job `job` is held by process [first] on [host] since [time]

    hint: `prodigy events job --follow` shows what it does
    [exit 75]
    ");
    open_gate(&world);
    first.signal(Signal::INT);
    assert_eq!(first.seen(&world).code, Some(130));
    assert_eq!(world.prodigy(&["resume", "job"]).code, Some(0));
    assert_done_once(&world);
}

#[test]
fn the_workflow_of_the_beginning_is_used_unless_asked_otherwise() {
    let world = world("- shell: echo one >> lines\n- shell: test -e ../mended\n");
    assert_eq!(run(&world).lines().last(), Some("[exit 1]"));
    world.write(
        "workflow.yml",
        "- shell: echo one >> lines\n- shell: echo new >> lines && git add . && git commit --quiet -m new\n",
    );
    assert_snapshot!(resume(&world), @"
    ----- stderr -----
    note: `workflow.yml` has changed since the job began; the stored one is used (`--use-current-workflow` takes the new one)
    · job job resumed · 1 of 2 steps done
    ✗ 2 shell: test -e ../mended: exit code 1

    failed at step 2: exit code 1 · 1 of 2 steps done
    worktree: $ROOT/home/worktrees/repo/job/job (branch prodigy/job/job)
    output: prodigy logs job 2
    next: prodigy resume job
    [exit 1]
    ");
    assert_snapshot!(stable(&world.prodigy(&["resume", "--use-current-workflow"])), @"
    ----- stderr -----
    · job job resumed · 1 of 2 steps done
    ✓ 2 shell: echo new >> lines && git add . && git commit --quiet -m new  [time]

    completed · 2 of 2 steps
    merged into main at [commit]
    next: prodigy events job
    ");
    assert_eq!(world.read("lines"), "one\nnew\n");
}

#[test]
fn a_workflow_that_cannot_be_used_is_not_stored() {
    let world = world("- shell: echo one >> lines\n- shell: 'true'\n- shell: test -e ../mended\n");
    assert_eq!(run(&world).lines().last(), Some("[exit 1]"));
    let stored = world.home().join("state/repo/mapreduce/jobs/job/sources.json");
    let before = fs::read_to_string(&stored).unwrap();
    world.write(
        "workflow.yml",
        "mode: mapreduce\nmap: { input: { items: [a] }, agent_template: [{ shell: echo other }] }\n",
    );
    assert_snapshot!(stable(&world.prodigy(&["resume", "--use-current-workflow"])), @"
    ----- stderr -----
    error: the workflow is of another kind now

    hint: leave out `--use-current-workflow`
    [exit 2]
    ");
    assert_eq!(fs::read_to_string(&stored).unwrap(), before);
}

#[test]
fn a_second_job_of_the_same_name_leaves_the_first_alone() {
    let world = world("- shell: test -e ../mended\n");
    assert_eq!(run(&world).lines().last(), Some("[exit 1]"));
    let stored = world.home().join("state/repo/mapreduce/jobs/job/sources.json");
    let before = fs::read_to_string(&stored).unwrap();
    world.write("workflow.yml", "- shell: echo other\n");
    assert_snapshot!(run(&world), @"
    ----- stderr -----
    note: 1 uncommitted change in your checkout is not part of this run
    error: there is already a job `job`

    hint: `prodigy jobs show job` shows the one that has the name
    [exit 2]
    ");
    assert_eq!(fs::read_to_string(&stored).unwrap(), before);
}

#[test]
fn a_torn_end_is_cut_said_and_kept() {
    let world = gated("sleep 300");
    let started = start(&world);
    started.signal(Signal::INT);
    assert_eq!(started.seen(&world).code, Some(130));
    let file = journal(&world).pop().unwrap();
    let mut file = fs::File::options().append(true).open(file).unwrap();
    file.write_all(b"{\"format\":1,\"seq\":99,\"timest").unwrap();
    open_gate(&world);
    assert_snapshot!(journal_named(&resume(&world)), @r#"
    ----- stderr -----
    the last record of the journal was cut off: `$ROOT/home/events/repo/job/events-[time].jsonl` line 10 was saved to `$ROOT/home/events/repo/job/events-[time].jsonl.torn`
    · job job resumed · 2 of 5 steps done
    the worktree was set back to where the step began; what it held is kept in `refs/prodigy/job/aside-1`
    ✓ 3 wait for the gate  [time]
    ✓ 4 shell: echo "four ${said}" >> lines  [time]
    ✓ 5 shell: git add lines && git commit --quiet --message lines  [time]

    completed · 5 of 5 steps
    merged into main at [commit]
    next: prodigy events job
    "#);
    assert_done_once(&world);
    let directory = world.home().join("events/repo/job");
    let kept = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let kept: Vec<_> = kept.filter(|path| path.extension().unwrap() == "torn").collect();
    assert_eq!(kept.len(), 1);
    assert_eq!(fs::read_to_string(&kept[0]).unwrap(), "{\"format\":1,\"seq\":99,\"timest");
}

#[test]
fn damage_before_the_end_is_refused_and_repair_helps() {
    let world = gated("sleep 300");
    let started = start(&world);
    started.signal(Signal::INT);
    assert_eq!(started.seen(&world).code, Some(130));
    let file = journal(&world).pop().unwrap();
    let text = fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let mut damaged = lines.clone();
    let broken = damaged[6].replacen("seq", "sQq", 1);
    damaged[6] = &broken;
    fs::write(&file, damaged.join("\n") + "\n").unwrap();
    let before = fs::read(&file).unwrap();
    assert_snapshot!(journal_named(&resume(&world)), @"
    ----- stderr -----
    error: `$ROOT/home/events/repo/job/events-[time].jsonl` is damaged at line 7: the checksum does not match

    hint: `prodigy repair job --dry-run` says what can be kept
    [exit 1]
    ");
    assert_eq!(fs::read(&file).unwrap(), before);
    open_gate(&world);
    let repaired = world.prodigy(&["repair", "job"]);
    assert_snapshot!(journal_named(&stable(&repaired)), @"
    $ROOT/home/events/repo/job/events-[time].jsonl line 7: the checksum does not match
    kept 6 records
    left out: 2 records behind the damage
    the journal as it was is in $ROOT/home/events/repo/job~damaged-[time]
    ----- stderr -----

    next: `prodigy resume job` goes on from the last record kept
    ");
    assert_snapshot!(journal_named(&resume(&world)), @r#"
    ----- stderr -----
    · job job resumed · 1 of 5 steps done
    the worktree was set back to where the step began; what it held is kept in `refs/prodigy/job/aside-1`
    ✓ 2 shell: echo kept word; echo two >> lines  [time]
    ✓ 3 wait for the gate  [time]
    ✓ 4 shell: echo "four ${said}" >> lines  [time]
    ✓ 5 shell: git add lines && git commit --quiet --message lines  [time]

    completed · 5 of 5 steps
    merged into main at [commit]
    next: prodigy events job
    "#);
    assert_done_once(&world);
}

/// Takes the time out of the names of the journal's files.
fn journal_named(text: &str) -> String {
    let text = Regex::new(r"\d{8}T\d{6}Z").unwrap().replace_all(text, "[time]").into_owned();
    Regex::new(r"\d{8}-\d{6}").unwrap().replace_all(&text, "[time]").into_owned()
}

#[test]
fn a_worktree_that_was_deleted_is_made_again() {
    let world = gated("sleep 300");
    let started = start(&world);
    started.signal(Signal::INT);
    assert_eq!(started.seen(&world).code, Some(130));
    fs::remove_dir_all(world.home().join("worktrees/repo/job")).unwrap();
    open_gate(&world);
    assert_snapshot!(resume(&world), @r#"
    ----- stderr -----
    · job job resumed · 2 of 5 steps done
    ✓ 3 wait for the gate  [time]
    ✓ 4 shell: echo "four ${said}" >> lines  [time]
    ✓ 5 shell: git add lines && git commit --quiet --message lines  [time]

    completed · 5 of 5 steps
    merged into main at [commit]
    next: prodigy events job
    "#);
    assert_done_once(&world);
}

#[test]
fn a_worktree_deleted_after_a_failure_holds_what_earlier_steps_left() {
    let text = "- shell: echo one > lines\n- shell: test -e ROOT/gate\n- shell: cat lines && git add lines && git commit --quiet -m lines\n";
    let world = world("- shell: 'true'\n");
    world.write("workflow.yml", text.replace("ROOT", &world.root().display().to_string()));
    assert_eq!(run(&world).lines().last(), Some("[exit 1]"));
    fs::remove_dir_all(world.home().join("worktrees/repo/job")).unwrap();
    open_gate(&world);
    assert_snapshot!(resume(&world), @"
    ----- stderr -----
    · job job resumed · 1 of 3 steps done
    ✓ 2 shell: test -e $ROOT/gate  [time]
    ✓ 3 shell: cat lines && git add lines && git commit --quiet -m lines  [time]

    completed · 3 of 3 steps
    merged into main at [commit]
    next: prodigy events job
    ");
    assert_eq!(world.read("lines"), "one\n");
}

#[test]
fn a_worktree_deleted_before_the_merge_comes_back_whole() {
    let world =
        world("- shell: echo x > x && git add x && git commit --quiet -m x && echo y > y\n");
    let seen = world.prodigy(&["run", "workflow.yml", "--job-id", "job"]);
    assert_eq!(seen.code, Some(7));
    fs::remove_dir_all(world.home().join("worktrees")).unwrap();
    assert_snapshot!(stable(&world.prodigy(&["resume", "-y"])), @"
    ----- stderr -----
    · job job resumed · 1 of 1 step done

    completed · 1 of 1 step
    merged into main at [commit]
    kept: 1 uncommitted file of the job; `git cherry-pick --no-commit refs/prodigy/job/kept/job` applies it
    next: prodigy events job
    ");
    assert_eq!(world.read("x"), "x\n");
    assert_eq!(world.git(&["show", "refs/prodigy/job/kept/job:y"]), "y");
}

#[test]
fn a_checkpoint_is_only_a_shortcut() {
    for how in ["gone", "cut", "foreign", "newer"] {
        let world = gated("sleep 300");
        let started = start(&world);
        started.signal(Signal::INT);
        assert_eq!(started.seen(&world).code, Some(130), "{how}");
        let path = world.home().join("state/repo/mapreduce/jobs/job/checkpoint.json");
        let text = fs::read_to_string(&path).unwrap();
        fs::remove_file(&path).unwrap();
        match how {
            "gone" => {}
            "cut" => fs::write(&path, &text[..text.len() / 2]).unwrap(),
            "foreign" => fs::write(&path, "[1, 2, 3]\n").unwrap(),
            _ => {
                let newer = text.replacen("\"version\": 3", "\"version\": 9", 1);
                assert_ne!(newer, text);
                fs::write(&path, newer).unwrap();
            }
        }
        open_gate(&world);
        let seen: CommandOutput = world.prodigy(&["resume", "job"]);
        assert_eq!(seen.code, Some(0), "{how}: {seen}");
        assert_done_once(&world);
    }
}

#[test]
fn an_older_checkpoint_is_caught_up_from_the_journal() {
    let world = gated("sleep 300");
    let checkpoint = world.home().join("state/repo/mapreduce/jobs/job/checkpoint.json");
    let started = start(&world);
    started.signal(Signal::INT);
    assert_eq!(started.seen(&world).code, Some(130));
    let older = fs::read(&checkpoint).unwrap();
    let again = start_again(&world);
    open_gate(&world);
    again.signal(Signal::INT);
    assert_eq!(again.seen(&world).code, Some(130));
    fs::write(&checkpoint, older).unwrap();
    assert_eq!(world.prodigy(&["resume", "job"]).code, Some(0));
    assert_done_once(&world);
}
