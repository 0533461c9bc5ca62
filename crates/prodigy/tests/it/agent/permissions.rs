//! `permission_mode`: what agents are told that they may do, and what is refused to root.

use insta::assert_snapshot;
use rustix::process::geteuid;

use crate::{
    agent::command_line::{left, world},
    fixture::workflow::run,
};

/// Returns the words about permissions that an agent was started with.
fn told(argv: &str) -> String {
    let is_told = |word: &&str| word.contains("permission") || word.contains("sandbox");
    argv.lines().filter(is_told).collect::<Vec<_>>().join(" ")
}

#[test]
fn what_agents_may_do_is_told_to_them() {
    let modes = ["default", "acceptEdits", "plan", "bypass"].map(|mode| {
        let world = world(&format!(
            "- {{ claude: a, permission_mode: {mode} }}\n- {{ codex: b, permission_mode: {mode} }}\n"
        ));
        let world = world.env("IS_SANDBOX", "1");
        let seen = run(&world);
        assert!(seen.contains("completed · 2 of 2 steps"), "{seen}");
        let [claude, codex] = ["claude.argv", "codex.argv"].map(|name| told(&left(&world, name)));
        format!("{mode}: {claude} / {codex}")
    });
    assert_snapshot!(modes.join("\n"), @"
    default: --permission-mode=default / 
    acceptEdits: --permission-mode=acceptEdits / --sandbox=workspace-write
    plan: --permission-mode=plan / --sandbox=read-only
    bypass: --dangerously-skip-permissions / --sandbox=danger-full-access
    ");
}

#[test]
fn bypass_is_refused_to_root_before_anything_starts() {
    let world = world("- shell: touch ROOT/begun\n- { claude: a, permission_mode: bypass }\n");
    let seen = run(&world);
    let is_root = geteuid().is_root();
    assert_eq!(world.root().join("begun").exists(), !is_root, "{seen}");
    if is_root {
        assert_snapshot!(seen, @"
        ----- stderr -----
        error: Claude Code refuses `permission_mode: bypass` to root, and `claude: a` asks for it

        hint: run prodigy as another user, add `sandbox: bubblewrap`, or set `IS_SANDBOX=1` where nothing can be harmed
        [exit 9]
        ");
    }
}

#[test]
fn a_step_that_says_that_nothing_can_be_harmed_may_bypass_as_root() {
    let world = world("- { claude: a, permission_mode: bypass, env: { IS_SANDBOX: '1' } }\n");
    let seen = run(&world);
    assert_eq!(told(&left(&world, "claude.argv")), "--dangerously-skip-permissions", "{seen}");
}
