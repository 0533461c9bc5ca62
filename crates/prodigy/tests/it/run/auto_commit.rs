//! Commits that prodigy makes of what steps leave uncommitted.

use std::fs;

use prodigy_testkit::TestEnv;

use crate::fixture::{
    map_job::{assert_code, counts, go, map_world, of_type},
    workflow,
};

/// An agent that edits the file its prompt names and commits nothing.
const EDITOR: &str = r#"
agents:
  claude:
    type: simulated
    rules:
      - { prompt: one, edits: [{ path: one.txt, content: "one\n" }], cost_usd: 0.5 }
      - { prompt: two, edits: [{ path: two.txt, content: "two\n" }], cost_usd: 0.5 }
      - { prompt: three, edits: [{ path: three.txt, content: "three\n" }], cost_usd: 0.5 }
      - { prompt: judge, answer: '{"completion_percentage": 100}', edits: [{ path: verdict.txt, content: "x\n" }] }
"#;

fn editors(map: &str) -> TestEnv {
    map_world(&format!("{map}{EDITOR}"))
}

fn on_main(world: &TestEnv) -> String {
    world.git(&["ls-tree", "-r", "--name-only", "main"])
}

#[test]
fn edits_of_agents_that_commit_nothing_are_on_the_branch() {
    let world = editors(
        r#"
map:
  input: { items: [one, two, three] }
  agent_template: [{ claude: "write ${item}" }]
"#,
    );
    let seen = go(&world);
    assert_code(&seen, 0);
    assert_eq!(on_main(&world), "README.md\none.txt\nthree.txt\ntwo.txt\nworkflow.yml");
    let log = world.git(&["log", "--no-merges", "--format=%s", "-3", "main"]);
    let mut subjects: Vec<_> = log.lines().collect();
    subjects.sort_unstable();
    assert_eq!(subjects, ["claude: write one", "claude: write three", "claude: write two"]);
}

#[test]
fn edits_of_an_agent_in_a_sequential_workflow_are_on_the_branch() {
    let world = workflow::world(&format!("steps:\n  - claude: write one\n{EDITOR}"));
    assert_eq!(world.prodigy(&["run", "workflow.yml", "-y"]).code, Some(0));
    assert_eq!(world.git(&["show", "main:one.txt"]), "one");
}

#[test]
fn only_the_changes_of_the_agent_are_committed() {
    let world = editors(
        r#"
map:
  input: { items: [one] }
  agent_template:
    - shell: echo before > before.txt; echo staged > staged.txt; git add staged.txt
    - claude: "write ${item}"
    - shell: echo after > after.txt
"#,
    );
    assert_code(&go(&world), 0);
    assert_eq!(on_main(&world), "README.md\none.txt\nworkflow.yml");
}

#[test]
fn handlers_commit_and_judges_do_not() {
    let world = editors(
        r#"
map:
  input: { items: [x] }
  agent_template:
    - shell: "exit 3"
      on_failure: { commands: [{ claude: one }] }
    - claude: two
      validate: { claude: judge }
"#,
    );
    let seen = go(&world);
    assert_code(&seen, 0);
    assert_eq!(counts(&world), (1, 0, 0), "{seen}");
    assert_eq!(on_main(&world), "README.md\none.txt\ntwo.txt\nworkflow.yml");
}

#[test]
fn nothing_is_committed_in_a_shared_worktree() {
    let world = editors(
        r#"
map:
  input: { items: [one, two] }
  isolation: shared
  agent_template: [{ claude: "write ${item}" }]
"#,
    );
    assert_code(&go(&world), 0);
    assert_eq!(on_main(&world), "README.md\nworkflow.yml");
}

#[test]
fn agents_of_a_parallel_loop_are_committed_together() {
    let world = workflow::world(&format!(
        "steps:\n  - foreach:\n      input: [one, two, three]\n      parallel: 3\n      do:\n        \
         - claude: write ${{item}}\n{EDITOR}"
    ));
    let seen = world.prodigy(&["run", "workflow.yml", "-y"]);
    assert_eq!(seen.code, Some(0), "{seen}");
    assert_eq!(on_main(&world), "README.md\none.txt\nthree.txt\ntwo.txt\nworkflow.yml");
    assert_eq!(world.git(&["log", "-1", "--format=%s", "main"]), "foreach");
}

#[test]
fn more_than_a_thousand_files_are_not_committed() {
    let world = map_world(
        r"
map:
  input: { items: [x] }
  agent_template:
    - shell: mkdir many; for n in $(seq 1001); do echo $n > many/$n; done
      auto_commit: true
",
    );
    let seen = go(&world);
    assert_code(&seen, 0);
    assert_eq!(on_main(&world), "README.md\nworkflow.yml");
    let warned = of_type(&world, "agent_warned");
    assert_eq!(
        warned.iter().map(|record| record["message"].as_str().unwrap()).collect::<Vec<_>>(),
        [
            "its changes are not committed: 1001 files are more than the 1000 that are committed automatically"
        ]
    );
}

#[test]
fn files_that_the_worktree_was_given_are_not_committed() {
    let world = editors(
        r#"
map:
  input: { items: [one] }
  worktree: { copy: [.env] }
  agent_template: [{ claude: "write ${item}" }]
"#,
    );
    world.write(".env", "KEY=value\n");
    assert_code(&go(&world), 0);
    assert_eq!(on_main(&world), "README.md\none.txt\nworkflow.yml");
}

