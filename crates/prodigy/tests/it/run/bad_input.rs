//! Places, files and names with which no job can run: each is refused in one clear sentence.

use std::{
    fs::{self, File},
    io::Read as _,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::Stdio,
};

use insta::assert_snapshot;
use prodigy_testkit::TestEnv;
use regex::Regex;

use crate::fixture::workflow::{SpawnedProdigy, records, run, run_with, stable, world};

const PRODIGY: &str = env!("CARGO_BIN_EXE_prodigy");

/// Checks that a refusal left no job, no worktree and no branch.
#[track_caller]
fn assert_nothing_made(world: &TestEnv) {
    for part in ["events", "state/repo/mapreduce", "worktrees", "logs"] {
        assert!(!world.home().join(part).exists(), "{part}");
    }
    assert_eq!(world.git(&["branch", "--list", "prodigy/*"]), "");
    assert_eq!(world.git(&["for-each-ref", "refs/prodigy"]), "");
    assert_eq!(world.git(&["worktree", "list"]).lines().count(), 1);
}

#[test]
fn a_place_without_a_usable_repository_is_refused() {
    let world = TestEnv::new(PRODIGY);
    fs::write(world.root().join("w.yml"), "- shell: ls\n").unwrap();
    assert_snapshot!(world.prodigy(&["run", "w.yml"]), @"
    ----- stderr -----
    error: `$ROOT` is not in a git repository

    hint: go to a repository, or make one with `git init`
    [exit 2]
    ");
    let bare = world.root().join("bare.git");
    let init = world.command("git").args(["init", "--quiet", "--bare"]).arg(&bare).status();
    assert!(init.unwrap().success());
    let args = ["run", "w.yml", "--path", bare.to_str().unwrap()];
    assert_snapshot!(world.prodigy(&args), @"
    ----- stderr -----
    error: the repository `$ROOT/bare.git` is bare: it has no working tree to start from

    hint: work from a clone of it
    [exit 2]
    ");
    fs::create_dir(world.repo()).unwrap();
    world.git(&["init", "--quiet"]);
    assert_snapshot!(world.prodigy(&["run", "../w.yml"]), @"
    ----- stderr -----
    error: the repository `$ROOT/repo` has no commits yet

    hint: commit something first: `git commit --allow-empty --message first`
    [exit 2]
    ");
    assert_snapshot!(world.prodigy(&["run", "../w.yml", "--path", "../nowhere"]), @"
    ----- stderr -----
    error: `$ROOT/repo/../nowhere` is not in a git repository

    hint: go to a repository, or make one with `git init`
    [exit 2]
    ");
    assert_snapshot!(world.prodigy(&["run", "../w.yml", "--path", "../w.yml"]), @"
    ----- stderr -----
    error: `$ROOT/repo/../w.yml` is not in a git repository

    hint: go to a repository, or make one with `git init`
    [exit 2]
    ");
    assert!(!world.home().join("events").exists());
}

#[test]
fn a_file_that_is_no_workflow_is_refused() {
    let world = world("- shell: ls\n  shel: ls\n");
    assert_snapshot!(run(&world), @"
    ----- stderr -----
    error: unknown key `shel` in a step
     --> workflow.yml:2:3
      |
    2 |   shel: ls
      |   ^^^^
      |
      = help: did you mean `shell`?

    error: `workflow.yml` cannot be used

    hint: `prodigy schema workflow` describes every key
    [exit 9]
    ");
    let mut bomb = vec!["a: &a [x, x]".to_owned()];
    for (from, to) in ('a'..='j').zip('b'..='k') {
        bomb.push(format!("{to}: &{to} [{}]", vec![format!("*{from}"); 10].join(", ")));
    }
    world.write("workflow.yml", bomb.join("\n") + "\nsteps: *k\n");
    assert_snapshot!(run(&world), @"
    ----- stderr -----
    error: the file has more than 200000 values, aliases counted each time
     --> workflow.yml:6:28
      |
    6 | f: &f [*e, *e, *e, *e, *e, *e, *e, *e, *e, *e]
      |                            ^^

    error: `workflow.yml` cannot be used

    hint: `prodigy schema workflow` describes every key
    [exit 9]
    ");
    world.write("workflow.yml", "[".repeat(100_000));
    assert_snapshot!(run(&world), @"
    ----- stderr -----
    error: the file is nested more than 64 levels deep
     --> workflow.yml:1:256
      |
     ::: 
    1 | ...[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[...
      |                                                                              ^

    error: `workflow.yml` cannot be used

    hint: `prodigy schema workflow` describes every key
    [exit 9]
    ");
    world.write("workflow.yml", [0xff, 0xfe, b'a']);
    assert_snapshot!(run(&world), @"
    ----- stderr -----
    error: `workflow.yml` is not UTF-8 text: byte 0 is wrong

    hint: `prodigy init` writes a first workflow
    [exit 9]
    ");
    world.write("workflow.yml", "");
    assert_snapshot!(run(&world), @"
    ----- stderr -----
    error: the file is empty
     --> workflow.yml:1:1
      |
    1 |
      | ^

    error: `workflow.yml` cannot be used

    hint: `prodigy schema workflow` describes every key
    [exit 9]
    ");
    File::create(world.repo().join("workflow.yml")).unwrap().set_len(100 << 20).unwrap();
    assert_snapshot!(run(&world), @"
    ----- stderr -----
    error: `workflow.yml` is larger than 4 MiB

    hint: `prodigy init` writes a first workflow
    [exit 9]
    ");
    fs::remove_file(world.repo().join("workflow.yml")).unwrap();
    assert_snapshot!(run(&world), @"
    ----- stderr -----
    error: there is no file `workflow.yml`

    hint: `prodigy init` writes a first workflow
    [exit 2]
    ");
    fs::create_dir(world.repo().join("workflow.yml")).unwrap();
    assert_snapshot!(run(&world), @"
    ----- stderr -----
    error: `workflow.yml` is a directory, not a file

    hint: `prodigy init` writes a first workflow
    [exit 2]
    ");
    fs::remove_dir(world.repo().join("workflow.yml")).unwrap();
    let fifo = world.repo().join("workflow.yml");
    assert!(world.command("mkfifo").arg(&fifo).status().unwrap().success());
    assert_snapshot!(stable(&SpawnedProdigy::new(&world, &["run", "workflow.yml"]).seen(&world)), @"
    ----- stderr -----
    error: `workflow.yml` is not a regular file

    hint: `prodigy init` writes a first workflow
    [exit 2]
    ");
    assert_nothing_made(&world);
}

#[test]
fn a_step_stays_inside_its_worktree() {
    let world = world("- shell: pwd\n  working_dir: ../../..\n");
    assert_snapshot!(run(&world), @"
    ----- stderr -----
    · job job · workflow.yml · 1 step
    ✗ 1 shell: pwd: working_dir: `../../..` must be relative and stay inside the worktree

    failed at step 1: working_dir: `../../..` must be relative and stay inside the worktree · 0 of 1 step done
    worktree: $ROOT/home/worktrees/repo/job/job (branch prodigy/job/job)
    output: prodigy logs job 1
    next: prodigy resume job
    [exit 1]
    ");
    world.write("workflow.yml", "- shell: ln -s / out\n- shell: pwd\n  working_dir: out/etc\n");
    let seen = world.prodigy(&["run", "workflow.yml", "--job-id", "two"]);
    assert_snapshot!(stable(&seen), @"
    ----- stderr -----
    note: 1 uncommitted change in your checkout is not part of this run
    · job two · workflow.yml · 2 steps
    ✓ 1 shell: ln -s / out  [time]
    ✗ 2 shell: pwd: working_dir: `out/etc` leads out of the worktree by a symbolic link

    failed at step 2: working_dir: `out/etc` leads out of the worktree by a symbolic link · 1 of 2 steps done
    worktree: $ROOT/home/worktrees/repo/two/job (branch prodigy/two/job)
    output: prodigy logs two 2
    next: prodigy resume two
    [exit 1]
    ");
}

#[test]
fn a_shell_that_is_not_there_fails_the_step() {
    let world = world("- shell: ls\n  shell_program: nope\n");
    assert_snapshot!(run(&world), @"
    ----- stderr -----
    · job job · workflow.yml · 1 step
    ✗ 1 shell: ls: `nope` is in no directory of PATH

    failed at step 1: `nope` is in no directory of PATH · 0 of 1 step done
    worktree: $ROOT/home/worktrees/repo/job/job (branch prodigy/job/job)
    output: prodigy logs job 1
    next: prodigy resume job
    [exit 1]
    ");
}

#[test]
fn a_home_that_cannot_hold_state_is_refused() {
    let world = world("- shell: ls\n");
    let with_home = |home: &Path| {
        stable(&world.prodigy(&["--home", home.to_str().unwrap(), "run", "workflow.yml"]))
    };
    fs::write(world.root().join("file"), "").unwrap();
    assert_snapshot!(with_home(&world.root().join("file/home")), @"
    ----- stderr -----
    error: cannot look at `$ROOT/file/home`: Not a directory (os error 20)

    hint: set `PRODIGY_HOME` or pass `--home DIR` to use another one
    [exit 1]
    ");
    assert_snapshot!(with_home(&world.root().join("file")), @"
    ----- stderr -----
    error: `$ROOT/file` is not a directory

    hint: set `PRODIGY_HOME` or pass `--home DIR` to use another one
    [exit 1]
    ");
    let open = world.root().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    assert_snapshot!(with_home(&open), @"
    ----- stderr -----
    error: the home `$ROOT/open` can be written by other users (mode 777)

    hint: `chmod go-w $ROOT/open`
    [exit 1]
    ");
    let mut without = world.prodigy_command(&["run", "workflow.yml"]);
    let seen =
        world.to_output(&without.env_remove("HOME").env_remove("PRODIGY_HOME").output().unwrap());
    assert_snapshot!(stable(&seen), @"
    ----- stderr -----
    error: there is no place for state: `HOME` is not set

    hint: set `PRODIGY_HOME` or pass `--home DIR`
    [exit 2]
    ");
    if rustix::process::geteuid().is_root() {
        let foreign = world.root().join("foreign");
        fs::create_dir(&foreign).unwrap();
        std::os::unix::fs::chown(&foreign, Some(12345), None).unwrap();
        assert_snapshot!(with_home(&foreign), @"
        ----- stderr -----
        error: the home `$ROOT/foreign` belongs to the user with number 12345, not to you

        hint: set `PRODIGY_HOME` or pass `--home DIR` to use another one
        [exit 1]
        ");
    } else {
        let closed = world.root().join("closed");
        fs::create_dir(&closed).unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o500)).unwrap();
        assert_snapshot!(with_home(&closed), @"
        ----- stderr -----
        error: the home `$ROOT/closed` cannot be written: Permission denied (os error 13)

        hint: set `PRODIGY_HOME` or pass `--home DIR` to use another one
        [exit 1]
        ");
    }
    assert_nothing_made(&world);
}

#[test]
fn a_missing_or_old_git_is_named() {
    let world = world("- shell: ls\n");
    let empty = world.root().join("empty");
    fs::create_dir(&empty).unwrap();
    let run = |path: &str| {
        let mut command = world.prodigy_command(&["run", "workflow.yml"]);
        stable(&world.to_output(&command.env("PATH", path).output().unwrap()))
    };
    assert_snapshot!(run(empty.to_str().unwrap()), @"
    ----- stderr -----
    error: git is not installed, or not on the `PATH`

    hint: `prodigy doctor` shows what is needed
    [exit 1]
    ");
    let fake = empty.join("git");
    fs::write(&fake, "#!/bin/sh\necho git version 2.30.0\n").unwrap();
    fs::set_permissions(&fake, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", empty.display(), std::env::var("PATH").unwrap());
    assert_snapshot!(run(&path), @"
    ----- stderr -----
    error: git 2.30.0 is too old: git 2.38 or newer is needed

    hint: `prodigy doctor` shows what is needed
    [exit 1]
    ");
    fs::write(&fake, "#!/bin/sh\necho nonsense\n").unwrap();
    assert_snapshot!(run(&path), @"
    ----- stderr -----
    error: `git version` printed something unexpected
    [exit 1]
    ");
    assert_nothing_made(&world);
}

#[test]
fn names_cannot_be_paths() {
    let world = world("- shell: ls\n");
    let long = "x".repeat(300);
    let bad = ["a/b", "../x", "..", "/etc/passwd", "a\nb", "-x", "", "a b", "x.lock", &long];
    for job in bad {
        let job_id = format!("--job-id={job}");
        let seen = world.prodigy(&["run", "workflow.yml", &job_id]);
        assert_eq!(seen.code, Some(2), "{job}");
        for command in ["resume", "events", "logs", "repair", "verify", "pause", "stop"] {
            let seen = world.prodigy(&[command, "--", job]);
            assert_eq!(seen.code, Some(2), "{command} {job}: {seen}");
        }
    }
    assert_snapshot!(world.prodigy(&["resume", "a\n\x1b[31mb"]), @r#"
    ----- stderr -----
    error: invalid value 'a
    b' for '[JOB]': `a\n\u{1b}[31mb` is not a usable name: use letters, digits, `.`, `_` and `-`, start with a letter or digit, at most 120 characters

    For more information, try '--help'.
    [exit 2]
    "#);
    assert_nothing_made(&world);
}

#[test]
fn step_names_may_be_anything() {
    let long = "n".repeat(300);
    let world = world(&format!(
        "- name: ../../etc/passwd\n  id: one\n  shell: 'true'\n\
         - name: \"line\\nbreak\\e[31m\"\n  shell: 'true'\n\
         - name: {long}\n  shell: 'true'\n"
    ));
    assert_snapshot!(run(&world), @r#"
    ----- stderr -----
    · job job · workflow.yml · 3 steps
    ✓ 1 ../../etc/passwd  [time]
    ✓ 2 line\nbreak\u{1b}[31m  [time]
    ✓ 3 nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn  [time]

    completed · 3 of 3 steps
    nothing to merge: the steps made no commit
    next: prodigy events job
    "#);
    let names: Vec<_> = records(&world)
        .iter()
        .filter_map(|record| Some(record.get("name")?.as_str()?.to_owned()))
        .collect();
    assert_eq!(names, ["../../etc/passwd", "line\nbreak\u{1b}[31m", &long]);
    let listed = world.prodigy(&["events", "job", "--type", "step_started"]).stdout;
    let times = Regex::new(r"\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d\.\d+").unwrap();
    assert_snapshot!(times.replace_all(&listed, "[time]"), @r#"
    [time] UTC
    [time]  step_started        1  ../../etc/passwd
    [time]  step_started        2  line break\u{1b}[31m
    [time]  step_started        3  nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn…
    "#);
}

#[test]
fn a_reader_that_goes_away_ends_the_program_quietly() {
    let world = world("- shell: 'true'\n");
    run_with(&world, &["-n", "300"]);
    for args in [["events", "job"].as_slice(), &["schema", "workflow"], &["jobs", "--json"]] {
        let mut child = world
            .prodigy_command(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = child.stdout.take().unwrap();
        stdout.read_exact(&mut [0]).unwrap();
        drop(stdout);
        let seen = world.to_output(&child.wait_with_output().unwrap());
        assert_eq!((seen.to_string().as_str(), seen.code), ("", Some(0)), "{args:?}");
    }
    let mut closed = world.command("sh");
    closed.args(["-c", "exec \"$0\" schema workflow >&-", PRODIGY]);
    assert_snapshot!(world.to_output(&closed.output().unwrap()), @"");
    let mut full = world.command("sh");
    full.args(["-c", "exec \"$0\" schema workflow >/dev/full", PRODIGY]);
    assert_snapshot!(world.to_output(&full.output().unwrap()), @"
    ----- stderr -----
    error: cannot write to standard output: No space left on device (os error 28)
    [exit 1]
    ");
}

#[test]
fn a_run_whose_terminal_goes_away_is_not_lost() {
    let world = world("- shell: echo x > x && git add x && git commit --quiet -m x\n");
    let mut child = world
        .prodigy_command(&["run", "workflow.yml", "-y", "--job-id", "job"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop((child.stdout.take(), child.stderr.take()));
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(world.read("x"), "x\n");
}
