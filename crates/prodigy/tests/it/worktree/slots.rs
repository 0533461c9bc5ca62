//! The worktrees of items: what is in them, which are kept, and what agents may do in them.

use std::{fs, path::PathBuf};

use insta::assert_snapshot;
use prodigy_testkit::TestEnv;

use crate::fixture::map_job::{
    assert_code, beside, counts, go, letter, map_world, of_type, sorted, trace, trace_of,
};

fn kept(world: &TestEnv, item: &str) -> PathBuf {
    world.home().join("worktrees/repo/job").join(item)
}

/// Returns what git says in a directory.
fn git_in(world: &TestEnv, directory: &PathBuf, args: &[&str]) -> String {
    let output = world.command("git").current_dir(directory).args(args).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "git {args:?}: {error}");
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// Checks that the job left no worktree and no branch of its own behind.
#[track_caller]
fn assert_tidy(world: &TestEnv) {
    assert_eq!(world.git(&["worktree", "list", "--porcelain"]).matches("worktree ").count(), 1);
    assert_eq!(world.git(&["branch", "--list", "prodigy/*"]), "");
    let left = fs::read_dir(world.home().join("worktrees/repo/job"));
    assert_eq!(left.into_iter().flatten().count(), 0);
}

#[test]
fn worktrees_are_made_once_and_furnished_for_every_item() {
    let world = map_world(
        r#"
map:
  input: "seq 6"
  max_parallel: 2
  worktree:
    setup: [{ shell: 'mkdir -p deps; echo dep > deps/made; echo "$(pwd)" >> ROOT/setups' }]
    include: wanted
    copy: [cache, .env]
    link: [models, missing]
  agent_template:
    - shell: |
        cat cache/deep/file .env models/big deps/made local/one.cfg
        test -L models
        echo scratch > scratch; echo ignored > build.log; test ! -e seen; touch seen
        echo "${item}" > "file.${item}"; git add "file.${item}"; git commit --quiet -m "add ${item}"
"#,
    );
    world.write(".gitignore", "cache\n.env\nmodels\nlocal\n*.log\n");
    world.write("wanted", "# what to bring\nlocal/*.cfg\n");
    world.commit_all("Ignore");
    for (path, text) in [
        ("cache/deep/file", "cached\n"),
        (".env", "A=1\n"),
        ("models/big", "model\n"),
        ("local/one.cfg", "cfg\n"),
        ("local/other", "no\n"),
    ] {
        world.write(path, text);
    }
    assert_code(&go(&world), 0);
    assert_eq!(counts(&world), (6, 0, 0), "{}", trace(&world));
    // One worktree for each agent, set up once, and the job's own.
    let created = of_type(&world, "worktree_created").len();
    assert!(created <= 3, "{created} worktrees");
    assert_eq!(beside(&world, "setups").lines().count(), created - 1);
    for done in of_type(&world, "agent_completed") {
        assert_eq!(done["result"], "cached\nA=1\nmodel\ndep\ncfg");
        // `scratch` and `seen`: what was brought along does not count, nor does what is ignored.
        assert_eq!(done["uncommitted"], 2, "{done}");
        assert_eq!(done["commits"], 1);
    }
    // Nothing but the items' own commits came back.
    let files = world.git(&["ls-files"]);
    assert_eq!(files.lines().filter(|file| file.starts_with("file.")).count(), 6);
    assert_eq!(files.lines().count(), 6 + 4, "{files}");
    assert_eq!(world.read("models/big"), "model\n");
    assert_tidy(&world);
}

#[test]
fn a_worktree_that_cannot_be_furnished_fails_the_item_with_the_reason() {
    let world = map_world(
        r"
map:
  input: { items: [a] }
  worktree: { setup: [{ shell: echo no network >&2; exit 4 }] }
  agent_template: [{ shell: touch ROOT/never }]
",
    );
    assert_code(&go(&world), 1);
    assert_eq!(letter(&world, "item-001")["reason"], "worktree.setup: exit code 4: no network");
    assert!(!world.root().join("never").exists());
}

