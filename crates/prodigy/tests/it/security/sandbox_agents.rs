//! What agents in the sandbox keep: their account, and what the workflow names.

use std::{
    fs,
    os::unix::{fs::symlink, net::UnixListener},
};

use insta::assert_snapshot;

use crate::fixture::{
    map_job::{assert_code, beside, go, map_world},
    real_agents::files_with,
    workflow::{run, stable, world},
};

/// What steps try: to read what is there, and to plant what others would run.
const TRIES: &str = r#"
for place in ROOT/user/.claude ROOT/user/.codex ROOT/elsewhere; do
  for file in .credentials.json auth.json settings.json config.toml dotfile history.jsonl daemon/x app-server-control/x; do
    echo "$place/$file [$(cat $place/$file 2> /dev/null)]"
    echo planted >> $place/$file
  done
  for file in settings.local.json CLAUDE.md commands/x hooks/x skills/x AGENTS.md new/x projects/y sessions/y; do
    mkdir -p $(dirname $place/$file); echo planted >> $place/$file
  done
  test -S $place/socket && echo "$place/socket [socket]"
done > ROOT/out/NAME 2> /dev/null
echo "state [$(cat ROOT/user/.claude.json)]" >> ROOT/out/NAME
echo planted >> ROOT/user/.claude.json
"#;

/// Runs what somebody tries, in a world with agents that have accounts and settings. Returns
/// what was readable, and what was there afterwards that was not there before.
fn tried(agent: &str, step: &str, code: i32) -> (String, String) {
    let world = map_world(&format!(
        "sandbox: {{ type: bubblewrap, write: [ROOT/out] }}\n{agent}\nmap:\n  input: {{ items: [one] }}\n  agent_template: [{step}]\n"
    ));
    fs::create_dir(world.root().join("out")).unwrap();
    let root = world.root().canonicalize().unwrap().display().to_string();
    fs::write(
        world.root().join("out/tries.sh"),
        TRIES.replace("ROOT", &root).replace("NAME", "seen")
            + "echo '{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"num_turns\":1,\"result\":\"tried\"}'\n",
    )
    .unwrap();
    for place in ["user/.claude", "user/.codex", "elsewhere"] {
        let place = world.root().join(place);
        fs::create_dir_all(place.join("commands")).unwrap();
        for file in
            [".credentials.json", "auth.json", "settings.json", "config.toml", "history.jsonl"]
        {
            fs::write(place.join(file), "mine\n").unwrap();
        }
        for directory in ["daemon", "app-server-control"] {
            fs::create_dir(place.join(directory)).unwrap();
            fs::write(place.join(directory).join("x"), "mine\n").unwrap();
        }
        // It could only be connected to, but there it would have to be shown first.
        drop(UnixListener::bind(place.join("socket")).unwrap());
        symlink("../dotfile", place.join("dotfile")).unwrap();
    }
    fs::write(world.root().join("user/dotfile"), "linked\n").unwrap();
    fs::write(world.root().join("dotfile"), "linked\n").unwrap();
    fs::write(world.root().join("user/.claude.json"), "mine\n").unwrap();
    let seen = go(&world);
    assert_code(&seen, code);
    let readable = beside(&world, "out/seen").replace(&root, "");
    assert!(readable.contains("state ["), "it ran: {seen}");
    let readable = readable.lines().filter(|line| !line.ends_with("[]"));
    let readable = readable.collect::<Vec<_>>().join("\n");
    let planted = files_with(world.root(), "planted").into_iter();
    let planted = planted.map(|path| path.replace(&*world.root().to_string_lossy(), ""));
    let mut planted: Vec<_> = planted.filter(|path| path != "/out/tries.sh").collect();
    planted.sort_unstable();
    (readable, planted.join("\n"))
}

#[test]
fn what_agents_keep_is_for_nobody_else_and_nothing_can_be_planted_there() {
    let script = "sh -c '. ROOT/out/tries.sh'";
    let (readable, planted) = tried("", &format!("{{ shell: \"{script}\" }}"), 0);
    assert_eq!((readable.as_str(), planted.as_str()), ("", ""));
    let command = "agents: { mine: { type: command, command: [sh, ROOT/out/tries.sh] }, other: { type: claude, config_dir: ROOT/elsewhere } }";
    let (readable, planted) = tried(command, "{ agent: { use: mine, prompt: work } }", 0);
    assert_eq!((readable.as_str(), planted.as_str()), ("", ""));
}

