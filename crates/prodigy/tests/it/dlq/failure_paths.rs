//! Every way an item can die leaves an entry in the dead letter queue.
#![expect(clippy::indexing_slicing, reason = "what is not there fails the test")]

use std::{fmt::Write as _, fs};

use insta::assert_snapshot;
use prodigy_testkit::TestEnv;
use rustix::process::Signal;

use crate::fixture::{
    map_job::{assert_code, go, letter, map_world, of_type, resume, started, trace_of},
    workflow::SpawnedProdigy,
};

/// Returns what the journal and the entry say about an item's death.
fn death(world: &TestEnv, item: &str) -> String {
    let records = of_type(world, "item_dead_lettered");
    let record = records.iter().rfind(|record| record["item_id"] == item);
    assert!(record.is_some(), "{item} did not die");
    let record = record.unwrap();
    let entry = letter(world, item);
    assert_eq!(entry["job_id"], "job");
    assert_eq!(entry["item_id"], item);
    assert_eq!(entry["status"], "open");
    assert_eq!(entry["reason_code"], record["failure"]["kind"]);
    assert_eq!(entry["reason"], record["failure"]["message"]);
    assert_eq!(entry["attempts"], record["attempts"]);
    assert!(entry["journal_seq"].as_u64() >= record["seq"].as_u64(), "{entry}");
    let history = entry["failure_history"].as_array().unwrap();
    assert_eq!(entry["failure_count"], history.len());
    let field = |name: &str| entry[name].as_str().unwrap_or("-").to_owned();
    let mut text = format!(
        "{} ({}) at {}: {}",
        field("reason_code"),
        field("class"),
        field("topic"),
        field("reason")
    );
    for failed in history {
        // Some kinds are only a name, others have fields.
        let kind = &failed["error_type"];
        let kind = kind.as_object().and_then(|fields| fields.keys().next().cloned());
        let kind = kind.unwrap_or_else(|| failed["error_type"].as_str().unwrap().to_owned());
        let of = |name: &str| failed[name].as_str().unwrap_or("-").to_owned();
        assert!(of("agent_id").starts_with("agent-"), "{failed}");
        let (number, code, step) =
            (&failed["attempt_number"], of("reason_code"), of("step_failed"));
        write!(text, "\n  {number} {code} {kind}, {step}").unwrap();
    }
    let artifacts = &entry["worktree_artifacts"];
    if !artifacts.is_null() {
        let of = |name: &str| artifacts[name].as_str().unwrap_or("-").to_owned();
        let preserved = if artifacts["preserved"] == true { "kept" } else { "not kept" };
        let (branch, files) = (of("branch_name"), of("uncommitted_changes"));
        write!(text, "\n  left {branch}, {files}, {preserved}").unwrap();
    }
    text.replace(&world.root().canonicalize().unwrap().display().to_string(), "$ROOT")
}

/// Returns how all items died, in order.
fn deaths(world: &TestEnv, count: usize) -> String {
    let items = (1..=count).map(|number| format!("item-{number:03}"));
    let deaths = items.map(|item| format!("{item} {}", death(world, &item)));
    deaths.collect::<Vec<_>>().join("\n")
}

