//! What the tests of MapReduce jobs share.
#![expect(clippy::indexing_slicing, reason = "what is not there fails the test")]

use std::fs;

use prodigy_testkit::{CommandOutput, TestEnv};
use serde_json::Value;

use crate::stories::{SpawnedProdigy, records};

/// Makes a world whose repository holds a MapReduce workflow; `ROOT` stands for the world.
///
/// The journal is not synced and children get little time to end, to keep the tests quick.
pub(crate) fn map_world(workflow: &str) -> TestEnv {
    let world = TestEnv::with_repo(env!("CARGO_BIN_EXE_prodigy"))
        .env("PRODIGY_DURABILITY", "relaxed")
        .env("PRODIGY_GRACE", "300ms");
    write_workflow(&world, workflow);
    world.commit_all("Add the workflow");
    world
}

/// Writes the workflow without committing it.
pub(crate) fn write_workflow(world: &TestEnv, workflow: &str) {
    let text = workflow.trim_start().replace("ROOT", &world.root().display().to_string());
    world.write("workflow.yml", format!("mode: mapreduce\n{text}"));
}

/// Runs the workflow as job `job`, merging at the end.
pub(crate) fn go(world: &TestEnv) -> CommandOutput {
    world.prodigy(&["run", "workflow.yml", "-y", "--job-id", "job"])
}

/// Starts the workflow as job `job` in the background.
pub(crate) fn started(world: &TestEnv) -> SpawnedProdigy {
    SpawnedProdigy::new(world, &["run", "workflow.yml", "-y", "--job-id", "job"])
}

/// Resumes the job.
pub(crate) fn resume(world: &TestEnv) -> CommandOutput {
    world.prodigy(&["resume", "job"])
}

/// Checks that a run ended with a code, and shows all of it if not.
#[track_caller]
pub(crate) fn assert_code(seen: &CommandOutput, code: i32) {
    assert_eq!(seen.code, Some(code), "{seen}");
}

/// Returns the records of one type.
pub(crate) fn of_type(world: &TestEnv, kind: &str) -> Vec<Value> {
    records(world).into_iter().filter(|record| record["event_type"] == kind).collect()
}

/// Returns whether the journal of a job that may not have begun yet has a record of a type.
pub(crate) fn has_told(world: &TestEnv, kind: &str) -> bool {
    world.home().join("events/repo/job").is_dir() && !of_type(world, kind).is_empty()
}

/// Returns what happened to the items: one line for each record, in order.
pub(crate) fn trace(world: &TestEnv) -> String {
    let lines = records(world).iter().filter_map(line).collect::<Vec<_>>();
    lines.join("\n")
}

/// Returns the records of one item, one line each.
pub(crate) fn trace_of(world: &TestEnv, item: &str) -> String {
    let records = records(world);
    let of_item = records.iter().filter(|record| record["item_id"] == item);
    of_item.filter_map(line).collect::<Vec<_>>().join("\n")
}

/// Returns the line of a record about items, the circuit or the end of the job.
fn line(record: &Value) -> Option<String> {
    let kind = record["event_type"].as_str().unwrap();
    let item = record["item_id"].as_str().unwrap_or("job");
    let more = match kind {
        "agent_started" | "agent_completed" => format!("{}", record["attempt"]),
        "agent_failed" => format!(
            "{} {} then {}",
            record["attempt"],
            text(&record["failure"]["kind"]),
            text(&record["then"])
        ),
        "agent_retrying" => format!("{} after {}ms", record["attempt"], record["delay_ms"]),
        "item_dead_lettered" => {
            format!("{} {}", record["attempts"], text(&record["failure"]["kind"]))
        }
        "item_skipped" => text(&record["reason"]),
        "job_paused" => format!("{}: {}", text(&record["reason"]), text(&record["message"])),
        "job_failed" => {
            format!("{}: {}", text(&record["step"]), text(&record["failure"]["message"]))
        }
        "job_completed" => text(&record["status"]),
        "circuit_open" => format!("after {}", record["failures"]),
        "merge_conflict" => record["paths"].to_string(),
        "replay_started" => format!("{}", record["replay"]),
        "resolution_failed" => text(&record["failure"]["kind"]),
        "circuit_half_open"
        | "circuit_closed"
        | "job_resumed"
        | "handler_restarted"
        | "resolution_started"
        | "resolution_completed" => String::new(),
        _ => return None,
    };
    Some(format!("{item} {kind} {more}").trim_end().to_owned())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Reads a file that the steps left beside the repository.
pub(crate) fn beside(world: &TestEnv, name: &str) -> String {
    fs::read_to_string(world.root().join(name)).unwrap_or_default()
}

/// Returns the sorted lines of a file beside the repository.
pub(crate) fn sorted(world: &TestEnv, name: &str) -> String {
    let text = beside(world, name);
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    lines.join("\n")
}

/// Returns the file of a dead letter.
pub(crate) fn letter(world: &TestEnv, item: &str) -> Value {
    let directory = world.home().join("dlq/repo/job/mapreduce/dlq/job");
    let read = |place: &str| fs::read_to_string(directory.join(format!("{place}/{item}.json")));
    let text = read("items").or_else(|_| read("resolved"));
    serde_json::from_str(&text.unwrap()).unwrap()
}

/// Returns how the items ended: successful, dead-lettered, skipped.
pub(crate) fn counts(world: &TestEnv) -> (usize, usize, usize) {
    let started: std::collections::BTreeSet<_> =
        of_type(world, "item_queued").iter().map(|record| text(&record["item_id"])).collect();
    let ended = |kind: &str| {
        of_type(world, kind)
            .iter()
            .filter(|record| started.contains(&text(&record["item_id"])))
            .count()
    };
    let merged = ended("worktree_merged");
    let plain = of_type(world, "agent_completed")
        .iter()
        .filter(|record| record["base"] == record["head"])
        .count();
    (merged + plain, ended("item_dead_lettered"), ended("item_skipped"))
}
