//! Replays that are stopped, killed or asked for twice, and those of jobs that are not done.

use std::{fs, path::PathBuf};

use insta::assert_snapshot;
use prodigy_testkit::TestEnv;
use regex::Regex;
use rustix::process::Signal;

use crate::{
    dlq::retry::{WORKFLOW, assert_whole, does, failing, mend, replayed, retry, statuses},
    fixture::{
        map_job::{assert_code, beside, go, letter, of_type, resume, trace_of},
        workflow::{SpawnedProdigy, records, stable},
    },
};

/// Has an item wait until it is let go, and say that it has begun.
fn hold(world: &TestEnv, item: &str) {
    let what = "touch ROOT/begun.ITEM; while test -e ROOT/hold.ITEM; do sleep 0.02; done";
    fs::write(world.root().join(format!("hold.{item}")), "").unwrap();
    does(world, item, &what.replace("ITEM", item));
}

fn begun(world: &TestEnv, item: &str) -> PathBuf {
    world.root().join(format!("begun.{item}"))
}

/// Lets an item go that waits.
fn release(world: &TestEnv, item: &str) {
    fs::remove_file(world.root().join(format!("hold.{item}"))).unwrap();
    fs::remove_file(begun(world, item)).ok();
}

/// Starts a replay and returns it once an item waits in it.
fn held(world: &TestEnv, item: &str, args: &[&str]) -> SpawnedProdigy {
    fs::remove_file(begun(world, item)).ok();
    let mut run = SpawnedProdigy::new(world, args);
    run.until(world, &format!("`{item}` begins"), || begun(world, item).exists());
    run
}

const RETRY: &[&str] = &["dlq", "retry", "job"];