#[test]
fn by_what_a_step_does() {
    let world = map_world(
        r#"
map:
  input: { items: [failed, slow, silent, lazy, judged, unset, missing, tool, moved, full, parsed] }
  max_parallel: 4
  result: { schema: { type: object } }
  agent_template:
    - { shell: "echo changed >> README.md; exit 3", when: "item == 'failed'" }
    - { shell: "touch draft; sleep 60", timeout: 2s, when: "item == 'slow'" }
    - { shell: "sleep 60", idle_timeout: 2s, when: "item == 'silent'" }
    - { shell: "touch draft", commit_required: true, when: "item == 'lazy'" }
    - shell: "true"
      when: "item == 'judged'"
      validate: { shell: "echo '{\"completion_percentage\":50}'", on_incomplete: { shell: "true", max_attempts: 1 } }
    - { shell: "echo ${item.name.first}", when: "item == 'unset'" }
    - { shell: "cat no-such-file", when: "item == 'missing'" }
    - { shell: "no-such-program", when: "item == 'tool'" }
    - { shell: "git checkout --quiet --detach HEAD~1", when: "item == 'moved'" }
    - { shell: "echo 'cp: cannot write: No space left on device' >&2; exit 1", when: "item == 'full'" }
    - { shell: "echo text", when: "item == 'parsed'" }
    - { shell: "echo '{}'", when: "item == 'moved'" }
"#,
    );
    assert_code(&go(&world), 1);
    assert_snapshot!(deaths(&world, 11), @"
        item-001 command_failed (agent) at map.1: `echo changed >> README.md; exit 3` failed with exit code 3
          1 command_failed CommandFailed, shell: echo changed >> README.md; exit 3
          left prodigy/job/item-001, README.md modified, kept
        item-002 timeout (transient) at map.2: still running after 2s
          1 timeout Timeout, shell: touch draft; sleep 60
          left prodigy/job/item-002, draft new, kept
        item-003 stalled (transient) at map.3: printed nothing for 2s
          1 stalled Timeout, shell: sleep 60
          left prodigy/job/item-003, none, not kept
        item-004 no_commit (agent) at map.4: the step made no commit, and `commit_required` is set
          1 no_commit CommitValidationFailed, shell: touch draft
          left prodigy/job/item-004, draft new, kept
        item-005 validation_failed (agent) at map.5: validation found 50 % done, and 100 % is wanted
          1 validation_failed ValidationFailed, shell: true
          left prodigy/job/item-005, none, not kept
        item-006 template_error (poison) at map.6: `${item.name.first}` has no value: `item` is text, so it has no field `name`
          1 template_error ValidationFailed, shell: echo ${item.name.first}
          left prodigy/job/item-006, none, not kept
        item-007 command_failed (agent) at map.7: `cat no-such-file` failed with exit code 1: cat: no-such-file: No such file or directory
          1 command_failed CommandFailed, shell: cat no-such-file
          left prodigy/job/item-007, none, not kept
        item-008 spawn_failed (transient) at map.8: `no-such-program` failed with exit code 127: sh: 1: no-such-program: not found
          1 spawn_failed CommandFailed, shell: no-such-program
          left prodigy/job/item-008, none, not kept
        item-009 worktree_error (integration) at map: HEAD was left at a commit from before the item began
          1 worktree_error WorktreeError, map
          left prodigy/job/item-009, none, kept
        item-010 disk_full (resource) at map.10: `echo 'cp: cannot write: No space left on device' >&2; exit 1` failed with exit code 1
          1 disk_full ResourceExhausted, shell: echo 'cp: cannot write: No space left on device' >&2; exit 1
          left prodigy/job/item-010, none, not kept
        item-011 parse_error (poison) at map: the item's result is not usable: expected ident at line 1 column 2
          1 parse_error ValidationFailed, map
          left prodigy/job/item-011, none, not kept
        ");
}

#[test]
fn by_failing_as_often_as_the_policy_allows() {
    let world = map_world(
        r#"
map:
  input: { items: [bad] }
  agent_template: [{ shell: "echo $PRODIGY_ATTEMPT > draft; exit $PRODIGY_ATTEMPT" }]
error_policy: { retry_config: { max_attempts: 3, backoff: { type: fixed, delay: 0ms } } }
"#,
    );
    assert_code(&go(&world), 1);
    assert_snapshot!(deaths(&world, 1), @"
        item-001 command_failed (agent) at map.1: `echo $PRODIGY_ATTEMPT > draft; exit $PRODIGY_ATTEMPT` failed with exit code 3
          1 command_failed CommandFailed, shell: echo $PRODIGY_ATTEMPT > draft; exit $PRODIGY_ATTEMPT
          2 command_failed CommandFailed, shell: echo $PRODIGY_ATTEMPT > draft; exit $PRODIGY_ATTEMPT
          3 command_failed CommandFailed, shell: echo $PRODIGY_ATTEMPT > draft; exit $PRODIGY_ATTEMPT
          left prodigy/job/item-001, draft new, kept
        ");
}

#[test]
fn by_a_time_limit_of_the_attempt() {
    let world = map_world(
        r#"
map:
  input: { items: [slow] }
  agent_timeout_secs: 1
  agent_template: [{ shell: "sleep 60" }]
"#,
    );
    assert_code(&go(&world), 1);
    assert_snapshot!(deaths(&world, 1), @"
        item-001 timeout (transient) at map.1: the attempt took longer than 1s
          1 timeout Timeout, shell: sleep 60
          left prodigy/job/item-001, none, not kept
        ");
}

#[test]
fn by_a_handler_that_fails() {
    let world = map_world(
        r#"
map:
  input: { items: [bad] }
  agent_template: [{ shell: "exit 7" }]
error_policy:
  on_item_failure: custom:rescue
  handlers: { rescue: [{ shell: "touch handled; exit 9" }] }
"#,
    );
    assert_code(&go(&world), 1);
    assert_snapshot!(deaths(&world, 1), @"
        item-001 command_failed (agent) at map.1: `exit 7` failed with exit code 7; its handler failed too: exit code 9
          1 command_failed CommandFailed, shell: exit 7
          left prodigy/job/item-001, handled new, kept
        ");
}

#[test]
fn by_conflicting_twice() {
    let world = map_world(
        r#"
map:
  input: { items: [stubborn, other] }
  max_parallel: 2
  agent_template:
    - shell: |
        if test "${item}" = other; then
          while ! test -e ROOT/began; do sleep 0.01; done
          echo other > list; git add list; git commit --quiet -m other; exit 0
        fi
        touch ROOT/began; base=$(git rev-list --count main)
        git checkout --quiet --detach main
        echo stubborn > list; git add list; git commit --quiet -m "stubborn $PRODIGY_ATTEMPT"
        until test "$(git rev-list --count prodigy/job/job)" -gt "$base"; do sleep 0.01; done
"#,
    );
    assert_code(&go(&world), 0);
    assert_snapshot!(death(&world, "item-001"), @"
        merge_conflict (integration) at map: its commits conflict with those of other items in `list`
          1 merge_conflict MergeConflict, merge
          2 merge_conflict MergeConflict, merge
          left prodigy/job/item-001, none, not kept
        ");
}

#[test]
fn by_a_worktree_that_cannot_be_furnished() {
    let world = map_world(
        r#"
map:
  input: { items: [a] }
  worktree: { setup: [{ shell: "echo no >&2; exit 4" }] }
  agent_template: [{ shell: "true" }]
"#,
    );
    assert_code(&go(&world), 1);
    assert_snapshot!(deaths(&world, 1), @"
        item-001 command_failed (agent) at map: worktree.setup: exit code 4: no
          1 command_failed CommandFailed, map
          left prodigy/job/item-001, none, not kept
        ");
}

#[test]
fn by_a_worktree_that_lacks_something() {
    let world = map_world(
        r#"
map:
  input: { items: [a] }
  worktree: { include: nothing-there }
  agent_template: [{ shell: "true" }]
"#,
    );
    assert_code(&go(&world), 1);
    assert_snapshot!(deaths(&world, 1), @"
        item-001 worktree_error (integration) at map: `nothing-there` cannot be read: it is not there
          1 worktree_error WorktreeError, map
          left prodigy/job/item-001, none, not kept
        ");
}

#[test]
fn by_being_under_way_whenever_prodigy_dies() {
    let world = map_world(
        r"
map:
  input: { items: [poison] }
  agent_template: [{ shell: touch draft ROOT/began; sleep 60 }]
",
    );
    let began = world.root().join("began");
    let mut run = started(&world);
    for _ in 0..3 {
        run.until(&world, "the item begins", || began.exists());
        run.signal(Signal::KILL);
        run.seen(&world);
        fs::remove_file(&began).unwrap();
        run = SpawnedProdigy::new(&world, &["resume", "job"]);
    }
    assert_code(&run.seen(&world), 1);
    assert_snapshot!(deaths(&world, 1), @"
        item-001 poison_repeat (poison) at map: prodigy died while it was under way, three times
          1 interrupted Unknown, map
          1 interrupted Unknown, map
          1 interrupted Unknown, map
          left prodigy/job/item-001, draft new, kept
        ");
}

#[test]
fn a_stop_is_no_death_and_one_after_it_is() {
    let world = map_world(
        r#"
map:
  input: { items: [a] }
  agent_template: [{ name: work, shell: "touch ROOT/began; test -e ROOT/over || sleep 60; exit 3" }]
"#,
    );
    let began = world.root().join("began");
    let mut run = started(&world);
    run.until(&world, "the item begins", || began.exists());
    run.signal(Signal::INT);
    assert_code(&run.seen(&world), 130);
    assert_eq!(of_type(&world, "item_dead_lettered").len(), 0);
    assert!(!world.home().join("dlq/repo/job/mapreduce/dlq/job/items/item-001.json").exists());
    fs::write(world.root().join("over"), "").unwrap();
    assert_code(&resume(&world), 1);
    assert_snapshot!(trace_of(&world, "item-001"), @"
        item-001 agent_started 1
        item-001 agent_started 1
        item-001 agent_failed 1 command_failed then dead_letter
        item-001 item_dead_lettered 1 command_failed
        ");
    assert_snapshot!(deaths(&world, 1), @"
        item-001 command_failed (agent) at map.1: `work` failed with exit code 3
          1 interrupted Unknown, map
          1 command_failed CommandFailed, work
          left prodigy/job/item-001, none, not kept
        ");
}

#[test]
fn by_a_failure_that_ends_the_job() {
    let world = map_world(
        r#"
map:
  input: { items: [bad, next] }
  max_parallel: 1
  agent_template: [{ shell: "touch draft; exit 3" }]
error_policy: { on_item_failure: stop }
"#,
    );
    let seen = go(&world);
    assert_ne!(seen.code, Some(0), "{seen}");
    assert_snapshot!(deaths(&world, 1), @"
        item-001 command_failed (agent) at map.1: `touch draft; exit 3` failed with exit code 3
          1 command_failed CommandFailed, shell: touch draft; exit 3
          left prodigy/job/item-001, draft new, kept
        ");
}
