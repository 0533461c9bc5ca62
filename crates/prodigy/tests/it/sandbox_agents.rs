//! What agents in the sandbox keep: their account, and what the workflow names.

use std::fs;

use insta::assert_snapshot;

use crate::map_world::{assert_code, beside, go, map_world};

/// Returns what an agent and a script of the same item can do with the account of an agent in
/// a directory, which is named by a variable if it is not where it usually is.
fn account(place: &str, variable: Option<&str>) -> String {
    let world = map_world(
        r"
sandbox: { type: bubblewrap, write: [ROOT/out] }
agents:
  mine:
    type: command
    command: [sh, -c, 'cat; cd ROOT/PLACE; cp .credentials.json ROOT/out/agent; for file in .credentials.json session settings.json; do echo more >> $file; done; true']
map:
  input: { items: [one] }
  agent_template:
    - { agent: { use: mine, prompt: work } }
    - shell: cd ROOT/PLACE; cp .credentials.json ROOT/out/script; echo x > session && echo written > ROOT/out/it || true
",
    );
    world.write("workflow.yml", world.read("workflow.yml").replace("PLACE", place));
    world.commit_all("Name the place");
    let directory = world.root().join(place);
    fs::create_dir_all(&directory).unwrap();
    fs::create_dir(world.root().join("out")).unwrap();
    let files = [".credentials.json", "session", "settings.json"];
    for file in files {
        fs::write(directory.join(file), "mine\n").unwrap();
    }
    let directory = directory.display().to_string();
    let world = match variable {
        Some(variable) => world.env(variable, &directory),
        None => world,
    };
    assert_code(&go(&world), 0);
    let read = |name: &str| format!("{name}: {:?}", beside(&world, name));
    let files = files.map(|file| read(&format!("{place}/{file}")).replace(place, "PLACE"));
    let out = ["out/agent", "out/script", "out/it"].map(read);
    [&out[..], &files[..]].concat().join("\n")
}

#[test]
fn the_account_of_an_agent_is_for_agents_only() {
    let usual = account("user/.claude", None);
    assert_snapshot!(usual, @r#"
    out/agent: "mine\n"
    out/script: ""
    out/it: ""
    PLACE/.credentials.json: "mine\nmore\n"
    PLACE/session: "mine\nmore\n"
    PLACE/settings.json: "mine\n"
    "#);
    assert_eq!(account("elsewhere", Some("CLAUDE_CONFIG_DIR")), usual);
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
