//! Paths of a workflow that links try to lead out of the worktree, also while they are opened.

use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use insta::assert_snapshot;
use prodigy_testkit::TestEnv;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::fixture::{
    map_job::{go, letter, map_world},
    workflow::{records, run, world},
};

/// Runs something while `d` in a worktree is a directory at one moment and a link to `outside`
/// beside the repository at the next.
fn while_swapped<T>(world: &TestEnv, worktree: &str, act: impl FnOnce() -> T) -> T {
    let worktree = world.home().join("worktrees/repo/job").join(worktree);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let (directory, link) = (worktree.join("d"), worktree.join("l"));
            let begun = Instant::now();
            while !is_over.load(Ordering::Relaxed) && begun.elapsed() < Duration::from_secs(60) {
                // They are not there before the job has begun, nor after its end.
                if renameat_with(CWD, &directory, CWD, &link, RenameFlags::EXCHANGE).is_err() {
                    thread::sleep(Duration::from_millis(1));
                }
            }
        });
        let result = act();
        is_over.store(true, Ordering::Relaxed);
        result
    })
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

const WRITES: &str = "\
- shell: 'mkdir d; ln -s ROOT/outside l'
- foreach:
    input: 'seq 400'
    continue_on_error: true
    do:
      - write_file: { path: 'd/f-${item}', content: x }
- foreach:
    input: 'seq 100'
    continue_on_error: true
    do:
      - write_file: { path: 'd/${item}/f', content: x, create_dirs: true }
- foreach:
    input: 'seq 40'
    continue_on_error: true
    do:
      - { shell: 'echo x', output_file: 'd/o-${item}' }
";

#[test]
fn files_are_never_written_outside_while_a_directory_is_swapped_for_a_link() {
    let world = world("- shell: 'true'\n");
    fs::create_dir(world.root().join("outside")).unwrap();
    world.write(".gitignore", "/d\n/l\n");
    world.write("workflow.yml", WRITES.replace("ROOT", &world.root().display().to_string()));
    world.commit_all("Write");
    let seen = while_swapped(&world, "job", || run(&world));
    assert_eq!(names(&world.root().join("outside")), Vec::<String>::new(), "{seen}");
}

#[test]
fn steps_never_run_outside_while_their_directory_is_swapped_for_a_link() {
    let world = world("- shell: 'true'\n");
    fs::create_dir(world.root().join("outside")).unwrap();
    world.write(".gitignore", "/d\n/l\n");
    let text = "\
- shell: 'mkdir d; ln -s ROOT/outside l'
- foreach:
    input: 'seq 100'
    continue_on_error: true
    do:
      - { shell: 'touch ran-${item}', working_dir: d }
";
    world.write("workflow.yml", text.replace("ROOT", &world.root().display().to_string()));
    world.commit_all("Run");
    let seen = while_swapped(&world, "job", || run(&world));
    assert_eq!(names(&world.root().join("outside")), Vec::<String>::new(), "{seen}");
}

#[test]
fn results_are_never_read_outside_while_a_directory_is_swapped_for_a_link() {
    let world = map_world(
        r"
setup:
  - shell: 'mkdir d; echo 1 > d/r.json; ln -s ROOT/outside l'
map:
  isolation: shared
  input: { command: 'seq 80' }
  max_parallel: 4
  result: { file: d/r.json }
  agent_template:
    - shell: 'true'
",
    );
    fs::create_dir(world.root().join("outside")).unwrap();
    fs::write(world.root().join("outside/r.json"), "\"stolen\"").unwrap();
    let seen = while_swapped(&world, "job", || go(&world));
    let told = records(&world);
    let results = told.iter().filter(|record| record["event_type"] == "agent_completed");
    let stolen = results.filter(|record| record["result"] == "stolen").count();
    assert_eq!(stolen, 0, "{seen}");
}

/// Returns why the last step of a workflow failed, in a worktree with links to `outside`.
fn refusal(step: &str) -> String {
    let plant = "- shell: |\n    ln -s ROOT/outside l; ln -s ../.. up; git init -q sub; ln -s sub/.git g; ln -s d in; mkdir d\n";
    let world = world("- shell: 'true'\n");
    let outside = world.root().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("f"), "{\"status\": \"complete\"}").unwrap();
    let root = world.root().canonicalize().unwrap().display().to_string();
    world.write("workflow.yml", format!("{plant}{step}").replace("ROOT", &root));
    world.commit_all("Lead out");
    let seen = run(&world);
    assert_eq!(names(&outside), ["f"], "{seen}");
    let told = records(&world);
    let failed = told.iter().find(|record| record["event_type"] == "job_failed");
    let Some(failed) = failed else { return "accepted".to_owned() };
    let failure = &failed["failure"];
    format!("{}: {}", failure["kind"].as_str().unwrap(), failure["message"].as_str().unwrap())
        .replace(&root, "$ROOT")
}

