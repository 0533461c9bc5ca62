//! Work that successful items, and the job, leave outside of their commits.

use std::fs;

use prodigy_testkit::TestEnv;
use serde_json::Value;

use crate::fixture::{
    map_job::{assert_code, counts, go, map_world, of_type},
    workflow,
};

/// Runs what a user would copy from the output.
fn type_in(world: &TestEnv, command: &str) {
    let output =
        world.command("sh").current_dir(world.repo()).args(["-c", command]).output().unwrap();
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Returns the commands between backquotes in the lines that begin with `kept:`.
fn commands(text: &str) -> Vec<String> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("kept: "));
    lines.filter_map(|line| line.split('`').nth(1).map(ToOwned::to_owned)).collect()
}

fn shown(world: &TestEnv) -> Value {
    let seen = world.prodigy(&["jobs", "show", "job", "--json"]);
    serde_json::from_str(&seen.stdout).unwrap()
}

fn read(world: &TestEnv, name: &str) -> String {
    fs::read_to_string(world.repo().join(name)).unwrap_or_default()
}

const LEAVING: &str = r"
map:
  input: { items: [a, b] }
  agent_template:
    - shell: |
        echo ${item} > ${item}.txt; git add .; git commit --quiet -m ${item}
        echo more >> ${item}.txt; echo new > ${item}.new; rm -f gone-${item}
        printf 'x\0y' > ${item}.bin; echo hidden > ${item}.ignored
";

fn leaving(more: &str) -> TestEnv {
    let world = map_world(&format!("{LEAVING}{more}"));
    world.write(".gitignore", "*.ignored\n");
    world.write("gone-a", "");
    world.write("gone-b", "");
    world.commit_all("Add files");
    world
}

#[test]
fn what_a_successful_item_leaves_is_kept_and_the_printed_command_applies_it() {
    let world = leaving("");
    let seen = go(&world);
    assert_code(&seen, 0);
    let commands = commands(&seen.stderr);
    assert_eq!(
        commands,
        [
            "git cherry-pick --no-commit refs/prodigy/job/kept/item-001",
            "git cherry-pick --no-commit refs/prodigy/job/kept/item-002"
        ],
        "{seen}"
    );
    assert_eq!(read(&world, "a.txt"), "a\n");
    for command in &commands {
        type_in(&world, command);
    }
    for item in ["a", "b"] {
        assert_eq!(read(&world, &format!("{item}.txt")), format!("{item}\nmore\n"));
        assert_eq!(read(&world, &format!("{item}.new")), "new\n");
        assert_eq!(read(&world, &format!("{item}.bin")), "x\0y");
        assert!(!world.repo().join(format!("gone-{item}")).exists());
        assert!(!world.repo().join(format!("{item}.ignored")).exists());
    }
}

#[test]
fn jobs_show_counts_and_names_what_is_kept_and_its_patch_applies() {
    let world = leaving("");
    assert_code(&go(&world), 0);
    let kept = &shown(&world)["job"]["kept"];
    assert_eq!((&kept["items"], &kept["files"]), (&2.into(), &8.into()), "{kept}");
    let entry = &kept["entries"][0];
    assert_eq!(entry["item_id"], "item-001");
    assert_eq!(entry["commands"][0], "git cherry-pick --no-commit refs/prodigy/job/kept/item-001");
    let text = world.prodigy(&["jobs", "show", "job"]).stdout;
    let line = "kept        4 uncommitted files of item-001; \
                `git cherry-pick --no-commit refs/prodigy/job/kept/item-001` applies them";
    assert!(text.lines().any(|found| found == line), "{text}");
    let root = world.root().canonicalize().unwrap().display().to_string();
    let patch = entry["patch"].as_str().unwrap().replace("$ROOT", &root);
    type_in(&world, &format!("git apply {patch}"));
    assert_eq!(read(&world, "a.txt"), "a\nmore\n");
    assert_eq!(read(&world, "a.bin"), "x\0y");
}

#[test]
fn what_an_item_left_is_told_before_the_item_is_done() {
    let world = leaving("");
    assert_code(&go(&world), 0);
    let told: Vec<_> = workflow::records(&world)
        .iter()
        .filter(|record| record["item_id"] == "item-001")
        .map(|record| record["event_type"].as_str().unwrap().to_owned())
        .filter(|kind| kind == "work_kept" || kind == "agent_completed")
        .collect();
    assert_eq!(told, ["work_kept", "agent_completed"]);
}