#[test]
fn conflict_markers_are_not_committed() {
    let world = map_world(
        r"
map:
  input: { items: [x] }
  agent_template:
    - shell: |
        git checkout --quiet -b side; echo side > README.md; git commit --quiet -am side
        git checkout --quiet -; echo main > README.md; git commit --quiet -am main
        git merge side || true
      auto_commit: true
",
    );
    assert_code(&go(&world), 0);
    assert_eq!(world.git(&["show", "main:README.md"]), "main");
    let warned = of_type(&world, "agent_warned");
    assert_eq!(
        warned[0]["message"],
        "its changes are not committed: `README.md` has conflict markers of an unfinished merge"
    );
}

#[test]
fn batch_commits_what_each_command_leaves() {
    let world = workflow::world("- shell: 'true'\n");
    for name in ["a", "b c", "c"] {
        world.write(&format!("src/{name}.js"), "var x = 1;\nvar y;\n");
    }
    world.commit_all("Add files");
    let seen = world.prodigy(&["batch", "src/*.js", "-c", "sed -i 's/^var /let /' ${item}", "-y"]);
    assert_eq!(seen.code, Some(0), "{seen}");
    for name in ["a", "b c", "c"] {
        let text = fs::read_to_string(world.repo().join(format!("src/{name}.js"))).unwrap();
        assert_eq!(text, "let x = 1;\nlet y;\n", "{name}");
    }
    assert_eq!(world.git(&["status", "--porcelain"]), "");
}

#[test]
fn a_step_that_must_commit_and_changes_nothing_keeps_no_worktree() {
    let world = map_world(
        r#"
map:
  input: { items: [a, b] }
  agent_template: [{ shell: "true", auto_commit: true, commit_required: true }]
"#,
    );
    go(&world);
    assert_eq!(counts(&world), (0, 2, 0));
    assert_eq!(of_type(&world, "worktree_preserved"), Vec::<serde_json::Value>::new());
    assert_eq!(fs::read_dir(world.home().join("worktrees/repo/job")).unwrap().count(), 0);
}

/// Writes a hook that would refuse every commit.
fn refuse(path: &std::path::Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, "#!/bin/sh\nexit 1\n").unwrap();
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
}

#[test]
fn hooks_that_are_not_run_are_told_once_by_plan_and_job() {
    let map = r#"
map:
  input: { items: [one, two] }
  agent_template: [{ claude: "write ${item}" }]
"#;
    let line = |text: &str| -> Vec<String> {
        text.lines().filter(|line| line.contains("hooks")).map(ToOwned::to_owned).collect()
    };
    let world = editors(map);
    refuse(&world.repo().join(".git/hooks/pre-commit"));
    fs::write(world.repo().join(".git/hooks/commit-msg"), "not executable").unwrap();
    let told = "prodigy's own commits and merges do not run your hooks `pre-commit`";
    let plan = world.prodigy(&["plan", "workflow.yml"]);
    assert_eq!(line(&plan.stdout), [format!("hooks     {told}")], "{plan}");
    let seen = go(&world);
    assert_code(&seen, 0);
    assert_eq!(line(&seen.stderr), [format!("note: {told}")], "{seen}");
    assert_eq!(world.git(&["show", "main:one.txt"]), "one");

    let world = editors(map);
    world.git(&["config", "core.hooksPath", "../my-hooks"]);
    refuse(&world.root().join("my-hooks/commit-msg"));
    let plan = world.prodigy(&["plan", "workflow.yml", "--json"]);
    let plan: serde_json::Value = serde_json::from_str(&plan.stdout).unwrap();
    assert_eq!(plan["hooks_not_run"], serde_json::json!(["commit-msg"]));

    let plan = editors(map).prodigy(&["plan", "workflow.yml"]);
    assert_eq!(line(&plan.stdout), Vec::<String>::new());
}

#[test]
fn batch_in_a_shared_worktree_commits_nothing_and_says_so() {
    let world = workflow::world("- shell: 'true'\n");
    world.write("a.js", "var a;\n");
    world.commit_all("Add a file");
    let command = "sed -i 's/^var /let /' ${item}";
    let args = ["batch", "*.js", "-c", command, "--isolation", "shared", "-y", "--job-id", "job"];
    let seen = world.prodigy(&args);
    assert_code(&seen, 0);
    assert_eq!(world.git(&["show", "main:a.js"]), "var a;");
    let first = seen.stderr.lines().next().unwrap();
    assert_eq!(
        first,
        "note: nothing is committed with `--isolation shared`; what the commands leave is kept, \
         and the end of the run says where"
    );
    let kept = "kept: 1 uncommitted file of the job; \
                `git cherry-pick --no-commit refs/prodigy/job/kept/job` applies it";
    assert!(seen.stderr.lines().any(|line| line == kept), "{seen}");
    world.git(&["cherry-pick", "--no-commit", "refs/prodigy/job/kept/job"]);
    assert_eq!(fs::read_to_string(world.repo().join("a.js")).unwrap(), "let a;\n");
}
