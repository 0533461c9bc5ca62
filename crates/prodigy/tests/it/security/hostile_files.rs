//! Files that an agent or a mistake has turned into something else, and values that mean harm.

use std::{fmt::Write as _, fs, os::unix::fs::symlink, path::Path};

use insta::assert_snapshot;
use prodigy_testkit::TestEnv;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::fixture::workflow::{stable, world};

/// Runs `prodigy` with a limit, since what is tested here used to wait for ever.
fn bounded(world: &TestEnv, args: &[&str]) -> String {
    let mut command = world.command("timeout");
    command.args(["-k", "1", "20", env!("CARGO_BIN_EXE_prodigy")]).args(args);
    stable(&world.to_output(&command.output().unwrap()))
}

/// Runs the workflow as job `job`.
fn run(world: &TestEnv) -> String {
    bounded(world, &["run", "workflow.yml", "-y", "--job-id", "job"])
}

/// Returns only the lines that say what went wrong.
fn complaints(seen: &str) -> String {
    let is_wanted = |line: &&str| {
        ["✗", "error", "  caused", "hint", "[exit"].iter().any(|start| line.starts_with(start))
    };
    seen.lines().filter(is_wanted).collect::<Vec<_>>().join("\n")
}

/// Puts a pipe in the place of a file.
fn pipe(path: &Path) {
    if path.symlink_metadata().is_ok() {
        fs::remove_file(path).unwrap();
    }
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

#[test]
fn a_pipe_in_the_place_of_a_steps_file_fails_the_step() {
    for (number, (steps, expected)) in [
        (
            "- shell: mkfifo pipe\n- write_file: { path: pipe, content: x }\n",
            "✗ 2 write_file: pipe: cannot write `pipe`: it is not a regular file",
        ),
        (
            "- shell: mkfifo pipe; echo x\n  name: a\n  output_file: pipe\n",
            "✗ 1 a: output_file `pipe`: it is not a regular file",
        ),
        ("- shell: mkfifo $PRODIGY_RESULT_FILE; exit 3\n  name: a\n", "✗ 1 a: exit code 3"),
        (
            "- shell: 'true'\n  name: a\n  validate: { shell: mkfifo r, result_file: r }\n",
            "✗ 1 a: the judge's `r` cannot be read: it is not a regular file",
        ),
        (
            "- shell: ln -s f l; touch f\n- write_file: { path: l, content: x }\n",
            "✗ 2 write_file: l: cannot write `l`: it is a symbolic link",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let seen = complaints(&run(&world(steps)));
        assert_eq!(seen, format!("{expected}\n[exit 1]"), "{number}");
    }
}

#[test]
fn a_judges_result_file_does_not_lead_out_of_the_worktree() {
    let world = world(
        "- shell: 'true'\n  name: a\n  validate: { shell: 'ln -s \"$OUT\" r', result_file: r }\n",
    );
    let out = world.root().join("out.json");
    fs::write(&out, r#"{"completion_percentage": 100}"#).unwrap();
    let world = world.env("OUT", out.to_str().unwrap());
    assert_snapshot!(complaints(&run(&world)), @"
    ✗ 1 a: result_file: `r` leads out of the worktree by a symbolic link
    [exit 1]
    ");
}

#[test]
fn pipes_and_endless_files_are_refused_as_input() {
    let world = world("- shell: ls\n");
    for (file, workflow) in [
        ("env.yml", "env_files: [../input]\nsteps: [{ shell: ls }]\n"),
        ("secret.yml", "secrets: { S: { file: ../input } }\nsteps: [{ shell: ls }]\n"),
        ("param.yml", "parameters: { p: { default: x } }\nsteps: [{ shell: ls }]\n"),
        (
            "map.yml",
            "mode: mapreduce\nmap: { input: { file: ../input }, agent_template: [{ shell: ls }] }\n",
        ),
    ] {
        world.write(file, workflow);
    }
    let input = world.root().join("input");
    let mut seen = String::new();
    for kind in ["pipe", "endless"] {
        if kind == "pipe" {
            pipe(&input);
        } else {
            fs::remove_file(&input).unwrap();
            symlink("/dev/zero", &input).unwrap();
        }
        for args in [
            ["run", "env.yml", "-y"].as_slice(),
            &["run", "secret.yml", "-y"],
            &["run", "param.yml", "-y", "--param-file", "../input"],
            &["plan", "map.yml"],
        ] {
            writeln!(seen, "{kind} {args:?}\n{}", complaints(&bounded(&world, args))).unwrap();
        }
    }
    assert_snapshot!(seen, @r#"
    pipe ["run", "env.yml", "-y"]
    error: the environment file cannot be used: `$ROOT/repo/../input` is not a regular file
    [exit 9]
    pipe ["run", "secret.yml", "-y"]
    error: the secret `S` cannot be had: `$ROOT/repo/../input` is not a regular file
    [exit 1]
    pipe ["run", "param.yml", "-y", "--param-file", "../input"]
    error: `../input` is not a regular file
    hint: a file of parameters is YAML or JSON, with a line `NAME: VALUE` for each
    [exit 2]
    pipe ["plan", "map.yml"]
    error: `../input` is not a regular file
    [exit 9]
    endless ["run", "env.yml", "-y"]
    error: the environment file cannot be used: `$ROOT/repo/../input` is not a regular file
    [exit 9]
    endless ["run", "secret.yml", "-y"]
    error: the secret `S` cannot be had: `$ROOT/repo/../input` is not a regular file
    [exit 1]
    endless ["run", "param.yml", "-y", "--param-file", "../input"]
    error: `../input` is not a regular file
    hint: a file of parameters is YAML or JSON, with a line `NAME: VALUE` for each
    [exit 2]
    endless ["plan", "map.yml"]
    error: `../input` is not a regular file
    [exit 9]
    "#);
}

/// Resumes a failed job in whose state one file was replaced, and returns the complaints.
fn resumed_with(file: &str, kind: &str) -> String {
    let world = world("- shell: echo\n- shell: exit 1\n  name: a\n");
    run(&world);
    let path = world.home().join(file);
    if path.exists() {
        fs::remove_file(&path).unwrap();
    }
    let victim = world.root().join("victim");
    match kind {
        "pipe" => pipe(&path),
        "link" => symlink(&victim, &path).unwrap(),
        _ => fs::create_dir(&path).unwrap(),
    }
    let said = complaints(&bounded(&world, &["resume", "job", "-y"]));
    assert!(!victim.exists(), "{kind} {file}");
    said
}

#[test]
fn state_that_is_no_file_is_refused_and_never_waited_for() {
    let mut seen = String::new();
    for file in [
        "state/repo/repository",
        "state/repo/mapreduce/jobs/job/sources.json",
        "state/repo/mapreduce/jobs/job/checkpoint.json",
        "state/repo/mapreduce/jobs/job/guard.json",
        "state/repo/mapreduce/jobs/job/lock",
        "logs/repo/job/workflow/attempt-1.out",
        "../repo/.git/prodigy.lock",
    ] {
        for kind in ["pipe", "link", "directory"] {
            writeln!(seen, "{kind} {file}\n{}\n", resumed_with(file, kind)).unwrap();
        }
    }
    assert_snapshot!(seen, @"
    pipe state/repo/repository
    error: `$ROOT/home/state/repo/repository` is not a regular file
    [exit 1]

    link state/repo/repository
    error: `$ROOT/home/state/repo/repository` is not a regular file
    [exit 1]

    directory state/repo/repository
    error: `$ROOT/home/state/repo/repository` is not a regular file
    [exit 1]

    pipe state/repo/mapreduce/jobs/job/sources.json
    error: the stored workflow `$ROOT/home/state/repo/mapreduce/jobs/job/sources.json` is damaged
      caused by: `$ROOT/home/state/repo/mapreduce/jobs/job/sources.json` is not a regular file
    [exit 1]

    link state/repo/mapreduce/jobs/job/sources.json
    error: the stored workflow `$ROOT/home/state/repo/mapreduce/jobs/job/sources.json` is damaged
      caused by: `$ROOT/home/state/repo/mapreduce/jobs/job/sources.json` is not a regular file
    [exit 1]

    directory state/repo/mapreduce/jobs/job/sources.json
    error: the stored workflow `$ROOT/home/state/repo/mapreduce/jobs/job/sources.json` is damaged
      caused by: `$ROOT/home/state/repo/mapreduce/jobs/job/sources.json` is not a regular file
    [exit 1]

    pipe state/repo/mapreduce/jobs/job/checkpoint.json
    ✗ 2 a: exit code 1
    [exit 1]

    link state/repo/mapreduce/jobs/job/checkpoint.json
    ✗ 2 a: exit code 1
    [exit 1]

    directory state/repo/mapreduce/jobs/job/checkpoint.json
    ✗ 2 a: exit code 1
    [exit 1]

    pipe state/repo/mapreduce/jobs/job/guard.json
    error: `$ROOT/home/state/repo/mapreduce/jobs/job/guard.json` is not a regular file
    hint: `prodigy doctor` checks the home
    [exit 1]

    link state/repo/mapreduce/jobs/job/guard.json
    error: `$ROOT/home/state/repo/mapreduce/jobs/job/guard.json` is not a regular file
    hint: `prodigy doctor` checks the home
    [exit 1]

    directory state/repo/mapreduce/jobs/job/guard.json
    error: `$ROOT/home/state/repo/mapreduce/jobs/job/guard.json` is not a regular file
    hint: `prodigy doctor` checks the home
    [exit 1]

    pipe state/repo/mapreduce/jobs/job/lock
    error: `$ROOT/home/state/repo/mapreduce/jobs/job/lock` is not a regular file
    hint: `prodigy doctor` checks the home
    [exit 1]

    link state/repo/mapreduce/jobs/job/lock
    error: `$ROOT/home/state/repo/mapreduce/jobs/job/lock` is not a regular file
    hint: `prodigy doctor` checks the home
    [exit 1]

    directory state/repo/mapreduce/jobs/job/lock
    error: `$ROOT/home/state/repo/mapreduce/jobs/job/lock` is not a regular file
    hint: `prodigy doctor` checks the home
    [exit 1]

    pipe logs/repo/job/workflow/attempt-1.out
    ✗ 2 a: cannot write the log `$ROOT/home/logs/repo/job/workflow/attempt-1.out`: it is not a regular file
    [exit 1]

    link logs/repo/job/workflow/attempt-1.out
    ✗ 2 a: cannot write the log `$ROOT/home/logs/repo/job/workflow/attempt-1.out`: it is a symbolic link
    [exit 1]

    directory logs/repo/job/workflow/attempt-1.out
    ✗ 2 a: cannot write the log `$ROOT/home/logs/repo/job/workflow/attempt-1.out`: Is a directory (os error 21)
    [exit 1]

    pipe ../repo/.git/prodigy.lock
    error: cannot open `$ROOT/repo/.git/prodigy.lock`: it is not a regular file
    [exit 1]

    link ../repo/.git/prodigy.lock
    error: cannot open `$ROOT/repo/.git/prodigy.lock`: it is a symbolic link
    [exit 1]

    directory ../repo/.git/prodigy.lock
    error: cannot open `$ROOT/repo/.git/prodigy.lock`: Is a directory (os error 21)
    [exit 1]
    ");
}

#[test]
fn nothing_is_changed_where_a_link_in_the_place_of_the_worktree_leads() {
    let world = world(
        "- shell: 'test -e \"$VICTIM/../go\" || { cd /; rm -rf \"$PRODIGY_WORKTREE\"; ln -s \"$VICTIM\" \"$PRODIGY_WORKTREE\"; exit 1; }'\n  name: a\n  on_failure: true\n- shell: ls\n",
    );
    let victim = world.root().join("victim");
    fs::create_dir_all(victim.join("deep")).unwrap();
    fs::write(victim.join("deep/file"), "precious").unwrap();
    let world = world.env("VICTIM", victim.to_str().unwrap());
    assert_snapshot!(run(&world), @"
    ----- stderr -----
    · job job · workflow.yml · 2 steps
    ✗ 1 a: exit code 1
    ✗ 1 a: the worktree cannot be recorded: `$ROOT/home/worktrees/repo/job/job` is no longer the job's worktree: something else was put in its place

    failed at step 1: the worktree cannot be recorded: `$ROOT/home/worktrees/repo/job/job` is no longer the job's worktree: something else was put in its place · 0 of 2 steps done
    worktree: $ROOT/home/worktrees/repo/job/job (branch prodigy/job/job)
    output: prodigy logs job 1
    next: prodigy resume job
    [exit 1]
    ");
    fs::write(world.root().join("go"), "").unwrap();
    assert_snapshot!(bounded(&world, &["resume", "job", "-y"]), @"
    ----- stderr -----
    · job job resumed · 0 of 2 steps done
    ✓ 1 a  [time]
    ✓ 2 shell: ls  [time]

    completed · 2 of 2 steps
    nothing to merge: the steps made no commit
    next: prodigy events job
    ");
    let names: Vec<_> =
        fs::read_dir(&victim).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["deep"]);
    assert_eq!(fs::read_to_string(victim.join("deep/file")).unwrap(), "precious");
}

#[test]
fn a_pipe_in_the_place_of_a_file_that_git_reads_is_not_waited_for() {
    let mut seen = String::new();
    for path in [
        "$(git rev-parse --git-dir)/HEAD",
        "$(git rev-parse --git-dir)/index",
        "$(git rev-parse --git-common-dir)/refs/heads/prodigy/job/job",
        ".gitattributes",
        ".gitignore",
    ] {
        let world = world(&format!(
            "- shell: p={path}; rm -f $p; mkfifo $p\n  name: a\n- shell: ls\n  auto_commit: true\n"
        ));
        writeln!(seen, "{path}\n{}\n", complaints(&run(&world))).unwrap();
    }
    assert_snapshot!(seen, @"
    $(git rev-parse --git-dir)/HEAD
    ✗ 1 a: the worktree cannot be recorded: `$ROOT/repo/.git/worktrees/job/HEAD` is not a regular file
    [exit 1]

    $(git rev-parse --git-dir)/index
    ✗ 1 a: the worktree cannot be recorded: `$ROOT/repo/.git/worktrees/job/index` is not a regular file
    [exit 1]

    $(git rev-parse --git-common-dir)/refs/heads/prodigy/job/job
    ✗ 1 a: the worktree cannot be recorded: `$ROOT/repo/.git/refs/heads/prodigy/job/job` is not a regular file
    [exit 1]

    .gitattributes
    ✗ 1 a: the worktree cannot be recorded: `$ROOT/home/worktrees/repo/job/job/.gitattributes` is not a regular file
    [exit 1]

    .gitignore
    ✗ 1 a: the worktree cannot be recorded: `$ROOT/home/worktrees/repo/job/job/.gitignore` is not a regular file
    [exit 1]
    ");
}

#[test]
fn a_file_that_is_no_workflow_is_not_included() {
    let world = world("- shell: ls\n");
    world.write("text", "root:x:0:0\nbin:x:1:1\n");
    let mut seen = String::new();
    for key in ["extends", "imports"] {
        for file in ["text", "."] {
            world.write("workflow.yml", format!("{key}: {file}\nsteps: [{{ shell: ls }}]\n"));
            seen += &complaints(&bounded(&world, &["validate", "workflow.yml"]));
            seen += "\n";
        }
    }
    assert_snapshot!(seen, @"
    error: `text` is neither a mapping nor a list of steps, but text
    [exit 9]
    error: cannot read `.`: `.` is a directory, not a file
    [exit 9]
    error: `text` is neither a mapping nor a list of steps, but text
    [exit 9]
    error: cannot read `.`: `.` is a directory, not a file
    [exit 9]
    ");
}

#[test]
fn values_that_no_variable_can_hold_are_refused_before_anything_runs() {
    let world = world("- shell: ls\n");
    world.write("nul", "A=x\0y\n");
    let mut seen = String::new();
    for head in ["env_files: [nul]", "secrets: { S: { file: nul } }"] {
        world.write("workflow.yml", format!("{head}\nsteps: [{{ shell: ls }}]\n"));
        seen += &complaints(&run(&world));
        seen += "\n";
    }
    assert_snapshot!(seen, @"
    error: `$ROOT/repo/nul:1`: expected `NAME=value` without a NUL byte
    [exit 9]
    error: the secret `S` cannot be had: it holds a NUL byte, which no variable can
    [exit 1]
    ");
}

#[test]
fn a_directory_whose_name_is_not_text_is_refused() {
    use std::os::unix::ffi::OsStrExt as _;
    let world = world("- shell: ls\n");
    let odd = world.root().join(std::ffi::OsStr::from_bytes(b"odd\xff"));
    fs::rename(world.repo(), &odd).unwrap();
    let mut command = world.prodigy_command(&["run", "workflow.yml", "-y"]);
    let seen = world.to_output(&command.current_dir(&odd).output().unwrap());
    assert_snapshot!(stable(&seen), @"
    ----- stderr -----
    error: the path `$ROOT/odd�` is not UTF-8 text

    hint: rename the directory
    [exit 2]
    ");
}

#[test]
fn a_secret_in_the_name_of_a_workflow_is_masked() {
    let world = world("name: to hunter2\nsecrets: { S: { env: S } }\nsteps: [{ shell: ls }]\n");
    let world = world.env("S", "hunter2");
    run(&world);
    let seen = bounded(&world, &["jobs", "show", "job", "--json"]);
    let name = seen.lines().find(|line| line.contains("workflow_name")).unwrap();
    assert_snapshot!(name.trim(), @r#""workflow_name": "to ***","#);
    assert!(!bounded(&world, &["events", "job", "--json"]).contains("hunter2"));
}

#[test]
fn a_file_whose_name_is_not_text_is_named_and_not_passed_over() {
    use std::os::unix::ffi::OsStrExt as _;
    let world = world("- shell: echo \"${item}\"\n");
    let name = std::ffi::OsStr::from_bytes(b"odd-\xff.txt");
    std::fs::write(world.repo().join(name), "").unwrap();
    assert_snapshot!(world.prodigy(&["run", "workflow.yml", "--map", "*.txt"]), @"
    ----- stderr -----
    error: the name of the file `odd-�.txt` is not UTF-8

    hint: rename it, or use a pattern that does not match it
    [exit 2]
    ");
    world.write("deep/er/x.txt", "");
    world.write("deep/x.txt", "");
    let seen = world.prodigy(&["run", "workflow.yml", "--dry-run", "--map", "**/x.txt"]);
    assert_eq!(seen.stdout.lines().nth(2).unwrap(), "rounds    2 deep/er/x.txt deep/x.txt");
}