#[test]
fn one_command_applies_what_many_items_left() {
    let world = map_world(
        r"
map:
  input: { items: [a, b, c, d, e] }
  agent_template: [{ shell: 'echo new > ${item}.new' }]
",
    );
    let seen = go(&world);
    assert_code(&seen, 0);
    let all = &commands(&seen.stderr)[0];
    type_in(&world, all);
    for item in ["a", "b", "c", "d", "e"] {
        assert_eq!(read(&world, &format!("{item}.new")), "new\n", "{all}");
    }
}

#[test]
fn leftovers_can_be_committed() {
    let world = leaving("  leftovers: commit\n");
    let seen = go(&world);
    assert_code(&seen, 0);
    assert_eq!(commands(&seen.stderr), Vec::<String>::new(), "{seen}");
    assert_eq!(read(&world, "a.txt"), "a\nmore\n");
    assert_eq!(read(&world, "b.new"), "new\n");
    assert_eq!(of_type(&world, "work_kept"), Vec::<Value>::new());
}

#[test]
fn more_leftovers_than_are_committed_are_kept() {
    let world = map_world(
        r"
map:
  input: { items: [x] }
  leftovers: commit
  agent_template: [{ shell: 'for n in $(seq 1001); do echo $n > many-$n; done' }]
",
    );
    assert_code(&go(&world), 0);
    assert!(!world.repo().join("many-1").exists());
    assert_eq!(of_type(&world, "work_kept")[0]["files"], 1001);
}

#[test]
fn leftovers_can_be_discarded() {
    let world = leaving("  leftovers: discard\n");
    let seen = go(&world);
    assert_code(&seen, 0);
    assert_eq!(of_type(&world, "work_kept"), Vec::<Value>::new());
    assert_eq!(world.git(&["for-each-ref", "refs/prodigy/job/kept"]), "");
    let note = "note: uncommitted files of 2 items are neither merged nor kept";
    assert!(seen.stderr.lines().any(|line| line == note), "{seen}");
}

#[test]
fn an_input_written_by_setup_is_kept_and_the_worktree_is_removed() {
    let world = map_world(
        r#"
setup: [{ shell: "echo '[\"a\"]' > items.json; echo changed >> README.md" }]
map:
  input: items.json
  agent_template: [{ shell: 'echo x > ${item}; git add .; git commit --quiet -m x' }]
"#,
    );
    let seen = go(&world);
    assert_code(&seen, 0);
    assert!(!world.home().join("worktrees/repo/job/job").exists(), "{seen}");
    assert_eq!(
        commands(&seen.stderr),
        [
            "git cherry-pick --no-commit refs/prodigy/job/kept/job",
            "git cherry-pick --no-commit refs/prodigy/job/kept/job.setup"
        ],
        "{seen}"
    );
    type_in(&world, "git cherry-pick --no-commit refs/prodigy/job/kept/job.setup");
    assert_eq!(read(&world, "items.json"), "[\"a\"]\n");
    assert!(read(&world, "README.md").ends_with("changed\n"));
    assert_eq!(world.git(&["branch", "--list", "prodigy/*"]), "");
}

#[test]
fn what_a_sequential_workflow_leaves_is_kept_and_its_worktree_removed() {
    let world = workflow::world("- shell: echo left > left.txt\n");
    let seen = world.prodigy(&["run", "workflow.yml", "-y", "--job-id", "job"]);
    assert_code(&seen, 0);
    let commands = commands(&seen.stderr);
    assert_eq!(commands, ["git cherry-pick --no-commit refs/prodigy/job/kept/job"], "{seen}");
    type_in(&world, &commands[0]);
    assert_eq!(read(&world, "left.txt"), "left\n");
    assert!(!world.home().join("worktrees/repo/job/job").exists());
    assert_eq!(shown(&world)["job"]["kept"]["files"], 1);
}

