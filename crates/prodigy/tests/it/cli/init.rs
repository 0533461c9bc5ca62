//! `prodigy init`: the first files.

use std::fs;

use prodigy_testkit::TestEnv;

fn binary() -> &'static str {
    env!("CARGO_BIN_EXE_prodigy")
}

#[test]
fn init_writes_a_configuration_and_a_workflow_and_says_what_is_next() {
    let world = TestEnv::with_repo(binary());
    insta::assert_snapshot!(world.prodigy(&["init"]), @"
    wrote .prodigy/config.yml
    wrote .prodigy/workflow.schema.json
    wrote workflow.yml
    ----- stderr -----

    next: prodigy run workflow.yml -y
    ");
    insta::assert_snapshot!(world.read("workflow.yml"), @"
    # yaml-language-server: $schema=.prodigy/workflow.schema.json
    #
    # A first workflow: try it with `prodigy run workflow.yml -y`.
    name: first-steps

    # This `claude` is simulated: scripted answers, no tokens, no network.
    # A real one is any program that reads a prompt, for example
    #   claude: { type: command, command: [claude, -p, --permission-mode, acceptEdits] }
    agents:
      claude:
        type: simulated
        rules:
          - prompt: greeting
            answer: I wrote the greeting and committed it.
            edits:
              - path: GREETING.md
                content: |
                  Hello from a simulated agent.
                append: true
            commit: Add a greeting

    steps:
      # What a step prints can be kept in a variable.
      - shell: git rev-list --count HEAD
        capture: commits
        capture_format: number

      # An agent gets a prompt; without a commit, this step fails.
      - claude: Write a greeting for a repository with ${commits} commits.
        commit_required: true

      # A step can depend on what came before.
      - shell: cat GREETING.md
        when: ${commits} > 0
    ");
    let schema: serde_json::Value =
        serde_json::from_str(&world.read(".prodigy/workflow.schema.json")).unwrap();
    insta::assert_snapshot!(schema["$schema"], @r#""http://json-schema.org/draft-07/schema#""#);
    // All settings in the new file are comments: what holds is what held before.
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
    ");
}

#[test]
fn the_settings_that_init_offers_are_right() {
    let world = TestEnv::with_repo(binary());
    assert_eq!(world.prodigy(&["init"]).code, Some(0));
    let offered = world.read(".prodigy/config.yml").replace("\n#", "\n");
    let lines = offered.lines().filter(|line| line.contains(": ") && !line.starts_with([' ', '#']));
    world.write(".prodigy/config.yml", lines.collect::<Vec<_>>().join("\n"));
    insta::assert_snapshot!(world.prodigy(&["config", "show", "--origin"]), @"
    home              $ROOT/home  (PRODIGY_HOME)
    grace             10s  (.prodigy/config.yml:1)
    idle_timeout      none  (.prodigy/config.yml:2)
    durability        full  (.prodigy/config.yml:3)
    log_cap           32 MiB  (.prodigy/config.yml:4)
    disk_floor        200 MiB  (.prodigy/config.yml:5)
    retention.dlq     none  (default)
    retention.events  none  (default)
    retention.logs    none  (default)
    ");
}

#[test]
fn init_replaces_nothing_unless_it_is_told_to() {
    let world = TestEnv::with_repo(binary());
    world.write("workflow.yml", "mine\n");
    insta::assert_snapshot!(world.prodigy(&["init"]), @"
    ----- stderr -----
    error: `workflow.yml` is there already

    hint: `prodigy init --force` replaces what is there
    [exit 2]
    ");
    assert_eq!(world.read("workflow.yml"), "mine\n");
    assert!(!world.repo().join(".prodigy").exists());
    insta::assert_snapshot!(world.prodigy(&["init", "--force"]), @"
    wrote .prodigy/config.yml
    wrote .prodigy/workflow.schema.json
    wrote workflow.yml
    ----- stderr -----

    next: prodigy run workflow.yml -y
    ");
    assert_ne!(world.read("workflow.yml"), "mine\n");
    insta::assert_snapshot!(world.prodigy(&["init"]), @"
    ----- stderr -----
    error: `.prodigy/config.yml`, `.prodigy/workflow.schema.json`, `workflow.yml` are there already

    hint: `prodigy init --force` replaces what is there
    [exit 2]
    ");
}

#[test]
fn init_works_in_another_directory_and_without_a_repository() {
    let world = TestEnv::new(binary());
    fs::create_dir(world.root().join("a fresh start")).unwrap();
    insta::assert_snapshot!(world.prodigy(&["init", "--path", "a fresh start"]), @"
    wrote a fresh start/.prodigy/config.yml
    wrote a fresh start/.prodigy/workflow.schema.json
    wrote a fresh start/workflow.yml
    ----- stderr -----

    next: cd 'a fresh start' && git init && git commit --allow-empty --message first && prodigy run workflow.yml -y
    ");
    assert!(world.root().join("a fresh start/workflow.yml").is_file());
    insta::assert_snapshot!(world.prodigy(&["init", "--path", "missing"]), @"
    ----- stderr -----
    error: cannot use the directory `missing`
      caused by: No such file or directory (os error 2)

    hint: make it first, or leave out `--path` to use the current directory
    [exit 2]
    ");
}

#[test]
fn the_first_workflow_runs_and_is_merged_as_often_as_one_likes() {
    let world = TestEnv::with_repo(binary());
    assert_eq!(world.prodigy(&["init"]).code, Some(0));
    for round in 1..=2 {
        let id = format!("first-{round}");
        let seen = world.prodigy(&["run", "workflow.yml", "-y", "--job-id", &id]);
        assert_eq!(seen.code, Some(0), "{seen}");
        assert_eq!(seen.stdout, "");
    }
    insta::assert_snapshot!(world.read("GREETING.md"), @"
    Hello from a simulated agent.
    Hello from a simulated agent.
    ");
    insta::assert_snapshot!(world.git(&["log", "--format=%s"]), @"
    Add a greeting
    Add a greeting
    first
    ");
    insta::assert_snapshot!(world.prodigy(&["logs", "first-2", "3"]).stdout.lines().last().unwrap(), @"Hello from a simulated agent.");
}

#[test]
fn init_says_that_a_repository_needs_a_commit_first() {
    let world = TestEnv::with_repo(binary());
    world.git(&["init", "--quiet", "new"]);
    insta::assert_snapshot!(world.prodigy(&["init", "--path", "new"]), @"
    wrote new/.prodigy/config.yml
    wrote new/.prodigy/workflow.schema.json
    wrote new/workflow.yml
    ----- stderr -----

    next: cd new && git commit --allow-empty --message first && prodigy run workflow.yml -y
    ");
}
