//! Values, outputs and surroundings that mean harm.

use std::{
    fs::{self, File},
    io::Read as _,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::Command,
    time::Duration,
};

use insta::assert_snapshot;
use prodigy_testkit::TestEnv;
use regex::Regex;
use rustix::{
    fs::{Mode, OFlags},
    process::Signal,
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};

use crate::{
    fixture::workflow::{SpawnedProdigy, stable, world},
    process::eventually,
};

/// Runs a command on a terminal and returns everything that reaches it.
///
/// `during` is called once the command runs, with its process.
fn on_a_terminal(
    world: &TestEnv,
    args: &[&str],
    during: impl FnOnce(&mut SpawnedProdigy),
) -> (String, i32) {
    on_a_terminal_of(world, args, (80, 24), during)
}

/// Runs a command on a terminal with so many columns and rows.
pub(crate) fn on_a_terminal_of(
    world: &TestEnv,
    args: &[&str],
    size: (u16, u16),
    during: impl FnOnce(&mut SpawnedProdigy),
) -> (String, i32) {
    on_a_terminal_typing(world, args, size, "", during)
}

/// Runs a command on a terminal at which something was typed in advance.
pub(crate) fn on_a_terminal_typing(
    world: &TestEnv,
    args: &[&str],
    size: (u16, u16),
    typed: &str,
    during: impl FnOnce(&mut SpawnedProdigy),
) -> (String, i32) {
    command_on_a_terminal(world, world.prodigy_command(args), size, typed, during)
}

/// Starts a command on a terminal at which something was typed in advance.
pub(crate) fn command_on_a_terminal(
    world: &TestEnv,
    mut command: Command,
    (columns, rows): (u16, u16),
    typed: &str,
    during: impl FnOnce(&mut SpawnedProdigy),
) -> (String, i32) {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap();
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let open = || rustix::fs::open(&name, flags, Mode::empty()).unwrap();
    let size = Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&terminal, size).unwrap();
    rustix::io::write(&terminal, typed.as_bytes()).unwrap();
    command.env("TERM", "xterm").env("NO_COLOR", "1").stdin(open());
    let mut started = SpawnedProdigy::with_streams(&mut command, open().into(), open().into());
    drop(command);
    let screen = started.screen();
    let reader = std::thread::spawn({
        let screen = screen.clone();
        move || {
            let (mut terminal, mut bytes) = (File::from(terminal), [0; 4096]);
            // The end of a terminal is an error.
            while let Ok(read) = terminal.read(&mut bytes) {
                screen.add(bytes.get(..read).unwrap());
            }
        }
    });
    during(&mut started);
    let code = started.seen(world).code.unwrap();
    reader.join().unwrap();
    (screen.text(), code)
}

/// Checks that a text can steer a terminal only by what prodigy itself sends.
#[track_caller]
fn assert_harmless(text: &str) {
    let ours = Regex::new(r"\r\n|\r(\x1b\[\d+A)?|\x1b\[[JK]").unwrap();
    let ours = ours.replace_all(text, "\n");
    let raw: Vec<char> = ours.chars().filter(|c| c.is_control() && *c != '\n').collect();
    assert_eq!(raw, [], "{ours:?}");
}

const EVIL: &str = "\u{1b}]0;pwned\u{7}\u{1b}[31m\u{9b}2J\rover\u{8}";

/// Returns a world with control characters wherever a workflow can have them.
fn evil_world() -> TestEnv {
    world(
        r#"
name: "name \e]0;pwned\a\e[31m\x9b2J\rover"
steps:
  - name: "step \e]0;pwned\a\e[31m\x9b2J\rover\nforged line"
    shell: printf '\033]0;pwned\007\033[31mout\rover\n'; printf '%s' "${item}" > item
  - foreach: { input: ["\e[31mred\rover"], do: [{ shell: 'echo "${item}" >&2; exit 3' }] }
    on_failure: true
  - shell: printf '\033]0;pwned\007\033[31merr\rover\n' >&2; echo "{\"a\"}"; exit 1
    name: "\e[31mlast\r"
    capture: { v: { format: json } }
"#,
    )
}

