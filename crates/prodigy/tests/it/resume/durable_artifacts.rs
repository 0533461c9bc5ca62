//! What an item leaves is safe before the record that says that it failed for good: prodigy is
//! killed right after that record, and everything must be there, also after a resume.
#![expect(clippy::indexing_slicing, reason = "what is not there fails the test")]

use std::{fmt::Write as _, fs, path::Path};

use prodigy_testkit::{TestEnv, crash::kill_at_record};
use serde_json::Value;

use crate::fixture::{
    map_job::{assert_code, map_world, of_type, resume},
    workflow::journal,
};

/// The arguments that run the workflow as job `job`.
const RUN: [&str; 5] = ["run", "workflow.yml", "-y", "--job-id", "job"];

/// Each item commits one file and leaves another uncommitted.
const WORK: &str = r"
map:
  input: { items: [bad] }
  agent_template:
    - shell: |
        echo committed > done.txt; git add done.txt; git commit --quiet -m done
        echo uncommitted > draft.txt
        exit 3
";

/// Returns the `worktree_preserved` records of an item.
fn preserved(world: &TestEnv, item: &str) -> Vec<Value> {
    let mut records = of_type(world, "worktree_preserved");
    records.retain(|record| record["item_id"] == item);
    records
}

/// Returns what the last record about it says of an item's worktree.
fn last_preserved(world: &TestEnv, item: &str) -> Value {
    let records = preserved(world, item);
    assert!(!records.is_empty(), "no record says what {item} left");
    records.last().unwrap().clone()
}

fn show(world: &TestEnv, object: &str) -> String {
    world.git(&["cat-file", "-p", object])
}

/// Checks that the committed and the uncommitted file are where the journal says.
#[track_caller]
fn assert_safe(world: &TestEnv, item: &str) {
    let record = last_preserved(world, item);
    let path = record["path"].as_str().unwrap();
    if path.starts_with("refs/") {
        assert_eq!(show(world, &format!("{path}:files/draft.txt")), "uncommitted");
        assert_eq!(show(world, &format!("{path}^:done.txt")), "committed");
        return;
    }
    if !path.is_empty() {
        let file = |name| fs::read_to_string(Path::new(path).join(name)).unwrap();
        assert_eq!(file("draft.txt"), "uncommitted\n");
        assert_eq!(file("done.txt"), "committed\n");
    }
    let left = &record["left"];
    let changes = fs::read_to_string(left["patch"].as_str().unwrap()).unwrap();
    assert!(changes.contains("+++ b/draft.txt\n@@ -0,0 +1 @@\n+uncommitted\n"), "{changes}");
    let branch = left["branch"].as_str().unwrap();
    assert_eq!(show(world, &format!("{branch}:done.txt")), "committed");
}

/// Kills a job right after a record and checks what its item left, before and after a resume.
#[track_caller]
fn killed_at(workflow: &str, kind: &str) -> TestEnv {
    let world = map_world(workflow);
    kill_at_record(&world, &RUN, kind, 1);
    assert_safe(&world, "item-001");
    let resumed = world.prodigy(&["resume", "job", "-y", "--no-dlq"]);
    assert!(resumed.code.is_some(), "{resumed}");
    assert_safe(&world, "item-001");
    assert_eq!(of_type(&world, kind).len(), 1, "it failed for good once");
    let verified = world.prodigy(&["verify", "job"]);
    assert_code(&verified, 0);
    world
}

#[test]
fn a_dead_letter_keeps_its_work_when_killed_right_after_its_death() {
    for _ in 0..3 {
        killed_at(WORK, "item_dead_lettered");
    }
}

#[test]
fn a_dead_letter_keeps_its_work_without_a_worktree() {
    killed_at(
        &format!("error_policy: {{ preserve_worktrees: never }}{WORK}"),
        "item_dead_lettered",
    );
}

#[test]
fn a_skipped_item_keeps_its_work_when_killed_right_after_it_was_skipped() {
    killed_at(&format!("error_policy: {{ on_item_failure: skip }}{WORK}"), "item_skipped");
    let policy = "error_policy: { on_item_failure: skip, preserve_worktrees: never }";
    killed_at(&format!("{policy}{WORK}"), "item_skipped");
}

#[test]
fn an_item_whose_handler_ended_keeps_its_work() {
    let policy = |end: &str| {
        format!(
            "error_policy:\n  on_item_failure: custom:rescue\n  handlers:\n    rescue:\n      - shell: {end}"
        )
    };
    killed_at(&format!("{}{WORK}", policy("exit 4")), "item_dead_lettered");
    killed_at(&format!("{}{WORK}", policy("exit 0")), "item_skipped");
}

