//! Steps in the sandbox: what they can reach, and that all of them end.

use std::{
    fs,
    net::TcpListener,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    time::{Duration, Instant},
};

use insta::assert_snapshot;
use prodigy_testkit::TestEnv;
use rustix::process::Signal;

use crate::{
    fixture::{
        map_job::{assert_code, go, letter, map_world, of_type, started},
        workflow::{SpawnedProdigy, run, stable, world},
    },
    process::eventually,
};

/// Makes a world whose one item runs a script in the sandbox, with a place to write to.
fn item_world(sandbox: &str, script: &str) -> TestEnv {
    let script = script.trim().replace('\n', "\n        ");
    let world = map_world(&format!(
        "sandbox: {sandbox}\nmap:\n  input: {{ items: [one] }}\n  agent_template:\n    - shell: |\n        {script}\n"
    ));
    fs::create_dir(world.root().join("out")).unwrap();
    world
}

const WITH_OUT: &str = "{ type: bubblewrap, write: [ROOT/out] }";

/// Reads what a script left in the place that it may write to.
fn out(world: &TestEnv, name: &str) -> String {
    fs::read_to_string(world.root().join("out").join(name)).unwrap_or_default()
}

#[test]
fn a_step_in_the_sandbox_commits_and_changes_nothing_else() {
    let world = item_world(
        "bubblewrap",
        r#"
common=$(git rev-parse --path-format=absolute --git-common-dir)
try() { if ( echo planted >> "$1" ) 2> /dev/null; then echo "$1 written"; else echo "$1 refused"; fi; }
for path in ROOT/repo/README.md "$common/config" "$common/hooks/pre-commit" "$common/index" \
  "$common/HEAD" "$common/packed-refs" "$common/refs/heads/main" "$common/refs/stash" \
  "$common/info/attributes" "$common/objects/info/alternates" "$common/objects/pack/planted" \
  "$common/worktrees/agent-1/commondir" "$common/worktrees/job/HEAD" .git "$HOME/.bashrc"
do try "$path"; done > tried
for path in / /etc /usr/bin /dev/shm; do test -w $path && echo "$path writable" || echo "$path not writable"; done >> tried
mount -o remount,rw,bind ROOT/repo ROOT/repo 2> /dev/null; try ROOT/repo/later >> tried
git config core.hooksPath elsewhere 2>> tried
git stash list >> tried
mkdir sub; echo x > sub/x; git add sub tried; git commit --quiet --message work
git commit --quiet --amend --message 'work again'; git log --format=%s -1 >> tried
echo private > /tmp/left; ls -A ROOT/home >> tried
git commit --quiet --all --message more
"#,
    );
    fs::write(world.root().join("user/.bashrc"), "mine\n").unwrap();
    let seen = go(&world);
    assert_code(&seen, 0);
    assert!(!Path::new("/tmp/left").exists());
    let root = world.root().canonicalize().unwrap();
    let tried = world.read("tried").replace(&*root.to_string_lossy(), "$ROOT");
    assert_snapshot!(tried, @"
    $ROOT/repo/README.md refused
    $ROOT/repo/.git/config refused
    $ROOT/repo/.git/hooks/pre-commit refused
    $ROOT/repo/.git/index refused
    $ROOT/repo/.git/HEAD refused
    $ROOT/repo/.git/packed-refs refused
    $ROOT/repo/.git/refs/heads/main refused
    $ROOT/repo/.git/refs/stash refused
    $ROOT/repo/.git/info/attributes refused
    $ROOT/repo/.git/objects/info/alternates refused
    $ROOT/repo/.git/objects/pack/planted refused
    $ROOT/repo/.git/worktrees/agent-1/commondir refused
    $ROOT/repo/.git/worktrees/job/HEAD refused
    .git refused
    $ROOT/user/.bashrc refused
    / not writable
    /etc not writable
    /usr/bin not writable
    /dev/shm writable
    $ROOT/repo/later refused
    error: could not lock config file $ROOT/repo/.git/config: Read-only file system
    work again
    state
    worktrees
    ");
    assert_eq!(world.read("sub/x"), "x\n");
    assert_eq!(world.read("README.md"), "# fixture\n");
    assert!(!world.repo().join(".git/refs/heads/prodigy").exists());
    assert_eq!(of_type(&world, "git_tampering").len(), 0);
    assert_eq!(of_type(&world, "checkout_changed").len(), 0);
}

#[test]
fn secrets_are_hidden_unless_they_are_named() {
    let script = r#"
cd "$HOME"
for file in .ssh/id .ssh/config .netrc .config/gh/hosts.yml .claude/.credentials.json .gitconfig plain; do
  echo "$file [$(cat "$file" 2>&1)]"
done > ROOT/out/seen
echo "agent: ${SSH_AUTH_SOCK-none} ${TMPDIR-none}" >> ROOT/out/seen
"#;
    for (sandbox, wanted) in [
        (WITH_OUT, "hidden"),
        ("{ type: bubblewrap, write: [ROOT/out], read: [~/.ssh, ~/.netrc] }", "named"),
        ("{ type: bubblewrap, write: [ROOT/out], read: [~/.ssh/config] }", "inside"),
    ] {
        let world =
            item_world(sandbox, script).env("SSH_AUTH_SOCK", "/run/x").env("TMPDIR", "/var/tmp");
        let home = world.root().join("user");
        for file in [
            ".ssh/id",
            ".ssh/config",
            ".netrc",
            ".config/gh/hosts.yml",
            ".claude/.credentials.json",
            ".gitconfig",
            "plain",
        ] {
            fs::create_dir_all(home.join(file).parent().unwrap()).unwrap();
            fs::write(home.join(file), "readable").unwrap();
        }
        assert_code(&go(&world), 0);
        let seen = out(&world, "seen");
        match wanted {
            "hidden" => assert_snapshot!(seen, @"
            .ssh/id [cat: .ssh/id: No such file or directory]
            .ssh/config [cat: .ssh/config: No such file or directory]
            .netrc []
            .config/gh/hosts.yml [cat: .config/gh/hosts.yml: No such file or directory]
            .claude/.credentials.json [cat: .claude/.credentials.json: No such file or directory]
            .gitconfig [readable]
            plain [readable]
            agent: none /tmp
            "),
            "named" => assert_snapshot!(seen, @"
            .ssh/id [readable]
            .ssh/config [readable]
            .netrc [readable]
            .config/gh/hosts.yml [cat: .config/gh/hosts.yml: No such file or directory]
            .claude/.credentials.json [cat: .claude/.credentials.json: No such file or directory]
            .gitconfig [readable]
            plain [readable]
            agent: none /tmp
            "),
            _ => assert_snapshot!(seen, @"
            .ssh/id [cat: .ssh/id: No such file or directory]
            .ssh/config [readable]
            .netrc []
            .config/gh/hosts.yml [cat: .config/gh/hosts.yml: No such file or directory]
            .claude/.credentials.json [cat: .claude/.credentials.json: No such file or directory]
            .gitconfig [readable]
            plain [readable]
            agent: none /tmp
            "),
        }
    }
}

#[test]
fn only_named_paths_are_written() {
    let world = item_world(
        "{ type: bubblewrap, write: [ROOT/out, cache, ~/.cache] }",
        "echo a > ROOT/out/a; echo b > ROOT/repo/cache/b; echo c > ~/.cache/c; echo d > ROOT/repo/d || echo refused > ROOT/out/d",
    );
    fs::create_dir_all(world.root().join("user/.cache")).unwrap();
    world.write("cache/.gitignore", "*\n");
    assert_code(&go(&world), 0);
    let read = |path: &str| fs::read_to_string(world.root().join(path)).unwrap();
    let found = ["out/a", "repo/cache/b", "user/.cache/c", "out/d"].map(read);
    assert_eq!(found, ["a\n", "b\n", "c\n", "refused\n"]);
    assert!(!world.repo().join("d").exists());
}

#[test]
fn without_a_network_nothing_is_reached() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = format!(
        "bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}' && echo reached > ROOT/out/it || echo alone > ROOT/out/it"
    );
    for (network, wanted) in [("on", "reached\n"), ("off", "alone\n")] {
        let sandbox = format!("{{ type: bubblewrap, network: {network}, write: [ROOT/out] }}");
        let world = item_world(&sandbox, &script);
        assert_code(&go(&world), 0);
        assert_eq!(out(&world, "it"), wanted, "{network}");
    }
}

#[test]
fn what_the_repository_held_cannot_be_destroyed_in_the_sandbox() {
    let world = item_world(
        "bubblewrap",
        "objects=$(git rev-parse --path-format=absolute --git-common-dir)/objects\n\
         chmod -R u+w $objects/??; rm -rf $objects/??/*; rm -rf $objects/pack/* 2> /dev/null; exit 3\n",
    );
    world.write("later", "more\n");
    world.commit_all("Add more");
    world.write("kept", "stashed\n");
    world.git(&["add", "kept"]);
    world.git(&["stash", "push", "--quiet"]);
    world.write("staged", "staged\n");
    world.git(&["add", "staged"]);
    assert_code(&go(&world), 1);
    assert_eq!(letter(&world, "item-001")["reason_code"], "command_failed");
    world.git(&["fsck", "--no-dangling", "--no-progress"]);
    assert_eq!(world.git(&["show", "main:later"]), "more");
    assert_eq!(world.git(&["show", "stash@{0}:kept"]), "stashed");
    assert_eq!(world.git(&["show", ":staged"]), "staged");
    assert_code(&world.prodigy(&["verify", "job"]), 0);
}

/// Returns whether a process runs that has a text among its arguments.
fn is_running(argument: &str) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let arguments = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let mut arguments = arguments.map(|text| String::from_utf8_lossy(&text).into_owned());
    arguments.any(|text| text.contains(argument) && !text.contains("__supervise"))
}

/// Returns a number of seconds that no other run of these tests sleeps.
fn unique(number: &str) -> String {
    format!("{number}{}", std::process::id())
}

/// Returns a script that leaves daemons behind which ignore signals, then says that it is ready.
fn daemons(number: &str) -> String {
    format!(
        "trap 'sleep 0.1; echo asked > ROOT/out/asked; exit 3' TERM\n\
         (trap '' TERM HUP; setsid sleep {number}.1 &) > /dev/null 2>&1\n\
         (setsid sh -c 'trap \"\" TERM; (sleep {number}.2 &) ; sleep {number}.3' > /dev/null 2>&1 &)\n\
         touch ROOT/out/ready\n\
         sleep {number}.4 & wait\n"
    )
}

#[test]
fn nothing_in_the_sandbox_outlives_a_killed_prodigy() {
    let world = item_world(WITH_OUT, &daemons(&unique("301234")));
    let mut running = started(&world);
    running.until(&world, "it is ready", || world.root().join("out/ready").exists());
    assert!(is_running(&unique("301234")));
    running.signal(Signal::KILL);
    running.seen(&world);
    eventually("all have ended", Duration::from_secs(15), || !is_running(&unique("301234")));
}

#[test]
fn a_step_that_takes_too_long_is_asked_to_end_and_then_killed() {
    let script = daemons(&unique("302345"));
    let world = item_world(WITH_OUT, &script);
    let text = world.read("workflow.yml") + "      timeout: 3s\n";
    world.write("workflow.yml", text);
    let begun = Instant::now();
    let seen = go(&world);
    assert_code(&seen, 1);
    assert!(begun.elapsed() < Duration::from_secs(15), "{seen}");
    assert!(!is_running(&unique("302345")));
    assert_eq!(out(&world, "asked"), "asked\n", "{seen}");
    assert_eq!(letter(&world, "item-001")["failure_history"][0]["error_type"], "Timeout");
}

#[test]
fn daemons_of_a_step_that_ends_do_not_outlive_it() {
    let script =
        daemons(&unique("303456")).replace(&format!("sleep {}.4 & wait", unique("303456")), "true");
    let world = item_world(WITH_OUT, &script);
    assert_code(&go(&world), 0);
    assert!(!is_running(&unique("303456")));
}

#[test]
fn a_step_in_the_sandbox_sees_and_ends_nobody_outside() {
    let world = item_world(
        WITH_OUT,
        "kill -0 OUTSIDE 2> /dev/null && echo seen > ROOT/out/it || echo unseen > ROOT/out/it; echo $$ > ROOT/out/pid",
    );
    let outside = std::process::id().to_string();
    world.write("workflow.yml", world.read("workflow.yml").replace("OUTSIDE", &outside));
    assert_code(&go(&world), 0);
    assert_eq!(out(&world, "it"), "unseen\n");
    let pid: u32 = out(&world, "pid").trim().parse().unwrap();
    assert!(pid < 100, "{pid}");
}

#[test]
fn agents_are_always_in_the_sandbox_and_scripts_of_the_workflow_are_not() {
    let world = world(
        r#"
sandbox: { type: bubblewrap, network: off, write: [~/cache], read: [~/.netrc] }
agents:
  claude: { type: simulated, rules: [{ answer: done, commit: by an agent, edits: [{ path: a, content: "x\n" }] }] }
  other: { type: command, command: [sh, -c, 'cat; echo x >> $HOME/.claude/settings.json; echo x >> $HOME/plain; cp $HOME/.netrc $HOME/cache/d; echo "$IS_SANDBOX" > b; git add b; git commit --quiet -m b'] }
steps:
  - claude: anything
  - { agent: { use: other, prompt: hello }, on_failure: true }
  - shell: 'echo y > "$HOME/by-script"; echo "${IS_SANDBOX-none}" > c; git add c; git commit --quiet -m c'
"#,
    );
    let home = world.root().join("user");
    fs::create_dir_all(home.join(".claude")).unwrap();
    fs::create_dir(home.join("cache")).unwrap();
    fs::write(home.join(".netrc"), "machine").unwrap();
    fs::write(home.join(".claude/settings.json"), "{}").unwrap();
    fs::write(home.join("plain"), "").unwrap();
    let seen = run(&world);
    assert_snapshot!(seen, @r#"
    ----- stderr -----
    · job job · workflow.yml · 3 steps
    ✓ 1 claude: anything  [time]
    ✓ 2 other: hello  [time]
    ✓ 3 shell: echo y > "$HOME/by-script"; echo "${IS_SANDBOX-none}" > c;…  [time]

    completed · 3 of 3 steps · cost unknown
    merged into main at [commit]
    next: prodigy events job
    "#);
    let read = |path: &str| fs::read_to_string(home.join(path)).unwrap();
    assert_eq!(read("by-script"), "y\n");
    assert_eq!((read(".claude/settings.json"), read("plain")), ("{}".into(), String::new()));
    assert_eq!(read("cache/d"), "machine");
    assert_eq!(["a", "b", "c"].map(|file| world.read(file)), ["x\n", "1\n", "none\n"]);
}

#[test]
fn what_goes_wrong_is_told_as_without_a_sandbox() {
    let steps = r"
agents:
  missing: { type: command, command: [ROOT/tool] }
  crash: { type: command, command: [sh, -c, 'kill -SEGV $$'] }
steps:
  - { shell: rm ROOT/tool }
  - { agent: { use: missing, prompt: x }, on_failure: true }
  - { agent: { use: crash, prompt: x }, on_failure: true }
  - foreach: { input: [1], do: [{ agent: { use: crash, prompt: x } }] }
    on_failure: true
";
    let kinds = |sandbox: &str| {
        let world = world("- shell: 'true'\n");
        let root = world.root().display().to_string();
        fs::write(world.root().join("tool"), "").unwrap();
        fs::set_permissions(world.root().join("tool"), fs::Permissions::from_mode(0o755)).unwrap();
        world.write("workflow.yml", format!("{sandbox}{steps}").replace("ROOT", &root));
        run(&world);
        let failed = of_type(&world, "step_failed");
        let kinds = failed.iter().map(|record| record["failure"]["kind"].to_string());
        kinds.collect::<Vec<_>>().join(" ")
    };
    let without = kinds("sandbox: none\n");
    assert_eq!(kinds("sandbox: bubblewrap\n"), without);
    assert_snapshot!(without, @r#""spawn_failed" "agent_crashed" "agent_crashed" "agent_crashed""#);
}

/// Returns a world in which programs are found in one directory only, without `bwrap`.
fn without_bwrap(world: &TestEnv) -> String {
    let programs = world.root().join("programs");
    fs::create_dir(&programs).unwrap();
    for directory in std::env::split_paths(&std::env::var_os("PATH").unwrap()) {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_name() != "bwrap" {
                // The first of a name is the one that counts.
                symlink(entry.path(), programs.join(entry.file_name())).ok();
            }
        }
    }
    programs.display().to_string()
}

#[test]
fn a_sandbox_that_cannot_be_made_is_refused_before_anything_starts() {
    let text = "sandbox: bubblewrap\nsteps:\n  - shell: touch \"$HOME/ran\"\n";
    let world = world(text);
    let path = without_bwrap(&world);
    let world = world.env("PATH", &path);
    assert_snapshot!(run(&world), @"
    ----- stderr -----
    error: the sandbox needs `bwrap`, which is not on the `PATH`

    hint: install the package `bubblewrap` (`apt-get install bubblewrap`), or take `sandbox` out
    [exit 9]
    ");
    let doctor = |world: &TestEnv| {
        let seen = world.prodigy(&["doctor"]).stdout;
        seen.lines().find(|line| line.contains("sandbox")).unwrap().to_owned()
    };
    assert_snapshot!(doctor(&world), @"warn  sandbox     — `sandbox: bubblewrap` is refused: the sandbox needs `bwrap`, which is not on the `PATH`; install the package `bubblewrap` (`apt-get install bubblewrap`)");

    let fake = Path::new(&path).join("bwrap");
    fs::write(
        &fake,
        "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n",
    )
    .unwrap();
    fs::set_permissions(&fake, fs::Permissions::from_mode(0o755)).unwrap();
    assert_snapshot!(run(&world), @"
    ----- stderr -----
    error: `bwrap` cannot make a sandbox on this machine: No permissions to create new namespace

    hint: it needs user namespaces: see `sysctl kernel.unprivileged_userns_clone user.max_user_namespaces kernel.apparmor_restrict_unprivileged_userns`, or take `sandbox` out
    [exit 9]
    ");
    assert_snapshot!(doctor(&world), @"warn  sandbox     — `sandbox: bubblewrap` is refused: `bwrap` cannot make a sandbox on this machine: No permissions to create new namespace; it needs user namespaces: see `sysctl kernel.unprivileged_userns_clone user.max_user_namespaces kernel.apparmor_restrict_unprivileged_userns`");

    world
        .write("workflow.yml", text.replace("bubblewrap", "{ type: bubblewrap, write: [~/none] }"));
    assert_snapshot!(run(&world), @"
    ----- stderr -----
    note: 1 uncommitted change in your checkout is not part of this run
    error: `sandbox` names `~/none` under `write`, which does not exist

    hint: make it, or take it out of the list, or take `sandbox` out
    [exit 9]
    ");
    assert!(!world.root().join("user/ran").exists());
    assert!(!world.home().join("events/repo/job").exists());
}

#[test]
fn a_sandbox_that_makes_no_sense_is_an_error() {
    let world = world(
        "sandbox: { type: bubblewrap, network: maybe, wirte: [x] }\nsteps: [{ shell: ls }]\n",
    );
    world.write("word.yml", "sandbox: docker\nsteps: [{ shell: ls }]\n");
    assert_snapshot!(stable(&world.prodigy(&["validate", "workflow.yml"])), @"
    workflow.yml: invalid (2 errors)
    ----- stderr -----
    error: `network` must be `on` or `off`, found `maybe`
     --> workflow.yml:1:39
      |
    1 | sandbox: { type: bubblewrap, network: maybe, wirte: [x] }
      |                                       ^^^^^

    error: unknown key `wirte` in a sandbox of type `bubblewrap`
     --> workflow.yml:1:46
      |
    1 | sandbox: { type: bubblewrap, network: maybe, wirte: [x] }
      |                                              ^^^^^
      |
      = help: did you mean `write`?

    [exit 9]
    ");
    assert_snapshot!(stable(&world.prodigy(&["validate", "word.yml"])), @"
    word.yml: invalid (1 error)
    ----- stderr -----
    error: `sandbox` must be `none`, `bubblewrap` or a mapping, found `docker`
     --> word.yml:1:10
      |
    1 | sandbox: docker
      |          ^^^^^^

    [exit 9]
    ");
}

#[test]
fn ctrl_c_ends_what_is_in_the_sandbox() {
    let world = item_world(WITH_OUT, &daemons(&unique("304567")));
    let mut running: SpawnedProdigy = started(&world);
    running.until(&world, "it is ready", || world.root().join("out/ready").exists());
    running.signal(Signal::INT);
    let seen = running.seen(&world);
    assert_code(&seen, 130);
    assert!(!is_running(&unique("304567")));
    assert_eq!(out(&world, "asked"), "asked\n", "{seen}");
}

#[test]
fn a_step_commits_although_the_branches_are_packed_meanwhile() {
    let world = item_world(
        WITH_OUT,
        "echo a > a; git add a; git commit --quiet -m a; touch ROOT/out/ready\nwhile ! test -e ROOT/out/gate; do sleep 0.01; done\necho b > b; git add b; git commit --quiet -m b",
    );
    let mut running = started(&world);
    running.until(&world, "it is ready", || world.root().join("out/ready").exists());
    world.git(&["pack-refs", "--all", "--prune"]);
    fs::write(world.root().join("out/gate"), "").unwrap();
    let seen = running.seen(&world);
    assert_code(&seen, 0);
    assert_eq!((world.read("a"), world.read("b")), ("a\n".to_owned(), "b\n".to_owned()), "{seen}");
}