#[test]
fn control_characters_never_reach_the_terminal() {
    let world = evil_world();
    let args = ["run", "workflow.yml", "-y", "--job-id", "job", "--args", EVIL];
    let (seen, code) = on_a_terminal(&world, &args, |_| {});
    assert_eq!(code, 1);
    assert_harmless(&seen);
    assert!(seen.contains("step \\u{1b}]0;pwned\\u{7}"), "{seen}");
    assert!(!seen.contains("\nforged line"), "{seen}");
    for args in [
        ["events", "job"].as_slice(),
        &["events", "job", "--type", "step_failed"],
        &["events", "search", "job", "step"],
        &["events", "stats", "job"],
        &["logs", "job"],
        &["logs", "job", "1"],
        &["jobs"],
        &["jobs", "show", "job"],
        &["plan", "workflow.yml"],
        &["resume", "job"],
    ] {
        let (seen, _) = on_a_terminal(&world, args, |_| {});
        assert!(!seen.is_empty(), "{args:?}");
        assert_harmless(&seen);
    }
}

#[test]
fn control_characters_in_files_and_names_never_reach_the_terminal() {
    let world = evil_world();
    world.write("evil.yml", format!("- shell: ls {EVIL}\n  {EVIL}: 1\n"));
    world.write("keys.yml", "- shell: ls\n  \"\\e[31mkey\\r\": 1\n");
    world.write("params.yml", "\"\\e[31mp\": 1\n");
    let missing = format!("{EVIL}.yml");
    let found = format!("there {}", missing.replace('/', ""));
    world.write(&found, "- shel: ls\n");
    for args in [
        ["run", "evil.yml"].as_slice(),
        &["validate", "evil.yml", "keys.yml"],
        &["run", "keys.yml"],
        &["run", &missing],
        &["run", &found],
        &["validate", &found],
        &["run", "workflow.yml", "--param-file", "params.yml"],
        &["run", "workflow.yml", "--param", &missing],
        &["run", "workflow.yml", "--profile", EVIL],
        &["run", "workflow.yml", "--path", EVIL],
        &["exec", EVIL],
    ] {
        let (seen, code) = on_a_terminal(&world, args, |_| {});
        assert!(code > 0, "{args:?}: {seen}");
        assert_harmless(&seen);
    }
}

#[test]
fn ctrl_c_answers_the_question_whether_to_merge() {
    let world = world("- shell: echo x > x && git add x && git commit --quiet -m x\n");
    let args = ["run", "workflow.yml", "--job-id", "job"];
    let (seen, code) = on_a_terminal(&world, &args, |started| {
        let screen = started.screen();
        started.until(&world, "it asks", || screen.text().contains("[y/N]"));
        started.signal(Signal::INT);
    });
    let seen = seen.replace("\r\n", "\n").replace("\r\x1b[2K", "");
    let asked = seen.find("merge prodigy").unwrap();
    assert_snapshot!(seen[asked..], @"
    merge prodigy/job/job into main (1 commit, 1 file)? [y/N] 

    paused: stopped by Ctrl-C · 1 of 1 step done
    next: prodigy resume job
    ");
    assert_eq!(code, 130);
    assert_eq!(world.prodigy(&["resume", "-y"]).code, Some(0));
    assert_eq!(world.read("x"), "x\n");
}

#[test]
fn a_step_that_prints_without_end_costs_no_memory() {
    let world = world(
        "- shell: yes 'all work and no play makes a dull program' | head -c 300000000\n  capture: big\n  on_failure: true\n",
    )
    .env("PRODIGY_LOG_CAP", "1MiB");
    let started = SpawnedProdigy::new(&world, &["run", "workflow.yml", "-y", "--job-id", "job"]);
    let mut peaks = [0; 2];
    eventually("it ends", Duration::from_secs(60), || {
        let pid = started.pid().as_raw_nonzero().get();
        peaks[0] = peak(pid).unwrap_or(peaks[0]);
        for child in supervisors(pid) {
            peaks[1] = peaks[1].max(peak(child).unwrap_or_default());
        }
        peak(pid).is_none()
    });
    assert_snapshot!(stable(&started.seen(&world)), @"
    ----- stderr -----
    · job job · workflow.yml · 1 step
    ✗ 1 shell: yes 'all work and no play makes a dull program' | head -c 3…: cannot capture `big`: the output has 300000000 bytes, and a variable holds at most 1048576; use `output_file`
    ~ 1 shell: yes 'all work and no play makes a dull program' | head -c 3… (failed, going on)  [time]

    completed with failures: 1 step failed · 1 of 1 step
    nothing to merge: the steps made no commit
    next: prodigy events job
    ");
    assert!(peaks.iter().all(|peak| (1..40_000).contains(peak)), "{peaks:?} KiB");
    let log = world.home().join("logs/repo/job/workflow/attempt-1.out");
    let size = fs::metadata(log).unwrap().len();
    assert!((1 << 20..(1 << 20) + 200).contains(&size), "{size}");
}

/// Returns the most memory that a process ever had, in KiB; `None` if it has ended.
fn peak(pid: i32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Returns the supervisors that a process has started.
fn supervisors(pid: i32) -> Vec<i32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let lists =
        threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("children")).ok());
    let children: Vec<i32> = lists
        .flat_map(|list| {
            list.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<_>>()
        })
        .collect();
    let is_supervisor = |pid: &i32| {
        fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| line.split(|byte| *byte == 0).nth(1) == Some(b"__supervise"))
    };
    children.into_iter().filter(is_supervisor).collect()
}

