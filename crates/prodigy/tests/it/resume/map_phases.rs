//! MapReduce jobs that are stopped, killed or damaged in any phase, and taken up again.
#![expect(clippy::indexing_slicing, reason = "what is not there fails the test")]

use std::{fs, path::PathBuf};

use insta::assert_snapshot;
use prodigy_testkit::TestEnv;
use regex::Regex;
use rustix::process::Signal;
use serde_json::Value;

use crate::{
    fixture::{
        map_job::{
            assert_code, beside, counts, map_world, of_type, resume, started, trace_of,
            write_workflow,
        },
        workflow::{SpawnedProdigy, journal, records, stable},
    },
    resume::interrupted::assert_nothing_runs,
};

const WORKFLOW: &str = r#"
setup:
  - shell: sh ROOT/hold setup; echo base > base.txt; echo kept
    capture: said
    auto_commit: true
map:
  input: { items: [a, b, c] }
  max_parallel: 2
  agent_template:
    - shell: 'sh ROOT/hold item.${item}; echo "${item} ${said}" > "${item}.txt"'
      auto_commit: true
reduce:
  - shell: sh ROOT/hold reduce; cat [abc].txt > all; echo "${map.successful} ${map.failed}" > counts
    auto_commit: true
merge:
  - shell: sh ROOT/hold merge; git -C ROOT/repo merge --quiet --no-edit "${merge.source_branch}"
"#;

/// Makes a world whose steps hold where a file `hold.NAME` is, and say `begun.NAME` then.
fn holding(workflow: &str, holds: &[&str]) -> TestEnv {
    let world = map_world(workflow);
    let root = world.root().display().to_string();
    let script = "echo $1 >> ROOT/log\ntest -e ROOT/hold.$1 || exit 0\ntouch ROOT/begun.$1\n\
                  while test -e ROOT/hold.$1; do sleep 0.02; done\n";
    fs::write(world.root().join("hold"), script.replace("ROOT", &root)).unwrap();
    for name in holds {
        fs::write(world.root().join(format!("hold.{name}")), "").unwrap();
    }
    world
}

fn begun(world: &TestEnv, name: &str) -> PathBuf {
    world.root().join(format!("begun.{name}"))
}

/// Waits until a run holds at a step.
fn until_held(run: &mut SpawnedProdigy, world: &TestEnv, name: &str) {
    run.until(world, &format!("`{name}` begins"), || begun(world, name).exists());
}

/// Lets a step pass from now on.
fn release(world: &TestEnv, name: &str) {
    fs::remove_file(world.root().join(format!("hold.{name}"))).unwrap();
    fs::remove_file(begun(world, name)).ok();
}

/// Ends a run with a signal while it holds at a step, and returns its exit code.
fn ended_at(mut run: SpawnedProdigy, world: &TestEnv, name: &str, signal: Signal) -> Option<i32> {
    until_held(&mut run, world, name);
    run.signal(signal);
    let code = run.seen(world).code;
    fs::remove_file(begun(world, name)).unwrap();
    code
}

/// Checks that the job is done, every item once.
#[track_caller]
fn assert_done(world: &TestEnv) {
    assert_eq!(counts(world), (3, 0, 0));
    assert_eq!(world.read("all"), "a kept\nb kept\nc kept\n");
    assert_eq!(world.read("counts"), "3 0\n");
    assert_eq!(world.git(&["worktree", "list"]).lines().count(), 1);
    assert_eq!(world.git(&["branch", "--list", "prodigy/*"]), "");
    let verified = world.prodigy(&["verify", "job"]);
    assert_code(&verified, 0);
    assert_nothing_runs(world);
}

/// Returns how often a step began.
fn began(world: &TestEnv, name: &str) -> usize {
    beside(world, "log").lines().filter(|line| *line == name).count()
}

