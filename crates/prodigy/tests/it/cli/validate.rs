//! `prodigy validate` and `prodigy schema`.

use std::{fs, os::unix::fs::symlink, time::Instant};

use prodigy_testkit::{CommandOutput, TestEnv};

fn world() -> TestEnv {
    let world = TestEnv::new(env!("CARGO_BIN_EXE_prodigy"));
    world.write("README.md", "");
    world
}

/// Writes one workflow and validates it.
fn validate(text: &str) -> CommandOutput {
    let world = world();
    world.write("w.yml", text);
    world.prodigy(&["validate", "w.yml"])
}

#[test]
fn valid_files_are_listed_with_what_they_hold() {
    let world = world();
    world.write("one.yml", "- shell: ls\n");
    world.write("many.yml", "name: many\nsteps:\n- shell: ls\n- claude: /do\n");
    world.write("map.yml", "mode: mapreduce\nsetup: [{shell: a}]\nmap:\n  input: items.json\n  agent_template:\n  - shell: b\n  - shell: c\nreduce: [{shell: d}]\n");
    world.write("old.yml", "- shell: ls\n  capture_output: files\n");
    insta::assert_snapshot!(world.prodigy(&["validate", "one.yml", "many.yml", "map.yml", "old.yml"]), @"
        one.yml: ok (1 step)
        many.yml: ok (2 steps)
        map.yml: ok (mapreduce: setup 1 step, map 2 steps, reduce 1 step)
        old.yml: ok (1 step, 1 warning)
        ----- stderr -----
        warning: `capture_output` is deprecated
         --> old.yml:2:3
          |
        2 |   capture_output: files
          |   ^^^^^^^^^^^^^^
          |
          = help: write `capture: NAME`
        ");
}

#[test]
fn all_mistakes_of_all_files_are_shown() {
    let world = world();
    world.write("a.yml", "- shell: ls\n  timeot: 5\n- shell: ls\n  claude: x\n");
    world.write("b.yml", "name: é\nmode: mapreduce\nmap:\n  input: items.json\n  max_parallel: 0\n  agent_template:\n  - shel: x\n");
    world.write("ok.yml", "- shell: ls\n");
    insta::assert_snapshot!(world.prodigy(&["validate", "a.yml", "ok.yml", "b.yml"]), @"
        a.yml: invalid (2 errors)
        ok.yml: ok (1 step)
        b.yml: invalid (2 errors)
        ----- stderr -----
        error: unknown key `timeot` in a step
         --> a.yml:2:3
          |
        2 |   timeot: 5
          |   ^^^^^^
          |
          = help: did you mean `timeout`?

        error: a step has one action, found `shell` and `claude`
         --> a.yml:4:3
          |
        4 |   claude: x
          |   ^^^^^^
          |
          = help: make it a step of its own

        error: `max_parallel` must be a whole number from 1 to 1024, found `0`
         --> b.yml:5:17
          |
        5 |   max_parallel: 0
          |                 ^

        error: unknown key `shel` in a step
         --> b.yml:7:5
          |
        7 |   - shel: x
          |     ^^^^
          |
          = help: did you mean `shell`?

        [exit 9]
        ");
}

#[test]
fn text_that_is_not_yaml_is_explained() {
    insta::assert_snapshot!(validate("- shell: echo \"a\": b\n"), @r#"
        w.yml: invalid (1 error)
        ----- stderr -----
        error: `: ` is not allowed inside this text
         --> w.yml:1:18
          |
        1 | - shell: echo "a": b
          |                  ^
          |
          = help: put the whole text in quotes, or use a block: `key: |` and the text on the next lines

        [exit 9]
        "#);
    insta::assert_snapshot!(validate(""), @"
        w.yml: invalid (1 error)
        ----- stderr -----
        error: the file is empty
         --> w.yml:1:1
          |
        1 |
          | ^

        [exit 9]
        ");
    insta::assert_snapshot!(validate("steps:\n\t- shell: x\n"), @"
        w.yml: invalid (1 error)
        ----- stderr -----
        error: a tab is used for indentation
         --> w.yml:2:1
          |
        2 |     - shell: x
          | ^^^^
          |
          = help: YAML is indented with spaces only

        [exit 9]
        ");
    insta::assert_snapshot!(validate("a: 1\na: 2\n"), @"
        w.yml: invalid (1 error)
        ----- stderr -----
        error: key `a` is given twice, in lines 1 and 2
         --> w.yml:2:1
          |
        2 | a: 2
          | ^

        [exit 9]
        ");
}

#[test]
fn files_that_cannot_be_read_are_one_sentence() {
    let world = world();
    insta::assert_snapshot!(world.prodigy(&["validate", "missing.yml"]), @"
        ----- stderr -----
        error: there is no file `missing.yml`
        [exit 2]
        ");
    insta::assert_snapshot!(world.prodigy(&["validate", "."]), @"
        ----- stderr -----
        error: `.` is a directory, not a file
        [exit 2]
        ");
    insta::assert_snapshot!(world.prodigy(&["validate", "/dev/zero"]), @"
        ----- stderr -----
        error: `/dev/zero` is not a regular file
        [exit 2]
        ");
    assert!(world.command("mkfifo").arg("pipe.yml").status().unwrap().success());
    insta::assert_snapshot!(world.prodigy(&["validate", "pipe.yml"]), @"
        ----- stderr -----
        error: `pipe.yml` is not a regular file
        [exit 2]
        ");
    world.write("latin1.yml", b"name: caf\xe9\n");
    insta::assert_snapshot!(world.prodigy(&["validate", "latin1.yml"]), @"
        ----- stderr -----
        error: `latin1.yml` is not UTF-8 text: byte 9 is wrong
        [exit 9]
        ");
    // A sparse file: nothing of it is on the disk, and nothing of it may be read.
    fs::File::create(world.repo().join("huge.yml")).unwrap().set_len(100 << 20).unwrap();
    insta::assert_snapshot!(world.prodigy(&["validate", "huge.yml"]), @"
        ----- stderr -----
        error: `huge.yml` is larger than 4 MiB
        [exit 9]
        ");
    symlink("nowhere.yml", world.repo().join("broken.yml")).unwrap();
    insta::assert_snapshot!(world.prodigy(&["validate", "broken.yml"]), @"
        ----- stderr -----
        error: there is no file `broken.yml`
        [exit 2]
        ");
    insta::assert_snapshot!(world.prodigy(&["validate", "missing.yml", "latin1.yml"]), @"
        ----- stderr -----
        error: there is no file `missing.yml`
        error: `latin1.yml` is not UTF-8 text: byte 9 is wrong
        [exit 9]
        ");
    insta::assert_snapshot!(world.prodigy(&["validate"]), @"
        ----- stderr -----
        error: the following required arguments were not provided:
          <FILE>...

        Usage: prodigy validate --home <DIR> <FILE>...

        For more information, try '--help'.
        [exit 2]
        ");
}

#[test]
fn mistakes_are_one_json_document() {
    let world = world();
    world.write("a.yml", "- shell: ls\n  timeot: 5\n");
    world.write("ok.yml", "- shell: ls\n");
    // Whatever a key is made of, the document stays JSON.
    world.write("strange.yml", "- shell: ls\n  \"a\\x7f\\x85\\e\": 1\n");
    let strange = world.prodigy(&["validate", "--format", "json", "strange.yml"]);
    let document: serde_json::Value = serde_json::from_str(&strange.stdout).unwrap();
    assert_eq!(
        document["diagnostics"][0]["message"],
        "unknown key `a\u{7f}\u{85}\u{1b}` in a step"
    );
    insta::assert_snapshot!(world.prodigy(&["validate", "--format", "json", "a.yml", "missing.yml"]), @r#"
        {"schema_version":1,"valid":false,"diagnostics":[{"severity":"error","file":"a.yml","line":2,"column":3,"end_line":2,"end_column":9,"message":"unknown key `timeot` in a step","help":"did you mean `timeout`?"},{"severity":"error","file":"missing.yml","line":null,"column":null,"end_line":null,"end_column":null,"message":"there is no file `missing.yml`","help":null}]}
        [exit 9]
        "#);
    insta::assert_snapshot!(world.prodigy(&["validate", "--format", "json", "ok.yml"]), @r#"{"schema_version":1,"valid":true,"diagnostics":[]}"#);
}

#[test]
fn mistakes_are_github_annotations() {
    let world = world();
    world.write("a.yml", "- shell: ls\n  timeot: 5\n  capture_output: x\n");
    insta::assert_snapshot!(world.prodigy(&["validate", "--format", "github", "a.yml", "missing.yml"]), @"
        ::error file=a.yml,line=2,col=3::unknown key `timeot` in a step%0Ahelp: did you mean `timeout`?
        ::warning file=a.yml,line=3,col=3::`capture_output` is deprecated%0Ahelp: write `capture: NAME`
        ::error file=missing.yml::there is no file `missing.yml`
        [exit 9]
        ");
}

#[test]
fn colour_is_used_only_if_forced() {
    let world = world().env("CLICOLOR_FORCE", "1");
    world.write("w.yml", "- shel: ls\n");
    let seen = world.prodigy(&["validate", "w.yml"]);
    insta::assert_snapshot!(format!("{:?}", seen.stderr), @r#""\u{1b}[1m\u{1b}[91merror\u{1b}[0m\u{1b}[1m: unknown key `shel` in a step\u{1b}[0m\n \u{1b}[1m\u{1b}[94m--> \u{1b}[0mw.yml:1:3\n  \u{1b}[1m\u{1b}[94m|\u{1b}[0m\n\u{1b}[1m\u{1b}[94m1\u{1b}[0m \u{1b}[1m\u{1b}[94m|\u{1b}[0m - shel: ls\n  \u{1b}[1m\u{1b}[94m|\u{1b}[0m   \u{1b}[1m\u{1b}[91m^^^^\u{1b}[0m\n  \u{1b}[1m\u{1b}[94m|\u{1b}[0m\n  \u{1b}[1m\u{1b}[94m= \u{1b}[0m\u{1b}[1mhelp\u{1b}[0m: did you mean `shell`?\n\n""#);
}

#[test]
fn a_large_workflow_is_checked_quickly() {
    let step = format!("- shell: {}\n  timeout: 5\n", "é".repeat(520));
    let text = step.repeat(1_000);
    assert!(text.len() > 1 << 20);
    let started = Instant::now();
    insta::assert_snapshot!(validate(&text), @"w.yml: ok (1000 steps)");
    // Measured: 57 ms with --release on a busy machine. A quadratic reader would need minutes.
    assert!(started.elapsed().as_secs() < 10, "took {:?}", started.elapsed());
}

#[test]
fn the_schema_of_workflows_is_json() {
    let seen = world().prodigy(&["schema", "workflow"]);
    let schema: serde_json::Value = serde_json::from_str(&seen.stdout).unwrap();
    assert_eq!(schema["$schema"], "http://json-schema.org/draft-07/schema#");
    assert_eq!(schema["anyOf"].as_array().map(Vec::len), Some(3));
    assert_eq!(seen.code, Some(0));
}

#[test]
fn an_agent_that_nobody_has_configured_is_a_mistake() {
    let world = world();
    let step = "steps:\n- agent: { use: nobody, prompt: x }\n- { agent: { use: nobody, prompt: y }, on_failure: { claude: z } }\n";
    world.write("w.yml", step);
    insta::assert_snapshot!(world.prodigy(&["validate", "w.yml"]), @"
    w.yml: invalid (1 error)
    ----- stderr -----
    error: no agent named `nobody` is configured
     --> w.yml:2:3
      |
    2 | - agent: { use: nobody, prompt: x }
      |   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      |
      = help: add `agents: { nobody: { type: command, command: [PROGRAM] } }` to the workflow or to `.prodigy/config.yml`

    [exit 9]
    ");
    // The file belongs to a repository that knows the agent.
    world.write("other/.git/HEAD", "");
    world.write("other/w.yml", step);
    world.write("other/.prodigy/config.yml", "agents: { nobody: { type: simulated } }\n");
    insta::assert_snapshot!(world.prodigy(&["validate", "other/w.yml"]), @"other/w.yml: ok (2 steps)");
    world.write("own.yml", format!("agents: {{ nobody: {{ type: simulated }} }}\n{step}"));
    insta::assert_snapshot!(world.prodigy(&["validate", "own.yml"]), @"own.yml: ok (2 steps)");
}

#[test]
fn a_circuit_that_could_never_close_is_a_mistake() {
    let breaker = |keys: &str| {
        validate(&format!(
            "mode: mapreduce\nmap:\n  input: {{ items: [a] }}\n  agent_template: [{{ shell: 'true' }}]\ncircuit_breaker: {{ {keys} }}\n"
        ))
    };
    insta::assert_snapshot!(breaker("success_threshold: 5, half_open_requests: 3"), @"
    w.yml: invalid (1 error)
    ----- stderr -----
    error: the circuit could never close: `success_threshold` is 5, but only 3 attempts are let through
     --> w.yml:5:39
      |
    5 | circuit_breaker: { success_threshold: 5, half_open_requests: 3 }
      |                                       ^
      |
      = help: write `half_open_requests: 5`, or fewer successes

    [exit 9]
    ");
    let above_the_default = breaker("success_threshold: 4");
    assert!(
        above_the_default.to_string().contains("write `half_open_requests: 4`"),
        "{above_the_default}"
    );
    // What is not written adapts to what is.
    for keys in ["half_open_requests: 1", "success_threshold: 3, half_open_requests: 3"] {
        let seen = breaker(keys);
        assert!(seen.to_string().starts_with("w.yml: ok"), "{seen}");
    }
}
