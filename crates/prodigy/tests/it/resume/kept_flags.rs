//! Flags of `prodigy run` that hold when the job is resumed.
#![expect(clippy::indexing_slicing, reason = "what is not there fails the test")]

use std::{collections::BTreeSet, fs};

use prodigy_core::event::{Event, EventRecord, NewEvent, RunOptions};
use prodigy_engine::store::{Durability, JournalReader, JournalWriter};
use prodigy_testkit::{CommandOutput, TestEnv};
use serde_json::{Value, json};

use crate::fixture::{
    journal::layout,
    map_job::{assert_code, counts, map_world, of_type},
};

/// Items that cost half a dollar each, one at a time.
const COSTLY: &str = "
agents: { claude: { type: simulated, rules: [{ answer: done, cost_usd: 0.5 }] } }
map:
  input: { items: [a, b, c, d] }
  max_parallel: 1
  agent_template:
    - claude: /fix ${item}
";

/// Runs the workflow as job `job` with more flags.
fn run(world: &TestEnv, flags: &[&str]) -> CommandOutput {
    let mut args = vec!["run", "workflow.yml", "--job-id", "job"];
    args.extend(flags);
    world.prodigy(&args)
}

/// Resumes the job with more flags.
fn resume(world: &TestEnv, flags: &[&str]) -> CommandOutput {
    let mut args = vec!["resume", "job"];
    args.extend(flags);
    world.prodigy(&args)
}

/// Lets what waits for the file `go` beside the repository succeed.
fn let_go(world: &TestEnv) {
    fs::write(world.root().join("go"), "").unwrap();
}

/// Returns the options that the job has now.
fn options(world: &TestEnv) -> Value {
    let seen = world.prodigy(&["jobs", "show", "job", "--json"]);
    assert_code(&seen, 0);
    serde_json::from_str::<Value>(&seen.stdout).unwrap()["job"]["options"].clone()
}

#[test]
fn a_budget_of_run_holds_on_resume_until_another_is_given() {
    let world = map_world(COSTLY);
    assert_code(&run(&world, &["-y", "--budget-usd", "0.8"]), 6);
    assert_eq!(counts(&world), (2, 0, 0));
    assert_code(&resume(&world, &[]), 6);
    assert_eq!(counts(&world), (2, 0, 0), "nothing more is spent");
    assert_code(&resume(&world, &["--budget-usd", "1.2"]), 6);
    assert_eq!(counts(&world), (3, 0, 0));
    assert_code(&resume(&world, &[]), 6);
    assert_eq!(counts(&world), (3, 0, 0), "the second budget holds too");
    assert_code(&resume(&world, &["--budget-usd", "10"]), 0);
    assert_eq!(counts(&world), (4, 0, 0));
}

#[test]
fn a_budget_holds_for_replays_of_dead_letters() {
    let world = map_world(
        "
agents: { claude: { type: simulated, rules: [{ answer: done, cost_usd: 0.5 }] } }
map:
  input: { items: [a, b, c] }
  max_parallel: 1
  agent_template:
    - claude: /fix ${item}
    - shell: test -e ROOT/go
error_policy: { retry_config: { max_attempts: 1 } }
",
    );
    // The exit code of a job without a success is not what this test is about.
    let first = run(&world, &["-y", "--budget-usd", "1.6"]);
    assert_eq!(counts(&world), (0, 3, 0), "{first}");
    let_go(&world);
    assert_code(&world.prodigy(&["dlq", "retry", "job"]), 6);
    assert_eq!(of_type(&world, "agent_usage").len(), 4, "one more was within the budget");
}

#[test]
fn a_budget_of_an_older_journal_holds_on_resume() {
    let world = map_world(COSTLY);
    assert_code(&run(&world, &["-y", "--budget-usd", "0.8"]), 6);
    forget_options(&world);
    assert_eq!(options(&world), json!({}));
    assert_code(&resume(&world, &[]), 6);
    assert_eq!(counts(&world), (2, 0, 0), "nothing more is spent");
}

/// Makes the journal one of a program that did not record the flags.
fn forget_options(world: &TestEnv) {
    let (layout, job) = (layout(world), "job".parse().unwrap());
    let records: Vec<_> = JournalReader::open(&layout, &job).unwrap().map(Result::unwrap).collect();
    fs::remove_dir_all(layout.events_dir(&job)).unwrap();
    fs::remove_file(layout.checkpoint(&job)).unwrap();
    let mut journal = JournalWriter::create(&layout, &job, Durability::Relaxed).unwrap();
    for EventRecord { timestamp, agent_id, item_id, mut event, .. } in records {
        if let Event::JobStarted(started) = &mut event {
            started.options = RunOptions::default();
        }
        journal.append(vec![NewEvent { agent_id, item_id, event }], timestamp).unwrap();
    }
}

/// Setup fails until the file `go` is there; then no item passes the filter.
const EMPTY: &str = "
setup: [{ shell: test -e ROOT/go }]
map:
  input: { items: [a] }
  filter: \"item == 'z'\"
  agent_template: [{ shell: 'true' }]
";

