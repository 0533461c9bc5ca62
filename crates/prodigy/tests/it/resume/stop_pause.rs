//! `prodigy stop` and `prodigy pause`.

use std::{
    fs,
    time::{Duration, Instant},
};

use insta::assert_snapshot;
use prodigy_testkit::{CommandOutput, TestEnv};
use regex::Regex;
use rustix::process::{Pid, Signal};

use crate::{
    fixture::{
        journal::{self, completed, failed, hold, layout, record},
        map_job::{has_told, map_world, started},
        workflow::{SpawnedProdigy, events, stable},
    },
    resume::interrupted::{assert_done_once, assert_nothing_runs, gated, open_gate, start},
};

const LONG: Duration = Duration::from_secs(15);

/// Returns what a person sees, without the numbers of processes.
fn shown(seen: &CommandOutput) -> String {
    let text = stable(seen);
    let text = Regex::new(r"process \d+").unwrap().replace_all(&text, "process [pid]").into_owned();
    let since = Regex::new(r"on \S+ since [^,\n]+").unwrap();
    since.replace_all(&text, "on [host] since [moment]").into_owned()
}

fn ending(seen: &CommandOutput) -> String {
    let text = stable(seen);
    text.lines().skip_while(|line| !line.starts_with("paused")).collect::<Vec<_>>().join("\n")
}

/// Returns whether a process has a handle of another one, and of no third.
fn has_found(pid: Pid, other: Pid) -> bool {
    let files = fs::read_dir(format!("/proc/{pid}/fdinfo")).unwrap().flatten();
    let texts = files.filter_map(|file| fs::read_to_string(file.path()).ok());
    let handles: Vec<_> = texts
        .filter_map(|text| {
            Some(text.lines().find_map(|line| line.strip_prefix("Pid:"))?.trim().to_owned())
        })
        .collect();
    handles == [other.to_string()]
}

#[track_caller]
fn assert_resumes(world: &TestEnv) {
    assert_nothing_runs(world);
    open_gate(world);
    assert_eq!(world.prodigy(&["resume", "job"]).code, Some(0));
    assert_done_once(world);
}