#[test]
fn a_link_that_leads_out_is_refused_for_each_key() {
    let steps = [
        "- write_file: { path: l/new, content: x }\n",
        "- write_file: { path: l/a/b/new, content: x, create_dirs: true }\n",
        "- write_file: { path: up/new, content: x }\n",
        "- write_file: { path: ../new, content: x }\n",
        "- write_file: { path: /tmp/new, content: x }\n",
        "- { shell: echo x, output_file: l/new }\n",
        "- { shell: touch new, working_dir: l }\n",
        "- { shell: 'true', validate: { shell: 'true', result_file: l/f } }\n",
        "- write_file: { path: in/new, content: x }\n",
    ];
    assert_snapshot!(steps.map(refusal).join("\n"), @"
    worktree_error: `l/new` leads out of the worktree by a symbolic link
    worktree_error: `l/a/b/new` leads out of the worktree by a symbolic link
    worktree_error: `up/new` leads out of the worktree by a symbolic link
    worktree_error: `../new` must be relative and stay inside the worktree
    worktree_error: `/tmp/new` must be relative and stay inside the worktree
    worktree_error: output_file: `l/new` leads out of the worktree by a symbolic link
    worktree_error: working_dir: `l` leads out of the worktree by a symbolic link
    worktree_error: result_file: `l/f` leads out of the worktree by a symbolic link
    accepted
    ");
}

#[test]
fn nothing_is_written_into_git() {
    let paths = [
        ".git",
        ".git/hooks/post-checkout",
        ".GIT/config",
        "sub/.git/config",
        "./sub/.Git/config",
        "sub/../.git/config",
        "g/config",
        "sub/.gitignore",
    ];
    let of = |path: &str| refusal(&format!("- write_file: {{ path: {path}, content: x }}\n"));
    assert_snapshot!(paths.map(of).join("\n"), @"
    worktree_error: `.git` leads into `.git`, where only git writes
    worktree_error: `.git/hooks/post-checkout` leads into `.git`, where only git writes
    worktree_error: `.GIT/config` leads into `.git`, where only git writes
    worktree_error: `sub/.git/config` leads into `.git`, where only git writes
    worktree_error: `./sub/.Git/config` leads into `.git`, where only git writes
    worktree_error: `sub/../.git/config` must be relative and stay inside the worktree
    worktree_error: `g/config` leads into `.git`, where only git writes
    accepted
    ");
    let more = [
        "- { shell: echo x, output_file: sub/.git/config }\n",
        "- { shell: touch new, working_dir: sub/.git }\n",
    ];
    assert_snapshot!(more.map(refusal).join("\n"), @"
    worktree_error: output_file: `sub/.git/config` leads into `.git`, where only git writes
    worktree_error: working_dir: `sub/.git` leads into `.git`, where only git writes
    ");
}

#[test]
fn worktrees_get_nothing_through_a_link_that_leads_out() {
    let keys =
        ["copy: [l/f]", "link: [l/f]", "include: wanted", "copy: [sub/.git]", "link: [.git/hooks]"];
    let refused = keys.map(|key| {
        let world = map_world(&format!(
            "map:\n  input: {{ items: [a] }}\n  worktree: {{ {key} }}\n  agent_template: [{{ shell: 'true' }}]\n"
        ));
        let outside = world.root().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("f"), "x").unwrap();
        fs::create_dir_all(world.repo().join("sub/.git")).unwrap();
        world.write("wanted", "l/f\n");
        symlink(&outside, world.repo().join("l")).unwrap();
        world.git(&["add", "wanted", "l"]);
        world.git(&["commit", "--quiet", "-m", "Link"]);
        go(&world);
        let letter = letter(&world, "item-001");
        letter["failure_history"][0]["error_message"].as_str().unwrap().to_owned()
    });
    assert_snapshot!(refused.join("\n"), @"
    `l/f` cannot be brought along: `l/f` leads out of the worktree by a symbolic link
    `l/f` cannot be brought along: `l/f` leads out of the worktree by a symbolic link
    `l/f` cannot be brought along: `l/f` leads out of the worktree by a symbolic link
    `sub/.git` cannot be brought along: `sub/.git` leads into `.git`, where only git writes
    `.git/hooks` cannot be brought along: `.git/hooks` leads into `.git`, where only git writes
    ");
}
