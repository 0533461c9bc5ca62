//! Agents that do strange things with git: nothing is lost, nothing planted is run.

use std::{fs, os::unix::fs::PermissionsExt as _};

use insta::assert_snapshot;

use crate::fixture::map_job::{assert_code, counts, go, letter, map_world, of_type, trace};

#[test]
fn commits_count_wherever_an_agent_made_them() {
    let world = map_world(
        r#"
map:
  input: { items: [detached, elsewhere, amended, reset, unnamed, moved, locked, plain] }
  item_key: item
  max_parallel: 1
  agent_template:
    - shell: |
        add() { echo "${item}" > "${item}.txt"; git add "${item}.txt"; git commit --quiet "$@" -m "add ${item}"; }
        case "${item}" in
          detached) git checkout --quiet --detach; add ;;
          elsewhere) git checkout --quiet -b mine; add ;;
          amended) add --amend ;;
          reset) git reset --quiet --hard main; add ;;
          unnamed) git checkout --quiet --detach; git branch --quiet -D prodigy/job/unnamed; add ;;
          moved) add; git update-ref refs/heads/prodigy/job/job HEAD ;;
          locked) add; touch "$(git rev-parse --git-dir)/index.lock" ;;
          plain) add ;;
        esac
"#,
    );
    assert_code(&go(&world), 0);
    assert_eq!(counts(&world), (8, 0, 0), "{}", trace(&world));
    assert_snapshot!(world.git(&["ls-files", "*.txt"]), @"
    amended.txt
    detached.txt
    elsewhere.txt
    locked.txt
    moved.txt
    plain.txt
    reset.txt
    unnamed.txt
    ");
    assert_eq!(world.git(&["worktree", "list"]).lines().count(), 1);
    assert_eq!(world.git(&["branch", "--list", "prodigy/*"]), "");
    // What was on the branch before is still part of it.
    assert_eq!(world.git(&["log", "--format=%s", "main", "--", "README.md"]), "first");
    assert_eq!(world.git(&["status", "--porcelain"]), "");
}

#[test]
fn what_cannot_be_merged_fails_its_item_alone() {
    let world = map_world(
        r#"
map:
  input: { items: [orphan, unlinked, emptied, gone, fine] }
  item_key: item
  max_parallel: 1
  agent_template:
    - shell: |
        case "${item}" in
          orphan) git checkout --quiet --orphan "new$PRODIGY_ATTEMPT"; echo x > x; git add x; git commit --quiet -m orphan ;;
          unlinked) rm .git ;;
          emptied) : > "$(git rev-parse --git-dir)/HEAD" ;;
          gone) cd ..; rm -rf "$PRODIGY_WORKTREE" ;;
          fine) echo fine > fine.txt; git add fine.txt; git commit --quiet -m fine ;;
        esac
"#,
    );
    assert_code(&go(&world), 0);
    let shown = |item: &str| {
        let letter = letter(&world, item);
        let reason = letter["reason"]
            .as_str()
            .unwrap()
            .replace(&world.root().display().to_string(), "$ROOT");
        format!("{item} {}: {reason}", letter["reason_code"].as_str().unwrap())
    };
    assert_snapshot!(["orphan", "emptied", "gone"].map(shown).join("\n"), @"
    orphan merge_conflict: its commits have nothing in common with the job's branch
    emptied worktree_error: nothing is checked out in `$ROOT/home/worktrees/repo/job/agent-1`: its branch has no commit
    gone worktree_error: `$ROOT/home/worktrees/repo/job/agent-1` is no longer the job's worktree: something else was put in its place
    ");
    assert_eq!(counts(&world), (2, 3, 0), "{}", trace(&world));
    // The orphan's commit is not lost.
    assert_eq!(world.git(&["log", "--format=%s", "prodigy/job/orphan"]), "orphan");
    assert_eq!(world.read("fine.txt"), "fine\n");
}

#[test]
fn commits_that_an_agent_walked_away_from_are_on_the_branch_that_the_dead_letter_names() {
    let world = map_world(
        r#"
map:
  input: { items: [back, unlisted, deleted, fine] }
  item_key: item
  max_parallel: 1
  agent_template:
    - shell: |
        echo "${item}" > "${item}.txt"; git add .; git commit --quiet -m "${item}"
        case "${item}" in
          back) git checkout --quiet HEAD~1 ;;
          unlisted) git worktree remove --force . ;;
          deleted) cd ..; rm -rf "$PRODIGY_WORKTREE" ;;
        esac