#[test]
fn of_a_job_that_was_stopped_only_the_dead_letters_are_replayed() {
    let stopping =
        format!("max_failures: 1\n{}", WORKFLOW.replace("max_parallel: 2", "max_parallel: 1"));
    let world = failing(&stopping, &["a"]);
    assert_code(&go(&world), 5);
    mend(&world, "a");
    assert_snapshot!(stable(&retry(&world, &[])), @"
    ----- stderr -----
    · job job resumed · 0 of 3 items done
    ✓ item-001  [time] · 1 commit

    paused: its dead letters were replayed; the other items wait · [time]
    replayed: 1 resolved, 0 back in the DLQ
    job: 1 successful, 2 waiting, 1 tried more than once
    worktree: $ROOT/home/worktrees/repo/job/job (branch prodigy/job/job)
    next: prodigy resume job
    ");
    assert_eq!(statuses(&world), "item-001 resolved");
    assert_eq!(beside(&world, "log"), "a 1\na 2\n");
    assert_code(&resume(&world), 0);
    assert_eq!(beside(&world, "log"), "a 1\na 2\nb 1\nc 1\n");
    assert_eq!(world.read("counts"), "3 of 3\n");
    assert_whole(&world);
}

#[test]
fn a_replay_that_is_stopped_or_killed_is_taken_up_again() {
    for (signal, code) in
        [(Signal::INT, Some(130)), (Signal::TERM, Some(143)), (Signal::KILL, None)]
    {
        for again in [&["resume", "job"][..], RETRY, &["dlq", "retry", "job", "item-002"][..]] {
            let world = failing(WORKFLOW, &["a", "b"]);
            assert_code(&go(&world), 0);
            mend(&world, "a");
            hold(&world, "b");
            let mut run = held(&world, "b", RETRY);
            run.until(&world, "`a` is done", || statuses(&world).starts_with("item-001 resolved"));
            run.signal(signal);
            assert_eq!(run.seen(&world).code, code);
            let told = trace_of(&world, "item-002");
            let stopped = statuses(&world);
            assert_eq!(stopped, "item-001 resolved, item-002 replaying", "{told}");
            release(&world, "b");
            assert_code(&world.prodigy(again), 0);
            assert_eq!(statuses(&world), "item-001 resolved, item-002 resolved", "{again:?}");
            assert_eq!(of_type(&world, "replay_started").len(), 2, "{again:?}");
            assert_eq!(world.read("b.txt"), "b\n");
            let added = world.git(&["log", "--format=%H", "main", "--", "b.txt"]);
            assert_eq!(added.lines().count(), 1, "{added}");
            assert_whole(&world);
        }
    }
}

#[test]
fn a_replay_that_is_stopped_says_how_to_go_on() {
    let world = failing(WORKFLOW, &["b"]);
    assert_code(&go(&world), 0);
    hold(&world, "b");
    let run = held(&world, "b", RETRY);
    run.signal(Signal::INT);
    assert_snapshot!(stable(&run.seen(&world)), @"
    ----- stderr -----
    · job job resumed · 2 of 3 items done

    paused: stopped by Ctrl-C · [time]
    replayed: 0 resolved, 0 back in the DLQ, 1 waiting
    job: 2 successful, 1 waiting
    worktree: $ROOT/home/worktrees/repo/job/job (branch prodigy/job/job)
    next: prodigy resume job
    [exit 130]
    ");
    release(&world, "b");
    assert_snapshot!(stable(&resume(&world)), @"
        ----- stderr -----
        · job job resumed · 2 of 3 items done
        ✓ item-002  [time] · 1 commit
        ✓ map: 3/3 done  [time]

        completed · 3 of 3 items done · [time]
        items: 3 successful, 1 tried more than once
        replayed: 1 resolved, 0 back in the DLQ
        merged into main at [commit]
        next: prodigy events job
        ");
    assert_snapshot!(trace_of(&world, "item-002"), @"
        item-002 agent_started 1
        item-002 agent_failed 1 command_failed then dead_letter
        item-002 item_dead_lettered 1 command_failed
        item-002 replay_started 1
        item-002 agent_started 2
        item-002 agent_started 2
        item-002 agent_completed 2
        ");
}

/// The job fails in `reduce` for as long as `does.reduce` says so.
fn unfinished(items: &[&str]) -> TestEnv {
    let (map, _) = WORKFLOW.split_once("reduce:").unwrap();
    let reduce = "reduce:\n  - shell: 'test ! -e ROOT/does.reduce'\n";
    let world = failing(&format!("{map}{reduce}"), items);
    does(&world, "reduce", "");
    assert_code(&go(&world), 1);
    world
}

#[test]
fn a_resume_replays_what_may_be_replayed_without_asking() {
    let world = unfinished(&["a", "b"]);
    mend(&world, "a");
    // The command failed: that is worth one more try, and not two.
    assert_code(&resume(&world), 1);
    assert_eq!(replayed(&world), "item-001 item-002");
    assert_eq!(statuses(&world), "item-001 resolved, item-002 open");
    assert_code(&resume(&world), 1);
    assert_eq!(replayed(&world), "item-001 item-002");
    mend(&world, "reduce");
    assert_code(&resume(&world), 0);
    assert_eq!(replayed(&world), "item-001 item-002");
    assert_whole(&world);
}

#[test]
fn a_resume_leaves_dead_letters_alone_if_it_is_told_to() {
    let world = unfinished(&["b"]);
    mend(&world, "b");
    mend(&world, "reduce");
    assert_code(&world.prodigy(&["resume", "job", "--no-dlq"]), 0);
    assert_eq!(replayed(&world), "");
    assert_eq!(statuses(&world), "item-002 open");
    assert_whole(&world);
}

#[test]
fn a_resume_tries_what_took_too_long_again_and_then_waits_a_while() {
    let slow = WORKFLOW.replace(
        "      auto_commit: true\nreduce",
        "      auto_commit: true\n      timeout: 2s\nreduce",
    );
    let (map, _) = slow.split_once("reduce:").unwrap();
    let world = failing(&format!("{map}reduce:\n  - shell: 'test ! -e ROOT/does.reduce'\n"), &[]);
    does(&world, "b", "sleep 30");
    does(&world, "reduce", "");
    assert_code(&go(&world), 1);
    assert_code(&resume(&world), 1);
    assert_code(&resume(&world), 1);
    assert_eq!(replayed(&world), "item-002");
    assert!(letter(&world, "item-002")["not_before"].is_string());
    // Who asks for it does not wait.
    assert_code(&world.prodigy(&["dlq", "retry", "job"]), 1);
    assert_eq!(replayed(&world), "item-002 item-002");
    let history = letter(&world, "item-002")["failure_history"].clone();
    let reasons: Vec<_> =
        history.as_array().unwrap().iter().map(|one| &one["reason_code"]).collect();
    assert_eq!(reasons, ["timeout", "timeout", "timeout"]);
    assert_whole(&world);
}

#[test]
fn what_a_reduce_phase_had_half_done_is_not_left_behind() {
    let (map, _) = WORKFLOW.split_once("reduce:").unwrap();
    let reduce =
        "reduce:\n  - shell: 'echo done >> reduced; sh ROOT/work reduce'\n    auto_commit: true\n";
    let run = ["run", "workflow.yml", "-y", "--job-id", "job"];
    for (again, is_killed) in [
        (&["resume", "job"][..], true),
        (&["resume", "job"][..], false),
        (RETRY, true),
        (RETRY, false),
    ] {
        let world = failing(&format!("{map}{reduce}"), &["b"]);
        if is_killed {
            hold(&world, "reduce");
            let run = held(&world, "reduce", &run);
            run.signal(Signal::KILL);
            assert_eq!(run.seen(&world).code, None);
            release(&world, "reduce");
        } else {
            does(&world, "reduce", "exit 1");
            assert_code(&world.prodigy(&run), 1);
            mend(&world, "reduce");
        }
        mend(&world, "b");
        assert_code(&world.prodigy(again), 0);
        assert_eq!(statuses(&world), "item-002 resolved");
        assert_eq!(world.read("reduced"), "done\n", "{again:?} {is_killed}");
        assert_whole(&world);
    }
}

#[test]
fn a_replay_that_was_killed_can_be_taken_up_with_the_reduce_phase() {
    let world = failing(WORKFLOW, &["b"]);
    assert_code(&go(&world), 0);
    hold(&world, "b");
    let run = held(&world, "b", RETRY);
    run.signal(Signal::KILL);
    assert_eq!(run.seen(&world).code, None);
    release(&world, "b");
    assert_code(&retry(&world, &["--rerun-reduce"]), 0);
    assert_eq!(world.read("counts"), "2 of 3\n3 of 3\n");
    assert_whole(&world);
}

#[test]
fn a_resume_that_only_has_to_merge_replays_nothing() {
    let world = failing(WORKFLOW, &["b"]);
    assert_code(&world.prodigy(&["run", "workflow.yml", "--job-id", "job"]), 7);
    mend(&world, "b");
    assert_code(&world.prodigy(&["resume", "job", "-y"]), 0);
    assert_eq!(replayed(&world), "");
    assert_eq!(world.read("a.txt"), "a\n");
    assert_eq!(statuses(&world), "item-002 open");
    assert_whole(&world);
}

#[test]
fn a_replay_of_a_job_that_is_not_merged_goes_on_in_its_branch() {
    let world = failing(WORKFLOW, &["b"]);
    assert_code(&world.prodigy(&["run", "workflow.yml", "--job-id", "job"]), 7);
    mend(&world, "b");
    assert_snapshot!(stable(&retry(&world, &[])), @"
    ----- stderr -----
    · job job resumed · 2 of 3 items done
    ✓ item-002  [time] · 1 commit
    ✓ map: 3/3 done  [time]

    not merged yet · [time]
    replayed: 1 resolved, 0 back in the DLQ
    job: 3 successful, 1 tried more than once
    worktree: $ROOT/home/worktrees/repo/job/job (branch prodigy/job/job)
    not merged: no terminal to ask and no `-y`; `git merge prodigy/job/job` merges it
    next: prodigy resume job -y
    [exit 7]
    ");
    assert_eq!(world.git(&["log", "-1", "--format=%s", "main"]), "Add the workflow");
    assert_code(&world.prodigy(&["resume", "job", "-y"]), 0);
    assert_eq!((world.read("a.txt"), world.read("b.txt")), ("a\n".to_owned(), "b\n".to_owned()));
    assert_whole(&world);
}

#[test]
fn a_replay_goes_on_from_where_the_users_branch_is_now() {
    let world = failing(WORKFLOW, &["b"]);
    assert_code(&go(&world), 0);
    world.write("mine.txt", "mine\n");
    world.commit_all("Work meanwhile");
    does(&world, "b", "cat mine.txt > seen.txt");
    assert_code(&retry(&world, &[]), 0);
    assert_eq!(
        (world.read("seen.txt"), world.read("b.txt")),
        ("mine\n".to_owned(), "b\n".to_owned())
    );
    assert_whole(&world);
}

#[test]
fn items_that_share_a_worktree_are_replayed_in_one() {
    let shared = WORKFLOW.replace("max_parallel: 2", "max_parallel: 1\n  isolation: shared");
    let world = failing(&shared, &["b"]);
    assert_code(&go(&world), 0);
    mend(&world, "b");
    assert_code(&retry(&world, &[]), 0);
    assert_eq!(statuses(&world), "item-002 resolved");
    assert_eq!(world.read("b.txt"), "b\n");
    assert_eq!(world.git(&["worktree", "list"]).lines().count(), 1);
    assert_whole(&world);
}

#[test]
fn a_job_without_items_has_no_dead_letters() {
    let world = crate::fixture::workflow::world("steps: [{ shell: 'false' }]\n");
    assert_code(&world.prodigy(&["run", "workflow.yml", "--job-id", "job"]), 1);
    assert_snapshot!(retry(&world, &[]), @"
        ----- stderr -----
        error: job `job` has no items, so nothing of it can be a dead letter

        hint: `prodigy resume job` takes up a step that failed
        [exit 2]
        ");
}

#[test]
fn what_the_first_failure_left_stays_where_it_is() {
    let world = failing(WORKFLOW, &[]);
    does(&world, "b", "echo half > half.txt; exit 3");
    assert_code(&go(&world), 0);
    let kept = letter(&world, "item-002")["worktree_artifacts"]["worktree_path"].clone();
    let kept = PathBuf::from(kept.as_str().unwrap());
    assert_eq!(kept.file_name().unwrap(), "item-002");
    let head = |path: &PathBuf| {
        let path = path.to_str().unwrap();
        world.command("git").args(["-C", path, "symbolic-ref", "--short", "HEAD"]).output().unwrap()
    };
    assert_eq!(String::from_utf8_lossy(&head(&kept).stdout), "prodigy/job/item-002\n");
    does(&world, "b", "echo other > other.txt; exit 3");
    assert_code(&retry(&world, &[]), 3);
    // The branch belongs to the newer attempt; the files are as they were.
    assert!(!head(&kept).status.success());
    assert_eq!(fs::read_to_string(kept.join("half.txt")).unwrap(), "half\n");
    assert!(!kept.join("other.txt").exists());
    let newer = letter(&world, "item-002")["worktree_artifacts"]["worktree_path"].clone();
    let newer = PathBuf::from(newer.as_str().unwrap());
    assert_eq!(newer.file_name().unwrap(), "item-002.2");
    assert_eq!(fs::read_to_string(newer.join("other.txt")).unwrap(), "other\n");
    mend(&world, "b");
    assert_code(&retry(&world, &[]), 0);
    assert_eq!(fs::read_to_string(kept.join("half.txt")).unwrap(), "half\n");
    assert_whole(&world);
}

#[test]
fn a_secret_is_in_no_entry() {
    let workflow = format!("secrets: {{ TOKEN: {{ env: MY_TOKEN }} }}\n{}", WORKFLOW.trim_start());
    let world = failing(&workflow, &[]).env("MY_TOKEN", "hunter2-hunter2");
    let say = "echo \"token $TOKEN\" >&2; echo \"$TOKEN\" > left.txt; exit 3";
    does(&world, "b", say);
    assert_code(&go(&world), 0);
    assert_code(&retry(&world, &["--reason", "hunter2-hunter2"]), 3);
    let entry = letter(&world, "item-002").to_string();
    assert!(entry.contains("token ***"), "{entry}");
    let found =
        world.command("grep").args(["-rl", "hunter2"]).arg(world.home().join("dlq")).output();
    assert_eq!(String::from_utf8_lossy(&found.unwrap().stdout), "");
    let journal = records(&world).iter().map(ToString::to_string).collect::<String>();
    assert!(!journal.contains("hunter2"), "{journal}");
}

#[test]
fn of_two_replays_at_once_each_entry_is_taken_by_one() {
    let world = failing(WORKFLOW, &["a", "b"]);
    assert_code(&go(&world), 0);
    hold(&world, "a");
    hold(&world, "b");
    does(&world, "a", "touch ROOT/begun.a; while test -e ROOT/hold.a; do sleep 0.02; done; exit 3");
    let first = held(&world, "b", RETRY);
    let busy = retry(&world, &["--no-wait"]);
    assert_code(&busy, 75);
    let holder = format!("process {} on ", first.pid().as_raw_nonzero());
    let told = |text: &str| {
        assert!(text.contains(&holder), "{text}");
        Regex::new(r"process \d+ on \S+ since \S+Z")
            .unwrap()
            .replace_all(text, "[holder]")
            .into_owned()
    };
    assert_snapshot!(told(&busy.to_string()), @"
        ----- stderr -----
        error: job `job` is held by [holder]

        hint: `prodigy events job --follow` shows what it does
        [exit 75]
        ");
    let said = world.root().join("second.log");
    let mut command = world.prodigy_command(RETRY);
    let mut second = SpawnedProdigy::with_streams(
        &mut command,
        fs::File::create(&said).unwrap().into(),
        fs::File::options().append(true).open(&said).unwrap().into(),
    );
    let text = || fs::read_to_string(&said).unwrap();
    second.until(&world, "the second waits", || text().ends_with(")\n"));
    assert_snapshot!(told(&text()), @"note: [holder] works on the job; waiting until it is done (Ctrl-C gives up)");
    release(&world, "a");
    release(&world, "b");
    assert_code(&first.seen(&world), 0);
    assert_code(&second.seen(&world), 0);
    assert_snapshot!(told(&text()), @"
        note: [holder] works on the job; waiting until it is done (Ctrl-C gives up)
        not replayed: 1 entry that another replay took meanwhile
        nothing to replay: no matching dead letters in job `job`
        ");
    // The first took both, one of which died again; the second was asked for before that.
    assert_eq!(replayed(&world), "item-001 item-002");
    assert_eq!(statuses(&world), "item-001 open, item-002 resolved");
    // Asked for now, it is meant again.
    assert_code(&retry(&world, &[]), 3);
    assert_eq!(replayed(&world), "item-001 item-002 item-001");
    assert_whole(&world);
}

#[test]
fn a_worktree_that_a_killed_run_had_just_put_away_is_found_again() {
    let world = failing(WORKFLOW, &["a"]);
    assert_code(&go(&world), 0);
    // A run that is killed between moving a worktree and telling git about it leaves this.
    let place = world.home().join("worktrees/repo/job");
    let (made, moved) = (place.join("made"), place.join("item-001.2"));
    world.git(&["worktree", "add", "--quiet", "--detach", made.to_str().unwrap()]);
    fs::rename(&made, &moved).unwrap();
    mend(&world, "a");
    assert_code(&retry(&world, &[]), 0);
    let known = world.git(&["worktree", "list", "--porcelain"]);
    let moved = moved.canonicalize().unwrap();
    assert!(known.lines().any(|line| line == format!("worktree {}", moved.display())), "{known}");
}
