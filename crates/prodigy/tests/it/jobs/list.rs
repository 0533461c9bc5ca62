//! `prodigy jobs`.

use insta::assert_snapshot;
use prodigy_engine::store::Layout;
use serde_json::{Value, json};

use crate::fixture::journal::{
    completed, damage, failed, half, hold, layout, record, started, world,
};

#[test]
fn without_jobs_the_next_command_is_named() {
    let world = world();
    assert_snapshot!(world.prodigy(&["jobs"]), @"
    ----- stderr -----
    no jobs yet in this repository; `prodigy run WORKFLOW` starts one
    ");
    assert_snapshot!(world.prodigy(&["jobs", "--json"]), @r#"
    {
      "schema_version": 1,
      "jobs": [],
      "purged": []
    }
    "#);
}

#[test]
fn jobs_are_listed_by_age_with_what_became_of_them() {
    let world = world();
    let layout = layout(&world);
    record(&layout, "done", &completed());
    record(
        &layout,
        "broken",
        &failed().into_iter().map(|(at, e)| (at + 10, e)).collect::<Vec<_>>(),
    );
    record(&layout, "dead", &half().into_iter().map(|(at, e)| (at + 20, e)).collect::<Vec<_>>());
    let pause =
        |reason, message| json!({"event_type": "job_paused", "reason": reason, "message": message});
    record(&layout, "stopped", &[(30, started()), (40, pause("terminated", "stopped by SIGTERM"))]);
    record(&layout, "waiting", &[(50, started()), (60, pause("merge_outstanding", "main moved"))]);
    let partly = json!({
        "event_type": "job_completed", "status": "completed_with_failures", "duration_ms": 1, "commits": 0,
    });
    record(&layout, "partly", &[(70, started()), (80, partly)]);
    assert_snapshot!(world.prodigy(&["jobs"]), @"
    JOB      STATUS                   WORKFLOW  STEPS  STARTED           TOOK  COST
    done     completed                tidy.yml  3/3    2026-01-02 03:04  5s    $0.50
    broken   failed                   tidy.yml  1/3    2026-01-02 03:04  3.2s
    dead     interrupted              tidy.yml  1/3    2026-01-02 03:04  1.2s
    stopped  paused                   tidy.yml  0/3    2026-01-02 03:04  10ms
    waiting  not merged yet           tidy.yml  0/3    2026-01-02 03:04  10ms
    partly   completed with failures  tidy.yml  0/3    2026-01-02 03:04  10ms
    ");
    assert_eq!(world.prodigy(&["jobs", "ls"]).stdout, world.prodigy(&["sessions"]).stdout);
    assert_eq!(world.prodigy(&["jobs", "ls"]).stdout, world.prodigy(&["jobs"]).stdout);
}

#[test]
fn a_job_whose_lock_is_held_is_running() {
    let world = world();
    let layout = layout(&world);
    record(&layout, "job-1", &half());
    let _lock = hold(&layout, "job-1");
    let seen = world.prodigy(&["jobs"]).stdout;
    let row: Vec<_> = seen.lines().nth(1).unwrap().split_whitespace().take(4).collect();
    assert_eq!(row, ["job-1", "running", "tidy.yml", "1/3"]);
}

#[test]
fn outside_of_a_repository_all_jobs_are_listed() {
    let world = world();
    let other = Layout::new(world.home(), "other".parse().unwrap());
    record(&layout(&world), "job-1", &completed());
    record(&other, "job-2", &failed());
    let output = world.prodigy_command(&["jobs"]).current_dir(world.root()).output().unwrap();
    assert_snapshot!(world.to_output(&output), @"
    JOB    STATUS     WORKFLOW  STEPS  STARTED           TOOK  COST   REPOSITORY
    job-2  failed     tidy.yml  1/3    2026-01-02 03:04  3.2s         other
    job-1  completed  tidy.yml  3/3    2026-01-02 03:04  5s    $0.50  repo
    ");
    assert_eq!(world.prodigy(&["jobs", "--all"]).stdout, world.to_output(&output).stdout);
    assert_snapshot!(world.prodigy(&["jobs"]), @"
    JOB    STATUS     WORKFLOW  STEPS  STARTED           TOOK  COST
    job-1  completed  tidy.yml  3/3    2026-01-02 03:04  5s    $0.50
    ");
}

#[test]
fn a_job_in_two_repositories_is_ambiguous_only_from_outside() {
    let world = world();
    let other = Layout::new(world.home(), "other".parse().unwrap());
    record(&layout(&world), "job-1", &completed());
    record(&other, "job-1", &failed());
    let output = world
        .prodigy_command(&["jobs", "show", "job-1"])
        .current_dir(world.root())
        .output()
        .unwrap();
    assert_snapshot!(world.to_output(&output), @"
    ----- stderr -----
    error: several repositories have a job `job-1`: `other`, `repo`

    hint: run `prodigy jobs show job-1` inside the one you mean
    [exit 2]
    ");
    let inside = world.prodigy(&["jobs", "show", "job-1"]).stdout;
    assert_eq!(inside.lines().nth(1), Some("status      completed"));
}

#[test]
fn a_damaged_job_does_not_hide_the_others() {
    let world = world();
    let layout = layout(&world);
    record(&layout, "job-1", &completed());
    record(&layout, "job-2", &failed());
    damage(&layout, "job-2", 3);
    assert_snapshot!(world.prodigy(&["jobs"]), @"
    JOB    STATUS     WORKFLOW  STEPS  STARTED           TOOK  COST
    job-1  completed  tidy.yml  3/3    2026-01-02 03:04  5s    $0.50
    job-2  damaged    tidy.yml  0/3    2026-01-02 03:04  5ms
    ----- stderr -----
    warning: `$ROOT/home/events/repo/job-2/events-20260102T030405Z.jsonl` is damaged at line 3: the checksum does not match; see `prodigy repair job-2 --dry-run`
    ");
}

#[test]
fn one_job_is_shown_with_what_to_do_next() {
    let world = world();
    let layout = layout(&world);
    record(&layout, "done", &completed());
    record(&layout, "broken", &failed());
    record(&layout, "dead", &half());
    assert_snapshot!(world.prodigy(&["jobs", "show", "done"]), @"
    job         done
    status      completed
    workflow    tidy.yml
    repository  /repo
    steps       3 of 3 done
    started     2026-01-02T03:04:05Z
    last event  2026-01-03T04:04:08Z
    took        5s
    resumed     once
    cost        $0.50
    branch      prodigy/job
    merged      c1 into main
    ");
    assert_snapshot!(world.prodigy(&["jobs", "show", "broken"]), @"
    job         broken
    status      failed
    workflow    tidy.yml
    repository  /repo
    steps       1 of 3 done
    at step     2 shell: cargo test
    started     2026-01-02T03:04:05Z
    last event  2026-01-02T03:04:08Z
    took        3.2s
    branch      prodigy/job
    worktree    /trees/job
    failure     step 2: command_failed: exit code 101
    ----- stderr -----

    next: `prodigy logs broken` shows what its steps printed, `prodigy resume broken` tries again
    ");
    assert_snapshot!(world.prodigy(&["jobs", "show", "dead"]), @"
    job         dead
    status      interrupted
    workflow    tidy.yml
    repository  /repo
    steps       1 of 3 done
    at step     2 shell: cargo test
    started     2026-01-02T03:04:05Z
    last event  2026-01-02T03:04:06Z
    took        1.2s
    branch      prodigy/job
    worktree    /trees/job
    ----- stderr -----

    next: `prodigy resume dead` goes on
    ");
    assert_snapshot!(world.prodigy(&["jobs", "show", "nobody"]), @"
    ----- stderr -----
    error: there is no job `nobody`

    hint: `prodigy jobs` lists the jobs there are
    [exit 2]
    ");
}

#[test]
fn jobs_can_be_read_by_programs() {
    let world = world();
    record(&layout(&world), "job-1", &failed());
    assert_snapshot!(world.prodigy(&["jobs", "--json"]), @r#"
    {
      "schema_version": 1,
      "jobs": [
        {
          "job_id": "job-1",
          "repo": "repo",
          "status": "failed",
          "workflow_file": "tidy.yml",
          "workflow_name": null,
          "repository": "/repo",
          "options": {},
          "target_branch": "main",
          "steps_done": 1,
          "steps_failed": 0,
          "steps_total": 3,
          "phase": null,
          "items": null,
          "current_step": "2",
          "started_at": "2026-01-02T03:04:05Z",
          "last_event_at": "2026-01-02T03:04:08.209Z",
          "duration_ms": 3209,
          "resumed": 0,
          "records": 8,
          "branch": "prodigy/job",
          "worktree": "/trees/job",
          "merged_commit": null,
          "end": {
            "failed": {
              "step": "2",
              "failure": {
                "kind": "command_failed",
                "message": "exit code 101",
                "exit_code": 101
              }
            }
          },
          "limit": null,
          "warnings": {
            "count": 0,
            "items": 0,
            "first": []
          },
          "kept": {
            "items": 0,
            "files": 0,
            "entries": []
          },
          "damage": null,
          "cost_usd": 0.0,
          "cost_estimated_usd": 0.0,
          "cost_untold": 0,
          "cost_per_success_usd": null,
          "lost_usd": 0.0,
          "tokens": {
            "input": 0,
            "output": 0,
            "cache_read": 0,
            "cache_write": 0
          },
          "budget": null
        }
      ],
      "purged": []
    }
    "#);
    let document =
        |args: &[&str]| -> Value { serde_json::from_str(&world.prodigy(args).stdout).unwrap() };
    let listed = document(&["jobs", "--json"]);
    let shown = document(&["jobs", "show", "job-1", "--json"]);
    assert_eq!(shown, json!({"schema_version": 1, "job": listed["jobs"][0]}));
}

#[test]
fn without_a_home_one_clear_error_says_so() {
    let world = world();
    let output = world
        .prodigy_command(&["jobs"])
        .env_remove("PRODIGY_HOME")
        .env_remove("HOME")
        .output()
        .unwrap();
    assert_snapshot!(world.to_output(&output), @"
    ----- stderr -----
    error: there is no place for state: `HOME` is not set

    hint: set `PRODIGY_HOME` or pass `--home DIR`
    [exit 2]
    ");
}
