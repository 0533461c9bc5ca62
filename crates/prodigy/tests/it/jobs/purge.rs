//! `prodigy purge`, and the retention in the configuration.
#![expect(clippy::indexing_slicing, reason = "what is not there fails the test")]

use std::fs;

use prodigy_testkit::{CommandOutput, TestEnv};
use serde_json::{Value, json};

use crate::{
    dlq::retry::{WORKFLOW, failing, mend, retry},
    fixture::map_job::{assert_code, go, map_world},
};

/// Items that print something, one of which is in the dead letter queue if the file is not there.
const PRINTING: &str = r"
map:
  input: { items: [a, b] }
  item_key: item
  max_parallel: 1
  agent_template:
    - shell: echo printed ${item}; test ${item} = a || test -e ROOT/go
";

/// Runs `prodigy purge` and returns its document.
fn purge(world: &TestEnv, more: &[&str]) -> Value {
    let seen = world.prodigy(&[&["purge"], more, &["--json"]].concat());
    assert_code(&seen, 0);
    serde_json::from_str(&seen.stdout).unwrap()
}

/// Returns the parts of jobs that a purge took.
fn parts(document: &Value) -> Vec<String> {
    let rows = document["purged"].as_array().unwrap().iter();
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    rows.map(|row| format!("{} {}", word(&row["job_id"]), word(&row["what"]))).collect()
}

/// Returns a world with a job that is done, `job`, whose items all succeeded.
fn done() -> TestEnv {
    let world = map_world(PRINTING);
    fs::write(world.root().join("go"), "").unwrap();
    assert_code(&go(&world), 0);
    world
}

/// Returns the lines of the audit trail: what was done, and what came of it.
fn trail(world: &TestEnv) -> Vec<String> {
    let text = fs::read_to_string(world.home().join("audit/repo/audit.jsonl")).unwrap_or_default();
    let line = |line: &str| {
        let record: Value = serde_json::from_str(line).unwrap();
        let field = |name: &str| record[name].as_str().unwrap_or("-").to_owned();
        format!("{} {} {}", field("action"), field("outcome"), field("reason"))
    };
    text.lines().map(line).collect()
}

fn show(world: &TestEnv) -> CommandOutput {
    world.prodigy(&["jobs", "show", "job"])
}

#[test]
fn purge_without_an_age_is_refused() {
    let world = done();
    for args in [&["purge"][..], &["purge", "logs"], &["purge", "jobs"]] {
        let seen = world.prodigy(args);
        assert_code(&seen, 2);
        assert!(seen.stderr.contains("--older-than 30d"), "{seen}");
    }
}

#[test]
fn purge_touches_nothing_that_is_younger() {
    let world = done();
    for what in ["dlq", "events", "logs", "jobs"] {
        assert_eq!(parts(&purge(&world, &[what, "--older-than", "1h"])), Vec::<String>::new());
    }
    assert_code(&world.prodigy(&["verify", "job"]), 0);
}

#[test]
fn dry_run_shows_what_would_go_and_deletes_nothing() {
    let world = done();
    let planned = purge(&world, &["jobs", "--older-than", "0s", "--dry-run"]);
    assert_eq!((parts(&planned), &planned["dry_run"]), (vec!["job jobs".to_owned()], &json!(true)));
    assert_code(&world.prodigy(&["verify", "job"]), 0);
    assert_eq!(trail(&world), Vec::<String>::new());
    let seen = world.prodigy(&["purge", "jobs", "--older-than", "0s", "--dry-run"]);
    assert!(seen.stdout.starts_with("would purge  job  jobs  "), "{seen}");
}

#[test]
fn purged_logs_are_explained_and_the_job_stays() {
    let world = done();
    let logs = world.home().join("logs/repo/job");
    assert!(logs.is_dir());
    assert_eq!(parts(&purge(&world, &["logs", "--older-than", "0s"])), ["job logs"]);
    assert!(!logs.exists());
    assert_code(&world.prodigy(&["verify", "job"]), 0);
    let shown = show(&world);
    assert_code(&shown, 0);
    assert!(shown.stdout.contains("purged      logs on "), "{shown}");
    assert_code(&world.prodigy(&["audit", "verify"]), 0);
    let told = trail(&world);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].starts_with("purge intended logs older than 0s: "), "{told:?}");
    assert!(told[1].starts_with("purge done logs older than 0s: "), "{told:?}");
    // There is nothing left to purge.
    assert_eq!(parts(&purge(&world, &["logs", "--older-than", "0s"])), Vec::<String>::new());
}

