//! Dead letters that cannot be written: the job goes on, and they appear once they can be.

use std::fs;

use prodigy_testkit::TestEnv;

use crate::fixture::map_job::{assert_code, go, map_world};

/// Three items fail; in between, `between` runs once.
fn three(between: &str) -> TestEnv {
    map_world(&format!(
        r#"
map:
  input: {{ items: [one, two, three] }}
  max_parallel: 1
  agent_template:
    - shell: test ${{item}} != two || {{ {between}; }}
    - shell: exit 3
reduce:
  - shell: echo "${{map.failed}}" > ../failed
"#
    ))
}

/// Puts a file where the directory of all dead letters would be, which not even root can write to.
fn block(world: &TestEnv) {
    fs::create_dir_all(world.home()).unwrap();
    fs::write(world.home().join("dlq"), "in the way\n").unwrap();
}

fn files(world: &TestEnv) -> Vec<String> {
    let items = world.home().join("dlq/repo/job/mapreduce/dlq/job/items");
    let mut names: Vec<_> = fs::read_dir(items)
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_queue_that_cannot_be_written_fails_nothing_and_is_completed_later() {
    let world = three(":");
    block(&world);
    let seen = go(&world);
    assert_code(&seen, 1);
    let warnings: Vec<_> = seen.stderr.lines().filter(|line| line.contains("warning")).collect();
    assert_eq!(warnings.len(), 1, "{seen}");
    assert_eq!(files(&world), Vec::<String>::new());
    let list = world.prodigy(&["dlq", "list", "job", "--json"]);
    assert!(list.stderr.contains("warning"), "what is missing is said: {list}");

    fs::remove_file(world.home().join("dlq")).unwrap();
    let list = world.prodigy(&["dlq", "list", "job", "--json"]);
    assert_code(&list, 0);
    assert_eq!(list.stdout.matches("\"item_id\"").count(), 3, "{list}");
    assert_eq!(files(&world), ["item-001.json", "item-002.json", "item-003.json"]);
    assert_code(&world.prodigy(&["dlq", "fsck", "job", "--dry-run"]), 0);
}

#[test]
fn a_queue_that_can_be_written_again_is_completed_while_the_job_runs() {
    let world = three("rm -f ROOT/home/dlq");
    block(&world);
    assert_code(&go(&world), 1);
    assert_eq!(files(&world), ["item-001.json", "item-002.json", "item-003.json"]);
    assert_code(&world.prodigy(&["dlq", "fsck", "job", "--dry-run"]), 0);
}
