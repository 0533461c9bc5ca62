//! `on_conflict`: what becomes of an item whose commits conflict with what was merged meanwhile.
#![expect(clippy::indexing_slicing, reason = "what is not there fails the test")]

use std::fs;

use insta::assert_snapshot;
use prodigy_testkit::TestEnv;
use rustix::process::Signal;

use crate::fixture::{
    map_job::{
        assert_code, beside, counts, go, has_told, letter, map_world, of_type, resume, started,
        trace_of,
    },
    workflow::stable,
};

/// Makes a world in which `first` is merged while `second` is at work on the same file.
fn conflicting(on_conflict: &str, agents: &str) -> TestEnv {
    let workflow = r#"
map:
  input: { items: [first, second] }
  item_key: item
  max_parallel: 2
  on_conflict: CHOICE
  agent_template:
    - shell: |
        wait_for() { while ! test -e "ROOT/$1"; do sleep 0.01; done; }
        if test "${item}" = third; then wait_for prompt; touch ROOT/third; exit 0; fi
        if test "${item}" = first; then
          wait_for began; echo first > list; git add list; git commit --quiet -m first; exit 0
        fi
        touch ROOT/began; base=$(git rev-list --count main)
        echo second > list; git add list; git commit --quiet -m second
        until test "$(git rev-list --count prodigy/job/job)" -gt "$base"; do sleep 0.01; done
"#;
    map_world(&format!("{}{agents}", workflow.replace("CHOICE", on_conflict)))
}

/// Makes such a world with a simulated agent that resolves conflicts by this rule.
pub(crate) fn mended(rule: &str) -> TestEnv {
    let agents = format!(
        "agents:\n  mender:\n    type: simulated\n    rules: [{{ prompt: '^Resolve a merge conflict', {rule} }}]\n"
    );
    conflicting("mender", &agents)
}

/// Makes such a world with a program that resolves conflicts.
pub(crate) fn scripted(script: &str) -> TestEnv {
    let agents = "agents:\n  mender: { type: command, command: [sh, ROOT/mend] }\n";
    let world = conflicting("mender", agents);
    let script = script.replace("ROOT", &world.root().display().to_string());
    fs::write(
        world.root().join("mend"),
        format!("cat > prompt.txt; mv prompt.txt {}/prompt\n{script}\n", world.root().display()),
    )
    .unwrap();
    world
}

/// Returns why the second item is a dead letter; its commit must not be lost.
#[track_caller]
fn lost(world: &TestEnv) -> String {
    assert_eq!(counts(world), (1, 1, 0));
    assert_eq!(world.git(&["log", "-1", "--format=%s", "prodigy/job/second"]), "second");
    assert_eq!(world.read("list"), "first\n");
    let letter = letter(world, "second");
    let artifacts = &letter["worktree_artifacts"];
    assert_eq!(artifacts["branch_name"], "prodigy/job/second", "{letter:#}");
    let context = letter["failure_history"][0]["error_context"].to_string();
    assert!(context.contains("conflict in `list`"), "{context}");
    format!("{}: {}", letter["reason_code"].as_str().unwrap(), letter["reason"].as_str().unwrap())
}

