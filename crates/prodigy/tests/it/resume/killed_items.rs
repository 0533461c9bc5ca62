//! A job that was killed while its items were at work: removed, or moved with its repository.

use std::fs;

use prodigy_testkit::{TestEnv, crash::kill_at_record};
use rustix::process::Signal;

use crate::{
    fixture::map_job::{assert_code, map_world, started},
    resume::moved_repository::{at, git},
    security::hostile_values::on_a_terminal_typing,
};

/// Items that commit a file and leave another one; one of them fails.
const ITEMS: &str = "
map:
  input: { items: [a, b, c] }
  max_parallel: 1
  agent_template:
    - shell: |
        echo ${item} > ${item}.txt; git add .; git commit --quiet -m ${item}
        echo more > ${item}.more; test ${item} != b
error_policy: { retry_config: { max_attempts: 1 } }
";

const RUN: [&str; 5] = ["run", "workflow.yml", "-y", "--job-id", "job"];

/// Returns the references, worktrees and branches of the job.
fn held(world: &TestEnv) -> String {
    let refs = ["for-each-ref", "refs/heads/prodigy", "refs/prodigy/job"];
    format!("{}\n{}", world.git(&refs), world.git(&["worktree", "list"]))
}

#[test]
fn a_job_killed_after_any_record_of_an_item_is_not_removed_without_force() {
    for (kind, nth) in [
        ("work_kept", 1),
        ("agent_completed", 1),
        ("worktree_merged", 1),
        ("agent_failed", 1),
        ("worktree_preserved", 1),
        ("item_dead_lettered", 1),
        ("agent_completed", 2),
    ] {
        let world = map_world(ITEMS);
        kill_at_record(&world, &RUN, kind, nth);
        let before = held(&world);
        let seen = at(&world, "repo", &["jobs", "rm", "job", "-y"]);
        assert_code(&seen, 1);
        let said = "error: job `job` holds work that is nowhere else";
        assert!(seen.stderr.contains(said), "{kind} {nth}: {seen}");
        assert_eq!(held(&world), before, "{kind} {nth}: {seen}");
        // What was refused goes on to its end.
        assert_code(&at(&world, "repo", &["resume", "job", "-y", "--no-dlq"]), 0);
        assert_eq!(world.read("a.txt"), "a\n");
        assert_eq!(world.read("c.txt"), "c\n");
        assert_code(&at(&world, "repo", &["verify", "job"]), 0);
    }
}

#[test]
fn items_of_a_killed_job_go_on_where_the_repository_was_moved_to() {
    for (kind, nth) in [
        ("work_kept", 1),
        ("agent_completed", 1),
        ("worktree_preserved", 1),
        ("item_dead_lettered", 1),
        ("agent_completed", 2),
    ] {
        let world = map_world(ITEMS);
        kill_at_record(&world, &RUN, kind, nth);
        fs::rename(world.repo(), world.root().join("moved")).unwrap();
        let args = ["resume", "job", "-y", "--relocate", "--no-dlq"];
        let seen = at(&world, "moved", &args);
        assert_code(&seen, 0);
        assert_eq!(git(&world, "moved", &["status", "--porcelain"]), "", "{kind} {nth}: {seen}");
        for (name, text) in [("main:a.txt", "a"), ("main:c.txt", "c")] {
            assert_eq!(git(&world, "moved", &["show", name]), text, "{kind} {nth}: {seen}");
        }
        for item in ["a", "c"] {
            let number = if item == "a" { 1 } else { 3 };
            let name = format!("refs/prodigy/job/kept/item-00{number}:{item}.more");
            assert_eq!(git(&world, "moved", &["show", &name]), "more", "{kind} {nth}: {seen}");
        }
        // What the failed item committed, and what it did not.
        let failed = world.home().join("worktrees/repo/job/item-002");
        assert_eq!(fs::read_to_string(failed.join("b.more")).unwrap(), "more\n");
        let place = "home/worktrees/repo/job/item-002";
        assert_eq!(git(&world, place, &["show", "HEAD:b.txt"]), "b", "{kind} {nth}: {seen}");
        assert_eq!(git(&world, "moved", &["show", "prodigy/job/item-002:b.txt"]), "b");
        assert_code(&at(&world, "moved", &["verify", "job"]), 0);
        assert_code(&at(&world, "moved", &["dlq", "retry", "job", "-y"]), 3);
    }
}

#[test]
fn a_person_at_a_terminal_is_asked_before_work_is_removed() {
    let world = map_world(ITEMS);
    kill_at_record(&world, &RUN, "item_dead_lettered", 1);
    let before = held(&world);
    let answer = |typed: &str, flags: &[&str]| {
        let args = [&["jobs", "rm", "job"], flags].concat();
        on_a_terminal_typing(&world, &args, (120, 24), typed, |_| {})
    };
    // Work is not asked about: it takes a flag.
    let (seen, code) = answer("y\n", &[]);
    assert_eq!(code, 1, "{seen}");
    assert!(seen.contains("holds work that is nowhere else"), "{seen}");
    for no in ["n\n", "\n", "\u{4}"] {
        let (seen, code) = answer(no, &["--force"]);
        assert_eq!(code, 1, "{seen}");
        assert!(seen.contains("removes  1 open dead letter"), "{seen}");
        assert!(seen.contains("nothing was removed"), "{seen}");
        assert_eq!(held(&world), before, "{seen}");
    }
    let (seen, code) = answer("y\n", &["--force"]);
    assert_eq!(code, 0, "{seen}");
    assert!(seen.contains("job `job` is removed"), "{seen}");
    assert!(!world.home().join("events/repo/job").exists());
}

#[test]
fn uncommitted_files_of_an_item_under_way_keep_a_job() {
    let world = map_world(
        "
map:
  input: { items: [a] }
  agent_template:
    - shell: 'echo draft > draft.txt; touch ROOT/began; while test ! -e ROOT/end; do sleep 0.05; done'
",
    );
    let mut run = started(&world);
    run.until(&world, "the item began", || world.root().join("began").exists());
    run.signal(Signal::KILL);
    run.seen(&world);
    let seen = at(&world, "repo", &["jobs", "rm", "job", "-y"]);
    assert_code(&seen, 1);
    assert!(seen.stderr.contains("kept  1 file not committed: "), "{seen}");
    let worktree = world.home().join("worktrees/repo/job/agent-1");
    assert_eq!(fs::read_to_string(worktree.join("draft.txt")).unwrap(), "draft\n");
}
