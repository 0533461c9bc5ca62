//! Signals that reach more than prodigy itself: Ctrl-C in a terminal goes to its whole process
//! group, a service manager ends every process of a service.

use std::{
    fs,
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    time::Duration,
};

use insta::assert_snapshot;
use prodigy_testkit::TestEnv;
use rustix::process::{Signal, kill_process_group};

use crate::fixture::{
    map_job::{assert_code, has_told, map_world, of_type, resume, started},
    workflow::{SpawnedProdigy, stable},
};

/// Starts `prodigy` as a shell does in a terminal: in a process group of its own.
fn in_a_group(world: &TestEnv, args: &[&str]) -> SpawnedProdigy {
    SpawnedProdigy::of(world.prodigy_command(args).process_group(0))
}

#[test]
fn ctrl_c_in_a_terminal_at_any_moment_fails_no_item() {
    let world = map_world(
        r#"
map:
  input: { items: [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t] }
  max_parallel: 4
  agent_template:
    - claude: "do ${item}"
      commit_required: true
agents:
  claude:
    type: simulated
    rules: [{ edits: [{ path: "x-{prompt}", content: y }], commit: c }]
"#,
    );
    let mut args = vec!["run", "workflow.yml", "-y", "--job-id", "job"];
    for delay in [0, 9, 31, 52, 70, 105, 17, 44, 90, 61] {
        let before = of_type_if_any(&world, "agent_started");
        let mut running = in_a_group(&world, &args);
        // At the first moment there may be no job yet that could be resumed.
        running.until(&world, "an attempt begins, or all are over", || {
            of_type_if_any(&world, "agent_started") > before || has_told(&world, "job_completed")
        });
        std::thread::sleep(Duration::from_millis(delay));
        kill_process_group(running.pid(), Signal::INT).ok();
        let seen = running.seen(&world);
        assert_eq!(of_type(&world, "item_dead_lettered").len(), 0, "{seen}");
        if seen.code == Some(0) {
            break;
        }
        assert_code(&seen, 130);
        assert!(seen.stderr.contains("paused: stopped by Ctrl-C"), "{seen}");
        args = vec!["resume", "job"];
    }
    if !has_told(&world, "job_completed") {
        assert_code(&resume(&world), 0);
    }
    assert_eq!(world.git(&["ls-tree", "--name-only", "main"]).matches("x-do").count(), 20);
}

fn of_type_if_any(world: &TestEnv, kind: &str) -> usize {
    if has_told(world, kind) { of_type(world, kind).len() } else { 0 }
}

/// Makes a world whose git, once, is ended by the Ctrl-C that ends prodigy too: when it is called
/// with the word in the file `arm` beside the repository.
fn with_fragile_git(workflow: &str) -> TestEnv {
    let world = map_world(workflow);
    let root = world.root().display().to_string();
    let bin = world.root().join("bin");
    fs::create_dir(&bin).unwrap();
    let script = format!(
        r#"#!/bin/sh
if word=$(cat {root}/arm 2>/dev/null); then
  case " $* " in *" $word "*)
    rm {root}/arm; kill -INT $PPID; kill -INT $$;;
  esac
fi
PATH=${{PATH#{root}/bin:}}
exec git "$@"
"#
    );
    fs::write(bin.join("git"), script).unwrap();
    fs::set_permissions(bin.join("git"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap();
    world.env("PATH", &format!("{root}/bin:{path}"))
}

#[test]
fn a_git_that_is_ended_with_the_run_fails_no_item() {
    let world = with_fragile_git(
        r"
setup: [shell: 'echo worktree > ROOT/arm']
map:
  input: { items: [a] }
  agent_template:
    - shell: 'echo x > x; git add x; git commit --quiet --message x'
",
    );
    assert_snapshot!(stable(&started(&world).seen(&world)), @"
    ----- stderr -----
    · job job · workflow.yml · mapreduce
    ✓ setup.1 shell: echo worktree > $ROOT/arm  [time]
    · 1 item

    paused: stopped by Ctrl-C · 0 of 1 item done · [time]
    items: 0 successful, 1 waiting
    worktree: $ROOT/home/worktrees/repo/job/job (branch prodigy/job/job)
    next: prodigy resume job
    [exit 130]
    ");
    assert_code(&resume(&world), 0);
    assert_eq!(world.git(&["show", "main:x"]), "x");
    assert_eq!(of_type(&world, "agent_failed").len(), 0);
}

#[test]
fn a_merge_that_is_ended_with_the_run_pauses_it() {
    let world = with_fragile_git(
        r"
map:
  input: { items: [a, b] }
  agent_timeout_secs: 60
  agent_template:
    - shell: |
        echo x > ${item}; git add ${item}; git commit --quiet --message ${item}
        touch ROOT/begun-${item}
        until test -e ROOT/begun-a && test -e ROOT/begun-b; do sleep 0.02; done
        test -e ROOT/armed || { touch ROOT/armed; echo merge-tree > ROOT/arm; }
",
    );
    let seen = started(&world).seen(&world);
    assert_code(&seen, 130);
    assert!(seen.stderr.contains("paused: stopped by Ctrl-C"), "{seen}");
    assert_code(&resume(&world), 0);
    assert_eq!(world.git(&["show", "main:a", "main:b"]), "x\nx");
    assert_eq!(of_type(&world, "item_dead_lettered").len(), 0);
}

#[test]
fn a_supervisor_that_is_ended_with_the_run_fails_no_item() {
    let world = map_world(
        r"
map:
  input: { items: [a] }
  agent_template:
    - shell: |
        test ! -e ROOT/hit || exit 0
        touch ROOT/hit
        kill -INT $(cut -d ' ' -f 4 /proc/$PPID/stat)
        kill -KILL $PPID
        sleep 60
",
    );
    assert_snapshot!(stable(&started(&world).seen(&world)), @"
    ----- stderr -----
    · job job · workflow.yml · mapreduce
    · 1 item

    paused: stopped by Ctrl-C · 0 of 1 item done · [time]
    items: 0 successful, 1 waiting
    worktree: $ROOT/home/worktrees/repo/job/job (branch prodigy/job/job)
    next: prodigy resume job
    [exit 130]
    ");
    assert_code(&resume(&world), 0);
    assert_eq!(of_type(&world, "item_dead_lettered").len(), 0);
}
