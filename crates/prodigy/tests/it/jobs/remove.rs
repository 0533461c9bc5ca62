//! `prodigy jobs rm`.
#![expect(clippy::indexing_slicing, reason = "what is not there fails the test")]

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use insta::assert_snapshot;
use prodigy_testkit::{CommandOutput, TestEnv};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::fixture::{
    journal::{hold, layout, record, started},
    map_job::{assert_code, go, map_world},
    workflow::SpawnedProdigy,
};

/// One item that commits, one that fails after it committed.
const HALF: &str = "
map:
  input: { items: [a, b] }
  agent_template:
    - shell: touch ${item} && git add ${item} && git commit --quiet -m ${item}
    - shell: test ${item} = a
error_policy: { retry_config: { max_attempts: 1 } }
";

/// One item that commits.
const WHOLE: &str = "
map:
  input: { items: [a] }
  agent_template:
    - shell: touch ${item} && git add ${item} && git commit --quiet -m ${item}
";

/// Removes the job with more flags.
fn rm(world: &TestEnv, flags: &[&str]) -> CommandOutput {
    let mut args = vec!["jobs", "rm", "job"];
    args.extend(flags);
    world.prodigy(&args)
}

/// Returns what is left of the job below the home and in git.
fn left(world: &TestEnv) -> Vec<String> {
    let mut left = Vec::new();
    let mut waiting = vec![world.home()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if name == "job" {
                left.push(shown(world, &path));
            } else if path.is_dir() {
                waiting.push(path);
            }
        }
    }
    let refs = world.git(&[
        "for-each-ref",
        "--format=%(refname)",
        "refs/heads/prodigy",
        "refs/prodigy/job",
    ]);
    left.extend(refs.lines().map(str::to_owned));
    let trees = world.git(&["worktree", "list", "--porcelain"]);
    left.extend(trees.lines().filter(|line| line.contains("worktrees")).map(str::to_owned));
    left.sort();
    left
}

fn shown(world: &TestEnv, path: &Path) -> String {
    path.strip_prefix(world.root()).unwrap().display().to_string()
}

/// Returns the file that says that the job was removed.
fn tombstone(world: &TestEnv) -> PathBuf {
    world.home().join("state/repo/removed/job.json")
}

/// Returns the actions and outcomes of the audit trail.
fn audited(world: &TestEnv) -> Vec<(Value, Value)> {
    let text = fs::read_to_string(world.home().join("audit/repo/audit.jsonl")).unwrap_or_default();
    let records = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    records.map(|record| (record["action"].clone(), record["outcome"].clone())).collect()
}

