//! What the tests of governed replay share: a policy, people, and the audit trail.
#![expect(clippy::indexing_slicing, reason = "what is not there fails the test")]

use std::fs;

use prodigy_testkit::{CommandOutput, TestEnv};
use serde_json::Value;

use crate::{
    dlq_retry::{failing, fails_with},
    map_world::{assert_code, go},
};

/// Three items, one after the other, that do what somebody says.
pub(crate) const WORKFLOW: &str = r"
map:
  input: { items: [a, b, c] }
  max_parallel: 1
  agent_template:
    - name: work
      shell: sh ROOT/work ${item}
";

/// Returns a world whose items died of reason codes, by a policy, as ann.
pub(crate) fn died_of(policy: &str, codes: &[(&str, &str)]) -> TestEnv {
    // Without a success the job has failed.
    let code = i32::from(codes.len() == 3);
    died_of_workflow(WORKFLOW, policy, codes, code)
}

/// Does the same with a workflow that ends with a code.
pub(crate) fn died_of_workflow(
    workflow: &str,
    policy: &str,
    codes: &[(&str, &str)],
    code: i32,
) -> TestEnv {
    let world = failing(workflow, &[]);
    become_person(&world, "ann");
    write_policy(&world, policy);
    world.commit_all("Add the policy");
    for (item, reason) in codes {
        fails_with(&world, item, reason);
    }
    assert_code(&go(&world), code);
    world
}

/// Writes the policy; without a text there is none.
pub(crate) fn write_policy(world: &TestEnv, policy: &str) {
    if !policy.is_empty() {
        world.write(".prodigy/replay-policy.yml", policy);
    }
}

/// Has somebody use the repository from now on.
pub(crate) fn become_person(world: &TestEnv, name: &str) {
    world.git(&["config", "user.email", &format!("{name}@example.com")]);
}

/// Runs a command about the dead letters of the job as somebody.
pub(crate) fn dlq(world: &TestEnv, who: &str, args: &[&str]) -> CommandOutput {
    become_person(world, who);
    world.prodigy(&[&["dlq"], args].concat())
}

/// Returns the audit trail: who did what to which entry, what was decided, and what became of it.
pub(crate) fn trail(world: &TestEnv) -> String {
    let text = fs::read_to_string(world.home().join("audit/repo/audit.jsonl")).unwrap_or_default();
    let lines = text.lines().map(|line| {
        let record: Value = serde_json::from_str(line).unwrap();
        let said = |key: &str| record[key].as_str().unwrap_or("-").to_owned();
        let entry = match record["entries"].as_u64() {
            Some(number) => format!("{number} entries"),
            None => said("entry"),
        };
        let (actor, action, outcome) = (said("actor"), said("action"), said("outcome"));
        let actor = actor.trim_end_matches("@example.com");
        format!("{actor} {action} {outcome} {entry} [{} {}]", said("decision"), said("rule"))
    });
    let lines: Vec<_> = lines.collect();
    assert_code(&world.prodigy(&["audit", "verify"]), 0);
    lines.join("\n")
}