"#,
    );
    assert_code(&go(&world), 0);
    assert_eq!(counts(&world), (1, 3, 0), "{}", trace(&world));
    for item in ["back", "unlisted", "deleted"] {
        let letter = letter(&world, item);
        assert_eq!(letter["reason_code"], "worktree_error", "{letter}");
        assert_eq!(
            letter["worktree_artifacts"]["branch_name"],
            format!("prodigy/job/{item}"),
            "{letter}"
        );
        assert_eq!(letter["commit_state"], "local", "{letter}");
        let branch = format!("main..prodigy/job/{item}");
        assert_eq!(world.git(&["log", "--format=%s", &branch]), item);
    }
    let reason = letter(&world, "back")["reason"].clone();
    assert_eq!(reason, "HEAD was left without 1 commit of the branch `prodigy/job/back`");
    assert_eq!(world.git(&["branch", "--list", "prodigy/job/*"]).lines().count(), 3);
    assert_eq!(world.read("fine.txt"), "fine\n");
}

#[test]
fn commits_that_an_agent_walked_away_from_are_never_deleted_whatever_else_is_kept() {
    // Of so many failed items a reference is kept instead of the worktree.
    let items: Vec<_> = (1..=24).map(|number| number.to_string()).collect();
    let world = map_world(
        &r"
map:
  input: { items: [ITEMS] }
  agent_template:
    - shell: 'echo x > x; git add x; git commit --quiet -m x; git checkout --quiet HEAD~1'
"
        .replace("ITEMS", &items.join(", ")),
    );
    let seen = go(&world);
    assert_eq!(counts(&world), (0, 24, 0), "{seen}{}", trace(&world));
    let branches = world.git(&["for-each-ref", "--format=%(subject)", "refs/heads/prodigy/job/"]);
    assert_eq!(branches.lines().filter(|subject| *subject == "x").count(), 24);
}

#[test]
fn what_an_item_plants_is_not_run_and_the_others_go_on() {
    let world = map_world(
        r#"
map:
  input: { items: [before, evil, evil, after] }
  max_parallel: 1
  agent_template:
    - shell: |
        echo "${item_index}" > "${item_index}.txt"; git add . ; git commit --quiet -m "add ${item_index}"
        test "${item}" = evil || exit 0
        sh ROOT/plant
        test "${item_index}" = 2 || exit 1
reduce: [{ shell: echo reduced > reduced.txt, auto_commit: true }]
"#,
    );
    let root = world.root().display().to_string();
    let evil = world.root().join("evil");
    fs::write(&evil, format!("#!/bin/sh\ntouch {root}/proof\ncat\n")).unwrap();
    fs::set_permissions(&evil, fs::Permissions::from_mode(0o755)).unwrap();
    let plant = r#"g=$(git rev-parse --path-format=absolute --git-common-dir)
for hook in pre-commit post-checkout reference-transaction post-index-change post-merge post-commit; do
  cp ROOT/evil "$g/hooks/$hook"
done
mkdir -p "$g/info"; echo '* filter=evil merge=evil' > "$g/info/attributes"
printf '[core]\n\tfsmonitor = ROOT/evil\n[filter "evil"]\n\tclean = ROOT/evil\n\tsmudge = ROOT/evil\n[merge "evil"]\n\tdriver = ROOT/evil\n' >> "$g/config"
"#;
    fs::write(world.root().join("plant"), plant.replace("ROOT", &root)).unwrap();
    let config = fs::read_to_string(world.repo().join(".git/config")).unwrap();
    assert_code(&go(&world), 0);
    assert!(!world.root().join("proof").exists(), "something planted was run");
    assert_eq!(counts(&world), (3, 1, 0), "{}", trace(&world));
    assert_eq!(world.git(&["ls-files", "*.txt"]), "1.txt\n2.txt\n4.txt\nreduced.txt");
    assert_eq!(fs::read_to_string(world.repo().join(".git/config")).unwrap(), config);
    // It is on record whose doing it was, whether the attempt succeeded or not.
    let told = of_type(&world, "git_tampering");
    let items: Vec<_> = told.iter().map(|record| record["item_id"].as_str().unwrap()).collect();
    assert_eq!(items, ["item-002", "item-003"]);
    let changes: Vec<_> = told[0]["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| change.as_str().unwrap().replace(&root, "$ROOT"))
        .collect();
    assert_snapshot!(changes.join("\n"), @"
    $ROOT/repo/.git/config: `core.fsmonitor` was set to `$ROOT/evil`
    $ROOT/repo/.git/config: `filter.evil.clean` was set to `$ROOT/evil`
    $ROOT/repo/.git/config: `filter.evil.smudge` was set to `$ROOT/evil`
    $ROOT/repo/.git/config: `merge.evil.driver` was set to `$ROOT/evil`
    $ROOT/repo/.git/hooks/post-checkout: it was added
    $ROOT/repo/.git/hooks/post-commit: it was added
    $ROOT/repo/.git/hooks/post-index-change: it was added
    $ROOT/repo/.git/hooks/post-merge: it was added
    $ROOT/repo/.git/hooks/pre-commit: it was added
    $ROOT/repo/.git/hooks/reference-transaction: it was added
    $ROOT/repo/.git/info/attributes: it was added
    ");
}