#[test]
fn a_job_that_is_killed_in_any_phase_goes_on_there() {
    for (held, before) in [("setup", 0), ("item.b", 1), ("reduce", 1), ("merge", 1)] {
        let world = holding(WORKFLOW, &[held]);
        assert_eq!(ended_at(started(&world), &world, held, Signal::KILL), None);
        assert_eq!(world.git(&["log", "-1", "--format=%s", "main"]), "Add the workflow");
        release(&world, held);
        assert_code(&resume(&world), 0);
        assert_done(&world);
        // What was done before the kill is not done again; what was cut off is.
        assert_eq!(began(&world, "setup"), 2 - before, "{held}");
        assert_eq!(began(&world, held), 2, "{held}");
        for item in ["item.a", "item.c"] {
            let in_flight = held == "item.b" && began(&world, item) == 2;
            assert_eq!(began(&world, item), 1 + usize::from(in_flight), "{held} {item}");
        }
    }
}

#[test]
fn a_job_that_is_stopped_in_any_phase_goes_on_there() {
    for (held, ask, code) in [
        ("setup", "stop", 143),
        ("item.a", "pause", 130),
        ("item.b", "stop", 143),
        ("reduce", "pause", 130),
        ("merge", "stop", 143),
    ] {
        let world = holding(WORKFLOW, &[held]);
        let mut run = started(&world);
        until_held(&mut run, &world, held);
        assert_code(&world.prodigy(&[ask, "job"]), 0);
        assert_code(&run.seen(&world), code);
        assert_nothing_runs(&world);
        assert_eq!(of_type(&world, "job_paused").len(), 1);
        // An attempt that was given up counts as not made.
        assert_eq!(of_type(&world, "agent_failed").len(), 0);
        release(&world, held);
        assert_code(&resume(&world), 0);
        assert_done(&world);
        assert!(of_type(&world, "agent_completed").iter().all(|done| done["attempt"] == 1));
    }
}

/// Cuts the journal off before the first record that fits.
fn cut(world: &TestEnv, is_first: impl Fn(&Value) -> bool) {
    let files = journal(world);
    assert_eq!(files.len(), 1);
    let text = fs::read_to_string(&files[0]).unwrap();
    let whole = text.lines().take_while(|line| !is_first(&serde_json::from_str(line).unwrap()));
    let kept = whole.flat_map(|line| [line, "\n"]).collect::<String>();
    assert!(kept.len() < text.len());
    fs::write(&files[0], kept).unwrap();
}

#[test]
fn commits_that_were_about_to_be_merged_are_merged_once() {
    let one_by_one = WORKFLOW.replace("max_parallel: 2", "max_parallel: 1");
    for undo in [false, true] {
        let world = holding(&one_by_one, &["item.c"]);
        let mut run = started(&world);
        until_held(&mut run, &world, "item.c");
        run.until(&world, "two are merged", || of_type(&world, "worktree_merged").len() == 2);
        assert_eq!(ended_at(run, &world, "item.c", Signal::KILL), None);
        // The run died before it could record that the second item is merged…
        let merged = |record: &Value| {
            record["event_type"] == "worktree_merged" && record["item_id"] == "item-002"
        };
        let commit = of_type(&world, "worktree_merged")[0]["commit"].as_str().unwrap().to_owned();
        cut(&world, merged);
        if undo {
            // … or before it was merged at all.
            world.git(&["update-ref", "refs/heads/prodigy/job/job", &commit]);
        }
        release(&world, "item.c");
        assert_code(&resume(&world), 0);
        assert_done(&world);
        assert_eq!(began(&world, "item.b"), 1);
        let added = world.git(&["log", "--format=%H", "main", "--", "b.txt"]);
        assert_eq!(added.lines().count(), 1, "{added}");
    }
}

#[test]
fn one_of_two_resumes_works_and_the_other_names_it() {
    let world = holding(WORKFLOW, &["item.a"]);
    assert_eq!(ended_at(started(&world), &world, "item.a", Signal::KILL), None);
    let mut first = SpawnedProdigy::new(&world, &["resume", "job"]);
    until_held(&mut first, &world, "item.a");
    let second = stable(&resume(&world));
    let holder = format!("process {} on ", first.pid().as_raw_nonzero());
    assert!(second.contains(&holder), "{second}");
    assert_eq!(second.lines().last(), Some("[exit 75]"));
    assert_eq!(of_type(&world, "job_resumed").len(), 1);
    release(&world, "item.a");
    assert_code(&first.seen(&world), 0);
    assert_done(&world);
}

