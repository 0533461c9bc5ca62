//! The flags and commands that are about items: `run`, `resume`, `events`, `logs`, `batch`.

use std::fs;

use insta::assert_snapshot;
use prodigy_testkit::TestEnv;

use crate::fixture::workflow::{self, SpawnedProdigy, records, stable};

/// Three items, of which the second fails in every attempt.
const ONE_FAILS: &str = "\
name: three
mode: mapreduce
setup:
  - shell: echo prepared
map:
  input: { items: [one, two, three] }
  max_parallel: 3
  agent_template:
    - shell: echo \"out ${item}\"; echo \"err ${item}\" >&2
    - shell: test ${item} != two
reduce:
  - shell: echo reduced
error_policy:
  retry_config: { max_attempts: 2, backoff: { type: fixed, delay: 1ms } }
";

fn one_fails() -> TestEnv {
    workflow::world(ONE_FAILS)
}

/// Returns how many attempts were under way at once, at most.
fn widest(world: &TestEnv) -> usize {
    let (mut now, mut most) = (0_usize, 0);
    for record in records(world) {
        match record.get("event_type").and_then(|kind| kind.as_str()).unwrap() {
            "agent_started" => now += 1,
            "agent_completed" | "agent_failed" => now -= 1,
            "job_resumed" => now = 0,
            _ => {}
        }
        most = most.max(now);
    }
    most
}

#[test]
fn as_many_items_run_at_once_as_the_command_line_says() {
    let wide = "mode: mapreduce\nmap:\n  input: { items: [1, 2, 3, 4] }\n  max_parallel: 4\n  \
                isolation: shared\n  agent_template: [{ shell: sleep 1 }]\n";
    let world = workflow::world(wide);
    let seen = world.prodigy(&["run", "workflow.yml", "-y", "--job-id", "job"]);
    assert_eq!((seen.code, widest(&world)), (Some(0), 4), "{seen}");
    let world = workflow::world(wide);
    let args = ["run", "workflow.yml", "-y", "--job-id", "job", "--max-parallel", "2"];
    let seen = world.prodigy(&args);
    assert_eq!((seen.code, widest(&world)), (Some(0), 2), "{seen}");
}