#[test]
fn a_sequential_workflow_commits_or_discards_its_leftovers_on_request() {
    let text =
        |how: &str| format!("leftovers: {how}\nsteps: [{{ shell: echo left > left.txt }}]\n");
    let world = workflow::world(&text("commit"));
    assert_code(&world.prodigy(&["run", "workflow.yml", "-y"]), 0);
    assert_eq!(world.git(&["show", "main:left.txt"]), "left");
    let world = workflow::world(&text("discard"));
    assert_code(&world.prodigy(&["run", "workflow.yml", "-y", "--job-id", "job"]), 0);
    assert!(!world.home().join("worktrees/repo/job/job").exists());
    assert_eq!(world.git(&["for-each-ref", "refs/prodigy/job"]), "");
}

#[test]
fn committed_leftovers_survive_merge_steps() {
    let world = workflow::world(
        r"
leftovers: commit
steps: [{ shell: echo left > left.txt }]
merge: [{ shell: 'cd ROOT/repo && git merge --quiet ${merge.source_branch}' }]
",
    );
    let text = world.read("workflow.yml").replace("ROOT", world.root().to_str().unwrap());
    world.write("workflow.yml", text);
    world.commit_all("Name the repository");
    let seen = world.prodigy(&["run", "workflow.yml", "-y"]);
    assert_code(&seen, 0);
    assert_eq!(world.git(&["show", "main:left.txt"]), "left");
}

#[test]
fn a_shared_worktree_keeps_what_its_items_leave() {
    let map = "map:\n  input: { items: [a, b] }\n  isolation: shared\n  \
               agent_template: [{ shell: 'echo new > ${item}.new' }]\n";
    let world = map_world(map);
    let seen = go(&world);
    assert_code(&seen, 0);
    type_in(&world, &commands(&seen.stderr)[0]);
    assert_eq!((read(&world, "a.new"), read(&world, "b.new")), ("new\n".into(), "new\n".into()));
    let world = map_world(&format!("{map}  leftovers: commit\n"));
    assert_code(&go(&world), 0);
    assert_eq!((read(&world, "a.new"), read(&world, "b.new")), ("new\n".into(), "new\n".into()));
}

#[test]
fn commits_on_a_branch_that_a_successful_item_left_are_kept_and_named() {
    let world = map_world(
        r"
map:
  input: { items: [branch, detached, amended] }
  agent_template:
    - shell: |
        case ${item} in
          branch) git checkout --quiet -b side-branch;;
          detached) git checkout --quiet --detach;;
        esac
        echo ${item} > ${item}.txt; git add .; git commit --quiet -m ${item}
        case ${item} in
          amended) git commit --quiet --amend -m again;;
          *) git checkout --quiet $(git branch --list --format='%(refname:short)' prodigy/job/$PRODIGY_ITEM_ID);;
        esac
",
    );
    let seen = go(&world);
    assert_code(&seen, 0);
    assert_eq!(counts(&world), (3, 0, 0), "{seen}");
    let mut commands = commands(&seen.stderr);
    commands.sort_unstable();
    assert_eq!(
        commands,
        ["git merge refs/prodigy/job/stray/item-001", "git merge refs/prodigy/job/stray/item-002"],
        "{seen}"
    );
    for command in commands {
        type_in(&world, &command);
    }
    assert_eq!(read(&world, "branch.txt"), "branch\n");
    assert_eq!(read(&world, "detached.txt"), "detached\n");
    assert_eq!(read(&world, "amended.txt"), "amended\n");
}

#[test]
fn a_repository_that_an_item_made_is_named_as_not_kept() {
    let world = map_world(
        r"
map:
  input: { items: [x] }
  agent_template:
    - shell: git init --quiet inner; echo inside > inner/file; echo new > new.txt
      auto_commit: true
",
    );
    let seen = go(&world);
    assert_code(&seen, 0);
    assert_eq!(read(&world, "new.txt"), "new\n", "{seen}");
    let line = "kept: not the repository `inner/` that item-001 made in its worktree";
    assert!(seen.stderr.lines().any(|found| found == line), "{seen}");
}

#[test]
fn kept_work_is_not_cleaned_away_unasked() {
    let world = leaving("");
    assert_code(&go(&world), 0);
    assert_code(&world.prodigy(&["worktree", "clean"]), 0);
    assert_eq!(
        world.git(&["for-each-ref", "--format=%(refname)", "refs/prodigy/job/kept"]),
        "refs/prodigy/job/kept/item-001\nrefs/prodigy/job/kept/item-002"
    );
}
