//! `--input`, and input files that are not committed.

use std::{fs, io::Write as _, process::Stdio};

use insta::assert_snapshot;
use prodigy_testkit::{CommandOutput, TestEnv};
use serde_json::Value;

use crate::fixture::map_job::{assert_code, beside, map_world, of_type, sorted};

/// A workflow that notes its items beside the repository.
const NOTES: &str = "
map:
  input: items.json
  agent_template: [{ shell: 'echo \"${item}\" >> ROOT/seen' }]
";

/// Runs the workflow as job `job` with more flags.
fn run(world: &TestEnv, flags: &[&str]) -> CommandOutput {
    let mut args = vec!["run", "workflow.yml", "-y", "--job-id", "job"];
    args.extend(flags);
    world.prodigy(&args)
}

/// Runs `prodigy` with a standard input.
fn with_stdin(world: &TestEnv, args: &[&str], text: &str) -> CommandOutput {
    let mut command = world.prodigy_command(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    world.to_output(&child.wait_with_output().unwrap())
}

#[test]
fn an_input_file_that_is_not_committed_is_refused_before_anything_starts() {
    let world = map_world(NOTES);
    world.write("items.json", "[1, 2]");
    assert_snapshot!(run(&world, &[]), @"
    ----- stderr -----
    error: `items.json` is not committed, so the worktree of the job does not have it

    hint: commit it, or run `prodigy run workflow.yml --input items.json`
    [exit 2]
    ");
    for args in [["plan", "workflow.yml"].as_slice(), &["simulate", "workflow.yml"]] {
        let seen = world.prodigy(args);
        assert_code(&seen, 2);
        assert!(seen.stderr.contains("`items.json` is not committed"), "{seen}");
    }
    assert!(!world.home().join("events").exists(), "no job was started");
    assert_code(&run(&world, &["--input", "items.json"]), 0);
    assert_eq!(sorted(&world, "seen"), "1\n2");
}

#[test]
fn an_input_file_with_changes_that_are_not_committed_is_refused() {
    let world = map_world(NOTES);
    world.write("items.json", "[1, 2]");
    world.commit_all("Add items");
    world.write("items.json", "[1, 2, 3]");
    for args in [["run", "workflow.yml"].as_slice(), &["plan", "workflow.yml"]] {
        let seen = world.prodigy(args);
        assert_code(&seen, 2);
        assert!(seen.stderr.contains("`items.json` has changes that are not committed"), "{seen}");
    }
    world.commit_all("More items");
    let plan = world.prodigy(&["plan", "workflow.yml", "--json"]);
    let plan: Value = serde_json::from_str(&plan.stdout).unwrap();
    assert_eq!(plan["map"]["items"]["count"], 3);
    assert_code(&run(&world, &[]), 0);
    assert_eq!(sorted(&world, "seen"), "1\n2\n3");
}

#[test]
fn an_input_file_that_is_nowhere_is_refused_before_anything_starts() {
    let world = map_world(NOTES);
    for args in [["run", "workflow.yml"].as_slice(), &["plan", "workflow.yml"]] {
        let seen = world.prodigy(args);
        assert_code(&seen, 2);
        assert!(seen.stderr.contains("there is no file `items.json`"), "{seen}");
    }
}

#[test]
fn an_input_file_that_setup_writes_need_not_be_committed() {
    let world = map_world(&format!("setup:\n  - shell: echo '[7]' > items.json\n{NOTES}"));
    world.write("items.json", "[1, 2]");
    let plan = world.prodigy(&["plan", "workflow.yml"]);
    assert_code(&plan, 0);
    assert!(plan.stdout.contains("known later: `items.json` is not committed"), "{plan}");
    let seen = run(&world, &[]);
    assert_code(&seen, 0);
    assert!(seen.stderr.contains("unless `setup` writes it"), "{seen}");
    assert_eq!(beside(&world, "seen"), "7\n");
}

#[test]
fn items_are_read_by_the_ending_of_the_file() {
    for (name, text, items) in [
        ("x.json", "[\"a\", \"b\"]", "a\nb"),
        ("x.jsonl", "\"a\"\n\"b\"\n", "a\nb"),
        ("x.csv", "n\na\nb\n", "{\"n\":\"a\"}\n{\"n\":\"b\"}"),
        ("x.tsv", "n\tm\na\tb\n", "{\"n\":\"a\",\"m\":\"b\"}"),
        ("x.txt", "a\n[b\n", "[b\na"),
        ("lines", "a\nb\n", "a\nb"),
        ("json", "[\"a\"]", "a"),
    ] {
        let world = map_world(NOTES);
        let path = world.root().join(name);
        fs::write(&path, text).unwrap();
        assert_code(&run(&world, &["--input", path.to_str().unwrap()]), 0);
        assert_eq!(sorted(&world, "seen"), items, "{name}");
    }
}

#[test]
fn items_are_read_from_standard_input() {
    for (text, items) in
        [("b\na\n", "a\nb"), ("[\"c\"]", "c"), ("{\"n\":1}\n{\"n\":2}\n", "{\"n\":1}\n{\"n\":2}")]
    {
        let world = map_world(NOTES);
        let args = ["run", "workflow.yml", "-y", "--job-id", "job", "--input", "-"];
        assert_code(&with_stdin(&world, &args, text), 0);
        assert_eq!(sorted(&world, "seen"), items);
        let plan = with_stdin(&world, &["plan", "workflow.yml", "--input", "-", "--json"], text);
        let plan: Value = serde_json::from_str(&plan.stdout).unwrap();
        assert_eq!(plan["map"]["items"]["count"], items.lines().count(), "{plan}");
        let simulated = with_stdin(&world, &["simulate", "workflow.yml", "--input", "-"], text);
        assert_code(&simulated, 0);
    }
}

#[test]
fn paths_filters_and_limits_hold_for_given_items() {
    let world = map_world(
        "
map:
  input: items.json
  json_path: '$.all[*]'
  filter: 'item.n > 1'
  sort_by: 'item.n DESC'
  max_items: 2
  agent_template: [{ shell: 'echo ${item.n} >> ROOT/seen' }]
",
    );
    let path = world.root().join("x.json");
    fs::write(&path, "{\"all\": [{\"n\": 1}, {\"n\": 2}, {\"n\": 3}, {\"n\": 4}]}").unwrap();
    assert_code(&run(&world, &["--input", path.to_str().unwrap()]), 0);
    assert_eq!(sorted(&world, "seen"), "3\n4");
}

#[test]
fn given_items_are_kept_with_the_job() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = map_world(&format!("setup: [{{ shell: test -e ROOT/go }}]\n{NOTES}"));
    let path = world.root().join("x.txt");
    fs::write(&path, "a\nb\n").unwrap();
    assert_code(&run(&world, &["--input", path.to_str().unwrap()]), 1);
    fs::remove_file(&path).unwrap();
    let kept = world.home().join("state/repo/mapreduce/jobs/job/input");
    assert_eq!(fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600);
    let input = &of_type(&world, "job_started")[0]["input"];
    assert_eq!((&input["kind"], input["name"].as_str()), (&"lines".into(), path.to_str()));
    fs::write(world.root().join("go"), "").unwrap();
    assert_code(&world.prodigy(&["resume", "job"]), 0);
    assert_eq!(sorted(&world, "seen"), "a\nb");
}

#[test]
fn given_items_that_cannot_be_used_start_nothing() {
    let world = map_world(NOTES);
    world.write("steps.yml", "- shell: 'true'\n");
    for (file, name, text, code, told) in [
        ("workflow.yml", "x.json", Some("[1,"), 9, "the items cannot be had from"),
        ("workflow.yml", "x.yml", Some("a"), 9, "the items cannot be had from"),
        ("workflow.yml", "gone.json", None, 2, "cannot be read"),
        ("steps.yml", "x.json", Some("[1]"), 2, "`--input` is for workflows that have items"),
    ] {
        let path = world.root().join(name);
        if let Some(text) = text {
            fs::write(&path, text).unwrap();
        }
        let seen = world.prodigy(&["run", file, "--input", path.to_str().unwrap()]);
        assert_code(&seen, code);
        assert!(seen.stderr.contains(told), "{seen}");
    }
    assert!(!world.home().join("events").exists(), "no job was started");
}

#[test]
fn bare_resume_passes_over_a_job_whose_input_cannot_be_had() {
    let world = map_world(&format!("setup: [{{ shell: 'true' }}]\n{NOTES}"));
    world.write("steps.yml", "- shell: test -e ../../../../../go\n");
    let older = world.prodigy(&["run", "steps.yml", "-y", "--job-id", "a-first"]);
    assert_code(&older, 1);
    assert_code(&run(&world, &[]), 1);
    let seen = world.prodigy(&["resume"]);
    assert!(seen.stderr.contains("note: job `job` is passed over: "), "{seen}");
    assert!(seen.stderr.contains("job a-first resumed"), "{seen}");
}