#[test]
fn items_may_share_the_worktree_of_the_job() {
    let world = map_world(
        r#"
map:
  input: { items: [a, b, c] }
  max_parallel: 1
  isolation: shared
  agent_template: [{ shell: 'pwd >> ROOT/where; echo "${item}" >> lines' }]
reduce: [{ shell: cat lines > ROOT/lines; git add lines; git commit --quiet -m lines }]
"#,
    );
    assert_code(&go(&world), 0);
    assert_eq!(beside(&world, "lines"), "a\nb\nc\n");
    assert!(beside(&world, "where").lines().all(|line| line.ends_with("/repo/job/job")));
    assert_eq!(of_type(&world, "worktree_created").len(), 1);
    assert_eq!(world.read("lines"), "a\nb\nc\n");
    assert_tidy(&world);
}

/// Runs a good and a bad item, and returns the worktrees that are kept.
fn kept_with(preserve: &str) -> (TestEnv, Vec<String>) {
    let world = map_world(&format!(
        r#"
map:
  input: {{ items: [good, bad] }}
  max_parallel: 1
  agent_template:
    - shell: 'echo "${{item}}" > work; git add work; git commit --quiet -m work; echo draft > draft; test "${{item}}" = good'
error_policy: {{ preserve_worktrees: {preserve} }}
"#
    ));
    assert_code(&go(&world), 0);
    let entries = fs::read_dir(world.home().join("worktrees/repo/job"));
    let names = entries.into_iter().flatten().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    (world, names)
}