#[test]
fn a_finished_job_is_removed_with_everything_of_it() {
    let world = map_world(WHOLE);
    assert_code(&go(&world), 0);
    assert!(!left(&world).is_empty());
    assert_snapshot!(rm(&world, &["-y"]), @"job `job` is removed");
    assert_eq!(left(&world), Vec::<String>::new());
    assert_eq!(
        audited(&world),
        [("remove".into(), "intended".into()), ("remove".into(), "done".into())]
    );
    assert_code(&world.prodigy(&["audit", "verify"]), 0);
    assert!(world.repo().join("a").exists(), "what was merged stays");
    assert_snapshot!(world.prodigy(&["jobs"]), @"
    ----- stderr -----
    no jobs yet in this repository; `prodigy run WORKFLOW` starts one
    ");
    assert_snapshot!(rm(&world, &["-y"]), @"job `job` was removed before");
}

#[test]
fn the_id_of_a_removed_job_is_not_used_again() {
    let world = map_world(WHOLE);
    assert_code(&go(&world), 0);
    assert_code(&rm(&world, &["-y"]), 0);
    for args in [["jobs", "show", "job"].as_slice(), &["resume", "job"], &["events", "job"]] {
        let seen = world.prodigy(args);
        assert_code(&seen, 2);
        assert!(seen.stderr.contains("error: job `job` was removed by "), "{seen}");
    }
    let seen = go(&world);
    assert_code(&seen, 2);
    assert!(seen.stderr.contains("the id of a removed one is not used again"), "{seen}");
    assert_eq!(left(&world), Vec::<String>::new());
}

#[test]
fn nothing_is_removed_without_a_yes() {
    let world = map_world(WHOLE);
    assert_code(&go(&world), 0);
    let before = left(&world);
    assert_snapshot!(rm(&world, &[]), @"
    ----- stderr -----
    error: this would remove job `job`

    hint: pass `-y` to remove it without asking
    [exit 2]
    ");
    assert_eq!(left(&world), before);
}

#[test]
fn work_that_is_nowhere_else_is_removed_only_by_force() {
    let world = map_world(HALF);
    assert_code(&world.prodigy(&["run", "workflow.yml", "--job-id", "job"]), 7);
    let before = left(&world);
    let refused = rm(&world, &["-y"]);
    assert_code(&refused, 1);
    for kept in [
        "kept  1 commit on no other branch: `prodigy/job/job`",
        "kept  1 commit on no other branch: `prodigy/job/item-002`",
        "kept  a worktree that was kept: `prodigy/job/item-002`",
        "kept  1 open dead letter",
        "error: job `job` holds work that is nowhere else",
        "hint: `prodigy jobs rm job --force` removes the job and this work",
    ] {
        assert!(refused.stderr.contains(kept), "{kept}: {refused}");
    }
    assert_eq!(left(&world), before);
    assert_eq!(audited(&world), []);
    let document = rm(&world, &["-y", "--json"]);
    assert_code(&document, 1);
    let document: Value = serde_json::from_str(&document.stdout).unwrap();
    assert_eq!((&document["removed"], &document["schema_version"]), (&json!(false), &json!(1)));
    assert!(document["work"].as_array().unwrap().contains(&json!("1 open dead letter")));
    assert_code(&rm(&world, &["-y", "--force", "--reason", "of no use"]), 0);
    assert_eq!(left(&world), Vec::<String>::new());
    let trail = fs::read_to_string(world.home().join("audit/repo/audit.jsonl")).unwrap();
    assert!(trail.contains("of no use (with --force: "), "{trail}");
}

#[test]
fn effects_that_are_not_known_keep_a_job() {
    let world = map_world(WHOLE);
    let mut first = started();
    first["repository"] = json!(world.repo().canonicalize().unwrap());
    let prepared = json!({
        "event_type": "effect_prepared", "key": "job:job:1", "step": "1", "name": "shell: deploy",
        "intent_hash": "7a", "attempt": 1, "can_check": false, "can_compensate": false,
        "state": "prepared",
    });
    let phase = json!({"event_type": "phase_started", "phase": "steps"});
    record(&layout(&world), "job", &[(0, first), (1, phase), (2, prepared)]);
    let refused = rm(&world, &["-y"]);
    assert_code(&refused, 1);
    let unknown = "kept  1 change outside that may or may not have been made";
    assert!(refused.stderr.contains(unknown), "{refused}");
    assert_code(&rm(&world, &["-y", "--force"]), 0);
    assert_eq!(left(&world), Vec::<String>::new());
}

#[test]
fn a_running_job_is_not_removed() {
    let world = map_world(WHOLE);
    assert_code(&go(&world), 0);
    let before = left(&world);
    let lock = hold(&layout(&world), "job");
    assert_code(&rm(&world, &["-y", "--force"]), 75);
    assert_eq!(left(&world), before);
    drop(lock);
    assert_code(&rm(&world, &["-y"]), 0);
}

#[test]
fn a_branch_that_the_user_has_checked_out_is_not_removed() {
    let world = map_world(WHOLE);
    assert_code(&world.prodigy(&["run", "workflow.yml", "--job-id", "job"]), 7);
    // The job's own worktree is given up, its branch is in use elsewhere.
    assert_code(&world.prodigy(&["worktree", "clean", "job", "--force", "-y"]), 0);
    let other = world.root().join("other");
    world.git(&[
        "worktree",
        "add",
        "--quiet",
        "--force",
        other.to_str().unwrap(),
        "prodigy/job/job",
    ]);
    let refused = rm(&world, &["-y", "--force"]);
    assert_code(&refused, 1);
    assert!(refused.stderr.contains("the branch `prodigy/job/job` is checked out in"), "{refused}");
    assert!(other.join("a").exists());
}

#[test]
fn a_job_that_never_began_is_removed_and_its_id_is_free() {
    for text in [None, Some(""), Some("{\"format\":1,\"se")] {
        let world = map_world(WHOLE);
        let events = world.home().join("events/repo/job");
        fs::create_dir_all(&events).unwrap();
        fs::create_dir_all(world.home().join("state/repo/mapreduce/jobs/job")).unwrap();
        if let Some(text) = text {
            fs::write(events.join("events-20260102T030405Z.jsonl"), text).unwrap();
        }
        let seen = rm(&world, &[]);
        assert_eq!(
            seen.to_string().trim_end(),
            "job `job` never began; what was there of it is removed"
        );
        assert_eq!(left(&world), Vec::<String>::new());
        fs::set_permissions(world.home(), fs::Permissions::from_mode(0o700)).unwrap();
        assert_code(&go(&world), 0);
    }
}

#[test]
fn a_removal_that_was_killed_blocks_nothing_and_is_finished() {
    for delay in [0, 5, 20] {
        let world = map_world(WHOLE);
        assert_code(&world.prodigy(&["run", "workflow.yml", "--job-id", "job"]), 7);
        let mut child =
            world.prodigy_command(&["jobs", "rm", "job", "-y", "--force"]).spawn().unwrap();
        let start = Instant::now();
        while !tombstone(&world).exists() {
            assert!(start.elapsed() < Duration::from_secs(60), "nothing was removed");
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(delay));
        if child.try_wait().unwrap().is_none() {
            kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
        }
        child.wait().unwrap();
        let listed = world.prodigy(&["jobs"]).to_string();
        assert!(listed.contains("no jobs yet"), "{listed}");
        assert_code(&world.prodigy(&["resume"]), 2);
        // A removal that was decided over needs no second decision.
        assert_code(&rm(&world, &[]), 0);
        assert_eq!(left(&world), Vec::<String>::new());
        assert_code(&world.prodigy(&["run", "workflow.yml", "-y", "--job-id", "next"]), 0);
    }
}

#[test]
fn a_checkout_whose_update_was_cut_off_is_whole_after_the_removal() {
    let mut is_cut_off = false;
    for _ in 0..8 {
        let world = map_world(
            "
map:
  input: { items: [a] }
  agent_template:
    - shell: for n in $(seq 300); do echo $n > file-$n; done; git add .; git commit --quiet -m all
",
        );
        let before = world.git(&["rev-parse", "main"]);
        let args = ["run", "workflow.yml", "-y", "--job-id", "job"];
        let mut run = SpawnedProdigy::new(&world, &args);
        // Its first act in the checkout is a list of what it will change there.
        run.until(&world, "the update begins", || {
            world.repo().join("file-1").exists() || world.repo().join("file-300").exists()
        });
        run.signal(Signal::KILL);
        run.seen(&world);
        is_cut_off |= !status(&world).is_empty();
        let seen = rm(&world, &["-y", "--force"]);
        assert_code(&seen, 0);
        assert_eq!(status(&world), "", "{seen}");
        assert!(!world.repo().join(".git/index.lock").exists(), "{seen}");
        let is_merged = world.git(&["rev-parse", "main"]) != before;
        assert_eq!(world.repo().join("file-300").exists(), is_merged, "{seen}");
        if is_cut_off {
            assert!(seen.stderr.contains("the update of your checkout was cut off"), "{seen}");
            return;
        }
    }
    panic!("no update was cut off");
}

/// Returns the files of the checkout that are not as the branch says.
fn status(world: &TestEnv) -> String {
    world.git(&["status", "--porcelain", "--untracked-files=all"])
}