#[test]
fn no_items_of_run_holds_on_resume_until_another_is_given() {
    let world = map_world(EMPTY);
    assert_code(&run(&world, &["-y", "--no-items", "fail"]), 1);
    let_go(&world);
    assert_code(&resume(&world, &[]), 4);
    assert_code(&resume(&world, &[]), 4);
    assert_code(&resume(&world, &["--no-items", "ok"]), 0);
}

#[test]
fn fail_on_dlq_of_run_holds_on_resume_until_another_is_given() {
    let workflow = "
setup: [{ shell: test -e ROOT/go }]
map:
  input: { items: [a, b] }
  agent_template: [{ shell: 'test ${item} = b' }]
error_policy: { retry_config: { max_attempts: 1 } }
";
    for (flags, code) in [([].as_slice(), 3), (&["--fail-on-dlq=false"], 0)] {
        let world = map_world(workflow);
        assert_code(&run(&world, &["-y", "--fail-on-dlq"]), 1);
        let_go(&world);
        assert_code(&resume(&world, flags), code);
    }
}

#[test]
fn no_wait_of_run_holds_on_resume_until_another_is_given() {
    let world = map_world(
        "
agents:
  claude: { type: simulated, rules: [{ fault: usage_limit, reset_after: 1h }] }
map:
  input: { items: [a] }
  agent_template: [{ claude: /fix }]
",
    );
    assert_code(&run(&world, &["-y", "--no-wait"]), 75);
    assert_code(&resume(&world, &[]), 75);
    assert_eq!(options(&world)["no_wait"], true);
}

#[test]
fn max_parallel_of_run_holds_on_resume_until_another_is_given() {
    // Each item waits for another one, but not for long.
    let workflow = "
setup: [{ shell: test -e ROOT/go }]
map:
  input: { items: [a, b] }
  max_parallel: 2
  agent_template:
    - shell: |
        touch ROOT/here.${item}
        for _ in $(seq 20); do test -e ROOT/here.a && test -e ROOT/here.b && break; sleep 0.1; done
";
    for (flags, agents) in [([].as_slice(), 1), (&["--max-parallel", "2"], 2)] {
        let world = map_world(workflow);
        assert_code(&run(&world, &["-y", "--max-parallel", "1"]), 1);
        let_go(&world);
        assert_code(&resume(&world, flags), 0);
        let started = of_type(&world, "agent_started");
        let who: BTreeSet<_> = started.iter().map(|start| start["agent_id"].to_string()).collect();
        assert_eq!(who.len(), agents, "{flags:?}");
    }
}

#[test]
fn yes_holds_on_resume_until_another_is_given() {
    let workflow = "
setup: [{ shell: test -e ROOT/go }]
map:
  input: { items: [a] }
  agent_template: [{ shell: touch x && git add x && git commit --quiet -m x }]
";
    for (first, second, third, code) in [
        (["-y"].as_slice(), [].as_slice(), [].as_slice(), 0),
        (&["-y"], &["--yes=false"], &[], 7),
        (&[], &["-y"], &[], 0),
        (&[], &[], &[], 7),
    ] {
        let world = map_world(workflow);
        assert_code(&run(&world, first), 1);
        assert_code(&resume(&world, second), 1);
        let_go(&world);
        assert_code(&resume(&world, third), code);
    }
}

#[test]
fn jobs_show_names_the_flags_that_hold() {
    let world = map_world(EMPTY);
    assert_code(&run(&world, &["-y", "--no-items", "fail", "--max-parallel", "3"]), 1);
    assert_code(&resume(&world, &["--budget-usd", "2.5", "--fail-on-dlq", "--no-wait"]), 1);
    let shown = world.prodigy(&["jobs", "show", "job"]).stdout;
    let flags = shown.lines().find(|line| line.starts_with("flags"));
    assert_eq!(
        flags,
        Some(
            "flags       --max-parallel 3 --budget-usd 2.5 --no-items fail --no-wait --fail-on-dlq"
        )
    );
}

/// Returns the flags that the help of a command names.
fn in_help(world: &TestEnv, command: &[&str]) -> BTreeSet<String> {
    let mut args = command.to_vec();
    args.push("--help");
    let help = world.prodigy(&args).stdout;
    let flag = regex::Regex::new(r"(?m)^ +(?:-\w, )?--([a-z-]+)").unwrap();
    let found = flag.captures_iter(&help).map(|found| found[1].to_owned());
    found.filter(|name| !["help", "version", "home"].contains(&name.as_str())).collect()
}

#[test]
fn every_flag_in_the_help_of_a_job_is_kept_or_for_one_call() {
    let world = map_world(EMPTY);
    let page = world.prodigy(&["__reference", "flags"]).stdout;
    for command in [["run"].as_slice(), &["batch"], &["resume"], &["dlq", "retry"]] {
        let name = format!("`{}`", command.join(" "));
        let rows = page.lines().filter(|line| {
            line.split('|')
                .nth(2)
                .is_some_and(|commands| commands.split(',').any(|c| c.trim() == name))
        });
        let flag = |row: &str| Some(row.split('|').nth(1)?.trim().strip_prefix("`--")?.to_owned());
        let decided: BTreeSet<String> =
            rows.filter_map(flag).map(|name| name.trim_end_matches('`').to_owned()).collect();
        assert_eq!(decided, in_help(&world, command), "{name}");
    }
}
