//! Jobs of an older version, whose journal names effects by the position of their step.
#![expect(clippy::indexing_slicing, reason = "what is not there fails the test")]

use std::fs;

use prodigy_core::event::EventRecord;
use prodigy_engine::store::{Durability, JournalWriter};
use prodigy_testkit::TestEnv;

use crate::fixture::{
    journal::layout,
    map_job::{assert_code, go, of_type, sorted},
};

/// A journal that version 0.1.0 wrote: the last step of the one item failed.
const JOURNAL: &str = include_str!("../golden/keys-by-position.jsonl");

const WORKFLOW: &str = r#"mode: mapreduce
setup:
  - shell: sh "$POSTS/post" setup
    effects: external
map:
  input: { items: [{ n: 1 }] }
  agent_template:
    - shell: sh "$POSTS/other" first
    - shell: sh "$POSTS/post" a-${item.n}
      effects: external
    - foreach:
        input: [x, y]
        do:
          - shell: sh "$POSTS/post" round-${item}
            effects: external
    - shell: sh "$POSTS/other" last
"#;

/// Returns a world with the job as the older version left it.
fn old_job() -> TestEnv {
    let world = TestEnv::with_repo(env!("CARGO_BIN_EXE_prodigy"))
        .env("PRODIGY_DURABILITY", "relaxed")
        .env("PRODIGY_GRACE", "300ms");
    let root = world.root().display().to_string();
    let world = world.env("POSTS", &root);
    world.write("workflow.yml", WORKFLOW);
    world.commit_all("Add the workflow");
    let put = |name: &str, text: &str| fs::write(world.root().join(name), text).unwrap();
    put("post", "echo \"$1 $PRODIGY_IDEMPOTENCY_KEY\" >> \"$POSTS/posted\"\n");
    put("other", "if test -e \"$POSTS/does.$1\"; then . \"$POSTS/does.$1\"; fi\n");
    put("does.last", "exit 3\n");
    // What lies beside the journal is the same.
    assert_code(&go(&world), 1);
    let (base, tree) = (world.git(&["rev-parse", "HEAD"]), world.git(&["rev-parse", "HEAD:"]));
    let text = JOURNAL.replace("$ROOT", &root).replace("$BASE", base.trim());
    let text = text.replace("$TREE", tree.trim());
    let records: Vec<EventRecord> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let hash = of_type(&world, "job_started")[0]["workflow_hash"].as_str().unwrap().to_owned();
    let first = serde_json::to_value(&records[0]).unwrap();
    assert_eq!(first["workflow_hash"], hash.as_str());
    let (layout, job) = (layout(&world), "job".parse().unwrap());
    fs::remove_dir_all(layout.events_dir(&job)).unwrap();
    fs::remove_file(layout.checkpoint(&job)).unwrap();
    fs::remove_dir_all(world.home().join("dlq")).unwrap();
    let mut journal = JournalWriter::create(&layout, &job, Durability::Relaxed).unwrap();
    for record in records {
        let EventRecord { timestamp, agent_id, item_id, event, .. } = record;
        let fact = prodigy_core::event::NewEvent { agent_id, item_id, event };
        journal.append(vec![fact], timestamp).unwrap();
    }
    put("posted", "");
    fs::remove_file(world.root().join("does.last")).unwrap();
    world
}

#[test]
fn replay_with_the_stored_workflow_makes_no_change_again() {
    let world = old_job();
    assert_code(&world.prodigy(&["dlq", "retry", "job"]), 0);
    assert_eq!(sorted(&world, "posted"), "");
    assert_eq!(of_type(&world, "agent_completed").len(), 1);
}

#[test]
fn replay_with_the_current_workflow_makes_no_change_again() {
    replayed_with_other_steps();
}

/// Replays the item of the older version with other steps before those that it made.
pub(crate) fn replayed_with_other_steps() -> TestEnv {
    let world = old_job();
    let text = WORKFLOW
        .replace(
            "    - shell: sh \"$POSTS/other\" first\n",
            "    - shell: sh \"$POSTS/post\" new\n      effects: external\n",
        )
        .replace("        input: [x, y]\n", "        input: [w, y, x]\n")
        .replace("        do:\n", "        do:\n          - shell: sh \"$POSTS/other\" new\n")
        .replace("    - foreach", "    - shell: sh \"$POSTS/other\" more\n    - foreach");
    world.write("workflow.yml", &text);
    let retry = ["dlq", "retry", "job", "--use-current-workflow"];
    // Loops are known by their values, and these are others now.
    assert_code(&world.prodigy(&retry), 2);
    world.write("workflow.yml", text.replace("input: [w, y, x]", "input: [x, y]"));
    assert_code(&world.prodigy(&retry), 0);
    let posted = sorted(&world, "posted");
    assert_eq!(posted.lines().count(), 1, "{posted}");
    assert!(posted.starts_with("new job:item-001:~"), "{posted}");
    assert_eq!(of_type(&world, "agent_completed").len(), 1);
    world
}