#[test]
fn the_worktree_of_a_failed_item_is_kept_and_can_be_used() {
    let (world, names) = kept_with("failed");
    assert_eq!(names, ["item-002"]);
    let told = &of_type(&world, "worktree_preserved")[0];
    assert_eq!(
        (&told["item_id"], &told["reason"]),
        (&"item-002".into(), &"the item failed".into())
    );
    let tree = kept(&world, "item-002");
    assert_eq!(told["path"], tree.canonicalize().unwrap().to_string_lossy().as_ref());
    assert_snapshot!(git_in(&world, &tree, &["log", "--format=%s", "-2"]), @"
        work
        work
        ");
    assert_snapshot!(git_in(&world, &tree, &["status", "--short", "--branch"]), @"
    ## prodigy/job/item-002
    ?? draft
    ");
    assert_eq!(fs::read_to_string(tree.join("draft")).unwrap(), "draft\n");
    // Work can go on there.
    git_in(&world, &tree, &["add", "draft"]);
    git_in(&world, &tree, &["commit", "--quiet", "--message", "by hand"]);
    assert_eq!(world.git(&["log", "-1", "--format=%s", "prodigy/job/item-002"]), "by hand");
    assert_eq!(world.read("work"), "good\n");
}

#[test]
fn no_worktree_or_every_worktree_can_be_kept() {
    let (world, names) = kept_with("never");
    assert_eq!(names, [""; 0]);
    // What was there is told all the same, and commits are not dropped.
    let told = of_type(&world, "worktree_preserved");
    assert_eq!(told.len(), 1);
    assert_eq!((&told[0]["item_id"], &told[0]["path"]), (&"item-002".into(), &"".into()));
    assert_eq!(world.git(&["log", "-1", "--format=%s", "prodigy/job/item-002"]), "work");
    let (world, names) = kept_with("always");
    assert_eq!(names, ["item-001", "item-002"]);
    for item in ["item-001", "item-002"] {
        let tree = kept(&world, item);
        assert_eq!(git_in(&world, &tree, &["log", "-1", "--format=%s"]), "work");
        assert_eq!(git_in(&world, &tree, &["status", "--short"]), "?? draft");
    }
}

#[test]
fn every_attempt_can_be_tried_again_when_every_worktree_is_kept() {
    let world = map_world(
        r#"
map:
  input: { items: [a] }
  agent_template: [{ shell: 'echo $PRODIGY_ATTEMPT > work; git add work; git commit --quiet -m "try $PRODIGY_ATTEMPT"; test $PRODIGY_ATTEMPT = 2' }]
error_policy: { preserve_worktrees: always, retry_config: { max_attempts: 2, backoff: { type: fixed, delay: 0ms } } }
"#,
    );
    assert_code(&go(&world), 0);
    assert_eq!(counts(&world), (1, 0, 0), "{}", trace(&world));
    assert_eq!(world.read("work"), "2\n");
    let kept = of_type(&world, "worktree_preserved");
    for told in &kept {
        let tree = PathBuf::from(told["path"].as_str().unwrap());
        assert!(tree.is_dir(), "{told}");
        git_in(&world, &tree, &["status"]);
    }
    assert_eq!(kept.len(), 2);
}

#[test]
fn items_that_conflict_are_tried_again_on_the_new_base() {
    let world = map_world(
        r#"
map:
  input: { items: [a, b] }
  max_parallel: 2
  agent_template:
    - shell: |
        touch "ROOT/began.${item}"
        while ! test -e ROOT/began.a || ! test -e ROOT/began.b; do sleep 0.01; done
        { cat list 2>/dev/null; echo "${item}"; } > next; mv next list
        git add list; git commit --quiet -m "add ${item}"
"#,
    );
    let before = world.git(&["rev-parse", "main"]);
    assert_code(&go(&world), 0);
    assert_eq!(counts(&world), (2, 0, 0), "{}", trace(&world));
    assert_eq!(of_type(&world, "merge_conflict").len(), 1);
    let mut lines: Vec<_> = world.read("list").lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["a", "b"]);
    assert_ne!(world.git(&["rev-parse", "main"]), before);
    assert_tidy(&world);
}

#[test]
fn an_item_that_conflicts_again_is_a_dead_letter_with_its_paths() {
    let world = map_world(
        r#"
map:
  input: { items: [stubborn, other] }
  max_parallel: 2
  agent_template:
    - shell: |
        wait_for() { while ! test -e "ROOT/$1"; do sleep 0.01; done; }
        merged() { test "$(git rev-list --count prodigy/job/job)" -gt "$1"; }
        if test "${item}" = other; then
          # Two commits, one after the other, each merged while the stubborn one is at it.
          wait_for began; echo other > list; git add list; git commit --quiet -m other; exit 0
        fi
        touch ROOT/began; base=$(git rev-list --count main)
        git checkout --quiet --detach main
        echo stubborn > list; git add list; git commit --quiet -m "stubborn $PRODIGY_ATTEMPT"
        until merged "$base"; do sleep 0.01; done
"#,
    );
    assert_code(&go(&world), 0);
    assert_snapshot!(trace_of(&world, "item-001"), @r#"
    item-001 agent_started 1
    item-001 agent_completed 1
    item-001 merge_conflict ["list"]
    item-001 agent_retrying 2 after 0ms
    item-001 agent_started 2
    item-001 agent_completed 2
    item-001 merge_conflict ["list"]
    item-001 item_dead_lettered 2 merge_conflict
    "#);
    assert_snapshot!(letter(&world, "item-001")["reason"].as_str().unwrap(), @"its commits conflict with those of other items in `list`");
    assert_eq!(world.read("list"), "other\n");
    // The commits are not lost.
    assert_snapshot!(world.git(&["log", "-1", "--format=%s", "prodigy/job/item-001"]), @"stubborn 2");
}

#[test]
fn the_checkout_is_not_touched_before_the_final_merge() {
    let world = map_world(
        r#"
map:
  input: { items: [a, b] }
  max_parallel: 1
  agent_template: [{ shell: 'echo "${item}" > "${item}.txt"', auto_commit: true }]
reduce:
  - shell: git -C ROOT/repo status --porcelain > ROOT/status; git -C ROOT/repo rev-parse main > ROOT/main; ls > ROOT/files
"#,
    );
    let before = world.git(&["rev-parse", "main"]);
    world.write("mine.txt", "not committed\n");
    assert_code(&go(&world), 0);
    assert_eq!(beside(&world, "main").trim(), before);
    assert_eq!(beside(&world, "status"), "?? mine.txt\n");
    assert_eq!(beside(&world, "files"), "README.md\na.txt\nb.txt\nworkflow.yml\n");
    assert_eq!(world.git(&["ls-files", "*.txt"]), "a.txt\nb.txt");
    assert_eq!(sorted(&world, "nothing"), "");
}
