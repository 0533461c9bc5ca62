//! The branches and worktrees of items that are tried again after they had failed for good.

use std::{fs, path::Path};

use insta::assert_snapshot;
use prodigy_testkit::{CommandOutput, TestEnv};

use crate::fixture::map_job::{assert_code, go, map_world, of_type, trace_of};

/// Runs git in a directory.
fn git_in(world: &TestEnv, directory: &Path, args: &[&str]) -> String {
    let output = world.command("git").current_dir(directory).args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// Makes a world with an item that fails with a commit and a draft until a file says otherwise.
fn failing(preserve: &str) -> TestEnv {
    let world = map_world(&format!(
        r#"
map:
  input: {{ items: [good, bad] }}
  max_parallel: 1
  agent_template:
    - shell: |
        echo "${{item}} $PRODIGY_ATTEMPT" > "${{item}}"; git add --all; git commit --quiet -m "${{item}} $PRODIGY_ATTEMPT"
        test "${{item}}" = good || test -e ROOT/mended || {{ echo draft > draft; exit 3; }}
error_policy: {{ preserve_worktrees: {preserve} }}
"#
    ));
    assert_code(&go(&world), 0);
    world
}

fn retry(world: &TestEnv) -> CommandOutput {
    world.prodigy(&["dlq", "retry", "job", "item-002", "-y"])
}

fn mend(world: &TestEnv) {
    fs::write(world.root().join("mended"), "").unwrap();
}

#[test]
fn a_replay_leaves_the_kept_worktree_as_it_is_and_its_commits_have_a_name() {
    let world = failing("failed");
    let kept = world.home().join("worktrees/repo/job/item-002");
    let head = git_in(&world, &kept, &["rev-parse", "HEAD"]);
    // Months later.
    world.write("newer", "1");
    world.commit_all("newer");
    world.git(&["gc", "--quiet", "--prune=now"]);
    mend(&world);
    let seen = retry(&world);
    assert_code(&seen, 0);
    assert_eq!(world.read("bad"), "bad 2\n");
    assert_eq!(git_in(&world, &kept, &["rev-parse", "HEAD"]), head);
    assert_eq!(git_in(&world, &kept, &["status", "--porcelain"]), "?? draft");
    assert_eq!(world.git(&["rev-parse", "refs/prodigy/job/failed/item-002.1^"]), head);
    assert_eq!(world.git(&["branch", "--format=%(refname:short)"]), "main");
    assert_snapshot!(trace_of(&world, "item-002"), @"
        item-002 agent_started 1
        item-002 agent_failed 1 command_failed then dead_letter
        item-002 item_dead_lettered 1 command_failed
        item-002 replay_started 1
        item-002 agent_started 2
        item-002 agent_completed 2
        ");

    // What is left is told apart, and nothing of it is lost.
    let shown = |seen: &CommandOutput| {
        let root = world.root().canonicalize().unwrap().display().to_string();
        seen.to_string().replace(&root, "$ROOT")
    };
    assert_snapshot!(shown(&world.prodigy(&["worktree", "clean"])), @"
        ----- stderr -----
        kept  $ROOT/home/worktrees/repo/job/item-002: 1 unmerged commit, 1 uncommitted file
        kept  refs/prodigy/job/failed/item-002.1: 1 unmerged commit, 1 record; `git update-ref -d refs/prodigy/job/failed/item-002.1` drops one
        `--force` removes worktrees all the same; commits stay on their branches
        ");
    assert_snapshot!(shown(&world.prodigy(&["worktree", "clean", "--force", "-y"])), @"
        removed  $ROOT/home/worktrees/repo/job/item-002
        ----- stderr -----
        kept  refs/prodigy/job/failed/item-002.1: 1 unmerged commit, 1 record; `git update-ref -d refs/prodigy/job/failed/item-002.1` drops one
        ");
    assert!(!kept.exists());
    assert_eq!(world.git(&["rev-parse", "refs/prodigy/job/failed/item-002.1^"]), head);
}

#[test]
fn an_item_can_fail_again_and_again() {
    let world = failing("failed");
    for number in ["2", "3"] {
        let seen = retry(&world);
        assert_ne!(seen.code, None, "{seen}");
        assert_eq!(of_type(&world, "worktree_preserved").len().to_string(), number, "{seen}");
    }
    let list = world.git(&["worktree", "list", "--porcelain"]);
    let names = list.lines().filter_map(|line| line.strip_prefix("worktree ")?.rsplit('/').next());
    assert_eq!(names.collect::<Vec<_>>(), ["repo", "item-002", "item-002.2", "item-002.3"]);
    let tree = |name: &str| world.home().join("worktrees/repo/job").join(name);
    for (name, subject) in [("item-002", "bad 1"), ("item-002.2", "bad 2"), ("item-002.3", "bad 3")]
    {
        assert_eq!(git_in(&world, &tree(name), &["log", "-1", "--format=%s"]), subject);
        assert_eq!(git_in(&world, &tree(name), &["status", "--porcelain"]), "?? draft");
    }
    assert_eq!(
        git_in(&world, &tree("item-002.3"), &["branch", "--show-current"]),
        "prodigy/job/item-002"
    );
}

#[test]
fn what_was_done_to_the_kept_worktree_is_not_in_the_way() {
    for how in ["deleted", "moved", "cleaned", "pruned"] {
        let world = failing("failed");
        let kept = world.home().join("worktrees/repo/job/item-002");
        let head = git_in(&world, &kept, &["rev-parse", "HEAD"]);
        match how {
            "deleted" => fs::remove_dir_all(&kept).unwrap(),
            "moved" => fs::rename(&kept, world.root().join("moved")).unwrap(),
            "cleaned" => {
                assert_code(&world.prodigy(&["worktree", "clean", "--force", "-y"]), 0);
            }
            _ => {
                fs::remove_dir_all(&kept).unwrap();
                world.git(&["worktree", "prune"]);
            }
        }
        mend(&world);
        let seen = retry(&world);
        assert_code(&seen, 0);
        assert_eq!(world.read("bad"), "bad 2\n", "{how}");
        assert_eq!(world.git(&["rev-parse", "refs/prodigy/job/failed/item-002.1^"]), head, "{how}");
        if how == "moved" {
            let moved = world.root().join("moved");
            world.git(&["worktree", "repair", moved.to_str().unwrap()]);
            assert_eq!(git_in(&world, &moved, &["rev-parse", "HEAD"]), head);
            assert_eq!(git_in(&world, &moved, &["status", "--porcelain"]), "?? draft");
        }
    }
}

#[test]
fn commits_of_a_failed_attempt_have_a_name_even_if_no_worktree_was_kept() {
    let world = failing("never");
    let head = world.git(&["rev-parse", "prodigy/job/item-002"]);
    mend(&world);
    assert_code(&retry(&world), 0);
    assert_eq!(world.read("bad"), "bad 2\n");
    assert_eq!(world.git(&["rev-parse", "refs/prodigy/job/failed/item-002.1^"]), head);
    assert_eq!(world.git(&["branch", "--format=%(refname:short)"]), "main");
}
