//! What stays of items that failed, and what handlers of the error policy are told.

use insta::assert_snapshot;
use prodigy_testkit::TestEnv;

use crate::fixture::workflow::stable;

fn world(workflow: &str) -> TestEnv {
    let world = TestEnv::with_repo(env!("CARGO_BIN_EXE_prodigy"));
    world.write("w.yml", workflow);
    world.commit_all("Add the workflow");
    world
}

/// Returns the worktrees of the items: the name, whether HEAD is a commit, and the branch.
fn kept(world: &TestEnv) -> Vec<(String, bool, String)> {
    let list = world.git(&["worktree", "list", "--porcelain"]);
    let mut kept: Vec<_> = list
        .split("\n\n")
        .skip(1)
        .filter(|tree| !tree.trim().is_empty())
        .map(|tree| {
            let field = |name: &str| {
                let line = tree.lines().find_map(|line| line.strip_prefix(name));
                line.unwrap_or_default().trim().to_owned()
            };
            let name = field("worktree").rsplit('/').next().unwrap_or_default().to_owned();
            let is_there = field("HEAD").chars().any(|digit| digit != '0');
            (name, is_there, field("branch"))
        })
        .collect();
    kept.sort();
    kept
}

#[test]
fn a_kept_worktree_is_on_a_branch_that_exists() {
    let world = world(
        "mode: mapreduce\nmap:\n  input: { items: [a] }\n  item_key: item\n  agent_template:\n  \
         - shell: touch left; exit 3\n",
    );
    assert_eq!(world.prodigy(&["run", "w.yml", "-y", "--job-id", "j"]).code, Some(1));
    assert_eq!(kept(&world), [("a".to_owned(), true, "refs/heads/prodigy/j/a".to_owned())]);
    let seen = world.prodigy(&["worktree", "ls"]);
    assert_eq!(seen.code, Some(0), "{seen}");
}

#[test]
fn a_worktree_that_is_always_kept_leaves_the_branch_that_was_merged() {
    let world = world(
        "mode: mapreduce\nmap:\n  input: { items: [a, b] }\n  item_key: item\n  agent_template:\n  \
         - shell: echo > new; git add new; git commit --quiet --message new\n    \
         when: item == 'a'\nerror_policy: { preserve_worktrees: always }\n",
    );
    assert_eq!(world.prodigy(&["run", "w.yml", "-y", "--job-id", "j"]).code, Some(0));
    let detached = |name: &str| (name.to_owned(), true, String::new());
    assert_eq!(kept(&world), [detached("a"), detached("b")]);
    assert_eq!(world.read("new"), "\n");
    assert_eq!(world.prodigy(&["worktree", "clean"]).code, Some(0));
    assert_eq!(world.git(&["branch", "--format=%(refname:short)"]), "main");
}

#[test]
fn commits_of_a_kept_worktree_that_left_its_branch_survive_cleaning() {
    let world = world(
        "mode: mapreduce\nmap:\n  input: { items: [a] }\n  item_key: item\n  agent_template:\n  \
         - shell: |\n      echo $PRODIGY_ATTEMPT > new; git add new\n      \
         git commit --quiet --message \"try $PRODIGY_ATTEMPT\"; test $PRODIGY_ATTEMPT = 2\n\
         error_policy:\n  preserve_worktrees: always\n  \
         retry_config: { max_attempts: 2, backoff: { type: fixed, delay: 0ms } }\n",
    );
    assert_eq!(world.prodigy(&["run", "w.yml", "-y", "--job-id", "j"]).code, Some(0));
    assert_eq!(world.read("new"), "2\n");
    let root = world.root().canonicalize().unwrap().display().to_string();
    let shown = |args: &[&str]| world.prodigy(args).to_string().replace(&root, "$ROOT");
    assert_snapshot!(shown(&["worktree", "clean"]), @"
        removed  $ROOT/home/worktrees/repo/j/a.2
        ----- stderr -----
        kept  $ROOT/home/worktrees/repo/j/a: 1 unmerged commit
        `--force` removes worktrees all the same; commits stay on their branches
        ");
    assert_snapshot!(shown(&["worktree", "clean", "--force", "-y"]), @"
        removed  $ROOT/home/worktrees/repo/j/a
        ----- stderr -----
        its commits are kept as `refs/prodigy/j/failed/a`
        ");
    assert_eq!(world.git(&["log", "-1", "--format=%s", "refs/prodigy/j/failed/a^"]), "try 1");
}

#[test]
fn a_handler_of_the_error_policy_is_told_what_one_of_a_step_is_told() {
    let world = world(
        "mode: mapreduce\nmap:\n  input: { items: [a] }\n  item_key: item\n  agent_template:\n  \
         - shell: 'true'\n  - { name: look, shell: echo why; exit 3 }\nerror_policy:\n  \
         on_item_failure: custom:tell\n  handlers:\n    tell:\n    - shell: |\n        \
         echo \"${item}: ${error.step}, ${error.reason}, ${error.exit_code}, ${error.attempt}\"\n        \
         echo \"${error.message}: ${shell.output}\"\n",
    );
    assert_eq!(world.prodigy(&["run", "w.yml", "-y", "--job-id", "j"]).code, Some(1));
    assert_snapshot!(stable(&world.prodigy(&["logs", "j", "a", "handler"])), @r#"
    ── attempt 1, step handler.tell.1 shell: echo "${item}: ${error.step}, ${error.reason}, ${error.exit… (exit 0, [time])
    a: look, command_failed, 3, 1
    `look` failed with exit code 3: why: why
    "#);
}

#[test]
fn items_are_tried_again_if_the_policy_only_says_so() {
    let world = world(
        "mode: mapreduce\nmap:\n  input: { items: [a] }\n  item_key: item\n  agent_template:\n  \
         - shell: test $PRODIGY_ATTEMPT -gt 1\non_item_failure: retry\n",
    );
    let seen = world.prodigy(&["run", "w.yml", "-y", "--job-id", "j", "--fail-on-dlq"]);
    assert_eq!(seen.code, Some(0), "{seen}");
}

#[test]
fn what_a_worktree_is_furnished_with_is_not_the_work_of_the_first_item() {
    let world = world(
        "mode: mapreduce\nmap:\n  input: { items: [a] }\n  item_key: item\n  worktree:\n    \
         copy: [notes]\n    setup: [{ shell: echo >> README.md; touch made }]\n  \
         agent_template:\n  - shell: ls; cat README.md; exit 3\n",
    );
    world.write("notes", "not in git\n");
    assert_eq!(world.prodigy(&["run", "w.yml", "-y", "--job-id", "j"]).code, Some(1));
    assert_eq!(kept(&world), []);
    assert_snapshot!(stable(&world.prodigy(&["logs", "j", "a", "1"])), @"
    ── attempt 1, step 1 shell: ls; cat README.md; exit 3 (exit 3, [time])
    README.md
    made
    notes
    w.yml
    # fixture
    ");
}