#[test]
fn pause_is_one_ctrl_c() {
    let world = gated("sleep 300");
    let started = start(&world);
    assert_snapshot!(shown(&world.prodigy(&["pause", "job"])), @"
    asked process [pid] to pause job `job`
    ----- stderr -----

    next: `prodigy events job --follow` shows it end, `prodigy resume job` goes on
    ");
    assert_snapshot!(ending(&started.seen(&world)), @"
    paused: stopped by Ctrl-C · 2 of 5 steps done
    next: prodigy resume job
    [exit 130]
    ");
    assert_snapshot!(shown(&world.prodigy(&["pause", "job"])), @"
    ----- stderr -----
    error: no process runs job `job`

    hint: `prodigy resume job` goes on with it
    [exit 2]
    ");
    assert_resumes(&world);
    assert_snapshot!(shown(&world.prodigy(&["pause", "job"])), @"
    ----- stderr -----
    error: no process runs job `job`

    hint: `prodigy jobs show job` shows how it ended
    [exit 2]
    ");
}

#[test]
fn a_second_pause_does_not_wait() {
    let world = gated("trap \"\" TERM INT; sleep 300; sleep 300").env("PRODIGY_GRACE", "60s");
    let mut started = start(&world);
    let asked = Instant::now();
    assert_eq!(world.prodigy(&["pause", "job"]).code, Some(0));
    started.until(&world, "it still runs", || asked.elapsed() > Duration::from_millis(300));
    assert_eq!(world.prodigy(&["pause", "job"]).code, Some(0));
    assert_snapshot!(ending(&started.seen(&world)), @"
    paused: stopped by Ctrl-C · 2 of 5 steps done
    next: prodigy resume job
    [exit 130]
    ");
    assert!(asked.elapsed() < LONG, "{:?}", asked.elapsed());
    assert_resumes(&world);
}

#[test]
fn stop_returns_when_the_job_is_free() {
    let world = gated("trap \"\" TERM; sleep 300; sleep 300");
    let started = start(&world);
    assert_snapshot!(shown(&world.prodigy(&["stop", "job"])), @"
    stopped job `job`: paused · 2 of 5 steps done
    ----- stderr -----

    next: `prodigy resume job` goes on
    ");
    // The next one gets the lock at once.
    drop(hold(&layout(&world), "job"));
    assert_snapshot!(ending(&started.seen(&world)), @"
    paused: stopped by a signal · 2 of 5 steps done
    next: prodigy resume job
    [exit 143]
    ");
    assert_eq!(events(&world).last().unwrap(), "job_paused");
    assert_snapshot!(shown(&world.prodigy(&["stop", "job"])), @"
    ----- stderr -----
    error: no process runs job `job`

    hint: `prodigy resume job` goes on with it
    [exit 2]
    ");
    assert_resumes(&world);
}

#[test]
fn stop_now_does_not_wait_for_the_step() {
    let world = gated("trap \"\" TERM INT HUP; sleep 300; sleep 300").env("PRODIGY_GRACE", "60s");
    let started = start(&world);
    let asked = Instant::now();
    assert_snapshot!(shown(&world.prodigy(&["stop", "job", "--now"])), @"
    stopped job `job`: paused · 2 of 5 steps done
    ----- stderr -----

    next: `prodigy resume job` goes on
    ");
    assert!(asked.elapsed() < LONG, "{:?}", asked.elapsed());
    assert_eq!(started.seen(&world).code, Some(143));
    assert_resumes(&world);
}

#[test]
fn two_that_stop_a_job_at_once_both_see_it_end() {
    let world = gated("sleep 300");
    let started = start(&world);
    // It cannot end before both have found it.
    started.signal(Signal::STOP);
    let mut both = [(); 2].map(|()| SpawnedProdigy::new(&world, &["stop", "job"]));
    for one in &mut both {
        let pid = one.pid();
        one.until(&world, "it has found the run", || has_found(pid, started.pid()));
    }
    started.signal(Signal::CONT);
    assert_eq!(started.seen(&world).code, Some(143));
    let [first, second] = both.map(|one| one.seen(&world).to_string());
    assert_eq!(first, second);
    assert_snapshot!(first, @"
    stopped job `job`: paused · 2 of 5 steps done
    ----- stderr -----

    next: `prodigy resume job` goes on
    ");
    assert_resumes(&world);
}

#[test]
fn the_holder_is_stopped_and_not_whom_the_lock_names() {
    let world = gated("sleep 300");
    let started = start(&world);
    let mut bystander = world.command("sleep").arg("300").spawn().unwrap();
    let lock = layout(&world).lock(&"job".parse().unwrap());
    fs::write(&lock, format!("process {} on here since then\n", bystander.id())).unwrap();
    assert_eq!(world.prodigy(&["stop", "job"]).code, Some(0));
    assert_eq!(started.seen(&world).code, Some(143));
    assert!(bystander.try_wait().unwrap().is_none());
    bystander.kill().unwrap();
    bystander.wait().unwrap();
    assert_resumes(&world);
}

#[test]
fn only_a_prodigy_is_sent_a_signal() {
    let world = journal::world();
    let layout = layout(&world);
    record(&layout, "job", &failed());
    // This process is none: it would not survive the signals.
    let lock = hold(&layout, "job");
    assert_snapshot!(shown(&world.prodigy(&["pause", "job"])), @"
    ----- stderr -----
    error: job `job` is held by process [pid] on [host] since [moment], which is no prodigy of yours on this machine; nothing was sent

    hint: run this as the user and on the machine where `job` was started
    [exit 75]
    ");
    assert_snapshot!(shown(&world.prodigy(&["stop", "job", "--now"])), @"
    ----- stderr -----
    error: job `job` is held by process [pid] on [host] since [moment], which is no prodigy of yours on this machine; nothing was sent

    hint: run this as the user and on the machine where `job` was started
    [exit 75]
    ");
    fs::write(layout.lock(&"job".parse().unwrap()), "process 12 on elsewhere since then\n")
        .unwrap();
    assert_snapshot!(world.prodigy(&["stop", "job"]), @"
    ----- stderr -----
    error: job `job` is held by process 12 on elsewhere since then, which is no prodigy of yours on this machine; nothing was sent

    hint: run this as the user and on the machine where `job` was started
    [exit 75]
    ");
    drop(lock);
    assert_snapshot!(world.prodigy(&["stop", "job"]), @"
    ----- stderr -----
    error: no process runs job `job`

    hint: `prodigy resume job` goes on with it
    [exit 2]
    ");
}

#[test]
fn a_prodigy_that_only_reads_the_job_is_left_alone() {
    let world = gated("sleep 300");
    let started = start(&world);
    let mut following = SpawnedProdigy::new(&world, &["events", "job", "--follow"]);
    let pid = following.pid();
    following.until(&world, "it reads", || {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
        let mut links = files.filter_map(|file| fs::read_link(file.path()).ok());
        links.any(|link| link.extension().is_some_and(|extension| extension == "jsonl"))
    });
    assert_eq!(world.prodigy(&["stop", "job"]).code, Some(0));
    assert_eq!(started.seen(&world).code, Some(143));
    assert_eq!(following.seen(&world).code, Some(0));
    assert_resumes(&world);
}

#[test]
fn the_run_of_another_job_goes_on() {
    let world = gated("sleep 300");
    let begun = world.root().join("begun");
    let mut other =
        SpawnedProdigy::new(&world, &["run", "workflow.yml", "-y", "--job-id", "other"]);
    other.until(&world, "its step begins", || begun.exists());
    fs::remove_file(begun).unwrap();
    let started = start(&world);
    assert_eq!(world.prodigy(&["stop", "job"]).code, Some(0));
    assert_eq!(started.seen(&world).code, Some(143));
    assert_snapshot!(world.prodigy(&["stop", "other"]), @"
    stopped job `other`: paused · 2 of 5 steps done
    ----- stderr -----

    next: `prodigy resume other` goes on
    ");
    assert_eq!(other.seen(&world).code, Some(143));
    assert_resumes(&world);
}

#[test]
fn a_job_that_does_not_run_cannot_be_stopped() {
    let world = journal::world();
    record(&layout(&world), "done", &completed());
    assert_snapshot!(world.prodigy(&["stop", "done"]), @"
    ----- stderr -----
    error: no process runs job `done`

    hint: `prodigy jobs show done` shows how it ended
    [exit 2]
    ");
    assert_snapshot!(world.prodigy(&["stop", "nosuch"]), @"
    ----- stderr -----
    error: there is no job `nosuch`

    hint: `prodigy jobs` lists the jobs there are
    [exit 2]
    ");
    assert_eq!(world.prodigy(&["pause", "nosuch"]).code, Some(2));
}

#[test]
fn a_run_that_does_not_end_in_time_is_named() {
    let world = gated("sleep 300");
    let started = start(&world);
    started.signal(Signal::STOP);
    let world = world.env("PRODIGY_GRACE", "1ms");
    let seen = SpawnedProdigy::new(&world, &["stop", "job"]).seen(&world);
    assert_snapshot!(shown(&seen), @"
    ----- stderr -----
    error: process [pid] still runs job `job` after [time]

    hint: `prodigy stop job --now` does not wait for the step
    [exit 1]
    ");
    started.signal(Signal::CONT);
    assert_eq!(started.seen(&world).code, Some(143));
    assert_resumes(&world);
}

#[test]
fn of_a_job_with_items_the_items_that_are_done_are_told() {
    let world = map_world(
        "map:\n  input: { items: [quick, slow] }\n  max_parallel: 1\n  agent_template:\n\
         \x20   - shell: test ${item} = quick || sleep 300\n",
    );
    let mut run = started(&world);
    run.until(&world, "the first is done", || has_told(&world, "agent_completed"));
    let stopped = shown(&world.prodigy(&["stop", "job", "--now"]));
    assert_snapshot!(stopped.lines().next().unwrap(), @"stopped job `job`: paused · 1 of 2 items done");
    assert_eq!(run.seen(&world).code, Some(143));
}

#[test]
fn a_job_stopped_by_ctrl_c_never_says_that_prodigy_died() {
    let world = crate::fixture::map_job::map_world(
        r#"
map:
  input: { items: [outside, inside] }
  item_key: item
  max_parallel: 2
  agent_template:
    - { shell: 'touch ROOT/began-outside; sleep 60', effects: external, when: "item == 'outside'" }
    - { shell: 'touch ROOT/began-inside; test -e ROOT/opened || sleep 60; exit 1', when: "item == 'inside'" }
"#,
    );
    let mut run = crate::fixture::map_job::started(&world);
    let began = |item: &str| world.root().join(format!("began-{item}")).exists();
    run.until(&world, "both are under way", || began("outside") && began("inside"));
    run.signal(Signal::INT);
    let mut told = vec![run.seen(&world)];
    std::fs::write(world.root().join("opened"), "").unwrap();
    for args in [
        &["jobs", "show", "job"][..],
        &["resume", "job", "-y"],
        &["dlq", "show", "job"],
        &["dlq", "show", "job", "outside"],
        &["dlq", "show", "job", "inside"],
        &["dlq", "show", "job", "outside", "--json"],
        &["events", "job"],
        &["verify", "job"],
    ] {
        told.push(world.prodigy(args));
    }
    for seen in &told {
        assert!(!seen.to_string().contains("died"), "{seen}");
    }
    let shown = told[3 + 1].to_string();
    assert!(shown.contains("unknown_commit_state"), "{shown}");
    assert!(shown.contains("the run was stopped"), "{shown}");
}
