//! Steps that would run in the wrong place: nothing is run there.
#![expect(clippy::indexing_slicing, reason = "what is not there fails the test")]

use std::fs;

use insta::assert_snapshot;
use prodigy_testkit::TestEnv;

use crate::fixture::{
    map_job::{assert_code, go, letter, map_world, of_type, trace_of},
    workflow::{records, run, stable, world},
};

/// Runs a workflow whose first step does something to its place; returns why the second failed.
fn displaced(first: &str, second: &str) -> String {
    let (world, why) = displaced_world(first, second);
    assert!(!world.root().join("ran").exists(), "the second step ran");
    why
}

fn displaced_world(first: &str, second: &str) -> (TestEnv, String) {
    let world = world("- shell: 'true'\n");
    let root = world.root().canonicalize().unwrap().display().to_string();
    let text = format!("- name: first\n  shell: |\n    {first}\n- {second}\n");
    world.write("workflow.yml", text.replace("ROOT", &root));
    world.commit_all("Displace");
    let seen = run(&world);
    assert_eq!(seen.lines().last(), Some("[exit 1]"), "{seen}");
    let told = records(&world);
    let failed = told.iter().find(|record| record["event_type"] == "job_failed").unwrap();
    assert_eq!(failed["step"], "2", "{seen}");
    assert_eq!(failed["failure"]["kind"], "worktree_error", "{seen}");
    let why = failed["failure"]["message"].as_str().unwrap().replace(&root, "$ROOT");
    (world, why)
}

const TOUCH: &str = "shell: touch ROOT/ran";

#[test]
fn no_step_runs_where_git_would_find_another_repository() {
    assert_snapshot!(displaced("rm .git", TOUCH), @"`$ROOT/home/worktrees/repo/job/job/.git` does not lead to the job's repository any more, so git would work in another one; nothing was run");
    assert_snapshot!(displaced("rm .git; git init --quiet .", TOUCH), @"`$ROOT/home/worktrees/repo/job/job/.git` does not lead to the job's repository any more, so git would work in another one; nothing was run");
    assert_snapshot!(displaced("echo 'gitdir: ROOT/repo/.git' > .git", TOUCH), @"`$ROOT/home/worktrees/repo/job/job/.git` does not lead to the job's repository any more, so git would work in another one; nothing was run");
    assert_snapshot!(displaced("rm .git; ln -s ROOT/repo/.git .git", "write_file: { path: ran, content: x }"), @"`$ROOT/home/worktrees/repo/job/job/.git` does not lead to the job's repository any more, so git would work in another one; nothing was run");
}

#[test]
fn no_step_runs_where_the_worktree_was() {
    let world = map_world(
        r#"
map:
  input: { items: [gone, linked, file, above] }
  item_key: item
  max_parallel: 1
  agent_template:
    - shell: |
        cd ..; mv "$PRODIGY_WORKTREE" "ROOT/${item}"
        case "${item}" in
          linked) ln -s ROOT/repo "$PRODIGY_WORKTREE" ;;
          file) echo x > "$PRODIGY_WORKTREE" ;;
          above) mv "ROOT/above" "$PRODIGY_WORKTREE"; mv "$PWD" "$PWD.away"; ln -s "$PWD.away" "$PWD" ;;
        esac
    - shell: touch ROOT/ran
"#,
    );
    let seen = go(&world);
    assert!(!world.root().join("ran").exists(), "{seen}");
    let root = world.root().canonicalize().unwrap().display().to_string();
    let why = ["gone", "linked", "file", "above"].map(|item| {
        let failure = &letter(&world, item)["failure_history"][0];
        format!("{} {}", failure["error_type"], failure["error_message"]).replace(&root, "$ROOT")
    });
    assert_snapshot!(why.join("\n"), @r#"
    "WorktreeError" "the worktree `$ROOT/home/worktrees/repo/job/agent-1` is gone; nothing was run"
    "WorktreeError" "something else is in the place of the worktree `$ROOT/home/worktrees/repo/job/agent-1`; nothing was run"
    "WorktreeError" "something else is in the place of the worktree `$ROOT/home/worktrees/repo/job/agent-1`; nothing was run"
    "WorktreeError" "`$ROOT/home/worktrees/repo/job/agent-1` is no longer the job's worktree: something else was put in its place"
    "#);
}