#[test]
fn a_replayed_item_keeps_its_work_when_it_dies_again() {
    let world = map_world(WORK);
    assert!(world.prodigy(&RUN).code.is_some());
    kill_at_record(&world, &["dlq", "retry", "job", "-y"], "item_dead_lettered", 1);
    let paths: Vec<_> = preserved(&world, "item-001").iter().map(|r| r["path"].clone()).collect();
    assert_eq!(paths.len(), 2, "{paths:?}");
    assert_ne!(paths[0], paths[1]);
    let file = Path::new(paths[1].as_str().unwrap()).join("draft.txt");
    assert_eq!(fs::read_to_string(file).unwrap(), "uncommitted\n");
}

#[test]
fn files_that_are_too_large_for_a_patch_are_kept_without_a_worktree() {
    let world = map_world(
        r"
error_policy: { preserve_worktrees: never }
map:
  input: { items: [bad] }
  agent_template:
    - shell: |
        head -c 70000000 /dev/zero > large.bin
        exit 3
",
    );
    kill_at_record(&world, &RUN, "item_dead_lettered", 1);
    let path = last_preserved(&world, "item-001")["path"].as_str().unwrap().to_owned();
    assert_eq!(path, "refs/prodigy/job/failed/item-001");
    let size = world.git(&["cat-file", "-s", &format!("{path}:files/large.bin")]);
    assert_eq!(size, "70000000");
}

#[test]
fn dead_letters_of_a_killed_job_are_listed_without_its_name() {
    let world = map_world(WORK);
    kill_at_record(&world, &RUN, "item_dead_lettered", 1);
    let listed = world.prodigy(&["dlq", "list"]);
    assert_code(&listed, 0);
    assert!(listed.stdout.contains("item-001"), "{listed}");
}

/// A binary of an older version recorded the death first: what is still in the slot is kept.
#[test]
fn resume_keeps_what_a_dead_item_left_in_its_slot() {
    let world = map_world(WORK);
    kill_at_record(&world, &RUN, "item_dead_lettered", 1);
    // As an older version left it: the slot on the item's branch, and no record of it.
    let record = last_preserved(&world, "item-001");
    let (kept, slot) = (Path::new(record["path"].as_str().unwrap()), "agent-1");
    let slot = kept.with_file_name(slot);
    let paths = [kept, &slot].map(|path| path.to_str().unwrap().to_owned());
    let moved = world.command("git").args(["worktree", "move"]).args(&paths).output().unwrap();
    assert!(moved.status.success(), "{}", String::from_utf8_lossy(&moved.stderr));
    fs::remove_file(record["left"]["patch"].as_str().unwrap()).unwrap();
    forget(&world, "worktree_preserved");
    assert_eq!(preserved(&world, "item-001").len(), 0);
    let verified = world.prodigy(&["verify", "job"]);
    assert_code(&verified, 1);
    assert!(verified.stdout.contains("what they left is not kept yet: item-001"), "{verified}");
    let resumed = resume(&world);
    assert!(resumed.code.is_some(), "{resumed}");
    assert_safe(&world, "item-001");
    assert_code(&world.prodigy(&["verify", "job"]), 0);
}

/// Takes the records of a kind out of the journal, as if they had never been written.
fn forget(world: &TestEnv, kind: &str) {
    let file = journal(world).pop().unwrap();
    let text = fs::read_to_string(&file).unwrap();
    let is_other = |line: &&str| !line.contains(&format!("\"event_type\":\"{kind}\""));
    let mut whole = String::new();
    for (line, seq) in text.lines().filter(is_other).zip(1..) {
        let (before, rest) = line.split_once(",\"seq\":").unwrap();
        let (_, rest) = rest.split_once(',').unwrap();
        let (rest, _) = rest.rsplit_once(",\"crc\":").unwrap();
        let body = format!("{before},\"seq\":{seq},{rest}");
        let crc = crc32(body.as_bytes());
        writeln!(whole, "{body},\"crc\":\"{crc:08x}\"}}").unwrap();
    }
    fs::write(file, whole).unwrap();
}

/// Returns the checksum of a record.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
    let add = |crc: u32, byte: &u8| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc));
    !bytes.iter().fold(u32::MAX, add)
}
