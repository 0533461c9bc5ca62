//! `prodigy doctor`.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

use insta::assert_snapshot;
use prodigy_testkit::{CommandOutput, TestEnv};
use regex::Regex;

use crate::fixture::journal::world;

/// Returns a world whose `PATH` has these programs and no others.
fn with_programs(world: TestEnv, programs: &[&str]) -> TestEnv {
    let directory = world.root().join("bin");
    fs::create_dir(&directory).unwrap();
    for program in programs {
        match real(program) {
            Some(path) => symlink(path, directory.join(program)).unwrap(),
            None => write_program(&directory.join(program), "exit 0"),
        }
    }
    let path = directory.to_str().unwrap().to_owned();
    world.env("PATH", &path)
}

/// Returns where a program of the machine is; agents are never taken from it.
fn real(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap();
    let mut places = std::env::split_paths(&path).map(|directory| directory.join(program));
    places.find(|path| path.is_file()).filter(|_| ["git", "sh", "bash"].contains(&program))
}

fn write_program(path: &Path, script: &str) {
    fs::write(path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Returns what a person sees, without what depends on the machine.
fn stable(seen: &CommandOutput) -> String {
    let text = seen.to_string();
    let text = Regex::new(r"— 2\.\d+\.\d+\S*").unwrap().replace_all(&text, "— [version]");
    let text = Regex::new(r#""2\.\d+\.\d+[^"]*""#).unwrap().replace_all(&text, "\"[version]\"");
    Regex::new(r"\d+\.\d [KMGT]iB free").unwrap().replace_all(&text, "[size] free").into_owned()
}

#[test]
fn a_machine_with_everything_is_fine() {
    let world = with_programs(world(), &["git", "sh", "bash", "claude"]);
    assert_snapshot!(stable(&world.prodigy(&["doctor"])), @"
    ok    git         — [version]
    ok    home        — `$ROOT/home` is not there yet and will be made
    ok    disk        — [size] free
    ok    repository  — `$ROOT/repo` on branch `main`
    ok    sh          — $ROOT/bin/sh
    ok    bash        — $ROOT/bin/bash
    ok    agents      — claude: $ROOT/bin/claude, it does not say its version
    warn  sandbox     — `sandbox: bubblewrap` is refused: the sandbox needs `bwrap`, which is not on the `PATH`; install the package `bubblewrap` (`apt-get install bubblewrap`)
    ");
    assert!(!world.home().exists(), "looking made the home");
    fs::create_dir(world.home()).unwrap();
    fs::set_permissions(world.home(), fs::Permissions::from_mode(0o700)).unwrap();
    assert_snapshot!(stable(&world.prodigy(&["doctor", "--json"])), @r#"
    {
      "schema_version": 1,
      "checks": [
        {
          "status": "ok",
          "name": "git",
          "detail": "[version]"
        },
        {
          "status": "ok",
          "name": "home",
          "detail": "`$ROOT/home` is writable and private"
        },
        {
          "status": "ok",
          "name": "disk",
          "detail": "[size] free"
        },
        {
          "status": "ok",
          "name": "repository",
          "detail": "`$ROOT/repo` on branch `main`"
        },
        {
          "status": "ok",
          "name": "sh",
          "detail": "$ROOT/bin/sh"
        },
        {
          "status": "ok",
          "name": "bash",
          "detail": "$ROOT/bin/bash"
        },
        {
          "status": "ok",
          "name": "agents",
          "detail": "claude: $ROOT/bin/claude, it does not say its version"
        },
        {
          "status": "warn",
          "name": "sandbox",
          "detail": "`sandbox: bubblewrap` is refused: the sandbox needs `bwrap`, which is not on the `PATH`; install the package `bubblewrap` (`apt-get install bubblewrap`)"
        }
      ]
    }
    "#);
}

#[test]
fn what_is_missing_fails_only_if_it_is_needed() {
    let world = with_programs(world(), &[]);
    fs::write(world.home(), "").unwrap();
    assert_snapshot!(stable(&world.prodigy(&["doctor"])), @"
    fail  git         — git is not installed, or not on the `PATH`
    fail  home        — `$ROOT/home` is not a directory
    ok    disk        — [size] free
    fail  sh          — not on the `PATH`
    warn  bash        — not on the `PATH`
    warn  agents      — none of claude, codex found: shell steps work without
    warn  sandbox     — `sandbox: bubblewrap` is refused: the sandbox needs `bwrap`, which is not on the `PATH`; install the package `bubblewrap` (`apt-get install bubblewrap`)
    [exit 1]
    ");
}

#[test]
fn an_old_git_is_named() {
    let world = with_programs(world(), &["sh"]);
    write_program(&world.root().join("bin/git"), "echo git version 2.30.1");
    assert_snapshot!(stable(&world.prodigy(&["doctor"])), @"
    fail  git         — git 2.30.1 is too old: git 2.38 or newer is needed
    ok    home        — `$ROOT/home` is not there yet and will be made
    ok    disk        — [size] free
    ok    sh          — $ROOT/bin/sh
    warn  bash        — not on the `PATH`
    warn  agents      — none of claude, codex found: shell steps work without
    warn  sandbox     — `sandbox: bubblewrap` is refused: the sandbox needs `bwrap`, which is not on the `PATH`; install the package `bubblewrap` (`apt-get install bubblewrap`)
    [exit 1]
    ");
}

#[test]
fn a_home_that_others_can_write_or_read_is_named() {
    let world = with_programs(world(), &["git", "sh"]);
    fs::create_dir(world.home()).unwrap();
    let line = |mode: u32| {
        fs::set_permissions(world.home(), fs::Permissions::from_mode(mode)).unwrap();
        let seen = world.prodigy(&["doctor"]);
        let line = seen.stdout.lines().find(|line| line.contains("  home  ")).unwrap();
        format!("{line} [exit {}]", seen.code.unwrap())
    };
    assert_snapshot!(line(0o777), @"fail  home        — `$ROOT/home` can be written by others, who could plant a job; `chmod 700` helps [exit 1]");
    assert_snapshot!(line(0o755), @"warn  home        — `$ROOT/home` can be read by others; `chmod 700` keeps its logs private [exit 0]");
    assert_snapshot!(line(0o700), @"ok    home        — `$ROOT/home` is writable and private [exit 0]");
}

#[test]
fn the_state_of_the_repository_is_shown() {
    let world = with_programs(world(), &["git", "sh", "bash"]);
    let of_repository = |seen: &CommandOutput| {
        let lines = seen.stdout.lines().filter(|line| line.contains("  repository  "));
        lines.collect::<Vec<_>>().join("\n")
    };
    world.write(".gitmodules", "");
    world.write("draft", "");
    world.git(&["switch", "--quiet", "--detach"]);
    assert_snapshot!(of_repository(&world.prodigy(&["doctor"])), @"
    warn  repository  — `$ROOT/repo` is on no branch: results cannot be merged by themselves
    warn  repository  — 2 files are not committed: jobs do not see that
    warn  repository  — the repository has submodules: they are empty in a job's worktree
    ");
    let outside = world.prodigy_command(&["doctor"]).current_dir(world.root()).output().unwrap();
    assert_snapshot!(of_repository(&world.to_output(&outside)), @"warn  repository  — `$ROOT` is not in a git repository");
}
