//! Rehearsals of judges that are not satisfied at first.

use insta::assert_snapshot;
use prodigy_testkit::TestEnv;

use crate::{
    fixture::map_job::{assert_code, beside},
    simulate::command::world,
};

/// Makes a world with a judge, which counts how often the work was mended.
fn judged() -> TestEnv {
    world(
        r#"
map:
  input: { items: [one, two, three] }
  item_key: item
  max_parallel: 1
  agent_template:
    - claude: "Do ${item}"
      id: work
      validate:
        claude: "Judge ${item}"
        on_incomplete:
          max_attempts: 1
          commands:
            - claude: "Mend ${item}: ${validation.missing}"
            - shell: echo "${item} ${validation.completion_percentage} ${validation.missing[0]:-}" >> ROOT/mended
retry_config: { max_attempts: 2, backoff: { type: fixed, delay: 1ms } }
"#,
    )
}

#[test]
fn a_judge_can_be_unsatisfied_so_often_and_then_satisfied() {
    let world = judged();
    world.write(
        "faults.yml",
        r"
rules:
  - { item: one, fault: not_satisfied, times: 1 }
  - { item: two, fault: not_satisfied, times: 3, result: { completion_percentage: 40, missing: [tests] } }
",
    );
    let seen = world.prodigy(&["simulate", "workflow.yml", "--faults", "faults.yml"]);
    assert_code(&seen, 0);
    // The second item fails once: two judgements are one too few for it.
    assert_snapshot!(beside(&world, "mended"), @"
    one 0 simulated
    two 40 tests
    two 40 tests
    ");
    let policies: Vec<&str> =
        seen.stderr.lines().filter(|line| line.contains("tried again")).collect();
    assert_snapshot!(policies.join("\n"), @"  tried again: 1 × validation_failed");
}

#[test]
fn a_judge_that_is_never_satisfied_fails_its_item() {
    let world = judged();
    world.write(
        "faults.yml",
        "rules: [{ item: three, step: '*.validate.*', fault: not_satisfied }]\n",
    );
    let seen = world.prodigy(&["simulate", "workflow.yml", "--faults", "faults.yml"]);
    assert_code(&seen, 0);
    assert_eq!(beside(&world, "mended").lines().count(), 2);
    let failed: Vec<&str> =
        seen.stderr.lines().filter(|line| line.contains("validation_failed:")).collect();
    assert_snapshot!(failed.join("\n"), @"  validation_failed: validation found 0 % done, and 100 % is wanted  three");
}