#[test]
fn what_a_step_printed_is_not_written_where_a_link_leads() {
    let world = world("- shell: 'true'\n");
    let root = world.root().display().to_string();
    let text = "- shell: |\n    cd ..; mv \"$PRODIGY_WORKTREE\" ROOT/away\n    ln -s ROOT/repo \"$PRODIGY_WORKTREE\"; echo printed\n  output_file: printed.txt\n";
    world.write("workflow.yml", text.replace("ROOT", &root));
    world.commit_all("Lead away");
    let seen = run(&world);
    assert_eq!(seen.lines().last(), Some("[exit 1]"), "{seen}");
    assert!(!world.repo().join("printed.txt").exists(), "{seen}");
    let failed = of_type(&world, "job_failed");
    assert_snapshot!(failed[0]["failure"], @r#"{"kind":"worktree_error","message":"output_file: a symbolic link was put in the place of the worktree"}"#);
}

#[test]
fn no_step_runs_on_a_branch_that_somebody_else_has_checked_out() {
    let user = "git symbolic-ref HEAD refs/heads/main";
    assert_snapshot!(displaced(user, TOUCH), @"the worktree is on branch `main`, which `$ROOT/repo` has checked out: commits would change it there; nothing was run");
    let other = "git worktree add --quiet -b mine ROOT/mine; git symbolic-ref HEAD refs/heads/mine";
    assert_snapshot!(displaced(other, TOUCH), @"the worktree is on branch `mine`, which `$ROOT/mine` has checked out: commits would change it there; nothing was run");
    let job = "git checkout --quiet -b prodigy/other/job";
    assert_snapshot!(displaced(job, TOUCH), @"the worktree is on `prodigy/other/job`, a branch of another item or job; nothing was run");
}

#[test]
fn a_step_may_go_to_a_branch_of_its_own_or_to_none() {
    let world = world(
        "- shell: git checkout --quiet -b mine; echo a > a; git add a; git commit --quiet -m a\n\
         - shell: git checkout --quiet --detach; echo b > b; git add b; git commit --quiet -m b\n",
    );
    let seen = run(&world);
    assert_eq!((world.read("a"), world.read("b")), ("a\n".to_owned(), "b\n".to_owned()), "{seen}");
}

#[test]
fn a_place_that_was_spoiled_is_made_again() {
    let (world, _) = displaced_world(
        "test -e ROOT/gate || { touch ROOT/gate; rm .git; git init --quiet .; }",
        "shell: git rev-parse --path-format=absolute --git-common-dir > ROOT/common",
    );
    let seen = stable(&world.prodigy(&["resume", "job"]));
    let common = fs::read_to_string(world.root().join("common")).unwrap();
    assert!(common.ends_with("/repo/.git\n"), "{common}{seen}");
}

#[test]
fn an_item_in_the_wrong_place_is_tried_again_in_another_worktree() {
    let world = map_world(
        r#"
retry_config: { max_attempts: 2, backoff: { type: fixed, delay: 1ms } }
map:
  input: { items: [once, always] }
  max_parallel: 1
  agent_template:
    - shell: |
        case "${item}$PRODIGY_ATTEMPT" in once1|always*) git symbolic-ref HEAD refs/heads/main ;; esac
    - shell: echo "${item}" >> ROOT/ran; echo x > "${item}"; git add .; git commit --quiet -m x
"#,
    );
    let before = world.git(&["rev-parse", "main"]);
    let seen = go(&world);
    assert_code(&seen, 0);
    assert_eq!(fs::read_to_string(world.root().join("ran")).unwrap(), "once\n");
    assert_eq!(world.git(&["rev-parse", "main^1"]), before, "{seen}");
    // Which item comes first depends on when a retry is due.
    assert_snapshot!(trace_of(&world, "item-001"), @"
    item-001 agent_started 1
    item-001 agent_failed 1 worktree_error then retry
    item-001 agent_retrying 2 after 1ms
    item-001 agent_started 2
    item-001 agent_completed 2
    ");
    assert_snapshot!(trace_of(&world, "item-002"), @"
    item-002 agent_started 1
    item-002 agent_failed 1 worktree_error then retry
    item-002 agent_retrying 2 after 1ms
    item-002 agent_started 2
    item-002 agent_failed 2 worktree_error then dead_letter
    item-002 item_dead_lettered 2 worktree_error
    ");
    let failed = &letter(&world, "item-002")["failure_history"][1]["error_message"];
    assert_snapshot!(failed.to_string().replace(&world.root().display().to_string(), "$ROOT"), @r#""the worktree is on branch `main`, which `$ROOT/repo` has checked out: commits would change it there; nothing was run""#);
}