#[test]
fn purged_jobs_are_still_explained_and_their_ids_stay_taken() {
    for what in ["events", "jobs"] {
        let world = done();
        assert_eq!(parts(&purge(&world, &[what, "--older-than", "0s"])), [format!("job {what}")]);
        assert!(!world.home().join("events/repo/job").exists());
        assert_eq!(world.home().join("logs/repo/job").exists(), what == "events");
        let listed = world.prodigy(&["jobs", "--json"]);
        let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
        assert_eq!(listed["jobs"], json!([]));
        assert_eq!(listed["purged"][0]["job_id"], "job");
        assert_eq!(listed["purged"][0]["job"]["items"]["successful"], 2, "{listed:#}");
        let noted = world.prodigy(&["jobs"]);
        assert!(noted.stderr.contains("purged: job; `prodigy jobs show job`"), "{noted}");
        let shown = show(&world);
        assert_code(&shown, 0);
        for wanted in ["status      purged", "was         completed", &format!("{what} on ")] {
            assert!(shown.stdout.contains(wanted), "`{wanted}`: {shown}");
        }
        assert_code(&world.prodigy(&["audit", "verify"]), 0);
        assert_code(&go(&world), 2);
        if what == "events" {
            assert_eq!(parts(&purge(&world, &["logs", "--older-than", "0s"])), ["job logs"]);
            assert!(!world.home().join("logs/repo/job").exists());
        }
    }
}

#[test]
fn jobs_with_open_dead_letters_or_work_are_left_alone() {
    let world = map_world(PRINTING);
    assert_code(&go(&world), 0);
    for what in ["dlq", "events", "logs", "jobs"] {
        let document = purge(&world, &[what, "--older-than", "0s"]);
        assert_eq!(parts(&document), Vec::<String>::new(), "{what}");
        assert_eq!(document["kept"][0]["work"], json!(["1 open dead letter"]), "{what}");
    }
    let kept =
        map_world("map:\n  input: { items: [1] }\n  agent_template: [{ shell: touch left }]\n");
    assert_code(&go(&kept), 0);
    let document = purge(&kept, &["jobs", "--older-than", "0s"]);
    assert_eq!(parts(&document), Vec::<String>::new());
    assert!(document["kept"][0]["work"][0].as_str().unwrap().contains("kept"), "{document:#}");
    let failed = map_world(
        "map:\n  input: { items: [] }\n  agent_template: [{ shell: 'true' }]\nsetup: [{ shell: exit 1 }]\n",
    );
    assert_code(&go(&failed), 1);
    assert_eq!(parts(&purge(&failed, &["jobs", "--older-than", "0s"])), Vec::<String>::new());
    assert_code(&show(&failed), 0);
}

#[test]
fn purged_dead_letters_are_closed_ones_and_stay_gone() {
    let world = failing(WORKFLOW, &["a"]);
    assert_code(&go(&world), 0);
    mend(&world, "a");
    assert_code(&retry(&world, &[]), 0);
    assert_eq!(parts(&purge(&world, &["dlq", "--older-than", "0s"])), ["job dlq"]);
    let listed = world.prodigy(&["dlq", "list", "job", "--all", "--json"]);
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!(listed["entries"], json!([]), "{listed:#}");
    assert_code(&world.prodigy(&["verify", "job"]), 0);
    // What deletes entries makes a job no younger.
    assert_eq!(parts(&purge(&world, &["jobs", "--older-than", "0s"])), ["job jobs"]);
}

#[test]
fn retention_of_the_user_holds_and_the_repository_only_lengthens_it() {
    let world = done();
    let own = world.root().join("config/prodigy");
    fs::create_dir_all(&own).unwrap();
    fs::write(own.join("config.yml"), "retention: { logs: 0s, events: 1h }\n").unwrap();
    let config = world.root().join("config").display().to_string();
    let world = world.env("XDG_CONFIG_HOME", &config);
    let settings = world.prodigy(&["config", "show", "--json"]);
    let settings: Value = serde_json::from_str(&settings.stdout).unwrap();
    assert_eq!(settings["settings"]["retention.logs"]["value"], json!(0.0));
    assert_eq!(settings["settings"]["retention.dlq"]["value"], Value::Null);
    // The repository wants more for logs, and less for events.
    world.write(".prodigy/config.yml", "retention: { logs: 2h, events: 0s }\n");
    assert_eq!(parts(&purge(&world, &[])), Vec::<String>::new());
    let seen = world.prodigy(&["purge", "logs", "--older-than", "0s"]);
    assert_code(&seen, 0);
    assert!(seen.stderr.contains("this repository keeps logs for 2h"), "{seen}");
    assert!(world.home().join("logs/repo/job").is_dir());
    world.write(".prodigy/config.yml", "retention: { events: 0s }\n");
    assert_eq!(parts(&purge(&world, &[])), ["job logs"]);
}

#[test]
fn runs_purge_nothing() {
    let world = done();
    world.write(".prodigy/config.yml", "retention: { logs: 0s, events: 0s, dlq: 0s }\n");
    let again = world.prodigy(&["run", "workflow.yml", "-y", "--job-id", "again"]);
    assert_code(&again, 0);
    assert!(world.home().join("logs/repo/job").is_dir());
    assert!(world.home().join("events/repo/job").is_dir());
}
