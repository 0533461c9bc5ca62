//! Steps that plant something in git's settings: none of it is run by prodigy, and all is put back.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf};

use insta::assert_snapshot;
use prodigy_testkit::TestEnv;
use rustix::process::Signal;

use crate::fixture::workflow::{SpawnedProdigy, records, run, stable, world};

/// Makes a world with a program `evil` that leaves `proof` when it is run, and what plants it.
fn planted(steps: &str) -> TestEnv {
    let world = world("- shell: 'true'\n");
    let root = world.root().display().to_string();
    let evil = world.root().join("evil");
    fs::write(&evil, format!("#!/bin/sh\ntouch {root}/proof\ncat\n")).unwrap();
    fs::set_permissions(&evil, fs::Permissions::from_mode(0o755)).unwrap();
    let plant = world.root().join("plant");
    fs::write(
        &plant,
        format!(
            r#"#!/bin/sh
g=$(git rev-parse --path-format=absolute --git-common-dir)
for hook in pre-commit post-checkout reference-transaction post-index-change post-merge pre-merge-commit post-commit; do
  cp {root}/evil "$g/hooks/$hook"
done
printf '[include]\n\tpath = {root}/included\n' >> "$g/config"
printf '[core]\n\tfsmonitor = {root}/evil\n' > {root}/included
git config filter.evil.clean {root}/evil
git config filter.evil.smudge {root}/evil
git config filter.evil.required true
git config diff.external {root}/evil
git config merge.evil.driver {root}/evil
git config core.editor {root}/evil
git config gpg.program {root}/evil
git config commit.gpgSign true
git config core.hooksPath {root}/hooks
mkdir -p {root}/hooks "$g/info" && cp "$g"/hooks/p* {root}/hooks
echo '* filter=evil merge=evil' > "$g/info/attributes"
echo {root}/objects > "$g/objects/info/alternates"
git config extensions.worktreeConfig true
git config --worktree core.sshCommand {root}/evil
"#
        ),
    )
    .unwrap();
    world.write("workflow.yml", steps.replace("ROOT", &root));
    world.commit_all("Plant");
    world
}

/// Returns the files that decide what git runs.
fn settings(world: &TestEnv) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    let git = world.repo().join(".git");
    let hooks = fs::read_dir(git.join("hooks")).unwrap();
    let mut paths: Vec<_> = hooks.map(|entry| entry.unwrap().path()).collect();
    let others = ["config", "config.worktree", "info/attributes", "objects/info/alternates"];
    paths.extend(others.map(|name| git.join(name)));
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), fs::read(path).ok())).collect()
}

#[track_caller]
fn assert_nothing_ran(world: &TestEnv) {
    assert!(!world.root().join("proof").exists(), "something planted was run");
}

/// Returns what the journal says about planted settings, with the world's paths replaced.
fn reported(world: &TestEnv) -> String {
    let told = records(world);
    let told = told.iter().filter(|record| record["event_type"] == "git_tampering");
    let changes = told.flat_map(|record| record["changes"].as_array().unwrap().clone());
    let mut lines: Vec<_> = changes.map(|change| change.as_str().unwrap().to_owned()).collect();
    lines.sort();
    lines.join("\n").replace(&world.root().display().to_string(), "$ROOT")
}