#[test]
fn an_agent_sees_what_it_keeps_and_plants_nothing_there() {
    let step = "{ agent: { use: mine, prompt: work } }";
    let claude = "agents: { mine: { type: claude, command: [sh, ROOT/out/tries.sh] }, other: { type: claude, config_dir: ROOT/elsewhere } }";
    let (readable, planted) = tried(claude, step, 0);
    assert_snapshot!(readable, @"
    /user/.claude/.credentials.json [mine]
    /user/.claude/auth.json [mine]
    /user/.claude/settings.json [mine]
    /user/.claude/config.toml [mine]
    /user/.claude/dotfile [linked]
    /user/.claude/app-server-control/x [mine]
    state [mine]
    ");
    assert_snapshot!(planted, @"/user/.claude/.credentials.json");
    let (readable, planted) = tried(
        &claude
            .replace("type: claude, command", "type: claude, config_dir: ROOT/elsewhere, command"),
        step,
        0,
    );
    assert_snapshot!(readable, @"
    /elsewhere/.credentials.json [mine]
    /elsewhere/auth.json [mine]
    /elsewhere/settings.json [mine]
    /elsewhere/config.toml [mine]
    /elsewhere/dotfile [linked]
    /elsewhere/app-server-control/x [mine]
    ");
    assert_snapshot!(planted, @"/elsewhere/.credentials.json");
    // Codex would end its turn with an event of its own: without it the item has failed.
    let codex = claude.replace("type: claude, command", "type: codex, command");
    let (readable, planted) = tried(&codex, step, 1);
    assert_snapshot!(readable, @"
    /user/.codex/auth.json [mine]
    /user/.codex/config.toml [mine]
    ");
    assert_snapshot!(planted, @"/user/.codex/auth.json");
}

#[test]
fn the_socket_of_an_agent_for_keys_is_kept_where_it_is_named() {
    let world = map_world(
        r#"
sandbox: { type: bubblewrap, write: [ROOT/out], read: [ROOT/socket] }
map:
  input: { items: [one] }
  agent_template:
    - shell: echo "${SSH_AUTH_SOCK-none} ${GPG_AGENT_INFO-none}" > ROOT/out/it
"#,
    );
    fs::create_dir(world.root().join("out")).unwrap();
    let sockets = ["socket", "other"].map(|name| world.root().join(name));
    for socket in &sockets {
        fs::write(socket, "").unwrap();
    }
    let [named, other] = sockets.map(|path| path.canonicalize().unwrap().display().to_string());
    let world = world.env("SSH_AUTH_SOCK", &named).env("GPG_AGENT_INFO", &other);
    let seen = go(&world);
    assert_code(&seen, 0);
    assert_eq!(beside(&world, "out/it"), format!("{named} none\n"), "{seen}");
}

#[test]
fn what_others_left_for_a_while_is_not_seen_and_what_a_step_leaves_is_gone() {
    let others = tempfile::Builder::new().prefix("prodigy-test-").tempfile_in("/tmp").unwrap();
    let others = others.path().display().to_string();
    let world = map_world(
        r"
sandbox: { type: bubblewrap, write: [ROOT/out] }
map:
  input: { items: [one] }
  agent_template:
    - shell: |
        { test -e OTHERS && echo seen || echo unseen
          echo mine > OTHERS && cat OTHERS
          ls -A /var/tmp; } > ROOT/out/it 2>&1
",
    );
    world.write("workflow.yml", world.read("workflow.yml").replace("OTHERS", &others));
    world.commit_all("Name the file");
    fs::create_dir(world.root().join("out")).unwrap();
    let seen = go(&world);
    assert_code(&seen, 0);
    assert_eq!(beside(&world, "out/it"), "unseen\nmine\n", "{seen}");
    assert_eq!(fs::read_to_string(&others).unwrap(), "");
}

#[test]
fn the_home_of_prodigy_is_hidden_also_where_what_is_around_it_is_named() {
    let world = map_world(
        r"
sandbox: { type: bubblewrap, read: [ROOT], write: [ROOT/out] }
map:
  input: { items: [one] }
  agent_template:
    - shell: cat ROOT/beside > ROOT/out/it; ls -A ROOT/home >> ROOT/out/it
",
    );
    fs::create_dir(world.root().join("out")).unwrap();
    fs::write(world.root().join("beside"), "readable\n").unwrap();
    let seen = go(&world);
    assert_code(&seen, 0);
    // Its own worktree and its temporary files are below.
    assert_eq!(beside(&world, "out/it"), "readable\nstate\nworktrees\n", "{seen}");
    assert!(world.home().join("events").is_dir());
}

#[test]
fn an_agent_that_does_not_reach_its_model_is_warned_of() {
    let world = world(
        "sandbox:\n  type: bubblewrap\n  network: off\nagents: { local: { type: command, command: [\"true\"] } }\nsteps:\n  - { claude: a, on_failure: true }\n  - agent: { use: local, prompt: x }\n",
    );
    world.write(".prodigy/config.yml", "agents:\n  claude: { type: codex, command: [\"true\"] }\n");
    world.commit_all("Configure the agent");
    world.trust();
    let warning = |seen: String| seen.split("\n\n").next().unwrap().to_owned();
    let validated = stable(&world.prodigy(&["validate", "workflow.yml"]));
    assert_snapshot!(validated, @"
    workflow.yml: ok (2 steps, 1 warning)
    ----- stderr -----
    warning: without a network, agent `claude` (Codex) does not reach its model
     --> workflow.yml:3:12
      |
    3 |   network: off
      |            ^^^
      |
      = help: take `network: off` out, unless the `command` of the agent needs no network
    ");
    assert_snapshot!(warning(run(&world)), @"
    ----- stderr -----
    warning: without a network, agent `claude` (Codex) does not reach its model
     --> workflow.yml:3:12
      |
    3 |   network: off
      |            ^^^
      |
      = help: take `network: off` out, unless the `command` of the agent needs no network
    ");
    // Whoever is not asked does not matter, and who has a network reaches it.
    for text in [
        "sandbox: { type: bubblewrap, network: off }\nsteps: [{ shell: ls }]\n",
        "sandbox: { type: bubblewrap, network: on }\nsteps: [{ claude: a }]\n",
    ] {
        world.write("workflow.yml", text);
        assert_eq!(
            stable(&world.prodigy(&["validate", "workflow.yml"])),
            "workflow.yml: ok (1 step)\n"
        );
    }
}

#[test]
fn every_place_that_the_guide_lists_is_hidden() {
    let guide = include_str!("../../../../../docs/guide/limits-cost-safety.md");
    let (_, listed) = guide.split_once("#### What is hidden").unwrap();
    let listed = listed.split("```").nth(1).unwrap();
    let listed: Vec<_> =
        listed.split_whitespace().filter_map(|path| path.strip_prefix("~/")).collect();
    assert!(listed.len() > 100, "{listed:?}");
    let world = map_world(
        r"
sandbox: { type: bubblewrap, write: [ROOT/out] }
map:
  input: { items: [one] }
  agent_template:
    - shell: cat ~/readable > ROOT/out/it; cat /etc/shadow >> ROOT/out/it 2> /dev/null; grep -r SECRET ~ >> ROOT/out/it; true
",
    );
    fs::create_dir(world.root().join("out")).unwrap();
    let home = world.root().join("user");
    fs::write(home.join("readable"), "readable\n").unwrap();
    for (index, path) in listed.iter().enumerate() {
        let path = home.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        // Files and directories are hidden in two ways.
        if index % 2 == 0 {
            fs::write(path, "SECRET").unwrap();
        } else {
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join("inside"), "SECRET").unwrap();
        }
    }
    let seen = go(&world);
    assert_code(&seen, 0);
    assert_eq!(beside(&world, "out/it"), "readable\n", "{seen}");
}
