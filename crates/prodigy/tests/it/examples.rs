//! The examples, run as a newcomer runs them.

use std::{fs, path::Path, process::Stdio};

use insta::assert_snapshot;
use prodigy_testkit::World;
use regex::Regex;

use crate::stories::stable;

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");

/// Runs an example in a world of its own and returns what a person sees, both streams together.
fn run(name: &str) -> String {
    let world = World::new(env!("CARGO_BIN_EXE_prodigy"));
    let printed = world.root().join("printed");
    let file = fs::File::create(&printed).unwrap();
    let output = world
        .command(Path::new(EXAMPLES).join(name).join("run"))
        .env("PRODIGY", env!("CARGO_BIN_EXE_prodigy"))
        .env("TMPDIR", world.root())
        .stdout(file.try_clone().unwrap())
        .stderr(Stdio::from(file))
        .output()
        .unwrap();
    let mut seen = world.seen(&output);
    let root = world.root().canonicalize().unwrap();
    seen.stdout = fs::read_to_string(&printed).unwrap();
    let text = stable(&seen)
        .replace(&*root.to_string_lossy(), "$ROOT")
        .replace(env!("CARGO_BIN_EXE_prodigy"), "$PRODIGY");
    let rules = [
        (r"\bworkflow-\d{8}-\d{6}-[a-z0-9]{4}\b", "[job]"),
        (r"(?m)^[0-9a-f]{7} ", "[commit] "),
        (r"(prodigy-\w+)\.\w{6}", "$1.[new]"),
    ];
    rules.iter().fold(text, |text, (pattern, instead)| {
        Regex::new(pattern).unwrap().replace_all(&text, *instead).into_owned()
    })
}

#[test]
fn every_example_is_run_here() {
    let mut names: Vec<_> = fs::read_dir(EXAMPLES)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["mapreduce", "quickstart"]);
}

#[test]
fn the_quickstart_shows_a_newcomer_what_happened() {
    assert_snapshot!(run("quickstart"), @r#"
    $ prodigy run workflow.yml -y
    · job [job] · quickstart · 4 steps
    ✓ 1 choose the languages  [time]
    ✗ 2.foreach.2.1 claude: Say hello in Spanish: the agent exited with code 1: error: simulated error; attempt 2 follows
    ✓ 2 translate  [time]
    ✓ 3 check that none is missing  [time]
    ✓ 4 write a report  [time]

    completed · 4 of 4 steps · cost $0.03
    merged into main at [commit]
    next: prodigy events [job]

    $ git log --oneline
    [commit] write a report
    [commit] Say hello in Polish
    [commit] Say hello in Spanish
    [commit] Say hello in French
    [commit] Add the workflow

    $ cat greetings.txt report.md
    Bonjour
    Hola
    Cześć
    # Report

    3 greetings in 3 commits: ["French","Spanish","Polish"]

    Look around:
      cd $ROOT/prodigy-quickstart.[new]/hello
      export PRODIGY_HOME=$ROOT/home
      alias prodigy='$PRODIGY'
      prodigy events      # what happened
      prodigy logs        # what each step printed
    Throw it away: rm -rf $ROOT/prodigy-quickstart.[new]
    "#);
}

/// Sorts lines about items that follow each other: items end in any order.
fn with_items_in_order(text: &str) -> String {
    let is_item =
        |line: &str| line.split_once(' ').is_some_and(|(_, rest)| rest.starts_with("the-"));
    let mut lines: Vec<&str> = text.lines().collect();
    for run in lines.chunk_by_mut(|one, next| is_item(one) && is_item(next)) {
        run.sort_unstable();
    }
    lines.join("\n")
}

#[test]
fn the_example_of_many_items_retries_one_and_sets_one_aside() {
    assert_snapshot!(with_items_in_order(&run("mapreduce")), @r#"
    $ prodigy run workflow.yml -y --job-id summaries
    · job summaries · summaries · mapreduce
    ✓ setup.1 list the chapters  [time]
    · 3 items
    ~ the-storm at step 1: the agent exited with code 1: error: simulated error; attempt 2 follows
    ~ the-wreck at step 1: the step made no commit, and `commit_required` is set; attempt 2 follows
    ~ the-wreck at step 1: the step made no commit, and `commit_required` is set; attempt 3 follows
    ✓ the-storm  [time] · 1 commit
    ✓ the-voyage  [time] · 1 commit
    ✗ the-wreck at step 1: the step made no commit, and `commit_required` is set; in the DLQ after 3 attempts
    ~ map: 2/3 done · 1 failed · 1 in DLQ  [time]
    ✓ reduce.1 write a report  [time]

    completed with failures · 2 of 3 items done · [time] · cost $0.04
    items: 2 successful, 1 in the DLQ, 2 tried more than once
    failures:
      no_commit: the step made no commit, and `commit_required` is set  the-wreck
    merged into main at [commit]
    dead letters: $ROOT/home/dlq/book/summaries/mapreduce/dlq/summaries/items
    next: prodigy events summaries --type item_dead_lettered

    $ cat report.md
    # Summaries

    2 of 3 chapters have a summary; failed: 1
    the-storm: 7 words, attempts: 2
    the-voyage: 6 words, attempts: 1
    the-wreck: the step made no commit, and `commit_required` is set

    Look around:
      cd $ROOT/prodigy-mapreduce.[new]/book
      export PRODIGY_HOME=$ROOT/home
      alias prodigy='$PRODIGY'
      prodigy jobs show summaries                # the job in short
      prodigy events summaries --item the-storm  # what happened to one item
      prodigy logs summaries the-wreck           # what it printed, attempt by attempt
    Throw it away: rm -rf $ROOT/prodigy-mapreduce.[new]
    "#);
}
