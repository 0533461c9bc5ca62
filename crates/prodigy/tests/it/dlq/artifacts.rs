//! What a failed attempt leaves behind, as its dead letter tells it.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use insta::assert_snapshot;
use prodigy_testkit::TestEnv;
use rustix::process::Signal;

use crate::fixture::{
    map_job::{assert_code, go, map_world, of_type, started, trace},
    workflow::SpawnedProdigy,
};

/// Runs git in a directory.
fn git_in(world: &TestEnv, directory: &Path, args: &[&str]) -> String {
    let output = world.command("git").current_dir(directory).args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// Returns what was told of one item, in a form that does not depend on the machine.
fn told(world: &TestEnv, item: &str) -> String {
    let root = world.root().canonicalize().unwrap().display().to_string();
    let records = of_type(world, "worktree_preserved");
    let lines = records.iter().filter(|record| record["item_id"] == item).map(|record| {
        let (path, reason) = (&record["path"], &record["reason"]);
        let left = record.get("left").map_or(String::new(), ToString::to_string);
        format!("{} | {} | {left}", path.as_str().unwrap(), reason.as_str().unwrap())
    });
    lines.collect::<Vec<_>>().join("\n").replace(&root, "$ROOT")
}

fn patch_of(world: &TestEnv, item: &str) -> PathBuf {
    world.home().join(format!("dlq/repo/job/mapreduce/dlq/job/patches/{item}.patch"))
}

/// Returns the files of a directory, git's own left out.
fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let list = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let list = list.filter(|entry| entry.file_name() != ".git" && entry.path().is_file());
    list.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
        .collect()
}

