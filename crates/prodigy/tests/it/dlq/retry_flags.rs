//! The flags of `prodigy dlq retry` that are about the run and not about the choice.

use std::fs;

use crate::{
    dlq::retry::{WORKFLOW, does, failing, mend, retry},
    fixture::map_job::{assert_code, go, of_type, write_workflow},
};

#[test]
fn the_workflow_is_the_one_of_the_job_unless_the_one_of_now_is_asked_for() {
    let world = failing(WORKFLOW, &["a"]);
    assert_code(&go(&world), 0);
    let now = WORKFLOW.replace("sh ROOT/work ${item}", "echo now > ${item}.txt");
    assert_ne!(now, WORKFLOW);
    write_workflow(&world, &now);
    world.commit_all("Do it in another way");

    let seen = retry(&world, &["--fail-on-dlq"]);
    assert_code(&seen, 3);
    assert!(seen.stderr.contains("`workflow.yml` has changed since the job began"), "{seen}");
    assert_code(&retry(&world, &["--fail-on-dlq", "--use-current-workflow"]), 0);
    assert_eq!(world.git(&["show", "main:a.txt"]), "now");
}

#[test]
fn as_many_are_replayed_at_once_as_asked_for() {
    for (most, agents) in [("1", 1), ("2", 2)] {
        let world = failing(WORKFLOW, &["a", "b"]);
        assert_code(&go(&world), 0);
        let before = of_type(&world, "agent_started").len();
        // Each replay waits for the other one, but not for long.
        for (item, other) in [("a", "b"), ("b", "a")] {
            let wait = format!(
                "touch ROOT/here.{item}; for _ in $(seq 30); do test -e ROOT/here.{other} && break; sleep 0.1; done"
            );
            does(&world, item, &wait);
        }
        assert_code(&retry(&world, &["--max-parallel", most]), 0);
        let started = of_type(&world, "agent_started");
        let mut who: Vec<_> =
            started.iter().skip(before).map(|record| record["agent_id"].to_string()).collect();
        who.sort();
        who.dedup();
        assert_eq!(who.len(), agents, "--max-parallel {most}: {started:?}");
    }
}

#[test]
fn the_result_is_merged_if_somebody_says_so_and_reported() {
    let world = failing(WORKFLOW, &["a"]);
    assert_code(&world.prodigy(&["run", "workflow.yml", "--job-id", "job"]), 7);
    mend(&world, "a");
    assert_code(&retry(&world, &[]), 7);
    assert!(!world.repo().join("a.txt").exists());
    assert_code(&world.prodigy(&["resume", "job", "-y"]), 0);
    assert!(world.repo().join("a.txt").exists());

    let world = failing(WORKFLOW, &["a"]);
    assert_code(&world.prodigy(&["run", "workflow.yml", "--job-id", "job"]), 7);
    mend(&world, "a");
    let report = world.root().join("report.xml");
    assert_code(&retry(&world, &["--yes", "--junit", report.to_str().unwrap()]), 0);
    assert!(world.repo().join("a.txt").exists());
    let report = fs::read_to_string(&report).unwrap();
    assert_eq!(report.matches("<testcase name=\"item-00").count(), 3, "{report}");
    assert!(report.contains("failures=\"0\""), "{report}");
}