#[test]
fn an_item_that_was_under_way_at_three_crashes_is_given_up() {
    let one_by_one = WORKFLOW.replace("max_parallel: 2", "max_parallel: 1");
    let world = holding(&one_by_one, &["item.a"]);
    assert_eq!(ended_at(started(&world), &world, "item.a", Signal::KILL), None);
    // A run that is stopped in order is no crash.
    let stopped = SpawnedProdigy::new(&world, &["resume", "job"]);
    assert_eq!(ended_at(stopped, &world, "item.a", Signal::INT), Some(130));
    for _ in 0..2 {
        let killed = SpawnedProdigy::new(&world, &["resume", "job"]);
        assert_eq!(ended_at(killed, &world, "item.a", Signal::KILL), None);
    }
    // It would hold once more if it were tried again.
    assert_code(&SpawnedProdigy::new(&world, &["resume", "job"]).seen(&world), 0);
    assert_snapshot!(trace_of(&world, "item-001"), @"
    item-001 agent_started 1
    item-001 agent_started 1
    item-001 agent_started 1
    item-001 agent_started 1
    item-001 item_dead_lettered 0 poison_repeat
    ");
    assert_eq!(began(&world, "item.a"), 4);
    assert_eq!(counts(&world), (2, 1, 0));
    assert_eq!(world.read("counts"), "2 1\n");
}

#[test]
fn pauses_never_count_as_crashes() {
    let one_by_one = WORKFLOW.replace("max_parallel: 2", "max_parallel: 1");
    let world = holding(&one_by_one, &["item.a"]);
    assert_eq!(ended_at(started(&world), &world, "item.a", Signal::INT), Some(130));
    for signal in [Signal::INT, Signal::TERM, Signal::INT] {
        let run = SpawnedProdigy::new(&world, &["resume", "job"]);
        assert!(ended_at(run, &world, "item.a", signal).is_some());
    }
    release(&world, "item.a");
    assert_code(&resume(&world), 0);
    assert_done(&world);
}

#[test]
fn a_resume_may_work_on_another_number_of_items_at_once() {
    let workflow = "map: { input: 'seq 6', max_parallel: 4, agent_template: [{ shell: 'sh ROOT/hold item; sleep 0.05' }] }\n";
    let world = holding(workflow, &["item"]);
    assert_eq!(ended_at(started(&world), &world, "item", Signal::KILL), None);
    release(&world, "item");
    assert_code(&world.prodigy(&["resume", "job", "--max-parallel", "1"]), 0);
    let all = records(&world);
    let resumed = all.iter().position(|record| record["event_type"] == "job_resumed").unwrap();
    let agents = all[resumed..].iter().filter(|record| record["event_type"] == "agent_started");
    let agents: Vec<_> = agents.map(|record| record["agent_id"].as_str().unwrap()).collect();
    assert_eq!(agents, ["agent-1"; 6]);
    assert_eq!(counts(&world), (6, 0, 0));
}

#[test]
fn the_workflow_of_the_beginning_is_used_unless_asked_otherwise() {
    for (more, expected) in [(vec![], "kept"), (vec!["--use-current-workflow"], "new")] {
        let world = holding(WORKFLOW, &["item.a"]);
        assert_eq!(ended_at(started(&world), &world, "item.a", Signal::KILL), None);
        write_workflow(&world, &WORKFLOW.replace("${item} ${said}", "${item} new"));
        world.commit_all("Change the workflow");
        release(&world, "item.a");
        let mut args = vec!["resume", "job"];
        args.extend(&more);
        let seen = world.prodigy(&args);
        assert_code(&seen, 0);
        let note = "note: `workflow.yml` has changed since the job began; the stored one is used (`--use-current-workflow` takes the new one)";
        assert_eq!(seen.stderr.lines().any(|line| line == note), more.is_empty(), "{seen}");
        assert_eq!(world.read("a.txt"), format!("a {expected}\n"));
    }
}

#[test]
fn a_torn_journal_is_cut_at_its_last_whole_record() {
    let world = holding(WORKFLOW, &["item.c"]);
    assert_eq!(ended_at(started(&world), &world, "item.c", Signal::KILL), None);
    let file = journal(&world).pop().unwrap();
    let mut bytes = fs::read(&file).unwrap();
    bytes.truncate(bytes.len() - 20);
    fs::write(&file, bytes).unwrap();
    release(&world, "item.c");
    let seen = stable(&resume(&world));
    let note = seen.lines().find(|line| line.contains("cut off")).unwrap_or(&seen);
    let note = Regex::new(r"\d{8}T\d{6}Z").unwrap().replace_all(note, "[moment]").into_owned();
    let note = Regex::new(r"line \d+").unwrap().replace_all(&note, "line [n]").into_owned();
    assert_snapshot!(note, @"the last record of the journal was cut off: `$ROOT/home/events/repo/job/events-[moment].jsonl` line [n] was saved to `$ROOT/home/events/repo/job/events-[moment].jsonl.torn`");
    assert_done(&world);
}

#[test]
fn a_checkpoint_is_only_a_shortcut() {
    type Change = fn(&str, &str) -> Option<String>;
    let missing: Change = |_, _| None;
    let garbage: Change = |_, _| Some("{\"version\": 1, ".to_owned());
    let older: Change = |first, _| Some(first.to_owned());
    let future: Change = |_, last| {
        let mut checkpoint: Value = serde_json::from_str(last).unwrap();
        checkpoint["version"] = 99.into();
        Some(checkpoint.to_string())
    };
    // The other items are done when the last one begins.
    let one_by_one = WORKFLOW.replace("max_parallel: 2", "max_parallel: 1");
    let mut notes = Vec::new();
    for change in [missing, garbage, older, future] {
        let world = holding(&one_by_one, &["item.c", "reduce"]);
        let path = world.home().join("state/repo/mapreduce/jobs/job/checkpoint.json");
        assert_eq!(ended_at(started(&world), &world, "item.c", Signal::INT), Some(130));
        let first = fs::read_to_string(&path).unwrap();
        release(&world, "item.c");
        let again = SpawnedProdigy::new(&world, &["resume", "job"]);
        assert_eq!(ended_at(again, &world, "reduce", Signal::INT), Some(130));
        let last = fs::read_to_string(&path).unwrap();
        assert_ne!(first, last);
        match change(&first, &last) {
            Some(text) => fs::write(&path, text).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        release(&world, "reduce");
        let seen = resume(&world);
        assert_code(&seen, 0);
        assert_done(&world);
        assert_eq!(began(&world, "item.a"), 1);
        let said = seen.stderr.lines().filter(|line| line.contains("checkpoint"));
        notes.push(said.map(str::to_owned).next().unwrap_or_else(|| "nothing is said".to_owned()));
    }
    assert_snapshot!(notes.join("\n"), @"
    nothing is said
    the checkpoint is not used: `$ROOT/home/state/repo/mapreduce/jobs/job/checkpoint.json` is damaged at line 1: EOF while parsing a value at line 1 column 15
    nothing is said
    the checkpoint is not used: it is of another version of prodigy
    ");
}

#[test]
fn a_job_is_not_taken_up_while_the_disk_is_full() {
    let world = holding(WORKFLOW, &["item.a"]);
    assert_eq!(ended_at(started(&world), &world, "item.a", Signal::KILL), None);
    release(&world, "item.a");
    let before = records(&world).len();
    let mut command = world.prodigy_command(&["resume", "job"]);
    let full = world.to_output(&command.env("PRODIGY_DISK_FLOOR", "1000000GiB").output().unwrap());
    let free = Regex::new(r"\d+(\.\d+)? [KMGT]iB (is|are|of)").unwrap();
    assert_snapshot!(free.replace_all(&full.to_string(), "[free] $2"), @"
    ----- stderr -----
    error: only [free] are free in `$ROOT/home`, and [free] are wanted

    hint: make some room, or set `PRODIGY_DISK_FLOOR` lower
    [exit 1]
    ");
    assert_eq!(records(&world).len(), before);
    assert_code(&resume(&world), 0);
    assert_done(&world);
}