#[test]
fn a_number_of_items_that_makes_no_sense_is_refused() {
    let world = one_fails();
    for number in ["0", "257", "-1", "x"] {
        let flag = format!("--max-parallel={number}");
        let seen = world.prodigy(&["run", "workflow.yml", &flag]);
        assert_eq!(seen.code, Some(2), "{seen}");
    }
    let world = workflow::world("- shell: 'true'\n");
    assert_snapshot!(world.prodigy(&["run", "workflow.yml", "--max-parallel", "2"]), @"
    ----- stderr -----
    error: `--max-parallel` is for workflows that have items; this one is sequential

    hint: leave it out
    [exit 2]
    ");
    assert_snapshot!(world.prodigy(&["run", "workflow.yml", "--no-items", "fail"]), @"
    ----- stderr -----
    error: `--no-items` is for workflows that have items; this one is sequential

    hint: leave it out
    [exit 2]
    ");
}

#[test]
fn dead_letters_have_an_exit_code_of_their_own_if_that_is_wanted() {
    let world = one_fails();
    let run = ["run", "workflow.yml", "-y", "--job-id"];
    let seen = world.prodigy(&[&run[..], &["a"]].concat());
    assert_eq!(seen.code, Some(0), "{seen}");
    let seen = world.prodigy(&[&run[..], &["b", "--fail-on-dlq"]].concat());
    assert_eq!(seen.code, Some(3), "{seen}");
    world.write("workflow.yml", ONE_FAILS.replace("!= two", "!= nothing"));
    let seen = world.prodigy(&[&run[..], &["c", "--fail-on-dlq"]].concat());
    assert_eq!(seen.code, Some(0), "{seen}");
}

/// Returns the lines of a run of items from `items.json` that say why there are none.
fn nothing(input: &str, more: &str, args: &[&str]) -> String {
    let map = format!(
        "mode: mapreduce\nmap:\n  input: {input}\n{more}  agent_template: [{{ shell: ls }}]\n"
    );
    let world = workflow::world(&map);
    world.write("items.json", "{\"all\": [{\"n\": 1}, {\"n\": 2}]}");
    world.write("empty.json", "[]");
    world.commit_all("Add items");
    let seen = world.prodigy(&[&["run", "workflow.yml", "-y", "--job-id", "job"], args].concat());
    let text = seen.to_string();
    let why: Vec<_> =
        text.lines().filter(|line| line.starts_with("no items were selected:")).collect();
    format!("{}\n[exit {}]", why.join("\n"), seen.code.unwrap())
}

#[test]
fn a_job_without_items_says_why_there_are_none() {
    let told = [
        nothing("empty.json", "", &[]),
        nothing("items.json", "  json_path: $.none[*]\n", &[]),
        nothing("items.json", "  json_path: $.all[*]\n  filter: n > 5\n", &[]),
        nothing("items.json", "  json_path: $.all[*]\n  offset: 2\n", &[]),
        nothing("{ glob: '*.nothing' }", "", &[]),
    ];
    assert_snapshot!(told.join("\n"), @"
    no items were selected: `empty.json` holds none
    [exit 0]
    no items were selected: `$.none[*]` matches nothing in `items.json`
    [exit 0]
    no items were selected: `filter: n > 5` leaves none of the 2 in `items.json`
    [exit 0]
    no items were selected: `offset: 2` passes over all of the 2 in `items.json`
    [exit 0]
    no items were selected: no file matches `*.nothing`
    [exit 0]
    ");
}

#[test]
fn a_job_without_items_fails_if_that_is_wanted() {
    let told = nothing("empty.json", "", &["--no-items", "fail"]);
    assert_snapshot!(told, @"
    no items were selected: `empty.json` holds none
    [exit 4]
    ");
}

#[test]
fn a_job_is_resumed_with_another_number_of_items_at_once() {
    let workflow = "mode: mapreduce\nmap:\n  input: { items: [1, 2, 3, 4, 5, 6] }\n  max_parallel: 1\n  \
                    isolation: shared\n  agent_template:\n    - shell: test -e $GO || sleep 60\n    \
                    - shell: sleep 1\n";
    let world = workflow::world(workflow);
    let go = world.home().join("go");
    let with_go = |args: &[&str]| {
        let mut command = world.prodigy_command(args);
        command.env("GO", &go);
        command
    };
    let mut first =
        SpawnedProdigy::of(&mut with_go(&["run", "workflow.yml", "-y", "--job-id", "job"]));
    let started = || {
        world.home().join("events/repo/job").is_dir() && {
            records(&world).iter().any(|record| record["event_type"] == "step_started")
        }
    };
    first.until(&world, "an item is under way", started);
    first.signal(rustix::process::Signal::INT);
    let seen = first.seen(&world);
    assert_eq!(seen.code, Some(130), "{seen}");
    fs::write(&go, "").unwrap();
    let seen =
        SpawnedProdigy::of(&mut with_go(&["resume", "job", "--max-parallel", "3"])).seen(&world);
    assert_eq!((seen.code, widest(&world)), (Some(0), 3), "{seen}");
}

#[test]
fn resume_knows_dead_letters_too() {
    let world = workflow::world(&ONE_FAILS.replace("echo reduced", "test -e \"$GO\""));
    let run = world.prodigy(&["run", "workflow.yml", "-y", "--job-id", "job", "--fail-on-dlq"]);
    assert_eq!(run.code, Some(1), "{run}");
    let mut command = world.prodigy_command(&["resume", "job", "--fail-on-dlq"]);
    command.env("GO", world.home());
    let seen = SpawnedProdigy::of(&mut command).seen(&world);
    assert_eq!(seen.code, Some(3), "{seen}");
}

#[test]
fn the_current_workflow_is_found_from_any_directory() {
    let world = workflow::world("- shell: 'true'\n");
    world.write("flows/main.yml", "- shell: 'false'\n");
    world.commit_all("Add another");
    assert_eq!(world.prodigy(&["run", "flows/main.yml", "-y", "--job-id", "job"]).code, Some(1));
    world.write("flows/main.yml", "- shell: 'true'\n");
    let from = |directory: std::path::PathBuf, args: &[&str]| {
        let mut command = world.prodigy_command(args);
        command.current_dir(directory);
        SpawnedProdigy::of(&mut command).seen(&world)
    };
    let seen = from(world.repo().join("flows"), &["resume", "job"]);
    let note = seen.stderr.lines().find(|line| line.starts_with("note:")).unwrap_or_default();
    assert_snapshot!(note, @"note: `flows/main.yml` has changed since the job began; the stored one is used (`--use-current-workflow` takes the new one)");
    let seen = from(world.home(), &["resume", "job", "--use-current-workflow"]);
    assert_eq!(seen.code, Some(0), "{seen}");
}

#[test]
fn a_workflow_that_stands_in_no_file_has_no_current_one() {
    let world = workflow::world("- shell: 'true'\n");
    let seen = world.prodigy(&["exec", "shell: false"]);
    assert_eq!(seen.code, Some(1), "{seen}");
    assert_snapshot!(world.prodigy(&["resume", "--use-current-workflow"]), @"
    ----- stderr -----
    error: the workflow of this job stands in no file: it is from `exec`

    hint: leave out `--use-current-workflow`
    [exit 2]
    ");
}

/// Returns the events of a job, without what differs from run to run.
fn events(world: &TestEnv, args: &[&str]) -> String {
    let seen = stable(&world.prodigy(&[&["events", "job"], args].concat()));
    let lines = seen.lines().skip(1).filter_map(|line| line.get(14..));
    let agent = regex::Regex::new(r"agent-\d").unwrap();
    agent.replace_all(&lines.collect::<Vec<_>>().join("\n"), "agent-N").into_owned()
}

#[test]
fn events_can_be_those_of_one_item() {
    let world = one_fails();
    workflow::run(&world);
    assert_snapshot!(events(&world, &["--item", "item-002"]), @r#"
    item_queued         item-002
    agent_started       item-002  agent-N
    worktree_created    item-002  agent-N  prodigy/job/item-002  $ROOT/home/worktrees/repo/job/agent-N
    step_started        item-002  agent-N  1  shell: echo "out ${item}"; echo "err ${item}" >&2
    step_completed      item-002  agent-N  1  shell: echo "out ${item}"; echo "err ${item}" >&2  [time]
    step_started        item-002  agent-N  2  shell: test ${item} != two
    step_failed         item-002  agent-N  2  shell: test ${item} != two  command_failed: exit code 1  [time]
    agent_failed        item-002  agent-N  command_failed: `test ${item} != two` failed with exit code 1  [time]
    agent_retrying      item-002  attempt 2 in [time]  `test ${item} != two` failed with exit code 1
    agent_started       item-002  agent-N  attempt 2
    step_started        item-002  agent-N  1  shell: echo "out ${item}"; echo "err ${item}" >&2
    step_completed      item-002  agent-N  1  shell: echo "out ${item}"; echo "err ${item}" >&2  [time]
    step_started        item-002  agent-N  2  shell: test ${item} != two
    step_failed         item-002  agent-N  2  shell: test ${item} != two  command_failed: exit code 1  [time]
    agent_failed        item-002  agent-N  command_failed: `test ${item} != two` failed with exit code 1  [time]
    item_dead_lettered  item-002  agent-N  2 attempts  command_failed: `test ${item} != two` failed with exit code 1
    "#);
    assert_snapshot!(world.prodigy(&["events", "job", "--item", "item-009"]), @"
    ----- stderr -----
    no event matches
    ");
}

#[test]
fn items_are_found_by_their_keys_as_well() {
    let keyed = ONE_FAILS
        .replace("  max_parallel", "  item_key: item\n  max_parallel")
        .replace("two", "src/Two.rs");
    let world = workflow::world(&keyed);
    workflow::run(&world);
    let types = |args: &[&str]| {
        let seen = world.prodigy(&[&["events", "job", "--type", "item_queued"], args].concat());
        seen.stdout.lines().count()
    };
    assert_eq!(types(&["--item", "src/Two.rs"]), 2);
    assert_eq!(types(&["--item", "one"]), 2);
    assert_eq!(types(&["--item", "src"]), 0);
    let seen = stable(&world.prodigy(&["logs", "job", "src/Two.rs", "1"]));
    assert_snapshot!(seen, @r#"
    ── attempt 1, step 1 shell: echo "out ${item}"; echo "err ${item}" >&2 (exit 0, [time])
    out src/Two.rs
    err src/Two.rs
    ── attempt 2, step 1 shell: echo "out ${item}"; echo "err ${item}" >&2 (exit 0, [time])
    out src/Two.rs
    err src/Two.rs
    "#);
}

#[test]
fn events_can_be_those_of_one_agent() {
    let world = workflow::world(&ONE_FAILS.replace("max_parallel: 3", "max_parallel: 1"));
    workflow::run(&world);
    let count = |agent: &str| {
        let seen = world.prodigy(&["events", "job", "--json", "--agent", agent]);
        seen.stdout.lines().count()
    };
    let of_agent = records(&world).iter().filter(|record| record["agent_id"] == "agent-1").count();
    assert!(of_agent > 10);
    assert_eq!((count("agent-1"), count("agent-2")), (of_agent, 0));
}

#[test]
fn steps_of_items_side_by_side_keep_their_names() {
    let world = workflow::world(
        "mode: mapreduce\nmap:\n  input: { items: [1, 2, 3, 4] }\n  isolation: shared\n  \
         agent_template: [{ shell: sleep 0.1 }]\n",
    );
    workflow::run(&world);
    let seen = stable(&world.prodigy(&["events", "job", "--type", "step_completed"]));
    let named = seen.lines().filter(|line| line.ends_with("1  shell: sleep 0.1  [time]")).count();
    assert_eq!(named, 4, "{seen}");
}

#[test]
fn the_output_of_an_item_is_that_of_all_its_attempts() {
    let world = one_fails();
    workflow::run(&world);
    assert_snapshot!(stable(&world.prodigy(&["logs", "job", "item-002"])), @r#"
    ── attempt 1, step 1 shell: echo "out ${item}"; echo "err ${item}" >&2 (exit 0, [time])
    out two
    err two
    ── attempt 1 failed: command_failed: `test ${item} != two` failed with exit code 1
    ── attempt 2, step 1 shell: echo "out ${item}"; echo "err ${item}" >&2 (exit 0, [time])
    out two
    err two
    ── attempt 2 failed: command_failed: `test ${item} != two` failed with exit code 1
    "#);
    assert_snapshot!(stable(&world.prodigy(&["logs", "job", "item-001"])), @r#"
    ── attempt 1, step 1 shell: echo "out ${item}"; echo "err ${item}" >&2 (exit 0, [time])
    out one
    err one
    "#);
    assert_snapshot!(stable(&world.prodigy(&["logs", "job", "item-002", "--stderr"])), @r#"
    ── attempt 1, step 1 shell: echo "out ${item}"; echo "err ${item}" >&2 (exit 0, [time])
    err two
    ── attempt 1 failed: command_failed: `test ${item} != two` failed with exit code 1
    ── attempt 2, step 1 shell: echo "out ${item}"; echo "err ${item}" >&2 (exit 0, [time])
    err two
    ── attempt 2 failed: command_failed: `test ${item} != two` failed with exit code 1
    "#);
    assert_snapshot!(stable(&world.prodigy(&["logs", "job", "item-002", "2"])), @"");
}

#[test]
fn the_output_of_a_job_with_items_is_that_of_its_own_steps() {
    let world = one_fails();
    workflow::run(&world);
    assert_snapshot!(stable(&world.prodigy(&["logs", "job"])), @"
    ── setup.1 shell: echo prepared (exit 0, [time])
    prepared
    ── reduce.1 shell: echo reduced (exit 0, [time])
    reduced
    ----- stderr -----
    note: these are the job's own steps; `prodigy logs job item-001` shows what an item printed
    ");
    assert_snapshot!(stable(&world.prodigy(&["logs", "job", "setup.1"])), @"
    ── setup.1 shell: echo prepared (exit 0, [time])
    prepared
    ");
    assert_snapshot!(world.prodigy(&["logs", "job", "item-004"]), @"
    ----- stderr -----
    error: job `job` has no item `item-004`

    hint: `prodigy events job --type item_queued` lists its items
    [exit 2]
    ");
    assert_snapshot!(world.prodigy(&["logs", "job", "setup.2"]), @"
    ----- stderr -----
    error: job `job` ran no step `setup.2`

    hint: `prodigy events job --type step_started` lists its steps
    [exit 2]
    ");
}

#[test]
fn what_is_both_an_item_and_a_step_is_the_item() {
    let keyed = ONE_FAILS
        .replace("  max_parallel", "  item_key: item\n  max_parallel")
        .replace("one,", "setup,");
    let world = workflow::world(&keyed);
    workflow::run(&world);
    assert_snapshot!(stable(&world.prodigy(&["logs", "job", "setup"])), @r#"
    ── attempt 1, step 1 shell: echo "out ${item}"; echo "err ${item}" >&2 (exit 0, [time])
    out setup
    err setup
    "#);
}

#[test]
fn an_item_called_like_the_directory_of_the_jobs_own_output_has_another() {
    let keyed = ONE_FAILS
        .replace("  max_parallel", "  item_key: item\n  max_parallel")
        .replace("one,", "workflow,")
        .replace("three", "agent-1");
    let world = workflow::world(&keyed);
    workflow::run(&world);
    assert_snapshot!(stable(&world.prodigy(&["logs", "job", "workflow", "1"])), @r#"
    ── attempt 1, step 1 shell: echo "out ${item}"; echo "err ${item}" >&2 (exit 0, [time])
    out workflow
    err workflow
    "#);
    let queued = world.prodigy(&["events", "job", "--type", "item_queued"]).stdout;
    let ids: Vec<_> = queued.lines().skip(1).filter_map(|line| line.split("  ").last()).collect();
    assert_snapshot!(ids.join("\n"), @"
    workflow.da7f739f627198465eeab537a6f7a435
    two
    agent-1.6ff3b3bd11c44cac620c43d5b65377bd
    ");
}

#[test]
fn an_item_is_followed_until_it_ends() {
    let world = workflow::world(
        "mode: mapreduce\nmap:\n  input: { items: [1, 2] }\n  max_parallel: 1\n  isolation: shared\n  \
         agent_template:\n    - shell: echo begins; while ! test -e $GO; do sleep 0.02; done; echo ends\n",
    );
    let go = world.home().join("go");
    let mut command = world.prodigy_command(&["run", "workflow.yml", "-y", "--job-id", "job"]);
    let mut run = SpawnedProdigy::of(command.env("GO", &go));
    let out = || world.home().join("logs/repo/job/item-001/attempt-1.out");
    run.until(&world, "the item printed", || fs::read(out()).is_ok_and(|text| !text.is_empty()));
    let log = world.home().join("followed");
    let mut command = world.prodigy_command(&["logs", "job", "item-001", "--follow"]);
    let file = fs::File::create(&log).unwrap();
    let mut follow =
        SpawnedProdigy::with_streams(&mut command, file.into(), std::process::Stdio::piped());
    let shown = || fs::read_to_string(&log).unwrap();
    follow.until(&world, "it is followed", || shown().contains("begins"));
    fs::write(&go, "").unwrap();
    let seen = follow.seen(&world);
    assert_eq!(seen.code, Some(0), "{seen}");
    let time = regex::Regex::new(r"\b[\d.]+m?s\b").unwrap();
    assert_snapshot!(time.replace_all(&shown(), "[time]"), @"
    ── attempt 1, step 1 shell: echo begins; while ! test -e $GO; do sleep 0.02; done; echo… (running)
    begins
    ends
    ── attempt 1, step 1 ended: exit 0, [time]
    ");
    assert_eq!(run.seen(&world).code, Some(0));
}