#[test]
fn commits_and_uncommitted_files_of_a_failed_item_are_told_and_can_be_applied() {
    let world = map_world(
        r"
map:
  input: { items: [bad] }
  agent_template:
    - shell: |
        echo one > one; git add one; git commit --quiet -m one
        echo two > two; git add two; git commit --quiet -m two
        echo changed >> README.md; echo new > new; printf 'a\0b\377' > new.bin; rm one
        echo staged > staged; git add staged
        exit 3
",
    );
    assert_code(&go(&world), 1);
    assert_snapshot!(told(&world, "item-001"), @r#"$ROOT/home/worktrees/repo/job/item-001 | the item failed | {"branch":"prodigy/job/item-001","commits":2,"uncommitted":"README.md modified, one deleted, staged new, new new, new.bin new","patch":"$ROOT/home/dlq/repo/job/mapreduce/dlq/job/patches/item-001.patch"}"#);
    let kept = world.home().join("worktrees/repo/job/item-001");
    assert_eq!(
        world.git(&["rev-parse", "prodigy/job/item-001"]),
        git_in(&world, &kept, &["rev-parse", "HEAD"])
    );
    let fresh = world.root().join("fresh");
    let add = ["worktree", "add", "--quiet", "--detach", fresh.to_str().unwrap()];
    world.git(&[&add[..], &["prodigy/job/item-001"]].concat());
    git_in(&world, &fresh, &["apply", patch_of(&world, "item-001").to_str().unwrap()]);
    assert_eq!(files(&fresh), files(&kept));
}

#[test]
fn an_item_that_left_nothing_has_no_leftovers() {
    let world = map_world(
        r#"
map:
  input: { items: [bad] }
  agent_template: [{ shell: "exit 3" }]
"#,
    );
    assert_code(&go(&world), 1);
    assert_eq!(told(&world, "item-001"), "");
    assert!(!patch_of(&world, "item-001").exists());
    assert_eq!(world.git(&["branch", "--format=%(refname:short)"]), "main");
}

#[test]
fn what_was_there_is_told_even_if_no_worktree_is_kept() {
    let world = map_world(
        r#"
map:
  input: { items: [draft, commits, detached] }
  max_parallel: 1
  agent_template:
    - shell: |
        test "${item}" = detached && git checkout --quiet --detach
        if test "${item}" != draft; then echo > new; git add new; git commit --quiet -m "${item}"; fi
        if test "${item}" = draft; then echo draft > draft; fi
        exit 3
error_policy: { preserve_worktrees: never }
"#,
    );
    assert_code(&go(&world), 1);
    assert_snapshot!(told(&world, "item-001"), @r#" | the item failed; no worktree is kept | {"uncommitted":"draft new","patch":"$ROOT/home/dlq/repo/job/mapreduce/dlq/job/patches/item-001.patch"}"#);
    assert_snapshot!(told(&world, "item-002"), @r#" | the item failed; no worktree is kept | {"branch":"prodigy/job/item-002","commits":1}"#);
    assert_snapshot!(told(&world, "item-003"), @r#" | the item failed; no worktree is kept | {"branch":"prodigy/job/item-003","commits":1}"#);
    assert_snapshot!(fs::read_to_string(patch_of(&world, "item-001")).unwrap(), @"
        diff --git a/draft b/draft
        new file mode 100644
        index 0000000000000000000000000000000000000000..f3d43775e65ac68c0589a8961c9e665ee8436944
        --- /dev/null
        +++ b/draft
        @@ -0,0 +1 @@
        +draft
        ");
    for (item, subject) in [("item-002", "commits"), ("item-003", "detached")] {
        assert_eq!(
            world.git(&["log", "-1", "--format=%s", &format!("prodigy/job/{item}")]),
            subject
        );
    }
    assert_eq!(fs::read_dir(world.home().join("worktrees/repo/job")).unwrap().count(), 0);
    let events = world.prodigy(&["events", "job", "--type", "worktree_preserved"]);
    let lines =
        events.stdout.lines().filter_map(|line| line.split_once("  ").map(|(_, rest)| rest));
    assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @"
    worktree_preserved  item-001  agent-1  the item failed; no worktree is kept
    worktree_preserved  item-002  agent-1  the item failed; no worktree is kept
    worktree_preserved  item-003  agent-1  the item failed; no worktree is kept
    ");
}

#[test]
fn beyond_the_first_twenty_a_reference_has_what_was_left() {
    let world = map_world(
        r#"
map:
  input: { items: [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21] }
  max_parallel: 1
  agent_template:
    - shell: echo > new; git add new; git commit --quiet -m new; echo "${item}" > draft; exit 3
"#,
    );
    assert_code(&go(&world), 1);
    assert_snapshot!(told(&world, "item-020"), @r#"$ROOT/home/worktrees/repo/job/item-020 | the item failed | {"branch":"prodigy/job/item-020","commits":1,"uncommitted":"draft new","patch":"$ROOT/home/dlq/repo/job/mapreduce/dlq/job/patches/item-020.patch"}"#);
    assert_snapshot!(told(&world, "item-021"), @r#"refs/prodigy/job/failed/item-021 | the item failed; `git show` has what it left | {"commits":1,"uncommitted":"draft new","patch":"$ROOT/home/dlq/repo/job/mapreduce/dlq/job/patches/item-021.patch"}"#);
    assert_eq!(world.git(&["show", "refs/prodigy/job/failed/item-021:files/draft"]), "21");
    assert_eq!(
        world.git(&["log", "-1", "--format=%s", "refs/prodigy/job/failed/item-021^"]),
        "new"
    );
    assert_eq!(world.git(&["branch", "--list", "prodigy/job/item-021"]), "");
    assert!(patch_of(&world, "item-021").is_file());
}

#[test]
fn secrets_are_masked_in_a_patch() {
    let world = map_world(
        r#"
secrets: { TOKEN: { env: MY_TOKEN } }
map:
  input: { items: [bad] }
  agent_template:
    - shell: |
        echo "token = $TOKEN" > notes.txt
        printf '\0%s' "$TOKEN" > notes.bin
        echo fine > "file-$TOKEN"
        exit 3
"#,
    )
    .env("MY_TOKEN", "hunter2-hunter2");
    assert_code(&go(&world), 1);
    assert_snapshot!(told(&world, "item-001"), @r#"$ROOT/home/worktrees/repo/job/item-001 | the item failed | {"branch":"prodigy/job/item-001","uncommitted":"file-*** new, notes.bin new, notes.txt new; not in the patch, because of a secret: `notes.bin`","patch":"$ROOT/home/dlq/repo/job/mapreduce/dlq/job/patches/item-001.patch"}"#);
    assert_snapshot!(fs::read_to_string(patch_of(&world, "item-001")).unwrap(), @"
        diff --git a/file-*** b/file-***
        new file mode 100644
        index 0000000000000000000000000000000000000000..86815ca750537b251e6f3be3bc418a3ff1df883d
        --- /dev/null
        +++ b/file-***
        @@ -0,0 +1 @@
        +fine
        diff --git a/notes.txt b/notes.txt
        new file mode 100644
        index 0000000000000000000000000000000000000000..afa2974723e6fc78c117c3d12de25e01dbc0d683
        --- /dev/null
        +++ b/notes.txt
        @@ -0,0 +1 @@
        +token = ***
        ");
}

#[test]
fn a_patch_that_cannot_be_written_is_no_failure() {
    let world = map_world(
        r#"
map:
  input: { items: [bad] }
  agent_template: [{ shell: "echo > draft; exit 3" }]
"#,
    );
    let directory = patch_of(&world, "x").parent().unwrap().to_owned();
    fs::create_dir_all(directory.parent().unwrap()).unwrap();
    fs::write(&directory, "in the way").unwrap();
    assert_code(&go(&world), 1);
    assert_snapshot!(told(&world, "item-001"), @r#"$ROOT/home/worktrees/repo/job/item-001 | the item failed | {"branch":"prodigy/job/item-001","uncommitted":"draft new; no patch was written: `$ROOT/home/dlq/repo/job/mapreduce/dlq/job/patches` is not a directory"}"#);
}

#[test]
fn what_a_handler_of_the_error_policy_did_is_among_it() {
    let world = map_world(
        r#"
map:
  input: { items: [bad] }
  agent_template: [{ shell: "exit 3" }]
error_policy:
  on_item_failure: custom:note
  handlers: { note: [{ shell: echo why > why.txt }] }
"#,
    );
    assert_code(&go(&world), 1);
    assert_snapshot!(told(&world, "item-001"), @r#"$ROOT/home/worktrees/repo/job/item-001 | the item failed | {"branch":"prodigy/job/item-001","uncommitted":"why.txt new","patch":"$ROOT/home/dlq/repo/job/mapreduce/dlq/job/patches/item-001.patch"}"#);
}

#[test]
fn commits_that_conflict_are_told_with_their_branch() {
    let world = map_world(
        r#"
map:
  input: { items: [stubborn, other] }
  max_parallel: 2
  agent_template:
    - shell: |
        if test "${item}" = other; then
          while ! test -e ROOT/began; do sleep 0.01; done
          echo other > list; git add list; git commit --quiet -m other; exit 0
        fi
        touch ROOT/began; base=$(git rev-list --count main)
        git checkout --quiet --detach main
        echo stubborn > list; git add list; git commit --quiet -m "stubborn $PRODIGY_ATTEMPT"
        until test "$(git rev-list --count prodigy/job/job)" -gt "$base"; do sleep 0.01; done
"#,
    );
    assert_code(&go(&world), 0);
    assert_snapshot!(told(&world, "item-001"), @r#" | its commits are on its branch | {"branch":"prodigy/job/item-001","commits":1}"#);
    assert_eq!(world.git(&["log", "-1", "--format=%s", "prodigy/job/item-001"]), "stubborn 2");
}

#[test]
fn what_an_item_left_is_told_even_if_its_failure_ends_the_run() {
    let world = map_world(
        r#"
map:
  input: { items: [bad, next] }
  max_parallel: 1
  agent_template: [{ shell: "echo > draft; exit 3" }]
error_policy: { on_item_failure: stop }
"#,
    );
    let seen = go(&world);
    assert_ne!(seen.code, Some(0), "{seen}");
    assert_snapshot!(told(&world, "item-001"), @r#"$ROOT/home/worktrees/repo/job/item-001 | the item failed | {"branch":"prodigy/job/item-001","uncommitted":"draft new","patch":"$ROOT/home/dlq/repo/job/mapreduce/dlq/job/patches/item-001.patch"}"#);
    let verified = world.prodigy(&["verify", "job"]);
    assert_code(&verified, 0);
}

#[test]
fn the_worktree_of_an_item_that_ended_the_run_three_times_is_kept() {
    let world = map_world(
        r"
map:
  input: { items: [poison] }
  agent_template:
    - shell: |
        echo > new; git add new; git commit --quiet -m new; echo draft > draft
        touch ROOT/began; sleep 60
",
    );
    let began = world.root().join("began");
    let mut run = started(&world);
    for _ in 0..3 {
        run.until(&world, "the item begins", || began.exists());
        run.signal(Signal::KILL);
        run.seen(&world);
        fs::remove_file(&began).unwrap();
        run = SpawnedProdigy::new(&world, &["resume", "job"]);
    }
    assert_code(&run.seen(&world), 1);
    assert_snapshot!(trace(&world), @"
        item-001 agent_started 1
        job job_resumed
        item-001 agent_started 1
        job job_resumed
        item-001 agent_started 1
        job job_resumed
        item-001 item_dead_lettered 0 poison_repeat
        job job_completed completed_with_failures
        ");
    assert_snapshot!(told(&world, "item-001"), @r#"$ROOT/home/worktrees/repo/job/item-001 | the item failed | {"branch":"prodigy/job/item-001","commits":1,"uncommitted":"draft new","patch":"$ROOT/home/dlq/repo/job/mapreduce/dlq/job/patches/item-001.patch"}"#);
    let names = fs::read_dir(world.home().join("worktrees/repo/job")).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["item-001"]);
}
