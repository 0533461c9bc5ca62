//! `prodigy batch`.

use insta::assert_snapshot;
use prodigy_testkit::TestEnv;

use crate::fixture::workflow::{self, records};

fn world() -> TestEnv {
    let world = workflow::world("- shell: 'true'\n");
    for name in ["a", "b c", "$(touch hacked)"] {
        world.write(&format!("src/{name}.txt"), "text\n");
    }
    world.commit_all("Add files");
    world
}

fn batch(world: &TestEnv, args: &[&str]) -> prodigy_testkit::CommandOutput {
    world.prodigy(&[&["batch"], args, &["-y", "--job-id", "job"]].concat())
}

#[test]
fn a_command_runs_for_every_file_and_the_result_is_merged() {
    let world = world();
    let command = "echo done >> ${item} && git commit -qam ${item}";
    let seen = batch(&world, &["src/*.txt", "--command", command, "--parallel", "2"]);
    assert_eq!(seen.code, Some(0), "{seen}");
    for name in ["a", "b c", "$(touch hacked)"] {
        let path = world.repo().join("src").join(format!("{name}.txt"));
        assert_eq!(std::fs::read_to_string(path).unwrap(), "text\ndone\n");
    }
    assert!(!world.repo().join("hacked").exists());
    let log = world.git(&["log", "--format=%s", "--no-merges", "-4"]);
    let mut subjects: Vec<_> = log.lines().collect();
    subjects.sort_unstable();
    assert_snapshot!(subjects.join("\n"), @"
    Add files
    src/$(touch hacked).txt
    src/a.txt
    src/b c.txt
    ");
}

#[test]
fn a_file_that_fails_is_tried_again_and_becomes_a_dead_letter() {
    let world = world();
    let args =
        ["src/*.txt", "-c", "test ${item} != src/a.txt", "--retry", "2", "--isolation", "shared"];
    assert_eq!(batch(&world, &args).code, Some(0));
    let attempts = |kind: &str| {
        let told = records(&world);
        told.iter().filter(|record| record["event_type"] == kind).count()
    };
    assert_eq!((attempts("agent_started"), attempts("item_dead_lettered")), (4, 1));
    let more = ["--fail-on-dlq", "--junit", "report.xml"];
    let again = world.prodigy(&[&["batch"], &args[..], &more].concat());
    assert_eq!(again.code, Some(3), "{again}");
    let report = world.read("report.xml");
    assert_eq!(report.matches("<testcase ").count(), 3, "{report}");
    assert_eq!(report.matches("<failure ").count(), 1, "{report}");
}

#[test]
fn a_command_that_takes_too_long_is_ended() {
    let world = world();
    let seen = batch(&world, &["src/a.txt", "-c", "sleep 60", "--timeout", "200ms"]);
    assert_eq!(seen.code, Some(1), "{seen}");
    let told = records(&world);
    let dead = told.iter().find(|record| record["event_type"] == "item_dead_lettered").unwrap();
    assert_eq!(dead["failure"]["kind"], "timeout");
}

#[test]
fn a_dry_run_shows_the_plan() {
    let world = world();
    let args = ["batch", "src/*.txt", "-c", "wc ${item}", "--dry-run", "--max-items", "2"];
    let seen = world.prodigy(&args).to_string();
    let short = regex::Regex::new(r"at [0-9a-f]{10}").unwrap();
    assert_snapshot!(short.replace_all(&seen, "at [commit]"), @r#"
    workflow  batch (batch)
    start     main at [commit]
    items     2 (values are filled in to be read; a run passes them as data)
      item-001  "src/$(touch hacked).txt"
           shell: wc 'src/$(touch hacked).txt'
      item-002  "src/a.txt"
           shell: wc src/a.txt
    worktrees 2, used by one item after another
    map       10 at once
        1  shell: wc ${item}
           commits what is left
    policy    an item that fails is not tried again
              then it goes into the dead letter queue
              failures are told at the end
              worktrees of failed items are kept
    merge     plain git, asks first (`-y` says yes)
    cost      none: no step asks an agent
    "#);
    assert!(!world.home().join("events").exists());
}

#[test]
fn what_makes_no_sense_is_refused() {
    let world = world();
    assert_snapshot!(batch(&world, &["*.nothing", "-c", "ls"]), @"
    ----- stderr -----
    error: no file matches `*.nothing`

    hint: patterns are relative to the root of the repository
    [exit 2]
    ");
    assert_snapshot!(batch(&world, &["[", "-c", "ls"]), @"
    ----- stderr -----
    error: `[` is not a pattern: Pattern syntax error near position 0: invalid range pattern
    [exit 2]
    ");
    assert_snapshot!(batch(&world, &["src/*.txt", "-c", "bash -c ${item}"]), @r#"
    ----- stderr -----
    error: `${item}` stands in program text that `bash` reads
      --> batch:12:27
       |
    12 |         "shell": "bash -c ${item}",
       |                           ^^^^^^^
       |
       = help: pass the value as an argument: `sh -c '… "$1" …' sh ${item}`

    error: `batch` cannot be used

    hint: `prodigy schema workflow` describes every key
    [exit 9]
    "#);
    assert_snapshot!(batch(&world, &["src/*.txt", "-c", "ls", "--timeout", "soon"]), @r#"
    ----- stderr -----
    error: `soon` is not a duration; write for example `30s` or `1h 30m`
      --> batch:13:20
       |
    13 |         "timeout": "soon",
       |                    ^^^^^^

    error: `batch` cannot be used

    hint: `prodigy schema workflow` describes every key
    [exit 9]
    "#);
    let agent = "agents: { claude: { type: claude, command: [no-such-program] } }\n";
    world.write(".prodigy/config.yml", agent);
    world.trust();
    assert_snapshot!(batch(&world, &["src/*.txt", "-c", "/review ${item}"]), @"
    ----- stderr -----
    note: 1 uncommitted change in your checkout is not part of this run
    error: the program `no-such-program` of agent `claude` is not installed, and `claude: /review ${item}` needs it

    hint: install it, or name another one under `agents`
    [exit 9]
    ");
}

#[test]
fn files_that_are_not_committed_are_not_there() {
    let world = world();
    world.write("new.txt", "x");
    let seen = batch(&world, &["new.txt", "-c", "ls"]);
    let told = seen.stderr.lines().find(|line| line.starts_with("no items were selected"));
    assert_snapshot!(told.unwrap(), @"no items were selected: no file matches `new.txt`");
    assert_eq!(seen.code, Some(4));
}
