//! All that a step in the sandbox can write, and what it sees of the kernel.
//!
//! Nothing here ever writes below `/proc` or `/sys`: it is asked whether it could be done.

use std::{collections::BTreeSet, fs, process::Command};

use prodigy_testkit::{TestEnv, process};

use crate::fixture::map_job::{assert_code, map_world};

/// Lists what can be written: below the file systems of the kernel each file and directory, and
/// elsewhere each mounted place. Links lead to what is listed at its own place. Left out are the
/// empty places that each step gets for itself, which are new file systems in memory.
const LIST: &str = r#"
find /proc /sys /dev ! -type l -writable -print 2> /dev/null
awk '!($4 == "/" && / - tmpfs /) { print $5 }' /proc/self/mountinfo | sort -u | while read -r place; do
  place=$(printf '%b' "$place"); if test -w "$place"; then printf '%s\n' "$place"; fi
done
"#;

/// Returns a world whose one item lists what it can write.
fn listing() -> TestEnv {
    let script = LIST.trim().replace('\n', "\n          ");
    map_world(&format!(
        "sandbox: bubblewrap\nmap:\n  input: {{ items: [one] }}\n  agent_template:\n    - shell: |\n        {{\n          {script}\n        }} > list.txt\n        printf '%s\\n' \"$PRODIGY_WORKTREE\" > place.txt\n        git add --all; git commit --quiet -m list\n"
    ))
}

/// Returns the list, with names for what differs from run to run.
fn listed(world: &TestEnv) -> BTreeSet<String> {
    let root = world.root().canonicalize().unwrap().display().to_string();
    let worktree = world.read("place.txt").trim().to_owned();
    let names = [
        (worktree, "WORKTREE"),
        (format!("{root}/repo/.git"), ".git"),
        (format!("{root}/home"), "~/.prodigy"),
        ("prodigy/job/item-001".to_owned(), "BRANCH"),
    ];
    let lines = world.read("list.txt");
    let shown = |line: &str| {
        let mut line = line.to_owned();
        for (path, name) in &names {
            line = line.replace(path, name);
        }
        line
    };
    lines.lines().map(shown).collect()
}

/// Returns the list in the guide.
fn documented() -> BTreeSet<String> {
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/limits-cost-safety.md");
    let guide = fs::read_to_string(guide).unwrap();
    let section = guide.split("#### What can be written").nth(1).unwrap_or_default();
    let block = section.split("```text\n").nth(1).unwrap_or_default();
    let block = block.split("```").next().unwrap_or_default();
    let path = |line: &str| line.split("  ").next().unwrap_or_default().trim().to_owned();
    block.lines().map(path).filter(|path| !path.is_empty()).collect()
}

#[test]
fn a_step_can_write_what_the_guide_lists_and_nothing_else() {
    let world = listing();
    let seen = world.prodigy(&["run", "workflow.yml", "-y", "--job-id", "job"]);
    assert_code(&seen, 0);
    assert_eq!(listed(&world), documented());
}

/// The number of somebody who is not root, whether or not the machine has a name for it.
const SOMEBODY: &str = "64321";

#[test]
fn an_ordinary_user_can_write_the_same() {
    let world = listing();
    // Where the program was built may be closed to others.
    let program = world.root().join("prodigy");
    fs::copy(env!("CARGO_BIN_EXE_prodigy"), &program).unwrap();
    let mut run = if rustix::process::geteuid().is_root() {
        let owned = Command::new("chown").arg("-R").arg(SOMEBODY).arg(world.root()).status();
        assert!(owned.unwrap().success());
        let mut run = world.command("setpriv");
        run.args(["--reuid", SOMEBODY, "--regid", SOMEBODY, "--clear-groups"]).arg(&program);
        run
    } else {
        world.command(&program)
    };
    run.args(["run", "workflow.yml", "-y", "--job-id", "job"]);
    let seen = world.to_output(&process::run_bounded(&mut run));
    assert_code(&seen, 0);
    assert_eq!(listed(&world), documented());
}

#[test]
fn nothing_of_the_kernel_can_be_made_writable_from_within() {
    let world = map_world(
        r#"
sandbox: bubblewrap
map:
  input: { items: [one] }
  agent_template:
    - shell: |
        ask() { if test -w /proc/sys/kernel/core_pattern; then echo "$1 writable"; else echo "$1 read-only"; fi; }
        ask here
        mount -o remount,rw,bind /proc 2> /dev/null; ask remounted
        umount /proc 2> /dev/null; ask unmounted
        inner='if test -w /proc/sys/kernel/core_pattern; then echo writable; else echo read-only; fi'
        echo "user namespace $(unshare --user --map-root-user sh -c "$inner" 2> /dev/null || echo read-only)"
        echo "remounted in one $(unshare --user --map-root-user --mount sh -c "mount -o remount,rw,bind /proc; umount -l /proc; $inner" 2> /dev/null || echo read-only)"
        echo "mounted in one $(unshare --user --map-root-user --mount --pid --fork sh -c "mount -t proc proc /proc; $inner" 2> /dev/null || echo read-only)"
"#,
    );
    let text = world.read("workflow.yml");
    // Everything it says goes into a file that is committed.
    let text = text.replace("    - shell: |\n", "    - shell: |\n        exec > said.txt\n");
    world.write("workflow.yml", text + "        git add said.txt; git commit --quiet -m said\n");
    world.commit_all("Say it");
    let seen = world.prodigy(&["run", "workflow.yml", "-y", "--job-id", "job"]);
    assert_code(&seen, 0);
    insta::assert_snapshot!(world.read("said.txt"), @"
    here read-only
    remounted read-only
    unmounted read-only
    user namespace read-only
    remounted in one read-only
    mounted in one read-only
    ");
}

#[test]
fn the_kernel_cannot_be_named_as_a_place_to_write_to() {
    let refused = |path: &str| {
        let world = map_world(&format!(
            "sandbox: {{ type: bubblewrap, write: [{path}] }}\nmap:\n  input: {{ items: [one] }}\n  agent_template: [{{ shell: touch ROOT/ran }}]\n"
        ));
        let seen = world.prodigy(&["run", "workflow.yml", "-y", "--job-id", "job"]);
        assert!(!world.root().join("ran").exists());
        assert_code(&seen, 9);
        seen.stderr.lines().find(|line| line.starts_with("error")).unwrap_or_default().to_owned()
    };
    insta::assert_snapshot!(["/", "/proc", "/proc/sys/kernel", "/sys/fs/cgroup"].map(refused).join("\n"), @"
    error: `sandbox` names `/` under `write`: that would open the kernel's own files
    error: `sandbox` names `/proc` under `write`: that would open the kernel's own files
    error: `sandbox` names `/proc/sys/kernel` under `write`: that would open the kernel's own files
    error: `sandbox` names `/sys/fs/cgroup` under `write`: that would open the kernel's own files
    ");
}
