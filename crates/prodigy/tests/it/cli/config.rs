//! `prodigy config`: which value holds, and where it comes from.

use std::fs;

use prodigy_testkit::TestEnv;

fn world() -> TestEnv {
    TestEnv::with_repo(env!("CARGO_BIN_EXE_prodigy"))
}

/// Writes the user's own configuration file.
fn user_config(world: &TestEnv, text: &str) {
    world.write("../user/.config/prodigy/config.yml", text);
}

#[test]
fn without_any_configuration_the_defaults_hold() {
    insta::assert_snapshot!(world().prodigy(&["config", "show"]), @"
    home              $ROOT/home
    grace             10s
    idle_timeout      none
    durability        full
    log_cap           32 MiB
    disk_floor        200 MiB
    retention.dlq     none
    retention.events  none
    retention.logs    none
    ");
    insta::assert_snapshot!(world().prodigy(&["config", "show", "--origin"]), @"
    home              $ROOT/home  (PRODIGY_HOME)
    grace             10s  (default)
    idle_timeout      none  (default)
    durability        full  (default)
    log_cap           32 MiB  (default)
    disk_floor        200 MiB  (default)
    retention.dlq     none  (default)
    retention.events  none  (default)
    retention.logs    none  (default)
    ");
}

#[test]
fn each_layer_comes_before_the_one_below() {
    let world = world().env("PRODIGY_GRACE", "5").env("PRODIGY_LOG_CAP", "");
    user_config(&world, "grace: 1m\nidle_timeout: 1h 30m\nlog_cap: 1MiB\ndurability: relaxed\n");
    world.write(
        ".prodigy/config.yml",
        "# ours\ngrace: 20s\nidle_timeout: none\ndisk_floor: 1.5GiB\n",
    );
    insta::assert_snapshot!(world.prodigy(&["config", "show", "--origin"]), @"
    home              $ROOT/home  (PRODIGY_HOME)
    grace             5s  (PRODIGY_GRACE)
    idle_timeout      none  (.prodigy/config.yml:3)
    durability        relaxed  ($ROOT/user/.config/prodigy/config.yml:4)
    log_cap           1 MiB  ($ROOT/user/.config/prodigy/config.yml:3)
    disk_floor        1.5 GiB  (.prodigy/config.yml:4)
    retention.dlq     none  (default)
    retention.events  none  (default)
    retention.logs    none  (default)
    ");
    fs::create_dir(world.repo().join("below")).unwrap();
    let below = world
        .prodigy_command(&["--home", "elsewhere", "config", "show", "--origin"])
        .current_dir(world.repo().join("below"))
        .output()
        .unwrap();
    insta::assert_snapshot!(world.to_output(&below), @"
    home              $ROOT/repo/below/elsewhere  (--home)
    grace             5s  (PRODIGY_GRACE)
    idle_timeout      none  (.prodigy/config.yml:3)
    durability        relaxed  ($ROOT/user/.config/prodigy/config.yml:4)
    log_cap           1 MiB  ($ROOT/user/.config/prodigy/config.yml:3)
    disk_floor        1.5 GiB  (.prodigy/config.yml:4)
    retention.dlq     none  (default)
    retention.events  none  (default)
    retention.logs    none  (default)
    ");
}

#[test]
fn configuration_is_printed_for_programs() {
    let world = world().env("PRODIGY_IDLE_TIMEOUT", "1.5");
    world.write(".prodigy/config.yml", "durability: relaxed\n");
    insta::assert_snapshot!(world.prodigy(&["config", "show", "--json"]), @r#"{"schema_version":1,"settings":{"home":{"value":"$ROOT/home","origin":"PRODIGY_HOME"},"grace":{"value":10.0,"origin":"default"},"idle_timeout":{"value":1.5,"origin":"PRODIGY_IDLE_TIMEOUT"},"durability":{"value":"relaxed","origin":".prodigy/config.yml:1"},"log_cap":{"value":33554432,"origin":"default"},"disk_floor":{"value":209715200,"origin":"default"},"retention.dlq":{"value":null,"origin":"default"},"retention.events":{"value":null,"origin":"default"},"retention.logs":{"value":null,"origin":"default"}}}"#);
}

#[test]
fn the_xdg_directory_is_honoured_if_it_is_absolute() {
    let world = world();
    let xdg = world.root().join("xdg");
    world.write("../xdg/prodigy/config.yml", "grace: 3s\n");
    user_config(&world, "grace: 4s\n");
    let with = |value: &str| {
        let output = world
            .prodigy_command(&["config", "show", "--origin"])
            .env("XDG_CONFIG_HOME", value)
            .output();
        let seen = world.to_output(&output.unwrap());
        seen.stdout.lines().find(|line| line.starts_with("grace")).unwrap().to_owned()
    };
    insta::assert_snapshot!(with(xdg.to_str().unwrap()), @"grace             3s  ($ROOT/xdg/prodigy/config.yml:1)");
    insta::assert_snapshot!(with("xdg"), @"grace             4s  ($ROOT/user/.config/prodigy/config.yml:1)");
}

#[test]
fn everything_wrong_in_any_layer_is_reported_at_once() {
    let world = world().env("PRODIGY_DURABILITY", "eternal").env("PRODIGY_GRACE", "5s");
    user_config(&world, "grace: soon\nhome: /elsewhere\n");
    world.write(
        ".prodigy/config.yml",
        "gracee: 5s\nlog_cap: 5 apples\ndisk_floor: [1]\nidle_timeout:\n",
    );
    insta::assert_snapshot!(world.prodigy(&["config", "show"]), @"
    ----- stderr -----
    error: the configuration is invalid
      $ROOT/user/.config/prodigy/config.yml:1:8: `soon` is not a duration; write for example `30s` or `1h 30m`
      $ROOT/user/.config/prodigy/config.yml:2:1: unknown key `home` in the configuration; set `PRODIGY_HOME`: the home cannot depend on a file
      .prodigy/config.yml:1:1: unknown key `gracee` in the configuration; did you mean `grace`?
      .prodigy/config.yml:2:10: `5 apples` is not a size; write for example `32MiB`
      .prodigy/config.yml:3:13: `disk_floor` must be text, found a list
      .prodigy/config.yml:4:1: `idle_timeout` has no value; expected a duration such as `30s`, or seconds
      PRODIGY_DURABILITY: expected `full` or `relaxed`, found `eternal`
    [exit 9]
    ");
}

#[test]
fn a_file_that_is_no_mapping_or_no_yaml_is_refused() {
    let world = world();
    world.write(".prodigy/config.yml", "- grace\n");
    insta::assert_snapshot!(world.prodigy(&["config", "show"]), @"
    ----- stderr -----
    error: the configuration is invalid
      .prodigy/config.yml:1:1: the configuration must be a mapping, found a list
    [exit 9]
    ");
    world.write(".prodigy/config.yml", "grace: 'open\n");
    insta::assert_snapshot!(world.prodigy(&["config", "show"]), @"
    ----- stderr -----
    error: the configuration is invalid
      .prodigy/config.yml:1:8: this quote is never closed; add the closing quote; every line of quoted text must be indented
    [exit 9]
    ");
    world.write(".prodigy/config.yml", b"grace: \xff\n");
    insta::assert_snapshot!(world.prodigy(&["config", "show"]), @"
    ----- stderr -----
    error: cannot read `.prodigy/config.yml`
      caused by: stream did not contain valid UTF-8
    [exit 9]
    ");
    fs::remove_file(world.repo().join(".prodigy/config.yml")).unwrap();
    fs::create_dir(world.repo().join(".prodigy/config.yml")).unwrap();
    insta::assert_snapshot!(world.prodigy(&["config", "show"]), @"
    ----- stderr -----
    error: cannot read `.prodigy/config.yml`
      caused by: it is not a regular file
    [exit 9]
    ");
    fs::remove_dir(world.repo().join(".prodigy/config.yml")).unwrap();
    world.write(".prodigy/config.yml", "# nothing\n");
    assert_eq!(world.prodigy(&["config", "show"]).code, Some(0));
}

#[test]
fn agents_come_from_files_and_the_repository_has_the_last_word() {
    let world = world();
    user_config(
        &world,
        "agents:\n  claude: {type: command, command: [claude, -p]}\n  mine: {type: simulated}\n",
    );
    world.write(
        ".prodigy/config.yml",
        "agents:\n  claude:\n    type: simulated\n    rules: [{answer: done}]\n",
    );
    world.trust();
    insta::assert_snapshot!(world.prodigy(&["config", "show", "--origin"]), @"
    home              $ROOT/home  (PRODIGY_HOME)
    grace             10s  (default)
    idle_timeout      none  (default)
    durability        full  (default)
    log_cap           32 MiB  (default)
    disk_floor        200 MiB  (default)
    retention.dlq     none  (default)
    retention.events  none  (default)
    retention.logs    none  (default)
    agents.claude     simulated, 1 rule  (.prodigy/config.yml:2)
    agents.mine       simulated, 0 rules  ($ROOT/user/.config/prodigy/config.yml:3)
    ");
    let seen = world.prodigy(&["config", "show", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&seen.stdout).unwrap();
    insta::assert_snapshot!(document["settings"]["agents.mine"], @r#"{"value":{"type":"simulated","rules":0},"origin":"$ROOT/user/.config/prodigy/config.yml:3"}"#);
}

#[test]
fn what_is_wrong_with_an_agent_is_reported_where_it_stands() {
    let world = world();
    world.write(
        ".prodigy/config.yml",
        "agents:\n  a: {type: magic}\n  b: {type: command}\n  c: {type: simulated, rules: [{promt: x}]}\n  \
         d: {type: simulated, rules: [{prompt: '('}]}\n  e: run it\n",
    );
    insta::assert_snapshot!(world.prodigy(&["config", "show"]), @"
    ----- stderr -----
    error: the configuration is invalid
      .prodigy/config.yml:2:13: `type` must be `claude`, `codex`, `command` or `simulated`, found `magic`
      .prodigy/config.yml:3:3: an agent of type `command` needs `command`; add `command: …`
      .prodigy/config.yml:4:33: unknown key `promt` in a rule; did you mean `prompt`?
      .prodigy/config.yml:5:41: `(` is not a regular expression: unclosed group
      .prodigy/config.yml:6:3: `e` must be a mapping with `type: claude`, `type: codex`, `type: command` or `type: simulated`, found `run it`
    [exit 9]
    ");
}
