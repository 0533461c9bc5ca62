//! `prodigy verify` of a job with items.

use std::fs;

use insta::assert_snapshot;
use prodigy_engine::store::Layout;
use prodigy_testkit::TestEnv;
use regex::Regex;

use crate::fixture::{journal, workflow};

/// Three items, of which two commit and the third fails twice.
const WORKFLOW: &str = "\
mode: mapreduce
map:
  input: { items: [one, two, three] }
  agent_template:
    - shell: echo ${item}
    - shell: test ${item} != three && echo x > ${item} && git add . && git commit -qm ${item}
reduce:
  - shell: echo reduced
error_policy:
  retry_config: { max_attempts: 2, backoff: { type: fixed, delay: 1ms } }
";

fn done() -> (TestEnv, Layout) {
    let world = workflow::world(WORKFLOW);
    let seen = world.prodigy(&["run", "workflow.yml", "-y", "--job-id", "job"]);
    assert_eq!(seen.code, Some(0), "{seen}");
    let layout = journal::layout(&world);
    (world, layout)
}

fn verify(world: &TestEnv, only: &str) -> String {
    let seen = world.prodigy(&["verify", "job"]);
    let text = seen.to_string();
    let lines: Vec<_> = text.lines().filter(|line| line.contains(only)).collect();
    let text = format!("{}\n[exit {}]", lines.join("\n"), seen.code.unwrap());
    let text = Regex::new(r"\d+ records").unwrap().replace_all(&text, "[records]");
    let text = Regex::new(r"record \d+").unwrap().replace_all(&text, "[record]");
    let text = Regex::new(r"(sha256:)?[0-9a-f]{64}").unwrap().replace_all(&text, "[hash]");
    Regex::new(r"\b[0-9a-f]{10}\b").unwrap().replace_all(&text, "[commit]").into_owned()
}

#[test]
fn a_job_with_items_is_whole() {
    let (world, _) = done();
    assert_snapshot!(verify(&world, ""), @"
    ok    journal — [records], each with its number and checksum
    ok    history — each of [records] fits the ones before it
    ok    checkpoint — it says what the journal says up to [record]
    ok    workflow — the stored one is the one that was run, [hash]
    ok    logs — 5 outputs of finished steps, all in their files
    ok    items — 3 = 2 successful + 1 in the dead letter queue + 0 skipped + 0 waiting + 0 under way
    ok    selection — 3 items as they were chosen
    ok    dead letters — 1 dead letter, each with its file
    ok    item merges — `main` contains the commits of 2 items
    ok    merge — `main` contains [commit]
    job `job` is intact
    [exit 0]
    ");
}

#[test]
fn items_that_were_changed_are_noticed() {
    let (world, layout) = done();
    let path = layout.items_file(&"job".parse().unwrap());
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("two", "ten")).unwrap();
    assert_snapshot!(verify(&world, "FAIL"), @"
    FAIL  selection — `$ROOT/home/state/repo/mapreduce/jobs/job/items.jsonl` is not what was written: its SHA-256 is [hash] and should be [hash]
    [exit 1]
    ");
    fs::remove_file(&path).unwrap();
    assert_snapshot!(verify(&world, "FAIL"), @"
    FAIL  selection — cannot open `$ROOT/home/state/repo/mapreduce/jobs/job/items.jsonl`: No such file or directory (os error 2)
    [exit 1]
    ");
}

#[test]
fn a_dead_letter_without_a_file_is_said_and_is_no_failure() {
    let (world, layout) = done();
    let item = "item-003".parse().unwrap();
    let path = layout.dlq_item(&"job".parse().unwrap(), &item);
    fs::remove_file(path).unwrap();
    assert_snapshot!(verify(&world, "dead letter"), @"
    ok    items — 3 = 2 successful + 1 in the dead letter queue + 0 skipped + 0 waiting + 0 under way
    ok    dead letters — 1 dead letter; no file for `item-003`, the journal has what was in it
    [exit 0]
    ");
}

#[test]
fn output_of_any_attempt_that_is_gone_is_noticed() {
    let (world, layout) = done();
    let (job, item) = ("job".parse().unwrap(), "item-003".parse().unwrap());
    let (out, _) = layout.log_files(&job, Some(&item), 2, 0);
    fs::remove_file(out).unwrap();
    assert_snapshot!(verify(&world, "FAIL"), @"
    FAIL  logs — step 1 of `item-003` printed up to byte 6 of $ROOT/home/logs/repo/job/item-003/attempt-2.out, which has 0
    [exit 1]
    ");
}

#[test]
fn commits_of_items_that_are_gone_are_noticed() {
    let (world, _) = done();
    world.git(&["reset", "--quiet", "--hard", "HEAD~1"]);
    let seen = verify(&world, "FAIL");
    assert_snapshot!(seen, @"
    FAIL  item merges — 1 commit of 2 items that were merged are not in `main`
    FAIL  merge — `main` does not contain [commit]
    [exit 1]
    ");
    world.git(&["branch", "-m", "main", "other"]);
    assert_snapshot!(verify(&world, "item merges"), @"
    FAIL  item merges — the branch `prodigy/job/job` is gone
    [exit 1]
    ");
}