#[test]
fn a_conflict_is_resolved_beside_linked_files_that_git_ignores() {
    let world = mended(r#"edits: [{ path: list, content: "first\nsecond\n" }]"#);
    let workflow = world.read("workflow.yml");
    world.write(
        "workflow.yml",
        workflow.replace("max_parallel: 2", "max_parallel: 2\n  worktree: { link: [cache] }"),
    );
    world.write(".gitignore", "cache\n");
    world.commit_all("Ignore the cache");
    world.write("cache/big", "big\n");
    assert_code(&go(&world), 0);
    assert_eq!(world.read("list"), "first\nsecond\n");
    assert_eq!(counts(&world), (2, 0, 0));
}

#[test]
fn an_agent_resolves_a_conflict_and_the_merge_is_committed_for_it() {
    let world = mended(r#"cost_usd: 0.25, edits: [{ path: list, content: "first\nsecond\n" }]"#);
    let seen = go(&world);
    assert_code(&seen, 0);
    assert_snapshot!(trace_of(&world, "second"), @r#"
    second agent_started 1
    second agent_completed 1
    second merge_conflict ["list"]
    second resolution_started
    second resolution_completed
    "#);
    assert_eq!(world.read("list"), "first\nsecond\n");
    assert_eq!(counts(&world), (2, 0, 0));
    assert_snapshot!(world.git(&["log", "--format=%s", "--first-parent", "main"]), @"
    Merge second
    first
    Add the workflow
    first
    ");
    let used = of_type(&world, "agent_usage");
    let used: Vec<_> = used
        .iter()
        .map(|one| format!("{} {} {}", one["item_id"], one["step"], one["cost_usd"]))
        .collect();
    assert_snapshot!(used.join("\n"), @r#""second" "on_conflict" 0.25"#);
    // Nothing is left behind.
    assert_eq!(world.git(&["worktree", "list"]).lines().count(), 1);
    assert_eq!(world.git(&["branch", "--list", "prodigy/*"]), "");
    assert_snapshot!(stable(&seen), @"
        ----- stderr -----
        · job job · workflow.yml · mapreduce
        · 2 items
        ✓ first  [time] · 1 commit
        ~ second: conflict in 1 file; mender is to resolve it
        ✓ second  [time] · 1 commit · conflict resolved  [time]
        ✓ map: 2/2 done  [time]

        completed · 2 of 2 items done · [time] · cost $0.25
        items: 2 successful
        cost: $0.12 per completed item
        merged into main at [commit]
        next: prodigy events job
        ");
    assert_code(&world.prodigy(&["verify", "job"]), 0);
}

#[test]
fn an_agent_may_commit_the_merge_itself() {
    let world = mended(r#"commit: mended, edits: [{ path: list, content: "both\n" }]"#);
    assert_code(&go(&world), 0);
    assert_eq!(world.read("list"), "both\n");
    assert_eq!(counts(&world), (2, 0, 0));
    let commits = world.git(&["log", "--format=%s: %P", "main"]);
    let merge = commits.lines().find(|line| line.starts_with("mended: ")).unwrap();
    assert_eq!(merge.split(' ').count(), 3, "{merge}");
}

#[test]
fn the_agent_finds_a_merge_as_git_leaves_it_and_is_told_about_both_sides() {
    let world = scripted(
        "git status --short > ROOT/status; cat list > ROOT/markers; git diff --name-only --diff-filter=U > ROOT/unmerged
git rev-parse MERGE_HEAD prodigy/job/job > ROOT/heads; echo both > list; git commit --quiet --no-edit --all",
    );
    assert_code(&go(&world), 0);
    assert_eq!(beside(&world, "status"), "AA list\n");
    assert_eq!(beside(&world, "unmerged"), "list\n");
    assert_snapshot!(beside(&world, "markers"), @"
    <<<<<<< item
    second
    =======
    first
    >>>>>>> job
    ");
    let heads = beside(&world, "heads");
    let heads: Vec<_> = heads.lines().collect();
    assert_eq!(heads[0], heads[1]);
    let prompt = beside(&world, "prompt");
    for part in [
        "prodigy/job/second",
        "prodigy/job/job",
        "- list",
        "The item is: second",
        " second\n",
        " first\n",
    ] {
        assert!(prompt.contains(part), "{part}: {prompt}");
    }
    assert_eq!(world.read("list"), "both\n");
    assert_eq!(counts(&world), (2, 0, 0));
}

#[test]
fn an_agent_that_leaves_conflict_markers_has_not_resolved_it() {
    let world = mended("commit: mended, edits: [{ path: other, content: x }]");
    assert_code(&go(&world), 0);
    assert_snapshot!(lost(&world), @"merge_conflict: its commits conflict with those of other items in `list`, and that was not resolved: the conflict is still in `list`");
}

#[test]
fn an_agent_that_does_nothing_has_not_resolved_it() {
    let world = mended("answer: done");
    let seen = go(&world);
    assert_code(&seen, 0);
    assert_snapshot!(lost(&world), @"merge_conflict: its commits conflict with those of other items in `list`, and that was not resolved: the conflict is still in `list`");
    assert_snapshot!(trace_of(&world, "second"), @r#"
    second agent_started 1
    second agent_completed 1
    second merge_conflict ["list"]
    second resolution_started
    second resolution_failed merge_conflict
    second item_dead_lettered 1 merge_conflict
    "#);
    assert_snapshot!(stable(&seen), @"
    ----- stderr -----
    · job job · workflow.yml · mapreduce
    · 2 items
    ✓ first  [time] · 1 commit
    ~ second: conflict in 1 file; mender is to resolve it
    ~ map: 1/2 done · 1 failed · 1 in DLQ  [time]

    completed with failures · 1 of 2 items done · [time]
    items: 1 successful, 1 in the DLQ
    failures:
      merge_conflict: its commits conflict with those of other items in `list`, and that was not resolved: the conflict is still in `list`  second
    merged into main at [commit]
    kept: $ROOT/home/worktrees/repo/job/second
    dead letters: $ROOT/home/dlq/repo/job/mapreduce/dlq/job/items
    next: prodigy dlq show job
    ");
    // What it left can be looked at, and the item can be tried again.
    let kept = letter(&world, "second")["worktree_artifacts"]["worktree_path"].clone();
    let kept = fs::read_to_string(format!("{}/list", kept.as_str().unwrap())).unwrap();
    assert!(kept.contains("<<<<<<< item"), "{kept}");
}

#[test]
fn an_agent_that_fails_has_not_resolved_it() {
    let world = mended("fault: error, answer: no idea");
    assert_code(&go(&world), 0);
    assert_snapshot!(lost(&world), @"merge_conflict: its commits conflict with those of other items in `list`, and that was not resolved: no idea");
    let events = world.prodigy(&["events", "job", "--type", "resolution_failed"]);
    assert!(events.stdout.contains("no idea"), "{events}");
}

#[test]
fn an_agent_that_gives_the_merge_up_or_goes_elsewhere_has_not_resolved_it() {
    for (script, why) in [
        ("git merge --abort", "the merge was aborted"),
        (
            "git merge --abort; git rebase --quiet -X theirs prodigy/job/job",
            "what was committed does not have the item's commits",
        ),
        (
            "git reset --quiet --hard; echo both > list; git commit --quiet --all -m both",
            "what was committed does not have the job's commits",
        ),
        (
            "echo both > list; git commit --quiet --all --no-edit; git branch spare",
            "`refs/heads/spare` was changed, which is not part of the merge",
        ),
    ] {
        let world = scripted(script);
        assert_code(&go(&world), 0);
        let told = of_type(&world, "resolution_failed");
        assert_eq!(told.len(), 1, "{script}");
        assert_eq!(told[0]["failure"]["message"], why, "{script}");
        assert_eq!(counts(&world), (1, 1, 0));
        assert_eq!(world.git(&["log", "-1", "--format=%s", "prodigy/job/second"]), "second");
    }
}

#[test]
fn an_agent_that_merges_into_the_jobs_branch_itself_has_merged_it() {
    let world = scripted(
        "echo both > list; git commit --quiet --all --no-edit
git update-ref refs/heads/prodigy/job/job HEAD",
    );
    assert_code(&go(&world), 0);
    assert_eq!(counts(&world), (2, 0, 0));
    assert_eq!(world.read("list"), "both\n");
}

#[test]
fn a_conflict_that_is_not_to_be_resolved_ends_the_item_at_once() {
    let world = conflicting("fail", "");
    assert_code(&go(&world), 0);
    assert_snapshot!(lost(&world), @"merge_conflict: its commits conflict with those of other items in `list`");
    assert_snapshot!(trace_of(&world, "second"), @r#"
    second agent_started 1
    second agent_completed 1
    second merge_conflict ["list"]
    second item_dead_lettered 1 merge_conflict
    "#);
}

#[test]
fn a_resolution_that_was_cut_off_is_taken_up_again() {
    let world = scripted(
        "echo both > list
if ! test -e ROOT/asked; then git commit --quiet --all -m half; touch ROOT/asked; sleep 60; fi",
    );
    let mut run = started(&world);
    run.until(&world, "the agent is at work", || world.root().join("asked").exists());
    assert!(has_told(&world, "resolution_started"));
    run.signal(Signal::KILL);
    run.seen(&world);
    let seen = resume(&world);
    assert_code(&seen, 0);
    assert_snapshot!(trace_of(&world, "second"), @r#"
    second agent_started 1
    second agent_completed 1
    second merge_conflict ["list"]
    second resolution_started
    second resolution_started
    second resolution_completed
    "#);
    assert_eq!(world.read("list"), "both\n");
    assert_eq!(counts(&world), (2, 0, 0));
    assert!(!world.git(&["log", "--format=%s", "main"]).contains("half"));
    assert_code(&world.prodigy(&["verify", "job"]), 0);
}

#[test]
fn a_conflict_keeps_nothing_else_from_going_on() {
    let world = scripted("while ! test -e ROOT/third; do sleep 0.01; done; echo both > list");
    let text = world.read("workflow.yml").replace("[first, second]", "[first, second, third]");
    world.write("workflow.yml", text);
    world.commit_all("Add an item that waits until the conflict is being resolved");
    assert_code(&go(&world), 0);
    assert_eq!(counts(&world), (3, 0, 0));
}

#[test]
fn nobody_is_asked_to_resolve_what_has_nothing_in_common() {
    let world = map_world(
        r"
agents: { mender: { type: simulated } }
map:
  input: { items: [orphan] }
  item_key: item
  on_conflict: mender
  agent_template:
    - shell: git checkout --quiet --orphan new; echo x > x; git add x; git commit --quiet -m orphan
",
    );
    assert_code(&go(&world), 1);
    assert_snapshot!(trace_of(&world, "orphan"), @"
    orphan agent_started 1
    orphan agent_completed 1
    orphan merge_conflict []
    orphan item_dead_lettered 1 merge_conflict
    ");
    assert_eq!(of_type(&world, "agent_usage").len(), 0);
}

#[test]
fn an_item_that_conflicts_and_is_run_again_counts_once_as_recovered() {
    let world = map_world(
        r#"
map:
  input: { items: [first, second] }
  item_key: item
  max_parallel: 2
  agent_template:
    - { shell: exit 1, on_failure: 'true' }
    - shell: |
        if test "${item}" = first; then
          while ! test -e ROOT/began; do sleep 0.01; done
          echo first > list; git add list; git commit --quiet -m first; exit 0
        fi
        test -e ROOT/began || base=$(git rev-list --count main)
        echo second > list; git add list; git commit --quiet -m second
        test -e ROOT/began && exit 0
        touch ROOT/began
        until test "$(git rev-list --count prodigy/job/job)" -gt "$base"; do sleep 0.01; done
"#,
    );
    let seen = go(&world);
    assert_code(&seen, 0);
    assert_eq!(of_type(&world, "merge_conflict").len(), 1, "{}", trace_of(&world, "second"));
    assert!(
        seen.stderr.contains("items: 2 successful, 2 of them recovered from a failed step,"),
        "{seen}"
    );
    let listed = world.prodigy(&["jobs", "show", "job"]).stdout;
    assert!(listed.contains("2 of 2 done, 2 recovered"), "{listed}");
    assert_code(&world.prodigy(&["verify", "job"]), 0);
}