#[test]
fn nothing_planted_by_a_step_is_run() {
    let world = planted(
        "- name: plant\n  shell: echo x > x; sh ROOT/plant\n  auto_commit: true\n\
         - name: plant again\n  shell: sh ROOT/plant\n\
         - name: commit\n  shell: echo y > y\n  auto_commit: true\n",
    );
    let before = settings(&world);
    assert_snapshot!(run(&world), @"
    ----- stderr -----
    · job job · workflow.yml · 3 steps
    ✗ a step changed git's settings; they were put back: $ROOT/repo/.git/config: `commit.gpgsign` was set to `true`, $ROOT/repo/.git/config: `core.editor` was set to `$ROOT/evil`, $ROOT/repo/.git/config: `core.hookspath` was set to `$ROOT/hooks` and 18 more
    ✓ 1 plant  [time]
    ✗ a step changed git's settings; they were put back: $ROOT/repo/.git/config: `commit.gpgsign` was set to `true`, $ROOT/repo/.git/config: `core.editor` was set to `$ROOT/evil`, $ROOT/repo/.git/config: `core.hookspath` was set to `$ROOT/hooks` and 18 more
    ✓ 2 plant again  [time]
    ✓ 3 commit  [time]

    completed · 3 of 3 steps
    merged into main at [commit]
    next: prodigy events job
    ");
    assert_nothing_ran(&world);
    assert_eq!(settings(&world), before);
    let first = reported(&world);
    let mut once: Vec<_> = first.lines().collect();
    once.dedup();
    assert_snapshot!(once.join("\n"), @"
    $ROOT/repo/.git/config: `commit.gpgsign` was set to `true`
    $ROOT/repo/.git/config: `core.editor` was set to `$ROOT/evil`
    $ROOT/repo/.git/config: `core.hookspath` was set to `$ROOT/hooks`
    $ROOT/repo/.git/config: `diff.external` was set to `$ROOT/evil`
    $ROOT/repo/.git/config: `extensions.worktreeconfig` was set to `true`
    $ROOT/repo/.git/config: `filter.evil.clean` was set to `$ROOT/evil`
    $ROOT/repo/.git/config: `filter.evil.required` was set to `true`
    $ROOT/repo/.git/config: `filter.evil.smudge` was set to `$ROOT/evil`
    $ROOT/repo/.git/config: `gpg.program` was set to `$ROOT/evil`
    $ROOT/repo/.git/config: `include.path` was set to `$ROOT/included`
    $ROOT/repo/.git/config: `merge.evil.driver` was set to `$ROOT/evil`
    $ROOT/repo/.git/hooks/post-checkout: it was added
    $ROOT/repo/.git/hooks/post-commit: it was added
    $ROOT/repo/.git/hooks/post-index-change: it was added
    $ROOT/repo/.git/hooks/post-merge: it was added
    $ROOT/repo/.git/hooks/pre-commit: it was added
    $ROOT/repo/.git/hooks/pre-merge-commit: it was added
    $ROOT/repo/.git/hooks/reference-transaction: it was added
    $ROOT/repo/.git/info/attributes: it was added
    $ROOT/repo/.git/objects/info/alternates: it was added
    $ROOT/repo/.git/worktrees/job/config.worktree: `core.sshcommand` was set to `$ROOT/evil`
    ");
    assert_eq!((world.read("x"), world.read("y")), ("x\n".to_owned(), "y\n".to_owned()));
}

#[test]
fn nothing_planted_by_a_step_that_fails_stays() {
    let world = planted("- name: plant\n  shell: sh ROOT/plant; echo x > x; exit 1\n");
    let before = settings(&world);
    assert_eq!(run(&world).lines().last(), Some("[exit 1]"));
    assert_eq!(settings(&world), before);
    assert_nothing_ran(&world);
    world.prodigy(&["resume"]).code.unwrap();
    assert_eq!(world.prodigy(&["run", "workflow.yml"]).code, Some(1));
    assert_nothing_ran(&world);
}

#[test]
fn nothing_planted_by_a_killed_run_is_run_by_resume() {
    let world = planted(
        "- name: plant\n  shell: test -e ROOT/gate || { sh ROOT/plant; echo x > x; touch ROOT/begun; sleep 300; }\n\
         - shell: echo y > y\n  auto_commit: true\n",
    )
    .env("PRODIGY_GRACE", "1s");
    let before = settings(&world);
    let mut started =
        SpawnedProdigy::new(&world, &["run", "workflow.yml", "-y", "--job-id", "job"]);
    started.until(&world, "the step begins", || world.root().join("begun").exists());
    started.signal(Signal::KILL);
    started.seen(&world);
    fs::write(world.root().join("gate"), "").unwrap();
    let seen = stable(&world.prodigy(&["resume"]));
    assert_eq!(seen.lines().last(), Some("next: prodigy events job"), "{seen}");
    assert_nothing_ran(&world);
    assert_eq!(settings(&world), before);
    assert_ne!(reported(&world), "");
}

#[test]
fn nothing_planted_by_merge_steps_is_run() {
    let world = planted(
        "steps:\n  - shell: echo x > x\n    auto_commit: true\n\
         merge:\n  - name: merge\n    shell: git -C ROOT/repo merge --quiet \"${merge.source_branch}\"; echo left > left; sh ROOT/plant\n",
    );
    let before = settings(&world);
    let seen = run(&world);
    assert_nothing_ran(&world);
    assert_eq!(settings(&world), before);
    assert_ne!(reported(&world), "");
    assert_snapshot!(seen, @"
    ----- stderr -----
    · job job · workflow.yml · 1 step
    ✓ 1 shell: echo x > x  [time]
    ✓ merge.1 merge  [time]
    ✗ a step changed git's settings; they were put back: $ROOT/repo/.git/config: `commit.gpgsign` was set to `true`, $ROOT/repo/.git/config: `core.editor` was set to `$ROOT/evil`, $ROOT/repo/.git/config: `core.hookspath` was set to `$ROOT/hooks` and 18 more

    completed · 1 of 1 step
    merged into main at [commit]
    kept: 1 uncommitted file of the job; `git cherry-pick --no-commit refs/prodigy/job/kept/job` applies it
    next: prodigy events job
    ");
}

#[test]
fn a_link_in_place_of_a_directory_leads_nowhere() {
    let world = planted(
        "- name: link\n  shell: >-\n    g=$(git rev-parse --path-format=absolute --git-common-dir);\n    \
         rm -rf $g/hooks $g/info; ln -s ROOT/precious $g/hooks; ln -s ROOT/precious $g/info\n",
    );
    let precious = world.root().join("precious");
    fs::create_dir(&precious).unwrap();
    fs::write(precious.join("attributes"), "thesis\n").unwrap();
    fs::write(precious.join("thesis"), "years of work\n").unwrap();
    let seen = run(&world);
    let mut left: Vec<_> =
        fs::read_dir(&precious).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["attributes", "thesis"], "{seen}");
    assert_snapshot!(reported(&world), @"
    $ROOT/repo/.git/hooks: it was changed
    $ROOT/repo/.git/info: it was changed
    ");
    let hooks = world.repo().join(".git/hooks");
    assert!(hooks.symlink_metadata().unwrap().is_dir());
}