#[test]
fn state_is_private_whatever_the_umask() {
    for umask in ["000", "077"] {
        let world = world(
            "- shell: echo x > x && git add x && git commit --quiet -m x\n\
             - foreach: { input: [a, b], parallel: 2, do: [{ shell: echo err >&2 }] }\n\
             - shell: exit 1\n",
        );
        let mut command = world.command("sh");
        let script = format!("umask {umask}; exec \"$0\" run workflow.yml -y --job-id job");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_prodigy")]);
        let seen = world.to_output(&command.output().unwrap());
        assert_eq!(seen.code, Some(1), "{umask}: {seen}");
        let mut found = Vec::new();
        modes(&world.home(), &mut found);
        assert!(found.len() > 15, "{found:?}");
        found.retain(|line| !line.starts_with("d700 ") && !line.starts_with("f600 "));
        assert_eq!(found, Vec::<String>::new(), "umask {umask}");
    }
}

/// Lists files and directories with their permissions; what is in a worktree is the step's own.
fn modes(path: &Path, found: &mut Vec<String>) {
    let metadata = path.symlink_metadata().unwrap();
    let kind = if metadata.is_dir() { 'd' } else { 'f' };
    let mode = metadata.permissions().mode() & 0o777;
    if path.ends_with("worktrees/repo/job/job") {
        return;
    }
    found.push(format!("{kind}{mode:o} {}", path.display()));
    if metadata.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            modes(&entry.unwrap().path(), found);
        }
    }
}

#[test]
fn secrets_are_in_no_command_line() {
    let world = world(
        r#"
secrets: { TOKEN: { env: MY_SECRET } }
agents:
  cat: { type: command, command: [sh, -c, "touch ../asked; read -r line; while test ! -e ../answer; do sleep 0.01; done"], prompt: stdin }
steps:
  - shell: 'touch ../begun; while test ! -e ../go; do sleep 0.01; done; printf %s "$TOKEN" | wc -c'
  - agent: { use: cat, prompt: "the token is ${env.TOKEN:-hidden}" }
"#,
    )
    .env("MY_SECRET", "swordfish-in-argv");
    let mut started =
        SpawnedProdigy::new(&world, &["run", "workflow.yml", "-y", "--job-id", "job"]);
    let beside = world.home().join("worktrees/repo/job");
    let mut found = Vec::new();
    for (begun, goes_on) in [("begun", "go"), ("asked", "answer")] {
        started.until(&world, begun, || beside.join(begun).exists());
        for entry in fs::read_dir("/proc").unwrap() {
            let line = fs::read(entry.unwrap().path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            if line.contains("swordfish-in-argv") {
                found.push(line);
            }
        }
        fs::write(beside.join(goes_on), "").unwrap();
    }
    assert_eq!(started.seen(&world).code, Some(0));
    assert_eq!(found, Vec::<String>::new());
}
